#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "base/json.h"

namespace csidelta {

enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError };

// A fact beside the message. Values become text, because the host panics when "namespace", "name"
// or "resource" is anything but a string.
struct LogField {
  absl::string_view key;
  std::string value;
};

// One JSON object per line on stderr, in one write(2), in the form that hclog's reader takes:
//
//   {"@level":"info","@message":"...","logSource":"file.cc:12", further fields}
//
// There is no timestamp, since the host adds its own. A line is shortened to fit the host's buffer
// of 64 KiB.
//
// Levels count: inside a backup every error line makes it PartiallyFailed and every warn line is a
// warning. Thread-safe.
void Log(LogLevel level, const char* file, int line, absl::string_view message,
         std::initializer_list<LogField> fields);

// Lines below `level` are dropped. Default: info.
void SetLogLevel(LogLevel level);

// logrus' names: panic, fatal, error, warn, warning, info, debug, trace; anything else is info.
LogLevel ParseLogLevel(absl::string_view name);

// The text of one log line without the final newline. Pure; exposed for tests.
std::string FormatLogLine(LogLevel level, absl::string_view source, absl::string_view message,
                          std::initializer_list<LogField> fields);

// Tests: where lines go instead of stderr; nullptr restores stderr.
using LogSink = void (*)(LogLevel level, const std::string& line);
void SetLogSink(LogSink sink);

}  // namespace csidelta

// CSIDELTA_LOG(kWarn, "class not found", {"pvc", name}, {"class", class_name});
#define CSIDELTA_LOG(level, message, ...) \
  ::csidelta::Log(::csidelta::LogLevel::level, __FILE__, __LINE__, message, {__VA_ARGS__})
