#include "cli/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "incremental/posix_file.h"

extern char** environ;

namespace csidelta::cli {
namespace {

using incremental::ErrnoToStatus;

constexpr int kPollMilliseconds = 100;

// What posix_spawnp() wants: it does not write there. Borrows the texts.
std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) {
    pointers.push_back(const_cast<char*>(text.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> EnvironmentOf(const ProgramToRun& program) {
  std::vector<std::string> all;
  for (const auto& [name, value] : program.environment) {
    all.push_back(absl::StrCat(name, "=", value));
  }
  for (char** one = environ; *one != nullptr; ++one) {
    const bool is_replaced = std::any_of(
        program.environment.begin(), program.environment.end(),
        [&](const auto& mine) { return absl::StartsWith(*one, absl::StrCat(mine.first, "=")); });
    if (!is_replaced) {
      all.emplace_back(*one);
    }
  }
  return all;
}

// Starts the program with its output into `output`, and with no signal blocked.
absl::StatusOr<pid_t> Spawn(const ProgramToRun& program, int output) {
  std::vector<char*> arguments = Pointers(program.words);
  const std::vector<std::string> variables = EnvironmentOf(program);
  std::vector<char*> environment = Pointers(variables);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, arguments[0], &actions, &attributes, arguments.data(),
                                   environment.data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return ErrnoToStatus(error, program.words[0]);
  }
  return pid;
}

}  // namespace

absl::StatusOr<std::string> ReadText(const CallContext& ctx, int fd, bool line,
                                     std::size_t text_bytes_max) {
  std::string text;
  while (true) {
    RETURN_IF_ERROR(ctx.Check());
    pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, kPollMilliseconds) <= 0) {
      continue;
    }
    char buffer[4096];
    const ssize_t count = ::read(fd, buffer, line ? 1 : sizeof(buffer));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return ErrnoToStatus(errno, "read");
    }
    if (count == 0 || (line && buffer[0] == '\n')) {
      return text;
    }
    text.append(buffer, static_cast<std::size_t>(count));
    if (text.size() > text_bytes_max) {
      return absl::InvalidArgumentError(
          absl::StrCat("the text is longer than ", text_bytes_max >> 10, " KiB"));
    }
  }
}

absl::StatusOr<std::string> RunProgram(const CallContext& ctx, const ProgramToRun& program) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return ErrnoToStatus(errno, "pipe");
  }
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  ASSIGN_OR_RETURN(const pid_t pid, Spawn(program, writing.get()));
  writing = UniqueFd();
  absl::StatusOr<std::string> text =
      ReadText(ctx, reading.get(), /*line=*/false, program.output_bytes_max);
  if (!text.ok()) {
    ::kill(pid, SIGTERM);
  }
  int state = 0;
  while (::waitpid(pid, &state, 0) < 0 && errno == EINTR) {
  }
  if (text.ok() && WIFSIGNALED(state)) {
    return absl::FailedPreconditionError(
        absl::StrCat(program.words[0], " was ended by signal ", WTERMSIG(state)));
  }
  if (text.ok() && WEXITSTATUS(state) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(program.words[0], " ended with ", WEXITSTATUS(state)));
  }
  return text;
}

}  // namespace csidelta::cli
