// csi-delta snapshot import: a VolumeSnapshot of a snapshot that the storage has already.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "snapshots/snapshot_import.h"
#include "tests/cli/snapshot_verb_fixture.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"

namespace csidelta::cli::snapshot_import_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kDriverName[] = "d.example.com";
class SnapshotImportVerbTest : public SnapshotProgramTest {
 protected:
  SnapshotImportVerbTest() {
    cluster_.strict = true;
    cluster_.driver().takes_any_handle = false;
    cluster_.driver().AddSnapshot("h");
  }

  Outcome Run(const std::vector<std::string>& more) const {
    return RunWords({"import", "-n", "shop"}, more);
  }
  void ExpectNothingMade() const {
    EXPECT_EQ(api_.CallCount("create", "volumesnapshotcontents"), 0);
    EXPECT_EQ(api_.CallCount("create", "volumesnapshots"), 0);
  }

  support::FakeSnapshotCluster cluster_{api_};
};

TEST_F(SnapshotImportVerbTest, SaysStateAndSize) {
  const Outcome outcome = Run({"h", "--driver", kDriverName, "--name", "orders", "--wait"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("orders"), HasSubstr("Ready"), HasSubstr("64.0 MiB"),
                                 HasSubstr("Retain")));
  const Outcome again = Run({"h", "--driver", kDriverName, "--name", "orders", "-o", "json"});
  ASSERT_EQ(again.code, ExitCode::kOk) << again.error;
  EXPECT_THAT(again.error, HasSubstr("an earlier run has begun this"));
  const Json result = again.Result();
  EXPECT_EQ(GetString(result, {"state"}), "Ready");
  EXPECT_EQ(GetString(result, {"handle"}), "h");
  EXPECT_EQ(GetString(result, {"content"}), snapshots::ImportContentName(kDriverName, "h"));
  EXPECT_EQ(GetInt(result, {"size_bytes"}), 64 << 20);
}

TEST_F(SnapshotImportVerbTest, UnverifiedWhereTheDriverGivesNoSize) {
  cluster_.driver().lists_snapshots = false;
  const Outcome outcome =
      Run({"h", "--driver", kDriverName, "--policy", "Delete", "--wait", "-o", "json"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_EQ(GetString(outcome.Result(), {"state"}), "Unverified");
  EXPECT_TRUE(outcome.Result()["size_bytes"].is_null());
  EXPECT_EQ(GetString(outcome.Result(), {"name"}), snapshots::ImportName(kDriverName, "h"));
  const std::optional<Json> content =
      api_.Find(VolumeSnapshotContentKey(snapshots::ImportContentName(kDriverName, "h")));
  EXPECT_EQ(GetString(*content, {"spec", "deletionPolicy"}), "Delete");
}

TEST_F(SnapshotImportVerbTest, AHandleThatTheDriverDoesNotKnowStaysAndSaysHowItGoes) {
  const Outcome outcome = Run(
      {"unknown\x1b[2J", "--driver", kDriverName, "--name", "orders", "--wait", "--timeout", "0"});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error, HasSubstr("csi-delta snapshot delete -n shop orders removes it"));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("unknown\\u001b[2J"), Not(HasSubstr("\x1b"))));
}

TEST_F(SnapshotImportVerbTest, ADryRunMakesNothing) {
  const Outcome outcome = Run({"h", "--driver", kDriverName, "--dry-run"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, HasSubstr("Planned"));
  ExpectNothingMade();
}

TEST_F(SnapshotImportVerbTest, RefusalsMakeNothing) {
  EXPECT_THAT(Run({"h"}).error, HasSubstr("give --driver"));
  EXPECT_THAT(Run({"h", "--driver", kDriverName, "-A"}).error, HasSubstr("leave out -A"));
  EXPECT_THAT(Run({"--driver", kDriverName}).error, HasSubstr("HANDLE"));
  api_.Forbid("create", "volumesnapshotcontents");
  const Outcome outcome = Run({"h", "--driver", kDriverName});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error, HasSubstr("you may not create volumesnapshotcontents; ask for the "
                                       "ClusterRole csi-delta-snapshot-admin"));
  api_.ClearFaults();
  Json content = support::MakeContentObject("snapcontent-7", "team", "theirs", "h");
  content["spec"]["driver"] = kDriverName;
  api_.Seed(VolumeSnapshotContentType(), content);
  EXPECT_THAT(Run({"h", "--driver", kDriverName}).error,
              HasSubstr("already has VolumeSnapshotContent snapcontent-7, of VolumeSnapshot "
                        "team/theirs"));
  ExpectNothingMade();
}

}  // namespace
}  // namespace csidelta::cli::snapshot_import_test
