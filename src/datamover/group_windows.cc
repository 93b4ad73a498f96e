#include "datamover/group_windows.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_split.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/group_lifecycle.h"
#include "csi/group_types.h"
#include "k8s/object.h"
#include "objects/keys.h"

namespace csidelta::datamover {
namespace {

// Groups that are told of; more are no longer added.
constexpr std::size_t kGroupsMax = 20'000;
constexpr absl::Duration kLookForVersionEvery = absl::Minutes(10);

VolumeGroup GroupOf(const Json& group) {
  const std::pair<std::string, std::string> label =
      absl::StrSplit(k8s::Annotation(group, objects::kGroupOfAnnotation), absl::MaxSplits('=', 1));
  return {.velero_namespace = k8s::Label(group, objects::kCsiDeltaLabel),
          .namespace_name = k8s::Namespace(group),
          .group = label.second};
}

k8s::FollowedObjects GroupsOfOurs(absl::string_view version) {
  return {.type = csi::VolumeGroupSnapshotType(version),
          .namespace_name = "",
          .label_selector = objects::kCsiDeltaLabel};
}

// The newest version that is served; NOT_FOUND when none is.
absl::StatusOr<std::string> FindVersion(const CallContext& ctx, k8s::ApiClient& api) {
  absl::Status status;
  for (const char* const version : csi::kGroupVersions) {
    const k8s::FollowedObjects objects = GroupsOfOurs(version);
    status = api.List(ctx, objects.type, "",
                      {.label_selector = objects.label_selector, .field_selector = ""})
                 .status();
    if (status.ok()) {
      return version;
    }
    if (!absl::IsNotFound(status)) {
      break;
    }
  }
  return status;
}

}  // namespace

GroupWindows::GroupWindows(std::set<std::string> velero_namespaces, absl::Time since,
                           std::function<bool()> leads)
    : velero_namespaces_(std::move(velero_namespaces)), since_(since), leads_(std::move(leads)) {}

void GroupWindows::OnPage(const std::vector<Json>& groups, bool is_first) {
  const MutexLock lock(mutex_);
  if (is_first) {
    listed_.clear();
  }
  for (const Json& group : groups) {
    listed_.insert(k8s::Uid(group));
    Note(group);
  }
}

void GroupWindows::OnListed() {
  const MutexLock lock(mutex_);
  std::erase_if(seen_, [&](const std::string& uid) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !listed_.contains(uid);
  });
  listed_.clear();
}

void GroupWindows::OnEvent(const k8s::WatchEvent& event) {
  const MutexLock lock(mutex_);
  Note(event.object);
  if (event.kind == k8s::WatchEvent::Kind::kDeleted) {
    seen_.erase(k8s::Uid(event.object));
  }
}

GroupFigures GroupWindows::figures() const {
  const MutexLock lock(mutex_);
  return figures_;
}

void GroupWindows::Note(const Json& object) {
  const auto group = objects::VolumeGroupSnapshot::Of(object);
  if (!group.ok()) {
    return;
  }
  const auto window = csi::FreezeWindow(*group);
  const auto answered_at = ParseRfc3339(group->Annotation(objects::kAnsweredAtAnnotation));
  const VolumeGroup name = GroupOf(object);
  if (!window.has_value() || *answered_at < since_ || !csi::IsGroupMadeByUs(*group) ||
      !velero_namespaces_.contains(name.velero_namespace) || !seen_.insert(group->uid()).second) {
    return;
  }
  if (figures_.last.size() < kGroupsMax || figures_.last.contains(name)) {
    figures_.last[name] = *window;
  }
  if (leads_()) {
    ++figures_.groups;
    figures_.windows += *window;
  }
}

absl::Status FollowGroups(const CallContext& ctx, k8s::ApiClient& api,
                          k8s::ObjectFollower& follower) {
  while (true) {
    RETURN_IF_ERROR(ctx.Check());
    const CallContext until_next_look = ctx.WithTimeout(kLookForVersionEvery);
    const absl::StatusOr<std::string> version = FindVersion(ctx, api);
    if (version.ok()) {
      k8s::Follow(until_next_look, api, GroupsOfOurs(*version), follower).IgnoreError();
      continue;
    }
    if (!absl::IsNotFound(version.status()) && !IsRetryable(version.status())) {
      CSIDELTA_LOG(kWarn, "volume groups cannot be followed, so their freeze windows are not told",
                   {"error", std::string(version.status().message())});
    }
    ctx.clock->SleepUntil(std::min(ctx.deadline, until_next_look.deadline), ctx.stop);
  }
}

}  // namespace csidelta::datamover
