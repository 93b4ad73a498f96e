#include "csi/kept_snapshots.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "csi/content_deletion.h"
#include "csi/driver_error.h"
#include "csi/snapshot_need.h"
#include "csi/static_content.h"
#include "longhorn/native_snapshot.h"
#include "longhorn/types.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/volume_group_snapshot.h"

namespace csidelta::csi {
namespace {

using objects::VolumeSnapshotContent;

constexpr char kFirst[] = "first";
constexpr char kLater[] = "later";
constexpr char kLast[] = "last";
constexpr absl::Duration kShownAge = absl::Minutes(30);  // or older: the driver showed it

std::string KeptName(const StaticContent& content, bool is_second) {
  return absl::StrCat("csi-delta-kept-", DigestOfHandle(content.driver, content.handle),
                      is_second ? "-b" : "-a");
}

std::string StateOf(const VolumeSnapshotContent& record, const std::string& label,
                    const std::string& error) {
  if (record.driver() == kNativeDriver) {
    return label == kFirst || label == kLater || label == kLast ? kKeptUnchecked : label;
  }
  if (!error.empty()) {
    return ReportsMissingSnapshot(error) ? kKeptGone : kKeptUnknown;
  }
  if (!record.is_ready()) {
    return record.handle().empty() ? kKeptUnchecked : kKeptNotReady;
  }
  const absl::Time asked_at = record.created_at().value_or(absl::InfinitePast());
  const bool is_shown = record.restore_size_bytes().has_value() ||
                        record.taken_at().value_or(asked_at) < asked_at - kShownAge;
  if (is_shown) {
    return label == kLast ? kKeptLeft : kKeptPresent;
  }
  return label == kFirst ? kKeptUnchecked : kKeptUnlisted;
}

// Whether it is a member of a group that is moved, or has gone.
absl::StatusOr<bool> IsToBeMoved(const CallContext& ctx, k8s::ApiClient& api,
                                 const objects::VolumeSnapshot& snapshot) {
  const auto owner = snapshot.group_owner();
  if (!owner.has_value()) {
    return false;
  }
  ASSIGN_OR_RETURN(const auto groups, objects::ListGroupKind<objects::VolumeGroupSnapshot>(
                                          ctx, api, snapshot.namespace_name()));
  return std::none_of(groups.begin(), groups.end(), [&](const auto& group) {
    return group.uid() == owner->uid &&
           group.Annotation(objects::kGroupToBeMovedAnnotation) != "true";
  });
}

// Restored contents have the label too, and temporary ones, which nothing is bound to. A moved
// group goes once its data is in the repository.
absl::StatusOr<std::optional<StaticContent>> FindInContent(const CallContext& ctx,
                                                           k8s::ApiClient& api,
                                                           const VolumeSnapshotContent& content,
                                                           FindKeeper find_keeper) {
  if (!content.is_ready() || content.snapshot_uid().empty() || IsRestored(content) ||
      content.HasLabel(objects::kMovedGroupLabel)) {
    return std::nullopt;
  }
  ASSIGN_OR_RETURN(const auto snapshot, FindSnapshotOf(ctx, api, content));
  if (!snapshot.has_value() || !snapshot->Annotation(objects::kMemberClaimAnnotation).empty()) {
    return std::nullopt;
  }
  std::string keeper = snapshot->Label(objects::kCsiDeltaLabel);
  if (const std::string backup = snapshot->Label(objects::kBackupNameLabel);
      keeper.empty() && !backup.empty() && !snapshot->source_pvc().empty()) {
    ASSIGN_OR_RETURN(keeper, find_keeper(backup));
  }
  ASSIGN_OR_RETURN(const bool is_to_be_moved, IsToBeMoved(ctx, api, *snapshot));
  if (is_to_be_moved || keeper.empty()) {
    return std::nullopt;
  }
  StaticContent found = ContentBeside(content);
  found.labels[objects::kMoverVeleroNamespaceLabel] = keeper;
  found.annotations = {{objects::kMemberClaimAnnotation,
                        absl::StrCat(snapshot->namespace_name(), "/", snapshot->source_pvc())}};
  return found;
}

}  // namespace

KeptSnapshot ReadKept(const VolumeSnapshotContent& record) {
  const std::string label = record.Label(objects::kKeptLabel);
  const std::string error = record.error_message();
  const std::string state = StateOf(record, label, error);
  const bool is_unanswered = label == kLast && (state == kKeptUnknown || state == kKeptUnchecked);
  return {.backup = absl::StrCat(record.Label(objects::kMoverVeleroNamespaceLabel), "/",
                                 record.Annotation(objects::kBackupNameLabel)),
          .text = absl::StrCat("the snapshot of PVC ",
                               record.Annotation(objects::kMemberClaimAnnotation), " (",
                               record.handle_or_source(), " of ", record.driver(), ") is ", state,
                               error.empty() ? "" : ": ", error,
                               is_unanswered ? "; its Backup is gone: a week without an answer "
                                               "ends this record"
                                             : ""),
          .state = state,
          .is_first = label == kFirst,
          .is_last = label == kLast || label == kKeptLeft,
          .is_unanswered = is_unanswered};
}

k8s::WatchedObjects NativesOfBackups() {
  return {.type = longhorn::Snapshot::Type(), .label_selector = objects::kLonghornMadeByLabel};
}

absl::StatusOr<std::optional<VolumeSnapshotContent>> FindKept(const CallContext& ctx,
                                                              k8s::ApiClient& api,
                                                              const objects::Object& object,
                                                              FindKeeper find_keeper) {
  std::optional<StaticContent> found;
  bool is_ready = true;
  if (const auto content = VolumeSnapshotContent::From(object); content.ok()) {
    ASSIGN_OR_RETURN(found, FindInContent(ctx, api, *content, find_keeper));
  } else {
    ASSIGN_OR_RETURN(const auto native, longhorn::Snapshot::From(object));
    found = {
        .driver = kNativeDriver,
        .handle = absl::StrCat(native.namespace_name(), "/", native.name(), "/", native.uid()),
        .labels = {{objects::kMoverVeleroNamespaceLabel, native.Label(objects::kCsiDeltaLabel)}},
        .annotations = {{objects::kMemberClaimAnnotation,
                         native.EngineLabel(objects::kLonghornEnginePvcLabel)}}};
    is_ready = native.is_ready();
  }
  if (!found.has_value() || !is_ready) {
    return std::nullopt;
  }
  ASSIGN_OR_RETURN(const auto later,
                   objects::Find<VolumeSnapshotContent>(ctx, api, "", KeptName(*found, true)));
  found->name = found->snapshot_name = KeptName(*found, false);
  found->snapshot_namespace = found->labels[objects::kMoverVeleroNamespaceLabel];
  found->labels.insert({{objects::kKeptLabel, kFirst}, {objects::kExcludeFromBackupLabel, "true"}});
  found->annotations.emplace(objects::kBackupNameLabel, object.Label(objects::kBackupNameLabel));
  return later.has_value() ? std::nullopt : std::optional(MakeStaticContent(*found));
}

VolumeSnapshotContent NextRecord(const VolumeSnapshotContent& record, bool is_backup_gone) {
  StaticContent next = ContentBeside(record);
  next.name = next.snapshot_name = KeptName(next, record.name() == KeptName(next, false));
  next.snapshot_namespace = record.snapshot_namespace();
  next.labels = record.labels();
  next.labels[objects::kKeptLabel] = is_backup_gone ? kLast : kLater;
  next.annotations = record.annotations();
  return MakeStaticContent(next);
}

absl::Status AnswerForLonghorn(const CallContext& ctx, k8s::ApiClient& api,
                               const VolumeSnapshotContent& record) {
  const std::vector<std::string> parts = absl::StrSplit(record.source_handle(), '/');
  if (record.driver() != kNativeDriver || parts.size() != 3 ||
      ReadKept(record).state != kKeptUnchecked) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const auto native,
                   objects::Find<longhorn::Snapshot>(ctx, api, parts[0], parts[1]));
  const auto state = longhorn::StateOf(native.has_value() ? &*native : nullptr, parts[2]);
  const char* const present = record.Label(objects::kKeptLabel) == kLast ? kKeptLeft : kKeptPresent;
  const char* const answer = state == longhorn::NativeState::kReady  ? present
                             : state == longhorn::NativeState::kGone ? kKeptGone
                                                                     : kKeptNotReady;
  return objects::Apply(ctx, api, record.key(),
                        objects::Patch().SetLabel(objects::kKeptLabel, answer));
}

}  // namespace csidelta::csi
