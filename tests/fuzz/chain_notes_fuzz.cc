// What was noted on chains, from anybody: what is taken can be written, and is then the same.

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "repository/chain.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes) {
  const auto notes = csidelta::repository::DecodeChainNotes(
      absl::string_view(reinterpret_cast<const char*>(data), bytes));
  if (!notes.ok()) {
    CSIDELTA_CHECK(notes.status().code() == absl::StatusCode::kInvalidArgument);
    return 0;
  }
  const auto again = csidelta::repository::DecodeChainNotes(EncodeChainNotes(*notes));
  CSIDELTA_CHECK(again.ok() && *again == *notes);
  return 0;
}
