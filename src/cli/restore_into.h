#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "cli/arguments.h"
#include "cli/cluster_access.h"
#include "cli/exit_code.h"
#include "cli/session.h"
#include "cli/volume_pod.h"

// restore --into: a volume of a repository into a PVC, by a Pod beside it.
namespace csidelta::cli {

struct RestoreIntoFlags {
  std::string pvc;  // "namespace/name"; "": not asked for
  std::string secret;
  std::string safety = "yes";
  VolumePodFlags pod;
  ClusterAccess cluster;

  void Declare(ArgumentTable& table);
  bool is_asked_for() const { return !pvc.empty(); }
};

struct RestoreIntoWish {
  std::vector<std::string> words;  // of restore: which snapshot
  bool is_dry_run = false;
  bool yes = false;
};

// Nothing of a repository is read here: the Pod does that.
absl::StatusOr<ExitCode> RunRestoreInto(const CallContext& ctx, Session& session,
                                        const RestoreIntoFlags& flags, const RestoreIntoWish& wish);

}  // namespace csidelta::cli
