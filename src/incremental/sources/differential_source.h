#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "base/random.h"
#include "base/retry.h"
#include "base/secret.h"
#include "incremental/sources/changed_block_source.h"
#include "incremental/sources/differential_wire.h"
#include "net/http_client.h"

namespace csidelta::incremental {

struct DifferentialSourceOptions {
  net::Url url;  // status.url of the DifferentialSnapshot
  net::HttpClientOptions http;
  // A token that the server takes; a new one, whatever is remembered, with `renew`.
  std::function<absl::StatusOr<Secret>(const CallContext& ctx, bool renew)> token;
  int64_t entries_max = 16384;  // of one page
  int64_t from_bytes = 0;       // what lies before is left out
  BackoffOptions backoff{.delay_first = absl::Milliseconds(200),
                         .delay_max = absl::Seconds(10),
                         .attempts_max = 8,
                         .jitter = 0.5};  // between two pages
};

// What the REST server of one DifferentialSnapshot lists: reads page after page, and passes on what
// touches as one extent. The pair is the object's: that of the request is left unread. Holds one
// page in memory.
//
// The volume that the storage knows is not the device: with a size in the request, what ends behind
// the device is cut, and what the device has beyond the volume is listed as unknown.
//
// The listing is whole only when a page says that it was the last one. A page that failed is asked
// for again with the same cursor, after a pause; a cursor that is refused makes the listing
// restart, once, and what was passed on already is left out. Errors beside those of the seam:
//   FAILED_PRECONDITION  also: the storage has no such list, or keeps it no longer
//   INVALID_ARGUMENT     pages that contradict themselves or each other
//   PERMISSION_DENIED · UNAUTHENTICATED   what it says
// Errors of the listing have their class (FailureOf()).
// Thread-safe.
class DifferentialSource : public ChangedBlockSource {
 public:
  explicit DifferentialSource(DifferentialSourceOptions options, Random& random = Random::Real());

  absl::string_view name() const override { return "differential-snapshot"; }
  bool lists_allocated() const override { return true; }

  absl::Status ListExtents(const CallContext& ctx, const DiffRequest& request,
                           ExtentSink sink) override;

 private:
  class Listing;

  const DifferentialSourceOptions options_;
  Random& random_;
  net::HttpClient http_;
};

// Whether an error of the listing says that its object, or the result, is not there any more: a new
// object may help.
bool IsResultGone(const absl::Status& status);

}  // namespace csidelta::incremental
