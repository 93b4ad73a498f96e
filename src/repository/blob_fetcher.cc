#include "repository/blob_fetcher.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>

#include "base/memory_budget.h"
#include "base/status_macros.h"
#include "base/worker_pool.h"
#include "repository/blob_codec.h"
#include "repository/format.h"
#include "repository/maintenance.h"
#include "repository/maintenance_memory.h"

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
  int64_t BytesOf(const Range& range) const;
  absl::Status FetchOther(const BlobHandle& handle);
  absl::Status FetchRange(const Range& range);

  const CallContext& ctx_;
  const Repository& repository_;
  const absl::Span<const BlobToFetch> blobs_;
  BlobSink sink_;
  const FetchOptions& options_;
};

int64_t Fetch::BytesOf(const Range& range) const {
  int64_t decode_bytes = 0;
  for (std::size_t i = range.first; i < range.last; ++i) {
    decode_bytes = std::max(decode_bytes, DecodeBytes(blobs_[i], options_));
  }
  return range.end_bytes - range.begin_bytes + decode_bytes;
}

absl::Status Fetch::Run() {
  MemoryBudget& memory = repository_.memory();
  int64_t decode_bytes = 0;
  for (const BlobToFetch& blob : blobs_) {
    decode_bytes = std::max(decode_bytes, IsAlone(blob) ? 0 : DecodeBytes(blob, options_));
  }
  std::vector<Range> ranges =
      MakeRanges(blobs_, RangeBytesFor(memory.free_bytes(), decode_bytes, kRangeBytesMax));
  const auto alone =
      std::stable_partition(ranges.begin(), ranges.end(),
                            [this](const Range& range) { return !IsAlone(blobs_[range.first]); });
  const auto shared_count = static_cast<std::size_t>(alone - ranges.begin());
  if (shared_count > 0) {
    int64_t bytes_each = 0;
    std::for_each(ranges.begin(), alone,
                  [&](const Range& range) { bytes_each = std::max(bytes_each, BytesOf(range)); });
    ASSIGN_OR_RETURN(const ThreadRoom room, TakeThreadRoom(memory, bytes_each, "reading blobs"));
    RETURN_IF_ERROR(ParallelFor(shared_count, room.threads,
                                [&](std::size_t i) { return FetchRange(ranges[i]); }));
  }
  for (std::size_t i = shared_count; i < ranges.size(); ++i) {
    const BlobToFetch& blob = blobs_[ranges[i].first];
    ASSIGN_OR_RETURN(
        const MemoryBudget::Share share,
        memory.Take(IsPossible(blob.handle.type, blob.location.span) ? BytesOf(ranges[i]) : 0,
                    Describe(blob.handle)));
    RETURN_IF_ERROR(FetchRange(ranges[i]));
  }
  return absl::OkStatus();
}

absl::Status Fetch::FetchOther(const BlobHandle& handle) {
  const absl::StatusOr<std::string> blob = repository_.LoadBlob(ctx_, handle);
  if (!blob.ok() && !IsDamage(blob.status())) {
    return blob.status();
  }
  return sink_({.handle = handle, .plaintext = blob});
}

absl::Status Fetch::FetchRange(const Range& range) {
  RETURN_IF_ERROR(ctx_.Check());
  const BlobToFetch& first = blobs_[range.first];
  if (IsAlone(first) && !IsPossible(first.handle.type, first.location.span)) {
    return FetchOther(first.handle);  // One blob, by an index that may be wrong.
  }
  const absl::StatusOr<std::string> bytes = repository_.LoadPackRange(
      ctx_, first.location.pack, range.begin_bytes, range.end_bytes - range.begin_bytes);
  if (!bytes.ok() && !IsDamage(bytes.status())) {
    return bytes.status();
  }
  const std::unique_ptr<BlobCodec> codec = repository_.MakeCodec();
  for (std::size_t i = range.first; i < range.last; ++i) {
    const BlobToFetch& blob = blobs_[i];
    if (bytes.ok()) {
      const absl::string_view envelope = absl::string_view(*bytes).substr(
          static_cast<std::size_t>(BeginOf(blob) - range.begin_bytes),
          blob.location.span.sealed_bytes);
      const absl::StatusOr<absl::string_view> plaintext =
          codec->Decode(blob.handle, blob.location.span, envelope);
      if (plaintext.ok()) {
        RETURN_IF_ERROR(sink_({.handle = blob.handle,
                               .plaintext = plaintext,
                               .entry = {{.handle = blob.handle, .span = blob.location.span}},
                               .envelope = envelope}));
        continue;
      }
    }
    RETURN_IF_ERROR(FetchOther(blob.handle));
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
