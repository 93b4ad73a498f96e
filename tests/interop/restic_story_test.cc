// Whole stories of the program csi-delta and stock restic on one repository.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/interop/story_fixture.h"
#include "tests/support/paths.h"

namespace csidelta::interop::restic_story_test {
namespace {

using repository::EveryRestic;
using repository::LaterRestics;
using repository::NameOfRelease;
using repository::ReadFile;
using support::Noise;
using testing::HasSubstr;
using testing::SizeIs;
using testing::UnorderedElementsAre;

class ResticStoryTest : public StoryFixture {
 protected:
  // A folder of small and large files for restic to back up.
  void MakeFolder() const {
    std::filesystem::create_directories(Path("folder/sub"));
    std::ofstream(Path("folder/large"), std::ios::binary) << Noise(3'000'000, 7);
    std::ofstream(Path("folder/sub/small")) << "small";
  }

  void ExpectFolderComesBack(const std::string& id) const {
    ExpectRestic(absl::StrCat("restore ", id, " --target ", Path("back")));
    const Outcome same = repository::Shell(
        absl::StrCat("diff -r ", Path("folder"), " ", Path("back"), Path("folder")));
    EXPECT_EQ(same.exit_code, 0) << same.output;
  }

  // One of csi-delta that goes on until the new password ends. Writes its process id to "pid".
  std::string OursThatReadsAPassword(const std::string& verb) const {
    return absl::StrCat(Exports(), "echo $$ >pid; exec ", ProgramPath(), " ", verb,
                        " --new-password-file /dev/stdin");
  }

  std::string ResticWith(const std::string& arguments) const {
    return absl::StrCat(Exports(), "exec ", restic_.program, " --no-cache ", arguments);
  }
};

// Verbs that restic 0.14 does not have.
class LaterResticStoryTest : public ResticStoryTest {};

INSTANTIATE_TEST_SUITE_P(Releases, ResticStoryTest, EveryRestic(), NameOfRelease);
INSTANTIATE_TEST_SUITE_P(Releases, LaterResticStoryTest, LaterRestics(), NameOfRelease);

TEST_P(ResticStoryTest, OursIsWholeToRestic) {
  Enlarge();
  ExpectOurs("init");
  const std::string first = image_;
  const std::string full = BackUpAll();
  const std::string increment =
      BackUpChange({{300'000, "other"}, {std::size_t{66} << 20, Noise(5000, 9)}}, full);
  EXPECT_THAT(Ids(), UnorderedElementsAre(full, increment));
  ExpectResticFindsNothingWrong();
  EXPECT_THAT(RunRestic(absl::StrCat("ls ", increment)).output, HasSubstr("/image/000/01/data"));
  const Json size = LastJson(RunRestic(absl::StrCat("stats --json ", increment)).output);
  EXPECT_GE(GetInt(size, {"total_size"}), static_cast<int64_t>(image_.size()));
  const Outcome diff = RunRestic(absl::StrCat("diff ", full, " ", increment));
  EXPECT_THAT(diff.output, HasSubstr("/image/000/00/data"));
  EXPECT_THAT(diff.output, HasSubstr("/image/000/01/data"));
  EXPECT_THAT(RunRestic(absl::StrCat("find --json volume.json")).output, HasSubstr(full));
  ExpectResticRestores(full, first);
  ExpectResticRestores(increment, image_);
}

TEST_P(ResticStoryTest, TheDocumentedRecipeGivesTheImageBack) {
  Enlarge();
  ExpectOurs("init");
  const std::string id = BackUpAll();
  // The first commands of the document, word for word, but for the place and the password.
  const std::string document = ReadFile(support::SourcePath("docs/repository-format.md"));
  const std::size_t begin = document.find("```sh\n") + 6;
  std::vector<std::string> lines = absl::StrSplit(
      document.substr(begin, document.find("```", begin) - begin), '\n', absl::SkipEmpty());
  ASSERT_THAT(lines, SizeIs(4));
  EXPECT_THAT(lines[0], testing::StartsWith("export RESTIC_REPOSITORY=s3:"));
  std::ofstream(Path("password")) << "secret\n";
  lines[0] = absl::StrCat("export RESTIC_REPOSITORY=", Path("repo"),
                          " RESTIC_PASSWORD_FILE=", Path("password"));
  std::ofstream(Path("volume")) << std::string(image_.size() + 4096, '\xa5');
  const Outcome outcome = restic_.Run(absl::StrCat("SNAPSHOT=", id, " TARGET=", Path("volume"),
                                                   "; { ", absl::StrJoin(lines, "\n"), "\n}"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr(absl::StrCat("\"size_bytes\":", image_.size())));
  EXPECT_TRUE(ReadFile(Path("volume")) == image_ + std::string(4096, '\xa5'));
}

TEST_P(ResticStoryTest, TheirsIsWholeToUs) {
  ExpectRestic("init");
  MakeFolder();
  ExpectRestic(absl::StrCat("backup --tag theirs ", Path("folder")));
  const std::string others = Ids().front();
  ExpectOurs("check --read-data");
  const Json listed = LastJson(RunOurs("snapshots --json").output);
  ASSERT_THAT(listed, SizeIs(1));
  EXPECT_EQ(GetString(listed[0], {"id"}), others);
  EXPECT_THAT(RunOurs(absl::StrCat("ls ", others)).output, HasSubstr("/folder/sub/small"));
  const Outcome refused = RunOurs(absl::StrCat("restore ", others, " --target target"));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.output, HasSubstr("is not a volume backup"));

  const std::string full = BackUpAll();
  const std::string increment = BackUpChange({{300'000, "other"}}, full);
  ExpectOursRestores(increment, image_);
  ExpectBothFindNothingWrong();
  ExpectFolderComesBack(others);
}

TEST_P(ResticStoryTest, CopiesGoBothWays) {
  ExpectOurs("init");
  const std::string first = image_;
  const std::string full = BackUpAll();
  BackUpChange({{300'000, "other"}}, full);
  const std::string second = image_;
  const std::string from = absl::StrCat("copy --from-repo ", Path("repo"));

  // By restic, into a repository that it made. Its snapshots have ids of their own, and no locator.
  std::ofstream(Path("password")) << repository::kInteropPassword;
  ExpectRestic("init", "by-restic");
  ExpectRestic(absl::StrCat(from, " --from-password-file ", Path("password")), "by-restic");
  ASSERT_THAT(Ids("by-restic"), SizeIs(2));
  ExpectOursRestores("latest", second, "by-restic");
  const std::string third = BackUpChange({{900'000, Noise(300'000, 8)}}, "", "by-restic");
  ExpectOursRestores(third, image_, "by-restic");
  ExpectBothFindNothingWrong("by-restic");

  // By us, likewise.
  ExpectRestic("init", "by-us");
  ExpectOurs(from, "by-us");
  ExpectResticFindsNothingWrong("by-us");
  ASSERT_THAT(Ids("by-us"), SizeIs(2));
  ExpectResticRestores(Ids("by-us").front(), first, "by-us");
  ExpectResticRestores(Ids("by-us").back(), second, "by-us");
}

TEST_P(ResticStoryTest, ATaggedSnapshotStaysTheChainsNewest) {
  ExpectOurs("init");
  const std::string full = BackUpAll();
  ExpectRestic(absl::StrCat("tag --add approved ", full));
  ASSERT_THAT(Ids(), SizeIs(1));
  const std::string tagged = Ids().front();
  EXPECT_NE(tagged, full);
  EXPECT_THAT(RunOurs("snapshots --json --tag approved").output, HasSubstr(tagged));
  const std::string increment = BackUpChange({{300'000, "other"}}, tagged);
  ExpectOursRestores(increment, image_);
  ExpectBothFindNothingWrong();
}

TEST_P(LaterResticStoryTest, ARewrittenSnapshotStaysTheChainsNewest) {
  ExpectOurs("init");
  const std::string full = BackUpAll();
  // restic writes each tree again and refuses where a byte would come out differently.
  ExpectRestic(absl::StrCat("rewrite --forget --new-time '2026-01-02 03:04:05' ", full));
  ASSERT_THAT(Ids(), SizeIs(1));
  const std::string rewritten = Ids().front();
  EXPECT_NE(rewritten, full);
  const std::string increment = BackUpChange({{300'000, "other"}}, rewritten);
  ExpectOursRestores(increment, image_);

  ExpectRestic(absl::StrCat("rewrite --exclude /volume.json ", increment));
  ExpectResticFindsNothingWrong();
  const std::vector<std::string> ids = Ids();
  ASSERT_THAT(ids, SizeIs(3));
  const std::string bare = *std::find_if(ids.begin(), ids.end(), [&](const std::string& id) {
    return id != rewritten && id != increment;
  });
  ExpectResticRestores(bare, image_);  // Its bytes are all there.
  const Outcome refused = RunOurs(absl::StrCat("restore ", bare, " --target target"));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.output, HasSubstr("volume.json"));
  EXPECT_THAT(RunOurs("check").output, HasSubstr("volume.json"));
  ExpectRestic(absl::StrCat("forget ", bare));
  ExpectOurs("check --read-data");
  ExpectOursRestores(BackUpChange({{900'000, "another"}}, increment), image_);
}

TEST_P(ResticStoryTest, AChainPrunedByResticGoesOn) {
  Enlarge();
  ExpectOurs("init");
  std::string last = BackUpAll();
  for (std::size_t generation = 1; generation < 3; ++generation) {
    last = BackUpChange({{generation * 300'000, Noise(400'000, 20 + generation)}}, last);
  }
  ExpectRestic("forget --keep-last 1 --prune --max-unused 0");
  EXPECT_THAT(Ids(), testing::ElementsAre(last));
  ExpectOursRestores(last, image_);
  // The second leaf lay beside the first's oldest, in a pack that is gone.
  const std::string next = BackUpChange(
      {{1'000'000, Noise(300'000, 30)}, {std::size_t{66} << 20, Noise(5000, 31)}}, last);
  ExpectOursRestores(next, image_);
  ExpectResticRestores(next, image_);
  ExpectBothFindNothingWrong();
}

TEST_P(ResticStoryTest, AnIndexMadeAgainByResticServesUs) {
  ExpectOurs("init");
  const std::string full = BackUpAll();
  std::filesystem::remove_all(Path("repo/index"));
  std::filesystem::create_directory(Path("repo/index"));
  const bool old = RunRestic("version").output.find("restic 0.14.") == 0;
  ExpectRestic(old ? "rebuild-index" : "repair index");
  ExpectOursRestores(full, image_);
  ExpectOursRestores(BackUpChange({{300'000, "other"}}, full), image_);
  ExpectBothFindNothingWrong();
}

TEST_P(ResticStoryTest, KeysOfEitherOpenForBoth) {
  ExpectOurs("init");
  const std::string id = BackUpAll();
  std::ofstream(Path("second")) << "second";
  std::ofstream(Path("third")) << "third";
  ExpectRestic(absl::StrCat("key add --new-password-file ", Path("second")));
  ExpectOurs("snapshots");
  EXPECT_EQ(RunOurs("snapshots", "repo", "second").exit_code, 0);
  EXPECT_EQ(RunOurs("key passwd --new-password-file third", "repo", "second").exit_code, 0);
  EXPECT_NE(RunRestic("snapshots", "repo", "second").exit_code, 0);
  EXPECT_EQ(RunOurs("snapshots", "repo", "second").exit_code, 12);
  EXPECT_THAT(RunRestic("snapshots", "repo", "third").output, HasSubstr(id.substr(0, 8)));
  EXPECT_THAT(LastJson(RunOurs("key list --json").output), SizeIs(2));
}

TEST_P(ResticStoryTest, LocksOfEitherHoldForBoth) {
  ExpectOurs("init");
  BackUpAll();
  {  // Theirs, beside others.
    HeldCommand others(ResticWith("backup --stdin"), Path("theirs.log"));
    AwaitLocks(1);
    const Outcome prune = RunOurs("prune --retry-lock 0");
    EXPECT_EQ(prune.exit_code, 11) << prune.output;
    EXPECT_THAT(prune.output, HasSubstr("wait for it with --retry-lock"));
    ExpectOurs("snapshots");
    BackUpAll();
    others.Write("a stream");
    EXPECT_EQ(others.Finish().exit_code, 0);
    ExpectOurs("prune --retry-lock 0");
  }
  {  // Theirs, alone.
    HeldCommand others(ResticWith("key passwd --new-password-file /dev/stdin"), Path("theirs.log"));
    AwaitLocks(1);
    EXPECT_EQ(RunOurs("backup image --path /volume --retry-lock 0").exit_code, 11);
    others.Write(repository::kInteropPassword);
    EXPECT_EQ(others.Finish().exit_code, 0);
  }
  {  // Ours, beside others.
    HeldCommand own(OursThatReadsAPassword("key add"), Path("ours.log"));
    AwaitLocks(1);
    const Outcome prune = RunRestic("prune");
    EXPECT_NE(prune.exit_code, 0);
    EXPECT_THAT(prune.output, HasSubstr("locked"));
    ExpectRestic("unlock");  // Removes what is not held any more.
    MakeFolder();
    ExpectRestic(absl::StrCat("backup ", Path("folder")));
    own.Write("another");
    EXPECT_EQ(own.Finish().exit_code, 0);
  }
  {  // Ours, alone.
    HeldCommand own(OursThatReadsAPassword("key passwd"), Path("ours.log"));
    AwaitLocks(1);
    EXPECT_NE(RunRestic("snapshots").exit_code, 0);
    own.Write(repository::kInteropPassword);
    EXPECT_EQ(own.Finish().exit_code, 0);
  }
  ExpectBothFindNothingWrong();
}

TEST_P(ResticStoryTest, AStaleLockIsGoneAfterTheNextBackup) {
  ExpectOurs("init");
  HeldCommand own(OursThatReadsAPassword("key passwd"), Path("ours.log"));
  AwaitLocks(1);
  const Outcome killed = repository::Shell(absl::StrCat("kill -9 $(cat ", Path("pid"), ")"));
  EXPECT_EQ(killed.exit_code, 0) << killed.output;
  own.Finish();
  AwaitLocks(1);  // It is still there.
  EXPECT_NE(RunRestic("check").exit_code, 0);
  ExpectOurs("backup image --path /volume --retry-lock 0");
  ExpectResticFindsNothingWrong();
}

TEST_P(ResticStoryTest, VersionOneIsReadAndNotWritten) {
  ExpectOurs("init");
  const std::string id = BackUpAll();
  std::ofstream(Path("password")) << repository::kInteropPassword;
  ExpectRestic("init --repository-version 1", "one");
  ExpectRestic(
      absl::StrCat("copy --from-repo ", Path("repo"), " --from-password-file ", Path("password")),
      "one");
  ExpectOursRestores("latest", image_, "one");
  ExpectOurs("check --read-data", "one");
  const Outcome refused = RunOurs("backup image", "one");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.output, HasSubstr("restic migrate upgrade_repo_v2"));
  ExpectResticFindsNothingWrong("one");
  ExpectRestic("migrate upgrade_repo_v2", "one");
  ExpectOursRestores(BackUpChange({{300'000, "other"}}, "", "one"), image_, "one");
  ExpectBothFindNothingWrong("one");
}

}  // namespace
}  // namespace csidelta::interop::restic_story_test
