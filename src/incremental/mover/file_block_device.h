#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "incremental/mover/block_device.h"
#include "storage/posix_file.h"

namespace csidelta::incremental {

// A block device or an image file of this machine, by direct I/O: the page cache would cost more
// CPU than hashing does. Where a file system has no direct I/O, or a device blocks larger than
// kIoAlignmentBytes, by buffered I/O, and the engine's name says so. Zeros take no space where the
// device or the file system knows how; elsewhere what reads as zero already is not written.
class FileBlockDevice : public BlockDevice {
 public:
  // For reading. NOT_FOUND, PERMISSION_DENIED; INVALID_ARGUMENT when it is neither device nor
  // regular file.
  static absl::StatusOr<std::unique_ptr<FileBlockDevice>> OpenForRead(const std::string& path);

  // For restoring a volume of `volume_bytes` over what is there. A file that is absent or empty is
  // made of that size; what is larger keeps its size and its bytes past the end of the volume.
  // Errors, beside those of reading:
  //   FAILED_PRECONDITION  the device is mounted, or another program holds it exclusively
  //   OUT_OF_RANGE         it is smaller than the volume
  static absl::StatusOr<std::unique_ptr<FileBlockDevice>> OpenForWrite(const std::string& path,
                                                                       int64_t volume_bytes);

  const DeviceInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<IoQueue>> OpenQueue(int depth) override;
  absl::Status MakeZero(const CallContext& ctx, const Extent& extent) override;
  absl::Status Flush(const CallContext& ctx) override;

 private:
  FileBlockDevice(std::string path, UniqueFd file)
      : path_(std::move(path)), file_(std::move(file)) {}

  // Fills facts_ from the open descriptor.
  absl::Status Examine(bool direct);
  static absl::Status ZeroAnswer(int result, const Extent& extent);
  absl::Status ZeroByHole(const Extent& extent);
  absl::Status ZeroWhatIsNot(const CallContext& ctx, const Extent& extent);
  absl::Status ZeroByWriting(const CallContext& ctx, const Extent& extent);

  std::string path_;
  UniqueFd file_;
  DeviceInfo info_;
  bool created_ = false;
};

}  // namespace csidelta::incremental
