#include "base/log.h"

#include <unistd.h>

#include <atomic>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/enum_names.h"

namespace csidelta {
namespace {

constexpr std::size_t kLineBytesMax = std::size_t{60} << 10;  // The host's reader takes 64 KiB.
constexpr std::size_t kValueBytesMax = std::size_t{4} << 10;

constexpr EnumNames<LogLevel, 5> kLevels = {{{LogLevel::kTrace, "trace"},
                                             {LogLevel::kDebug, "debug"},
                                             {LogLevel::kInfo, "info"},
                                             {LogLevel::kWarn, "warn"},
                                             {LogLevel::kError, "error"}}};

std::atomic<LogLevel> level_min = LogLevel::kInfo;
std::atomic<LogSink> log_sink = nullptr;

std::string Shorten(absl::string_view text) {
  if (text.size() <= kValueBytesMax) {
    return std::string(text);
  }
  return absl::StrCat(text.substr(0, kValueBytesMax), "… (", text.size(), " bytes)");
}

// The path below the source root, as a reader of the log knows it.
absl::string_view ShortFile(absl::string_view file) {
  const auto position = file.rfind("src/");
  return position == absl::string_view::npos ? file : file.substr(position);
}

void WriteStderr(const std::string& line) {
  // One write(2), so that lines of several threads never mix. A log line that cannot be written is
  // lost.
  const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  (void)written;
}

}  // namespace

std::string FormatLogLine(LogLevel level, absl::string_view source, absl::string_view message,
                          std::initializer_list<LogField> fields) {
  Json line = Json::object();
  std::size_t bytes = 0;
  for (const LogField& field : fields) {
    std::string value = Shorten(field.value);
    bytes += value.size() + field.key.size();
    if (bytes < kLineBytesMax / 8) {  // JSON escaping takes at most six bytes for one.
      line[std::string(field.key)] = std::move(value);
    }
  }
  line["@level"] = EnumName(kLevels, level);
  line["@message"] = Shorten(message);
  line["logSource"] = std::string(source);
  line["@logSourceSetBy"] = "plugin";
  return DumpJson(line);
}

void Log(LogLevel level, const char* file, int line, absl::string_view message,
         std::initializer_list<LogField> fields) {
  if (level < level_min.load(std::memory_order_relaxed)) {
    return;
  }
  std::string text =
      FormatLogLine(level, absl::StrCat(ShortFile(file), ":", line), message, fields);
  if (const LogSink sink = log_sink.load(); sink != nullptr) {
    sink(level, text);
    return;
  }
  text.push_back('\n');
  WriteStderr(text);
}

void SetLogLevel(LogLevel level) { level_min.store(level); }

LogLevel ParseLogLevel(absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  if (lower == "panic" || lower == "fatal") {
    return LogLevel::kError;
  }
  return lower == "warning" ? LogLevel::kWarn : EnumValue(kLevels, lower).value_or(LogLevel::kInfo);
}

void SetLogSink(LogSink sink) { log_sink.store(sink); }

}  // namespace csidelta
