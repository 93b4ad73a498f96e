#include "snapshots/snapshot_creation.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/crypto.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/retry.h"
#include "objects/client.h"
#include "objects/keys.h"

namespace csidelta::snapshots {
namespace {

using objects::VolumeSnapshot;

constexpr std::size_t kNameBytesMax = 63;  // of a label value, which names are put into
constexpr std::size_t kHashBytes = 8;

std::map<std::string, std::string> WithoutEmpty(std::map<std::string, std::string> texts) {
  std::erase_if(texts, [](const auto& one) { return one.second.empty(); });
  return texts;
}

VolumeSnapshot ObjectToMake(const CreationRequest& request) {
  auto snapshot = VolumeSnapshot::Make(request.source.pvc.namespace_name(), request.name);
  snapshot.SetLabels(CreationLabels(request.set, request.schedule));
  snapshot.SetAnnotations(CreationAnnotations(request.workload, request.note));
  snapshot.SetSourcePvc(request.source.pvc.name());
  if (!request.source.class_name.empty()) {
    snapshot.SetClassName(request.source.class_name);
  }
  return snapshot;
}

absl::Status AwaitReady(const CallContext& ctx, k8s::ApiClient& api, const CreationRequest& request,
                        csi::TakenSnapshot& taken) {
  const absl::Duration spent =
      taken.has_joined ? absl::ZeroDuration() : ctx.clock->Now() - taken.asked_at;
  const CallContext limited = ctx.WithTimeout(request.timeout - spent);
  const VolumeSnapshot known = taken.snapshot;
  const absl::Status waited =
      csi::LeaseWaiter(limited, api, {})
          .WaitFor<VolumeSnapshot>(
              known.key(),
              [&](const VolumeSnapshot* now) -> absl::StatusOr<bool> {
                if (now == nullptr || now->uid() != known.uid() || now->is_being_deleted()) {
                  return absl::NotFoundError(absl::StrCat("VolumeSnapshot ", known.name(),
                                                          " was deleted by another client"));
                }
                taken.snapshot = *now;
                return now->is_ready();
              },
              &known);
  return absl::IsDeadlineExceeded(waited)
             ? absl::DeadlineExceededError(absl::StrCat(
                   "VolumeSnapshot ", known.name(), " of PVC ", known.namespace_name(), "/",
                   known.source_pvc(), " is taken, but not ready within ",
                   absl::FormatDuration(request.timeout), "; csi-delta snapshot show ",
                   known.name(), " -n ", known.namespace_name(), " says how far it is"))
             : waited;
}

}  // namespace

std::map<std::string, std::string> CreationLabels(const std::string& set,
                                                  const std::string& schedule) {
  return WithoutEmpty({{objects::kMadeByLabel, objects::kMadeByVerbs},
                       {objects::kSnapshotSetLabel, set},
                       {objects::kSnapshotScheduleLabel, schedule}});
}

std::map<std::string, std::string> CreationAnnotations(const std::string& workload,
                                                       const std::string& note) {
  return WithoutEmpty(
      {{objects::kSnapshotWorkloadAnnotation, workload}, {objects::kSnapshotNoteAnnotation, note}});
}

csi::TakeRules PersonRules(absl::Duration timeout, csi::RoomInDriver on_full) {
  return {.own_labels = {{objects::kMadeByLabel, objects::kMadeByVerbs}},
          .asked_at_annotation = objects::kSnapshotAskedAtAnnotation,
          .format_time = FormatRfc3339Micros,
          .may_join = false,
          .name_advice = "; choose another --name",
          .may_lack_rights = true,
          .timeout = timeout,
          .errors = {.refusal_is_final_after = absl::ZeroDuration(),
                     .no_room_is_final_after = absl::InfiniteDuration(),
                     .on_full = std::move(on_full),
                     .room_hint = "; --make-room deletes the oldest that the keep rules allow, "
                                  "csi-delta bases drop --namespace NS --pvc PVC what the data "
                                  "mover keeps of a PVC for itself"}};
}

std::string FitName(absl::string_view prefix, absl::string_view ending) {
  std::string name = absl::StrCat(prefix, ending);
  if (name.size() <= kNameBytesMax) {
    return name;
  }
  const std::string hash = Sha256Hex(prefix).substr(0, kHashBytes);
  absl::string_view kept = prefix.substr(0, kNameBytesMax - ending.size() - kHashBytes - 1);
  while (absl::ConsumeSuffix(&kept, "-") || absl::ConsumeSuffix(&kept, ".")) {
  }
  return absl::StrCat(kept, "-", hash, ending);
}

std::string NameForSnapshot(absl::string_view prefix, absl::Time now) {
  return FitName(prefix, absl::FormatTime("-%Y%m%d-%H%M%S", now, absl::UTCTimeZone()));
}

csi::LockRequest LockOf(const std::vector<SnapshotSource>& sources, const std::string& name,
                        bool waits_for_others, Random& random) {
  CSIDELTA_CHECK(!sources.empty());
  csi::LockRequest request{
      .leases = {},
      .namespace_name = sources.front().pvc.namespace_name(),
      .pvcs = {},
      .subject = "PVC",
      .name = name,
      .wait_max = waits_for_others ? absl::InfiniteDuration() : absl::ZeroDuration(),
      .counts_backups = true,
      .is_thorough = true,
      .may_lack_rights = true};
  const std::string holder = absl::StrCat(name, "_", absl::Hex(random.Below(UINT64_MAX)));
  // In the order of their names: two that want several wait for each other in one direction only.
  for (const SnapshotSource& source : sources) {
    const objects::PersistentVolumeClaim& pvc = source.pvc;
    request.pvcs[pvc.name()] = pvc.labels();
    request.leases.push_back({.lease_namespace = pvc.namespace_name(),
                              .claim_namespace = pvc.namespace_name(),
                              .claim_name = pvc.name(),
                              .claim_uid = pvc.uid(),
                              .holder = holder,
                              .subject = "PVC",
                              .snapshot_name = name});
  }
  return request;
}

absl::StatusOr<std::unique_ptr<csi::VolumeLock>> GuardRestore(
    const CallContext& ctx, k8s::ApiClient& api, Random& random,
    const objects::PersistentVolumeClaim& pvc, absl::string_view restore,
    std::vector<std::string>& not_checked) {
  auto lock = std::make_unique<csi::VolumeLock>(
      ctx, api,
      LockOf({{.pvc = pvc}}, absl::StrCat(csi::kRestoreHolderPrefix, restore),
             /*waits_for_others=*/false, random));
  RETURN_IF_ERROR(lock->Enter());
  not_checked.insert(not_checked.end(), lock->not_checked().begin(), lock->not_checked().end());
  return lock;
}

absl::StatusOr<csi::TakenSnapshot> CreateSnapshot(const CallContext& ctx, k8s::ApiClient& api,
                                                  Random& random, const CreationRequest& request) {
  csi::TakeRequest take{
      .rules = PersonRules(request.timeout, request.on_full),
      .lock = LockOf({request.source}, request.name, request.waits_for_others, random),
      .object = ObjectToMake(request),
      .awaits_driver = request.awaited != AwaitedState::kNothing};
  take.rules.may_join = request.may_join;
  ASSIGN_OR_RETURN(csi::TakenSnapshot taken, csi::TakeSnapshot(ctx, api, take));
  if (request.awaited == AwaitedState::kReady) {
    RETURN_IF_ERROR(AwaitReady(ctx, api, request, taken));
  }
  return taken;
}

absl::Status TakeBeforeRestore(const CallContext& ctx, k8s::ApiClient& api, Random& random,
                               CreationRequest request, std::vector<std::string>& not_checked) {
  ASSIGN_OR_RETURN(const SnapshotSources sources,
                   PrepareSources(ctx, api, {request.source.pvc}, ""));
  request.source = sources.sources.front();
  const absl::StatusOr<csi::TakenSnapshot> taken = CreateSnapshot(ctx, api, random, request);
  if (!taken.ok()) {
    return csi::WithMore(taken.status(),
                         "; nothing is changed; --safety no --yes restores without a snapshot");
  }
  for (const std::vector<std::string>* notes : {&sources.not_checked, &taken->not_checked}) {
    not_checked.insert(not_checked.end(), notes->begin(), notes->end());
  }
  return absl::OkStatus();
}

absl::Status CheckFree(const CallContext& ctx, k8s::ApiClient& api, Random& random,
                       const CreationRequest& request) {
  return csi::VolumeLock(ctx, api,
                         LockOf({request.source}, request.name, request.waits_for_others, random))
      .Enter();
}

absl::Status TryCreate(const CallContext& ctx, k8s::ApiClient& api,
                       const CreationRequest& request) {
  const absl::Status answer = objects::DryRunCreate(ctx, api, ObjectToMake(request)).status();
  const bool may_be_joined = absl::IsAlreadyExists(answer) && request.may_join;
  return may_be_joined ? absl::OkStatus() : csi::AsQuotaRefusal(answer);
}

}  // namespace csidelta::snapshots
