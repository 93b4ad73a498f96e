#include "tests/bench/controller_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "tests/bench/control_cluster.h"
#include "tests/bench/scaled_clock.h"

namespace csidelta::bench {
namespace {

constexpr absl::Duration kEndTimeMax = absl::Seconds(10);
constexpr absl::Duration kLookAtEndEvery = absl::Milliseconds(10);
constexpr int kComplaintsShown = 3;

// Where memory is limited: a folder of version 1, or the root of version 2; "" for neither.
std::string MemoryRoot() {
  for (const char* const folder : {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"}) {
    const std::string file = absl::StrCat(folder, "/cgroup.controllers");
    std::ifstream controllers(file);
    std::stringstream text;
    text << controllers.rdbuf();
    std::error_code error;
    if (absl::StrContains(text.str(), "memory") ||
        std::filesystem::exists(absl::StrCat(folder, "/memory.limit_in_bytes"), error)) {
      return folder;
    }
  }
  return "";
}

bool WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  return !file.fail();
}

std::string Text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

// Runs a program that ends with this one, its stderr in `log`, in the cgroup of the file
// `processes`
// ("": in ours). Its id; -1 when none exists.
pid_t Spawn(std::vector<std::string> words, std::vector<std::string> environment,
            const std::string& processes, const std::string& log) {
  const std::vector<char*> arguments = Pointers(words);
  const std::vector<char*> variables = Pointers(environment);
  const pid_t pid = ::fork();
  if (pid != 0) {
    return pid;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int group = processes.empty() ? -1 : ::open(processes.c_str(), O_WRONLY | O_CLOEXEC);
  const bool is_placed = processes.empty() || ::write(group, "0", 1) == 1;  // "0": itself
  ::dup2(::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), STDERR_FILENO);
  if (is_placed) {
    ::execve(arguments[0], arguments.data(), variables.data());
  }
  ::_exit(127);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MemoryGroup>> MemoryGroup::Make(int64_t limit_bytes) {
  const std::string root = MemoryRoot();
  if (root.empty()) {
    return absl::PermissionDeniedError("no cgroup limits memory here");
  }
  const std::string folder = absl::StrCat(root, "/csi-delta-bench-", ::getpid());
  if (::mkdir(folder.c_str(), 0755) != 0) {
    return absl::PermissionDeniedError(absl::StrCat("make ", folder, ": ", std::strerror(errno)));
  }
  std::unique_ptr<MemoryGroup> group(new MemoryGroup(folder));
  const bool is_first_version = std::filesystem::exists(folder + "/memory.limit_in_bytes");
  const std::string limit = folder + (is_first_version ? "/memory.limit_in_bytes" : "/memory.max");
  if (!WriteFile(limit, absl::StrCat(limit_bytes))) {
    return absl::PermissionDeniedError(absl::StrCat("write ", limit));
  }
  return group;
}

MemoryGroup::~MemoryGroup() { ::rmdir(folder_.c_str()); }

absl::StatusOr<std::unique_ptr<ControllerProcess>> ControllerProcess::Start(
    const ControllerOptions& options) {
  std::unique_ptr<MemoryGroup> group;
  if (options.memory_bytes_max > 0) {
    if (auto made = MemoryGroup::Make(options.memory_bytes_max); made.ok()) {
      group = *std::move(made);
    }
  }
  std::string folder = std::filesystem::temp_directory_path() / "csi-delta-bench-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) {
    return absl::InternalError(absl::StrCat("make ", folder, ": ", std::strerror(errno)));
  }
  std::unique_ptr<ControllerProcess> process(new ControllerProcess(folder, std::move(group)));
  const std::string config = process->kubeconfig_path();
  WriteFile(config, options.kubeconfig);
  // What a person has set, such as a proxy, is no concern of the figures.
  std::vector<std::string> environment = {"PATH=/usr/bin:/bin"};
  if (!options.clock.empty()) {
    environment.push_back(absl::StrCat(kFastClockVariable, "=", options.clock));
  }
  process->pid_ =
      Spawn({options.program, "datamover", "--kubeconfig", config, "--image", "csi-delta:bench",
             "--namespace", ControlCluster::kMover, "--listen", "127.0.0.1:0"},
            std::move(environment), process->group_ ? process->group_->processes_path() : "",
            process->LogPath());
  if (process->pid_ < 0) {
    return absl::InternalError(absl::StrCat("fork: ", std::strerror(errno)));
  }
  return process;
}

ControllerProcess::~ControllerProcess() {
  if (pid_ > 0 && !Ended().has_value()) {
    ::kill(pid_, SIGTERM);
    const absl::Time kill_at = Clock::Real().Now() + kEndTimeMax;
    while (!Ended().has_value()) {
      if (Clock::Real().Now() >= kill_at) {
        ::kill(pid_, SIGKILL);
      }
      Clock::Real().SleepFor(kLookAtEndEvery, {});
    }
  }
  group_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::optional<std::string> ControllerProcess::Ended() {
  int state = 0;
  if (!ended_.has_value() && ::waitpid(pid_, &state, WNOHANG) == pid_) {
    ended_ = WIFSIGNALED(state) ? absl::StrCat("signal ", WTERMSIG(state))
                                : absl::StrCat("exit code ", WEXITSTATUS(state));
    absl::StrAppend(&*ended_, ": ", LastLine());
  }
  return ended_;
}

std::string ControllerProcess::LastLine() const {
  const std::vector<std::string> lines =
      absl::StrSplit(Text(LogPath()), '\n', absl::SkipWhitespace());
  return lines.empty() ? "it said nothing" : lines.back();
}

int64_t ControllerProcess::StatusBytes(const std::string& name) const {
  std::ifstream status(absl::StrCat("/proc/", pid_, "/status"));
  for (std::string word; status >> word;) {
    if (int64_t kibibytes = 0; word == name && status >> kibibytes) {
      return kibibytes << 10;
    }
  }
  return 0;
}

void ControllerProcess::ForgetPeak() const {
  WriteFile(absl::StrCat("/proc/", pid_, "/clear_refs"), "5");  // proc(5)
}

absl::Duration ControllerProcess::ProcessorTime() const {
  // Behind the name, which stands in parentheses, utime and stime are the 12th and 13th: proc(5).
  const std::string text = Text(absl::StrCat("/proc/", pid_, "/stat"));
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) {
    return absl::ZeroDuration();
  }
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) {
    fields >> skipped;
  }
  int64_t user = 0;
  int64_t system = 0;
  fields >> user >> system;
  return absl::Seconds(1) * static_cast<double>(user + system) /
         static_cast<double>(::sysconf(_SC_CLK_TCK));
}

std::pair<int, std::string> ControllerProcess::Complaints() const {
  std::ifstream log(LogPath());
  int count = 0;
  std::string first;
  for (std::string line; std::getline(log, line);) {
    const bool is_complaint = absl::StrContains(line, R"("@level":"warn)") ||
                              absl::StrContains(line, R"("@level":"error)");
    if (is_complaint && ++count <= kComplaintsShown) {
      absl::StrAppend(&first, "    ", line, "\n");
    }
  }
  return {count, first};
}

}  // namespace csidelta::bench
