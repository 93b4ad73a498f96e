// diffsnap/snapshot_listing.h against the CSI driver of the tests, and against one that lies.
#include "diffsnap/snapshot_listing.h"

#include <gmock/gmock.h>
#include <grpc/grpc.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/csi_driver/driver_fixture.h"
#include "tests/csi_driver/listing_driver.h"
#include "tests/support/status_matchers.h"

namespace csidelta::diffsnap::snapshot_listing_test {
namespace {

using csi_driver::ListingDriver;
using support::IsOk;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

absl::StatusOr<std::vector<DriverSecrets>> NoListingSecrets(const std::string& /*driver*/) {
  return std::vector<DriverSecrets>(1);
}

class SnapshotListingTest : public csi_driver::DriverFixture {
 protected:
  SnapshotListingTest() : DriverFixture("/dev/shm") {}
};

TEST_F(SnapshotListingTest, AllPagesAreRead) {
  csi_driver::VolumeSpec spec;
  spec.name = "v";
  spec.size.required_bytes = 1 << 20;
  const std::string volume = store_->CreateVolume(spec)->id;
  for (int i = 0; i < 7; ++i) {
    ASSERT_THAT(store_->CreateSnapshot(absl::StrCat("s", i), volume), IsOk());
  }
  const absl::StatusOr<StoredSnapshots> list =
      ListStorage({}, Address(), NoListingSecrets, {.page_entries = 3});
  ASSERT_THAT(list, IsOk());
  EXPECT_EQ(list->driver, "fixture.csi-delta.io");
  EXPECT_EQ(list->handles.size(), 7u);
  EXPECT_THAT(ListStorage({}, Address(), NoListingSecrets, {.page_entries = 3, .pages_max = 2}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("2 pages")));
  EXPECT_THAT(ListStorage({}, Address(), NoListingSecrets, {.snapshots_max = 6}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("more than 6")));
}

TEST_F(SnapshotListingTest, WhatCannotBeAskedIsSaid) {
  EXPECT_THAT(ListStorage({}, "tcp://1.2.3.4", NoListingSecrets, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unix:///")));
  StopServing();
  options_.list_snapshots = false;
  Serve();
  EXPECT_THAT(ListStorage({}, Address(), NoListingSecrets, {}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("LIST_SNAPSHOTS")));
}

TEST(LyingDriverTest, AListThatDoesNotEndIsGivenUp) {
  grpc_init();
  ListingDriver driver;
  driver.say = [](const auto&, auto& answer) {
    answer.set_next_token("again");
    return grpc::Status::OK;
  };
  EXPECT_THAT(ListStorage({}, driver.Address(), NoListingSecrets, {}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("does not go on")));
  driver.say = [&driver](const auto&, auto& answer) {
    answer.set_next_token(absl::StrCat("page-", driver.calls));
    return grpc::Status::OK;
  };
  EXPECT_THAT(ListStorage({}, driver.Address(), NoListingSecrets, {.pages_max = 20}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("20 pages")));
}

TEST(LyingDriverTest, NoHandleIsNoSnapshotAndOneHandleIsOne) {
  ListingDriver driver;
  driver.say = [](const auto&, auto& answer) {
    for (int i = 0; i < 3; ++i) {
      answer.add_entries()->mutable_snapshot()->set_snapshot_id("one");
    }
    return grpc::Status::OK;
  };
  const absl::StatusOr<StoredSnapshots> list =
      ListStorage({}, driver.Address(), NoListingSecrets, {});
  ASSERT_THAT(list, IsOk());
  EXPECT_THAT(list->handles, ElementsAre("one"));
  driver.say = [](const auto&, auto& answer) {
    answer.add_entries();
    return grpc::Status::OK;
  };
  EXPECT_THAT(ListStorage({}, driver.Address(), NoListingSecrets, {}),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST(LyingDriverTest, AListThatGrewTooOldIsReadAgain) {
  ListingDriver driver;
  driver.say = [&driver](const auto& request, auto& answer) {
    answer.add_entries()->mutable_snapshot()->set_snapshot_id(
        absl::StrCat("s", request.starting_token()));
    if (!request.starting_token().empty()) {
      return driver.calls == 2 ? grpc::Status(grpc::StatusCode::ABORTED, "too old")
                               : grpc::Status::OK;
    }
    answer.set_next_token("2");
    return grpc::Status::OK;
  };
  const absl::StatusOr<StoredSnapshots> list =
      ListStorage({}, driver.Address(), NoListingSecrets, {});
  ASSERT_THAT(list, IsOk());
  EXPECT_EQ(list->handles.size(), 2u);
  EXPECT_EQ(driver.calls, 4);
}

TEST(LyingDriverTest, EachSetOfSecretsIsShownOnEveryPage) {
  ListingDriver driver;
  std::string shown;
  driver.say = [&](const auto& request, auto& answer) {
    const std::string key = request.secrets().contains("userKey") ? request.secrets().at("userKey")
                                                                  : std::string("none");
    absl::StrAppend(&shown, key, request.starting_token(), " ");
    answer.add_entries()->mutable_snapshot()->set_snapshot_id("of-both");
    answer.add_entries()->mutable_snapshot()->set_snapshot_id("of-" + key);
    if (request.starting_token().empty()) {
      answer.set_next_token("2");
    }
    return grpc::Status::OK;
  };
  const auto secrets = [](const std::string& name) -> absl::StatusOr<std::vector<DriverSecrets>> {
    EXPECT_EQ(name, "liar.example.com");
    return std::vector<DriverSecrets>{{{"userKey", Secret("k1")}}, {{"userKey", Secret("k2")}}};
  };
  const auto list = ListStorage({}, driver.Address(), secrets, {});
  ASSERT_THAT(list, IsOk());
  EXPECT_EQ(shown, "k1 k12 k2 k22 ");
  EXPECT_THAT(list->handles, ElementsAre("of-both", "of-k1", "of-k2"));
  EXPECT_THAT(
      ListStorage({}, driver.Address(),
                  [](const std::string&) { return absl::UnavailableError("no secret"); }, {}),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no secret")));
}

TEST(LyingDriverTest, WhatItSaysIsMadeHarmless) {
  ListingDriver driver;
  driver.say = [](const auto&, auto&) {
    return grpc::Status(grpc::StatusCode::INTERNAL, "red \x1b[31m \xe2\x80\xae turned");
  };
  const absl::Status status = ListStorage({}, driver.Address(), NoListingSecrets, {}).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal, HasSubstr("ListSnapshots")));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\x1b")));
  driver.name = "name \x1b[31m";
  EXPECT_THAT(ListStorage({}, driver.Address(), NoListingSecrets, {}),
              StatusIs(absl::StatusCode::kFailedPrecondition, Not(HasSubstr("\x1b"))));
}

}  // namespace
}  // namespace csidelta::diffsnap::snapshot_listing_test
