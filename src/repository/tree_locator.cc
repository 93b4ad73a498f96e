#include "repository/tree_locator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "repository/format.h"
#include "repository/little_endian.h"
#include "repository/sealer.h"

namespace csidelta::repository {
namespace {

constexpr absl::string_view kMagic = "CSDL";
constexpr uint32_t kVersion = 1;
constexpr std::size_t kHeadBytes = 16;
constexpr std::size_t kPlaceBytes = Id::kBytes + 4 * 4;

Id ReadId(absl::string_view bytes, std::size_t at) {
  std::array<uint8_t, Id::kBytes> id;
  std::memcpy(id.data(), bytes.data() + at, id.size());
  return Id(id);
}

void AppendId(std::string& out, const Id& id) { absl::StrAppend(&out, AsText(id.bytes())); }

absl::Status Malformed() { return absl::InvalidArgumentError("tree locator: malformed"); }

}  // namespace

void TreeLocator::Add(const BlobId& tree, const BlobLocation& location) {
  places_[tree] = location;
}

bool TreeLocator::Find(const BlobId& tree, BlobLocation& location) const {
  const auto found = places_.find(tree);
  if (found == places_.end()) {
    return false;
  }
  location = found->second;
  return true;
}

void TreeLocator::KeepOnly(absl::FunctionRef<bool(const BlobId&)> keep) {
  absl::erase_if(places_, [&](const auto& place) { return !keep(place.first); });
}

std::string TreeLocator::Encode() const {
  std::vector<std::pair<BlobId, BlobLocation>> places(places_.begin(), places_.end());
  std::sort(places.begin(), places.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<PackId> packs;
  absl::flat_hash_map<PackId, uint32_t> ordinals;
  for (const auto& [tree, location] : places) {
    if (ordinals.emplace(location.pack, static_cast<uint32_t>(packs.size())).second) {
      packs.push_back(location.pack);
    }
  }
  std::string out(kMagic);
  out.reserve(kHeadBytes + packs.size() * Id::kBytes + places.size() * kPlaceBytes);
  AppendLe32(out, kVersion);
  AppendLe32(out, static_cast<uint32_t>(packs.size()));
  AppendLe32(out, static_cast<uint32_t>(places.size()));
  for (const PackId& pack : packs) {
    AppendId(out, pack);
  }
  for (const auto& [tree, location] : places) {
    AppendId(out, tree);
    AppendLe32(out, ordinals[location.pack]);
    AppendLe32(out, location.span.offset_bytes);
    AppendLe32(out, location.span.sealed_bytes);
    AppendLe32(out, location.span.uncompressed_bytes);
  }
  return out;
}

absl::StatusOr<TreeLocator> TreeLocator::Decode(absl::string_view bytes) {
  if (bytes.size() < kHeadBytes || bytes.substr(0, kMagic.size()) != kMagic ||
      ReadLe32(bytes, 4) != kVersion) {
    return Malformed();
  }
  const std::size_t packs = ReadLe32(bytes, 8);
  const std::size_t places = ReadLe32(bytes, 12);
  const std::size_t places_begin = kHeadBytes + packs * Id::kBytes;
  if (bytes.size() != places_begin + places * kPlaceBytes) {
    return Malformed();
  }
  TreeLocator locator;
  locator.places_.reserve(places);
  for (std::size_t i = 0; i < places; ++i) {
    const std::size_t at = places_begin + i * kPlaceBytes;
    const std::size_t numbers = at + Id::kBytes;
    const std::size_t pack = ReadLe32(bytes, numbers);
    const BlobSpan span = {.offset_bytes = ReadLe32(bytes, numbers + 4),
                           .sealed_bytes = ReadLe32(bytes, numbers + 8),
                           .uncompressed_bytes = ReadLe32(bytes, numbers + 12)};
    if (pack >= packs || span.sealed_bytes < kEnvelopeBytes) {
      return Malformed();
    }
    locator.places_[ReadId(bytes, at)] = {.pack = ReadId(bytes, kHeadBytes + pack * Id::kBytes),
                                          .span = span};
  }
  return locator;
}

}  // namespace csidelta::repository
