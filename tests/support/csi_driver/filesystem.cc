#include "tests/support/csi_driver/filesystem.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tests/support/csi_driver/files.h"

namespace csidelta::csi_driver {
namespace {

constexpr size_t kOutputBytesMax = 4096;
constexpr int kFsckCorrected = 1;  // e2fsck's exit code for "there was something, now it is right".

// Places in ext4's superblock, which begins at byte 1024; numbers are little-endian.
constexpr off_t kSuperblockOffset = 1024;
constexpr size_t kSuperblockBytes = 1024;
constexpr size_t kBlocksLowOffset = 0x04;
constexpr size_t kLogBlockSizeOffset = 0x18;
constexpr size_t kBlocksHighOffset = 0x150;
constexpr int kBlockSizeShift = 10;  // A logarithm of 0 means blocks of 1024 bytes.

// Reads until the other end is closed; keeps the first kOutputBytesMax bytes.
std::string DrainPipe(const UniqueFd& fd) {
  std::string output;
  std::array<char, 1024> buffer;
  while (true) {
    const ssize_t count = read(fd.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      break;
    }
    if (output.size() < kOutputBytesMax) {
      output.append(buffer.data(), static_cast<size_t>(count));
    }
  }
  return std::string(absl::StripAsciiWhitespace(output));
}

absl::StatusOr<pid_t> Spawn(std::vector<std::string>& arguments, int output_fd) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const absl::Cleanup destroy = [&actions] { posix_spawn_file_actions_destroy(&actions); };
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output_fd, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output_fd, STDERR_FILENO);

  std::vector<char*> pointers;
  pointers.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) {
    pointers.push_back(argument.data());
  }
  pointers.push_back(nullptr);
  // mkfs lives in sbin, which is not on every PATH.
  std::string path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
  std::array<char*, 2> environment = {path.data(), nullptr};
  pid_t pid;
  const int error =
      posix_spawn(&pid, pointers[0], &actions, nullptr, pointers.data(), environment.data());
  if (error != 0) {
    return absl::ErrnoToStatus(error, absl::StrCat("start ", arguments[0]));
  }
  return pid;
}

// Runs a program to its end. INTERNAL with what it said, unless it exits with 0 or `also_good`.
absl::Status RunProgram(std::vector<std::string> arguments, int also_good = 0) {
  std::array<int, 2> ends;
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "pipe");
  }
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  ASSIGN_OR_RETURN(const pid_t pid, Spawn(arguments, write_end.get()));
  { const UniqueFd closed = std::move(write_end); }  // Else the pipe would never end.

  const std::string output = DrainPipe(read_end);
  int wait_status = 0;
  while (waitpid(pid, &wait_status, 0) < 0 && errno == EINTR) {
  }
  const int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
  if (code == 0 || code == also_good) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat(arguments[0], ": exit code ", code, ": ", output));
}

uint32_t Little32(const std::array<uint8_t, kSuperblockBytes>& bytes, size_t offset) {
  return static_cast<uint32_t>(bytes[offset]) | static_cast<uint32_t>(bytes[offset + 1]) << 8 |
         static_cast<uint32_t>(bytes[offset + 2]) << 16 |
         static_cast<uint32_t>(bytes[offset + 3]) << 24;
}

absl::StatusOr<int64_t> FilesystemBytes(const std::string& device) {
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenFile(device, O_RDONLY));
  std::array<uint8_t, kSuperblockBytes> superblock;
  if (pread(fd.get(), superblock.data(), superblock.size(), kSuperblockOffset) !=
      static_cast<ssize_t>(superblock.size())) {
    return absl::DataLossError(absl::StrCat("no file system on ", device));
  }
  const uint64_t blocks = static_cast<uint64_t>(Little32(superblock, kBlocksHighOffset)) << 32 |
                          Little32(superblock, kBlocksLowOffset);
  const uint32_t shift = Little32(superblock, kLogBlockSizeOffset) + kBlockSizeShift;
  return static_cast<int64_t>(blocks << (shift % 64));
}

}  // namespace

absl::Status MakeFilesystem(const std::string& path) {
  return RunProgram({"/usr/sbin/mkfs.ext4", "-q", "-F", "-m", "0", "-E",
                     "nodiscard,lazy_itable_init=1,lazy_journal_init=1", path});
}

absl::Status GrowFilesystem(const std::string& device, int64_t size_bytes, bool mounted) {
  ASSIGN_OR_RETURN(const int64_t filesystem_bytes, FilesystemBytes(device));
  if (filesystem_bytes >= size_bytes) {
    return absl::OkStatus();
  }
  if (!mounted) {
    RETURN_IF_ERROR(RunProgram({"/usr/sbin/e2fsck", "-f", "-p", device}, kFsckCorrected));
  }
  return RunProgram({"/usr/sbin/resize2fs", device});
}

}  // namespace csidelta::csi_driver
