#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "repository/checker.h"

namespace csidelta::repository {
namespace {

// Spreads the bits of a number, so that a seed gives an order without meaning.
uint64_t Mix(uint64_t value) {
  value ^= value >> 31;
  value *= 0x9e3779b97f4a7c15ULL;
  value ^= value >> 29;
  value *= 0xd1342543de82ef95ULL;
  return value ^ (value >> 32);
}

bool IsIn(const ReadPart& subset, const PackId& pack) {
  CSIDELTA_CHECK(subset.part >= 1 && subset.part <= subset.parts);
  // Ids are hashes: parts are alike, and a pack stays in its part.
  return pack.Prefix64() % static_cast<uint64_t>(subset.parts) ==
         static_cast<uint64_t>(subset.part - 1);
}

void Shuffle(std::vector<FileInfo>& packs, uint64_t seed) {
  std::sort(packs.begin(), packs.end(), [seed](const FileInfo& left, const FileInfo& right) {
    const uint64_t left_rank = Mix(left.id.Prefix64() ^ Mix(seed));
    const uint64_t right_rank = Mix(right.id.Prefix64() ^ Mix(seed));
    return left_rank != right_rank ? left_rank < right_rank : left.id < right.id;
  });
}

std::size_t CountOf(const std::vector<FileInfo>& shuffled, const ReadBytes& subset) {
  int64_t bytes = 0;
  std::size_t count = 0;
  while (count < shuffled.size() && bytes < subset.bytes) {
    bytes += shuffled[count++].size_bytes;
  }
  return count;
}

}  // namespace

absl::StatusOr<DataSubset> ParseDataSubset(absl::string_view text) {
  if (const std::size_t slash = text.find('/'); slash != absl::string_view::npos) {
    ReadPart part;
    if (!absl::SimpleAtoi(text.substr(0, slash), &part.part) ||
        !absl::SimpleAtoi(text.substr(slash + 1), &part.parts) || part.part < 1 ||
        part.part > part.parts) {
      return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not a part like 2/7"));
    }
    return DataSubset(part);
  }
  if (!text.empty() && text.back() == '%') {
    ASSIGN_OR_RETURN(const double percent, ParsePercent(text));
    if (percent <= 0) {
      return absl::InvalidArgumentError("reading 0% of the data proves nothing");
    }
    return DataSubset(ReadShare{.percent = percent});
  }
  ASSIGN_OR_RETURN(const int64_t bytes, ParseByteSize(text));
  if (bytes <= 0) {
    return absl::InvalidArgumentError("reading 0 bytes of the data proves nothing");
  }
  return DataSubset(ReadBytes{.bytes = bytes});
}

std::vector<FileInfo> ChooseSubset(std::vector<FileInfo> packs, const DataSubset& subset,
                                   uint64_t seed) {
  if (std::holds_alternative<ReadNothing>(subset)) {
    return {};
  }
  if (const auto* part = std::get_if<ReadPart>(&subset)) {
    std::erase_if(packs, [part](const FileInfo& pack) { return !IsIn(*part, pack.id); });
    return packs;
  }
  std::size_t count = packs.size();
  Shuffle(packs, seed);
  if (const auto* share = std::get_if<ReadShare>(&subset)) {
    const double exact = static_cast<double>(packs.size()) * share->percent / 100;
    count = std::min(packs.size(), static_cast<std::size_t>(std::ceil(exact)));
  } else if (const auto* bytes = std::get_if<ReadBytes>(&subset)) {
    count = CountOf(packs, *bytes);
  }
  packs.resize(count);
  return packs;
}

bool MayBeChosen(const FileInfo& pack, const DataSubset& subset, absl::Time read_newer_than) {
  const auto* part = std::get_if<ReadPart>(&subset);
  return pack.modified_at > read_newer_than ||
         (part != nullptr ? IsIn(*part, pack.id) : !std::holds_alternative<ReadNothing>(subset));
}

std::vector<FileInfo> ChoosePacks(std::vector<FileInfo> packs, const DataSubset& subset,
                                  absl::Time read_newer_than, uint64_t seed) {
  const auto older = std::partition(packs.begin(), packs.end(), [&](const FileInfo& pack) {
    return pack.modified_at > read_newer_than;
  });
  const std::vector<FileInfo> chosen =
      ChooseSubset(std::vector<FileInfo>(older, packs.end()), subset, seed);
  packs.erase(older, packs.end());
  packs.insert(packs.end(), chosen.begin(), chosen.end());
  return packs;
}

}  // namespace csidelta::repository
