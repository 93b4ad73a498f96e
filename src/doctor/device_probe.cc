#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "datamover/settings.h"
#include "doctor/checks.h"
#include "doctor/sample_worker.h"
#include "objects/client.h"
#include "objects/event.h"
#include "objects/patch.h"
#include "objects/persistent_volume.h"
#include "objects/workload.h"

namespace csidelta::doctor {
namespace {

using objects::PersistentVolumeClaim;
using objects::Pod;

constexpr char kRepository[] = "/scratch/repository";
constexpr absl::Duration kStartTimeMax = absl::Seconds(30);
// A device that may not be opened is told of at once.
constexpr absl::Duration kReadingProves = absl::Seconds(5);
constexpr absl::Duration kGoneTimeMax = absl::Seconds(10);
constexpr std::size_t kClassesMax = 5;

std::string LastMessage(const Pod& pod) {
  const std::string message = pod.last_message();
  return message.empty() ? "it said nothing" : message;
}

std::string WaitingFor(CheckContext& context, const Pod& pod) {
  const std::string why = objects::WhyPodWaits(context.ctx(), context.cache().api(), pod,
                                               /*after=*/absl::ZeroDuration());
  const std::string message = why.empty() ? pod.condition_message() : why;
  const std::string phase = pod.phase();
  if (!message.empty() || !phase.empty()) {
    return message.empty() ? phase : message;
  }
  return "no node has started its Pod";
}

// A claim of one storage class, and a worker-like Pod that reads its device.
class Probe {
 public:
  Probe(CheckContext& context, std::string storage_class, std::string image,
        datamover::MoverSettings settings);
  absl::Status Make();
  void Inspect();

  // Also when time is over, or it is stopped.
  void Remove();

 private:
  k8s::ApiClient& api() { return context_.cache().api(); }
  const std::string& space() const { return context_.options().mover_namespace; }
  std::string subject() const { return absl::StrCat("storage class ", storage_class_); }
  k8s::ObjectKey PodKey() const { return {Pod::Type(), space(), name_}; }
  k8s::ObjectKey ClaimKey() const { return PersistentVolumeClaim::Key(space(), name_); }
  // A worker in all but its task: its repository is on its scratch volume.
  Pod Reader() const;

  // Whatever the class says.
  void RemoveVolumeToo(const CallContext& ctx);

  CheckContext& context_;
  const std::string storage_class_;
  const std::string image_;
  const datamover::MoverSettings settings_;
  const std::string name_;
};

Probe::Probe(CheckContext& context, std::string storage_class, std::string image,
             datamover::MoverSettings settings)
    : context_(context),
      storage_class_(std::move(storage_class)),
      image_(std::move(image)),
      settings_(std::move(settings)),
      name_(SampleName(context)) {}

absl::Status Probe::Make() {
  absl::Status made =
      objects::Create(context_.ctx(), api(), SampleClaim(space(), name_, storage_class_)).status();
  if (made.ok()) {
    made = objects::Create(context_.ctx(), api(), Reader()).status();
  }
  return made;
}

void Probe::Inspect() {
  std::optional<Pod> pod;
  const auto await = [&](const CallContext& ctx, bool running_is_enough) {
    return objects::WaitFor<Pod>(ctx, api(), PodKey(),
                                 [&](const Pod* seen) -> absl::StatusOr<bool> {
                                   pod = seen == nullptr ? std::nullopt : std::optional<Pod>(*seen);
                                   return seen == nullptr || seen->has_ended() ||
                                          (running_is_enough && seen->has_running_container());
                                 });
  };
  const absl::Duration left = context_.ctx().TimeLeft() - kGoneTimeMax - kReadingProves;
  if (!await(context_.ctx().WithTimeout(std::min(kStartTimeMax, left)), true).ok()) {
    context_.Warn(
        subject(),
        absl::StrCat("no worker ran within the time: ", WaitingFor(context_, pod.value_or(Pod()))),
        absl::StrCat("kubectl get events --namespace ", space(), "; then run it again"));
    return;
  }
  await(context_.ctx().WithTimeout(kReadingProves), false).IgnoreError();
  const std::string message = LastMessage(pod.value_or(Pod()));
  if (!pod.has_value() || pod->phase() == "Failed") {
    context_.Fault(subject(), absl::StrCat("a worker cannot read a device of it: ", message),
                   absl::StrContains(message, "supplementalGroups")
                       ? "give workers that group by worker.supplementalGroups in the mover's "
                         "settings, or set device_ownership_from_security_context in the container "
                         "runtime of the nodes"
                       : "do what this says");
  } else {
    context_.Good(subject(), "a worker opens its devices");
  }
}

void Probe::Remove() {
  CallContext ctx;
  ctx.clock = context_.ctx().clock;
  ctx = ctx.WithTimeout(kGoneTimeMax);
  RemoveVolumeToo(ctx);
  api().Delete(ctx, PodKey(), {}).IgnoreError();
  api().Delete(ctx, ClaimKey(), {}).IgnoreError();
  for (const k8s::ObjectKey& key : {PodKey(), ClaimKey()}) {
    const absl::Status gone = objects::WaitFor<objects::Object>(
        ctx, api(), key,
        [](const objects::Object* seen) -> absl::StatusOr<bool> { return seen == nullptr; });
    if (!gone.ok()) {
      context_.Warn(
          absl::StrCat(key.type.kind, " ", space(), "/", name_),
          "was made to test devices, and still exists",
          absl::StrCat("kubectl delete ", key.type.plural, " ", name_, " --namespace ", space()));
    }
  }
}

Pod Probe::Reader() const {
  Pod pod = SampleWorker(space(), name_, image_, storage_class_, kRepository, settings_);
  pod.RemoveVolume("secrets");
  pod.AddInitContainer("repository", {"init", "--repo", kRepository});
  return pod;
}

void Probe::RemoveVolumeToo(const CallContext& ctx) {
  const auto claim = objects::Get<PersistentVolumeClaim>(ctx, api(), ClaimKey());
  if (claim.ok() && !claim->volume_name().empty()) {
    objects::Apply(ctx, api(), objects::PersistentVolume::Key("", claim->volume_name()),
                   objects::Patch().SetReclaimPolicy("Delete"))
        .IgnoreError();
  }
}

}  // namespace

void CheckDeviceAccess(CheckContext& context) {
  const std::string image = ImageOfWorkers(context);
  const absl::StatusOr<datamover::MoverSettings> settings = ReadSettings(context);
  if (image.empty() || !context.IsKnown("", settings.status())) {
    return;
  }
  std::set<std::string> classes = context.options().probe_class.empty()
                                      ? ClassesInUse(context)
                                      : std::set<std::string>{context.options().probe_class};
  while (classes.size() > kClassesMax) {
    context.Note(absl::StrCat("storage class ", *classes.rbegin()),
                 absl::StrCat("is not looked at: more than ", kClassesMax, " are in use"),
                 absl::StrCat("csi-delta doctor --probe --class ", *classes.rbegin()));
    classes.erase(std::prev(classes.end()));
  }
  std::vector<std::pair<Probe, absl::Status>> probes;
  for (const std::string& storage_class : classes) {
    Probe probe(context, storage_class, image, *settings);
    absl::Status made = probe.Make();
    probes.emplace_back(std::move(probe), std::move(made));
  }
  for (auto& [probe, made] : probes) {
    if (context.IsKnown("", made)) {
      probe.Inspect();
    }
  }
  for (auto& [probe, made] : probes) {
    probe.Remove();
  }
}

}  // namespace csidelta::doctor
