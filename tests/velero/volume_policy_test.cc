#include "velero/volume_policy.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"
#include "tests/support/velero_119_objects.h"

namespace csidelta::velero::volume_policy_test {
namespace {

using objects::ConfigMap;
using objects::PersistentVolume;
using objects::PersistentVolumeClaim;
using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

PersistentVolumeClaim Claim() {
  return support::As<PersistentVolumeClaim>(
      *ParseJson(R"({"metadata":{"name":"data","namespace":"app",
      "labels":{"tier":"gold","app":"db"}},
    "spec":{"volumeName":"pv-1","volumeMode":"Block","accessModes":["ReadWriteOnce","ReadOnlyMany"]},
    "status":{"phase":"Bound"}})"));
}

PersistentVolume CsiVolume() {
  return support::As<PersistentVolume>(
      *ParseJson(R"({"metadata":{"name":"pv-1"},"spec":{"storageClassName":"fast",
    "capacity":{"storage":"10Gi"},
    "csi":{"driver":"csi.example.com","volumeAttributes":{"pool":"a","tier":"hot"}}}})"));
}

PersistentVolume VolumeOf(const std::string& type, const std::string& source) {
  return support::As<PersistentVolume>(
      *ParseJson(R"({"spec":{"capacity":{"storage":"1Gi"},")" + type + "\":" + source + "}}"));
}

VolumePolicies Parse(const std::string& rules) {
  auto policies = VolumePolicies::Parse("version: v1\nvolumePolicies:\n" + rules, "ConfigMap v/p");
  EXPECT_THAT(policies, IsOk());
  return policies.ok() ? *std::move(policies) : VolumePolicies();
}

VolumePolicies ParseCondition(const std::string& conditions) {
  return Parse("- {conditions: {" + conditions + "}, action: {type: snapshot}}\n");
}

// What a condition is looked at with: the claim and volume above, the claim and a share, or a claim
// that nothing is known of and no volume.
enum Against { kCsi, kNfs, kNothing };
struct ConditionCase {
  const char* name;
  std::string condition;
  bool want;
  Against against = kCsi;
};
class VolumeConditionTest : public testing::TestWithParam<ConditionCase> {};

TEST_P(VolumeConditionTest, Decides) {
  const Against against = GetParam().against;
  const PersistentVolumeClaim pvc = against == kNothing ? PersistentVolumeClaim() : Claim();
  const PersistentVolume pv =
      against == kNfs ? VolumeOf("nfs", R"({"server":"10.0.0.1","path":"/export"})") : CsiVolume();
  EXPECT_EQ(ParseCondition(GetParam().condition)
                .Match({.pvc = pvc, .pv = against == kNothing ? nullptr : &pv})
                .kind,
            GetParam().want ? PolicyMatch::Kind::kRule : PolicyMatch::Kind::kNoMatch);
}

const ConditionCase kConditions[] = {
    {"None", "", true},
    {"CapacityInside", "capacity: \"5Gi,20Gi\"", true},
    {"CapacityLowerInclusive", "capacity: \"10Gi,20Gi\"", true},
    {"CapacityUpperInclusive", "capacity: \"5Gi,10Gi\"", true},
    {"CapacityBelow", "capacity: \"11Gi,20Gi\"", false},
    {"CapacityAbove", "capacity: \"1Gi,9Gi\"", false},
    {"CapacityNoUpper", "capacity: \"10Gi,\"", true},
    {"CapacityNoUpperBelow", "capacity: \"10737418241,\"", false},
    {"CapacityNoLower", "capacity: \",10Gi\"", true},
    {"CapacityNoLowerAbove", "capacity: \"0,9.9Gi\"", false},
    {"CapacityZeroUpper", "capacity: \"1Gi,0\"", true},
    {"CapacityOpen", "capacity: \",\"", true},
    {"CapacityZeros", "capacity: \"0,0\"", true},
    {"CapacityEmpty", "capacity: \"\"", true},
    {"CapacitySpaces", "capacity: \" 5Gi , 20Gi \"", true},
    {"StorageClass", "storageClass: [slow, fast]", true},
    {"StorageClassOther", "storageClass: [slow]", false},
    {"StorageClassCase", "storageClass: [Fast]", false},
    {"StorageClassEmptyList", "storageClass: []", true},
    {"StorageClassNullElement", "storageClass: [~]", true},
    {"StorageClassNull", "storageClass: ", true},
    {"CsiAny", "csi: {}", true},
    {"CsiNull", "csi: ", true},
    {"CsiDriver", "csi: {driver: csi.example.com}", true},
    {"CsiDriverOther", "csi: {driver: other}", false},
    {"CsiAttributes", "csi: {driver: csi.example.com, volumeAttributes: {pool: a}}", true},
    {"CsiAttributeOther", "csi: {driver: csi.example.com, volumeAttributes: {pool: b}}", false},
    {"CsiAttributeMissing", "csi: {driver: csi.example.com, volumeAttributes: {x: a}}", false},
    {"CsiAttributeMissingIsEmpty", "csi: {driver: csi.example.com, volumeAttributes: {x: \"\"}}",
     true},
    {"CsiAttributesAll", "csi: {driver: csi.example.com, volumeAttributes: {pool: a, tier: cold}}",
     false},
    {"NfsOnCsi", "nfs: {}", false},
    {"NfsNull", "nfs: ", true},
    {"VolumeType", "volumeTypes: [nfs, csi]", true},
    {"VolumeTypeOther", "volumeTypes: [nfs]", false},
    {"VolumeTypeCase", "volumeTypes: [CSI]", false},
    {"VolumeTypeUnknown", "volumeTypes: [holographic]", false},
    {"VolumeTypesEmpty", "volumeTypes: []", true},
    {"Labels", "pvcLabels: {tier: gold}", true},
    {"LabelsAll", "pvcLabels: {tier: gold, app: db}", true},
    {"LabelsOther", "pvcLabels: {tier: silver}", false},
    {"LabelsMissing", "pvcLabels: {tier: gold, owner: me}", false},
    {"LabelsMissingIsNotEmpty", "pvcLabels: {owner: \"\"}", false},
    {"LabelsEmpty", "pvcLabels: {}", true},
    {"Phase", "pvcPhase: [Pending, Bound]", true},
    {"PhaseOther", "pvcPhase: [Pending]", false},
    {"PhaseEmpty", "pvcPhase: []", true},
    {"VolumeMode", "pvcVolumeMode: Block", true},
    {"VolumeModeOther", "pvcVolumeMode: Filesystem", false},
    {"AccessModes", "pvcAccessModes: [ReadOnlyMany, ReadWriteOnce]", true},
    {"AccessModesTwice", "pvcAccessModes: [ReadOnlyMany, ReadWriteOnce, ReadOnlyMany]", true},
    {"AccessModesSubset", "pvcAccessModes: [ReadWriteOnce]", false},
    {"AccessModesMore", "pvcAccessModes: [ReadOnlyMany, ReadWriteOnce, ReadWriteMany]", false},
    {"AccessModesEmpty", "pvcAccessModes: []", true},
    {"AllHold", "capacity: \"1Gi,\", storageClass: [fast], csi: {}, pvcLabels: {tier: gold}", true},
    {"OneFails", "capacity: \"1Gi,\", storageClass: [fast], csi: {}, pvcLabels: {tier: x}", false},
    {"NfsAny", "nfs: {}", true, kNfs},
    {"NfsServer", "nfs: {server: 10.0.0.1}", true, kNfs},
    {"NfsServerOther", "nfs: {server: 10.0.0.2}", false, kNfs},
    {"NfsPath", "nfs: {path: /export}", true, kNfs},
    {"NfsPathOther", "nfs: {path: /}", false, kNfs},
    {"NfsBoth", "nfs: {server: 10.0.0.1, path: /export}", true, kNfs},
    {"NfsBothOtherServer", "nfs: {server: x, path: /export}", false, kNfs},
    {"NfsEmptyTexts", "nfs: {server: \"\", path: \"\"}", true, kNfs},
    {"NfsCsiOnNfs", "csi: {}", false, kNfs},
    {"BareNoCondition", "", true, kNothing},
    {"BareCapacityCountsAsZero", "capacity: \"0,10Gi\"", true, kNothing},
    {"BareCapacityAboveZero", "capacity: \"1,\"", false, kNothing},
    {"BareStorageClass", "storageClass: [fast]", false, kNothing},
    {"BareStorageClassEmptyText", "storageClass: [\"\"]", false, kNothing},
    {"BareCsi", "csi: {}", false, kNothing},
    {"BareNfs", "nfs: {}", false, kNothing},
    {"BareVolumeTypes", "volumeTypes: [csi]", false, kNothing},
    {"BareLabels", "pvcLabels: {a: b}", false, kNothing},
    {"BarePhase", "pvcPhase: [Bound]", false, kNothing},
    {"BarePhaseEmptyText", "pvcPhase: [\"\"]", false, kNothing},
    {"BareVolumeModeIsNotImplied", "pvcVolumeMode: Filesystem", false, kNothing},
    {"BareAccessModes", "pvcAccessModes: [ReadWriteOnce]", false, kNothing},
};
INSTANTIATE_TEST_SUITE_P(Table, VolumeConditionTest, testing::ValuesIn(kConditions),
                         [](const auto& test) { return std::string(test.param.name); });

// Every type of persistent volume under the name that policies use.
class VolumeTypeTest : public testing::TestWithParam<const char*> {};

TEST_P(VolumeTypeTest, IsKnown) {
  const std::string name = GetParam();
  const PersistentVolumeClaim pvc = Claim();
  const PersistentVolume pv = VolumeOf(name == "storageOS" ? "storageos" : name, "{}");
  const VolumePolicies policies = ParseCondition(absl::StrCat("volumeTypes: [", name, "]"));
  EXPECT_EQ(policies.Match({.pvc = pvc, .pv = &pv}).kind, PolicyMatch::Kind::kRule);
  EXPECT_EQ(policies.Match({.pvc = pvc}).kind, PolicyMatch::Kind::kNoMatch);
}

INSTANTIATE_TEST_SUITE_P(Table, VolumeTypeTest,
                         testing::Values("awsElasticBlockStore", "azureDisk", "azureFile", "cephfs",
                                         "cinder", "csi", "fc", "flocker", "flexVolume",
                                         "gcePersistentDisk", "glusterfs", "hostPath", "iscsi",
                                         "local", "nfs", "photonPersistentDisk", "portworxVolume",
                                         "quobyte", "rbd", "scaleIO", "storageOS", "vsphereVolume"),
                         [](const auto& test) { return std::string(test.param); });

TEST(VolumePoliciesTest, FirstMatchWins) {
  const PersistentVolumeClaim pvc = Claim();
  const VolumePolicies policies = Parse(R"(
- conditions: {pvcPhase: [Pending]}
  action: {type: skip}
- conditions: {pvcPhase: [Bound]}
  action: {type: custom, parameters: {csi-delta: snapshot, n: 3, list: [a], none: }}
- conditions: {}
  action: {type: fs-backup}
)");
  EXPECT_EQ(policies.size(), 3u);
  const PolicyMatch match = policies.Match({.pvc = pvc});
  EXPECT_EQ(match.kind, PolicyMatch::Kind::kRule);
  EXPECT_EQ(match.rule, "volume policy 2 of ConfigMap v/p");
  EXPECT_EQ(match.action, PolicyAction::kCustom);
  EXPECT_THAT(match.parameters,
              UnorderedElementsAre(Pair("csi-delta", "snapshot"), Pair("n", "3"),
                                   Pair("list", R"(["a"])"), Pair("none", "null")));
}

TEST(VolumePoliciesTest, AParameterIsFoundInAnyRule) {
  const VolumePolicies policies = Parse(R"(
- conditions: {csi: {}}
  action: {type: custom, parameters: {csi-delta: move}}
- conditions: {nfs: {}}
  action: {type: custom, parameters: {csi-delta: longhorn}}
)");
  EXPECT_TRUE(policies.AnyRuleHas("csi-delta", "move"));
  EXPECT_TRUE(policies.AnyRuleHas("csi-delta", "longhorn"));
  EXPECT_FALSE(policies.AnyRuleHas("csi-delta", "snapshot"));
  EXPECT_FALSE(policies.AnyRuleHas("other", "longhorn"));
  EXPECT_FALSE(VolumePolicies().AnyRuleHas("csi-delta", "longhorn"));
}

TEST(VolumePoliciesTest, EveryActionIsKnown) {
  const PersistentVolumeClaim pvc = Claim();
  const std::pair<const char*, PolicyAction> actions[] = {{"skip", PolicyAction::kSkip},
                                                          {"snapshot", PolicyAction::kSnapshot},
                                                          {"fs-backup", PolicyAction::kFsBackup},
                                                          {"custom", PolicyAction::kCustom}};
  for (const auto& [text, action] : actions) {
    const PolicyMatch match = Parse(absl::StrCat("- action: {type: ", text, "}\n")).Match({pvc});
    EXPECT_EQ(match.kind, PolicyMatch::Kind::kRule) << text;
    EXPECT_EQ(match.action, action) << text;
  }
}

TEST(VolumePoliciesTest, GlobalRulesComeLast) {
  const PersistentVolumeClaim pvc = Claim();
  const VolumePolicies own = Parse("- {conditions: {pvcPhase: [Pending]}, action: {type: skip}}\n");
  const auto global =
      VolumePolicies::Parse("version: v1\nvolumePolicies: [{action: {type: custom}}]", "global");
  ASSERT_THAT(global, IsOk());
  const PolicyMatch match = own.FollowedBy(*global).Match({.pvc = pvc});
  EXPECT_EQ(match.rule, "volume policy 1 of global");
  EXPECT_EQ(global->FollowedBy(own).Match({.pvc = pvc}).rule, "volume policy 1 of global");
  EXPECT_EQ(VolumePolicies().FollowedBy(own).Match({.pvc = pvc}).kind, PolicyMatch::Kind::kNoMatch);
}

TEST(VolumePoliciesTest, EverySectionAndConditionOfVelero119IsAccepted) {
  const auto policies = VolumePolicies::Parse(support::kPolicyOf119, "ConfigMap v/p");
  ASSERT_THAT(policies, IsOk());
  EXPECT_EQ(policies->size(), 3U);
  PersistentVolumeClaim claim = Claim();
  const PersistentVolume volume = CsiVolume();
  const PolicyMatch match = policies->Match({.pvc = claim, .pv = &volume});
  EXPECT_EQ(match.kind, PolicyMatch::Kind::kRule);
  EXPECT_EQ(match.action, PolicyAction::kSnapshot);
  EXPECT_THAT(match.parameters, UnorderedElementsAre(Pair("dataMover", "velero-block"),
                                                     Pair("snapshotClass", "snaps")));
  EXPECT_TRUE(policies->AnyRuleIs(PolicyAction::kSnapshot));
  EXPECT_FALSE(policies->AnyRuleIs(PolicyAction::kFsBackup));
  const auto filters = VolumePolicies::Parse(
      "version: v1\nclusterScopedFilterPolicy: {resourceFilters: [{kinds: [x]}]}\n", "p");
  ASSERT_THAT(filters, IsOk());
  EXPECT_EQ(filters->size(), 0U);
}

TEST(VolumePoliciesTest, OtherPartsOfTheDocumentAreNotJudged) {
  EXPECT_THAT(
      VolumePolicies::Parse("version: v1\nincludeExcludePolicy: {x: [y]}\nfuture: 1\n", "c"),
      IsOk());
  EXPECT_THAT(VolumePolicies::Parse("version: v1\nvolumePolicies:\n", "c"), IsOk());
}

// A rule that says something unknown, tried against the claim and volume above.
struct UndecidableCase {
  const char* name;
  std::string rule;
  PolicyMatch::Kind want;
  const char* want_reason;
};
class UndecidableRuleTest : public testing::TestWithParam<UndecidableCase> {};

TEST_P(UndecidableRuleTest, StopsTheSearchUnlessItFailsAnyway) {
  const PersistentVolumeClaim pvc = Claim();
  const PersistentVolume pv = CsiVolume();
  const PolicyMatch match = Parse("- " + GetParam().rule + "\n").Match({.pvc = pvc, .pv = &pv});
  EXPECT_EQ(match.kind, GetParam().want);
  EXPECT_THAT(match.reason, HasSubstr(GetParam().want_reason));
  if (match.kind == PolicyMatch::Kind::kUndecidable) {
    EXPECT_THAT(match.reason, HasSubstr("volume policy 1 of ConfigMap v/p: "));
  }
}

constexpr auto kUndecidable = PolicyMatch::Kind::kUndecidable;
constexpr auto kNoMatch = PolicyMatch::Kind::kNoMatch;

INSTANTIATE_TEST_SUITE_P(
    Table, UndecidableRuleTest,
    testing::ValuesIn(std::vector<UndecidableCase>{
        {"Condition", "{conditions: {moon: full}, action: {type: skip}}", kUndecidable,
         "condition \"moon\" is not known"},
        {"ConditionNull", "{conditions: {moon: }, action: {type: skip}}", kUndecidable, "\"moon\""},
        {"ConditionCase", "{conditions: {storageclass: [a]}, action: {type: skip}}", kUndecidable,
         "\"storageclass\""},
        {"ConditionBesideMatching",
         "{conditions: {storageClass: [fast], moon: full}, action: {type: skip}}", kUndecidable,
         "\"moon\""},
        {"ConditionBesideFailing",
         "{conditions: {storageClass: [slow], moon: full}, action: {type: skip}}", kNoMatch, ""},
        {"CsiKey", "{conditions: {csi: {driver: csi.example.com, node: a}}, action: {type: skip}}",
         kUndecidable, "key \"node\" of csi is not known"},
        {"CsiKeyBesideFailing", "{conditions: {csi: {driver: x, node: a}}, action: {type: skip}}",
         kNoMatch, ""},
        {"NfsKeyBesideFailing", "{conditions: {nfs: {version: 4}}, action: {type: skip}}", kNoMatch,
         ""},
        {"RuleKey", "{conditions: {}, action: {type: skip}, weight: 3}", kUndecidable,
         "key \"weight\" of the rule"},
        {"ActionKey", "{action: {type: skip, unless: x}}", kUndecidable,
         "key \"unless\" of action"},
        {"ActionType", "{action: {type: teleport}}", kUndecidable,
         "action type \"teleport\" is not known"},
        {"ActionTypeBesideFailing", "{conditions: {pvcPhase: [Lost]}, action: {type: teleport}}",
         kNoMatch, ""},
    }),
    [](const auto& test) { return std::string(test.param.name); });

struct BadPolicyCase {
  const char* name;
  std::string text;
  const char* want_message;
};
class BadPolicyTest : public testing::TestWithParam<BadPolicyCase> {};

TEST_P(BadPolicyTest, IsInvalidArgument) {
  EXPECT_THAT(VolumePolicies::Parse(GetParam().text, "ConfigMap v/p"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("ConfigMap v/p: "), HasSubstr(GetParam().want_message))));
}

std::string Rules(const std::string& rules) { return "version: v1\nvolumePolicies: " + rules; }
std::string Conditions(const std::string& conditions) {
  return Rules("[{action: {type: skip}}, {conditions: {" + conditions +
               "}, action: {type: skip}}]");
}

const BadPolicyCase kBadPolicies[] = {
    {"Empty", "", "not a map"},
    {"Text", "hello", "not a map"},
    {"List", "[]", "not a map"},
    {"NotYaml", "version: v1\nvolumePolicies: [", "YAML line"},
    {"NoVersion", "volumePolicies: []", "version: not v1"},
    {"VersionTwo", "version: v2", "version: not v1"},
    {"VersionNumber", "version: 1", "version: not v1"},
    {"VersionList", "version: [v1]", "version: not v1"},
    {"PoliciesMap", Rules("{a: b}"), "volumePolicies: not a list"},
    {"PoliciesText", Rules("all"), "volumePolicies: not a list"},
    {"RuleText", Rules("[skip]"), "not a map with conditions and action"},
    {"RuleNull", Rules("[~]"), "not a map with conditions and action"},
    {"NoAction", Rules("[{conditions: {}}]"), "action: not a map"},
    {"ActionText", Rules("[{action: skip}]"), "action: not a map"},
    {"NoActionType", Rules("[{action: {parameters: {}}}]"), "action.type: missing"},
    {"ActionTypeList", Rules("[{action: {type: [skip]}}]"), "action.type: not a text"},
    {"ParametersText", Rules("[{action: {type: custom, parameters: x}}]"),
     "action.parameters: not a map"},
    {"ConditionsList", Rules("[{conditions: [a], action: {type: skip}}]"), "conditions: not a map"},
    {"Twice", Rules("[{action: {type: skip}, action: {type: skip}}]"), "stands twice"},
    {"CapacityOneBound", Conditions("capacity: 10Gi"), "capacity: not \"lowest,highest\""},
    {"CapacityThree", Conditions("capacity: \"1,2,3\""), "capacity: not"},
    {"CapacityText", Conditions("capacity: \"small,large\""), "\"small\" is not a quantity"},
    {"CapacityUnit", Conditions("capacity: \"1GB,2GB\""), "\"1GB\" is not a quantity"},
    {"CapacityInverted", Conditions("capacity: \"20Gi,10Gi\""), "highest is below"},
    {"CapacityNegative", Conditions("capacity: \"5,-1\""), "highest is below"},
    {"CapacityList", Conditions("capacity: [1Gi, 2Gi]"), "capacity: not a text"},
    {"CapacityOverflow", Conditions("capacity: \"1,99Ei\""), "does not fit"},
    {"StorageClassText", Conditions("storageClass: fast"), "storageClass: not a list"},
    {"StorageClassMap", Conditions("storageClass: {a: b}"), "storageClass: not a list"},
    {"StorageClassNested", Conditions("storageClass: [[a]]"), "storageClass: not a text"},
    {"NfsText", Conditions("nfs: server"), "nfs: not a map"},
    {"NfsServerList", Conditions("nfs: {server: [a]}"), "nfs.server: not a text"},
    {"CsiText", Conditions("csi: driver"), "csi: not a map"},
    {"CsiDriverMap", Conditions("csi: {driver: {a: b}}"), "csi.driver: not a text"},
    {"CsiAttributesAlone", Conditions("csi: {volumeAttributes: {a: b}}"), "need a driver"},
    {"CsiAttributesList", Conditions("csi: {driver: d, volumeAttributes: [a]}"),
     "csi.volumeAttributes: not a map"},
    {"CsiAttributeList", Conditions("csi: {driver: d, volumeAttributes: {a: [b]}}"),
     "csi.volumeAttributes.a: not a text"},
    {"VolumeTypesText", Conditions("volumeTypes: csi"), "volumeTypes: not a list"},
    {"LabelsList", Conditions("pvcLabels: [a]"), "pvcLabels: not a map"},
    {"LabelsNull", Conditions("pvcLabels: "), "pvcLabels: not a map"},
    {"LabelsNested", Conditions("pvcLabels: {a: {b: c}}"), "pvcLabels.a: not a text"},
    {"PhaseText", Conditions("pvcPhase: Bound"), "pvcPhase: not a list"},
    {"VolumeModeList", Conditions("pvcVolumeMode: [Block]"), "pvcVolumeMode: not a text"},
    {"AccessModesText", Conditions("pvcAccessModes: ReadWriteOnce"), "pvcAccessModes: not a"},
    {"SecondRuleIsNamed", Conditions("csi: x"), "volume policy 2 of ConfigMap v/p: csi"},
};
INSTANTIATE_TEST_SUITE_P(Table, BadPolicyTest, testing::ValuesIn(kBadPolicies),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(VolumePoliciesTest, ReadsAConfigMapWithOneKeyOfAnyName) {
  const Json config_map = {{"metadata", {{"name", "p"}, {"namespace", "v"}}},
                           {"data", {{"anything.yaml", Rules("[{action: {type: skip}}]")}}}};
  const auto policies = VolumePolicies::FromConfigMap(support::As<ConfigMap>(config_map));
  ASSERT_THAT(policies, IsOk());
  const PersistentVolumeClaim pvc = Claim();
  EXPECT_EQ(policies->Match({.pvc = pvc}).rule, "volume policy 1 of ConfigMap v/p");
}

TEST(VolumePoliciesTest, RefusesConfigMapsWithoutExactlyOneText) {
  const std::string text = Rules("[]");
  for (const Json& data : {Json(), Json::object(), Json::array({text}), Json(text),
                           Json{{"a", text}, {"b", text}}, Json{{"a", 1}}}) {
    EXPECT_THAT(VolumePolicies::FromConfigMap(support::As<ConfigMap>({{"data", data}})),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("exactly one key")))
        << data;
  }
}

TEST(VolumePoliciesTest, HostileObjectsDoNotMatchAndDoNotThrow) {
  const VolumePolicies policies =
      ParseCondition("capacity: \"1,\", csi: {driver: d}, pvcLabels: {a: b}, pvcAccessModes: [x]");
  for (const char* text : {"{}", R"({"spec":[],"metadata":7,"status":"x"})",
                           R"({"spec":{"capacity":{"storage":"many"},"csi":"d","accessModes":[7]},
                               "metadata":{"labels":["a"]}})"}) {
    const auto pvc = support::As<PersistentVolumeClaim>(*ParseJson(text));
    const auto pv = support::As<PersistentVolume>(*ParseJson(text));
    EXPECT_EQ(policies.Match({.pvc = pvc, .pv = &pv}).kind, kNoMatch) << text;
  }
}

}  // namespace
}  // namespace csidelta::velero::volume_policy_test
