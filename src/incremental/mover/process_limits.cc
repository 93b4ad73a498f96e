#include "incremental/mover/process_limits.h"

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "repository/volume_layout.h"

namespace csidelta::incremental {
namespace {

// Version 1 says "no limit" with the largest multiple of a page that it knows.
constexpr int64_t kNoLimitBytes = int64_t{1} << 60;

// The words of a small file; none where it does not read.
std::vector<std::string> Words(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> words;
  for (std::string word; file >> word;) {
    words.push_back(std::move(word));
  }
  return words;
}

// What the word at `at` says, if it is a number above 0: "max" and "-1" are no limits.
std::optional<int64_t> NumberAt(const std::vector<std::string>& words, std::size_t at) {
  int64_t number = 0;
  const bool limits = at < words.size() && absl::SimpleAtoi(words[at], &number) && number > 0 &&
                      number < kNoLimitBytes;
  return limits ? std::optional<int64_t>(number) : std::nullopt;
}

// Where the process is in each hierarchy, by controller; "" is that of version 2.
std::map<std::string, std::string> OwnGroups(const std::string& root) {
  std::ifstream file(absl::StrCat(root, "/proc/self/cgroup"));
  std::map<std::string, std::string> groups;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) {
      continue;
    }
    for (const absl::string_view controller : absl::StrSplit(parts[1], ',')) {
      groups[std::string(controller)] = parts[2];
    }
  }
  return groups;
}

// The folder of a cgroup and of all above it, up to where the hierarchy is mounted. In a container
// the mount is often its own cgroup, whatever the path says that the host knows it by.
std::vector<std::string> FoldersUpwards(const std::string& mount, const std::string& group) {
  std::vector<std::string> folders;
  std::error_code error;
  absl::string_view path = absl::StripSuffix(group, "/");
  if (!absl::StrContains(path, "..") &&
      std::filesystem::is_directory(absl::StrCat(mount, path), error)) {
    for (; !path.empty(); path = path.substr(0, path.rfind('/'))) {
      folders.push_back(absl::StrCat(mount, path));
    }
  }
  folders.push_back(mount);
  return folders;
}

void Lower(std::optional<int64_t>& limit, std::optional<int64_t> other) {
  if (other.has_value()) {
    limit = std::min(limit.value_or(*other), *other);
  }
}

// Quota and period of one cgroup, in whole cores.
std::optional<int64_t> CoresOf(std::optional<int64_t> quota, std::optional<int64_t> period) {
  return quota.has_value() && period.has_value()
             ? std::optional<int64_t>((*quota + *period - 1) / *period)
             : std::nullopt;
}

int AffinityCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) {
    return std::max(1, CPU_COUNT(&set));
  }
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace

ProcessLimits ReadProcessLimits(const std::string& root) {
  const std::map<std::string, std::string> groups = OwnGroups(root);
  const auto folders = [&](const char* controller, const std::string& mount) {
    const auto group = groups.find(controller);
    return group == groups.end() ? std::vector<std::string>()
                                 : FoldersUpwards(absl::StrCat(root, mount), group->second);
  };
  std::optional<int64_t> memory_bytes;
  std::optional<int64_t> cores;
  for (const std::string& folder : folders("memory", "/sys/fs/cgroup/memory")) {
    Lower(memory_bytes, NumberAt(Words(folder + "/memory.limit_in_bytes"), 0));
  }
  for (const std::string& folder : folders("cpu", "/sys/fs/cgroup/cpu")) {
    Lower(cores, CoresOf(NumberAt(Words(folder + "/cpu.cfs_quota_us"), 0),
                         NumberAt(Words(folder + "/cpu.cfs_period_us"), 0)));
  }
  for (const char* mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
    for (const std::string& folder : folders("", mount)) {
      Lower(memory_bytes, NumberAt(Words(folder + "/memory.max"), 0));
      const std::vector<std::string> cpu = Words(folder + "/cpu.max");
      Lower(cores, CoresOf(NumberAt(cpu, 0), NumberAt(cpu, 1)));
    }
  }
  ProcessLimits limits{.memory_bytes = memory_bytes, .cores = AffinityCores()};
  limits.cores = static_cast<int>(std::min<int64_t>(cores.value_or(limits.cores), limits.cores));
  return limits;
}

int64_t BudgetWithin(int64_t asked_bytes, const ProcessLimits& limits) {
  if (!limits.memory_bytes.has_value()) {
    return asked_bytes;
  }
  const int64_t least_bytes =
      LeastMemoryBytes(repository::DefaultChunkBytes(std::numeric_limits<int64_t>::max()));
  return std::min(asked_bytes, std::max(*limits.memory_bytes - kOutsidePlanBytes, least_bytes));
}

}  // namespace csidelta::incremental
