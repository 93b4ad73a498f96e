// A VolumeSnapshot is used only where it is ready, and it and its content name each other.
#include "csi/bound_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::csi::bound_snapshot_test {
namespace {

using support::ActionBed;
using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;

class BoundSnapshotTest : public testing::Test {
 protected:
  BoundSnapshotTest() {
    Json snapshot = support::MakeSnapshotObject("shop", "monday", "content");
    SetJson(snapshot, {"status", "readyToUse"}, true);
    SetJson(snapshot, {"status", "restoreSize"}, "1Gi");
    bed_.api.Seed(VolumeSnapshotType(), snapshot);
    bed_.api.Seed(VolumeSnapshotContentType(),
                  support::MakeContentObject("content", "shop", "monday", "h"));
  }

  absl::StatusOr<BoundSnapshot> Read() {
    return ReadBoundSnapshot(bed_.ctx, bed_.api, "shop", "monday", "");
  }
  void Change(const k8s::ObjectKey& key, const std::function<void(Json&)>& change) {
    bed_.api.Mutate(key, change);
  }

  const k8s::ObjectKey snapshot_ = VolumeSnapshotKey("shop", "monday");
  const k8s::ObjectKey content_ = VolumeSnapshotContentKey("content");
  ActionBed bed_;
};

TEST_F(BoundSnapshotTest, IsReadWithItsContent) {
  const auto bound = Read();
  ASSERT_THAT(bound, IsOk());
  EXPECT_EQ(bound->content_name, "content");
  EXPECT_EQ(bound->driver, support::kDriver);
  EXPECT_EQ(bound->snapshot_handle, "h");
  EXPECT_EQ(bound->volume_handle, "volume-1");
  EXPECT_EQ(bound->claim, "data");
}

// Its size is unknown: it may be used none the less.
TEST_F(BoundSnapshotTest, AnUnverifiedSnapshotOfAnExistingContentIsRead) {
  Change(snapshot_, [](Json& snapshot) {
    snapshot["spec"]["source"] = {{"volumeSnapshotContentName", "content"}};
    EraseJson(snapshot, {"status", "restoreSize"});
  });
  EXPECT_THAT(Read(), IsOk());
}

struct Flaw {
  const char* name;
  bool is_of_content;
  std::function<void(Json&)> change;
  const char* message;
};

class FlawedSnapshotTest : public BoundSnapshotTest, public testing::WithParamInterface<Flaw> {};

TEST_P(FlawedSnapshotTest, IsRefused) {
  Change(GetParam().is_of_content ? content_ : snapshot_, GetParam().change);
  EXPECT_THAT(Read(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(GetParam().message)));
}

std::function<void(Json&)> Set(std::vector<std::string> path, Json value) {
  return [path, value](Json& object) {
    Json* at = &object;
    for (const std::string& step : path) {
      at = &(*at)[step];
    }
    *at = value;
  };
}

void RequestDeletion(Json& object) {
  object["metadata"]["finalizers"] = {"example.com/held"};
  object["metadata"]["deletionTimestamp"] = "2023-11-14T22:13:00Z";
}

INSTANTIATE_TEST_SUITE_P(
    Flaws, FlawedSnapshotTest,
    testing::Values(
        Flaw{"NotReady", false, Set({"status", "readyToUse"}, false), "is not ready to use yet"},
        Flaw{"Refused", false,
             [](Json& snapshot) {
               snapshot["status"]["readyToUse"] = false;
               snapshot["status"]["error"]["message"] = "no room";
             },
             "is not ready to use: no room"},
        Flaw{"BeingDeleted", false, RequestDeletion, "is being deleted"},
        Flaw{"NotBound", false, Set({"status", "boundVolumeSnapshotContentName"}, ""),
             "is not bound"},
        Flaw{"ContentNotReady", true, Set({"status", "readyToUse"}, false),
             "is not ready to use yet"},
        Flaw{"ContentBeingDeleted", true, RequestDeletion, "is being deleted"},
        Flaw{"OfAnotherUid", true, Set({"spec", "volumeSnapshotRef", "uid"}, "other"),
             "belongs to another"},
        Flaw{"OfNoUid", true, Set({"spec", "volumeSnapshotRef", "uid"}, ""), "belongs to another"},
        Flaw{"OfAnotherName", true, Set({"spec", "volumeSnapshotRef", "name"}, "other"),
             "belongs to another"},
        Flaw{"OfAnotherNamespace", true, Set({"spec", "volumeSnapshotRef", "namespace"}, "other"),
             "belongs to another"},
        Flaw{"NoDriver", true, Set({"spec", "driver"}, ""), "names no driver"},
        Flaw{"NoHandle", true, Set({"status", "snapshotHandle"}, ""), "has no snapshot handle"}),
    [](const testing::TestParamInfo<Flaw>& one) { return one.param.name; });

TEST_F(BoundSnapshotTest, AMissingContentOrSnapshotIsNotFound) {
  bed_.api.Remove(content_);
  EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kNotFound));
  bed_.api.Remove(snapshot_);
  EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace csidelta::csi::bound_snapshot_test
