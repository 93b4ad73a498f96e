#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/quantity.h"
#include "base/rfc3339.h"
#include "objects/field_rules.h"
#include "objects/object.h"

// Small kinds of Kubernetes itself that live in namespaces.
namespace csidelta::objects {

class ConfigMap : public ObjectOf<ConfigMap> {
 public:
  static constexpr KindName kKind = {"", "v1", "configmaps", "ConfigMap"};

  // INVALID_ARGUMENT if its data is no map of texts.
  absl::Status Validate() const {
    static constexpr FieldRule kRules[] = {{"data", IsTextMap}};
    return CheckFields(json(), kRules);
  }
  std::map<std::string, std::string> data() const { return GetStringMap(json(), {"data"}); }
  std::string Value(absl::string_view key) const { return Text({"data", key}); }  // "": none
};

// The ConfigMap in Velero's namespace that the plugin records in what deletions of backups had to
// leave: a line for people each. Doctor lists it; you delete it.
inline constexpr char kUndeletedConfigMap[] = "csi-delta-undeleted";

class Secret : public ObjectOf<Secret> {
 public:
  static constexpr KindName kKind = {"", "v1", "secrets", "Secret"};

  // As they are stored: base64.
  std::map<std::string, std::string> encoded_data() const { return GetStringMap(json(), {"data"}); }
  // "" if it is missing.
  std::string EncodedValue(absl::string_view key) const { return Text({"data", key}); }

  void SetType(absl::string_view type) { Set({"type"}, type); }  // such as Opaque
  void SetEncodedData(const std::map<std::string, std::string>& data) { Set({"data"}, data); }
};

class ResourceQuota : public ObjectOf<ResourceQuota> {
 public:
  static constexpr KindName kKind = {"", "v1", "resourcequotas", "ResourceQuota"};

  // The limit and the use of what is counted, such as
  // "count/volumesnapshots.snapshot.storage.k8s.io", as the status has them; nothing if it does
  // not.
  std::optional<int64_t> Hard(absl::string_view counted) const {
    return CountAt({"status", "hard", counted});
  }
  std::optional<int64_t> Used(absl::string_view counted) const {
    return CountAt({"status", "used", counted});
  }

 private:
  std::optional<int64_t> CountAt(JsonPath path) const {  // 0 too
    const absl::StatusOr<int64_t> count = ParseQuantity(Text(path));
    return count.ok() ? std::optional(*count) : std::nullopt;
  }
};

class Lease : public ObjectOf<Lease> {
 public:
  static constexpr KindName kKind = {"coordination.k8s.io", "v1", "leases", "Lease"};

  std::string holder() const { return Text({"spec", "holderIdentity"}); }
  // By the holder's clock; nothing where it was never renewed.
  std::optional<absl::Time> renewed_at() const { return TimeAt({"spec", "renewTime"}); }

  // "" where it was renewed longer ago, or never.
  std::string HolderWithin(absl::Duration age_max, absl::Time now) const {
    const std::optional<absl::Time> renewed = renewed_at();
    return renewed.has_value() && *renewed + age_max >= now ? holder() : "";
  }

  void SetHolder(absl::string_view holder) { Set({"spec", "holderIdentity"}, holder); }
  // Acquired at `now`, to last for `duration` (whole seconds) unless it is renewed. Of the spec
  // nothing else stays.
  void Acquire(absl::string_view holder, absl::Duration duration, absl::Time now) {
    const std::string text = FormatRfc3339Micros(now);
    Set({"spec"}, {{"holderIdentity", holder},
                   {"leaseDurationSeconds", absl::ToInt64Seconds(duration)},
                   {"acquireTime", text},
                   {"renewTime", text}});
  }
  void Renew(absl::Time now) { Set({"spec", "renewTime"}, FormatRfc3339Micros(now)); }
};

}  // namespace csidelta::objects
