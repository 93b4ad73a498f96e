#include "cli/completion.h"

#include <set>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "cli/command.h"

namespace csidelta::cli {
namespace {

// A shell offers names of files where the program offers nothing.
constexpr char kBash[] = R"(_csi_delta() {
  local IFS=$'\n'
  COMPREPLY=($(csi-delta __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _csi_delta csi-delta
)";
constexpr char kZsh[] = R"(#compdef csi-delta
_csi_delta() {
  local -a found
  found=("${(@f)$(csi-delta __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "${found[1]}" ]]; then
    compadd -a found
  else
    _files
  fi
}
compdef _csi_delta csi-delta
)";
constexpr char kFish[] =
    R"(complete -c csi-delta -a '(csi-delta __complete (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
)";

// The flag of this name, as it is written.
const Flag* FindFlag(const std::vector<const ArgumentTable*>& tables, absl::string_view name) {
  for (const ArgumentTable* table : tables) {
    for (const Flag& flag : table->flags()) {
      if (absl::c_linear_search(flag.names, name)) {
        return &flag;
      }
    }
  }
  return nullptr;
}

// The tables whose flags may stand on a line of this verb; without one, those of all families.
std::vector<const ArgumentTable*> TablesOf(const VerbSyntax* verb, const ProgramSyntax& program) {
  std::vector<const ArgumentTable*> tables = {&program.shared};
  for (const auto& [family, table] : program.of) {
    if (verb == nullptr || verb->family == family) {
      tables.push_back(&table);
    }
  }
  if (verb != nullptr) {
    tables.push_back(&verb->table);
  }
  return tables;
}

class CompletionCommand : public Command {
 public:
  VerbSyntax Describe(ArgumentTable& table) override {
    table.AddPositional("bash|zsh|fish", "the shell", shell_);
    return {.name = "completion",
            .summary = "Print a script that makes a shell complete verbs and flags",
            .details =
                "For bash: source <(csi-delta completion bash). For zsh: put it into a file "
                "_csi-delta of a folder of fpath. For fish: csi-delta completion fish | source.",
            .examples = {"completion bash", "completion fish | source"}};
  }

  absl::StatusOr<ExitCode> Run(const CallContext&, Session& session) override {
    ASSIGN_OR_RETURN(const std::string script, CompletionScript(shell_));
    session.console().Print(script);
    return ExitCode::kOk;
  }

 private:
  std::string shell_;
};

}  // namespace

std::vector<std::string> Complete(absl::Span<const std::string> arguments,
                                  const ProgramSyntax& program,
                                  absl::Span<const VerbSyntax> verbs) {
  const std::string current = arguments.empty() ? "" : arguments.back();
  absl::Span<const std::string> before =
      arguments.empty() ? arguments : arguments.subspan(0, arguments.size() - 1);
  if (!before.empty() && before.front() == "help") {
    before.remove_prefix(1);
  }
  const FoundVerb found = FindVerb(before, program, verbs);
  const std::vector<const ArgumentTable*> tables = TablesOf(found.syntax, program);
  std::set<std::string> candidates;
  const Flag* const open = before.empty() ? nullptr : FindFlag(tables, before.back());
  if (open != nullptr && !open->value_name.empty()) {
    if (absl::StrContains(open->value_name, "|")) {
      candidates = absl::StrSplit(open->value_name, '|');
    }
  } else if (absl::StartsWith(current, "-")) {
    for (const ArgumentTable* table : tables) {
      for (const Flag& flag : table->flags()) {
        if (absl::StartsWith(flag.names.back(), "--")) {
          candidates.insert(flag.names.back());
        }
      }
    }
    candidates.insert("--help");
  } else {  // A verb may also be a group.
    std::vector<std::string> next = NextVerbParts(found.name, verbs);
    if (found.syntax != nullptr && absl::StrContains(found.syntax->table.positional().name, "|")) {
      next = absl::StrSplit(found.syntax->table.positional().name, '|');
    }
    candidates = {next.begin(), next.end()};
    if (before.empty()) {
      candidates.insert("help");
    }
  }
  std::erase_if(candidates,
                [&](const std::string& one) { return !absl::StartsWith(one, current); });
  return {candidates.begin(), candidates.end()};
}

absl::StatusOr<std::string> CompletionScript(absl::string_view shell) {
  for (const auto& [name, script] : {std::pair{"bash", kBash}, {"zsh", kZsh}, {"fish", kFish}}) {
    if (shell == name) {
      return script;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("\"", shell, "\" is not bash, zsh or fish"));
}

void AddCompletionCommand(Commands& all) { AddEach<CompletionCommand>(all); }

}  // namespace csidelta::cli
