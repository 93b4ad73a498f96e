#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "cli/arguments.h"
#include "cli/cluster_access.h"
#include "cli/exit_code.h"
#include "cli/session.h"

// restore --upload --into: the data mover restores the data of a DataUpload into a PVC.
namespace csidelta::cli {

struct RestoreIntoFlags {
  std::string pvc;     // "namespace/name"; "": not requested
  std::string upload;  // a DataUpload; with a location its status.snapshotID
  std::string location;
  std::string velero_namespace = "velero";
  std::string mover_namespace = "csi-delta";
  std::string safety = "yes";
  ClusterAccess cluster;
  bool is_dry_run = false;  // this one and the next are flags of restore itself
  bool yes = false;

  void Declare(ArgumentTable& table);
  bool is_asked_for() const { return !pvc.empty(); }
  // INVALID_ARGUMENT unless either `id` of restore is given, or both --upload and --into.
  absl::Status Check(const std::string& id) const;
};

// Reads nothing from a repository: the data mover does that.
absl::StatusOr<ExitCode> RunRestoreInto(const CallContext& ctx, Session& session,
                                        const RestoreIntoFlags& flags);

}  // namespace csidelta::cli
