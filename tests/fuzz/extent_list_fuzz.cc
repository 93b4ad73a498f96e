// A list of extents, as a broken or hostile program may write it: however it is cut, the same list
// comes out, in order and disjoint, or a clear error.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "incremental/sources/extent_list_source.h"

namespace csidelta::incremental::extent_list_fuzz {
namespace {

absl::StatusOr<ExtentList> Read(absl::string_view bytes, std::size_t piece_bytes) {
  ExtentListReader reader;
  while (!bytes.empty()) {
    const absl::string_view piece = bytes.substr(0, piece_bytes);
    bytes.remove_prefix(piece.size());
    if (absl::Status status = reader.Feed(piece); !status.ok()) {
      return status;
    }
  }
  return reader.Finish();
}

void CheckOrder(const std::vector<ListedExtent>& extents) {
  int64_t end_bytes = 0;
  for (const ListedExtent& listed : extents) {
    CSIDELTA_CHECK(IsWellFormed(listed.extent));
    CSIDELTA_CHECK(listed.extent.offset_bytes >= end_bytes);
    end_bytes = listed.extent.end_bytes();
  }
}

}  // namespace
}  // namespace csidelta::incremental::extent_list_fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes) {
  const absl::string_view text(reinterpret_cast<const char*>(data), bytes);
  const auto whole =
      csidelta::incremental::extent_list_fuzz::Read(text, std::max<std::size_t>(bytes, 1));
  const auto pieces = csidelta::incremental::extent_list_fuzz::Read(text, 7);
  CSIDELTA_CHECK(whole.status() == pieces.status());
  if (whole.ok()) {
    CSIDELTA_CHECK(whole->base == pieces->base && whole->extents == pieces->extents);
    csidelta::incremental::extent_list_fuzz::CheckOrder(whole->extents);
  }
  return 0;
}
