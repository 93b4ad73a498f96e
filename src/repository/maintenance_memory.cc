#include "repository/maintenance_memory.h"

#include <algorithm>

#include "base/check.h"
#include "base/status_macros.h"
#include "repository/format.h"

namespace csidelta::repository {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kTiB = int64_t{1} << 40;
// As long as restic makes them.
constexpr int64_t kPackBytesLikeMax = 128 * kMiB;
constexpr int kOpenPacksMax = 4;
constexpr int kUploadsMax = 4;
constexpr int kUploadsBeforePacksShrink = 2;
constexpr int kTreePacks = 1;
// Of a blob that waits for its index file: its entry, its JSON, and that compressed and sealed.
constexpr int64_t kIndexBytesPerBlob = 320;
constexpr int64_t kIndexBlobsMin = 5'000;
constexpr int64_t kPassBlobsMin = 4096;
constexpr int64_t kPassBlobsMax = int64_t{1} << 20;
constexpr int64_t kRangesMax = 64;

// Threads that decode: their number is no more than the cores of most machines.
int64_t Decoders(int64_t usable_bytes, int64_t decode_bytes) {
  const int64_t two = std::clamp<int64_t>(usable_bytes / 2 / decode_bytes, 1, 2);
  return std::clamp<int64_t>(usable_bytes / 3 / decode_bytes, two, kMaintenanceThreads);
}

// Of the longest blob of data that is read together with others, plaintext or sealed.
absl::StatusOr<int64_t> LongestBlob(const BlobIndex& index) {
  int64_t longest_bytes = 0;
  RETURN_IF_ERROR(index.ForEach([&](const IndexedCopy& copy) {
    const BlobSpan& span = copy.entry.span;
    longest_bytes = std::max<int64_t>(
        {longest_bytes, int64_t{span.sealed_bytes}, int64_t{span.plaintext_bytes()}});
  }));
  return std::min(longest_bytes, kLargeBlobBytes);
}

}  // namespace

int64_t RangeBytesFor(int64_t free_bytes, int64_t decode_bytes, int64_t range_bytes_max) {
  const int64_t usable_bytes = free_bytes / 4 * 3;
  const int64_t left_bytes = usable_bytes - Decoders(usable_bytes, decode_bytes) * decode_bytes;
  return std::clamp(left_bytes / kRangesWanted, kMiB, std::max(range_bytes_max, kMiB));
}

absl::StatusOr<FetchRoom> TakeFetchRoom(MemoryBudget& memory, int64_t range_bytes,
                                        int64_t decode_bytes, absl::string_view what,
                                        int64_t count) {
  CSIDELTA_CHECK(range_bytes > 0 && decode_bytes > 0);
  const int64_t most = std::clamp<int64_t>(count, 1, kRangesMax);
  const int64_t usable_bytes = memory.free_bytes() / 4 * 3;
  const int64_t decoders = std::min(most, Decoders(usable_bytes, decode_bytes));
  const int64_t ranges =
      std::clamp<int64_t>((usable_bytes - decoders * decode_bytes) / range_bytes, 1, most);
  FetchRoom room{.ranges = static_cast<int>(ranges), .decoders = static_cast<int>(decoders)};
  ASSIGN_OR_RETURN(room.share, memory.Take(ranges * range_bytes + decoders * decode_bytes, what));
  return room;
}

WriterPlan PlanWriter(const WriterRequest& request) {
  CSIDELTA_CHECK(request.pack_bytes_wanted > 0 && request.blob_bytes_max >= 0);
  WriterPlan plan;
  plan.pack_bytes = std::min(kWrittenPackBytesMin, request.pack_bytes_wanted);
  plan.index_blobs = kIndexBlobsMin;
  const int64_t room_bytes = request.free_bytes / 8 * 5;
  const auto held_bytes = [&](const WriterPlan& one) {
    const int64_t packs = one.open_packs + kTreePacks + one.uploads_in_flight;
    return packs * (one.pack_bytes + request.blob_bytes_max) + one.index_blobs * kIndexBytesPerBlob;
  };
  plan.needed_bytes = held_bytes(plan) / 5 * 8 + kMiB;
  // One after the other, so that each step of memory only adds.
  const auto raise = [&](auto WriterPlan::*member, auto step, auto goal) {
    while (plan.*member < goal) {
      WriterPlan next = plan;
      next.*member = std::min(next.*member + step, goal);
      if (held_bytes(next) > room_bytes) {
        return false;
      }
      plan = next;
    }
    return true;
  };
  if (raise(&WriterPlan::uploads_in_flight, 1, kUploadsBeforePacksShrink) &&
      raise(&WriterPlan::pack_bytes, kMiB, request.pack_bytes_wanted) &&
      raise(&WriterPlan::uploads_in_flight, 1, kUploadsMax)) {
    raise(&WriterPlan::open_packs, 1, kOpenPacksMax);
  }
  raise(&WriterPlan::index_blobs, kIndexBlobsMin, kIndexBlobsTarget);  // With what is left over.
  plan.held_bytes = held_bytes(plan);
  return plan;
}

absl::StatusOr<WriterRoom> TakeWriterRoom(MemoryBudget& memory, WriterRequest request,
                                          const BlobWriterOptions& like) {
  request.free_bytes = memory.free_bytes();
  const WriterPlan plan = PlanWriter(request);
  if (request.free_bytes < plan.needed_bytes) {
    RETURN_IF_ERROR(memory.Take(plan.needed_bytes, "writing packs").status());
  }
  WriterRoom room{.options = like};
  ASSIGN_OR_RETURN(room.share, memory.Take(plan.held_bytes, "writing packs"));
  CSIDELTA_CHECK(plan.open_packs > 0 && plan.uploads_in_flight > 0 && plan.pack_bytes > 0);
  room.options.pack_target_bytes = plan.pack_bytes;
  room.options.open_packs_max = plan.open_packs;
  room.options.uploads_in_flight_max = plan.uploads_in_flight;
  room.options.index_blobs_target = std::min(plan.index_blobs, like.index_blobs_target);
  // Callers add each blob once, or may add it twice, which costs space.
  room.options.remembered_blobs_max = 0;
  return room;
}

absl::StatusOr<WriterRoom> TakeWriterRoomLike(MemoryBudget& memory, const BlobIndex& index,
                                              const BlobWriterOptions& like) {
  ASSIGN_OR_RETURN(const int64_t blob_bytes_max, LongestBlob(index));
  return TakeWriterRoom(memory,
                        {.pack_bytes_wanted = PackBytesLike(index, like.pack_target_bytes),
                         .blob_bytes_max = blob_bytes_max},
                        like);
}

int64_t PackBytesLike(const BlobIndex& index, int64_t pack_bytes_default) {
  double bytes = 0;
  double squares = 0;  // so that each byte says how long its pack is
  for (uint32_t i = 0; i < index.pack_count(); ++i) {
    const PackInfo info = index.info(i);
    if (info.has_data) {
      bytes += static_cast<double>(info.stored_bytes);
      squares += static_cast<double>(info.stored_bytes) * static_cast<double>(info.stored_bytes);
    }
  }
  const int64_t typical_bytes = bytes > 0 ? static_cast<int64_t>(squares / bytes) / kMiB * kMiB : 0;
  // Where no pack was closed by its length, they say nothing.
  const int64_t like_bytes =
      typical_bytes < kWrittenPackBytesMin ? pack_bytes_default : typical_bytes;
  return std::min(std::max(like_bytes, VolumePackBytes(static_cast<int64_t>(bytes))),
                  kPackBytesLikeMax);
}

int64_t VolumePackBytes(int64_t volume_bytes) {
  return volume_bytes >= 32 * kTiB  ? 64 * kMiB
         : volume_bytes >= 8 * kTiB ? 32 * kMiB
         : volume_bytes >= kTiB     ? 16 * kMiB
                                    : 0;
}

int64_t BlobsPerPass(int64_t free_bytes) {
  return std::clamp(free_bytes / 8 / kPassBytesPerBlob, kPassBlobsMin, kPassBlobsMax);
}

}  // namespace csidelta::repository
