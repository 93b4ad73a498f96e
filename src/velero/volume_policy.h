#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "objects/core.h"
#include "objects/persistent_volume.h"

namespace csidelta::velero {

// What a volume policy looks at. Borrows both objects.
struct VolumeInfo {
  const objects::PersistentVolumeClaim& pvc;
  const objects::PersistentVolume* pv = nullptr;  // null while the claim has no volume
};

enum class PolicyAction { kSkip, kSnapshot, kFsBackup, kCustom };

// The answer of a list of policies for one volume.
struct PolicyMatch {
  enum class Kind {
    kNoMatch,
    kUndecidable,  // a rule that may match says something that we do not understand
    kRule,
  };
  Kind kind = Kind::kNoMatch;
  std::string rule{};  // "volume policy 2 of ConfigMap velero/policies", for people
  // kUndecidable: what is not understood, naming the rule and the key.
  std::string reason{};
  // kRule:
  PolicyAction action = PolicyAction::kSkip;
  std::map<std::string, std::string> parameters{};
};

struct VolumeRule;

// Which action do volume policies choose for a volume?
//
// Holds the rules of a backup in their order; the first one whose conditions all hold decides, as
// in Velero. What Velero refuses today (a wrong value of a known key) is refused here. What only a
// later Velero can have accepted (an unknown condition, an unknown action) makes its rule
// undecidable: it stops the search, unless the conditions that are understood already fail.
// A condition on something that the volume does not have does not hold; without a volume, its
// capacity counts as 0. Immutable once built; copies share the rules; thread-safe.
class VolumePolicies {
 public:
  // No rules: nothing matches.
  VolumePolicies() = default;

  // Reads a policy document of version v1; keys beside `volumePolicies` are ignored.
  // `source` names the document in messages. INVALID_ARGUMENT naming rule and key.
  static absl::StatusOr<VolumePolicies> Parse(absl::string_view yaml, absl::string_view source);

  // Reads a ConfigMap with exactly one key, whatever its name.
  static absl::StatusOr<VolumePolicies> FromConfigMap(const objects::ConfigMap& config_map);

  // These rules, followed by those of `global`.
  VolumePolicies FollowedBy(const VolumePolicies& global) const;

  PolicyMatch Match(const VolumeInfo& volume) const;

  // Whether the parameter has this value in any of the rules, whichever volumes they are for.
  bool AnyRuleHas(const std::string& parameter, absl::string_view value) const;

  // Whether any rule has this action.
  bool AnyRuleIs(PolicyAction action) const;

  std::size_t size() const { return rules_.size(); }

 private:
  // Shared, because rules are many times larger than the handles that callers copy.
  std::vector<std::shared_ptr<const VolumeRule>> rules_;
};

}  // namespace csidelta::velero
