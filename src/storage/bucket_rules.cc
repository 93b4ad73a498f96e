#include "storage/bucket_rules.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "storage/s3_object_store.h"
#include "storage/s3_xml.h"

namespace csidelta::storage {
namespace {

constexpr int64_t kDaysMax = 1'000'000;
constexpr int64_t kDaysOfYear = 365;
constexpr std::size_t kIdBytesMax = 255;

absl::StatusOr<int64_t> ReadDays(absl::string_view text) {
  int64_t days = 0;
  if (!absl::SimpleAtoi(text, &days) || days < 0 || days > kDaysMax) {
    return absl::InvalidArgumentError("a number of days is not a number");
  }
  return days;
}

template <typename Parse>
auto Read(const CallContext& ctx, VersionedStore& store, BucketDocument document, Parse parse)
    -> decltype(parse("")) {
  ASSIGN_OR_RETURN(const std::string xml, store.GetBucketDocument(ctx, document));
  return parse(xml);
}

// Below "LifecycleConfiguration/Rule/".
absl::Status ReadRule(absl::string_view path, std::string text, LifecycleRule& rule) {
  if (path == "ID") {
    rule.id = text.substr(0, kIdBytesMax);
  } else if (path == "Prefix" || path == "Filter/Prefix" || path == "Filter/And/Prefix") {
    rule.prefix = std::move(text);
  } else if (absl::StartsWith(path, "Filter/") && path != "Filter/And") {
    rule.is_narrower = true;
  } else if (path == "Expiration/Days" || path == "Expiration/Date") {
    rule.expires_current = true;
  } else if (path == "Transition/StorageClass") {
    rule.archives_current |= absl::c_linear_search(kArchiveClasses, text);
  } else if (path == "NoncurrentVersionExpiration/NoncurrentDays") {
    ASSIGN_OR_RETURN(rule.noncurrent_days, ReadDays(text));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> ParseVersioning(const std::string& xml) {
  std::string status;
  RETURN_IF_ERROR(ReadXmlBelow("VersioningConfiguration", "the versioning of a bucket", xml,
                               [&](absl::string_view path, const std::string& text) {
                                 PickText(path, text, {{"Status", &status}});
                                 return absl::OkStatus();
                               }));
  return status == "Enabled";
}

absl::StatusOr<ObjectLockRule> ParseObjectLock(const std::string& xml) {
  ObjectLockRule rule;
  if (xml.empty()) {
    return rule;
  }
  const auto take = [&](absl::string_view path, const std::string& text) -> absl::Status {
    PickText(path, text, {{"Rule/DefaultRetention/Mode", &rule.mode}});
    if (path == "ObjectLockEnabled") {
      rule.is_enabled = text == "Enabled";
    } else if (path == "Rule/DefaultRetention/Days") {
      ASSIGN_OR_RETURN(rule.days, ReadDays(text));
    } else if (path == "Rule/DefaultRetention/Years") {
      ASSIGN_OR_RETURN(const int64_t years, ReadDays(text));
      rule.days = years * kDaysOfYear;
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(
      ReadXmlBelow("ObjectLockConfiguration", "the object lock of a bucket", xml, take));
  if (!rule.mode.empty() && rule.mode != "GOVERNANCE" && rule.mode != "COMPLIANCE") {
    return absl::InvalidArgumentError("the default retention of a bucket has an unknown mode");
  }
  return rule;
}

absl::StatusOr<std::vector<LifecycleRule>> ParseLifecycle(const std::string& xml) {
  std::vector<LifecycleRule> rules;
  if (xml.empty()) {
    return rules;
  }
  LifecycleRule rule;
  std::string status;
  const auto take = [&](absl::string_view path, std::string text) -> absl::Status {
    PickText(path, text, {{"Rule/Status", &status}});
    if (path == "Rule") {
      if (rules.size() >= kLifecycleRulesMax) {
        return absl::InvalidArgumentError("a bucket has too many lifecycle rules");
      }
      LifecycleRule done = std::exchange(rule, {});
      if (std::exchange(status, "") == "Enabled") {
        rules.push_back(std::move(done));
      }
    }
    return absl::ConsumePrefix(&path, "Rule/") ? ReadRule(path, std::move(text), rule)
                                               : absl::OkStatus();
  };
  RETURN_IF_ERROR(ReadXmlBelow("LifecycleConfiguration", "the lifecycle of a bucket", xml, take));
  return rules;
}

BucketRules ReadBucketRules(const CallContext& ctx, VersionedStore& store) {
  return {.keeps_versions = Read(ctx, store, BucketDocument::kVersioning, ParseVersioning),
          .object_lock = Read(ctx, store, BucketDocument::kObjectLock, ParseObjectLock),
          .lifecycle = Read(ctx, store, BucketDocument::kLifecycle, ParseLifecycle)};
}

}  // namespace csidelta::storage
