#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/json_reader.h"
#include "repository/blob.h"
#include "repository/scratch.h"

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
// 4 GiB or are more than a pack's header can list; an error of `sink` is returned unchanged.
absl::Status DecodeIndex(absl::string_view json,
                         absl::FunctionRef<absl::Status(const IndexedPack&)> sink);
// The same, from a text that comes piece by piece. Memory: one pack's entries. An error of `json`
// is returned unchanged.
absl::Status DecodeIndex(JsonReader::More json,
                         absl::FunctionRef<absl::Status(const IndexedPack&)> sink);

// What an index says of one pack.
struct PackInfo {
  int64_t stored_bytes = 0;  // By its entries.
  uint32_t blobs = 0;
  bool has_data = false;
  bool has_tree = false;
  bool has_plain_tree = false;  // Uncompressed, as format version 1 had them.
};

// One copy of a blob, as the index has it.
struct IndexedCopy {
  uint32_t number = 0;  // Copies are numbered from 0, those of one blob in a row.
  uint32_t first = 0;   // The number of the first copy of this blob: the blob's own, so to speak.
  uint32_t pack_ordinal = 0;
  PackEntry entry;
};

// Answers: in which packs does a blob lie? All copies count, sorted by type (trees first) and id.
//
// Small ones lie in memory, 48 bytes a copy. Of one that outgrows ScratchOptions the trees, or as
// many as 32 MiB hold, stay in memory, and the rest is in a scratch file, of which a lookup reads
// one place: look up in ascending order where there are many. Packs are a table of their own, of a
// quarter of that limit, all in a scratch file when they outgrow it. Then memory is that, and 1
// byte for eight copies or packs.
//
// Made by BlobIndexBuilder and constant from then on: thread-safe. Where a status is returned, it
// is an error of the scratch file.
class BlobIndex {
 public:
  BlobIndex();
  ~BlobIndex();
  BlobIndex(BlobIndex&&) noexcept;
  BlobIndex& operator=(BlobIndex&&) noexcept;

  // The first copy, or nothing.
  absl::StatusOr<std::optional<IndexedCopy>> Find(const BlobHandle& handle) const;
  absl::StatusOr<std::optional<IndexedCopy>> FindTree(const BlobId& tree) const {
    return Find({.type = BlobType::kTree, .id = tree});
  }
  absl::StatusOr<bool> Contains(const BlobHandle& handle) const;
  // The first copy; false when none exists.
  absl::StatusOr<bool> FindAny(const BlobHandle& handle, BlobLocation& location) const;
  // Calls `visit` with each copy until it returns false.
  absl::Status ForEachCopyOf(const BlobHandle& handle,
                             absl::FunctionRef<bool(const IndexedCopy&)> visit) const;
  // Every copy; empty when none exists.
  absl::StatusOr<std::vector<BlobLocation>> Lookup(const BlobHandle& handle) const;

  // The copy of this number. REQUIRES that there is one.
  absl::StatusOr<PackEntry> EntryOf(uint32_t number) const;
  PackId PackAt(uint32_t pack_ordinal) const;
  BlobLocation LocationOf(const IndexedCopy& copy) const {
    return {.pack = PackAt(copy.pack_ordinal), .span = copy.entry.span};
  }

  // All copies, in order of their numbers.
  absl::Status ForEach(absl::FunctionRef<void(const IndexedCopy&)> visit) const;

  // All packs, in ascending order of their ids; one that is listed in two ways is here twice. An
  // element, like info(), may cost a read of the scratch file.
  class PackList;
  PackList packs() const;
  PackInfo info(uint32_t pack_ordinal) const;
  // Where in packs() it is; nothing when it is not.
  std::optional<uint32_t> FindPack(const PackId& pack) const;
  bool ContainsPack(const PackId& pack) const { return FindPack(pack).has_value(); }

  uint32_t pack_count() const;
  int64_t entry_count() const;
  int64_t memory_bytes() const;

  // Finds blobs in ascending order (by type, trees first, and id), reading each place once.
  class Cursor;

 private:
  friend class BlobIndexBuilder;
  struct State;

  std::unique_ptr<State> state_;
};

// The ids of an index's packs, by their ordinals. A value; outlived by the index.
class BlobIndex::PackList {
 public:
  class Iterator {
   public:
    Iterator(const BlobIndex* index, uint32_t at) : index_(index), at_(at) {}
    PackId operator*() const { return index_->PackAt(at_); }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return at_ != other.at_; }

   private:
    const BlobIndex* index_;
    uint32_t at_;
  };

  explicit PackList(const BlobIndex* index) : index_(index) {}
  std::size_t size() const { return static_cast<std::size_t>(index_->pack_count()); }
  PackId operator[](std::size_t ordinal) const {
    return index_->PackAt(static_cast<uint32_t>(ordinal));
  }
  Iterator begin() const { return {index_, 0}; }
  Iterator end() const { return {index_, index_->pack_count()}; }

 private:
  const BlobIndex* index_;
};
inline BlobIndex::PackList BlobIndex::packs() const { return PackList(this); }

class BlobIndex::Cursor {
 public:
  explicit Cursor(const BlobIndex& index);
  ~Cursor();

  // The first copy, or null; valid until the next call. REQUIRES that handles do not descend.
  absl::StatusOr<const IndexedCopy*> Find(const BlobHandle& handle);

 private:
  struct Window;
  const BlobIndex& index_;
  std::unique_ptr<Window> window_;
};

// Collects what index files list.
//
//   AddPack()* --> Build()
//
// AddPack() may be called by many threads; Build() once, after the last of them. `scratch` outlives
// the index.
class BlobIndexBuilder {
 public:
  explicit BlobIndexBuilder(ScratchSpace& scratch);
  ~BlobIndexBuilder();

  // Adds all blobs of a pack. RESOURCE_EXHAUSTED beyond 2^29 packs or 2^31 entries, and as
  // ScratchFile has it.
  absl::Status AddPack(const IndexedPack& pack);

  // A pack that was added twice with the same blobs is there once. With other blobs both are, since
  // a copy proves itself when it is read, and `listed_differently` (unless null) gets its id, of
  // 2^17 such packs: such a repository is damaged. Beside its tables it takes 4 bytes a pack.
  absl::StatusOr<BlobIndex> Build(std::vector<PackId>* listed_differently = nullptr);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace csidelta::repository
