#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "repository/index.h"

namespace csidelta::repository {
namespace {

constexpr std::size_t kBlockEntries = std::size_t{1} << 16;  // 3 MiB.
constexpr std::size_t kSlotsMin = std::size_t{1} << 10;
constexpr uint32_t kOrdinalMax = std::numeric_limits<int32_t>::max();
constexpr uint32_t kTreeBit = uint32_t{1} << 31;

// One copy of a blob. Not a PackEntry with a pack's id: that would take twice the memory.
struct Copy {
  BlobId id;
  uint32_t pack_and_type = 0;  // Pack's ordinal; the top bit says tree.
  BlobSpan span;

  BlobType type() const {
    return (pack_and_type & kTreeBit) != 0 ? BlobType::kTree : BlobType::kData;
  }
  uint32_t pack() const { return pack_and_type & ~kTreeBit; }
  bool Is(const BlobHandle& handle) const { return id == handle.id && type() == handle.type; }
  PackEntry entry() const { return {.handle = {.type = type(), .id = id}, .span = span}; }
};
static_assert(sizeof(Copy) == 48);

struct CopyRange {
  uint32_t first = 0;
  uint32_t count = 0;
};

}  // namespace

// Copies lie in blocks that never move, in the order they were added. The table holds ordinals of
// copies plus one, 0 for a free slot; all copies of one blob lie on one probe path.
struct BlobIndex::State {
  std::vector<std::unique_ptr<Copy[]>> blocks;
  std::vector<uint32_t> slots = std::vector<uint32_t>(kSlotsMin);
  uint32_t copy_count = 0;
  std::vector<PackId> packs;
  std::vector<CopyRange> ranges;  // Per pack.
  absl::flat_hash_map<PackId, uint32_t> pack_ordinals;

  Copy& At(uint32_t ordinal) { return blocks[ordinal / kBlockEntries][ordinal % kBlockEntries]; }
  const Copy& At(uint32_t ordinal) const {
    return blocks[ordinal / kBlockEntries][ordinal % kBlockEntries];
  }

  void Place(uint32_t ordinal) {
    const std::size_t mask = slots.size() - 1;
    std::size_t slot = static_cast<std::size_t>(At(ordinal).id.Prefix64()) & mask;
    while (slots[slot] != 0) {
      slot = (slot + 1) & mask;
    }
    slots[slot] = ordinal + 1;
  }

  void AddCopy(const PackEntry& entry, uint32_t pack_ordinal) {
    if (copy_count % kBlockEntries == 0) {
      blocks.push_back(std::make_unique<Copy[]>(kBlockEntries));
    }
    const uint32_t tree_bit = entry.handle.type == BlobType::kTree ? kTreeBit : 0;
    At(copy_count) = {
        .id = entry.handle.id, .pack_and_type = pack_ordinal | tree_bit, .span = entry.span};
    if ((std::size_t{copy_count} + 1) * 4 > slots.size() * 3) {
      slots = std::vector<uint32_t>(slots.size() * 2);
      for (uint32_t i = 0; i < copy_count; ++i) {
        Place(i);
      }
    }
    Place(copy_count);
    ++copy_count;
  }

  // Calls `visit` with the ordinal of each copy of `handle` until it returns false.
  template <typename Visit>
  void ForEachOrdinal(const BlobHandle& handle, Visit visit) const {
    const std::size_t mask = slots.size() - 1;
    for (std::size_t slot = static_cast<std::size_t>(handle.id.Prefix64()) & mask; slots[slot] != 0;
         slot = (slot + 1) & mask) {
      if (At(slots[slot] - 1).Is(handle) && !visit(slots[slot] - 1)) {
        return;
      }
    }
  }

  BlobLocation LocationOf(uint32_t ordinal) const {
    return {.pack = packs[At(ordinal).pack()], .span = At(ordinal).span};
  }
};

BlobIndex::BlobIndex() : state_(std::make_unique<State>()) {}
BlobIndex::~BlobIndex() = default;
BlobIndex::BlobIndex(BlobIndex&&) noexcept = default;
BlobIndex& BlobIndex::operator=(BlobIndex&&) noexcept = default;

absl::Status BlobIndex::AddPack(const IndexedPack& pack) {
  State& state = *state_;
  if (const auto found = state.pack_ordinals.find(pack.id); found != state.pack_ordinals.end()) {
    const CopyRange range = state.ranges[found->second];
    bool equal = range.count == pack.entries.size();
    for (uint32_t i = 0; equal && i < range.count; ++i) {
      equal = state.At(range.first + i).entry() == pack.entries[i];
    }
    if (equal) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(Append(pack));
    return absl::DataLossError(
        absl::StrCat("pack ", pack.id.ShortHex(), " is listed twice, with different blobs"));
  }
  return Append(pack);
}

absl::Status BlobIndex::Append(const IndexedPack& pack) {
  State& state = *state_;
  if (state.packs.size() >= kOrdinalMax || pack.entries.size() > kOrdinalMax - state.copy_count) {
    return absl::ResourceExhaustedError("the index has too many blobs");
  }
  const auto ordinal = static_cast<uint32_t>(state.packs.size());
  state.packs.push_back(pack.id);
  state.ranges.push_back(
      {.first = state.copy_count, .count = static_cast<uint32_t>(pack.entries.size())});
  state.pack_ordinals.emplace(pack.id, ordinal);
  for (const PackEntry& entry : pack.entries) {
    state.AddCopy(entry, ordinal);
  }
  return absl::OkStatus();
}

std::vector<BlobLocation> BlobIndex::Lookup(const BlobHandle& handle) const {
  std::vector<BlobLocation> locations;
  state_->ForEachOrdinal(handle, [&](uint32_t ordinal) {
    locations.push_back(state_->LocationOf(ordinal));
    return true;
  });
  return locations;
}

bool BlobIndex::Contains(const BlobHandle& handle) const {
  BlobLocation location;
  return FindAny(handle, location);
}

bool BlobIndex::FindAny(const BlobHandle& handle, BlobLocation& location) const {
  bool found = false;
  state_->ForEachOrdinal(handle, [&](uint32_t ordinal) {
    location = state_->LocationOf(ordinal);
    found = true;
    return false;
  });
  return found;
}

void BlobIndex::ForEachCopy(
    const BlobHandle& handle,
    absl::FunctionRef<bool(uint32_t copy, uint32_t pack_ordinal)> visit) const {
  state_->ForEachOrdinal(
      handle, [&](uint32_t ordinal) { return visit(ordinal, state_->At(ordinal).pack()); });
}

bool BlobIndex::ContainsPack(const PackId& pack) const {
  return state_->pack_ordinals.contains(pack);
}

absl::Span<const PackId> BlobIndex::packs() const { return state_->packs; }

void BlobIndex::ForEach(
    absl::FunctionRef<void(uint32_t pack_ordinal, const PackEntry&)> visit) const {
  for (uint32_t i = 0; i < state_->copy_count; ++i) {
    const Copy& copy = state_->At(i);
    visit(copy.pack(), copy.entry());
  }
}

int64_t BlobIndex::entry_count() const { return state_->copy_count; }

int64_t BlobIndex::memory_bytes() const {
  const std::size_t per_pack = sizeof(PackId) + sizeof(CopyRange) + sizeof(PackId) + 8;
  return static_cast<int64_t>(state_->blocks.size() * kBlockEntries * sizeof(Copy) +
                              state_->slots.size() * sizeof(uint32_t) +
                              state_->packs.size() * per_pack);
}

}  // namespace csidelta::repository
