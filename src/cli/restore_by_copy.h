#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "cli/arguments.h"
#include "cli/exit_code.h"
#include "cli/session.h"
#include "cli/volume_pod.h"
#include "inplace/restore_guard.h"
#include "k8s/api_client.h"
#include "objects/volume_snapshot.h"

// snapshot restore --method copy: what it asks for, and what it says.
namespace csidelta::cli {

struct CopyMethodFlags {
  VolumePodFlags pod;
  std::string service_account;

  void Declare(ArgumentTable& table);
};

struct CopyMethod {
  std::string pvc_name;
  objects::VolumeSnapshot snapshot;
  bool takes_safety_snapshot = true;
  bool is_dry_run = false;
  absl::Duration timeout;  // for the safety snapshot; the copy takes as long as it takes
  const CopyMethodFlags& flags;
  std::function<absl::Status()> confirm;  // after the plan was told
};

// Whether "auto" means this method: an image is known, the PVC is in mode Block, and the caller may
// make Pods there. Whatever cannot be told means no.
bool PrefersCopy(const CallContext& ctx, k8s::ApiClient& api, const CopyMethodFlags& flags,
                 const std::string& namespace_name, const std::string& pvc_name);

absl::StatusOr<ExitCode> RunCopyMethod(const CallContext& ctx, k8s::ApiClient& api,
                                       Session& session, const inplace::RestoreSurroundings& around,
                                       const CopyMethod& method);

}  // namespace csidelta::cli
