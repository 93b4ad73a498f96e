#include "tests/support/csi_driver/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/csi_driver/files.h"
#include "tests/support/fake_clock.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/status_matchers.h"

namespace csidelta::csi_driver::store_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;

VolumeSpec BlockSpec(const std::string& name, int64_t size_bytes = 4 * kMiB) {
  VolumeSpec spec;
  spec.name = name;
  spec.size.required_bytes = size_bytes;
  return spec;
}

void WriteAt(const std::string& path, int64_t offset_bytes, const std::string& text) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(offset_bytes);
  file << text;
}

std::string Bytes(const std::string& path) {
  absl::StatusOr<std::string> bytes = ReadFile(path);
  EXPECT_THAT(bytes, IsOk());
  return bytes.ok() ? *std::move(bytes) : "";
}

int64_t AllocatedBytes(const std::string& path) {
  struct stat stat_of_file;
  return stat(path.c_str(), &stat_of_file) == 0 ? stat_of_file.st_blocks * int64_t{512} : -1;
}

class StoreTest : public testing::Test {
 protected:
  void SetUp() override { Reopen(); }

  void Reopen() {
    absl::StatusOr<std::unique_ptr<Store>> store =
        Store::Open(folder_.path(), clock_, Random::Real());
    ASSERT_THAT(store, IsOk());
    store_ = *std::move(store);
  }
  std::string CreateVolume(const VolumeSpec& spec) {
    const absl::StatusOr<VolumeRecord> volume = store_->CreateVolume(spec);
    EXPECT_THAT(volume, IsOk());
    return volume.ok() ? volume->id : "";
  }
  std::string CreateSnapshot(const std::string& name, const std::string& volume_id) {
    const absl::StatusOr<SnapshotRecord> snapshot = store_->CreateSnapshot(name, volume_id);
    EXPECT_THAT(snapshot, IsOk());
    return snapshot.ok() ? snapshot->id : "";
  }

  const support::ScratchFolder folder_;
  support::FakeClock clock_;
  std::unique_ptr<Store> store_;
};

TEST_F(StoreTest, BlockVolumeIsASparseFileOfZeros) {
  const std::string path = store_->VolumePath(CreateVolume(BlockSpec("a", 64 * kMiB)));
  EXPECT_EQ(std::filesystem::file_size(path), static_cast<uintmax_t>(64 * kMiB));
  EXPECT_LT(AllocatedBytes(path), kMiB);
}

TEST_F(StoreTest, NewObjectOfAnOldNameHasAnotherId) {
  const std::string id = CreateVolume(BlockSpec("a"));
  EXPECT_THAT(store_->DeleteVolume(id), IsOk());
  EXPECT_NE(CreateVolume(BlockSpec("a")), id);
}

TEST_F(StoreTest, SnapshotHoldsTheBytesOfItsMoment) {
  const std::string volume_id = CreateVolume(BlockSpec("a", 64 * kMiB));
  const std::string volume = store_->VolumePath(volume_id);
  WriteAt(volume, 0, "first");
  WriteAt(volume, 40 * kMiB + 5, "second");
  const std::string before = Bytes(volume);
  const std::string snapshot = store_->SnapshotPath(CreateSnapshot("s", volume_id));
  WriteAt(volume, 0, "later");
  EXPECT_TRUE(Bytes(snapshot) == before);
  EXPECT_LT(AllocatedBytes(snapshot), kMiB);
}

TEST_F(StoreTest, SnapshotOutlivesItsVolume) {
  const std::string volume_id = CreateVolume(BlockSpec("a"));
  WriteAt(store_->VolumePath(volume_id), 7, "kept");
  const std::string snapshot_id = CreateSnapshot("s", volume_id);
  ASSERT_THAT(store_->DeleteVolume(volume_id), IsOk());
  EXPECT_EQ(Bytes(store_->SnapshotPath(snapshot_id)).substr(7, 4), "kept");
}

TEST_F(StoreTest, ALateCopyHasItsBytesWhenItEndsAndDiesWithItsSource) {
  const std::string source = CreateVolume(BlockSpec("source"));
  WriteAt(store_->VolumePath(source), 0, "data");
  const std::string zeros(4 * kMiB, '\0');
  for (const bool is_deleted : {false, true}) {
    VolumeSpec spec = BlockSpec(absl::StrCat("late ", is_deleted));
    spec.source.snapshot_id = CreateSnapshot(absl::StrCat("snapshot ", is_deleted), source);
    spec.is_copied_late = true;
    const std::string late = CreateVolume(spec);
    const absl::StatusOr<VolumeRecord> bound = store_->GetVolume(late);
    ASSERT_THAT(bound, IsOk());
    EXPECT_EQ(bound->copy, kCopying);
    EXPECT_TRUE(Bytes(store_->VolumePath(late)) == zeros) << "bound, and not filled";
    EXPECT_THAT(CheckCopied(*bound), StatusIs(absl::StatusCode::kFailedPrecondition,
                                              HasSubstr("has not finished copying data")));
    EXPECT_THAT(store_->CreateSnapshot("of a copy", late),
                StatusIs(absl::StatusCode::kFailedPrecondition));
    Reopen();
    EXPECT_EQ(store_->EndCopy(late, /*fails=*/true)->copy, kCopyFailed);
    if (is_deleted) {
      ASSERT_THAT(store_->DeleteSnapshot(spec.source.snapshot_id), IsOk()) << "not refused";
    }
    EXPECT_EQ(store_->EndCopy(late)->copy, is_deleted ? kCopyFailed : "");
    EXPECT_EQ(Bytes(store_->VolumePath(late)) == zeros, is_deleted);
  }
  EXPECT_THAT(store_->EndCopy(source), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(StoreTest, EverythingSurvivesARestart) {
  const std::string volume_id = CreateVolume(BlockSpec("a"));
  const std::string snapshot_id = CreateSnapshot("s", volume_id);
  Reopen();
  EXPECT_EQ(CreateVolume(BlockSpec("a")), volume_id);
  const absl::StatusOr<Page<SnapshotRecord>> page = store_->ListSnapshots({}, {});
  ASSERT_THAT(page, IsOk());
  ASSERT_EQ(page->records.size(), 1u);
  EXPECT_EQ(page->records[0].id, snapshot_id);
  EXPECT_EQ(page->records[0].volume_id, volume_id);
  EXPECT_EQ(page->records[0].size_bytes, 4 * kMiB);
  EXPECT_EQ(page->records[0].created_at, clock_.Now());
}

TEST_F(StoreTest, OpenSweepsWhatAKilledProcessLeft) {
  const std::string id = CreateVolume(BlockSpec("a"));
  for (const std::string& left : {store_->VolumePath("vol-0-0"), store_->SnapshotPath("snap-0-0"),
                                  folder_.path() + "/partial/x"}) {
    ASSERT_THAT(WriteFileDurably(left, "half"), IsOk());
  }
  Reopen();
  EXPECT_FALSE(std::filesystem::exists(store_->VolumePath("vol-0-0")));
  EXPECT_FALSE(std::filesystem::exists(store_->SnapshotPath("snap-0-0")));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path() + "/partial"));
  EXPECT_TRUE(std::filesystem::exists(store_->VolumePath(id)));
}

TEST_F(StoreTest, TwoStoresOnOneFolderAgree) {
  absl::StatusOr<std::unique_ptr<Store>> other =
      Store::Open(folder_.path(), clock_, Random::Real());
  ASSERT_THAT(other, IsOk());
  constexpr int kNames = 10;
  std::vector<std::string> ids[2];
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 2; ++i) {
      Store& store = i == 0 ? *store_ : **other;
      threads.emplace_back([&store, &mine = ids[i]] {
        for (int name = 0; name < kNames; ++name) {
          const absl::StatusOr<VolumeRecord> volume =
              store.CreateVolume(BlockSpec(std::to_string(name), kMiB));
          mine.push_back(volume.ok() ? volume->id : volume.status().ToString());
        }
      });
    }
  }
  EXPECT_EQ(ids[0], ids[1]);
  EXPECT_EQ(store_->ListVolumes({})->records.size(), static_cast<size_t>(kNames));
}

TEST_F(StoreTest, AVolumeIsFilledFromASnapshotOfLonghorn) {
  const std::string folder = folder_.path() + "/longhorn/pvc-1";
  std::filesystem::create_directories(folder);
  ASSERT_THAT(CreateSparse(folder + "/old", 2 * kMiB), IsOk());
  WriteAt(folder + "/old", 4096, "then");
  VolumeSpec spec = BlockSpec("restored", kMiB);
  spec.source.snapshot_id = "snap://pvc-1/old";
  const absl::StatusOr<VolumeRecord> volume = store_->CreateVolume(spec);
  ASSERT_THAT(volume, IsOk());
  EXPECT_EQ(volume->size_bytes, 2 * kMiB);
  EXPECT_EQ(Bytes(store_->VolumePath(volume->id)).substr(4096, 4), "then");
  for (const char* const missing : {"snap://pvc-1/gone", "snap://pvc-2/old", "snap://../lock"}) {
    spec.name = missing;
    spec.source.snapshot_id = missing;
    EXPECT_THAT(store_->CreateVolume(spec),
                StatusIs(absl::StatusCode::kInternal, HasSubstr("failed to verify data source")));
  }
}

TEST(StoreOpenTest, WantsAnAbsolutePath) {
  EXPECT_THAT(Store::Open("state", Clock::Real(), Random::Real()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("state")));
}

struct SizeCase {
  const char* name;
  SizeRange range;
  int64_t bytes_min;
  int64_t want;  // -1: OUT_OF_RANGE.
};
class ChooseSizeTest : public testing::TestWithParam<SizeCase> {};

TEST_P(ChooseSizeTest, PicksTheSmallestThatFits) {
  const absl::StatusOr<int64_t> size = ChooseSize(GetParam().range, GetParam().bytes_min);
  if (GetParam().want < 0) {
    EXPECT_THAT(size, StatusIs(absl::StatusCode::kOutOfRange));
  } else {
    EXPECT_THAT(size, support::IsOkAndHolds(GetParam().want));
  }
}

const SizeCase kSizeCases[] = {
    {"NothingAsked", {0, 0}, 0, kVolumeBytesDefault},
    {"LimitBelowTheDefault", {0, 8 * kMiB}, 0, 8 * kMiB},
    {"LimitAboveTheDefault", {0, 8 * kVolumeBytesDefault}, 0, kVolumeBytesDefault},
    {"RoundedUp", {4 * kMiB + 1, 0}, 0, 4 * kMiB + 4096},
    {"AtLeastTheMinimum", {1, 0}, 0, kMiB},
    {"SourceDecides", {0, 0}, 3 * kMiB, 3 * kMiB},
    {"LargerThanItsSource", {5 * kMiB, 0}, 3 * kMiB, 5 * kMiB},
    {"Largest", {kVolumeBytesMax, 0}, 0, kVolumeBytesMax},
    {"TooLarge", {kVolumeBytesMax + 1, 0}, 0, -1},
    {"Negative", {-1, 0}, 0, -1},
    {"NegativeLimit", {0, -1}, 0, -1},
    {"LimitBelowTheMinimum", {0, 4096}, 0, -1},
    {"LimitBelowWhatIsRequired", {4 * kMiB, 2 * kMiB}, 0, -1},
    {"RoundingPassesTheLimit", {4 * kMiB + 1, 4 * kMiB + 2}, 0, -1},
    {"LimitBelowTheSource", {0, 2 * kMiB}, 3 * kMiB, -1},
};
INSTANTIATE_TEST_SUITE_P(Table, ChooseSizeTest, testing::ValuesIn(kSizeCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace csidelta::csi_driver::store_test
