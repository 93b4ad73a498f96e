#pragma once

#include <string>
#include <utility>

#include "incremental/changed_block_source.h"
#include "incremental/image_extent_source.h"

namespace csidelta::incremental {

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
