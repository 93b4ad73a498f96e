#include "csi/backup_contents.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/snapshot_need.h"
#include "csi/snapshot_types.h"
#include "k8s/find.h"
#include "k8s/object.h"
#include "k8s/wait.h"
#include "objects/keys.h"

namespace csidelta::csi {
namespace {

// Without the right to write a status, the driver's sidecar is given this long to do it.
constexpr absl::Duration kStatusWait = absl::Seconds(30);
// How long the sidecar may take for its first word about a new object, where one runs.
constexpr absl::Duration kFirstWordWait = absl::Seconds(5);

// The mark by which the snapshot controller tells the sidecar that deletion is meant; it leaves the
// mark out where it sees no VolumeSnapshot.
absl::Status MarkBeingDeleted(const CallContext& ctx, const Environment& env, const Json& content) {
  Json patch;
  SetJson(patch, {"metadata", "annotations", objects::kContentBeingDeletedAnnotation}, "yes");
  return k8s::IgnoreNotFound(env.api
                                 .Patch(ctx, VolumeSnapshotContentKey(k8s::Name(content)),
                                        k8s::PatchKind::kMerge, patch, "")
                                 .status());
}

}  // namespace

bool IsRestored(const Json& object) {
  return !k8s::Label(object, objects::kRestoreNameLabel).empty();
}

absl::StatusOr<std::vector<BackupContent>> LookAtContents(const CallContext& ctx,
                                                          const Environment& env,
                                                          const std::vector<Json>& contents) {
  std::map<std::string, PvcsBySource> pvcs;  // by namespace
  std::vector<BackupContent> all;
  for (const Json& content : contents) {
    BackupContent one{.content = content, .snapshot = std::nullopt};
    ASSIGN_OR_RETURN(one.snapshot, FindSnapshotOf(ctx, env.api, content));
    if (one.snapshot.has_value()) {
      const std::string space = k8s::Namespace(*one.snapshot);
      auto found = pvcs.find(space);
      if (found == pvcs.end()) {
        ASSIGN_OR_RETURN(PvcsBySource listed, ListPvcsBeingFilled(ctx, env.api, space));
        found = pvcs.emplace(space, std::move(listed)).first;
      }
      ASSIGN_OR_RETURN(const std::vector<Protection> needs,
                       NeedsOf(*one.snapshot, &content, found->second, Requester::kBackupDeletion));
      one.needed = !needs.empty();
    }
    all.push_back(std::move(one));
  }
  return all;
}

absl::Status SetContentPolicy(const CallContext& ctx, const Environment& env, const Json& content,
                              const std::string& policy) {
  return k8s::IgnoreNotFound(env.api
                                 .Patch(ctx, VolumeSnapshotContentKey(k8s::Name(content)),
                                        k8s::PatchKind::kMerge,
                                        Json{{"spec", {{"deletionPolicy", policy}}}}, "")
                                 .status());
}

absl::Status RemoveContent(const CallContext& ctx, const Environment& env,
                           const BackupContent& content, const std::string& policy) {
  RETURN_IF_ERROR(SetContentPolicy(ctx, env, content.content, policy));
  if (content.snapshot.has_value()) {
    const Json& snapshot = *content.snapshot;
    RETURN_IF_ERROR(k8s::IgnoreNotFound(
        env.api.Delete(ctx, VolumeSnapshotKey(k8s::Namespace(snapshot), k8s::Name(snapshot)),
                       {.uid = k8s::Uid(snapshot), .resource_version = ""})));
  }
  // Only now: a content that is being deleted already goes with the mark at once, and for a
  // VolumeSnapshot that still lives the controller would have another snapshot taken.
  if (policy == "Delete") {
    RETURN_IF_ERROR(MarkBeingDeleted(ctx, env, content.content));
  }
  return k8s::IgnoreNotFound(
      env.api.Delete(ctx, VolumeSnapshotContentKey(k8s::Name(content.content)),
                     {.uid = k8s::Uid(content.content), .resource_version = ""}));
}

absl::Status WriteHandle(const CallContext& ctx, const Environment& env, const k8s::ObjectKey& key,
                         const std::string& field, const std::string& handle,
                         absl::Duration patience) {
  bool needless = false;
  const auto has_spoken = [&](const Json* object) -> absl::StatusOr<bool> {
    needless = object == nullptr || k8s::BeingDeleted(*object) ||
               !GetString(*object, {"status", field}).empty();
    return needless || !ErrorMessage(*object).empty();
  };
  const auto wait = [&](absl::Duration time) {
    return k8s::WaitFor(ctx.WithTimeout(time), env.api, key, has_spoken);
  };
  const absl::Status first = wait(std::min(patience, kFirstWordWait));
  RETURN_IF_ERROR(ctx.Check());
  if (!absl::IsDeadlineExceeded(first)) {
    RETURN_IF_ERROR(first);
  }
  if (needless) {
    return absl::OkStatus();
  }
  const Json patch = {{"status", {{field, handle}}}};
  const absl::Status written =
      env.api.Patch(ctx, key, k8s::PatchKind::kMerge, patch, "status").status();
  if (!absl::IsPermissionDenied(written)) {
    return k8s::IgnoreNotFound(written);
  }
  return Annotate(wait(kStatusWait), absl::StrCat("wait for the sidecar to take up ", handle));
}

absl::StatusOr<bool> AwaitGone(const CallContext& ctx, const Environment& env,
                               const k8s::ObjectKey& key, absl::Duration wait) {
  const absl::Status status =
      k8s::WaitFor(ctx.WithTimeout(wait), env.api, key,
                   [](const Json* object) -> absl::StatusOr<bool> { return object == nullptr; });
  if (absl::IsDeadlineExceeded(status)) {
    RETURN_IF_ERROR(ctx.Check());
    return false;
  }
  RETURN_IF_ERROR(status);
  return true;
}

std::string LastError(const CallContext& ctx, const Environment& env, const k8s::ObjectKey& key) {
  const absl::StatusOr<Json> object = env.api.Get(ctx, key);
  return object.ok() ? ErrorMessage(*object) : "";
}

absl::StatusOr<bool> IsStillNeeded(const CallContext& ctx, const Environment& env,
                                   const Json& snapshot) {
  ASSIGN_OR_RETURN(const PvcsBySource pvcs,
                   ListPvcsBeingFilled(ctx, env.api, k8s::Namespace(snapshot)));
  ASSIGN_OR_RETURN(const std::vector<Protection> needs,
                   NeedsOf(snapshot, nullptr, pvcs, Requester::kBackupDeletion));
  return !needs.empty();
}

}  // namespace csidelta::csi
