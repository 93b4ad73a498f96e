#include "incremental/mover/tree_fetcher.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "base/worker_pool.h"
#include "incremental/mover/tree_positions.h"
#include "repository/repository.h"

namespace csidelta::incremental {
namespace {

using repository::BlobCodec;
using repository::BlobId;
using repository::BlobLocation;
using repository::BlobType;

constexpr int64_t kTreeRangeBytesMax = int64_t{4} << 20;
// A volume's own trees have 1 MiB at most; several are in memory at a time.
constexpr int64_t kTreeBytesMax = int64_t{8} << 20;
constexpr int64_t kFetchesInFlightMax = 8;

// What one call of Load() works on. Each task writes places of `texts` that no other does.
struct Job {
  std::vector<BlobId> unique;
  std::vector<std::string> texts;
  std::vector<PackRange> ranges;
  std::vector<std::size_t> unplaced;  // of `unique`

  int64_t tasks() const { return static_cast<int64_t>(ranges.size() + unplaced.size()); }
};

absl::Status LoadByIndex(const CallContext& ctx, repository::Repository& repository, std::size_t at,
                         Job& job) {
  ASSIGN_OR_RETURN(job.texts[at],
                   repository.LoadTree(ctx, job.unique[at], std::nullopt, kTreeBytesMax));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<BlobLocation>> FindByIndex(const CallContext& ctx,
                                                        TreePositions& places,
                                                        const PlacedTree& tree) {
  RETURN_IF_ERROR(places.repository().LoadReadableIndex(ctx));
  const repository::BlobIndex& index = places.repository().index();
  ASSIGN_OR_RETURN(const std::optional<repository::IndexedCopy> found, index.FindTree(tree.id));
  if (!found.has_value()) {
    return std::nullopt;
  }
  const BlobLocation location = index.LocationOf(*found);
  places.Note(tree.position, location);
  return location;
}

// A locator may be stale in any way; only a stop or a store that is away are errors here.
bool IsStale(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsDataLoss(status) || absl::IsOutOfRange(status);
}

absl::Status LoadRange(const CallContext& ctx, repository::Repository& repository,
                       const PackRange& range, BlobCodec& codec, Job& job) {
  const absl::StatusOr<std::string> bytes =
      repository.LoadPackRange(ctx, range.pack, range.offset_bytes, range.length_bytes);
  if (!bytes.ok() && !IsStale(bytes.status())) {
    return bytes.status();
  }
  for (const WantedBlob& part : range.parts) {
    const auto at = static_cast<std::size_t>(part.tag);
    if (bytes.ok()) {
      const absl::StatusOr<absl::string_view> text =
          codec.Decode(part.handle, part.location.span, PartOf(range, part, *bytes));
      if (text.ok()) {
        job.texts[at].assign(text->data(), text->size());
        continue;
      }
    }
    RETURN_IF_ERROR(LoadByIndex(ctx, repository, at, job));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<PackRange> CoalesceRanges(std::vector<WantedBlob> wanted, int64_t range_bytes_max) {
  std::sort(wanted.begin(), wanted.end(), [](const WantedBlob& left, const WantedBlob& right) {
    return std::tie(left.location.pack, left.location.span.offset_bytes) <
           std::tie(right.location.pack, right.location.span.offset_bytes);
  });
  std::vector<PackRange> ranges;
  for (const WantedBlob& blob : wanted) {
    const int64_t begin = blob.location.span.offset_bytes;
    const int64_t end = begin + blob.location.span.sealed_bytes;
    PackRange* last = ranges.empty() ? nullptr : &ranges.back();
    if (last == nullptr || last->pack != blob.location.pack ||
        begin - (last->offset_bytes + last->length_bytes) > kRangeGapBytesMax ||
        end - last->offset_bytes > range_bytes_max) {
      ranges.push_back({.pack = blob.location.pack, .offset_bytes = begin});
      last = &ranges.back();
    }
    last->length_bytes = std::max(last->length_bytes, end - last->offset_bytes);
    last->parts.push_back(blob);
  }
  return ranges;
}

absl::string_view PartOf(const PackRange& range, const WantedBlob& part,
                         absl::string_view range_bytes) {
  CSIDELTA_CHECK(static_cast<int64_t>(range_bytes.size()) == range.length_bytes);
  const repository::BlobSpan& span = part.location.span;
  return range_bytes.substr(static_cast<std::size_t>(span.offset_bytes - range.offset_bytes),
                            span.sealed_bytes);
}

absl::StatusOr<std::vector<std::string>> LoadTrees(const CallContext& ctx, TreePositions& places,
                                                   absl::Span<const PlacedTree> trees) {
  repository::Repository& repository = places.repository();
  std::vector<repository::TreePosition> positions;
  for (const PlacedTree& tree : trees) {
    positions.push_back(tree.position);
  }
  RETURN_IF_ERROR(places.Load(ctx, positions));
  Job job;
  absl::flat_hash_map<BlobId, std::size_t> place_of;
  std::vector<WantedBlob> wanted;
  for (const PlacedTree& tree : trees) {
    const std::size_t at = job.unique.size();
    if (!place_of.emplace(tree.id, at).second) {
      continue;
    }
    job.unique.push_back(tree.id);
    std::optional<BlobLocation> place = places.Find(tree.position);
    if (!place.has_value()) {
      ASSIGN_OR_RETURN(place, FindByIndex(ctx, places, tree));
    }
    if (place.has_value() && place->span.sealed_bytes <= kTreeRangeBytesMax &&
        place->span.plaintext_bytes() <= kTreeBytesMax) {
      wanted.push_back({.handle = {BlobType::kTree, tree.id},
                        .location = *place,
                        .tag = static_cast<int64_t>(at)});
    } else {
      job.unplaced.push_back(at);
    }
  }
  job.texts.resize(job.unique.size());
  job.ranges = CoalesceRanges(std::move(wanted), kTreeRangeBytesMax);

  std::atomic<int64_t> next = 0;
  const auto work = [&](const CallContext& worker_ctx, int) -> absl::Status {
    const std::unique_ptr<BlobCodec> codec = repository.MakeCodec();
    const auto ranges = static_cast<int64_t>(job.ranges.size());
    for (int64_t task = next++; task < job.tasks(); task = next++) {
      RETURN_IF_ERROR(worker_ctx.Check());
      RETURN_IF_ERROR(
          task < ranges ? LoadRange(worker_ctx, repository,
                                    job.ranges[static_cast<std::size_t>(task)], *codec, job)
                        : LoadByIndex(worker_ctx, repository,
                                      job.unplaced[static_cast<std::size_t>(task - ranges)], job));
    }
    return absl::OkStatus();
  };
  if (job.tasks() <= 1) {
    RETURN_IF_ERROR(work(ctx, 0));
  } else {
    WorkerPool pool(ctx);
    pool.Start(static_cast<int>(std::min(job.tasks(), kFetchesInFlightMax)), work);
    RETURN_IF_ERROR(pool.Join());
  }
  std::vector<std::string> texts;
  texts.reserve(trees.size());
  for (const PlacedTree& tree : trees) {
    texts.push_back(job.texts[place_of[tree.id]]);
  }
  return texts;
}

}  // namespace csidelta::incremental
