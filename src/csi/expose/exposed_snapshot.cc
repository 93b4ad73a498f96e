#include "csi/expose/exposed_snapshot.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/driver_error.h"
#include "csi/drop.h"
#include "csi/expose/claim_provisioning.h"
#include "csi/expose/claim_release.h"
#include "csi/snapshot_lifecycle.h"
#include "csi/snapshot_state.h"
#include "csi/static_content.h"
#include "k8s/cached_client.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/volume_snapshot.h"

namespace csidelta::csi {
namespace {

using objects::PersistentVolume;
using objects::PersistentVolumeClaim;
using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

// For so long the snapshot controller may take to bind what was made by hand before that counts as
// waiting.
constexpr absl::Duration kBindingTimeUsual = absl::Seconds(10);
// How much of a foreign sentence a message repeats.
constexpr std::size_t kForeignMessageBytesMax = 400;

std::string WithDriverMessage(std::string text, absl::string_view driver_message) {
  if (!driver_message.empty()) {
    absl::StrAppend(&text, ": ", driver_message.substr(0, kForeignMessageBytesMax));
  }
  return text;
}

k8s::ObjectKey SourceKey(const ExposeRequest& request) {
  return VolumeSnapshot::Key(request.source_namespace, request.source_snapshot);
}

k8s::ObjectKey OwnSnapshotKey(const ExposeRequest& request) {
  return VolumeSnapshot::Key(request.mover_namespace, request.name);
}

k8s::ObjectKey OwnClaimKey(const ExposeRequest& request) {
  return PersistentVolumeClaim::Key(request.mover_namespace, request.name);
}

k8s::ObjectKey OwnContentKey(const ExposeRequest& request) {
  return VolumeSnapshotContent::Key("", request.name);
}

// Labelled and owned as everything of the mover's.
template <typename Kind>
Kind MakeOwn(const ExposeRequest& request) {
  Kind made = Kind::Make(request.mover_namespace, request.name);
  made.SetLabels(request.labels);
  if (request.owner.has_value()) {
    made.SetOwners({*request.owner});
  }
  return made;
}

// The fields of the source's PVC and its volume; empty if the PVC is gone.
struct SourceClaim {
  std::string storage_class;
  int64_t capacity_bytes = 0;   // of the volume
  int64_t requested_bytes = 0;  // more than that while it is being resized
  objects::NodeSelector node_affinity;
};

absl::StatusOr<SourceClaim> ReadSourceClaim(const CallContext& ctx, k8s::ApiClient& api,
                                            const VolumeSnapshot& source) {
  SourceClaim result;
  std::string name = source.source_pvc();
  if (name.empty()) {
    name = source.Annotation(objects::kMemberClaimAnnotation);
  }
  if (name.empty()) {
    return result;
  }
  ASSIGN_OR_RETURN(const auto claim,
                   objects::Find<PersistentVolumeClaim>(ctx, api, source.namespace_name(), name));
  if (!claim.has_value()) {
    return result;
  }
  result.storage_class = claim->storage_class().value_or("");
  result.capacity_bytes = claim->capacity_bytes().value_or(0);
  result.requested_bytes = claim->requested_bytes().value_or(0);
  if (claim->volume_name().empty()) {
    return result;
  }
  ASSIGN_OR_RETURN(const auto volume,
                   objects::Find<PersistentVolume>(ctx, api, "", claim->volume_name()));
  if (volume.has_value()) {
    result.capacity_bytes = std::max(result.capacity_bytes, volume->capacity_bytes().value_or(0));
    result.node_affinity = volume->node_affinity();
  }
  return result;
}

// The size to ask for, and the one to ask for if the driver refuses that; equal if there is none.
struct ExposedSizes {
  int64_t first_bytes = 0;
  int64_t second_bytes = 0;
};

// Drivers differ: some make a volume of the snapshot's own size alone, others refuse one that is
// smaller than its source is by now. None may make one that is smaller than the restoreSize. Some
// report the bytes in use as restoreSize, and cut off a volume of that size: a volume that is known
// to be larger is requested first.
ExposedSizes ChooseSizes(int64_t restore_bytes, const SourceClaim& claim) {
  const int64_t largest = std::max(claim.capacity_bytes, claim.requested_bytes);
  if (restore_bytes > 0 && restore_bytes < claim.capacity_bytes) {
    return {claim.capacity_bytes, restore_bytes};
  }
  if (restore_bytes > 0) {
    return {restore_bytes, std::max(restore_bytes, largest)};
  }
  return {largest, claim.capacity_bytes > 0 ? claim.capacity_bytes : largest};
}

int64_t BytesAt(const VolumeSnapshotContent& content, const char* annotation) {
  int64_t bytes = 0;
  return absl::SimpleAtoi(content.Annotation(annotation), &bytes) ? bytes : 0;
}

// One look, and as many steps as can be taken now.
class Exposer {
 public:
  Exposer(const CallContext& ctx, k8s::ApiClient& api, const ExposeRequest& request)
      : ctx_(ctx), api_(api, request.cache), server_(api), request_(request) {}

  absl::StatusOr<Exposure> Run();

 private:
  // Finds an object that is made here. "Not there yet" may be stale: the creation must expect that
  // the object exists.
  template <typename Kind>
  absl::StatusOr<std::optional<Kind>> FindOwn(const k8s::ObjectKey& key);

  Exposure Wait(std::string for_what);
  Exposure AwaitSnapshot(std::string for_what);
  absl::Status Refuse(absl::string_view why) const;
  absl::Status RefuseClaim(const PersistentVolumeClaim& claim, absl::string_view why) const;

  // --- From the source to csi-delta's content

  // The content of the source, if the source is ready. Nothing if it may become ready; then the
  // exposure has the reason.
  absl::StatusOr<std::optional<VolumeSnapshotContent>> ReadySource(const VolumeSnapshot& source);

  // Nothing may be made of the handle before this: it would be lost with the source's namespace.
  absl::StatusOr<VolumeSnapshotContent> Retain(const VolumeSnapshot& source,
                                               const VolumeSnapshotContent& content);

  // True if the source was not ready a moment ago; then the exposure has the reason. A source with
  // an error is read again instead.
  bool AwaitsSource(const std::optional<VolumeSnapshot>& seen);
  absl::StatusOr<std::optional<VolumeSnapshotContent>> TakeOver();
  absl::StatusOr<std::optional<VolumeSnapshotContent>> TakeOverFrom(const VolumeSnapshot& source);
  absl::StatusOr<VolumeSnapshotContent> MakeContent(const VolumeSnapshot& source,
                                                    const VolumeSnapshotContent& retained);

  // --- Managed objects

  absl::Status CheckManaged(const VolumeSnapshotContent& content) const;
  void ReadContent(const VolumeSnapshotContent& content);

  // Writes the handle, and when it was taken, for drivers that cannot list snapshots.
  absl::Status WriteHandle(const VolumeSnapshotContent& content);
  absl::StatusOr<VolumeSnapshot> EnsureSnapshot(const VolumeSnapshotContent& content);
  VolumeSnapshot SnapshotOf(const VolumeSnapshotContent& content) const;

  // The source is to be removed, and the driver's snapshot has its content already. Once the
  // VolumeSnapshot of that is there, this is done.
  absl::Status DetachSource(const VolumeSnapshotContent& content);

  // --- The claim

  PersistentVolumeClaim MakeClaim(bool read_only_many, bool retains_volumes) const;

  // Its class must be one that fills claims from snapshots of this driver. A claim without one gets
  // the default class when it is made, which may be another driver's.
  absl::Status RequireClass(const std::optional<std::string>& storage_class);

  // Nothing while one that was refused is still going.
  absl::StatusOr<std::optional<PersistentVolumeClaim>> EnsureClaim(
      const VolumeSnapshotContent& content);
  absl::StatusOr<Exposure> InspectClaim(const VolumeSnapshotContent& content,
                                        const PersistentVolumeClaim& claim);
  absl::StatusOr<std::string> WhyForeign(const PersistentVolumeClaim& claim);
  // What to ask for next, as a change of the content; nothing if all was asked for.
  std::optional<objects::Patch> NextRequest(const VolumeSnapshotContent& content,
                                            const PersistentVolumeClaim& claim,
                                            absl::string_view refusal) const;
  Exposure AwaitRefusedClaim();

  const CallContext& ctx_;
  k8s::CachedReader api_;
  k8s::ApiClient& server_;  // for reads that must not be old
  const ExposeRequest& request_;
  Exposure exposure_;
  // In this look:
  std::optional<VolumeSnapshot> taken_source_;
  std::optional<VolumeSnapshotContent> retained_;  // of the source
  bool is_claim_new_ = false;                      // nothing can have failed of it yet
};

absl::StatusOr<Exposure> Exposer::Run() {
  ASSIGN_OR_RETURN(auto content, FindOwn<VolumeSnapshotContent>(OwnContentKey(request_)));
  if (!content.has_value()) {
    ASSIGN_OR_RETURN(content, TakeOver());
    if (!content.has_value()) {
      return exposure_;
    }
  }
  RETURN_IF_ERROR(CheckManaged(*content));
  ReadContent(*content);
  RETURN_IF_ERROR(WriteHandle(*content));
  ASSIGN_OR_RETURN(const VolumeSnapshot snapshot, EnsureSnapshot(*content));
  if (!snapshot.is_ready()) {
    Wait(WithDriverMessage(absl::StrCat(ToString(OwnSnapshotKey(request_)), " to be ready to use"),
                           snapshot.error_message()));
    const absl::Time now = ctx_.clock->Now();
    exposure_.awaits_snapshot = now - snapshot.created_at().value_or(now) >= kBindingTimeUsual;
    return exposure_;
  }
  if (request_.is_without_claim) {
    return Wait(absl::StrCat(ToString(OwnClaimKey(request_)), " to be made"));
  }
  ASSIGN_OR_RETURN(const auto claim, EnsureClaim(*content));
  return claim.has_value() ? InspectClaim(*content, *claim) : AwaitRefusedClaim();
}

template <typename Kind>
absl::StatusOr<std::optional<Kind>> Exposer::FindOwn(const k8s::ObjectKey& key) {
  return request_.cache != nullptr &&
                 request_.cache->Find(key).presence == k8s::ObjectCache::Presence::kAbsent
             ? std::optional<Kind>()
             : objects::Find<Kind>(ctx_, api_, key);
}

Exposure Exposer::Wait(std::string for_what) {
  exposure_.state = Exposure::State::kWaiting;
  exposure_.waiting_for = std::move(for_what);
  return exposure_;
}

Exposure Exposer::AwaitSnapshot(std::string for_what) {
  exposure_.awaits_snapshot = true;
  return Wait(std::move(for_what));
}

absl::Status Exposer::Refuse(absl::string_view why) const {
  return absl::FailedPreconditionError(absl::StrCat(
      "the volume snapshot ", request_.source_namespace, "/", request_.source_snapshot,
      exposure_.driver.empty() ? "" : absl::StrCat(" of driver ", exposure_.driver), " ", why));
}

absl::Status Exposer::RefuseClaim(const PersistentVolumeClaim& claim, absl::string_view why) const {
  const std::string remediation =
      RefusesSize(why)       ? "sizes differ while a PVC is being resized: back up again after that"
      : ReportsNoSource(why) ? "if the storage has lost it, back up again"
                             : absl::StrCat(
                                   "if the driver makes no block devices, leave such "
                                   "volumes to the file-system backup with the volume "
                                   "policy rule ",
                                   ExcludingPolicyRule(exposure_.driver));
  return Refuse(absl::StrCat("cannot be read: the driver refuses a volume of it (",
                             RequestText(claim), "): ", why.substr(0, kForeignMessageBytesMax),
                             "; ", remediation));
}

absl::StatusOr<std::optional<VolumeSnapshotContent>> Exposer::ReadySource(
    const VolumeSnapshot& source) {
  const std::string label = ToString(SourceKey(request_));
  const std::string content_name = source.bound_content();
  if (content_name.empty()) {
    AwaitSnapshot(WithDriverMessage(absl::StrCat(label, " to be bound"), source.error_message()));
    return std::optional<VolumeSnapshotContent>();
  }
  ASSIGN_OR_RETURN(auto content,
                   objects::Find<VolumeSnapshotContent>(ctx_, api_, "", content_name));
  if (!content.has_value() || content->is_being_deleted()) {
    return Refuse(absl::StrCat("lost its VolumeSnapshotContent ", content_name));
  }
  if (content->snapshot_uid() != source.uid()) {
    return Refuse(absl::StrCat("names the VolumeSnapshotContent ", content_name,
                               ", which belongs to another"));
  }
  exposure_.driver = content->driver();
  exposure_.snapshot_taken_at = content->taken_at();
  if (HasNoBlockDevices(exposure_.driver)) {
    return Refuse(absl::StrCat(
        "cannot become a block device: the driver serves file systems only; leave such volumes to "
        "the file-system backup with the volume policy rule ",
        ExcludingPolicyRule(exposure_.driver)));
  }
  const SnapshotStatus status =
      StatusOf(source, {.kind = ContentReading::Kind::kPresent, .content = &*content});
  if (!IsUsable(status.state) || content->handle_or_source().empty()) {
    AwaitSnapshot(
        WithDriverMessage(absl::StrCat(label, " to be ready to use"), source.error_message()));
    return std::optional<VolumeSnapshotContent>();
  }
  return content;
}

absl::StatusOr<VolumeSnapshotContent> Exposer::Retain(const VolumeSnapshot& source,
                                                      const VolumeSnapshotContent& content) {
  ASSIGN_OR_RETURN(const auto stored, SetPolicy(ctx_, api_, content.key(), Data::kRetain));
  absl::StatusOr<VolumeSnapshotContent> retained =
      VolumeSnapshotContent::From(stored.value_or(objects::Object()));
  if (!retained.ok() || retained->snapshot_uid() != source.uid() ||
      retained->handle_or_source().empty()) {
    return Refuse(
        absl::StrCat("cannot be retained: VolumeSnapshotContent ", content.name(), " changed"));
  }
  return retained;
}

bool Exposer::AwaitsSource(const std::optional<VolumeSnapshot>& seen) {
  const bool is_waiting = seen.has_value() && !seen->is_being_deleted() && !seen->is_ready() &&
                          seen->error_message().empty();
  if (is_waiting) {
    AwaitSnapshot(absl::StrCat(ToString(SourceKey(request_)), seen->bound_content().empty()
                                                                  ? " to be bound"
                                                                  : " to be ready to use"));
  }
  return is_waiting;
}

absl::StatusOr<std::optional<VolumeSnapshotContent>> Exposer::TakeOver() {
  const std::optional<VolumeSnapshot> seen =
      objects::FindCached<VolumeSnapshot>(request_.cache, SourceKey(request_)).object;
  if (AwaitsSource(seen)) {
    return std::optional<VolumeSnapshotContent>();
  }
  if (seen.has_value() && seen->is_ready() && !seen->is_being_deleted()) {
    auto taken_over = TakeOverFrom(*seen);
    if (!absl::IsFailedPrecondition(taken_over.status())) {  // Else it may be of what was seen.
      return taken_over;
    }
  }
  ASSIGN_OR_RETURN(const auto source,
                   objects::Find<VolumeSnapshot>(ctx_, server_, SourceKey(request_)));
  if (!source.has_value() || source->is_being_deleted()) {
    ASSIGN_OR_RETURN(auto taken_over,
                     objects::Find<VolumeSnapshotContent>(ctx_, server_, OwnContentKey(request_)));
    return taken_over.has_value()
               ? absl::StatusOr<std::optional<VolumeSnapshotContent>>(std::move(taken_over))
               : Refuse("was deleted by another client before it was taken over; back up again");
  }
  return TakeOverFrom(*source);
}

absl::StatusOr<std::optional<VolumeSnapshotContent>> Exposer::TakeOverFrom(
    const VolumeSnapshot& source) {
  ASSIGN_OR_RETURN(const auto ready, ReadySource(source));
  if (!ready.has_value()) {
    return ready;
  }
  ASSIGN_OR_RETURN(const VolumeSnapshotContent retained, Retain(source, *ready));
  ASSIGN_OR_RETURN(const VolumeSnapshotContent content, MakeContent(source, retained));
  absl::StatusOr<VolumeSnapshotContent> made = objects::CreateOrGet(ctx_, server_, content);
  RETURN_IF_ERROR(Annotate(made.status(), "take over the volume snapshot"));
  taken_source_ = source;
  retained_ = retained;
  return std::optional(*std::move(made));
}

absl::StatusOr<VolumeSnapshotContent> Exposer::MakeContent(const VolumeSnapshot& source,
                                                           const VolumeSnapshotContent& retained) {
  ASSIGN_OR_RETURN(const SourceClaim claim, ReadSourceClaim(ctx_, api_, source));
  ASSIGN_OR_RETURN(const auto classes, objects::List<objects::VolumeSnapshotClass>(ctx_, api_, ""));
  const ExposedSizes sizes = ChooseSizes(
      std::max(retained.restore_size_bytes().value_or(0), source.restore_size_bytes().value_or(0)),
      claim);
  if (sizes.first_bytes <= 0) {
    return Refuse("has no known size: neither its restoreSize nor its claim says it");
  }
  StaticContent content = ContentBeside(retained);
  content.name = request_.name;
  content.snapshot_namespace = request_.mover_namespace;
  content.snapshot_name = request_.name;
  content.class_name = ClassOfDriver(classes, content.driver, content.class_name);
  content.labels.insert(request_.labels.begin(), request_.labels.end());
  content.labels.merge(MovedGroupLabels(retained));
  content.annotations.merge(MovedGroupAnnotations(retained));
  content.annotations.insert(request_.annotations.begin(), request_.annotations.end());
  content.annotations.emplace(objects::kModeChangeAnnotation, "true");
  content.annotations.emplace(objects::kSourceUidAnnotation, source.uid());
  content.annotations.emplace(objects::kSourceSizeAnnotation, absl::StrCat(sizes.first_bytes));
  if (sizes.second_bytes != sizes.first_bytes) {
    content.annotations.emplace(objects::kOtherSizeAnnotation, absl::StrCat(sizes.second_bytes));
  }
  content.annotations.emplace(objects::kSourceStorageClassAnnotation, claim.storage_class);
  if (!claim.node_affinity.selects_all()) {
    content.annotations.emplace(objects::kSourceNodeAffinityAnnotation,
                                claim.node_affinity.ToText());
  }
  if (exposure_.snapshot_taken_at.has_value()) {
    content.annotations.emplace(objects::kMoverTakenAtAnnotation,
                                FormatRfc3339(*exposure_.snapshot_taken_at));
  }
  content.annotations.emplace(objects::kMoverReadyAtAnnotation,
                              FormatRfc3339(source.ready_at().value_or(ctx_.clock->Now())));
  // The snapshot controller adds it once it has bound the content; until then, too, nothing may
  // vanish with the driver's snapshot left behind.
  content.finalizers = {objects::kContentBoundProtectionFinalizer};
  return MakeStaticContent(content);
}

absl::Status Exposer::CheckManaged(const VolumeSnapshotContent& content) const {
  if (!content.HasLabels(request_.labels) ||
      content.snapshot_namespace() != request_.mover_namespace ||
      content.snapshot_name() != request_.name) {
    return Refuse(absl::StrCat("cannot be taken over: VolumeSnapshotContent ", request_.name,
                               " is not managed by csi-delta"));
  }
  return content.is_being_deleted()
             ? Refuse(absl::StrCat("is being dropped with VolumeSnapshotContent ", request_.name))
             : absl::OkStatus();
}

void Exposer::ReadContent(const VolumeSnapshotContent& content) {
  exposure_.driver = content.driver();
  exposure_.snapshot_handle = content.handle_or_source();
  exposure_.snapshot_taken_at = ParseRfc3339(content.Annotation(objects::kMoverTakenAtAnnotation));
  exposure_.ready_at = ParseRfc3339(content.Annotation(objects::kMoverReadyAtAnnotation));
  exposure_.group = ReadMovedGroup(content);
  exposure_.storage_class = request_.storage_class.empty()
                                ? content.Annotation(objects::kSourceStorageClassAnnotation)
                                : request_.storage_class;
  exposure_.size_bytes = BytesAt(content, objects::kSourceSizeAnnotation);
}

absl::Status Exposer::WriteHandle(const VolumeSnapshotContent& content) {
  return content.handle().empty()
             ? objects::Apply(ctx_, api_, content.key(),
                              objects::Patch().SetTaken(exposure_.snapshot_handle,
                                                        exposure_.snapshot_taken_at, std::nullopt),
                              "status")
             : absl::OkStatus();
}

absl::StatusOr<VolumeSnapshot> Exposer::EnsureSnapshot(const VolumeSnapshotContent& content) {
  ASSIGN_OR_RETURN(auto found, FindOwn<VolumeSnapshot>(OwnSnapshotKey(request_)));
  if (!found.has_value()) {
    RETURN_IF_ERROR(DetachSource(content));
    ASSIGN_OR_RETURN(found, objects::CreateOrGet(ctx_, server_, SnapshotOf(content)));
  }
  if (found->is_being_deleted() || !found->HasLabels(request_.labels)) {
    return Refuse(absl::StrCat("cannot be used: ", ToString(OwnSnapshotKey(request_)),
                               " is being deleted, or not managed by csi-delta"));
  }
  return *std::move(found);
}

VolumeSnapshot Exposer::SnapshotOf(const VolumeSnapshotContent& content) const {
  auto snapshot = MakeOwn<VolumeSnapshot>(request_);
  snapshot.SetSourceContent(request_.name);
  // Without its class here a driver's metadata service refuses it.
  if (!content.class_name().empty()) {
    snapshot.SetClassName(content.class_name());
  }
  return snapshot;
}

absl::Status Exposer::DetachSource(const VolumeSnapshotContent& content) {
  std::optional<VolumeSnapshot> source = taken_source_;
  if (!source.has_value()) {
    ASSIGN_OR_RETURN(source, objects::Find<VolumeSnapshot>(ctx_, server_, SourceKey(request_)));
  }
  if (!source.has_value() || source->uid() != content.Annotation(objects::kSourceUidAnnotation) ||
      source->is_being_deleted()) {
    return absl::OkStatus();
  }
  if (retained_.has_value()) {  // As it was read, or another client may have undone it.
    const absl::Status gone = k8s::IgnoreNotFound(
        api_.Delete(ctx_, retained_->key(),
                    {.uid = retained_->uid(), .resource_version = retained_->resource_version()}));
    if (gone.ok()) {
      return DeleteObject(ctx_, api_, IdOf(*source));
    }
  }
  return DropSnapshot(ctx_, api_, *source, Data::kRetain);
}

PersistentVolumeClaim Exposer::MakeClaim(bool read_only_many, bool retains_volumes) const {
  auto claim = MakeOwn<PersistentVolumeClaim>(request_);
  if (retains_volumes) {
    claim.SetFinalizers({objects::kVolumeFinalizer});
  }
  if (!request_.source_claim.empty()) {
    claim.SetAnnotation(objects::kMoverClaimNamespaceAnnotation, request_.source_namespace);
    claim.SetAnnotation(objects::kMoverClaimAnnotation, request_.source_claim);
  }
  claim.SetAccessModes({read_only_many ? "ReadOnlyMany" : "ReadWriteOnce"});
  claim.SetMode(objects::VolumeMode::kBlock);
  claim.SetSourceSnapshot(request_.name);
  claim.SetRequestedBytes(exposure_.size_bytes);
  if (!exposure_.storage_class.empty()) {
    claim.SetStorageClass(exposure_.storage_class);
  }
  return claim;
}

absl::Status Exposer::RequireClass(const std::optional<std::string>& storage_class) {
  constexpr char kRemediation[] =
      "; name one of its driver as intermediateClass in the data mover's settings";
  if (!storage_class.has_value()) {
    return Refuse(
        "cannot be read: its claim has no storage class, and there is no default class; make one "
        "of its driver the default");
  }
  ASSIGN_OR_RETURN(const ClassFit fit, FitOfClass(ctx_, api_, storage_class, exposure_.driver));
  return fit.kind == ClassFit::Kind::kFits
             ? absl::OkStatus()
             : Refuse(absl::StrCat("cannot be read: ", fit.text, kRemediation));
}

absl::StatusOr<std::optional<PersistentVolumeClaim>> Exposer::EnsureClaim(
    const VolumeSnapshotContent& content) {
  const k8s::ObjectKey key = OwnClaimKey(request_);
  ASSIGN_OR_RETURN(auto found, FindOwn<PersistentVolumeClaim>(key));
  if (!found.has_value()) {
    if (!exposure_.storage_class.empty()) {
      RETURN_IF_ERROR(RequireClass(exposure_.storage_class));
    }
    const bool read_only_many =
        request_.read_only_many && content.Annotation(objects::kReadOnlyManyAnnotation).empty();
    ASSIGN_OR_RETURN(const objects::StorageClass storage_class,
                     ReadStorageClass(ctx_, api_, exposure_.storage_class));
    ASSIGN_OR_RETURN(
        found, objects::CreateOrGet(ctx_, server_,
                                    MakeClaim(read_only_many, storage_class.retains_volumes())));
    is_claim_new_ = true;
  }
  if (!found->HasLabels(request_.labels)) {
    return Refuse(absl::StrCat("cannot be used: ", ToString(key), " is not managed by csi-delta"));
  }
  RETURN_IF_ERROR(HoldForItsVolume(ctx_, api_, *found));
  return found->is_being_deleted() ? std::optional<PersistentVolumeClaim>() : found;
}

absl::StatusOr<Exposure> Exposer::InspectClaim(const VolumeSnapshotContent& content,
                                               const PersistentVolumeClaim& claim) {
  const std::string phase = claim.phase();
  if (phase == "Lost") {
    return Refuse(
        absl::StrCat("lost the volume that ", ToString(OwnClaimKey(request_)), " was filled with"));
  }
  if (exposure_.storage_class.empty()) {
    RETURN_IF_ERROR(RequireClass(claim.storage_class()));
    exposure_.storage_class = claim.storage_class().value_or("");
  }
  ASSIGN_OR_RETURN(const objects::StorageClass storage_class,
                   ReadStorageClass(ctx_, api_, exposure_.storage_class));
  const bool waits_for_pod = storage_class.waits_for_first_consumer();
  if (waits_for_pod) {
    exposure_.node_affinity =
        objects::NodeSelector::Parse(content.Annotation(objects::kSourceNodeAffinityAnnotation))
            .value_or(objects::NodeSelector());
  }
  if (phase == "Bound") {
    ASSIGN_OR_RETURN(const std::string foreign, WhyForeign(claim));
    exposure_.state = Exposure::State::kReady;
    return foreign.empty()
               ? absl::StatusOr<Exposure>(exposure_)
               : Refuse(absl::StrCat("cannot be read: ", ToString(OwnClaimKey(request_)),
                                     " was bound to what is not the snapshot: ", foreign));
  }
  std::string refusal;
  if (!is_claim_new_) {
    ASSIGN_OR_RETURN(refusal, LastProvisioningError(ctx_, api_, claim));
  }
  if (const auto next = NextRequest(content, claim, refusal); next.has_value()) {
    RETURN_IF_ERROR(objects::Apply(ctx_, api_, content.key(), *next));
    RETURN_IF_ERROR(DeleteObject(ctx_, api_, IdOf(claim)));
    return AwaitRefusedClaim();
  }
  if (IsDefiniteRefusal(refusal)) {
    return RefuseClaim(claim, refusal);
  }
  if (!waits_for_pod || !refusal.empty()) {
    Wait(WithDriverMessage(
        absl::StrCat(ToString(OwnClaimKey(request_)), " to be filled from the volume snapshot"),
        refusal));
  }
  exposure_.state = waits_for_pod ? Exposure::State::kReady : Exposure::State::kWaiting;
  return exposure_;
}

absl::StatusOr<std::string> Exposer::WhyForeign(const PersistentVolumeClaim& claim) {
  if (request_.examined != nullptr && request_.examined->Has(claim)) {
    return "";
  }
  ASSIGN_OR_RETURN(std::string foreign, WhyVolumeIsForeign(ctx_, api_, claim, exposure_.driver));
  if (request_.examined != nullptr && foreign.empty()) {
    request_.examined->Add(claim);
  }
  return foreign;
}

std::optional<objects::Patch> Exposer::NextRequest(const VolumeSnapshotContent& content,
                                                   const PersistentVolumeClaim& claim,
                                                   absl::string_view refusal) const {
  if (!refusal.empty() && claim.access_modes() == std::vector<std::string>{"ReadOnlyMany"}) {
    return objects::Patch().SetAnnotation(objects::kReadOnlyManyAnnotation, "refused");
  }
  const int64_t other_bytes = BytesAt(content, objects::kOtherSizeAnnotation);
  if (!RefusesSize(refusal) || other_bytes <= 0 || other_bytes == claim.requested_bytes()) {
    return std::nullopt;
  }
  return objects::Patch().SetAnnotation(objects::kSourceSizeAnnotation, absl::StrCat(other_bytes));
}

Exposure Exposer::AwaitRefusedClaim() {
  return Wait(absl::StrCat(ToString(OwnClaimKey(request_)), ", which was refused, to be gone"));
}

std::string BindingOf(const PersistentVolumeClaim& claim) {
  return absl::StrCat(claim.uid(), "/", claim.volume_name());
}

// --- Removing

absl::Status RemoveClaim(const CallContext& ctx, k8s::ApiClient& api,
                         const ExposeRequest& request) {
  ASSIGN_OR_RETURN(const auto claim,
                   objects::Find<PersistentVolumeClaim>(ctx, api, OwnClaimKey(request)));
  if (!claim.has_value() || !claim->HasLabels(request.labels)) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(DeleteVolumeWithPvc(ctx, api, *claim).status());
  return claim->is_being_deleted() ? absl::OkStatus() : DeleteObject(ctx, api, IdOf(*claim));
}

// Returns true if it existed.
absl::StatusOr<bool> RemoveOwnSnapshot(const CallContext& ctx, k8s::ApiClient& api,
                                       const ExposeRequest& request) {
  ASSIGN_OR_RETURN(const auto snapshot,
                   objects::Find<VolumeSnapshot>(ctx, api, OwnSnapshotKey(request)));
  if (!snapshot.has_value() || !snapshot->HasLabels(request.labels)) {
    return false;
  }
  if (!snapshot->is_being_deleted()) {
    RETURN_IF_ERROR(DeleteObject(ctx, api, IdOf(*snapshot)));
  }
  return true;
}

// `content`: that took the source over, if one did.
absl::Status RemoveSource(const CallContext& ctx, k8s::ApiClient& api, const ExposeRequest& request,
                          const std::optional<VolumeSnapshotContent>& content,
                          SnapshotAction action) {
  ASSIGN_OR_RETURN(const auto source, objects::Find<VolumeSnapshot>(ctx, api, SourceKey(request)));
  if (!source.has_value()) {
    return absl::OkStatus();
  }
  if (content.has_value() && content->Annotation(objects::kSourceUidAnnotation) == source->uid()) {
    return source->is_being_deleted() ? absl::OkStatus()
                                      : DropSnapshot(ctx, api, *source, Data::kRetain);
  }
  return action == SnapshotAction::kDelete && !content.has_value()
             ? DeleteSnapshot(ctx, api, source->key(), source->uid())
             : absl::OkStatus();
}

}  // namespace

bool ExaminedClaims::Has(const PersistentVolumeClaim& claim) const {
  const MutexLock lock(mutex_);
  return bindings_.contains(BindingOf(claim));
}

void ExaminedClaims::Add(const PersistentVolumeClaim& claim) {
  const MutexLock lock(mutex_);
  if (!bindings_.insert(BindingOf(claim)).second) {
    return;
  }
  in_order_.push_back(BindingOf(claim));
  if (in_order_.size() > kExaminedClaimsMax) {
    bindings_.erase(in_order_.front());
    in_order_.pop_front();
  }
  CSIDELTA_CHECK(bindings_.size() == in_order_.size());
}

absl::StatusOr<Exposure> ExposeSnapshot(const CallContext& ctx, k8s::ApiClient& api,
                                        const ExposeRequest& request) {
  if (request.name.empty() || request.source_namespace.empty() || request.source_snapshot.empty() ||
      request.mover_namespace.empty()) {
    return absl::InvalidArgumentError("no volume snapshot is named that could be read");
  }
  CSIDELTA_CHECK(!request.labels.empty());  // Else any object of the name would count as managed.
  return Exposer(ctx, api, request).Run();
}

k8s::WatchedObjects SourceSnapshots() {
  return {.type = VolumeSnapshot::Type(), .label_selector = objects::kCsiDeltaLabel};
}

absl::Status RemoveExposure(const CallContext& ctx, k8s::ApiClient& server,
                            const ExposeRequest& request, SnapshotAction action) {
  // Else any object of the name would be deleted.
  CSIDELTA_CHECK(!request.name.empty() && !request.labels.empty());
  k8s::CachedReader api(server, request.cache);
  RETURN_IF_ERROR(RemoveClaim(ctx, api, request));
  ASSIGN_OR_RETURN(const bool had_snapshot, RemoveOwnSnapshot(ctx, api, request));
  ASSIGN_OR_RETURN(auto content,
                   objects::Find<VolumeSnapshotContent>(ctx, api, OwnContentKey(request)));
  if (content.has_value() && !content->HasLabels(request.labels)) {
    content.reset();
  }
  // A source that was taken over was deleted before csi-delta's VolumeSnapshot was made.
  const bool is_source_gone = had_snapshot && content.has_value();
  if (!request.source_snapshot.empty() && !is_source_gone) {
    RETURN_IF_ERROR(RemoveSource(ctx, api, request, content, action));
  }
  if (action == SnapshotAction::kDelete && content.has_value() && !content->is_being_deleted()) {
    return DeleteContent(ctx, api, *content);
  }
  return absl::OkStatus();
}

const std::vector<absl::string_view>& FileOnlyDrivers() {
  static const auto& drivers = *new std::vector<absl::string_view>{
      "nfs.csi.k8s.io",
      "smb.csi.k8s.io",
      "cephfs.csi.ceph.com",
      "nfs.csi.ceph.com",
      "efs.csi.aws.com",
      "fsx.csi.aws.com",
      "file.csi.azure.com",
      "filestore.csi.storage.gke.io",
      "gcsfuse.csi.storage.gke.io",
      "csi.juicefs.com",
      "cephfs.manila.csi.openstack.org",
      "nfs.manila.csi.openstack.org",
  };
  return drivers;
}

bool HasNoBlockDevices(absl::string_view driver) {
  const std::vector<absl::string_view>& drivers = FileOnlyDrivers();
  return std::any_of(drivers.begin(), drivers.end(), [driver](absl::string_view name) {
    return driver == name || absl::EndsWith(driver, absl::StrCat(".", name));
  });
}

std::string ExcludingPolicyRule(absl::string_view driver) {
  return absl::StrCat("{conditions: {csi: {driver: ", driver, "}}, action: {type: fs-backup}}");
}

}  // namespace csidelta::csi
