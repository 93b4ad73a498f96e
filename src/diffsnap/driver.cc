#include "diffsnap/driver.h"

#include "base/status_macros.h"

namespace csidelta::diffsnap {
namespace {

constexpr StatusMark kViolation("csi-delta.io/driver-contract-violation");

}  // namespace

absl::Status ContractViolation(absl::string_view words) {
  return kViolation.On(absl::InternalError(words));
}

bool IsContractViolation(const absl::Status& status) { return kViolation.IsOn(status); }

}  // namespace csidelta::diffsnap
