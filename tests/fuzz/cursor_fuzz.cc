// What anybody may give for a cursor: a number of bytes, or a refusal; but for its own text, which
// cannot be guessed. As a token of a driver it comes back as it is.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "diffsnap/cursor.h"

namespace csidelta::diffsnap::cursor_fuzz {
namespace {

const CursorScope kScope{
    .namespace_name = "ns", .uid = "1", .base_handle = "a", .target_handle = "b"};

void Check(absl::string_view text) {
  static const CursorCodec codec{Secret(std::string(32, 'k'))};
  const absl::StatusOr<Cursor> foreign = codec.Decode(kScope, text);
  CSIDELTA_CHECK(!foreign.ok() || (foreign->driver_token.empty() && foreign->from_bytes >= 0 &&
                                   foreign->volume_size_bytes == 0));
  const absl::StatusOr<Cursor> start = ParseStartOffset(text);
  CSIDELTA_CHECK(!start.ok() || (start->from_bytes >= 0 && start->volume_size_bytes == 0 &&
                                 std::ssize(start->driver_token) <= kDriverTokenBytesMax));
  const Cursor own{.from_bytes = static_cast<int64_t>(text.size()),
                   .volume_size_bytes = 7,
                   .driver_token = std::string(text.substr(0, kDriverTokenBytesMax))};
  const std::string written = codec.Encode(kScope, own);
  const absl::StatusOr<Cursor> again = codec.Decode(kScope, written);
  CSIDELTA_CHECK(again.ok() && *again == own);
  std::string changed = written;
  changed[text.size() % changed.size()] ^= 1;
  CSIDELTA_CHECK(!codec.Decode(kScope, changed).ok());
}

}  // namespace
}  // namespace csidelta::diffsnap::cursor_fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes) {
  csidelta::diffsnap::cursor_fuzz::Check({reinterpret_cast<const char*>(data), bytes});
  return 0;
}
