#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "repository/blob.h"
#include "repository/id_set.h"

// Where the tree blobs of one repository snapshot of a volume lie, so that an increment finds those
// it needs without an index, and which objects the snapshot needs: sidecars. The places are only a
// cache: what they say may be stale, a blob's hash proves each hit, and a miss falls back to the
// index. The needs are a guard: where they are missing, they are unknown.
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

// The objects that a repository snapshot cannot do without. There may be more here than it needs,
// never fewer.
struct SnapshotNeeds {
  IdSet packs = {};        // of data and of trees
  IdSet index_files = {};  // all that list these packs, unless they were replaced since
  // When all of data/ was last listed, in whole seconds, and how many packs it had; that they are
  // more than so many is known where the listing ended early.
  absl::Time listed_at = absl::UnixEpoch();
  uint32_t packs_listed = 0;

  friend bool operator==(const SnapshotNeeds&, const SnapshotNeeds&) = default;
};

// What aux/v1/<snapshot id> says.
//
// Binary before compression and sealing, little-endian: "CSDL", u32 version 4, u32 files, u32
// level-1 shards, u32 leaf shards; 32 bytes of volume; the places of root, image tree and
// volume.json, each 32 bytes of pack (zeros where unknown), u32 offset, u32 sealed bytes, u32
// uncompressed bytes; per file 32 bytes; per shard u16 file, u16 sealed bytes, u32 offset; u32 1
// where the needs follow, else 0; u32 and u32 seconds since 1970 of the listing, the lower half
// first, u32 packs listed, and the sets of packs and of index files.
//
// Versions 2 and 3 have no volume. Version 2 ends behind the shards; in version 3 a sample of the
// packs follows, which says nothing of the others, and is not read. Neither they nor their shards
// were bound to their names: their places may be tried, for each blob proves itself, but what they
// say of packs is not known.
struct TreeLocator {
  // Whether it is one of version 4. If false, its needs are unknown.
  bool is_bound = false;
  Id volume = {};  // Its shards are sealed for it.
  std::optional<BlobLocation> root = {};
  std::optional<BlobLocation> image_tree = {};
  std::optional<BlobLocation> manifest = {};
  std::vector<Id> files = {};
  std::vector<ShardPosition> level1_shards = {};
  std::vector<ShardPosition> leaf_shards = {};
  std::optional<SnapshotNeeds> needs = {};  // absent: unknown

  // The files that it names: of shards, and of its needs.
  void AddFilesTo(absl::flat_hash_set<Id>& files_named) const;

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
