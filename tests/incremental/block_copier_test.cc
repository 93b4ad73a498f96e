#include "incremental/block_copier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "incremental/block_difference.h"
#include "incremental/extent_list_source.h"
#include "incremental/gated_block_device.h"
#include "incremental/restore_mark.h"
#include "tests/incremental/volume_fixture.h"
#include "tests/support/fake_block_device.h"
#include "tests/support/memory_growth.h"
#include "tests/support/sanitized.h"
#include "tests/support/status_matchers.h"
#include "tests/support/sweep_sample.h"

namespace csidelta::incremental::block_copier_test {
namespace {

using support::FakeBlockDevice;
using support::IsOk;
using support::IsOkAndHolds;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kBlock = kDifferenceBytes;
constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kVolumeBytes = 5 * kMiB + 999;

absl::StatusOr<CopyResult> Copy(FakeBlockDevice& source, BlockDevice& target,
                                const CopyOptions& options = {}, uint64_t seed = 1,
                                const CallContext& ctx = {}) {
  SeededRandom random(seed);
  return CopyBlocks(ctx, source, target, random, options);
}

// A volume of random bytes, and the same as it was before.
struct Pair {
  explicit Pair(int64_t size_bytes = kVolumeBytes, int64_t alignment_bytes = 512)
      : source(size_bytes, alignment_bytes), target(size_bytes, alignment_bytes) {
    const std::string bytes = RandomBytes(size_bytes, 7);
    source.Store(0, bytes);
    target.Store(0, bytes);
  }

  void Change(int64_t offset_bytes, int64_t length_bytes) {
    source.Store(offset_bytes, RandomBytes(length_bytes, static_cast<uint64_t>(offset_bytes) + 99));
  }
  bool equal() const { return target.Equals(source, source.info().size_bytes); }

  FakeBlockDevice source;
  FakeBlockDevice target;
};

TEST(BlockCopierTest, WithoutAListEverythingIsComparedAndOnlyDifferencesAreWritten) {
  Pair pair;
  pair.Change(kMiB + 100, 10);
  pair.Change(3 * kMiB - 5, 10);
  pair.Change(kVolumeBytes - 1, 1);
  const auto copied = Copy(pair.source, pair.target);
  ASSERT_THAT(copied, IsOk());
  EXPECT_TRUE(pair.equal());
  EXPECT_EQ(copied->compared_bytes, kVolumeBytes);
  EXPECT_EQ(copied->written_bytes, 3 * kBlock + 999);
  EXPECT_EQ(copied->kept_bytes, kVolumeBytes - 3 * kBlock - 999);
  EXPECT_EQ(copied->listed_bytes, 0);
  EXPECT_FALSE(copied->used_list);
  // The mark, and what was kept back of the beginning and of the end, which has one that differs.
  const MarkedTarget marked(pair.target, kVolumeBytes);
  EXPECT_EQ(
      pair.target.written_bytes(),
      copied->written_bytes - 999 + 2 * marked.head().length_bytes + marked.tail().length_bytes);
  EXPECT_EQ(pair.target.flushes(), 4);
  EXPECT_EQ(pair.source.written_bytes(), 0);
}

TEST(BlockCopierTest, ATargetThatDiffersNowhereIsNotWrittenTo) {
  Pair pair;
  const auto copied = Copy(pair.source, pair.target);
  ASSERT_THAT(copied, IsOk());
  EXPECT_EQ(pair.target.written_bytes(), 0);
  EXPECT_EQ(pair.target.flushes(), 0);
  EXPECT_EQ(copied->kept_bytes, kVolumeBytes);
}

TEST(BlockCopierTest, WithAListOnlyThatIsRead) {
  Pair pair(64 * kMiB);
  pair.Change(20 * kMiB, 3 * kBlock);
  const auto copied =
      Copy(pair.source, pair.target, {.listed = std::vector<Extent>{{20 * kMiB, kMiB}}});
  ASSERT_THAT(copied, IsOk());
  EXPECT_TRUE(pair.equal());
  EXPECT_TRUE(copied->used_list);
  EXPECT_FALSE(copied->audit_mismatch);
  EXPECT_EQ(copied->listed_bytes, kMiB);
  EXPECT_EQ(copied->compared_bytes, kMiB + kBlock);  // The beginning is always looked at.
  EXPECT_EQ(copied->written_bytes, 3 * kBlock);
  EXPECT_GT(copied->audit_bytes, 0);
  EXPECT_LT(pair.source.read_bytes(), 32 * kMiB);
}

TEST(BlockCopierTest, AnEmptyListIsBelievedAfterTheAudit) {
  Pair pair;
  const auto copied = Copy(pair.source, pair.target, {.listed = std::vector<Extent>{}});
  ASSERT_THAT(copied, IsOk());
  EXPECT_TRUE(copied->used_list);
  EXPECT_GT(copied->audit_bytes, 0);
  EXPECT_EQ(pair.target.written_bytes(), 0);
}

TEST(BlockCopierTest, AListThatOmitsWhatDiffersIsNotUsed) {
  Pair pair(16 * kMiB);
  for (int64_t at = 0; at < 16 * kMiB; at += kMiB / 4) {
    pair.Change(at + 8192, 1);  // In each unit of the audit.
  }
  const auto copied = Copy(pair.source, pair.target, {.listed = std::vector<Extent>{{kMiB, kMiB}}});
  ASSERT_THAT(copied, IsOk());
  EXPECT_TRUE(copied->audit_mismatch);
  EXPECT_FALSE(copied->used_list);
  EXPECT_EQ(copied->compared_bytes, 16 * kMiB);
  EXPECT_TRUE(pair.equal());
}

// The sample is drawn of all that is not listed, the last unit included.
TEST(BlockCopierTest, TheAuditReachesEveryUnit) {
  constexpr int64_t kUnit = kMiB / 4;
  constexpr int64_t kSize = 300 * kUnit + 5;  // Two leaves.
  for (const int64_t unit : {int64_t{1}, int64_t{255}, int64_t{256}, int64_t{300}}) {
    FakeBlockDevice source(kSize);
    source.Store(unit * kUnit, "x");
    int met = 0;
    for (uint64_t seed = 0; seed < 200 && met == 0; ++seed) {
      FakeBlockDevice target(kSize);
      const auto copied = Copy(source, target, {.listed = std::vector<Extent>{}}, seed);
      ASSERT_THAT(copied, IsOk());
      EXPECT_EQ(copied->audit_mismatch, target.Equals(source, kSize)) << seed;
      met += copied->audit_mismatch ? 1 : 0;
    }
    EXPECT_GT(met, 0) << unit;
  }
}

TEST(BlockCopierTest, ZerosAreMadeByTheDevice) {
  Pair pair;
  pair.source.Store(2 * kMiB, std::string(kMiB / 2, '\0'));
  pair.source.Store(4 * kMiB, std::string(kBlock, '\0'));  // Too short.
  const auto copied = Copy(pair.source, pair.target);
  ASSERT_THAT(copied, IsOk());
  EXPECT_TRUE(pair.equal());
  EXPECT_EQ(copied->zero_bytes, kMiB / 2);
  EXPECT_EQ(copied->written_bytes, kBlock);
}

TEST(BlockCopierTest, ALargerTargetKeepsWhatIsBehindTheSource) {
  FakeBlockDevice source(kVolumeBytes);
  FakeBlockDevice target(kVolumeBytes + 10'000, 512, 0xA5);
  ASSERT_THAT(Copy(source, target), IsOk());
  EXPECT_EQ(target.Load(0, kVolumeBytes), std::string(kVolumeBytes, '\0'));
  EXPECT_EQ(target.Load(kVolumeBytes, 10'000), std::string(10'000, '\xA5'));
}

TEST(BlockCopierTest, ASmallerTargetIsOutOfRangeAndStaysAsItIs) {
  FakeBlockDevice source(kVolumeBytes);
  FakeBlockDevice target(kVolumeBytes - 1, 512, 0xA5);
  EXPECT_THAT(Copy(source, target),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr(std::to_string(kVolumeBytes))));
  EXPECT_EQ(target.written_bytes(), 0);
}

TEST(BlockCopierTest, WhatTheTargetCannotReadIsWritten) {
  Pair pair;
  pair.target.BreakByte(2 * kMiB + 5);
  // The fake does not heal, so the write fails, too: it was tried.
  EXPECT_THAT(Copy(pair.source, pair.target),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("target: write at offset")));
}

TEST(BlockCopierTest, AFirstBlockThatDoesNotReadIsWrittenToo) {
  Pair pair;
  pair.target.BreakByte(5);
  EXPECT_THAT(Copy(pair.source, pair.target),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("write at offset 0")));
}

TEST(BlockCopierTest, ASourceThatCannotBeReadIsAnError) {
  Pair pair;
  pair.source.BreakByte(2 * kMiB + 5);
  EXPECT_THAT(Copy(pair.source, pair.target),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("source: read at offset")));
  EXPECT_EQ(pair.target.written_bytes(), 0);
}

TEST(BlockCopierTest, NothingIsReadAfterTheDeadline) {
  Pair pair;
  pair.Change(0, kVolumeBytes);
  const CallContext late{.deadline = -absl::InfiniteDuration(), .stop = {}};
  EXPECT_THAT(Copy(pair.source, pair.target, {}, 1, late),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(pair.target.written_bytes(), 0);
}

TEST(BlockCopierTest, ProgressEndsAtAllThatIsCompared) {
  Pair pair;
  std::vector<int64_t> done;
  ASSERT_THAT(Copy(pair.source, pair.target,
                   {.on_progress =
                        [&](const TransferProgress& progress) {
                          EXPECT_EQ(progress.total_bytes, kVolumeBytes);
                          done.push_back(progress.done_bytes);
                        }}),
              IsOk());
  EXPECT_THAT(done, ElementsAre(kMiB, 2 * kMiB, 3 * kMiB, 4 * kMiB, 5 * kMiB, kVolumeBytes));
}

// Refuses every write after the first `left`.
struct WritesLeft {
  absl::Status operator()() const {
    return --*left < 0 ? absl::UnavailableError("no more") : absl::OkStatus();
  }
  int* left;
};

// Wherever it ends, the target is as it was, or is marked, or is complete; the next run completes
// it, whatever its list says: that was made of another state.
TEST(BlockCopierTest, AnInterruptedCopySaysSoAndTheNextOneFinishesIt) {
  Pair pair;
  pair.Change(10, 1);
  pair.Change(2 * kMiB, kBlock);
  pair.source.Store(3 * kMiB, std::string(kMiB / 2, '\0'));
  pair.Change(4 * kMiB, kMiB);
  const FakeBlockDevice before(pair.target);
  for (int writes = 0;; ++writes) {
    FakeBlockDevice target(before);
    int left = writes;
    GatedBlockDevice gated(target, WritesLeft{&left});
    const auto copied = Copy(pair.source, gated, {.mark_text = "half"});
    if (copied.ok()) {
      // The mark and zeros at both ends, two that differ in between, and three parts kept back.
      EXPECT_EQ(writes, 7);
      EXPECT_TRUE(target.Equals(pair.source, kVolumeBytes));
      return;
    }
    const auto marked = HasRestoreMark({}, target);
    ASSERT_THAT(marked, IsOk());
    EXPECT_EQ(*marked, writes > 0);
    EXPECT_TRUE(*marked || target.Equals(before, kVolumeBytes));
    const auto again = Copy(pair.source, target, {.listed = std::vector<Extent>{}});
    ASSERT_THAT(again, IsOk());
    EXPECT_EQ(again->was_unfinished, *marked);
    if (*marked) {
      EXPECT_TRUE(target.Equals(pair.source, kVolumeBytes)) << writes;
      EXPECT_FALSE(again->used_list);
    }
  }
}

// A VolumeSnapshot of a volume that holds part of a copy.
TEST(BlockCopierTest, ASourceThatBeginsWithAMarkIsCopiedAsItIs) {
  Pair pair;
  pair.source.Store(0, kRestoreMark);
  ASSERT_THAT(Copy(pair.source, pair.target), IsOk());
  EXPECT_TRUE(pair.equal());
  ASSERT_THAT(Copy(pair.source, pair.target), IsOk());
  EXPECT_TRUE(pair.equal());
}

// Volumes about as long as the mark, as a block, as a piece.
TEST(BlockCopierTest, AnySizeIsCopied) {
  for (const int64_t size : {int64_t{0}, int64_t{1}, int64_t{4095}, int64_t{4096}, int64_t{4097},
                             kMiB - 1, kMiB, kMiB + 1, 9 * kMiB + 513}) {
    for (const bool has_list : {false, true}) {
      Pair pair(size);
      if (size > 0) {
        pair.Change(0, 1);
        pair.Change(size - 1, 1);
      }
      CopyOptions options;
      if (has_list) {
        options.listed = size == 0 ? std::vector<Extent>{} : std::vector<Extent>{{0, size}};
      }
      EXPECT_THAT(Copy(pair.source, pair.target, options), IsOk()) << size;
      EXPECT_TRUE(pair.equal()) << size;
    }
  }
}

// Random volumes, changes, and lists that are true: the target is the source, and no block was
// written that did not differ.
TEST(BlockCopierTest, HoweverTheyDifferTheTargetBecomesTheSource) {
  const support::SweepSample sample;
  std::mt19937_64 engine(sample.seed());
  const auto below = [&](int64_t bound) {
    return static_cast<int64_t>(engine() % static_cast<uint64_t>(bound));
  };
  for (int run = 0; run < (sample.is_everything() ? 2000 : 60); ++run) {
    SCOPED_TRACE(run);
    const int64_t size = 1 + below(6 * kMiB);
    Pair pair(size, below(2) == 0 ? 512 : 4096);
    std::vector<Extent> listed;
    for (int64_t change = below(12); change > 0; --change) {
      const int64_t at = below(size);
      const int64_t length = 1 + below(std::min<int64_t>(size - at, 200'000));
      if (below(4) == 0) {
        pair.source.Store(at, std::string(static_cast<std::size_t>(length), '\0'));
      } else {
        pair.Change(at, length);
      }
      listed.push_back({at / kBlock * kBlock, 0});
      listed.back().length_bytes =
          std::min(size, (at + length + kBlock - 1) / kBlock * kBlock) - listed.back().offset_bytes;
    }
    const int64_t differing =
        TotalBytes(DifferingRanges(pair.source.Load(0, size), pair.target.Load(0, size)));
    CopyOptions options;
    if (below(2) == 0) {
      options.listed = MergeExtents(listed);
    }
    const auto copied = Copy(pair.source, pair.target, options, engine());
    ASSERT_THAT(copied, IsOk());
    EXPECT_TRUE(pair.equal());
    EXPECT_EQ(copied->used_list, options.listed.has_value());
    EXPECT_EQ(copied->written_bytes + copied->zero_bytes, differing);
    EXPECT_EQ(copied->written_bytes + copied->zero_bytes + copied->kept_bytes, size);
  }
}

TEST(BlockCopierTest, MemoryDoesNotFollowTheVolume) {
  constexpr int64_t kSize = int64_t{4} << 30;
  FakeBlockDevice source(kSize);
  FakeBlockDevice target(kSize);
  source.Store(kSize / 2, "one byte");
  const support::MemoryGrowth growth;
  const auto copied = Copy(source, target);
  ASSERT_THAT(copied, IsOk());
  EXPECT_EQ(copied->written_bytes, kBlock);
  if (support::AssertsUnsanitized("memory of a copy")) {
    EXPECT_LT(growth.bytes(), 24 * kMiB);
  }
}

TEST(GatherListedTest, ExtentsAreRoundedJoinedAndClipped) {
  ExtentListSource source({.base = "base-snapshot",
                           .extents = {{.extent = {100, 1}},
                                       {.extent = {4096, 10}, .kind = ExtentKind::kZero},
                                       {.extent = {20'000, 100}, .kind = ExtentKind::kUnknown},
                                       {.extent = {50'000, 10'000}}}});
  const auto listed = GatherListed(
      {}, source, {.base = "base-snapshot", .target = "x", .size_bytes = 1 << 20}, 52'000);
  ASSERT_THAT(listed, IsOk());
  EXPECT_THAT(*listed, ElementsAre(Extent{0, 8192}, Extent{16'384, 4096}, Extent{49'152, 2848}));
}

TEST(GatherListedTest, AListThatContradictsTheVolumeIsAnError) {
  ExtentListSource source({.base = "base-snapshot", .extents = {{.extent = {0, 8192}}}});
  EXPECT_THAT(
      GatherListed({}, source, {.base = "base-snapshot", .target = "x", .size_bytes = 4096}, 4096),
      StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace csidelta::incremental::block_copier_test
