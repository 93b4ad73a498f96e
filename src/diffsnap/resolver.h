#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "diffsnap/content_index.h"
#include "k8s/api_client.h"
#include "objects/differential_snapshot.h"

namespace csidelta::diffsnap {

// What a DifferentialSnapshot stands for now, seen from beside one driver.
struct Resolution {
  enum class Kind {
    kForeign,     // its target is another driver's
    kUnresolved,  // the driver of its target is not known yet
    kNotReady,    // ours; may become one of the two below
    kFailure,     // ours, and never anything else
    kSuccess,     // ours, and this is the pair
  };

  Kind kind = Kind::kUnresolved;
  std::string error = {};  // of kNotReady and kFailure: "Code: text"
  objects::ResolvedNames resolved =
      {};  // complete with kSuccess; the driver alone with kNotReady, kFailure
};

// Looks up the volume snapshots that `object` names, in its own namespace and nowhere else, and
// holds them to each other: one driver, one volume. A base that is given by its handle is taken as
// it is, unless the cluster knows that handle as another volume's: the driver decides.
// One that the cluster does not know is kNotReady until `object` is older than
// ContentIndex::kLagMax. Which of two is older is the driver's business, too. Writes nothing.
// Errors of the API server and of `contents`, the driver's; what is missing or not ready is no
// error.
absl::StatusOr<Resolution> Resolve(const CallContext& ctx, k8s::ApiClient& api,
                                   const ContentIndex& contents, const std::string& driver,
                                   const objects::DifferentialSnapshot& object);

// Why spec.parameters cannot be handed to the driver; "" when nothing is wrong.
std::string FaultOfParameters(const objects::DifferentialSnapshot& object);

}  // namespace csidelta::diffsnap
