#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/json.h"
#include "cli/exit_code.h"

namespace csidelta::cli {

// Writes bytes. Returns false and sets errno if it fails.
using Sink = std::function<bool(absl::string_view bytes)>;

struct ConsoleOptions {
  bool json = false;               // results and progress as JSON lines on stdout
  bool yaml = false;               // results as YAML documents on stdout; not with json
  bool quiet = false;              // no progress, no information
  bool error_is_terminal = false;  // stderr shows a line that changes
  int error_columns = 80;          // its width
};

// The output of the program: results on stdout, all else on stderr. Both pass PrintableLines(),
// because names and messages are untrusted. Thread-safe.
class Console {
 public:
  Console(Sink out, Sink error, const ConsoleOptions& options)
      : out_(std::move(out)), error_(std::move(error)), options_(options) {}

  const ConsoleOptions& options() const { return options_; }

  // A part of the result. Clears a line of progress first.
  void Print(absl::string_view text);
  // One JSON value on one line, or as a YAML document.
  void PrintJson(const Json& value);
  // The result in the requested form. `own` is text of the program alone: its escapes stay.
  void PrintResult(const Json& value, absl::string_view text, absl::string_view own = "");

  // A line of information on stderr, unless options().quiet.
  void Info(absl::string_view sentence);
  void InfoAll(const std::vector<std::string>& sentences);
  // A line on stderr in any case.
  void Warn(absl::string_view sentence);

  // The reason for ending with `code`, which it returns. With options().json it is one JSON object
  // in one line on stderr, as in restic: {"message_type":"exit_error","code":1,"message":"..."}.
  ExitCode Fail(ExitCode code, absl::string_view sentence);

  // Replaces the line shown before by `line`, cut to fit: a wrapped one would not be erased
  // completely. REQUIRES options().error_is_terminal.
  void ShowLine(absl::string_view line);
  // The same, or with options().json prints it. With `again`, which is what a timer has, nothing is
  // shown once something else was printed: no progress follows a result.
  void ShowStatus(absl::string_view line, bool again);
  void ClearLine();

  // ShowLine() shows nothing while the answer lives: a person is asked on the terminal.
  [[nodiscard]] std::shared_ptr<void> HoldLines();

  // OK if all of the result was written, or if its reader closed the pipe. UNKNOWN if stdout was
  // closed from the beginning, or is full.
  absl::Status Check() const;
  // True while all of the result was written; false once its reader closed the pipe.
  bool IsRead() const;

 private:
  void Write(absl::string_view bytes);

  const Sink out_;
  const Sink error_;
  const ConsoleOptions options_;
  mutable std::recursive_mutex mutex_;  // the methods call each other
  bool line_shown_ = false;
  bool has_printed_ = false;  // since the last ShowStatus()
  int holds_ = 0;
  int out_errno_ = 0;  // of the first write that failed
};

// Writes to a file descriptor.
Sink FdSink(int fd);

// Sets the mode of a regular file behind `fd`, as a shell makes for ">", to 0600.
// PERMISSION_DENIED if it belongs to another user.
absl::Status MakePrivate(int fd);

}  // namespace csidelta::cli
