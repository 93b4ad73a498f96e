#pragma once

#include <vector>

#include "base/json.h"
#include "k8s/informer.h"

namespace csidelta::support {

// As if each of these objects had changed, and all others were gone.
inline void ReportAll(k8s::Informer& informer, const std::vector<Json>& objects) {
  for (const Json& object : objects) {
    informer.Expect(k8s::IdOf(object));
  }
  informer.OnAll(objects);
}

}  // namespace csidelta::support
