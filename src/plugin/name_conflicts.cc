#include "plugin/name_conflicts.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace csidelta::plugin {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kReadBytes = std::size_t{1} << 20;

absl::Status Unsure(absl::string_view why, const fs::path& path) {
  return absl::FailedPreconditionError(absl::StrCat(path.string(), ": ", why));
}

// As the host sees it: by the entry itself, so that every symbolic link counts as executable.
bool IsExecutable(const fs::file_status& status) {
  constexpr fs::perms kAnyone =
      fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec;
  return !fs::is_directory(status) && (status.permissions() & kAnyone) != fs::perms::none;
}

// What the host would start beside `own`.
absl::StatusOr<std::vector<fs::path>> ListOthers(const fs::path& own) {
  std::vector<fs::path> found;
  std::error_code error;
  int entry_count = 0;
  fs::recursive_directory_iterator entry(own.parent_path(), error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (++entry_count > kPluginFolderEntriesMax) {
      return Unsure("too many entries", own.parent_path());
    }
    const fs::file_status status = entry->symlink_status(error);
    if (error) {
      break;
    }
    if (IsExecutable(status) && !fs::equivalent(entry->path(), own, error)) {
      found.push_back(entry->path());
    }
    if (error) {
      return Unsure(error.message(), entry->path());
    }
  }
  if (error) {
    return Unsure(error.message(), own.parent_path());
  }
  return found;
}

absl::Status CheckFile(const fs::path& path, const std::vector<std::string>& names) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    return Unsure("not a plain file", path);
  }
  std::size_t overlap_bytes = 0;  // A name may begin in one piece and end in the next.
  for (const std::string& name : names) {
    overlap_bytes = std::max(overlap_bytes, name.size());
  }
  std::ifstream file(path, std::ios::binary);
  std::string window;
  bool is_first = true;
  while (file) {
    const std::size_t kept_bytes = std::min(window.size(), overlap_bytes);
    window.erase(0, window.size() - kept_bytes);
    window.resize(kept_bytes + kReadBytes);
    file.read(window.data() + kept_bytes, kReadBytes);
    window.resize(kept_bytes + static_cast<std::size_t>(file.gcount()));
    if (is_first && !absl::StartsWith(window, absl::string_view(ELFMAG, SELFMAG))) {
      return Unsure("not a program of machine code", path);  // A script may start anything.
    }
    is_first = false;
    for (const std::string& name : names) {
      if (memmem(window.data(), window.size(), name.data(), name.size()) != nullptr) {
        return absl::AlreadyExistsError(absl::StrCat(path.string(), " holds ", name));
      }
    }
  }
  return file.eof() && !is_first ? absl::OkStatus() : Unsure("cannot be read", path);
}

}  // namespace

absl::Status CheckNamesAreFree(const std::string& command, const std::vector<std::string>& names) {
  if (names.empty()) {
    return absl::OkStatus();
  }
  const fs::path own(command);
  if (!own.has_parent_path()) {
    return Unsure("no folder in the command", own);
  }
  ASSIGN_OR_RETURN(const std::vector<fs::path> others, ListOthers(own));
  for (const fs::path& path : others) {
    RETURN_IF_ERROR(CheckFile(path, names));
  }
  return absl::OkStatus();
}

}  // namespace csidelta::plugin
