#include "datamover/records/restored_pvcs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tests/datamover/mover_bed.h"
#include "tests/support/status_matchers.h"

namespace csidelta::datamover::restored_pvcs_test {
namespace {

using support::IsOk;
using testing::AllOf;
using testing::HasSubstr;

constexpr char kCluster[] = "c1000000-0000-4000-8000-000000000001";
constexpr char kOther[] = "c2000000-0000-4000-8000-000000000002";

RestoredPvc SomeRestored() {
  return {.pvc_uid = "b",
          .source = {.cluster = kCluster,
                     .namespace_name = "shop",
                     .claim_uid = "a",
                     .snapshot_id = std::string(64, 'd'),
                     .key = std::string(16, 'e')},
          .data_bytes = int64_t{3} << 30};
}

objects::TaskVolume VolumeOf(const std::string& uid = "b") {
  return {.namespace_name = "shop", .claim = "data", .claim_uid = uid};
}

TEST(ChooseRepositoryTest, ARestoredPvcGoesOnInTheRepositoryOfItsBackup) {
  const objects::TaskVolume volume = ChooseRepository(SomeRestored(), kCluster, false, VolumeOf());
  EXPECT_EQ(volume.repository_uid, "a");
  EXPECT_EQ(volume.repository_cluster, "");
  EXPECT_EQ(volume.repository(), "a");
  EXPECT_EQ(volume.claim_uid, "b");
  EXPECT_EQ(volume.restored_snapshot, std::string(64, 'd'));
  EXPECT_EQ(volume.why_own, "");
}

TEST(ChooseRepositoryTest, AnyOtherPvcHasItsOwn) {
  // Made again without a restore; or restored, and not the last one.
  EXPECT_EQ(ChooseRepository(SomeRestored(), kOther, true, VolumeOf("c")), VolumeOf("c"));
  EXPECT_EQ(ChooseRepository(std::nullopt, kCluster, false, VolumeOf()), VolumeOf());
}

TEST(ChooseRepositoryTest, InAnotherClusterARestoredPvcStartsOverAndSaysWhyAndWhatItCosts) {
  const objects::TaskVolume volume = ChooseRepository(SomeRestored(), kOther, false, VolumeOf());
  EXPECT_EQ(volume.repository(), "b");
  EXPECT_EQ(volume.restored_snapshot, "");
  EXPECT_THAT(volume.why_own, AllOf(HasSubstr(absl::StrCat("a backup of cluster ", kCluster)),
                                    HasSubstr(absl::StrCat("adopt --from-cluster ", kCluster)),
                                    HasSubstr("stores 3.0 GiB once more")));
  EXPECT_LT(volume.why_own.size(), objects::kOutcomeTextBytesMax);
}

TEST(ChooseRepositoryTest, OfAClusterThatIsAdoptedItGoesOnInTheRepositoryOfItsBackup) {
  const objects::TaskVolume volume = ChooseRepository(SomeRestored(), kOther, true, VolumeOf());
  EXPECT_EQ(volume.repository_cluster, kCluster);
  EXPECT_EQ(volume.repository(), "a");
  EXPECT_EQ(volume.restored_snapshot, std::string(64, 'd'));
  EXPECT_EQ(volume.why_own, "");
}

class RestoredPvcsTest : public testing::Test {
 protected:
  absl::Status Record(const RestoredPvc& restored) {
    return RecordRestored(bed_.ctx, bed_.env, place_, restored);
  }
  std::optional<RestoredPvc> Found() {
    const auto found = FindRestored(bed_.ctx, bed_.env, place_);
    EXPECT_THAT(found, IsOk());
    return found.value_or(std::nullopt);
  }
  k8s::ObjectKey Key() const {
    return objects::Secret::Key(MoverBed::kMover, RestoredSecretName(place_));
  }

  MoverBed bed_;
  RestoredPlace place_ = {"velero", "default", "shop", "data"};
};

TEST_F(RestoredPvcsTest, WhatIsRecordedIsFoundAndTheNextRestoreReplacesIt) {
  EXPECT_FALSE(Found().has_value());
  ASSERT_THAT(Record(SomeRestored()), IsOk());
  RestoredPvc again = SomeRestored();
  again.pvc_uid = "c";
  again.source.snapshot_id = std::string(64, 'f');
  EXPECT_EQ(Found()->pvc_uid, "b");
  ASSERT_THAT(Record(again), IsOk());
  const std::optional<RestoredPvc> found = Found();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->pvc_uid, "c");
  EXPECT_EQ(found->source, again.source);
  EXPECT_EQ(found->data_bytes, int64_t{3} << 30);
  EXPECT_EQ(k8s::Label(*bed_.api.Find(Key()), "velero.io/exclude-from-backup"), "true");
}

TEST_F(RestoredPvcsTest, WhatDoesNotReadIsNothing) {
  ASSERT_THAT(Record(SomeRestored()), IsOk());
  for (const auto& [field, text] : {std::pair("snapshotID", "csi-delta/1/../../x"),
                                    std::pair("snapshotID", ""), std::pair("pvcUID", "")}) {
    ASSERT_THAT(Record(SomeRestored()), IsOk());
    bed_.api.SetField(Key(), {"data", field}, absl::Base64Escape(text));
    EXPECT_FALSE(Found().has_value()) << field;
  }
}

TEST_F(RestoredPvcsTest, ItGoesWithItsPvcAlone) {
  ASSERT_THAT(Record(SomeRestored()), IsOk());
  EXPECT_THAT(ForgetRestored(bed_.ctx, bed_.env, place_, "a"), IsOk());
  EXPECT_TRUE(Found().has_value());
  EXPECT_THAT(ForgetRestored(bed_.ctx, bed_.env, place_, "b"), IsOk());
  EXPECT_FALSE(Found().has_value());
  EXPECT_THAT(ForgetRestored(bed_.ctx, bed_.env, place_, "b"), IsOk());
}

TEST_F(RestoredPvcsTest, AnAdoptionIsOfOneClusterAtOneLocation) {
  const ForeignCluster foreign = {MoverBed::kMover, "velero", "default", kCluster};
  ASSERT_THAT(RecordAdoption(bed_.ctx, bed_.api, foreign, "ann at noon"), IsOk());
  EXPECT_EQ(FindAdoption(bed_.ctx, bed_.api, foreign)->value_or(""), "ann at noon");
  EXPECT_EQ(RecordAdoption(bed_.ctx, bed_.api, foreign, "bob").code(),
            absl::StatusCode::kAlreadyExists);
  for (std::string ForeignCluster::*const part :
       {&ForeignCluster::velero_namespace, &ForeignCluster::location, &ForeignCluster::cluster}) {
    ForeignCluster other = foreign;
    other.*part = "other";
    EXPECT_FALSE(FindAdoption(bed_.ctx, bed_.api, other)->has_value());
  }
}

TEST_F(RestoredPvcsTest, ThoseOfAClusterAreListedByLocation) {
  ForeignCluster foreign = {MoverBed::kMover, "velero", "default", kCluster};
  ASSERT_THAT(Record(SomeRestored()), IsOk());
  const auto listed = ListRestored(bed_.ctx, bed_.api, foreign);
  ASSERT_THAT(listed, IsOk());
  ASSERT_EQ(listed->size(), 1U);
  EXPECT_EQ(listed->begin()->first, "shop/data");
  EXPECT_EQ(listed->begin()->second.data_bytes, int64_t{3} << 30);
  foreign.location = "other";
  EXPECT_TRUE(ListRestored(bed_.ctx, bed_.api, foreign)->empty());
  EXPECT_TRUE(
      ListRestored(bed_.ctx, bed_.api, {MoverBed::kMover, "velero", "default", kOther})->empty());
}

}  // namespace
}  // namespace csidelta::datamover::restored_pvcs_test
