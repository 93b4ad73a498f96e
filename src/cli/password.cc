#include "cli/password.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "cli/text.h"
#include "incremental/posix_file.h"

extern char** environ;

namespace csidelta::cli {
namespace {

using incremental::ErrnoToStatus;

constexpr std::size_t kPasswordFileBytesMax = std::size_t{64} << 10;
constexpr std::size_t kCertificatesBytesMax = std::size_t{4} << 20;
constexpr int kPollMilliseconds = 100;

// Everything until the end, or until a line break when `line`.
absl::StatusOr<std::string> ReadText(const CallContext& ctx, int fd, bool line,
                                     std::size_t text_bytes_max = kPasswordFileBytesMax) {
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

// Starts `words` with its output into `output`, and with no signal blocked.
absl::StatusOr<pid_t> Spawn(const std::vector<std::string>& words, int output) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) {
    arguments.push_back(const_cast<char*>(word.c_str()));  // posix_spawnp() does not write there.
  }
  arguments.push_back(nullptr);
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
  const int error =
      ::posix_spawnp(&pid, arguments[0], &actions, &attributes, arguments.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return ErrnoToStatus(error, absl::StrCat("password command ", words[0]));
  }
  return pid;
}

absl::StatusOr<std::string> RunPasswordCommand(const CallContext& ctx, const std::string& command) {
  absl::StatusOr<std::vector<std::string>> words = SplitWords(command);
  if (!words.ok()) {
    return Annotate(words.status(), "password command");
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return ErrnoToStatus(errno, "pipe");
  }
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  ASSIGN_OR_RETURN(const pid_t pid, Spawn(*words, writing.get()));
  writing = UniqueFd();
  absl::StatusOr<std::string> text = ReadText(ctx, reading.get(), /*line=*/false);
  if (!text.ok()) {
    ::kill(pid, SIGTERM);
  }
  int state = 0;
  while (::waitpid(pid, &state, 0) < 0 && errno == EINTR) {
  }
  if (text.ok() && (!WIFEXITED(state) || WEXITSTATUS(state) != 0)) {
    return absl::FailedPreconditionError(absl::StrCat("the password command ", words->front(),
                                                      " failed; run it by hand to see why"));
  }
  return text;
}

absl::StatusOr<std::string> Ask(const CallContext& ctx, int terminal, absl::string_view prompt) {
  termios before{};
  if (::tcgetattr(terminal, &before) != 0) {
    return ErrnoToStatus(errno, "terminal");
  }
  termios silent = before;
  silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
  ::tcsetattr(terminal, TCSAFLUSH, &silent);
  const absl::Cleanup restore = [&] {
    ::tcsetattr(terminal, TCSAFLUSH, &before);
    if (::write(terminal, "\n", 1) < 0) {
      return;  // The prompt's own line break: nothing depends on it.
    }
  };
  if (::write(terminal, prompt.data(), prompt.size()) < 0) {
    return ErrnoToStatus(errno, "terminal");
  }
  return ReadText(ctx, terminal, /*line=*/true);
}

absl::StatusOr<UniqueFd> OpenTerminal() {
  UniqueFd terminal(::open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY));
  return terminal.valid() ? absl::StatusOr<UniqueFd>(std::move(terminal))
                          : ErrnoToStatus(errno, "terminal");
}

absl::StatusOr<std::string> AskOnTerminal(const CallContext& ctx, absl::string_view what,
                                          bool twice, absl::string_view ways) {
  const absl::StatusOr<UniqueFd> terminal = OpenTerminal();
  if (!terminal.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("there is no ", what, "; give one with ", ways));
  }
  ASSIGN_OR_RETURN(std::string text, Ask(ctx, terminal->get(), absl::StrCat(what, ": ")));
  if (twice) {
    ASSIGN_OR_RETURN(const std::string again, Ask(ctx, terminal->get(), "once more: "));
    if (again != text) {
      return absl::InvalidArgumentError("the two passwords differ; nothing was changed");
    }
  }
  return text;
}

absl::StatusOr<std::string> ReadFile(const std::string& path, std::size_t text_bytes_max) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    return ErrnoToStatus(errno, absl::StrCat("open ", path));
  }
  absl::StatusOr<std::string> text =
      ReadText(CallContext{}, file.get(), /*line=*/false, text_bytes_max);
  if (!text.ok()) {
    return Annotate(text.status(), path);
  }
  return std::string(absl::StripAsciiWhitespace(*text));
}

}  // namespace

std::string Variable(const GetVariable& get, const char* name) {
  const char* value = get(name);
  return value == nullptr ? "" : value;
}

absl::StatusOr<PasswordSource> ChoosePasswordSource(PasswordSource flags, const GetVariable& get) {
  if (flags.command.empty() && flags.file.empty() && flags.text.empty()) {
    flags.command = Variable(get, "RESTIC_PASSWORD_COMMAND");
    flags.file = Variable(get, "RESTIC_PASSWORD_FILE");
    flags.text = Secret(Variable(get, "RESTIC_PASSWORD"));
  }
  if (!flags.command.empty() && !flags.file.empty()) {
    return absl::InvalidArgumentError(
        "both a password file and a password command are given; leave one of them out");
  }
  return flags;
}

absl::StatusOr<bool> Confirm(const CallContext& ctx, absl::string_view question) {
  ASSIGN_OR_RETURN(const UniqueFd terminal, OpenTerminal());
  const std::string prompt = absl::StrCat(Printable(question), " [y/N] ");
  if (::write(terminal.get(), prompt.data(), prompt.size()) < 0) {
    return ErrnoToStatus(errno, "terminal");
  }
  ASSIGN_OR_RETURN(const std::string answer, ReadText(ctx, terminal.get(), /*line=*/true));
  const absl::string_view word = absl::StripAsciiWhitespace(answer);
  return absl::EqualsIgnoreCase(word, "y") || absl::EqualsIgnoreCase(word, "yes");
}

absl::StatusOr<Secret> ReadPassword(const CallContext& ctx, const PasswordSource& source,
                                    absl::string_view what, bool twice, absl::string_view ways) {
  std::string text;
  if (!source.command.empty()) {
    ASSIGN_OR_RETURN(text, RunPasswordCommand(ctx, source.command));
    text = std::string(absl::StripAsciiWhitespace(text));
  } else if (!source.file.empty()) {
    ASSIGN_OR_RETURN(text, ReadSmallText(source.file));
  } else if (!source.text.empty()) {
    return source.text;
  } else {
    ASSIGN_OR_RETURN(text, AskOnTerminal(ctx, what, twice, ways));
  }
  if (text.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", what, " is empty; give one that is not"));
  }
  return Secret(std::move(text));
}

absl::StatusOr<std::string> ReadSmallText(const std::string& path) {
  return ReadFile(path, kPasswordFileBytesMax);
}

absl::StatusOr<std::string> ReadCertificates(const std::string& path) {
  return ReadFile(path, kCertificatesBytesMax);
}

}  // namespace csidelta::cli
