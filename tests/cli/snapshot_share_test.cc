// csi-delta snapshot share: a VolumeSnapshot for people of another namespace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "objects/keys.h"
#include "tests/cli/snapshot_verb_fixture.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"

namespace csidelta::cli::snapshot_share_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class SnapshotShareVerbTest : public SnapshotVerbTest {
 protected:
  SnapshotShareVerbTest() : SnapshotVerbTest("share") {
    cluster_.driver_name = support::kDriver;
    cluster_.driver().takes_any_handle = false;
    cluster_.driver().AddSnapshot("handle-of-monday");
    Ready("monday", "2026-11-20T05:00:00Z");
  }
  Outcome Delete(const std::string& space) const {
    return program_.Run({"--kubeconfig", program_.Path("kubeconfig"), "snapshot", "delete",
                         "monday", "--last-too", "--wait", "-n", space});
  }
  bool IsSharedThere() const { return api_.Find(VolumeSnapshotKey("team", "monday")).has_value(); }

  support::FakeSnapshotCluster cluster_{api_};
};

TEST_F(SnapshotShareVerbTest, IsUsedThereAndKeepsTheSourceUntilItIsDeletedThere) {
  const Outcome outcome = Run({"monday", "--to", "team", "-n", "shop"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("team"), HasSubstr("Ready"), HasSubstr("shop/monday")));
  const Outcome kept = Delete("shop");
  EXPECT_EQ(kept.code, ExitCode::kProtected) << kept.error;
  EXPECT_THAT(kept.out, HasSubstr("shared with team/monday"));
  EXPECT_TRUE(IsThere("monday"));
  const Outcome others = Delete("team");
  EXPECT_EQ(others.code, ExitCode::kOk) << others.error << others.out;
  const Outcome free = Delete("shop");
  EXPECT_EQ(free.code, ExitCode::kOk) << free.error << free.out;
}

TEST_F(SnapshotShareVerbTest, PruneKeepsWhatIsShared) {
  Ready("tuesday", "2026-11-21T05:00:00Z");
  ASSERT_EQ(Run({"monday", "--to", "team", "-n", "shop"}).code, ExitCode::kOk);
  const Outcome pruned = program_.Run({"--kubeconfig", program_.Path("kubeconfig"), "snapshot",
                                       "prune", "--keep-last", "1", "--yes", "-n", "shop"});
  ASSERT_EQ(pruned.code, ExitCode::kOk) << pruned.error;
  EXPECT_THAT(pruned.out, HasSubstr("shared with team/monday"));
  EXPECT_TRUE(IsThere("monday"));
}

TEST_F(SnapshotShareVerbTest, IsOneJsonValueAndSaysThatItWasThere) {
  const Json first = RunJson({"monday", "--to", "team", "--name", "theirs"});
  EXPECT_EQ(GetString(first, {"name"}), "theirs");
  EXPECT_EQ(GetString(first, {"namespace"}), "team");
  EXPECT_EQ(GetString(first, {"state"}), "Ready");
  EXPECT_EQ(GetString(first, {"shared_from"}), "shop/monday");
  EXPECT_EQ(first["was_there"], false);
  EXPECT_EQ(RunJson({"monday", "--to", "team", "--name", "theirs"})["was_there"], true);
}

TEST_F(SnapshotShareVerbTest, ADryRunMakesNothing) {
  EXPECT_EQ(GetString(RunJson({"monday", "--to", "team", "--dry-run"}), {"state"}), "Planned");
  EXPECT_FALSE(IsSharedThere());
}

TEST_F(SnapshotShareVerbTest, SaysWhatIsMissing) {
  EXPECT_THAT(Run({"monday", "-n", "shop"}).error, HasSubstr("--to"));
  EXPECT_THAT(Run({"monday", "--to", "shop", "-n", "shop"}).error, HasSubstr("--to"));
  EXPECT_THAT(Run({"none", "--to", "team", "-n", "shop"}).error, HasSubstr("does not exist"));
  api_.Forbid("create", "volumesnapshotcontents");
  const Outcome refused = Run({"monday", "--to", "team", "-n", "shop"});
  EXPECT_EQ(refused.code, ExitCode::kFailed);
  EXPECT_THAT(refused.error, HasSubstr("ask for the ClusterRole csi-delta-snapshot-admin"));
  EXPECT_FALSE(IsSharedThere());
}

}  // namespace
}  // namespace csidelta::cli::snapshot_share_test
