// --keyring-file: a repository that one of several keys opens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/cli/program_runner.h"
#include "tests/support/fake_secure_random.h"

namespace csidelta::cli::keyring_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

class CliKeyringTest : public testing::Test {
 protected:
  CliKeyringTest()
      : older_(repository::MakeRepositoryKey(random_)),
        newer_(repository::MakeRepositoryKey(random_)) {
    program_.Write("image", support::Noise(4096, 1));
  }

  std::string Path(const std::string& name) const { return program_.Path(name); }

  Outcome Run(const std::vector<repository::RepositoryKey>& ring,
              std::vector<std::string> words) const {
    program_.Write("ring", repository::FormatKeyringFile({.keys = ring}));
    words.insert(words.end(), {"--keyring-file", Path("ring"), "--repo", Path("repo")});
    return program_.Run(words);
  }

  std::vector<std::string> KeyNames(const std::vector<repository::RepositoryKey>& ring) const {
    std::vector<std::string> names;
    for (const Json& key : Run(ring, {"key", "list", "--json"}).Result()) {
      names.push_back(GetString(key, {"userName"}));
    }
    return names;
  }

  ProgramRunner program_;
  support::FakeSecureRandom random_;
  const repository::RepositoryKey older_;
  const repository::RepositoryKey newer_;
};

TEST_F(CliKeyringTest, ARepositoryIsMadeWithTheNewest) {
  ASSERT_EQ(Run({newer_, older_}, {"init"}).code, ExitCode::kOk);
  EXPECT_THAT(KeyNames({newer_}), UnorderedElementsAre(newer_.fingerprint));
  EXPECT_EQ(Run({older_, newer_}, {"snapshots"}).code, ExitCode::kOk);
}

// What is rotated is the key, not the data: readers leave the repository alone.
TEST_F(CliKeyringTest, VerbsThatWriteAddTheNewestKey) {
  ASSERT_EQ(Run({older_}, {"init"}).code, ExitCode::kOk);
  EXPECT_EQ(Run({newer_, older_}, {"snapshots"}).code, ExitCode::kOk);
  EXPECT_THAT(KeyNames({older_}), UnorderedElementsAre(older_.fingerprint));
  const Outcome backup = Run({newer_, older_}, {"backup", Path("image")});
  EXPECT_EQ(backup.code, ExitCode::kOk) << backup.error;
  EXPECT_THAT(KeyNames({newer_}), UnorderedElementsAre(older_.fingerprint, newer_.fingerprint));
  EXPECT_EQ(Run({newer_, older_}, {"backup", Path("image")}).code, ExitCode::kOk);
  EXPECT_EQ(KeyNames({newer_}).size(), 2U);
}

TEST_F(CliKeyringTest, ARingWithoutTheKeySaysWhichItHasAndWhichItNeeds) {
  ASSERT_EQ(Run({older_}, {"init"}).code, ExitCode::kOk);
  const Outcome outcome = Run({newer_}, {"snapshots"});
  EXPECT_EQ(outcome.code, ExitCode::kWrongPassword);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr(absl::StrCat("none of the keys ", newer_.fingerprint)),
                                   HasSubstr(absl::StrCat("called ", older_.fingerprint)),
                                   Not(HasSubstr(newer_.password.Reveal()))));
}

TEST_F(CliKeyringTest, WithoutARepositoryNoKeyHelps) {
  EXPECT_EQ(Run({newer_, older_}, {"snapshots"}).code, ExitCode::kNoRepository);
}

TEST_F(CliKeyringTest, APasswordBesideItIsRefused) {
  EXPECT_THAT(Run({newer_}, {"snapshots", "--password-file", Path("image")}).error,
              HasSubstr("both a keyring and a password"));
}

}  // namespace
}  // namespace csidelta::cli::keyring_test
