#pragma once

#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "objects/object.h"

namespace csidelta::objects {

class Secret : public ObjectOf<Secret> {
 public:
  static constexpr KindName kKind = {"", "v1", "secrets", "Secret"};

  // As they are stored: base64.
  std::map<std::string, std::string> encoded_data() const { return GetStringMap(json(), {"data"}); }
  // "" where none exists.
  std::string EncodedValue(absl::string_view key) const { return Text({"data", key}); }

  void SetType(absl::string_view type) { Set({"type"}, type); }  // such as Opaque
  void SetEncodedData(const std::map<std::string, std::string>& data) { Set({"data"}, data); }
};

}  // namespace csidelta::objects
