#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace csidelta::plugin {

// Copies the running executable to `folder`/`name`, mode 0755, replacing what is there. The copy
// becomes visible only when it is whole and on disk. The server starts any executable file in the
// plugin folder, so the partial copy is hidden and not executable. A copy of the same name left
// over by an interrupted run is replaced. Errors name the step and the path.
absl::Status InstallSelf(const std::string& folder, absl::string_view name);

}  // namespace csidelta::plugin
