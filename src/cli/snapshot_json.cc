#include "cli/snapshot_json.h"

#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "base/rfc3339.h"

namespace csidelta::cli {
namespace {

Json TimeJson(const std::optional<absl::Time>& time) {
  return time.has_value() ? Json(FormatRfc3339(*time)) : Json();
}

}  // namespace

Json ToJson(const csi::SnapshotEntry& entry) {
  Json conditions = Json::array();
  for (const csi::SnapshotCondition& one : entry.status.conditions) {
    Json condition = {{"type", one.type},
                      {"status", one.holds ? "True" : "False"},
                      {"reason", one.reason},
                      {"message", one.message}};
    if (one.last_transition_time.has_value()) {
      condition["lastTransitionTime"] = FormatRfc3339(*one.last_transition_time);
    }
    conditions.push_back(std::move(condition));
  }
  Json kept_for = Json::array();
  for (const csi::Protection& one : entry.kept_for) {
    kept_for.push_back({{"reason", csi::ToString(one.reason)}, {"message", one.message}});
  }
  return {{"name", entry.name},
          {"namespace", entry.namespace_name},
          {"pvc", entry.pvc},
          {"state", csi::ToString(entry.status.state)},
          {"conditions", std::move(conditions)},
          {"asked_at", TimeJson(entry.asked_at)},
          {"taken_at", TimeJson(entry.status.taken_at)},
          {"ready_at", TimeJson(entry.ready_at)},
          {"size_bytes",
           entry.restore_size_bytes.has_value() ? Json(*entry.restore_size_bytes) : Json()},
          {"driver", entry.driver},
          {"handle", entry.handle},
          {"content", entry.content},
          {"class", entry.class_name},
          {"policy", entry.deletion_policy},
          {"set", entry.set},
          {"workload", entry.workload},
          {"note", entry.note},
          {"used_by", entry.used_by},
          {"shared_with", entry.shared_with},
          {"kept_for", std::move(kept_for)}};
}

}  // namespace csidelta::cli
