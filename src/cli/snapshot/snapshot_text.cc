#include "cli/snapshot/snapshot_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/check.h"
#include "base/rfc3339.h"
#include "cli/text.h"

namespace csidelta::cli {
namespace {

constexpr char kResource[] = "volumesnapshot.snapshot.storage.k8s.io";

bool IsPlainInShell(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         absl::string_view("_./:@%+=,-").find(c) != absl::string_view::npos;
}

}  // namespace

std::string SnapshotResourceName(absl::string_view name) {
  return absl::StrCat(kResource, "/", name);
}

absl::StatusOr<std::string> SnapshotNameOf(absl::string_view argument) {
  const std::size_t slash = argument.find('/');
  const absl::string_view kind =
      slash == absl::string_view::npos ? "vs" : argument.substr(0, slash);
  const absl::string_view name =
      slash == absl::string_view::npos ? argument : argument.substr(slash + 1);
  const bool is_snapshot = kind == "vs" || kind == "volumesnapshot" || kind == "volumesnapshots" ||
                           kind == kResource || kind == "volumesnapshots.snapshot.storage.k8s.io";
  if (!is_snapshot || name.empty() || name.find('/') != absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", argument,
        "\" does not name a VolumeSnapshot; give its name, as -o wide lists it, and its namespace "
        "with -n"));
  }
  return std::string(name);
}

absl::StatusOr<std::string> OneNamespace(const ClusterOptions& cluster, absl::string_view verb) {
  if (cluster.all_namespaces) {
    return absl::InvalidArgumentError(
        absl::StrCat(verb, " works in one namespace: leave out -A; name it with -n"));
  }
  if (!cluster.selector.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(verb, " takes names: leave out -l; csi-delta snapshot list -l ",
                     ShellQuoted(cluster.selector), " -o name prints those of the labels"));
  }
  return cluster.Namespace();
}

absl::Status NoSuchSnapshots(absl::string_view namespace_name,
                             const std::vector<std::string>& missing,
                             const std::vector<snapshots::SnapshotEntry>& entries) {
  CSIDELTA_CHECK(!missing.empty());  // otherwise an error would name nothing
  std::vector<std::string> names;
  names.reserve(entries.size());
  for (const snapshots::SnapshotEntry& entry : entries) {
    names.push_back(entry.name);
  }
  const std::string near = NearestOf(missing.front(), names);
  return absl::NotFoundError(absl::StrCat(
      "VolumeSnapshot ", absl::StrJoin(missing, ", "), " was not found in namespace ",
      namespace_name, near.empty() ? "" : ", but ", near, near.empty() ? "" : " was",
      "; csi-delta snapshot list -n ", ShellQuoted(namespace_name), " lists what is there"));
}

std::string SnapshotTimeText(const std::optional<absl::Time>& time) {
  return time.has_value() ? absl::FormatTime("%Y-%m-%d %H:%M:%E*S", *time, absl::LocalTimeZone())
                          : "";
}

std::string ShellQuoted(absl::string_view text) {
  if (!text.empty() && std::all_of(text.begin(), text.end(), IsPlainInShell)) {
    return std::string(text);
  }
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

std::string ImportCommand(absl::string_view driver, absl::string_view handle,
                          absl::string_view namespace_name) {
  return absl::StrCat("csi-delta snapshot import --driver ", ShellQuoted(driver),
                      namespace_name.empty() ? "" : " -n ",
                      namespace_name.empty() ? "" : ShellQuoted(namespace_name),
                      absl::StartsWith(handle, "-") ? " -- " : " ", ShellQuoted(handle));
}

std::string DataActionText(const snapshots::SnapshotEntry& entry, snapshots::DataAction action) {
  switch (action) {
    case snapshots::DataAction::kNone:
      return "it is bound to no VolumeSnapshotContent: it has no data yet";
    case snapshots::DataAction::kUnknown:
      return absl::StrCat("VolumeSnapshotContent ", entry.content,
                          " cannot be read: it is not known whether the storage keeps its data");
    case snapshots::DataAction::kContentGone:
      return absl::StrCat("VolumeSnapshotContent ", entry.content,
                          " does not exist: what the storage still has stays there");
    case snapshots::DataAction::kNotItsOwn:
      return absl::StrCat("VolumeSnapshotContent ", entry.content, " belongs to ",
                          entry.content_names, ", and stays");
    case snapshots::DataAction::kDeleted:
      return "its data is gone for good";
    case snapshots::DataAction::kKept:
      break;
  }
  return entry.handle.empty()
             ? absl::StrCat("the storage keeps its data; the driver has not given VolumeSnapshot",
                            "Content ", entry.content, " a handle yet")
             : absl::StrCat("the storage keeps its data: handle ", entry.handle, "; ",
                            ImportCommand(entry.driver, entry.handle, ""), " brings it back");
}

std::string DataActionText(const snapshots::Unit& unit, snapshots::DataAction action) {
  std::string text;
  for (const snapshots::SnapshotEntry& entry : unit) {
    if (text.empty() || action == snapshots::DataAction::kKept) {  // Each has a handle of its own.
      absl::StrAppend(&text, text.empty() ? "" : "; ", DataActionText(entry, action));
    }
  }
  return text;
}

std::string NotDeletedText(const absl::Status& error) {
  CSIDELTA_CHECK(!error.ok());  // otherwise it was deleted
  const bool is_unknown =
      absl::IsCancelled(error) || absl::IsUnavailable(error) || absl::IsDeadlineExceeded(error);
  return absl::StrCat(is_unknown ? "may be deleted or not: " : "was not deleted: ",
                      error.message());
}

Json ProtectionsJson(const std::vector<Finding>& protections) {
  Json list = Json::array();
  for (const Finding& one : protections) {
    list.push_back({{"reason", std::string(one.code)}, {"message", one.message}});
  }
  return list;
}

std::string CodesText(const std::vector<Finding>& findings) {
  return absl::StrJoin(
      findings, ",", [](std::string* out, const Finding& one) { absl::StrAppend(out, one.code); });
}

std::string ProtectionsText(const std::vector<Finding>& protections) {
  return absl::StrJoin(MessagesOf(protections), "; ");
}

const char* DecisionText(const PruneDecision& decision, bool dry_run) {
  switch (decision.verdict) {
    case PruneVerdict::kHeld:
      return "hold back";
    case PruneVerdict::kRemoved:
      return dry_run ? "would delete" : "delete";
    case PruneVerdict::kKept:
      return "keep";
    case PruneVerdict::kOpen:
    case PruneVerdict::kIgnored:
      break;
  }
  CSIDELTA_CHECK(false);  // such a decision is not printed
  return "";
}

Json ToJson(const snapshots::SnapshotEntry& entry) {
  Json conditions = Json::array();
  for (const csi::SnapshotCondition& one : entry.status.conditions) {
    Json condition = {{"type", one.type},
                      {"status", one.holds ? "True" : "False"},
                      {"reason", one.reason},
                      {"message", one.message}};
    if (one.last_transition_time.has_value()) {
      condition["lastTransitionTime"] = FormatRfc3339(*one.last_transition_time);
    }
    conditions.push_back(std::move(condition));
  }
  return {{"name", entry.name},
          {"namespace", entry.namespace_name},
          {"pvc", entry.pvc},
          {"state", csi::ToString(entry.status.state)},
          {"conditions", std::move(conditions)},
          {"asked_at", OrNull(entry.asked_at)},
          {"taken_at", OrNull(entry.status.taken_at)},
          {"ready_at", OrNull(entry.ready_at)},
          {"size_bytes", OrNull(entry.restore_size_bytes)},
          {"driver", entry.driver},
          {"handle", entry.handle},
          {"content", entry.content},
          {"class", entry.class_name},
          {"policy", entry.deletion_policy},
          {"set", entry.set},
          {"group", entry.group.name},
          {"workload", entry.workload},
          {"note", entry.note},
          {"used_by", entry.used_by},
          {"kept_for", ProtectionsJson(entry.kept_for)}};
}

}  // namespace csidelta::cli
