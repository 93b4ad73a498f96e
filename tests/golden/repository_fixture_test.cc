// A repository that the program of an older version made (fbeb56d/, see README.md) and what the
// program of this version does with it. A failure means that a user who upgrades cannot list,
// verify, restore or continue his backups: mend the program, never the fixture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/crypto.h"
#include "base/json.h"
#include "repository/repository.h"
#include "storage/file_object_store.h"
#include "tests/cli/program_runner.h"
#include "tests/support/cheap_scrypt.h"
#include "tests/support/paths.h"
#include "tests/support/status_matchers.h"

namespace csidelta::cli::repository_fixture_test {
namespace {

namespace fs = std::filesystem;

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::size_t kChunkBytes = 256 << 10;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return std::move(bytes).str();
}

class RepositoryFixtureTest : public testing::Test {
 protected:
  RepositoryFixtureTest() {
    const std::string folder = support::SourcePath("tests/golden/fbeb56d");
    told_ = ParseJsonObject(ReadFile(absl::StrCat(folder, "/repository.json"))).value();
    fs::copy(absl::StrCat(folder, "/repository"), program_.Path("repo"),
             fs::copy_options::recursive);
    program_.variables = {{"RESTIC_PASSWORD", GetString(told_, {"password"})},
                          {"RESTIC_REPOSITORY", program_.Path("repo")}};
  }

  // In place of the key of the fixture, which takes its time to open: the same key for the same
  // password.
  void OpenQuickly() const {
    const std::string& password = program_.variables.at("RESTIC_PASSWORD");
    storage::FileObjectStore store(program_.Path("repo"), Random::Real());
    repository::Environment environment;
    environment.scrypt = support::kCheapScrypt;
    const auto repository = repository::Repository::Open({}, store, password, environment);
    ASSERT_THAT(repository, support::IsOk());
    const auto quick = (*repository)->AddKey({}, password);
    ASSERT_THAT(quick, support::IsOk());
    for (const auto& key : fs::directory_iterator(program_.Path("repo/keys"))) {
      if (key.path().filename() != quick->Hex()) {
        fs::remove(key.path());
      }
    }
  }

  Outcome Run(std::vector<std::string> words) const {
    words.emplace_back("--json");
    Outcome outcome = program_.Run(words);
    EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
    return outcome;
  }

  // What make.py wrote down of the repository snapshot of a volume.
  Json Told(const std::string& path, const std::string& generation) const {
    for (const Json& snapshot : told_["snapshots"]) {
      if (GetString(snapshot, {"path"}) == path &&
          GetString(snapshot, {"generation"}) == generation) {
        return snapshot;
      }
    }
    ADD_FAILURE() << "the fixture has no " << generation << " of " << path;
    return Json();
  }

  // Of all packs.
  std::uintmax_t DataBytes() const {
    std::uintmax_t bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(program_.Path("repo/data"))) {
      bytes += entry.is_regular_file() ? entry.file_size() : 0;
    }
    return bytes;
  }

  // Restores the snapshot into a file and returns its bytes.
  std::string Restore(const std::string& id) const {
    Run({"restore", id, "--target", program_.Path("restored")});
    return ReadFile(program_.Path("restored"));
  }

  ProgramRunner program_;
  Json told_;
};

TEST_F(RepositoryFixtureTest, IsListedWithHostsPathsAndTags) {
  const Json listed = Run({"snapshots"}).Result();
  std::map<std::string, Json> by_id;
  for (const Json& snapshot : listed) {
    by_id[GetString(snapshot, {"id"})] = snapshot;
  }
  ASSERT_THAT(by_id, SizeIs(4));
  for (const Json& wanted : told_["snapshots"]) {
    const Json& snapshot = by_id[GetString(wanted, {"id"})];
    EXPECT_EQ(GetString(snapshot, {"hostname"}), GetString(told_, {"host"}));
    EXPECT_EQ(snapshot["paths"], Json::array({GetString(wanted, {"path"})}));
  }
  const Json& newest = by_id[GetString(Told("/shop/data", "second"), {"id"})];
  EXPECT_THAT(newest["tags"].get<std::vector<std::string>>(),
              testing::IsSupersetOf({"du-00000000-0000-4000-8000-00000000000b",
                                     "volume-group=shop/db", "volume-group-snapshot=velero-db-b",
                                     "volume-group-cut=2026-03-02T12:00:00Z",
                                     "volume-group-members=2", "mode=block"}));
  EXPECT_EQ(GetString(newest, {"time"}), "2026-03-02T12:00:00Z");
}

TEST_F(RepositoryFixtureTest, ItsVolumeGroupsAreComplete) {
  OpenQuickly();
  std::vector<std::string> groups;
  for (const Json& group : Run({"snapshots", "--group"}).Result()) {
    groups.push_back(absl::StrCat(GetString(group, {"group"}), " ",
                                  GetString(group, {"volume_group_snapshot"}), " ",
                                  GetString(group, {"state"})));
  }
  EXPECT_THAT(groups, ElementsAre("shop/db velero-db-a complete", "shop/db velero-db-b complete"));
}

TEST_F(RepositoryFixtureTest, IsWholeToTheLastByte) {
  OpenQuickly();
  const Outcome outcome = Run({"check", "--read-data"});
  EXPECT_THAT(outcome.error, IsEmpty());
}

TEST_F(RepositoryFixtureTest, EverySnapshotIsRestoredBitExact) {
  OpenQuickly();
  for (const Json& wanted : told_["snapshots"]) {
    const std::string bytes = Restore(GetString(wanted, {"id"}));
    EXPECT_EQ(static_cast<int64_t>(bytes.size()), GetInt(wanted, {"bytes"}));
    EXPECT_EQ(Sha256Hex(bytes), GetString(wanted, {"sha256"})) << wanted.dump();
  }
}

TEST_F(RepositoryFixtureTest, TheNextBackupIsIncremental) {
  OpenQuickly();
  const Json parent = Told("/shop/data", "second");
  std::string image = Restore(GetString(parent, {"id"}));
  image.replace(4 * kChunkBytes, 3, "new");
  program_.Write("image", image);
  program_.Write("list", absl::StrCat("{\"base\":\"", GetString(parent, {"id"}),
                                      "\"}\n{\"offset\":", 4 * kChunkBytes,
                                      ",\"length\":4096}\n{\"end\":true}\n"));
  const Json result = Run({"backup", program_.Path("image"), "--extents", program_.Path("list"),
                           "--host", GetString(told_, {"host"}), "--path", "/shop/data"})
                          .Result();
  EXPECT_EQ(GetString(result, {"mode_done"}), "incremental");
  EXPECT_EQ(GetString(result, {"base"}), GetString(parent, {"id"}));
  EXPECT_EQ(GetInt(result, {"changed_bytes"}), static_cast<int64_t>(kChunkBytes));
  EXPECT_EQ(GetInt(result, {"read_bytes"}), static_cast<int64_t>(kChunkBytes));
  EXPECT_EQ(Restore(GetString(result, {"snapshot_id"})), image);
  // The older ones are as they were.
  EXPECT_EQ(Sha256Hex(Restore(GetString(parent, {"id"}))), GetString(parent, {"sha256"}));
}

TEST_F(RepositoryFixtureTest, OldSnapshotsGoAndTheirSpaceWithThem) {
  OpenQuickly();
  const Json kept = Told("/shop/log", "second");
  const std::uintmax_t before = DataBytes();
  Run({"forget", GetString(Told("/shop/data", "first"), {"id"}),
       GetString(Told("/shop/data", "second"), {"id"}),
       GetString(Told("/shop/log", "first"), {"id"})});
  EXPECT_EQ(DataBytes(), before) << "to forget frees nothing";
  Run({"prune", "--max-unused", "0"});
  EXPECT_LT(DataBytes(), before);
  EXPECT_EQ(Sha256Hex(Restore(GetString(kept, {"id"}))), GetString(kept, {"sha256"}));
  Run({"check", "--read-data"});
}

}  // namespace
}  // namespace csidelta::cli::repository_fixture_test
