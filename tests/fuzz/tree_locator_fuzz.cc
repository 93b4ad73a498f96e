// A tree locator, or a shard of one, from anybody.

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "repository/tree_locator.h"

namespace {

template <typename Decoded>
void Decode(absl::string_view bytes) {
  const absl::StatusOr<Decoded> read = Decoded::Decode(bytes);
  if (read.ok()) {
    const absl::StatusOr<Decoded> again = Decoded::Decode(read->Encode());
    CSIDELTA_CHECK(again.ok() && *again == *read);
  } else {
    CSIDELTA_CHECK(absl::IsInvalidArgument(read.status()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes) {
  const absl::string_view text(reinterpret_cast<const char*>(data), bytes);
  Decode<csidelta::repository::TreeLocator>(text);
  Decode<csidelta::repository::LocatorShard>(text);
  return 0;
}
