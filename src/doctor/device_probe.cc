#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "csi/exposed_snapshot.h"
#include "csi/snapshot_types.h"
#include "datamover/settings.h"
#include "datamover/volume_task.h"
#include "datamover/worker_pod.h"
#include "doctor/checks.h"
#include "k8s/object.h"
#include "k8s/wait.h"
#include "objects/keys.h"

namespace csidelta::doctor {
namespace {

constexpr char kSize[] = "1Gi";  // what most drivers make at least
constexpr char kRepository[] = "/scratch/repository";
// Its Deployment and the account of workers, as the chart calls them.
constexpr char kController[] = "csi-delta-mover";
constexpr absl::Duration kStartTimeMax = absl::Seconds(30);
// A device that may not be opened is told of at once.
constexpr absl::Duration kReadingProves = absl::Seconds(5);
constexpr absl::Duration kGoneTimeMax = absl::Seconds(10);
constexpr std::size_t kClassesMax = 5;

// A claim of one storage class, and a worker-like Pod that reads its device.
class Probe {
 public:
  Probe(Visit& visit, std::string storage_class, std::string image,
        datamover::MoverSettings settings);
  absl::Status Make();
  void Judge();

  // Also when time is over, or somebody wants it to end.
  void Remove();

 private:
  k8s::ApiClient& api() { return visit_.facts().api(); }
  const std::string& space() const { return visit_.options().mover_namespace; }
  std::string subject() const { return absl::StrCat("storage class ", storage_class_); }
  k8s::ObjectKey PodKey() const { return {csi::PodType(), space(), name_}; }
  k8s::ObjectKey ClaimKey() const { return csi::ClaimKey(space(), name_); }
  // By the first, csi-delta uninstall finds what was left behind.
  std::map<std::string, std::string> Labels() const {
    return {{objects::kMoverTaskLabel, name_}, {objects::kExcludeFromBackupLabel, "true"}};
  }

  Json Claim() const;

  // A worker in all but its task: its repository is on its scratch volume.
  Json Pod() const;
  static void WithoutSecrets(Json& list);
  static bool IsOver(const Json& pod);
  static const Json* ContainerState(const Json& pod, const char* list, const char* state);
  static bool Runs(const Json& pod) {
    return ContainerState(pod, "containerStatuses", "running") != nullptr;
  }
  static std::string LastWords(const Json& pod);
  static std::string WaitingFor(const Json& pod);

  // Whatever the class says.
  void RemoveVolumeToo(const CallContext& ctx);

  Visit& visit_;
  const std::string storage_class_;
  const std::string image_;
  const datamover::MoverSettings settings_;
  const std::string name_;
};

Probe::Probe(Visit& visit, std::string storage_class, std::string image,
             datamover::MoverSettings settings)
    : visit_(visit),
      storage_class_(std::move(storage_class)),
      image_(std::move(image)),
      settings_(std::move(settings)),
      name_(absl::StrCat("doctor-",
                         absl::Hex(visit.random().Below(uint64_t{1} << 62), absl::kZeroPad16))) {}

absl::Status Probe::Make() {
  const k8s::ResourceType& claims = csi::PersistentVolumeClaimType();
  absl::Status made = api().Create(visit_.ctx(), claims, space(), Claim()).status();
  if (made.ok()) {
    made = api().Create(visit_.ctx(), csi::PodType(), space(), Pod()).status();
  }
  return made;
}

void Probe::Judge() {
  Json pod;
  const auto await = [&](const CallContext& ctx, bool running_is_enough) {
    return k8s::WaitFor(ctx, api(), PodKey(), [&](const Json* seen) -> absl::StatusOr<bool> {
      pod = seen == nullptr ? Json() : *seen;
      return seen == nullptr || IsOver(pod) || (running_is_enough && Runs(pod));
    });
  };
  const absl::Duration left =
      visit_.ctx().deadline - visit_.ctx().clock->Now() - kGoneTimeMax - kReadingProves;
  if (!await(visit_.ctx().WithTimeout(std::min(kStartTimeMax, left)), true).ok()) {
    visit_.Warn(subject(), absl::StrCat("no worker ran within the time: ", WaitingFor(pod)),
                absl::StrCat("kubectl get events --namespace ", space(), "; then ask again"));
    return;
  }
  await(visit_.ctx().WithTimeout(kReadingProves), false).IgnoreError();
  const std::string words = LastWords(pod);
  if (pod.is_null() || GetString(pod, {"status", "phase"}) == "Failed") {
    visit_.Fault(subject(), absl::StrCat("a worker cannot read a device of it: ", words),
                 absl::StrContains(words, "supplementalGroups")
                     ? "give workers that group by worker.supplementalGroups in the mover's "
                       "settings, or set device_ownership_from_security_context in the container "
                       "runtime of the nodes"
                     : "do what this says");
  } else {
    visit_.Good(subject(), "a worker opens its devices");
  }
}

void Probe::Remove() {
  CallContext ctx;
  ctx.clock = visit_.ctx().clock;
  ctx = ctx.WithTimeout(kGoneTimeMax);
  RemoveVolumeToo(ctx);
  api().Delete(ctx, PodKey(), {}).IgnoreError();
  api().Delete(ctx, ClaimKey(), {}).IgnoreError();
  for (const k8s::ObjectKey& key : {PodKey(), ClaimKey()}) {
    const absl::Status gone = k8s::WaitFor(
        ctx, api(), key, [](const Json* seen) -> absl::StatusOr<bool> { return seen == nullptr; });
    if (!gone.ok()) {
      visit_.Warn(
          absl::StrCat(key.type.kind, " ", space(), "/", name_),
          "was made to look at devices, and is still there",
          absl::StrCat("kubectl delete ", key.type.plural, " ", name_, " --namespace ", space()));
    }
  }
}

Json Probe::Claim() const {
  Json claim = {{"apiVersion", "v1"},
                {"kind", "PersistentVolumeClaim"},
                {"metadata", {{"name", name_}, {"namespace", space()}, {"labels", Labels()}}}};
  claim["spec"] = {{"storageClassName", storage_class_},
                   {"accessModes", Json::array({"ReadWriteOnce"})},
                   {"volumeMode", "Block"}};
  SetJson(claim, {"spec", "resources", "requests", "storage"}, kSize);
  return claim;
}

Json Probe::Pod() const {
  Json pod =
      datamover::MakeWorkerPod({.name = name_,
                                .namespace_name = space(),
                                .image = image_,
                                .args = {"backup", datamover::kVolumePath, "--repo", kRepository},
                                .env = {{"RESTIC_PASSWORD", "a repository that nobody reads"}},
                                .claim = name_,
                                .labels = Labels(),
                                .owner = std::nullopt,
                                .storage_class = storage_class_,
                                .node_affinity = {},
                                .settings = settings_,
                                .service_account = kWorkerAccount});
  WithoutSecrets(pod["spec"]["volumes"]);
  Json& reader = pod["spec"]["containers"][0];
  WithoutSecrets(reader["volumeMounts"]);
  Json maker = reader;
  maker["name"] = "repository";
  maker["args"] = {"init", "--repo", kRepository};
  maker.erase("volumeDevices");
  pod["spec"]["initContainers"] = Json::array({maker});
  return pod;
}

void Probe::WithoutSecrets(Json& list) {
  Json others = Json::array();
  for (const Json& entry : list) {
    if (GetString(entry, {"name"}) != "secrets") {
      others.push_back(entry);
    }
  }
  list = std::move(others);
}

bool Probe::IsOver(const Json& pod) {
  const std::string phase = GetString(pod, {"status", "phase"});
  return phase == "Succeeded" || phase == "Failed";
}

const Json* Probe::ContainerState(const Json& pod, const char* list, const char* state) {
  const Json* statuses = FindJson(pod, {"status", list});
  return statuses == nullptr || !statuses->is_array() || statuses->empty()
             ? nullptr
             : FindJson(statuses->front(), {"state", state});
}

std::string Probe::LastWords(const Json& pod) {
  for (const char* list : {"containerStatuses", "initContainerStatuses"}) {
    const Json* ended = ContainerState(pod, list, "terminated");
    const std::string words = ended == nullptr ? "" : GetString(*ended, {"message"});
    if (!words.empty()) {
      return words;
    }
  }
  const std::string words = GetString(pod, {"status", "message"});
  return words.empty() ? "it said nothing" : words;
}

std::string Probe::WaitingFor(const Json& pod) {
  const Json* conditions = FindJson(pod, {"status", "conditions"});
  if (conditions != nullptr && conditions->is_array()) {
    for (const Json& condition : *conditions) {
      if (const std::string words = GetString(condition, {"message"}); !words.empty()) {
        return words;
      }
    }
  }
  const std::string phase = GetString(pod, {"status", "phase"});
  return phase.empty() ? "its Pod was not looked at by any node" : phase;
}

void Probe::RemoveVolumeToo(const CallContext& ctx) {
  const absl::StatusOr<Json> claim = api().Get(ctx, ClaimKey());
  const std::string volume = claim.ok() ? GetString(*claim, {"spec", "volumeName"}) : "";
  if (!volume.empty()) {
    api()
        .Patch(ctx, csi::VolumeKey(volume), k8s::PatchKind::kMerge,
               {{"spec", {{"persistentVolumeReclaimPolicy", "Delete"}}}}, "")
        .IgnoreError();
  }
}

// Those of claims that can become block devices.
std::set<std::string> ClassesInUse(Visit& visit) {
  std::map<std::string, std::string> drivers;
  for (const Json& volume : visit.Look(csi::PersistentVolumeType())) {
    drivers[k8s::Name(volume)] = GetString(volume, {"spec", "csi", "driver"});
  }
  std::set<std::string> classes;
  for (const Json& claim : visit.Look(csi::PersistentVolumeClaimType())) {
    const std::string driver = drivers[GetString(claim, {"spec", "volumeName"})];
    const std::string name = GetString(claim, {"spec", "storageClassName"});
    if (!driver.empty() && !csi::HasNoBlockDevices(driver) && !name.empty()) {
      classes.insert(name);
    }
  }
  return classes;
}

// What workers run; "" when it is not known.
std::string ImageOfWorkers(Visit& visit) {
  const absl::StatusOr<Json> controller =
      visit.facts().Find(DeploymentType(), visit.options().mover_namespace, kController);
  const Json* containers =
      controller.ok() ? FindJson(*controller, {"spec", "template", "spec", "containers"}) : nullptr;
  return containers == nullptr || !containers->is_array() || containers->empty()
             ? ""
             : GetString(containers->front(), {"image"});
}

}  // namespace

void CheckDeviceAccess(Visit& visit) {
  const std::string image = ImageOfWorkers(visit);
  const absl::StatusOr<datamover::MoverSettings> settings = datamover::ReadMoverSettings(
      visit.ctx(), visit.facts().api(), visit.options().mover_namespace);
  if (image.empty() || !settings.ok()) {
    visit.Unknown("", image.empty() ? absl::NotFoundError("the mover's Deployment names no image")
                                    : settings.status());
    return;
  }
  std::set<std::string> classes = visit.options().probe_class.empty()
                                      ? ClassesInUse(visit)
                                      : std::set<std::string>{visit.options().probe_class};
  while (classes.size() > kClassesMax) {
    visit.Note(absl::StrCat("storage class ", *classes.rbegin()),
               absl::StrCat("is not looked at: more than ", kClassesMax, " are in use"),
               absl::StrCat("csi-delta doctor --probe --class ", *classes.rbegin()));
    classes.erase(std::prev(classes.end()));
  }
  std::vector<std::pair<Probe, absl::Status>> probes;
  for (const std::string& storage_class : classes) {
    Probe probe(visit, storage_class, image, *settings);
    absl::Status made = probe.Make();
    probes.emplace_back(std::move(probe), std::move(made));
  }
  for (auto& [probe, made] : probes) {
    if (made.ok()) {
      probe.Judge();
    } else {
      visit.Unknown("", made);
    }
  }
  for (auto& [probe, made] : probes) {
    probe.Remove();
  }
}

}  // namespace csidelta::doctor
