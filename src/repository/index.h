#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "repository/blob.h"

namespace csidelta::repository {

// One pack as an index file lists it.
struct IndexedPack {
  PackId id;
  std::vector<PackEntry> entries;
};

// The JSON of an index file. All blobs of a pack stand in one file.
std::string EncodeIndex(absl::Span<const IndexedPack> packs);

// Feeds `sink` each pack of an index file, one at a time. The argument is valid during the call.
// INVALID_ARGUMENT when malformed, beyond the limits of the format, or listing blobs that overlap
// 4 GiB; an error of `sink` is returned unchanged.
absl::Status DecodeIndex(absl::string_view json,
                         absl::FunctionRef<absl::Status(const IndexedPack&)> sink);

// Answers: in which packs does a blob lie? All copies count. Holds 48 bytes per copy and five
// to eleven more for the table. Filled by one thread, then read by any number: thread-compatible.
class BlobIndex {
 public:
  BlobIndex();
  ~BlobIndex();
  BlobIndex(BlobIndex&&) noexcept;
  BlobIndex& operator=(BlobIndex&&) noexcept;

  // Adds all blobs of a pack. A pack that was added already with the same blobs is left alone. With
  // other blobs they are added as well, since a copy proves itself when it is read, and the result
  // is DATA_LOSS naming the pack: such a repository is damaged. RESOURCE_EXHAUSTED beyond 2^31
  // packs or entries.
  absl::Status AddPack(const IndexedPack& pack);

  // Every copy, in no order; empty when there is none.
  std::vector<BlobLocation> Lookup(const BlobHandle& handle) const;
  bool Contains(const BlobHandle& handle) const;

  // Any copy; false when there is none.
  bool FindAny(const BlobHandle& handle, BlobLocation& location) const;

  // Calls `visit` for each copy, with the number that ForEach() would count up to at it and the
  // ordinal of its pack, until it returns false.
  void ForEachCopy(const BlobHandle& handle,
                   absl::FunctionRef<bool(uint32_t copy, uint32_t pack_ordinal)> visit) const;

  bool ContainsPack(const PackId& pack) const;

  // All packs, and all entries with the ordinal of their pack. In the order they were added.
  absl::Span<const PackId> packs() const;
  void ForEach(absl::FunctionRef<void(uint32_t pack_ordinal, const PackEntry&)> visit) const;

  int64_t entry_count() const;
  int64_t memory_bytes() const;

 private:
  struct State;

  absl::Status Append(const IndexedPack& pack);

  std::unique_ptr<State> state_;
};

}  // namespace csidelta::repository
