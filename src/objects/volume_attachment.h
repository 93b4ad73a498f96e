#pragma once

#include <string>

#include "objects/object.h"

namespace csidelta::objects {

// That a volume is attached to a node, or is to be.
class VolumeAttachment : public ObjectOf<VolumeAttachment> {
 public:
  static constexpr KindName kKind = {"storage.k8s.io", "v1", "volumeattachments",
                                     "VolumeAttachment", false};

  // The PersistentVolume; "" for one that is inline in a Pod.
  std::string volume_name() const { return Text({"spec", "source", "persistentVolumeName"}); }
  std::string node_name() const { return Text({"spec", "nodeName"}); }
};

}  // namespace csidelta::objects
