#include "snapshots/static_pair.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/drop.h"
#include "csi/retry.h"
#include "csi/static_content.h"
#include "k8s/api_client.h"
#include "objects/client.h"
#include "objects/keys.h"

namespace csidelta::snapshots {
namespace {

using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

constexpr char kPairMadeBy[] = "csi-delta";
constexpr char kDeletePolicy[] = "Delete";

k8s::ObjectKey PairContentKey(const StaticPair& pair) {
  return VolumeSnapshotContent::Key("", pair.content_name);
}

k8s::ObjectKey PairSnapshotKey(const StaticPair& pair) {
  return VolumeSnapshot::Key(pair.namespace_name, pair.snapshot_name);
}

VolumeSnapshotContent PairContentObject(const StaticPair& pair) {
  std::map<std::string, std::string> labels = pair.content_labels;
  labels[objects::kMadeByLabel] = kPairMadeBy;
  if (!pair.is_retained) {
    labels[objects::kImportPolicyLabel] = kDeletePolicy;
  }
  VolumeSnapshotContent content = csi::MakeStaticContent({.name = pair.content_name,
                                                          .driver = pair.driver,
                                                          .handle = pair.handle,
                                                          .snapshot_namespace = pair.namespace_name,
                                                          .snapshot_name = pair.snapshot_name,
                                                          .class_name = pair.class_name,
                                                          .labels = std::move(labels),
                                                          .annotations = pair.content_annotations});
  if (pair.mode.has_value()) {
    content.SetSourceMode(*pair.mode);
  }
  return content;
}

VolumeSnapshot PairSnapshotObject(const StaticPair& pair) {
  auto snapshot = VolumeSnapshot::Make(pair.namespace_name, pair.snapshot_name);
  snapshot.SetLabel(objects::kMadeByLabel, kPairMadeBy);
  snapshot.SetSourceContent(pair.content_name);
  if (!pair.class_name.empty()) {
    snapshot.SetClassName(pair.class_name);
  }
  return snapshot;
}

absl::StatusOr<std::optional<VolumeSnapshotContent>> FindPairContent(const CallContext& ctx,
                                                                     k8s::ApiClient& api,
                                                                     const StaticPair& pair) {
  return objects::Find<VolumeSnapshotContent>(ctx, api, PairContentKey(pair));
}

absl::StatusOr<std::optional<VolumeSnapshot>> FindPairSnapshot(const CallContext& ctx,
                                                               k8s::ApiClient& api,
                                                               const StaticPair& pair) {
  return objects::Find<VolumeSnapshot>(ctx, api, PairSnapshotKey(pair));
}

absl::Status EnsurePairContent(const CallContext& ctx, k8s::ApiClient& api,
                               const StaticPair& pair) {
  const absl::Status made = objects::Create(ctx, api, PairContentObject(pair)).status();
  if (!absl::IsAlreadyExists(made)) {
    return made;
  }
  ASSIGN_OR_RETURN(const std::optional<VolumeSnapshotContent> there,
                   FindPairContent(ctx, api, pair));
  if (!there.has_value()) {
    return absl::AbortedError(
        absl::StrCat("VolumeSnapshotContent ", pair.content_name, " went while it was looked at"));
  }
  return IsContentOf(*there, pair) ? absl::OkStatus()
                                   : absl::AlreadyExistsError(absl::StrCat(
                                         TakenText(*there), "; use that one, or remove it first"));
}

absl::StatusOr<VolumeSnapshot> EnsurePairSnapshot(const CallContext& ctx, k8s::ApiClient& api,
                                                  const StaticPair& pair) {
  absl::StatusOr<VolumeSnapshot> made = objects::Create(ctx, api, PairSnapshotObject(pair));
  if (!absl::IsAlreadyExists(made.status())) {
    return made;
  }
  ASSIGN_OR_RETURN(std::optional<VolumeSnapshot> there, FindPairSnapshot(ctx, api, pair));
  const std::string text =
      absl::StrCat("VolumeSnapshot ", pair.namespace_name, "/", pair.snapshot_name);
  if (!there.has_value()) {
    return absl::AbortedError(absl::StrCat(text, " went while it was looked at"));
  }
  if (!IsSnapshotOf(*there, pair)) {
    return absl::AlreadyExistsError(absl::StrCat(text, " exists already; give another name"));
  }
  return *std::move(there);
}

// Takes the content away again. REQUIRES that the pair has no VolumeSnapshot.
absl::Status RemovePairContent(const CallContext& ctx, k8s::ApiClient& api,
                               const StaticPair& pair) {
  ASSIGN_OR_RETURN(const std::optional<VolumeSnapshotContent> content,
                   FindPairContent(ctx, api, pair));
  if (!content.has_value() || !IsContentOf(*content, pair)) {
    return absl::OkStatus();
  }
  return csi::DropContent(ctx, api, csi::IdOf(*content), std::nullopt, csi::Data::kRetain);
}

absl::Status TryRemovePair(const CallContext& ctx, k8s::ApiClient& api, const StaticPair& pair) {
  RETURN_IF_ERROR(RemovePairContent(ctx, api, pair));
  ASSIGN_OR_RETURN(const std::optional<VolumeSnapshot> snapshot, FindPairSnapshot(ctx, api, pair));
  if (!snapshot.has_value() || !IsSnapshotOf(*snapshot, pair)) {
    return absl::OkStatus();
  }
  return k8s::IgnoreGone(api.Delete(ctx, PairSnapshotKey(pair), {.uid = snapshot->uid()}));
}

// After a VolumeSnapshot could not be made: its content goes. Where the answer was lost it may be
// there nevertheless; the two then stay together.
absl::Status UndoPairContent(const CallContext& ctx, k8s::ApiClient& api, const StaticPair& pair,
                             const absl::Status& status) {
  const CallContext cleaning = csi::CleanUpContext(*ctx.clock);
  const absl::StatusOr<std::optional<VolumeSnapshot>> there = FindPairSnapshot(cleaning, api, pair);
  const bool is_made = !there.ok() || (there->has_value() && IsSnapshotOf(**there, pair));
  const absl::Status removed =
      is_made
          ? absl::UnknownError("it may be in use")
          : csi::RetryTransient(cleaning, [&] { return RemovePairContent(cleaning, api, pair); });
  return absl::Status(
      status.code(),
      removed.ok()
          ? absl::StrCat(status.message(), "; what was made is deleted again")
          : absl::StrCat(status.message(), "; VolumeSnapshotContent ", pair.content_name,
                         " stays (", removed.message(), "): run it again with the same arguments"));
}

}  // namespace

StaticPair PairBeside(const VolumeSnapshotContent& content) {
  csi::StaticContent beside = csi::ContentBeside(content);
  if (content.allows_mode_change()) {
    beside.annotations[objects::kModeChangeAnnotation] = "true";
  }
  return {.content_name = "",
          .driver = std::move(beside.driver),
          .handle = std::move(beside.handle),
          .namespace_name = "",
          .snapshot_name = "",
          .class_name = std::move(beside.class_name),
          .mode = content.source_mode(),
          .content_labels = std::move(beside.labels),
          .content_annotations = std::move(beside.annotations)};
}

bool IsContentOf(const VolumeSnapshotContent& content, const StaticPair& pair) {
  return !content.is_being_deleted() && content.name() == pair.content_name &&
         content.Label(objects::kMadeByLabel) == kPairMadeBy && content.driver() == pair.driver &&
         content.source_handle() == pair.handle &&
         content.snapshot_namespace() == pair.namespace_name &&
         content.snapshot_name() == pair.snapshot_name && content.class_name() == pair.class_name &&
         content.source_mode() == pair.mode &&
         (content.Label(objects::kImportPolicyLabel) == kDeletePolicy) == !pair.is_retained;
}

bool IsSnapshotOf(const VolumeSnapshot& snapshot, const StaticPair& pair) {
  return !snapshot.is_being_deleted() && snapshot.namespace_name() == pair.namespace_name &&
         snapshot.name() == pair.snapshot_name &&
         snapshot.Label(objects::kMadeByLabel) == kPairMadeBy &&
         snapshot.source_content() == pair.content_name;
}

std::string TakenText(const VolumeSnapshotContent& content) {
  return absl::StrCat("handle ", content.handle_or_source(), " of driver ", content.driver(),
                      " already has VolumeSnapshotContent ", content.name(),
                      content.is_being_deleted() ? ", which is being deleted," : ",",
                      " of VolumeSnapshot ", content.snapshot_namespace(), "/",
                      content.snapshot_name());
}

absl::StatusOr<VolumeSnapshot> MakePair(const CallContext& ctx, k8s::ApiClient& api,
                                        const StaticPair& pair) {
  RETURN_IF_ERROR(csi::RetryTransient(ctx, [&] { return EnsurePairContent(ctx, api, pair); }));
  absl::StatusOr<VolumeSnapshot> snapshot =
      csi::RetryTransient(ctx, [&] { return EnsurePairSnapshot(ctx, api, pair); });
  if (!snapshot.ok()) {
    return UndoPairContent(ctx, api, pair, snapshot.status());
  }
  return snapshot;
}

absl::Status RetainNoMore(const CallContext& ctx, k8s::ApiClient& api, const StaticPair& pair) {
  const auto set = csi::RetryTransient(
      ctx, [&] { return csi::SetPolicy(ctx, api, PairContentKey(pair), csi::Data::kDelete); });
  const absl::Status status =
      set.ok() && !set->has_value() ? absl::NotFoundError("it is gone") : set.status();
  return Annotate(status, absl::StrCat("VolumeSnapshotContent ", pair.content_name,
                                       " keeps the policy Retain"));
}

absl::Status RemovePair(const CallContext& ctx, k8s::ApiClient& api, const StaticPair& pair) {
  return csi::RetryTransient(ctx, [&] { return TryRemovePair(ctx, api, pair); });
}

}  // namespace csidelta::snapshots
