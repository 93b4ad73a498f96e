#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "incremental/mover/block_downloader.h"
#include "incremental/mover/block_uploader.h"
#include "incremental/mover/restore_mark.h"
#include "incremental/mover/volume_record.h"
#include "incremental/sources/extent_list_source.h"
#include "incremental/sources/image_extent_source.h"
#include "repository/repository.h"
#include "storage/metered_object_store.h"
#include "tests/support/cheap_scrypt.h"
#include "tests/support/fake_block_device.h"
#include "tests/support/fake_object_store.h"
#include "tests/support/status_matchers.h"

namespace csidelta::incremental {

// Numbers of a seed. Thread-safe only where Random must be: it is not shared here.
class SeededRandom : public Random {
 public:
  explicit SeededRandom(uint64_t seed) : engine_(seed) {}
  uint64_t Below(uint64_t bound) override { return engine_() % bound; }

 private:
  std::mt19937_64 engine_;
};

// Why a backup is a full one, with what is particular to it; "" for an increment.
inline std::string Why(const BackupResult& result) {
  return result.why.has_value() ? ToString(*result.why) : "";
}

// A list of what is allocated, as a user made it.
inline ExtentListSource AllocatedList(std::vector<ListedExtent> extents) {
  return ExtentListSource({.base = "", .extents = std::move(extents)});
}

// A repository in memory, and backups and restores of fake devices into and out of it.
class VolumeFixture {
 public:
  static constexpr int64_t kChunk = 256 << 10;

  explicit VolumeFixture(uint64_t seed = 1) : random_(seed) {
    store_.SetObjects(FreshRepository());
    Reopen();
  }

  // Opens the repository again, as the next process would: nothing is in memory.
  void Reopen() {
    auto opened = repository::Repository::Open(ctx_, metered_, "password", environment_);
    ASSERT_THAT(opened, support::IsOk());
    repository_ = *std::move(opened);
  }

  // What is drawn from now on is drawn with this seed.
  void DrawAgain(uint64_t seed) { random_ = SeededRandom(seed); }

  // Has tables of a repository that is opened from now on take no more memory than this.
  void AllowTables(int64_t memory_bytes) {
    environment_.scratch = {.folder = testing::TempDir(), .table_memory_bytes_max = memory_bytes};
  }

  static UploadOptions Options() {
    UploadOptions options;
    options.chunk_bytes = kChunk;
    options.memory = {.budget_bytes = int64_t{128} << 20,
                      .cores = 2,
                      .pack_bytes_max = int64_t{4} << 20,
                      .uploads_in_flight_max = 2};
    options.snapshot.paths = {"/namespace/claim"};
    options.snapshot.hostname = "test";
    return options;
  }

  UploadOptions OptionsOn(const repository::Id& parent) {
    UploadOptions options = Options();
    options.parent = Stored(parent);
    return options;
  }

  absl::StatusOr<BackupResult> Backup(support::FakeBlockDevice& device, ChangedBlockSource& source,
                                      UploadOptions options) {
    return UploadBlocks(ctx_, *repository_, device, source, random_, options);
  }

  absl::StatusOr<BackupResult> FullBackup(support::FakeBlockDevice& device) {
    FullScanSource source;
    return Backup(device, source, Options());
  }

  absl::StatusOr<BackupResult> IncrementalBackup(support::FakeBlockDevice& device,
                                                 const repository::Id& parent,
                                                 std::vector<ListedExtent> extents) {
    ExtentListSource source({.base = parent.Hex(), .extents = std::move(extents)});
    return Backup(device, source, OptionsOn(parent));
  }

  repository::StoredSnapshot Stored(const repository::Id& id) {
    auto snapshot = repository_->LoadSnapshot(ctx_, id);
    EXPECT_THAT(snapshot, support::IsOk());
    return {.id = id, .snapshot = snapshot.ok() ? *snapshot : repository::RepoSnapshot{}};
  }

  absl::StatusOr<RestoreResult> Restore(const repository::Id& id, BlockDevice& target,
                                        const DownloadOptions& options = {}) {
    Reopen();
    const auto record = OpenVolumeRecord(ctx_, *repository_, Stored(id));
    if (!record.ok()) {
      return record.status();
    }
    return DownloadBlocks(ctx_, *repository_, target, random_, **record, options);
  }

  // The mark, all else, what was kept back, the beginning; a volume that is shorter than the mark
  // has none.
  static int FlushesOf(int64_t size_bytes) { return size_bytes < kRestoreMarkBytes ? 1 : 4; }

  // Restores onto a target full of 0xA5 and compares it with `want`.
  void ExpectRestores(const repository::Id& id, const std::string& want) {
    support::FakeBlockDevice target(static_cast<int64_t>(want.size()), 512, 0xA5);
    const absl::StatusOr<RestoreResult> restored = Restore(id, target);
    ASSERT_THAT(restored.status(), support::IsOk());
    EXPECT_TRUE(target.Load(0, static_cast<int64_t>(want.size())) == want);
    EXPECT_EQ(target.flushes(), FlushesOf(std::ssize(want)));
  }

  // The same, onto a target full of 0xA5 that wants transfers aligned.
  void ExpectRestores(const repository::Id& id, const support::FakeBlockDevice& want,
                      int64_t alignment_bytes = 512) {
    const int64_t size = want.info().size_bytes;
    support::FakeBlockDevice target(size, alignment_bytes, 0xA5);
    ASSERT_THAT(Restore(id, target).status(), support::IsOk());
    EXPECT_TRUE(target.Equals(want, size));
    EXPECT_EQ(target.flushes(), FlushesOf(size));
  }

  // The packs that hold more data of a snapshot than a chunk, but for the one that holds its
  // volume.json. REQUIRES a loaded index.
  std::vector<repository::PackId> DataPacksWithoutManifest(const repository::Id& id) {
    const auto record = OpenVolumeRecord(ctx_, *repository_, Stored(id));
    EXPECT_THAT(record, support::IsOk());
    const repository::BlobIndex& index = repository_->index();
    const auto manifest =
        index.Lookup({repository::BlobType::kData, (*record)->root.manifest_blob});
    EXPECT_THAT(manifest, support::IsOk());
    std::vector<repository::PackId> packs;
    for (uint32_t i = 0; i < index.pack_count(); ++i) {
      const repository::PackInfo info = index.info(i);
      if (info.has_data && info.stored_bytes > 10 * kChunk &&
          index.PackAt(i) != manifest->front().pack) {
        packs.push_back(index.PackAt(i));
      }
    }
    return packs;
  }

  // From now on it is the time of this clock.
  void UseClock(const Clock& clock) { ctx_.clock = &clock; }

  // What was asked of the store so far.
  storage::StoreUsage Usage() const { return meter_.Snapshot(); }

  support::FakeObjectStore& store() { return store_; }
  repository::Repository& repository() { return *repository_; }
  const CallContext& ctx() const { return ctx_; }

 private:
  // What Init() makes; the same each time.
  static const std::map<std::string, std::string>& FreshRepository() {
    static const std::map<std::string, std::string> objects = [] {
      support::FakeObjectStore store;
      repository::Environment environment;
      environment.scrypt = support::kCheapScrypt;
      EXPECT_THAT(repository::Repository::Init(CallContext(), store, "password", environment),
                  support::IsOk());
      return store.objects();
    }();
    return objects;
  }

  CallContext ctx_;
  SeededRandom random_;
  support::FakeObjectStore store_;
  storage::StoreMeter meter_;
  storage::MeteredObjectStore metered_{store_, meter_};
  repository::Environment environment_;
  std::unique_ptr<repository::Repository> repository_;
};

// `length_bytes` bytes that do not repeat.
inline std::string RandomBytes(int64_t length_bytes, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::string bytes(static_cast<std::size_t>(length_bytes), '\0');
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    const uint64_t number = engine();
    std::memcpy(bytes.data() + at, &number, std::min(sizeof(number), bytes.size() - at));
  }
  return bytes;
}

}  // namespace csidelta::incremental
