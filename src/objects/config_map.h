#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "objects/object.h"

namespace csidelta::objects {

class ConfigMap : public ObjectOf<ConfigMap> {
 public:
  static constexpr KindName kKind = {"", "v1", "configmaps", "ConfigMap"};

  std::string Value(absl::string_view key) const { return Text({"data", key}); }  // "": none
};

}  // namespace csidelta::objects
