#include "cli/console.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/text.h"

namespace csidelta::cli {
namespace {

constexpr absl::string_view kName = "csi-delta: ";
constexpr absl::string_view kEraseLine = "\r\x1b[K";

}  // namespace

void Console::Print(absl::string_view text) {
  ClearLine();
  out_failed_ = out_failed_ || !out_(PrintableLines(text));
}

void Console::PrintJson(const Json& value) { Print(absl::StrCat(DumpJson(value), "\n")); }

void Console::PrintResult(const Json& value, absl::string_view text) {
  if (options_.json) {
    PrintJson(value);
  } else {
    Print(text);
  }
}

void Console::Note(absl::string_view sentence) {
  if (!options_.quiet) {
    Warn(sentence);
  }
}

void Console::Warn(absl::string_view sentence) {
  ClearLine();
  error_(absl::StrCat(kName, PrintableLines(sentence), "\n"));
}

void Console::ShowLine(absl::string_view line) {
  error_(absl::StrCat(kEraseLine, Printable(line)));
  line_shown_ = true;
}

void Console::ClearLine() {
  if (std::exchange(line_shown_, false)) {
    error_(kEraseLine);
  }
}

absl::Status Console::Check() const {
  return out_failed_ ? absl::DataLossError("the result could not be written to standard output")
                     : absl::OkStatus();
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

}  // namespace csidelta::cli
