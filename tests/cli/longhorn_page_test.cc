// Every command of docs/longhorn.md does something, in the order of the page.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/yaml.h"
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
    absl::StatusOr<std::vector<std::string>> words = SplitWords(line);
    ASSERT_THAT(words, support::IsOk()) << line;
    words->insert(words->begin(), {"--kubeconfig", program_.Path("kubeconfig")});
    const Outcome outcome = program_.Run(*words);
    EXPECT_EQ(outcome.code, ExitCode::kOk) << line << "\n" << outcome.error;
    EXPECT_FALSE(outcome.out.empty()) << line;
  }
  EXPECT_GE(commands, 9);
  EXPECT_TRUE(IsGoing("first")) << "of a job that is gone";
}

TEST_F(LonghornPageTest, TheSnapshotOfThePageIsTakenListedAndDeleted) {
  const std::string page = support::ReadSource("docs/longhorn.md");
  const std::vector<std::string> parts = absl::StrSplit(page, "```yaml\n");
  ASSERT_EQ(parts.size(), 2u);
  const absl::StatusOr<Json> object =
      ParseYaml(absl::string_view(parts[1]).substr(0, parts[1].find("```")));
  ASSERT_THAT(object, support::IsOk());
  Json snapshot = *object;
  SetJson(snapshot, {"spec", "createSnapshot"}, true);  // ParseYaml() has texts alone.
  EXPECT_EQ(GetString(*object, {"spec", "createSnapshot"}), "true");
  EXPECT_THAT(api_.Create({}, longhorn::SnapshotType(), longhorn::kDefaultNamespace, snapshot),
              support::IsOk());
  longhorn_.Pass(absl::Seconds(10));
  const absl::StatusOr<k8s::ObjectList> list =
      api_.List({}, longhorn::SnapshotType(), longhorn::kDefaultNamespace,
                {.label_selector = "longhornvolume=pvc-1", .field_selector = ""});
  ASSERT_THAT(list, support::IsOk());
  EXPECT_EQ(list->items.size(), 4u);
  const std::string name = k8s::Name(snapshot);
  EXPECT_THAT(page, testing::HasSubstr("kubectl delete snapshots.longhorn.io " + name + " -n"));
  EXPECT_THAT(api_.Delete({}, Key(longhorn::SnapshotType(), name), {}), support::IsOk());
  longhorn_.Pass(absl::Minutes(1));
  EXPECT_TRUE(IsGoing(name));
  EXPECT_TRUE(api_.Find(Key(longhorn::SnapshotType(), name)).has_value()) << "the newest lingers";
}

}  // namespace
}  // namespace csidelta::cli::longhorn_page_test
