#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/crypto.h"
#include "csi/group_types.h"
#include "csi/snapshot_types.h"
#include "tests/support/fake_api_client.h"
#include "velero/labels.h"

namespace csidelta::support {

// Plays what the snapshot controller (8.6), the sidecar and a driver do with VolumeGroupSnapshots,
// for a FakeApiClient and beside a FakeSnapshotController that has not been made to bind members:
// finds the claims by the selector, makes the content, has the driver cut the group, makes the
// members and deletes them with the group. A member cannot be deleted while its group lives.
//
// What it does is done before the causing call returns; the switches leave steps out. Thread-safe
// but for the switches, which are set before the calls. Outlives no `api` call.
class FakeGroupController {
 public:
  bool binds = true;         // makes contents
  bool gives_handle = true;  // the driver answers
  bool makes_members = true;
  bool knows_members = true;  // writes status.volumeGroupSnapshotName
  bool ready = true;
  std::string error;         // status.error of the content
  std::string member_error;  // status.error of the second member, which is not known then
  std::string left_out;      // the driver's list lacks this volume handle
  std::string class_policy = "Delete";
  std::string version = "v1";             // of objects and owner references
  std::string controller_version = "v1";  // that the controller was compiled with
  std::string list = "volumeSnapshotInfoList";
  int64_t restore_size_bytes = 64 << 20;
  std::string cut_at = "2023-11-14T22:13:20Z";

  explicit FakeGroupController(FakeApiClient& api) : api_(api) {
    api.OnEvent("volumegroupsnapshots", [this](FakeApiClient&, const k8s::WatchEvent& event) {
      if (event.kind == k8s::WatchEvent::Kind::kAdded) {
        OnCreated(event.object);
      } else if (event.kind == k8s::WatchEvent::Kind::kModified &&
                 csi::BeingDeleted(event.object)) {
        OnGroupDeleting(event.object);
      }
    });
    api.OnEvent("volumegroupsnapshotcontents",
                [this](FakeApiClient&, const k8s::WatchEvent& event) {
                  if (event.kind == k8s::WatchEvent::Kind::kModified) {
                    EndContent(csi::Name(event.object));
                  }
                });
    api.OnEvent("volumesnapshots", [this](FakeApiClient&, const k8s::WatchEvent& event) {
      if (event.kind == k8s::WatchEvent::Kind::kModified) {
        EndMember(event.object);
      }
    });
    api.OnEvent("volumesnapshotcontents", [this](FakeApiClient&, const k8s::WatchEvent& event) {
      if (event.kind == k8s::WatchEvent::Kind::kModified) {
        EndMemberContent(csi::Name(event.object));
      }
    });
  }

  // Handles of the groups that the driver holds, with those of their members.
  std::map<std::string, std::set<std::string>> driver_groups() const {
    std::scoped_lock lock(mutex_);
    return groups_;
  }

  // The snapshot handle that the driver gives a volume in a group.
  static std::string MemberHandle(const std::string& group_uid, const std::string& volume) {
    return absl::StrCat("snap-", group_uid, "-", volume);
  }

  // What was left undone for a group: the controller has come back.
  void Resume(const Json& group) {
    if (api_.Find(ContentKey(group)).has_value()) {
      Cut(group);
    } else {
      OnCreated(group);
    }
  }

 private:
  static std::string Hash(const Json& group, const std::string& volume) {
    return Sha256Hex(absl::StrCat(csi::Uid(group), volume));
  }

  static k8s::ObjectKey ContentKey(const Json& group) {
    return csi::GroupContentKey(csi::GroupVersionOf(group),
                                absl::StrCat("groupsnapcontent-", csi::Uid(group)));
  }

  // The volumes of the claims that the selector finds.
  std::vector<std::string> Select(const Json& group) const {
    const auto labels = GetStringMap(group, {"spec", "source", "selector", "matchLabels"});
    std::vector<std::string> volumes;
    for (const Json& claim : api_.All(csi::PersistentVolumeClaimType())) {
      const bool selected = std::all_of(labels.begin(), labels.end(), [&](const auto& label) {
        return csi::Label(claim, label.first) == label.second;
      });
      if (selected && csi::Namespace(claim) == csi::Namespace(group)) {
        const auto volume = api_.Find(csi::VolumeKey(GetString(claim, {"spec", "volumeName"})));
        volumes.push_back(volume.has_value() ? GetString(*volume, {"spec", "csi", "volumeHandle"})
                                             : "");
      }
    }
    return volumes;
  }

  void OnCreated(const Json& group) {
    if (!binds) {
      return;
    }
    const std::vector<std::string> volumes = Select(group);
    if (volumes.empty()) {
      SetError(csi::GroupSnapshotKey(group),
               "failed to create group snapshot content with error: label selector for group "
               "snapshot not applied to any PVC");
      return;
    }
    Json content = {
        {"metadata",
         {{"name", ContentKey(group).name},
          {"finalizers", Json::array({velero::kGroupContentBoundProtectionFinalizer})}}},
        {"spec",
         {{"driver", "d.example.com"},
          {"deletionPolicy", class_policy},
          {"volumeGroupSnapshotClassName",
           GetString(group, {"spec", "volumeGroupSnapshotClassName"})},
          {"source", {{"volumeHandles", volumes}}},
          {"volumeGroupSnapshotRef",
           {{"namespace", csi::Namespace(group)},
            {"name", csi::Name(group)},
            {"uid", csi::Uid(group)}}}}}};
    api_.Seed(csi::VolumeGroupSnapshotContentType(version), content);
    api_.Mutate(csi::GroupSnapshotKey(group), [&](Json& object) {
      object["metadata"]["finalizers"] =
          Json::array({velero::kGroupSnapshotBoundProtectionFinalizer});
      object["status"]["boundVolumeGroupSnapshotContentName"] = ContentKey(group).name;
      object["status"]["readyToUse"] = false;
    });
    if (!error.empty()) {
      SetError(ContentKey(group), error);
    }
    if (gives_handle) {
      Cut(group);
    }
  }

  void SetError(const k8s::ObjectKey& key, const std::string& text) {
    api_.Mutate(key, [&](Json& object) { object["status"]["error"] = {{"message", text}}; });
  }

  // The driver cuts the group; the controller makes the members.
  void Cut(const Json& group) {
    const Json content = *api_.Find(ContentKey(group));
    const std::string handle = absl::StrCat("group-", csi::Uid(group));
    Json members = Json::array();
    std::set<std::string> handles;
    for (const Json& volume : content["spec"]["source"]["volumeHandles"]) {
      if (volume != left_out) {
        const std::string snapshot = MemberHandle(csi::Uid(group), volume);
        members.push_back({{"volumeHandle", volume}, {"snapshotHandle", snapshot}});
        handles.insert(snapshot);
      }
    }
    {
      std::scoped_lock lock(mutex_);
      groups_[handle] = handles;
    }
    api_.Mutate(ContentKey(group), [&](Json& object) {
      object["status"] = {
          {"volumeGroupSnapshotHandle", handle}, {"readyToUse", ready}, {"creationTime", cut_at}};
      object["status"][list] = members;
    });
    std::size_t index = 0;
    for (const Json& member : members) {
      if (makes_members) {
        MakeMember(group, handle, member, ++index);
      }
    }
    api_.Mutate(csi::GroupSnapshotKey(group), [&](Json& object) {
      object["status"]["readyToUse"] = ready;
      object["status"]["creationTime"] = cut_at;
    });
  }

  void MakeMember(const Json& group, const std::string& handle, const Json& member,
                  std::size_t index) {
    const std::string hash = Hash(group, member["volumeHandle"]);
    const Json owner = {{"apiVersion", absl::StrCat(csi::kGroupSnapshotGroup, "/", version)},
                        {"kind", "VolumeGroupSnapshot"},
                        {"name", csi::Name(group)},
                        {"uid", csi::Uid(group)}};
    const bool faulty = index == 2 && !member_error.empty();
    Json snapshot = {
        {"metadata",
         {{"name", "snapshot-" + hash},
          {"namespace", csi::Namespace(group)},
          {"finalizers", Json::array({velero::kSnapshotInGroupFinalizer})},
          {"ownerReferences", Json::array({owner})}}},
        {"spec", {{"source", {{"persistentVolumeClaimName", ClaimOf(member["volumeHandle"])}}}}},
        {"status", {{"boundVolumeSnapshotContentName", "snapcontent-" + hash}}}};
    if (knows_members && !faulty) {
      snapshot["status"]["volumeGroupSnapshotName"] = csi::Name(group);
      snapshot["status"]["readyToUse"] = ready;
    }
    if (faulty) {
      snapshot["status"]["error"]["message"] = member_error;
    }
    // Its status names the content, which is there by then.
    const Json status = snapshot["status"];
    snapshot.erase("status");
    const Json stored = api_.Seed(csi::VolumeSnapshotType(), snapshot);
    Json content = {
        {"metadata",
         {{"name", "snapcontent-" + hash},
          {"finalizers", Json::array({velero::kContentBoundProtectionFinalizer})},
          {"annotations", {{"groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle", handle}}}}},
        {"spec",
         {{"driver", "d.example.com"},
          {"deletionPolicy", class_policy},
          {"source", {{"volumeHandle", member["volumeHandle"]}}},
          {"volumeSnapshotRef",
           {{"namespace", csi::Namespace(group)},
            {"name", csi::Name(stored)},
            {"uid", csi::Uid(stored)}}}}},
        {"status",
         {{"snapshotHandle", member["snapshotHandle"]},
          {"volumeGroupSnapshotHandle", handle},
          {"creationTime", 1'700'000'000'000'000'000},
          {"restoreSize", restore_size_bytes},
          {"readyToUse", ready}}}};
    api_.Seed(csi::VolumeSnapshotContentType(), content);
    // Watchers are told of what is changed, not of what is seeded.
    api_.Mutate(csi::VolumeSnapshotKey(csi::Namespace(group), csi::Name(stored)),
                [&](Json& object) { object["status"] = status; });
  }

  std::string ClaimOf(const std::string& volume_handle) const {
    for (const Json& claim : api_.All(csi::PersistentVolumeClaimType())) {
      const auto volume = api_.Find(csi::VolumeKey(GetString(claim, {"spec", "volumeName"})));
      if (volume.has_value() &&
          GetString(*volume, {"spec", "csi", "volumeHandle"}) == volume_handle) {
        return csi::Name(claim);
      }
    }
    return "";
  }

  // Only members whose reference names the controller's own version are found by it.
  void OnGroupDeleting(const Json& group) {
    const auto content = api_.Find(ContentKey(group));
    const bool deletes =
        content.has_value() && GetString(*content, {"spec", "deletionPolicy"}) == "Delete";
    if (content.has_value()) {
      api_.Mutate(ContentKey(group), [&](Json& object) {
        object["metadata"]["annotations"][velero::kGroupBeingDeletedAnnotation] = "yes";
        if (deletes) {
          object["metadata"]["deletionTimestamp"] = "2023-11-14T22:13:20Z";
        }
      });
      EndContent(ContentKey(group).name);
    }
    api_.Remove(csi::GroupSnapshotKey(group));
    for (const Json& snapshot : api_.All(csi::VolumeSnapshotType())) {
      const bool owned = csi::IsMemberOf(snapshot, csi::Uid(group)) &&
                         csi::GroupOwnerApiVersion(snapshot) ==
                             absl::StrCat(csi::kGroupSnapshotGroup, "/", controller_version);
      if (owned || (csi::IsMemberOf(snapshot, csi::Uid(group)) && csi::BeingDeleted(snapshot))) {
        DeleteMember(snapshot);
      }
    }
  }
  // The sidecar: asks the driver where the policy says so, and lets go.
  void EndContent(const std::string& name) {
    const k8s::ObjectKey key = csi::GroupContentKey(version, name);
    const auto content = api_.Find(key);
    if (!content.has_value() || !csi::BeingDeleted(*content) ||
        csi::Annotation(*content, velero::kGroupBeingDeletedAnnotation).empty()) {
      return;
    }
    if (GetString(*content, {"spec", "deletionPolicy"}) == "Delete") {
      std::scoped_lock lock(mutex_);
      groups_.erase(csi::GroupHandleOf(*content));
    }
    api_.Remove(key);
  }

  void EndMember(const Json& snapshot) {
    if (csi::BeingDeleted(snapshot) && !csi::GroupOwnerName(snapshot).empty() &&
        !GroupLives(snapshot)) {
      DeleteMember(snapshot);
    }
  }

  bool GroupLives(const Json& snapshot) const {
    for (const Json& group : api_.All(csi::VolumeGroupSnapshotType(version))) {
      if (csi::IsMemberOf(snapshot, csi::Uid(group))) {
        return true;
      }
    }
    return false;
  }

  void DeleteMember(const Json& snapshot) {
    // Without the name of its group a member keeps its finalizer for ever.
    const Json* finalizers = FindJson(snapshot, {"metadata", "finalizers"});
    if (csi::StatusGroupName(snapshot).empty() && finalizers != nullptr && !finalizers->empty()) {
      api_.Mutate(
          csi::VolumeSnapshotKey(csi::Namespace(snapshot), csi::Name(snapshot)),
          [](Json& object) { object["metadata"]["deletionTimestamp"] = "2023-11-14T22:13:20Z"; });
      return;
    }
    const k8s::ObjectKey key = csi::VolumeSnapshotContentKey(csi::BoundContentName(snapshot));
    api_.Remove(csi::VolumeSnapshotKey(csi::Namespace(snapshot), csi::Name(snapshot)));
    const auto content = api_.Find(key);
    if (content.has_value() && GetString(*content, {"spec", "deletionPolicy"}) == "Delete") {
      api_.Remove(key);
    } else {
      EndMemberContent(key.name);
    }
  }

  // A member's content goes once its VolumeSnapshot has gone; the driver is never asked.
  void EndMemberContent(const std::string& name) {
    const k8s::ObjectKey key = csi::VolumeSnapshotContentKey(name);
    const auto content = api_.Find(key);
    if (content.has_value() && csi::BeingDeleted(*content) &&
        !GetString(*content, {"status", "volumeGroupSnapshotHandle"}).empty() &&
        !api_.Find(csi::VolumeSnapshotKey(
                       GetString(*content, {"spec", "volumeSnapshotRef", "namespace"}),
                       GetString(*content, {"spec", "volumeSnapshotRef", "name"})))
             .has_value()) {
      api_.Remove(key);
    }
  }

  FakeApiClient& api_;
  mutable std::mutex mutex_;
  std::map<std::string, std::set<std::string>> groups_;
};

}  // namespace csidelta::support
