// Backups of volumes from an attacker: an error that names the snapshot, and not a
// byte of the target is written that is not the volume's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "repository/blob_writer.h"
#include "tests/incremental/volume_fixture.h"
#include "tests/support/unproven.h"

namespace csidelta::incremental::hostile_volume_test {
namespace {

using repository::BlobId;
using repository::BlobType;
using repository::Id;
using support::FakeBlockDevice;
using support::IsOk;
using support::StatusIs;

constexpr int64_t kChunk = VolumeFixture::kChunk;
constexpr int64_t kSize = 3 * kChunk + 100;
constexpr int64_t kTargetBytes = 8 * kChunk;

// What a hostile hand seals: each part as honest as it is left.
struct Parts {
  std::vector<std::string> chunks;
  std::string leaf;
  std::string level1;
  std::string image;
  std::string manifest;
  std::string root;
};

class HostileVolumeTest : public testing::Test {
 protected:
  HostileVolumeTest() {
    FakeBlockDevice device(kSize);
    device.Store(0, RandomBytes(kSize, 7));
    image_ = device.Load(0, kSize);
    const auto backup = volume_.FullBackup(device);
    EXPECT_THAT(backup, IsOk());
    good_ = backup->snapshot;
  }

  Parts HonestParts() const {
    Parts parts;
    std::vector<BlobId> ids;
    for (int64_t at = 0; at < kSize; at += kChunk) {
      parts.chunks.push_back(
          image_.substr(static_cast<std::size_t>(at), static_cast<std::size_t>(kChunk)));
      ids.push_back(Id::Of(parts.chunks.back()));
    }
    parts.leaf = repository::EncodeLeafTree(ids, kSize);
    parts.level1 = repository::EncodeLevel1Tree({Id::Of(parts.leaf)});
    parts.image = repository::EncodeImageTree({Id::Of(parts.level1)});
    repository::VolumeManifest manifest;
    manifest.size_bytes = kSize;
    manifest.chunk_bytes = kChunk;
    manifest.image_tree = Id::Of(parts.image);
    parts.manifest = repository::EncodeManifest(manifest);
    return parts;
  }

  // Binds the parts together, from the leaf up, and seals them as a snapshot.
  Id Seal(Parts parts) {
    if (parts.root.empty()) {
      parts.root = repository::EncodeRootTree(Id::Of(parts.image), Id::Of(parts.manifest),
                                              std::ssize(parts.manifest));
    }
    repository::BlobWriter writer(volume_.ctx(), volume_.repository(), {});
    const auto add = [&](BlobType type, const std::string& text) {
      EXPECT_THAT(writer.AddBlob(type, Id::Of(text), text), IsOk());
    };
    for (const std::string& chunk : parts.chunks) {
      add(BlobType::kData, chunk);
    }
    add(BlobType::kData, parts.manifest);
    for (const std::string* tree : {&parts.leaf, &parts.level1, &parts.image, &parts.root}) {
      add(BlobType::kTree, *tree);
    }
    EXPECT_THAT(writer.Flush(), IsOk());
    repository::RepoSnapshot snapshot;
    snapshot.time = absl::FromUnixSeconds(1'800'000'000);
    snapshot.tree = Id::Of(parts.root);
    const auto id = volume_.repository().SaveSnapshot(volume_.ctx(), snapshot, support::Unproven());
    EXPECT_THAT(id, IsOk());
    return id.value_or(Id());
  }

  static void Rebind(Parts& parts) {
    parts.level1 = repository::EncodeLevel1Tree({Id::Of(parts.leaf)});
    parts.image = repository::EncodeImageTree({Id::Of(parts.level1)});
  }

  void ExpectRefused(const Parts& parts, const std::string& what) {
    const Id snapshot = Seal(parts);
    FakeBlockDevice target(kTargetBytes, 512, 0xA5);
    const absl::Status status = volume_.Restore(snapshot, target).status();
    EXPECT_THAT(status, testing::AnyOf(StatusIs(absl::StatusCode::kDataLoss),
                                       StatusIs(absl::StatusCode::kFailedPrecondition),
                                       StatusIs(absl::StatusCode::kNotFound),
                                       StatusIs(absl::StatusCode::kOutOfRange)))
        << what;
    // Zeros: what was to be kept back of a volume that says it is longer than its chunks.
    const std::string beside = target.Load(kSize, kTargetBytes - kSize);
    EXPECT_EQ(beside.find_first_not_of(std::string("\0\xA5", 2)), std::string::npos) << what;
  }

  VolumeFixture volume_;
  std::string image_;
  Id good_;
};

TEST_F(HostileVolumeTest, AManifestOfImpossibleNumbersIsNamed) {
  const std::string size = absl::StrCat("\"size_bytes\":", kSize);
  const std::string chunk = absl::StrCat("\"chunk_bytes\":", kChunk);
  using Change = std::pair<std::string, std::string>;
  for (const auto& [from, to] :
       std::vector<Change>{{size, "\"size_bytes\":-1"},
                           {size, "\"size_bytes\":0"},
                           {size, "\"size_bytes\":9223372036854775807"},
                           {size, "\"size_bytes\":9223372036854775808"},
                           {size, "\"size_bytes\":18446744073709551616"},
                           {size, "\"size_bytes\":1e300"},
                           {size, "\"size_bytes\":1e999"},
                           {size, "\"size_bytes\":NaN"},
                           {size, "\"size_bytes\":\"786532\""},
                           {size, absl::StrCat("\"size_bytes\":", int64_t{1} << 50)},
                           {size, absl::StrCat("\"size_bytes\":", kSize + kChunk)},
                           {size, absl::StrCat("\"size_bytes\":", kSize - 1)},
                           {chunk, "\"chunk_bytes\":0"},
                           {chunk, "\"chunk_bytes\":-262144"},
                           {chunk, "\"chunk_bytes\":1"},
                           {chunk, "\"chunk_bytes\":262145"},
                           {chunk, "\"chunk_bytes\":8388608"},
                           {chunk, "\"chunk_bytes\":524288"},
                           {chunk, "\"chunk_bytes\":4611686018427387904"},
                           {"\"layout\":1", "\"layout\":2"},
                           {"\"leaf_chunks\":256", "\"leaf_chunks\":0"},
                           {"\"fanout\":256", "\"fanout\":-1"},
                           {"\"image_tree\":\"", "\"image_tree\":\"x"}}) {
    Parts parts = HonestParts();
    parts.manifest = absl::StrReplaceAll(parts.manifest, {{from, to}});
    ASSERT_TRUE(absl::StrContains(parts.manifest, to));
    ExpectRefused(parts, to);
    const Id snapshot = Seal(parts);
    const auto record =
        OpenVolumeRecord(volume_.ctx(), volume_.repository(), volume_.Stored(snapshot));
    EXPECT_TRUE(record.ok() || absl::StrContains(record.status().message(), snapshot.ShortHex()))
        << record.status();
  }
  volume_.ExpectRestores(good_, image_);
}

TEST_F(HostileVolumeTest, SizesThatDoNotAddUpWriteNothingBesideTheVolume) {
  const Parts honest = HonestParts();
  const auto id_of = [&](std::size_t i) { return Id::Of(honest.chunks[i]); };
  // A long chunk where a short one belongs and the other way round.
  for (const std::vector<BlobId>& ids :
       {std::vector<BlobId>{id_of(0), id_of(1), id_of(2), id_of(0)},
        std::vector<BlobId>{id_of(3), id_of(1), id_of(2), id_of(3)},
        std::vector<BlobId>{id_of(0), id_of(1), id_of(2), Id::Of(honest.manifest)},
        std::vector<BlobId>{id_of(0), id_of(1), id_of(2), Id::Of("not stored")},
        std::vector<BlobId>{id_of(0), id_of(1), id_of(2), Id::Of(honest.leaf)},
        std::vector<BlobId>{id_of(0), id_of(1), id_of(2), repository::ZeroChunkId(kChunk)}}) {
    Parts parts = honest;
    parts.leaf = repository::EncodeLeafTree(ids, kSize);
    Rebind(parts);
    ExpectRefused(parts, ids.back().Hex());
  }
  // Too few and too many, and other names.
  const std::vector<BlobId> few = {id_of(0), id_of(1)};
  const std::vector<BlobId> many(200, id_of(0));
  for (const std::string& leaf :
       {repository::EncodeLeafTree(few, kSize), repository::EncodeLeafTree(many, kSize),
        repository::EncodeLeafTree(few, 2 * kChunk), repository::EncodeLevel1Tree(few),
        absl::StrReplaceAll(honest.leaf, {{"\"data\"", "\"../../data\""}}),
        absl::StrReplaceAll(honest.leaf, {{"\"data\"", "\"data\\u0000\""}}),
        absl::StrReplaceAll(honest.leaf, {{absl::StrCat(kSize), "9223372036854775808"}})}) {
    Parts parts = honest;
    parts.leaf = leaf;
    Rebind(parts);
    ExpectRefused(parts, leaf.substr(0, 200));
  }
  for (const std::string& level1 :
       {repository::EncodeLevel1Tree(many), repository::EncodeImageTree({Id::Of(honest.leaf)}),
        honest.leaf, std::string("{\"nodes\":[]}\n")}) {
    Parts parts = honest;
    parts.level1 = level1;
    parts.image = repository::EncodeImageTree({Id::Of(level1)});
    ExpectRefused(parts, level1.substr(0, 200));
  }
  // A tree that stands for whole leaves of zeros where the volume has none.
  for (const BlobId& tree :
       {repository::ZeroLevel1TreeId(kChunk), repository::ZeroLeafTreeId(kChunk)}) {
    Parts parts = honest;
    parts.image = repository::EncodeImageTree({tree});
    ExpectRefused(parts, tree.Hex());
    parts.level1 = repository::EncodeLevel1Tree({tree});
    parts.image = repository::EncodeImageTree({Id::Of(parts.level1)});
    ExpectRefused(parts, tree.Hex());
  }
  volume_.ExpectRestores(good_, image_);
}

TEST_F(HostileVolumeTest, ARootOfManyEntriesIsReadNoFurtherThanItCounts) {
  Parts parts = HonestParts();
  parts.root = "{\"nodes\":[";
  for (int i = 0; i < 200'000; ++i) {
    absl::StrAppend(&parts.root, i == 0 ? "" : ",", "{\"name\":\"", absl::Dec(i, absl::kZeroPad6),
                    "\"}");
  }
  parts.root += "]}\n";
  ExpectRefused(parts, "wide");
  parts.root = "{\"nodes\":[{}";
  for (int i = 0; i < 1'000'000; ++i) {
    parts.root += ",{}";
  }
  parts.root += "]}\n";
  ExpectRefused(parts, "empty");
}

// Two entries of one blob, of which the first lies about a length so that it fits the chunk, and
// the second is right.
TEST_F(HostileVolumeTest, AnIndexThatGivesABlobTwoLengthsIsDamage) {
  Parts parts = HonestParts();
  const std::string small = "short";
  parts.chunks.push_back(small);
  parts.leaf = repository::EncodeLeafTree(
      {Id::Of(parts.chunks[0]), Id::Of(parts.chunks[1]), Id::Of(parts.chunks[2]), Id::Of(small)},
      kSize);
  Rebind(parts);
  const Id snapshot = Seal(parts);
  volume_.Reopen();
  ASSERT_THAT(volume_.repository().LoadIndex(volume_.ctx()), IsOk());
  const repository::BlobIndex& index = volume_.repository().index();
  std::map<repository::PackId, std::vector<repository::PackEntry>> entries;
  const absl::Status visited = index.ForEach([&](const repository::IndexedCopy& copy) {
    std::vector<repository::PackEntry>& blobs = entries[index.PackAt(copy.pack_ordinal)];
    if (copy.entry.handle.id == Id::Of(small)) {
      blobs.push_back(copy.entry);
      blobs.back().span.uncompressed_bytes = 100;
      blobs.back().span.offset_bytes = 0;  // Before the truth, which lies further back.
    }
    blobs.push_back(copy.entry);
  });
  ASSERT_THAT(visited, IsOk());
  std::vector<repository::IndexedPack> packs;
  for (const auto& [pack, blobs] : entries) {
    packs.push_back({.id = pack, .entries = blobs});
  }
  for (const auto& [key, bytes] : volume_.store().objects()) {
    if (key.starts_with("index/")) {
      volume_.store().RemoveObject(key);
    }
  }
  ASSERT_THAT(volume_.repository().SaveFile(volume_.ctx(), repository::FileKind::kIndex,
                                            repository::EncodeIndex(packs)),
              IsOk());
  FakeBlockDevice target(kTargetBytes, 512, 0xA5);
  EXPECT_THAT(volume_.Restore(snapshot, target).status(), StatusIs(absl::StatusCode::kDataLoss));
  volume_.ExpectRestores(good_, image_);
}

// A locator is proven by the hashes of what it leads to.
TEST_F(HostileVolumeTest, ALocatorThatLiesIsHarmless) {
  const auto honest = volume_.repository().LoadLocator(volume_.ctx(), good_);
  ASSERT_THAT(honest, IsOk());
  ASSERT_TRUE(honest->image_tree.has_value());
  const repository::BlobLocation other = *honest->image_tree;
  repository::BlobLocation beyond = other;
  beyond.span.offset_bytes = 4'000'000'000;
  repository::BlobLocation huge = other;
  huge.span.sealed_bytes = 4'000'000'000;
  repository::BlobLocation bomb = other;
  bomb.span.uncompressed_bytes = 4'000'000'000;
  repository::BlobLocation nowhere = other;
  nowhere.pack = Id::Of("no pack");
  for (const repository::BlobLocation& lie : {other, beyond, huge, bomb, nowhere}) {
    repository::LocatorShard shard;
    shard.places.fill(lie);
    const std::string sealed = volume_.repository().MakeCodec()->sealer().Seal(shard.Encode());
    const auto file = volume_.repository().SaveLocatorFile(volume_.ctx(), sealed);
    ASSERT_THAT(file, IsOk());
    const repository::ShardPosition place = {
        .file = 1, .sealed_bytes = static_cast<uint16_t>(sealed.size()), .offset_bytes = 0};
    repository::ShardPosition past_the_end = place;
    past_the_end.offset_bytes = 4'000'000'000;
    for (const repository::ShardPosition& shard_place : {place, past_the_end}) {
      const repository::TreeLocator locator = {.root = lie,
                                               .image_tree = lie,
                                               .manifest = lie,
                                               .files = {*file},
                                               .level1_shards = {shard_place},
                                               .leaf_shards = {shard_place}};
      ASSERT_THAT(volume_.repository().store().Delete(volume_.ctx(), repository::SidecarKey(good_)),
                  IsOk());
      ASSERT_THAT(volume_.repository().SaveLocator(volume_.ctx(), good_, locator), IsOk());
      volume_.ExpectRestores(good_, image_);
    }
  }
}

}  // namespace
}  // namespace csidelta::incremental::hostile_volume_test
