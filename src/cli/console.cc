#include "cli/console.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/check.h"
#include "base/yaml.h"
#include "cli/text.h"

namespace csidelta::cli {
namespace {

constexpr absl::string_view kName = "csi-delta: ";
constexpr absl::string_view kEraseLine = "\r\x1b[K";
constexpr int kLineBytesMax = 79;

// At most `bytes_max` bytes, and never cut within a character.
std::string Cut(std::string line, int bytes_max) {
  constexpr absl::string_view kEllipsis = "...";
  if (std::ssize(line) <= bytes_max) {
    return line;
  }
  std::size_t end =
      static_cast<std::size_t>(std::max<int64_t>(bytes_max - std::ssize(kEllipsis), 0));
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0U) == 0x80U) {
    --end;
  }
  return absl::StrCat(line.substr(0, end), kEllipsis);
}

}  // namespace

void Console::Print(absl::string_view text) { Write(PrintableLines(text)); }

void Console::Write(absl::string_view bytes) {
  const std::scoped_lock lock(mutex_);
  ClearLine();
  has_printed_ = true;
  if (out_errno_ != 0) {
    return;  // Half a result is worse than what came so far.
  }
  errno = 0;
  if (!out_(bytes)) {
    out_errno_ = errno != 0 ? errno : EIO;
  }
}

void Console::PrintJson(const Json& value) {
  Print(options_.yaml ? absl::StrCat("---\n", ToYaml(value)) : absl::StrCat(DumpJson(value), "\n"));
}

void Console::PrintResult(const Json& value, absl::string_view text, absl::string_view own) {
  if (options_.json || options_.yaml) {
    PrintJson(value);
  } else {
    Write(absl::StrCat(PrintableLines(text), own));
  }
}

void Console::Info(absl::string_view sentence) {
  if (!options_.quiet) {
    Warn(sentence);
  }
}

void Console::InfoAll(const std::vector<std::string>& sentences) {
  for (const std::string& sentence : sentences) {
    Info(sentence);
  }
}

void Console::Warn(absl::string_view sentence) {
  const std::scoped_lock lock(mutex_);
  ClearLine();
  // A sentence quotes drivers and servers: their lines are indented, unlike lines of the program.
  error_(
      absl::StrCat(kName, absl::StrReplaceAll(PrintableLines(sentence), {{"\n", "\n  "}}), "\n"));
}

ExitCode Console::Fail(ExitCode code, absl::string_view sentence) {
  if (!options_.json) {
    Warn(sentence);
    return code;
  }
  const std::scoped_lock lock(mutex_);
  ClearLine();
  const Json json = {{"message_type", "exit_error"},
                     {"code", static_cast<int>(code)},
                     {"message", std::string(sentence)}};
  error_(absl::StrCat(Printable(DumpJson(json)), "\n"));
  return code;
}

void Console::ShowLine(absl::string_view line) {
  CSIDELTA_CHECK(options_.error_is_terminal);  // a file would keep every line
  const std::scoped_lock lock(mutex_);
  if (holds_ == 0) {
    error_(absl::StrCat(kEraseLine,
                        Cut(Printable(line), std::min(kLineBytesMax, options_.error_columns - 1))));
    line_shown_ = true;
  }
}

void Console::ShowStatus(absl::string_view line, bool again) {
  const std::scoped_lock lock(mutex_);
  if (again && has_printed_) {
    return;
  }
  options_.json ? Print(absl::StrCat(line, "\n")) : ShowLine(line);
  has_printed_ = false;
}

std::shared_ptr<void> Console::HoldLines() {
  const std::scoped_lock lock(mutex_);
  ClearLine();
  ++holds_;
  return {nullptr, [this](void*) {
            const std::scoped_lock release_lock(mutex_);
            --holds_;
          }};
}

void Console::ClearLine() {
  const std::scoped_lock lock(mutex_);
  if (std::exchange(line_shown_, false)) {
    error_(kEraseLine);
  }
}

bool Console::IsRead() const {
  const std::scoped_lock lock(mutex_);
  return out_errno_ == 0;
}

absl::Status Console::Check() const {
  const std::scoped_lock lock(mutex_);
  // A reader that closes the pipe, like head, has all it needs.
  if (out_errno_ == 0 || out_errno_ == EPIPE) {
    return absl::OkStatus();
  }
  return absl::UnknownError(absl::StrCat(
      "done, but the result could not be written to standard output: ", std::strerror(out_errno_)));
}

Sink FdSink(int fd) {
  return [fd](absl::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd, bytes.data(), bytes.size());
      if (written < 0 && errno != EINTR) {
        return false;
      }
      bytes.remove_prefix(written < 0 ? 0 : static_cast<std::size_t>(written));
    }
    return true;
  };
}

absl::Status MakePrivate(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    return absl::OkStatus();  // The reader of the pipe sees to it.
  }
  return ::fchmod(fd, S_IRUSR | S_IWUSR) == 0
             ? absl::OkStatus()
             : absl::PermissionDeniedError(absl::StrCat(
                   "the file on standard output cannot be made private: ", std::strerror(errno),
                   "; write to one of your own"));
}

}  // namespace csidelta::cli
