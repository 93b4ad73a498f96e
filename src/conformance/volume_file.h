#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "base/extent.h"
#include "base/unique_fd.h"

// What is written to a volume between its snapshots: the same for the same seed. Pure functions.
namespace csidelta::conformance {

// An open block device or image, read and written through the page cache: what was written counts
// after Flush(). Not thread-safe. Errors are those of the system call, with the path.
class VolumeFile {
 public:
  static absl::StatusOr<VolumeFile> Open(const std::string& path, bool writable);
  // An image of this size, all zeros; what was there is gone.
  static absl::StatusOr<VolumeFile> Create(const std::string& path, int64_t size_bytes);

  int64_t size_bytes() const { return size_bytes_; }
  const std::string& path() const { return path_; }

  // Fills `bytes`. OUT_OF_RANGE when the file ends before that.
  absl::Status Read(int64_t offset_bytes, absl::Span<uint8_t> bytes) const;
  absl::Status Write(int64_t offset_bytes, absl::Span<const uint8_t> bytes);
  // Makes a range read as zeros.
  absl::Status Zero(const Extent& extent);
  // Tells a device that a range is not needed. UNIMPLEMENTED where it takes no such word.
  absl::Status Discard(const Extent& extent);
  absl::Status Flush();

 private:
  VolumeFile(std::string path, UniqueFd file, int64_t size_bytes)
      : path_(std::move(path)), file_(std::move(file)), size_bytes_(size_bytes) {}

  std::string path_;
  UniqueFd file_;
  int64_t size_bytes_ = 0;
};

// Copies a whole volume into a new, sparse image.
absl::Status CopyToImage(const CallContext& ctx, const std::string& from, const std::string& to);

// The sectors of 512 bytes in which `target` has other bytes than `base`, as a normal list,
// compared byte by byte; what lies past the end of a smaller base differs from zeros only. An
// empty `base`: the sectors that are not zero.
absl::StatusOr<std::vector<Extent>> DifferingExtents(const CallContext& ctx,
                                                     const std::string& base,
                                                     const std::string& target);

enum class StepKind { kWrite, kZero, kDiscard };

struct Step {
  StepKind kind = StepKind::kWrite;
  Extent extent;
};

inline constexpr int64_t kStepBytes = 4096;  // what a step begins and ends at multiples of
inline constexpr int64_t kVolumeBytesMin = 1 << 20;

struct WorkloadPosition {
  uint64_t seed = 0;
  int generation = 0;  // from 1 on
};

// What happens before the snapshot of a generation: in the first one the first and the last block,
// runs and scattered blocks are written; later ones also write zeros and discard. REQUIRES a volume
// of kVolumeBytesMin at least.
std::vector<Step> StepsOf(const WorkloadPosition& place, int64_t volume_bytes);

// The bytes that a generation writes at an offset; never all zero in a step.
void FillPattern(const WorkloadPosition& place, int64_t offset_bytes, absl::Span<uint8_t> bytes);

}  // namespace csidelta::conformance
