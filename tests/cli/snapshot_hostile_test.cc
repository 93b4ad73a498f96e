// csi-delta snapshot VERB where drivers, users and attackers wrote texts that do something to a
// terminal, pretend to be lines of the program, or are very long. The verbs that read one
// VolumeSnapshot or delete it have such a test beside their others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/cli/program_runner.h"
#include "tests/cli/snapshot_verb_fixture.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"

namespace csidelta::cli::snapshot_hostile_test {
namespace {

using testing::HasSubstr;

constexpr int kOthers = 50;

class HostileListTest : public SnapshotVerbTest {
 protected:
  HostileListTest() : SnapshotVerbTest("list") {
    for (int i = 0; i < kOthers; ++i) {
      Ready(absl::StrCat("other-", i), "2023-11-13T05:00:00Z");
    }
    Ready("evil", "2023-11-13T05:00:00Z");
    const std::string hostile = HostileText();
    Label("evil", objects::kSnapshotSetLabel, hostile);
    Label("evil", objects::kBackupNameLabel, hostile);
    Change("evil", {"metadata", "annotations", objects::kSnapshotNoteAnnotation}, hostile);
    Change("evil", {"metadata", "annotations", objects::kSnapshotWorkloadAnnotation}, hostile);
    Change("evil", {"spec", "volumeSnapshotClassName"}, hostile);
    Change("evil", {"spec", "source", "persistentVolumeClaimName"}, hostile);
    Change("evil", {"status", "readyToUse"}, false);
    Change("evil", {"status", "error"}, Json{{"message", hostile}});
    ChangeContent("evil", {"status", "snapshotHandle"}, hostile);
    ChangeContent("evil", {"spec", "driver"}, hostile);
    ChangeContent("evil", {"spec", "deletionPolicy"}, hostile);
    FillFrom("evil", hostile);
  }

  // Each hostile text is printed a few times, and widens no line of others.
  static void ExpectShort(const Outcome& outcome, int fields) {
    EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error.substr(0, 1000);
    EXPECT_LT(outcome.out.size(), fields * HostileText().size() + (kOthers + 1) * 1000);
    ExpectHarmless(outcome.out);
    ExpectHarmless(outcome.error);
  }
};

TEST_F(HostileListTest, NoFormObeysThemAndNoOtherLineIsWider) {
  ExpectShort(Run({"-n", "shop"}), 5);
  ExpectShort(Run({"-A", "-o", "wide"}), 9);
  ExpectShort(Run({"-n", "shop", "-o", "yaml"}), 20);
  ExpectShort(Run({"-n", "shop", "-o", "name"}), 1);
  const Outcome json = Run({"-n", "shop", "-o", "json"});
  ExpectShort(json, 20);
  const Json list = ParseJson(json.out).value_or(Json::array());
  const auto evil = std::find_if(
      list.begin(), list.end(), [](const Json& one) { return GetString(one, {"name"}) == "evil"; });
  ASSERT_NE(evil, list.end());
  for (const char* const field : {"pvc", "handle", "driver", "class", "note", "workload", "set"}) {
    EXPECT_EQ(GetString(*evil, {field}), HostileText()) << field;
  }
  EXPECT_EQ(evil->at("used_by"), Json::array({HostileText()}));
  EXPECT_THAT(GetString(evil->at("conditions").at(0), {"message"}), HasSubstr(HostileText()));
}

// What makes VolumeSnapshots and PVCs, on a cluster whose controllers and driver work. There is a
// bound PVC "data" and a Ready VolumeSnapshot "monday" of it.
class HostileMakerTest : public SnapshotVerbTest {
 protected:
  explicit HostileMakerTest(const std::string& verb = "create") : SnapshotVerbTest(verb) {
    SeedBoundPvc(api_, "data", support::kDriver);
    api_.Seed(VolumeSnapshotClassType(), support::MakeClassObject("fast", support::kDriver));
    Ready("monday", "2023-11-13T05:00:00Z");
  }

  // In each form; what others wrote is printed a few times.
  void ExpectHarmlessInEachForm(const std::vector<std::string>& words) {
    for (const char* const form : {"table", "wide", "json", "yaml", "name"}) {
      std::vector<std::string> all = words;
      all.insert(all.end(), {"-n", "shop", "-o", form});
      const Outcome outcome = Run(all);
      ExpectHarmless(outcome.out);
      ExpectHarmless(outcome.error);
      EXPECT_LT(outcome.out.size() + outcome.error.size(), 10 * HostileText().size()) << form;
      if (form != std::string("name")) {
        EXPECT_THAT(outcome.out + outcome.error, HasSubstr("red \\u001b[31m\\u0007")) << form;
      }
    }
  }
};

TEST_F(HostileMakerTest, ErrorsOfADriverAreShownAndNotObeyed) {
  support::FakeSnapshotCluster cluster(api_);
  cluster.driver().Refuse("CreateSnapshot", "InvalidArgument", HostileText());
  ExpectHarmlessInEachForm({"data"});
  EXPECT_FALSE(IsThere("data"));
}

TEST_F(HostileMakerTest, NotesOfTheCallerAreShownAndNotObeyed) {
  support::FakeSnapshotCluster cluster(api_);
  const Outcome outcome =
      Run({"data", "-n", "shop", "--name", "noted", "--note", HostileText(), "-o", "json"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error.substr(0, 1000);
  ExpectHarmless(outcome.out);
  EXPECT_EQ(GetString(ParseJson(outcome.out).value_or(Json::array({Json()})).at(0), {"note"}),
            HostileText());
}

class HostilePromoteTest : public HostileMakerTest {
 protected:
  HostilePromoteTest() : HostileMakerTest("promote") {}
};

TEST_F(HostilePromoteTest, DriversOfStorageClassesAndForgedContents) {
  SeedStorageClass(api_, "good", support::kDriver);
  SeedStorageClass(api_, "evil", HostileText());
  ExpectHarmlessInEachForm({"monday", "copy", "--storage-class", "evil"});
  ChangeContent("monday", {"spec", "volumeSnapshotRef", "name"}, HostileText());
  ExpectHarmlessInEachForm({"monday", "copy", "--storage-class", "good"});
  EXPECT_EQ(api_.CallCount("create", "persistentvolumeclaims"), 0);
}

TEST_F(HostilePromoteTest, ErrorsOfTheProvisionerAreShownAndNotObeyed) {
  SeedStorageClass(api_, "good", support::kDriver);
  api_.OnCreate("persistentvolumeclaims", [](support::FakeApiClient& api, const Json& pvc) {
    Json event = support::MakeObject("v1", "Event", "shop", "of-" + k8s::Name(pvc));
    event["involvedObject"] = {{"uid", k8s::Uid(pvc)}};
    event["reason"] = "ProvisioningFailed";
    event["message"] = "rpc error: code = InvalidArgument desc = " + HostileText();
    api.Seed(EventType(), event);
  });
  for (const char* const form : {"table", "json", "yaml"}) {
    const Outcome outcome = Run({"monday", std::string("copy-") + form, "--storage-class", "good",
                                 "--wait", "-n", "shop", "-o", form});
    EXPECT_EQ(outcome.code, ExitCode::kFailed) << form;
    ExpectHarmless(outcome.out);
    ExpectHarmless(outcome.error);
    EXPECT_THAT(outcome.error, HasSubstr("red \\u001b[31m\\u0007")) << form;
  }
}

class HostileImportTest : public HostileMakerTest {
 protected:
  HostileImportTest() : HostileMakerTest("import") {}
};

TEST_F(HostileImportTest, HandlesAndWhatTheServerSays) {
  ExpectHarmlessInEachForm({HostileText(), "--driver", support::kDriver, "--dry-run"});
  // A handle that another content has, whose name and owner are not what they should be.
  ChangeContent("monday", {"spec", "source"}, Json{{"snapshotHandle", "h"}});
  ChangeContent("monday", {"spec", "volumeSnapshotRef", "name"}, HostileText());
  ExpectHarmlessInEachForm({"h", "--driver", support::kDriver});
  api_.FailNext("create", "volumesnapshotcontents", absl::InvalidArgumentError(HostileText()), 5);
  ExpectHarmlessInEachForm({"new", "--driver", support::kDriver});
}

}  // namespace
}  // namespace csidelta::cli::snapshot_hostile_test
