#pragma once

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "objects/object.h"

namespace csidelta::support {

// What a test wrote as JSON, as the kind that it is of.
template <typename Kind>
Kind As(Json json) {
  return Kind::Of(std::move(json)).value();
}

// What is no object of the kind, which no API server lists, is left out.
template <typename Kind>
std::vector<Kind> AllAs(const std::vector<Json>& list) {
  std::vector<Kind> all;
  for (const Json& json : list) {
    if (absl::StatusOr<Kind> one = Kind::Of(json); one.ok()) {
      all.push_back(*std::move(one));
    }
  }
  return all;
}

// Changes a field of an object that a test holds.
template <typename Kind>
void SetField(Kind& object, JsonPath path, Json value) {
  Json json = object.json();
  SetJson(json, path, std::move(value));
  object = As<Kind>(std::move(json));
}

}  // namespace csidelta::support
