#include "storage/retained.h"

#include <utility>

#include "base/status_mark.h"

namespace csidelta::storage {
namespace {

constexpr StatusMark kRetained("csi-delta/retained");

}  // namespace

absl::Status AsRetained(absl::Status status) { return kRetained.On(std::move(status)); }

bool IsRetained(const absl::Status& status) { return kRetained.IsOn(status); }

}  // namespace csidelta::storage
