#include "velero/labels.h"

#include "absl/strings/str_cat.h"
#include "base/crypto.h"

namespace csidelta::velero {
namespace {

constexpr std::size_t kHashDigits = 6;

}  // namespace

std::string ValidLabelValue(absl::string_view name) {
  if (name.size() <= kLabelValueBytesMax) {
    return std::string(name);
  }
  return absl::StrCat(name.substr(0, kLabelValueBytesMax - kHashDigits),
                      Sha256Hex(name).substr(0, kHashDigits));
}

std::string RestoredSnapshotName(absl::string_view restore_uid, absl::string_view original_name) {
  return Sha256Hex(absl::StrCat(restore_uid, "/", original_name));
}

}  // namespace csidelta::velero
