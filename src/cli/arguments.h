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

inline constexpr int kSnapshotIdsMax = 1000;  // that one command line names

// One flag: how it is written, what --help says, and where its value goes.
struct Flag {
  std::string names;       // "-r,--repo" or "--json"
  std::string value_name;  // "": takes no value
  std::string text;
  bool repeatable = false;                                     // else the last one counts
  std::function<absl::Status(const std::string& value)> take;  // "true" or "false" without a value
};

// What stands without a dash.
struct Positional {
  std::string name;  // "" where none exists
  std::string text;
  int count_min = 0;
  int count_max = 0;
  std::function<void(std::vector<std::string> values)> take;
};

// The flags and words of one verb, bound to the places of their values, which are borrowed.
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

  // What `take` makes of the value.
  void AddParsed(absl::string_view names, absl::string_view value_name, absl::string_view text,
                 std::function<absl::Status(const std::string& value)> take);

  // One word, which must be there; one that may; several.
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

// Which flags besides its own and those of all verbs a verb takes.
enum class VerbFamily {
  kRepository,  // where the repository is, and how it opens
  kCluster,     // those of kubectl: namespace, labels, context, output
  kPlain,       // none
};

// A verb as the parser and --help see it. `name` has two words for a verb of a group: "key add".
struct VerbSyntax {
  std::string name;
  std::string summary;       // one line, without a full stop
  std::string details = {};  // "" or sentences
  ArgumentTable table = {};
  VerbFamily family = VerbFamily::kPlain;
};

// The name under which the program was called, and the flags that several verbs take. Names of two
// program may be equal, but then both or neither take a value, so that the verb is found where it
// stands behind them.
struct ProgramSyntax {
  std::string name = "csi-delta";  // or "kubectl csi-delta"
  ArgumentTable shared;            // of all verbs
  std::vector<std::pair<VerbFamily, ArgumentTable>> of;
};

// The verb of a line and where its words stand. It is the first word that is neither a flag nor the
// value of one, and for a group the next such word, too.
struct FoundVerb {
  std::string name;                    // "" where no word is there; of a group alone, the group
  const VerbSyntax* syntax = nullptr;  // null for a group alone, and for what is no verb; borrowed
  std::vector<std::size_t> positions;  // of the words that name it
};
FoundVerb FindVerb(absl::Span<const std::string> arguments, const ProgramSyntax& program,
                   absl::Span<const VerbSyntax> verbs);

struct ParsedLine {
  std::string verb;   // "": none was named
  bool help = false;  // asked for with -h or --help; then no value was taken
};

// Reads all words behind the program's name, stores the values where the tables say, and names the
// verb: the first word that is neither a flag nor the value of one. Flags of `program` may stand
// anywhere. "help VERB" is "VERB --help", and "--version" is "version". INVALID_ARGUMENT with a
// sentence that ends with the way to the right help.
absl::StatusOr<ParsedLine> ParseCommandLine(absl::Span<const std::string> arguments,
                                            const ProgramSyntax& program,
                                            absl::Span<const VerbSyntax> verbs);

inline constexpr int kHelpColumns = 100;

// What --help prints: for the verb or group of this name, or for the program (""). No line is
// longer than `columns` where words allow it.
std::string HelpText(absl::string_view name, const ProgramSyntax& program,
                     absl::Span<const VerbSyntax> verbs, int columns = kHelpColumns);

}  // namespace csidelta::cli
