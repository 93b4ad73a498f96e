#pragma once

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "repository/blob.h"

namespace csidelta::repository {

// Where the tree blobs of one repository snapshot lie, so that an increment finds them without an
// index: the sidecar aux/v1/<snapshot id>. A cache only: entries may be stale, a blob's hash proves
// each hit, and a miss falls back to the index. Thread-compatible.
//
// Binary, before compression and sealing, little-endian: "CSDL", u32 version 1, u32 packs, u32
// trees; per pack 32 bytes; per tree, ascending by id: 32 bytes, u32 pack ordinal, u32 offset, u32
// sealed bytes, u32 uncompressed bytes.
class TreeLocator {
 public:
  // A tree that is there already is replaced.
  void Add(const BlobId& tree, const BlobLocation& location);

  // False when unknown.
  bool Find(const BlobId& tree, BlobLocation& location) const;

  std::size_t size() const { return places_.size(); }

  std::string Encode() const;
  // INVALID_ARGUMENT when malformed or too large.
  static absl::StatusOr<TreeLocator> Decode(absl::string_view bytes);

  // Drops every tree that `keep` does not name, so that a chain's locator does not grow for ever.
  void KeepOnly(absl::FunctionRef<bool(const BlobId&)> keep);

 private:
  absl::flat_hash_map<BlobId, BlobLocation> places_;
};

}  // namespace csidelta::repository
