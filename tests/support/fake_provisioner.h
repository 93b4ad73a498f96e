#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "csi/snapshot_types.h"
#include "tests/support/fake_api_client.h"

namespace csidelta::support {

// Plays the provisioner and the binder of volumes for a FakeApiClient: gives a new claim a volume,
// binds a claim to the volume that names it, and lets a volume go with its claim when its policy
// says so. What it does is done before the causing call returns. Its switches are set before the
// calls.
class FakeProvisioner {
 public:
  bool binds = true;         // else claims stay Pending
  std::string refusal;       // claims stay Pending, with a ProvisioningFailed event that says this
  std::string refuses_mode;  // only claims of this access mode are refused; "": all
  std::string reclaim_policy = "Delete";

  explicit FakeProvisioner(FakeApiClient& api) : api_(api) {
    api.OnEvent("persistentvolumeclaims",
                [this](FakeApiClient&, const k8s::WatchEvent& event) { OnClaim(event); });
    api.OnEvent("persistentvolumes", [this](FakeApiClient&, const k8s::WatchEvent& event) {
      if (event.kind != k8s::WatchEvent::Kind::kDeleted) {
        OnVolume(event.object);
      }
    });
  }

  // Makes the volume of a claim that exists, and binds them.
  void Provision(const Json& claim) {
    const std::string name = absl::StrCat("pvc-", csi::Uid(claim));
    Json volume = {{"metadata", {{"name", name}, {"labels", {{"made-by", "provisioner"}}}}}};
    volume["spec"] = {
        {"accessModes", claim["spec"]["accessModes"]},
        {"capacity", {{"storage", GetString(claim, {"spec", "resources", "requests", "storage"})}}},
        {"claimRef",
         {{"namespace", csi::Namespace(claim)},
          {"name", csi::Name(claim)},
          {"uid", csi::Uid(claim)}}},
        {"csi",
         {{"driver", "d.example.com"},
          {"fsType", "ext4"},
          {"volumeAttributes",
           {{"pool", "one"},
            {"storage.kubernetes.io/csiProvisionerIdentity", "1-2-d.example.com"}}},
          {"volumeHandle", absl::StrCat("handle-of-", name)}}},
        {"persistentVolumeReclaimPolicy", reclaim_policy},
        {"storageClassName", GetString(claim, {"spec", "storageClassName"})},
        {"volumeMode", GetString(claim, {"spec", "volumeMode"})}};
    api_.Seed(csi::PersistentVolumeType(), volume);
    Bind(csi::ClaimKey(csi::Namespace(claim), csi::Name(claim)), name);
  }

 private:
  void Bind(const k8s::ObjectKey& claim_key, const std::string& volume_name) {
    std::string claim_uid;
    api_.Mutate(claim_key, [&](Json& claim) {
      claim["spec"]["volumeName"] = volume_name;
      SetJson(claim, {"status", "phase"}, "Bound");
      claim_uid = csi::Uid(claim);
    });
    api_.Mutate(csi::VolumeKey(volume_name), [&](Json& volume) {
      volume["spec"]["claimRef"]["uid"] = claim_uid;
      SetJson(volume, {"status", "phase"}, "Bound");
    });
  }

  void OnClaim(const k8s::WatchEvent& event) {
    const Json& claim = event.object;
    if (event.kind == k8s::WatchEvent::Kind::kDeleted) {
      return OnClaimGone(claim);
    }
    const std::string volume_name = GetString(claim, {"spec", "volumeName"});
    if (GetString(claim, {"status", "phase"}) == "Bound") {
      return;
    }
    if (!volume_name.empty()) {
      if (const auto volume = api_.Find(csi::VolumeKey(volume_name)); volume.has_value()) {
        OnVolume(*volume);
      }
      return;
    }
    if (event.kind == k8s::WatchEvent::Kind::kAdded &&
        FindJson(claim, {"spec", "selector"}) == nullptr) {
      Answer(claim);
    }
  }

  void Answer(const Json& claim) {
    const bool refused =
        !refusal.empty() &&
        (refuses_mode.empty() || claim["spec"]["accessModes"] == Json::array({refuses_mode}));
    if (refused) {
      Json event = {{"metadata",
                     {{"name", absl::StrCat(csi::Name(claim), ".", csi::Uid(claim))},
                      {"namespace", csi::Namespace(claim)}}},
                    {"involvedObject", {{"uid", csi::Uid(claim)}}},
                    {"reason", "ProvisioningFailed"},
                    {"message", refusal}};
      api_.Seed({"", "v1", "events", "Event", true}, event);
    } else if (binds) {
      Provision(claim);
    }
  }

  void OnVolume(const Json& volume) {
    const std::string space = GetString(volume, {"spec", "claimRef", "namespace"});
    const std::string name = GetString(volume, {"spec", "claimRef", "name"});
    if (GetString(volume, {"status", "phase"}) == "Bound" &&
        !GetString(volume, {"spec", "claimRef", "uid"}).empty()) {
      return;
    }
    const auto claim = api_.Find(csi::ClaimKey(space, name));
    if (!claim.has_value() || GetString(*claim, {"status", "phase"}) == "Bound" ||
        GetString(*claim, {"spec", "volumeMode"}) != GetString(volume, {"spec", "volumeMode"})) {
      return;
    }
    const std::string uid = GetString(volume, {"spec", "claimRef", "uid"});
    if (uid.empty() || uid == csi::Uid(*claim)) {
      Bind(csi::ClaimKey(space, name), csi::Name(volume));
    }
  }

  void OnClaimGone(const Json& claim) {
    const std::string name = GetString(claim, {"spec", "volumeName"});
    const auto volume = api_.Find(csi::VolumeKey(name));
    if (name.empty() || !volume.has_value() ||
        GetString(*volume, {"spec", "claimRef", "uid"}) != csi::Uid(claim)) {
      return;
    }
    if (GetString(*volume, {"spec", "persistentVolumeReclaimPolicy"}) == "Delete") {
      api_.Remove(csi::VolumeKey(name));
    } else {
      api_.Mutate(csi::VolumeKey(name), [](Json& released) {
        SetJson(released, {"status", "phase"}, "Released");
      });
    }
  }

  FakeApiClient& api_;
};

}  // namespace csidelta::support
