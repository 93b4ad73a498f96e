#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "cli/arguments.h"
#include "cli/cluster_access.h"
#include "cli/exit_code.h"
#include "cli/session.h"

// restore --upload --into: what the data mover moved, into a PVC, by the data mover.
namespace csidelta::cli {

struct RestoreIntoFlags {
  std::string pvc;     // "namespace/name"; "": not asked for
  std::string upload;  // a DataUpload
  std::string velero_namespace = "velero";
  std::string mover_namespace = "csi-delta";
  std::string safety = "yes";
  ClusterAccess cluster;
  bool is_dry_run = false;  // this one and the next are flags of restore itself
  bool yes = false;

  void Declare(ArgumentTable& table);
  bool is_asked_for() const { return !pvc.empty(); }
  // INVALID_ARGUMENT unless either `id`, of restore, is named, or both --upload and --into.
  absl::Status Check(const std::string& id) const;
};

// Nothing of a repository is read here: the data mover does that.
absl::StatusOr<ExitCode> RunRestoreInto(const CallContext& ctx, Session& session,
                                        const RestoreIntoFlags& flags);

}  // namespace csidelta::cli
