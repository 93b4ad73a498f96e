#include "storage/bucket_rules.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
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
  } else if (path == "NoncurrentVersionExpiration/NoncurrentDays") {
    ASSIGN_OR_RETURN(rule.noncurrent_days, ReadDays(text));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> ParseVersioning(const std::string& xml) {
  bool is_document = false;
  bool is_enabled = false;
  RETURN_IF_ERROR(ReadXml(xml, [&](absl::string_view path, const std::string& text) {
    is_document = is_document || path == "VersioningConfiguration";
    is_enabled = is_enabled || (path == "VersioningConfiguration/Status" && text == "Enabled");
    return absl::OkStatus();
  }));
  if (!is_document) {
    return absl::InvalidArgumentError("not the versioning of a bucket");
  }
  return is_enabled;
}

absl::StatusOr<ObjectLockRule> ParseObjectLock(const std::string& xml) {
  ObjectLockRule rule;
  if (xml.empty()) {
    return rule;
  }
  bool is_document = false;
  RETURN_IF_ERROR(ReadXml(xml, [&](absl::string_view path, std::string text) -> absl::Status {
    is_document = is_document || path == "ObjectLockConfiguration";
    if (!absl::ConsumePrefix(&path, "ObjectLockConfiguration/")) {
      return absl::OkStatus();
    }
    if (path == "ObjectLockEnabled") {
      rule.is_enabled = text == "Enabled";
    } else if (path == "Rule/DefaultRetention/Mode") {
      rule.mode = std::move(text);
    } else if (path == "Rule/DefaultRetention/Days") {
      ASSIGN_OR_RETURN(rule.days, ReadDays(text));
    } else if (path == "Rule/DefaultRetention/Years") {
      ASSIGN_OR_RETURN(const int64_t years, ReadDays(text));
      rule.days = years * kDaysOfYear;
    }
    return absl::OkStatus();
  }));
  if (!is_document) {
    return absl::InvalidArgumentError("not the object lock of a bucket");
  }
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
  bool is_document = false;
  bool is_enabled = false;
  RETURN_IF_ERROR(ReadXml(xml, [&](absl::string_view path, std::string text) -> absl::Status {
    is_document = is_document || path == "LifecycleConfiguration";
    if (path == "LifecycleConfiguration/Rule") {
      if (rules.size() >= kLifecycleRulesMax) {
        return absl::InvalidArgumentError("a bucket has too many lifecycle rules");
      }
      LifecycleRule done = std::exchange(rule, {});
      if (std::exchange(is_enabled, false)) {
        rules.push_back(std::move(done));
      }
    } else if (path == "LifecycleConfiguration/Rule/Status") {
      is_enabled = text == "Enabled";
    } else if (absl::ConsumePrefix(&path, "LifecycleConfiguration/Rule/")) {
      return ReadRule(path, std::move(text), rule);
    }
    return absl::OkStatus();
  }));
  if (!is_document) {
    return absl::InvalidArgumentError("not the lifecycle of a bucket");
  }
  return rules;
}

BucketRules ReadBucketRules(const CallContext& ctx, VersionedStore& store) {
  return {.keeps_versions = Read(ctx, store, BucketDocument::kVersioning, ParseVersioning),
          .object_lock = Read(ctx, store, BucketDocument::kObjectLock, ParseObjectLock),
          .lifecycle = Read(ctx, store, BucketDocument::kLifecycle, ParseLifecycle)};
}

}  // namespace csidelta::storage
