#include "repository/range_fetcher.h"

#include <malloc.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"

namespace csidelta::repository {
namespace {

constexpr int kMappedBytesMin = 256 << 10;

// The allocator has an arena for each thread that requests, and would keep in it what decoders
// free, several times what is in use. Ranges are mapped alone instead, and go back to the kernel.
void MapRangesAlone() {
  [[maybe_unused]] static const int set = ::mallopt(M_MMAP_THRESHOLD, kMappedBytesMin);
}

}  // namespace

RangeFetcher::RangeFetcher(const CallContext& ctx, const Repository& repository, FetchRoom room,
                           bool in_order_of_pack)
    : repository_(repository),
      room_(std::move(room)),
      in_order_of_pack_(in_order_of_pack),
      window_(room_.ranges),
      pool_(ctx) {
  MapRangesAlone();
  pool_.Start(room_.ranges, [this](const CallContext& own, int) { return FetchAll(own); });
  pool_.Start(room_.decoders, [this](const CallContext& own, int number) {
    return DecodeAll(own, static_cast<std::size_t>(number));
  });
}

bool RangeFetcher::Add(const PackId& pack, const Extent& range, Decode decode) {
  MutexLock lock(mutex_);
  const bool has_room =
      may_add_.wait(lock, context().stop, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return std::ssize(ranges_) - held_ < kWaitingMax;
      });
  if (has_room) {
    ranges_.push_back({.pack = pack, .extent = range, .decode = std::move(decode)});
    next_ = next_ == ranges_.end() ? std::prev(next_) : next_;
    Wake();
  }
  return has_room;
}

absl::Status RangeFetcher::Finish(const absl::Status& status) {
  pool_.Fail(status);
  {
    const MutexLock lock(mutex_);
    is_closed_ = true;
    Wake();
  }
  return pool_.Join();
}

absl::Status RangeFetcher::FetchAll(const CallContext& ctx) {
  while (const std::optional<Ranges::iterator> next = NextToFetch(ctx)) {
    Range& range = **next;
    int retries = 0;
    CallContext counting = ctx;
    counting.retries = &retries;
    const absl::Duration began = ctx.clock->Uptime();
    const Extent& extent = range.extent;
    absl::StatusOr<std::string> bytes =
        repository_.LoadPackRange(counting, range.pack, extent.offset_bytes, extent.length_bytes);
    const absl::Duration now = ctx.clock->Uptime();
    const MutexLock lock(mutex_);
    if (retries > 0) {
      window_.Refused(began, now);
    } else {
      window_.Ended(extent.length_bytes, began, now,
                    next_ != ranges_.end() && held_ < room_.ranges);
    }
    --in_flight_;
    range.bytes.emplace(std::move(bytes));
    Wake();
  }
  return ctx.Check();
}

absl::Status RangeFetcher::DecodeAll(const CallContext& ctx, std::size_t number) {
  const std::unique_ptr<BlobCodec> codec = repository_.MakeCodec();
  absl::StatusOr<std::string> bytes;
  while (const std::optional<Ranges::iterator> range = NextToDecode(ctx, bytes)) {
    RETURN_IF_ERROR((*range)->decode(ctx, {number, *codec}, std::move(bytes)));
    Ranges done;  // Outlives the lock.
    const MutexLock lock(mutex_);
    done.splice(done.begin(), ranges_, *range);
    --held_;
    Wake();
  }
  return ctx.Check();
}

std::optional<RangeFetcher::Ranges::iterator> RangeFetcher::NextToFetch(const CallContext& ctx) {
  MutexLock lock(mutex_);
  may_fetch_.wait(lock, ctx.stop, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return MayFetch() || (is_closed_ && next_ == ranges_.end());
  });
  if (ctx.stop.stop_requested() || next_ == ranges_.end()) {
    return std::nullopt;
  }
  ++held_;
  ++in_flight_;
  const auto range = next_++;
  CSIDELTA_CHECK(in_flight_ <= held_ && held_ <= room_.ranges);
  Wake();
  return range;
}

std::optional<RangeFetcher::Ranges::iterator> RangeFetcher::NextToDecode(
    const CallContext& ctx, absl::StatusOr<std::string>& bytes) {
  MutexLock lock(mutex_);
  may_decode_.wait(lock, ctx.stop, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return FirstToDecode() != ranges_.end() || (is_closed_ && ranges_.empty());
  });
  const auto range = FirstToDecode();
  if (ctx.stop.stop_requested() || range == ranges_.end()) {
    return std::nullopt;
  }
  bytes = *std::exchange(range->bytes, std::nullopt);
  Wake();
  return range;
}

RangeFetcher::Ranges::iterator RangeFetcher::FirstToDecode() {
  for (auto range = ranges_.begin(); range != next_; ++range) {
    const auto is_of_pack = [&](const Range& before) { return before.pack == range->pack; };
    if (range->bytes.has_value() &&
        !(in_order_of_pack_ && std::any_of(ranges_.begin(), range, is_of_pack))) {
      return range;
    }
  }
  return ranges_.end();
}

void RangeFetcher::Wake() {
  may_add_.notify_one();
  if (is_closed_ && next_ == ranges_.end()) {
    may_fetch_.notify_all();
  } else if (MayFetch()) {
    may_fetch_.notify_one();
  }
  if (is_closed_ && ranges_.empty()) {
    may_decode_.notify_all();
  } else if (FirstToDecode() != ranges_.end()) {
    may_decode_.notify_one();
  }
}

}  // namespace csidelta::repository
