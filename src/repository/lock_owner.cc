#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/json_text.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "repository/lock.h"
#include "repository/repo_snapshot.h"

namespace csidelta::repository {
namespace {

constexpr std::size_t kProcFileBytesMax = 4096;
constexpr std::size_t kHostNameBytesMax = 128;
// The 22nd field of /proc/<pid>/stat, counted from behind the name in parentheses.
constexpr std::size_t kStartTicksField = 19;

std::string ReadProcFile(const std::string& path) {
  std::ifstream file(path);
  std::string text(kProcFileBytesMax, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

// Takes "<prefix><number>".
template <typename T>
bool TakeNumber(absl::string_view part, absl::string_view prefix, T& number) {
  return absl::ConsumePrefix(&part, prefix) && absl::SimpleAtoi(part, &number);
}

// What may stand between the separators.
std::string Clean(absl::string_view name) {
  std::string clean(name.substr(0, kHostNameBytesMax));
  std::replace_if(
      clean.begin(), clean.end(),
      [](char c) { return !absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.'; }, '-');
  return clean;
}

bool IsComplete(const ProcessIdentity& process) {
  return !process.boot_id.empty() && process.pid_namespace != 0 && process.pid > 0 &&
         process.start_ticks != 0;
}

// When a process with the owner's pid was started, where that says anything about the owner; 0: no
// such process.
std::optional<uint64_t> StartTicksOfOwner(const LockOwner& owner,
                                          const LivenessProbes& liveness_probes) {
  const ProcessIdentity& self = liveness_probes.self;
  if (!IsComplete(owner.process) || !IsComplete(self) || owner.process.boot_id != self.boot_id ||
      owner.process.pid_namespace != self.pid_namespace) {
    return std::nullopt;
  }
  const std::optional<uint64_t> ticks = liveness_probes.start_ticks_of(owner.process.pid);
  // The kernel counts ticks from where the reader's time namespace begins. Only that no process has
  // the pid is the same from everywhere.
  const bool is_comparable = owner.process.time_namespace == self.time_namespace;
  return is_comparable || ticks == uint64_t{0} ? ticks : std::nullopt;
}

}  // namespace

std::string EncodeLockHostname(const LockOwner& owner) {
  std::string hostname = Clean(owner.name);
  if (IsComplete(owner.process)) {
    absl::StrAppend(&hostname, "_boot-", Clean(owner.process.boot_id), "_ns-",
                    owner.process.pid_namespace, "_pid-", owner.process.pid, "_start-",
                    owner.process.start_ticks);
    if (owner.process.time_namespace != kInitialTimeNamespace) {
      absl::StrAppend(&hostname, "_time-", owner.process.time_namespace);
    }
  }
  if (!owner.pod_uid.empty()) {
    absl::StrAppend(&hostname, "_pod-", Clean(owner.pod_uid));
  }
  return hostname;
}

std::optional<LockOwner> DecodeLockHostname(absl::string_view hostname) {
  std::vector<absl::string_view> parts = absl::StrSplit(hostname, '_');
  LockOwner owner;
  owner.name = std::string(parts.front());
  parts.erase(parts.begin());
  if (!parts.empty() && absl::ConsumePrefix(&parts.back(), "pod-")) {
    owner.pod_uid = std::string(parts.back());
    parts.pop_back();
  }
  ProcessIdentity& process = owner.process;
  uint64_t time_namespace = 0;
  if (parts.size() == 5 && TakeNumber(parts.back(), "time-", time_namespace)) {
    process.time_namespace = time_namespace;
    parts.pop_back();
  }
  const bool process_named = parts.size() == 4 && absl::ConsumePrefix(&parts[0], "boot-") &&
                             TakeNumber(parts[1], "ns-", process.pid_namespace) &&
                             TakeNumber(parts[2], "pid-", process.pid) &&
                             TakeNumber(parts[3], "start-", process.start_ticks);
  if (process_named) {
    process.boot_id = std::string(parts[0]);
  }
  if (!process_named && (!parts.empty() || owner.pod_uid.empty())) {
    return std::nullopt;
  }
  return owner;
}

std::string EncodeLock(const LockFile& lock) {
  return absl::StrCat("{\"time\":\"", FormatRfc3339(lock.time),
                      "\",\"exclusive\":", lock.exclusive ? "true" : "false",
                      ",\"hostname\":", JsonText(lock.hostname),
                      ",\"username\":", JsonText(lock.username), ",\"pid\":", lock.pid, "}");
}

absl::StatusOr<LockFile> DecodeLock(absl::string_view text) {
  ASSIGN_OR_RETURN(const Json json, ParseJsonObject(text));
  LockFile lock;
  const std::optional<absl::Time> time = ParseRfc3339(GetString(json, {"time"}));
  if (!time.has_value()) {
    return absl::InvalidArgumentError("lock: its time is not one of RFC 3339");
  }
  lock.time = *time;
  lock.exclusive = GetBool(json, {"exclusive"});
  lock.hostname = GetString(json, {"hostname"});
  lock.username = GetString(json, {"username"});
  lock.pid = GetInt(json, {"pid"});
  return lock;
}

std::optional<uint64_t> StartTicksOf(int64_t pid) {
  const std::string text = ReadProcFile(absl::StrCat("/proc/", pid, "/stat"));
  const std::size_t name_end = text.rfind(") ");
  if (name_end == std::string::npos) {
    // Also what a /proc that hides foreign processes shows: the kernel knows better.
    const bool gone = kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
    return gone ? std::optional<uint64_t>(0) : std::nullopt;
  }
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(text).substr(name_end + 2), ' ');
  uint64_t ticks = 0;
  if (fields.size() <= kStartTicksField || !absl::SimpleAtoi(fields[kStartTicksField], &ticks) ||
      ticks == 0) {
    return std::nullopt;
  }
  return ticks;
}

ProcessIdentity OwnProcess() {
  const int64_t pid = getpid();
  std::string seen_pid(32, '\0');
  const ssize_t length = readlink("/proc/self", seen_pid.data(), seen_pid.size());
  seen_pid.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  // A /proc of another PID namespace shows other processes under our numbers.
  struct stat status = {};
  if (seen_pid != absl::StrCat(pid) || stat("/proc/self/ns/pid", &status) != 0) {
    return {};
  }
  struct stat time = {};
  const bool has_time_namespaces = stat("/proc/self/ns/time", &time) == 0;
  const std::string boot_id = ReadProcFile("/proc/sys/kernel/random/boot_id");
  return {.boot_id = absl::StrReplaceAll(absl::StripAsciiWhitespace(boot_id), {{"-", ""}}),
          .pid_namespace = status.st_ino,
          .pid = pid,
          .start_ticks = StartTicksOf(pid).value_or(0),
          .time_namespace = has_time_namespaces ? time.st_ino : kInitialTimeNamespace};
}

bool IsProvenDead(const LockOwner& owner, const LivenessProbes& liveness_probes) {
  if (!owner.pod_uid.empty() && liveness_probes.pod_is_gone != nullptr &&
      liveness_probes.pod_is_gone(owner.pod_uid)) {
    return true;
  }
  const std::optional<uint64_t> start_ticks = StartTicksOfOwner(owner, liveness_probes);
  return start_ticks.has_value() && *start_ticks != owner.process.start_ticks;
}

}  // namespace csidelta::repository
