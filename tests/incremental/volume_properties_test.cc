// Random writes, growth, shrinking and discards over several generations, and volumes of all sizes:
// an increment is a full scan, and any generation restores, onto a target that was full of 0xA5.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/extent.h"
#include "incremental/mover/audit_plan.h"
#include "repository/volume_layout.h"
#include "tests/incremental/volume_fixture.h"

namespace csidelta::incremental::volume_properties_test {
namespace {

using repository::kLeafChunks;
using support::FakeBlockDevice;
using support::IsOk;

constexpr int64_t kChunk = VolumeFixture::kChunk;
constexpr int64_t kSizeMax = 300 * kChunk;  // A little more than one leaf.
constexpr int kGenerations = 5;

// A device that changes at random, and says what changed.
class ChangingVolume {
 public:
  ChangingVolume(uint64_t seed, int64_t alignment_bytes)
      : random_(seed), device(1 + Below(kSizeMax), alignment_bytes) {}

  // What an honest source lists of this generation's changes, some of it more than needed.
  std::vector<ListedExtent> Change() {
    std::vector<Extent> data;
    std::vector<Extent> zero;
    if (random_() % 3 == 0) {
      device.Resize(1 + Below(kSizeMax));
    }
    const int64_t size = device.info().size_bytes;
    for (int64_t i = Below(12); i > 0; --i) {
      const int64_t at = Below(size);
      const int64_t length = std::min(size - at, 1 + Below(random_() % 4 == 0 ? 6 * kChunk : 5000));
      if (random_() % 4 == 0) {
        device.Store(at, std::string(static_cast<std::size_t>(length), '\0'));
        zero.push_back({at, length});
      } else {
        device.Store(at, RandomBytes(length, random_()));
        data.push_back({at, length});
      }
    }
    return Listing(std::move(data), std::move(zero));
  }

 private:
  std::vector<ListedExtent> Listing(std::vector<Extent> data, std::vector<Extent> zero) {
    data = MergeExtents(std::move(data));
    std::vector<ListedExtent> list;
    for (const Extent& extent : data) {
      list.push_back({.extent = extent,
                      .kind = random_() % 2 == 0 ? ExtentKind::kData : ExtentKind::kUnknown});
    }
    // What was written and then discarded is still listed as data; only zeros beside it are zeros.
    for (const Extent& extent : SubtractExtents(MergeExtents(std::move(zero)), data)) {
      list.push_back({.extent = extent, .kind = ExtentKind::kZero});
    }
    std::sort(list.begin(), list.end(), [](const ListedExtent& left, const ListedExtent& right) {
      return left.extent.offset_bytes < right.extent.offset_bytes;
    });
    return list;
  }

  int64_t Below(int64_t bound) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(bound));
  }

  std::mt19937_64 random_;

 public:
  FakeBlockDevice device;
};

class VolumePropertiesTest : public testing::TestWithParam<uint64_t> {};

TEST_P(VolumePropertiesTest, AnIncrementIsAFullScanAndEveryGenerationRestores) {
  const int64_t alignment = GetParam() % 2 == 0 ? 512 : 4096;
  VolumeFixture volume(GetParam());
  ChangingVolume changing(GetParam(), alignment);
  changing.Change();
  auto last = volume.FullBackup(changing.device);
  ASSERT_THAT(last, IsOk());
  struct Generation {
    repository::Id snapshot;
    FakeBlockDevice image;
  };
  std::vector<Generation> generations;
  generations.push_back({last->snapshot, changing.device});
  for (int i = 1; i < kGenerations; ++i) {
    SCOPED_TRACE(testing::Message() << "seed " << GetParam() << " generation " << i);
    const std::vector<ListedExtent> extents = changing.Change();
    volume.Reopen();
    const auto next = volume.IncrementalBackup(changing.device, last->snapshot, extents);
    ASSERT_THAT(next, IsOk());
    EXPECT_FALSE(next->audit_mismatch);
    EXPECT_EQ(next->mode_done, "incremental") << Why(*next);
    VolumeFixture apart;
    const auto full = apart.FullBackup(changing.device);
    ASSERT_THAT(full, IsOk());
    EXPECT_EQ(next->image_tree, full->image_tree);
    EXPECT_EQ(next->allocated_bytes, full->allocated_bytes);
    generations.push_back({next->snapshot, changing.device});
    last = next;
  }
  for (const Generation& generation : generations) {
    volume.ExpectRestores(generation.snapshot, generation.image, alignment);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, VolumePropertiesTest, testing::Range<uint64_t>(1, 7));

// --- Sizes: a full, an increment, and both come back ---

class VolumeSizeTest : public testing::TestWithParam<int64_t> {};

TEST_P(VolumeSizeTest, ComesBackByteForByte) {
  const int64_t size = GetParam();
  for (const int64_t alignment : {512, 4096}) {
    VolumeFixture volume;
    FakeBlockDevice device(size, alignment);
    device.Store(0, RandomBytes(std::min<int64_t>(size, 5000), 1));
    device.Store(size - 1, "x");
    const auto full = volume.FullBackup(device);
    ASSERT_THAT(full, IsOk());
    EXPECT_EQ(full->mode_done, "full");
    EXPECT_EQ(full->read_bytes, size);
    const FakeBlockDevice before = device;
    device.Store(size - 1, "y");
    const auto increment =
        volume.IncrementalBackup(device, full->snapshot, {{.extent = {size - 1, 1}}});
    ASSERT_THAT(increment, IsOk());
    EXPECT_EQ(increment->mode_done, "incremental");
    EXPECT_EQ(increment->read_bytes, (size - 1) % kChunk + 1);
    volume.ExpectRestores(full->snapshot, before, alignment);
    volume.ExpectRestores(increment->snapshot, device, alignment);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, VolumeSizeTest,
                         testing::Values(1, 511, 512, kChunk - 1, kChunk, kChunk + 1,
                                         kLeafChunks* kChunk - 1, kLeafChunks* kChunk,
                                         kLeafChunks* kChunk + 1));

// --- Huge sparse volumes, with the chunk size that their size asks for ---

constexpr int64_t kTiB = int64_t{1} << 40;

struct HugeCase {
  const char* name;
  int64_t size_bytes;
  int64_t chunk_bytes;
};

// Hands out what is nowhere near in size what it stands for.
class HugeVolumeTest : public testing::TestWithParam<HugeCase> {
 protected:
  static UploadOptions Options() {
    UploadOptions options = VolumeFixture::Options();
    options.chunk_bytes = 0;
    options.audit_one_in = kAuditOneIn << 20;
    options.audit_first_chunks = 0;
    return options;
  }

  // Some bytes at each place, with the list that says so.
  static std::vector<ListedExtent> Write(FakeBlockDevice& device,
                                         const std::vector<int64_t>& places, uint64_t seed) {
    std::vector<ListedExtent> list;
    for (const int64_t at : places) {
      device.Store(at, RandomBytes(kPieceBytes, seed + static_cast<uint64_t>(at)));
      list.push_back({.extent = {at, kPieceBytes}});
    }
    return list;
  }

  // Compares what was ever written on either, and some of what was not.
  static void ExpectSame(const FakeBlockDevice& restored, const FakeBlockDevice& want) {
    std::vector<Extent> touched = restored.WrittenExtents();
    for (const Extent& extent : want.WrittenExtents()) {
      touched.push_back(extent);
    }
    for (const Extent& extent : MergeExtents(std::move(touched))) {
      EXPECT_TRUE(restored.Load(extent.offset_bytes, extent.length_bytes) ==
                  want.Load(extent.offset_bytes, extent.length_bytes))
          << extent.offset_bytes;
    }
    const int64_t size = want.info().size_bytes;
    for (int64_t at = 0; at + kPieceBytes <= size; at += size / 1000) {
      EXPECT_EQ(restored.Load(at, kPieceBytes), want.Load(at, kPieceBytes)) << at;
    }
  }

  static void ExpectRestores(VolumeFixture& volume, const repository::Id& id,
                             const FakeBlockDevice& want) {
    FakeBlockDevice target(want.info().size_bytes, 4096, 0xA5);
    ASSERT_THAT(volume.Restore(id, target).status(), IsOk());
    ExpectSame(target, want);
  }

  static constexpr int64_t kPieceBytes = 1000;
};

TEST_P(HugeVolumeTest, BackupIncrementGrowthAndRestore) {
  const int64_t size = GetParam().size_bytes;
  const int64_t chunk = GetParam().chunk_bytes;
  VolumeFixture volume;
  FakeBlockDevice device(size);
  ExtentListSource first = AllocatedList(Write(device, {0, size / 2 - 500, size - kPieceBytes}, 1));
  const auto full = volume.Backup(device, first, Options());
  ASSERT_THAT(full, IsOk());
  EXPECT_EQ(full->chunk_bytes, chunk);
  EXPECT_LE(full->allocated_bytes, 5 * chunk);
  const FakeBlockDevice before = device;

  // Beyond 4 TiB the chunk size stays the chain's.
  const int64_t grown = size + kTiB / 2 + 512;
  device.Resize(grown);
  std::vector<ListedExtent> list = Write(device, {size / 3, size - 700}, 2);
  list.push_back(
      {.extent = {size + 300, grown - size - 300 - kPieceBytes}, .kind = ExtentKind::kZero});
  list.push_back(Write(device, {grown - kPieceBytes}, 3)[0]);
  ExtentListSource second({.base = full->snapshot.Hex(), .extents = list});
  UploadOptions options = Options();
  options.parent = volume.Stored(full->snapshot);
  const auto increment = volume.Backup(device, second, options);
  ASSERT_THAT(increment, IsOk());
  EXPECT_EQ(increment->mode_done, "incremental") << Why(*increment);
  EXPECT_EQ(increment->chunk_bytes, chunk);
  EXPECT_LE(increment->read_bytes, 5 * chunk);
  ExpectRestores(volume, full->snapshot, before);
  ExpectRestores(volume, increment->snapshot, device);
}

INSTANTIATE_TEST_SUITE_P(Sizes, HugeVolumeTest,
                         testing::Values(HugeCase{"Below4TiB", 4 * kTiB - 4096, 512 << 10},
                                         HugeCase{"At4TiB", 4 * kTiB, 512 << 10},
                                         HugeCase{"Above4TiB", 4 * kTiB + 512, 1 << 20},
                                         HugeCase{"Across16TiB", 16 * kTiB - 512, 1 << 20},
                                         HugeCase{"Across64TiB", 64 * kTiB - 4096, 1 << 20}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace csidelta::incremental::volume_properties_test
