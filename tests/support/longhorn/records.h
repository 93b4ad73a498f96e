#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "tests/support/longhorn/engine.h"

// What the controller holds of the objects of longhorn.io: a tenth of them, for there are 30,000.
namespace csidelta::longhorn_stand_in {

// status of a Snapshot. Times are texts, "" while they are not known.
struct SnapshotStatus {
  std::string parent = {};
  std::set<std::string> children = {};
  bool is_removed = false;
  bool is_user_created = false;
  std::string requested_time = {};
  std::string creation_time = {};
  int64_t size_bytes = 0;
  int64_t restore_size_bytes = 0;
  std::map<std::string, std::string> labels = {};
  std::string error = {};
  bool is_ready = false;

  bool operator==(const SnapshotStatus&) const = default;
};

struct SnapshotRecord {
  std::string name = {};
  std::string uid = {};
  std::string resource_version = {};
  std::string volume = {};
  bool create_snapshot = false;
  std::map<std::string, std::string> labels = {};  // of the spec
  bool is_deleting = false;
  std::vector<std::string> finalizers = {};
  SnapshotStatus status = {};
};

struct VolumeRecord {
  std::string name = {};
  std::string uid = {};
  std::string resource_version = {};
  std::map<std::string, std::string> labels = {};
  int64_t size_bytes = 0;
  int snapshot_max_count = kSnapshotMaxCountDefault;
  bool is_deleting = false;
  std::vector<std::string> finalizers = {};
  std::string state = {};
  std::string robustness = {};
  std::string data_source = {};  // "snap://VOLUME/SNAPSHOT", "vol://VOLUME"; "" unless a clone
  std::string clone_state = {};
  int clone_attempts = 0;
};

struct EngineRecord {
  std::string volume = {};
  std::string resource_version = {};
  std::string image = {};  // that it should run
  bool is_running = false;
  std::string current_image = {};  // "" while it is stopped
  int64_t size_bytes = 0;
  bool is_purging = false;
  std::string snapshots_error = {};
  std::map<std::string, ChainEntry> entries = {};

  // As Longhorn has it, which takes a stopped engine for one.
  bool is_upgrading() const { return current_image != image; }
  bool operator==(const EngineRecord&) const = default;
};

struct AttachmentRecord {
  std::string volume = {};
  std::set<std::string> tickets = {};
};

SnapshotRecord ReadSnapshot(const Json& object);
VolumeRecord ReadVolume(const Json& object);
EngineRecord ReadEngine(const Json& object);
AttachmentRecord ReadAttachment(const Json& object);

Json EntriesJson(const std::map<std::string, ChainEntry>& entries);
Json StatusJson(const SnapshotStatus& status);
Json StatusJson(const EngineRecord& engine);

}  // namespace csidelta::longhorn_stand_in
