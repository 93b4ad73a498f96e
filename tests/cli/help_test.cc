// docs/cli.md holds what --help prints, word for word. To renew it after a change: build csi-delta
// and run scripts/cli_document.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/program.h"
#include "tests/support/paths.h"

namespace csidelta::cli::help_test {
namespace {

using testing::HasSubstr;

std::string Help(const std::string& verb) {
  std::string out;
  const ProgramEnvironment environment{.get = [](const char*) -> const char* { return nullptr; },
                                       .out =
                                           [&out](absl::string_view bytes) {
                                             out.append(bytes.data(), bytes.size());
                                             return true;
                                           },
                                       .error = [](absl::string_view) { return true; }};
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < verb.size();) {
    const std::size_t end = std::min(verb.find(' ', begin), verb.size());
    words.push_back(verb.substr(begin, end - begin));
    begin = end + 1;
  }
  words.emplace_back("--help");
  EXPECT_EQ(RunProgram(CallContext(), words, environment), ExitCode::kOk);
  return out;
}

TEST(HelpTest, TheDocumentHasTheHelpOfEveryVerb) {
  const std::string document = support::ReadSource("docs/cli.md");
  EXPECT_THAT(document, HasSubstr("```text\n" + Help("") + "```\n"));
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

}  // namespace
}  // namespace csidelta::cli::help_test
