// A volume policy as anybody may write it into a ConfigMap: reading it neither crashes nor runs
// away, and what was read decides about volumes without surprises.

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/json.h"
#include "velero/volume_policy.h"

namespace csidelta::velero::policy_yaml_fuzz {
namespace {

using objects::PersistentVolume;
using objects::PersistentVolumeClaim;

void CheckMatch(const VolumePolicies& policies, const VolumeInfo& volume) {
  const PolicyMatch match = policies.Match(volume);
  CSIDELTA_CHECK((match.kind == PolicyMatch::Kind::kNoMatch) == match.rule.empty());
  CSIDELTA_CHECK((match.kind == PolicyMatch::Kind::kUndecidable) == !match.reason.empty());
  // The same rules a second time change nothing: the first match has won already.
  const PolicyMatch again = policies.FollowedBy(policies).Match(volume);
  CSIDELTA_CHECK(again.kind == match.kind && again.rule == match.rule);
}

void CheckPolicy(absl::string_view text) {
  const absl::StatusOr<VolumePolicies> policies = VolumePolicies::Parse(text, "fuzz");
  if (!policies.ok()) {
    CSIDELTA_CHECK(policies.status().code() == absl::StatusCode::kInvalidArgument);
    return;
  }
  static const PersistentVolumeClaim& pvc =
      *new PersistentVolumeClaim(*PersistentVolumeClaim::Of(*ParseJson(
          R"({"metadata":{"labels":{"tier":"gold"}},"status":{"phase":"Bound"},
          "spec":{"volumeMode":"Block","accessModes":["ReadWriteOnce"]}})")));
  static const PersistentVolume& pv = *new PersistentVolume(*PersistentVolume::Of(*ParseJson(
      R"({"spec":{"capacity":{"storage":"10Gi"},"storageClassName":"fast",
          "csi":{"driver":"d","volumeAttributes":{"a":"b"}}}})")));
  static const PersistentVolumeClaim& no_pvc = *new PersistentVolumeClaim();
  static const PersistentVolume& no_pv = *new PersistentVolume();
  CheckMatch(*policies, {.pvc = pvc, .pv = &pv});
  CheckMatch(*policies, {.pvc = pvc});
  CheckMatch(*policies, {.pvc = no_pvc, .pv = &no_pv});
}

}  // namespace
}  // namespace csidelta::velero::policy_yaml_fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  csidelta::velero::policy_yaml_fuzz::CheckPolicy(
      absl::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
