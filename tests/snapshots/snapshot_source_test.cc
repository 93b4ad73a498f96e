#include "snapshots/snapshot_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_api_client.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::snapshots::snapshot_source_test {
namespace {

using support::IsOk;
using support::kDriver;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SnapshotSourceTest : public testing::Test {
 protected:
  void SeedPvc(const std::string& name, const std::string& driver = kDriver,
               const support::Strings& labels = {}) {
    Json pvc = support::MakeObject("v1", "PersistentVolumeClaim", "shop", name, labels);
    SetJson(pvc, {"spec", "volumeName"}, "pv-" + name);
    SetJson(pvc, {"status", "phase"}, "Bound");
    api_.Seed(PersistentVolumeClaimType(), pvc);
    Json volume = support::MakeObject("v1", "PersistentVolume", "", "pv-" + name);
    if (!driver.empty()) {
      SetJson(volume, {"spec", "csi", "driver"}, driver);
    }
    api_.Seed(PersistentVolumeType(), volume);
  }
  void SeedClass(const std::string& name, const std::string& driver = kDriver) {
    api_.Seed(VolumeSnapshotClassType(), support::MakeClassObject(name, driver));
  }

  absl::StatusOr<SelectedPvcs> Select(PvcSelection selection) {
    selection.namespace_name = "shop";
    return SelectPvcs(ctx_, api_, selection);
  }
  static std::vector<std::string> Names(const absl::StatusOr<SelectedPvcs>& selected) {
    std::vector<std::string> names;
    if (!selected.ok()) {
      return {selected.status().ToString()};
    }
    for (const auto& pvc : selected->pvcs) {
      names.push_back(pvc.name());
    }
    return names;
  }

  absl::StatusOr<SnapshotSources> Prepare(const std::vector<std::string>& names,
                                          const std::string& class_name = "") {
    PvcSelection selection;
    selection.names = names;
    const auto selected = Select(selection);
    EXPECT_THAT(selected, IsOk());
    return PrepareSources(ctx_, api_, selected->pvcs, class_name);
  }

  support::FakeApiClient api_;
  CallContext ctx_;
};

PvcSelection OfNames(std::vector<std::string> names) {
  PvcSelection selection;
  selection.names = std::move(names);
  return selection;
}

TEST_F(SnapshotSourceTest, SelectsInOneWay) {
  SeedPvc("data", kDriver, {{"app", "db"}});
  SeedPvc("logs");
  EXPECT_THAT(Names(Select(OfNames({"logs", "data", "logs"}))), ElementsAre("data", "logs"));
  PvcSelection all;
  all.all = true;
  EXPECT_THAT(Names(Select(all)), ElementsAre("data", "logs"));
  PvcSelection labelled;
  labelled.label_selector = "app=db";
  EXPECT_THAT(Names(Select(labelled)), ElementsAre("data"));

  EXPECT_THAT(Select({}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("in one way")));
  labelled.all = true;
  EXPECT_THAT(Select(labelled), StatusIs(absl::StatusCode::kInvalidArgument));
  labelled.all = false;
  labelled.label_selector = "app=none";
  EXPECT_THAT(Select(labelled), StatusIs(absl::StatusCode::kNotFound, HasSubstr("shop")));
  EXPECT_THAT(Select(OfNames({"data", "missing"})),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("PVC shop/missing was not found")));
}

TEST_F(SnapshotSourceTest, SelectsByWorkload) {
  SeedPvc("data-db-0");
  SeedPvc("data-db-1");
  SeedPvc("data-dbx-0");
  Json pod = support::MakeObject("v1", "Pod", "shop", "db-0");
  SetJson(pod, {"spec", "volumes"},
          Json::array({{{"name", "d"}, {"persistentVolumeClaim", {{"claimName", "data-db-0"}}}}}));
  api_.Seed(PodType(), pod);
  Json set = support::MakeObject("apps/v1", "StatefulSet", "shop", "db");
  SetJson(set, {"spec", "volumeClaimTemplates"}, Json::array({{{"metadata", {{"name", "data"}}}}}));
  api_.Seed(StatefulSetType(), set);

  PvcSelection of_pod;
  of_pod.pod = "db-0";
  const auto by_pod = Select(of_pod);
  EXPECT_THAT(Names(by_pod), ElementsAre("data-db-0"));
  EXPECT_EQ(by_pod->workload, "Pod/db-0");
  PvcSelection of_set;
  of_set.stateful_set = "db";
  const auto by_set = Select(of_set);
  EXPECT_THAT(Names(by_set), ElementsAre("data-db-0", "data-db-1"));
  EXPECT_EQ(by_set->workload, "StatefulSet/db");
  of_set.stateful_set = "none";
  EXPECT_THAT(Select(of_set), StatusIs(absl::StatusCode::kNotFound, HasSubstr("none")));
}

TEST_F(SnapshotSourceTest, FindsDriverAndClass) {
  SeedPvc("data");
  SeedClass("fast");
  SeedClass("other", "other.example.com");
  const auto found = Prepare({"data"});
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->sources.at(0).driver, kDriver);
  EXPECT_EQ(found->sources.at(0).class_name, "fast");
  EXPECT_THAT(found->not_checked, IsEmpty());
  EXPECT_THAT(Prepare({"data"}, "other"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("VolumeSnapshotClass other is of driver other.example.com"),
                             HasSubstr("classes of that driver: fast"))));
  EXPECT_THAT(Prepare({"data"}, "gone"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("gone was not found")));
}

TEST_F(SnapshotSourceTest, NamesEachPvcThatIsInTheWay) {
  SeedPvc("data");
  SeedPvc("nfs", "");
  SeedPvc("foreign", "other.example.com");
  SeedClass("fast");
  api_.Seed(PersistentVolumeClaimType(),
            support::MakeObject("v1", "PersistentVolumeClaim", "shop", "new"));
  EXPECT_THAT(Prepare({"data", "nfs", "new", "foreign"}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("PVC shop/nfs: its PersistentVolume pv-nfs is not of a CSI"),
                             HasSubstr("PVC shop/new: it is not bound"),
                             HasSubstr("PVC shop/foreign: no VolumeSnapshotClass"),
                             testing::Not(HasSubstr("shop/data")))));
  EXPECT_EQ(api_.CallCount("create", "*"), 0);
}

TEST_F(SnapshotSourceTest, WhatMayNotBeReadIsLeftToTheController) {
  SeedPvc("data");
  SeedClass("fast");
  api_.Forbid("get", "persistentvolumes");
  api_.Forbid("list", "volumesnapshotclasses");
  const auto found = Prepare({"data"});
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->sources.at(0).driver, "");
  EXPECT_EQ(found->sources.at(0).class_name, "");
  EXPECT_THAT(found->not_checked,
              ElementsAre(HasSubstr("class not checked"), HasSubstr("driver of PVC data")));
  EXPECT_EQ(Prepare({"data"}, "mine")->sources.at(0).class_name, "mine");
}

}  // namespace
}  // namespace csidelta::snapshots::snapshot_source_test
