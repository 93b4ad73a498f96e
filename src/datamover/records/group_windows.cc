#include "datamover/records/group_windows.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_split.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/group/group_lifecycle.h"
#include "objects/client.h"
#include "objects/keys.h"

namespace csidelta::datamover {
namespace {

// Groups that are told of; more are no longer added.
constexpr std::size_t kGroupsMax = 20'000;
constexpr absl::Duration kVersionReadEvery = absl::Minutes(10);
// A driver may take so long for a group: that it has no content yet is no failure.
constexpr absl::Duration kContentWithin = absl::Minutes(10);

VolumeGroup GroupOf(const objects::VolumeGroupSnapshot& group) {
  const std::pair<std::string, std::string> label =
      absl::StrSplit(group.Annotation(objects::kGroupOfAnnotation), absl::MaxSplits('=', 1));
  return {.velero_namespace = group.Label(objects::kCsiDeltaLabel),
          .namespace_name = group.namespace_name(),
          .group = label.second};
}

k8s::WatchedObjects AllGroups(absl::string_view version) {
  return {.type = objects::VolumeGroupSnapshot::kKind.TypeOf(version), .label_selector = ""};
}

// The newest version that is served; NOT_FOUND when none is.
absl::StatusOr<std::string> FindVersion(const CallContext& ctx, k8s::ApiClient& api) {
  absl::Status status;
  for (const char* const version : objects::kGroupVersions) {
    status = objects::List<objects::VolumeGroupSnapshot>(
                 ctx, api, AllGroups(version).type, "", {.label_selector = objects::kCsiDeltaLabel})
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

void GroupWindows::OnChanged(const objects::VolumeGroupSnapshot& group) {
  const MutexLock lock(mutex_);
  Record(group);
  RecordFailure(group);
}

void GroupWindows::OnDeleted(const k8s::ObjectId& id, const objects::VolumeGroupSnapshot* last) {
  const MutexLock lock(mutex_);
  figures_.failing.erase(id.uid);
  if (last != nullptr) {
    Record(*last);
  }
  seen_.erase(id.uid);
}

GroupFigures GroupWindows::figures() const {
  const MutexLock lock(mutex_);
  return figures_;
}

void GroupWindows::Record(const objects::VolumeGroupSnapshot& group) {
  const auto window = csi::FreezeWindow(group);
  const auto answered_at = ParseRfc3339(group.Annotation(objects::kAnsweredAtAnnotation));
  const VolumeGroup name = GroupOf(group);
  if (!window.has_value() || *answered_at < since_ || !csi::IsMadeByUs(group) ||
      !velero_namespaces_.contains(name.velero_namespace) || !seen_.insert(group.uid()).second) {
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

void GroupWindows::RecordFailure(const objects::VolumeGroupSnapshot& group) {
  const bool has_error = !group.error_message().empty();
  figures_.failing.erase(group.uid());
  if ((has_error || group.bound_content().empty()) && !group.is_being_deleted() &&
      figures_.failing.size() < kGroupsMax) {
    figures_.failing[group.uid()] =
        has_error ? absl::InfinitePast()
                  : group.created_at().value_or(absl::InfinitePast()) + kContentWithin;
  }
}

absl::Status WatchGroups(const CallContext& ctx, k8s::ApiClient& api,
                         k8s::ObjectEventHandler& handler) {
  std::optional<k8s::Informer> informer;  // knows what went between two looks for the version
  while (true) {
    RETURN_IF_ERROR(ctx.Check());
    const CallContext until_next_read = ctx.WithTimeout(kVersionReadEvery);
    const absl::StatusOr<std::string> version = FindVersion(ctx, api);
    if (version.ok()) {
      const k8s::WatchedObjects groups = AllGroups(*version);
      if (!informer.has_value() || informer->objects().type != groups.type) {
        informer.emplace(groups, std::vector<k8s::ObjectEventHandler*>{&handler});
      }
      informer->Run(until_next_read, api).IgnoreError();
      continue;
    }
    if (!absl::IsNotFound(version.status()) && !IsRetryable(version.status())) {
      CSIDELTA_LOG(kWarn, "volume groups cannot be followed, so their freeze windows are not told",
                   {"error", std::string(version.status().message())});
    }
    ctx.clock->SleepFor(until_next_read.TimeLeft(), ctx.stop);
  }
}

}  // namespace csidelta::datamover
