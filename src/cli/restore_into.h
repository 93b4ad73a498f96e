#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "cli/arguments.h"
#include "cli/cluster_access.h"
#include "cli/exit_code.h"
#include "cli/session.h"
#include "cli/volume_pod.h"

// restore --into: a volume of a repository into a PVC, by a Pod beside it; or what the data mover
// moved, by the data mover.
namespace csidelta::cli {

struct RestoreIntoFlags {
  std::string pvc;  // "namespace/name"; "": not asked for
  std::string secret;
  std::string upload;  // a DataUpload; "": the words of restore say which snapshot
  std::string velero_namespace = "velero";
  std::string mover_namespace = "csi-delta";
  std::string safety = "yes";
  VolumePodFlags pod;
  ClusterAccess cluster;

  void Declare(ArgumentTable& table);
  bool is_asked_for() const { return !pvc.empty(); }
  // INVALID_ARGUMENT unless one source is named, and all that it needs. `id`: of restore; "".
  absl::Status Check(const std::string& id) const;
};

struct RestoreIntoWish {
  std::vector<std::string> words;  // of restore: which snapshot
  bool is_dry_run = false;
  bool yes = false;
};

// Nothing of a repository is read here: the Pod, or the data mover, does that.
absl::StatusOr<ExitCode> RunRestoreInto(const CallContext& ctx, Session& session,
                                        const RestoreIntoFlags& flags, const RestoreIntoWish& wish);

}  // namespace csidelta::cli
