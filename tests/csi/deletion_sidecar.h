#pragma once

#include <set>
#include <string>

#include "csi/static_content.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_fields.h"

namespace csidelta::csi {

// Plays the snapshot controller and a driver's sidecar: what a deleted content with its handle in
// the status and the policy Delete means to the driver's snapshots.
class Sidecar {
 public:
  explicit Sidecar(support::FakeApiClient& api) {
    api.OnEvent("volumesnapshotcontents",
                [this](support::FakeApiClient& client, const auto& event) {
                  if (event.kind != k8s::WatchEvent::Kind::kDeleted) {
                    Sync(client, event.object);
                  }
                });
  }

  void Sync(support::FakeApiClient& api, const Json& content) {
    const bool unbound = GetString(content, {"spec", "volumeSnapshotRef", "uid"}).empty();
    const bool told =
        !k8s::Annotation(content, "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted")
             .empty();
    if (!k8s::BeingDeleted(content) || !(unbound || told)) {
      return;
    }
    const k8s::ObjectKey key = VolumeSnapshotContentKey(k8s::Name(content));
    if (GetString(content, {"spec", "deletionPolicy"}) == "Delete" &&
        !support::SnapshotHandle(content).empty()) {
      if (refuses) {
        return;
      }
      snapshots.erase(support::SnapshotHandle(content));
      api.Mutate(key, [](Json& object) { object["status"] = Json::object(); });
    }
    Json others = Json::array();
    for (const Json& one : content["metadata"].value("finalizers", Json::array())) {
      if (one != objects::kContentBoundProtectionFinalizer) {
        others.push_back(one);
      }
    }
    if (others.size() != content["metadata"].value("finalizers", Json::array()).size()) {
      api.SetField(key, {"metadata", "finalizers"}, others);
    }
  }

  std::set<std::string> snapshots = {"handle-1", "handle-2"};
  bool refuses = false;
};

}  // namespace csidelta::csi
