#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "incremental/sources/changed_block_source.h"
#include "storage/posix_file.h"

namespace csidelta::incremental {

// Passes extents on, which ascend, cut at the end of the volume, and with `list_gaps` what is
// between them as zeros. `sink` outlives it.
class GapFiller {
 public:
  GapFiller(bool list_gaps, int64_t size_bytes, ExtentSink sink)
      : list_gaps_(list_gaps), size_bytes_(size_bytes), sink_(sink) {}

  absl::Status Add(const ListedExtent& listed) {
    const std::optional<Extent> inside = ClipExtent(listed.extent, size_bytes_);
    if (!inside.has_value()) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(FillTo(inside->offset_bytes));
    at_bytes_ = inside->end_bytes();
    return sink_({.extent = *inside, .kind = listed.kind});
  }

  absl::Status Finish() { return FillTo(size_bytes_); }

 private:
  absl::Status FillTo(int64_t end_bytes) {
    if (!list_gaps_ || end_bytes <= at_bytes_) {
      return absl::OkStatus();
    }
    const Extent gap{at_bytes_, end_bytes - at_bytes_};
    at_bytes_ = end_bytes;
    return sink_({.extent = gap, .kind = ExtentKind::kZero});
  }

  const bool list_gaps_;
  const int64_t size_bytes_;
  ExtentSink sink_;
  int64_t at_bytes_ = 0;
};

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

// The whole volume as one extent of data: every byte is read and hashes decide what is new. Of an
// image file whose file system lists its holes, these are zeros without being read. Thread-safe.
class FullScanSource : public ChangedBlockSource {
 public:
  // "": of a device.
  explicit FullScanSource(std::string image = "") : image_(std::move(image)) {}

  absl::string_view name() const override { return "full-scan"; }
  bool compares() const override { return false; }

  absl::Status ListExtents(const CallContext& ctx, const DiffRequest& request,
                           ExtentSink sink) override {
    if (absl::Status status = ctx.Check(); !status.ok() || request.size_bytes == 0) {
      return status;
    }
    absl::StatusOr<ImageExtentSource> image = ImageExtentSource::Open(image_);
    if (image.ok()) {
      bool is_listed = false;
      const absl::Status listed = image->ListExtents(ctx, request, [&](const ListedExtent& extent) {
        is_listed = true;
        return sink(extent);
      });
      if (listed.ok() || is_listed || !absl::IsFailedPrecondition(listed)) {
        return listed;
      }
    }
    return sink({.extent = {0, request.size_bytes}, .kind = ExtentKind::kData});
  }

 private:
  const std::string image_;
};

}  // namespace csidelta::incremental
