#pragma once

#include "absl/strings/string_view.h"
#include "objects/object.h"

namespace csidelta::csi {

// Removes owner references that cannot be resolved. A reference names no namespace: the garbage
// collector searches the owner in the namespace of the object. It does not find a foreign one, and
// deletes the object. Such references point from a cluster-scoped object to a namespaced one, or to
// an object of Velero's from outside `velero_namespace`. A Backup or Restore that is removed so
// stays named by Velero's label. Returns true if anything was removed. Pure.
bool StripForeignOwners(absl::string_view velero_namespace, objects::Object& object);

}  // namespace csidelta::csi
