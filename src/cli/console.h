#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/json.h"

namespace csidelta::cli {

// Where bytes go. False when they were not taken; errno then says why.
using Sink = std::function<bool(absl::string_view bytes)>;

struct ConsoleOptions {
  bool json = false;               // results and progress as JSON lines on stdout
  bool quiet = false;              // no progress, no notes
  bool error_is_terminal = false;  // stderr shows a line that changes
};

// What the program says: results on stdout, all else on stderr. Both as PrintableLines(): names and
// messages may come from anybody. Thread-safe.
class Console {
 public:
  Console(Sink out, Sink error, const ConsoleOptions& options)
      : out_(std::move(out)), error_(std::move(error)), options_(options) {}

  const ConsoleOptions& options() const { return options_; }

  // A part of the result. Clears a line of progress first.
  void Print(absl::string_view text);
  // One JSON value on one line.
  void PrintJson(const Json& value);
  // The result in the form that was asked for.
  void PrintResult(const Json& value, absl::string_view text);

  // A sentence for people, unless they want it quiet.
  void Info(absl::string_view sentence);
  void InfoAll(const std::vector<std::string>& sentences);
  // One that they get in any case.
  void Warn(absl::string_view sentence);

  // Why the program ends with `exit_code`: for people, or with options().json one JSON object in
  // one line on stderr, as restic has it: {"message_type":"exit_error","code":1,"message":"..."}.
  void Fail(int exit_code, absl::string_view sentence);

  // Shows `line` in place of the one before it. REQUIRES options().error_is_terminal.
  void ShowLine(absl::string_view line);
  void ClearLine();

  // Whether all of the result was taken, or its reader went away, which is not an error.
  // UNKNOWN when stdout was closed from the beginning, or is full.
  absl::Status Check() const;
  // Whether all of the result was taken so far: false once its reader went away.
  bool IsRead() const;

 private:
  const Sink out_;
  const Sink error_;
  const ConsoleOptions options_;
  mutable std::recursive_mutex mutex_;  // Each of these calls another.
  bool line_shown_ = false;
  int out_errno_ = 0;  // Of the first write that failed.
};

// Sinks of a file descriptor.
Sink FdSink(int fd);

// Gives a regular file behind `fd`, which a shell made for ">", the mode 0600. PERMISSION_DENIED
// when it belongs to another program.
absl::Status MakePrivate(int fd);

}  // namespace csidelta::cli
