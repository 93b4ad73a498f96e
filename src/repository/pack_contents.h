#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "repository/blob.h"
#include "repository/index.h"

namespace csidelta::repository {

// Blobs of packs that are asked for at once: 64 MB. The index is by blob, so that each question
// takes a pass over all of it.
inline constexpr int64_t kBlobsPerPass = int64_t{1} << 20;

// How many of the first `pack_ordinals` to ask for at once; at least one.
inline std::size_t PacksOfPass(const BlobIndex& index, absl::Span<const uint32_t> pack_ordinals) {
  std::size_t packs = 1;
  int64_t blobs = index.info(pack_ordinals.front()).blobs;
  while (packs < pack_ordinals.size() &&
         (blobs += index.info(pack_ordinals[packs]).blobs) <= kBlobsPerPass) {
    ++packs;
  }
  return packs;
}

struct NumberedEntry {
  uint32_t copy = 0;  // Its number in the index.
  PackEntry entry;
};

// What the index lists in these packs, by the packs' ordinals, in the order of the index.
using PackContents = absl::flat_hash_map<uint32_t, std::vector<NumberedEntry>>;
inline absl::StatusOr<PackContents> ContentsOf(const BlobIndex& index,
                                               absl::Span<const uint32_t> pack_ordinals) {
  PackContents contents;
  for (const uint32_t pack : pack_ordinals) {
    contents[pack].reserve(index.info(pack).blobs);
  }
  RETURN_IF_ERROR(index.ForEach([&](const IndexedCopy& copy) {
    if (const auto found = contents.find(copy.pack_ordinal); found != contents.end()) {
      found->second.push_back({.copy = copy.number, .entry = copy.entry});
    }
  }));
  return contents;
}

}  // namespace csidelta::repository
