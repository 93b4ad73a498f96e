#include "csi/snapshot_schedule.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "csi/cron.h"
#include "csi/snapshot_import.h"
#include "k8s/object.h"
#include "objects/keys.h"

namespace csidelta::csi {
namespace {

constexpr char kProgram[] = "/bin/csi-delta";
constexpr std::size_t kScheduleNameBytesMax = 52;  // A CronJob's: its Jobs have eleven more.
constexpr std::size_t kLabelBytesMax = 63;
constexpr std::size_t kNoteBytesMax = std::size_t{64} << 10;
constexpr int kUser = 65532;  // Of the image.
constexpr int kGraceSeconds = 30;
// One that could not be started by then is left out.
constexpr int kStartSecondsMax = 3600;
constexpr char kRbacGroup[] = "rbac.authorization.k8s.io";
constexpr char kRbacVersion[] = "rbac.authorization.k8s.io/v1";

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
  const int ways = (selection.names.empty() ? 0 : 1) + (selection.stateful_set.empty() ? 0 : 1) +
                   (selection.label_selector.empty() ? 0 : 1) + (selection.all ? 1 : 0);
  if (!selection.pod.empty() || ways != 1) {
    return absl::InvalidArgumentError(
        "name PVCs in one way: by their names, --statefulset, -l or --all; a Pod comes and goes");
  }
  for (const std::string& name : selection.names) {
    RETURN_IF_ERROR(CheckName("PVC", name));
  }
  return selection.stateful_set.empty() ? absl::OkStatus()
                                        : CheckName("StatefulSet", selection.stateful_set);
}

// One word of printable ASCII, as names of images and time zones are.
bool IsPlainWord(absl::string_view text) {
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
  if (!zone.empty() && (!IsPlainWord(zone) || absl::EqualsIgnoreCase(zone, "local") ||
                        absl::StartsWith(zone, "/") || absl::StrContains(zone, ".."))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", zone, "\" is no time zone by its IANA name, such as Europe/Berlin or Etc/UTC"));
  }
  if (!IsPlainWord(request.image) || absl::StartsWith(request.image, "-")) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", request.image, "\" is no image, such as registry/name:tag"));
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
Json WordsForContainer(const std::vector<std::string>& words) {
  Json list = Json::array();
  for (const std::string& word : words) {
    list.push_back(absl::StrReplaceAll(word, {{"$", "$$"}}));
  }
  return list;
}

// A value stands in the word of its flag, so that it is never taken for one.
std::vector<std::string> CreateWords(const ScheduleRequest& request) {
  const PvcSelection& selection = request.selection;
  std::vector<std::string> words = {"snapshot", "create",
                                    absl::StrCat("--namespace=", selection.namespace_name),
                                    absl::StrCat("--schedule=", request.name), "--wait-lease"};
  const auto add = [&words](absl::string_view flag, const std::string& value) {
    if (!value.empty()) {
      words.push_back(absl::StrCat(flag, "=", value));
    }
  };
  add("--statefulset", selection.stateful_set);
  add("--selector", selection.label_selector);
  add("--class", request.class_name);
  add("--group", request.group == "auto" ? "" : request.group);
  add("--note", request.note);
  if (selection.all) {
    words.emplace_back("--all");
  }
  words.insert(words.end(), selection.names.begin(), selection.names.end());
  return words;
}

std::vector<std::string> PruneWords(const ScheduleRequest& request) {
  std::vector<std::string> words = {
      "snapshot", "prune", absl::StrCat("--namespace=", request.selection.namespace_name),
      absl::StrCat("--selector=", objects::kSnapshotScheduleLabel, "=", request.name), "--yes"};
  words.insert(words.end(), request.keep_words.begin(), request.keep_words.end());
  return words;
}

Json ScheduleContainer(const ScheduleRequest& request, const char* name,
                       const std::vector<std::string>& words) {
  return {{"name", name},
          {"image", request.image},
          {"imagePullPolicy", "IfNotPresent"},
          {"command", Json::array({kProgram})},
          {"args", WordsForContainer(words)},
          {"resources",
           {{"requests", {{"cpu", "20m"}, {"memory", "32Mi"}}}, {"limits", {{"memory", "128Mi"}}}}},
          {"securityContext",
           {{"allowPrivilegeEscalation", false},
            {"readOnlyRootFilesystem", true},
            {"capabilities", {{"drop", Json::array({"ALL"})}}}}},
          {"terminationMessagePolicy", "FallbackToLogsOnError"}};
}

Json SchedulePod(const ScheduleRequest& request, const std::string& account) {
  const Json create = ScheduleContainer(request, "create", CreateWords(request));
  Json spec = {{"restartPolicy", "Never"},
               {"terminationGracePeriodSeconds", kGraceSeconds},
               {"enableServiceLinks", false},
               {"serviceAccountName", account},
               {"securityContext",
                {{"runAsNonRoot", true},
                 {"runAsUser", kUser},
                 {"runAsGroup", kUser},
                 {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
               {"containers", Json::array({create})}};
  if (!request.keep_words.empty()) {
    spec["initContainers"] = Json::array({create});
    spec["containers"] = Json::array({ScheduleContainer(request, "prune", PruneWords(request))});
  }
  return spec;
}

Json MakeCronJob(const ScheduleRequest& request, const std::string& account) {
  Json spec = {
      {"schedule", request.cron},
      {"suspend", request.is_suspended},
      {"concurrencyPolicy", "Forbid"},
      {"startingDeadlineSeconds", kStartSecondsMax},
      {"successfulJobsHistoryLimit", 1},
      {"failedJobsHistoryLimit", 3},
      {"jobTemplate",
       {{"spec", {{"backoffLimit", 0}, {"template", {{"spec", SchedulePod(request, account)}}}}}}}};
  if (!request.time_zone.empty()) {
    spec["timeZone"] = request.time_zone;
  }
  return {{"apiVersion", "batch/v1"},
          {"kind", "CronJob"},
          {"metadata", {{"name", request.name}, {"namespace", request.selection.namespace_name}}},
          {"spec", std::move(spec)}};
}

Json Rule(const char* group, const char* resource, const std::vector<std::string>& verbs) {
  return {{"apiGroups", Json::array({group})},
          {"resources", Json::array({resource})},
          {"verbs", verbs}};
}

Json ScheduleRules(const ScheduleRequest& request) {
  constexpr char kSnapshots[] = "snapshot.storage.k8s.io";
  constexpr char kGroups[] = "groupsnapshot.storage.k8s.io";
  // As deploy/snapshot-roles.yaml has them for the viewer.
  Json rules = Json::array(
      {Rule(kSnapshots, "volumesnapshots", {"get", "list", "watch"}),
       Rule(kGroups, "volumegroupsnapshots", {"list", "watch"}),
       Rule("", "persistentvolumeclaims", {"get", "list", "watch"}), Rule("", "events", {"list"}),
       Rule(kSnapshots, "volumesnapshots", {"create", "delete"}),
       Rule("coordination.k8s.io", "leases", {"get", "create", "update", "delete"})});
  if (!request.selection.stateful_set.empty()) {
    rules.push_back(Rule("apps", "statefulsets", {"get"}));
  }
  if (request.selection.names.size() != 1 && request.group != "never") {
    rules.push_back(Rule(kGroups, "volumegroupsnapshots", {"create", "delete"}));
    rules.push_back(Rule(kSnapshots, "volumesnapshots", {"patch"}));
    rules.push_back(Rule("", "persistentvolumeclaims", {"patch"}));
    rules.push_back(Rule("", "resourcequotas", {"list"}));
  }
  return rules;
}

Json RoleReference(const char* kind, const std::string& name) {
  return {{"apiGroup", kRbacGroup}, {"kind", kind}, {"name", name}};
}

}  // namespace

absl::StatusOr<SnapshotSchedule> MakeSchedule(const ScheduleRequest& request) {
  RETURN_IF_ERROR(CheckSchedule(request));
  const std::string& space = request.selection.namespace_name;
  const std::string account = absl::StrCat("csi-delta-schedule-", request.name);
  const Json metadata = {{"name", account}, {"namespace", space}};
  const Json subjects =
      Json::array({{{"kind", "ServiceAccount"}, {"name", account}, {"namespace", space}}});
  return SnapshotSchedule{
      .service_account = {{"apiVersion", "v1"}, {"kind", "ServiceAccount"}, {"metadata", metadata}},
      .role = {{"apiVersion", kRbacVersion},
               {"kind", "Role"},
               {"metadata", metadata},
               {"rules", ScheduleRules(request)}},
      .role_binding = {{"apiVersion", kRbacVersion},
                       {"kind", "RoleBinding"},
                       {"metadata", metadata},
                       {"roleRef", RoleReference("Role", account)},
                       {"subjects", subjects}},
      // Colons keep a namespace and a name apart that both may have dashes.
      .cluster_role_binding =
          {{"apiVersion", kRbacVersion},
           {"kind", "ClusterRoleBinding"},
           {"metadata", {{"name", absl::StrCat("csi-delta-schedule:", space, ":", request.name)}}},
           {"roleRef", RoleReference("ClusterRole", kSnapshotReaderRole)},
           {"subjects", subjects}},
      .cron_job = MakeCronJob(request, account)};
}

}  // namespace csidelta::csi
