#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/memory_budget.h"
#include "base/status_macros.h"
#include "repository/blob.h"
#include "repository/index.h"
#include "repository/maintenance_memory.h"

namespace csidelta::repository {

// How many of the first `pack_ordinals` to ask for at once, with BlobsPerPass() in all or a single
// pack. The index is by blob, so that each question takes a pass over all of it.
inline std::size_t PacksOfPass(const BlobIndex& index, absl::Span<const uint32_t> pack_ordinals,
                               int64_t blobs_max) {
  std::size_t packs = 1;
  int64_t blobs = index.info(pack_ordinals.front()).blobs;
  while (packs < pack_ordinals.size() &&
         (blobs += index.info(pack_ordinals[packs]).blobs) <= blobs_max) {
    ++packs;
  }
  return packs;
}

struct NumberedEntry {
  uint32_t copy = 0;  // Its number in the index.
  PackEntry entry;
};

// What the index lists in packs, by the packs' ordinals, in the order of the index; and the memory
// that it holds, with a list of these blobs to fetch.
using PackContents = absl::flat_hash_map<uint32_t, std::vector<NumberedEntry>>;
struct HeldContents {
  PackContents contents = {};
  MemoryBudget::Share share = {};
};
inline absl::StatusOr<HeldContents> TakeContents(MemoryBudget& memory, const BlobIndex& index,
                                                 absl::Span<const uint32_t> pack_ordinals) {
  HeldContents held;
  int64_t blobs = 0;
  for (const uint32_t pack : pack_ordinals) {
    blobs += index.info(pack).blobs;
  }
  ASSIGN_OR_RETURN(held.share, memory.Take(blobs * kPassBytesPerBlob, "the lists of packs"));
  for (const uint32_t pack : pack_ordinals) {
    held.contents[pack].reserve(index.info(pack).blobs);
  }
  RETURN_IF_ERROR(index.ForEach([&](const IndexedCopy& copy) {
    const auto found = held.contents.find(copy.pack_ordinal);
    if (found != held.contents.end()) {
      found->second.push_back({.copy = copy.number, .entry = copy.entry});
    }
  }));
  return held;
}

// Puts the blobs of a pack in the order of the pack, which an index need not have, and returns
// them.
inline std::vector<PackEntry> SortByOffset(std::vector<NumberedEntry>& indexed) {
  std::sort(indexed.begin(), indexed.end(),
            [](const NumberedEntry& left, const NumberedEntry& right) {
              return left.entry.span.offset_bytes < right.entry.span.offset_bytes;
            });
  std::vector<PackEntry> entries;
  entries.reserve(indexed.size());
  for (const NumberedEntry& numbered : indexed) {
    entries.push_back(numbered.entry);
  }
  return entries;
}

}  // namespace csidelta::repository
