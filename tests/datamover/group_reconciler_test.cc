#include "datamover/controller/leftover_reconcilers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "objects/keys.h"
#include "tests/datamover/mover_bed.h"
#include "tests/support/kind_names.h"
#include "tests/support/status_matchers.h"

namespace csidelta::datamover::group_reconciler_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using support::StatusIs;
using testing::IsEmpty;
using testing::SizeIs;

// A moved volume group of two members, whose snapshots are needed.
class GroupReconcilerTest : public testing::Test {
 protected:
  GroupReconcilerTest() {
    bed_.api.Seed(VolumeGroupSnapshotClassType("v1"),
                  {{"metadata", {{"name", "groups"}}}, {"driver", "d.example.com"}});
    bed_.api.Seed(VolumeGroupSnapshotContentType("v1"),
                  {{"metadata", {{"name", "record"}}},
                   {"spec",
                    {{"driver", "d.example.com"},
                     {"deletionPolicy", "Retain"},
                     {"source",
                      {{"groupSnapshotHandles",
                        {{"volumeGroupSnapshotHandle", "group-1"},
                         {"volumeSnapshotHandles", Json::array({"one", "two"})}}}}}}},
                   {"status", {{"volumeGroupSnapshotHandle", "group-1"}}}});
    for (const char* name : {"one", "two"}) {
      bed_.api.Seed(
          VolumeSnapshotContentType(),
          {{"metadata", {{"name", name}, {"labels", {{objects::kMovedGroupLabel, "record"}}}}},
           {"spec",
            {{"driver", "d.example.com"},
             {"deletionPolicy", "Retain"},
             {"source", {{"snapshotHandle", name}}}}}});
    }
    bed_.api.ClearCalls();
  }

  Json Content(const std::string& name) const {
    return bed_.api.Find(VolumeSnapshotContentKey(name)).value_or(Json());
  }
  void Release(const std::string& name) {
    bed_.api.Mutate(VolumeSnapshotContentKey(name), [](Json& content) {
      content["metadata"]["labels"][objects::kReleasedLabel] = "true";
    });
  }
  absl::StatusOr<absl::Time> Reconcile(const std::string& name) {
    return GroupReconciler(bed_.env).Reconcile(bed_.ctx, Content(name));
  }

  MoverBed bed_;
};

TEST_F(GroupReconcilerTest, FollowsTheMembersOfMovedGroupsInAllNamespaces) {
  const k8s::WatchedObjects followed = GroupMemberContents();
  EXPECT_EQ(followed.type.plural, "volumesnapshotcontents");
  EXPECT_EQ(followed.namespace_name, "");
  EXPECT_EQ(followed.label_selector, "mover.csi-delta.io/group");
}

TEST_F(GroupReconcilerTest, AGroupStaysWhileASnapshotOfItIsNeeded) {
  Release("one");
  EXPECT_THAT(Reconcile("one"), IsOkAndHolds(bed_.clock.Now() + absl::Minutes(10)));
  EXPECT_THAT(bed_.api.All(VolumeGroupSnapshotContentType("v1")), SizeIs(1));
  EXPECT_THAT(bed_.api.All(VolumeSnapshotContentType()), SizeIs(2));
}

TEST_F(GroupReconcilerTest, AReleasedGroupIsDeletedWithItsMembers) {
  Release("one");
  Release("two");
  EXPECT_THAT(Reconcile("two"), IsOk());
  EXPECT_THAT(bed_.api.All(VolumeGroupSnapshotContentType("v1")), IsEmpty());
  EXPECT_THAT(bed_.api.All(VolumeSnapshotContentType()), IsEmpty());
}

TEST_F(GroupReconcilerTest, AMemberThatIsBeingDeletedIsLeftAlone) {
  Release("one");
  Release("two");
  bed_.api.Mutate(VolumeSnapshotContentKey("one"), [](Json& content) {
    content["metadata"]["finalizers"] = Json::array({"a-finalizer"});
    content["metadata"]["deletionTimestamp"] = "2026-11-23T05:00:00Z";
  });
  bed_.api.ClearCalls();
  EXPECT_THAT(Reconcile("one"), IsOkAndHolds(absl::InfiniteFuture()));
  EXPECT_THAT(bed_.api.calls(), IsEmpty());
}

TEST_F(GroupReconcilerTest, ARefusalOfTheApiServerIsAnErrorAndTheNextReconcileGoesOn) {
  Release("one");
  Release("two");
  bed_.api.Forbid("delete", "volumegroupsnapshotcontents");
  EXPECT_THAT(Reconcile("one"), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(bed_.api.All(VolumeSnapshotContentType()), SizeIs(2));
  bed_.api.ClearFaults();
  EXPECT_THAT(Reconcile("one"), IsOk());
  EXPECT_THAT(bed_.api.All(VolumeSnapshotContentType()), IsEmpty());
}

}  // namespace
}  // namespace csidelta::datamover::group_reconciler_test
