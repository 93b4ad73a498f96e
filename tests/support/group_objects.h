#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "objects/keys.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/typed.h"

// The objects of a volume group of two members, as the archive of the backup "nightly" has them:
// group "velero-db-1" in namespace "shop", the driver's group "group-1" of "handle-1" and
// "handle-2".
namespace csidelta::support {

inline constexpr char kGroupName[] = "velero-db-1";
inline constexpr char kGroupHandle[] = "group-1";

inline std::string GroupApiVersion(const std::string& version) {
  return absl::StrCat(objects::kGroupSnapshotGroup, "/", version);
}

inline Json MakeGroupContentObject(const std::string& version = "v1") {
  Json content =
      MakeObject(GroupApiVersion(version), "VolumeGroupSnapshotContent", "", "groupsnapcontent-1",
                 {{objects::kBackupNameLabel, "nightly"}, {objects::kGroupNameLabel, kGroupName}},
                 {{objects::kGroupSnapshotHandleAnnotation, kGroupHandle},
                  {objects::kDriverNameAnnotation, kDriver}});
  SetJson(content, {"metadata", "uid"}, "groupsnapcontent-1-uid");
  SetJson(content, {"spec"},
          Json{{"deletionPolicy", "Delete"},
               {"driver", kDriver},
               {"source", {{"volumeHandles", {"volume-1", "volume-2"}}}},
               {"volumeGroupSnapshotClassName", "fast-groups"},
               {"volumeGroupSnapshotRef",
                {{"namespace", "shop"}, {"name", kGroupName}, {"uid", "group-uid"}}}});
  const char* const list =
      version == "v1beta1" ? "volumeSnapshotHandlePairList" : "volumeSnapshotInfoList";
  SetJson(content, {"status", "volumeGroupSnapshotHandle"}, kGroupHandle);
  SetJson(content, {"status", "readyToUse"}, true);
  SetJson(content, {"status", list},
          Json::array({{{"volumeHandle", "volume-1"}, {"snapshotHandle", "handle-1"}},
                       {{"volumeHandle", "volume-2"}, {"snapshotHandle", "handle-2"}}}));
  return content;
}

inline Json MakeGroupObject(const std::string& version = "v1") {
  Json group = MakeObject(
      GroupApiVersion(version), "VolumeGroupSnapshot", "shop", kGroupName,
      {{objects::kBackupNameLabel, "nightly"}, {objects::kCsiDeltaLabel, kVeleroNamespace}},
      {{objects::kGroupSnapshotHandleAnnotation, kGroupHandle},
       {objects::kDriverNameAnnotation, kDriver},
       {objects::kGroupMembersAnnotation, "[]"}});
  SetJson(group, {"metadata", "uid"}, "group-uid");
  SetJson(group, {"spec"},
          Json{{"source", {{"selector", {{"matchLabels", {{"a", "b"}}}}}}},
               {"volumeGroupSnapshotClassName", "fast-groups"}});
  SetJson(group, {"status", "boundVolumeGroupSnapshotContentName"}, "groupsnapcontent-1");
  return group;
}

inline Json MakeGroupClassObject(const std::string& name, const std::string& driver,
                                 const std::string& secret = "",
                                 const std::string& version = "v1") {
  Json group_class = MakeObject(GroupApiVersion(version), "VolumeGroupSnapshotClass", "", name);
  SetJson(group_class, {"driver"}, driver);
  SetJson(group_class, {"deletionPolicy"}, "Delete");
  if (!secret.empty()) {
    SetJson(group_class, {"parameters", objects::kGroupSnapshotterSecretName}, secret);
    SetJson(group_class, {"parameters", objects::kGroupSnapshotterSecretNamespace}, "vault");
  }
  return group_class;
}

// The VolumeSnapshot and the content of the member `n`, 1 or 2.
inline Json MakeMemberObject(int n) {
  Json snapshot =
      MakeSnapshotObject("shop", absl::StrCat("snap-", n), absl::StrCat("content-", n),
                         {{objects::kBackupNameLabel, "nightly"},
                          {objects::kBackupUidLabel, "backup-uid"},
                          {objects::kCsiDeltaLabel, kVeleroNamespace}},
                         {{objects::kVolumeSnapshotHandleAnnotation, absl::StrCat("handle-", n)},
                          {objects::kDriverNameAnnotation, kDriver},
                          {objects::kGroupSnapshotHandleAnnotation, kGroupHandle},
                          {objects::kGroupNameLabel, kGroupName}});
  EraseJson(snapshot, {"spec", "volumeSnapshotClassName"});
  SetJson(snapshot, {"metadata", "finalizers"},
          Json::array(
              {objects::kSnapshotInGroupFinalizer, objects::kSnapshotBoundProtectionFinalizer}));
  SetJson(snapshot, {"status", "volumeGroupSnapshotName"}, kGroupName);
  return snapshot;
}

inline Json MakeMemberContentObject(int n) {
  Json content = MakeContentObject(
      absl::StrCat("content-", n), "shop", absl::StrCat("snap-", n), absl::StrCat("handle-", n),
      {{objects::kMemberOfBackupLabel, "nightly"}, {objects::kGroupNameLabel, kGroupName}});
  EraseJson(content, {"spec", "volumeSnapshotClassName"});
  SetJson(content, {"metadata", "annotations", objects::kGroupHandleOfMemberAnnotation},
          kGroupHandle);
  SetJson(content, {"status", "volumeGroupSnapshotHandle"}, kGroupHandle);
  const auto of_group = As<objects::VolumeGroupSnapshotContent>(MakeGroupContentObject());
  SetJson(content, {"metadata", "annotations", objects::kGroupContentOfMemberAnnotation},
          of_group.RecordForMembers(of_group.members()));
  return content;
}

}  // namespace csidelta::support
