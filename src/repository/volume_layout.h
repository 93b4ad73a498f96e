#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/json.h"
#include "repository/blob.h"

// A volume as trees: layout 1. Pure functions.
//
//   /                     "image" (dir), "volume.json" (file)
//   /image                one dir per level-1 index, name %03x
//   /image/00a            one dir per leaf, name %02x
//   /image/00a/1f         one file "data": up to kLeafChunks chunk ids
//
// Chunk k covers the bytes [k * chunk_bytes, min((k + 1) * chunk_bytes, size)); the last one is
// short, never padded. Chunk k lies in leaf k / 256 at slot k % 256, leaf j in level-1 tree j /
// 256.
namespace csidelta::repository {

inline constexpr int kLayoutVersion = 1;
inline constexpr int64_t kLeafChunks = 256;
inline constexpr int64_t kFanout = 256;
inline constexpr int64_t kLevel1Max = 4096;
inline constexpr int64_t kLevel1Chunks = kLeafChunks * kFanout;

inline constexpr int64_t kChunkBytesMin = 256 << 10;
inline constexpr int64_t kChunkBytesMax = 4 << 20;
inline constexpr int64_t kSmallChunkVolumeBytesMax = int64_t{4} << 40;
inline constexpr char kImageName[] = "image";
inline constexpr char kManifestName[] = "volume.json";
inline constexpr char kDataName[] = "data";

// The geometry of one volume. A value.
class VolumeLayout {
 public:
  // INVALID_ARGUMENT unless size_bytes > 0, chunk_bytes is a power of two between the limits, and
  // the volume fits 4096 level-1 trees.
  static absl::StatusOr<VolumeLayout> Make(int64_t size_bytes, int64_t chunk_bytes);

  int64_t size_bytes() const { return size_bytes_; }
  int64_t chunk_bytes() const { return chunk_bytes_; }
  int64_t chunk_count() const { return (size_bytes_ + chunk_bytes_ - 1) / chunk_bytes_; }
  int64_t leaf_count() const { return (chunk_count() + kLeafChunks - 1) / kLeafChunks; }
  int64_t level1_count() const { return (leaf_count() + kFanout - 1) / kFanout; }

  int64_t ChunkOffset(int64_t chunk) const { return chunk * chunk_bytes_; }
  // Shorter for the last chunk only.
  int64_t ChunkLength(int64_t chunk) const {
    return std::min(chunk_bytes_, size_bytes_ - ChunkOffset(chunk));
  }
  // Chunks in a leaf, leaves in a level-1 tree: fewer in the last only.
  int64_t ChunksInLeaf(int64_t leaf) const {
    return std::min(kLeafChunks, chunk_count() - leaf * kLeafChunks);
  }
  int64_t LeavesInLevel1(int64_t level1) const {
    return std::min(kFanout, leaf_count() - level1 * kFanout);
  }
  // Bytes of the volume that a leaf covers.
  int64_t LeafBytes(int64_t leaf) const {
    const int64_t leaf_bytes = kLeafChunks * chunk_bytes_;
    return std::min(leaf_bytes, size_bytes_ - leaf * leaf_bytes);
  }

 private:
  VolumeLayout(int64_t size_bytes, int64_t chunk_bytes)
      : size_bytes_(size_bytes), chunk_bytes_(chunk_bytes) {}

  int64_t size_bytes_;
  int64_t chunk_bytes_;
};

inline int64_t SlotOfChunk(int64_t chunk) { return chunk % kLeafChunks; }
inline int64_t Level1OfLeaf(int64_t leaf) { return leaf / kFanout; }
inline int64_t IndexOfLeaf(int64_t leaf) { return leaf % kFanout; }

// For the first backup of a volume: 512 KiB up to 4 TiB, 1 MiB above.
inline int64_t DefaultChunkBytes(int64_t size_bytes) {
  return size_bytes <= kSmallChunkVolumeBytesMax ? 512 << 10 : 1 << 20;
}
inline bool IsLegalChunkBytes(int64_t chunk_bytes) {
  return chunk_bytes >= kChunkBytesMin && chunk_bytes <= kChunkBytesMax &&
         std::has_single_bit(static_cast<uint64_t>(chunk_bytes));
}

// "00a" and "1f".
std::string Level1Name(int64_t level1);
std::string LeafName(int64_t index_in_level1);

// The id of a chunk of zeros. REQUIRES a legal length.
const BlobId& ZeroChunkId(int64_t chunk_bytes);

// The tree of a whole leaf of zeros, and the level-1 tree of 256 such. REQUIRES a legal length.
const BlobId& ZeroLeafTreeId(int64_t chunk_bytes);
const BlobId& ZeroLevel1TreeId(int64_t chunk_bytes);

// The text of a leaf tree, a level-1 tree, the image tree, the root. Fast: a leaf takes about
// 10 microseconds, most of it hashing by the caller.
std::string EncodeLeafTree(absl::Span<const BlobId> chunks, int64_t leaf_bytes);
std::string EncodeLevel1Tree(absl::Span<const BlobId> leaves);
std::string EncodeImageTree(absl::Span<const BlobId> level1_trees);
std::string EncodeRootTree(const BlobId& image_tree, const BlobId& manifest_blob,
                           int64_t manifest_bytes);

// The way back. DATA_LOSS when the tree is anything but what the functions above write for this
// many children: other names, other order, other counts. (The text may be another's: restic may
// have written it again.)
absl::StatusOr<std::vector<BlobId>> DecodeLeafTree(absl::string_view text, int64_t chunks,
                                                   int64_t leaf_bytes);
absl::StatusOr<std::vector<BlobId>> DecodeLevel1Tree(absl::string_view text, int64_t leaves);
absl::StatusOr<std::vector<BlobId>> DecodeImageTree(absl::string_view text, int64_t level1_trees);

struct RootTree {
  BlobId image_tree;
  BlobId manifest_blob;
  int64_t manifest_bytes = 0;
};
absl::StatusOr<RootTree> DecodeRootTree(absl::string_view text);

// volume.json: everything that varies between two backups of equal data.
struct VolumeManifest {
  int64_t size_bytes = 0;
  int64_t chunk_bytes = 0;
  BlobId image_tree;
  std::string pvc_namespace;
  std::string pvc_name;
  std::string pvc_uid;
  std::string pv;
  std::string storage_class;
  std::string volume_mode;
  std::string fs_type;
  std::vector<std::string> access_modes;
  std::string csi_driver;
  std::string snapshot_handle;
  std::string change_id;
  std::string volume_handle;
  std::string snapshot_time;  // RFC 3339: when the driver cut it
  std::string source;         // "csi-metadata", "full-scan", …
  std::string kind;           // "full" or "incremental"
  std::string reason;         // why it is a full one; "" for an increment
  std::string parent_snapshot;
  int64_t extents_bytes = 0;
  int64_t read_bytes = 0;
  int64_t new_bytes = 0;
  int64_t zero_chunks = 0;
  std::string program;
  std::string created;  // RFC 3339
  Json unknown = Json::object();
};

inline constexpr int64_t kManifestBytesMax = 1 << 20;

std::string EncodeManifest(const VolumeManifest& manifest);
// INVALID_ARGUMENT when malformed; FAILED_PRECONDITION when layout, leaf_chunks or fanout are not
// supported. Size and chunk size satisfy VolumeLayout::Make() afterwards.
absl::StatusOr<VolumeManifest> DecodeManifest(absl::string_view json);

}  // namespace csidelta::repository
