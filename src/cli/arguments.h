#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace csidelta::cli {

inline constexpr int kSnapshotIdsMax = 1000;  // in one command line

// One flag: its names, its text in --help, and the function that takes its value.
struct Flag {
  std::vector<std::string> names;  // "-r" and "--repo", or "--json"; the longest last
  std::string value_name;          // "": takes no value
  std::string text;
  bool repeatable = false;                                     // otherwise the last one counts
  std::function<absl::Status(const std::string& value)> take;  // "true" or "false" without a value
  // Understood for one more release, with a note, unless another flag of the verb has the name.
  std::vector<std::string> old_names = {};
};

// The arguments without a dash.
struct Positional {
  std::string name;  // "": the verb takes none
  std::string text;
  int count_min = 0;
  int count_max = 0;
  std::function<void(std::vector<std::string> values)> take;
};

// The flags and arguments of one verb, bound to variables for their values. Borrows the variables.
// The value that a variable has already is the default, which --help names: "(default: 4h)". No
// text, no length of time and the number 0 are no default.
class ArgumentTable {
 public:
  void Add(absl::string_view names, absl::string_view text, bool& target);
  void Add(absl::string_view names, absl::string_view value_name, absl::string_view text,
           std::string& target);
  void AddList(absl::string_view names, absl::string_view value_name, absl::string_view text,
               std::vector<std::string>& target);
  void AddBytes(absl::string_view names, absl::string_view text, int64_t& target);
  // A whole number from `low` to `high`.
  void AddNumber(absl::string_view names, absl::string_view value_name, absl::string_view text,
                 int64_t low, int64_t high, int64_t& target);
  void AddWait(absl::string_view names, absl::string_view text,
               std::optional<absl::Duration>& target);
  // One of `choices`; the flag's value name lists them.
  void AddChoice(absl::string_view names, const std::vector<std::string>& choices,
                 absl::string_view text, std::string& target);

  // `take` parses and stores the value.
  void AddParsed(absl::string_view names, absl::string_view value_name, absl::string_view text,
                 std::function<absl::Status(const std::string& value)> take);

  // Earlier names of the flag that was added last: "-n,--namespace".
  void Rename(absl::string_view old_names);

  // One required argument; one optional argument; several.
  void AddPositional(absl::string_view name, absl::string_view text, std::string& target);
  void AddOptionalPositional(absl::string_view name, absl::string_view text, std::string& target);
  void AddPositionals(absl::string_view name, absl::string_view text, int count_min, int count_max,
                      std::vector<std::string>& target);

  const std::vector<Flag>& flags() const { return flags_; }
  const Positional& positional() const { return positional_; }

 private:
  std::vector<Flag> flags_;
  Positional positional_;
};

// The flags of a verb in addition to its own and those of all verbs.
enum class VerbFamily {
  kRepository,     // the repository, also as a cluster names it, and how to open it
  kNewRepository,  // the same without a cluster: for verbs that make a repository, a backup or a
                   // key
  kCluster,        // those of kubectl: namespace, labels, context, output
  kMover,          // where the data mover is, and the output
  kPlain,          // none
};

// A verb as the parser and --help see it. The name of a verb of a group has two parts: "key add".
struct VerbSyntax {
  std::string name;
  std::string summary;       // one line, without a full stop
  std::string details = {};  // "" or sentences
  ArgumentTable table = {};
  VerbFamily family = VerbFamily::kPlain;
  // Lines without the name of the program, "status --watch"; a remark follows two spaces and "#".
  std::vector<std::string> examples = {};
};

// The verb of this name; null if there is none. Borrowed.
const VerbSyntax* VerbOf(absl::string_view name, absl::Span<const VerbSyntax> verbs);

// A heading of the program's --help, and its verbs. A group has one line, which says what it is
// about: {"key", "passwords"} is "key  passwords: add, list".
struct VerbTopic {
  std::string title;
  std::vector<std::pair<std::string, std::string>> verbs;  // the first part of the name; about
  bool in_overview = true;                                 // false: only in "help --all"
};

// The name under which the program was called, and the flags that several verbs take. Flags of two
// families may share a name. Then both or neither take a value, so that the verb after them is
// found.
struct ProgramSyntax {
  std::string name = "csi-delta";  // or "kubectl csi-delta"
  ArgumentTable shared;            // of all verbs
  std::vector<std::pair<VerbFamily, ArgumentTable>> of;
  std::vector<VerbTopic> topics = {};
  // Verbs of other programs, and what to do here instead.
  std::vector<std::pair<std::string, std::string>> answers = {};
  std::vector<std::pair<std::string, std::string>> exit_codes = {};  // and their meanings
};

// The verb of a command line and its positions. The verb is the first argument that is neither a
// flag nor the value of one. For a group it is the next such argument, too.
struct FoundVerb {
  std::string name;                    // "": none was found; for a group alone, the group
  const VerbSyntax* syntax = nullptr;  // null for a group alone, and without a verb; borrowed
  std::vector<std::size_t> positions;  // of the arguments that name it
};
FoundVerb FindVerb(absl::Span<const std::string> arguments, const ProgramSyntax& program,
                   absl::Span<const VerbSyntax> verbs);

struct ParsedLine {
  std::string verb;                     // "": none was named
  bool help = false;                    // requested with -h or --help; then no value was stored
  bool all = false;                     // with help: --all was given, and no verb
  std::vector<std::string> notes = {};  // for the user, on flags with a new name
};

// Parses all arguments after the program's name, stores the values in the variables of the tables,
// and returns the verb. Flags of `program` may stand anywhere. "help VERB" is "VERB --help", and
// "--version" is "version". INVALID_ARGUMENT with a sentence that ends with the right --help, and
// names what was probably meant.
absl::StatusOr<ParsedLine> ParseCommandLine(absl::Span<const std::string> arguments,
                                            const ProgramSyntax& program,
                                            absl::Span<const VerbSyntax> verbs);

inline constexpr int kHelpColumns = 100;

// The text of --help for the verb or group of this name, or for the program (""): its verbs by
// topic, and with `all` each verb, and the flags that several take. Lines have at most `columns`
// characters, unless one token or an example is longer.
std::string HelpText(absl::string_view name, const ProgramSyntax& program,
                     absl::Span<const VerbSyntax> verbs, int columns = kHelpColumns,
                     bool all = false);

// What may follow the name of a group: "add", "list". Sorted; empty if it is not a group. For ""
// the first parts of all names.
std::vector<std::string> NextVerbParts(absl::string_view name, absl::Span<const VerbSyntax> verbs);

}  // namespace csidelta::cli
