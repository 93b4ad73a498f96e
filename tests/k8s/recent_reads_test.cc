#include "k8s/cached_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace csidelta::k8s::recent_reads_test {
namespace {

using support::IsOk;
using support::StatusIs;

class RecentReadsTest : public testing::Test {
 protected:
  RecentReadsTest() {
    api_.Seed(kKey.type, {{"metadata", {{"name", "keys"}, {"namespace", "mover"}}}, {"data", "1"}});
  }

  std::string Data(RecentReader& reader) {
    const absl::StatusOr<Json> object = reader.Get(ctx_, kKey);
    EXPECT_THAT(object, IsOk());
    return object.ok() ? GetString(*object, {"data"}) : "";
  }
  void Change(const char* data) {
    api_.Mutate(kKey, [data](Json& object) { object["data"] = data; });
  }

  const ObjectKey kKey = {{"", "v1", "secrets", "Secret", true}, "mover", "keys"};
  support::FakeClock clock_;
  support::FakeApiClient api_{clock_};
  CallContext ctx_{.deadline = absl::InfiniteDuration(), .stop = {}, .clock = &clock_};
  RecentReads reads_{absl::Seconds(5)};
};

TEST_F(RecentReadsTest, ManyReadersAskOnceAndAgainInTime) {
  for (int i = 0; i < 3; ++i) {
    RecentReader reader(api_, &reads_);
    EXPECT_EQ(Data(reader), "1");
  }
  EXPECT_EQ(api_.CallCount("get", "secrets"), 1);
  Change("2");
  clock_.Advance(absl::Seconds(6));
  RecentReader reader(api_, &reads_);
  EXPECT_EQ(Data(reader), "2");
}

TEST_F(RecentReadsTest, WhatWasReadTooEarlyIsReadAgain) {
  RecentReader first(api_, &reads_);
  Data(first);
  Change("2");
  RecentReader as_old(api_, &reads_, clock_.Now());
  EXPECT_EQ(Data(as_old), "1");
  clock_.Advance(absl::Seconds(1));
  RecentReader later(api_, &reads_, clock_.Now());
  EXPECT_EQ(Data(later), "2");
}

TEST_F(RecentReadsTest, WhatIsWrittenThroughItIsReadAgain) {
  RecentReader reader(api_, &reads_);
  EXPECT_EQ(Data(reader), "1");
  ASSERT_THAT(reader.Patch(ctx_, kKey, PatchKind::kMerge, {{"data", "2"}}, ""), IsOk());
  EXPECT_EQ(Data(reader), "2");
  Json object = *reader.Get(ctx_, kKey);
  object["data"] = "3";
  ASSERT_THAT(reader.Update(ctx_, kKey, object), IsOk());
  EXPECT_EQ(Data(reader), "3");
  ASSERT_THAT(reader.Delete(ctx_, kKey, {}), IsOk());
  EXPECT_THAT(reader.Get(ctx_, kKey), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(RecentReadsTest, ThatNothingIsThereIsNotRemembered) {
  api_.Remove(kKey);
  RecentReader reader(api_, &reads_);
  EXPECT_THAT(reader.Get(ctx_, kKey), StatusIs(absl::StatusCode::kNotFound));
  api_.Seed(kKey.type, {{"metadata", {{"name", "keys"}, {"namespace", "mover"}}}, {"data", "4"}});
  EXPECT_EQ(Data(reader), "4");
}

TEST_F(RecentReadsTest, WithoutAMemoryEachReadIsAsked) {
  RecentReader reader(api_, nullptr);
  Data(reader);
  Data(reader);
  EXPECT_EQ(api_.CallCount("get", "secrets"), 2);
}

}  // namespace
}  // namespace csidelta::k8s::recent_reads_test
