#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "itemblockactions/actions.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/kind_names.h"
#include "tests/support/status_matchers.h"

namespace csidelta::itemblockactions::pvc_block_test {
namespace {

using support::IsOk;
using testing::ElementsAre;
using testing::IsEmpty;

const Json kBackup = {{"metadata", {{"name", "b"}, {"namespace", "velero"}, {"uid", "u"}}}};

class PvcBlockTest : public testing::Test {
 protected:
  void SeedPod(const char* name, const char* phase, const char* claim) {
    const Json source = {{"claimName", claim}};
    const Json volume = {{"name", "v"}, {"persistentVolumeClaim", source}};
    api_.Seed(PodType(), {{"metadata", {{"name", name}, {"namespace", "app"}}},
                          {"spec", {{"volumes", Json::array({volume})}}},
                          {"status", {{"phase", phase}}}});
  }

  absl::StatusOr<std::vector<velero::ResourceIdentifier>> Related() {
    return action_->GetRelatedItems({}, objects::Object(claim_), objects::Object(kBackup));
  }

  support::FakeApiClient api_;
  csi::Environment env_{.api = api_,
                        .clock = Clock::Real(),
                        .random = Random::Real(),
                        .velero_namespace = "velero",
                        .enable_csi = true};
  std::unique_ptr<velero::ItemBlockAction> action_ = MakePvcAction(env_);
  Json claim_ = {{"metadata", {{"name", "data"}, {"namespace", "app"}}},
                 {"spec", {{"volumeName", "pv"}}},
                 {"status", {{"phase", "Bound"}}}};
};

TEST_F(PvcBlockTest, VolumeAndRunningPodsBelongTogether) {
  SeedPod("runs", "Running", "data");
  SeedPod("waits", "Pending", "data");
  SeedPod("other", "Running", "logs");
  for (int i = 0; i < 2; ++i) {
    const auto related = Related();
    ASSERT_THAT(related, IsOk());
    EXPECT_THAT(*related, ElementsAre(velero::ResourceIdentifier{"", "persistentvolumes", "", "pv"},
                                      velero::ResourceIdentifier{"", "pods", "app", "runs"}));
  }
  EXPECT_EQ(api_.CallCount("list", "pods"), 1);
}

TEST_F(PvcBlockTest, ClaimsOfAVolumeGroupBelongTogether) {
  const auto seed = [&](const char* name, const char* group) {
    return api_.Seed(PersistentVolumeClaimType(),
                     {{"metadata",
                       {{"name", name},
                        {"namespace", "app"},
                        {"labels", {{"velero.io/volume-group", group}}}}}});
  };
  claim_ = seed("data", "db");
  seed("logs", "db");
  seed("web", "other");
  for (int i = 0; i < 2; ++i) {
    const auto related = Related();
    ASSERT_THAT(related, IsOk());
    EXPECT_THAT(*related, ElementsAre(velero::ResourceIdentifier{"", "persistentvolumeclaims",
                                                                 "app", "logs"}));
  }
  EXPECT_EQ(api_.CallCount("list", "persistentvolumeclaims"), 1);
  api_.Forbid("list", "persistentvolumeclaims");
  claim_ = seed("data", "another");
  EXPECT_THAT(Related(), IsOk());
}

TEST_F(PvcBlockTest, AppliesToPersistentVolumeClaimsAlone) {
  EXPECT_THAT(action_->AppliesTo().included_resources, ElementsAre("persistentvolumeclaims"));
}

TEST_F(PvcBlockTest, AnUnboundClaimHasNoVolume) {
  claim_["status"]["phase"] = "Pending";
  const auto related = Related();
  ASSERT_THAT(related, IsOk());
  EXPECT_THAT(*related, IsEmpty());
}

TEST_F(PvcBlockTest, HandsOffWithoutTheFeature) {
  env_.enable_csi = false;
  action_ = MakePvcAction(env_);
  const auto related = Related();
  ASSERT_THAT(related, IsOk());
  EXPECT_THAT(*related, IsEmpty());
  EXPECT_THAT(api_.calls(), IsEmpty());
}

TEST_F(PvcBlockTest, TroubleDoesNotCountAgainstTheBackup) {
  api_.Forbid("list", "pods");
  const auto related = Related();
  ASSERT_THAT(related, IsOk());
  EXPECT_THAT(*related, ElementsAre(velero::ResourceIdentifier{"", "persistentvolumes", "", "pv"}));
}

}  // namespace
}  // namespace csidelta::itemblockactions::pvc_block_test
