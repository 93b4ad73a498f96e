// The parser behind arguments.h, and the one place that knows the library for it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "cli/arguments.h"
#include "cli/text.h"

namespace csidelta::cli {
namespace {

// A flag with what the library collected for it.
struct BoundFlag {
  const Flag* flag = nullptr;
  CLI::Option* option = nullptr;
};

bool IsFlag(absl::string_view word) { return word.size() > 1 && word.front() == '-'; }

// The names of flags that take a value, as they are written: "-r", "--repo".
using ValueNames = std::set<std::string, std::less<>>;

void AddValueNames(const ArgumentTable& table, ValueNames& names) {
  for (const Flag& flag : table.flags()) {
    if (!flag.value_name.empty()) {
      for (const absl::string_view name : absl::StrSplit(flag.names, ',')) {
        names.emplace(name);
      }
    }
  }
}

class VerbFinder {
 public:
  VerbFinder(const ProgramSyntax& program, absl::Span<const VerbSyntax> verbs) : verbs_(verbs) {
    AddValueNames(program.shared, value_names_);
    for (const auto& [family, table] : program.of) {
      AddValueNames(table, value_names_);
    }
  }

  FoundVerb Find(absl::Span<const std::string> words) const {
    FoundVerb found;
    for (std::size_t at = NextWord(words, 0); at < words.size(); at = NextWord(words, at + 1)) {
      const std::string name =
          found.name.empty() ? words[at] : absl::StrCat(found.name, " ", words[at]);
      const bool is_group = IsGroup(name);
      const VerbSyntax* const verb = FindVerb(name);
      if (!is_group && verb == nullptr) {
        break;  // A word of the verb, or no verb at all.
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

  // Of the words that are there, the first that is not part of a verb; "" where none exists.
  std::string Unknown(absl::Span<const std::string> words, const FoundVerb& found) const {
    const std::size_t at =
        NextWord(words, found.positions.empty() ? 0 : found.positions.back() + 1);
    return at < words.size() ? words[at] : "";
  }

  // The verb or group whose name is the nearest; "" where none is near.
  std::string Nearest(absl::string_view name) const {
    std::vector<std::string> names;
    for (const VerbSyntax& verb : verbs_) {
      names.push_back(verb.name);
      names.push_back(verb.name.substr(0, verb.name.find(' ')));
    }
    return NearestOf(name, names);
  }

 private:
  // The first position from `at` on of a word that is neither a flag nor the value of one. Behind
  // "--" there is no verb.
  std::size_t NextWord(absl::Span<const std::string> words, std::size_t at) const {
    for (; at < words.size(); ++at) {
      const std::string& word = words[at];
      if (word == "--") {
        return words.size();
      }
      if (!IsFlag(word)) {
        return at;
      }
      at += value_names_.contains(word) ? 1 : 0;
    }
    return words.size();
  }

  bool IsGroup(absl::string_view name) const {
    return std::any_of(verbs_.begin(), verbs_.end(), [&](const VerbSyntax& verb) {
      return absl::StartsWith(verb.name, absl::StrCat(name, " "));
    });
  }

  const VerbSyntax* FindVerb(absl::string_view name) const {
    const auto found = std::find_if(verbs_.begin(), verbs_.end(),
                                    [&](const VerbSyntax& verb) { return verb.name == name; });
    return found == verbs_.end() ? nullptr : &*found;
  }

  absl::Span<const VerbSyntax> verbs_;
  ValueNames value_names_;
};

// The flags and words of one line whose verb is known. All values are collected as texts; what they
// mean is decided by the tables.
class Parser {
 public:
  Parser(std::string program, std::string verb)
      : program_(std::move(program)), verb_(std::move(verb)) {
    app_.allow_extras();
  }

  void Attach(const ArgumentTable& table) {
    AddValueNames(table, value_names_);
    for (const Flag& flag : table.flags()) {
      CLI::Option* option = nullptr;
      if (flag.value_name.empty()) {
        option = app_.add_flag(flag.names);
      } else {
        option = app_.add_option(flag.names, values_.emplace_back());
        option->allow_extra_args(false);  // one word each time that the flag is given
      }
      flags_.push_back({.flag = &flag, .option = option});
    }
  }

  // The words that are no flags; nothing when help was asked for.
  absl::StatusOr<std::optional<std::vector<std::string>>> Parse(
      absl::Span<const std::string> words) {
    // Behind "--" there are only words.
    const auto mark = std::find(words.begin(), words.end(), "--");
    RETURN_IF_ERROR(RequireValues({words.begin(), mark}));
    try {
      std::vector<std::string> reversed = WithEmptyValues({words.begin(), mark});
      std::reverse(reversed.begin(), reversed.end());
      app_.parse(std::move(reversed));
    } catch (const CLI::CallForHelp&) {
      return std::nullopt;
    } catch (const CLI::ParseError& error) {
      return Refuse(error.what());
    }
    ASSIGN_OR_RETURN(std::vector<std::string> rest, PlainWords());
    rest.insert(rest.end(), mark == words.end() ? mark : mark + 1, words.end());
    for (const BoundFlag& bound : flags_) {
      RETURN_IF_ERROR(Take(bound));
    }
    return rest;
  }

  absl::Status Refuse(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(what, "; see ", program_, " ", verb_, verb_.empty() ? "" : " ", "--help"));
  }

 private:
  // A flag at the end, or before another flag, has no value.
  absl::Status RequireValues(const std::vector<std::string>& words) const {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (!value_names_.contains(words[i])) {
        continue;
      }
      if (i + 1 == words.size()) {
        return Refuse(absl::StrCat(words[i], " needs a value"));
      }
      if (IsFlag(words[i + 1])) {
        return Refuse(
            absl::StrCat(words[i], " needs a value; one that begins with a dash is written ",
                         words[i], absl::StartsWith(words[i], "--") ? "=" : "", words[i + 1]));
      }
      ++i;
    }
    return absl::OkStatus();
  }

  // "--host=" as two words, the second of which is empty: the library would give the flag the word
  // behind it.
  std::vector<std::string> WithEmptyValues(const std::vector<std::string>& words) const {
    std::vector<std::string> out;
    for (const std::string& word : words) {
      const std::string name = word.substr(0, word.find('='));
      if (name.size() + 1 == word.size() && value_names_.contains(name)) {
        out.push_back(name);
        out.emplace_back();
      } else {
        out.push_back(word);
      }
    }
    return out;
  }

  absl::Status Take(const BoundFlag& bound) const {
    std::vector<std::string> values = bound.option->results();
    if (!bound.flag->repeatable && values.size() > 1) {
      values.erase(values.begin(), values.end() - 1);
    }
    for (const std::string& value : values) {
      if (const absl::Status status = bound.flag->take(value); !status.ok()) {
        return Refuse(absl::StrCat(bound.option->get_name(), ": ", status.message()));
      }
    }
    return absl::OkStatus();
  }

  // What the library could not place: words, and unknown flags. Left to it, words in
  // brackets would be taken apart.
  absl::StatusOr<std::vector<std::string>> PlainWords() const {
    std::vector<std::string> plain;
    for (std::string& word : app_.remaining(/*recurse=*/true)) {
      if (IsFlag(word)) {
        return Refuse(absl::StrCat("unexpected argument: ", word));
      }
      plain.push_back(std::move(word));
    }
    return plain;
  }

  const std::string program_;
  const std::string verb_;
  CLI::App app_;
  std::deque<std::vector<std::string>> values_;  // the library writes here; pointers stay valid
  ValueNames value_names_;
  std::vector<BoundFlag> flags_;
};

absl::Status TakeWords(const Parser& parser, const VerbSyntax& verb,
                       std::vector<std::string> words) {
  const Positional& positional = verb.table.positional();
  const auto count = static_cast<int>(words.size());
  if (count < positional.count_min) {
    return parser.Refuse(absl::StrCat(verb.name, " needs ", positional.name));
  }
  if (count > positional.count_max) {
    return parser.Refuse(absl::StrCat("unexpected argument: ", words.back()));
  }
  if (positional.take) {
    positional.take(std::move(words));
  }
  return absl::OkStatus();
}

// "help VERB" and "VERB --help" are one question; "--version" and the verb another.
std::vector<std::string> InOneForm(absl::Span<const std::string> words) {
  std::vector<std::string> out(words.begin(), words.end());
  if (out.size() == 1 && out[0] == "--version") {
    out[0] = "version";
  }
  if (!out.empty() && out[0] == "help") {
    out.erase(out.begin());
    out.insert(std::find(out.begin(), out.end(), "--"), "--help");
  }
  return out;
}

}  // namespace

FoundVerb FindVerb(absl::Span<const std::string> words, const ProgramSyntax& program,
                   absl::Span<const VerbSyntax> verbs) {
  return VerbFinder(program, verbs).Find(words);
}

absl::StatusOr<ParsedLine> ParseCommandLine(absl::Span<const std::string> given,
                                            const ProgramSyntax& program,
                                            absl::Span<const VerbSyntax> verbs) {
  const std::vector<std::string> words = InOneForm(given);
  const VerbFinder finder(program, verbs);
  const FoundVerb found = finder.Find(words);
  std::vector<std::string> rest;
  for (std::size_t at = 0; at < words.size(); ++at) {
    if (std::find(found.positions.begin(), found.positions.end(), at) == found.positions.end()) {
      rest.push_back(words[at]);
    }
  }
  Parser parser(program.name, found.name);
  if (const std::string unknown = finder.Unknown(words, found);
      found.syntax == nullptr && !unknown.empty()) {
    const std::string name = absl::StrCat(found.name, found.name.empty() ? "" : " ", unknown);
    const std::string near = finder.Nearest(name);
    return parser.Refuse(
        absl::StrCat("no such verb: ", name, near.empty() ? "" : "; did you mean ", near));
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
  ASSIGN_OR_RETURN(std::optional<std::vector<std::string>> plain, parser.Parse(rest));
  if (!plain.has_value()) {
    return ParsedLine{.verb = found.name, .help = true};
  }
  if (found.syntax != nullptr) {
    RETURN_IF_ERROR(TakeWords(parser, *found.syntax, *std::move(plain)));
  } else if (!found.name.empty()) {
    return parser.Refuse(absl::StrCat(found.name, " needs a verb of its own"));
  }
  return ParsedLine{.verb = found.name};
}

}  // namespace csidelta::cli
