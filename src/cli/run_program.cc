#include "cli/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "storage/posix_file.h"

extern char** environ;

namespace csidelta::cli {
namespace {

using storage::ErrnoToStatus;

constexpr int kPollMilliseconds = 100;
constexpr int kEndPollMilliseconds = 5;
constexpr int kEndPollsMax = 2000;  // ten seconds

// The form of posix_spawnp(), which does not write there. Borrows the texts.
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

// Starts the program with its output into `output`, its input from `input` unless that is -1, and
// with no signal blocked.
absl::StatusOr<pid_t> Spawn(const ProgramToRun& program, int input, int output) {
  CSIDELTA_CHECK(!program.arguments.empty());  // the first one is the program
  std::vector<char*> argv = Pointers(program.arguments);
  const std::vector<std::string> variables = EnvironmentOf(program);
  std::vector<char*> environment = Pointers(variables);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  if (input >= 0) {
    ::posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  }
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int error =
      ::posix_spawnp(&pid, argv[0], &actions, &attributes, argv.data(), environment.data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return ErrnoToStatus(error, program.arguments[0]);
  }
  return pid;
}

struct Pipe {
  UniqueFd reading;
  UniqueFd writing;
};

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return ErrnoToStatus(errno, "pipe");
  }
  return Pipe{.reading = UniqueFd(ends[0]), .writing = UniqueFd(ends[1])};
}

// How a program ended, as an error unless it was with 0.
absl::Status EndOf(const std::string& name, int state) {
  if (WIFSIGNALED(state)) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, " was ended by signal ", WTERMSIG(state)));
  }
  if (WEXITSTATUS(state) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(name, " ended with ", WEXITSTATUS(state)));
  }
  return absl::OkStatus();
}

// Polls for the end of a child, a moment apart. nullopt if it still runs after the last poll.
std::optional<int> PollForEnd(pid_t pid, int polls_max) {
  int state = 0;
  for (int polls = 0; polls < polls_max; ++polls) {
    if (polls > 0) {
      ::poll(nullptr, 0, kEndPollMilliseconds);
    }
    if (::waitpid(pid, &state, WNOHANG) == pid) {
      return state;
    }
  }
  return std::nullopt;
}

int MakeEnd(pid_t pid) {
  for (const int signal : {SIGTERM, SIGKILL}) {
    ::kill(pid, signal);
    if (const std::optional<int> state = PollForEnd(pid, kEndPollsMax); state.has_value()) {
      return *state;
    }
  }
  return SIGKILL;  // It is in the kernel, and ends with what it waits for.
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
  ASSIGN_OR_RETURN(Pipe output, MakePipe());
  ASSIGN_OR_RETURN(const pid_t pid, Spawn(program, -1, output.writing.get()));
  output.writing = UniqueFd();
  absl::StatusOr<std::string> text =
      ReadText(ctx, output.reading.get(), /*line=*/false, program.output_bytes_max);
  if (!text.ok()) {
    ::kill(pid, SIGTERM);
  }
  int state = 0;
  while (::waitpid(pid, &state, 0) < 0 && errno == EINTR) {
  }
  if (text.ok()) {
    RETURN_IF_ERROR(EndOf(program.arguments[0], state));
  }
  return text;
}

absl::StatusOr<std::unique_ptr<HeldProgram>> HeldProgram::Start(const CallContext& ctx,
                                                                const ProgramToRun& program) {
  ASSIGN_OR_RETURN(Pipe input, MakePipe());
  ASSIGN_OR_RETURN(Pipe output, MakePipe());
  ASSIGN_OR_RETURN(const pid_t pid, Spawn(program, input.reading.get(), output.writing.get()));
  output.writing = UniqueFd();
  std::unique_ptr<HeldProgram> held(new HeldProgram(
      program.arguments[0], pid, std::move(input.writing), std::move(output.reading)));
  const absl::StatusOr<std::string> line =
      ReadText(ctx, held->output_.get(), /*line=*/true, program.output_bytes_max);
  RETURN_IF_ERROR(line.status());
  if (const std::optional<int> state = PollForEnd(pid, 1); state.has_value()) {
    held->pid_ = 0;
    RETURN_IF_ERROR(EndOf(held->name_, *state));
    return absl::FailedPreconditionError(
        absl::StrCat(held->name_, " ended at once; it must go on until its input ends"));
  }
  if (line->empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        held->name_, " did not say that it holds the application: it must write a line"));
  }
  return held;
}

HeldProgram::~HeldProgram() { Release().IgnoreError(); }

absl::Status HeldProgram::Release() {
  if (pid_ == 0) {
    return absl::OkStatus();
  }
  const pid_t pid = std::exchange(pid_, 0);
  if (const std::optional<int> state = PollForEnd(pid, 1); state.has_value()) {
    RETURN_IF_ERROR(EndOf(name_, *state));
    return absl::FailedPreconditionError(
        absl::StrCat(name_, " ended before it was to release the application"));
  }
  input_ = UniqueFd();
  const std::optional<int> state = PollForEnd(pid, kEndPollsMax);
  return EndOf(name_, state.has_value() ? *state : MakeEnd(pid));
}

}  // namespace csidelta::cli
