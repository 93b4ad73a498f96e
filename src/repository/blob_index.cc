#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <limits>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "repository/format.h"
#include "repository/index.h"
#include "repository/pack_reader.h"
#include "repository/record_sorter.h"
#include "repository/sorted_table.h"

namespace csidelta::repository {
namespace {

constexpr uint32_t kOrdinalMax = std::numeric_limits<int32_t>::max();
constexpr uint32_t kPacksMax = uint32_t{1} << 29;
// Kinds of a pack, in the top bits of its ordinal.
constexpr uint32_t kHasData = uint32_t{1} << 31;
constexpr uint32_t kHasTree = uint32_t{1} << 30;
constexpr uint32_t kHasPlainTree = uint32_t{1} << 29;
// A pack that is listed twice with the same blobs: its copies are left out.
constexpr uint32_t kListedBefore = std::numeric_limits<uint32_t>::max();
// Packs take this part of what a table may, beside the copies.
constexpr int64_t kPackTableShare = 4;
constexpr std::size_t kConflictsMax = std::size_t{1} << 17;
constexpr uint32_t kTreeBit = uint32_t{1} << 31;

constexpr std::size_t kFenceCopies = 64;
// Of an index that is in a scratch file.
constexpr std::size_t kResidentBytesMax = std::size_t{32} << 20;
// What is read at once where neighbours are wanted.
constexpr std::size_t kWindowCopies = 64 * kFenceCopies;

uint64_t BigEndianPrefix(const Id& id) {
  const uint64_t prefix = id.Prefix64();
  return std::endian::native == std::endian::little ? __builtin_bswap64(prefix) : prefix;
}

// Ascends with type (trees first) and id.
uint64_t PrefixOf(BlobType type, const BlobId& id) {
  return BigEndianPrefix(id) >> 1 | (type == BlobType::kData ? uint64_t{1} << 63 : 0);
}

uint64_t PrefixOf(const BlobHandle& handle) { return PrefixOf(handle.type, handle.id); }

// One copy of a blob. Not a PackEntry with a pack's id: that would take twice the memory.
struct Copy {
  BlobId id;
  uint32_t pack_and_type = 0;  // Pack's ordinal; the top bit says tree.
  BlobSpan span;

  BlobType type() const {
    return (pack_and_type & kTreeBit) != 0 ? BlobType::kTree : BlobType::kData;
  }
  uint32_t pack() const { return pack_and_type & ~kTreeBit; }
  BlobHandle handle() const { return {.type = type(), .id = id}; }
  PackEntry entry() const { return {.handle = handle(), .span = span}; }
  uint64_t SortPrefix() const { return PrefixOf(type(), id); }

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

  uint64_t SortPrefix() const { return BigEndianPrefix(id); }
  friend bool operator<(const PackRow& a, const PackRow& b) {
    return std::tie(a.id, a.fingerprint, a.ordinal_and_kinds) <
           std::tie(b.id, b.fingerprint, b.ordinal_and_kinds);
  }
  bool ListsTheSame(const PackRow& other) const {
    return id == other.id && fingerprint == other.fingerprint;
  }
};
static_assert(sizeof(PackRow) == 56);

PackRow RowOf(const IndexedPack& pack) {
  PackRow row = {.id = pack.id,
                 .stored_bytes = PackBytes(pack.entries),
                 .blobs = static_cast<uint32_t>(pack.entries.size())};
  for (const PackEntry& entry : pack.entries) {
    const bool tree = entry.handle.type == BlobType::kTree;
    row.ordinal_and_kinds |= tree ? kHasTree : kHasData;
    row.ordinal_and_kinds |= tree && !entry.span.compressed() ? kHasPlainTree : 0;
  }
  return row;
}

}  // namespace

// --- Reading ---

struct BlobIndex::State {
  SortedTable<PackRow> packs;
  SortedTable<Copy> copies;

  absl::StatusOr<std::size_t> LowerBound(const BlobHandle& handle,
                                         std::vector<Copy>& buffer) const {
    return copies.LowerBound(PrefixOf(handle), buffer,
                             [&](const Copy& copy) { return copy.IsBefore(handle); });
  }

  PackRow Pack(std::size_t ordinal) const {
    PackRow row;
    // The index would answer with another pack: a scratch disk that loses what was written is not
    // survived.
    CSIDELTA_CHECK(ordinal < packs.size() && packs.Read(ordinal, absl::MakeSpan(&row, 1)).ok());
    return row;
  }

  // Calls `visit` with the number of each copy of `handle` until it returns false.
  template <typename Visit>
  absl::Status ForEachOf(const BlobHandle& handle, Visit visit) const {
    std::vector<Copy> buffer;
    ASSIGN_OR_RETURN(std::size_t number, LowerBound(handle, buffer));
    const std::size_t first = number;
    while (number < copies.size()) {
      const std::size_t length = std::min(kFenceCopies, copies.size() - number);
      ASSIGN_OR_RETURN(const Copy* window, copies.View(number, length, buffer));
      for (std::size_t i = 0; i < length; ++i, ++number) {
        if (!window[i].Is(handle) || !visit(CopyAt(number, first, window[i]))) {
          return absl::OkStatus();
        }
      }
    }
    return absl::OkStatus();
  }

  static IndexedCopy CopyAt(std::size_t number, std::size_t first, const Copy& copy) {
    return {.number = static_cast<uint32_t>(number),
            .first = static_cast<uint32_t>(first),
            .pack_ordinal = copy.pack(),
            .entry = copy.entry()};
  }
};

BlobIndex::BlobIndex() : state_(std::make_unique<State>()) {}
BlobIndex::~BlobIndex() = default;
BlobIndex::BlobIndex(BlobIndex&&) noexcept = default;
BlobIndex& BlobIndex::operator=(BlobIndex&&) noexcept = default;

absl::StatusOr<std::optional<IndexedCopy>> BlobIndex::Find(const BlobHandle& handle) const {
  std::optional<IndexedCopy> found;
  RETURN_IF_ERROR(state_->ForEachOf(handle, [&found](const IndexedCopy& copy) {
    found = copy;
    return false;
  }));
  return found;
}

absl::StatusOr<bool> BlobIndex::Contains(const BlobHandle& handle) const {
  ASSIGN_OR_RETURN(const std::optional<IndexedCopy> found, Find(handle));
  return found.has_value();
}

absl::StatusOr<bool> BlobIndex::FindAny(const BlobHandle& handle, BlobLocation& location) const {
  ASSIGN_OR_RETURN(const std::optional<IndexedCopy> found, Find(handle));
  if (found.has_value()) {
    location = LocationOf(*found);
  }
  return found.has_value();
}

absl::Status BlobIndex::ForEachCopyOf(const BlobHandle& handle,
                                      absl::FunctionRef<bool(const IndexedCopy&)> visit) const {
  return state_->ForEachOf(handle, visit);
}

absl::StatusOr<std::vector<BlobLocation>> BlobIndex::Lookup(const BlobHandle& handle) const {
  std::vector<BlobLocation> locations;
  RETURN_IF_ERROR(state_->ForEachOf(handle, [&](const IndexedCopy& copy) {
    locations.push_back(LocationOf(copy));
    return true;
  }));
  return locations;
}

absl::StatusOr<PackEntry> BlobIndex::EntryOf(uint32_t number) const {
  CSIDELTA_CHECK(number < state_->copies.size());
  std::vector<Copy> buffer;
  ASSIGN_OR_RETURN(const Copy* copy, state_->copies.View(number, 1, buffer));
  return copy->entry();
}

absl::Status BlobIndex::ForEach(absl::FunctionRef<void(const IndexedCopy&)> visit) const {
  std::vector<Copy> buffer;
  BlobHandle previous;
  std::size_t first = 0;
  for (std::size_t number = 0; number < state_->copies.size();) {
    const std::size_t length = std::min(kWindowCopies, state_->copies.size() - number);
    ASSIGN_OR_RETURN(const Copy* copies, state_->copies.View(number, length, buffer));
    for (std::size_t i = 0; i < length; ++i, ++number) {
      if (!copies[i].Is(previous)) {
        previous = copies[i].handle();
        first = number;
      }
      visit(State::CopyAt(number, first, copies[i]));
    }
  }
  return absl::OkStatus();
}

PackId BlobIndex::PackAt(uint32_t pack_ordinal) const { return state_->Pack(pack_ordinal).id; }

uint32_t BlobIndex::pack_count() const { return static_cast<uint32_t>(state_->packs.size()); }

PackInfo BlobIndex::info(uint32_t pack_ordinal) const {
  const PackRow row = state_->Pack(pack_ordinal);
  return {.stored_bytes = row.stored_bytes,
          .blobs = row.blobs,
          .has_data = (row.ordinal_and_kinds & kHasData) != 0,
          .has_tree = (row.ordinal_and_kinds & kHasTree) != 0,
          .has_plain_tree = (row.ordinal_and_kinds & kHasPlainTree) != 0};
}

std::optional<uint32_t> BlobIndex::FindPack(const PackId& pack) const {
  std::vector<PackRow> buffer;
  const absl::StatusOr<std::size_t> number = state_->packs.LowerBound(
      BigEndianPrefix(pack), buffer, [&](const PackRow& row) { return row.id < pack; });
  CSIDELTA_CHECK(number.ok());  // As in Pack().
  if (*number == state_->packs.size() || state_->Pack(*number).id != pack) {
    return std::nullopt;
  }
  return static_cast<uint32_t>(*number);
}

int64_t BlobIndex::entry_count() const { return static_cast<int64_t>(state_->copies.size()); }

int64_t BlobIndex::memory_bytes() const {
  return state_->copies.memory_bytes() + state_->packs.memory_bytes();
}

// --- In order ---

// Copies [begin, begin + length) of the index, where the last answer was.
struct BlobIndex::Cursor::Window {
  std::size_t begin = 0;
  std::size_t length = 0;
  const Copy* copies = nullptr;
  std::vector<Copy> buffer;
  IndexedCopy answer;

  // Whether the place of `handle` is certainly in here.
  bool Covers(const BlobHandle& handle) const {
    return length > 0 && copies[0].IsBefore(handle) && !copies[length - 1].IsBefore(handle);
  }
};

BlobIndex::Cursor::Cursor(const BlobIndex& index)
    : index_(index), window_(std::make_unique<Window>()) {}
BlobIndex::Cursor::~Cursor() = default;

absl::StatusOr<const IndexedCopy*> BlobIndex::Cursor::Find(const BlobHandle& handle) {
  const State& state = *index_.state_;
  Window& window = *window_;
  if (!window.Covers(handle)) {
    const std::size_t near_end = window.begin + window.length + kWindowCopies;
    window.length = 0;
    ASSIGN_OR_RETURN(const std::size_t number, state.LowerBound(handle, window.buffer));
    // One more in front, by which Covers() knows; many behind where the last one was not far away.
    window.begin = number == 0 ? 0 : number - 1;
    const std::size_t length = std::min(number <= near_end ? kWindowCopies : kFenceCopies,
                                        state.copies.size() - window.begin);
    ASSIGN_OR_RETURN(window.copies, state.copies.View(window.begin, length, window.buffer));
    window.length = length;
  }
  const Copy* found = std::lower_bound(
      window.copies, window.copies + window.length, handle,
      [](const Copy& copy, const BlobHandle& wanted) { return copy.IsBefore(wanted); });
  if (found == window.copies + window.length || !found->Is(handle)) {
    return nullptr;
  }
  const std::size_t number = window.begin + static_cast<std::size_t>(found - window.copies);
  window.answer = State::CopyAt(number, number, *found);
  return &window.answer;
}

// --- Building ---

struct BlobIndexBuilder::State {
  explicit State(ScratchSpace& space)
      : scratch(space),
        table_bytes(space.options().table_memory_bytes_max),
        sorter(space),
        pack_sorter(space, table_bytes / kPackTableShare) {}

  // Sorts the packs; returns where each is, by its number in the order of AddPack().
  absl::StatusOr<std::vector<uint32_t>> BuildPacks(SortedTable<PackRow>& out,
                                                   std::vector<PackId>* listed_differently);

  ScratchSpace& scratch;
  const int64_t table_bytes;
  RecordSorter<Copy> sorter;
  RecordSorter<PackRow> pack_sorter;
  std::atomic<uint32_t> packs = 0;
  std::atomic<int64_t> copies = 0;
};

BlobIndexBuilder::BlobIndexBuilder(ScratchSpace& scratch)
    : state_(std::make_unique<State>(scratch)) {}
BlobIndexBuilder::~BlobIndexBuilder() = default;

absl::Status BlobIndexBuilder::AddPack(const IndexedPack& pack) {
  State& state = *state_;
  std::vector<Copy> copies;
  copies.reserve(pack.entries.size());
  for (const PackEntry& entry : pack.entries) {
    const uint32_t tree_bit = entry.handle.type == BlobType::kTree ? kTreeBit : 0;
    copies.push_back({.id = entry.handle.id, .pack_and_type = tree_bit, .span = entry.span});
  }
  // Writers list a pack's blobs in any order.
  std::sort(copies.begin(), copies.end(), [](const Copy& left, const Copy& right) {
    return left.span.offset_bytes < right.span.offset_bytes;
  });
  PackRow row = RowOf(pack);
  row.fingerprint =
      Id::Of({reinterpret_cast<const char*>(copies.data()), copies.size() * sizeof(Copy)})
          .Prefix64();
  const uint32_t ordinal = state.packs++;
  if (ordinal >= kPacksMax ||
      (state.copies += static_cast<int64_t>(copies.size())) > int64_t{kOrdinalMax}) {
    return absl::ResourceExhaustedError("the index has too many blobs");
  }
  row.ordinal_and_kinds |= ordinal;
  for (Copy& copy : copies) {
    copy.pack_and_type |= ordinal;
  }
  RETURN_IF_ERROR(state.pack_sorter.Add(absl::MakeConstSpan(&row, 1)));
  return state.sorter.Add(copies);
}

absl::StatusOr<std::vector<uint32_t>> BlobIndexBuilder::State::BuildPacks(
    SortedTable<PackRow>& out, std::vector<PackId>* listed_differently) {
  const auto total = static_cast<std::size_t>(pack_sorter.count());
  const auto memory_bytes = static_cast<std::size_t>(table_bytes / kPackTableShare);
  RETURN_IF_ERROR(out.Reserve(scratch, total, memory_bytes, /*resident_bytes_max=*/0));
  std::vector<uint32_t> ordinals(total, kListedBefore);
  std::optional<PackRow> last;
  std::vector<PackRow> rows;
  RETURN_IF_ERROR(pack_sorter.Drain([&](absl::Span<const PackRow> sorted) -> absl::Status {
    rows.clear();
    for (const PackRow& row : sorted) {
      if (last.has_value() && row.ListsTheSame(*last)) {
        continue;
      }
      if (last.has_value() && row.id == last->id && listed_differently != nullptr &&
          listed_differently->size() < kConflictsMax &&
          (listed_differently->empty() || listed_differently->back() != row.id)) {
        listed_differently->push_back(row.id);
      }
      ordinals[row.ordinal_and_kinds % kPacksMax] = static_cast<uint32_t>(out.size() + rows.size());
      last = row;
      rows.push_back(row);
    }
    return out.Append(rows);
  }));
  return ordinals;
}

absl::StatusOr<BlobIndex> BlobIndexBuilder::Build(std::vector<PackId>* listed_differently) {
  State& state = *state_;
  BlobIndex index;
  BlobIndex::State& made = *index.state_;
  ASSIGN_OR_RETURN(const std::vector<uint32_t> ordinals,
                   state.BuildPacks(made.packs, listed_differently));
  RETURN_IF_ERROR(made.copies.Reserve(state.scratch, static_cast<std::size_t>(state.sorter.count()),
                                      static_cast<std::size_t>(state.table_bytes),
                                      kResidentBytesMax));
  std::vector<Copy> kept;
  const auto append = [&](absl::Span<const Copy> copies) -> absl::Status {
    // A drain in memory passes all at once.
    while (!copies.empty()) {
      const std::size_t count = std::min(copies.size(), kWindowCopies);
      kept.clear();
      for (Copy copy : copies.first(count)) {
        const uint32_t ordinal = ordinals[copy.pack()];
        if (ordinal != kListedBefore) {
          copy.pack_and_type = (copy.pack_and_type & kTreeBit) | ordinal;
          kept.push_back(copy);
        }
      }
      copies.remove_prefix(count);
      const absl::Status appended = made.copies.Append(kept);
      if (!appended.ok()) {
        return appended;
      }
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(state.sorter.Drain(append));
  return index;
}

}  // namespace csidelta::repository
