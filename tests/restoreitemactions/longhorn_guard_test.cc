#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/json.h"
#include "longhorn/kinds_guard.h"
#include "longhorn/types.h"
#include "restoreitemactions/actions.h"
#include "tests/support/action_log.h"
#include "tests/support/await.h"
#include "tests/support/memory_growth.h"
#include "tests/support/sanitized.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"
#include "tests/support/sweep_sample.h"

namespace csidelta::restoreitemactions::longhorn_guard_test {
namespace {

using longhorn::kDefaultNamespace;
using support::ApiCall;
using support::IsOk;
using support::IsOkAndHolds;
using support::MakeObject;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using velero::RestoreItemResult;

constexpr char kMapped[] = "restored";

Json LonghornObject(const std::string& kind, const std::string& name = "x",
                    const std::string& version = "v1beta2") {
  return MakeObject(absl::StrCat("longhorn.io/", version), kind, kDefaultNamespace, name,
                    {{"longhornvolume", "pvc-1"}});
}

class LonghornGuardTest : public testing::Test {
 protected:
  RestoreItemResult Run(const Json& item) {
    const auto result = action_->Execute(bed_.ctx, objects::Object(item), objects::Object(item),
                                         objects::Object(restore_));
    EXPECT_THAT(result, IsOk());
    return result.value_or(RestoreItemResult());
  }

  // An item that is restored goes back byte for byte, and nothing comes with it.
  bool IsRestored(const Json& item) {
    const RestoreItemResult result = Run(item);
    EXPECT_FALSE(result.item.has_value());
    EXPECT_THAT(result.additional_items, IsEmpty());
    EXPECT_EQ(result.operation_id, "");
    return !result.skip_restore;
  }

  support::ActionLog log_;
  support::ActionBed bed_;
  Json restore_ = support::MakeRestoreObject("r1", "nightly");
  std::unique_ptr<velero::RestoreItemAction> action_ = MakeLonghornGuardAction(bed_.env);
};

TEST_F(LonghornGuardTest, AppliesToAllKindsOfTheGroup) {
  const velero::ResourceSelector selector = action_->AppliesTo();
  EXPECT_THAT(selector.included_resources, ElementsAre("*.longhorn.io"));
  EXPECT_THAT(selector.excluded_resources, IsEmpty());
  EXPECT_THAT(selector.included_namespaces, IsEmpty()) << "those of the target count there";
  EXPECT_THAT(selector.excluded_namespaces, IsEmpty());
  EXPECT_EQ(selector.label_selector, "");
}

// Otherwise Longhorn takes a new snapshot, of today's data, under the name of one that is gone.
TEST_F(LonghornGuardTest, ASnapshotThatAsksToBeTakenIsNotRestored) {
  Json snapshot = LonghornObject("Snapshot", "nightly-1f0c");
  SetJson(snapshot, {"spec"}, Json{{"volume", "pvc-1"}, {"createSnapshot", true}});
  EXPECT_FALSE(IsRestored(snapshot));
  EXPECT_THAT(log_.told(), ElementsAre(HasSubstr(
                               "snapshots.longhorn.io longhorn-system/nightly-1f0c is left out: "
                               "Longhorn would take a new snapshot")));
  EXPECT_THAT(log_.warnings(), IsEmpty());
}

TEST_F(LonghornGuardTest, NorIsOneWhoseStatusWouldBeRestored) {
  Json archived = LonghornObject("Snapshot");
  SetJson(archived, {"metadata", "annotations", "velero.io/restore-status"}, "true");
  Json item = archived;
  SetJson(archived, {"status"}, Json{{"creationTime", "2026-10-01T02:00:00Z"}});
  const auto result = action_->Execute(bed_.ctx, objects::Object(item), objects::Object(archived),
                                       objects::Object(restore_));
  ASSERT_THAT(result, IsOk());
  EXPECT_TRUE(result->skip_restore);
}

// Longhorn ignores them there, but its webhook gives them a finalizer: they could never be deleted,
// and neither could the namespace.
TEST_F(LonghornGuardTest, NothingGetsIntoAMappedNamespace) {
  SetJson(restore_, {"spec", "namespaceMapping"}, Json{{kDefaultNamespace, kMapped}});
  for (const longhorn::KnownKind& known : longhorn::KnownKinds()) {
    EXPECT_FALSE(IsRestored(LonghornObject(std::string(known.kind)))) << known.kind;
  }
  EXPECT_THAT(log_.told(), SizeIs(longhorn::KnownKinds().size()));
  EXPECT_THAT(log_.told().front(), HasSubstr("one in restored could neither work nor be deleted"));
}

TEST_F(LonghornGuardTest, OfWhatIsMappedToLonghornsNamespaceTheKindDecides) {
  support::SetPluginConfig({{"longhornNamespace", kMapped}}, bed_.api);
  SetJson(restore_, {"spec", "namespaceMapping"}, Json{{kDefaultNamespace, kMapped}});
  EXPECT_TRUE(IsRestored(LonghornObject("Setting")));
  EXPECT_FALSE(IsRestored(LonghornObject("Volume")));
}

// The state of the cluster does not matter: a volume that is gone is not an error of an item.
TEST_F(LonghornGuardTest, OfAWholeNamespaceTheSettingsAndJobsAreRestored) {
  std::vector<std::string> restored;
  for (const longhorn::KnownKind& known : longhorn::KnownKinds()) {
    if (IsRestored(LonghornObject(std::string(known.kind)))) {
      restored.emplace_back(known.kind);
    }
  }
  EXPECT_THAT(restored, testing::UnorderedElementsAre("Setting", "RecurringJob", "BackupTarget"));
  EXPECT_THAT(bed_.api.calls(),
              ElementsAre(ApiCall{"list", "configmaps", support::kVeleroNamespace, "", ""}));
}

TEST_F(LonghornGuardTest, AnArchiveOfTheDroppedVersionIsLeftOutWithoutAnError) {
  for (const char* kind : {"Snapshot", "Volume", "Setting", "RecurringJob"}) {
    EXPECT_FALSE(IsRestored(LonghornObject(kind, "x", "v1beta1"))) << kind;
  }
  EXPECT_THAT(log_.told(), SizeIs(4));
  EXPECT_THAT(log_.told().back(),
              HasSubstr("is of longhorn.io/v1beta1, which Longhorn dropped in 1.10"));
}

// Another action may have made it one of the version that is served.
TEST_F(LonghornGuardTest, AnItemThatAnActionConvertedCountsAsItIsNow) {
  const auto result = action_->Execute(bed_.ctx, objects::Object(LonghornObject("Setting")),
                                       objects::Object(LonghornObject("Setting", "x", "v1beta1")),
                                       objects::Object(restore_));
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(result->skip_restore);
}

TEST_F(LonghornGuardTest, SwitchedOffItStillKeepsTheWorstOut) {
  support::SetPluginConfig({{"longhornGuard", "off"}}, bed_.api);
  EXPECT_TRUE(IsRestored(LonghornObject("Volume")));
  EXPECT_TRUE(IsRestored(LonghornObject("KindToCome")));
  for (const char* kind : {"Snapshot", "Engine", "SystemRestore"}) {
    EXPECT_FALSE(IsRestored(LonghornObject(kind))) << kind;
  }
}

TEST_F(LonghornGuardTest, ActsWithoutEnableCsi) {
  bed_.env.enable_csi = false;
  action_ = MakeLonghornGuardAction(bed_.env);
  EXPECT_FALSE(IsRestored(LonghornObject("Engine")));
}

TEST_F(LonghornGuardTest, SettingsThatCannotBeReadAreOneWarningAndTheDefaults) {
  support::SetPluginConfig({{"longhornGuard", "never"}}, bed_.api);
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(IsRestored(LonghornObject("Volume", absl::StrCat("v", i))));
  }
  EXPECT_THAT(log_.warnings(), ElementsAre(AllOf(HasSubstr("longhornGuard"), HasSubstr("on or off"),
                                                 HasSubstr("the defaults count"))));
  EXPECT_EQ(bed_.api.CallCount("list", "configmaps"), 1);
}

TEST_F(LonghornGuardTest, SettingsAreReadAgainForAnotherRestore) {
  EXPECT_FALSE(IsRestored(LonghornObject("Volume")));
  support::SetPluginConfig({{"longhornGuard", "off"}}, bed_.api);
  EXPECT_FALSE(IsRestored(LonghornObject("Volume"))) << "the same restore";
  SetJson(restore_, {"metadata", "uid"}, "another");
  EXPECT_TRUE(IsRestored(LonghornObject("Volume")));
}

TEST_F(LonghornGuardTest, ARestoreThatCannotBeReadIsAnError) {
  EXPECT_THAT(
      action_->Execute(bed_.ctx, objects::Object(LonghornObject("Volume")),
                       objects::Object(LonghornObject("Volume")), objects::Object(Json::object())),
      StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(LonghornGuardTest, NothingGoesOnAfterwards) {
  const auto progress = action_->Progress(bed_.ctx, "x", objects::Object(restore_));
  ASSERT_THAT(progress, IsOk());
  EXPECT_TRUE(progress->completed);
  EXPECT_NE(progress->error, "");
  EXPECT_THAT(action_->Cancel(bed_.ctx, "x", objects::Object(restore_)), IsOk());
  EXPECT_THAT(action_->AreAdditionalItemsReady(bed_.ctx, {}, objects::Object(restore_)),
              IsOkAndHolds(true));
}

// 30,000 snapshots of 1,000 volumes with CSI_DELTA_SWEEP=all, else a tenth, and of the memory too.
TEST_F(LonghornGuardTest, ThousandsOfSnapshotsCostOneRequestAndNextToNoMemory) {
  const support::SweepSample sample;
  const int snapshots = sample.is_everything() ? 30'000 : 3'000;
  const int64_t growth_max = (int64_t{16} << 20) / (sample.is_everything() ? 1 : 10);
  const auto run = [this](int i) {
    EXPECT_TRUE(Run(LonghornObject("Snapshot", absl::StrCat("snapshot-", i))).skip_restore);
  };
  run(0);
  const support::MemoryGrowth growth;
  const absl::Time begin = Clock::Real().Now();
  for (int i = 1; i < snapshots; ++i) {
    run(i);
  }
  if (support::AssertsSeconds("30,000 calls of the guard take at most 20 s")) {
    EXPECT_LE(Clock::Real().Now() - begin, absl::Seconds(20));
  }
  if (support::AssertsUnsanitized("memory of the guard")) {
    EXPECT_LE(growth.bytes(), growth_max);
  }
  EXPECT_THAT(bed_.api.calls(), SizeIs(1)) << "that for the settings";
  std::vector<testing::Matcher<std::string>> lines = {HasSubstr("is left out")};
  for (int count = 10; count <= snapshots; count *= 10) {
    lines.push_back(HasSubstr(absl::StrCat(": ", count, " are")));
  }
  EXPECT_THAT(log_.told(), testing::ElementsAreArray(lines));
}

}  // namespace
}  // namespace csidelta::restoreitemactions::longhorn_guard_test
