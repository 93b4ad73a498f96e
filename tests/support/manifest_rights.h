#pragma once

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/json.h"
#include "base/yaml.h"
#include "tests/support/paths.h"

namespace csidelta::support {

// The rights that the Role or ClusterRole `role` of a manifest gives where it is bound, each as
// "verb plural NAMESPACE"; a namespace of "" stands for the whole cluster.
inline std::set<std::string> RightsOfRole(absl::string_view manifest, absl::string_view role,
                                          absl::string_view namespace_name) {
  std::set<std::string> rights;
  const std::string text = ReadSource(manifest);
  for (const absl::string_view part : absl::StrSplit(text, "\n---\n")) {
    const Json document = ParseYaml(part).value_or(Json());
    if (GetString(document, {"metadata", "name"}) != role || !document.contains("rules")) {
      continue;
    }
    for (const Json& rule : document.at("rules")) {
      for (const Json& resource : rule.at("resources")) {
        for (const Json& verb : rule.at("verbs")) {
          rights.insert(absl::StrCat(verb.get<std::string>(), " ", resource.get<std::string>(), " ",
                                     namespace_name));
        }
      }
    }
  }
  return rights;
}

}  // namespace csidelta::support
