#include "datamover/base_reconciler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "csi/snapshot_types.h"
#include "tests/datamover/mover_bed.h"
#include "tests/support/status_matchers.h"

namespace csidelta::datamover::base_reconciler_test {
namespace {

using support::IsOk;
using support::StatusIs;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class BaseReconcilerTest : public ::testing::Test {
 protected:
  Json AddBase() { return bed_.AddBase("data", bed_.env.cluster); }

  void DeleteClaim() {
    ASSERT_THAT(bed_.api.Delete(bed_.ctx, csi::ClaimKey("shop", "data"), {}), IsOk());
  }

  absl::Time LookAt(const Json& base) {
    const absl::StatusOr<absl::Time> next = bases_.Reconcile(bed_.ctx, base);
    EXPECT_THAT(next, IsOk());
    return next.value_or(absl::InfinitePast());
  }

  std::vector<Json> Bases() { return bed_.api.All(csi::VolumeSnapshotContentType()); }

  MoverBed bed_;
  BaseReconciler bases_{bed_.env};
};

TEST_F(BaseReconcilerTest, TheBaseOfAVolumeThatIsThereStaysAndIsLookedAtAgain) {
  const Json base = AddBase();
  EXPECT_EQ(LookAt(base), bed_.clock.Now() + kBaseLookedAtEvery);
  EXPECT_THAT(Bases(), SizeIs(1));
}

TEST_F(BaseReconcilerTest, TheBaseOfAVolumeThatIsGoneGoes) {
  const Json base = AddBase();
  DeleteClaim();
  EXPECT_EQ(LookAt(base), absl::InfiniteFuture());
  EXPECT_THAT(Bases(), IsEmpty());
}

TEST_F(BaseReconcilerTest, AClaimThatWasMadeAnewIsAnotherVolume) {
  const Json base = AddBase();
  bed_.api.Mutate(csi::ClaimKey("shop", "data"),
                  [](Json& claim) { claim["metadata"]["uid"] = "another"; });
  LookAt(base);
  EXPECT_THAT(Bases(), IsEmpty());
}

TEST_F(BaseReconcilerTest, ABaseThatAnUploadIsComparedWithStays) {
  const Json base = AddBase();
  DeleteClaim();
  bed_.api.Seed(VolumeTask::Type(),
                VolumeTask::Make(MoverBed::kMover, "du-2",
                                 {.kind = TaskKind::kUpload,
                                  .subject = {},
                                  .volume = {.namespace_name = "shop",
                                             .claim = "data",
                                             .claim_uid = MoverBed::ClaimUid("shop", "data")},
                                  .cancel = false},
                                 {})
                    .json());
  EXPECT_EQ(LookAt(base), bed_.clock.Now() + kBaseLookedAtEvery);
  EXPECT_THAT(Bases(), SizeIs(1));
}

TEST_F(BaseReconcilerTest, BasesOfOtherClustersAreLeftAlone) {
  const Json base = bed_.AddBase("data", "another");
  DeleteClaim();
  EXPECT_EQ(LookAt(base), absl::InfiniteFuture());
  EXPECT_THAT(Bases(), SizeIs(1));
}

TEST_F(BaseReconcilerTest, WhoDoesNotKnowWhetherTheClaimIsThereDropsNothing) {
  const Json base = AddBase();
  DeleteClaim();
  bed_.api.FailNext("get", "persistentvolumeclaims", absl::UnavailableError("away"));
  EXPECT_THAT(bases_.Reconcile(bed_.ctx, base).status(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(Bases(), SizeIs(1));
}

}  // namespace
}  // namespace csidelta::datamover::base_reconciler_test
