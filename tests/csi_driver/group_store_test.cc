// Groups of volume snapshots in the driver's folder: whole or nothing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/csi_driver/files.h"
#include "tests/support/csi_driver/freeze.h"
#include "tests/support/csi_driver/store.h"
#include "tests/support/fake_clock.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/status_matchers.h"

namespace csidelta::csi_driver::group_store_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;

class GroupStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    Reopen();
    for (const char* name : {"a", "b"}) {
      VolumeSpec spec;
      spec.name = name;
      spec.size.required_bytes = kVolumeBytesMin;
      volume_ids_.push_back(store_->CreateVolume(spec)->id);
    }
  }

  void Reopen() {
    absl::StatusOr<std::unique_ptr<Store>> store =
        Store::Open(folder_.path(), clock_, Random::Real());
    ASSERT_THAT(store, IsOk());
    store_ = *std::move(store);
  }
  Group MakeGroup() {
    const absl::StatusOr<Group> group = store_->CreateGroup("g", volume_ids_);
    EXPECT_THAT(group, IsOk());
    return group.ok() ? *group : Group();
  }
  static std::vector<std::string> Ids(const Group& group) {
    std::vector<std::string> ids;
    for (const GroupMember& member : group.record.members) {
      ids.push_back(member.snapshot_id);
    }
    return ids;
  }
  std::string RecordOf(const Group& group) const {
    return folder_.path() + "/records/groups/" + group.record.id + ".json";
  }
  // What is there of volume snapshots: in lists, as records, and as bytes.
  std::vector<size_t> SnapshotCounts() const {
    const absl::StatusOr<Page<SnapshotRecord>> page = store_->ListSnapshots({}, {});
    return {page.ok() ? page->records.size() : 99,
            ListFolder(folder_.path() + "/records/snapshots")->size(),
            ListFolder(folder_.path() + "/snapshots")->size()};
  }

  const support::ScratchFolder folder_;
  support::FakeClock clock_;
  std::unique_ptr<Store> store_;
  std::vector<std::string> volume_ids_;
};

TEST_F(GroupStoreTest, VolumesMustExistAndBeNamedOnce) {
  EXPECT_THAT(store_->CreateGroup("g", {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("group g")));
  EXPECT_THAT(store_->CreateGroup("g", {volume_ids_[0], volume_ids_[0]}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("twice")));
  EXPECT_THAT(store_->CreateGroup("g", {volume_ids_[0], "vol-0-0"}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("vol-0-0")));
  EXPECT_EQ(SnapshotCounts(), (std::vector<size_t>{0, 0, 0}));
}

TEST_F(GroupStoreTest, FailedCopyLeavesNothing) {
  ASSERT_THAT(RemoveFile(store_->VolumePath(volume_ids_[1])), IsOk());
  EXPECT_FALSE(store_->CreateGroup("g", volume_ids_).ok());
  EXPECT_EQ(SnapshotCounts(), (std::vector<size_t>{0, 0, 0}));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path() + "/partial"));
  EXPECT_TRUE(store_->ListGroups()->empty());
}

TEST_F(GroupStoreTest, GroupSurvivesARestart) {
  const Group group = MakeGroup();
  Reopen();
  const absl::StatusOr<Group> got = store_->GetGroup(group.record.id, Ids(group));
  ASSERT_THAT(got, IsOk());
  EXPECT_EQ(got->record.name, "g");
  EXPECT_EQ(got->record.created_at, clock_.Now());
  EXPECT_EQ(got->record.frozen, std::nullopt);
  ASSERT_EQ(got->snapshots.size(), 2u);
  EXPECT_EQ(got->snapshots[0].group_id, group.record.id);
  EXPECT_EQ(SnapshotCounts(), (std::vector<size_t>{2, 2, 2}));
}

// As a process leaves it that is killed before it wrote the group's record, or after it removed it.
TEST_F(GroupStoreTest, MembersWithoutTheirGroupAreNotThere) {
  const Group group = MakeGroup();
  ASSERT_THAT(RemoveFile(RecordOf(group)), IsOk());
  EXPECT_EQ(SnapshotCounts(), (std::vector<size_t>{0, 2, 2}));
  EXPECT_THAT(store_->GetSnapshot(Ids(group)[0]), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(store_->ChangeDataOf(Ids(group)[0]), StatusIs(absl::StatusCode::kNotFound));
  Reopen();
  EXPECT_EQ(SnapshotCounts(), (std::vector<size_t>{0, 0, 0}));
}

TEST_F(GroupStoreTest, NewGroupOfAnOldNameHasOtherIds) {
  const Group old = MakeGroup();
  ASSERT_THAT(store_->DeleteGroup(old.record.id, Ids(old)), IsOk());
  const Group young = MakeGroup();
  EXPECT_NE(young.record.id, old.record.id);
  EXPECT_NE(Ids(young), Ids(old));
}

TEST_F(GroupStoreTest, MemberThatIsGoneMayBeNamedOrNot) {
  const Group group = MakeGroup();
  ASSERT_THAT(store_->DeleteSnapshot(Ids(group)[0]), IsOk());
  const absl::StatusOr<Group> got = store_->GetGroup(group.record.id, {Ids(group)[1]});
  ASSERT_THAT(got, IsOk());
  EXPECT_EQ(got->snapshots.size(), 1u);
  EXPECT_THAT(store_->DeleteGroup(group.record.id, Ids(group)), IsOk());
  EXPECT_EQ(SnapshotCounts(), (std::vector<size_t>{0, 0, 0}));
}

TEST_F(GroupStoreTest, ChangeDataOfADeletedGroupIsKeptOnRequest) {
  const Group group = MakeGroup();
  ASSERT_THAT(store_->DeleteGroup(group.record.id, Ids(group), /*keep_change_data=*/true), IsOk());
  ASSERT_FALSE(Ids(group).empty());
  for (const std::string& id : Ids(group)) {
    EXPECT_THAT(store_->ChangeDataOf(id), IsOk());
  }
  EXPECT_EQ(SnapshotCounts(), (std::vector<size_t>{0, 0, 0}));
}

TEST_F(GroupStoreTest, VolumesOfTheirOwnWantAFileSystemOfTheirOwn) {
  EXPECT_THAT(Store::Open(folder_.path(), clock_, Random::Real(), folder_.path() + "/elsewhere"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("file system of its own")));
  EXPECT_THAT(CheckOwnFilesystem("/", folder_.path()),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace csidelta::csi_driver::group_store_test
