#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace csidelta::plugin {

inline constexpr int kPluginFolderEntriesMax = 1024;

// Answers: is it certain that no other plugin of the host registers one of `names`? The host starts
// every executable file in the folder of `command`, our own argv[0], and below it; a program that
// registers a name holds its bytes. OK only when each of those files was read to its end and holds
// none. Otherwise:
//   ALREADY_EXISTS       a file holds a name
//   FAILED_PRECONDITION  it cannot be known: no folder in `command`, something that is no plain
//                        file of machine code or cannot be read, too many entries
// The message names the file. Takes as long as reading those files takes.
absl::Status CheckNamesAreFree(const std::string& command, const std::vector<std::string>& names);

}  // namespace csidelta::plugin
