#pragma once

#include <map>
#include <string>

#include "absl/strings/escaping.h"
#include "base/json.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/test_authority.h"

// A cluster as a client of snapshot metadata meets it: two bound volume snapshots of one volume, a
// service account, and the object that says where the driver's metadata is served.
namespace csidelta::support {

inline const k8s::ResourceType& MetadataServiceType(const std::string& version = "v1beta1") {
  static std::map<std::string, k8s::ResourceType> types;
  return types
      .try_emplace(version,
                   k8s::ResourceType{"cbt.storage.k8s.io", version, "snapshotmetadataservices",
                                     "SnapshotMetadataService", false})
      .first->second;
}

inline Json MakeMetadataService(const std::string& address, const std::string& ca_pem) {
  Json service = MakeObject("cbt.storage.k8s.io/v1beta1", "SnapshotMetadataService", "", kDriver);
  SetJson(service, {"spec", "address"}, address);
  SetJson(service, {"spec", "audience"}, "metadata-of-hostpath");
  SetJson(service, {"spec", "caCert"}, absl::Base64Escape(ca_pem));
  return service;
}

struct MetadataCluster {
  FakeClock clock;
  FakeApiClient api{clock};

  MetadataCluster() {
    clock.SetAutoAdvance(true);
    AddSnapshot("old", 1'700'000'000);
    AddSnapshot("new", 1'700'003'600);
    api.Seed({"", "v1", "serviceaccounts", "ServiceAccount", true},
             MakeObject("v1", "ServiceAccount", kVeleroNamespace, "mover"));
  }

  // "app/NAME", ready, with the handle "handle-NAME".
  void AddSnapshot(const std::string& name, int64_t cut_seconds) {
    Json snapshot = MakeSnapshotObject("app", name, "content-" + name);
    SetJson(snapshot, {"status", "readyToUse"}, true);
    api.Seed(VolumeSnapshotType(), snapshot);
    Json content = MakeContentObject("content-" + name, "app", name, "handle-" + name);
    SetJson(content, {"status", "restoreSize"}, 1 << 30);
    SetJson(content, {"status", "creationTime"}, cut_seconds * 1'000'000'000);
    api.Seed(VolumeSnapshotContentType(), content);
  }

  void Advertise(const std::string& address, const std::string& ca_pem,
                 const std::string& version = "v1beta1") {
    api.Seed(MetadataServiceType(version), MakeMetadataService(address, ca_pem));
    api.ServeVersion(MetadataServiceType().plural, version);
  }

  CallContext Context() const {
    CallContext ctx;
    ctx.clock = &clock;
    return ctx;
  }
};

}  // namespace csidelta::support
