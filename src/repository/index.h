#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/json_reader.h"
#include "repository/blob.h"
#include "repository/record_sorter.h"
#include "repository/scratch.h"
#include "repository/sorted_table.h"

namespace csidelta::repository {

// One pack as an index file lists it.
struct IndexedPack {
  PackId id;
  std::vector<PackEntry> entries;
};

// The JSON of an index file. All blobs of a pack stand in one file.
std::string EncodeIndex(absl::Span<const IndexedPack> packs);

// Feeds `sink` each pack of an index file, one at a time, from a text that comes piece by piece.
// The argument is valid during the call. INVALID_ARGUMENT when malformed, beyond the limits of the
// format, or listing blobs that overlap 4 GiB or are more than a pack's header can list; an error
// of `json` or `sink` is returned unchanged. Memory: one pack's entries.
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
  // The first copy, or nothing.
  absl::StatusOr<std::optional<IndexedCopy>> Find(const BlobHandle& handle) const;
  absl::StatusOr<std::optional<IndexedCopy>> FindTree(const BlobId& tree) const {
    return Find({.type = BlobType::kTree, .id = tree});
  }
  // Calls `visit` with each copy until it returns false.
  absl::Status ForEachCopyOf(const BlobHandle& handle,
                             absl::FunctionRef<bool(const IndexedCopy&)> visit) const;
  // Every copy; empty when none exists.
  absl::StatusOr<std::vector<BlobLocation>> Lookup(const BlobHandle& handle) const;

  // The copy of this number. REQUIRES that there is one.
  absl::StatusOr<PackEntry> EntryOf(uint32_t number) const;
  BlobLocation LocationOf(const IndexedCopy& copy) const {
    return {.pack = PackAt(copy.pack_ordinal), .span = copy.entry.span};
  }

  // All copies, in order of their numbers.
  absl::Status ForEach(absl::FunctionRef<void(const IndexedCopy&)> visit) const;

  // Packs ascend with their ids; one that is listed in two ways is here twice. May cost a read of
  // the scratch file.
  PackId PackAt(uint32_t pack_ordinal) const { return Pack(pack_ordinal).id; }
  PackInfo info(uint32_t pack_ordinal) const;
  // The first ordinal of a pack; nothing when it is not listed.
  std::optional<uint32_t> FindPack(const PackId& pack) const;
  // The first whose id is not less; pack_count() if there is none.
  uint32_t FirstPackFrom(const PackId& least) const;
  // Their copies have the first numbers.
  absl::StatusOr<uint32_t> CountTrees() const;

  uint32_t pack_count() const { return static_cast<uint32_t>(packs_.size()); }
  int64_t entry_count() const { return static_cast<int64_t>(copies_.size()); }
  int64_t memory_bytes() const { return copies_.memory_bytes() + packs_.memory_bytes(); }

  // Finds blobs in ascending order (by type, trees first, and id), reading each place once.
  class Cursor;

 private:
  friend class BlobIndexBuilder;

  // One copy of a blob. Not a PackEntry with a pack's id: that would take twice the memory.
  struct Copy {
    static constexpr uint32_t kTreeBit = uint32_t{1} << 31;
    BlobId id;
    uint32_t pack_and_type = 0;  // Pack's ordinal; the top bit says tree.
    BlobSpan span;

    BlobType type() const {
      return (pack_and_type & kTreeBit) != 0 ? BlobType::kTree : BlobType::kData;
    }
    uint32_t pack() const { return pack_and_type & ~kTreeBit; }
    BlobHandle handle() const { return {.type = type(), .id = id}; }
    PackEntry entry() const { return {.handle = handle(), .span = span}; }
    uint64_t SortPrefix() const { return PrefixOf(handle()); }
    // Ascends with type (trees first) and id.
    static uint64_t PrefixOf(const BlobHandle& handle) {
      return handle.id.OrderedPrefix64() >> 1 |
             (handle.type == BlobType::kData ? uint64_t{1} << 63 : 0);
    }

    // By blob.
    bool IsBefore(const BlobHandle& other) const {
      return type() != other.type ? type() == BlobType::kTree : id < other.id;
    }
    bool Is(const BlobHandle& other) const { return id == other.id && type() == other.type; }

    friend bool operator<(const Copy& a, const Copy& b) {
      const uint64_t left = a.SortPrefix();
      const uint64_t right = b.SortPrefix();
      if (left != right) {
        return left < right;
      }
      if (!a.Is(b.handle())) {
        return a.IsBefore(b.handle());
      }
      return std::pair(a.pack(), a.span.offset_bytes) < std::pair(b.pack(), b.span.offset_bytes);
    }
  };
  static_assert(sizeof(Copy) == 48);

  // What index files list of one pack.
  struct PackRow {
    PackId id;
    uint64_t fingerprint = 0;  // Of what is listed.
    int64_t stored_bytes = 0;
    uint32_t blobs = 0;
    uint32_t ordinal_and_kinds = 0;  // In the order of AddPack(); kinds are in the top bits.

    uint64_t SortPrefix() const { return id.OrderedPrefix64(); }
    friend bool operator<(const PackRow& a, const PackRow& b) {
      return std::tie(a.id, a.fingerprint, a.ordinal_and_kinds) <
             std::tie(b.id, b.fingerprint, b.ordinal_and_kinds);
    }
    bool ListsTheSame(const PackRow& other) const {
      return id == other.id && fingerprint == other.fingerprint;
    }
  };
  static_assert(sizeof(PackRow) == 56);

  static IndexedCopy CopyAt(std::size_t number, std::size_t first, const Copy& copy);
  absl::StatusOr<std::size_t> LowerBound(const BlobHandle& handle, std::vector<Copy>& buffer) const;
  PackRow Pack(std::size_t ordinal) const;

  SortedTable<PackRow> packs_;
  SortedTable<Copy> copies_;
};

class BlobIndex::Cursor {
 public:
  explicit Cursor(const BlobIndex& index) : index_(index) {}

  // The first copy, or null; valid until the next call. REQUIRES that handles do not descend.
  absl::StatusOr<const IndexedCopy*> Find(const BlobHandle& handle);

 private:
  const BlobIndex& index_;
  // Copies [begin, begin + length), where the last answer was.
  std::size_t begin_ = 0;
  std::size_t length_ = 0;
  const Copy* copies_ = nullptr;
  std::vector<Copy> buffer_;
  IndexedCopy answer_;
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

  // Adds all blobs of a pack. RESOURCE_EXHAUSTED beyond 2^29 packs or 2^31 entries, and as
  // ScratchFile has it.
  absl::Status AddPack(const IndexedPack& pack);

  // A pack that was added twice with the same blobs is there once. With other blobs both are, since
  // a copy proves itself when it is read, and `listed_differently` (unless null) gets its id, of
  // 2^17 such packs: such a repository is damaged. Beside its tables it takes 4 bytes a pack.
  absl::StatusOr<BlobIndex> Build(std::vector<PackId>* listed_differently = nullptr);

 private:
  using Copy = BlobIndex::Copy;
  using PackRow = BlobIndex::PackRow;

  static PackRow RowOf(const IndexedPack& pack);
  // Sorts the packs; returns where each is, by its number in the order of AddPack().
  absl::StatusOr<std::vector<uint32_t>> BuildPacks(SortedTable<PackRow>& out,
                                                   std::vector<PackId>* listed_differently);

  ScratchSpace& scratch_;
  const int64_t table_bytes_;
  RecordSorter<Copy> sorter_;
  RecordSorter<PackRow> pack_sorter_;
  std::atomic<uint32_t> packs_ = 0;
  std::atomic<int64_t> copies_ = 0;
};

// A set of blobs that an index knows, by the numbers of their first copies, at one bit per copy in
// that index: for "in use" and "seen" over repositories with tens of millions of blobs.
// Thread-safe.
class BlobMarks {
 public:
  explicit BlobMarks(const BlobIndex& index)
      : words_(static_cast<std::size_t>(index.entry_count()) / kBits + 1) {}

  // Whether it is new.
  bool Mark(uint32_t first) {
    if ((words_[first / kBits].fetch_or(Bit(first)) & Bit(first)) != 0) {
      return false;
    }
    ++count_;
    return true;
  }

  bool Contains(uint32_t first) const { return (words_[first / kBits].load() & Bit(first)) != 0; }

  // Blobs marked.
  int64_t count() const { return count_; }

 private:
  static constexpr uint32_t kBits = 64;
  static uint64_t Bit(uint32_t first) { return uint64_t{1} << (first % kBits); }

  std::vector<std::atomic<uint64_t>> words_;
  std::atomic<int64_t> count_ = 0;
};

}  // namespace csidelta::repository
