#include "diffsnap/driver.h"

#include "absl/strings/cord.h"

namespace csidelta::diffsnap {
namespace {

constexpr char kViolationUrl[] = "csi-delta.io/driver-contract-violation";

}  // namespace

absl::Status ContractViolation(absl::string_view words) {
  absl::Status status = absl::InternalError(words);
  status.SetPayload(kViolationUrl, absl::Cord());
  return status;
}

bool IsContractViolation(const absl::Status& status) {
  return status.GetPayload(kViolationUrl).has_value();
}

}  // namespace csidelta::diffsnap
