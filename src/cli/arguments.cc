#include "cli/arguments.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/enum_names.h"
#include "base/status_macros.h"
#include "cli/text.h"

namespace csidelta::cli {
namespace {

std::string WithDefault(absl::string_view text, absl::string_view value) {
  return value.empty() ? std::string(text) : absl::StrCat(text, " (default: ", value, ")");
}

// "256MiB", as ParseBytes() reads it; "" for 0 and less.
std::string BytesText(int64_t bytes) {
  constexpr absl::string_view kUnits[] = {"", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes != 0 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits); ++unit) {
    bytes /= 1024;
  }
  return bytes <= 0 ? "" : absl::StrCat(bytes, kUnits[unit]);
}

}  // namespace

void ArgumentTable::AddParsed(absl::string_view names, absl::string_view value_name,
                              absl::string_view text,
                              std::function<absl::Status(const std::string& value)> take) {
  CSIDELTA_CHECK(absl::StartsWith(names, "-"));  // otherwise no command line reaches it
  flags_.push_back({.names = absl::StrSplit(names, ','),
                    .value_name = std::string(value_name),
                    .text = std::string(text),
                    .take = std::move(take)});
}

void ArgumentTable::Add(absl::string_view names, absl::string_view text, bool& target) {
  AddParsed(names, "", text, [&target](const std::string& value) {
    target = value == "true";
    return absl::OkStatus();
  });
}

void ArgumentTable::Add(absl::string_view names, absl::string_view value_name,
                        absl::string_view text, std::string& target) {
  AddParsed(names, value_name, WithDefault(text, target), [&target](const std::string& value) {
    target = value;
    return absl::OkStatus();
  });
}

void ArgumentTable::AddList(absl::string_view names, absl::string_view value_name,
                            absl::string_view text, std::vector<std::string>& target) {
  AddParsed(names, value_name, text, [&target](const std::string& value) {
    target.push_back(value);
    return absl::OkStatus();
  });
  flags_.back().repeatable = true;
}

void ArgumentTable::AddBytes(absl::string_view names, absl::string_view text, int64_t& target) {
  AddParsed(names, "SIZE", WithDefault(text, BytesText(target)),
            [&target](const std::string& value) -> absl::Status {
              ASSIGN_OR_RETURN(target, ParseBytes(value));
              return absl::OkStatus();
            });
}

void ArgumentTable::AddNumber(absl::string_view names, absl::string_view value_name,
                              absl::string_view text, int64_t low, int64_t high, int64_t& target) {
  CSIDELTA_CHECK(low <= high);  // otherwise every value is refused
  const std::string whole =
      WithDefault(text, target == 0 || target < low ? "" : absl::StrCat(target));
  AddParsed(names, value_name, whole, [&target, low, high](const std::string& value) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(value, &number) || number < low || number > high) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", value, "\" is not a whole number from ", low, " to ", high));
    }
    target = number;
    return absl::OkStatus();
  });
}

void ArgumentTable::AddWait(absl::string_view names, absl::string_view text,
                            std::optional<absl::Duration>& target) {
  const std::string value = target.has_value() ? absl::FormatDuration(*target) : "";
  AddParsed(names, "TIME", WithDefault(text, value),
            [&target](const std::string& given) -> absl::Status {
              ASSIGN_OR_RETURN(target, ParseWait(given));
              return absl::OkStatus();
            });
}

void ArgumentTable::AddChoice(absl::string_view names, const std::vector<std::string>& choices,
                              absl::string_view text, std::string& target) {
  CSIDELTA_CHECK(!choices.empty());  // otherwise the flag would take no value
  AddParsed(names, absl::StrJoin(choices, "|"), WithDefault(text, target),
            [&target, choices](const std::string& value) {
              if (std::find(choices.begin(), choices.end(), value) == choices.end()) {
                return absl::InvalidArgumentError(
                    absl::StrCat("\"", value, "\" is not one of ", absl::StrJoin(choices, ", ")));
              }
              target = value;
              return absl::OkStatus();
            });
}

void ArgumentTable::Rename(absl::string_view old_names) {
  CSIDELTA_CHECK(!flags_.empty());  // there is a flag to be called so
  flags_.back().old_names = absl::StrSplit(old_names, ',');
}

void ArgumentTable::AddPositional(absl::string_view name, absl::string_view text,
                                  std::string& target) {
  AddOptionalPositional(name, text, target);
  positional_.count_min = 1;
}

void ArgumentTable::AddOptionalPositional(absl::string_view name, absl::string_view text,
                                          std::string& target) {
  CSIDELTA_CHECK(positional_.name.empty());
  positional_ = {.name = std::string(name),
                 .text = std::string(text),
                 .count_max = 1,
                 .take = [&target](std::vector<std::string> values) {
                   if (!values.empty()) {
                     target = std::move(values.front());
                   }
                 }};
}

void ArgumentTable::AddPositionals(absl::string_view name, absl::string_view text, int count_min,
                                   int count_max, std::vector<std::string>& target) {
  CSIDELTA_CHECK(0 <= count_min && count_min <= count_max);  // otherwise no count is accepted
  CSIDELTA_CHECK(positional_.name.empty());
  positional_ = {
      .name = std::string(name),
      .text = std::string(text),
      .count_min = count_min,
      .count_max = count_max,
      .take = [&target](std::vector<std::string> values) { target = std::move(values); }};
}

namespace {

constexpr int kHelpTextColumn = 34;
constexpr int kOverviewTextColumn = 17;

// "  -r, --repo REPO", with room for a short name in front of all.
std::string FlagHead(const Flag& flag) {
  const bool has_short = !absl::StartsWith(flag.names.front(), "--");
  std::string head = absl::StrCat(has_short ? "  " : "      ", absl::StrJoin(flag.names, ", "));
  if (!flag.value_name.empty()) {
    absl::StrAppend(&head, " ", flag.value_name);
  }
  return head;
}

std::string DescribeEntry(const std::string& head, absl::string_view text, int columns,
                          int text_column = kHelpTextColumn) {
  const std::string body = WrapText(text, text_column, columns);
  return head.size() + 2 > static_cast<std::size_t>(text_column)
             ? absl::StrCat(head, "\n", body)
             : absl::StrCat(head, body.substr(head.size()));
}

std::string DescribeFlags(absl::string_view title, const ArgumentTable& table, int columns) {
  if (table.flags().empty()) {
    return "";
  }
  std::string out = absl::StrCat("\n", title, ":\n");
  for (const Flag& flag : table.flags()) {
    absl::StrAppend(&out, DescribeEntry(FlagHead(flag), flag.text, columns));
  }
  return out;
}

// "DEVICE", "[ID]", "ID ID", "[ID...]".
std::string DescribePositional(const Positional& positional) {
  std::vector<std::string> parts(static_cast<std::size_t>(positional.count_min), positional.name);
  if (positional.count_max > positional.count_min) {
    const bool many = positional.count_max - positional.count_min > 1;
    parts.push_back(absl::StrCat("[", positional.name, many ? "..." : "", "]"));
  }
  return absl::StrJoin(parts, " ");
}

constexpr EnumNames<VerbFamily, 4> kFamilyTitles = {
    {{VerbFamily::kRepository, "Flags of verbs on a repository"},
     {VerbFamily::kNewRepository, "Flags of verbs on a repository"},
     {VerbFamily::kCluster, "Flags of verbs on snapshots of a cluster"},
     {VerbFamily::kMover, "Flags of verbs on the data mover of a cluster"}}};

std::string DescribeFamilies(const ProgramSyntax& program, std::optional<VerbFamily> only,
                             int columns) {
  std::string out;
  for (const auto& [family, table] : program.of) {
    // All verbs of a repository but a few take those of kRepository.
    if (only.has_value() ? only == family : family != VerbFamily::kNewRepository) {
      absl::StrAppend(&out, DescribeFlags(EnumName(kFamilyTitles, family), table, columns));
    }
  }
  return absl::StrCat(out, DescribeFlags("Flags of all verbs", program.shared, columns));
}

std::string VerbHelp(const VerbSyntax& verb, const ProgramSyntax& program, int columns) {
  std::string usage = absl::StrCat("usage: ", program.name, " ", verb.name, " [flags]");
  if (!verb.table.positional().name.empty()) {
    absl::StrAppend(&usage, " ", DescribePositional(verb.table.positional()));
  }
  std::string out = absl::StrCat(usage, "\n\n", WrapText(verb.summary + ".", 0, columns));
  if (!verb.details.empty()) {
    absl::StrAppend(&out, "\n", WrapText(verb.details, 0, columns));
  }
  absl::StrAppend(&out, verb.examples.empty() ? "" : "\nExamples:\n");
  for (const std::string& example : verb.examples) {
    absl::StrAppend(&out, "  ", program.name, " ", example, "\n");
  }
  if (!verb.table.positional().name.empty()) {
    absl::StrAppend(&out, "\nArguments:\n",
                    DescribeEntry(absl::StrCat("      ", verb.table.positional().name),
                                  verb.table.positional().text, columns));
  }
  absl::StrAppend(&out, DescribeFlags("Flags", verb.table, columns),
                  DescribeFamilies(program, verb.family, columns));
  return out;
}

// True for the verb `name`, and for the verbs of the group.
bool IsPartOf(const VerbSyntax& verb, absl::string_view name) {
  return verb.name == name || absl::StartsWith(verb.name, absl::StrCat(name, " "));
}

// "  key add   Add a key" for each verb of this name or of the group.
std::string ListVerbs(absl::string_view name, absl::Span<const VerbSyntax> verbs, int columns) {
  std::string out;
  for (const VerbSyntax& verb : verbs) {
    if (IsPartOf(verb, name)) {
      absl::StrAppend(&out, DescribeEntry(absl::StrCat("  ", verb.name), verb.summary, columns));
    }
  }
  return out;
}

std::string GroupHelp(absl::string_view group, const ProgramSyntax& program,
                      absl::Span<const VerbSyntax> verbs, int columns) {
  const auto first = std::find_if(verbs.begin(), verbs.end(),
                                  [&](const VerbSyntax& verb) { return IsPartOf(verb, group); });
  CSIDELTA_CHECK(first != verbs.end());  // the parser found the group
  return absl::StrCat("usage: ", program.name, " ", group, " VERB [flags]\n\nVerbs:\n",
                      ListVerbs(group, verbs, columns),
                      DescribeFamilies(program, first->family, columns), "\n", program.name, " ",
                      group, " VERB --help says what else a verb takes.\n");
}

// The line of a verb or a group in the overview.
std::string OverviewLine(const std::string& name, absl::string_view about,
                         absl::Span<const VerbSyntax> verbs, int columns) {
  std::string text;
  if (const std::vector<std::string> parts = NextVerbParts(name, verbs); !parts.empty()) {
    text = absl::StrCat(about, ": ", absl::StrJoin(parts, ", "));
  }
  if (const VerbSyntax* const verb = VerbOf(name, verbs); verb != nullptr) {
    text = verb->summary;
  }
  return DescribeEntry(absl::StrCat("  ", name), text, columns, kOverviewTextColumn);
}

std::string ProgramHelp(const ProgramSyntax& program, absl::Span<const VerbSyntax> verbs,
                        int columns, bool all) {
  std::string out = absl::StrCat("usage: ", program.name, " VERB [flags]\n\n");
  for (const VerbTopic& topic : program.topics) {
    if (topic.in_overview || all) {
      absl::StrAppend(&out, topic.title, ":\n");
      for (const auto& [name, about] : topic.verbs) {
        absl::StrAppend(&out, all ? ListVerbs(name, verbs, columns)
                                  : OverviewLine(name, about, verbs, columns));
      }
    }
  }
  const std::string of_verbs =
      absl::StrCat("\n", program.name, " VERB --help: flags and examples of a verb.\n");
  if (!all) {
    return absl::StrCat(out, of_verbs, program.name,
                        " help --all: all verbs, shared flags, exit codes.\n");
  }
  absl::StrAppend(&out, DescribeFamilies(program, std::nullopt, columns), "\nExit codes:\n");
  for (const auto& [code, meaning] : program.exit_codes) {
    absl::StrAppend(&out, DescribeEntry(absl::StrCat("  ", code), meaning, columns, 7));
  }
  return absl::StrCat(out, of_verbs);
}

}  // namespace

const VerbSyntax* VerbOf(absl::string_view name, absl::Span<const VerbSyntax> verbs) {
  const auto found = absl::c_find_if(verbs, [&](const auto& verb) { return verb.name == name; });
  return found == verbs.end() ? nullptr : &*found;
}

std::vector<std::string> NextVerbParts(absl::string_view name, absl::Span<const VerbSyntax> verbs) {
  std::set<std::string> next;
  const std::string before = name.empty() ? "" : absl::StrCat(name, " ");
  for (const VerbSyntax& verb : verbs) {
    if (absl::StartsWith(verb.name, before)) {
      const std::string rest = verb.name.substr(before.size());
      next.insert(rest.substr(0, rest.find(' ')));
    }
  }
  return {next.begin(), next.end()};
}

std::string HelpText(absl::string_view name, const ProgramSyntax& program,
                     absl::Span<const VerbSyntax> verbs, int columns, bool all) {
  if (const VerbSyntax* const verb = VerbOf(name, verbs); verb != nullptr) {
    return VerbHelp(*verb, program, columns);
  }
  return name.empty() ? ProgramHelp(program, verbs, columns, all)
                      : GroupHelp(name, program, verbs, columns);
}

}  // namespace csidelta::cli
