#include "longhorn/kinds_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tests/support/paths.h"

namespace csidelta::longhorn::kinds_guard_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr char kElsewhere[] = "restored";

Json Object(const std::string& kind, const std::string& api_version = "longhorn.io/v1beta2") {
  return {{"apiVersion", api_version},
          {"kind", kind},
          {"metadata", {{"name", "x"}, {"namespace", kDefaultNamespace}}}};
}

bool IsRestored(const Json& object, const GuardSettings& settings = {},
                const std::string& target_namespace = kDefaultNamespace) {
  return !WhyLeftOut(objects::Object(object), target_namespace, settings).has_value();
}

std::string ReasonFor(const Json& object, const std::string& target_namespace = kDefaultNamespace) {
  const std::optional<LeftOut> left_out = WhyLeftOut(objects::Object(object), target_namespace, {});
  return left_out.has_value() ? left_out->reason : "restored";
}

std::set<std::string> RestoredKinds(const GuardSettings& settings) {
  std::set<std::string> kinds;
  for (const KnownKind& known : KnownKinds()) {
    if (IsRestored(Object(std::string(known.kind)), settings)) {
      kinds.emplace(known.kind);
    }
  }
  return kinds;
}

// The kinds of Longhorn 1.13, as its definitions name them, and SnapshotGroup, which is to come.
const std::map<std::string, std::string>& KindsOfLonghorn() {
  static const auto& kinds =
      *new std::map<std::string, std::string>{{"BackingImage", "backingimages"},
                                              {"BackingImageDataSource", "backingimagedatasources"},
                                              {"BackingImageManager", "backingimagemanagers"},
                                              {"Backup", "backups"},
                                              {"BackupBackingImage", "backupbackingimages"},
                                              {"BackupTarget", "backuptargets"},
                                              {"BackupVolume", "backupvolumes"},
                                              {"Engine", "engines"},
                                              {"EngineFrontend", "enginefrontends"},
                                              {"EngineImage", "engineimages"},
                                              {"InstanceManager", "instancemanagers"},
                                              {"Node", "nodes"},
                                              {"Orphan", "orphans"},
                                              {"RecurringJob", "recurringjobs"},
                                              {"Replica", "replicas"},
                                              {"Setting", "settings"},
                                              {"Shard", "shards"},
                                              {"ShardGroup", "shardgroups"},
                                              {"ShareManager", "sharemanagers"},
                                              {"Snapshot", "snapshots"},
                                              {"SnapshotGroup", "snapshotgroups"},
                                              {"SupportBundle", "supportbundles"},
                                              {"SystemBackup", "systembackups"},
                                              {"SystemRestore", "systemrestores"},
                                              {"Volume", "volumes"},
                                              {"VolumeAttachment", "volumeattachments"}};
  return kinds;
}

TEST(KnownKindsTest, AreThoseOfLonghornEachOnceWithAReason) {
  std::map<std::string, std::string> known;
  for (const KnownKind& kind : KnownKinds()) {
    EXPECT_TRUE(known.emplace(kind.kind, kind.plural).second) << kind.kind;
    EXPECT_THAT(std::string(kind.reason), AllOf(Not(IsEmpty()), Not(testing::EndsWith("."))));
    EXPECT_EQ(FindKind(kind.kind), &kind);
  }
  EXPECT_EQ(known, KindsOfLonghorn());
}

TEST(KnownKindsTest, AreFoundByTheirExactName) {
  for (const char* kind : {"", "snapshot", "Snapshots", "Volumes", "VolumeSnapshot"}) {
    EXPECT_EQ(FindKind(kind), nullptr) << kind;
  }
}

TEST(WhyLeftOutTest, OfAWholeNamespaceSettingsJobsAndTargetsAreRestored) {
  EXPECT_EQ(RestoredKinds({}), (std::set<std::string>{"BackupTarget", "RecurringJob", "Setting"}));
}

TEST(WhyLeftOutTest, WithoutTheGuardTheWorstIsStillLeftOut) {
  std::set<std::string> left_out;
  const std::set<std::string> restored = RestoredKinds({.is_on = false});
  for (const auto& [kind, plural] : KindsOfLonghorn()) {
    if (!restored.contains(kind)) {
      left_out.insert(kind);
    }
  }
  EXPECT_EQ(left_out, (std::set<std::string>{"Engine", "Snapshot", "SystemRestore"}));
}

// A restored Snapshot has no status, unless the restore says that it shall have one.
TEST(WhyLeftOutTest, ASnapshotIsLeftOutWhateverItSays) {
  Json snapshot = Object("Snapshot");
  SetJson(snapshot, {"spec"}, Json{{"volume", "pvc-1"}, {"createSnapshot", true}});
  EXPECT_THAT(ReasonFor(snapshot), HasSubstr("take a new snapshot, of today's data"));
  SetJson(snapshot, {"spec", "createSnapshot"}, false);
  EXPECT_FALSE(IsRestored(snapshot));
  SetJson(snapshot, {"status", "creationTime"}, "2026-10-01T02:00:00Z");
  SetJson(snapshot, {"metadata", "annotations", "velero.io/restore-status"}, "true");
  EXPECT_FALSE(IsRestored(snapshot));
  EXPECT_FALSE(IsRestored(snapshot, {.is_on = false}));
}

TEST(WhyLeftOutTest, ABackingImageIsRestoredWhereLonghornDownloadedIt) {
  Json image = Object("BackingImage");
  for (const char* other : {"upload", "export-from-volume", "restore", "clone", "", "Download"}) {
    SetJson(image, {"spec", "sourceType"}, other);
    EXPECT_THAT(ReasonFor(image), HasSubstr("spec.sourceType download")) << other;
    EXPECT_TRUE(IsRestored(image, {.is_on = false})) << other;
  }
  SetJson(image, {"spec", "sourceType"}, Json::array({"download"}));
  EXPECT_FALSE(IsRestored(image));
  SetJson(image, {"spec", "sourceType"}, "download");
  EXPECT_TRUE(IsRestored(image));
}

TEST(WhyLeftOutTest, IntoAnotherNamespaceNothingIsRestoredGuardOrNot) {
  for (const auto& [kind, plural] : KindsOfLonghorn()) {
    EXPECT_THAT(ReasonFor(Object(kind), kElsewhere),
                AllOf(HasSubstr("lives in namespace longhorn-system"), HasSubstr("in restored")))
        << kind;
    EXPECT_FALSE(IsRestored(Object(kind), {.is_on = false}, kElsewhere)) << kind;
  }
  EXPECT_FALSE(IsRestored(Object("Setting"), {}, "")) << "an object of the cluster";
}

TEST(WhyLeftOutTest, LonghornsNamespaceIsTheOneOfTheSettings) {
  const GuardSettings elsewhere{.namespace_name = kElsewhere, .is_on = true};
  EXPECT_TRUE(IsRestored(Object("Setting"), elsewhere, kElsewhere));
  EXPECT_FALSE(IsRestored(Object("Setting"), elsewhere));
  EXPECT_FALSE(IsRestored(Object("Engine"), elsewhere, kElsewhere));
}

TEST(WhyLeftOutTest, OfTheVersionThatLonghornDroppedNothingIsRestored) {
  for (const auto& [kind, plural] : KindsOfLonghorn()) {
    const Json old = Object(kind, "longhorn.io/v1beta1");
    EXPECT_EQ(ReasonFor(old), "it is of longhorn.io/v1beta1, which Longhorn dropped in 1.10");
    EXPECT_EQ(ReasonFor(old, kElsewhere), ReasonFor(old)) << "the first line that applies";
    EXPECT_FALSE(IsRestored(old, {.is_on = false})) << kind;
  }
}

TEST(WhyLeftOutTest, OfALaterVersionTheKindDecides) {
  EXPECT_TRUE(IsRestored(Object("Setting", "longhorn.io/v1")));
  EXPECT_FALSE(IsRestored(Object("Engine", "longhorn.io/v1")));
}

TEST(WhyLeftOutTest, AKindThatIsNotKnownIsLeftOutWithTheGuardAlone) {
  EXPECT_THAT(ReasonFor(Object("VolumeGroup")), HasSubstr("does not know"));
  EXPECT_TRUE(IsRestored(Object("VolumeGroup"), {.is_on = false}));
  EXPECT_FALSE(IsRestored(Object("VolumeGroup"), {.is_on = false}, kElsewhere));
  EXPECT_FALSE(IsRestored({{"apiVersion", "longhorn.io/v1beta2"}})) << "no kind at all";
}

TEST(WhyLeftOutTest, NamesTheResourceAndQuotesAKindThatItDoesNotKnow) {
  EXPECT_EQ(WhyLeftOut(objects::Object(Object("Engine")), kDefaultNamespace, {})->resource,
            "engines.longhorn.io");
  EXPECT_EQ(WhyLeftOut(objects::Object(Object("Bad\n\x1b")), kDefaultNamespace, {})->resource,
            "\"Bad\\n\\x1b\"");
  EXPECT_LT(WhyLeftOut(objects::Object(Object(std::string(1 << 20, 'k'))), kDefaultNamespace, {})
                ->resource.size(),
            100u);
}

TEST(WhyLeftOutTest, ObjectsOfOtherGroupsAreRestored) {
  for (const char* api_version :
       {"v1", "snapshot.storage.k8s.io/v1", "sub.longhorn.io/v1beta1", "longhorn.io.example/v1",
        "longhorn.rancher.io/v1beta1", "longhorn.io", ""}) {
    EXPECT_TRUE(IsRestored(Object("Snapshot", api_version), {}, kElsewhere)) << api_version;
  }
  EXPECT_TRUE(IsRestored(Json("text")));
  EXPECT_TRUE(IsRestored({{"apiVersion", 7}, {"kind", "Engine"}}));
}

std::string WordOf(KindRule rule) {
  switch (rule) {
    case KindRule::kNeverRestored:
      return "left out, guard or not";
    case KindRule::kLeftOut:
      return "left out";
    case KindRule::kRestoredIfDownloaded:
      return "restored if downloaded";
    case KindRule::kRestored:
      break;
  }
  return "restored";
}

TEST(KnownKindsTest, AreTheTableOfTheDocument) {
  std::string rows;
  for (const KnownKind& known : KnownKinds()) {
    absl::StrAppend(&rows, "| `", known.plural, "` | ", WordOf(known.rule), " | ",
                    std::string(1, absl::ascii_toupper(known.reason.front())),
                    known.reason.substr(1), ". |\n");
  }
  EXPECT_THAT(support::ReadSource("docs/longhorn.md"),
              HasSubstr(absl::StrCat("|---|---|---|\n", rows, "\n")));
}

}  // namespace
}  // namespace csidelta::longhorn::kinds_guard_test
