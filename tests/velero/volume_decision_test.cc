#include "velero/volume_decision.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "objects/data_transfer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"
#include "velero/labels.h"

namespace csidelta::velero::volume_decision_test {
namespace {

using objects::PersistentVolume;
using objects::PersistentVolumeClaim;
using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::HasSubstr;

constexpr auto kLeaveAlone = VolumeDecision::Kind::kLeaveAlone;
constexpr auto kSnapshot = VolumeDecision::Kind::kSnapshot;
constexpr auto kMove = VolumeDecision::Kind::kMove;
constexpr auto kAlreadyDone = VolumeDecision::Kind::kAlreadyDone;
constexpr auto kLonghorn = VolumeDecision::Kind::kLonghorn;

objects::Backup MakeBackup(const std::string& name) {
  return objects::Backup::Make("velero", name);
}

// A bound claim with a CSI volume in a backup without flags and policies; tests change parts.
struct Scene {
  objects::Backup backup = MakeBackup("nightly");
  void Spec(const char* field, Json value) {
    support::SetField(backup, {"spec", field}, std::move(value));
  }
  Json pvc = Json::parse(R"({"metadata":{"name":"data","namespace":"app"},
      "spec":{"volumeName":"pv-1","storageClassName":"fast"},"status":{"phase":"Bound"}})");
  Json pv = Json::parse(R"({"spec":{"storageClassName":"fast","csi":{"driver":"d"}}})");
  std::vector<Json> pods;
  std::string policies;  // the rules; "" for none
  bool enable_csi = true;
  bool ignore_claim_labels = false;
  // How often each query was made.
  int policy_queries = 0, pv_queries = 0, pod_queries = 0;

  std::optional<PersistentVolume> Volume() const {
    return pv.is_null() ? std::nullopt : std::optional(support::As<PersistentVolume>(pv));
  }

  absl::StatusOr<VolumeDecision> Decide() {
    const VolumeQueries queries = {
        .policies = [this]() -> absl::StatusOr<std::shared_ptr<const VolumePolicies>> {
          ++policy_queries;
          auto parsed = VolumePolicies::Parse("version: v1\nvolumePolicies: [" + policies + "]",
                                              "ConfigMap velero/p");
          if (!parsed.ok()) {
            return parsed.status();
          }
          return std::make_shared<const VolumePolicies>(*std::move(parsed));
        },
        .pv = [this]() -> absl::StatusOr<std::optional<PersistentVolume>> {
          ++pv_queries;
          return Volume();
        },
        .pods = [this]() -> absl::StatusOr<std::shared_ptr<const std::vector<objects::Pod>>> {
          ++pod_queries;
          return std::make_shared<const std::vector<objects::Pod>>(
              support::AllAs<objects::Pod>(pods));
        }};
    return DecideVolume({.backup = backup,
                         .pvc = support::As<PersistentVolumeClaim>(pvc),
                         .enable_csi = enable_csi,
                         .ignore_claim_labels = ignore_claim_labels},
                        queries);
  }
};

Json Pod(const Json& annotations) {
  return {{"metadata", {{"name", "db-0"}, {"annotations", annotations}}},
          {"spec",
           {{"volumes",
             {{{"name", "v"}, {"persistentVolumeClaim", {{"claimName", "data"}}}},
              {{"name", "w"}, {"persistentVolumeClaim", {{"claimName", "other"}}}},
              {{"name", "e"}, {"emptyDir", Json::object()}}}}}}};
}

const Json kOptIn = {{"backup.velero.io/backup-volumes", "e,v"}};
const Json kOptOut = {{"backup.velero.io/backup-volumes-excludes", "v"}};

std::string Custom(const std::string& value) {
  return "{action: {type: custom, parameters: {csi-delta: " + value + "}}}";
}

struct DecisionCase {
  const char* name;
  std::string policies;
  void (*change)(Scene&);  // null: nothing more
  VolumeDecision::Kind want;
  const char* want_reason;
  bool want_warn = false;
};
class VolumeDecisionTest : public testing::TestWithParam<DecisionCase> {};

TEST_P(VolumeDecisionTest, FollowsTheTable) {
  Scene scene;
  scene.policies = GetParam().policies;
  if (GetParam().change != nullptr) {
    GetParam().change(scene);
  }
  const auto decision = scene.Decide();
  ASSERT_THAT(decision, IsOk());
  EXPECT_EQ(decision->kind, GetParam().want) << decision->reason;
  EXPECT_THAT(decision->reason, HasSubstr(GetParam().want_reason));
  EXPECT_EQ(decision->warn, GetParam().want_warn) << decision->reason;
  EXPECT_EQ(decision->pv == PersistentVolume(),
            decision->kind != kSnapshot && decision->kind != kMove && decision->kind != kLonghorn);
  EXPECT_LE(scene.policy_queries, 1);
  EXPECT_LE(scene.pv_queries, 1);
  EXPECT_LE(scene.pod_queries, 1);
}

// A volume of Longhorn, and a rule that gives it to Longhorn.
void GiveToLonghorn(Scene& scene) {
  SetJson(scene.pv, {"spec", "csi", "driver"}, kLonghornDriver);
  scene.policies = Custom("longhorn");
}

void MoveByUs(Scene& scene) {
  scene.Spec("snapshotMoveData", true);
  scene.Spec("datamover", objects::kDataMoverName);
}

const DecisionCase kDecisions[] = {
    // Of Longhorn.
    {"Native", "", GiveToLonghorn, kLonghorn, "for a native snapshot of Longhorn"},
    {"NativeWithoutEnableCsi", "",
     [](Scene& s) {
       GiveToLonghorn(s);
       s.enable_csi = false;
     },
     kLonghorn, "gives this volume to csi-delta"},
    {"NativeThoughTheBackupMovesData", "",
     [](Scene& s) {
       GiveToLonghorn(s);
       MoveByUs(s);
     },
     kLonghorn, "native"},
    {"NeverUnasked", "",
     [](Scene& s) {
       SetJson(s.pv, {"spec", "csi", "driver"}, kLonghornDriver);
     },
     kSnapshot, "the backup snapshots its volumes"},
    {"UnboundClaimOfLonghorn", "",
     [](Scene& s) {
       GiveToLonghorn(s);
       s.pvc["status"]["phase"] = "Lost";
     },
     kLeaveAlone, "cannot be used", true},
    {"UnboundClaimOfLonghornWithoutEnableCsi", "",
     [](Scene& s) {
       GiveToLonghorn(s);
       s.enable_csi = false;
       s.pv = Json();
     },
     kLeaveAlone, "does not exist", true},
    // Moved.
    {"RuleMove", Custom("move"), nullptr, kMove,
     "and volume policy 1 of ConfigMap velero/p asks csi-delta to move the data"},
    {"RuleMoveBeatsFlags", Custom("move"),
     [](Scene& s) {
       s.Spec("snapshotVolumes", false);
       s.Spec("datamover", "velero");
     },
     kMove, ""},
    {"TrueWithMoveData", Custom("\"true\""), [](Scene& s) { s.Spec("snapshotMoveData", true); },
     kMove, "and Backup nightly asks csi-delta to move the data"},
    {"OurMoverWithoutRule", "", MoveByUs, kMove, "Backup nightly asks csi-delta to move the data"},
    {"OurMoverWithSnapshotRule", "{action: {type: snapshot}}", MoveByUs, kMove,
     "Backup nightly asks csi-delta to move the data"},
    {"OurMoverButNotAskedToMove", "", [](Scene& s) { s.Spec("datamover", "csi-delta"); }, kSnapshot,
     "the backup snapshots its volumes"},
    {"SnapshotRuleInABackupThatMoves", Custom("snapshot"), MoveByUs, kSnapshot,
     "gives this volume to csi-delta"},
    // Ours.
    {"NoFlagsNoPolicy", "", nullptr, kSnapshot, "the backup snapshots its volumes"},
    {"SnapshotVolumesTrue", "", [](Scene& s) { s.Spec("snapshotVolumes", true); }, kSnapshot, ""},
    {"RuleSnapshot", "{action: {type: snapshot}}", nullptr, kSnapshot,
     "volume policy 1 of ConfigMap velero/p asks for a volume snapshot"},
    {"RuleSnapshotBeatsFlag", "{action: {type: snapshot}}",
     [](Scene& s) { s.Spec("snapshotVolumes", false); }, kSnapshot, "asks for a volume snapshot"},
    {"RuleSnapshotBeatsFsBackup", "{action: {type: snapshot}}",
     [](Scene& s) { s.pods = {Pod(kOptIn)}; }, kSnapshot, "asks for a volume snapshot"},
    {"RuleDoesNotMatch", "{conditions: {nfs: {}}, action: {type: skip}}", nullptr, kSnapshot,
     "the backup snapshots its volumes"},
    {"CustomSnapshot", Custom("snapshot"), nullptr, kSnapshot, "gives this volume to csi-delta"},
    {"CustomSnapshotBeatsFlag", Custom("snapshot"),
     [](Scene& s) { s.Spec("snapshotVolumes", false); }, kSnapshot,
     "gives this volume to csi-delta"},
    {"CustomSnapshotBeatsMoveData", Custom("snapshot"),
     [](Scene& s) { s.Spec("snapshotMoveData", true); }, kSnapshot,
     "gives this volume to csi-delta"},
    {"CustomTrueWithoutMoveData", Custom("\"true\""), nullptr, kSnapshot,
     "gives this volume to csi-delta"},
    {"CustomTrueUnquoted", Custom("true"), nullptr, kSnapshot, "gives this volume to csi-delta"},
    // Ours despite Pods and labels.
    {"PodWithoutAnnotation", "", [](Scene& s) { s.pods = {Pod(Json::object())}; }, kSnapshot, ""},
    {"OptedInOtherVolume", "",
     [](Scene& s) {
       s.pods = {Pod({{"backup.velero.io/backup-volumes", "w,e"}})};
     },
     kSnapshot, ""},
    {"OptInIsNotTrimmed", "",
     [](Scene& s) {
       s.pods = {Pod({{"backup.velero.io/backup-volumes", "e, v"}})};
     },
     kSnapshot, ""},
    {"OptedOut", "",
     [](Scene& s) {
       s.Spec("defaultVolumesToFsBackup", true);
       s.pods = {Pod(kOptOut)};
     },
     kSnapshot, ""},
    {"FsBackupByDefaultWithoutPods", "", [](Scene& s) { s.Spec("defaultVolumesToFsBackup", true); },
     kSnapshot, ""},
    {"LabelsOfAnotherBackup", "",
     [](Scene& s) {
       s.pvc["metadata"]["labels"] = {{"velero.io/volume-snapshot-name", "vs"},
                                      {"velero.io/backup-name", "older"}};
     },
     kSnapshot, ""},
    {"StaleAnnotations", "",
     [](Scene& s) {
       s.pvc["metadata"]["annotations"] = {{"velero.io/volume-snapshot-name", "vs"},
                                           {"velero.io/data-upload-name", "velero/du"}};
     },
     kSnapshot, ""},
    {"BackupLabelAlone", "",
     [](Scene& s) {
       s.pvc["metadata"]["labels"] = {{"velero.io/backup-name", "nightly"}};
     },
     kSnapshot, ""},
    {"LabelsFoundStale", "",
     [](Scene& s) {
       s.pvc["metadata"]["labels"] = {{"velero.io/volume-snapshot-name", "vs"},
                                      {"velero.io/backup-name", "nightly"}};
       s.ignore_claim_labels = true;
     },
     kSnapshot, ""},
    // Left alone.
    {"EnableCsiOff", "", [](Scene& s) { s.enable_csi = false; }, kLeaveAlone, "EnableCSI"},
    {"EnableCsiOffBeatsPolicy", Custom("move"), [](Scene& s) { s.enable_csi = false; }, kLeaveAlone,
     "it is not backed up", true},
    {"EnableCsiOffWithAnothersPolicy", "{action: {type: custom, parameters: {acme: yes}}}",
     [](Scene& s) { s.enable_csi = false; }, kLeaveAlone, "EnableCSI"},
    {"Finalizing", "",
     [](Scene& s) {
       support::SetField(s.backup, {"status", "phase"}, "FinalizingPartiallyFailed");
     },
     kLeaveAlone, "finalized"},
    {"SnapshotVolumesFalse", "", [](Scene& s) { s.Spec("snapshotVolumes", false); }, kLeaveAlone,
     "snapshotVolumes"},
    {"SnapshotVolumesFalseWithOtherRules", "{conditions: {nfs: {}}, action: {type: snapshot}}",
     [](Scene& s) { s.Spec("snapshotVolumes", false); }, kLeaveAlone, "snapshotVolumes"},
    {"Skip", "{action: {type: skip}}", nullptr, kLeaveAlone, "skips"},
    {"FsBackupRule", "{action: {type: fs-backup}}", nullptr, kLeaveAlone, "file-system backup"},
    {"CustomOfAnotherPlugin", "{action: {type: custom, parameters: {acme: yes}}}", nullptr,
     kLeaveAlone, "another plugin"},
    {"CustomWithoutParameters", "{action: {type: custom}}", nullptr, kLeaveAlone, "another plugin"},
    {"ParameterKeyCase", "{action: {type: custom, parameters: {CSI-Delta: move}}}", nullptr,
     kLeaveAlone, "another plugin"},
    {"FirstRuleWins", "{action: {type: skip}}, " + Custom("snapshot"), nullptr, kLeaveAlone,
     "skips"},
    {"OurParameterOnOtherType", "{action: {type: skip, parameters: {csi-delta: move}}}", nullptr,
     kLeaveAlone, "skips"},
    {"Undecidable", "{conditions: {moon: full}, action: {type: snapshot}}", nullptr, kLeaveAlone,
     "condition \"moon\" is not known, so this volume is left alone", true},
    {"OptedInToFsBackup", "",
     [](Scene& s) {
       s.pods = {Json(), Pod(kOptIn)};
     },
     kLeaveAlone, "file-system backup takes this volume in pod db-0"},
    {"FsBackupByDefault", "",
     [](Scene& s) {
       s.Spec("defaultVolumesToFsBackup", true);
       s.pods = {Pod(Json::object())};
     },
     kLeaveAlone, "file-system backup takes this volume in pod db-0"},
    {"FsBackupDespiteMoveData", "",
     [](Scene& s) {
       MoveByUs(s);
       s.pods = {Pod(kOptIn)};
     },
     kLeaveAlone, "file-system backup"},
    {"Pending", "", [](Scene& s) { s.pvc["status"]["phase"] = "Pending"; }, kLeaveAlone,
     "phase is \"Pending\""},
    {"Lost", "", [](Scene& s) { s.pvc["status"]["phase"] = "Lost"; }, kLeaveAlone,
     "phase is \"Lost\""},
    {"NoPhase", "", [](Scene& s) { s.pvc.erase("status"); }, kLeaveAlone, "no volume"},
    {"NoVolumeName", "", [](Scene& s) { s.pvc["spec"].erase("volumeName"); }, kLeaveAlone,
     "no volume"},
    {"VolumeGone", "", [](Scene& s) { s.pv = nullptr; }, kLeaveAlone, "no volume"},
    {"PendingThoughOurs", Custom("snapshot"),
     [](Scene& s) { s.pvc["status"]["phase"] = "Pending"; }, kLeaveAlone, "no volume"},
    {"LostThoughOurs", Custom("snapshot"), [](Scene& s) { s.pvc["status"]["phase"] = "Lost"; },
     kLeaveAlone, "phase is \"Lost\"", true},
    {"VolumeGoneThoughOurs", Custom("snapshot"), [](Scene& s) { s.pv = nullptr; }, kLeaveAlone,
     "does not exist", true},
    {"PendingThoughMove", Custom("move"), [](Scene& s) { s.pvc["status"]["phase"] = "Pending"; },
     kLeaveAlone, "no volume"},
    // What we cannot take.
    {"NotCsi", "",
     [](Scene& s) {
       s.pv = {{"spec", {{"awsElasticBlockStore", Json::object()}}}};
     },
     kLeaveAlone, "not a CSI volume"},
    {"NotCsiThoughOurs", Custom("snapshot"),
     [](Scene& s) {
       s.pv = {{"spec", {{"hostPath", Json::object()}}}};
     },
     kLeaveAlone, "not a CSI volume", true},
    {"NotCsiThoughSnapshotRule", "{action: {type: snapshot}}",
     [](Scene& s) {
       s.pv = {{"spec", {{"csi", "text"}}}};
     },
     kLeaveAlone, "not a CSI volume"},
    {"VelerosMoverDidNotTakeIt", "", [](Scene& s) { s.Spec("snapshotMoveData", true); },
     kLeaveAlone, "data movement by \"velero\" was asked for", true},
    {"VelerosMoverDidNotTakeItByRule", "{action: {type: snapshot}}",
     [](Scene& s) {
       s.Spec("snapshotMoveData", true);
       s.Spec("datamover", "velero-block");
     },
     kLeaveAlone, "data movement by \"velero-block\" was asked for", true},
    {"AnotherMoverDidNotTakeIt", "",
     [](Scene& s) {
       s.Spec("snapshotMoveData", true);
       s.Spec("datamover", "acme");
     },
     kLeaveAlone, "data movement by \"acme\" was asked for", true},
};
INSTANTIATE_TEST_SUITE_P(Table, VolumeDecisionTest, testing::ValuesIn(kDecisions),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(DecideVolumeTest, FindsWhatAnotherActionDidAndAsksNothing) {
  for (const std::string& backup : {std::string("nightly"), std::string(80, 'b')}) {
    for (const std::string& label : {backup, ValidLabelValue(backup)}) {
      Scene scene;
      support::SetField(scene.backup, {"metadata", "name"}, backup);
      scene.policies = Custom("wrong");
      scene.pvc["metadata"]["labels"] = {{"velero.io/volume-snapshot-name", "velero-data-x"},
                                         {"velero.io/backup-name", label}};
      const auto decision = scene.Decide();
      ASSERT_THAT(decision, IsOk());
      EXPECT_EQ(decision->kind, kAlreadyDone);
      EXPECT_EQ(decision->volume_snapshot_name, "velero-data-x");
      EXPECT_EQ(scene.policy_queries + scene.pv_queries + scene.pod_queries, 0);
    }
  }
}

// The data of such claims would be stored for nothing: what made them makes them again.
TEST(DecideVolumeTest, ClaimsThatAreMadeAgainAreLeftAlone) {
  const auto pod = [](const char* uid, const Json& volume) {
    return Json{{"metadata", {{"name", "web"}, {"uid", uid}}},
                {"spec", {{"volumes", Json::array({volume})}}}};
  };
  const Json ephemeral = {{"name", "cache"},
                          {"ephemeral", {{"volumeClaimTemplate", Json::object()}}}};
  const Json named = {{"name", "cache"}, {"persistentVolumeClaim", {{"claimName", "web-cache"}}}};
  struct Case {
    const char* name;
    const char* claim;
    const char* owner;  // kind
    Json pod;
    const char* want_reason;  // "": the volume is taken
  };
  for (const Case& test : std::vector<Case>{
           {"ephemeral", "web-cache", "Pod", pod("u", ephemeral), "volume of Pod web, and"},
           {"of an earlier Pod", "web-cache", "Pod", pod("other", ephemeral), ""},
           {"that the Pod only names", "web-cache", "Pod", pod("u", named), ""},
           {"of another claim", "other", "Pod", pod("u", ephemeral), ""},
           {"of another kind", "web-cache", "Database", pod("u", ephemeral), ""},
           {"prime", "prime-0b1c2d3e-4f50-6172-8394-a5b6c7d8e9fa", "", {}, "a populator is"},
           {"no uid", "prime-0b1c2d3e-4f50-6172-8394-a5b6c7d8e9fz", "", {}, ""},
           {"longer", "prime-0b1c2d3e-4f50-6172-8394-a5b6c7d8e9fa0", "", {}, ""},
           {"prime numbers", "prime-numbers", "", {}, ""}}) {
    for (const char* policy : {"", "snapshot", "move"}) {
      Scene scene;
      scene.policies = *policy == '\0' ? "" : Custom(policy);
      scene.pvc["metadata"]["name"] = test.claim;
      if (*test.owner != '\0') {
        scene.pvc["metadata"]["ownerReferences"] = Json::array(
            {{{"apiVersion", "v1"}, {"kind", test.owner}, {"name", "web"}, {"uid", "u"}}});
        scene.pods = {test.pod};
      }
      const auto decision = scene.Decide();
      ASSERT_THAT(decision, IsOk());
      EXPECT_EQ(decision->kind == kLeaveAlone, *test.want_reason != '\0') << test.name << policy;
      EXPECT_EQ(decision->warn, *test.want_reason != '\0') << test.name << policy;
      EXPECT_THAT(decision->reason, HasSubstr(test.want_reason)) << test.name << policy;
    }
  }
}

TEST(DecideVolumeTest, AsksOnlyWhatTheAnswerDependsOn) {
  Scene off;
  off.Spec("snapshotVolumes", false);
  ASSERT_THAT(off.Decide(), IsOk());
  EXPECT_EQ(off.pv_queries, 0) << "no rule can want it";

  Scene ruled;
  ruled.policies = Custom("snapshot");
  ASSERT_THAT(ruled.Decide(), IsOk());
  EXPECT_EQ(ruled.pod_queries, 0) << "pods matter only without a rule";

  Scene not_csi;
  not_csi.pv = {{"spec", Json::object()}};
  ASSERT_THAT(not_csi.Decide(), IsOk());
  EXPECT_EQ(not_csi.pod_queries, 0);
}

TEST(DecideVolumeTest, PassesVolumeAndSnapshotClass) {
  for (const char* type : {"snapshot", "custom"}) {
    Scene scene;
    scene.policies = std::string("{action: {type: ") + type +
                     ", parameters: {csi-delta: snapshot, snapshotClass: gold}}}";
    const auto decision = scene.Decide();
    ASSERT_THAT(decision, IsOk());
    EXPECT_EQ(decision->snapshot_class, "gold");
    EXPECT_EQ(decision->pv.json(), scene.pv);
  }
}

struct RefusalCase {
  const char* name;
  void (*change)(Scene&);
  absl::StatusCode want;
  const char* want_message;
};
class RefusedVolumeTest : public testing::TestWithParam<RefusalCase> {};

TEST_P(RefusedVolumeTest, NamesTheClaim) {
  Scene scene;
  GetParam().change(scene);
  EXPECT_THAT(scene.Decide(),
              StatusIs(GetParam().want, AllOf(HasSubstr("PersistentVolumeClaim app/data: "),
                                              HasSubstr(GetParam().want_message))));
}

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr char kLegal[] = "is not snapshot, move, longhorn or \"true\"";

constexpr char kLongest[] =  // 64 of its bytes.
    ": \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\" is not";

INSTANTIATE_TEST_SUITE_P(
    Table, RefusedVolumeTest,
    testing::ValuesIn(std::vector<RefusalCase>{
        {"ValueFalse", [](Scene& s) { s.policies = Custom("\"false\""); }, kInvalid, kLegal},
        {"ValueEmpty", [](Scene& s) { s.policies = Custom("\"\""); }, kInvalid, kLegal},
        {"ValueNull", [](Scene& s) { s.policies = Custom(""); }, kInvalid, kLegal},
        {"ValueCase", [](Scene& s) { s.policies = Custom("Snapshot"); }, kInvalid, kLegal},
        {"ValueTrueCase", [](Scene& s) { s.policies = Custom("True"); }, kInvalid, kLegal},
        {"ValueYes", [](Scene& s) { s.policies = Custom("yes"); }, kInvalid, kLegal},
        {"ValueSpace", [](Scene& s) { s.policies = Custom("\"move \""); }, kInvalid, kLegal},
        {"ValueList", [](Scene& s) { s.policies = Custom("[snapshot]"); }, kInvalid, kLegal},
        {"ValueMap", [](Scene& s) { s.policies = Custom("{snapshot: move}"); }, kInvalid, kLegal},
        {"ValueNumber", [](Scene& s) { s.policies = Custom("1"); }, kInvalid, "\"1\" is not"},
        {"ValueLong", [](Scene& s) { s.policies = Custom(std::string(1000, 'x')); }, kInvalid,
         kLongest},
        {"LonghornForAnotherDriver", [](Scene& s) { s.policies = Custom("longhorn"); }, kInvalid,
         "volume policy 1 of ConfigMap velero/p: csi-delta: longhorn is for volumes of "
         "driver.longhorn.io, and this one is of \"d\"; legal here: snapshot, move and \"true\""},
        {"LonghornForAnotherDriverWithoutEnableCsi",
         [](Scene& s) {
           s.enable_csi = false;
           s.policies = Custom("longhorn");
         },
         kInvalid, "driver.longhorn.io"},
        {"LonghornWithAClass",
         [](Scene& s) {
           GiveToLonghorn(s);
           s.policies =
               "{action: {type: custom, parameters: {csi-delta: longhorn, snapshotClass: c}}}";
         },
         kInvalid, "remove snapshotClass from the rule"},
        {"NamesTheRule", [](Scene& s) { s.policies = Custom("x"); }, kInvalid,
         "volume policy 1 of ConfigMap velero/p: parameter csi-delta"},
        {"WrongValueOfUnboundClaim",
         [](Scene& s) {
           s.policies = Custom("x");
           s.pvc["status"]["phase"] = "Pending";
         },
         kInvalid, kLegal},
    }),
    [](const auto& test) { return std::string(test.param.name); });

TEST(DecideVolumeTest, ReturnsTheErrorsOfQueriesUnchanged) {
  const absl::Status down = absl::UnavailableError("down");
  const objects::Backup backup = MakeBackup("b");
  const auto pvc = support::As<PersistentVolumeClaim>(Scene().pvc);
  VolumeQueries queries = {
      .policies = [] { return std::make_shared<const VolumePolicies>(); },
      .pv = [] { return Scene().Volume(); },
      .pods = [] { return std::make_shared<const std::vector<objects::Pod>>(); }};
  const DecisionInput input = {.backup = backup, .pvc = pvc, .enable_csi = true};
  ASSERT_THAT(DecideVolume(input, queries), IsOk());
  queries.pods = [down] { return down; };
  EXPECT_EQ(DecideVolume(input, queries).status(), down);
  queries.pv = [down] { return down; };
  EXPECT_EQ(DecideVolume(input, queries).status(), down);
  queries.policies = [down] { return down; };
  EXPECT_EQ(DecideVolume(input, queries).status(), down);
}

TEST(FsBackupTakesClaimTest, ToleratesStrangePods) {
  objects::Backup backup = MakeBackup("b");
  support::SetField(backup, {"spec", "defaultVolumesToFsBackup"}, true);
  for (const char* text : {"{}", R"({"spec":[]})", R"({"spec":{"volumes":{}}})",
                           R"({"spec":{"volumes":[null,7,{"persistentVolumeClaim":"data"}]}})"}) {
    EXPECT_FALSE(FsBackupTakesClaim(backup, support::As<objects::Pod>(*ParseJson(text)), "data"))
        << text;
  }
}

}  // namespace
}  // namespace csidelta::velero::volume_decision_test
