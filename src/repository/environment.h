#pragma once

#include <string>

#include "base/cipher.h"
#include "base/memory_budget.h"
#include "base/random.h"
#include "repository/key.h"
#include "repository/scratch.h"

namespace csidelta::repository {

// What the repository code takes from around it, beside the clock of the call context. Lives longer
// than what is made with it.
struct Environment {
  SecureRandom* random = &SecureRandom::Real();
  std::string hostname = "csi-delta";  // For key files; locks have their own.
  std::string username = "csi-delta";
  ScryptParameters scrypt = kScryptWritten;  // of keys that are made
  ScratchOptions scratch;
  // What all that is opened with this may hold together. Tables get their share of it.
  MemoryBudget* memory = &MemoryBudget::Unlimited();
};

}  // namespace csidelta::repository
