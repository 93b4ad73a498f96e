#include "repository/blob_fetcher.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "base/memory_budget.h"
#include "base/status_macros.h"
#include "base/worker_pool.h"
#include "repository/blob_codec.h"
#include "repository/format.h"
#include "repository/maintenance.h"
#include "repository/maintenance_memory.h"
#include "repository/range_fetcher.h"

namespace csidelta::repository {
namespace {

constexpr int64_t kRangeBytesMax = int64_t{8} << 20;
// Reading on is cheaper than another request.
constexpr int64_t kRangeGapBytesMax = int64_t{256} << 10;
// The tables of a decompressor.
constexpr int64_t kDecoderBytes = int64_t{512} << 10;
// A writer compresses a blob, seals it, and opens what was sealed.
constexpr int64_t kBlobsPerWrite = 3;
constexpr int64_t kCompressorBytes = int64_t{2} << 20;

int64_t BeginOf(const BlobToFetch& blob) { return blob.location.span.offset_bytes; }
int64_t EndOf(const BlobToFetch& blob) { return BeginOf(blob) + blob.location.span.sealed_bytes; }

// Neighbours in one pack: [first, last) of the sorted blobs.
struct Range {
  std::size_t first = 0;
  std::size_t last = 0;
  int64_t begin_bytes = 0;
  int64_t end_bytes = 0;
};

// Whether memory should hold one of them at a time.
bool IsAlone(const BlobToFetch& blob) {
  return IsLarge(blob.location.span) || blob.location.span.sealed_bytes > kLargeBlobBytes;
}

// What decoding a blob takes beside its range: what is decrypted and decompressed, and both again
// where another copy is looked for.
int64_t DecodeBytes(const BlobToFetch& blob, const FetchOptions& options) {
  const BlobSpan& span = blob.location.span;
  const int64_t written_bytes =
      options.sink_writes ? kBlobsPerWrite * int64_t{span.plaintext_bytes()} + kCompressorBytes : 0;
  return 2 * (int64_t{span.sealed_bytes} + span.plaintext_bytes()) + kDecoderBytes + written_bytes;
}

std::vector<Range> MakeRanges(absl::Span<const BlobToFetch> sorted, int64_t range_bytes_max) {
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const bool fits = !ranges.empty() && !IsAlone(sorted[i]) && !IsAlone(sorted[i - 1]) &&
                      sorted[i].location.pack == sorted[i - 1].location.pack &&
                      BeginOf(sorted[i]) - ranges.back().end_bytes <= kRangeGapBytesMax &&
                      EndOf(sorted[i]) - ranges.back().begin_bytes <= range_bytes_max;
    if (!fits) {
      ranges.push_back({.first = i, .last = i, .begin_bytes = BeginOf(sorted[i])});
    }
    ranges.back().last = i + 1;
    ranges.back().end_bytes = std::max(ranges.back().end_bytes, EndOf(sorted[i]));
  }
  return ranges;
}

// What is the same for all ranges of one call.
class Fetch {
 public:
  Fetch(const CallContext& ctx, const Repository& repository, absl::Span<const BlobToFetch> blobs,
        BlobSink sink, const FetchOptions& options)
      : ctx_(ctx), repository_(repository), blobs_(blobs), sink_(sink), options_(options) {}

  absl::Status Run();

 private:
  // Of those that are read together.
  absl::Status FetchRanges(absl::Span<const Range> ranges, int64_t decode_bytes);
  absl::Status FetchAlone(const BlobToFetch& blob);
  absl::Status FetchOther(const CallContext& ctx, const BlobHandle& handle);
  absl::Status Decode(const CallContext& ctx, const Range& range, BlobCodec& codec,
                      const absl::StatusOr<std::string>& bytes);

  const CallContext& ctx_;
  const Repository& repository_;
  const absl::Span<const BlobToFetch> blobs_;
  BlobSink sink_;
  const FetchOptions& options_;
};

absl::Status Fetch::Run() {
  int64_t decode_bytes = 1;
  for (const BlobToFetch& blob : blobs_) {
    decode_bytes = std::max(decode_bytes, IsAlone(blob) ? 0 : DecodeBytes(blob, options_));
  }
  std::vector<Range> ranges = MakeRanges(
      blobs_, RangeBytesFor(repository_.memory().free_bytes(), decode_bytes, kRangeBytesMax));
  const auto alone =
      std::stable_partition(ranges.begin(), ranges.end(),
                            [this](const Range& range) { return !IsAlone(blobs_[range.first]); });
  RETURN_IF_ERROR(
      FetchRanges({ranges.data(), static_cast<std::size_t>(alone - ranges.begin())}, decode_bytes));
  for (auto range = alone; range != ranges.end(); ++range) {
    RETURN_IF_ERROR(FetchAlone(blobs_[range->first]));
  }
  return absl::OkStatus();
}

absl::Status Fetch::FetchRanges(absl::Span<const Range> ranges, int64_t decode_bytes) {
  int64_t range_bytes = 0;
  for (const Range& range : ranges) {
    range_bytes = std::max(range_bytes, range.end_bytes - range.begin_bytes);
  }
  if (ranges.empty()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(FetchRoom room, TakeFetchRoom(repository_.memory(), range_bytes, decode_bytes,
                                                 "reading blobs", std::ssize(ranges)));
  RangeFetcher fetcher(ctx_, repository_, std::move(room));
  for (const Range& range : ranges) {
    const auto decode = [&](const CallContext& ctx, const RangeFetcher::Decoder& decoder,
                            const absl::StatusOr<std::string>& bytes) {
      return Decode(ctx, range, decoder.codec, bytes);
    };
    if (!fetcher.Add(blobs_[range.first].location.pack,
                     {range.begin_bytes, range.end_bytes - range.begin_bytes}, decode)) {
      break;
    }
  }
  return fetcher.Finish();
}

absl::Status Fetch::FetchAlone(const BlobToFetch& blob) {
  RETURN_IF_ERROR(ctx_.Check());
  if (!IsPossible(blob.handle.type, blob.location.span)) {
    return FetchOther(ctx_, blob.handle);  // One blob, by an index that may be wrong.
  }
  ASSIGN_OR_RETURN(const MemoryBudget::Share share,
                   repository_.memory().Take(
                       int64_t{blob.location.span.sealed_bytes} + DecodeBytes(blob, options_),
                       Describe(blob.handle)));
  const auto first = static_cast<std::size_t>(&blob - blobs_.data());
  return Decode(
      ctx_,
      {.first = first, .last = first + 1, .begin_bytes = BeginOf(blob), .end_bytes = EndOf(blob)},
      *repository_.MakeCodec(),
      repository_.LoadPackRange(ctx_, blob.location.pack, BeginOf(blob),
                                blob.location.span.sealed_bytes));
}

absl::Status Fetch::FetchOther(const CallContext& ctx, const BlobHandle& handle) {
  const absl::StatusOr<std::string> blob = repository_.LoadBlob(ctx, handle);
  if (!blob.ok() && !IsDamage(blob.status())) {
    return blob.status();
  }
  return sink_({.handle = handle, .plaintext = blob});
}

absl::Status Fetch::Decode(const CallContext& ctx, const Range& range, BlobCodec& codec,
                           const absl::StatusOr<std::string>& bytes) {
  if (!bytes.ok() && !IsDamage(bytes.status())) {
    return bytes.status();
  }
  for (std::size_t i = range.first; i < range.last; ++i) {
    RETURN_IF_ERROR(ctx.Check());
    const BlobToFetch& blob = blobs_[i];
    if (bytes.ok()) {
      const absl::string_view envelope = absl::string_view(*bytes).substr(
          static_cast<std::size_t>(BeginOf(blob) - range.begin_bytes),
          blob.location.span.sealed_bytes);
      const absl::StatusOr<absl::string_view> plaintext =
          codec.Decode(blob.handle, blob.location.span, envelope);
      if (plaintext.ok()) {
        RETURN_IF_ERROR(sink_({.handle = blob.handle,
                               .plaintext = plaintext,
                               .entry = {{.handle = blob.handle, .span = blob.location.span}},
                               .envelope = envelope,
                               .frame = codec.frame()}));
        continue;
      }
    }
    RETURN_IF_ERROR(FetchOther(ctx, blob.handle));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FetchBlobs(const CallContext& ctx, const Repository& repository,
                        std::vector<BlobToFetch> blobs, BlobSink sink,
                        const FetchOptions& options) {
  std::sort(blobs.begin(), blobs.end(), [](const BlobToFetch& left, const BlobToFetch& right) {
    return std::tie(left.location.pack, left.location.span.offset_bytes) <
           std::tie(right.location.pack, right.location.span.offset_bytes);
  });
  return Fetch(ctx, repository, blobs, sink, options).Run();
}

}  // namespace csidelta::repository
