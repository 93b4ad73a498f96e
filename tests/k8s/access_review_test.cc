#include "k8s/access_review.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_api_client.h"
#include "tests/support/status_matchers.h"

namespace csidelta::k8s::access_review_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::HasSubstr;

const ResourceType kSnapshots{"snapshot.storage.k8s.io", "v1", "volumesnapshots", "VolumeSnapshot",
                              true};
const ResourceType kContents{"snapshot.storage.k8s.io", "v1", "volumesnapshotcontents",
                             "VolumeSnapshotContent", false};

TEST(AccessReviewTest, AsksForTheVerbTheKindAndTheNamespace) {
  support::FakeApiClient api;
  Json asked;
  api.SetInterceptor([&](const support::ApiCall& call, const Json* body) {
    EXPECT_EQ(call.plural, "selfsubjectaccessreviews");
    asked = *body;
    return absl::OkStatus();
  });
  const absl::StatusOr<AccessAnswer> answer =
      ReviewAccess(CallContext(), api,
                   {.verb = "get", .type = kSnapshots, .namespace_name = "shop", .name = "orders"});
  ASSERT_THAT(answer, IsOk());
  EXPECT_TRUE(answer->is_allowed);
  const Json wanted = {{"verb", "get"},       {"group", "snapshot.storage.k8s.io"},
                       {"version", "v1"},     {"resource", "volumesnapshots"},
                       {"namespace", "shop"}, {"name", "orders"}};
  EXPECT_EQ(asked["spec"]["resourceAttributes"], wanted);
}

TEST(AccessReviewTest, WhatIsNotAllowedNamesTheRightAndTheRole) {
  support::FakeApiClient api;
  api.Forbid("create", "volumesnapshotcontents");
  api.Forbid("get", "volumesnapshots", "shop");
  EXPECT_THAT(RequireAccess(CallContext(), api, {.verb = "create", .type = kContents}, "an-admin"),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       "you may not create volumesnapshotcontents; ask for the ClusterRole "
                       "an-admin"));
  EXPECT_THAT(
      RequireAccess(CallContext(), api,
                    {.verb = "get", .type = kSnapshots, .namespace_name = "shop"}, "a-user"),
      StatusIs(absl::StatusCode::kPermissionDenied,
               AllOf(HasSubstr("get volumesnapshots in namespace shop"), HasSubstr("a-user"))));
  EXPECT_THAT(RequireAccess(CallContext(), api,
                            {.verb = "get", .type = kSnapshots, .namespace_name = "team"}, "a"),
              IsOk());
}

TEST(AccessReviewTest, AnAnswerThatSaysNothingIsNoConsent) {
  support::FakeApiClient api;
  api.FailNext("create", "selfsubjectaccessreviews", absl::UnavailableError("away"));
  EXPECT_THAT(RequireAccess(CallContext(), api, {.verb = "list", .type = kContents}, "a"),
              StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace csidelta::k8s::access_review_test
