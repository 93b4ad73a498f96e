#pragma once

#include <string>
#include <utility>

#include "base/json.h"
#include "base/json_section.h"

// On which nodes a Pod may run, as settings say it: they go into Pods as they are.
namespace csidelta::objects {

// spec.tolerations of a Pod. A value.
class Tolerations {
 public:
  Tolerations() = default;                                     // none
  explicit Tolerations(Json list) : json_(std::move(list)) {}  // an array

  bool is_empty() const { return json_.empty(); }
  const Json& json() const { return json_; }

 private:
  Json json_ = Json::array();
};

// spec.affinity of a Pod. A value.
class Affinity {
 public:
  Affinity() = default;                                         // none
  explicit Affinity(Json object) : json_(std::move(object)) {}  // an object

  const Json& json() const { return json_; }

 private:
  Json json_ = Json::object();
};

// The values of `key` in a section; `out` stays as it is where none exists, or a wrong one.
void ReadTolerations(JsonSection& section, const std::string& key, Tolerations& out);
void ReadAffinity(JsonSection& section, const std::string& key, Affinity& out);

}  // namespace csidelta::objects
