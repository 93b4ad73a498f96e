#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/check.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "repository/format.h"
#include "repository/index.h"
#include "repository/pack_reader.h"
#include "repository/record_sorter.h"

namespace csidelta::repository {
namespace {

constexpr uint32_t kOrdinalMax = std::numeric_limits<int32_t>::max();
constexpr uint32_t kTreeBit = uint32_t{1} << 31;

// The prefix of each so-manieth copy is in memory; the copies between lie on a page or two.
constexpr std::size_t kFenceCopies = 64;
// Of an index that is in a scratch file.
constexpr std::size_t kResidentBytesMax = std::size_t{32} << 20;
// What is read at once where neighbours are wanted.
constexpr std::size_t kWindowCopies = 64 * kFenceCopies;

// Ascends with type (trees first) and id.
uint64_t PrefixOf(BlobType type, const BlobId& id) {
  uint64_t prefix = id.Prefix64();
  if constexpr (std::endian::native == std::endian::little) {
    prefix = __builtin_bswap64(prefix);
  }
  return prefix >> 1 | (type == BlobType::kData ? uint64_t{1} << 63 : 0);
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

// Packs in the order they come, and where each is.
class PackTable {
 public:
  PackTable() : ordinals_(0, Hash{this}, Equal{this}) {}
  PackTable(const PackTable&) = delete;
  PackTable& operator=(const PackTable&) = delete;

  std::optional<uint32_t> Find(const PackId& id) const {
    const auto found = ordinals_.find(id);
    return found != ordinals_.end() ? std::optional<uint32_t>(*found) : std::nullopt;
  }
  // Of packs with one id, the first is found.
  uint32_t Add(const PackId& id) {
    const auto ordinal = static_cast<uint32_t>(ids.size());
    ids.push_back(id);
    ordinals_.insert(ordinal);
    return ordinal;
  }
  std::size_t memory_bytes() const {
    return ids.capacity() * sizeof(PackId) + info.capacity() * sizeof(PackInfo) +
           ordinals_.capacity() * (sizeof(uint32_t) + 1);
  }

  std::vector<PackId> ids;
  std::vector<PackInfo> info;

 private:
  struct Hash {
    using is_transparent = void;
    const PackTable* table;
    std::size_t operator()(const PackId& id) const { return absl::HashOf(id); }
    std::size_t operator()(uint32_t ordinal) const { return absl::HashOf(table->ids[ordinal]); }
  };
  struct Equal {
    using is_transparent = void;
    const PackTable* table;
    const PackId& IdOf(const PackId& id) const { return id; }
    const PackId& IdOf(uint32_t ordinal) const { return table->ids[ordinal]; }
    template <typename Left, typename Right>
    bool operator()(const Left& left, const Right& right) const {
      return IdOf(left) == IdOf(right);
    }
  };

  absl::flat_hash_set<uint32_t, Hash, Equal> ordinals_;
};

PackInfo InfoOf(const IndexedPack& pack) {
  PackInfo info;
  info.stored_bytes = PackBytes(pack.entries);
  info.blobs = static_cast<uint32_t>(pack.entries.size());
  for (const PackEntry& entry : pack.entries) {
    const bool tree = entry.handle.type == BlobType::kTree;
    info.has_tree |= tree;
    info.has_data |= !tree;
    info.has_plain_tree |= tree && !entry.span.compressed();
  }
  return info;
}

}  // namespace

// --- Reading ---

struct BlobIndex::State {
  std::unique_ptr<PackTable> packs = std::make_unique<PackTable>();
  std::vector<Copy> resident;  // The first copies; all of them where there is no file.
  std::unique_ptr<ScratchFile> file;
  uint32_t count = 0;
  std::vector<uint64_t> fences;  // The prefix of every kFenceCopies-th copy.

  // Copies [first, first + length), in memory or in `buffer`.
  absl::StatusOr<const Copy*> View(std::size_t first, std::size_t length,
                                   std::vector<Copy>& buffer) const {
    if (first + length <= resident.size()) {
      return resident.data() + first;
    }
    buffer.resize(length);
    const std::size_t in_memory = first < resident.size() ? resident.size() - first : 0;
    std::copy_n(resident.data() + std::min(first, resident.size()), in_memory, buffer.data());
    const std::size_t from = first + in_memory - resident.size();
    RETURN_IF_ERROR(file->Read(static_cast<int64_t>(from * sizeof(Copy)),
                               absl::MakeSpan(reinterpret_cast<char*>(buffer.data() + in_memory),
                                              (length - in_memory) * sizeof(Copy))));
    return buffer.data();
  }

  // Copies between which the blob's first one is, if there is one: two fences apart, or more
  // where ids are made to look alike.
  std::pair<std::size_t, std::size_t> RangeOf(uint64_t prefix) const {
    const auto [low, high] = std::equal_range(fences.begin(), fences.end(), prefix);
    const auto first = static_cast<std::size_t>(low - fences.begin());
    const auto last = static_cast<std::size_t>(high - fences.begin());
    return {first == 0 ? 0 : (first - 1) * kFenceCopies,
            std::min(std::size_t{count}, last * kFenceCopies)};
  }

  // The number of the first copy that is not before `handle`.
  absl::StatusOr<std::size_t> LowerBound(const BlobHandle& handle,
                                         std::vector<Copy>& buffer) const {
    auto [begin, end] = RangeOf(PrefixOf(handle));
    while (end - begin > 2 * kFenceCopies) {
      const std::size_t middle = begin + (end - begin) / 2;
      ASSIGN_OR_RETURN(const Copy* copy, View(middle, 1, buffer));
      (copy->IsBefore(handle) ? begin : end) = middle;
    }
    ASSIGN_OR_RETURN(const Copy* copies, View(begin, end - begin, buffer));
    const Copy* found = std::lower_bound(
        copies, copies + (end - begin), handle,
        [](const Copy& copy, const BlobHandle& wanted) { return copy.IsBefore(wanted); });
    return begin + static_cast<std::size_t>(found - copies);
  }

  // Calls `visit` with the number of each copy of `handle` until it returns false.
  template <typename Visit>
  absl::Status ForEachOf(const BlobHandle& handle, Visit visit) const {
    std::vector<Copy> buffer;
    ASSIGN_OR_RETURN(std::size_t number, LowerBound(handle, buffer));
    const std::size_t first = number;
    while (number < count) {
      const std::size_t length = std::min(kFenceCopies, count - number);
      ASSIGN_OR_RETURN(const Copy* copies, View(number, length, buffer));
      for (std::size_t i = 0; i < length; ++i, ++number) {
        if (!copies[i].Is(handle) || !visit(CopyAt(number, first, copies[i]))) {
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
  CSIDELTA_CHECK(number < state_->count);
  std::vector<Copy> buffer;
  ASSIGN_OR_RETURN(const Copy* copy, state_->View(number, 1, buffer));
  return copy->entry();
}

absl::Status BlobIndex::ForEach(absl::FunctionRef<void(const IndexedCopy&)> visit) const {
  std::vector<Copy> buffer;
  BlobHandle previous;
  std::size_t first = 0;
  for (std::size_t number = 0; number < state_->count;) {
    const std::size_t length = std::min(kWindowCopies, state_->count - number);
    ASSIGN_OR_RETURN(const Copy* copies, state_->View(number, length, buffer));
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

absl::Span<const PackId> BlobIndex::packs() const { return state_->packs->ids; }

const PackInfo& BlobIndex::info(uint32_t pack_ordinal) const {
  return state_->packs->info[pack_ordinal];
}

std::optional<uint32_t> BlobIndex::FindPack(const PackId& pack) const {
  return state_->packs->Find(pack);
}

int64_t BlobIndex::entry_count() const { return state_->count; }

int64_t BlobIndex::memory_bytes() const {
  return static_cast<int64_t>(state_->resident.capacity() * sizeof(Copy) +
                              state_->fences.capacity() * sizeof(uint64_t) +
                              state_->packs->memory_bytes());
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
                                        std::size_t{state.count} - window.begin);
    ASSIGN_OR_RETURN(window.copies, state.View(window.begin, length, window.buffer));
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
  explicit State(ScratchSpace& space) : scratch(space), sorter(space) {}

  ScratchSpace& scratch;
  RecordSorter<Copy> sorter;
  Mutex mutex;
  std::unique_ptr<PackTable> packs ABSL_GUARDED_BY(mutex) = std::make_unique<PackTable>();
  std::vector<uint64_t> fingerprints ABSL_GUARDED_BY(mutex);  // Per pack, of what it lists.
  int64_t copies ABSL_GUARDED_BY(mutex) = 0;
};

BlobIndexBuilder::BlobIndexBuilder(ScratchSpace& scratch)
    : state_(std::make_unique<State>(scratch)) {}
BlobIndexBuilder::~BlobIndexBuilder() = default;

absl::StatusOr<bool> BlobIndexBuilder::AddPack(const IndexedPack& pack) {
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
  const uint64_t fingerprint =
      Id::Of({reinterpret_cast<const char*>(copies.data()), copies.size() * sizeof(Copy)})
          .Prefix64();
  bool contradicts = false;
  uint32_t ordinal = 0;
  {
    const MutexLock lock(state.mutex);
    if (const std::optional<uint32_t> known = state.packs->Find(pack.id)) {
      if (state.fingerprints[*known] == fingerprint) {
        return true;
      }
      contradicts = true;
    }
    state.copies += static_cast<int64_t>(copies.size());
    if (state.packs->ids.size() >= kOrdinalMax || state.copies > int64_t{kOrdinalMax}) {
      return absl::ResourceExhaustedError("the index has too many blobs");
    }
    ordinal = state.packs->Add(pack.id);
    state.packs->info.push_back(InfoOf(pack));
    state.fingerprints.push_back(fingerprint);
  }
  for (Copy& copy : copies) {
    copy.pack_and_type |= ordinal;
  }
  RETURN_IF_ERROR(state.sorter.Add(copies));
  return !contradicts;
}

absl::StatusOr<BlobIndex> BlobIndexBuilder::Build() {
  State& state = *state_;
  BlobIndex index;
  BlobIndex::State& made = *index.state_;
  {
    const MutexLock lock(state.mutex);
    made.packs = std::move(state.packs);
  }
  const auto total = static_cast<std::size_t>(state.sorter.count());
  made.fences.reserve(total / kFenceCopies + 1);
  const std::size_t table_bytes =
      static_cast<std::size_t>(state.scratch.options().table_memory_bytes_max);
  std::size_t resident_max = total;
  if (total * sizeof(Copy) > table_bytes) {
    resident_max = std::min(kResidentBytesMax, table_bytes) / sizeof(Copy);
    ASSIGN_OR_RETURN(made.file, ScratchFile::Make(state.scratch));
  }
  made.resident.reserve(std::min(total, resident_max));
  RETURN_IF_ERROR(state.sorter.Drain([&](absl::Span<const Copy> copies) -> absl::Status {
    for (std::size_t i = 0; i < copies.size(); ++i) {
      if ((made.count + i) % kFenceCopies == 0) {
        made.fences.push_back(copies[i].SortPrefix());
      }
    }
    made.count += static_cast<uint32_t>(copies.size());
    const std::size_t stay = std::min(copies.size(), resident_max - made.resident.size());
    made.resident.insert(made.resident.end(), copies.begin(),
                         copies.begin() + static_cast<std::ptrdiff_t>(stay));
    copies.remove_prefix(stay);
    if (copies.empty()) {
      return absl::OkStatus();
    }
    return made.file
        ->Append({reinterpret_cast<const char*>(copies.data()), copies.size() * sizeof(Copy)})
        .status();
  }));
  return index;
}

}  // namespace csidelta::repository
