#pragma once

#include <string>
#include <vector>

#include "base/finding.h"

namespace csidelta::support {

inline std::vector<std::string> CodesOf(const std::vector<Finding>& findings) {
  std::vector<std::string> codes;
  for (const Finding& one : findings) {
    codes.emplace_back(one.code);
  }
  return codes;
}

}  // namespace csidelta::support
