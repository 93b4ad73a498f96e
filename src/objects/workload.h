#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"
#include "objects/volume_snapshot.h"

// What uses PVCs, as objects/volume_snapshot.h has its kinds: what they do not name is kept.
namespace csidelta::objects {

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
