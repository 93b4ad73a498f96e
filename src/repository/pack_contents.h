#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "repository/blob.h"
#include "repository/index.h"

namespace csidelta::repository {

// Packs that are asked for at once: 130,000 blobs of ours, some ten MB. The index is by blob, so
// that each question takes a pass over all of it.
inline constexpr std::size_t kPacksPerPass = 4096;

struct NumberedEntry {
  uint32_t copy = 0;  // Its number in the index, as BlobIndex::ForEachCopy() has it.
  PackEntry entry;
};

// What the index lists in these packs, by the packs' ordinals, in the order of the index.
inline absl::flat_hash_map<uint32_t, std::vector<NumberedEntry>> ContentsOf(
    const BlobIndex& index, absl::Span<const uint32_t> pack_ordinals) {
  absl::flat_hash_map<uint32_t, std::vector<NumberedEntry>> contents;
  for (const uint32_t pack : pack_ordinals) {
    contents[pack];
  }
  uint32_t copy = 0;
  index.ForEach([&](uint32_t pack, const PackEntry& entry) {
    if (const auto found = contents.find(pack); found != contents.end()) {
      found->second.push_back({.copy = copy, .entry = entry});
    }
    ++copy;
  });
  return contents;
}

}  // namespace csidelta::repository
