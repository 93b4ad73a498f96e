#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/kind_names.h"

namespace csidelta::support {

// "Kind name Type Reason: message" of each Event that there is.
inline std::vector<std::string> EventTexts(const FakeApiClient& api) {
  std::vector<std::string> texts;
  for (const Json& event : api.All(EventType())) {
    texts.push_back(absl::StrCat(GetString(event, {"involvedObject", "kind"}), " ",
                                 GetString(event, {"involvedObject", "name"}), " ",
                                 GetString(event, {"type"}), " ", GetString(event, {"reason"}),
                                 ": ", GetString(event, {"message"})));
  }
  return texts;
}

}  // namespace csidelta::support
