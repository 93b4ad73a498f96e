#include "snapshots/snapshot_schedule.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "k8s/object.h"
#include "objects/access.h"
#include "objects/keys.h"
#include "objects/restricted_pod.h"
#include "snapshots/cron.h"
#include "snapshots/snapshot_import.h"

namespace csidelta::snapshots {
namespace {

constexpr std::size_t kScheduleNameBytesMax = 52;  // A CronJob's: its Jobs have eleven more.
constexpr std::size_t kLabelBytesMax = 63;
constexpr std::size_t kNoteBytesMax = std::size_t{64} << 10;
constexpr int kGraceSeconds = 30;
constexpr int kStartSecondsMax = 3600;

bool IsLabel(absl::string_view name, std::size_t bytes_max) {
  return k8s::IsObjectName(name) && !absl::StrContains(name, '.') && name.size() <= bytes_max;
}

absl::Status CheckName(absl::string_view what, const std::string& name) {
  if (!k8s::IsObjectName(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", name, "\" is not a name for a ", what,
                     "; use lower-case letters, digits, '-' and '.', at most 253"));
  }
  return absl::OkStatus();
}

absl::Status CheckSelection(const PvcSelection& selection) {
  if (!selection.pod.empty() || !CheckOneWay(selection).ok()) {
    return absl::InvalidArgumentError(
        "name PVCs in one way: by their names, --statefulset, -l or --all; a Pod comes and goes");
  }
  for (const std::string& name : selection.names) {
    RETURN_IF_ERROR(CheckName("PVC", name));
  }
  return selection.stateful_set.empty() ? absl::OkStatus()
                                        : CheckName("StatefulSet", selection.stateful_set);
}

// Printable ASCII without spaces, as in names of images and time zones.
bool IsPlainToken(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isgraph);
}

absl::Status CheckSchedule(const ScheduleRequest& request) {
  if (!IsLabel(request.name, kScheduleNameBytesMax)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", request.name, "\" is not a name for a schedule; use lower-case letters, digits and ",
        "'-', at most ", kScheduleNameBytesMax));
  }
  if (!IsLabel(request.selection.namespace_name, kLabelBytesMax)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", request.selection.namespace_name, "\" is not a namespace"));
  }
  RETURN_IF_ERROR(CheckCron(request.cron));
  const std::string& zone = request.time_zone;
  if (!zone.empty() && (!IsPlainToken(zone) || absl::EqualsIgnoreCase(zone, "local") ||
                        absl::StartsWith(zone, "/") || absl::StrContains(zone, ".."))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", zone, "\" is not a time zone by its IANA name, such as Europe/Berlin or Etc/UTC"));
  }
  if (!IsPlainToken(request.image) || absl::StartsWith(request.image, "-")) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", request.image, "\" is not an image like registry/name:tag"));
  }
  RETURN_IF_ERROR(CheckSelection(request.selection));
  if (!request.class_name.empty()) {
    RETURN_IF_ERROR(CheckName("VolumeSnapshotClass", request.class_name));
  }
  if (request.note.size() > kNoteBytesMax) {
    return absl::InvalidArgumentError("the note is longer than 64 KiB");
  }
  return absl::OkStatus();
}

// As a container gets them: Kubernetes would take $(NAME) for a variable.
std::vector<std::string> ContainerArguments(std::vector<std::string> arguments) {
  for (std::string& argument : arguments) {
    absl::StrReplaceAll({{"$", "$$"}}, &argument);
  }
  return arguments;
}

// A value is part of the argument of its flag, so that it is never parsed as a flag.
std::vector<std::string> CreateArguments(const ScheduleRequest& request) {
  const PvcSelection& selection = request.selection;
  std::vector<std::string> arguments = {"snapshot", "create",
                                        absl::StrCat("--namespace=", selection.namespace_name),
                                        absl::StrCat("--schedule=", request.name), "--wait-lease"};
  const auto add = [&arguments](absl::string_view flag, const std::string& value) {
    if (!value.empty()) {
      arguments.push_back(absl::StrCat(flag, "=", value));
    }
  };
  add("--statefulset", selection.stateful_set);
  add("--selector", selection.label_selector);
  add("--class", request.class_name);
  add("--group", request.group == "auto" ? "" : request.group);
  add("--note", request.note);
  if (selection.all) {
    arguments.emplace_back("--all");
  }
  if (!request.keep_arguments.empty()) {
    arguments.emplace_back("--make-room");
  }
  arguments.insert(arguments.end(), request.keep_arguments.begin(), request.keep_arguments.end());
  arguments.insert(arguments.end(), selection.names.begin(), selection.names.end());
  return arguments;
}

std::vector<std::string> PruneArguments(const ScheduleRequest& request) {
  std::vector<std::string> arguments = {
      "snapshot", "prune", absl::StrCat("--namespace=", request.selection.namespace_name),
      absl::StrCat("--selector=", objects::kSnapshotScheduleLabel, "=", request.name), "--yes"};
  arguments.insert(arguments.end(), request.keep_arguments.begin(), request.keep_arguments.end());
  return arguments;
}

objects::RestrictedContainer ScheduleContainer(const ScheduleRequest& request, const char* name,
                                               std::vector<std::string> arguments) {
  return {.name = name,
          .image = request.image,
          .image_pull_policy = "IfNotPresent",
          .args = ContainerArguments(std::move(arguments)),
          .requests = {{"cpu", "20m"}, {"memory", "32Mi"}},
          .limits = {{"memory", "128Mi"}}};
}

objects::RestrictedPod SchedulePod(const ScheduleRequest& request, const std::string& account) {
  objects::RestrictedPod pod = {
      .grace_seconds = kGraceSeconds,
      .service_account = account,
      .containers = {ScheduleContainer(request, "create", CreateArguments(request))}};
  if (!request.keep_arguments.empty()) {
    pod.init_containers = std::exchange(
        pod.containers, {ScheduleContainer(request, "prune", PruneArguments(request))});
  }
  return pod;
}

std::vector<objects::AccessRule> ScheduleRules(const ScheduleRequest& request) {
  constexpr char kSnapshots[] = "snapshot.storage.k8s.io";
  constexpr char kGroups[] = "groupsnapshot.storage.k8s.io";
  // As deploy/snapshot-roles.yaml has them for the viewer.
  std::vector<objects::AccessRule> rules = {
      {kSnapshots, "volumesnapshots", {"get", "list", "watch"}},
      {kGroups, "volumegroupsnapshots", {"get", "list", "watch"}},
      {"", "persistentvolumeclaims", {"get", "list", "watch"}},
      {"", "events", {"list"}},
      {kSnapshots, "volumesnapshots", {"create", "delete"}},
      {"coordination.k8s.io", "leases", {"get", "create", "update", "delete"}}};
  if (!request.selection.stateful_set.empty()) {
    rules.push_back({"apps", "statefulsets", {"get"}});
  }
  if (request.selection.names.size() != 1 && request.group != "never") {
    rules.push_back({kGroups, "volumegroupsnapshots", {"create", "delete"}});
    rules.push_back({kSnapshots, "volumesnapshots", {"patch"}});
    rules.push_back({"", "persistentvolumeclaims", {"patch"}});
    rules.push_back({"", "resourcequotas", {"list"}});
  }
  return rules;
}

}  // namespace

absl::StatusOr<SnapshotSchedule> MakeSchedule(const ScheduleRequest& request) {
  RETURN_IF_ERROR(CheckSchedule(request));
  const std::string& space = request.selection.namespace_name;
  const objects::ServiceAccountName account = {
      .namespace_name = space, .name = absl::StrCat("csi-delta-schedule-", request.name)};
  return SnapshotSchedule{
      .service_account = objects::ServiceAccount::Make(space, account.name),
      .role = objects::MakeRoleOf(account, ScheduleRules(request)),
      .role_binding = objects::MakeRoleBindingOf(account),
      // Colons keep a namespace and a name apart that both may have dashes.
      .cluster_role_binding = objects::MakeClusterRoleBinding(
          absl::StrCat("csi-delta-schedule:", space, ":", request.name), kSnapshotReaderRole,
          account),
      .cron_job = objects::MakeCronJob({.namespace_name = space,
                                        .name = request.name,
                                        .schedule = request.cron,
                                        .time_zone = request.time_zone,
                                        .is_suspended = request.is_suspended,
                                        .start_seconds_max = kStartSecondsMax,
                                        .pod = SchedulePod(request, account.name)})};
}

}  // namespace csidelta::snapshots
