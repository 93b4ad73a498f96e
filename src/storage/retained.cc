#include "storage/retained.h"

#include "absl/strings/cord.h"

namespace csidelta::storage {
namespace {

constexpr char kRetainedPayload[] = "csi-delta/retained";

}  // namespace

absl::Status AsRetained(absl::Status status) {
  status.SetPayload(kRetainedPayload, absl::Cord("1"));
  return status;
}

bool IsRetained(const absl::Status& status) {
  return status.GetPayload(kRetainedPayload).has_value();
}

}  // namespace csidelta::storage
