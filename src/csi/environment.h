#pragma once

#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "k8s/api_client.h"

namespace csidelta::csi {

class BaseIndex;

// What every action works with; made once per process and handed to each action. Borrows
// what it points to, which outlives every action. Copyable.
struct Environment {
  k8s::ApiClient& api;
  const Clock& clock;
  Random& random;
  std::string velero_namespace;      // where Velero's own objects live
  bool enable_csi = false;           // the server was started with --features=EnableCSI
  const BaseIndex* bases = nullptr;  // of a process that watches them
};

}  // namespace csidelta::csi
