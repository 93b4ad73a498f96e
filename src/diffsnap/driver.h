#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/secret.h"
#include "incremental/sources/differential_wire.h"

namespace csidelta::diffsnap {

// One page's worth of a question to a storage driver.
struct DriverRequest {
  std::string base_handle;  // "": what is allocated in the target
  std::string target_handle;
  std::string volume_handle;      // of both; "": not known
  int64_t volume_size_bytes = 0;  // as it is known without the driver; 0: it is not
  std::map<std::string, std::string> parameters;
  std::map<std::string, Secret> secrets = {};
  int64_t from_bytes = 0;    // where to begin, when there is no token
  std::string driver_token;  // of the page before
  int64_t entries_max = 0;   // positive

  friend bool operator==(const DriverRequest&, const DriverRequest&) = default;
};

struct DriverPage {
  std::vector<incremental::ChangedBlock> blocks;
  int64_t volume_size_bytes = 0;
  absl::Time expires_at = absl::InfiniteFuture();
  bool more = false;
  std::string driver_token;  // where the next page begins, if more; "": at the last block's end
};

// Answers one question: what does the storage say of one pair, from one place on? The seam to
// drivers. Says what they say; who asks checks it. Thread-safe. Errors as a driver gives them:
//   INVALID_ARGUMENT     the handles, the place or the parameters make no sense to it
//   NOT_FOUND            it does not know a handle (any more)
//   FAILED_PRECONDITION  it cannot compare these two
//   OUT_OF_RANGE         the place lies beyond the volume
//   UNIMPLEMENTED        it cannot do this at all
//   UNAVAILABLE · ABORTED · RESOURCE_EXHAUSTED   ask again later
//   DEADLINE_EXCEEDED · CANCELLED                from ctx
class DifferentialDriver {
 public:
  virtual ~DifferentialDriver() = default;

  virtual absl::StatusOr<DriverPage> GetPage(const CallContext& ctx,
                                             const DriverRequest& request) = 0;
};

// What a driver said that no driver may say: its list is not to be trusted. Not an answer of the
// driver's, as the codes above are.
absl::Status ContractViolation(absl::string_view words);
bool IsContractViolation(const absl::Status& status);

}  // namespace csidelta::diffsnap
