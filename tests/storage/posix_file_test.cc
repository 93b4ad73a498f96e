#include "storage/posix_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <stop_token>
#include <string>

#include "tests/support/scratch_folder.h"
#include "tests/support/status_matchers.h"

namespace csidelta::storage::posix_file_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using support::StatusIs;
using testing::HasSubstr;

// Bytes that differ from their neighbours, so that a shifted range shows.
std::string Pattern(std::size_t size_bytes) {
  std::string bytes(size_bytes, '\0');
  for (std::size_t i = 0; i < size_bytes; ++i) {
    bytes[i] = static_cast<char>((i * 2654435761u) >> 13);
  }
  return bytes;
}

class PosixFileTest : public testing::Test {
 protected:
  UniqueFd Open(const std::string& name, int flags) const {
    UniqueFd fd(open((folder_.path() + "/" + name).c_str(), flags | O_CLOEXEC, 0600));
    EXPECT_GE(fd.get(), 0) << name;
    return fd;
  }
  UniqueFd Folder() const { return Open("", O_RDONLY | O_DIRECTORY); }

  static CallContext Stopped() {
    std::stop_source stop;
    stop.request_stop();
    CallContext ctx;
    ctx.stop = stop.get_token();
    return ctx;
  }

  const support::ScratchFolder folder_;
  CallContext ctx_;
};

TEST_F(PosixFileTest, EveryErrorTellsTheCallerWhatToDo) {
  const std::pair<int, absl::StatusCode> cases[] = {
      {ENOENT, absl::StatusCode::kNotFound},
      {EEXIST, absl::StatusCode::kAlreadyExists},
      {EACCES, absl::StatusCode::kPermissionDenied},
      {EPERM, absl::StatusCode::kPermissionDenied},
      {EROFS, absl::StatusCode::kPermissionDenied},
      {ENOSPC, absl::StatusCode::kResourceExhausted},
      {EDQUOT, absl::StatusCode::kResourceExhausted},
      {EMFILE, absl::StatusCode::kResourceExhausted},
      {EIO, absl::StatusCode::kUnavailable},
      {ESTALE, absl::StatusCode::kUnavailable},
      {ENOTDIR, absl::StatusCode::kFailedPrecondition},
      {ENAMETOOLONG, absl::StatusCode::kFailedPrecondition},
  };
  for (const auto& [error, code] : cases) {
    EXPECT_THAT(PosixError(error, "open thing"), StatusIs(code, HasSubstr("open thing: ")));
  }
}

// Sizes on both sides of what goes past the page cache, of a whole transfer, and of a block.
TEST_F(PosixFileTest, WrittenBytesAreReadAtAnyOffset) {
  for (const std::size_t size_bytes :
       {1, 4095, 1 << 20, (1 << 20) + 1, 4 << 20, (9 << 20) + 4097}) {
    const std::string bytes = Pattern(size_bytes + 1);
    // Memory is rarely aligned as direct writes want it: once it is not, for certain.
    for (const std::size_t shift : {0, 1}) {
      const absl::string_view part = absl::string_view(bytes).substr(shift, size_bytes);
      const UniqueFd fd = Open("file", O_RDWR | O_CREAT | O_TRUNC);
      ASSERT_THAT(WriteBytes(ctx_, fd.get(), part), IsOk());
      ASSERT_EQ(lseek(fd.get(), 0, SEEK_END), static_cast<off_t>(size_bytes));
      const auto read = ReadBytes(ctx_, fd.get(), 0, static_cast<int64_t>(size_bytes));
      ASSERT_THAT(read, IsOk());
      EXPECT_TRUE(*read == part) << size_bytes;
    }
  }
  const std::string bytes = Pattern((9 << 20) + 4097);
  const UniqueFd fd = Open("file", O_RDWR | O_CREAT | O_TRUNC);
  ASSERT_THAT(WriteBytes(ctx_, fd.get(), bytes), IsOk());
  for (const std::size_t begin : {1, 4096, 5000, (1 << 20) - 1}) {
    for (const std::size_t length_bytes : {1, 4096, (1 << 20) + 3, 8 << 20}) {
      const auto read = ReadBytes(ctx_, fd.get(), static_cast<int64_t>(begin),
                                  static_cast<int64_t>(length_bytes));
      ASSERT_THAT(read, IsOk());
      EXPECT_TRUE(*read == absl::string_view(bytes).substr(begin, length_bytes)) << begin;
    }
  }
}

TEST_F(PosixFileTest, AFileThatEndsTooEarlyIsDataLoss) {
  for (const int64_t size_bytes : {100, 3 << 20}) {
    const UniqueFd fd = Open("file", O_RDWR | O_CREAT | O_TRUNC);
    ASSERT_THAT(WriteBytes(ctx_, fd.get(), std::string(size_bytes, 'x')), IsOk());
    EXPECT_THAT(ReadBytes(ctx_, fd.get(), 1, size_bytes - 1), IsOk());
    EXPECT_THAT(ReadBytes(ctx_, fd.get(), 1, size_bytes),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(std::to_string(size_bytes))));
  }
}

TEST_F(PosixFileTest, StoppedCallsTouchNothing) {
  const UniqueFd fd = Open("file", O_RDWR | O_CREAT);
  for (const std::size_t size_bytes : {10, 3 << 20}) {
    EXPECT_THAT(WriteBytes(Stopped(), fd.get(), std::string(size_bytes, 'x')),
                StatusIs(absl::StatusCode::kCancelled));
    EXPECT_EQ(lseek(fd.get(), 0, SEEK_END), 0);
  }
  ASSERT_THAT(WriteBytes(ctx_, fd.get(), std::string(3 << 20, 'x')), IsOk());
  for (const int64_t length_bytes : {10, 3 << 20}) {
    EXPECT_THAT(ReadBytes(Stopped(), fd.get(), 0, length_bytes),
                StatusIs(absl::StatusCode::kCancelled));
  }
  EXPECT_THAT(ReadUpTo(Stopped(), fd.get(), 4 << 20), StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(PosixFileTest, ReadsUpToALimit) {
  const std::string bytes = Pattern(50'000);
  std::ofstream(folder_.path() + "/file") << bytes;
  EXPECT_THAT(ReadUpTo(ctx_, Open("file", O_RDONLY).get(), 50'000), IsOkAndHolds(bytes));
  EXPECT_THAT(ReadUpTo(ctx_, Open("file", O_RDONLY).get(), 49'999),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("49999")));
  EXPECT_THAT(ReadUpTo(ctx_, Folder().get(), 10), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(PosixFileTest, ErrorsOfReadingAndWritingNameTheCall) {
  std::ofstream(folder_.path() + "/file") << "x";
  EXPECT_THAT(WriteBytes(ctx_, Open("file", O_RDONLY).get(), "x"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("write")));
  EXPECT_THAT(ReadBytes(ctx_, Open("file", O_WRONLY).get(), 0, 1),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("read at 0")));
}

TEST_F(PosixFileTest, OpensRegularFilesAndNothingElse) {
  std::ofstream(folder_.path() + "/file") << "12345";
  std::filesystem::create_symlink("file", folder_.path() + "/link");
  std::filesystem::create_directory(folder_.path() + "/folder");
  ASSERT_EQ(mkfifo((folder_.path() + "/pipe").c_str(), 0600), 0);
  ASSERT_EQ(mknod((folder_.path() + "/socket").c_str(), S_IFSOCK | 0600, 0), 0);
  const UniqueFd folder = Folder();
  const auto file = OpenRegularFile(folder.get(), "file");
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(file->size_bytes, 5);
  for (const char* name : {"absent", "folder"}) {
    EXPECT_THAT(OpenRegularFile(folder.get(), name), StatusIs(absl::StatusCode::kNotFound)) << name;
  }
  for (const char* name : {"link", "pipe", "socket"}) {
    EXPECT_THAT(OpenRegularFile(folder.get(), name),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not followed")))
        << name;
  }
}

TEST_F(PosixFileTest, OpensFoldersAndNothingElse) {
  std::ofstream(folder_.path() + "/file") << "x";
  std::filesystem::create_directory(folder_.path() + "/folder");
  std::filesystem::create_directory_symlink("folder", folder_.path() + "/link");
  ASSERT_EQ(mkfifo((folder_.path() + "/pipe").c_str(), 0600), 0);
  const UniqueFd folder = Folder();
  EXPECT_THAT(OpenFolder(folder.get(), "folder", "path"), IsOk());
  for (const char* name : {"absent", "file"}) {
    EXPECT_THAT(OpenFolder(folder.get(), name, "the/path"),
                StatusIs(absl::StatusCode::kNotFound, HasSubstr("the/path")))
        << name;
  }
  for (const char* name : {"link", "pipe"}) {
    EXPECT_THAT(OpenFolder(folder.get(), name, "the/path"),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("the/path is a")))
        << name;
  }
}

TEST_F(PosixFileTest, SyncingSaysWhatFailed) {
  EXPECT_THAT(SyncFile(Folder().get(), "it"), IsOk());
  EXPECT_THAT(SyncFolder(Folder().get(), "it"), IsOk());
  EXPECT_THAT(SyncFile(-1, "the file"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("sync the file")));
  EXPECT_THAT(SyncFolder(-1, "the folder"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("sync the folder")));
}

}  // namespace
}  // namespace csidelta::storage::posix_file_test
