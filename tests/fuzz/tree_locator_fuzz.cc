// A tree locator from anybody.

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "repository/tree_locator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes) {
  const auto locator =
      csidelta::repository::TreeLocator::Decode({reinterpret_cast<const char*>(data), bytes});
  if (locator.ok()) {
    CSIDELTA_CHECK(csidelta::repository::TreeLocator::Decode(locator->Encode()).ok());
  } else {
    CSIDELTA_CHECK(absl::IsInvalidArgument(locator.status()));
  }
  return 0;
}
