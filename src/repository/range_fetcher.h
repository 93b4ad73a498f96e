#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/extent.h"
#include "base/mutex.h"
#include "base/worker_pool.h"
#include "repository/blob_codec.h"
#include "repository/maintenance_memory.h"
#include "repository/repository.h"
#include "repository/request_window.h"

namespace csidelta::repository {

// Fetches ranges of packs by threads of its own, and has others decode them: the latency of the
// store is hidden by the number of requests, whatever the number of cores.
//
//   Add()* --> Finish()
//
// Requests begin in the order of Add(). As many are under way as the link asks for (RequestWindow),
// and no more ranges than the room has are in memory, from their request until they are decoded. Of
// those that have arrived the first in order is decoded first. Borrows the repository. Thread-safe,
// but for Finish().
class RangeFetcher {
 public:
  // Of one thread, by its number.
  struct Decoder {
    std::size_t number;
    BlobCodec& codec;
  };
  // Called once for each range, with what Repository::LoadPackRange() says. An error ends all.
  using Decode = std::function<absl::Status(const CallContext& ctx, const Decoder& decoder,
                                            absl::StatusOr<std::string> bytes)>;

  // With `in_order_of_pack` the ranges of a pack are decoded one at a time, in the order of Add().
  RangeFetcher(const CallContext& ctx, const Repository& repository, FetchRoom room,
               bool in_order_of_pack = false);

  // The caller's context, which also ends with the first error.
  const CallContext& context() const { return pool_.context(); }

  // Waits while kWaitingMax ranges wait for requests. False if it has ended meanwhile.
  bool Add(const PackId& pack, const Extent& range, Decode decode);

  // Waits until all is decoded. The first error, which `status` may be.
  absl::Status Finish(const absl::Status& status = absl::OkStatus());

  static constexpr int kWaitingMax = 64;

 private:
  struct Range {
    PackId pack;
    Extent extent;
    Decode decode;
    std::optional<absl::StatusOr<std::string>> bytes = {};  // until a decoder takes them
  };
  using Ranges = std::list<Range>;

  absl::Status FetchAll(const CallContext& ctx);
  absl::Status DecodeAll(const CallContext& ctx, std::size_t number);
  // Waits for a range. Nothing once all are done, or `ctx` is over.
  std::optional<Ranges::iterator> NextToFetch(const CallContext& ctx);
  std::optional<Ranges::iterator> NextToDecode(const CallContext& ctx,
                                               absl::StatusOr<std::string>& bytes);

  bool MayFetch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return next_ != ranges_.end() && held_ < room_.ranges && in_flight_ < window_.width();
  }
  Ranges::iterator FirstToDecode() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // After each change: wakes one of those that may go on.
  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Repository& repository_;
  const FetchRoom room_;
  const bool in_order_of_pack_;
  Mutex mutex_;
  std::condition_variable_any may_add_;
  std::condition_variable_any may_fetch_;
  std::condition_variable_any may_decode_;
  // In order: those with a request, and from next_ on those that wait for one.
  Ranges ranges_ ABSL_GUARDED_BY(mutex_);
  Ranges::iterator next_ ABSL_GUARDED_BY(mutex_) = ranges_.end();
  int held_ ABSL_GUARDED_BY(mutex_) = 0;
  int in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  RequestWindow window_ ABSL_GUARDED_BY(mutex_);
  WorkerPool pool_;
};

}  // namespace csidelta::repository
