#include "csi/backup_contents.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/snapshot_need.h"
#include "k8s/api_client.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/volume_group_snapshot.h"

namespace csidelta::csi {
namespace {

using objects::VolumeSnapshotContent;

// Without the right to write a status, the driver's sidecar is given this long to do it.
constexpr absl::Duration kStatusWait = absl::Seconds(30);
// How long the sidecar may take for its first word about a new object, where one runs.
constexpr absl::Duration kFirstWordWait = absl::Seconds(5);

}  // namespace

bool IsRestored(const objects::Object& object) {
  return !object.Label(objects::kRestoreNameLabel).empty();
}

absl::StatusOr<std::vector<BackupContent>> LookAtContents(
    const CallContext& ctx, const Environment& env,
    const std::vector<VolumeSnapshotContent>& contents) {
  std::map<std::string, PvcsBySource> pvcs;  // by namespace
  PopulationReader populations(ctx, env.api, &env);
  std::vector<BackupContent> all;
  for (const VolumeSnapshotContent& content : contents) {
    BackupContent one{.content = content, .snapshot = std::nullopt};
    ASSIGN_OR_RETURN(one.snapshot, FindSnapshotOf(ctx, env.api, content));
    if (one.snapshot.has_value()) {
      const std::string space = one.snapshot->namespace_name();
      auto found = pvcs.find(space);
      if (found == pvcs.end()) {
        ASSIGN_OR_RETURN(PvcsBySource listed, ListPvcsBySource(ctx, env.api, space));
        found = pvcs.emplace(space, std::move(listed)).first;
      }
      ASSIGN_OR_RETURN(
          const std::vector<Finding> needs,
          NeedsOf(*one.snapshot, &content, found->second, populations, Requester::kBackupDeletion));
      one.needed = !needs.empty();
    }
    all.push_back(std::move(one));
  }
  return all;
}

absl::Status WriteHandle(const CallContext& ctx, const Environment& env, const k8s::ObjectKey& key,
                         const std::string& handle, absl::Duration grace_period) {
  bool needless = false;
  const auto has_spoken = [&](const objects::Object* content) -> absl::StatusOr<bool> {
    needless = content == nullptr || content->is_being_deleted() ||
               !objects::HandleOf(key.type, *content).empty();
    return needless || !objects::ErrorInStatus(*content).empty();
  };
  const auto wait = [&](absl::Duration time) {
    return objects::WaitFor<objects::Object>(ctx.WithTimeout(time), env.api, key, has_spoken);
  };
  const absl::Status first = wait(std::min(grace_period, kFirstWordWait));
  RETURN_IF_ERROR(ctx.Check());
  if (!absl::IsDeadlineExceeded(first)) {
    RETURN_IF_ERROR(first);
  }
  if (needless) {
    return absl::OkStatus();
  }
  const absl::Status written =
      objects::Apply(ctx, env.api, key, objects::Patch().SetHandle(key.type, handle), "status");
  if (!absl::IsPermissionDenied(written)) {
    return k8s::IgnoreNotFound(written);
  }
  return Annotate(wait(kStatusWait), absl::StrCat("wait for the sidecar to take up ", handle));
}

absl::StatusOr<bool> AwaitGone(const CallContext& ctx, const Environment& env,
                               const k8s::ObjectKey& key, absl::Duration wait) {
  const absl::Status status = objects::WaitFor<objects::Object>(
      ctx.WithTimeout(wait), env.api, key,
      [](const objects::Object* object) -> absl::StatusOr<bool> { return object == nullptr; });
  if (absl::IsDeadlineExceeded(status)) {
    RETURN_IF_ERROR(ctx.Check());
    return false;
  }
  RETURN_IF_ERROR(status);
  return true;
}

std::string LastError(const CallContext& ctx, const Environment& env, const k8s::ObjectKey& key) {
  const auto object = objects::Get<objects::Object>(ctx, env.api, key);
  return object.ok() ? objects::ErrorInStatus(*object) : "";
}

absl::StatusOr<bool> IsStillNeeded(const CallContext& ctx, const Environment& env,
                                   const objects::VolumeSnapshot& snapshot) {
  ASSIGN_OR_RETURN(const PvcsBySource pvcs,
                   ListPvcsBySource(ctx, env.api, snapshot.namespace_name()));
  const std::string name =
      snapshot.bound_content().empty() ? snapshot.source_content() : snapshot.bound_content();
  std::optional<VolumeSnapshotContent> content;
  if (!name.empty()) {
    ASSIGN_OR_RETURN(content, objects::Find<VolumeSnapshotContent>(
                                  ctx, env.api, VolumeSnapshotContent::Key("", name)));
  }
  PopulationReader populations(ctx, env.api, &env);
  ASSIGN_OR_RETURN(const std::vector<Finding> needs,
                   NeedsOf(snapshot, content.has_value() ? &*content : nullptr, pvcs, populations,
                           Requester::kBackupDeletion));
  return !needs.empty();
}

}  // namespace csidelta::csi
