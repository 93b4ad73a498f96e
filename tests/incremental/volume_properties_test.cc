// Random writes, growth, shrinking and discards over several generations: an increment is a full
// scan, and any generation restores.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/extent.h"
#include "tests/incremental/volume_fixture.h"

namespace csidelta::incremental {
namespace {

using support::FakeBlockDevice;
using support::IsOk;

constexpr int64_t kChunk = VolumeFixture::kChunk;
constexpr int64_t kSizeMax = 300 * kChunk;  // A little more than one leaf.
constexpr int kGenerations = 5;

// A device that changes at random, and says what changed.
class ChangingVolume {
 public:
  explicit ChangingVolume(uint64_t seed) : random_(seed), device(1 + Below(kSizeMax)) {}

  // What an honest source lists of this generation's changes, some of it more than needed.
  std::vector<ListedExtent> Change() {
    std::vector<Extent> data;
    std::vector<Extent> zero;
    if (random_() % 3 == 0) {
      device.Resize(1 + Below(kSizeMax));
    }
    const int64_t size = device.facts().size_bytes;
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
  VolumeFixture volume(GetParam());
  ChangingVolume changing(GetParam());
  changing.Change();
  auto last = volume.FullBackup(changing.device);
  ASSERT_THAT(last, IsOk());
  struct Generation {
    repository::Id snapshot;
    std::string image;
  };
  std::vector<Generation> generations;
  const auto remember = [&](const repository::Id& snapshot) {
    generations.push_back({snapshot, changing.device.Load(0, changing.device.facts().size_bytes)});
  };
  remember(last->snapshot);
  for (int i = 1; i < kGenerations; ++i) {
    const std::vector<ListedExtent> extents = changing.Change();
    volume.Reopen();
    const auto next = volume.IncrementalBackup(changing.device, last->snapshot, extents);
    ASSERT_THAT(next, IsOk()) << "seed " << GetParam() << " generation " << i;
    EXPECT_FALSE(next->audit_mismatch) << "seed " << GetParam() << " generation " << i;
    EXPECT_EQ(next->mode_done, "incremental") << next->reason;
    FakeBlockDevice& device = changing.device;
    VolumeFixture apart;
    const auto full = apart.FullBackup(device);
    ASSERT_THAT(full, IsOk());
    EXPECT_EQ(next->image_tree, full->image_tree) << "seed " << GetParam() << " generation " << i;
    remember(next->snapshot);
    last = next;
  }
  for (const Generation& generation : generations) {
    volume.ExpectRestores(generation.snapshot, generation.image);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, VolumePropertiesTest, testing::Range<uint64_t>(1, 7));

}  // namespace
}  // namespace csidelta::incremental
