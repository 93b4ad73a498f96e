// A tree locator, or a shard of one, from anybody.

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "repository/tree_locator.h"

namespace {

using csidelta::repository::LocatorShard;
using csidelta::repository::TreeLocator;

// Older ones are written as the version of today.
bool IsWrittenAlike(const LocatorShard&) { return true; }
bool IsWrittenAlike(const TreeLocator& locator) { return locator.is_bound; }

template <typename Decoded>
void Decode(absl::string_view bytes) {
  const absl::StatusOr<Decoded> read = Decoded::Decode(bytes);
  if (read.ok()) {
    const absl::StatusOr<Decoded> again = Decoded::Decode(read->Encode());
    CSIDELTA_CHECK(again.ok() && (*again == *read || !IsWrittenAlike(*read)));
  } else {
    CSIDELTA_CHECK(absl::IsInvalidArgument(read.status()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes) {
  const absl::string_view text(reinterpret_cast<const char*>(data), bytes);
  Decode<TreeLocator>(text);
  Decode<LocatorShard>(text);
  return 0;
}
