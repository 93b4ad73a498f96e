#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "objects/volume_snapshot.h"

// A PersistentVolume, as objects/volume_snapshot.h has its kinds: what it does not name is kept.
namespace csidelta::objects {

class PersistentVolume : public ObjectView {
 public:
  static absl::StatusOr<PersistentVolume> Of(Json json);

  std::string driver() const;         // "" for one that is not of CSI
  std::string handle() const;         // of the volume, by its CSI driver; ""
  std::string pvc_namespace() const;  // of the PVC that it is or was bound to; ""
  std::string pvc_name() const;
  std::string pvc_uid() const;  // "" while it is reserved for any PVC of that name
  std::optional<int64_t> capacity_bytes() const;
  std::string storage_class() const;   // ""
  std::string reclaim_policy() const;  // Retain, Delete
  bool is_retained() const { return reclaim_policy() == "Retain"; }
  std::string phase() const;  // Bound, Released, ...
  // Made by a provisioner, which also deletes it when its policy says so.
  bool is_provisioned() const;
  // The node affinity that says where it can be used: spec.nodeAffinity.required; null: anywhere.
  Json node_affinity() const;

 private:
  using ObjectView::ObjectView;
};

}  // namespace csidelta::objects
