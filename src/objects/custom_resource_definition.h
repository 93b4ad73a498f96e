#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "objects/object.h"

namespace csidelta::objects {

class CustomResourceDefinition : public ObjectOf<CustomResourceDefinition> {
 public:
  static constexpr KindName kKind = {"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                     "CustomResourceDefinition", false};

  std::string group() const { return Text({"spec", "group"}); }
  std::string defined_kind() const { return Text({"spec", "names", "kind"}); }
  // Whether the schema of that version declares a member of a part, "spec" or "status", such as
  // "job" or "job.upload": the API server drops others.
  bool Declares(absl::string_view version, absl::string_view part, absl::string_view member) const;
};

}  // namespace csidelta::objects
