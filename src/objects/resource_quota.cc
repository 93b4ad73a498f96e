#include "objects/resource_quota.h"

#include "base/quantity.h"

namespace csidelta::objects {

std::optional<int64_t> ResourceQuota::CountAt(JsonPath path) const {
  const absl::StatusOr<int64_t> count = ParseQuantity(Text(path));
  return count.ok() ? std::optional(*count) : std::nullopt;
}

}  // namespace csidelta::objects
