#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "objects/volume_snapshot.h"

// The core objects that a volume consists of, as types; see volume_snapshot.h for what views are.
namespace csidelta::objects {

class PersistentVolumeClaim : public ObjectView {
 public:
  static absl::StatusOr<PersistentVolumeClaim> Of(Json json);

  std::string phase() const;        // "Bound", "Pending", "Lost"; "" before the controller saw it
  std::string volume_name() const;  // "" while it is not bound
  bool is_bound() const { return phase() == "Bound" && !volume_name().empty(); }

 private:
  using ObjectView::ObjectView;
};

class PersistentVolume : public ObjectView {
 public:
  static absl::StatusOr<PersistentVolume> Of(Json json);

  std::string driver() const;  // "" for one that is not of CSI

 private:
  using ObjectView::ObjectView;
};

class Pod : public ObjectView {
 public:
  static absl::StatusOr<Pod> Of(Json json);

  // The PVCs of its volumes, those of generic ephemeral volumes too, in the order of the volumes.
  std::vector<std::string> pvcs() const;

 private:
  using ObjectView::ObjectView;
};

class StatefulSet : public ObjectView {
 public:
  static absl::StatusOr<StatefulSet> Of(Json json);

  // Whether a PVC of this name is one of its templates', TEMPLATE-NAME-ORDINAL, or its Pods name it
  // among their volumes.
  bool Uses(absl::string_view pvc) const;

 private:
  using ObjectView::ObjectView;
};

}  // namespace csidelta::objects
