#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/finding.h"
#include "base/json.h"
#include "base/keep_rules.h"
#include "cli/session.h"
#include "snapshots/snapshot_inventory.h"
#include "snapshots/snapshot_removal.h"

// Shared by several verbs of `csi-delta snapshot`: arguments and texts.
namespace csidelta::cli {

// "volumesnapshot.snapshot.storage.k8s.io/NAME", as -o name prints it.
std::string SnapshotResourceName(absl::string_view name);

// The name in an argument: NAME, or "volumesnapshot/NAME" as -o name and kubectl print it.
// INVALID_ARGUMENT if the argument names another kind, or is empty. Pure.
absl::StatusOr<std::string> SnapshotNameOf(absl::string_view argument);

// The namespace of a verb that works on names in one namespace. INVALID_ARGUMENT for -A and -l.
// Reads the kubeconfig.
absl::StatusOr<std::string> OneNamespace(const ClusterOptions& cluster, absl::string_view verb);

// NOT_FOUND for VolumeSnapshots that the namespace lacks. The message has the nearest existing name
// and the verb that lists them. REQUIRES a name.
absl::Status NoSuchSnapshots(absl::string_view namespace_name,
                             const std::vector<std::string>& missing,
                             const std::vector<snapshots::SnapshotEntry>& entries);

// In the zone of this machine, with its whole precision: "2026-11-23 05:00:00.25"; "" for none.
std::string SnapshotTimeText(const std::optional<absl::Time>& time);

// `text` quoted as one argument for a shell, to be copied from the terminal. Pure.
std::string ShellQuoted(absl::string_view text);

// The command that imports a kept snapshot into this namespace; "": that of the context. Pure.
std::string ImportCommand(absl::string_view driver, absl::string_view handle,
                          absl::string_view namespace_name);

// The action on the data, as a sentence without a full stop: "its data is gone for good", "the
// storage keeps its data: handle H; csi-delta snapshot import H --driver D brings it back".
std::string DataActionText(const snapshots::SnapshotEntry& entry, snapshots::DataAction action);
std::string DataActionText(const snapshots::Unit& unit, snapshots::DataAction action);

// The failure of a deletion: "was not deleted: ...", or if the API server's answer was lost, "may
// be deleted or not: ...". REQUIRES an error.
std::string NotDeletedText(const absl::Status& error);

// [{"reason": "Keep", "message": "..."}, ...]
Json ProtectionsJson(const std::vector<Finding>& protections);
// "Backup,Young".
std::string CodesText(const std::vector<Finding>& findings);
// The messages, with "; " between them.
std::string ProtectionsText(const std::vector<Finding>& protections);

// "keep", "hold back", "delete" or in a dry run "would delete". REQUIRES a decision other than
// kOpen and kIgnored.
const char* DecisionText(const PruneDecision& decision, bool dry_run);

// One object for a VolumeSnapshot: name, namespace, pvc, state, conditions, asked_at, taken_at,
// ready_at, size_bytes, driver, handle, content, class, policy, set, group, workload, note,
// used_by, kept_for. Pure.
Json ToJson(const snapshots::SnapshotEntry& entry);

}  // namespace csidelta::cli
