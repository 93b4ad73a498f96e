#include "repository/blob_fetcher.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

#include "base/mutex.h"
#include "base/status_macros.h"
#include "repository/blob_codec.h"
#include "repository/format.h"
#include "repository/maintenance.h"
#include "repository/parallel.h"

namespace csidelta::repository {
namespace {

constexpr int64_t kRangeBytesMax = int64_t{8} << 20;
// Reading on is cheaper than another request.
constexpr int64_t kRangeGapBytesMax = int64_t{256} << 10;

int64_t BeginOf(const BlobToFetch& blob) { return blob.location.span.offset_bytes; }
int64_t EndOf(const BlobToFetch& blob) { return BeginOf(blob) + blob.location.span.sealed_bytes; }

// Neighbours in one pack: [first, last) of the sorted blobs.
struct Range {
  std::size_t first = 0;
  std::size_t last = 0;
  int64_t begin_bytes = 0;
  int64_t end_bytes = 0;
};

std::vector<Range> MakeRanges(absl::Span<const BlobToFetch> sorted) {
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const bool fits = !ranges.empty() && sorted[i].location.pack == sorted[i - 1].location.pack &&
                      BeginOf(sorted[i]) - ranges.back().end_bytes <= kRangeGapBytesMax &&
                      EndOf(sorted[i]) - ranges.back().begin_bytes <= kRangeBytesMax;
    if (!fits) {
      ranges.push_back({.first = i, .last = i, .begin_bytes = BeginOf(sorted[i])});
    }
    ranges.back().last = i + 1;
    ranges.back().end_bytes = std::max(ranges.back().end_bytes, EndOf(sorted[i]));
  }
  return ranges;
}

absl::Status FetchOther(const CallContext& ctx, const Repository& repository,
                        const BlobHandle& handle, BlobSink sink) {
  const absl::StatusOr<std::string> blob = repository.LoadBlob(ctx, handle);
  if (!blob.ok()) {
    return IsDamage(blob.status()) ? sink(handle, blob.status()) : blob.status();
  }
  return sink(handle, absl::string_view(*blob));
}

absl::Status FetchRange(const CallContext& ctx, const Repository& repository,
                        absl::Span<const BlobToFetch> blobs, const Range& range, BlobSink sink) {
  RETURN_IF_ERROR(ctx.Check());
  const int64_t range_bytes = range.end_bytes - range.begin_bytes;
  if (range_bytes > kRangeBytesMax &&
      !IsPossible(blobs[range.first].handle.type, blobs[range.first].location.span)) {
    // One blob, by an index that may be wrong.
    return FetchOther(ctx, repository, blobs[range.first].handle, sink);
  }
  const absl::StatusOr<std::string> bytes = repository.LoadPackRange(
      ctx, blobs[range.first].location.pack, range.begin_bytes, range_bytes);
  if (!bytes.ok() && !IsDamage(bytes.status())) {
    return bytes.status();
  }
  const std::unique_ptr<BlobCodec> codec = repository.MakeCodec();
  for (std::size_t i = range.first; i < range.last; ++i) {
    const BlobToFetch& blob = blobs[i];
    if (bytes.ok()) {
      const absl::string_view envelope = absl::string_view(*bytes).substr(
          static_cast<std::size_t>(BeginOf(blob) - range.begin_bytes),
          blob.location.span.sealed_bytes);
      const absl::StatusOr<absl::string_view> plaintext =
          codec->Decode(blob.handle, blob.location.span, envelope);
      if (plaintext.ok()) {
        RETURN_IF_ERROR(sink(blob.handle, plaintext));
        continue;
      }
    }
    RETURN_IF_ERROR(FetchOther(ctx, repository, blob.handle, sink));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FetchBlobs(const CallContext& ctx, const Repository& repository,
                        std::vector<BlobToFetch> blobs, BlobSink sink) {
  std::sort(blobs.begin(), blobs.end(), [](const BlobToFetch& left, const BlobToFetch& right) {
    return std::tie(left.location.pack, left.location.span.offset_bytes) <
           std::tie(right.location.pack, right.location.span.offset_bytes);
  });
  const std::vector<Range> ranges = MakeRanges(blobs);
  Mutex large_mutex;
  return ParallelFor(ranges.size(), kMaintenanceThreads, [&](std::size_t i) {
    const bool large =
        std::any_of(blobs.begin() + static_cast<std::ptrdiff_t>(ranges[i].first),
                    blobs.begin() + static_cast<std::ptrdiff_t>(ranges[i].last),
                    [](const BlobToFetch& blob) { return IsLarge(blob.location.span); });
    std::unique_lock<Mutex> alone;
    if (large) {
      alone = std::unique_lock(large_mutex);
    }
    return FetchRange(ctx, repository, blobs, ranges[i], sink);
  });
}

}  // namespace csidelta::repository
