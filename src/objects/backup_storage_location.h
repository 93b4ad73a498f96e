#pragma once

#include <string>

#include "objects/object.h"

namespace csidelta::objects {

// Velero's; velero::ParseStorageLocation() reads its spec.
class BackupStorageLocation : public ObjectOf<BackupStorageLocation> {
 public:
  static constexpr KindName kKind = {"velero.io", "v1", "backupstoragelocations",
                                     "BackupStorageLocation"};

  bool is_default() const { return Flag({"spec", "default"}); }
  // Available, Unavailable; "" before Velero looked.
  std::string phase() const { return Text({"status", "phase"}); }
  std::string message() const { return Text({"status", "message"}); }
};

}  // namespace csidelta::objects
