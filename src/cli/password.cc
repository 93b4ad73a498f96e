#include "cli/password.h"

#include <fcntl.h>
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
#include "cli/run_program.h"
#include "cli/text.h"
#include "storage/posix_file.h"

namespace csidelta::cli {
namespace {

using storage::ErrnoToStatus;

constexpr std::size_t kPasswordFileBytesMax = std::size_t{64} << 10;
constexpr std::size_t kCertificatesBytesMax = std::size_t{4} << 20;

absl::StatusOr<std::string> RunPasswordCommand(const CallContext& ctx, const std::string& command) {
  ASSIGN_OR_RETURN(const std::vector<std::string> arguments,
                   Annotate(SplitCommand(command), "password command"));
  absl::StatusOr<std::string> text =
      RunProgram(ctx, {.arguments = arguments, .output_bytes_max = kPasswordFileBytesMax});
  if (absl::IsFailedPrecondition(text.status())) {
    return absl::FailedPreconditionError(absl::StrCat("the password command ", arguments.front(),
                                                      " failed; run it by hand to see why"));
  }
  return Annotate(std::move(text), "password command");
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
  return ReadText(ctx, terminal, /*line=*/true, kPasswordFileBytesMax);
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
    ASSIGN_OR_RETURN(const std::string again, Ask(ctx, terminal->get(), "repeat password: "));
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
  return Annotate(ReadText(CallContext{}, file.get(), /*line=*/false, text_bytes_max), path);
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
  ASSIGN_OR_RETURN(const std::string answer,
                   ReadText(ctx, terminal.get(), /*line=*/true, kPasswordFileBytesMax));
  const absl::string_view argument = absl::StripAsciiWhitespace(answer);
  return absl::EqualsIgnoreCase(argument, "y") || absl::EqualsIgnoreCase(argument, "yes");
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
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kPasswordFileBytesMax));
  return std::string(absl::StripAsciiWhitespace(DecodeText(bytes)));
}

absl::StatusOr<std::string> ReadCertificates(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kCertificatesBytesMax));
  return std::string(absl::StripAsciiWhitespace(bytes));
}

}  // namespace csidelta::cli
