#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "repository/blob.h"

// Where the tree blobs of one repository snapshot of a volume lie, so that an increment finds those
// it needs without an index: sidecars. Only a cache: what they say may be stale, a blob's
// hash proves each hit, and a miss falls back to the index.
//
// The trees are taken in shards of 32 neighbours: level-1 trees 0 ... 31 of the volume, 32 ... 63,
// and leaves likewise. A file aux/v1/trees/<id> holds the sealed shards that one backup made again,
// one after the other; aux/v1/<snapshot id> names for each shard the file it lies in. So a backup
// writes and reads no more than the shards of what it touches.
namespace csidelta::repository {

inline constexpr int64_t kShardTrees = 32;

// A tree below the image tree: a leaf or a level-1 tree, by its number in the volume.
struct TreePosition {
  bool is_leaf = false;
  int64_t number = 0;

  friend auto operator<=>(const TreePosition&, const TreePosition&) = default;
};

// The places of 32 trees; absent where unknown.
//
// Binary before sealing, little-endian: u8 number of packs; 32 bytes for each; per tree u8 ordinal
// of its pack from 1, 0 where unknown, u32 offset, u32 sealed bytes, u32 uncompressed bytes.
struct LocatorShard {
  std::array<std::optional<BlobLocation>, kShardTrees> places = {};

  std::string Encode() const;
  // INVALID_ARGUMENT when malformed.
  static absl::StatusOr<LocatorShard> Decode(absl::string_view bytes);

  friend bool operator==(const LocatorShard&, const LocatorShard&) = default;
};

// Which part of which file a shard is.
struct ShardPosition {
  uint16_t file = 0;  // ordinal in `files` from 1; 0: there is no such shard
  uint16_t sealed_bytes = 0;
  uint32_t offset_bytes = 0;

  friend bool operator==(const ShardPosition&, const ShardPosition&) = default;
};

// Some of the packs that hold a chain's data, so that a backup can look whether they are there. All
// of them while they are few, then those with the first names, which as names are hashes is a
// sample.
struct PackSample {
  static constexpr std::size_t kMax = 1024;

  std::vector<PackId> packs = {};  // ascending
  uint32_t count = 0;              // of all

  void Add(const PackId& pack);

  friend bool operator==(const PackSample&, const PackSample&) = default;
};

// What aux/v1/<snapshot id> says.
//
// Binary before compression and sealing, little-endian: "CSDL", u32 version 4, u32 files, u32
// level-1 shards, u32 leaf shards; 32 bytes of volume; the places of root, image tree and
// volume.json, each 32 bytes of pack (zeros where unknown), u32 offset, u32 sealed bytes, u32
// uncompressed bytes; per file 32 bytes; per shard u16 file, u16 sealed bytes, u32 offset; u32 data
// packs, u32 of them in the sample, 32 bytes for each of these. Versions 2 and 3 have no volume,
// and version 2 ends before the sample. Neither they nor their shards were bound to their names:
// their places may be tried, for each blob proves itself, but what they say of packs is not known.
struct TreeLocator {
  // Whether it is one of version 4. If false, the packs that hold the data are unknown, not none.
  bool is_bound = false;
  Id volume = {};  // Its shards are sealed for it.
  std::optional<BlobLocation> root = {};
  std::optional<BlobLocation> image_tree = {};
  std::optional<BlobLocation> manifest = {};
  std::vector<Id> files = {};
  std::vector<ShardPosition> level1_shards = {};
  std::vector<ShardPosition> leaf_shards = {};
  PackSample data_packs = {};

  // The name that the shard which begins with a tree is sealed for.
  std::string ShardName(const TreePosition& first) const;

  // The shard that holds a tree; null where the volume has none.
  const ShardPosition* ShardOf(const TreePosition& position) const;

  // As version 4.
  std::string Encode() const;
  // INVALID_ARGUMENT when malformed.
  static absl::StatusOr<TreeLocator> Decode(absl::string_view bytes);

  friend bool operator==(const TreeLocator&, const TreeLocator&) = default;
};

}  // namespace csidelta::repository
