#include "repository/volume_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "tests/support/status_matchers.h"

namespace csidelta::repository::volume_layout_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using support::StatusIs;

constexpr int64_t kKiB = 1 << 10;
constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kTiB = int64_t{1} << 40;

TEST(VolumeLayoutTest, TheIdsOfTheVectors) {
  for (int64_t chunk_bytes = kChunkBytesMin; chunk_bytes <= kChunkBytesMax; chunk_bytes *= 2) {
    EXPECT_EQ(ZeroChunkId(chunk_bytes),
              Id::Of(std::string(static_cast<std::size_t>(chunk_bytes), 0)));
  }
  const std::vector<BlobId> chunks(kLeafChunks, ZeroChunkId(512 * kKiB));
  const std::string leaf = EncodeLeafTree(chunks, 128 * kMiB);
  EXPECT_EQ(leaf.size(), 17343U);
  EXPECT_EQ(ZeroLeafTreeId(512 * kKiB).Hex(),
            "21295a623178aae0f804d97d7772f70be2830d9dbf690efe12a1af0c4f3f6cca");
  EXPECT_EQ(ZeroLeafTreeId(kMiB).Hex(),
            "2a1e7bd4d6e32db9d1d42bb708bba2d01ea868515c302ec5fb3c023220c5eacc");
  const std::vector<BlobId> leaves(kFanout, ZeroLeafTreeId(512 * kKiB));
  EXPECT_EQ(EncodeLevel1Tree(leaves).size(), 62988U);
  EXPECT_EQ(ZeroLevel1TreeId(512 * kKiB).Hex(),
            "ee84ebeed1361e2b1edcb221f5e64307edc6128bd9dbb394036f4dd0381effae");
  EXPECT_EQ(ZeroLevel1TreeId(kMiB).Hex(),
            "685ed96f7ae426b0c678ec842bfa176acb5aaf6d107d4c71bfe4c7cb19dd0ca3");
}

struct Geometry {
  int64_t size_bytes;
  int64_t chunk_bytes;
  int64_t chunks;
  int64_t leaves;
  int64_t level1;
  int64_t last_chunk_bytes;
};

TEST(VolumeLayoutTest, Geometry) {
  const int64_t c = 512 * kKiB;
  for (const Geometry& g : std::vector<Geometry>{{1, c, 1, 1, 1, 1},
                                                 {c - 1, c, 1, 1, 1, c - 1},
                                                 {c, c, 1, 1, 1, c},
                                                 {c + 1, c, 2, 1, 1, 1},
                                                 {256 * c - 1, c, 256, 1, 1, c - 1},
                                                 {256 * c, c, 256, 1, 1, c},
                                                 {256 * c + 1, c, 257, 2, 1, 1},
                                                 {65536 * c, c, 65536, 256, 1, c},
                                                 {65536 * c + 1, c, 65537, 257, 2, 1},
                                                 {64 * kTiB, kMiB, 1 << 26, 1 << 18, 1024, kMiB},
                                                 {128 * kTiB, c, 1 << 28, 1 << 20, 4096, c}}) {
    const absl::StatusOr<VolumeLayout> layout = VolumeLayout::Make(g.size_bytes, g.chunk_bytes);
    ASSERT_THAT(layout, IsOk()) << g.size_bytes;
    EXPECT_EQ(layout->chunk_count(), g.chunks);
    EXPECT_EQ(layout->leaf_count(), g.leaves);
    EXPECT_EQ(layout->level1_count(), g.level1);
    EXPECT_EQ(layout->ChunkLength(g.chunks - 1), g.last_chunk_bytes);
    int64_t bytes = 0;
    for (int64_t leaf = std::max<int64_t>(0, g.leaves - 3); leaf < g.leaves; ++leaf) {
      bytes += layout->LeafBytes(leaf);
    }
    EXPECT_EQ(bytes, g.size_bytes - std::max<int64_t>(0, g.leaves - 3) * 256 * g.chunk_bytes);
    EXPECT_EQ(layout->ChunksInLeaf(g.leaves - 1), g.chunks - (g.leaves - 1) * 256);
    EXPECT_EQ(layout->LeavesInLevel1(g.level1 - 1), g.leaves - (g.level1 - 1) * 256);
  }
}

TEST(VolumeLayoutTest, RefusesImpossibleGeometry) {
  for (const int64_t size_bytes : {int64_t{0}, int64_t{-1}, 128 * kTiB + 1, INT64_MAX, INT64_MIN}) {
    EXPECT_THAT(VolumeLayout::Make(size_bytes, 512 * kKiB),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  for (const int64_t chunk_bytes :
       {int64_t{0}, int64_t{-1}, 128 * kKiB, 8 * kMiB, 300 * kKiB, INT64_MAX, INT64_MIN}) {
    EXPECT_THAT(VolumeLayout::Make(kMiB, chunk_bytes),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

TEST(VolumeLayoutTest, ChunkSizeOfANewChain) {
  EXPECT_EQ(DefaultChunkBytes(1), 512 * kKiB);
  EXPECT_EQ(DefaultChunkBytes(4 * kTiB), 512 * kKiB);
  EXPECT_EQ(DefaultChunkBytes(4 * kTiB + 1), kMiB);
  EXPECT_THAT(VolumeLayout::Make(64 * kTiB, DefaultChunkBytes(64 * kTiB)), IsOk());
}

std::vector<BlobId> TestIds(int count) {
  std::vector<BlobId> ids;
  for (int i = 0; i < count; ++i) {
    ids.push_back(Id::Of(std::to_string(i)));
  }
  return ids;
}

TEST(VolumeLayoutTest, TreesComeBack) {
  for (const int count : {1, 2, 17, 255, 256}) {
    const std::vector<BlobId> ids = TestIds(count);
    EXPECT_THAT(DecodeLeafTree(EncodeLeafTree(ids, 12345), count, 12345), IsOkAndHolds(ids));
    EXPECT_THAT(DecodeLevel1Tree(EncodeLevel1Tree(ids), count), IsOkAndHolds(ids));
  }
  const std::vector<BlobId> many = TestIds(4096);
  EXPECT_THAT(DecodeImageTree(EncodeImageTree(many), 4096), IsOkAndHolds(many));
  const absl::StatusOr<RootTree> root =
      DecodeRootTree(EncodeRootTree(Id::Of("image"), Id::Of("manifest"), 77));
  ASSERT_THAT(root, IsOk());
  EXPECT_EQ(root->image_tree, Id::Of("image"));
  EXPECT_EQ(root->manifest_blob, Id::Of("manifest"));
  EXPECT_EQ(root->manifest_bytes, 77);
}

TEST(VolumeLayoutTest, RefusesOtherTrees) {
  const std::vector<BlobId> ids = TestIds(3);
  const std::string leaf = EncodeLeafTree(ids, 99);
  const std::string level1 = EncodeLevel1Tree(ids);
  const std::string image = EncodeImageTree(ids);
  const std::string root = EncodeRootTree(ids[0], ids[1], 5);
  const auto is_damage = StatusIs(absl::StatusCode::kDataLoss);
  EXPECT_THAT(DecodeLeafTree(leaf, 2, 99), is_damage);
  EXPECT_THAT(DecodeLeafTree(leaf, 4, 99), is_damage);
  EXPECT_THAT(DecodeLeafTree(leaf, 3, 98), is_damage);
  EXPECT_THAT(DecodeLeafTree(level1, 3, 99), is_damage);
  EXPECT_THAT(DecodeLeafTree(absl::StrReplaceAll(leaf, {{"data", "date"}}), 3, 99), is_damage);
  EXPECT_THAT(DecodeLevel1Tree(level1, 2), is_damage);
  EXPECT_THAT(DecodeLevel1Tree(level1, 4), is_damage);
  EXPECT_THAT(DecodeLevel1Tree(image, 3), is_damage);
  EXPECT_THAT(DecodeLevel1Tree(absl::StrReplaceAll(level1, {{"\"01\"", "\"03\""}}), 3), is_damage);
  EXPECT_THAT(DecodeImageTree(level1, 3), is_damage);
  EXPECT_THAT(DecodeRootTree(image), is_damage);
  EXPECT_THAT(DecodeRootTree(absl::StrReplaceAll(root, {{"\"size\":5", "\"size\":2000000"}})),
              is_damage);
  EXPECT_THAT(DecodeRootTree(absl::StrReplaceAll(root, {{"volume.json", "volume.xml"}})),
              is_damage);
}

VolumeManifest TestManifest() {
  VolumeManifest manifest;
  manifest.size_bytes = 12'345'678;
  manifest.chunk_bytes = 512 * kKiB;
  manifest.image_tree = Id::Of("image");
  manifest.pvc_namespace = "shop";
  manifest.pvc_name = "db-0";
  manifest.pvc_uid = "1-2-3";
  manifest.snapshot_handle = "snap <1>";
  manifest.access_modes = {"ReadWriteOnce", "ReadOnlyMany"};
  manifest.kind = "full";
  manifest.read_bytes = 42;
  manifest.unknown["later"] = {1, 2};
  return manifest;
}

TEST(VolumeManifestTest, ComesBack) {
  const std::string text = EncodeManifest(TestManifest());
  const absl::StatusOr<VolumeManifest> read = DecodeManifest(text);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(EncodeManifest(*read), text);
  EXPECT_EQ(read->size_bytes, 12'345'678);
  EXPECT_EQ(read->image_tree, Id::Of("image"));
  EXPECT_EQ(read->pvc_name, "db-0");
  EXPECT_EQ(read->snapshot_handle, "snap <1>");
  EXPECT_EQ(read->read_bytes, 42);
  EXPECT_EQ(read->access_modes.size(), 2U);
}

TEST(VolumeManifestTest, RefusesWhatDoesNotFit) {
  const std::string text = EncodeManifest(TestManifest());
  const auto changed = [&](const char* from, const char* to) {
    const std::string result = absl::StrReplaceAll(text, {{from, to}});
    EXPECT_NE(result, text) << from;
    return DecodeManifest(result);
  };
  const auto unknown = StatusIs(absl::StatusCode::kFailedPrecondition);
  const auto malformed = StatusIs(absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(changed("\"layout\":1", "\"layout\":2"), unknown);
  EXPECT_THAT(changed("\"leaf_chunks\":256", "\"leaf_chunks\":255"), unknown);
  EXPECT_THAT(changed("\"fanout\":256", "\"fanout\":0"), unknown);
  EXPECT_THAT(changed("12345678", "-1"), malformed);
  EXPECT_THAT(changed("12345678", "9223372036854775807"), malformed);
  EXPECT_THAT(changed("524288", "524289"), malformed);
  EXPECT_THAT(changed("\"image_tree\":\"", "\"image_tree\":\"z"), malformed);
  EXPECT_THAT(DecodeManifest(""), malformed);
  EXPECT_THAT(DecodeManifest("[]"), malformed);
  EXPECT_THAT(DecodeManifest(std::string(2 << 20, ' ')), malformed);
}

}  // namespace
}  // namespace csidelta::repository::volume_layout_test
