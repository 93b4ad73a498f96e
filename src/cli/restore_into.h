#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "cli/arguments.h"
#include "cli/cluster_repository.h"
#include "cli/exit_code.h"
#include "cli/session.h"

// restore --upload --into: the data mover restores the data of a DataUpload into a PVC.
namespace csidelta::cli {

struct RestoreIntoFlags {
  std::string pvc;  // "namespace/name"; "": not requested
  std::string safety = "yes";
  ClusterRepositoryFlags source = {};  // this one and the next two are flags of restore itself
  bool is_dry_run = false;
  bool yes = false;

  void Declare(ArgumentTable& table);
  bool is_asked_for() const { return !pvc.empty(); }
  // INVALID_ARGUMENT unless --upload is given, and no `id` of restore. REQUIRES is_asked_for().
  absl::Status Check(const std::string& id) const;
};

// Reads nothing from a repository: the data mover does that.
absl::StatusOr<ExitCode> RunRestoreInto(const CallContext& ctx, Session& session,
                                        const RestoreIntoFlags& flags);

}  // namespace csidelta::cli
