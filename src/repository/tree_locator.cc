#include "repository/tree_locator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "repository/byte_buffer.h"
#include "repository/format.h"
#include "repository/repository.h"

namespace csidelta::repository {
namespace {

constexpr absl::string_view kLocatorMagic = "CSDL";
constexpr uint32_t kLocatorVersion = 4;
constexpr uint32_t kVersionWithoutNeeds = 2;
constexpr std::size_t kNeedsHeadBytes = 12;
constexpr std::size_t kLocatorHeadBytes = 20;
constexpr std::size_t kSpanBytes = 12;
constexpr std::size_t kLocationBytes = Id::kBytes + kSpanBytes;
constexpr std::size_t kFixedPlaces = 3;
constexpr std::size_t kShardPositionBytes = 8;
constexpr std::size_t kShardEntryBytes = 1 + kSpanBytes;

void AppendSpan(std::string& out, const BlobSpan& span) {
  AppendLe32(out, span.offset_bytes);
  AppendLe32(out, span.sealed_bytes);
  AppendLe32(out, span.uncompressed_bytes);
}

BlobSpan ReadSpan(absl::string_view bytes, std::size_t at) {
  return {.offset_bytes = ReadLe32(bytes, at),
          .sealed_bytes = ReadLe32(bytes, at + 4),
          .uncompressed_bytes = ReadLe32(bytes, at + 8)};
}

absl::Status Malformed() { return absl::InvalidArgumentError("tree locator: malformed"); }

void AppendLocation(std::string& out, const std::optional<BlobLocation>& place) {
  AppendId(out, place.has_value() ? place->pack : PackId());
  AppendSpan(out, place.has_value() ? place->span : BlobSpan());
}

absl::Status ReadBlobLocation(absl::string_view bytes, std::size_t at,
                              std::optional<BlobLocation>& place) {
  const BlobLocation read = {.pack = ReadId(bytes, at), .span = ReadSpan(bytes, at + Id::kBytes)};
  if (read.pack.IsNull()) {
    return absl::OkStatus();
  }
  if (read.span.sealed_bytes < kEnvelopeBytes) {
    return Malformed();
  }
  place = read;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<SnapshotNeeds>> ReadNeeds(absl::string_view bytes) {
  if (bytes.size() < 4 || ReadLe32(bytes, 0) > 1) {
    return Malformed();
  }
  const bool known = ReadLe32(bytes, 0) == 1;
  bytes.remove_prefix(4);
  if (!known) {
    return bytes.empty() ? absl::StatusOr<std::optional<SnapshotNeeds>>(std::nullopt) : Malformed();
  }
  if (bytes.size() < kNeedsHeadBytes) {
    return Malformed();
  }
  SnapshotNeeds needs;
  // 63 bits: what is far in the future is far enough.
  const uint64_t high = ReadLe32(bytes, 4) & 0x7FFF'FFFFU;
  needs.listed_at = absl::FromUnixSeconds(static_cast<int64_t>(high << 32 | ReadLe32(bytes, 0)));
  needs.packs_listed = ReadLe32(bytes, 8);
  bytes.remove_prefix(kNeedsHeadBytes);
  ASSIGN_OR_RETURN(needs.packs, IdSet::Consume(bytes));
  ASSIGN_OR_RETURN(needs.index_files, IdSet::Consume(bytes));
  return bytes.empty() ? absl::StatusOr<std::optional<SnapshotNeeds>>(std::move(needs))
                       : Malformed();
}

void AppendShardPosition(std::string& out, const ShardPosition& place) {
  AppendLe32(out, uint32_t{place.file} | uint32_t{place.sealed_bytes} << 16);
  AppendLe32(out, place.offset_bytes);
}

ShardPosition ReadShardPosition(absl::string_view bytes, std::size_t at) {
  const uint32_t both = ReadLe32(bytes, at);
  return {.file = static_cast<uint16_t>(both),
          .sealed_bytes = static_cast<uint16_t>(both >> 16),
          .offset_bytes = ReadLe32(bytes, at + 4)};
}

}  // namespace

std::string LocatorShard::Encode() const {
  std::vector<PackId> packs;
  std::string entries;
  for (const std::optional<BlobLocation>& place : places) {
    if (!place.has_value()) {
      entries.append(kShardEntryBytes, '\0');
      continue;
    }
    auto found = std::find(packs.begin(), packs.end(), place->pack);
    if (found == packs.end()) {
      found = packs.insert(found, place->pack);
    }
    entries.push_back(static_cast<char>(found - packs.begin() + 1));
    AppendSpan(entries, place->span);
  }
  std::string out(1, static_cast<char>(packs.size()));
  for (const PackId& pack : packs) {
    AppendId(out, pack);
  }
  return out + entries;
}

absl::StatusOr<LocatorShard> LocatorShard::Decode(absl::string_view bytes) {
  const std::size_t packs = bytes.empty() ? 0 : static_cast<uint8_t>(bytes[0]);
  const std::size_t entries_begin = 1 + packs * Id::kBytes;
  if (packs > kShardTrees ||
      bytes.size() != entries_begin + static_cast<std::size_t>(kShardTrees) * kShardEntryBytes) {
    return Malformed();
  }
  LocatorShard shard;
  for (std::size_t i = 0; i < shard.places.size(); ++i) {
    const std::size_t at = entries_begin + i * kShardEntryBytes;
    const std::size_t pack = static_cast<uint8_t>(bytes[at]);
    if (pack == 0) {
      continue;
    }
    const BlobSpan span = ReadSpan(bytes, at + 1);
    if (pack > packs || span.sealed_bytes < kEnvelopeBytes) {
      return Malformed();
    }
    shard.places[i] = {.pack = ReadId(bytes, 1 + (pack - 1) * Id::kBytes), .span = span};
  }
  return shard;
}

void TreeLocator::AddFilesTo(absl::flat_hash_set<Id>& files_named) const {
  files_named.insert(files.begin(), files.end());
  if (!needs.has_value()) {
    return;
  }
  for (const IdSet* set : {&needs->packs, &needs->index_files}) {
    for (const std::vector<IdSet::Part>* parts : {&set->base, &set->additions}) {
      for (const IdSet::Part& part : *parts) {
        files_named.insert(part.file);
      }
    }
  }
}

std::string TreeLocator::ShardName(const TreePosition& first) const {
  return absl::StrCat(kLocatorFolder, volume.Hex(), first.is_leaf ? "/leaf/" : "/level1/",
                      first.number);
}

const ShardPosition* TreeLocator::ShardOf(const TreePosition& position) const {
  const std::vector<ShardPosition>& shards = position.is_leaf ? leaf_shards : level1_shards;
  const auto at = static_cast<std::size_t>(position.number / kShardTrees);
  return at < shards.size() && shards[at].file != 0 ? &shards[at] : nullptr;
}

std::string TreeLocator::Encode() const {
  std::string out(kLocatorMagic);
  AppendLe32(out, kLocatorVersion);
  AppendLe32(out, static_cast<uint32_t>(files.size()));
  AppendLe32(out, static_cast<uint32_t>(level1_shards.size()));
  AppendLe32(out, static_cast<uint32_t>(leaf_shards.size()));
  AppendId(out, volume);
  AppendLocation(out, root);
  AppendLocation(out, image_tree);
  AppendLocation(out, manifest);
  for (const Id& file : files) {
    AppendId(out, file);
  }
  for (const ShardPosition& place : level1_shards) {
    AppendShardPosition(out, place);
  }
  for (const ShardPosition& place : leaf_shards) {
    AppendShardPosition(out, place);
  }
  AppendLe32(out, needs.has_value() ? 1 : 0);
  if (needs.has_value()) {
    const auto seconds =
        static_cast<uint64_t>(std::max<int64_t>(0, absl::ToUnixSeconds(needs->listed_at)));
    AppendLe32(out, static_cast<uint32_t>(seconds));
    AppendLe32(out, static_cast<uint32_t>(seconds >> 32));
    AppendLe32(out, needs->packs_listed);
    needs->packs.AppendTo(out);
    needs->index_files.AppendTo(out);
  }
  return out;
}

absl::StatusOr<TreeLocator> TreeLocator::Decode(absl::string_view bytes) {
  if (bytes.size() < kLocatorHeadBytes || bytes.substr(0, kLocatorMagic.size()) != kLocatorMagic) {
    return Malformed();
  }
  const uint32_t version = ReadLe32(bytes, 4);
  if (version < kVersionWithoutNeeds || version > kLocatorVersion) {
    return Malformed();
  }
  const bool is_bound = version == kLocatorVersion;
  const std::size_t files = ReadLe32(bytes, 8);
  const std::size_t level1 = ReadLe32(bytes, 12);
  const std::size_t leaves = ReadLe32(bytes, 16);
  const std::size_t places_begin = kLocatorHeadBytes + (is_bound ? Id::kBytes : 0);
  const std::size_t files_begin = places_begin + kFixedPlaces * kLocationBytes;
  const std::size_t shards_begin = files_begin + files * Id::kBytes;
  const std::size_t needs_begin = shards_begin + (level1 + leaves) * kShardPositionBytes;
  if (bytes.size() < needs_begin) {
    return Malformed();
  }
  const absl::string_view rest = bytes.substr(needs_begin);
  TreeLocator locator;
  locator.is_bound = is_bound;
  if (is_bound) {
    locator.volume = ReadId(bytes, kLocatorHeadBytes);
    ASSIGN_OR_RETURN(locator.needs, ReadNeeds(rest));
  } else if (version == kVersionWithoutNeeds && !rest.empty()) {
    return Malformed();
  }
  RETURN_IF_ERROR(ReadBlobLocation(bytes, places_begin, locator.root));
  RETURN_IF_ERROR(ReadBlobLocation(bytes, places_begin + kLocationBytes, locator.image_tree));
  RETURN_IF_ERROR(ReadBlobLocation(bytes, places_begin + 2 * kLocationBytes, locator.manifest));
  for (std::size_t i = 0; i < files; ++i) {
    locator.files.push_back(ReadId(bytes, files_begin + i * Id::kBytes));
  }
  for (std::size_t i = 0; i < level1 + leaves; ++i) {
    const ShardPosition place = ReadShardPosition(bytes, shards_begin + i * kShardPositionBytes);
    if (place.file > files || (place.file != 0 && place.sealed_bytes < kEnvelopeBytes)) {
      return Malformed();
    }
    (i < level1 ? locator.level1_shards : locator.leaf_shards).push_back(place);
  }
  return locator;
}

}  // namespace csidelta::repository
