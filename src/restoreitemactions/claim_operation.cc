#include "restoreitemactions/claim_operation.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "csi/driver_error.h"
#include "csi/expose/claim_provisioning.h"
#include "csi/population.h"
#include "k8s/event_recorder.h"
#include "objects/client.h"
#include "objects/event.h"
#include "objects/persistent_volume.h"

namespace csidelta::restoreitemactions {
namespace {

using csi::IsDefiniteRefusal;
using objects::PersistentVolumeClaim;
using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

k8s::ObjectKey ContentKeyOf(const VolumeSnapshot& snapshot) {
  const std::string name = snapshot.source_content();
  return VolumeSnapshotContent::Key("", name.empty() ? snapshot.bound_content() : name);
}

constexpr char kOperationPrefix[] = "claim";
constexpr char kRestoreFailedReason[] = "RestoreFromSnapshotFailed";

// One look at a claim that is being filled.
class ClaimCheck {
 public:
  ClaimCheck(const CallContext& ctx, const csi::Environment& env, const ClaimOperation& operation);
  velero::OperationProgress Run();

  // REQUIRES Run(), which was not completed: an Event tells the user of the claim how far it got.
  void ReportCancelled();

 private:
  // A claim is bound to any volume of its class that is free and large enough, whatever it is to be
  // filled from, before a provisioner is asked.
  velero::OperationProgress CheckVolume();
  velero::OperationProgress CheckData();

  // The host restores it before the claim.
  absl::StatusOr<VolumeSnapshot> FindSource();
  ContentState StateOf(const absl::StatusOr<VolumeSnapshot>& source);
  velero::OperationProgress CheckPending();
  bool WaitsForConsumer();
  velero::OperationProgress Wait(std::string description);
  velero::OperationProgress Complete(std::string description);
  velero::OperationProgress Fail(absl::string_view what);
  velero::OperationProgress FailWithEvent(absl::string_view what);
  void Emit(const std::string& message);

  const CallContext& ctx_;
  const csi::Environment& env_;
  const ClaimOperation& operation_;
  PersistentVolumeClaim claim_;
  velero::OperationProgress progress_;
};

ClaimCheck::ClaimCheck(const CallContext& ctx, const csi::Environment& env,
                       const ClaimOperation& operation)
    : ctx_(ctx), env_(env), operation_(operation) {
  progress_.total_units = 1;
  progress_.units = "claims";
}

velero::OperationProgress ClaimCheck::Run() {
  const auto claim = objects::Get<PersistentVolumeClaim>(ctx_, env_.api, operation_.namespace_name,
                                                         operation_.claim_name);
  progress_.updated = env_.clock.Now();
  if (absl::IsNotFound(claim.status())) {
    return Fail("is gone");
  }
  if (!claim.ok()) {
    return Wait(claim.status().ToString());
  }
  claim_ = *claim;
  progress_.started = claim_.created_at().value_or(env_.clock.Now());
  const std::string phase = claim_.phase();
  if (phase == "Bound") {
    return CheckVolume();
  }
  if (phase == "Lost") {
    return FailWithEvent("lost its volume");
  }
  return CheckPending();
}

velero::OperationProgress ClaimCheck::CheckVolume() {
  const absl::StatusOr<std::string> foreign =
      csi::WhyVolumeIsForeign(ctx_, env_.api, claim_, StateOf(FindSource()).driver);
  if (!foreign.ok()) {
    return Wait(foreign.status().ToString());
  }
  if (!foreign->empty()) {
    return FailWithEvent(
        absl::StrCat("was bound to what was not made from the snapshot, and does not have its "
                     "data: ",
                     *foreign,
                     "; delete the claim, keep such volumes from being bound, and "
                     "restore it again"));
  }
  return CheckData();
}

// Bound is not filled: the source must stay until then, so that is not the end.
velero::OperationProgress ClaimCheck::CheckData() {
  const absl::StatusOr<csi::PopulatedVolume> volume = csi::VolumeOf(ctx_, env_.api, claim_);
  const absl::StatusOr<csi::Population> population =
      volume.ok() ? csi::PopulationReader(ctx_, env_.api, &env_).Read(*volume) : volume.status();
  if (!population.ok()) {
    return Wait(population.status().ToString());
  }
  switch (population->state) {
    case csi::PopulationState::kFilled:
      return Complete(kClaimIsBound);
    case csi::PopulationState::kCopying:
      return Wait(absl::StrCat("bound, and waiting for its data: ", population->text));
    case csi::PopulationState::kFailed:
      return FailWithEvent(
          absl::StrCat("is bound, but its data could not be copied: ", population->text,
                       "; its source is kept; delete the claim and restore it again"));
    case csi::PopulationState::kUnknown:
      break;
  }
  return Wait(absl::StrCat("bound; ", population->text));
}

absl::StatusOr<VolumeSnapshot> ClaimCheck::FindSource() {
  return objects::Get<VolumeSnapshot>(ctx_, env_.api, operation_.namespace_name,
                                      operation_.snapshot_name);
}

ContentState ClaimCheck::StateOf(const absl::StatusOr<VolumeSnapshot>& source) {
  return source.ok() ? InspectContent(ctx_, env_, *source).value_or(ContentState())
                     : ContentState();
}

velero::OperationProgress ClaimCheck::CheckPending() {
  const absl::StatusOr<VolumeSnapshot> source = FindSource();
  if (absl::IsNotFound(source.status())) {
    return FailWithEvent(absl::StrCat(
        "cannot be filled: its VolumeSnapshot ", operation_.snapshot_name,
        " is not there. Either the restore could not make it, or its includedResources and "
        "excludedResources leave it out: they must let ",
        ToString(VolumeSnapshot::Type()), " and ", ToString(VolumeSnapshotContent::Type()),
        " through"));
  }
  const ContentState content = StateOf(source);
  if (content.kind == ContentState::Kind::kGone) {
    return FailWithEvent(absl::StrCat("cannot be filled: the driver has no snapshot ",
                                      content.handle, ": ", content.message));
  }
  const absl::StatusOr<std::string> refusal = csi::LastProvisioningError(ctx_, env_.api, claim_);
  if (!refusal.ok()) {
    return Wait(refusal.status().ToString());
  }
  if (IsDefiniteRefusal(*refusal)) {
    return FailWithEvent(
        absl::StrCat("cannot be filled from snapshot ", content.handle, ": ", *refusal));
  }
  const absl::StatusOr<csi::ClassFit> fit =
      csi::FitOfClass(ctx_, env_.api, claim_.storage_class(), content.driver);
  if (!fit.ok()) {
    return Wait(fit.status().ToString());
  }
  if (fit->kind == csi::ClassFit::Kind::kNever) {
    return FailWithEvent(absl::StrCat("cannot be filled: ", fit->text));
  }
  if (fit->kind == csi::ClassFit::Kind::kMissing) {
    return Wait(fit->text);
  }
  if (WaitsForConsumer()) {
    return Complete(
        "not checked: the claim waits for its first consumer, and is filled when a pod uses it");
  }
  if (!refusal->empty()) {
    return Wait(*refusal);
  }
  return Wait(content.message.empty() ? "waiting for the claim to be bound" : content.message);
}

bool ClaimCheck::WaitsForConsumer() {
  return claim_.selected_node().empty() &&
         csi::ReadStorageClass(ctx_, env_.api, claim_.storage_class().value_or(""))
             .value_or(objects::StorageClass())
             .waits_for_first_consumer();
}

velero::OperationProgress ClaimCheck::Wait(std::string description) {
  progress_.description = std::move(description);
  return progress_;
}

velero::OperationProgress ClaimCheck::Complete(std::string description) {
  progress_.completed = true;
  progress_.completed_units = 1;
  progress_.description = std::move(description);
  return progress_;
}

velero::OperationProgress ClaimCheck::Fail(absl::string_view what) {
  CSIDELTA_CHECK(!progress_.completed);  // One look has one end.
  progress_.completed = true;
  progress_.error = absl::StrCat("persistentvolumeclaim ", operation_.namespace_name, "/",
                                 operation_.claim_name, " ", what);
  progress_.description = "failed";
  return progress_;
}

velero::OperationProgress ClaimCheck::FailWithEvent(absl::string_view what) {
  velero::OperationProgress failed = Fail(what);
  Emit(failed.error);
  return failed;
}

void ClaimCheck::ReportCancelled() {
  if (!claim_.name().empty()) {
    Emit(absl::StrCat(
        "persistentvolumeclaim ", operation_.namespace_name, "/", operation_.claim_name,
        " may still get its data, but Velero waits for it no longer: ", progress_.description));
  }
}

void ClaimCheck::Emit(const std::string& message) {
  objects::TryEmitEvent(ctx_, env_.api, claim_, k8s::EventType::kWarning, kRestoreFailedReason,
                        message);
}

}  // namespace

ContentState StateOfContent(const VolumeSnapshotContent& content) {
  ContentState state;
  state.driver = content.driver();
  state.handle = content.handle_or_source();
  state.message = content.error_message();
  if (content.is_ready()) {
    state.kind = ContentState::Kind::kReady;
  } else if (csi::ReportsMissingSnapshot(state.message)) {
    state.kind = ContentState::Kind::kGone;
  }
  return state;
}

absl::StatusOr<ContentState> InspectContent(const CallContext& ctx, const csi::Environment& env,
                                            const VolumeSnapshot& snapshot) {
  const k8s::ObjectKey key = ContentKeyOf(snapshot);
  if (key.name.empty()) {
    return ContentState();
  }
  ASSIGN_OR_RETURN(const auto content, objects::Find<VolumeSnapshotContent>(ctx, env.api, key));
  return content.has_value() ? StateOfContent(*content) : ContentState();
}

absl::StatusOr<ContentState> AwaitContent(const CallContext& ctx, const csi::Environment& env,
                                          const VolumeSnapshot& snapshot) {
  ContentState state;
  const k8s::ObjectKey key = ContentKeyOf(snapshot);
  if (key.name.empty()) {
    return state;
  }
  const absl::Status status = objects::WaitFor<VolumeSnapshotContent>(
      ctx, env.api, key, [&state](const VolumeSnapshotContent* content) -> absl::StatusOr<bool> {
        state = content == nullptr ? ContentState() : StateOfContent(*content);
        return state.kind != ContentState::Kind::kPending;
      });
  if (!status.ok() && !absl::IsDeadlineExceeded(status)) {
    return status;
  }
  return state;
}

std::string EncodeOperation(const ClaimOperation& operation) {
  return absl::StrCat(kOperationPrefix, "/", operation.namespace_name, "/", operation.claim_name,
                      "/", operation.snapshot_name);
}

absl::StatusOr<ClaimOperation> DecodeOperation(absl::string_view operation_id) {
  const std::vector<std::string> parts = absl::StrSplit(operation_id, '/');
  if (parts.size() != 4 || parts[0] != kOperationPrefix || parts[1].empty() || parts[2].empty()) {
    return absl::InvalidArgumentError(absl::StrCat("no such operation: ", operation_id));
  }
  return ClaimOperation{
      .namespace_name = parts[1], .claim_name = parts[2], .snapshot_name = parts[3]};
}

velero::OperationProgress CheckClaim(const CallContext& ctx, const csi::Environment& env,
                                     const ClaimOperation& operation) {
  return ClaimCheck(ctx, env, operation).Run();
}

velero::OperationProgress CheckClaim(const CallContext& ctx, const csi::Environment& env,
                                     absl::string_view operation_id) {
  const absl::StatusOr<ClaimOperation> operation = DecodeOperation(operation_id);
  if (!operation.ok()) {
    velero::OperationProgress progress;
    progress.completed = true;
    progress.error = std::string(operation.status().message());
    return progress;
  }
  return CheckClaim(ctx, env, *operation);
}

absl::Status CancelClaim(const CallContext& ctx, const csi::Environment& env,
                         absl::string_view operation_id) {
  ASSIGN_OR_RETURN(const ClaimOperation operation, DecodeOperation(operation_id));
  ClaimCheck check(ctx, env, operation);
  if (!check.Run().completed) {
    check.ReportCancelled();
  }
  return absl::OkStatus();
}

}  // namespace csidelta::restoreitemactions
