// A tree from anybody, read as any tree and as each of those of a volume.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "repository/tree.h"
#include "repository/volume_layout.h"

namespace csidelta::repository::tree_fuzz {
namespace {

void Check(absl::string_view text) {
  std::string previous;
  const absl::Status status = DecodeTree(text, [&previous](Node& node) {
    CSIDELTA_CHECK(node.name > previous && node.name.find('/') == std::string::npos);
    previous = node.name;
    return absl::OkStatus();
  });
  CSIDELTA_CHECK(status.ok() || absl::IsDataLoss(status));
  DecodeLeafTree(text, 2, 1048576).status().IgnoreError();
  DecodeLevel1Tree(text, 1).status().IgnoreError();
  DecodeImageTree(text, 1).status().IgnoreError();
  DecodeRootTree(text).status().IgnoreError();
}

}  // namespace
}  // namespace csidelta::repository::tree_fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes) {
  csidelta::repository::tree_fuzz::Check({reinterpret_cast<const char*>(data), bytes});
  return 0;
}
