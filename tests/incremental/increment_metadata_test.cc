// What an increment costs beside its data: bytes and requests follow what is touched, not the
// volume. Counted without the audit, which has columns of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "repository/compression.h"
#include "repository/sealer.h"
#include "repository/volume_layout.h"
#include "tests/incremental/volume_fixture.h"

namespace csidelta::incremental::increment_metadata_test {
namespace {

using repository::kFanout;
using repository::kLeafChunks;
using support::FakeBlockDevice;
using support::IsOk;
using support::StoreCall;
using support::StoreOperation;

constexpr int64_t kChunk = VolumeFixture::kChunk;
constexpr int64_t kKiB = 1 << 10;
constexpr int64_t kLevel1 = 3;
constexpr int64_t kLeaves = kLevel1 * kFanout;
constexpr int64_t kLeafBytes = kLeafChunks * kChunk;

ListedExtent FirstChunkOf(int64_t leaf) { return {.extent = {leaf * kLeafBytes, 8}}; }

UploadOptions Options() {
  UploadOptions options = VolumeFixture::Options();
  options.audit_one_in = kAuditOneIn << 20;
  options.audit_first_chunks = 0;
  return options;
}

// What one backup asked of the store, up to its audit and after it.
struct Cost {
  BackupResult result;
  int64_t put_bytes = 0;
  int64_t got_bytes = 0;
  int64_t requests = 0;
  int64_t writes = 0;
};

// A volume with data in every leaf, so that no tree is another's.
class IncrementMetadataTest : public testing::Test {
 protected:
  IncrementMetadataTest() : device_(kLeaves * kLeafBytes) {
    std::vector<ListedExtent> list;
    for (int64_t leaf = 0; leaf < kLeaves; ++leaf) {
      device_.Store(leaf * kLeafBytes, RandomBytes(8, static_cast<uint64_t>(leaf) + 1));
      list.push_back(FirstChunkOf(leaf));
    }
    ExtentListSource source = AllocatedList(list);
    const auto full = volume_.Backup(device_, source, Options());
    EXPECT_THAT(full, IsOk());
    last_ = full->snapshot;
  }

  // Changes the first chunk of each leaf and backs up.
  Cost Increment(const std::vector<int64_t>& leaves) {
    std::vector<ListedExtent> list;
    for (const int64_t leaf : leaves) {
      device_.Store(leaf * kLeafBytes, RandomBytes(8, ++writes_ * 10'000));
      list.push_back(FirstChunkOf(leaf));
    }
    return Measure(volume_, device_, list);
  }

  Cost Measure(VolumeFixture& volume, FakeBlockDevice& device,
               const std::vector<ListedExtent>& list) {
    volume.Reopen();
    volume.store().Restart();
    UploadOptions options = Options();
    options.parent = volume.Stored(last_);
    options.chunk_bytes = 0;
    const storage::StoreUsage before = volume.Usage();
    storage::StoreUsage audit_begins;
    storage::StoreUsage audit_ends;
    options.on_progress = [&](const TransferProgress& progress) {
      if (progress.stage == "audit" && audit_begins.requests() == 0) {
        audit_begins = volume.Usage();
        calls_before_audit_ = static_cast<std::size_t>(volume.store().call_count());
      } else if ((progress.stage == "uploads" || progress.stage == "commit") &&
                 audit_ends.requests() == 0) {
        audit_ends = volume.Usage();
      }
    };
    ExtentListSource source({.base = last_.Hex(), .extents = list});
    auto backup = volume.Backup(device, source, options);
    EXPECT_THAT(backup, IsOk());
    const storage::StoreUsage after = volume.Usage();
    const auto count = [&](auto number) {
      return number(after) - number(before) - (number(audit_ends) - number(audit_begins));
    };
    last_ = backup->snapshot;
    return {
        .result = *std::move(backup),
        .put_bytes = count([](const storage::StoreUsage& usage) { return usage.put_bytes; }),
        .got_bytes = count([](const storage::StoreUsage& usage) { return usage.got_bytes; }),
        .requests = count([](const storage::StoreUsage& usage) { return usage.requests(); }),
        .writes = count([](const storage::StoreUsage& usage) { return usage.write_requests(); })};
  }

  // The bound of what is written and of what is read, data apart.
  static void ExpectBounded(const Cost& cost) {
    const int64_t touched = cost.result.leaves_touched + cost.result.level1_touched;
    const int64_t chunks = cost.result.data_blobs;
    const int64_t sealed_chunk = kKiB;  // Eight bytes and zeros, compressed.
    EXPECT_LE(cost.put_bytes, 256 * kKiB + 12 * kKiB * touched + (160 + sealed_chunk) * chunks);
    EXPECT_LE(cost.got_bytes, 256 * kKiB + 12 * kKiB * touched);
    EXPECT_EQ(cost.result.mode_done, "incremental") << Why(cost.result);
  }

  // Before the audit, which looks at more than what was touched.
  bool AsksFor(const std::string& prefix) const {
    std::vector<StoreCall> calls = volume_.store().calls();
    calls.resize(calls_before_audit_);
    return std::any_of(calls.begin(), calls.end(), [&](const StoreCall& call) {
      return call.key.starts_with(prefix) && call.operation != StoreOperation::kPut;
    });
  }

  repository::TreeLocator Locator() {
    auto locator = volume_.repository().LoadLocator(volume_.ctx(), last_);
    EXPECT_THAT(locator, IsOk());
    return *locator;
  }

  mutable VolumeFixture volume_;
  FakeBlockDevice device_;
  repository::Id last_;
  uint64_t writes_ = 0;
  std::size_t calls_before_audit_ = 0;
};

TEST_F(IncrementMetadataTest, FollowsTheLeavesThatAreTouched) {
  for (const std::vector<int64_t>& leaves :
       {std::vector<int64_t>{}, {5}, {1, 2, 3, 300, 301}, {0, 256, 511}}) {
    const Cost cost = Increment(leaves);
    EXPECT_EQ(cost.result.leaves_touched, static_cast<int64_t>(leaves.size()));
    ExpectBounded(cost);
    EXPECT_FALSE(AsksFor("index/"));
  }
}

TEST_F(IncrementMetadataTest, NothingChangedAsksForNoLeafAndWritesNoTree) {
  const Cost cost = Increment({});
  EXPECT_EQ(cost.result.tree_blobs, 1);  // The root.
  EXPECT_LE(cost.requests, 12);          // Without opening and locking.
  EXPECT_LE(cost.writes, 5);
  EXPECT_LE(cost.put_bytes, 8 * kKiB);
}

// Each increment leaves a file of places; those of old ones must neither pile up nor be made again
// all at once.
TEST_F(IncrementMetadataTest, ALongChainStaysCheapAndNeedsNoIndex) {
  for (int64_t generation = 0; generation < 20; ++generation) {
    SCOPED_TRACE(generation);
    const Cost cost = Increment({generation * repository::kShardTrees + 5});
    ExpectBounded(cost);
    EXPECT_FALSE(AsksFor("index/"));
    EXPECT_LE(Locator().files.size(), 16u);
  }
  const auto scan = volume_.FullBackup(device_);
  ASSERT_THAT(scan, IsOk());
  EXPECT_EQ(Increment({}).result.image_tree, scan->image_tree);
}

TEST_F(IncrementMetadataTest, WithoutOldFilesOfPlacesTheIndexHelpsAndTheyHeal) {
  Increment({7});
  for (const auto& [key, bytes] : volume_.store().objects()) {
    if (key.starts_with(repository::kLocatorFolder)) {
      volume_.store().RemoveObject(key);
    }
  }
  EXPECT_EQ(Increment({7, 8, 400}).result.mode_done, "incremental");
  EXPECT_TRUE(AsksFor("index/"));
  EXPECT_EQ(Increment({7, 8, 400}).result.mode_done, "incremental");
  EXPECT_FALSE(AsksFor("index/"));
}

// A locator of version 3 and its shards, sealed with the master key itself.
void MakeOld(VolumeFixture& volume, const repository::Id& snapshot) {
  repository::Repository& repository = volume.repository();
  const repository::SealKey& master = repository.master_key();
  SecureRandom& random = *repository.environment().random;
  auto locator = *repository.LoadLocator(volume.ctx(), snapshot);
  std::map<repository::Id, std::string> files;
  for (const bool is_leaf : {false, true}) {
    auto& shards = is_leaf ? locator.leaf_shards : locator.level1_shards;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      const repository::Id& file = locator.files.at(shards[i].file - 1U);
      std::string& bytes =
          files.try_emplace(file, volume.store().objects().at(repository::LocatorFileKey(file)))
              .first->second;
      const std::string name = locator.ShardName(
          {.is_leaf = is_leaf, .number = static_cast<int64_t>(i) * repository::kShardTrees});
      const auto text = repository::Sealer(repository::KeyBoundTo(master, name), random)
                            .Open(absl::string_view(bytes).substr(shards[i].offset_bytes,
                                                                  shards[i].sealed_bytes));
      ASSERT_THAT(text, IsOk());
      bytes.replace(shards[i].offset_bytes, shards[i].sealed_bytes,
                    repository::Sealer(master, random).Seal(absl::string_view(*text)));
    }
  }
  for (const auto& [file, bytes] : files) {
    volume.store().SetObject(repository::LocatorFileKey(file), bytes);
  }
  std::string text = locator.Encode();
  text[4] = 3;
  text.erase(20, repository::Id::kBytes);
  volume.store().SetObject(repository::SidecarKey(snapshot),
                           repository::Sealer(master, random)
                               .Seal(absl::StrCat("\2", repository::Compressor(1).Compress(text))));
}

TEST_F(IncrementMetadataTest, TheLocatorOfAnOlderVersionHelpsOnceAndIsWrittenAgain) {
  Increment({7});
  MakeOld(volume_, last_);
  const auto old = volume_.repository().LoadLocator(volume_.ctx(), last_);
  ASSERT_THAT(old, IsOk());
  EXPECT_FALSE(old->is_bound);
  EXPECT_FALSE(old->needs.has_value());
  EXPECT_EQ(Increment({8, 400}).result.mode_done, "incremental");
  // Which packs it needs is not known: the index says.
  const std::vector<StoreCall> calls = volume_.store().calls();
  EXPECT_TRUE(std::any_of(calls.begin(), calls.end(), [](const StoreCall& call) {
    return call.operation == StoreOperation::kGet && call.key.starts_with("index/");
  }));
  EXPECT_TRUE(Locator().is_bound);
  EXPECT_EQ(Locator().files.size(), 1u);
  // All of the old places are in the new one.
  EXPECT_EQ(Increment({7, 9, 401}).result.mode_done, "incremental");
  EXPECT_FALSE(AsksFor("index/"));
}

TEST_F(IncrementMetadataTest, AnUnchangedVolumeCostsTheSameWhateverItsSize) {
  std::set<int64_t> requests;
  for (const int64_t tib : {1, 64}) {
    VolumeFixture volume;
    FakeBlockDevice device(tib << 40);
    device.Store(12345, "data");
    ExtentListSource source = AllocatedList({{.extent = {12345, 4}}});
    UploadOptions options = Options();
    options.chunk_bytes = 0;
    const auto full = volume.Backup(device, source, options);
    ASSERT_THAT(full, IsOk());
    last_ = full->snapshot;
    const Cost cost = Measure(volume, device, {});
    EXPECT_EQ(cost.result.image_tree, full->image_tree);
    EXPECT_LE(cost.put_bytes + cost.got_bytes, 1 << 20);
    EXPECT_LE(cost.writes, 5);
    requests.insert(cost.requests);
  }
  EXPECT_EQ(requests.size(), 1u);
  EXPECT_LE(*requests.begin(), 12);
}

}  // namespace
}  // namespace csidelta::incremental::increment_metadata_test
