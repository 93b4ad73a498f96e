#include "engine/restore_target.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/enum_names.h"
#include "base/status_macros.h"
#include "incremental/mover/file_block_device.h"
#include "storage/posix_file.h"

namespace csidelta::engine {
namespace {

using incremental::FileBlockDevice;

constexpr StatusMark kTooSmall("csi-delta/target-too-small");

constexpr EnumNames<RestoreTarget::Kind, 3> kNames = {{{RestoreTarget::Kind::kNewFile, "new-file"},
                                                       {RestoreTarget::Kind::kDevice, "device"},
                                                       {RestoreTarget::Kind::kFile, "file"}}};
constexpr EnumNames<RestoreTarget::Kind, 3> kDeeds = {
    {{RestoreTarget::Kind::kNewFile, "created file"},
     {RestoreTarget::Kind::kDevice, "wrote device"},
     {RestoreTarget::Kind::kFile, "wrote over file"}}};

// Whether the path, by whatever links, is one below /dev.
bool IsBelowDev(const std::string& path) {
  std::error_code error;
  std::filesystem::path real = std::filesystem::absolute(path, error);
  if (!error) {
    real = std::filesystem::weakly_canonical(real, error);
  }
  return absl::StartsWith(error ? path : real.string(), "/dev/");
}

}  // namespace

std::string Describe(const RestoreTarget& target) { return EnumName(kDeeds, target.kind); }

std::string NameOf(RestoreTarget::Kind kind) { return EnumName(kNames, kind); }

absl::Status AsTargetTooSmall(absl::Status status) { return kTooSmall.On(std::move(status)); }

bool IsTargetTooSmall(const absl::Status& status) { return kTooSmall.IsOn(status); }

absl::StatusOr<RestoreTarget> ExamineTarget(const std::string& path, int64_t volume_bytes) {
  if (path == "-") {
    return absl::InvalidArgumentError(
        "a volume is not written in its order, so it cannot go to a pipe; restore it to a device "
        "or a file, or write ./- for a file of this name");
  }
  struct stat info {};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (!exists && errno != ENOENT) {
    return storage::ErrnoToStatus(errno, absl::StrCat("stat ", path));
  }
  if ((!exists || !S_ISBLK(info.st_mode)) && IsBelowDev(path)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, exists ? " is not a device, but is below /dev" : " does not exist",
                     "; only devices are written to there, so check the name"));
  }
  RestoreTarget target;
  if (!exists) {
    return target;
  }
  target.kind = S_ISBLK(info.st_mode) ? RestoreTarget::Kind::kDevice : RestoreTarget::Kind::kFile;
  if (S_ISREG(info.st_mode) && info.st_size == 0) {
    return target;  // Opening it would make it as long as the volume.
  }
  const absl::StatusOr<std::unique_ptr<FileBlockDevice>> opened =
      FileBlockDevice::OpenForWrite(path, volume_bytes);
  if (absl::IsOutOfRange(opened.status())) {
    return AsTargetTooSmall(opened.status());
  }
  RETURN_IF_ERROR(opened.status());
  target.size_bytes = (*opened)->info().size_bytes;
  return target;
}

}  // namespace csidelta::engine
