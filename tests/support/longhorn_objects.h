#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "longhorn/types.h"

// Objects of longhorn.io/v1beta2 in Longhorn's namespace, as it shows them once it has worked on
// them.
namespace csidelta::support {

inline Json MakeLonghornObject(const std::string& kind, const std::string& name) {
  return {{"apiVersion", "longhorn.io/v1beta2"},
          {"kind", kind},
          {"metadata",
           {{"name", name},
            {"namespace", longhorn::kDefaultNamespace},
            {"finalizers", Json::array({"longhorn.io"})},
            {"creationTimestamp", "2023-11-01T00:00:00Z"},
            {"uid", absl::StrCat("uid-of-", name)}}}};
}

// A Ready one in the middle of its chain, of a RecurringJob if one is named.
inline Json MakeLonghornSnapshot(const std::string& name, const std::string& volume,
                                 const std::string& taken_at, const std::string& job = "") {
  Json object = MakeLonghornObject("Snapshot", name);
  SetJson(object, {"metadata", "labels", "longhornvolume"}, volume);
  object["spec"] = {{"volume", volume}, {"createSnapshot", true}, {"labels", Json::object()}};
  if (!job.empty()) {
    SetJson(object, {"spec", "labels", "RecurringJob"}, job);
  }
  object["status"] = {{"parent", absl::StrCat(name, "-parent")},
                      {"children", {{absl::StrCat(name, "-child"), true}}},
                      {"markRemoved", false},
                      {"userCreated", true},
                      {"readyToUse", true},
                      {"requestedTime", taken_at},
                      {"creationTime", taken_at},
                      {"size", 1 << 20},
                      {"restoreSize", int64_t{1} << 30},
                      {"error", ""}};
  return object;
}

// Attached, and bound to shop/data-of-NAME; the group "default" applies to it.
inline Json MakeLonghornVolume(const std::string& name) {
  Json object = MakeLonghornObject("Volume", name);
  SetJson(object, {"metadata", "labels", "recurring-job-group.longhorn.io/default"}, "enabled");
  object["spec"] = {{"size", "1073741824"}, {"snapshotMaxCount", 250}};
  object["status"] = {
      {"state", "attached"},
      {"robustness", "healthy"},
      {"kubernetesStatus", {{"namespace", "shop"}, {"pvcName", absl::StrCat("data-of-", name)}}}};
  return object;
}

inline Json MakeLonghornJob(const std::string& name, const Json& groups = Json::array()) {
  Json object = MakeLonghornObject("RecurringJob", name);
  object["spec"] = {{"task", "snapshot"}, {"groups", groups}, {"retain", 3}};
  return object;
}

inline Json MakeLonghornBackup(const std::string& name, const std::string& snapshot,
                               const std::string& state, const std::string& taken_at = "",
                               const std::string& volume = "pvc-1") {
  Json object = MakeLonghornObject("Backup", name);
  object["spec"] = {{"snapshotName", snapshot}};
  object["status"] = {{"state", state}, {"volumeName", volume}, {"snapshotCreatedAt", taken_at}};
  return object;
}

}  // namespace csidelta::support
