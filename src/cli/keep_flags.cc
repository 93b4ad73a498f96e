#include "cli/keep_flags.h"

#include <iterator>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace csidelta::cli {
namespace {

constexpr int kKeepMax = 1'000'000;

// The rules as texts: the value of a flag, and its target.
struct NumberRule {
  absl::string_view letter;
  absl::string_view flag;
  absl::string_view text;
  int KeepRules::*target;
};
constexpr NumberRule kNumbers[] = {
    {"-l", "--keep-last", "keep the N newest", &KeepRules::last},
    {"-H", "--keep-hourly", "keep the newest of each of the last N hours with snapshots",
     &KeepRules::hourly},
    {"-d", "--keep-daily", "the same for days", &KeepRules::daily},
    {"-w", "--keep-weekly", "the same for weeks", &KeepRules::weekly},
    {"-m", "--keep-monthly", "the same for months", &KeepRules::monthly},
    {"-y", "--keep-yearly", "the same for years", &KeepRules::yearly},
};

struct SpanRule {
  absl::string_view flag;
  absl::string_view text;
  CalendarSpan KeepRules::*target;
};
constexpr SpanRule kSpans[] = {
    {"--keep-within", "keep all that are at most this much older than the newest: \"2y5m7d3h\"",
     &KeepRules::within},
    {"--keep-within-hourly", "keep the newest of each hour of this time",
     &KeepRules::within_hourly},
    {"--keep-within-daily", "the same for days", &KeepRules::within_daily},
    {"--keep-within-weekly", "the same for weeks", &KeepRules::within_weekly},
    {"--keep-within-monthly", "the same for months", &KeepRules::within_monthly},
    {"--keep-within-yearly", "the same for years", &KeepRules::within_yearly},
};

absl::StatusOr<int> ParseKeep(const std::string& text) {
  if (text == "unlimited" || text == "-1") {
    return kKeepAll;
  }
  int number = 0;
  if (!absl::SimpleAtoi(text, &number) || number < 0 || number > kKeepMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is neither a number of snapshots nor unlimited"));
  }
  return number;
}

}  // namespace

void DeclareKeepFlags(ArgumentTable& table, KeepRules& rules, bool with_letters) {
  for (const NumberRule& rule : kNumbers) {
    table.AddParsed(
        with_letters ? absl::StrCat(rule.letter, ",", rule.flag) : std::string(rule.flag), "N",
        rule.text, [&target = rules.*rule.target](const std::string& value) -> absl::Status {
          ASSIGN_OR_RETURN(target, ParseKeep(value));
          return absl::OkStatus();
        });
  }
  for (const SpanRule& rule : kSpans) {
    table.AddParsed(rule.flag, "SPAN", rule.text,
                    [&target = rules.*rule.target](const std::string& value) -> absl::Status {
                      ASSIGN_OR_RETURN(target, ParseCalendarSpan(value));
                      return absl::OkStatus();
                    });
  }
}

std::vector<std::string> KeepArguments(const KeepRules& rules) {
  std::vector<std::string> arguments;
  arguments.reserve(std::size(kNumbers) + std::size(kSpans));
  for (const NumberRule& rule : kNumbers) {
    if (const int number = rules.*rule.target; number != 0) {
      arguments.push_back(number == kKeepAll ? absl::StrCat(rule.flag, "=unlimited")
                                             : absl::StrCat(rule.flag, "=", number));
    }
  }
  for (const SpanRule& rule : kSpans) {
    if (const CalendarSpan& span = rules.*rule.target; !span.IsZero()) {
      arguments.push_back(absl::StrCat(rule.flag, "=", FormatCalendarSpan(span)));
    }
  }
  return arguments;
}

}  // namespace csidelta::cli
