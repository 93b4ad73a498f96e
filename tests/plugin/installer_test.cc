#include "plugin/installer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/scratch_folder.h"

namespace csidelta::plugin::installer_test {
namespace {

namespace fs = std::filesystem;

class InstallerTest : public testing::Test {
 protected:
  const support::ScratchFolder folder_;
};

TEST_F(InstallerTest, CopyIsWholeAndExecutableForEverybody) {
  ASSERT_TRUE(InstallSelf(folder_.path(), "p").ok());
  EXPECT_EQ(fs::file_size(folder_.path() + "/p"), fs::file_size("/proc/self/exe"));
  struct stat info;
  ASSERT_EQ(stat((folder_.path() + "/p").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0755u);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1);
}

TEST_F(InstallerTest, ReplacesWhatIsThere) {
  std::ofstream(folder_.path() + "/p") << "old";
  ASSERT_TRUE(InstallSelf(folder_.path(), "p").ok());
  EXPECT_EQ(fs::file_size(folder_.path() + "/p"), fs::file_size("/proc/self/exe"));
}

TEST_F(InstallerTest, LeftoverOfAnInterruptedRunIsReplaced) {
  const std::string partial = folder_.path() + "/.p.partial";
  std::ofstream(partial) << "half";
  fs::permissions(partial, fs::perms::all);
  ASSERT_TRUE(InstallSelf(folder_.path(), "p").ok());
  EXPECT_FALSE(fs::exists(partial));
}

TEST_F(InstallerTest, FailureNamesThePathAndLeavesNothing) {
  const absl::Status missing = InstallSelf(folder_.path() + "/none", "p");
  EXPECT_FALSE(missing.ok());
  EXPECT_THAT(std::string(missing.message()), testing::HasSubstr("/none/.p.partial"));

  fs::create_directory(folder_.path() + "/p");  // A folder cannot be replaced by a file.
  EXPECT_FALSE(InstallSelf(folder_.path(), "p").ok());
  EXPECT_FALSE(fs::exists(folder_.path() + "/.p.partial"));
}

}  // namespace
}  // namespace csidelta::plugin::installer_test
