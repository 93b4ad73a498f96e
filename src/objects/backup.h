#pragma once

#include <string>

#include "objects/object.h"

namespace csidelta::objects {

// Velero's; velero::ParseBackup() reads it as a whole.
class Backup : public ObjectOf<Backup> {
 public:
  static constexpr KindName kKind = {"velero.io", "v1", "backups", "Backup"};

  // New, InProgress, Completed, PartiallyFailed, Failed, ...; "" for a new one.
  std::string phase() const { return Text({"status", "phase"}); }

 private:
  using ObjectOf::ObjectOf;
};

}  // namespace csidelta::objects
