// deploy/longhorn-roles.yaml: enough for both verbs, and nothing in it is unused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/cli/longhorn_verb_fixture.h"
#include "tests/support/manifest_rights.h"

namespace csidelta::cli::longhorn_rights_test {
namespace {

using testing::UnorderedElementsAreArray;

// "verb plural namespace", of the roles that are bound: -viewer and -pruner in Longhorn's
// namespace, -reader in the cluster.
std::set<std::string> RightsOf(const std::set<std::string>& roles) {
  std::set<std::string> rights;
  for (const std::string& role : roles) {
    rights.merge(
        support::RightsOfRole("deploy/longhorn-roles.yaml", role,
                              role == "csi-delta-longhorn-reader" ? "" : "longhorn-system"));
  }
  return rights;
}

class LonghornRightsTest : public LonghornVerbTest {
 protected:
  explicit LonghornRightsTest(const std::string& verb = "prune") : LonghornVerbTest(verb) {
    Take("first", "retired");
    Take("second");
  }

  // Runs with these rights; what was used of them.
  std::set<std::string> Use(const std::set<std::string>& rights,
                            const std::vector<std::string>& words) {
    std::set<std::string> used;
    api_.SetInterceptor([&](const support::ApiCall& call, const Json*) -> absl::Status {
      const std::string right = absl::StrCat(call.verb, " ", call.plural, " ", call.namespace_name);
      used.insert(right);
      return rights.contains(right) ? absl::OkStatus() : absl::PermissionDeniedError(right);
    });
    const Outcome outcome = Run(words);
    EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
    return used;
  }
};

class LonghornListRightsTest : public LonghornRightsTest {
 protected:
  LonghornListRightsTest() : LonghornRightsTest("list") {}
};

TEST_F(LonghornListRightsTest, ViewerAndReaderAreEnoughToListAndAllIsUsed) {
  const auto rights = RightsOf({"csi-delta-longhorn-viewer", "csi-delta-longhorn-reader"});
  EXPECT_THAT(Use(rights, {}), UnorderedElementsAreArray(rights));
}

TEST_F(LonghornListRightsTest, TheViewerAloneListsAndSaysWhatItDidNotCheck) {
  const auto rights = RightsOf({"csi-delta-longhorn-viewer"});
  Use(rights, {});
}

TEST_F(LonghornRightsTest, AllThreeAreEnoughToPruneAndAllIsUsed) {
  const auto rights = RightsOf(
      {"csi-delta-longhorn-viewer", "csi-delta-longhorn-pruner", "csi-delta-longhorn-reader"});
  EXPECT_THAT(Use(rights, {"--of-gone-jobs", "--yes"}), UnorderedElementsAreArray(rights));
  EXPECT_TRUE(IsGoing("first"));
}

}  // namespace
}  // namespace csidelta::cli::longhorn_rights_test
