#pragma once

#include <memory>

#include "csi/environment.h"
#include "velero/item_action.h"

namespace csidelta::itemblockactions {

// Keeps a claim together with its volume, the running pods that use it and the other claims of its
// volume group, so that pods' hooks surround the snapshot. The object keeps a copy of `env`.
std::unique_ptr<velero::ItemBlockAction> MakePvcAction(const csi::Environment& env);

}  // namespace csidelta::itemblockactions
