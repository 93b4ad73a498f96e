// The parser behind arguments.h.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "cli/arguments.h"
#include "cli/text.h"

namespace csidelta::cli {
namespace {

// A flag with the values that the line gives it.
struct GivenFlag {
  const Flag* flag = nullptr;
  std::vector<std::string> values;
};

std::vector<std::string> NamesOf(const std::vector<GivenFlag>& flags) {
  std::vector<std::string> names;
  for (const GivenFlag& given : flags) {
    absl::c_copy(given.flag->names, std::back_inserter(names));
  }
  return names;
}

bool IsFlag(absl::string_view argument) { return argument.size() > 1 && argument.front() == '-'; }

// "; did you mean NAME?", or nothing if no name is near.
std::string Suggest(absl::string_view name, const std::vector<std::string>& names) {
  const std::string near = NearestOf(name, names);
  return near.empty() ? "" : absl::StrCat("; did you mean ", near, "?");
}

// The names of flags that take a value, as they are written: "-r", "--repo".
using ValueNames = std::set<std::string, std::less<>>;

void AddValueNames(const ArgumentTable& table, ValueNames& names) {
  for (const Flag& flag : table.flags()) {
    if (!flag.value_name.empty()) {
      names.insert(flag.names.begin(), flag.names.end());
      names.insert(flag.old_names.begin(), flag.old_names.end());
    }
  }
}

class VerbFinder {
 public:
  VerbFinder(const ProgramSyntax& program, absl::Span<const VerbSyntax> verbs)
      : verbs_(verbs), answers_(program.answers) {
    AddValueNames(program.shared, value_names_);
    for (const auto& [family, table] : program.of) {
      AddValueNames(table, value_names_);
    }
  }

  FoundVerb Find(absl::Span<const std::string> arguments) const {
    FoundVerb found;
    for (std::size_t at = NextPlain(arguments, 0); at < arguments.size();
         at = NextPlain(arguments, at + 1)) {
      const std::string name =
          found.name.empty() ? arguments[at] : absl::StrCat(found.name, " ", arguments[at]);
      const bool is_group = !NextVerbParts(name, verbs_).empty();
      const VerbSyntax* const verb = VerbOf(name, verbs_);
      if (!is_group && verb == nullptr) {
        break;  // an argument of the verb, or an unknown verb
      }
      found.name = name;
      found.syntax = verb;
      found.positions.push_back(at);
      if (!is_group) {
        break;
      }
    }
    return found;
  }

  // The first argument that is not part of a verb, otherwise "".
  std::string Unknown(absl::Span<const std::string> arguments, const FoundVerb& found) const {
    const std::size_t at =
        NextPlain(arguments, found.positions.empty() ? 0 : found.positions.back() + 1);
    return at < arguments.size() ? arguments[at] : "";
  }

  // Whether there is something to say of a verb of restic.
  bool Answers(absl::string_view name) const {
    return absl::c_any_of(answers_, [&](const auto& one) { return one.first == name; });
  }

  // What to say of a verb that does not exist.
  std::string SayUnknown(absl::string_view name) const {
    for (const auto& [other, answer] : answers_) {
      if (other == name) {
        return absl::StrCat("there is no verb ", name, ": ", answer);
      }
    }
    std::vector<std::string> names;
    for (const VerbSyntax& verb : verbs_) {
      names.push_back(verb.name);
      names.push_back(verb.name.substr(0, verb.name.find(' ')));
    }
    return absl::StrCat("no such verb: ", name, Suggest(name, names));
  }

  // What to say of a group without one of its verbs.
  std::string SayIncomplete(absl::string_view group) const {
    std::vector<std::string> parts = NextVerbParts(group, verbs_);
    const std::string last = parts.back();
    parts.pop_back();
    const std::string plural = absl::StrCat(group, "s");
    return absl::StrCat(group, " what? ", absl::StrJoin(parts, ", "), parts.empty() ? "" : " or ",
                        last, VerbOf(plural, verbs_) == nullptr ? "" : Suggest(plural, {plural}));
  }

 private:
  // The first position from `at` on of an argument that is neither a flag nor the value of one.
  // After "--" there is no verb.
  std::size_t NextPlain(absl::Span<const std::string> arguments, std::size_t at) const {
    for (; at < arguments.size(); ++at) {
      const std::string& argument = arguments[at];
      if (argument == "--") {
        return arguments.size();
      }
      if (!IsFlag(argument)) {
        return at;
      }
      at += value_names_.contains(argument) ? 1 : 0;
    }
    return arguments.size();
  }

  absl::Span<const VerbSyntax> verbs_;
  const std::vector<std::pair<std::string, std::string>>& answers_;
  ValueNames value_names_;
};

// The flags and arguments of one line whose verb is known. All values are collected as texts; the
// tables decide what they mean.
class Parser {
 public:
  Parser(std::string program, std::string verb)
      : program_(std::move(program)), verb_(std::move(verb)) {}

  void Attach(const ArgumentTable& table) {
    for (const Flag& flag : table.flags()) {
      for (const std::string& name : flag.names) {
        CSIDELTA_CHECK(by_name_.emplace(name, flags_.size()).second);  // a name means one flag
      }
      flags_.push_back({.flag = &flag, .values = {}});
    }
  }

  // Called when all tables are attached: a name has its new meaning, if there is one.
  void AttachOldNames() {
    for (std::size_t at = 0; at < flags_.size(); ++at) {
      for (const std::string& name : flags_[at].flag->old_names) {
        if (by_name_.emplace(name, at).second) {
          old_names_.insert(name);
        }
      }
    }
  }

  // One for each old name in the line.
  std::vector<std::string> TakeNotes() { return std::move(notes_); }

  // The arguments that are not flags; nullopt if help was requested.
  absl::StatusOr<std::optional<std::vector<std::string>>> Parse(
      absl::Span<const std::string> arguments) {
    std::vector<std::string> plain;
    const auto mark = std::find(arguments.begin(), arguments.end(), "--");
    absl::Span<const std::string> left =
        arguments.first(static_cast<std::size_t>(mark - arguments.begin()));
    while (!left.empty()) {
      const std::string& argument = left.front();
      left.remove_prefix(1);
      if (IsFlag(argument)) {
        RETURN_IF_ERROR(ReadFlag(argument, left));
      } else {
        plain.push_back(argument);
      }
    }
    if (is_help_) {
      return std::nullopt;
    }
    if (!unknown_.empty()) {
      const std::string& argument = unknown_.front();
      return Refuse(absl::StrCat("unexpected argument: ", argument,
                                 Suggest(argument.substr(0, argument.find('=')), NamesOf(flags_))));
    }
    plain.insert(plain.end(), mark == arguments.end() ? mark : mark + 1, arguments.end());
    for (const GivenFlag& given : flags_) {
      RETURN_IF_ERROR(Take(given));
    }
    return plain;
  }

  absl::Status Refuse(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(what, absl::EndsWith(what, "?") ? "" : ";",
                                                   " see ", program_, " ", verb_,
                                                   verb_.empty() ? "" : " ", "--help"));
  }

 private:
  // `argument` is "--name", "--name=value", "-n", "-nvalue" or "-ab". A value that is
  // the next argument is removed from the front of `next`.
  absl::Status ReadFlag(const std::string& argument, absl::Span<const std::string>& next);

  // `attached` follows the name in the same argument. Without it, a flag at the end or before
  // another flag has no value.
  absl::Status ReadValue(const std::string& name, absl::string_view attached,
                         std::vector<std::string>& values,
                         absl::Span<const std::string>& next) const;

  absl::Status Take(const GivenFlag& given) const {
    const auto counted = given.flag->repeatable || given.values.empty() ? given.values.begin()
                                                                        : given.values.end() - 1;
    for (auto value = counted; value != given.values.end(); ++value) {
      if (const absl::Status status = given.flag->take(*value); !status.ok()) {
        return Refuse(absl::StrCat(given.flag->names.back(), ": ", status.message()));
      }
    }
    return absl::OkStatus();
  }

  const std::string program_;
  const std::string verb_;
  std::vector<GivenFlag> flags_;
  std::map<std::string, std::size_t, std::less<>> by_name_;  // positions in flags_
  std::set<std::string, std::less<>> old_names_;
  std::vector<std::string> unknown_;
  std::vector<std::string> notes_;
  bool is_help_ = false;
};

absl::Status Parser::ReadFlag(const std::string& argument, absl::Span<const std::string>& next) {
  const bool is_long = absl::StartsWith(argument, "--");
  const std::string name = is_long ? argument.substr(0, argument.find('=')) : argument.substr(0, 2);
  const auto found = by_name_.find(name);
  if (old_names_.contains(name)) {
    notes_.push_back(absl::StrCat(name, " is called ", flags_[found->second].flag->names.back(),
                                  " now; the next release does not know the old name"));
  }
  if (name == "-h" || name == "--help") {
    is_help_ = true;
  } else if (found == by_name_.end()) {
    unknown_.push_back(argument);  // with --help it is no error
  } else if (!flags_[found->second].flag->value_name.empty()) {
    return ReadValue(name, argument.substr(name.size()), flags_[found->second].values, next);
  } else {
    flags_[found->second].values.push_back(
        is_long && argument.size() > name.size() + 1 ? argument.substr(name.size() + 1) : "true");
    if (!is_long && argument.size() > name.size()) {
      return ReadFlag(absl::StrCat("-", argument.substr(name.size())), next);
    }
  }
  return absl::OkStatus();
}

absl::Status Parser::ReadValue(const std::string& name, absl::string_view attached,
                               std::vector<std::string>& values,
                               absl::Span<const std::string>& next) const {
  if (!attached.empty()) {
    values.emplace_back(absl::StripPrefix(attached, "="));
    return absl::OkStatus();
  }
  if (next.empty()) {
    return Refuse(absl::StrCat(name, " needs a value"));
  }
  if (IsFlag(next.front())) {
    return Refuse(absl::StrCat(name, " needs a value; one that begins with a dash is written ",
                               name, absl::StartsWith(name, "--") ? "=" : "", next.front()));
  }
  values.push_back(next.front());
  next.remove_prefix(1);
  return absl::OkStatus();
}

absl::Status TakeWords(const Parser& parser, const VerbSyntax& verb,
                       std::vector<std::string> arguments) {
  const Positional& positional = verb.table.positional();
  const auto count = static_cast<int>(arguments.size());
  if (count < positional.count_min) {
    return parser.Refuse(absl::StrCat(verb.name, " needs ", positional.name));
  }
  if (count > positional.count_max) {
    return parser.Refuse(absl::StrCat("unexpected argument: ", arguments.back()));
  }
  if (positional.take) {
    positional.take(std::move(arguments));
  }
  return absl::OkStatus();
}

// "help VERB" and "VERB --help" are one question; "--version" and the verb another.
std::vector<std::string> InOneForm(absl::Span<const std::string> arguments) {
  std::vector<std::string> out(arguments.begin(), arguments.end());
  if (out.size() == 1 && out[0] == "--version") {
    out[0] = "version";
  }
  if (!out.empty() && out[0] == "help") {
    out.erase(out.begin(), std::find_if(out.begin(), out.end(), [](const std::string& argument) {
                return argument != "help";
              }));
    out.insert(std::find(out.begin(), out.end(), "--"), "--help");
  }
  return out;
}

}  // namespace

FoundVerb FindVerb(absl::Span<const std::string> arguments, const ProgramSyntax& program,
                   absl::Span<const VerbSyntax> verbs) {
  return VerbFinder(program, verbs).Find(arguments);
}

absl::StatusOr<ParsedLine> ParseCommandLine(absl::Span<const std::string> given,
                                            const ProgramSyntax& program,
                                            absl::Span<const VerbSyntax> verbs) {
  const std::vector<std::string> arguments = InOneForm(given);
  const VerbFinder finder(program, verbs);
  const FoundVerb found = finder.Find(arguments);
  std::vector<std::string> rest;
  for (std::size_t at = 0; at < arguments.size(); ++at) {
    if (std::find(found.positions.begin(), found.positions.end(), at) == found.positions.end()) {
      rest.push_back(arguments[at]);
    }
  }
  Parser parser(program.name, found.name);
  const std::string unknown = finder.Unknown(arguments, found);
  const std::string name = absl::StrCat(found.name, found.name.empty() ? "" : " ", unknown);
  if (!unknown.empty() && (found.syntax == nullptr || finder.Answers(name))) {
    return parser.Refuse(finder.SayUnknown(name));
  }
  parser.Attach(program.shared);
  for (const auto& [family, table] : program.of) {
    if (found.syntax != nullptr && found.syntax->family == family) {
      parser.Attach(table);
    }
  }
  if (found.syntax != nullptr) {
    parser.Attach(found.syntax->table);
  }
  parser.AttachOldNames();
  absl::StatusOr<std::optional<std::vector<std::string>>> plain = parser.Parse(rest);
  if (plain.ok() && !plain->has_value()) {
    const bool all = found.name.empty() && absl::c_linear_search(arguments, "--all");
    return ParsedLine{.verb = found.name, .help = true, .all = all};
  }
  if (found.syntax == nullptr && !found.name.empty()) {
    return parser.Refuse(finder.SayIncomplete(found.name));
  }
  RETURN_IF_ERROR(plain.status());
  if (found.syntax != nullptr) {
    RETURN_IF_ERROR(TakeWords(parser, *found.syntax, **std::move(plain)));
  }
  return ParsedLine{.verb = found.name, .notes = parser.TakeNotes()};
}

}  // namespace csidelta::cli
