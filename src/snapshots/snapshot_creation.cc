#include "snapshots/snapshot_creation.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/crypto.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "snapshots/creation_failure.h"

namespace csidelta::snapshots {
namespace {

using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

// Of the snapshot controller, which was left to choose.
constexpr char kNoDefaultClass[] = "default snapshot class";
constexpr std::size_t kNameBytesMax = 63;  // of a label value, which names are put into
constexpr std::size_t kHashBytes = 8;

std::map<std::string, std::string> WithoutEmpty(std::map<std::string, std::string> texts) {
  std::erase_if(texts, [](const auto& one) { return one.second.empty(); });
  return texts;
}

VolumeSnapshot ObjectToMake(const CreationRequest& request, absl::Time asked_at) {
  auto snapshot = VolumeSnapshot::Make(request.source.pvc.namespace_name(), request.name);
  snapshot.SetLabels(CreationLabels(request.set, request.schedule));
  snapshot.SetAnnotations(CreationAnnotations(asked_at, request.workload, request.note));
  snapshot.SetSourcePvc(request.source.pvc.name());
  if (!request.source.class_name.empty()) {
    snapshot.SetClassName(request.source.class_name);
  }
  return snapshot;
}

// One attempt after the other at one VolumeSnapshot. Borrows everything.
class SnapshotCreator {
 public:
  SnapshotCreator(const CallContext& ctx, k8s::ApiClient& api, Random& random,
                  const CreationRequest& request);
  absl::StatusOr<Creation> Create();

 private:
  k8s::ObjectKey KeyOf(const std::string& name) const {
    return VolumeSnapshot::Key(request_.source.pvc.namespace_name(), name);
  }

  // The one of the name, where it may be that of an earlier run.
  absl::StatusOr<Creation> Join();
  absl::StatusOr<Creation> Post();
  absl::StatusOr<Creation> CreateGuarded();

  // What it is now; an error when it is no longer the one that was made.
  absl::Status Refresh(const VolumeSnapshot* snapshot, Creation& creation) const;

  // FAILED_PRECONDITION when the driver refused for good, or no class was chosen.
  absl::Status CheckError(const std::optional<objects::SnapshotError>& error);
  absl::Status AwaitTaken(const CallContext& limited, Creation& creation);

  // False where contents may not be read.
  absl::StatusOr<bool> AwaitHandle(const CallContext& limited, Creation& creation);
  absl::Status AwaitReady(const CallContext& limited, Creation& creation);

  // Deletes what this run made, and says so.
  absl::Status AfterFailure(const absl::Status& status, const Creation& creation) const;

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const CreationRequest& request_;
  const std::string pvc_;
  csi::VolumeLock lock_;
  csi::DriverErrors errors_;
};

SnapshotCreator::SnapshotCreator(const CallContext& ctx, k8s::ApiClient& api, Random& random,
                                 const CreationRequest& request)
    : ctx_(ctx),
      api_(api),
      request_(request),
      pvc_(absl::StrCat(request.source.pvc.namespace_name(), "/", request.source.pvc.name())),
      lock_(ctx, api, LockOf({request.source.pvc}, request.name, request.waits_for_others, random)),
      errors_(*ctx.clock, absl::StrCat("PVC ", pvc_), request.timeout,
              ErrorRulesOf(request.on_full)) {}

absl::StatusOr<Creation> SnapshotCreator::Create() {
  return lock_.Run([this] { return CreateGuarded(); });
}

absl::StatusOr<Creation> SnapshotCreator::Join() {
  ASSIGN_OR_RETURN(VolumeSnapshot snapshot,
                   objects::Get<VolumeSnapshot>(ctx_, api_, KeyOf(request_.name)));
  const bool is_of_verbs = snapshot.Label(objects::kMadeByLabel) == objects::kMadeByVerbs &&
                           snapshot.source_pvc() == request_.source.pvc.name();
  if (is_of_verbs && !request_.may_join && csi::IsBeingTaken(snapshot, ctx_.clock->Now())) {
    return csi::VolumeBusyError(absl::StrCat("PVC ", pvc_),
                                absl::StrCat("VolumeSnapshot ", request_.name));
  }
  if (!is_of_verbs || !request_.may_join || snapshot.is_being_deleted()) {
    return absl::AlreadyExistsError(
        absl::StrCat("VolumeSnapshot ", request_.source.pvc.namespace_name(), "/", request_.name,
                     " exists already; choose another --name"));
  }
  const auto asked = ParseRfc3339(snapshot.Annotation(objects::kSnapshotAskedAtAnnotation));
  return Creation{.snapshot = std::move(snapshot),
                  .status = {},
                  .asked_at = asked.value_or(ctx_.clock->Now()),
                  .has_joined = true};
}

absl::StatusOr<Creation> SnapshotCreator::Post() {
  const absl::Time asked_at = ctx_.clock->Now();
  absl::StatusOr<VolumeSnapshot> made =
      objects::Create(ctx_, api_, ObjectToMake(request_, asked_at));
  if (absl::IsAlreadyExists(made.status())) {
    return Join();
  }
  const absl::Status refused = csi::AsQuotaRefusal(made.status());
  // A quota is asked before the name is: what an earlier run made needs no room.
  if (csi::OutOfRoom(refused).has_value() && request_.may_join) {
    absl::StatusOr<Creation> joined = Join();
    return absl::IsNotFound(joined.status()) ? refused : std::move(joined);
  }
  RETURN_IF_ERROR(refused);
  return Creation{.snapshot = *std::move(made), .status = {}, .asked_at = asked_at};
}

absl::StatusOr<Creation> SnapshotCreator::CreateGuarded() {
  const CallContext limited = ctx_.WithTimeout(request_.timeout);
  ASSIGN_OR_RETURN(Creation creation, Post());
  absl::Status status = absl::OkStatus();
  if (!creation.has_joined) {
    status = lock_.CheckAtPost(creation.snapshot.resource_version());
  }
  if (status.ok() && request_.awaited != AwaitedState::kNothing) {
    status = AwaitTaken(limited, creation);
  }
  if (!status.ok()) {
    return AfterFailure(status, creation);
  }
  creation.not_checked = lock_.not_checked();
  if (request_.awaited == AwaitedState::kReady) {
    lock_.Leave();
    RETURN_IF_ERROR(AwaitReady(limited, creation));
  }
  return creation;
}

absl::Status SnapshotCreator::Refresh(const VolumeSnapshot* snapshot, Creation& creation) const {
  if (snapshot == nullptr || snapshot->uid() != creation.snapshot.uid() ||
      snapshot->is_being_deleted()) {
    return absl::NotFoundError(
        absl::StrCat("VolumeSnapshot ", request_.name, " was deleted while it was being taken"));
  }
  creation.snapshot = *snapshot;
  return absl::OkStatus();
}

absl::Status SnapshotCreator::CheckError(const std::optional<objects::SnapshotError>& error) {
  const std::string text = error.has_value() ? error->message : "";
  if (request_.source.class_name.empty() && absl::StrContains(text, kNoDefaultClass)) {
    return absl::FailedPreconditionError(absl::StrCat("no class for a snapshot of PVC ", pvc_, ": ",
                                                      text, "; name one with --class"));
  }
  return errors_.Check(text);
}

absl::Status SnapshotCreator::AwaitTaken(const CallContext& limited, Creation& creation) {
  const k8s::ObjectKey key = KeyOf(request_.name);
  const VolumeSnapshot known = creation.snapshot;
  const auto is_bound = [&](const VolumeSnapshot* snapshot) -> absl::StatusOr<bool> {
    RETURN_IF_ERROR(Refresh(snapshot, creation));
    RETURN_IF_ERROR(CheckError(creation.snapshot.error()));
    return !creation.snapshot.bound_content().empty();
  };
  RETURN_IF_ERROR(
      errors_.Explain(lock_.Waiter(limited).WaitFor<VolumeSnapshot>(key, is_bound, &known)));
  ASSIGN_OR_RETURN(const bool is_content_read, AwaitHandle(limited, creation));
  if (is_content_read) {
    return absl::OkStatus();
  }
  const VolumeSnapshot bound = creation.snapshot;
  const auto is_taken = [&](const VolumeSnapshot* snapshot) -> absl::StatusOr<bool> {
    RETURN_IF_ERROR(Refresh(snapshot, creation));
    RETURN_IF_ERROR(CheckError(creation.snapshot.error()));
    return creation.snapshot.taken_at().has_value() || creation.snapshot.is_ready();
  };
  RETURN_IF_ERROR(
      errors_.Explain(lock_.Waiter(limited).WaitFor<VolumeSnapshot>(key, is_taken, &bound)));
  creation.seen_taken_at = ctx_.clock->Now();
  creation.status = csi::StatusOf(creation.snapshot, {});
  return absl::OkStatus();
}

absl::StatusOr<bool> SnapshotCreator::AwaitHandle(const CallContext& limited, Creation& creation) {
  const k8s::ObjectKey key = VolumeSnapshotContent::Key("", creation.snapshot.bound_content());
  const auto known = objects::Get<VolumeSnapshotContent>(limited, api_, key);
  if (absl::IsPermissionDenied(known.status())) {
    RETURN_IF_ERROR(lock_.NoteMissingRight("binding not checked", known.status()));
    return false;
  }
  RETURN_IF_ERROR(known.status());
  const auto has_handle = [&](const VolumeSnapshotContent* content) -> absl::StatusOr<bool> {
    if (content == nullptr) {
      return absl::NotFoundError(absl::StrCat("VolumeSnapshotContent ", key.name,
                                              " was deleted while it was being taken"));
    }
    RETURN_IF_ERROR(CheckError(content->error()));
    if (content->handle().empty()) {
      return false;
    }
    creation.seen_taken_at = ctx_.clock->Now();
    creation.status = csi::StatusOf(
        creation.snapshot, {.kind = csi::ContentReading::Kind::kPresent, .content = content});
    creation.content = *content;
    return true;
  };
  RETURN_IF_ERROR(errors_.Explain(
      lock_.Waiter(limited).WaitFor<VolumeSnapshotContent>(key, has_handle, &*known)));
  if (creation.status.state == csi::SnapshotState::kError) {
    return absl::FailedPreconditionError(creation.status.conditions.front().message);
  }
  return true;
}

absl::Status SnapshotCreator::AwaitReady(const CallContext& limited, Creation& creation) {
  const auto is_ready = [&](const VolumeSnapshot* snapshot) -> absl::StatusOr<bool> {
    RETURN_IF_ERROR(Refresh(snapshot, creation));
    return creation.snapshot.is_ready();
  };
  const VolumeSnapshot known = creation.snapshot;
  const absl::Status waited =
      lock_.Waiter(limited).WaitFor<VolumeSnapshot>(KeyOf(request_.name), is_ready, &known);
  if (absl::IsDeadlineExceeded(waited)) {
    return absl::DeadlineExceededError(absl::StrCat(
        "VolumeSnapshot ", request_.name, " of PVC ", pvc_, " is taken, but not ready within ",
        absl::FormatDuration(request_.timeout), "; csi-delta snapshot show ", request_.name, " -n ",
        request_.source.pvc.namespace_name(), " says how far it is"));
  }
  RETURN_IF_ERROR(waited);
  creation.status = csi::StatusOf(creation.snapshot, ReadingOf(creation));
  return absl::OkStatus();
}

absl::Status SnapshotCreator::AfterFailure(const absl::Status& status,
                                           const Creation& creation) const {
  if (creation.has_joined || absl::IsNotFound(status)) {
    return status;
  }
  return WithdrawSnapshot(*ctx_.clock, api_, KeyOf(request_.name), creation.snapshot.uid(), status);
}

}  // namespace

std::map<std::string, std::string> CreationLabels(const std::string& set,
                                                  const std::string& schedule) {
  return WithoutEmpty({{objects::kMadeByLabel, objects::kMadeByVerbs},
                       {objects::kSnapshotSetLabel, set},
                       {objects::kSnapshotScheduleLabel, schedule}});
}

std::map<std::string, std::string> CreationAnnotations(absl::Time asked_at,
                                                       const std::string& workload,
                                                       const std::string& note) {
  return WithoutEmpty({{objects::kSnapshotAskedAtAnnotation, FormatRfc3339Micros(asked_at)},
                       {objects::kSnapshotWorkloadAnnotation, workload},
                       {objects::kSnapshotNoteAnnotation, note}});
}

csi::ErrorRules ErrorRulesOf(csi::RoomInDriver on_full) {
  return {.refusal_is_final_after = absl::ZeroDuration(),
          .no_room_is_final_after = absl::InfiniteDuration(),
          .on_full = std::move(on_full),
          .room_hint = "; --make-room deletes the oldest that the keep rules allow"};
}

csi::ContentReading ReadingOf(const Creation& creation) {
  return creation.content.has_value()
             ? csi::ContentReading{.kind = csi::ContentReading::Kind::kPresent,
                                   .content = &*creation.content}
             : csi::ContentReading{};
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

csi::LockRequest LockOf(const std::vector<objects::PersistentVolumeClaim>& pvcs,
                        const std::string& name, bool waits_for_others, Random& random) {
  csi::LockRequest request{
      .leases = {},
      .namespace_name = pvcs.front().namespace_name(),
      .pvcs = {},
      .subject = "PVC",
      .name = name,
      .wait_max = waits_for_others ? absl::InfiniteDuration() : absl::ZeroDuration(),
      .counts_backups = true,
      .is_thorough = true,
      .may_lack_rights = true};
  const std::string holder = absl::StrCat(name, "_", absl::Hex(random.Below(UINT64_MAX)));
  // In the order of their names: two that want several wait for each other in one direction only.
  for (const objects::PersistentVolumeClaim& pvc : pvcs) {
    request.pvcs[pvc.name()] = pvc.labels();
    request.leases.push_back({.lease_namespace = pvc.namespace_name(),
                              .claim_namespace = pvc.namespace_name(),
                              .claim_name = pvc.name(),
                              .claim_uid = pvc.uid(),
                              .backup_name = "",
                              .backup_uid = "",
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
      LockOf({pvc}, absl::StrCat(csi::kRestoreHolderPrefix, restore), /*waits_for_others=*/false,
             random));
  RETURN_IF_ERROR(lock->Enter());
  not_checked.insert(not_checked.end(), lock->not_checked().begin(), lock->not_checked().end());
  return lock;
}

absl::StatusOr<Creation> CreateSnapshot(const CallContext& ctx, k8s::ApiClient& api, Random& random,
                                        const CreationRequest& request) {
  return SnapshotCreator(ctx, api, random, request).Create();
}

absl::Status CheckFree(const CallContext& ctx, k8s::ApiClient& api, Random& random,
                       const CreationRequest& request) {
  return csi::VolumeLock(
             ctx, api, LockOf({request.source.pvc}, request.name, request.waits_for_others, random))
      .Enter();
}

absl::Status TryCreate(const CallContext& ctx, k8s::ApiClient& api,
                       const CreationRequest& request) {
  const absl::Status answer =
      objects::DryRunCreate(ctx, api, ObjectToMake(request, ctx.clock->Now())).status();
  const bool may_be_joined = absl::IsAlreadyExists(answer) && request.may_join;
  return may_be_joined ? absl::OkStatus() : csi::AsQuotaRefusal(answer);
}

}  // namespace csidelta::snapshots
