#include "csi/drop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/csi/backup_fixture.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

namespace csidelta::csi::drop_test {
namespace {

using objects::VolumeGroupSnapshot;
using objects::VolumeSnapshot;
using support::ApiCall;
using support::Fault;
using support::IsOk;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int kMembers = 3;

// Snapshots of the claims app/data-0 and so on, with the controller and the sidecar at work.
class DropFixture : public BackupFixture {
 protected:
  DropFixture() {
    for (int i = 0; i < kMembers; ++i) {
      SeedClaim(i);
    }
  }

  VolumeSnapshot MakeSnapshot(const std::string& name = "snap") {
    auto snapshot = VolumeSnapshot::Make("app", name);
    snapshot.SetSourcePvc("data-0");
    snapshot.SetClassName("fast");
    EXPECT_THAT(objects::Create(ctx_, api_, snapshot), IsOk());
    return objects::Get<VolumeSnapshot>(ctx_, api_, snapshot.key()).value();
  }

  VolumeGroupSnapshot MakeGroup() {
    auto group = VolumeGroupSnapshot::Make("v1", "app", "group");
    group.SetSelector("app", "db");
    group.SetClassName("groups");
    EXPECT_THAT(objects::Create(ctx_, api_, group.key().type, group), IsOk());
    return objects::Get<VolumeGroupSnapshot>(ctx_, api_, group.key()).value();
  }

  // Of all four kinds.
  std::vector<k8s::ObjectKey> Objects() const {
    std::vector<k8s::ObjectKey> all;
    for (const k8s::ResourceType& type :
         {VolumeGroupSnapshotType("v1"), VolumeGroupSnapshotContentType("v1"), VolumeSnapshotType(),
          VolumeSnapshotContentType()}) {
      for (const Json& object : api_.All(type)) {
        all.push_back({type, k8s::Namespace(object), k8s::Name(object)});
      }
    }
    return all;
  }

  objects::VolumeSnapshotContent ContentOf(const VolumeSnapshot& snapshot) {
    return support::As<objects::VolumeSnapshotContent>(
        api_.Find(VolumeSnapshotContentKey(snapshot.bound_content())).value());
  }
};

// The rows of the table for what the controller makes.
struct Row {
  const char* name;
  bool is_group;
  Data data;
};

class DropTest : public DropFixture, public testing::WithParamInterface<Row> {
 protected:
  bool deletes() const { return GetParam().data == Data::kDelete; }

  // The class says the contrary of what the test wants.
  void Make() {
    cluster_.class_policy = deletes() ? "Retain" : "Delete";
    if (GetParam().is_group) {
      group_ = MakeGroup();
    } else {
      snapshot_ = MakeSnapshot();
    }
    api_.ClearCalls();
  }

  absl::Status Drop() {
    return GetParam().is_group ? DropSnapshot(ctx_, api_, *group_, GetParam().data)
                               : DropSnapshot(ctx_, api_, *snapshot_, GetParam().data);
  }

  std::size_t DriverHolds() const {
    return GetParam().is_group ? cluster_.driver().groups().size()
                               : cluster_.driver().snapshots().size();
  }

  // `made`: how often Make() was called.
  void ExpectDropped(std::size_t made = 1) {
    EXPECT_THAT(Objects(), IsEmpty());
    EXPECT_EQ(DriverHolds(), deletes() ? 0 : made);
  }

  void ExpectUntouched(std::size_t objects) {
    EXPECT_THAT(Objects(), SizeIs(objects));
    EXPECT_EQ(api_.CallCount("delete", "*"), 0);
    EXPECT_EQ(DriverHolds(), 1u);
  }

  std::optional<VolumeSnapshot> snapshot_;
  std::optional<VolumeGroupSnapshot> group_;
};

constexpr Row kSnapshotRetain = {"SnapshotRetain", false, Data::kRetain};
constexpr Row kGroupRetain = {"GroupRetain", true, Data::kRetain};

std::string NameOfRow(const testing::TestParamInfo<Row>& row) { return row.param.name; }

INSTANTIATE_TEST_SUITE_P(Table, DropTest,
                         testing::Values(Row{"SnapshotDelete", false, Data::kDelete},
                                         kSnapshotRetain, Row{"GroupDelete", true, Data::kDelete},
                                         kGroupRetain),
                         NameOfRow);

class RetainTest : public DropTest {};
INSTANTIATE_TEST_SUITE_P(Table, RetainTest, testing::Values(kSnapshotRetain, kGroupRetain),
                         NameOfRow);

TEST_P(DropTest, DeletesTheObjectsAndTreatsTheDataByTheTable) {
  Make();
  EXPECT_EQ(DriverHolds(), 1u);
  EXPECT_THAT(Drop(), IsOk());
  ExpectDropped();
  EXPECT_THAT(Drop(), IsOk()) << "what is gone is done";
  ExpectDropped();
}

TEST_P(DropTest, AfterAnyFailingCallTheNextRunFinishes) {
  std::size_t made = 0;
  int n = 1;
  for (bool hit = true; hit; ++n) {
    SCOPED_TRACE(absl::StrCat("call ", n));
    Make();
    ++made;
    api_.FailCall(n, absl::InternalError("injected"), n % 2 ? Fault::kRefused : Fault::kAnswerLost);
    const absl::Status dropped = Drop();
    hit = api_.sweep_hit();
    api_.ClearFaults();
    EXPECT_EQ(dropped.ok(), !hit);
    if (!deletes()) {
      EXPECT_EQ(DriverHolds(), made);
    }
    EXPECT_THAT(Drop(), IsOk());
    ExpectDropped(made);
  }
  EXPECT_GT(n, GetParam().is_group ? kMembers + 3 : 3);
}

TEST_P(DropTest, NothingIsDeletedUnlessThePolicyIsConfirmed) {
  Make();
  const std::size_t objects = Objects().size();
  api_.SetAdmission([this](const support::FakeApiClient::AdmissionRequest& request) {
    Json object = request.object;
    if (!GetString(object, {"spec", "deletionPolicy"}).empty()) {
      SetJson(object, {"spec", "deletionPolicy"}, cluster_.class_policy);
    }
    return object;
  });
  EXPECT_THAT(Drop(), StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr(absl::StrCat("stays ", cluster_.class_policy))));
  ExpectUntouched(objects);
}

TEST_P(DropTest, NothingIsDeletedWithoutTheRightToPatch) {
  Make();
  const std::size_t objects = Objects().size();
  api_.Forbid("patch", "volumesnapshotcontents");
  EXPECT_THAT(Drop(), StatusIs(absl::StatusCode::kPermissionDenied));
  ExpectUntouched(objects);
}

// Another client removes the contents, whatever protects them, before the nth call.
TEST_P(DropTest, ContentsDeletedMeanwhileAreNoError) {
  for (int n = 1; n <= 4; ++n) {
    SCOPED_TRACE(absl::StrCat("call ", n));
    Make();
    int call = 0;
    api_.SetInterceptor([&](const ApiCall&, const Json*) {
      for (const k8s::ObjectKey& key : ++call == n ? Objects() : std::vector<k8s::ObjectKey>()) {
        if (key.namespace_name.empty()) {
          api_.Remove(key);
        }
      }
      return absl::OkStatus();
    });
    EXPECT_THAT(Drop(), IsOk());
    api_.SetInterceptor(nullptr);
    cluster_.LetDriverWork();
    EXPECT_THAT(Objects(), IsEmpty());
  }
}

TEST_P(RetainTest, RefusesAnUnboundSnapshotAndAForeignContent) {
  Make();
  const std::size_t objects = Objects().size();
  for (const Json& content : api_.All(VolumeSnapshotContentType())) {
    api_.SetField(VolumeSnapshotContentKey(k8s::Name(content)),
                  {"spec", "volumeSnapshotRef", "uid"}, "another");
  }
  EXPECT_THAT(Drop(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("does not belong to")));
  ExpectUntouched(objects);
  snapshot_ = VolumeSnapshot::Make("app", "unbound");
  group_ = VolumeGroupSnapshot::Make("v1", "app", "unbound");
  EXPECT_THAT(Drop(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is not bound")));
}

// --- What only one of them has

using DropSnapshotTest = DropFixture;

TEST_F(DropSnapshotTest, DeletesOnlyTheSnapshotOfThatUid) {
  const VolumeSnapshot snapshot = MakeSnapshot();
  EXPECT_THAT(DeleteSnapshot(ctx_, api_, snapshot.key(), "another-uid"), IsOk());
  EXPECT_TRUE(api_.Find(snapshot.key()).has_value());
  EXPECT_THAT(DeleteSnapshot(ctx_, api_, snapshot.key(), snapshot.uid()), IsOk());
  EXPECT_THAT(Objects(), IsEmpty());
  EXPECT_THAT(cluster_.driver().snapshots(), IsEmpty());
  EXPECT_THAT(DeleteSnapshot(ctx_, api_, snapshot.key(), snapshot.uid()), IsOk());
}

TEST_F(DropSnapshotTest, KeepsTheContentOfAnotherSnapshot) {
  const VolumeSnapshot snapshot = MakeSnapshot();
  Json others = ContentOf(snapshot).json();
  SetJson(others, {"metadata", "name"}, "others");
  SetJson(others, {"spec", "deletionPolicy"}, "Retain");
  SetJson(others, {"spec", "volumeSnapshotRef", "uid"}, "another");
  api_.Seed(VolumeSnapshotContentType(), others);
  api_.SetField(snapshot.key(), {"status", "boundVolumeSnapshotContentName"}, "others");
  EXPECT_THAT(DeleteSnapshot(ctx_, api_, snapshot.key(), snapshot.uid()), IsOk());
  EXPECT_FALSE(api_.Find(snapshot.key()).has_value());
  EXPECT_EQ(GetString(*api_.Find(VolumeSnapshotContentKey("others")), {"spec", "deletionPolicy"}),
            "Retain");
}

// A writer of a VolumeSnapshot also writes its owners. By this one a tenant would have snapshots
// deleted that their class retains.
TEST_F(DropSnapshotTest, AnOwnerMakesNoMember) {
  const VolumeGroupSnapshot group = MakeGroup();
  cluster_.class_policy = "Retain";
  const VolumeSnapshot others = MakeSnapshot("others");
  api_.SetField(others.key(), {"metadata", "ownerReferences"},
                Json::array({{{"apiVersion", "groupsnapshot.storage.k8s.io/v1"},
                              {"kind", "VolumeGroupSnapshot"},
                              {"name", group.name()},
                              {"uid", group.uid()}}}));
  EXPECT_THAT(DropSnapshot(ctx_, api_, group, Data::kDelete), IsOk());
  EXPECT_THAT(cluster_.driver().groups(), IsEmpty());
  EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(1));
}

// As controllers do that write no name of a group.
TEST_F(DropSnapshotTest, MembersAreKnownByTheHandleOfTheirGroup) {
  cluster_.names_groups = false;
  cluster_.class_policy = "Retain";
  const VolumeGroupSnapshot group = MakeGroup();
  api_.ClearCalls();
  EXPECT_THAT(DropSnapshot(ctx_, api_, group, Data::kDelete), IsOk());
  EXPECT_EQ(api_.CallCount("get", "volumegroupsnapshotcontents"), 2)
      << "before and after the group goes, not for each member";
  EXPECT_THAT(Objects(), IsEmpty());
  EXPECT_THAT(cluster_.driver().groups(), IsEmpty());
}

// Velero >= 1.14 detaches every member by itself, before the group or later.
TEST_F(DropSnapshotTest, MembersDroppedBeforeTheirGroupAreDeletedWithIt) {
  const VolumeGroupSnapshot group = MakeGroup();
  for (const Json& member : api_.All(VolumeSnapshotType())) {
    EXPECT_THAT(DropSnapshot(ctx_, api_, support::As<VolumeSnapshot>(member), Data::kRetain),
                IsOk());
  }
  EXPECT_THAT(api_.All(VolumeSnapshotType()), SizeIs(kMembers)) << "the group keeps its members";
  EXPECT_THAT(DropSnapshot(ctx_, api_, group, Data::kRetain), IsOk());
  EXPECT_THAT(Objects(), IsEmpty());
  EXPECT_THAT(cluster_.driver().groups(), SizeIs(1));
}

TEST_F(DropSnapshotTest, MembersOfAnotherVersionAreDeletedToo) {
  const VolumeGroupSnapshot group = MakeGroup();
  for (const Json& member : api_.All(VolumeSnapshotType())) {
    api_.Mutate(VolumeSnapshotKey("app", k8s::Name(member)), [](Json& snapshot) {
      snapshot["metadata"]["ownerReferences"][0]["apiVersion"] =
          "groupsnapshot.storage.k8s.io/v1beta2";
    });
  }
  EXPECT_THAT(DropSnapshot(ctx_, api_, group, Data::kRetain), IsOk());
  EXPECT_THAT(Objects(), IsEmpty());
  EXPECT_THAT(cluster_.driver().groups(), SizeIs(1));
}

// --- Contents

using DropContentTest = DropFixture;

TEST_F(DropContentTest, TheMarkIsWrittenAfterTheVolumeSnapshotIsDeleted) {
  for (const Data data : {Data::kDelete, Data::kRetain}) {
    const VolumeSnapshot snapshot = MakeSnapshot();
    const objects::VolumeSnapshotContent content = ContentOf(snapshot);
    api_.ClearCalls();
    EXPECT_THAT(DropContent(ctx_, api_, IdOf(content), IdOf(snapshot), data), IsOk());
    std::vector<std::string> writes;
    for (const ApiCall& call : api_.calls()) {
      writes.push_back(absl::StrCat(call.verb, " ", call.plural));
    }
    EXPECT_THAT(writes,
                ElementsAre("patch volumesnapshotcontents", "delete volumesnapshots",
                            "patch volumesnapshotcontents", "delete volumesnapshotcontents"));
    EXPECT_THAT(Objects(), IsEmpty());
    EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(data == Data::kRetain ? 1 : 0));
    EXPECT_THAT(DropContent(ctx_, api_, IdOf(content), std::nullopt, data), IsOk()) << "gone";
  }
}

TEST_F(DropContentTest, AnotherContentOfItsNameStays) {
  const VolumeSnapshot snapshot = MakeSnapshot();
  const ObjectId old = {.key = ContentOf(snapshot).key(), .uid = "another"};
  EXPECT_THAT(DropContent(ctx_, api_, old, std::nullopt, Data::kDelete),
              StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(Objects(), SizeIs(2));
}

TEST_F(DropContentTest, WritesAMissingHandleIntoTheStatus) {
  cluster_.sidecar_runs = false;
  Json json = support::MakeContentObject("made", "app", "none", "");
  SetJson(json, {"spec", "source"}, Json{{"snapshotHandle", "h"}});
  SetJson(json, {"metadata", "finalizers"}, Json::array({"test/keep"}));
  api_.Seed(VolumeSnapshotContentType(), json);
  const auto content = support::As<objects::VolumeSnapshotContent>(json);
  EXPECT_THAT(DeleteContent(ctx_, api_, content), IsOk());
  const Json left = api_.Find(content.key()).value();
  EXPECT_EQ(GetString(left, {"status", "snapshotHandle"}), "h");
  EXPECT_TRUE(k8s::BeingDeleted(left));
}

// Drivers may refuse to delete a member alone.
TEST_F(DropContentTest, AMemberOfAMovedGroupIsLeftToItsGroup) {
  Json json = support::MakeContentObject(
      "member", "app", "snap", "h",
      {{objects::kMovedGroupLabel, "record"}, {objects::kBaseLabel, "true"}});
  SetJson(json, {"metadata", "finalizers"}, Json::array({"test/keep"}));
  for (const bool by_snapshot : {false, true}) {
    api_.Seed(VolumeSnapshotContentType(), json);
    const auto content = support::As<objects::VolumeSnapshotContent>(json);
    cluster_.controller_runs = false;
    const Json snapshot =
        api_.Seed(VolumeSnapshotType(), support::MakeSnapshotObject("app", "snap", "member"));
    EXPECT_THAT(by_snapshot
                    ? DropSnapshot(ctx_, api_, support::As<VolumeSnapshot>(snapshot), Data::kDelete)
                    : DeleteContent(ctx_, api_, content),
                IsOk());
    const Json left = api_.Find(content.key()).value();
    EXPECT_EQ(k8s::Label(left, objects::kReleasedLabel), "true");
    EXPECT_EQ(k8s::Label(left, objects::kBaseLabel), "");
    EXPECT_FALSE(k8s::BeingDeleted(left));
  }
}

}  // namespace
}  // namespace csidelta::csi::drop_test
