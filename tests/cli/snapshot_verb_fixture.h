#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "objects/storage_class.h"
#include "tests/cli/program_runner.h"
#include "tests/support/api_test_server.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/group_objects.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"

namespace csidelta::cli {

// A Ready VolumeSnapshot of PVC "data", made and taken at `taken`, with the content content-of-NAME
// and the handle handle-of-NAME.
inline void SeedReady(support::FakeApiClient& api, const std::string& space,
                      const std::string& name, const std::string& taken,
                      const support::Strings& labels = {}) {
  Json snapshot = support::MakeSnapshotObject(space, name, "content-of-" + name, labels);
  SetJson(snapshot, {"metadata", "creationTimestamp"}, taken);
  SetJson(snapshot, {"status", "readyToUse"}, true);
  SetJson(snapshot, {"status", "creationTime"}, taken);
  SetJson(snapshot, {"status", "restoreSize"}, "1Gi");
  api.Seed(VolumeSnapshotType(), snapshot);
  api.Seed(VolumeSnapshotContentType(),
           support::MakeContentObject("content-of-" + name, space, name, "handle-of-" + name));
}

// A bound PVC of namespace shop, and its volume.
inline void SeedBoundPvc(support::FakeApiClient& api, const std::string& name,
                         const std::string& driver, const support::Strings& labels = {}) {
  Json claim = support::MakeObject("v1", "PersistentVolumeClaim", "shop", name, labels);
  SetJson(claim, {"spec", "volumeName"}, "pv-" + name);
  SetJson(claim, {"status", "phase"}, "Bound");
  api.Seed(PersistentVolumeClaimType(), claim);
  Json volume = support::MakeObject("v1", "PersistentVolume", "", "pv-" + name);
  SetJson(volume, {"spec", "csi", "driver"}, driver);
  SetJson(volume, {"spec", "csi", "volumeHandle"}, "volume-" + name);
  api.Seed(PersistentVolumeType(), volume);
}

// The StatefulSet shop/db, whose PVCs are data-db-N.
inline void SeedStatefulSet(support::FakeApiClient& api) {
  Json set = support::MakeObject("apps/v1", "StatefulSet", "shop", "db");
  SetJson(set, {"spec", "volumeClaimTemplates"}, Json::array({{{"metadata", {{"name", "data"}}}}}));
  api.Seed(StatefulSetType(), set);
}

// A PVC of namespace shop and class "fast", for a provisioner that works.
inline void MakePvc(support::FakeApiClient& api, const std::string& name) {
  Json pvc = support::MakeObject("v1", "PersistentVolumeClaim", "shop", name);
  pvc["spec"] = {{"storageClassName", "fast"},
                 {"accessModes", {"ReadWriteOnce"}},
                 {"volumeMode", "Filesystem"},
                 {"resources", {{"requests", {{"storage", "1Gi"}}}}}};
  ASSERT_TRUE(api.Create({}, PersistentVolumeClaimType(), "shop", pvc).ok());
}

// A VolumeSnapshot of that PVC and class "snaps", for a driver that works.
inline void MakeSnapshotOf(support::FakeApiClient& api, const std::string& pvc,
                           const std::string& name, const support::Strings& labels = {}) {
  Json snapshot =
      support::MakeObject("snapshot.storage.k8s.io/v1", "VolumeSnapshot", "shop", name, labels);
  snapshot["spec"] = {{"source", {{"persistentVolumeClaimName", pvc}}},
                      {"volumeSnapshotClassName", "snaps"}};
  ASSERT_TRUE(api.Create({}, VolumeSnapshotType(), "shop", snapshot).ok());
}

inline void SeedGroupClass(support::FakeApiClient& api, const std::string& driver) {
  api.Seed(VolumeGroupSnapshotClassType("v1"), support::MakeGroupClassObject("groups", driver));
}

// Volumes of the driver have their data once they are bound; tests of csi have others.
inline void SeedFilledWhenBound(support::FakeApiClient& api, const std::string& driver) {
  Json object = support::MakeObject("storage.k8s.io/v1", "CSIDriver", "", driver);
  object["metadata"]["annotations"] = {{objects::kFilledWhenBoundAnnotation, "true"}};
  api.Seed(objects::CsiDriver::Type(), object);
}

// The program against an API server that serves what the verbs of `csi-delta snapshot` use.
class SnapshotProgramTest : public testing::Test {
 protected:
  SnapshotProgramTest()
      : api_server_(api_,
                    {VolumeSnapshotType(),
                     VolumeSnapshotContentType(),
                     VolumeSnapshotClassType(),
                     PersistentVolumeClaimType(),
                     PersistentVolumeType(),
                     objects::CsiDriver::Type(),
                     StorageClassType(),
                     LeaseType(),
                     PodType(),
                     StatefulSetType(),
                     EventType(),
                     BackupType(),
                     ResourceQuotaType(),
                     SecretType(),
                     VolumeGroupSnapshotType("v1"),
                     VolumeGroupSnapshotContentType("v1"),
                     VolumeGroupSnapshotClassType("v1"),
                     DataUploadType(),
                     DataDownloadType(),
                     ConfigMapType(),
                     k8s::ResourceType{"authorization.k8s.io", "v1", "selfsubjectaccessreviews",
                                       "SelfSubjectAccessReview", false}}) {
    program_.Write("kubeconfig", api_server_.Kubeconfig());
  }

  // "--kubeconfig FILE snapshot", `words`, `more`.
  Outcome RunWords(std::vector<std::string> words, const std::vector<std::string>& more) const {
    words.insert(words.begin(), {"--kubeconfig", program_.Path("kubeconfig"), "snapshot"});
    words.insert(words.end(), more.begin(), more.end());
    return program_.Run(words);
  }
  std::vector<std::string> NamesIn(const k8s::ResourceType& type) const {
    std::vector<std::string> names;
    for (const Json& object : api_.All(type)) {
      names.push_back(k8s::Name(object));
    }
    return names;
  }

  ProgramRunner program_;
  support::FakeApiClient api_;
  support::ApiTestServer api_server_;
};

// `csi-delta snapshot VERB`, and VolumeSnapshots of PVCs.
class SnapshotVerbTest : public SnapshotProgramTest {
 protected:
  explicit SnapshotVerbTest(const std::string& verb) : verb_(verb) {}

  // One that the verbs made.
  void Ready(const std::string& name, const std::string& taken, const std::string& space = "shop") {
    SeedReady(api_, space, name, taken, {{objects::kMadeByLabel, objects::kMadeByVerbs}});
  }
  void Change(const std::string& name, JsonPath path, const Json& value) {
    ASSERT_TRUE(api_.Mutate(VolumeSnapshotKey("shop", name),
                            [&](Json& snapshot) { SetJson(snapshot, path, value); }));
  }
  void ChangeContent(const std::string& name, JsonPath path, const Json& value) {
    ASSERT_TRUE(api_.Mutate(VolumeSnapshotContentKey("content-of-" + name),
                            [&](Json& content) { SetJson(content, path, value); }));
  }
  void Label(const std::string& name, const char* key, const std::string& value) {
    Change(name, {"metadata", "labels", key}, value);
  }
  // What happens between the listing and its deletion.
  void BeforeDeletionOf(const std::string& name, const std::function<void()>& what) {
    api_.SetInterceptor([=](const support::ApiCall& call, const Json*) {
      if (call.verb == "delete" && call.name == name) {
        what();
      }
      return absl::OkStatus();
    });
  }
  // VolumeGroupSnapshot `group`, and their set; the second of two is of PVC "logs".
  void MakeGroup(const std::string& group, const std::vector<std::string>& members) {
    api_.Seed(VolumeGroupSnapshotType("v1"),
              support::MakeObject("groupsnapshot.storage.k8s.io/v1", "VolumeGroupSnapshot", "shop",
                                  group));
    for (const std::string& name : members) {
      Change(name, {"status", "volumeGroupSnapshotName"}, group);
      Label(name, objects::kSnapshotSetLabel, group);
    }
    Change(members.back(), {"spec", "source", "persistentVolumeClaimName"}, "logs");
  }
  bool IsGroupThere(const std::string& group) const {
    return api_.Find({VolumeGroupSnapshotType("v1"), "shop", group}).has_value();
  }
  // A PVC of the namespace that is to be filled from it, and is not bound.
  void FillFrom(const std::string& name, const std::string& pvc) {
    Json claim = support::MakeObject("v1", "PersistentVolumeClaim", "shop", pvc);
    SetJson(claim, {"spec", "dataSource"}, Json{{"kind", "VolumeSnapshot"}, {"name", name}});
    api_.Seed(PersistentVolumeClaimType(), claim);
  }
  bool IsThere(const std::string& name) const {
    return api_.Find(VolumeSnapshotKey("shop", name)).has_value();
  }
  bool IsContentThere(const std::string& name) const {
    return api_.Find(VolumeSnapshotContentKey("content-of-" + name)).has_value();
  }

  Outcome Run(const std::vector<std::string>& more) const { return RunWords({verb_}, more); }
  // What -o json prints in namespace shop.
  Json RunJson(std::vector<std::string> more, ExitCode code = ExitCode::kOk) const {
    more.insert(more.end(), {"-n", "shop", "-o", "json"});
    const Outcome outcome = Run(more);
    EXPECT_EQ(outcome.code, code) << outcome.error;
    return ParseJson(outcome.out).value_or(Json());
  }

  // What a driver, a user or an attacker may have written.
  static std::string HostileText() {
    return "red \x1b[31m\x07 back \b line\n next \u202e turned \u2028 " +
           std::string(64 << 10, 'x');
  }

  const std::string verb_;
};

}  // namespace csidelta::cli
