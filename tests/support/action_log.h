#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "objects/keys.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"

namespace csidelta::support {

// What is logged while it exists: `told` at level info, `warnings` at any other. One at a time.
class ActionLog {
 public:
  ActionLog() {
    told().clear();
    warnings().clear();
    SetLogSink([](LogLevel level, const std::string& line) {
      (level == LogLevel::kInfo ? told() : warnings()).push_back(line);
    });
  }
  ~ActionLog() { SetLogSink(nullptr); }
  ActionLog(const ActionLog&) = delete;
  ActionLog& operator=(const ActionLog&) = delete;

  static std::vector<std::string>& told() {
    static std::vector<std::string> lines;
    return lines;
  }
  static std::vector<std::string>& warnings() {
    static std::vector<std::string> lines;
    return lines;
  }
  // All lines, in one text.
  static std::string text() {
    return absl::StrCat(absl::StrJoin(told(), ""), absl::StrJoin(warnings(), ""));
  }
};

// The ConfigMap of the plugin's settings, in place of an earlier one.
inline void SetPluginConfig(const Strings& settings, FakeApiClient& api) {
  Json config_map = MakeObject("v1", "ConfigMap", kVeleroNamespace, "csi-delta",
                               {{objects::kPluginConfigLabel, ""}, {objects::kCsiDeltaLabel, ""}});
  SetJson(config_map, {"data"}, settings);
  api.Seed(ConfigMapType(), config_map);
}

}  // namespace csidelta::support
