#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/status_macros.h"
#include "repository/index.h"
#include "repository/pack_reader.h"

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

constexpr std::size_t kFenceCopies = 64;
// Of an index that is in a scratch file.
constexpr std::size_t kResidentBytesMax = std::size_t{32} << 20;
// What is read at once where neighbours are wanted.
constexpr std::size_t kWindowCopies = 64 * kFenceCopies;

}  // namespace

// --- Reading ---

IndexedCopy BlobIndex::CopyAt(std::size_t number, std::size_t first, const Copy& copy) {
  return {.number = static_cast<uint32_t>(number),
          .first = static_cast<uint32_t>(first),
          .pack_ordinal = copy.pack(),
          .entry = copy.entry()};
}

absl::StatusOr<std::size_t> BlobIndex::LowerBound(const BlobHandle& handle,
                                                  std::vector<Copy>& buffer) const {
  return copies_.LowerBound(Copy::PrefixOf(handle), buffer,
                            [&](const Copy& copy) { return copy.IsBefore(handle); });
}

BlobIndex::PackRow BlobIndex::Pack(std::size_t ordinal) const {
  PackRow row;
  // The index would answer with another pack: a scratch disk that loses what was written is not
  // survived.
  CSIDELTA_CHECK(ordinal < packs_.size() && packs_.Read(ordinal, absl::MakeSpan(&row, 1)).ok());
  return row;
}

absl::StatusOr<std::optional<IndexedCopy>> BlobIndex::Find(const BlobHandle& handle) const {
  std::optional<IndexedCopy> found;
  RETURN_IF_ERROR(ForEachCopyOf(handle, [&found](const IndexedCopy& copy) {
    found = copy;
    return false;
  }));
  return found;
}

absl::Status BlobIndex::ForEachCopyOf(const BlobHandle& handle,
                                      absl::FunctionRef<bool(const IndexedCopy&)> visit) const {
  std::vector<Copy> buffer;
  ASSIGN_OR_RETURN(std::size_t number, LowerBound(handle, buffer));
  const std::size_t first = number;
  while (number < copies_.size()) {
    const std::size_t length = std::min(kFenceCopies, copies_.size() - number);
    ASSIGN_OR_RETURN(const Copy* window, copies_.View(number, length, buffer));
    for (std::size_t i = 0; i < length; ++i, ++number) {
      if (!window[i].Is(handle) || !visit(CopyAt(number, first, window[i]))) {
        return absl::OkStatus();
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<BlobLocation>> BlobIndex::Lookup(const BlobHandle& handle) const {
  std::vector<BlobLocation> locations;
  RETURN_IF_ERROR(ForEachCopyOf(handle, [&](const IndexedCopy& copy) {
    locations.push_back(LocationOf(copy));
    return true;
  }));
  return locations;
}

absl::StatusOr<PackEntry> BlobIndex::EntryOf(uint32_t number) const {
  CSIDELTA_CHECK(number < copies_.size());
  std::vector<Copy> buffer;
  ASSIGN_OR_RETURN(const Copy* copy, copies_.View(number, 1, buffer));
  return copy->entry();
}

absl::Status BlobIndex::ForEach(absl::FunctionRef<void(const IndexedCopy&)> visit) const {
  std::vector<Copy> buffer;
  BlobHandle previous;
  std::size_t first = 0;
  for (std::size_t number = 0; number < copies_.size();) {
    const std::size_t length = std::min(kWindowCopies, copies_.size() - number);
    ASSIGN_OR_RETURN(const Copy* copies, copies_.View(number, length, buffer));
    for (std::size_t i = 0; i < length; ++i, ++number) {
      if (!copies[i].Is(previous)) {
        previous = copies[i].handle();
        first = number;
      }
      visit(CopyAt(number, first, copies[i]));
    }
  }
  return absl::OkStatus();
}

PackInfo BlobIndex::info(uint32_t pack_ordinal) const {
  const PackRow row = Pack(pack_ordinal);
  return {.stored_bytes = row.stored_bytes,
          .blobs = row.blobs,
          .has_data = (row.ordinal_and_kinds & kHasData) != 0,
          .has_tree = (row.ordinal_and_kinds & kHasTree) != 0,
          .has_plain_tree = (row.ordinal_and_kinds & kHasPlainTree) != 0};
}

std::optional<uint32_t> BlobIndex::FindPack(const PackId& pack) const {
  const uint32_t number = FirstPackFrom(pack);
  return number == packs_.size() || Pack(number).id != pack ? std::nullopt : std::optional(number);
}

uint32_t BlobIndex::FirstPackFrom(const PackId& least) const {
  std::vector<PackRow> buffer;
  const absl::StatusOr<std::size_t> number = packs_.LowerBound(
      least.OrderedPrefix64(), buffer, [&](const PackRow& row) { return row.id < least; });
  CSIDELTA_CHECK(number.ok());  // As in Pack().
  return static_cast<uint32_t>(*number);
}

absl::StatusOr<uint32_t> BlobIndex::CountTrees() const {
  std::vector<Copy> buffer;
  ASSIGN_OR_RETURN(const std::size_t trees,
                   LowerBound({.type = BlobType::kData, .id = {}}, buffer));
  return static_cast<uint32_t>(trees);
}

// --- In order ---

absl::StatusOr<const IndexedCopy*> BlobIndex::Cursor::Find(const BlobHandle& handle) {
  const bool is_covered =
      length_ > 0 && copies_[0].IsBefore(handle) && !copies_[length_ - 1].IsBefore(handle);
  if (!is_covered) {
    const std::size_t near_end = begin_ + length_ + kWindowCopies;
    length_ = 0;
    ASSIGN_OR_RETURN(const std::size_t number, index_.LowerBound(handle, buffer_));
    // One more in front, which shows what is covered; many behind where the last one was not far
    // away.
    begin_ = number == 0 ? 0 : number - 1;
    const std::size_t length =
        std::min(number <= near_end ? kWindowCopies : kFenceCopies, index_.copies_.size() - begin_);
    ASSIGN_OR_RETURN(copies_, index_.copies_.View(begin_, length, buffer_));
    length_ = length;
  }
  const Copy* end = copies_ + length_;
  const Copy* found =
      std::partition_point(copies_, end, [&](const Copy& copy) { return copy.IsBefore(handle); });
  if (found == end || !found->Is(handle)) {
    return nullptr;
  }
  const std::size_t number = begin_ + static_cast<std::size_t>(found - copies_);
  answer_ = CopyAt(number, number, *found);
  return &answer_;
}

// --- Building ---

BlobIndex::PackRow BlobIndexBuilder::RowOf(const IndexedPack& pack) {
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

BlobIndexBuilder::BlobIndexBuilder(ScratchSpace& scratch)
    : scratch_(scratch),
      table_bytes_(scratch.options().table_memory_bytes_max),
      sorter_(scratch),
      pack_sorter_(scratch, table_bytes_ / kPackTableShare) {}

absl::Status BlobIndexBuilder::AddPack(const IndexedPack& pack) {
  std::vector<Copy> copies;
  copies.reserve(pack.entries.size());
  for (const PackEntry& entry : pack.entries) {
    const uint32_t tree_bit = entry.handle.type == BlobType::kTree ? Copy::kTreeBit : 0;
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
  const uint32_t ordinal = packs_++;
  if (ordinal >= kPacksMax ||
      (copies_ += static_cast<int64_t>(copies.size())) > int64_t{kOrdinalMax}) {
    return absl::ResourceExhaustedError("the index has too many blobs");
  }
  row.ordinal_and_kinds |= ordinal;
  for (Copy& copy : copies) {
    copy.pack_and_type |= ordinal;
  }
  RETURN_IF_ERROR(pack_sorter_.Add(absl::MakeConstSpan(&row, 1)));
  return sorter_.Add(copies);
}

absl::StatusOr<std::vector<uint32_t>> BlobIndexBuilder::BuildPacks(
    SortedTable<PackRow>& out, std::vector<PackId>* listed_differently) {
  const auto total = static_cast<std::size_t>(pack_sorter_.count());
  const auto memory_bytes = static_cast<std::size_t>(table_bytes_ / kPackTableShare);
  RETURN_IF_ERROR(out.Reserve(scratch_, total, memory_bytes, /*resident_bytes_max=*/0));
  std::vector<uint32_t> ordinals(total, kListedBefore);
  std::optional<PackRow> last;
  std::vector<PackRow> rows;
  RETURN_IF_ERROR(pack_sorter_.Drain([&](absl::Span<const PackRow> sorted) -> absl::Status {
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
  BlobIndex index;
  ASSIGN_OR_RETURN(const std::vector<uint32_t> ordinals,
                   BuildPacks(index.packs_, listed_differently));
  RETURN_IF_ERROR(index.copies_.Reserve(scratch_, static_cast<std::size_t>(sorter_.count()),
                                        static_cast<std::size_t>(table_bytes_), kResidentBytesMax));
  std::vector<Copy> kept;
  const auto append = [&](absl::Span<const Copy> copies) -> absl::Status {
    // A drain in memory passes all at once.
    while (!copies.empty()) {
      const std::size_t count = std::min(copies.size(), kWindowCopies);
      kept.clear();
      for (Copy copy : copies.first(count)) {
        const uint32_t ordinal = ordinals[copy.pack()];
        if (ordinal != kListedBefore) {
          copy.pack_and_type = (copy.pack_and_type & Copy::kTreeBit) | ordinal;
          kept.push_back(copy);
        }
      }
      copies.remove_prefix(count);
      const absl::Status appended = index.copies_.Append(kept);
      if (!appended.ok()) {
        return appended;
      }
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(sorter_.Drain(append));
  return index;
}

}  // namespace csidelta::repository
