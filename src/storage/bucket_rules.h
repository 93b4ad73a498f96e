#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "storage/versioned_store.h"

// What a bucket does by itself with what is put into it. What cannot be read is an error for
// itself, never "nothing".
namespace csidelta::storage {

struct ObjectLockRule {
  bool is_enabled = false;
  std::string mode = {};  // of the default retention: "GOVERNANCE", "COMPLIANCE"; "": none
  int64_t days = 0;       // of it; a year counts as 365
};

// One that is enabled.
struct LifecycleRule {
  std::string id = {};       // at most 255 bytes
  std::string prefix = {};   // of keys in the bucket; "": all
  bool is_narrower = false;  // it also asks for tags or sizes
  bool expires_current = false;
  bool archives_current = false;  // to a class whose objects are restored before they are read
  // Since they were written over or deleted, versions go after so many days.
  std::optional<int64_t> noncurrent_days = {};
};

inline constexpr std::size_t kLifecycleRulesMax = 1000;  // S3's own limit

struct BucketRules {
  absl::StatusOr<bool> keeps_versions = false;
  absl::StatusOr<ObjectLockRule> object_lock = ObjectLockRule();
  absl::StatusOr<std::vector<LifecycleRule>> lifecycle = std::vector<LifecycleRule>();
};

// Three requests.
BucketRules ReadBucketRules(const CallContext& ctx, VersionedStore& store);

// INVALID_ARGUMENT for what is no such document. "" is a bucket without. Pure.
absl::StatusOr<bool> ParseVersioning(const std::string& xml);
absl::StatusOr<ObjectLockRule> ParseObjectLock(const std::string& xml);
absl::StatusOr<std::vector<LifecycleRule>> ParseLifecycle(const std::string& xml);

}  // namespace csidelta::storage
