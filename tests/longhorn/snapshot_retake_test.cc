#include "longhorn/snapshot_retake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "k8s/object.h"
#include "tests/support/longhorn_objects.h"
#include "tests/support/native_bed.h"
#include "tests/support/status_matchers.h"

// On the stand-in of Longhorn; no Longhorn was here.
namespace csidelta::longhorn::snapshot_retake_test {
namespace {

using support::IsOkAndHolds;
using support::NativeBed;
using support::StatusIs;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(RetakenNameTest, IsAnotherDnsLabelThatLonghornCanDelete) {
  std::set<std::string> names;
  const std::string long_name(253, 'x');
  for (const std::string& name :
       {std::string("nightly-1f0c"), std::string("a"), std::string(""), std::string("..."),
        std::string("v1.2.3"), std::string("-x-"), std::string("Ünïcode"),
        std::string(43, 'a') + ".b", long_name, long_name + "y"}) {
    const std::string retaken = RetakenName(name, "restore-uid");
    EXPECT_NE(retaken, name);
    EXPECT_LE(retaken.size(), std::size_t{56}) << retaken;
    EXPECT_TRUE(absl::ascii_isalnum(retaken.front()) && absl::ascii_isalnum(retaken.back()))
        << retaken;
    for (const char c : retaken) {
      EXPECT_TRUE(absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-') << retaken;
    }
    EXPECT_TRUE(names.insert(retaken).second) << retaken;
    EXPECT_EQ(RetakenName(name, "restore-uid"), retaken);
    EXPECT_NE(RetakenName(name, "another-uid"), retaken);
  }
  EXPECT_TRUE(absl::StartsWith(RetakenName("nightly-1f0c", "u"), "nightly-1f0c-rt-"));
}

// The cluster has the attached volume "pvc-1".
class RetakeTest : public testing::Test {
 protected:
  ~RetakeTest() override { bed_.ExpectNoWritesToLonghorn(); }

  absl::StatusOr<std::string> Run() {
    return Retake(bed_.ctx, bed_.api(), Snapshot::Of(archived_).value(), request_);
  }
  void ExpectRefused(const std::string& why) {
    EXPECT_THAT(Run(), IsOkAndHolds(HasSubstr(why)));
    EXPECT_EQ(bed_.Count("create", "snapshots"), 0);
  }

  NativeBed bed_;
  Json archived_ =
      support::MakeLonghornSnapshot("nightly-1", "pvc-1", "2026-10-01T02:00:00Z", "nightly");
  const RetakeRequest request_ = {
      .namespace_name = "longhorn-system", .restore_name = "r1", .restore_uid = "restore-uid"};
};

TEST_F(RetakeTest, LonghornTakesANewOneUnderANewName) {
  EXPECT_THAT(Run(), IsOkAndHolds(""));
  bed_.Pass(absl::Seconds(8));
  ASSERT_THAT(bed_.Snapshots(), SizeIs(1));
  const Json made = bed_.Snapshots()[0];
  EXPECT_EQ(k8s::Name(made), RetakenName("nightly-1", "restore-uid"));
  EXPECT_TRUE(GetBool(made, {"status", "readyToUse"}));
  EXPECT_TRUE(bed_.EngineHas(k8s::Name(made)));
  EXPECT_FALSE(bed_.EngineHas("nightly-1"));
  EXPECT_EQ(k8s::Label(made, "velero.io/restore-name"), "r1");
  EXPECT_EQ(k8s::Annotation(made, "longhorn.csi-delta.io/retaken-of"), "nightly-1");
  // A job would count it as its own, and delete it.
  EXPECT_EQ(Snapshot::Of(made)->job(), "");
}

TEST_F(RetakeTest, ACallThatIsRepeatedTakesNoSecondOne) {
  EXPECT_THAT(Run(), IsOkAndHolds(""));
  EXPECT_THAT(Run(), IsOkAndHolds(""));
  EXPECT_THAT(bed_.Snapshots(), SizeIs(1));
}

TEST_F(RetakeTest, OneWhoseNameIsThereNeedsNone) {
  bed_.AddSnapshot("nightly-1");
  ExpectRefused("Longhorn has one of its name");
}

TEST_F(RetakeTest, WithoutItsVolumeNoneExists) {
  SetJson(archived_, {"spec", "volume"}, "pvc-gone");
  ExpectRefused("Longhorn does not have its volume");
  SetJson(archived_, {"spec", "volume"}, "");
  ExpectRefused("it names no volume");
}

TEST_F(RetakeTest, AnotherVolumeOfTheNameIsNotSnapshotted) {
  const Json volume = *bed_.api().Find(NativeBed::VolumeKey());
  const auto owned_by = [&](const std::string& uid) {
    SetJson(archived_, {"metadata", "ownerReferences"},
            Json::array({{{"kind", "Volume"}, {"name", "pvc-1"}, {"uid", uid}}}));
  };
  owned_by("another");
  ExpectRefused("is another one than it was taken of");
  owned_by(k8s::Uid(volume));
  EXPECT_THAT(Run(), IsOkAndHolds(""));
}

TEST_F(RetakeTest, WhatABackupMadeIsNotTakenAgain) {
  SetJson(archived_, {"metadata", "labels", "longhorn.csi-delta.io/made-by"}, "csi-delta");
  ExpectRefused("a backup of Velero made it");
}

TEST_F(RetakeTest, WhatLonghornTookForItselfOrRemovedIsNotTakenAgain) {
  SetJson(archived_, {"status", "userCreated"}, false);
  ExpectRefused("Longhorn took it for itself");
  SetJson(archived_, {"status", "userCreated"}, true);
  SetJson(archived_, {"status", "markRemoved"}, true);
  ExpectRefused("was removed already");
}

// A user asked for it, and Longhorn had not taken it yet.
TEST_F(RetakeTest, OneThatWasStillPendingIsTaken) {
  EraseJson(archived_, {"status"});
  EXPECT_THAT(Run(), IsOkAndHolds(""));
}

// Longhorn would take a refused one as soon as it can.
TEST_F(RetakeTest, NoneIsAskedForThatCouldNotBeTakenNow) {
  bed_.PatchVolume({{"spec", {{"snapshotMaxCount", 2}}}});
  bed_.AddSnapshot("one");
  bed_.AddSnapshot("two");
  ExpectRefused("its volume has no room for one more");
  bed_.api().Mutate(NativeBed::VolumeKey(), [](Json& volume) {
    SetJson(volume, {"spec", "Standby"}, true);
  });
  ExpectRefused("no snapshot of its volume can be taken now");
}

TEST_F(RetakeTest, AManagerThatIsAwayIsAnError) {
  bed_.longhorn.StopManager();
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("failed calling webhook")));
  EXPECT_THAT(bed_.Snapshots(), IsEmpty());
}

}  // namespace
}  // namespace csidelta::longhorn::snapshot_retake_test
