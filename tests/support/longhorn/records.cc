#include "tests/support/longhorn/records.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/rfc3339.h"
#include "k8s/object.h"
#include "tests/support/longhorn/kinds.h"

namespace csidelta::longhorn_stand_in {
namespace {

std::vector<std::string> FinalizersOf(const Json& object) {
  std::vector<std::string> finalizers;
  if (const Json* const found = FindJson(object, {"metadata", "finalizers"});
      found != nullptr && found->is_array()) {
    for (const Json& one : *found) {
      finalizers.push_back(one.is_string() ? one.get<std::string>() : "");
    }
  }
  return finalizers;
}

// The names of a map's members.
std::set<std::string> NamesIn(const Json& object, JsonPath path) {
  std::set<std::string> names;
  if (const Json* const found = FindJson(object, path); found != nullptr && found->is_object()) {
    for (const auto& [name, value] : found->items()) {
      names.insert(name);
    }
  }
  return names;
}

Json ChildrenJson(const std::set<std::string>& children) {
  Json json = Json::object();
  for (const std::string& child : children) {
    json[child] = true;
  }
  return json;
}

ChainEntry ReadEntry(const Json& json) {
  return {.parent = GetString(json, {"parent"}),
          .children = NamesIn(json, {"children"}),
          .is_removed = GetBool(json, {"removed"}),
          .is_user_created = GetBool(json, {"usercreated"}),
          .taken_at = ParseRfc3339(GetString(json, {"created"})).value_or(absl::UnixEpoch()),
          .size_bytes = GetInt(json, {"sizeBytes"}),
          .labels = GetStringMap(json, {"labels"})};
}

Json EntryJson(const std::string& name, const ChainEntry& entry) {
  return {{"name", name},
          {"parent", entry.parent},
          {"children", ChildrenJson(entry.children)},
          {"removed", entry.is_removed},
          {"usercreated", entry.is_user_created},
          {"created", FormatRfc3339Seconds(entry.taken_at)},
          {"sizeBytes", entry.size_bytes},
          {"labels", entry.labels}};
}

// Longhorn writes sizes of volumes as texts.
int64_t SizeOf(const Json& object, JsonPath path) {
  int64_t size = 0;
  return absl::SimpleAtoi(GetString(object, path), &size) ? size : 0;
}

}  // namespace

SnapshotRecord ReadSnapshot(const Json& object) {
  return {.name = k8s::Name(object),
          .uid = k8s::Uid(object),
          .resource_version = k8s::ResourceVersion(object),
          .volume = GetString(object, {"spec", "volume"}),
          .create_snapshot = GetBool(object, {"spec", "createSnapshot"}),
          .labels = GetStringMap(object, {"spec", "labels"}),
          .is_deleting = k8s::BeingDeleted(object),
          .finalizers = FinalizersOf(object),
          .status = {.parent = GetString(object, {"status", "parent"}),
                     .children = NamesIn(object, {"status", "children"}),
                     .is_removed = GetBool(object, {"status", "markRemoved"}),
                     .is_user_created = GetBool(object, {"status", "userCreated"}),
                     .requested_time = GetString(object, {"status", "requestedTime"}),
                     .creation_time = GetString(object, {"status", "creationTime"}),
                     .size_bytes = GetInt(object, {"status", "size"}),
                     .restore_size_bytes = GetInt(object, {"status", "restoreSize"}),
                     .labels = GetStringMap(object, {"status", "labels"}),
                     .error = GetString(object, {"status", "error"}),
                     .is_ready = GetBool(object, {"status", "readyToUse"})}};
}

VolumeRecord ReadVolume(const Json& object) {
  const int64_t max_count = GetInt(object, {"spec", "snapshotMaxCount"});
  return {
      .name = k8s::Name(object),
      .uid = k8s::Uid(object),
      .resource_version = k8s::ResourceVersion(object),
      .labels = GetStringMap(object, {"metadata", "labels"}),
      .size_bytes = SizeOf(object, {"spec", "size"}),
      .snapshot_max_count = max_count > 0 ? static_cast<int>(max_count) : kSnapshotMaxCountDefault,
      .is_deleting = k8s::BeingDeleted(object),
      .finalizers = FinalizersOf(object),
      .state = GetString(object, {"status", "state"}),
      .robustness = GetString(object, {"status", "robustness"}),
      .data_source = GetString(object, {"spec", "dataSource"}),
      .clone_state = GetString(object, {"status", "cloneStatus", "state"}),
      .clone_attempts =
          static_cast<int>(GetInt(object, {"status", "cloneStatus", "attemptCount"}))};
}

EngineRecord ReadEngine(const Json& object) {
  EngineRecord engine{.volume = GetString(object, {"spec", "volumeName"}),
                      .resource_version = k8s::ResourceVersion(object),
                      .image = GetString(object, {"spec", "image"}),
                      .is_running = GetString(object, {"status", "currentState"}) == "running",
                      .current_image = GetString(object, {"status", "currentImage"}),
                      .size_bytes = SizeOf(object, {"status", "currentSize"}),
                      .is_purging = !NamesIn(object, {"status", "purgeStatus"}).empty(),
                      .snapshots_error = GetString(object, {"status", "snapshotsError"}),
                      .entries = {}};
  if (const Json* const entries = FindJson(object, {"status", "snapshots"});
      entries != nullptr && entries->is_object()) {
    for (const auto& [name, entry] : entries->items()) {
      engine.entries[name] = ReadEntry(entry);
    }
  }
  return engine;
}

AttachmentRecord ReadAttachment(const Json& object) {
  return {.volume = GetString(object, {"spec", "volume"}),
          .tickets = NamesIn(object, {"spec", "attachmentTickets"})};
}

Json EntriesJson(const std::map<std::string, ChainEntry>& entries) {
  Json json = Json::object();
  for (const auto& [name, entry] : entries) {
    json[name] = EntryJson(name, entry);
  }
  return json;
}

Json StatusJson(const SnapshotStatus& status) {
  Json json = {{"parent", status.parent},
               {"children", ChildrenJson(status.children)},
               {"markRemoved", status.is_removed},
               {"userCreated", status.is_user_created},
               {"creationTime", status.creation_time},
               {"requestedTime", status.requested_time},
               {"size", status.size_bytes},
               {"restoreSize", status.restore_size_bytes},
               {"labels", status.labels},
               {"ownerID", ""},
               {"readyToUse", status.is_ready}};
  if (!status.error.empty()) {
    json["error"] = status.error;
  }
  return json;
}

Json StatusJson(const EngineRecord& engine) {
  Json json = {{"currentState", engine.is_running ? "running" : "stopped"},
               {"currentImage", engine.current_image},
               {"currentSize", absl::StrCat(engine.size_bytes)},
               {"snapshotsError", engine.snapshots_error},
               {"purgeStatus", Json::object()},
               {"snapshots", EntriesJson(engine.entries)}};
  if (engine.is_purging) {
    json["purgeStatus"]["tcp://replica"] = {{"isPurging", true}};
  }
  return json;
}

}  // namespace csidelta::longhorn_stand_in
