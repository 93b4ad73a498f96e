#pragma once

#include <string>
#include <vector>

#include "objects/core.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/kind_names.h"

namespace csidelta::deleteitemactions {

// The texts of the record of what deletions of backups had to leave; none where there is no record.
inline std::vector<std::string> UndeletedTexts(const support::FakeApiClient& api) {
  std::vector<std::string> texts;
  const auto record =
      api.Find(objects::ConfigMap::Key("velero", objects::kUndeletedConfigMap)).value_or(Json());
  for (const auto& [key, text] : GetStringMap(record, {"data"})) {
    texts.push_back(text);
  }
  return texts;
}

}  // namespace csidelta::deleteitemactions
