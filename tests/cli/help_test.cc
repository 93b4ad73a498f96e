// docs/cli.md holds what --help prints, word for word. To renew it after a change: build csi-delta
// and run scripts/cli_document.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/command.h"
#include "cli/program.h"
#include "cli/text.h"
#include "tests/support/paths.h"
#include "tests/support/status_matchers.h"

namespace csidelta::cli::help_test {
namespace {

using support::IsOk;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// What `line` prints, "key add --help", on a terminal of `columns`.
std::string Print(absl::string_view line, int columns = kHelpColumns) {
  std::string out;
  const ProgramEnvironment environment{.get = [](const char*) -> const char* { return nullptr; },
                                       .out =
                                           [&out](absl::string_view bytes) {
                                             out.append(bytes.data(), bytes.size());
                                             return true;
                                           },
                                       .error = [](absl::string_view) { return true; },
                                       .columns = columns};
  const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  EXPECT_EQ(RunProgram(CallContext(), words, environment), ExitCode::kOk) << line;
  return out;
}

std::string Help(absl::string_view verb) { return Print(absl::StrCat(verb, " --help")); }

std::vector<VerbSyntax> SyntaxOf(const Commands& commands) {
  std::vector<VerbSyntax> verbs;
  for (const std::unique_ptr<Command>& command : commands) {
    verbs.push_back(command->Declare());
  }
  return verbs;
}

TEST(HelpTest, TheDocumentHasTheHelpOfEveryVerb) {
  const std::string document = support::ReadSource("docs/cli.md");
  EXPECT_THAT(document, HasSubstr("```text\n" + Print("help --all") + "```\n"));
  EXPECT_GE(AllCommands().size(), 15u);
  for (const std::unique_ptr<Command>& command : AllCommands()) {
    const std::string name = command->Declare().name;
    EXPECT_THAT(document, HasSubstr("## " + name + "\n")) << name;
    std::string help = Help(name);
    // The flags that several verbs take stand in the document once.
    help.resize(help.find("\nFlags of "));
    EXPECT_THAT(document, HasSubstr("```text\n" + help + "```\n")) << name;
  }
}

TEST(HelpTest, NoLineIsTooLongForATerminal) {
  std::vector<std::string> names = {""};
  for (const std::unique_ptr<Command>& command : AllCommands()) {
    names.push_back(command->Declare().name);
  }
  for (const std::string& name : names) {
    std::istringstream help(Help(name));
    for (std::string line; std::getline(help, line);) {
      EXPECT_LE(line.size(), 100U) << name << ": " << line;
    }
  }
}

TEST(HelpTest, TheOverviewFitsOnOneScreenAndHelpOfAllHasEveryVerb) {
  for (const int columns : {80, 100}) {
    const std::string help = Print("--help", columns);
    EXPECT_LE(std::count(help.begin(), help.end(), '\n'), 40) << help;
    EXPECT_THAT(help, AllOf(Not(HasSubstr("  worker")), HasSubstr("  status"))) << columns;
  }
  const std::string all = Print("help --all");
  EXPECT_THAT(Print("--help"), HasSubstr("exit codes"));
  for (const char* code : {"0", "1", "3", "10", "11", "12", "20", "21", "22", "23", "130"}) {
    EXPECT_THAT(all.substr(all.find("\nExit codes:\n")),
                HasSubstr(absl::StrCat("\n  ", code, " ")));
  }
  const Commands commands = AllCommands();
  for (const VerbSyntax& verb : SyntaxOf(commands)) {
    EXPECT_THAT(all, HasSubstr(absl::StrCat("\n  ", verb.name, " "))) << "which topic has it?";
  }
}

TEST(HelpTest, EveryVerbHasTwoExamplesThatItsParserTakes) {
  for (const std::unique_ptr<Command>& command : AllCommands()) {
    const VerbSyntax verb = command->Declare();
    EXPECT_GE(verb.examples.size(), 2u) << verb.name;
    for (const std::string& example : verb.examples) {
      GlobalOptions options;
      const ProgramSyntax program = DeclareFlags(options);
      const Commands commands = AllCommands();  // For one line each.
      const absl::StatusOr<std::vector<std::string>> words = SplitCommand(example.substr(
          0, std::min({example.find("  #"), example.find(" > "), example.find(" | ")})));
      ASSERT_THAT(words, IsOk()) << example;
      const absl::StatusOr<ParsedLine> parsed =
          ParseCommandLine(*words, program, SyntaxOf(commands));
      ASSERT_THAT(parsed, IsOk()) << example;
      EXPECT_EQ(parsed->verb, verb.name) << example;
      EXPECT_THAT(parsed->notes, IsEmpty()) << example;
    }
  }
}

// The argument table writes them, or the text does in the same form, at its end.
TEST(HelpTest, DefaultsAreWrittenInOneWay) {
  GlobalOptions options;
  ProgramSyntax program = DeclareFlags(options);
  std::vector<ArgumentTable> tables = {program.shared};
  for (const auto& [family, table] : program.of) {
    tables.push_back(table);
  }
  const Commands commands = AllCommands();
  for (const VerbSyntax& verb : SyntaxOf(commands)) {
    tables.push_back(verb.table);
  }
  for (const ArgumentTable& table : tables) {
    for (const Flag& flag : table.flags()) {
      const std::string before = flag.text.substr(0, flag.text.find(" (default: "));
      EXPECT_THAT(before, AllOf(Not(HasSubstr("default")), Not(HasSubstr("; else "))))
          << flag.names.back() << ": " << flag.text;
      EXPECT_TRUE(before == flag.text || flag.text.ends_with(")")) << flag.text;
    }
  }
}

}  // namespace
}  // namespace csidelta::cli::help_test
