#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "incremental/changed_block_source.h"
#include "incremental/posix_file.h"

namespace csidelta::incremental {

// How a file system is asked what of a file is allocated.
enum class ImageListing {
  kSeek,    // SEEK_DATA and SEEK_HOLE: what they call a hole reads as zeros
  kFiemap,  // FS_IOC_FIEMAP after a sync: only gaps and UNWRITTEN extents read as zeros
};

// The kind of one FIEMAP extent by its flags. Delayed allocation, unknown location and encoded
// bytes may hold anything: only an extent that is UNWRITTEN and none of these is zero. Pure.
ExtentKind FiemapKind(uint32_t flags);

// What a file system has allocated of an image file. Never for a device: its driver need not make
// unwritten blocks read as zeros. The image is synced first, so that nothing waits in memory for
// its place. Without a base the holes are left out; with one they are listed as zero, because a
// hole says nothing about the parent. Thread-safe.
class ImageExtentSource : public ChangedBlockSource {
 public:
  // FAILED_PRECONDITION when `path` is no regular file: scan it. `listing` is tried first;
  // where the file system cannot seek, FIEMAP is.
  static absl::StatusOr<ImageExtentSource> Open(const std::string& path,
                                                ImageListing listing = ImageListing::kSeek);

  absl::string_view name() const override { return "image-extents"; }
  bool compares() const override { return false; }

  absl::Status ListExtents(const CallContext& ctx, const DiffRequest& request,
                           ExtentSink sink) override;

 private:
  ImageExtentSource(std::string path, UniqueFd file, ImageListing listing)
      : path_(std::move(path)), file_(std::move(file)), listing_(listing) {}

  absl::Status ListBySeek(const CallContext& ctx, int64_t size_bytes, ExtentSink sink);
  absl::Status ListByFiemap(const CallContext& ctx, int64_t size_bytes, ExtentSink sink);

  std::string path_;
  UniqueFd file_;
  ImageListing listing_;
};

}  // namespace csidelta::incremental
