#include "tests/support/fake_object_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/crypto.h"
#include "tests/support/status_matchers.h"

namespace csidelta::support::fake_object_store_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

class FakeObjectStoreTest : public testing::Test {
 protected:
  FakeObjectStore store_;
  CallContext ctx_;
};

TEST_F(FakeObjectStoreTest, FailsTheCallsThatAFaultNames) {
  store_.AddFault({.operation = StoreOperation::kPut,
                   .key_prefix = "data/",
                   .first_call = 2,
                   .last_call = 3,
                   .status = absl::UnavailableError("503")});
  EXPECT_THAT(store_.Put(ctx_, "data/1", "x", {}), IsOk());
  EXPECT_THAT(store_.Put(ctx_, "index/1", "x", {}), IsOk());
  EXPECT_THAT(store_.Put(ctx_, "data/2", "x", {}), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(store_.Get(ctx_, "data/1", 10), IsOkAndHolds("x"));
  EXPECT_THAT(store_.Put(ctx_, "data/3", "x", {}), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(store_.Put(ctx_, "data/4", "x", {}), IsOk());
  EXPECT_THAT(store_.objects(),
              ElementsAre(Pair("data/1", "x"), Pair("data/4", "x"), Pair("index/1", "x")));
  EXPECT_EQ(store_.call_count(), 6);
}

TEST_F(FakeObjectStoreTest, AFaultMayComeAfterTheEffect) {
  store_.AddFault({.status = absl::UnavailableError("reset"), .after_effect = true});
  EXPECT_THAT(store_.Put(ctx_, "key", "x", {}), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(store_.objects(), ElementsAre(Pair("key", "x")));
}

TEST_F(FakeObjectStoreTest, SpoilsBytes) {
  store_.SetObject("key", "abcd");
  const auto spoiled = [&](WrongBytes how) {
    store_.ClearFaults();
    store_.AddFault({.wrong_bytes = how});
    return *store_.Get(ctx_, "key", 10);
  };
  EXPECT_EQ(spoiled(WrongBytes::kShort), "abc");
  EXPECT_EQ(spoiled(WrongBytes::kFlipped), "abbd");
  EXPECT_NE(spoiled(WrongBytes::kOther), "abcd");
  EXPECT_EQ(spoiled(WrongBytes::kNone), "abcd");
}

TEST_F(FakeObjectStoreTest, ACutProcessStaysDeadUntilTheNext) {
  for (const CutMoment moment : {CutMoment::kBefore, CutMoment::kAfter}) {
    store_.Restart();
    store_.SetObjects({});
    store_.CutAt(2, moment);
    EXPECT_THAT(store_.Put(ctx_, "1", "x", {}), IsOk());
    EXPECT_THAT(store_.Put(ctx_, "2", "x", {}), StatusIs(absl::StatusCode::kCancelled));
    EXPECT_TRUE(store_.is_cut());
    EXPECT_THAT(store_.Put(ctx_, "3", "x", {}), StatusIs(absl::StatusCode::kCancelled));
    EXPECT_THAT(store_.Delete(ctx_, "1"), StatusIs(absl::StatusCode::kCancelled));
    store_.Restart();
    EXPECT_EQ(store_.objects().size(), moment == CutMoment::kAfter ? 2u : 1u);
    EXPECT_THAT(store_.Delete(ctx_, "1"), IsOk());
    EXPECT_EQ(store_.call_count(), 1);
  }
}

TEST_F(FakeObjectStoreTest, BytesMustBeThosePromised) {
  EXPECT_THAT(store_.Put(ctx_, "key", "x", {.sha256_hex = Sha256Hex("y")}),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(store_.objects(), IsEmpty());
}

}  // namespace
}  // namespace csidelta::support::fake_object_store_test
