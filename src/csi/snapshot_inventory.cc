#include "csi/snapshot_inventory.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/snapshot_types.h"
#include "objects/keys.h"
#include "objects/volume_snapshot.h"

namespace csidelta::csi {
namespace {

using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;
using NamespacedName = std::pair<std::string, std::string>;

constexpr int kListTriesMax = 3;

// An object without what nothing here reads. Most of one is who wrote which field.
Json Trimmed(const Json& object) {
  Json kept = object;
  EraseJson(kept, {"metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"});
  const Json* const fields = FindJson(object, {"metadata", "managedFields"});
  Json ready = Json::array();
  for (const Json& entry : fields != nullptr && fields->is_array() ? *fields : Json::array()) {
    if (FindJson(entry, {"fieldsV1", "f:status", "f:readyToUse"}) != nullptr) {
      ready.push_back({{"time", GetString(entry, {"time"})},
                       {"fieldsV1", {{"f:status", {{"f:readyToUse", Json::object()}}}}}});
    }
  }
  SetJson(kept, {"metadata", "managedFields"}, std::move(ready));
  return kept;
}

// Reads a list page by page; again from its beginning where it grew too old on the way, as a list
// of many pages may on a busy API server.
absl::Status ReadPages(const CallContext& ctx, k8s::ApiClient& api, const k8s::ResourceType& type,
                       absl::string_view namespace_name, const k8s::ListOptions& options,
                       absl::FunctionRef<void(const std::vector<Json>& page, bool is_first)> sink) {
  absl::Status read = absl::OkStatus();
  for (int tries = 0; tries < kListTriesMax; ++tries) {
    read = api.ListPages(ctx, type, namespace_name, options, sink).status();
    if (!absl::IsOutOfRange(read)) {
      break;
    }
  }
  return read;
}

// What is known of a namespace's contents and PVCs, by the VolumeSnapshot that they belong to.
struct Surroundings {
  bool are_contents_read = false;
  std::map<std::string, VolumeSnapshotContent> contents;  // by name
  std::map<NamespacedName, std::vector<std::string>> used_by;
  std::map<NamespacedName, std::vector<std::string>> pending;
};

class InventoryReader {
 public:
  InventoryReader(const CallContext& ctx, k8s::ApiClient& api, const InventoryRequest& request)
      : ctx_(ctx), api_(api), request_(request) {}

  absl::StatusOr<Inventory> Read() {
    RETURN_IF_ERROR(ReadSnapshots());
    // After the VolumeSnapshots: a content that one of them names and that is not there is gone.
    RETURN_IF_ERROR(ReadContents());
    RETURN_IF_ERROR(ReadPvcs());
    CountReady();
    Inventory inventory;
    for (const VolumeSnapshot& snapshot : snapshots_) {
      inventory.entries.push_back(CompleteEntryOf(snapshot));
    }
    std::sort(inventory.entries.begin(), inventory.entries.end(),
              [](const SnapshotEntry& left, const SnapshotEntry& right) {
                const auto key = [](const SnapshotEntry& one) {
                  return std::tie(one.namespace_name, one.pvc);
                };
                return key(left) != key(right) ? key(left) < key(right)
                                               : std::tie(left.asked_at, left.name) >
                                                     std::tie(right.asked_at, right.name);
              });
    inventory.not_checked = std::move(not_checked_);
    return inventory;
  }

 private:
  absl::Status ReadSnapshots() {
    return ReadPages(ctx_, api_, VolumeSnapshotType(), request_.namespace_name,
                     {.label_selector = request_.label_selector, .field_selector = ""},
                     [&](const std::vector<Json>& page, bool is_first) {
                       if (is_first) {
                         snapshots_.clear();
                       }
                       for (const Json& object : page) {
                         if (auto snapshot = VolumeSnapshot::Of(Trimmed(object)); snapshot.ok()) {
                           snapshots_.push_back(*std::move(snapshot));
                         }
                       }
                     });
  }

  absl::Status ReadContents() {
    std::set<std::string> wanted;
    for (const VolumeSnapshot& snapshot : snapshots_) {
      wanted.insert(snapshot.bound_content());
    }
    const absl::Status read = ReadPages(ctx_, api_, VolumeSnapshotContentType(), "", {},
                                        [&](const std::vector<Json>& page, bool is_first) {
                                          if (is_first) {
                                            around_.contents.clear();
                                          }
                                          for (const Json& object : page) {
                                            if (wanted.contains(k8s::Name(object))) {
                                              NoteContent(object);
                                            }
                                          }
                                        });
    around_.are_contents_read = read.ok();
    return Excuse(read, "binding, driver and handle");
  }

  absl::Status ReadPvcs() {
    const absl::Status read =
        ReadPages(ctx_, api_, PersistentVolumeClaimType(), request_.namespace_name, {},
                  [&](const std::vector<Json>& page, bool is_first) {
                    if (is_first) {
                      around_.used_by.clear();
                      around_.pending.clear();
                    }
                    for (const Json& claim : page) {
                      NotePvc(claim);
                    }
                  });
    return Excuse(read, "PVCs that use a snapshot");
  }

  void NoteContent(const Json& object) {
    if (auto content = VolumeSnapshotContent::Of(Trimmed(object)); content.ok()) {
      std::string name = content->name();
      around_.contents.emplace(std::move(name), *std::move(content));
    }
  }

  void NotePvc(const Json& claim) {
    for (const char* const field : {"dataSource", "dataSourceRef"}) {
      if (GetString(claim, {"spec", field, "kind"}) != "VolumeSnapshot") {
        continue;
      }
      const NamespacedName snapshot = {k8s::Namespace(claim),
                                       GetString(claim, {"spec", field, "name"})};
      around_.used_by[snapshot].push_back(k8s::Name(claim));
      if (GetString(claim, {"status", "phase"}) != "Bound") {
        around_.pending[snapshot].push_back(k8s::Name(claim));
      }
      return;
    }
  }

  // What may not be read is named, and no error.
  absl::Status Excuse(const absl::Status& status, absl::string_view what) {
    if (!absl::IsPermissionDenied(status)) {
      return status;
    }
    not_checked_.push_back(absl::StrCat(what, " not checked: ", status.message()));
    return absl::OkStatus();
  }

  ContentReading ContentOf(const VolumeSnapshot& snapshot) const {
    if (!around_.are_contents_read || snapshot.bound_content().empty()) {
      return {};
    }
    const auto found = around_.contents.find(snapshot.bound_content());
    return found == around_.contents.end()
               ? ContentReading{.kind = ContentReading::Kind::kGone}
               : ContentReading{.kind = ContentReading::Kind::kPresent, .content = &found->second};
  }

  void CountReady() {
    if (!request_.label_selector.empty()) {
      not_checked_.emplace_back(
          "the last Ready one of a PVC not checked: the labels leave others out");
      return;
    }
    for (const VolumeSnapshot& snapshot : snapshots_) {
      if (!snapshot.source_pvc().empty() &&
          StatusOf(snapshot, ContentOf(snapshot)).state == SnapshotState::kReady) {
        ++ready_[{snapshot.namespace_name(), snapshot.source_pvc()}];
      }
    }
  }

  std::vector<Protection> KeptFor(const VolumeSnapshot& snapshot,
                                  const SnapshotStatus& status) const {
    ProtectionInput input = {.content = ContentOf(snapshot),
                             .mover_namespace = request_.mover_namespace,
                             .now = request_.now};
    if (const auto found = around_.pending.find({snapshot.namespace_name(), snapshot.name()});
        found != around_.pending.end()) {
      input.pending_pvcs = found->second;
    }
    const auto ready = ready_.find({snapshot.namespace_name(), snapshot.source_pvc()});
    input.is_last_ready =
        status.state == SnapshotState::kReady && ready != ready_.end() && ready->second == 1;
    return ProtectionsOf(snapshot, input, Requester::kPrune);
  }

  SnapshotEntry CompleteEntryOf(const VolumeSnapshot& snapshot) const {
    SnapshotEntry entry = EntryOf(snapshot, ContentOf(snapshot));
    if (const auto found = around_.used_by.find({snapshot.namespace_name(), snapshot.name()});
        found != around_.used_by.end()) {
      entry.used_by = found->second;
    }
    entry.kept_for = KeptFor(snapshot, entry.status);
    return entry;
  }

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const InventoryRequest& request_;
  std::vector<VolumeSnapshot> snapshots_;
  Surroundings around_;
  std::map<NamespacedName, int> ready_;  // by namespace and PVC
  std::vector<std::string> not_checked_;
};

Json TimeJson(const std::optional<absl::Time>& time) {
  return time.has_value() ? Json(FormatRfc3339(*time)) : Json();
}

}  // namespace

SnapshotEntry EntryOf(const VolumeSnapshot& snapshot, const ContentReading& reading) {
  SnapshotEntry entry;
  entry.namespace_name = snapshot.namespace_name();
  entry.name = snapshot.name();
  entry.uid = snapshot.uid();
  entry.pvc = snapshot.source_pvc();
  entry.status = StatusOf(snapshot, reading);
  const auto asked = ParseRfc3339(snapshot.Annotation(objects::kSnapshotAskedAtAnnotation));
  entry.asked_at = asked.has_value() ? asked : snapshot.created_at();
  entry.ready_at = snapshot.ready_at();
  entry.restore_size_bytes = snapshot.restore_size_bytes();
  entry.class_name = snapshot.class_name();
  entry.content = snapshot.bound_content();
  if (reading.kind == ContentReading::Kind::kPresent) {
    entry.driver = reading.content->driver();
    entry.handle = reading.content->handle();
    entry.deletion_policy = reading.content->is_retained() ? "Retain" : "Delete";
  }
  entry.set = snapshot.Label(objects::kSnapshotSetLabel);
  entry.workload = snapshot.Annotation(objects::kSnapshotWorkloadAnnotation);
  entry.note = snapshot.Annotation(objects::kSnapshotNoteAnnotation);
  entry.is_made_by_verbs = snapshot.Label(objects::kMadeByLabel) == objects::kMadeByVerbs;
  return entry;
}

absl::StatusOr<Inventory> ReadInventory(const CallContext& ctx, k8s::ApiClient& api,
                                        const InventoryRequest& request) {
  return InventoryReader(ctx, api, request).Read();
}

Json ToJson(const SnapshotEntry& entry) {
  Json conditions = Json::array();
  for (const SnapshotCondition& one : entry.status.conditions) {
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
  for (const Protection& one : entry.kept_for) {
    kept_for.push_back({{"reason", ToString(one.reason)}, {"message", one.message}});
  }
  return {{"name", entry.name},
          {"namespace", entry.namespace_name},
          {"pvc", entry.pvc},
          {"state", ToString(entry.status.state)},
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
          {"kept_for", std::move(kept_for)}};
}

}  // namespace csidelta::csi
