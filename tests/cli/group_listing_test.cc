// csi-delta snapshots --group: what the repositories of many volumes tell of volume groups.
#include "cli/repository/group_listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/cli/program_runner.h"
#include "tests/support/fake_s3_server.h"

namespace csidelta::cli::group_listing_test {
namespace {

namespace fs = std::filesystem;

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// Volumes of a cluster, each with a repository of its own, below "mover".
class GroupListingTest : public testing::Test {
 protected:
  GroupListingTest() {
    program_.variables = {{"RESTIC_PASSWORD", "secret"},
                          {"RESTIC_REPOSITORY", program_.Path("repo")}};
    program_.Init();
    program_.Write("image", std::string(4096, 'x'));
  }

  std::string Folder(const std::string& volume) const {
    return program_.Path(absl::StrCat("mover/c1/", volume));
  }

  void AddVolume(const std::string& volume) const {
    fs::create_directories(fs::path(Folder(volume)).parent_path());
    fs::copy(program_.Path("repo"), Folder(volume), fs::copy_options::recursive);
  }

  // The id of the repository snapshot.
  std::string Store(const std::string& volume, const std::string& claim,
                    const std::string& snapshot, const std::string& members = "2",
                    const std::string& group = "shop/db") const {
    const Outcome outcome = program_.Run({"backup", program_.Path("image"), "--json", "--repo",
                                          Folder(volume), "--host", "c1", "--path", claim, "--tag",
                                          absl::StrCat("volume-group=", group), "--tag",
                                          absl::StrCat("volume-group-snapshot=", snapshot), "--tag",
                                          absl::StrCat("volume-group-members=", members), "--tag",
                                          "volume-group-cut=2026-11-23T05:00:00Z"});
    EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
    return GetString(outcome.Result(), {"snapshot_id"});
  }

  Outcome List(std::vector<std::string> words = {}, const std::string& folder = "mover") const {
    words.insert(words.begin(),
                 {"snapshots", "--group", "--json", "--repo", program_.Path(folder)});
    return program_.Run(words);
  }

  static std::vector<std::string> States(const Outcome& outcome) {
    std::vector<std::string> states;
    for (const Json& group : outcome.Result()) {
      states.push_back(absl::StrCat(GetString(group, {"group"}), " ",
                                    GetString(group, {"volume_group_snapshot"}), " ",
                                    GetString(group, {"state"})));
    }
    return states;
  }

  ProgramRunner program_;
};

TEST_F(GroupListingTest, GroupsAreFoundOverTheRepositoriesOfTheirMembers) {
  AddVolume("shop/1");
  AddVolume("shop/2");
  const std::string data = Store("shop/1", "/shop/data", "g1");
  const std::string wal = Store("shop/2", "/shop/wal", "g1");
  Store("shop/2", "/shop/wal", "g2");
  const Outcome outcome = List();
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.error, IsEmpty());
  EXPECT_THAT(States(outcome), ElementsAre("shop/db g1 complete", "shop/db g2 incomplete"));
  const Json snapshots = outcome.Result()[0]["snapshots"];
  ASSERT_EQ(snapshots.size(), 2U);
  EXPECT_EQ(GetString(snapshots[0], {"id"}), data);
  EXPECT_EQ(GetString(snapshots[1], {"id"}), wal);
  // With what is shown each can be restored.
  EXPECT_EQ(program_
                .Run({"restore", data, "--target", program_.Path("restored"), "--repo",
                      GetString(snapshots[0], {"repository"})})
                .code,
            ExitCode::kOk);
  EXPECT_THAT(program_.Run({"snapshots", "--group", "--repo", program_.Path("mover/c1")}).out,
              AllOf(HasSubstr("g1: complete, 2 of 2 members\n"), HasSubstr("/shop/wal"),
                    HasSubstr(absl::StrCat(data.substr(0, 8), "  /shop/data")),
                    HasSubstr(Folder("shop/1")), HasSubstr("2 volume groups, 1 complete\n")));
}

TEST_F(GroupListingTest, AGroupIsFoundByItsName) {
  AddVolume("shop/1");
  AddVolume("web/2");
  Store("shop/1", "/shop/data", "g1", "1");
  Store("web/2", "/web/data", "g2", "1", "web/db");
  Store("web/2", "/web/data", "g3", "1", "web/db");
  EXPECT_THAT(States(List({"web/db"})), ElementsAre("web/db g2 complete", "web/db g3 complete"));
  EXPECT_THAT(States(List({"db"})), SizeIs(3));
  EXPECT_THAT(States(List({"g1", "g3"})), SizeIs(2));
  EXPECT_THAT(States(List({"--latest", "1", "web/db"})), SizeIs(1));
  EXPECT_EQ(List({"none"}).out, "[]\n");
}

// A filter chooses groups; it does not make them incomplete.
TEST_F(GroupListingTest, AGroupThatAFilterChoosesIsShownWhole) {
  AddVolume("shop/1");
  AddVolume("shop/2");
  Store("shop/1", "/shop/data", "g1");
  Store("shop/2", "/shop/wal", "g1");
  EXPECT_THAT(States(List({"--path", "/shop/wal"})), ElementsAre("shop/db g1 complete"));
  EXPECT_THAT(States(List({"--path", "/shop/log"})), IsEmpty());
}

TEST_F(GroupListingTest, ARepositoryThatCannotBeOpenedIsNamedAndTheRestIsShown) {
  for (const char* volume : {"shop/1", "shop/2", "shop/3", "shop/4"}) {
    AddVolume(volume);
  }
  Store("shop/1", "/shop/data", "g1");
  Store("shop/2", "/shop/wal", "g1");
  fs::remove(Folder("shop/3/config"));
  fs::create_directories(Folder("shop/3/index"));
  fs::create_directories(Folder("shop/3/snapshots"));
  program_.Write("new", "another");
  ASSERT_EQ(program_
                .Run({"key", "passwd", "--repo", Folder("shop/4"), "--new-password-file",
                      program_.Path("new")})
                .code,
            ExitCode::kOk);
  fs::permissions(Folder("shop/2/config"), fs::perms::owner_all);
  std::ofstream(Folder("shop/2/config")) << "damaged";
  const Outcome outcome = List();
  EXPECT_EQ(outcome.code, ExitCode::kIncomplete);
  EXPECT_THAT(States(outcome), ElementsAre("shop/db g1 incomplete"));
  EXPECT_THAT(
      outcome.error,
      AllOf(HasSubstr(absl::StrCat("not seen: ", Folder("shop/2"), ": config")),
            HasSubstr(absl::StrCat("not seen: ", Folder("shop/3"), ": its config is missing")),
            HasSubstr(absl::StrCat("the password does not open ", Folder("shop/4"))),
            Not(HasSubstr(absl::StrCat("not seen: ", Folder("shop/1"))))));
}

TEST_F(GroupListingTest, ItIsAnErrorIfNoRepositoryCanBeOpened) {
  AddVolume("shop/1");
  program_.variables["RESTIC_PASSWORD"] = "another";
  const Outcome outcome = List();
  EXPECT_EQ(outcome.code, ExitCode::kWrongPassword);
  EXPECT_THAT(outcome.out, IsEmpty());
}

TEST_F(GroupListingTest, ASnapshotThatIsDamagedIsNamed) {
  AddVolume("shop/1");
  Store("shop/1", "/shop/data", "g1", "1");
  const std::string id = Store("shop/1", "/shop/data", "g2", "1");
  const std::string file = Folder("shop/1/snapshots/" + id);
  fs::permissions(file, fs::perms::owner_all);
  std::ofstream(file) << "damaged";
  const Outcome outcome = List();
  EXPECT_EQ(outcome.code, ExitCode::kIncomplete);
  EXPECT_THAT(States(outcome), ElementsAre("shop/db g1 complete"));
  EXPECT_THAT(outcome.error, HasSubstr(absl::StrCat("snapshot ", id.substr(0, 8), " in ",
                                                    Folder("shop/1"), " is damaged")));
}

TEST_F(GroupListingTest, WithoutARepositoryTheErrorNamesTheUsualFolders) {
  fs::create_directories(program_.Path("mover/c1"));
  for (const char* folder : {"mover", "nothing"}) {
    const Outcome outcome = List({}, folder);
    EXPECT_EQ(outcome.code, ExitCode::kNoRepository) << folder;
    EXPECT_THAT(outcome.error, HasSubstr("plugins/csi-delta"));
  }
  // Deeper than the mover puts them.
  fs::create_directories(program_.Path("deep/plugins/csi-delta/c1"));
  fs::copy(program_.Path("repo"), program_.Path("deep/plugins/csi-delta/c1/1"),
           fs::copy_options::recursive);
  EXPECT_EQ(List({}, "deep").code, ExitCode::kNoRepository);
  EXPECT_EQ(List({}, "deep/plugins/csi-delta").code, ExitCode::kOk);
}

// The same volumes in a bucket, below "b/plugins/csi-delta".
class BucketGroupsTest : public GroupListingTest {
 protected:
  BucketGroupsTest() {
    program_.variables["AWS_ACCESS_KEY_ID"] = "AKIDTEST";
    program_.variables["AWS_SECRET_ACCESS_KEY"] = "secret/key+of=test";
    AddVolume("shop/1");
    AddVolume("shop/2");
    Store("shop/1", "/shop/data", "g1");
    Store("shop/1", "/shop/data", "g2");
    Store("shop/2", "/shop/wal", "g1");
    const fs::path root = program_.Path("mover");
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      if (entry.is_regular_file()) {
        std::ifstream file(entry.path(), std::ios::binary);
        server_.SetObject(
            absl::StrCat("b/plugins/csi-delta/", fs::relative(entry.path(), root).string()),
            {std::istreambuf_iterator<char>(file), {}});
      }
    }
  }

  std::string Address() const {
    return absl::StrCat("s3:", server_.url(), "/bucket/b/plugins/csi-delta");
  }

  Outcome ListBucket() const {
    return program_.Run({"snapshots", "--group", "--json", "--repo", Address()});
  }

  support::FakeS3Server server_{{.page_objects_max = 1000}};
};

TEST_F(BucketGroupsTest, TheCostIsThatOfRepositoriesAndSnapshots) {
  for (int i = 0; i < 5000; ++i) {
    server_.SetObject(absl::StrCat("b/plugins/csi-delta/c1/shop/1/data/00/pack", i), "");
  }
  const Outcome outcome = ListBucket();
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(States(outcome), ElementsAre("shop/db g1 complete", "shop/db g2 incomplete"));
  EXPECT_EQ(GetString(outcome.Result()[0]["snapshots"][1], {"repository"}),
            absl::StrCat(Address(), "/c1/shop/2"));
  EXPECT_THAT(server_.refusals(), IsEmpty());
  // The place, c1 and shop; of each repository itself, config, keys, the key, snapshots; and each
  // snapshot.
  EXPECT_THAT(server_.requests(), SizeIs(3 + 2 * 5 + 3));
}

TEST_F(BucketGroupsTest, NothingIsWrittenAndNoLockIsWaitedFor) {
  server_.SetObject(absl::StrCat("b/plugins/csi-delta/c1/shop/1/locks/", std::string(64, 'a')),
                    "a lock");
  EXPECT_EQ(ListBucket().code, ExitCode::kOk);
  ASSERT_FALSE(server_.requests().empty());
  for (const support::ServedRequest& request : server_.requests()) {
    EXPECT_EQ(request.method, "GET") << request.target;
    EXPECT_THAT(request.target, Not(HasSubstr("locks")));
  }
}

}  // namespace
}  // namespace csidelta::cli::group_listing_test
