#include "tests/support/csi_driver/change_list.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tests/support/csi_driver/files.h"

namespace csidelta::csi_driver {
namespace {

constexpr int64_t kWindowBytes = int64_t{512} << 10;

int64_t RoundDown(int64_t bytes, int64_t unit_bytes) { return bytes - bytes % unit_bytes; }

// The change data that the target is compared with; none: zeros.
absl::StatusOr<std::optional<ChangeData>> FindBase(const Store& store, const SnapshotRecord& target,
                                                   const ChangeQuery& query, bool own_only) {
  if (query.base_id.has_value()) {
    if (query.base_id->empty()) {
      return absl::InvalidArgumentError("the base is missing");
    }
    ASSIGN_OR_RETURN(ChangeData base, store.ChangeDataOf(*query.base_id));
    if (base.snapshot.volume_id != target.volume_id) {
      return absl::InvalidArgumentError(
          absl::StrCat("base ", *query.base_id, " is of another volume than ", target.id));
    }
    return base;
  }
  const absl::StatusOr<VolumeRecord> volume = store.GetVolume(target.volume_id);
  if (own_only && volume.ok() && !volume->source.snapshot_id.empty()) {
    return store.ChangeDataOf(volume->source.snapshot_id);
  }
  return std::optional<ChangeData>();
}

absl::Status ReadAt(const UniqueFd& fd, int64_t offset_bytes, std::string& window) {
  std::fill(window.begin(), window.end(), '\0');
  size_t done = 0;
  while (done < window.size()) {
    const ssize_t count = pread(fd.get(), window.data() + done, window.size() - done,
                                offset_bytes + static_cast<int64_t>(done));
    if (count < 0) {
      return absl::ErrnoToStatus(errno, "read a volume snapshot");
    }
    if (count == 0) {
      break;  // The end of the file: zeros from here on.
    }
    done += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

bool IsZero(absl::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == '\0'; });
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChangeList>> ChangeList::Open(const Store& store,
                                                             const ChangeQuery& query,
                                                             const BlockOptions& options) {
  if (query.target_id.empty()) {
    return absl::InvalidArgumentError("the target is missing");
  }
  ASSIGN_OR_RETURN(const SnapshotRecord target, store.GetSnapshot(query.target_id));
  ASSIGN_OR_RETURN(const std::optional<ChangeData> base,
                   FindBase(store, target, query, options.own_only));
  if (query.starting_offset_bytes < 0 || query.starting_offset_bytes > target.size_bytes) {
    return absl::OutOfRangeError(absl::StrCat("starting offset ", query.starting_offset_bytes,
                                              " is not within ", target.size_bytes, " bytes"));
  }
  ASSIGN_OR_RETURN(UniqueFd target_fd, OpenFile(store.SnapshotPath(target.id), O_RDONLY));
  UniqueFd base_fd;
  if (base.has_value()) {
    ASSIGN_OR_RETURN(base_fd, OpenFile(base->path, O_RDONLY));
  }
  std::unique_ptr<ChangeList> list(
      new ChangeList(options, std::move(target_fd), std::move(base_fd)));
  list->capacity_bytes_ = target.size_bytes;
  list->base_bytes_ = base.has_value() ? base->snapshot.size_bytes : target.size_bytes;
  list->position_bytes_ = query.starting_offset_bytes < target.size_bytes
                              ? RoundDown(query.starting_offset_bytes, options.bytes)
                              : target.size_bytes;
  const int64_t window_bytes = std::max(RoundDown(kWindowBytes, options.bytes), options.bytes);
  list->window_offset_bytes_ = -window_bytes;
  list->target_window_.assign(static_cast<size_t>(window_bytes), '\0');
  list->base_window_.assign(static_cast<size_t>(window_bytes), '\0');
  return list;
}

absl::StatusOr<std::optional<ListedExtent>> ChangeList::Next() {
  ASSIGN_OR_RETURN(std::optional<ListedExtent> listed, NextBlock(position_bytes_));
  if (!listed.has_value()) {
    position_bytes_ = capacity_bytes_;
    return listed;
  }
  Extent& extent = listed->extent;
  position_bytes_ = extent.end_bytes();
  while (!options_.fixed && position_bytes_ < capacity_bytes_) {
    ASSIGN_OR_RETURN(const std::optional<ListedExtent> next, NextBlock(position_bytes_));
    if (!next.has_value() || next->extent.offset_bytes != position_bytes_ ||
        next->zero != listed->zero) {
      break;
    }
    extent.length_bytes += options_.bytes;
    position_bytes_ += options_.bytes;
  }
  if (!options_.fixed) {
    extent.length_bytes = std::min(extent.end_bytes(), capacity_bytes_) - extent.offset_bytes;
  }
  return listed;
}

absl::StatusOr<std::optional<ListedExtent>> ChangeList::NextBlock(int64_t offset_bytes) {
  while (offset_bytes < capacity_bytes_) {
    const int64_t window_end_bytes =
        window_offset_bytes_ + static_cast<int64_t>(target_window_.size());
    if (offset_bytes < window_offset_bytes_ || offset_bytes >= window_end_bytes) {
      ASSIGN_OR_RETURN(const int64_t data_bytes, NextData(offset_bytes));
      offset_bytes = std::max(offset_bytes, RoundDown(data_bytes, options_.bytes));
      if (offset_bytes >= capacity_bytes_) {
        break;
      }
      RETURN_IF_ERROR(Load(offset_bytes));
    }
    if (IsListed(offset_bytes)) {
      const size_t at = static_cast<size_t>(offset_bytes - window_offset_bytes_);
      const size_t length = static_cast<size_t>(options_.bytes);
      const bool zero =
          options_.mark_zero && IsZero(absl::string_view(target_window_).substr(at, length));
      return ListedExtent{{offset_bytes, options_.bytes}, zero};
    }
    offset_bytes += options_.bytes;
  }
  return std::nullopt;
}

// Where something can be listed at all: the next byte that is no hole in both files, and not the
// same block of the device.
absl::StatusOr<int64_t> ChangeList::NextData(int64_t offset_bytes) const {
  int64_t next_bytes = std::max(offset_bytes, base_bytes_);  // Behind the base all is listed.
  if (base_.get() >= 0) {
    offset_bytes = SkipShared(target_, base_, offset_bytes, next_bytes);
  }
  for (const UniqueFd* fd : {&target_, &base_}) {
    if (fd->get() < 0) {
      continue;
    }
    const off_t data = lseek(fd->get(), offset_bytes, SEEK_DATA);
    if (data < 0 && errno != ENXIO) {
      return absl::ErrnoToStatus(errno, "seek in a volume snapshot");
    }
    next_bytes = data < 0 ? next_bytes : std::min(next_bytes, int64_t{data});
  }
  return next_bytes;
}

absl::Status ChangeList::Load(int64_t offset_bytes) {
  window_offset_bytes_ = offset_bytes;
  RETURN_IF_ERROR(ReadAt(target_, offset_bytes, target_window_));
  return base_.get() < 0 ? absl::OkStatus() : ReadAt(base_, offset_bytes, base_window_);
}

bool ChangeList::IsListed(int64_t offset_bytes) const {
  const size_t at = static_cast<size_t>(offset_bytes - window_offset_bytes_);
  const int64_t end_bytes = std::min(offset_bytes + options_.bytes, capacity_bytes_);
  return end_bytes > base_bytes_ ||
         std::memcmp(target_window_.data() + at, base_window_.data() + at,
                     static_cast<size_t>(end_bytes - offset_bytes)) != 0;
}

}  // namespace csidelta::csi_driver
