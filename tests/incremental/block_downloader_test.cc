#include "incremental/mover/block_downloader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "incremental/mover/gated_block_device.h"
#include "incremental/mover/restore_mark.h"
#include "tests/incremental/volume_fixture.h"
#include "tests/support/sweep_sample.h"

namespace csidelta::incremental::block_downloader_test {
namespace {

using support::FakeBlockDevice;
using support::IsOk;
using support::IsOkAndHolds;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kChunk = VolumeFixture::kChunk;
constexpr int64_t kBlock = kDifferenceBytes;
constexpr int64_t kSize = 40 * kChunk + 999;

struct BackedUp {
  BackedUp() : device(kSize) {
    device.Store(3 * kChunk, RandomBytes(2 * kChunk, 1));
    device.Store(20 * kChunk, RandomBytes(kChunk, 2));
    device.Store(30 * kChunk, device.Load(20 * kChunk, kChunk));  // One blob in two places.
    device.Store(kSize - 10, "the tail");
    backup = volume.FullBackup(device);
    EXPECT_THAT(backup, IsOk());
    image = device.Load(0, kSize);
  }

  // The pack of the data, which is the largest of these objects.
  void Spoil(const std::map<std::string, std::string>& objects) {
    for (const auto& [key, bytes] : objects) {
      if (key.rfind("data/", 0) == 0 && bytes.size() > 2 * kChunk) {
        std::string spoiled = bytes;
        spoiled[kChunk / 2] =
            static_cast<char>(spoiled[kChunk / 2] ^ 1);  // In a chunk, wherever it begins.
        volume.store().SetObject(key, spoiled);
      }
    }
  }

  VolumeFixture volume;
  FakeBlockDevice device;
  absl::StatusOr<BackupResult> backup = absl::UnknownError("not yet");
  std::string image;
};

TEST(BlockDownloaderTest, CountsWhatItWritesAndWhatItMakesZero) {
  BackedUp v;
  FakeBlockDevice target(kSize, 4096, 0xA5);
  const auto restored = v.volume.Restore(v.backup->snapshot, target);
  ASSERT_THAT(restored, IsOk());
  EXPECT_EQ(restored->written_bytes, 4 * kChunk + 999);
  EXPECT_EQ(restored->zero_bytes, 36 * kChunk);
  EXPECT_EQ(restored->damaged_copies, 0);
  EXPECT_EQ(target.Load(0, kSize), v.image);
}

// Far away, a further request for the last chunk would take as long as the others, and their
// memory.
TEST(BlockDownloaderTest, APackOfTheUsualLengthIsReadInEqualParts) {
  VolumeFixture volume;
  FakeBlockDevice device(36 * kChunk);
  device.Store(0, RandomBytes(36 * kChunk, 1));
  UploadOptions options = VolumeFixture::Options();
  options.memory = {.budget_bytes = int64_t{1} << 30, .cores = 1, .pack_bytes_max = 8 << 20};
  FullScanSource source;
  const auto backup = volume.Backup(device, source, options);
  ASSERT_THAT(backup, IsOk());
  const std::map<std::string, std::string> objects = volume.store().objects();
  for (const auto& [mebibytes, requests] : std::map<int64_t, int>{{224, 3}, {512, 1}}) {
    volume.store().Restart();
    ASSERT_THAT(volume.Restore(backup->snapshot, device,
                               {.memory_budget_bytes = mebibytes << 20, .cores = 2}),
                IsOk());
    const auto calls = volume.store().calls();
    EXPECT_EQ(std::count_if(calls.begin(), calls.end(),
                            [&](const support::StoreCall& call) {
                              return call.operation == support::StoreOperation::kGetRange &&
                                     objects.at(call.key).size() > 8 << 20;
                            }),
              requests)
        << mebibytes;
  }
}

// However it ended: what is left must not look whole.
TEST(BlockDownloaderTest, ATargetThatIsNotDoneSaysSo) {
  BackedUp v;
  FakeBlockDevice target(kSize, 4096, 0xA5);
  target.BreakByte(20 * kChunk + 5);
  ASSERT_THAT(v.volume.Restore(v.backup->snapshot, target),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(std::to_string(20 * kChunk))));
  EXPECT_THAT(HasRestoreMark({}, target), IsOkAndHolds(true));
  EXPECT_THAT(target.Load(0, 1024), HasSubstr(v.backup->snapshot.Hex()));
  // Swap of version 1 to libblkid, with more bad pages than swapon(2) accepts.
  EXPECT_EQ(target.Load(1024, 12), std::string("\1\0\0\0\1\0\0\0\xff\xff\xff\xff", 12));
  EXPECT_EQ(target.Load(1052, 16), std::string("csi-delta\0\0\0\0\0\0\0", 16));
  FakeBlockDevice good(kSize, 512, 0xA5);
  ASSERT_THAT(v.volume.Restore(v.backup->snapshot, good), IsOk());
  EXPECT_THAT(HasRestoreMark({}, good), IsOkAndHolds(false));
}

// Refuses every write after the first `left`.
struct WritesLeft {
  absl::Status operator()() const {
    return --*left < 0 ? absl::UnavailableError("killed") : absl::OkStatus();
  }
  int* left;
};

// What is left of a target after a run that was killed.
void ExpectUnusable(const FakeBlockDevice& target, const FakeBlockDevice& before,
                    const FakeBlockDevice& volume, const MarkedTarget& marked) {
  const std::string head = target.Load(0, marked.head().length_bytes);
  EXPECT_TRUE(absl::StartsWith(head, kRestoreMark));
  EXPECT_EQ(head.substr(kRestoreMarkBytes - 10, 10), "SWAPSPACE2");  // else a node would format it
  const std::string tail = target.Load(marked.tail().offset_bytes, marked.tail().length_bytes);
  const bool is_covered = IsZero(absl::string_view(head).substr(kRestoreMarkBytes)) && IsZero(tail);
  // Else nothing was written yet but the beginning, or all is durable but for what is kept back.
  const int64_t begin = marked.head().end_bytes();
  const int64_t length = marked.tail().offset_bytes - begin;
  const std::string middle = target.Load(begin, length);
  EXPECT_TRUE(is_covered || middle == before.Load(begin, length) ||
              middle == volume.Load(begin, length));
}

// Killed at each of its writes: superblocks are in the first chunk, and copies of them at the end.
TEST(BlockDownloaderTest, AKilledRestoreLeavesNeitherBeginningNorEnd) {
  struct Case {
    int64_t size_bytes;
    int64_t chunk_bytes;
  };
  for (const Case& c : {Case{5000, kChunk}, Case{kChunk - 1, kChunk}, Case{3 * kChunk + 1, kChunk},
                        Case{5 * kChunk, kChunk}, Case{14 * kChunk + 999, kChunk},
                        Case{(int64_t{9} << 20) + 7, int64_t{4} << 20}}) {
    SCOPED_TRACE(c.size_bytes);
    VolumeFixture volume;
    FakeBlockDevice device(c.size_bytes);
    device.Store(0, RandomBytes(c.size_bytes, 1));
    FullScanSource source;
    UploadOptions upload = VolumeFixture::Options();
    upload.chunk_bytes = c.chunk_bytes;
    upload.memory.budget_bytes = int64_t{256} << 20;
    const auto backup = volume.Backup(device, source, upload);
    ASSERT_THAT(backup, IsOk());
    const FakeBlockDevice other(c.size_bytes, 512, 0xA5);
    FakeBlockDevice any(other);
    EXPECT_GE(MarkedTarget(any, c.size_bytes, c.chunk_bytes).head().length_bytes,
              std::min(c.size_bytes, std::max(int64_t{1} << 20, c.chunk_bytes)));
    for (const FakeBlockDevice* before : {&other, &std::as_const(device)}) {
      for (int writes = 1;; ++writes) {
        SCOPED_TRACE(writes);
        FakeBlockDevice target(*before);
        int left = writes;
        GatedBlockDevice gated(target, WritesLeft{&left});
        const auto restored = volume.Restore(
            backup->snapshot, gated, {.only_differing = before != &other, .workers_max = 1});
        if (restored.ok()) {
          EXPECT_TRUE(target.Equals(device, c.size_bytes));
          break;
        }
        ExpectUnusable(target, *before, device, MarkedTarget(target, c.size_bytes, c.chunk_bytes));
      }
    }
  }
}

// Of data at the beginning, of zeros there, and of volumes about as long as the mark.
TEST(BlockDownloaderTest, TheMarkGivesWayToWhateverTheVolumeBeginsWith) {
  for (const int64_t size :
       std::initializer_list<int64_t>{100, 4095, 4096, 4097, 5000, 3 * kChunk}) {
    for (const bool begins_with_zeros : {false, true}) {
      VolumeFixture volume;
      FakeBlockDevice device(size);
      device.Store(begins_with_zeros ? size - 1 : 0, "x");
      const auto backup = volume.FullBackup(device);
      ASSERT_THAT(backup, IsOk());
      FakeBlockDevice target(size, 512, 0xA5);
      EXPECT_THAT(volume.Restore(backup->snapshot, target), IsOk());
      EXPECT_EQ(target.Load(0, size), device.Load(0, size)) << size;
    }
  }
}

TEST(BlockDownloaderTest, TheIndexMayLieInAScratchFile) {
  BackedUp v;
  v.volume.AllowTables(1);
  FakeBlockDevice target(kSize, 4096, 0xA5);
  const auto restored = v.volume.Restore(v.backup->snapshot, target);
  ASSERT_THAT(restored, IsOk());
  EXPECT_GT(restored->scratch_bytes, 0);
  EXPECT_EQ(target.Load(0, kSize), v.image);
}

TEST(BlockDownloaderTest, ALargerTargetKeepsWhatIsPastTheVolume) {
  BackedUp v;
  FakeBlockDevice target(kSize + 10'000, 512, 0xA5);
  ASSERT_THAT(v.volume.Restore(v.backup->snapshot, target), IsOk());
  EXPECT_EQ(target.Load(0, kSize), v.image);
  EXPECT_EQ(target.Load(kSize, 10'000), std::string(10'000, '\xA5'));
}

TEST(BlockDownloaderTest, ASmallerTargetIsOutOfRangeAndStaysAsItIs) {
  BackedUp v;
  FakeBlockDevice target(kSize - 1, 512, 0xA5);
  EXPECT_THAT(v.volume.Restore(v.backup->snapshot, target),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr(std::to_string(kSize))));
  EXPECT_EQ(target.Load(0, kSize - 1), std::string(kSize - 1, '\xA5'));
}

TEST(BlockDownloaderTest, AZeroTargetIsCheckedOnASample) {
  BackedUp v;
  FakeBlockDevice empty(kSize);
  const auto restored = v.volume.Restore(v.backup->snapshot, empty, {.target_is_zero = true});
  ASSERT_THAT(restored, IsOk());
  EXPECT_EQ(restored->zero_bytes, 36 * kChunk);
  EXPECT_EQ(empty.Load(0, kSize), v.image);
  FakeBlockDevice used(kSize, 512, 0xA5);
  EXPECT_THAT(v.volume.Restore(v.backup->snapshot, used, {.target_is_zero = true}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not zero")));
  EXPECT_EQ(used.Load(0, kSize), std::string(kSize, '\xA5'));
}

TEST(BlockDownloaderTest, ADamagedBlobIsDataLossAndNeverWritten) {
  BackedUp v;
  v.Spoil(v.volume.store().objects());
  FakeBlockDevice target(kSize, 512, 0xA5);
  EXPECT_THAT(v.volume.Restore(v.backup->snapshot, target), StatusIs(absl::StatusCode::kDataLoss));
  int64_t good_or_untouched = 0;
  const MarkedTarget marked(target, kSize, kChunk);
  const int64_t begin = marked.head().end_bytes();
  const int64_t end = marked.tail().offset_bytes / kChunk * kChunk;
  for (int64_t at = begin; at < end; at += kChunk) {
    const std::string now = target.Load(at, kChunk);
    good_or_untouched += now == v.image.substr(static_cast<std::size_t>(at), kChunk) ||
                                 now == std::string(kChunk, '\xA5')
                             ? 1
                             : 0;
  }
  EXPECT_EQ(good_or_untouched, (end - begin) / kChunk);
}

TEST(BlockDownloaderTest, AnotherCopyTakesTheDamagedOnesPlace) {
  BackedUp v;
  // The same volume once more, without a parent: every blob has a second copy.
  const auto objects = v.volume.store().objects();
  const auto second = v.volume.FullBackup(v.device);
  ASSERT_THAT(second, IsOk());
  v.Spoil(objects);
  v.volume.ExpectRestores(v.backup->snapshot, v.image);
}

TEST(BlockDownloaderTest, TheResultSaysWhichFileSystemWasSeen) {
  RestoreResult result;
  result.file_system = "ext4";
  EXPECT_EQ(GetString(ToJson(result), {"file_system"}), "ext4");
}

TEST(BlockDownloaderTest, AnyFailureOfTheStoreIsAnErrorAndTheNextRunRestores) {
  BackedUp v;
  for (int64_t call = 1;; ++call) {
    v.volume.Reopen();
    const auto record = OpenVolumeRecord(v.volume.ctx(), v.volume.repository(),
                                         v.volume.Stored(v.backup->snapshot));
    ASSERT_THAT(record, IsOk());
    v.volume.store().Restart();
    v.volume.store().AddFault(
        {.first_call = call, .last_call = call, .status = absl::UnavailableError("fault")});
    FakeBlockDevice target(kSize, 512, 0xA5);
    SeededRandom random(1);
    const auto restored =
        DownloadBlocks(v.volume.ctx(), v.volume.repository(), target, random, **record, {});
    const bool reached = v.volume.store().call_count() >= call;
    v.volume.store().Restart();
    if (!reached) {
      ASSERT_THAT(restored, IsOk());
      EXPECT_GT(call, 3);
      return;
    }
    EXPECT_TRUE(!restored.ok() || target.Load(0, kSize) == v.image) << "call " << call;
  }
}

// A target that was restored to, and then changed.
struct Differing {
  Differing() : target(kSize, 512, 0xA5) {
    EXPECT_THAT(v.volume.Restore(v.backup->snapshot, target), IsOk());
    before = target.written_bytes();
  }

  absl::StatusOr<RestoreResult> RestoreAgain() {
    return v.volume.Restore(v.backup->snapshot, target, {.only_differing = true});
  }
  int64_t written() const { return target.written_bytes() - before; }

  BackedUp v;
  FakeBlockDevice target;
  int64_t before = 0;
};

TEST(BlockDownloaderTest, OnlyDifferingBlocksOfDifferingChunksAreWritten) {
  Differing d;
  d.target.Store(4 * kChunk + 9000, "changed");
  d.target.Store(30 * kChunk - 1, "xy");  // A chunk of zeros, and one whose blob stands twice.
  const auto restored = d.RestoreAgain();
  ASSERT_THAT(restored, IsOk());
  EXPECT_EQ(restored->written_bytes, 2 * kBlock);
  EXPECT_EQ(restored->kept_bytes, 4 * kChunk + 999 - 2 * kBlock);
  EXPECT_EQ(restored->zero_bytes, 36 * kChunk);
  EXPECT_GE(restored->compared_bytes, 4 * kChunk + 999);
  // The first chunk and two that differ, each with what encryption adds; not the others.
  EXPECT_LT(restored->fetched_bytes, 3 * kChunk + kChunk / 2);
  EXPECT_EQ(d.target.Load(0, kSize), d.v.image);
  // The mark, and what was kept back.
  const MarkedTarget marked(d.target, kSize, kChunk);
  EXPECT_EQ(d.written(), 2 * kBlock + 2 * marked.head().length_bytes + marked.tail().length_bytes);
}

TEST(BlockDownloaderTest, ChunksThatTheTargetHoldsAreNotFetched) {
  Differing d;
  const auto restored = d.RestoreAgain();
  ASSERT_THAT(restored, IsOk());
  EXPECT_EQ(restored->fetched_bytes, 0);
  EXPECT_EQ(restored->kept_bytes, 4 * kChunk + 999);
  EXPECT_EQ(d.target.Load(0, kSize), d.v.image);
}

// The volume's beginning is kept back, whatever the target holds there: data that was the same
// before the mark, and data that is a mark.
TEST(BlockDownloaderTest, OnlyDifferingWritesTheBeginningInAnyCase) {
  for (const std::string& beginning : {std::string("data"), std::string(kRestoreMark)}) {
    VolumeFixture volume;
    FakeBlockDevice device(3 * kChunk);
    device.Store(0, beginning);
    const auto backup = volume.FullBackup(device);
    ASSERT_THAT(backup, IsOk());
    FakeBlockDevice target(device);
    ASSERT_THAT(volume.Restore(backup->snapshot, target, {.only_differing = true}), IsOk());
    EXPECT_TRUE(target.Equals(device, 3 * kChunk)) << beginning;
  }
}

TEST(BlockDownloaderTest, OnlyDifferingWritesWhatTheTargetCannotRead) {
  Differing d;
  d.target.BreakByte(20 * kChunk + 5);
  EXPECT_THAT(d.RestoreAgain(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("write at")));
  EXPECT_THAT(HasRestoreMark({}, d.target), IsOkAndHolds(true));
}

TEST(BlockDownloaderTest, HoweverATargetDiffersItIsRestored) {
  const support::SweepSample sample;
  std::mt19937_64 engine(sample.seed());
  BackedUp v;
  for (int run = 0; run < (sample.is_everything() ? 300 : 15); ++run) {
    SCOPED_TRACE(run);
    FakeBlockDevice target(v.device);
    for (auto change = engine() % 8; change > 0; --change) {
      const auto at = static_cast<int64_t>(engine() % kSize);
      const auto length =
          std::min<int64_t>(kSize - at, 1 + static_cast<int64_t>(engine() % 300'000));
      target.Store(at, RandomBytes(length, engine()));
    }
    const auto restored = v.volume.Restore(
        v.backup->snapshot, target,
        {.only_differing = true, .workers_max = static_cast<int>(1 + engine() % 4)});
    ASSERT_THAT(restored, IsOk());
    EXPECT_TRUE(target.Equals(v.device, kSize));
    EXPECT_EQ(restored->written_bytes + restored->kept_bytes + restored->zero_bytes, kSize);
  }
}

TEST(DifferingRangesTest, EqualBytesDifferNowhere) {
  EXPECT_THAT(DifferingRanges("", ""), IsEmpty());
  EXPECT_THAT(DifferingRanges(std::string(10'000, 'x'), std::string(10'000, 'x')), IsEmpty());
}

TEST(DifferingRangesTest, AByteThatDiffersMakesItsBlockARange) {
  const std::string held(10 * kBlock, 'x');
  for (const int64_t at : {int64_t{0}, kBlock - 1, kBlock, 9 * kBlock, 10 * kBlock - 1}) {
    std::string wanted = held;
    wanted[static_cast<std::size_t>(at)] = 'y';
    EXPECT_THAT(DifferingRanges(wanted, held), ElementsAre(Extent{at / kBlock * kBlock, kBlock}))
        << at;
  }
}

TEST(DifferingRangesTest, NeighboursAreJoinedAndOthersAreNot) {
  const std::string held(10 * kBlock, 'x');
  std::string wanted = held;
  for (const int64_t block : {1, 2, 4}) {
    wanted[static_cast<std::size_t>(block * kBlock)] = 'y';
  }
  EXPECT_THAT(DifferingRanges(wanted, held),
              ElementsAre(Extent{kBlock, 2 * kBlock}, Extent{4 * kBlock, kBlock}));
}

TEST(DifferingRangesTest, TheLastBlockIsAsLongAsItIs) {
  std::string wanted(kBlock + 100, 'x');
  const std::string held = wanted;
  wanted.back() = 'y';
  EXPECT_THAT(DifferingRanges(wanted, held), ElementsAre(Extent{kBlock, 100}));
}

}  // namespace
}  // namespace csidelta::incremental::block_downloader_test
