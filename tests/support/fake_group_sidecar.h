#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "csi/group_types.h"
#include "csi/snapshot_types.h"
#include "tests/support/fake_api_client.h"
#include "velero/labels.h"

namespace csidelta::support {

// Plays, for a FakeApiClient, what the sidecar and a driver with groups do when contents go: the
// driver deletes a group only whole, by a call that names each of its snapshots, and the sidecar
// never asks it for a snapshot whose content has a group's handle in its status. What it does is
// done before the causing call returns. Not thread-safe; outlives no `api` call.
class FakeGroupSidecar {
 public:
  // What the driver holds: handles of snapshots by their group's.
  std::map<std::string, std::set<std::string>> groups;
  // Snapshots that the driver was asked to delete alone.
  std::vector<std::string> asked_alone;
  // Names of the Secrets of the calls that deleted a group; "" for none.
  std::vector<std::string> secrets;
  bool away = false;           // no sidecar runs
  std::string refusal;         // the driver's answer; "" where it agrees
  std::string version = "v1";  // of the kinds, in what it does beside the API

  explicit FakeGroupSidecar(FakeApiClient& api) : api_(api) {
    api.OnEvent("volumegroupsnapshotcontents",
                [this](FakeApiClient&, const k8s::WatchEvent& event) {
                  if (event.kind != k8s::WatchEvent::Kind::kDeleted) {
                    SyncGroup(event.object);
                  }
                });
    api.OnEvent("volumesnapshotcontents", [this](FakeApiClient&, const k8s::WatchEvent& event) {
      if (event.kind != k8s::WatchEvent::Kind::kDeleted) {
        SyncSnapshot(event.object);
      }
    });
  }

  // The sidecar looks at all contents of groups anew.
  void Resync() {
    for (const Json& content : api_.All(csi::VolumeGroupSnapshotContentType(version))) {
      SyncGroup(content);
    }
  }

 private:
  void SyncGroup(const Json& content) {
    const bool unbound = FindJson(content, {"spec", "source", "groupSnapshotHandles"}) != nullptr &&
                         GetString(content, {"spec", "volumeGroupSnapshotRef", "uid"}).empty();
    const bool told = !csi::Annotation(content, velero::kGroupBeingDeletedAnnotation).empty();
    if (away || !csi::BeingDeleted(content) || !(unbound || told)) {
      return;
    }
    const k8s::ObjectKey key = {.type = csi::VolumeGroupSnapshotContentType(version),
                                .namespace_name = "",
                                .name = csi::Name(content)};
    const std::string handle = GetString(content, {"status", "volumeGroupSnapshotHandle"});
    if (GetString(content, {"spec", "deletionPolicy"}) == "Delete" && !handle.empty()) {
      const std::string error = DeleteGroup(content, handle);
      if (!error.empty()) {
        api_.Mutate(key, [&error](Json& object) {
          SetJson(object, {"status", "error", "message"}, error);
        });
        return;
      }
    }
    api_.Mutate(key, [](Json& object) { EraseJson(object, {"metadata", "finalizers"}); });
  }

  // The driver; an empty answer agrees.
  std::string DeleteGroup(const Json& content, const std::string& handle) {
    if (!refusal.empty()) {
      return refusal;
    }
    std::set<std::string> ids;
    const std::vector<csi::GroupMember> members = csi::GroupMembers(content);
    std::transform(members.begin(), members.end(), std::inserter(ids, ids.end()),
                   [](const csi::GroupMember& member) { return member.snapshot_handle; });
    const auto found = groups.find(handle);
    if (ids.empty() || (found != groups.end() && found->second != ids)) {
      return "the ids do not match the group";
    }
    secrets.push_back(csi::Annotation(content, velero::kGroupDeletionSecretNameAnnotation));
    groups.erase(handle);
    return "";
  }

  void SyncSnapshot(const Json& content) {
    const bool unbound = FindJson(content, {"spec", "source", "snapshotHandle"}) != nullptr &&
                         GetString(content, {"spec", "volumeSnapshotRef", "uid"}).empty();
    const bool told =
        !csi::Annotation(content, "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted")
             .empty();
    if (away || !csi::BeingDeleted(content) || !(unbound || told)) {
      return;
    }
    if (GetString(content, {"spec", "deletionPolicy"}) == "Delete" &&
        !csi::SnapshotHandle(content).empty() &&
        GetString(content, {"status", "volumeGroupSnapshotHandle"}).empty()) {
      asked_alone.push_back(csi::SnapshotHandle(content));
    }
    api_.Mutate(csi::VolumeSnapshotContentKey(csi::Name(content)), [](Json& object) {
      EraseJson(object, {"metadata", "finalizers"});
    });
  }

  FakeApiClient& api_;
};

}  // namespace csidelta::support
