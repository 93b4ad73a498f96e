#pragma once

#include <string>

#include "base/json.h"
#include "base/yaml.h"
#include "datamover/controller/mover_kinds.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/paths.h"

namespace csidelta::support {

// A CRD as the chart ships it: "volumetask.yaml".
inline Json ShippedDefinition(const std::string& file) {
  return ParseYaml(ReadSource("deploy/chart/crds/" + file)).value_or(Json());
}

// The CRDs of the mover's kinds, as after an installation.
inline void SeedMoverKinds(FakeApiClient& api) {
  for (const char* file : {"volumetask.yaml", "datadeletion.yaml", "protectedvolume.yaml"}) {
    api.Seed(objects::CustomResourceDefinition::Type(), ShippedDefinition(file));
  }
}

}  // namespace csidelta::support
