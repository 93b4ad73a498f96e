// The driver's lists beside a comparison of the whole files, byte by byte.

#include "tests/support/csi_driver/change_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/support/csi_driver/files.h"
#include "tests/support/fake_clock.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/status_matchers.h"

namespace csidelta::csi_driver::change_list_test {
namespace {

using support::IsOk;
using support::StatusIs;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kVolumeBytes = 9 * kMiB + 4096;  // The last block of 4 MiB is not whole.

class ChangeListTest : public testing::Test {
 protected:
  void SetUp() override {
    store_ = *Store::Open(folder_.path() + "/state", clock_, Random::Real());
    volume_id_ = CreateVolume("v", {});
  }

  std::string CreateVolume(const std::string& name, const ContentSource& source) {
    return store_
        ->CreateVolume({.name = name,
                        .size = {.required_bytes = kVolumeBytes, .limit_bytes = 0},
                        .mode = VolumeMode::kBlock,
                        .source = source})
        ->id;
  }

  std::string Snapshot(const std::string& name) {
    return store_->CreateSnapshot(name, volume_id_)->id;
  }

  void Write(int64_t offset_bytes, const std::string& bytes) {
    std::fstream file(store_->VolumePath(volume_id_),
                      std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(offset_bytes);
    file << bytes;
    ASSERT_TRUE(file.flush().good());
  }

  // Runs of one byte, zero included, all over the volume.
  void Scribble(std::mt19937_64& chance) {
    for (int i = 0; i < 40; ++i) {
      const int64_t length = static_cast<int64_t>(1 + chance() % (chance() % 8 == 0 ? kMiB : 3000));
      const int64_t offset = static_cast<int64_t>(chance() % (kVolumeBytes - length));
      Write(offset, std::string(static_cast<size_t>(length), static_cast<char>(chance() % 3)));
    }
  }

  absl::StatusOr<std::vector<Extent>> List(const ChangeQuery& query, const BlockOptions& options) {
    absl::StatusOr<std::unique_ptr<ChangeList>> list = ChangeList::Open(*store_, query, options);
    if (!list.ok()) {
      return list.status();
    }
    std::vector<Extent> extents;
    while (true) {
      const absl::StatusOr<std::optional<ListedExtent>> next = (*list)->Next();
      if (!next.ok() || !next->has_value()) {
        return next.ok() ? absl::StatusOr<std::vector<Extent>>(extents) : next.status();
      }
      extents.push_back((*next)->extent);
    }
  }

  // The blocks in which two files differ, by reading all of both.
  static std::vector<Extent> Compare(const std::string& path, const std::string& base_path,
                                     int64_t block_bytes) {
    const std::string target = *ReadFile(path);
    std::string base = base_path.empty() ? "" : *ReadFile(base_path);
    base.resize(target.size(), '\0');
    std::vector<Extent> differing;
    for (size_t at = 0; at < target.size(); at += static_cast<size_t>(block_bytes)) {
      const size_t length = static_cast<size_t>(block_bytes);
      if (target.compare(at, length, base, at, length) != 0) {
        differing.push_back({static_cast<int64_t>(at), block_bytes});
      }
    }
    return differing;
  }

  // The same, as the driver says it with variable lengths.
  static std::vector<Extent> Join(const std::vector<Extent>& blocks) {
    std::vector<Extent> joined;
    for (const Extent& extent : MergeExtents(blocks)) {
      joined.push_back(*ClipExtent(extent, kVolumeBytes));
    }
    return joined;
  }

  const support::ScratchFolder folder_;
  std::string volume_id_;
  support::FakeClock clock_;
  std::unique_ptr<Store> store_;
};

TEST_F(ChangeListTest, IsAnExactComparison) {
  std::mt19937_64 chance(1);
  Scribble(chance);
  const std::string base = Snapshot("base");
  Scribble(chance);
  const std::string target = Snapshot("target");
  for (const int64_t block_bytes :
       {int64_t{512}, int64_t{1536}, int64_t{4096}, 64 * int64_t{1024}, 4 * kMiB}) {
    const std::vector<Extent> changed =
        Compare(store_->SnapshotPath(target), store_->SnapshotPath(base), block_bytes);
    const std::vector<Extent> allocated = Compare(store_->SnapshotPath(target), "", block_bytes);
    ASSERT_FALSE(changed.empty());
    for (const bool fixed : {true, false}) {
      const BlockOptions options{.bytes = block_bytes, .fixed = fixed};
      const ChangeQuery delta{.target_id = target, .base_id = base, .starting_offset_bytes = 0};
      EXPECT_EQ(*List(delta, options), fixed ? changed : Join(changed)) << block_bytes;
      const ChangeQuery all{.target_id = target, .base_id = {}, .starting_offset_bytes = 0};
      EXPECT_EQ(*List(all, options), fixed ? allocated : Join(allocated)) << block_bytes;
    }
  }
}

TEST_F(ChangeListTest, BeginsWithWhatEndsBehindTheStartingOffset) {
  std::mt19937_64 chance(2);
  Scribble(chance);
  const std::string target = Snapshot("target");
  for (const bool fixed : {true, false}) {
    const BlockOptions options{.bytes = 4096, .fixed = fixed};
    const std::vector<Extent> whole = *List({.target_id = target, .base_id = {}}, options);
    for (int i = 0; i < 50; ++i) {
      const int64_t start = static_cast<int64_t>(chance() % (kVolumeBytes + 1));
      const std::vector<Extent> rest =
          *List({.target_id = target, .base_id = {}, .starting_offset_bytes = start}, options);
      std::vector<Extent> want;
      for (const Extent& extent : whole) {
        if (extent.end_bytes() > start) {
          const int64_t begin = std::max(extent.offset_bytes, start - start % 4096);
          want.push_back({begin, extent.end_bytes() - begin});
        }
      }
      ASSERT_EQ(rest, want) << start;
    }
  }
}

TEST_F(ChangeListTest, TellsWhatBecameZero) {
  Write(0, std::string(8192, 'x'));
  const std::string base = Snapshot("base");
  Write(4096, std::string(4096, '\0'));
  Write(8192, "y");
  const std::string target = Snapshot("target");
  const BlockOptions options{.bytes = 4096, .fixed = false, .mark_zero = true};
  const auto list = *ChangeList::Open(*store_, {.target_id = target, .base_id = base}, options);
  std::optional<ListedExtent> next = *list->Next();
  EXPECT_EQ(next->extent, (Extent{4096, 4096}));
  EXPECT_TRUE(next->zero);
  next = *list->Next();
  EXPECT_EQ(next->extent, (Extent{8192, 4096}));
  EXPECT_FALSE(next->zero);
  EXPECT_FALSE(list->Next()->has_value());
}

TEST_F(ChangeListTest, TheGrowthOfAVolumeDiffers) {
  const std::string base = Snapshot("base");
  const int64_t grown_bytes = kVolumeBytes + 2 * kMiB;
  ASSERT_THAT(store_->ExpandVolume(volume_id_, {.required_bytes = grown_bytes, .limit_bytes = 0}),
              IsOk());
  const std::string target = Snapshot("target");
  const BlockOptions options{.bytes = 4096, .fixed = false};
  EXPECT_EQ(*List({.target_id = target, .base_id = base}, options),
            (std::vector<Extent>{{kVolumeBytes, 2 * kMiB}}));
}

TEST_F(ChangeListTest, LargeVolumesAreReadWhereTheirDataIs) {
  volume_id_ = store_
                   ->CreateVolume({.name = "large",
                                   .size = {.required_bytes = kVolumeBytesMax, .limit_bytes = 0},
                                   .mode = VolumeMode::kBlock,
                                   .source = {}})
                   ->id;
  const std::string base = Snapshot("base");
  Write(kVolumeBytesMax - 1, "x");
  const std::string target = Snapshot("target");
  EXPECT_EQ(*List({.target_id = target, .base_id = base}, {}),
            (std::vector<Extent>{{kVolumeBytesMax - 4096, 4096}}));
}

TEST_F(ChangeListTest, DeletedBasesAreGoneUnlessTheirDataIsKept) {
  const std::string lost = Snapshot("lost");
  const std::string kept = Snapshot("kept");
  Write(0, "x");
  const std::string target = Snapshot("target");
  ASSERT_THAT(store_->DeleteSnapshot(lost), IsOk());
  ASSERT_THAT(store_->DeleteSnapshot(kept, true), IsOk());
  EXPECT_THAT(List({.target_id = target, .base_id = lost}, {}),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(*List({.target_id = target, .base_id = kept}, {}), (std::vector<Extent>{{0, 4096}}));
  EXPECT_THAT(List({.target_id = kept, .base_id = {}}, {}), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(store_->ListSnapshots({}, {})->records.size(), 1u);
  store_ = *Store::Open(folder_.path() + "/state", clock_, Random::Real());
  EXPECT_THAT(List({.target_id = target, .base_id = kept}, {}), IsOk());
}

TEST_F(ChangeListTest, InheritedDataCanBeLeftOut) {
  Write(0, "inherited");
  const std::string source = Snapshot("source");
  volume_id_ = CreateVolume("clone", {.snapshot_id = source, .volume_id = ""});
  Write(kMiB, "own");
  const std::string target = Snapshot("target");
  BlockOptions options;
  EXPECT_EQ(*List({.target_id = target, .base_id = {}}, options),
            (std::vector<Extent>{{0, 4096}, {kMiB, 4096}}));
  options.own_only = true;
  EXPECT_EQ(*List({.target_id = target, .base_id = {}}, options),
            (std::vector<Extent>{{kMiB, 4096}}));
}

TEST_F(ChangeListTest, RefusesWhatItCannotAnswer) {
  const std::string base = Snapshot("base");
  const std::string target = Snapshot("target");
  volume_id_ = CreateVolume("other", {});
  const std::string stranger = Snapshot("stranger");
  const struct {
    ChangeQuery query;
    absl::StatusCode code;
  } kCases[] = {
      {{.target_id = "", .base_id = {}}, absl::StatusCode::kInvalidArgument},
      {{.target_id = target, .base_id = ""}, absl::StatusCode::kInvalidArgument},
      {{.target_id = target, .base_id = stranger}, absl::StatusCode::kInvalidArgument},
      {{.target_id = "snap-none", .base_id = {}}, absl::StatusCode::kNotFound},
      {{.target_id = target, .base_id = "../lock"}, absl::StatusCode::kNotFound},
      {{.target_id = target, .base_id = base, .starting_offset_bytes = -1},
       absl::StatusCode::kOutOfRange},
      {{.target_id = target, .base_id = base, .starting_offset_bytes = kVolumeBytes + 1},
       absl::StatusCode::kOutOfRange},
  };
  for (const auto& [query, code] : kCases) {
    EXPECT_THAT(List(query, {}), StatusIs(code)) << query.target_id;
  }
  const ChangeQuery at_end{
      .target_id = target, .base_id = base, .starting_offset_bytes = kVolumeBytes};
  EXPECT_TRUE(List(at_end, {})->empty());
}

}  // namespace
}  // namespace csidelta::csi_driver::change_list_test
