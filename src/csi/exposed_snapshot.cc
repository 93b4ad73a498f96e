#include "csi/exposed_snapshot.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/quantity.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/claim_provisioning.h"
#include "csi/owned_content.h"
#include "csi/snapshot_lifecycle.h"
#include "csi/snapshot_state.h"
#include "csi/snapshot_types.h"
#include "csi/static_content.h"
#include "k8s/cached_client.h"
#include "k8s/find.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "objects/persistent_volume.h"
#include "objects/volume_snapshot.h"

namespace csidelta::csi {
namespace {

// For so long the snapshot controller may take to bind what was made by hand before that counts as
// waiting.
constexpr absl::Duration kBindingTimeUsual = absl::Seconds(10);
// How much of a foreign sentence a message repeats.
constexpr std::size_t kForeignWordsBytesMax = 400;

std::string WithWords(std::string text, absl::string_view foreign_words) {
  if (!foreign_words.empty()) {
    absl::StrAppend(&text, ": ", foreign_words.substr(0, kForeignWordsBytesMax));
  }
  return text;
}

k8s::ObjectKey SourceKey(const ExposeRequest& request) {
  return VolumeSnapshotKey(request.source_namespace, request.source_snapshot);
}

k8s::ObjectKey OwnSnapshotKey(const ExposeRequest& request) {
  return VolumeSnapshotKey(request.mover_namespace, request.name);
}

k8s::ObjectKey OwnClaimKey(const ExposeRequest& request) {
  return ClaimKey(request.mover_namespace, request.name);
}

Json MetadataOf(const ExposeRequest& request) {
  Json metadata = {
      {"name", request.name}, {"namespace", request.mover_namespace}, {"labels", request.labels}};
  if (request.owner.has_value()) {
    metadata["ownerReferences"] = Json::array({objects::ToJson(*request.owner)});
  }
  return metadata;
}

int64_t QuantityAt(const Json& object, JsonPath path) {
  return ParseQuantity(GetString(object, path)).value_or(0);
}

// What the source's claim says, or its volume; empty when the claim is gone.
struct SourceClaim {
  std::string storage_class;
  int64_t size_bytes = 0;
  objects::NodeSelector node_affinity;
};

absl::StatusOr<SourceClaim> ReadSourceClaim(const CallContext& ctx, k8s::ApiClient& api,
                                            const Json& source) {
  SourceClaim result;
  std::string name = SourceClaimName(source);
  if (name.empty()) {
    name = k8s::Annotation(source, objects::kMemberClaimAnnotation);
  }
  if (name.empty()) {
    return result;
  }
  ASSIGN_OR_RETURN(const std::optional<Json> claim,
                   k8s::Find(ctx, api, ClaimKey(k8s::Namespace(source), name)));
  if (!claim.has_value()) {
    return result;
  }
  result.storage_class = GetString(*claim, {"spec", "storageClassName"});
  result.size_bytes = std::max(QuantityAt(*claim, {"status", "capacity", "storage"}),
                               QuantityAt(*claim, {"spec", "resources", "requests", "storage"}));
  const std::string volume_name = GetString(*claim, {"spec", "volumeName"});
  if (volume_name.empty()) {
    return result;
  }
  ASSIGN_OR_RETURN(const std::optional<Json> volume, k8s::Find(ctx, api, VolumeKey(volume_name)));
  if (volume.has_value()) {
    result.size_bytes =
        std::max(result.size_bytes, QuantityAt(*volume, {"spec", "capacity", "storage"}));
    ASSIGN_OR_RETURN(const auto typed, objects::PersistentVolume::Of(*volume));
    result.node_affinity = typed.node_affinity();
  }
  return result;
}

// One look, and as many steps as can be taken now.
class Exposer {
 public:
  Exposer(const CallContext& ctx, k8s::ApiClient& api, const ExposeRequest& request)
      : ctx_(ctx), api_(api, request.cache), server_(api), request_(request) {}

  absl::StatusOr<Exposure> Run();

 private:
  // What is made here. That it is not there yet may be an answer of a moment ago: who makes it then
  // must expect it to be there.
  absl::StatusOr<std::optional<Json>> FindOwn(const k8s::ObjectKey& key);

  // Where another was faster, what that one made.
  absl::StatusOr<Json> Make(const k8s::ObjectKey& key, const Json& object);
  Exposure Wait(std::string for_what);
  Exposure AwaitSnapshot(std::string for_what);
  absl::Status Refuse(absl::string_view why) const;
  absl::Status RefuseBlock(absl::string_view why) const;

  // --- From the source to a content of our own

  // The content of the source, when the source is ready; nothing, and the exposure says why, when
  // it may become so.
  absl::StatusOr<std::optional<Json>> ReadySource(const Json& source);

  // Nothing may be made of the handle before this: it would be lost with the source's namespace.
  absl::StatusOr<Json> Retain(const Json& source, const Json& content);

  // Whether the source is known not to be ready, as of a moment ago. The exposure says so. What the
  // driver or the controller complains of is looked at closely.
  bool AwaitsSource();
  absl::StatusOr<std::optional<Json>> TakeOver();
  absl::StatusOr<Json> MakeContent(const Json& source, const Json& retained);

  // --- What is ours

  absl::Status CheckOurs(const Json& content) const;
  void ReadContent(const Json& content);

  // What a driver that cannot be asked would not know: the handle, and when it was cut.
  absl::Status WriteHandle(const Json& content);
  absl::StatusOr<Json> EnsureSnapshot(const Json& content);
  Json SnapshotOf(const Json& content) const;

  // The source is ours to remove, and the driver's snapshot has its content already. Once the
  // VolumeSnapshot of that is there, this is done.
  absl::Status ForgetSource(const Json& content);

  // --- The claim

  Json MakeClaim(bool read_only_many) const;

  // Its class must be one that fills claims from snapshots of this driver. A claim without one gets
  // the default class when it is made, which may be another driver's.
  absl::Status RequireClass(const std::optional<std::string>& storage_class);

  // Nothing while one for many readers is still going.
  absl::StatusOr<std::optional<Json>> EnsureClaim(const Json& content);
  absl::StatusOr<Exposure> LookAtClaim(const Json& content, const Json& claim);
  Exposure Ready();
  void ReadNodeAffinity(const Json& content);
  absl::StatusOr<Exposure> FallBackToOneReader(const Json& claim);

  const CallContext& ctx_;
  k8s::CachedReader api_;
  k8s::ApiClient& server_;  // for reads that must not be old
  const ExposeRequest& request_;
  Exposure exposure_;
  std::optional<Json> taken_source_;  // in this look
};

absl::StatusOr<Exposure> Exposer::Run() {
  ASSIGN_OR_RETURN(std::optional<Json> content, FindOwn(VolumeSnapshotContentKey(request_.name)));
  if (!content.has_value()) {
    ASSIGN_OR_RETURN(content, TakeOver());
    if (!content.has_value()) {
      return exposure_;
    }
  }
  RETURN_IF_ERROR(CheckOurs(*content));
  ReadContent(*content);
  RETURN_IF_ERROR(WriteHandle(*content));
  ASSIGN_OR_RETURN(const Json snapshot, EnsureSnapshot(*content));
  if (!ReadyToUse(snapshot)) {
    Wait(WithWords(absl::StrCat(ToString(OwnSnapshotKey(request_)), " to be ready to use"),
                   ErrorMessage(snapshot)));
    const absl::Time now = ctx_.clock->Now();
    exposure_.awaits_snapshot = now - k8s::CreatedAt(snapshot).value_or(now) >= kBindingTimeUsual;
    return exposure_;
  }
  if (request_.is_without_claim) {
    return Wait(absl::StrCat(ToString(OwnClaimKey(request_)), " to be made"));
  }
  ASSIGN_OR_RETURN(const std::optional<Json> claim, EnsureClaim(*content));
  return claim.has_value() ? LookAtClaim(*content, *claim)
                           : Wait("a claim for many readers to be gone");
}

absl::StatusOr<std::optional<Json>> Exposer::FindOwn(const k8s::ObjectKey& key) {
  return request_.cache != nullptr &&
                 request_.cache->Find(key).presence == k8s::ObjectCache::Presence::kAbsent
             ? std::optional<Json>()
             : k8s::Find(ctx_, api_, key);
}

absl::StatusOr<Json> Exposer::Make(const k8s::ObjectKey& key, const Json& object) {
  absl::StatusOr<Json> made = api_.Create(ctx_, key.type, key.namespace_name, object);
  return absl::IsAlreadyExists(made.status()) ? server_.Get(ctx_, key) : std::move(made);
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

absl::Status Exposer::RefuseBlock(absl::string_view why) const {
  return Refuse(
      absl::StrCat("cannot become a block device: ", why.substr(0, kForeignWordsBytesMax),
                   "; leave such volumes to the file-system backup with the volume policy rule ",
                   ExcludingPolicyRule(exposure_.driver)));
}

absl::StatusOr<std::optional<Json>> Exposer::ReadySource(const Json& source) {
  const std::string label = ToString(SourceKey(request_));
  const std::string content_name = BoundContentName(source);
  if (content_name.empty()) {
    AwaitSnapshot(WithWords(absl::StrCat(label, " to be bound"), ErrorMessage(source)));
    return std::optional<Json>();
  }
  ASSIGN_OR_RETURN(std::optional<Json> content,
                   k8s::Find(ctx_, api_, VolumeSnapshotContentKey(content_name)));
  if (!content.has_value() || k8s::BeingDeleted(*content)) {
    return Refuse(absl::StrCat("lost its VolumeSnapshotContent ", content_name));
  }
  if (GetString(*content, {"spec", "volumeSnapshotRef", "uid"}) != k8s::Uid(source)) {
    return Refuse(absl::StrCat("names the VolumeSnapshotContent ", content_name,
                               ", which belongs to another"));
  }
  exposure_.driver = GetString(*content, {"spec", "driver"});
  exposure_.cut_at = CutTime(*content);
  if (HasNoBlockDevices(exposure_.driver)) {
    return RefuseBlock("the driver serves file systems only");
  }
  ASSIGN_OR_RETURN(const auto typed, objects::VolumeSnapshot::Of(source));
  ASSIGN_OR_RETURN(const auto typed_content, objects::VolumeSnapshotContent::Of(*content));
  const SnapshotStatus status =
      StatusOf(typed, {.kind = ContentReading::Kind::kPresent, .content = &typed_content});
  if (!IsUsable(status.state) || HandleOf(*content).empty()) {
    AwaitSnapshot(WithWords(absl::StrCat(label, " to be ready to use"), ErrorMessage(source)));
    return std::optional<Json>();
  }
  return content;
}

absl::StatusOr<Json> Exposer::Retain(const Json& source, const Json& content) {
  ASSIGN_OR_RETURN(
      const Json retained,
      api_.Patch(ctx_, VolumeSnapshotContentKey(k8s::Name(content)), k8s::PatchKind::kMerge,
                 {{"spec", {{"deletionPolicy", "Retain"}}}}, ""));
  if (GetString(retained, {"spec", "deletionPolicy"}) != "Retain" ||
      GetString(retained, {"spec", "volumeSnapshotRef", "uid"}) != k8s::Uid(source) ||
      HandleOf(retained).empty()) {
    return Refuse(
        absl::StrCat("cannot be retained: VolumeSnapshotContent ", k8s::Name(content), " changed"));
  }
  return retained;
}

bool Exposer::AwaitsSource() {
  if (request_.cache == nullptr) {
    return false;
  }
  const k8s::ObjectCache::Answer source = request_.cache->Find(SourceKey(request_));
  const bool is_waiting = source.presence == k8s::ObjectCache::Presence::kFound &&
                          !k8s::BeingDeleted(source.object) && !ReadyToUse(source.object) &&
                          ErrorMessage(source.object).empty();
  if (is_waiting) {
    AwaitSnapshot(absl::StrCat(
        ToString(SourceKey(request_)),
        BoundContentName(source.object).empty() ? " to be bound" : " to be ready to use"));
  }
  return is_waiting;
}

absl::StatusOr<std::optional<Json>> Exposer::TakeOver() {
  if (AwaitsSource()) {
    return std::optional<Json>();
  }
  ASSIGN_OR_RETURN(const std::optional<Json> source, k8s::Find(ctx_, server_, SourceKey(request_)));
  if (!source.has_value() || k8s::BeingDeleted(*source)) {
    ASSIGN_OR_RETURN(std::optional<Json> taken_over,
                     k8s::Find(ctx_, server_, VolumeSnapshotContentKey(request_.name)));
    return taken_over.has_value()
               ? absl::StatusOr<std::optional<Json>>(std::move(taken_over))
               : Refuse("was deleted by somebody before it was taken over; back up again");
  }
  ASSIGN_OR_RETURN(const std::optional<Json> ready, ReadySource(*source));
  if (!ready.has_value()) {
    return ready;
  }
  ASSIGN_OR_RETURN(const Json retained, Retain(*source, *ready));
  ASSIGN_OR_RETURN(const Json content, MakeContent(*source, retained));
  absl::StatusOr<Json> made = Make(VolumeSnapshotContentKey(request_.name), content);
  RETURN_IF_ERROR(Annotate(made.status(), "take over the volume snapshot"));
  taken_source_ = source;
  return std::optional<Json>(*std::move(made));
}

absl::StatusOr<Json> Exposer::MakeContent(const Json& source, const Json& retained) {
  ASSIGN_OR_RETURN(const SourceClaim claim, ReadSourceClaim(ctx_, api_, source));
  ASSIGN_OR_RETURN(const k8s::ObjectList classes,
                   api_.List(ctx_, VolumeSnapshotClassType(), "", {}));
  const int64_t size_bytes = std::max({RestoreSizeBytes(retained).value_or(0), claim.size_bytes,
                                       QuantityAt(source, {"status", "restoreSize"})});
  if (size_bytes <= 0) {
    return Refuse("has no known size: neither its restoreSize nor its claim says it");
  }
  StaticContent content;
  content.name = request_.name;
  content.driver = exposure_.driver;
  content.handle = HandleOf(retained);
  content.snapshot_namespace = request_.mover_namespace;
  content.snapshot_name = request_.name;
  content.deletion_policy = "Retain";
  content.class_name = ClassOfDriver(classes.items, content.driver,
                                     GetString(retained, {"spec", "volumeSnapshotClassName"}));
  content.labels = request_.labels;
  content.labels.merge(MovedGroupLabels(retained));
  if (const std::string node = k8s::Label(retained, objects::kManagedByLabel); !node.empty()) {
    content.labels.emplace(objects::kManagedByLabel, node);
  }
  content.annotations = DeletionSecretAnnotations(retained);
  content.annotations.merge(MovedGroupAnnotations(retained));
  content.annotations.insert(request_.annotations.begin(), request_.annotations.end());
  content.annotations.emplace(objects::kModeChangeAnnotation, "true");
  content.annotations.emplace(objects::kSourceUidAnnotation, k8s::Uid(source));
  content.annotations.emplace(objects::kSourceSizeAnnotation, absl::StrCat(size_bytes));
  content.annotations.emplace(objects::kSourceStorageClassAnnotation, claim.storage_class);
  if (!claim.node_affinity.selects_all()) {
    content.annotations.emplace(objects::kSourceNodeAffinityAnnotation,
                                claim.node_affinity.ToText());
  }
  if (exposure_.cut_at.has_value()) {
    content.annotations.emplace(objects::kMoverTakenAtAnnotation, FormatRfc3339(*exposure_.cut_at));
  }
  content.annotations.emplace(objects::kMoverReadyAtAnnotation,
                              FormatRfc3339(ReadyTime(source).value_or(ctx_.clock->Now())));
  // The snapshot controller adds it once it has bound the content; until then, too, nothing may
  // vanish with the driver's snapshot left behind.
  content.finalizers = {objects::kContentBoundProtectionFinalizer};
  return MakeStaticContent(content);
}

absl::Status Exposer::CheckOurs(const Json& content) const {
  if (!HasLabels(content, request_.labels) ||
      GetString(content, {"spec", "volumeSnapshotRef", "namespace"}) != request_.mover_namespace ||
      GetString(content, {"spec", "volumeSnapshotRef", "name"}) != request_.name) {
    return Refuse(absl::StrCat("cannot be taken over: VolumeSnapshotContent ", request_.name,
                               " is somebody else's"));
  }
  return k8s::BeingDeleted(content)
             ? Refuse(absl::StrCat("is being dropped with VolumeSnapshotContent ", request_.name))
             : absl::OkStatus();
}

void Exposer::ReadContent(const Json& content) {
  exposure_.driver = GetString(content, {"spec", "driver"});
  exposure_.snapshot_handle = HandleOf(content);
  exposure_.cut_at = ParseRfc3339(k8s::Annotation(content, objects::kMoverTakenAtAnnotation));
  exposure_.ready_at = ParseRfc3339(k8s::Annotation(content, objects::kMoverReadyAtAnnotation));
  exposure_.group = ReadMovedGroup(content);
  exposure_.storage_class = request_.storage_class.empty()
                                ? k8s::Annotation(content, objects::kSourceStorageClassAnnotation)
                                : request_.storage_class;
  if (!absl::SimpleAtoi(k8s::Annotation(content, objects::kSourceSizeAnnotation),
                        &exposure_.size_bytes)) {
    exposure_.size_bytes = 0;
  }
}

absl::Status Exposer::WriteHandle(const Json& content) {
  if (!SnapshotHandle(content).empty()) {
    return absl::OkStatus();
  }
  Json status = {{"snapshotHandle", exposure_.snapshot_handle}};
  if (exposure_.cut_at.has_value()) {
    status["creationTime"] = absl::ToUnixNanos(*exposure_.cut_at);
  }
  return api_
      .Patch(ctx_, VolumeSnapshotContentKey(request_.name), k8s::PatchKind::kMerge,
             {{"status", status}}, "status")
      .status();
}

absl::StatusOr<Json> Exposer::EnsureSnapshot(const Json& content) {
  const k8s::ObjectKey key = OwnSnapshotKey(request_);
  ASSIGN_OR_RETURN(std::optional<Json> found, FindOwn(key));
  if (!found.has_value()) {
    RETURN_IF_ERROR(ForgetSource(content));
    ASSIGN_OR_RETURN(found, Make(key, SnapshotOf(content)));
  }
  if (k8s::BeingDeleted(*found) || !HasLabels(*found, request_.labels)) {
    return Refuse(
        absl::StrCat("cannot be used: ", ToString(key), " is being deleted, or somebody else's"));
  }
  return *std::move(found);
}

Json Exposer::SnapshotOf(const Json& content) const {
  Json snapshot = {{"apiVersion", "snapshot.storage.k8s.io/v1"},
                   {"kind", "VolumeSnapshot"},
                   {"metadata", MetadataOf(request_)}};
  SetJson(snapshot, {"spec", "source", "volumeSnapshotContentName"}, request_.name);
  // Without its class here a driver's metadata service refuses it.
  if (const std::string name = GetString(content, {"spec", "volumeSnapshotClassName"});
      !name.empty()) {
    SetJson(snapshot, {"spec", "volumeSnapshotClassName"}, name);
  }
  return snapshot;
}

absl::Status Exposer::ForgetSource(const Json& content) {
  std::optional<Json> source = taken_source_;
  if (!source.has_value()) {
    ASSIGN_OR_RETURN(source, k8s::Find(ctx_, server_, SourceKey(request_)));
  }
  if (!source.has_value() ||
      k8s::Uid(*source) != k8s::Annotation(content, objects::kSourceUidAnnotation) ||
      k8s::BeingDeleted(*source)) {
    return absl::OkStatus();
  }
  return RetainAndForget(ctx_, api_, *source);
}

Json Exposer::MakeClaim(bool read_only_many) const {
  Json claim = {
      {"apiVersion", "v1"}, {"kind", "PersistentVolumeClaim"}, {"metadata", MetadataOf(request_)}};
  if (!request_.source_claim.empty()) {
    claim["metadata"]["annotations"] = {
        {objects::kMoverClaimNamespaceAnnotation, request_.source_namespace},
        {objects::kMoverClaimAnnotation, request_.source_claim}};
  }
  Json& spec = claim["spec"];
  spec["accessModes"] = Json::array({read_only_many ? "ReadOnlyMany" : "ReadWriteOnce"});
  spec["volumeMode"] = "Block";
  spec["dataSource"] = {
      {"apiGroup", "snapshot.storage.k8s.io"}, {"kind", "VolumeSnapshot"}, {"name", request_.name}};
  SetJson(spec, {"resources", "requests", "storage"}, absl::StrCat(exposure_.size_bytes));
  if (!exposure_.storage_class.empty()) {
    spec["storageClassName"] = exposure_.storage_class;
  }
  return claim;
}

absl::Status Exposer::RequireClass(const std::optional<std::string>& storage_class) {
  constexpr char kCure[] =
      "; name one of its driver as intermediateClass in the data mover's settings";
  if (!storage_class.has_value()) {
    return Refuse(
        "cannot be read: its claim has no storage class, and there is no default class; make one "
        "of its driver the default");
  }
  ASSIGN_OR_RETURN(const ClassFit fit, FitOfClass(ctx_, api_, storage_class, exposure_.driver));
  return fit.kind == ClassFit::Kind::kFits
             ? absl::OkStatus()
             : Refuse(absl::StrCat("cannot be read: ", fit.text, kCure));
}

absl::StatusOr<std::optional<Json>> Exposer::EnsureClaim(const Json& content) {
  const k8s::ObjectKey key = OwnClaimKey(request_);
  ASSIGN_OR_RETURN(std::optional<Json> found, FindOwn(key));
  if (!found.has_value()) {
    if (!exposure_.storage_class.empty()) {
      RETURN_IF_ERROR(RequireClass(exposure_.storage_class));
    }
    const bool read_only_many = request_.read_only_many &&
                                k8s::Annotation(content, objects::kReadOnlyManyAnnotation).empty();
    ASSIGN_OR_RETURN(found, Make(key, MakeClaim(read_only_many)));
  }
  if (!HasLabels(*found, request_.labels)) {
    return Refuse(absl::StrCat("cannot be used: ", ToString(key), " is somebody else's"));
  }
  return k8s::BeingDeleted(*found) ? std::optional<Json>() : found;
}

absl::StatusOr<Exposure> Exposer::LookAtClaim(const Json& content, const Json& claim) {
  const std::string phase = GetString(claim, {"status", "phase"});
  if (phase == "Lost") {
    return Refuse(
        absl::StrCat("lost the volume that ", ToString(OwnClaimKey(request_)), " was filled with"));
  }
  if (exposure_.storage_class.empty()) {
    RETURN_IF_ERROR(RequireClass(StorageClassOf(claim)));
    exposure_.storage_class = StorageClassOf(claim).value_or("");
  }
  ASSIGN_OR_RETURN(const bool waits_for_pod,
                   WaitsForFirstConsumer(ctx_, api_, exposure_.storage_class));
  if (waits_for_pod) {
    ReadNodeAffinity(content);
  }
  if (phase == "Bound") {
    ASSIGN_OR_RETURN(const std::string foreign,
                     WhyVolumeIsForeign(ctx_, api_, claim, exposure_.driver));
    return foreign.empty()
               ? absl::StatusOr<Exposure>(Ready())
               : Refuse(absl::StrCat("cannot be read: ", ToString(OwnClaimKey(request_)),
                                     " was bound to what is not the snapshot: ", foreign));
  }
  ASSIGN_OR_RETURN(const std::string refusal, LastProvisioningError(ctx_, api_, claim));
  if (!refusal.empty() && FindJson(claim, {"spec", "accessModes"}) != nullptr &&
      claim["spec"]["accessModes"] == Json::array({"ReadOnlyMany"})) {
    return FallBackToOneReader(claim);
  }
  if (IsDefiniteRefusal(refusal)) {
    return RefuseBlock(refusal);
  }
  return waits_for_pod ? Ready()
                       : Wait(WithWords(absl::StrCat(ToString(OwnClaimKey(request_)),
                                                     " to be filled from the volume snapshot"),
                                        refusal));
}

Exposure Exposer::Ready() {
  exposure_.state = Exposure::State::kReady;
  return exposure_;
}

void Exposer::ReadNodeAffinity(const Json& content) {
  exposure_.node_affinity =
      objects::NodeSelector::Parse(k8s::Annotation(content, objects::kSourceNodeAffinityAnnotation))
          .value_or(objects::NodeSelector());
}

absl::StatusOr<Exposure> Exposer::FallBackToOneReader(const Json& claim) {
  Json mark;
  SetJson(mark, {"metadata", "annotations", objects::kReadOnlyManyAnnotation}, "refused");
  RETURN_IF_ERROR(
      api_.Patch(ctx_, VolumeSnapshotContentKey(request_.name), k8s::PatchKind::kMerge, mark, "")
          .status());
  RETURN_IF_ERROR(k8s::IgnoreNotFound(
      api_.Delete(ctx_, OwnClaimKey(request_), {.uid = k8s::Uid(claim), .resource_version = ""})));
  return Wait("a claim for many readers to be gone");
}

// --- Removing

// A class may say that its volumes are kept when their claims go; what is made to be read once is
// not.
absl::Status LetVolumeGo(const CallContext& ctx, k8s::ApiClient& api, const Json& claim) {
  const std::string volume_name = GetString(claim, {"spec", "volumeName"});
  if (volume_name.empty()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::optional<Json> volume, k8s::Find(ctx, api, VolumeKey(volume_name)));
  if (!volume.has_value() || GetString(*volume, {"spec", "claimRef", "uid"}) != k8s::Uid(claim) ||
      GetString(*volume, {"spec", "persistentVolumeReclaimPolicy"}) == "Delete") {
    return absl::OkStatus();
  }
  return k8s::IgnoreNotFound(api.Patch(ctx, VolumeKey(volume_name), k8s::PatchKind::kMerge,
                                       {{"spec", {{"persistentVolumeReclaimPolicy", "Delete"}}}},
                                       "")
                                 .status());
}

absl::Status RemoveClaim(const CallContext& ctx, k8s::ApiClient& api,
                         const ExposeRequest& request) {
  ASSIGN_OR_RETURN(const std::optional<Json> claim, k8s::Find(ctx, api, OwnClaimKey(request)));
  if (!claim.has_value() || !HasLabels(*claim, request.labels)) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(LetVolumeGo(ctx, api, *claim));
  if (k8s::BeingDeleted(*claim)) {
    return absl::OkStatus();
  }
  return k8s::IgnoreNotFound(
      api.Delete(ctx, OwnClaimKey(request), {.uid = k8s::Uid(*claim), .resource_version = ""}));
}

// Whether it was there.
absl::StatusOr<bool> RemoveOwnSnapshot(const CallContext& ctx, k8s::ApiClient& api,
                                       const ExposeRequest& request) {
  ASSIGN_OR_RETURN(const std::optional<Json> snapshot,
                   k8s::Find(ctx, api, OwnSnapshotKey(request)));
  if (!snapshot.has_value() || !HasLabels(*snapshot, request.labels)) {
    return false;
  }
  if (!k8s::BeingDeleted(*snapshot)) {
    RETURN_IF_ERROR(k8s::IgnoreNotFound(api.Delete(
        ctx, OwnSnapshotKey(request), {.uid = k8s::Uid(*snapshot), .resource_version = ""})));
  }
  return true;
}

// `content`: that took the source over, if one did.
absl::Status RemoveSource(const CallContext& ctx, k8s::ApiClient& api, const ExposeRequest& request,
                          const std::optional<Json>& content, SnapshotFate fate) {
  ASSIGN_OR_RETURN(const std::optional<Json> source, k8s::Find(ctx, api, SourceKey(request)));
  if (!source.has_value()) {
    return absl::OkStatus();
  }
  if (content.has_value() &&
      k8s::Annotation(*content, objects::kSourceUidAnnotation) == k8s::Uid(*source)) {
    return k8s::BeingDeleted(*source) ? absl::OkStatus() : RetainAndForget(ctx, api, *source);
  }
  return fate == SnapshotFate::kDelete && !content.has_value()
             ? RemoveSnapshot(ctx, api, SourceKey(request), k8s::Uid(*source))
             : absl::OkStatus();
}

}  // namespace

absl::StatusOr<Exposure> ExposeSnapshot(const CallContext& ctx, k8s::ApiClient& api,
                                        const ExposeRequest& request) {
  if (request.name.empty() || request.source_namespace.empty() || request.source_snapshot.empty() ||
      request.mover_namespace.empty()) {
    return absl::InvalidArgumentError("no volume snapshot is named that could be read");
  }
  return Exposer(ctx, api, request).Run();
}

k8s::FollowedObjects SourceSnapshots() {
  return {.type = VolumeSnapshotType(),
          .namespace_name = "",
          .label_selector = objects::kCsiDeltaLabel};
}

absl::Status RemoveExposure(const CallContext& ctx, k8s::ApiClient& server,
                            const ExposeRequest& request, SnapshotFate fate) {
  k8s::CachedReader api(server, request.cache);
  RETURN_IF_ERROR(RemoveClaim(ctx, api, request));
  ASSIGN_OR_RETURN(const bool had_snapshot, RemoveOwnSnapshot(ctx, api, request));
  ASSIGN_OR_RETURN(std::optional<Json> content,
                   k8s::Find(ctx, api, VolumeSnapshotContentKey(request.name)));
  if (content.has_value() && !HasLabels(*content, request.labels)) {
    content.reset();
  }
  // A source that was taken over went before the snapshot of our own was made.
  const bool is_source_gone = had_snapshot && content.has_value();
  if (!request.source_snapshot.empty() && !is_source_gone) {
    RETURN_IF_ERROR(RemoveSource(ctx, api, request, content, fate));
  }
  if (fate == SnapshotFate::kDelete && content.has_value() && !k8s::BeingDeleted(*content)) {
    return DropWithSnapshot(ctx, api, *content);
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
