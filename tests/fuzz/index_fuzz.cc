// An index file from anybody: what is taken comes back when it is written again, and can be looked
// up.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "repository/index.h"
#include "tests/support/index_lookup.h"

namespace csidelta::repository::index_fuzz {
namespace {

absl::StatusOr<std::vector<IndexedPack>> Decode(absl::string_view text) {
  std::vector<IndexedPack> packs;
  const absl::Status status = support::DecodeIndexText(text, [&packs](const IndexedPack& pack) {
    packs.push_back(pack);
    return absl::OkStatus();
  });
  return status.ok() ? absl::StatusOr<std::vector<IndexedPack>>(packs) : status;
}

void Check(absl::string_view text) {
  const auto packs = Decode(text);
  if (!packs.ok()) {
    CSIDELTA_CHECK(absl::IsInvalidArgument(packs.status()));
    return;
  }
  const auto again = Decode(EncodeIndex(*packs));
  CSIDELTA_CHECK(again.ok() && again->size() == packs->size());
  ScratchSpace scratch({});
  BlobIndexBuilder builder(scratch);
  for (const IndexedPack& pack : *packs) {
    CSIDELTA_CHECK(builder.AddPack(pack).ok());
  }
  const auto index = builder.Build();
  CSIDELTA_CHECK(index.ok());
  for (const IndexedPack& pack : *packs) {
    for (const PackEntry& entry : pack.entries) {
      CSIDELTA_CHECK(*support::Contains(*index, entry.handle));
    }
  }
}

}  // namespace
}  // namespace csidelta::repository::index_fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes) {
  csidelta::repository::index_fuzz::Check({reinterpret_cast<const char*>(data), bytes});
  return 0;
}
