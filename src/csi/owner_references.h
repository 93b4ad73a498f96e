#pragma once

#include "absl/strings/string_view.h"
#include "objects/object.h"

namespace csidelta::csi {

// An owner reference names no namespace: the garbage collector looks for the owner beside the
// object, does not find one that lives elsewhere, and deletes the object. Removes from `object` the
// references that point from a cluster-scoped object to a namespaced one, or to an object of
// Velero's where `object` lives outside `velero_namespace`. A Backup or Restore that was named so
// stays named by Velero's label. Returns whether anything was removed. Pure.
bool StripForeignOwners(absl::string_view velero_namespace, objects::Object& object);

}  // namespace csidelta::csi
