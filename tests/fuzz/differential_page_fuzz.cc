// What the REST server of a DifferentialSnapshot may answer: a page that is inside every limit and
// stays the same when written and read again, or a clear error.

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "incremental/sources/differential_wire.h"

namespace csidelta::incremental::differential_page_fuzz {
namespace {

void CheckPageText(absl::string_view text) {
  absl::StatusOr<DifferentialPage> page = ParsePage(text);
  if (!page.ok()) {
    CSIDELTA_CHECK(absl::IsInvalidArgument(page.status()));
    return;
  }
  CSIDELTA_CHECK(std::ssize(page->blocks) <= kPageEntriesMax);
  CSIDELTA_CHECK(std::ssize(page->next_offset) <= kPageCursorBytesMax);
  const absl::StatusOr<DifferentialPage> again = ParsePage(EncodePage(*page));
  CSIDELTA_CHECK(again.ok() && *again == *page);
  if (!CheckBlocks(/*from_bytes=*/4096, page->volume_size_bytes, page->blocks).ok()) {
    return;
  }
  int64_t end_bytes = 4096;
  for (const ChangedBlock& block : page->blocks) {
    CSIDELTA_CHECK(IsWellFormed(block.extent) && block.extent.offset_bytes >= end_bytes);
    end_bytes = block.extent.end_bytes();
  }
  CSIDELTA_CHECK(page->blocks.empty() || end_bytes <= page->volume_size_bytes);
}

void CheckErrorText(absl::string_view text) {
  const DifferentialError error = ParseError(400, text);
  CSIDELTA_CHECK(HttpStatusOf(error.code) == 400 && !error.message.empty());
}

}  // namespace
}  // namespace csidelta::incremental::differential_page_fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes) {
  const absl::string_view text(reinterpret_cast<const char*>(data), bytes);
  csidelta::incremental::differential_page_fuzz::CheckPageText(text);
  csidelta::incremental::differential_page_fuzz::CheckErrorText(text);
  return 0;
}
