#include "plugin/handshake.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace csidelta::plugin {
namespace {

constexpr char kCookieName[] = "VELERO_PLUGIN";
constexpr char kCookieValue[] = "hello";
constexpr char kAppVersion[] = "2";
constexpr mode_t kSharedSocketMode = 0660;

std::string SocketPathIn(absl::string_view folder, Random& random) {
  const uint64_t number = random.Below(UINT64_MAX);
  return absl::StrFormat("%s/plugin%016x", folder, number);
}

absl::StatusOr<gid_t> FindGroup(const std::string& group) {
  uint32_t id = 0;
  if (absl::SimpleAtoi(group, &id)) {
    return id;
  }
  std::ifstream groups("/etc/group");
  for (std::string line; std::getline(groups, line);) {
    const std::vector<std::string> fields = absl::StrSplit(line, ':');
    if (fields.size() >= 3 && fields[0] == group && absl::SimpleAtoi(fields[2], &id)) {
      return id;
    }
  }
  return absl::NotFoundError(absl::StrCat("no group ", group));
}

}  // namespace

bool IsStartedByHost(const EnvironmentLookup& environment) {
  return environment(kCookieName) == kCookieValue;
}

absl::Status CheckProtocolVersions(const EnvironmentLookup& environment) {
  const std::string offered = environment("PLUGIN_PROTOCOL_VERSIONS");
  const std::vector<std::string> versions = absl::StrSplit(offered, ',');
  if (offered.empty() ||
      std::find(versions.begin(), versions.end(), kAppVersion) != versions.end()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat("the host offers plugin protocol ", offered,
                                                    ", this plugin speaks ", kAppVersion));
}

absl::StatusOr<std::string> ChooseSocketPath(const EnvironmentLookup& environment, Random& random) {
  if (const std::string folder = environment("PLUGIN_UNIX_SOCKET_DIR"); !folder.empty()) {
    std::string path = SocketPathIn(folder, random);
    if (path.size() > kSocketPathBytesMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("PLUGIN_UNIX_SOCKET_DIR is too long for a socket: ", folder));
    }
    return path;
  }
  if (const std::string folder = environment("TMPDIR"); !folder.empty()) {
    std::string path = SocketPathIn(folder, random);
    if (path.size() <= kSocketPathBytesMax) {
      return path;
    }
  }
  return SocketPathIn("/tmp", random);
}

absl::Status ShareSocketWithGroup(const std::string& path, const EnvironmentLookup& environment) {
  const std::string group = environment("PLUGIN_UNIX_SOCKET_GROUP");
  if (group.empty()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const gid_t id, FindGroup(group));
  if (chown(path.c_str(), static_cast<uid_t>(-1), id) != 0 ||
      chmod(path.c_str(), kSharedSocketMode) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("share ", path, " with group ", group));
  }
  return absl::OkStatus();
}

std::string FormatHandshakeLine(absl::string_view socket_path) {
  // Core protocol | application protocol | network | address | transport | server certificate.
  return absl::StrCat("1|", kAppVersion, "|unix|", socket_path, "|grpc|\n");
}

std::string ExplainHandStart(absl::string_view program) {
  return absl::StrCat(
      program, " is a plugin of Velero; the Velero server starts it.\n",
      "Add it to a server with `velero plugin add IMAGE`, or put this file into the server's "
      "plugin "
      "folder.\n",
      "By hand it knows: `version` (prints the version) and `install [DIR]` (copies itself to DIR, "
      "default /target).\n");
}

}  // namespace csidelta::plugin
