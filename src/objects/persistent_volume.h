#pragma once

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

 private:
  using ObjectView::ObjectView;
};

}  // namespace csidelta::objects
