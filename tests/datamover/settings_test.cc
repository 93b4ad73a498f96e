#include "datamover/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "csi/expose/exposed_snapshot.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/kind_names.h"
#include "tests/support/paths.h"
#include "tests/support/status_matchers.h"

namespace csidelta::datamover::settings_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(MoverSettings, AreTheDefaultsWhereNothingIsSaid) {
  for (const char* text : {"", "  \n", "{}"}) {
    const auto settings = ParseMoverSettings(text);
    ASSERT_THAT(settings, IsOk());
    EXPECT_EQ(settings->prepare_timeout, absl::Minutes(30));
    EXPECT_EQ(settings->base_age_max, absl::Hours(14 * 24));
    EXPECT_EQ(settings->on_fallback, objects::OnFallback::kWarn);
    EXPECT_FALSE(settings->writes_into_existing);
    EXPECT_EQ(settings->checks.percent_per_day, 3);
    EXPECT_EQ(settings->checks.parts(), 34);
    EXPECT_EQ(settings->checks.workers, 1);
    EXPECT_EQ(settings->worker.resources.memory_limit, "256Mi");
    EXPECT_THAT(settings->worker.supplemental_groups, ElementsAre(6));
  }
}

TEST(MoverSettings, SayWhatIsWritten) {
  const auto settings = ParseMoverSettings(R"({
    "paused": true, "uploadWindows": ["22:00-06:00", "12:00-13:00"], "prepareTimeout": "45m", "onFallback": "fail", "limits": {"total": 4, "perNode": 1,
    "perNamespace": 3, "uploadKiBPerSecond": 65536, "downloadKiBPerSecond": 1712}, "backupStorageLocations": {"far": {"limit": 5}},
    "checks": {"percentPerDay": 0, "workers": 2},
    "restore": {"ignoreDelayBinding": true, "intoExistingVolumes": true},
    "deletions": {"workers": 100, "giveUpAfter": "1h"},
    "storageClasses": {"fast": {"intermediateClass": "cheap", "readOnlyMany": true, "limit": 2,
                                "nodeSelector": {"disk": "ssd"}}},
    "bases": {"maxAge": "48h"},
    "drivers": {"csi.vsphere.vmware.com": {"keepBase": true}, "d": {"keepBase": false},
                "e": {"parameters": {"tier": "a=b", "quality": "good"}}},
    "worker": {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
               "scratchSize": "4Gi", "limitUpload": 2048, "limitDownload": 4096,
                "supplementalGroups": [6, 994], "priorityClassName": "low",
               "podSecurity": "namespace",
               "imagePullPolicy": "Never", "imagePullSecrets": ["pull"], "podLabels": {"a": "b"},
               "podAnnotations": {"c": "d e"}, "nodeSelector": {"role": "backup"},
               "tolerations": [{"key": "x", "operator": "Exists", "tolerationSeconds": 5}],
               "affinity": {"podAntiAffinity": {}}}})");
  ASSERT_THAT(settings, IsOk());
  EXPECT_EQ(settings->prepare_timeout, absl::Minutes(45));
  EXPECT_EQ(settings->on_fallback, objects::OnFallback::kFail);
  EXPECT_TRUE(settings->is_paused);
  EXPECT_THAT(ParametersFor(*settings, "e"), ElementsAre("quality=good", "tier=a=b"));
  EXPECT_TRUE(ParametersFor(*settings, "d").empty());
  EXPECT_THAT(settings->upload_windows,
              ElementsAre(*ParseDailyWindow("22:00-06:00"), *ParseDailyWindow("12:00-13:00")));
  EXPECT_EQ(settings->checks.percent_per_day, 0);
  EXPECT_EQ(settings->checks.workers, 2);
  EXPECT_EQ(settings->transfers_max, 4);
  EXPECT_EQ(settings->transfers_per_node_max, 1);
  EXPECT_EQ(settings->transfers_per_namespace_max, 3);
  EXPECT_EQ(settings->rates_max, (objects::JobRates{.upload = 65536, .download = 1712}));
  EXPECT_EQ(settings->locations.at("far").transfers_max, 5);
  EXPECT_TRUE(settings->ignore_delay_binding);
  EXPECT_TRUE(settings->writes_into_existing);
  EXPECT_EQ(settings->deletions.workers_max, 100);
  EXPECT_EQ(settings->deletions.give_up_after, absl::Hours(1));
  const StorageClassSettings fast = ForStorageClass(*settings, "fast");
  EXPECT_EQ(fast.intermediate_class, "cheap");
  EXPECT_TRUE(fast.read_only_many);
  EXPECT_EQ(fast.transfers_max, 2);
  EXPECT_EQ(fast.node_selector.at("disk"), "ssd");
  EXPECT_EQ(ForStorageClass(*settings, "other").transfers_max, 0);
  EXPECT_TRUE(KeepsBase(*settings, "csi.vsphere.vmware.com"));
  EXPECT_EQ(settings->base_age_max, absl::Hours(48));
  EXPECT_FALSE(KeepsBase(*settings, "d"));
  EXPECT_TRUE(KeepsBase(*settings, "e"));
  EXPECT_EQ(MemoryBudgetBytes(settings->worker.resources), (int64_t{2} << 30) - (32 << 20));
  EXPECT_THAT(settings->worker.supplemental_groups, ElementsAre(6, 994));
  EXPECT_FALSE(settings->worker.has_fixed_user);
  EXPECT_EQ(settings->worker.tolerations.json().size(), 1U);
  EXPECT_EQ(settings->worker.rates_max.upload, 2048);
  EXPECT_EQ(settings->worker.rates_max.download, 4096);
}

TEST(MoverSettings, ALocationIsImmutableAndDeletedFromByOthers) {
  const auto settings = ParseMoverSettings(R"({"backupStorageLocations": {
    "safe": {"immutability": {"days": 30, "mode": "compliance"},
             "deletionCredential": {"name": "remover", "key": "cloud"}}}})");
  ASSERT_THAT(settings, IsOk());
  const StorageLocationSettings safe = ForLocation(*settings, "safe");
  EXPECT_EQ(safe.immutability, (objects::JobObjectLock{.mode = "COMPLIANCE", .days = 30}));
  EXPECT_EQ(safe.deletion_credential, (objects::SecretKeyName{.name = "remover", .key = "cloud"}));
  EXPECT_EQ(safe.transfers_max, 0);
  EXPECT_FALSE(ForLocation(*settings, "other").immutability.has_value());
}

TEST(MoverSettings, NoGroupsAreNotTheDefaultOnes) {
  const auto settings = ParseMoverSettings(R"({"worker": {"supplementalGroups": []}})");
  ASSERT_THAT(settings, IsOk());
  EXPECT_THAT(settings->worker.supplemental_groups, testing::IsEmpty());
}

TEST(MoverSettings, WrongOnesAreRefusedByNameAndValue) {
  struct Case {
    const char* text;
    const char* path;
  };
  for (
      const Case& test : std::vector<Case>{
          {R"({"prepareTimeout": "30s"})", "prepareTimeout: \\\"30s\\\""},
          {R"({"prepareTimeout": 30})", "prepareTimeout: 30"},
          {R"({"bases": {"maxAge": "30m"}})", "bases.maxAge: \\\"30m\\\""},
          {R"({"bases": {"maxAge": "8761h"}})", "bases.maxAge"},
          {R"({"bases": {"maxage": "48h"}})", "bases.maxage"},
          {R"({"onFallback": "maybe"})", "onFallback"},
          {R"({"deletions": {"workers": 101}})", "deletions.workers: 101"},
          {R"({"deletions": {"giveUpAfter": "59m"}})", "deletions.giveUpAfter"},
          {R"({"deletions": {"giveUpAfter": "8761h"}})", "from 1h to 8760h"},
          {R"({"limits": {"total": 0}})", "limits.total: 0"},
          {R"({"checks": {"percentPerDay": 101}})", "checks.percentPerDay: 101"},
          {R"({"limits": {"total": 1.5}})", "limits.total: 1.5"},
          {R"({"limits": {"perNode": 100000}})", "limits.perNode"},
          {R"({"limits": {"perNamespace": 0}})", "limits.perNamespace"},
          {R"({"limits": []})", "limits: []"},
          {R"({"paused": "yes"})", "paused"},
          {R"({"worker": {"podSecurity": "none"}})", "worker.podSecurity"},
          {R"({"uploadWindows": ["22:00"]})", "uploadWindows: \\\"22:00\\\""},
          {R"({"uploadWindows": [7]})", "uploadWindows: 7"},
          {R"({"uploadWindows": "22:00-06:00"})", "uploadWindows"},
          {R"({"backupStorageLocations": {"far": {"limit": 0}}})", "backupStorageLocations.far"},
          {R"({"backupStorageLocations": {"far": {"immutability": {"days": 30}}}})",
           "backupStorageLocations.far.immutability.mode is missing"},
          {R"({"backupStorageLocations": {"far": {"immutability": {"mode": "governance"}}}})",
           "immutability.days is missing"},
          {R"({"backupStorageLocations": {"far": {"immutability": {"days": 7, "mode": "governance"}}}})",
           "immutability.days: 7 is not a number from 14 to 36500"},
          {R"({"backupStorageLocations": {"far": {"immutability": {"days": 30, "mode": "WORM"}}}})",
           "immutability.mode: \\\"WORM\\\" is not governance or compliance"},
          {R"({"checks": {"percentPerDay": 0},
                "backupStorageLocations": {"far": {"immutability": {"days": 30, "mode": "governance"}}}})",
           "set checks.percentPerDay to at least 1"},
          {R"({"backupStorageLocations": {"far": {"deletionCredential": {"name": "x"}}}})",
           "deletionCredential.key is missing"},
          {R"({"restore": {"ignoreDelayBinding": "yes"}})", "restore.ignoreDelayBinding"},
          {R"({"restore": {"intoExistingVolumes": 1}})", "restore.intoExistingVolumes"},
          {R"({"storageClasses": {"fast": 1}})", "storageClasses.fast"},
          {R"({"storageClasses": {"fast": {"limit": -1}}})", "storageClasses.fast.limit"},
          {R"({"drivers": {"d": {"keepBase": 1}}})", "drivers.d.keepBase"},
          {R"({"drivers": {"d": {"parameters": {"csi.storage.k8s.io/x": ""}}}})",
           "does not reserve"},
          {R"({"worker": {"scratchSize": "much"}})", "worker.scratchSize"},
          {R"({"worker": {"limitUpload": 0}})", "worker.limitUpload: 0"},
          {R"({"worker": {"limitDownload": "1M"}})", "worker.limitDownload"},
          {R"({"worker": {"scratchSize": "-1Gi"}})", "worker.scratchSize"},
          {R"({"worker": {"supplementalGroups": [0]}})", "worker.supplementalGroups"},
          {R"({"worker": {"supplementalGroups": 6}})", "worker.supplementalGroups"},
          {R"({"worker": {"resources": {"limits": {"memory": "64Mi"}}}})", "128Mi"},
          {R"({"worker": {"imagePullPolicy": "Sometimes"}})", "worker.imagePullPolicy"},
          {R"({"worker": {"imagePullSecrets": [1]}})", "worker.imagePullSecrets"},
          {R"({"worker": {"podLabels": {"velero.io/data-upload": "x"}}})", "podLabels.velero.io"},
          {R"({"worker": {"podLabels": {"mover.csi-delta.io/task": "x"}}})", "podLabels.mover"},
          {R"({"worker": {"podLabels": {"a": "no space"}}})", "worker.podLabels.a"},
          {R"({"worker": {"podAnnotations": {"a": 1}}})", "worker.podAnnotations.a"},
          {R"({"worker": {"tolerations": [{"kee": "x"}]}})", "worker.tolerations"},
          {R"({"worker": {"affinity": {"nodeAffinity": 1}}})", "worker.affinity.nodeAffinity"},
          {R"([])", ""},
          {R"({)", ""}}) {
    EXPECT_THAT(ParseMoverSettings(test.text),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(test.path)))
        << test.text;
  }
}

TEST(MoverSettings, ALimitForAllWorkersLeavesEachAShare) {
  for (const auto& [text, error] : std::vector<std::pair<const char*, const char*>>{
           {R"({"limits": {"uploadKiBPerSecond": 0}})",
            "limits.uploadKiBPerSecond: 0 is not a number from 256 to 1000000000"},
           {R"({"limits": {"downloadKiBPerSecond": -5}})", "limits.downloadKiBPerSecond: -5"},
           {R"({"limits": {"uploadKiBPerSecond": 1000000001}})",
            "limits.uploadKiBPerSecond: 10000"},
           {R"({"limits": {"uploadKiBPerSecond": "10M"}})", "limits.uploadKiBPerSecond"},
           {R"({"limits": {"downloadKiBPerSecond": 400, "total": 21}})",
            "limits.downloadKiBPerSecond: 400 is less than 16 for each of the 26 workers that may "
            "run at once; set it to at least 416"}}) {
    EXPECT_THAT(ParseMoverSettings(text),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(error)));
  }
}

TEST(MoverSettings, AProxySpeaksHttp) {
  const auto settings =
      ParseMoverSettings(R"({"proxy": {"https": "http://me:pw@proxy:3128", "noProxy": ".a,b"}})");
  ASSERT_THAT(settings, IsOk());
  EXPECT_EQ(settings->proxy.https_proxy, "http://me:pw@proxy:3128");
  EXPECT_EQ(settings->proxy.no_proxy, ".a,b");
  for (const char* wrong :
       {R"("https": "https://proxy")", R"("https": "socks5://proxy")", R"("https": "a b")",
        R"("http": "http://proxy")", R"("noProxy": "a, b")", R"("noProxy": ["a"])"}) {
    EXPECT_THAT(ParseMoverSettings(absl::StrCat("{\"proxy\": {", wrong, "}}")),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("proxy.")))
        << wrong;
  }
}

TEST(MoverSettings, ThoseThatThereAreNotAreRefusedByName) {
  EXPECT_THAT(ParseMoverSettings(R"({"limits": {"perVolume": 1}})"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("limits.perVolume"),
                             HasSubstr("perNamespace, perNode, total, upload"))));
  EXPECT_THAT(ParseMoverSettings(R"({"\u0001": 1})"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\\x01")));
}

TEST(MoverSettings, AreReadFromTheirConfigMapEachTime) {
  support::FakeApiClient api;
  EXPECT_THAT(ReadMoverSettings({}, api, "mover"), IsOk());
  Json config_map = {{"metadata", {{"name", "csi-delta-mover"}, {"namespace", "mover"}}},
                     {"data", {{"config.json", R"({"onFallback": "fail"})"}}}};
  api.Seed(ConfigMapType(), config_map);
  EXPECT_EQ(ReadMoverSettings({}, api, "mover")->on_fallback, objects::OnFallback::kFail);
  config_map["data"]["config.json"] = R"({"onFallback": "fails"})";
  api.Seed(ConfigMapType(), config_map);
  EXPECT_THAT(ReadMoverSettings({}, api, "mover"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("mover/csi-delta-mover"), HasSubstr("onFallback"))));
}

// --- The schema beside the parser

Json Resolve(const Json& schema, const Json& node) {
  const std::string reference = GetString(node, {"$ref"});
  return reference.empty()
             ? node
             : *FindJson(schema, {"definitions", reference.substr(reference.rfind('/') + 1)});
}

Json SomeLegalValue(const Json& node) {
  if (node.contains("enum")) {
    return node["enum"].back();
  }
  const std::string type = GetString(node, {"type"});
  if (type == "integer") {
    return std::max<int64_t>(7, GetInt(node, {"minimum"}, 0));
  }
  if (type == "boolean") {
    return true;
  }
  if (type == "array") {
    return Json::array();
  }
  if (type == "object") {
    return Json::object();
  }
  const std::string pattern = GetString(node, {"pattern"});
  if (pattern.empty()) {
    return "name";
  }
  return absl::StrContains(pattern, "(s|m|h)") ? "1h" : "512Mi";
}

struct Leaf {
  std::vector<std::string> path;
  Json node;
  std::string description;
  Json beside = Json::object();  // what must stand in the same section
};

// A legal value for each key that `section` requires.
Json RequiredOf(const Json& schema, const Json& section) {
  Json values = Json::object();
  for (const Json& key : section.value("required", Json::array())) {
    const std::string name = key.get<std::string>();
    values[name] = SomeLegalValue(Resolve(schema, section["properties"][name]));
  }
  return values;
}

// Every key that is no section, with where it stands; "*" stands for a name.
void Collect(const Json& schema, const Json& node, std::vector<std::string> path,
             std::vector<Leaf>& leaves, const Json& beside = Json::object()) {
  const Json resolved = Resolve(schema, node);
  const bool is_section = resolved.contains("properties") && !node.contains("description");
  if (is_section) {
    EXPECT_EQ(resolved["additionalProperties"], false) << absl::StrJoin(path, ".");
    for (const auto& [key, value] : resolved["properties"].items()) {
      std::vector<std::string> inner = path;
      inner.push_back(key);
      Collect(schema, value, inner, leaves, RequiredOf(schema, resolved));
    }
  } else if (const Json* each = FindJson(resolved, {"additionalProperties", "properties"});
             each != nullptr) {
    for (const auto& [key, value] : each->items()) {
      std::vector<std::string> inner = path;
      inner.insert(inner.end(), {"*", key});
      Collect(schema, value, inner, leaves);
    }
  } else {
    leaves.push_back({path, resolved, GetString(node, {"description"}), beside});
  }
}

std::vector<Leaf> SchemaLeaves() {
  const auto schema = ParseJson(support::ReadSource("deploy/chart/files/settings.schema.json"));
  EXPECT_THAT(schema, IsOk());
  std::vector<Leaf> leaves;
  Collect(*schema, *schema, {}, leaves);
  return leaves;
}

Json At(const std::vector<std::string>& path, Json value, const Json& beside) {
  Json section = beside;
  section[path.back()] = std::move(value);
  for (auto step = std::next(path.rbegin()); step != path.rend(); ++step) {
    section = Json{{*step == "*" ? "some-name" : *step, section}};
  }
  return section;
}

TEST(MoverSettings, TheSchemaKnowsTheSameKeysAndKindsOfValues) {
  const std::vector<Leaf> leaves = SchemaLeaves();
  EXPECT_EQ(leaves.size(), 48U);
  for (const Leaf& leaf : leaves) {
    const std::string path = absl::StrJoin(leaf.path, ".");
    EXPECT_THAT(ParseMoverSettings(DumpJson(At(leaf.path, SomeLegalValue(leaf.node), leaf.beside))),
                IsOk())
        << path;
    EXPECT_THAT(ParseMoverSettings(DumpJson(At(leaf.path, nullptr, leaf.beside))),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << path;
    std::vector<std::string> misspelt = leaf.path;
    misspelt.back() += "x";
    EXPECT_THAT(ParseMoverSettings(DumpJson(At(misspelt, SomeLegalValue(leaf.node), leaf.beside))),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is not known here")))
        << path;
  }
}

TEST(MoverSettings, TheDocumentationTellsEachKeyAndTheTables) {
  const std::string page = support::ReadSource("docs/data-mover-settings.md");
  EXPECT_FALSE(SchemaLeaves().empty());
  EXPECT_FALSE(CostlyBases().empty());
  EXPECT_FALSE(csi::FileOnlyDrivers().empty());
  for (const Leaf& leaf : SchemaLeaves()) {
    std::string path = absl::StrJoin(leaf.path, ".");
    const std::string row = absl::StrCat("| `", path, "` | ");
    EXPECT_THAT(page, HasSubstr(row));
    if (!leaf.description.empty()) {
      EXPECT_THAT(page, HasSubstr(leaf.description)) << path;
    }
  }
  for (const CostlyBase& base : CostlyBases()) {
    EXPECT_THAT(page, HasSubstr(absl::StrCat("| `", base.driver, "` | ", base.reason, " |")));
  }
  for (const absl::string_view driver : csi::FileOnlyDrivers()) {
    EXPECT_THAT(page, HasSubstr(absl::StrCat("`", driver, "`")));
  }
}

}  // namespace
}  // namespace csidelta::datamover::settings_test
