#pragma once

#include "objects/object.h"

namespace csidelta::objects {

// What an administrator registered of a CSI driver; its name is the driver's.
class CsiDriver : public ObjectOf<CsiDriver> {
 public:
  static constexpr KindName kKind = {"storage.k8s.io", "v1", "csidrivers", "CSIDriver", false};
};

}  // namespace csidelta::objects
