#include "snapshots/static_pair.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "csi/drop.h"
#include "csi/retry.h"
#include "objects/client.h"
#include "objects/keys.h"

namespace csidelta::snapshots {
namespace {

using csi::StaticContent;
using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

constexpr char kPairMadeBy[] = "csi-delta";
constexpr char kDeletePolicy[] = "Delete";

k8s::ObjectKey PairContentKey(const StaticContent& pair) {
  return VolumeSnapshotContent::Key("", pair.name);
}

k8s::ObjectKey PairSnapshotKey(const StaticContent& pair) {
  return VolumeSnapshot::Key(pair.snapshot_namespace, pair.snapshot_name);
}

VolumeSnapshotContent PairContentObject(StaticContent pair) {
  pair.labels[objects::kMadeByLabel] = kPairMadeBy;
  if (pair.deletion_policy == kDeletePolicy) {
    pair.labels[objects::kImportPolicyLabel] = kDeletePolicy;
  }
  pair.deletion_policy = "Retain";
  return csi::MakeStaticContent(pair);
}

VolumeSnapshot PairSnapshotObject(const StaticContent& pair) {
  auto snapshot = VolumeSnapshot::Make(pair.snapshot_namespace, pair.snapshot_name);
  snapshot.SetLabel(objects::kMadeByLabel, kPairMadeBy);
  snapshot.SetSourceContent(pair.name);
  if (!pair.class_name.empty()) {
    snapshot.SetClassName(pair.class_name);
  }
  return snapshot;
}

absl::Status EnsurePairContent(const CallContext& ctx, k8s::ApiClient& api,
                               const StaticContent& pair) {
  const absl::Status made = objects::Create(ctx, api, PairContentObject(pair)).status();
  if (!absl::IsAlreadyExists(made)) {
    return made;
  }
  ASSIGN_OR_RETURN(const auto there,
                   objects::Find<VolumeSnapshotContent>(ctx, api, PairContentKey(pair)));
  if (!there.has_value()) {
    return absl::AbortedError(
        absl::StrCat("VolumeSnapshotContent ", pair.name, " went while it was looked at"));
  }
  return IsContentOf(*there, pair) ? absl::OkStatus()
                                   : absl::AlreadyExistsError(absl::StrCat(
                                         TakenText(*there), "; use that one, or remove it first"));
}

absl::StatusOr<VolumeSnapshot> EnsurePairSnapshot(const CallContext& ctx, k8s::ApiClient& api,
                                                  const StaticContent& pair) {
  absl::StatusOr<VolumeSnapshot> made = objects::Create(ctx, api, PairSnapshotObject(pair));
  if (!absl::IsAlreadyExists(made.status())) {
    return made;
  }
  ASSIGN_OR_RETURN(auto there, objects::Find<VolumeSnapshot>(ctx, api, PairSnapshotKey(pair)));
  const std::string text =
      absl::StrCat("VolumeSnapshot ", pair.snapshot_namespace, "/", pair.snapshot_name);
  if (!there.has_value()) {
    return absl::AbortedError(absl::StrCat(text, " went while it was looked at"));
  }
  if (!IsSnapshotOf(*there, pair)) {
    return absl::AlreadyExistsError(absl::StrCat(text, " exists already; give another name"));
  }
  return *std::move(there);
}

// Deletes the content again. REQUIRES that the pair has no VolumeSnapshot.
absl::Status RemovePairContent(const CallContext& ctx, k8s::ApiClient& api,
                               const StaticContent& pair) {
  ASSIGN_OR_RETURN(const auto content,
                   objects::Find<VolumeSnapshotContent>(ctx, api, PairContentKey(pair)));
  if (!content.has_value() || !IsContentOf(*content, pair)) {
    return absl::OkStatus();
  }
  return csi::DropContent(ctx, api, csi::IdOf(*content), std::nullopt, csi::Data::kRetain);
}

absl::Status TryRemovePair(const CallContext& ctx, k8s::ApiClient& api, const StaticContent& pair) {
  RETURN_IF_ERROR(RemovePairContent(ctx, api, pair));
  ASSIGN_OR_RETURN(const auto snapshot,
                   objects::Find<VolumeSnapshot>(ctx, api, PairSnapshotKey(pair)));
  if (!snapshot.has_value() || !IsSnapshotOf(*snapshot, pair)) {
    return absl::OkStatus();
  }
  return csi::DeleteObject(ctx, api, csi::IdOf(*snapshot));
}

// Deletes the content after its VolumeSnapshot could not be made. If the answer was lost, the
// VolumeSnapshot may exist nevertheless; then both stay.
absl::Status UndoPairContent(const CallContext& ctx, k8s::ApiClient& api, const StaticContent& pair,
                             const absl::Status& status) {
  CSIDELTA_CHECK(!status.ok());  // Else it would delete the content of a complete pair.
  const CallContext cleaning = csi::CleanUpContext(*ctx.clock);
  const auto there = objects::Find<VolumeSnapshot>(cleaning, api, PairSnapshotKey(pair));
  const bool is_made = !there.ok() || (there->has_value() && IsSnapshotOf(**there, pair));
  const absl::Status removed =
      is_made
          ? absl::UnknownError("it may be in use")
          : csi::RetryTransient(cleaning, [&] { return RemovePairContent(cleaning, api, pair); });
  return csi::WithMore(
      status, removed.ok()
                  ? "; what was made is deleted again"
                  : absl::StrCat("; VolumeSnapshotContent ", pair.name, " stays (",
                                 removed.message(), "): run it again with the same arguments"));
}

}  // namespace

bool IsContentOf(const VolumeSnapshotContent& content, const StaticContent& pair) {
  return !content.is_being_deleted() && content.name() == pair.name &&
         content.Label(objects::kMadeByLabel) == kPairMadeBy && content.driver() == pair.driver &&
         content.source_handle() == pair.handle &&
         content.snapshot_namespace() == pair.snapshot_namespace &&
         content.snapshot_name() == pair.snapshot_name && content.class_name() == pair.class_name &&
         content.source_mode() == pair.mode &&
         (content.Label(objects::kImportPolicyLabel) == kDeletePolicy) ==
             (pair.deletion_policy == kDeletePolicy);
}

bool IsSnapshotOf(const VolumeSnapshot& snapshot, const StaticContent& pair) {
  return !snapshot.is_being_deleted() && snapshot.namespace_name() == pair.snapshot_namespace &&
         snapshot.name() == pair.snapshot_name &&
         snapshot.Label(objects::kMadeByLabel) == kPairMadeBy &&
         snapshot.source_content() == pair.name;
}

std::string TakenText(const VolumeSnapshotContent& content) {
  return absl::StrCat("handle ", content.handle_or_source(), " of driver ", content.driver(),
                      " already has VolumeSnapshotContent ", content.name(),
                      content.is_being_deleted() ? ", which is being deleted," : ",",
                      " of VolumeSnapshot ", content.snapshot_namespace(), "/",
                      content.snapshot_name());
}

absl::StatusOr<VolumeSnapshot> MakePair(const CallContext& ctx, k8s::ApiClient& api,
                                        const StaticContent& pair) {
  CSIDELTA_CHECK(!pair.name.empty() && !pair.snapshot_name.empty());
  RETURN_IF_ERROR(csi::RetryTransient(ctx, [&] { return EnsurePairContent(ctx, api, pair); }));
  absl::StatusOr<VolumeSnapshot> snapshot =
      csi::RetryTransient(ctx, [&] { return EnsurePairSnapshot(ctx, api, pair); });
  if (!snapshot.ok()) {
    return UndoPairContent(ctx, api, pair, snapshot.status());
  }
  return snapshot;
}

absl::Status RetainNoMore(const CallContext& ctx, k8s::ApiClient& api, const StaticContent& pair) {
  CSIDELTA_CHECK(pair.deletion_policy == kDeletePolicy);  // Else the storage is to keep it.
  const auto set = csi::RetryTransient(
      ctx, [&] { return csi::SetPolicy(ctx, api, PairContentKey(pair), csi::Data::kDelete); });
  const absl::Status status =
      set.ok() && !set->has_value() ? absl::NotFoundError("it is gone") : set.status();
  return Annotate(status,
                  absl::StrCat("VolumeSnapshotContent ", pair.name, " keeps the policy Retain"));
}

absl::Status RemovePair(const CallContext& ctx, k8s::ApiClient& api, const StaticContent& pair) {
  return csi::RetryTransient(ctx, [&] { return TryRemovePair(ctx, api, pair); });
}

}  // namespace csidelta::snapshots
