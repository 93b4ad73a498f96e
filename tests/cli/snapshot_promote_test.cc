// csi-delta snapshot promote: PVCs of VolumeSnapshots, all checks before the first is made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/json.h"
#include "base/yaml.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/cli/snapshot_verb_fixture.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::cli::snapshot_promote_test {
namespace {

using support::Strings;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kDriverName[] = "d.example.com";
class SnapshotPromoteTest : public SnapshotProgramTest {
 protected:
  SnapshotPromoteTest() {
    SeedStorageClass(api_, "fast", kDriverName);
    SeedStorageClass(api_, "late", kDriverName, "WaitForFirstConsumer");
    SeedStorageClass(api_, "other", "ebs.csi.aws.com");
    AddSnapshot("monday", "data");
    SeedFilledWhenBound(api_, kDriverName);
  }

  void AddSnapshot(const std::string& name, const std::string& pvc, const Strings& labels = {},
                   const Strings& annotations = {}) {
    Json source = support::MakeObject("v1", "PersistentVolumeClaim", "shop", pvc, {{"app", "db"}});
    source["spec"] = {{"storageClassName", "fast"},
                      {"accessModes", {"ReadWriteOnce"}},
                      {"resources", {{"requests", {{"storage", "1Gi"}}}}}};
    api_.Seed(PersistentVolumeClaimType(), source);
    Json snapshot =
        support::MakeSnapshotObject("shop", name, "content-of-" + name, labels, annotations);
    snapshot["spec"]["source"]["persistentVolumeClaimName"] = pvc;
    snapshot["status"]["readyToUse"] = true;
    snapshot["status"]["restoreSize"] = "1Gi";
    api_.Seed(VolumeSnapshotType(), snapshot);
    Json content = support::MakeContentObject("content-of-" + name, "shop", name, "h-" + name);
    content["spec"]["driver"] = kDriverName;
    content["spec"]["sourceVolumeMode"] = "Filesystem";
    api_.Seed(VolumeSnapshotContentType(), content);
  }

  Outcome Run(const std::vector<std::string>& more) const {
    return RunWords({"promote", "-n", "shop"}, more);
  }
  std::optional<Json> Claim(const std::string& name, const std::string& space = "shop") const {
    return api_.Find(ClaimKey(space, name));
  }
  int made() const { return api_.CallCount("create", "persistentvolumeclaims"); }

  static void Bind(support::FakeApiClient& api, const Json& claim) {
    const std::string uid = k8s::Uid(claim);
    Json volume = support::MakeObject("v1", "PersistentVolume", "", "pvc-" + uid);
    volume["spec"] = {{"csi", {{"driver", kDriverName}, {"volumeHandle", "v-" + uid}}},
                      {"claimRef", {{"uid", uid}}}};
    api.Seed(PersistentVolumeType(), volume);
    api.Mutate(ClaimKey(k8s::Namespace(claim), k8s::Name(claim)), [&](Json& bound) {
      bound["spec"]["volumeName"] = "pvc-" + uid;
      bound["status"] = {{"phase", "Bound"}, {"capacity", {{"storage", "2Gi"}}}};
      bound["metadata"]["managedFields"] =
          Json::array({{{"time", "2026-11-24T05:00:00Z"},
                        {"fieldsV1", {{"f:status", {{"f:phase", Json::object()}}}}}}});
    });
  }
  // Each PVC is bound as soon as it is made.
  void BindAtOnce() { api_.OnCreate("persistentvolumeclaims", Bind); }
};

TEST_F(SnapshotPromoteTest, MakesAPvcLikeTheSource) {
  const Outcome outcome = Run({"monday", "copy", "--labels-of", "data"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.error, IsEmpty());
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("PVC"), HasSubstr("copy"), HasSubstr("Pending"),
                                 HasSubstr("1.0 GiB"), HasSubstr("shop/monday")));
  const Json claim = *Claim("copy");
  EXPECT_EQ(GetString(claim, {"spec", "dataSource", "name"}), "monday");
  EXPECT_EQ(GetString(claim, {"spec", "storageClassName"}), "fast");
  EXPECT_EQ(k8s::Label(claim, "app"), "db");
}

TEST_F(SnapshotPromoteTest, ThePvcIsCalledAsTheVolumeSnapshotAndMadeAsAsked) {
  const Outcome outcome = Run({"monday", "--storage-class", "late", "--size", "3Gi", "--access",
                               "ReadOnlyMany", "--access", "ReadWriteMany", "-o", "json"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  const Json list = ParseJson(outcome.out).value_or(Json());
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(GetString(list.at(0), {"name"}), "monday");
  EXPECT_EQ(GetString(list.at(0), {"state"}), "WaitsForFirstConsumer");
  EXPECT_EQ(GetInt(list.at(0), {"size_bytes"}), int64_t{3} << 30);
  EXPECT_EQ(GetString(list.at(0), {"uid"}), k8s::Uid(*Claim("monday")));
  EXPECT_EQ(list.at(0)["access_modes"], Json::array({"ReadOnlyMany", "ReadWriteMany"}));
  EXPECT_TRUE(list.at(0)["bound_at"].is_null());
  EXPECT_EQ(GetString(*Claim("monday"), {"spec", "resources", "requests", "storage"}), "3Gi");
}

TEST_F(SnapshotPromoteTest, OtherForms) {
  EXPECT_EQ(Run({"monday", "a", "-o", "name"}).out, "persistentvolumeclaim/a\n");
  const absl::StatusOr<Json> yaml = ParseYaml(Run({"monday", "b", "-o", "yaml"}).out);
  ASSERT_THAT(yaml, support::IsOk());
  EXPECT_EQ(GetString(yaml->at(0), {"name"}), "b");
}

TEST_F(SnapshotPromoteTest, ADryRunMakesNothing) {
  const Outcome outcome = Run({"monday", "copy", "--dry-run", "--wait"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, HasSubstr("Planned"));
  EXPECT_EQ(made(), 0);
}

TEST_F(SnapshotPromoteTest, WaitsUntilItIsBoundAndSaysWhenAndHowLarge) {
  BindAtOnce();
  const Outcome outcome = Run({"monday", "copy", "--wait", "-o", "json"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  const Json one = ParseJson(outcome.out).value_or(Json()).at(0);
  EXPECT_EQ(GetString(one, {"state"}), "Bound");
  EXPECT_EQ(GetString(one, {"bound_at"}), "2026-11-24T05:00:00Z");
  EXPECT_EQ(GetInt(one, {"size_bytes"}), int64_t{2} << 30);
}

TEST_F(SnapshotPromoteTest, JsonHasALineForEachStepOfTheWaitAndTheResultLast) {
  int looks = 0;
  api_.SetInterceptor([&](const support::ApiCall& call, const Json*) {
    if (call.verb == "list" && call.plural == "events" && ++looks == 2) {
      Bind(api_, *Claim("copy"));
    }
    return absl::OkStatus();
  });
  api_.OnCreate("persistentvolumeclaims", [](support::FakeApiClient& api, const Json& claim) {
    Json event = support::MakeObject("v1", "Event", "shop", "one");
    event["involvedObject"] = {{"uid", k8s::Uid(claim)}};
    event["reason"] = "Provisioning";
    event["message"] = "is asked for";
    api.Seed(EventType(), event);
  });
  const Outcome outcome = Run({"monday", "copy", "--wait", "--json"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  std::vector<std::string> lines = absl::StrSplit(outcome.out, '\n', absl::SkipEmpty());
  ASSERT_GE(lines.size(), 2);
  const Json status = ParseJson(lines.front()).value_or(Json());
  EXPECT_EQ(GetString(status, {"message_type"}), "status");
  EXPECT_EQ(GetString(status, {"subject"}), "PVC shop/copy");
  EXPECT_EQ(GetString(status, {"state"}), "Pending");
  EXPECT_EQ(GetString(status, {"waits_for"}), "Provisioning: is asked for");
  EXPECT_EQ(GetString(ParseJson(lines.back())->at(0), {"state"}), "Bound");
}

TEST_F(SnapshotPromoteTest, APvcThatWaitsForAPodIsReportedAndNotWaitedFor) {
  const Outcome outcome = Run({"monday", "copy", "--storage-class", "late", "--wait"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, HasSubstr("WaitsForFirstConsumer"));
  EXPECT_THAT(outcome.error, HasSubstr("PVC copy is bound once a Pod uses it"));
}

struct Case {
  const char* what;
  std::function<void(support::FakeApiClient& api)> change;
  const char* text;
  std::vector<std::string> words = {"monday", "copy"};
  ExitCode code = ExitCode::kFailed;
};

std::vector<Case> Refusals() {
  const auto nothing = [](support::FakeApiClient&) {};
  return {
      {"not ready",
       [](support::FakeApiClient& api) {
         api.SetField(VolumeSnapshotKey("shop", "monday"), {"status", "readyToUse"}, false);
       },
       "with --wait this waits"},
      {"wrong driver",
       nothing,
       "StorageClass other is of driver ebs.csi.aws.com, the VolumeSnapshot of d.example.com; "
       "StorageClasses of driver d.example.com: fast, late",
       {"monday", "copy", "--storage-class", "other"}},
      {"too small",
       nothing,
       "1023Mi is less than the 1Gi that VolumeSnapshot shop/monday needs; give --size 1Gi",
       {"monday", "copy", "--size", "1023Mi"},
       ExitCode::kTargetTooSmall},
      {"too small, and more",
       nothing,
       "; and 1023Mi is less",
       {"monday", "Copy", "--size", "1023Mi"}},
      {"wrong mode", nothing, "allow-volume-mode-change", {"monday", "copy", "--mode", "Block"}},
      {"name taken", nothing, "shop/data exists already", {"monday", "data"}},
      {"bad access mode",
       nothing,
       "\"RWO\" is not an access mode",
       {"monday", "copy", "--access", "RWO"}},
      {"no such VolumeSnapshot", nothing, "VolumeSnapshot shop/friday does not exist", {"friday"}},
      {"no such PVC", nothing, "shop/none", {"monday", "copy", "--labels-of", "none"}}};
}

TEST_F(SnapshotPromoteTest, EachRefusalMakesNothing) {
  for (const Case& one : Refusals()) {
    AddSnapshot("monday", "data");
    one.change(api_);
    const Outcome outcome = Run(one.words);
    EXPECT_EQ(outcome.code, one.code) << one.what;
    EXPECT_THAT(outcome.error, HasSubstr(one.text)) << one.what;
    EXPECT_THAT(outcome.out, IsEmpty()) << one.what;
    EXPECT_EQ(made(), 0) << one.what;
  }
}

TEST_F(SnapshotPromoteTest, ArgumentsThatDoNotFitAreRefusedBeforeAnythingIsRead) {
  const std::vector<std::pair<std::vector<std::string>, const char*>> cases = {
      {{}, "name either one VolumeSnapshot or, with --set, a set"},
      {{"monday", "--set", "nightly"}, "name either one"},
      {{"monday", "copy", "--pvc-prefix", "a-"}, "a rule for its name"},
      {{"--set", "nightly", "--ordinal", "1"}, "--ordinal goes with --replica-of"},
      {{"--set", "nightly", "--replica-of", "db", "--pvc-suffix", "x"}, "name the PVC twice"},
      {{"--set", "nightly", "--from-namespace", "team"}, "takes one VolumeSnapshot"},
      {{"monday", "--size", "0"}, "--size is not more than 0"},
      {{"monday", "--size", "large"}, "large"},
      {{"monday", "-A"}, "leave out -A"},
      {{"monday", "-l", "app=db"}, "leave out -l"},
      {{"monday", "copy", "more"}, "--help"}};
  for (const auto& [words, text] : cases) {
    const Outcome outcome = Run(words);
    EXPECT_EQ(outcome.code, ExitCode::kFailed) << text;
    EXPECT_THAT(outcome.error, HasSubstr(text));
  }
  EXPECT_THAT(api_.calls(), IsEmpty());
}

TEST_F(SnapshotPromoteTest, WhatMayNotBeReadIsNamedAndNotChecked) {
  api_.Forbid("get", "volumesnapshotcontents");
  api_.Forbid("list", "storageclasses");
  const Outcome outcome = Run({"monday", "copy"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.error,
              AllOf(HasSubstr("binding not checked: "), HasSubstr("StorageClass not checked: ")));
  EXPECT_TRUE(Claim("copy").has_value());
}

// --- Sets

class SnapshotPromoteSetTest : public SnapshotPromoteTest {
 protected:
  SnapshotPromoteSetTest() {
    for (const char* number : {"0", "1", "2"}) {
      AddSnapshot(std::string("nightly-") + number, std::string("data-db-") + number,
                  {{objects::kSnapshotSetLabel, "nightly"}},
                  {{objects::kSnapshotWorkloadAnnotation, "StatefulSet/db"}});
    }
  }
};

TEST_F(SnapshotPromoteSetTest, AllOfASetBecomeThePvcsOfAnotherStatefulSet) {
  BindAtOnce();
  const Outcome outcome = Run({"--set", "nightly", "--replica-of", "test", "--wait"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  for (const char* number : {"0", "1", "2"}) {
    const std::optional<Json> claim = Claim(std::string("data-test-") + number);
    ASSERT_TRUE(claim.has_value()) << number;
    EXPECT_EQ(GetString(*claim, {"spec", "dataSource", "name"}), std::string("nightly-") + number);
    EXPECT_THAT(outcome.out, HasSubstr(std::string("data-test-") + number));
  }
}

TEST_F(SnapshotPromoteSetTest, NamesByPrefixOrOfTheVolumeSnapshots) {
  EXPECT_EQ(Run({"--set", "nightly", "--pvc-prefix", "old-", "-o", "name"}).out,
            "persistentvolumeclaim/old-data-db-0\npersistentvolumeclaim/old-data-db-1\n"
            "persistentvolumeclaim/old-data-db-2\n");
  EXPECT_EQ(Run({"--set", "nightly", "-o", "name"}).out,
            "persistentvolumeclaim/nightly-0\npersistentvolumeclaim/nightly-1\n"
            "persistentvolumeclaim/nightly-2\n");
}

TEST_F(SnapshotPromoteSetTest, ARefusalOfOneIsARefusalOfTheSet) {
  api_.Mutate(VolumeSnapshotKey("shop", "nightly-2"),
              [](Json& snapshot) { snapshot["status"]["readyToUse"] = false; });
  Outcome outcome = Run({"--set", "nightly", "--replica-of", "test"});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error,
              HasSubstr("PVC data-test-2 cannot be made of VolumeSnapshot nightly-2"));
  EXPECT_EQ(made(), 0);
  outcome = Run({"--set", "nightly", "--replica-of", "test", "--ordinal", "5"});
  EXPECT_THAT(outcome.error, HasSubstr("PVC data-test-5 would be made of VolumeSnapshot nightly-0 "
                                       "as well"));
  EXPECT_EQ(Run({"--set", "none"}).code, ExitCode::kFailed);
  EXPECT_EQ(made(), 0);
}

// --- Of another namespace

class SnapshotPromoteElsewhereTest : public SnapshotPromoteTest {
 protected:
  SnapshotPromoteElsewhereTest() {
    cluster_.strict = true;
    cluster_.driver().AddSnapshot("h-monday");
  }
  Outcome RunElsewhere(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"monday", "copy", "--from-namespace", "shop", "-n", "team"};
    words.insert(words.end(), more.begin(), more.end());
    return Run(words);
  }
  support::FakeSnapshotCluster cluster_{api_};
};

TEST_F(SnapshotPromoteElsewhereTest, ThePvcIsBoundAndNothingElseIsLeft) {
  const int before = api_.object_count();
  const Outcome outcome = RunElsewhere({});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("Bound"), HasSubstr("shop/monday")));
  EXPECT_THAT(outcome.error, HasSubstr("the snapshot stays that of shop/monday"));
  EXPECT_TRUE(Claim("copy", "team").has_value());
  EXPECT_EQ(api_.object_count(), before + 2);  // With its volume.
  EXPECT_EQ(cluster_.driver().CallCount("DeleteSnapshot"), 0);
}

TEST_F(SnapshotPromoteElsewhereTest, WithoutARightNothingIsMade) {
  api_.Forbid("get", "volumesnapshots", "shop");
  const Outcome outcome = RunElsewhere({});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error, HasSubstr("you may not get volumesnapshots in namespace shop; ask "
                                       "for the ClusterRole csi-delta-snapshot-user"));
  EXPECT_EQ(made(), 0);
}

TEST_F(SnapshotPromoteElsewhereTest, ADryRunMakesNothing) {
  const Outcome outcome = RunElsewhere({"--dry-run"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, HasSubstr("Planned"));
  EXPECT_EQ(api_.CallCount("create", "volumesnapshotcontents"), 0);
}

TEST_F(SnapshotPromoteElsewhereTest, APvcThatWaitsForAPodNamesTheNextRun) {
  const Outcome outcome = RunElsewhere({"--storage-class", "late"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("PVC copy is bound once a Pod uses it"),
                                   HasSubstr("stay until then: run this again")));
}

}  // namespace
}  // namespace csidelta::cli::snapshot_promote_test
