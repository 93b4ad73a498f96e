#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "base/quantity.h"
#include "objects/object.h"

namespace csidelta::objects {

class ResourceQuota : public ObjectOf<ResourceQuota> {
 public:
  static constexpr KindName kKind = {"", "v1", "resourcequotas", "ResourceQuota"};

  // Of what is counted, such as "count/volumesnapshots.snapshot.storage.k8s.io": how much there may
  // be and how much there is, as the status says; nothing where it does not.
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

}  // namespace csidelta::objects
