#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "objects/cluster.h"

// The CRDs of the mover's kinds, which Helm installs once and never updates. Fields that a CRD does
// not declare are pruned by the API server without an error.
namespace csidelta::datamover {

// VolumeTask, DataDeletion and ProtectedVolume.
absl::Span<const k8s::ResourceType* const> MoverKinds();

// The CRD of one kind, by its name.
k8s::ObjectKey DefinitionOf(const k8s::ResourceType& type);

// The command that installs the CRDs of this version.
inline constexpr char kUpdateKinds[] =
    "kubectl apply --server-side --force-conflicts --filename deploy/chart/crds: Helm does not "
    "update them";

// The command that installs what serves a kind, as it is typed, or a link where it depends on the
// cluster; "" for kinds of Kubernetes itself. Pure.
absl::string_view InstallCommand(const k8s::ResourceType& type);

// "the data mover is not installed in this cluster (CRD volumetasks.mover.csi-delta.io); to install
// it: ..."; the kind alone where it is one of Kubernetes. Pure.
std::string ExplainUnserved(const k8s::ResourceType& type);

// The fields of `type`, such as "spec.upload", that this version reads or writes and the CRD
// `definition` does not declare. `type` is one of MoverKinds(). Pure.
std::vector<std::string> UndeclaredFields(const objects::CustomResourceDefinition& definition,
                                          const k8s::ResourceType& type);

// Whether the cluster's CRDs declare every field that this version uses. Errors:
//   FAILED_PRECONDITION  a CRD is missing or of an older version; the message names the fields and
//                        the command that updates it
//   PERMISSION_DENIED    this account must not read the CRDs; the message says which command grants
//                        that
// and those of the API server.
absl::Status CheckMoverKinds(const CallContext& ctx, k8s::ApiClient& api);

}  // namespace csidelta::datamover
