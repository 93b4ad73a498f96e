#include "incremental/mover/chunk_journal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "repository/blob_writer.h"
#include "tests/incremental/volume_fixture.h"
#include "tests/support/await.h"
#include "tests/support/index_lookup.h"

namespace csidelta::incremental::chunk_journal_test {
namespace {

using repository::BlobId;
using repository::VolumeLayout;
using support::FakeBlockDevice;
using support::IsOk;
using support::StatusIs;

constexpr int64_t kChunk = VolumeFixture::kChunk;
constexpr int64_t kLeafBytes = repository::kLeafChunks * kChunk;
constexpr int64_t kSize = 2 * kLeafBytes + 20 * kChunk + 5;
constexpr int64_t kEntries = 8;
const absl::Time kMoment = absl::FromUnixSeconds(1'800'000'000);
constexpr int64_t kDataEvery = 5;  // chunks; the others are zero

VolumeLayout Layout(int64_t size_bytes = kSize) { return *VolumeLayout::Make(size_bytes, kChunk); }

TEST(ChunkJournalTest, ComesBack) {
  const JournalFile file = {.read_at = kMoment,
                            .entries = {{.chunk = 7, .id = BlobId::Of("seven")},
                                        {.chunk = 3, .id = BlobId::Of("three")}}};
  const std::string text = EncodeJournal(Layout(), file);
  const auto read = DecodeJournal(Layout(), text);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(*read, file);
}

TEST(ChunkJournalTest, RefusesWhatIsMalformedOrOfAnotherVolume) {
  const auto refused = StatusIs(absl::StatusCode::kInvalidArgument);
  const std::string text = EncodeJournal(
      Layout(), {.read_at = kMoment, .entries = {{.chunk = 7, .id = BlobId::Of("seven")}}});
  for (std::size_t length = 0; length < text.size(); ++length) {
    if (length != text.size() - 36) {  // No entry is a journal too.
      EXPECT_THAT(DecodeJournal(Layout(), text.substr(0, length)), refused) << length;
    }
  }
  EXPECT_THAT(DecodeJournal(Layout(kSize + 1), text), refused);
  EXPECT_THAT(DecodeJournal(*VolumeLayout::Make(kSize, 2 * kChunk), text), refused);
  EXPECT_THAT(DecodeJournal(Layout(),
                            EncodeJournal(Layout(), {.read_at = kMoment,
                                                     .entries = {{.chunk = 1'000'000, .id = {}}}})),
              refused);
}

// A volume that is read twice, because the first run is killed.
class ResumeTest : public testing::Test {
 protected:
  ResumeTest() : device_(kSize) {
    for (int64_t at = 0; at < kSize; at += kDataEvery * kChunk) {
      device_.Store(at, RandomBytes(std::min(kSize - at, kChunk), static_cast<uint64_t>(at) + 1));
    }
  }

  static UploadOptions Options() {
    UploadOptions options = VolumeFixture::Options();
    options.immutable_identity = "a snapshot";
    options.journal = {.entries_per_file = kEntries, .step_bytes = kSize};
    return options;
  }

  // From now on the store hears nothing of this process.
  void Kill() {
    volume_.store().CutAt(volume_.store().call_count() + 1, support::CutMoment::kBefore);
  }

  bool HasPutData() const {
    const std::vector<support::StoreCall> calls = volume_.store().calls();
    return std::any_of(calls.begin(), calls.end(), [](const support::StoreCall& call) {
      return call.operation == support::StoreOperation::kPut && call.key.starts_with("data/");
    });
  }

  // In the leaf before, or in this one, once data is in the store. A fifth of the volume at most
  // waits for the store, so that the end of the volume is never read.
  void RunAndKillAtLeaf(int64_t leaf, UploadOptions options = Options()) {
    options.on_progress = [&, leaf](const TransferProgress& progress) {
      const int64_t left_bytes = progress.total_bytes - progress.done_bytes;
      if (kSize - left_bytes >= leaf * kLeafBytes - kLeafBytes / 2 && !volume_.store().is_cut()) {
        support::Await("data in the store", [this] { return HasPutData(); });
        Kill();
      }
    };
    FullScanSource source;
    EXPECT_FALSE(volume_.Backup(device_, source, options).ok());
  }

  // The next process.
  BackupResult RunAgain(UploadOptions options) {
    volume_.store().Restart();
    volume_.Reopen();
    repository::Repository& repository = volume_.repository();
    EXPECT_THAT(repository.LoadIndex(volume_.ctx()), IsOk());
    EXPECT_THAT(repository::AdoptOrphanPacks(volume_.ctx(), repository, nullptr), IsOk());
    options.known = &repository.index();
    FullScanSource source;
    auto backup = volume_.Backup(device_, source, options);
    EXPECT_THAT(backup, IsOk());
    volume_.ExpectRestores(backup->snapshot, device_);
    return *std::move(backup);
  }

  std::vector<std::string> JournalKeys() const {
    std::vector<std::string> keys;
    for (const auto& [key, bytes] : volume_.store().objects()) {
      if (key.starts_with("aux/v1/run-")) {
        keys.push_back(key);
      }
    }
    return keys;
  }
  int64_t JournalFiles() const { return std::ssize(JournalKeys()); }

  // What the journal of a run that was killed holds.
  std::vector<JournalEntry> Noted() {
    volume_.store().Restart();
    volume_.Reopen();
    std::vector<JournalEntry> noted;
    for (const std::string& key : JournalKeys()) {
      const auto text = volume_.repository().LoadSidecar(volume_.ctx(), key);
      EXPECT_THAT(text, IsOk());
      const auto file = DecodeJournal(Layout(), *text);
      EXPECT_THAT(file, IsOk());
      noted.insert(noted.end(), file->entries.begin(), file->entries.end());
    }
    return noted;
  }

  // Those of which the store has the blob, or which are zeros, whose blob any run has: how many are
  // on their way when a run is killed depends on its threads.
  std::vector<JournalEntry> Stored(std::vector<JournalEntry> entries) {
    repository::Repository& repository = volume_.repository();
    EXPECT_THAT(repository.LoadIndex(volume_.ctx()), IsOk());
    EXPECT_THAT(repository::AdoptOrphanPacks(volume_.ctx(), repository, nullptr), IsOk());
    std::erase_if(entries, [&](const JournalEntry& entry) {
      return HasData(entry) &&
             !support::Contains(repository.index(), {repository::BlobType::kData, entry.id})
                  .value();
    });
    return entries;
  }

  static bool HasData(const JournalEntry& entry) { return entry.chunk % kDataEvery == 0; }

  static int64_t Bytes(const std::vector<JournalEntry>& entries) {
    int64_t bytes = 0;
    for (const JournalEntry& entry : entries) {
      bytes += Layout().ChunkLength(entry.chunk);
    }
    return bytes;
  }

  mutable VolumeFixture volume_;
  FakeBlockDevice device_;
};

TEST_F(ResumeTest, AKilledRunsChunksAreNeitherReadNorStoredAgain) {
  RunAndKillAtLeaf(2);
  EXPECT_GT(JournalFiles(), 0);
  const std::vector<JournalEntry> stored = Stored(Noted());
  EXPECT_TRUE(std::any_of(stored.begin(), stored.end(), HasData));
  const BackupResult again = RunAgain(Options());
  EXPECT_EQ(again.resumed_bytes, Bytes(stored));
  EXPECT_EQ(again.read_bytes + again.resumed_bytes, kSize);
  EXPECT_EQ(JournalFiles(), 0);
}

TEST_F(ResumeTest, ZerosAreNotReadAgainWhereNoPackWasStored) {
  RunAndKillAtLeaf(2);
  std::vector<JournalEntry> zeros = Noted();
  std::erase_if(zeros, HasData);
  for (const auto& [key, bytes] : volume_.store().objects()) {
    if (key.starts_with("data/")) {
      volume_.store().RemoveObject(key);
    }
  }
  EXPECT_EQ(RunAgain(Options()).resumed_bytes, Bytes(zeros));
}

TEST_F(ResumeTest, TheJournalSaysWhichBlobsAreOfTheRun) {
  RunAndKillAtLeaf(2);
  const std::vector<JournalEntry> noted = Noted();
  const std::string identity = Options().immutable_identity;
  const auto blobs =
      ChunkJournal::Blobs(volume_.ctx(), volume_.repository(), identity, int64_t{1} << 20);
  ASSERT_EQ(blobs.size(), noted.size());
  for (const JournalEntry& entry : noted) {
    EXPECT_TRUE(std::binary_search(blobs.begin(), blobs.end(), entry.id)) << entry.chunk;
  }
  EXPECT_EQ(ChunkJournal::Blobs(volume_.ctx(), volume_.repository(), identity, 64).size(), 2u);
  EXPECT_TRUE(ChunkJournal::Blobs(volume_.ctx(), volume_.repository(), "x", 1 << 20).empty());
}

TEST_F(ResumeTest, EachStepIsNotedInTheOneFileThatGrows) {
  constexpr int64_t kStepChunks = 4;
  UploadOptions options = Options();
  options.journal = {.entries_per_file = kSize / kChunk + 2, .step_bytes = kStepChunks * kChunk};
  options.fence = [&](const CallContext&) {
    Kill();
    return absl::OkStatus();
  };
  FullScanSource source;
  EXPECT_FALSE(volume_.Backup(device_, source, options).ok());
  EXPECT_EQ(JournalFiles(), 1);
  const std::vector<JournalEntry> noted = Noted();
  const auto data_chunks = std::count_if(noted.begin(), noted.end(), HasData);
  EXPECT_LT((kSize + kDataEvery * kChunk - 1) / (kDataEvery * kChunk) - data_chunks, kStepChunks);
  EXPECT_EQ(RunAgain(Options()).read_bytes, kSize - Bytes(noted));
  EXPECT_EQ(JournalFiles(), 0);
}

TEST_F(ResumeTest, AsShippedARunThatIsKilledHasLittleToReadAgain) {
  for (int64_t at = 0; at < kSize; at += kChunk) {
    device_.Store(at, RandomBytes(std::min(kSize - at, kChunk), static_cast<uint64_t>(at) + 1));
  }
  UploadOptions options = Options();
  options.journal = JournalSizes();
  RunAndKillAtLeaf(2, options);
  EXPECT_GE(Bytes(Noted()), 2 * kLeafBytes - (int64_t{64} << 20));
}

TEST_F(ResumeTest, ARunThatWasKilledBeforeItsEndHadReadNearlyAll) {
  UploadOptions options = Options();
  options.fence = [&](const CallContext&) {
    Kill();
    return absl::OkStatus();
  };
  FullScanSource source;
  EXPECT_FALSE(volume_.Backup(device_, source, options).ok());
  const BackupResult again = RunAgain(Options());
  EXPECT_LE(again.read_bytes, kEntries * kChunk);
  EXPECT_LE(again.data_blobs, 1);  // volume.json
}

TEST_F(ResumeTest, WithoutTheBlobsAnEntryIsWorthNothing) {
  RunAndKillAtLeaf(2);
  for (const auto& [key, bytes] : volume_.store().objects()) {
    if (key.starts_with("data/") || key.starts_with("index/")) {
      volume_.store().RemoveObject(key);
    }
  }
  // But for zeros, whose blob any run has.
  EXPECT_GE(RunAgain(Options()).read_bytes, kSize / kDataEvery);
}

TEST_F(ResumeTest, ResumedChunksAreAudited) {
  RunAndKillAtLeaf(2);
  const BackupResult good = RunAgain(Options());
  ASSERT_EQ(good.audit.size(), 1u);
  EXPECT_EQ(good.audit[0].kind, "resumed");
  EXPECT_GT(good.audit[0].chunks, 0);
  EXPECT_EQ(good.audit[0].candidates * kChunk, good.resumed_bytes);
  EXPECT_FALSE(good.audit_mismatch);
}

TEST_F(ResumeTest, AnotherContentUnderTheSameNameIsFoundAndReadAsAWhole) {
  RunAndKillAtLeaf(2);
  for (int64_t at = 0; at < kSize; at += kDataEvery * kChunk) {
    device_.Store(at, RandomBytes(std::min(kSize - at, kChunk), static_cast<uint64_t>(at) + 2));
  }
  const BackupResult again = RunAgain(Options());  // And restores the other content.
  EXPECT_GT(again.resumed_bytes + again.audit_bytes, 0);
  EXPECT_TRUE(again.audit_mismatch);
  EXPECT_EQ(Why(again), "resumed-changed");
  EXPECT_EQ(again.resumed_bytes, 0) << "nothing of the journal is in what was stored";
  EXPECT_EQ(JournalFiles(), 0);
}

TEST_F(ResumeTest, AfterSevenDaysNothingIsResumed) {
  class LaterClock : public Clock {
   public:
    explicit LaterClock(absl::Duration later) : later_(later) {}
    absl::Time Now() const override { return Clock::Real().Now() + later_; }
    bool SleepUntil(absl::Time wake_at, std::stop_token stop) const override {
      return Clock::Real().SleepUntil(wake_at - later_, std::move(stop));
    }

   private:
    const absl::Duration later_;
  };
  RunAndKillAtLeaf(2);
  volume_.store().Restart();
  volume_.Reopen();
  const int64_t files = JournalFiles();
  ASSERT_GT(files, 0);
  const auto objects = volume_.store().objects();
  // Also a clock that goes wrong is a reason to look again.
  for (const absl::Duration later :
       {kJournalAgeMax - absl::Hours(1), -kJournalAgeMax - absl::Hours(1),
        kJournalAgeMax + absl::Hours(1)}) {
    const bool is_young = absl::AbsDuration(later) < kJournalAgeMax;
    volume_.store().SetObjects(objects);
    const LaterClock clock(later);
    CallContext ctx = volume_.ctx();
    ctx.clock = &clock;
    ChunkJournal journal(volume_.repository(), Options().immutable_identity, Layout(), {});
    journal.Load(ctx, 1 << 20);
    EXPECT_EQ(journal.memory_bytes() > 0, is_young) << later;
    EXPECT_EQ(JournalFiles(), is_young ? files : 0) << later;
  }
}

TEST_F(ResumeTest, AnotherSourceIsReadAsAWhole) {
  RunAndKillAtLeaf(2);
  UploadOptions options = Options();
  options.immutable_identity = "another snapshot";
  EXPECT_EQ(RunAgain(options).resumed_bytes, 0);
}

TEST_F(ResumeTest, ASourceThatMayChangeIsReadAsAWhole) {
  RunAndKillAtLeaf(2);
  UploadOptions options = Options();
  options.immutable_identity.clear();
  device_.Store(100, "changed");
  EXPECT_EQ(RunAgain(options).read_bytes, kSize);
}

}  // namespace
}  // namespace csidelta::incremental::chunk_journal_test
