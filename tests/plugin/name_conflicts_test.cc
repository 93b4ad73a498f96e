#include "plugin/name_conflicts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/scratch_folder.h"

namespace csidelta::plugin::name_conflicts_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr char kName[] = "velero.io/csi-pvc-backupper";
constexpr char kOtherName[] = "velero.io/csi-pvc-restorer";
constexpr char kMachineCode[] =
    "\x7f"
    "ELF";
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;  // What is read at once.

class NameConflictsTest : public testing::Test {
 protected:
  NameConflictsTest() { Write("own", absl::StrCat(kMachineCode, kName, kOtherName)); }

  void Write(const std::string& path, const std::string& bytes, fs::perms mode = fs::perms(0755)) {
    fs::create_directories(fs::path(folder_.path() + "/" + path).parent_path());
    std::ofstream(folder_.path() + "/" + path, std::ios::binary) << bytes;
    fs::permissions(folder_.path() + "/" + path, mode);
  }

  absl::Status Check() { return CheckNamesAreFree(folder_.path() + "/own", {kName, kOtherName}); }

  const support::ScratchFolder folder_;
};

TEST_F(NameConflictsTest, OursAlone) { EXPECT_TRUE(Check().ok()) << Check(); }

TEST_F(NameConflictsTest, OthersThatHoldNone) {
  Write("aws", absl::StrCat(kMachineCode, "velero.io/aws"));
  Write("deep/er/gcp", absl::StrCat(kMachineCode, std::string(3 * kPieceBytes, 'v')));
  Write("notes.txt", kName, fs::perms(0644));
  fs::create_symlink(folder_.path() + "/aws", folder_.path() + "/link");
  EXPECT_TRUE(Check().ok()) << Check();
}

TEST_F(NameConflictsTest, ALinkToThePluginIsThePlugin) {
  fs::create_symlink(folder_.path() + "/own", folder_.path() + "/link");
  fs::create_hard_link(folder_.path() + "/own", folder_.path() + "/twin");
  EXPECT_TRUE(Check().ok()) << Check();
}

TEST_F(NameConflictsTest, AnyNameInAnyFileThatTheHostStarts) {
  for (const char* path : {"csi", "deep/er/csi"}) {
    for (const char* name : {kName, kOtherName}) {
      Write(path, absl::StrCat(kMachineCode, "...", name, "..."), fs::perms(0501));
      EXPECT_EQ(Check().code(), absl::StatusCode::kAlreadyExists);
      EXPECT_THAT(std::string(Check().message()), HasSubstr(absl::StrCat(path, " holds ", name)));
      fs::remove(folder_.path() + "/" + path);
    }
  }
  Write("hidden", absl::StrCat(kMachineCode, kName), fs::perms(0644));
  fs::create_symlink(folder_.path() + "/hidden", folder_.path() + "/link");
  EXPECT_EQ(Check().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(NameConflictsTest, ANameAcrossTwoPieces) {
  for (std::size_t before = kPieceBytes - 30; before <= kPieceBytes; ++before) {
    std::string bytes(before, '-');
    bytes.replace(0, 4, kMachineCode);
    Write("csi", bytes + kName);
    EXPECT_EQ(Check().code(), absl::StatusCode::kAlreadyExists) << before;
  }
}

TEST_F(NameConflictsTest, DoubtIsNo) {
  const auto expect_doubt = [&](const std::string& path) {
    EXPECT_EQ(Check().code(), absl::StatusCode::kFailedPrecondition) << path;
    EXPECT_THAT(std::string(Check().message()), HasSubstr(path));
    fs::remove(folder_.path() + path);
  };
  Write("script", "#!/bin/sh\nexec /opt/csi\n");
  expect_doubt("/script");
  Write("empty", "");
  expect_doubt("/empty");
  fs::create_symlink(folder_.path() + "/none", folder_.path() + "/dangling");
  expect_doubt("/dangling");
  fs::create_directory_symlink(fs::temp_directory_path(), folder_.path() + "/folder");
  expect_doubt("/folder");
  ASSERT_EQ(mkfifo((folder_.path() + "/pipe").c_str(), 0755), 0);
  expect_doubt("/pipe");
  for (int i = 0; i < kPluginFolderEntriesMax; ++i) {
    Write(absl::StrCat("many/", i), "", fs::perms(0644));
  }
  expect_doubt("too many entries");
}

TEST_F(NameConflictsTest, AFolderThatIsNotKnownIsDoubt) {
  EXPECT_EQ(CheckNamesAreFree("own", {kName}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(CheckNamesAreFree(folder_.path() + "/none/own", {kName}).code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace csidelta::plugin::name_conflicts_test
