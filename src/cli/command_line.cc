// The parser behind arguments.h, and the one place that knows the library for it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "cli/arguments.h"

namespace csidelta::cli {
namespace {

// A flag with what the library collected for it.
struct BoundFlag {
  const Flag* flag = nullptr;
  CLI::Option* option = nullptr;
};

// A verb in the library's tree.
struct BoundVerb {
  const VerbSyntax* syntax = nullptr;
  CLI::App* app = nullptr;
  std::vector<BoundFlag> flags;
};

// The library's tree of one command line. All values are collected as texts; what they mean is
// decided by the tables.
class Parser {
 public:
  Parser(const ArgumentTable& global, absl::Span<const VerbSyntax> verbs) {
    app_.require_subcommand(0, 1);
    app_.allow_extras();
    global_flags_ = Attach(app_, global);
    for (const VerbSyntax& verb : verbs) {
      AttachVerb(verb);
    }
  }

  absl::StatusOr<ParsedLine> Parse(absl::Span<const std::string> words) {
    // Behind "--" there are only words. The library forgets the mark on the way to a verb.
    const auto mark = std::find(words.begin(), words.end(), "--");
    try {
      std::vector<std::string> reversed = WithEmptyValues({words.begin(), mark});
      std::reverse(reversed.begin(), reversed.end());
      app_.parse(std::move(reversed));
    } catch (const CLI::CallForHelp&) {
      return ParsedLine{.verb = NamedVerb(), .help = true};
    } catch (const CLI::ParseError& error) {
      return Refuse(error.what());
    }
    ASSIGN_OR_RETURN(std::vector<std::string> rest, PlainWords());
    rest.insert(rest.end(), mark == words.end() ? mark : mark + 1, words.end());
    RETURN_IF_ERROR(Take(global_flags_));
    for (const BoundVerb& verb : verbs_) {
      if (verb.app->parsed()) {
        RETURN_IF_ERROR(Take(verb.flags));
        RETURN_IF_ERROR(TakeWords(*verb.syntax, std::move(rest)));
        return ParsedLine{.verb = verb.syntax->name};
      }
    }
    if (const std::string group = NamedVerb(); !group.empty()) {
      return Refuse(absl::StrCat(group, " needs a verb of its own"));
    }
    if (!rest.empty()) {
      return Refuse(absl::StrCat("no such verb: ", rest.front()));
    }
    return ParsedLine{};
  }

 private:
  // "--host=" as two words, the second of which is empty: the library would give the flag the word
  // behind it.
  std::vector<std::string> WithEmptyValues(const std::vector<std::string>& words) const {
    std::vector<std::string> out;
    for (const std::string& word : words) {
      const std::string name = word.substr(0, word.find('='));
      if (name.size() + 1 == word.size() && names_with_value_.contains(name)) {
        out.push_back(name);
        out.emplace_back();
      } else {
        out.push_back(word);
      }
    }
    return out;
  }

  CLI::App* AddSubcommand(CLI::App& parent, const std::string& name) {
    CLI::App* app = parent.add_subcommand(name);
    app->fallthrough();
    app->allow_extras();
    app->require_subcommand(0, 1);
    return app;
  }

  void AttachVerb(const VerbSyntax& syntax) {
    const std::vector<std::string> names = absl::StrSplit(syntax.name, ' ');
    CLI::App* app = &app_;
    std::string path;
    for (const std::string& name : names) {
      absl::StrAppend(&path, " ", name);
      CLI::App*& known = apps_[path];
      known = known != nullptr ? known : AddSubcommand(*app, name);
      app = known;
    }
    verbs_.push_back({.syntax = &syntax, .app = app, .flags = Attach(*app, syntax.table)});
  }

  std::vector<BoundFlag> Attach(CLI::App& app, const ArgumentTable& table) {
    std::vector<BoundFlag> bound;
    for (const Flag& flag : table.flags()) {
      CLI::Option* option = nullptr;
      if (flag.value_name.empty()) {
        option = app.add_flag(flag.names);
      } else {
        option = app.add_option(flag.names, values_.emplace_back());
        for (const absl::string_view name : absl::StrSplit(flag.names, ',')) {
          names_with_value_.emplace(name);
        }
        option->allow_extra_args(false);  // one word each time that the flag is given
      }
      bound.push_back({.flag = &flag, .option = option});
    }
    return bound;
  }

  // The names of the subcommands that were given, as one.
  std::string NamedVerb() const {
    std::vector<std::string> names;
    const CLI::App* app = &app_;
    while (!app->get_subcommands().empty()) {
      app = app->get_subcommands().front();
      names.push_back(app->get_name());
    }
    return absl::StrJoin(names, " ");
  }

  absl::Status Refuse(absl::string_view what) const {
    const std::string verb = NamedVerb();
    return absl::InvalidArgumentError(
        absl::StrCat(what, "; see csi-delta ", verb, verb.empty() ? "" : " ", "--help"));
  }

  absl::Status Take(const std::vector<BoundFlag>& flags) const {
    for (const BoundFlag& bound : flags) {
      std::vector<std::string> values = bound.option->results();
      if (!bound.flag->repeatable && values.size() > 1) {
        values.erase(values.begin(), values.end() - 1);
      }
      for (const std::string& value : values) {
        if (const absl::Status status = bound.flag->take(value); !status.ok()) {
          return Refuse(absl::StrCat(bound.option->get_name(), ": ", status.message()));
        }
      }
    }
    return absl::OkStatus();
  }

  // What the library could not place: words, and flags that nobody knows. Left to it, words in
  // brackets would be taken apart.
  absl::StatusOr<std::vector<std::string>> PlainWords() const {
    std::vector<std::string> plain;
    for (std::string& word : app_.remaining(/*recurse=*/true)) {
      if (word.size() > 1 && word.front() == '-') {
        return Refuse(absl::StrCat("unexpected argument: ", word));
      }
      plain.push_back(std::move(word));
    }
    return plain;
  }

  absl::Status TakeWords(const VerbSyntax& verb, std::vector<std::string> words) const {
    const Positional& positional = verb.table.positional();
    const auto count = static_cast<int>(words.size());
    if (count < positional.count_min) {
      return Refuse(absl::StrCat(verb.name, " needs ", positional.name));
    }
    if (count > positional.count_max) {
      return Refuse(absl::StrCat("unexpected argument: ", words.back()));
    }
    if (positional.take) {
      positional.take(std::move(words));
    }
    return absl::OkStatus();
  }

  CLI::App app_;
  std::deque<std::vector<std::string>> values_;  // the library writes here; pointers stay valid
  std::set<std::string, std::less<>> names_with_value_;
  std::vector<BoundFlag> global_flags_;
  std::vector<BoundVerb> verbs_;
  std::map<std::string, CLI::App*> apps_;  // of verbs and their groups, by their words
};

}  // namespace

absl::StatusOr<ParsedLine> ParseCommandLine(absl::Span<const std::string> words,
                                            const ArgumentTable& global,
                                            absl::Span<const VerbSyntax> verbs) {
  return Parser(global, verbs).Parse(words);
}

}  // namespace csidelta::cli
