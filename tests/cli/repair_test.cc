// A repository that has lost something, as an operator meets it: every order of the verbs that
// repair leads to the same end, and what does not read, or is dated wrongly, is never passed over
// without a word.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "repository/blob.h"
#include "tests/cli/program_runner.h"
#include "tests/support/fake_secure_random.h"

namespace csidelta::cli::repair_test {
namespace {

using support::Noise;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::size_t kChunk = 256 << 10;
constexpr std::size_t kChunks = 64;  // In two packs at least.
constexpr std::size_t kTwin = 19;    // Holds what the first chunk does.

class RepairTest : public testing::Test, protected ProgramRunner {
 protected:
  RepairTest() {
    variables = {{"RESTIC_PASSWORD", "secret"}, {"RESTIC_REPOSITORY", Path("repo")}};
    for (std::size_t i = 0; i < kChunks; ++i) {
      image_ += Noise(kChunk, i == kTwin ? 0 : i);
    }
    image_ += Noise(1000, 99);
    Write("image", image_);
    Init();
  }

  using ProgramRunner::Run;  // Not that of GoogleTest.

  Outcome MustRun(const std::vector<std::string>& words, ExitCode code = ExitCode::kOk) const {
    Outcome outcome = Run(words);
    EXPECT_EQ(outcome.code, code) << absl::StrJoin(words, " ") << ": " << outcome.error
                                  << outcome.out;
    return outcome;
  }

  Json Backup(const std::vector<std::string>& more = {}, ExitCode code = ExitCode::kOk) const {
    std::vector<std::string> words = {"--json", "backup",      "--chunk-size",
                                      "256KiB", "--pack-size", "4",
                                      "--path", "/volume",     Path("image")};
    words.insert(words.end(), more.begin(), more.end());
    return MustRun(words, code).Result();
  }
  std::string BackupId(const std::vector<std::string>& more = {}) const {
    return GetString(Backup(more), {"snapshot_id"});
  }

  // A list that says that nothing has changed since a snapshot.
  std::vector<std::string> NothingSince(const std::string& id) const {
    Write("nothing", absl::StrCat("{\"base\":\"", id, "\"}\n{\"end\":true}\n"));
    return {"--extents", Path("nothing")};
  }

  // Writes `seed`'s noise over a chunk of the image.
  void Change(std::size_t chunk, uint64_t seed) {
    image_.replace(chunk * kChunk, kChunk, Noise(kChunk, seed));
    Write("image", image_);
  }

  void ExpectRestores(const std::string& id, const std::string& image) const {
    Write("target", "");
    MustRun({"restore", id, "--target", Path("target")});
    EXPECT_TRUE(Read("target") == image) << id;
  }

  void CopyFolder(const char* from, const char* to) const {
    std::filesystem::remove_all(Path(to));
    std::filesystem::copy(Path(from), Path(to), std::filesystem::copy_options::recursive);
  }

  // By their bytes.
  std::multimap<uintmax_t, std::string> Packs() const {
    std::multimap<uintmax_t, std::string> packs;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(Path("repo/data"))) {
      if (entry.is_regular_file()) {
        packs.emplace(entry.file_size(), entry.path());
      }
    }
    return packs;
  }
  // Of chunks alone: what else volumes are made of is written last.
  std::string LargestPack() const { return Packs().rbegin()->second; }
  void LosePack() const { std::filesystem::remove(LargestPack()); }
  // Those of trees are smaller than a chunk.
  void ForEachTreePack(const std::function<void(const std::string&)>& visit) const {
    for (const auto& [bytes, pack] : Packs()) {
      if (bytes < kChunk) {
        visit(pack);
      }
    }
  }
  void Damage(const std::string& path) const {
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(40);
    file.put('X').put('Y');
  }

  // The commands that checks print, each run as it is printed, until a check is clean.
  std::vector<std::string> FollowAdvice(const std::vector<std::string>& check) const;

  std::string SnapshotFile(const std::string& id) const { return Path("repo/snapshots/" + id); }

  std::string image_;
};

std::vector<std::string> RepairTest::FollowAdvice(const std::vector<std::string>& check) const {
  constexpr std::size_t kCommandsMax = 4;
  std::vector<std::string> commands;
  for (Outcome outcome = Run(check); outcome.code != ExitCode::kOk; outcome = Run(check)) {
    EXPECT_EQ(outcome.code, ExitCode::kFailed) << outcome.error;
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(outcome.out, "\nnext: csi-delta ");
    const std::string line = parts.second.substr(0, parts.second.find('\n'));
    const std::string command = line.substr(0, line.find(" (with host and path of snapshot "));
    for (const absl::string_view shown : absl::StrSplit(outcome.out, '\n')) {
      EXPECT_LE(shown.size(), 110U) << shown;
    }
    if (command.empty() || absl::c_linear_search(commands, command) ||
        commands.size() == kCommandsMax) {
      ADD_FAILURE() << "after " << absl::StrJoin(commands, ", ") << ":\n" << outcome.out;
      return commands;
    }
    commands.push_back(command);
    std::vector<std::string> words =
        absl::StrSplit(absl::StrReplaceAll(command, {{"VOLUME", Path("image")}}), ' ');
    if (words.front() == "backup") {
      words.insert(words.end(), {"--path", "/volume"});
    }
    const Outcome done = Run(words);
    EXPECT_NE(done.code, ExitCode::kFailed) << command << ": " << done.error;
  }
  return commands;
}

// Each of these was a circle once: a check advised what had just been done.
TEST_F(RepairTest, ItsAdviceLeadsToACleanCheckInAFewSteps) {
  const std::string first = BackupId();
  Change(kTwin, 1000);
  BackupId();
  CopyFolder("repo", "sound");
  const std::string same = image_;
  std::string other = image_;
  for (std::size_t i = 0; i + 4 < kChunks; ++i) {
    other.replace(i * kChunk, kChunk, Noise(kChunk, 3000 + i));
  }
  struct Case {
    const char* name;
    std::function<void()> damage;
    std::string volume;
    std::vector<std::string> commands;
    std::vector<std::string> check = {"check"};
  };
  const std::vector<std::string> reads = {"check", "--read-data"};
  const auto lose_pack = [this] { LosePack(); };
  const auto damage_pack = [this] { Damage(LargestPack()); };
  const std::string backup = "backup --force VOLUME";
  const std::vector<Case> cases = {
      {"the pack is gone", lose_pack, same, {backup, "repair"}},
      {"and the volume has changed", lose_pack, other, {backup, "repair --forget"}},
      {"a pack is damaged", damage_pack, same, {backup, "repair --read-data"}, reads},
      {"and another image was searched",
       [&] {
         damage_pack();
         Write("other", other);
         MustRun({"repair", "--read-data", "--from", Path("other")}, ExitCode::kIncomplete);
       },
       same,
       {backup, "repair --read-data"},
       reads},
      {"a pack is damaged and the volume has changed",
       damage_pack,
       other,
       {backup, "repair --read-data --forget"},
       reads},
      {"the index is gone",
       [this] {
         std::filesystem::remove_all(Path("repo/index"));
         std::filesystem::create_directory(Path("repo/index"));
       },
       same,
       {"repair"}},
      {"trees are gone",
       [this] { ForEachTreePack([](const std::string& pack) { std::filesystem::remove(pack); }); },
       same,
       {backup, "repair --forget"}},
      {"trees are damaged",
       [this] { ForEachTreePack([this](const std::string& pack) { Damage(pack); }); },
       same,
       {backup, "repair --read-data --forget"},
       reads},
      {"a snapshot's file is damaged",
       [&] { Damage(SnapshotFile(first)); },
       same,
       {"forget " + first}}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    CopyFolder("sound", "repo");
    one.damage();
    Write("image", one.volume);
    EXPECT_EQ(FollowAdvice(one.check), one.commands);
    MustRun({"check", "--read-data"});
    ExpectRestores("latest", one.volume);
  }
}

// What no snapshot needs of one pack is not in the volume, and what one needs of another is.
TEST_F(RepairTest, OneSearchOfTheVolumeFillsInWhatIsNeededAndWhatIsNot) {
  const std::string first = BackupId();
  const std::string unneeded = LargestPack();
  CopyFolder("repo", "sound");
  Damage(unneeded);
  const std::string damaged = Run({"check", "--read-data", "--json"}).out;
  CopyFolder("sound", "repo");
  for (std::size_t i = 0; i < kChunks; ++i) {
    const repository::Id id = repository::Id::Of(image_.substr(i * kChunk, kChunk));
    if (absl::StrContains(damaged, id.ShortHex())) {
      Change(i, 1000);
    }
  }
  const auto before = Packs();
  const std::string second = BackupId();
  MustRun({"forget", first});
  for (const auto& [bytes, pack] : Packs()) {
    if (bytes > kChunk && !before.contains(bytes)) {
      Damage(pack);
    }
  }
  Damage(unneeded);
  const Outcome repaired = MustRun({"repair", "--read-data", "--from", Path("image"), "--forget"});
  EXPECT_THAT(repaired.out, AllOf(HasSubstr("1 filled in, 0 lost\n"), HasSubstr("1 lost\n")));
  MustRun({"check", "--read-data"});
  ExpectRestores(second, image_);
}

TEST_F(RepairTest, NoSnapshotIsRemovedOfWhichEveryByteIsStored) {
  BackupId();
  std::filesystem::remove_all(Path("repo/index"));
  std::filesystem::create_directory(Path("repo/index"));
  MustRun({"repair", "--forget"});
  ExpectRestores("latest", image_);
}

TEST_F(RepairTest, WithoutTheVolumeOneVerbGivesUpWhatIsLost) {
  const std::string first = BackupId();
  LosePack();
  const Outcome plan = MustRun({"repair", "--plan"});
  EXPECT_THAT(plan.out, AllOf(HasSubstr("look for lost chunks in the VOLUME of --from"),
                              HasSubstr("could remove with --forget 1 snapshot")));
  EXPECT_THAT(plan.out, HasSubstr("csi-delta repair --forget"));
  MustRun({"repair"}, ExitCode::kIncomplete);
  EXPECT_TRUE(std::filesystem::exists(SnapshotFile(first)));
  EXPECT_THAT(MustRun({"repair", "--forget"}).out,
              AllOf(HasSubstr("removed 1 snapshot that could not be restored"),
                    HasSubstr("no errors in 0 snapshots"), HasSubstr("data was not read")));
  EXPECT_FALSE(std::filesystem::exists(SnapshotFile(first)));
  EXPECT_THAT(MustRun({"repair"}).out, HasSubstr("nothing to do"));
}

TEST_F(RepairTest, ItGivesUpNothingWhileASnapshotDoesNotRead) {
  const std::string unread = BackupId();
  const std::string lost = BackupId();
  LosePack();
  Damage(SnapshotFile(unread));
  EXPECT_THAT(MustRun({"repair", "--forget"}, ExitCode::kFailed).error,
              HasSubstr(absl::StrCat("snapshots/", unread, " cannot be read, so what it needs is ",
                                     "not known; csi-delta forget ", unread, " removes it")));
  EXPECT_TRUE(std::filesystem::exists(SnapshotFile(lost)));
  MustRun({"forget", unread});
  EXPECT_THAT(MustRun({"repair", "--forget"}).out, HasSubstr("removed 1 snapshot that could not"));
  EXPECT_FALSE(std::filesystem::exists(SnapshotFile(lost)));
}

// No backup of today comes after a snapshot of the future, whatever a check advises.
TEST_F(RepairTest, ALostSnapshotOfTheFutureIsNotBackedUpForEver) {
  BackupId({"--time", "2099-01-01 00:00:00"});
  LosePack();
  for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {
    Change(chunk, 3000 + chunk);
  }
  EXPECT_EQ(FollowAdvice({"check"}),
            (std::vector<std::string>{"backup --force VOLUME", "repair --forget"}));
  ExpectRestores("latest", image_);
}

TEST_F(RepairTest, OfSeveralLostVolumesTheNewestSnapshotIsNamed) {
  for (const char* path : {"/a", "/b", "/c", "/d"}) {
    BackupId({"--path", path});
  }
  const std::string newest = BackupId({"--path", "/e"});
  LosePack();
  EXPECT_THAT(MustRun({"check"}, ExitCode::kFailed).out,
              HasSubstr(absl::StrCat("of snapshot ", newest.substr(0, 8), ")")));
}

// A plan names what the same words would do, and no step that they would not.
TEST_F(RepairTest, APlanSaysWhatTheSameFlagsWouldDo) {
  BackupId();
  Damage(LargestPack());
  const std::string saves = "would save what is left of 1 damaged pack";
  EXPECT_THAT(MustRun({"repair", "--plan", "--read-data"}).out,
              AllOf(Not(HasSubstr(saves)), HasSubstr("lost chunks in the VOLUME of --from"),
                    HasSubstr("repair --read-data --forget\n")));
  EXPECT_THAT(MustRun({"repair", "--plan", "--read-data", "--forget"}).out, HasSubstr(saves));
  EXPECT_THAT(MustRun({"repair", "--plan", "--read-data", "--from", Path("image")}).out,
              AllOf(HasSubstr(saves), HasSubstr("would look for lost chunks in the volume")));
}

TEST_F(RepairTest, NothingThatACheckFoundDamagedCountsAsStored) {
  const std::string first = BackupId();
  MustRun({"init", "--repo", Path("other")});
  MustRun({"copy", "--repo", Path("other"), "--from-repo", Path("repo")});
  Damage(LargestPack());
  const std::string pack = std::filesystem::path(LargestPack()).filename();
  EXPECT_THAT(MustRun({"check", "--read-data"}, ExitCode::kFailed).out,
              AllOf(HasSubstr("error: pack " + pack.substr(0, 8) + ": "),
                    HasSubstr("all data was read: "), Not(HasSubstr(pack))));
  CopyFolder("repo", "damaged");
  for (const std::vector<std::string>& flags :
       std::vector<std::vector<std::string>>{{"--force"}, {}, NothingSince(first)}) {
    CopyFolder("damaged", "repo");
    std::vector<std::string> more = flags;
    more.emplace_back("--skip-if-unchanged");
    const Json result = Backup(more);
    EXPECT_GT(GetInt(result, {"data_blobs"}), 0) << absl::StrJoin(flags, " ");
    MustRun({"prune", "--max-unused", "0"});  // Keeps the good one of two copies.
    ExpectRestores(GetString(result, {"snapshot_id"}), image_);
    ExpectRestores(first, image_);
  }
  CopyFolder("damaged", "repo");
  MustRun({"copy", "--from-repo", Path("other")}, ExitCode::kIncomplete);
  ExpectRestores(first, image_);
}

TEST_F(RepairTest, WithTheVolumeAtHandEveryOrderBringsEverythingBack) {
  const std::string before = image_;
  const std::string first = BackupId();
  Change(kTwin, 1000);
  const std::string second = BackupId();
  CopyFolder("repo", "sound");
  std::vector<std::string> verbs = {"index", "packs", "--read-data"};
  const std::vector<std::vector<std::string>> remediations = {
      {"repair", "packs", "--from", Path("image")},
      {"backup", "--force", "--path", "/volume", Path("image")}};
  do {
    for (const std::vector<std::string>& remediation : remediations) {
      SCOPED_TRACE(absl::StrCat(absl::StrJoin(verbs, ", "), ", ", absl::StrJoin(remediation, " ")));
      CopyFolder("sound", "repo");
      LosePack();
      for (const std::string& verb : verbs) {
        // Only the index is made whole without the volume.
        MustRun({"repair", verb}, verb == "index" ? ExitCode::kOk : ExitCode::kIncomplete);
        const Outcome check = MustRun({"check"}, ExitCode::kFailed);
        EXPECT_THAT(check.out, HasSubstr("next: csi-delta backup --force VOLUME (with host"));
      }
      MustRun(remediation);
      MustRun({"repair", "index"});  // A pack that is gone may still be listed.
      MustRun({"check", "--read-data"});
      ExpectRestores(first, before);
      ExpectRestores(second, image_);
      MustRun({"prune"});
    }
  } while (std::next_permutation(verbs.begin(), verbs.end()));
}

TEST_F(RepairTest, LostDataIsNamedByItsSnapshots) {
  const std::string first = BackupId();
  LosePack();
  // The volume holds other bytes by now.
  image_.clear();
  for (std::size_t i = 0; i < kChunks; ++i) {
    image_ += Noise(kChunk, 2000 + i);
  }
  Write("image", image_);
  const std::string second = BackupId();
  const Outcome check = MustRun({"check"}, ExitCode::kFailed);
  EXPECT_THAT(check.out,
              HasSubstr(absl::StrCat("data was not read\ncannot be restored: ", first.substr(0, 8),
                                     "; no damage found in 1 other\n")));
  MustRun({"repair", "packs", "--from", Path("image")}, ExitCode::kIncomplete);
  EXPECT_THAT(
      MustRun({"repair", "--plan"}).out,
      AllOf(HasSubstr(first.substr(0, 8)), Not(HasSubstr(second.substr(0, 8))),
            HasSubstr("lost may be in an image of the volume: csi-delta repair --from IMAGE\n"
                      "next: csi-delta repair --forget\n")));
  EXPECT_THAT(MustRun({"repair", "snapshots", "--forget"}, ExitCode::kFailed).error,
              HasSubstr("csi-delta repair --forget removes them"));
  EXPECT_TRUE(std::filesystem::exists(SnapshotFile(first)));
  MustRun({"forget", first});
  EXPECT_THAT(MustRun({"check"}, ExitCode::kFailed).out,
              AllOf(HasSubstr("no snapshot needs what is lost"),
                    HasSubstr("every snapshot can be restored\nnext: csi-delta repair\n")));
  MustRun({"repair"});
  MustRun({"prune"});
}

TEST_F(RepairTest, AFullOfASparseImageReadsNoHoles) {
  std::filesystem::resize_file(Path("image"), uintmax_t{64} << 30);
  const std::string first = BackupId();
  LosePack();
  const Json result = Backup(NothingSince(first));
  EXPECT_EQ(GetString(result, {"reason"}), "parent-damaged");
  EXPECT_LT(GetInt(result, {"read_bytes"}), 64 << 20);
  MustRun({"restore", "latest", "--target", Path("target")});
  EXPECT_EQ(std::filesystem::file_size(Path("target")), uintmax_t{64} << 30);
  std::filesystem::resize_file(Path("target"), image_.size());
  EXPECT_TRUE(Read("target") == image_);
}

TEST_F(RepairTest, ASnapshotThatDoesNotReadIsNamedAndWhatDeletesDoesNotPassItOver) {
  const std::string before = image_;
  const std::string first = BackupId();
  Change(3, 1000);
  const std::string second = BackupId();
  Damage(SnapshotFile(second));
  const std::string file = absl::StrCat("snapshots/", second);

  const std::vector<std::vector<std::string>> refused = {
      {"forget", "latest"}, {"forget", second.substr(0, 8)}, {"prune"}};
  for (const std::vector<std::string>& words : refused) {
    const Outcome outcome = MustRun(words, ExitCode::kFailed);
    EXPECT_THAT(outcome.error, HasSubstr(second.substr(0, 8))) << words.front();
    EXPECT_THAT(outcome.error, Not(HasSubstr("no snapshots"))) << words.front();
  }
  // All of it was restored, but it may not be what was asked for.
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{}, {"--path", "/volume"}, {"-n"}}) {
    std::vector<std::string> words = {"--json", "restore", "latest", "--target", Path("target")};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = MustRun(words, ExitCode::kIncomplete);
    EXPECT_THAT(
        outcome.error,
        AllOf(HasSubstr(file), HasSubstr("csi-delta forget " + second),
              HasSubstr(first.substr(0, 8) +
                        " is the latest that can be read; one that cannot be read may be newer")));
    EXPECT_EQ(outcome.Result()["may_be_older"], true);
  }
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"ls", "latest"},
                                             {"diff", first, "latest"},
                                             {"stats", "latest"},
                                             {"forget", "--keep-last", "1"}}) {
    EXPECT_THAT(MustRun(words).error,
                AllOf(HasSubstr(file), HasSubstr("csi-delta forget " + second)))
        << words.front();
  }
  EXPECT_TRUE(Read("target") == before);
  EXPECT_TRUE(std::filesystem::exists(SnapshotFile(second)));
  ExpectRestores(first, before);

  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"snapshots"}, {"stats"}}) {
    EXPECT_THAT(MustRun(words, ExitCode::kIncomplete).error, HasSubstr(file));
  }
  variables["RESTIC_REPOSITORY"] = Path("copy");
  MustRun({"init"});
  const Outcome copied =
      MustRun({"--json", "copy", "--from-repo", Path("repo")}, ExitCode::kIncomplete);
  EXPECT_THAT(copied.error, HasSubstr(file));
  EXPECT_EQ(copied.Result()["snapshots"].size(), 1u);
  variables["RESTIC_REPOSITORY"] = Path("repo");

  // A list of changes since what does not read is refused: the backup builds on what reads.
  const Json next = Backup(NothingSince(second), ExitCode::kAuditMismatch);
  ExpectRestores(GetString(next, {"snapshot_id"}), image_);

  MustRun({"forget", second});
  EXPECT_FALSE(std::filesystem::exists(SnapshotFile(second)));
  EXPECT_TRUE(std::filesystem::exists(SnapshotFile(first)));
  MustRun({"prune"});
  MustRun({"check", "--read-data"});
  ExpectRestores("latest", image_);
}

TEST_F(RepairTest, ASnapshotOfTheFutureIsChosenOnlyWithAWarning) {
  const std::string before = image_;
  const std::string future = BackupId({"--time", "2099-01-01 00:00:00"});
  const std::string short_id = future.substr(0, 8);
  std::vector<std::string> later;
  for (const uint64_t seed : {1000, 1001, 1002}) {
    Change(3, seed);
    later.push_back(BackupId());
  }
  EXPECT_THAT(MustRun({"snapshots"}).error, AllOf(HasSubstr(short_id), HasSubstr("future")));
  EXPECT_THAT(MustRun({"restore", "latest", "--target", Path("target")}).error,
              AllOf(HasSubstr(short_id), HasSubstr("future"), HasSubstr(later[2].substr(0, 8))));
  EXPECT_TRUE(Read("target") == image_);
  const Outcome forgotten = MustRun({"--json", "forget", "--keep-last", "1"});
  EXPECT_THAT(forgotten.error, AllOf(HasSubstr(short_id), HasSubstr("future")));
  EXPECT_EQ(GetInt(forgotten.Result(), {"removed"}), 2);
  EXPECT_TRUE(std::filesystem::exists(SnapshotFile(later[2])));
  MustRun({"forget", later[2]});
  EXPECT_THAT(MustRun({"restore", "latest", "--target", Path("target")}).error,
              AllOf(HasSubstr("it is taken for the latest"), HasSubstr(short_id)));
  EXPECT_TRUE(Read("target") == before);
}

}  // namespace
}  // namespace csidelta::cli::repair_test
