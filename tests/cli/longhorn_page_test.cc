// Every command of docs/longhorn.md does something, in the order of the page.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "cli/text.h"
#include "tests/cli/longhorn_verb_fixture.h"
#include "tests/support/paths.h"

namespace csidelta::cli::longhorn_page_test {
namespace {

class LonghornPageTest : public LonghornVerbTest {
 protected:
  LonghornPageTest() : LonghornVerbTest("") {
    Take("first", "weekly");
    Take("second", "nightly");
    Take("third");
  }
};

TEST_F(LonghornPageTest, EveryCommandOfThePage) {
  const std::string page = support::ReadSource("docs/longhorn.md");
  int commands = 0;
  for (absl::string_view line : absl::StrSplit(page, '\n')) {
    if (!absl::ConsumePrefix(&line, "    csi-delta ")) {
      continue;
    }
    ++commands;
    absl::StatusOr<std::vector<std::string>> words = SplitCommand(line);
    ASSERT_THAT(words, support::IsOk()) << line;
    words->insert(words->begin(), {"--kubeconfig", program_.Path("kubeconfig")});
    const Outcome outcome = program_.Run(*words);
    EXPECT_EQ(outcome.code, ExitCode::kOk) << line << "\n" << outcome.error;
    EXPECT_FALSE(outcome.out.empty()) << line;
  }
  EXPECT_GE(commands, 9);
  EXPECT_TRUE(IsGoing("first")) << "of a job that is gone";
}

}  // namespace
}  // namespace csidelta::cli::longhorn_page_test
