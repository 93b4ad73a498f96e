#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "csi/environment.h"
#include "k8s/object.h"
#include "objects/storage_class.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/kind_names.h"

// The objects that actions on volume snapshots meet, as small as they can be.
namespace csidelta::support {

inline constexpr char kVeleroNamespace[] = "velero";
inline constexpr char kDriver[] = "hostpath.csi.k8s.io";

using Strings = std::map<std::string, std::string>;

inline Json MakeObject(const std::string& api_version, const std::string& kind,
                       const std::string& namespace_name, const std::string& name,
                       const Strings& labels = {}, const Strings& annotations = {}) {
  Json object = {{"apiVersion", api_version}, {"kind", kind}, {"metadata", {{"name", name}}}};
  if (!namespace_name.empty()) {
    SetJson(object, {"metadata", "namespace"}, namespace_name);
  }
  if (!labels.empty()) {
    SetJson(object, {"metadata", "labels"}, labels);
  }
  if (!annotations.empty()) {
    SetJson(object, {"metadata", "annotations"}, annotations);
  }
  return object;
}

inline Json MakeBackupObject(const std::string& name, const std::string& phase,
                             const std::string& uid = "backup-uid") {
  Json backup = MakeObject("velero.io/v1", "Backup", kVeleroNamespace, name);
  SetJson(backup, {"metadata", "uid"}, uid);
  SetJson(backup, {"spec"}, Json::object());
  SetJson(backup, {"status", "phase"}, phase);
  return backup;
}

inline Json MakeRestoreObject(const std::string& name, const std::string& backup_name) {
  Json restore = MakeObject("velero.io/v1", "Restore", kVeleroNamespace, name);
  SetJson(restore, {"metadata", "uid"}, "restore-uid");
  SetJson(restore, {"spec", "backupName"}, backup_name);
  SetJson(restore, {"status", "phase"}, "InProgress");
  return restore;
}

// A VolumeSnapshot of the claim "data", bound to `content`.
inline Json MakeSnapshotObject(const std::string& namespace_name, const std::string& name,
                               const std::string& content, const Strings& labels = {},
                               const Strings& annotations = {}) {
  Json snapshot = MakeObject("snapshot.storage.k8s.io/v1", "VolumeSnapshot", namespace_name, name,
                             labels, annotations);
  SetJson(snapshot, {"metadata", "uid"}, name + "-uid");
  SetJson(snapshot, {"spec", "source", "persistentVolumeClaimName"}, "data");
  SetJson(snapshot, {"spec", "volumeSnapshotClassName"}, "fast");
  if (!content.empty()) {
    SetJson(snapshot, {"status", "boundVolumeSnapshotContentName"}, content);
  }
  return snapshot;
}

// A content that the driver cut for the VolumeSnapshot `snapshot`.
inline Json MakeContentObject(const std::string& name, const std::string& namespace_name,
                              const std::string& snapshot, const std::string& handle,
                              const Strings& labels = {}) {
  Json content =
      MakeObject("snapshot.storage.k8s.io/v1", "VolumeSnapshotContent", "", name, labels);
  SetJson(content, {"metadata", "uid"}, name + "-uid");
  SetJson(content, {"spec"},
          Json{{"deletionPolicy", "Delete"},
               {"driver", kDriver},
               {"source", {{"volumeHandle", "volume-1"}}},
               {"volumeSnapshotClassName", "fast"},
               {"volumeSnapshotRef",
                {{"namespace", namespace_name},
                 {"name", snapshot},
                 {"uid", snapshot + "-uid"},
                 {"resourceVersion", "77"}}}});
  if (!handle.empty()) {
    SetJson(content, {"status", "snapshotHandle"}, handle);
    SetJson(content, {"status", "readyToUse"}, true);
  }
  return content;
}

// VolumeSnapshot shop/`name` of a PVC, which is taken, Ready and bound to MakeBoundContent(`name`).
inline Json MakeReadySnapshot(const std::string& name, const std::string& pvc) {
  return {{"metadata",
           {{"name", name},
            {"namespace", "shop"},
            {"uid", "u"},
            {"creationTimestamp", "2023-11-14T22:13:20Z"}}},
          {"spec", {{"source", {{"persistentVolumeClaimName", pvc}}}}},
          {"status",
           {{"boundVolumeSnapshotContentName", "c"},
            {"readyToUse", true},
            {"creationTime", "2023-11-14T22:13:20Z"},
            {"restoreSize", "1Gi"}}}};
}
inline Json MakeBoundContent(const std::string& snapshot) {
  return {{"metadata", {{"name", "c"}}},
          {"spec",
           {{"driver", "d.example.com"},
            {"sourceVolumeMode", "Filesystem"},
            {"volumeSnapshotRef", {{"namespace", "shop"}, {"name", snapshot}, {"uid", "u"}}}}},
          {"status", {{"snapshotHandle", "h"}, {"creationTime", 1'700'000'000'000'000'000}}}};
}

inline Json MakeClassObject(const std::string& name, const std::string& driver) {
  Json snapshot_class = MakeObject("snapshot.storage.k8s.io/v1", "VolumeSnapshotClass", "", name);
  SetJson(snapshot_class, {"driver"}, driver);
  SetJson(snapshot_class, {"deletionPolicy"}, "Delete");
  return snapshot_class;
}

inline void SeedStorageClass(FakeApiClient& api, const std::string& name,
                             const std::string& provisioner,
                             const std::string& binding_mode = "Immediate") {
  Json storage_class = MakeObject("storage.k8s.io/v1", "StorageClass", "", name);
  storage_class["provisioner"] = provisioner;
  storage_class["volumeBindingMode"] = binding_mode;
  api.Seed(StorageClassType(), storage_class);
}

// PVC shop/data, of uid data-uid, class "fast" and mode Block, and PersistentVolume pv-1, which it
// is bound to.
inline void SeedBlockPvc(FakeApiClient& api, const std::string& driver) {
  Json pvc = MakeObject("v1", "PersistentVolumeClaim", "shop", "data");
  SetJson(pvc, {"metadata", "uid"}, "data-uid");
  SetJson(pvc, {"spec"},
          Json{{"storageClassName", "fast"}, {"volumeMode", "Block"}, {"volumeName", "pv-1"}});
  SetJson(pvc, {"status"}, Json{{"phase", "Bound"}, {"capacity", {{"storage", "1Gi"}}}});
  api.Seed(PersistentVolumeClaimType(), pvc);
  Json volume = MakeObject("v1", "PersistentVolume", "", "pv-1");
  SetJson(volume, {"spec"},
          Json{{"capacity", {{"storage", "1Gi"}}},
               {"claimRef", {{"namespace", "shop"}, {"name", "data"}, {"uid", "data-uid"}}},
               {"csi", {{"driver", driver}, {"volumeHandle", "v-1"}}}});
  SetJson(volume, {"status", "phase"}, "Bound");
  api.Seed(PersistentVolumeType(), volume);
}

// Pod shop/app-0, which uses that PVC.
inline Json MakePodObject(const std::string& pvc, const std::string& phase) {
  Json pod = MakeObject("v1", "Pod", "shop", "app-0");
  pod["spec"]["volumes"] =
      Json::array({{{"name", "v"}, {"persistentVolumeClaim", {{"claimName", pvc}}}}});
  pod["status"]["phase"] = phase;
  return pod;
}

// "VolumeSnapshot snap" and so on: all that there is of the four kinds of snapshots and groups.
inline std::vector<std::string> SnapshotObjects(const FakeApiClient& api) {
  std::vector<std::string> all;
  for (const k8s::ResourceType& type :
       {VolumeGroupSnapshotType("v1"), VolumeGroupSnapshotContentType("v1"), VolumeSnapshotType(),
        VolumeSnapshotContentType()}) {
    for (const Json& object : api.All(type)) {
      all.push_back(type.kind + " " + k8s::Name(object));
    }
  }
  return all;
}

// An API server that knows kDriver, a clock and the environment of an action that uses them.
struct ActionBed {
  ActionBed() { api.Seed(objects::CsiDriver::Type(), {{"metadata", {{"name", kDriver}}}}); }

  FakeClock clock;
  FakeApiClient api{clock};
  csi::Environment env{.api = api,
                       .clock = clock,
                       .random = Random::Real(),
                       .velero_namespace = kVeleroNamespace,
                       .enable_csi = true};
  CallContext ctx{.deadline = absl::InfiniteDuration(), .stop = {}, .clock = &clock};
};

}  // namespace csidelta::support
