#include "cli/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/command.h"
#include "cli/run_program.h"
#include "tests/support/status_matchers.h"

namespace csidelta::cli::completion_test {
namespace {

using support::IsOkAndHolds;
using support::StatusIs;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> CompleteOf(const std::vector<std::string>& words) {
  GlobalOptions options;
  const ProgramSyntax program = DeclareFlags(options);
  std::vector<VerbSyntax> verbs;
  const std::vector<std::unique_ptr<Command>> commands = AllCommands();
  for (const std::unique_ptr<Command>& command : commands) {
    verbs.push_back(command->Declare());
  }
  return Complete(words, program, verbs);
}

TEST(CompletionTest, CompletionOffersVerbs) {
  EXPECT_THAT(CompleteOf({"ver"}), ElementsAre("version"));
  EXPECT_THAT(CompleteOf({}), Contains("backup"));
  EXPECT_THAT(CompleteOf({"hel"}), ElementsAre("help"));
  EXPECT_THAT(CompleteOf({"completion", ""}), ElementsAre("bash", "fish", "zsh"));
  EXPECT_THAT(CompleteOf({"--repo", "snapshots", "ver"}), ElementsAre("version"));
  EXPECT_THAT(CompleteOf({"key", ""}), ElementsAre("add", "list", "passwd", "remove"));
  EXPECT_THAT(CompleteOf({"--json", "key", "pa"}), ElementsAre("passwd"));
  EXPECT_THAT(CompleteOf({"help", "key", "pa"}), ElementsAre("passwd"));
  EXPECT_THAT(CompleteOf({"--mover-namespace", "key", "stat"}), ElementsAre("stats", "status"));
  EXPECT_THAT(CompleteOf({"repair", "pa"}), ElementsAre("packs")) << "a verb and a group";
}

TEST(CompletionTest, OffersFlagsOfTheVerbAndItsFamily) {
  EXPECT_THAT(CompleteOf({"forget", "--keep-l"}), ElementsAre("--keep-last"));
  EXPECT_THAT(CompleteOf({"forget", "--rep"}), ElementsAre("--repo", "--repository-file"));
  EXPECT_THAT(CompleteOf({"completion", "--"}), ElementsAre("--help", "--json", "--quiet"));
  EXPECT_THAT(CompleteOf({"doctor", "--con"}), ElementsAre("--context"));
  EXPECT_THAT(CompleteOf({"doctor", "--kubec"}), ElementsAre("--kubeconfig"));
  EXPECT_THAT(CompleteOf({"doctor", "-o", ""}), ElementsAre("json", "table", "yaml"));
}

TEST(CompletionTest, CompletionOffersOnlyTheValuesThatAFlagAllows) {
  EXPECT_THAT(CompleteOf({"backup", "--compression", ""}), Contains("max"));
  EXPECT_THAT(CompleteOf({"backup", "--repo", ""}), IsEmpty());
  EXPECT_THAT(CompleteOf({"backup", ""}), IsEmpty());
}

TEST(CompletionTest, HasAScriptForThreeShells) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    EXPECT_THAT(CompletionScript(shell), IsOkAndHolds(testing::HasSubstr("csi-delta __complete")))
        << shell;
  }
  EXPECT_THAT(CompletionScript("tcsh"), StatusIs(absl::StatusCode::kInvalidArgument));
}

// A stand-in of the program says what the shell asked; the script is bash's own to run.
TEST(CompletionTest, BashRequestsCompletionsOfTheArgumentsUpToTheCursor) {
  const absl::StatusOr<std::string> script = CompletionScript("bash");
  EXPECT_THAT(RunProgram(CallContext(),
                         {.arguments = {"bash", "-c",
                                        "csi-delta() { printf '%s\\n' \"$@\"; }\n" + *script +
                                            "COMP_WORDS=(csi-delta key 'a b' later) COMP_CWORD=2\n"
                                            "_csi_delta; printf '[%s]' \"${COMPREPLY[@]}\""}}),
              IsOkAndHolds("[__complete][key][a b]"));
}

}  // namespace
}  // namespace csidelta::cli::completion_test
