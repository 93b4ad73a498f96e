#include "incremental/changed_block_source.h"

namespace csidelta::incremental {

absl::string_view ExtentKindName(ExtentKind kind) {
  switch (kind) {
    case ExtentKind::kData:
      return "data";
    case ExtentKind::kZero:
      return "zero";
    case ExtentKind::kUnknown:
      return "unknown";
  }
  return "unknown";
}

}  // namespace csidelta::incremental
