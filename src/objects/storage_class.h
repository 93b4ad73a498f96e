#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "objects/volume_snapshot.h"

namespace csidelta::objects {

// A StorageClass, as objects/volume_snapshot.h has its kinds: what it does not name is kept.
class StorageClass : public ObjectView {
 public:
  static absl::StatusOr<StorageClass> Of(Json json);

  std::string provisioner() const;  // the driver, or its name in the tree of Kubernetes
  bool is_default() const;          // of the cluster
  // A PVC of it stays without a volume until a Pod uses it.
  bool waits_for_first_consumer() const;

 private:
  using ObjectView::ObjectView;
};

}  // namespace csidelta::objects
