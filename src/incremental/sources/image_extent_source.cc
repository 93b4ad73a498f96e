#include "incremental/sources/image_extent_source.h"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"

namespace csidelta::incremental {
namespace {

constexpr std::size_t kFiemapExtentsPerCall = 512;

bool CannotList(int error) {
  return error == EINVAL || error == EOPNOTSUPP || error == ENOTTY || error == ENOSYS;
}

}  // namespace

ExtentKind FiemapKind(uint32_t flags) {
  constexpr uint32_t kAnything = FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_UNKNOWN |
                                 FIEMAP_EXTENT_ENCODED | FIEMAP_EXTENT_DATA_ENCRYPTED |
                                 FIEMAP_EXTENT_DATA_INLINE | FIEMAP_EXTENT_DATA_TAIL |
                                 FIEMAP_EXTENT_NOT_ALIGNED;
  if ((flags & kAnything) != 0 || (flags & FIEMAP_EXTENT_UNWRITTEN) == 0) {
    return ExtentKind::kData;
  }
  return ExtentKind::kZero;
}

absl::StatusOr<ImageExtentSource> ImageExtentSource::Open(const std::string& path,
                                                          ImageListing listing) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    return storage::ErrnoToStatus(errno, absl::StrCat("open ", path));
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) {
    return storage::ErrnoToStatus(errno, absl::StrCat("stat ", path));
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is no image file; what a device has allocated proves nothing"));
  }
  return ImageExtentSource(path, std::move(file), listing);
}

absl::Status ImageExtentSource::ListExtents(const CallContext& ctx, const DiffRequest& request,
                                            ExtentSink sink) {
  if (::fsync(file_.get()) != 0) {
    return storage::ErrnoToStatus(errno, absl::StrCat("sync ", path_));
  }
  const bool list_zeros = !request.base.empty();
  GapFiller gaps(list_zeros, request.size_bytes, sink);
  const auto add = [&](const ListedExtent& listed) {
    return listed.kind == ExtentKind::kZero && !list_zeros ? absl::OkStatus() : gaps.Add(listed);
  };
  absl::Status status = listing_ == ImageListing::kSeek
                            ? ListBySeek(ctx, request.size_bytes, add)
                            : ListByFiemap(ctx, request.size_bytes, add);
  if (absl::IsUnimplemented(status) && listing_ == ImageListing::kSeek) {
    status = ListByFiemap(ctx, request.size_bytes, add);
  }
  if (absl::IsUnimplemented(status)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the file system of ", path_, " cannot list what is allocated"));
  }
  RETURN_IF_ERROR(status);
  return gaps.Finish();
}

// UNIMPLEMENTED only before the first extent.
absl::Status ImageExtentSource::ListBySeek(const CallContext& ctx, int64_t size_bytes,
                                           ExtentSink sink) {
  int64_t at = 0;
  while (at < size_bytes) {
    RETURN_IF_ERROR(ctx.Check());
    const off_t data = ::lseek(file_.get(), at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) {
      return absl::OkStatus();
    }
    if (data < 0 && at == 0 && CannotList(errno)) {
      return absl::UnimplementedError("no SEEK_DATA");
    }
    const off_t hole = data < 0 ? -1 : ::lseek(file_.get(), data, SEEK_HOLE);
    if (hole < 0) {
      return storage::ErrnoToStatus(errno, absl::StrCat("list extents of ", path_, " from ", at));
    }
    // A file that shrinks under our eyes may answer with nothing; never loop on it.
    if (data < at || hole <= data) {
      return absl::FailedPreconditionError(absl::StrCat(path_, " changed while it was listed"));
    }
    RETURN_IF_ERROR(sink({.extent = {data, hole - data}, .kind = ExtentKind::kData}));
    at = hole;
  }
  return absl::OkStatus();
}

absl::Status ImageExtentSource::ListByFiemap(const CallContext& ctx, int64_t size_bytes,
                                             ExtentSink sink) {
  std::vector<uint64_t> memory(
      (sizeof(fiemap) + kFiemapExtentsPerCall * sizeof(fiemap_extent)) / sizeof(uint64_t) + 1);
  int64_t at = 0;
  while (at < size_bytes) {
    RETURN_IF_ERROR(ctx.Check());
    auto* map = reinterpret_cast<fiemap*>(memory.data());
    std::memset(map, 0, sizeof(fiemap));
    map->fm_start = static_cast<uint64_t>(at);
    map->fm_length = static_cast<uint64_t>(size_bytes - at);
    map->fm_flags = FIEMAP_FLAG_SYNC;
    map->fm_extent_count = kFiemapExtentsPerCall;
    if (::ioctl(file_.get(), FS_IOC_FIEMAP, map) != 0) {
      if (at == 0 && CannotList(errno)) {
        return absl::UnimplementedError("no FIEMAP");
      }
      return storage::ErrnoToStatus(errno, absl::StrCat("map extents of ", path_, " from ", at));
    }
    if (map->fm_mapped_extents == 0) {
      return absl::OkStatus();
    }
    for (uint32_t i = 0; i < map->fm_mapped_extents; ++i) {
      const fiemap_extent& mapped = map->fm_extents[i];
      Extent extent{static_cast<int64_t>(mapped.fe_logical),
                    static_cast<int64_t>(mapped.fe_length)};
      if (!IsWellFormed(extent) || extent.end_bytes() <= at) {
        return absl::FailedPreconditionError(
            absl::StrCat(path_, ": extent map names ", Describe(extent), " behind ", at));
      }
      const int64_t begin = std::max(extent.offset_bytes, at);
      extent = {begin, extent.end_bytes() - begin};
      at = extent.end_bytes();
      RETURN_IF_ERROR(sink({.extent = extent, .kind = FiemapKind(mapped.fe_flags)}));
      if ((mapped.fe_flags & FIEMAP_EXTENT_LAST) != 0) {
        return absl::OkStatus();
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace csidelta::incremental
