// A pack header from anybody: what is taken can be written again, byte for byte, and its blobs lie
// one behind the other.

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "repository/pack_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes) {
  const absl::string_view header(reinterpret_cast<const char*>(data), bytes);
  for (const int64_t pack_bytes : {int64_t{209}, int64_t{1} << 20}) {
    const auto entries = csidelta::repository::DecodePackHeader(header, pack_bytes);
    if (!entries.ok()) {
      CSIDELTA_CHECK(absl::IsDataLoss(entries.status()));
      continue;
    }
    CSIDELTA_CHECK(csidelta::repository::EncodePackHeader(*entries) == header);
    CSIDELTA_CHECK(csidelta::repository::PackBytes(*entries) == pack_bytes);
  }
  return 0;
}
