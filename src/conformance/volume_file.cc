#include "conformance/volume_file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace csidelta::conformance {
namespace {

constexpr int64_t kPieceBytes = 1 << 20;
constexpr int64_t kSectorBytes = 512;

absl::Status ErrorOf(absl::string_view path, absl::string_view what) {
  return absl::ErrnoToStatus(errno, absl::StrCat(path, ": ", what));
}

bool IsZero(absl::Span<const uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

// The first `length_bytes` of a piece; zeros behind the file's end, or without a file.
absl::Status ReadPadded(const std::optional<VolumeFile>& file, int64_t offset_bytes,
                        absl::Span<uint8_t> bytes) {
  const int64_t there = file.has_value() ? std::clamp<int64_t>(file->size_bytes() - offset_bytes, 0,
                                                               std::ssize(bytes))
                                         : 0;
  const auto count = static_cast<std::size_t>(there);
  std::fill(bytes.begin() + there, bytes.end(), uint8_t{0});
  return there == 0 ? absl::OkStatus() : file->Read(offset_bytes, bytes.first(count));
}

constexpr int64_t kScatteredMax = 200;
constexpr int64_t kRuns = 3;
constexpr int64_t kRunShare = 64;  // of the volume, at most

// SplitMix64: small, and the same everywhere.
class Chance {
 public:
  explicit Chance(uint64_t state) : state_(state) {}

  uint64_t Next() {
    state_ += 0x9E3779B97F4A7C15;
    uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
    return mixed ^ (mixed >> 31);
  }
  int64_t Below(int64_t bound) {
    return static_cast<int64_t>(Next() % static_cast<uint64_t>(bound));
  }

 private:
  uint64_t state_;
};

uint64_t SeedOf(const WorkloadPosition& place, uint64_t salt) {
  return Chance(place.seed ^ (static_cast<uint64_t>(place.generation) << 48) ^ salt).Next();
}

}  // namespace

absl::StatusOr<VolumeFile> VolumeFile::Open(const std::string& path, bool writable) {
  UniqueFd file(::open(path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC));
  struct stat info {};
  if (!file.valid() || ::fstat(file.get(), &info) != 0) {
    return ErrorOf(path, "open");
  }
  uint64_t size_bytes = static_cast<uint64_t>(info.st_size);
  if (S_ISBLK(info.st_mode) && ::ioctl(file.get(), BLKGETSIZE64, &size_bytes) != 0) {
    return ErrorOf(path, "size");
  }
  return VolumeFile(path, std::move(file), static_cast<int64_t>(size_bytes));
}

absl::StatusOr<VolumeFile> VolumeFile::Create(const std::string& path, int64_t size_bytes) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.valid() || ::ftruncate(file.get(), size_bytes) != 0) {
    return ErrorOf(path, "create");
  }
  return VolumeFile(path, std::move(file), size_bytes);
}

absl::Status VolumeFile::Read(int64_t offset_bytes, absl::Span<uint8_t> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(file_.get(), bytes.data(), bytes.size(), offset_bytes);
    if (count < 0 && errno != EINTR) {
      return ErrorOf(path_, "read");
    }
    if (count == 0) {
      return absl::OutOfRangeError(absl::StrCat(path_, " ends at ", offset_bytes));
    }
    const auto done = std::max<ssize_t>(count, 0);
    offset_bytes += done;
    bytes.remove_prefix(static_cast<std::size_t>(done));
  }
  return absl::OkStatus();
}

absl::Status VolumeFile::Write(int64_t offset_bytes, absl::Span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(file_.get(), bytes.data(), bytes.size(), offset_bytes);
    if (count < 0 && errno != EINTR) {
      return ErrorOf(path_, "write");
    }
    const auto done = std::max<ssize_t>(count, 0);
    offset_bytes += done;
    bytes.remove_prefix(static_cast<std::size_t>(done));
  }
  return absl::OkStatus();
}

absl::Status VolumeFile::Zero(const Extent& extent) {
  const std::vector<uint8_t> zeros(static_cast<std::size_t>(extent.length_bytes));
  return Write(extent.offset_bytes, zeros);
}

absl::Status VolumeFile::Discard(const Extent& extent) {
  RETURN_IF_ERROR(Flush());  // What is still in the cache would come behind it.
  const uint64_t range[] = {static_cast<uint64_t>(extent.offset_bytes),
                            static_cast<uint64_t>(extent.length_bytes)};
  if (::ioctl(file_.get(), BLKDISCARD, range) == 0) {
    return absl::OkStatus();
  }
  return errno == EOPNOTSUPP || errno == ENOTTY || errno == EINVAL
             ? absl::UnimplementedError(absl::StrCat(path_, " takes no discard"))
             : ErrorOf(path_, "discard");
}

absl::Status VolumeFile::Flush() {
  return ::fsync(file_.get()) == 0 ? absl::OkStatus() : ErrorOf(path_, "flush");
}

absl::Status CopyToImage(const CallContext& ctx, const std::string& from, const std::string& to) {
  ASSIGN_OR_RETURN(const VolumeFile source, VolumeFile::Open(from, /*writable=*/false));
  ASSIGN_OR_RETURN(VolumeFile image, VolumeFile::Create(to, source.size_bytes()));
  std::vector<uint8_t> piece(static_cast<std::size_t>(kPieceBytes));
  for (int64_t at = 0; at < source.size_bytes(); at += kPieceBytes) {
    RETURN_IF_ERROR(ctx.Check());
    const auto bytes = absl::MakeSpan(piece).first(
        static_cast<std::size_t>(std::min(kPieceBytes, source.size_bytes() - at)));
    RETURN_IF_ERROR(source.Read(at, bytes));
    if (!IsZero(bytes)) {
      RETURN_IF_ERROR(image.Write(at, bytes));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Extent>> DifferingExtents(const CallContext& ctx,
                                                     const std::string& base,
                                                     const std::string& target) {
  ASSIGN_OR_RETURN(const VolumeFile after, VolumeFile::Open(target, /*writable=*/false));
  std::optional<VolumeFile> before;
  if (!base.empty()) {
    ASSIGN_OR_RETURN(before, VolumeFile::Open(base, /*writable=*/false));
  }
  std::vector<uint8_t> old_piece(static_cast<std::size_t>(kPieceBytes));
  std::vector<uint8_t> new_piece(static_cast<std::size_t>(kPieceBytes));
  std::vector<Extent> differing;
  for (int64_t at = 0; at < after.size_bytes(); at += kPieceBytes) {
    RETURN_IF_ERROR(ctx.Check());
    const int64_t length_bytes = std::min(kPieceBytes, after.size_bytes() - at);
    const auto bytes = absl::MakeSpan(new_piece).first(static_cast<std::size_t>(length_bytes));
    RETURN_IF_ERROR(after.Read(at, bytes));
    RETURN_IF_ERROR(ReadPadded(before, at, absl::MakeSpan(old_piece).first(bytes.size())));
    for (int64_t sector = 0; sector < length_bytes; sector += kSectorBytes) {
      const int64_t sector_bytes = std::min(kSectorBytes, length_bytes - sector);
      if (std::memcmp(&old_piece[static_cast<std::size_t>(sector)],
                      &new_piece[static_cast<std::size_t>(sector)],
                      static_cast<std::size_t>(sector_bytes)) != 0) {
        differing.push_back({at + sector, sector_bytes});
      }
    }
  }
  return MergeExtents(std::move(differing));
}

std::vector<Step> StepsOf(const WorkloadPosition& place, int64_t volume_bytes) {
  CSIDELTA_CHECK(volume_bytes >= kVolumeBytesMin);
  const int64_t blocks = volume_bytes / kStepBytes;
  Chance chance(SeedOf(place, 0));
  std::vector<Step> steps;
  const auto add = [&](StepKind kind, int64_t first, int64_t count) {
    steps.push_back({kind, {first * kStepBytes, std::min(count, blocks - first) * kStepBytes}});
  };
  const auto run = [&](StepKind kind) {
    // Drawn one after the other: the order of a call's arguments is the compiler's choice.
    const int64_t count = 1 + chance.Below(blocks / kRunShare);
    add(kind, chance.Below(blocks), count);
  };
  for (int64_t i = 0; i < kRuns; ++i) {
    run(StepKind::kWrite);
  }
  for (int64_t i = 0; i < std::min(kScatteredMax, blocks / 16); ++i) {
    add(StepKind::kWrite, chance.Below(blocks), 1);
  }
  if (place.generation == 1) {
    add(StepKind::kWrite, 0, 1);
    add(StepKind::kWrite, blocks - 1, 1);
  } else {
    run(StepKind::kZero);
    add(StepKind::kZero, 0, 1);
    run(StepKind::kDiscard);
  }
  return steps;
}

void FillPattern(const WorkloadPosition& place, int64_t offset_bytes, absl::Span<uint8_t> bytes) {
  Chance chance(SeedOf(place, static_cast<uint64_t>(offset_bytes)));
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    const uint64_t word = chance.Next() | 1;
    std::memcpy(bytes.data() + at, &word, std::min(sizeof(word), bytes.size() - at));
  }
}

}  // namespace csidelta::conformance
