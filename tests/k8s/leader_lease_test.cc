#include "k8s/leader_lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace csidelta::k8s::leader_lease_test {
namespace {

using support::IsOk;

const ResourceType kLeases{"coordination.k8s.io", "v1", "leases", "Lease", true};

class LeaderLeaseTest : public testing::Test {
 protected:
  std::string Holder() {
    const auto lease = api_.Find({kLeases, "csi", "diffsnap-driver"});
    return lease.has_value() ? GetString(*lease, {"spec", "holderIdentity"}) : "none";
  }
  // A step of each, every kLeaseStepEvery, for this long; never do two lead.
  void Pass(absl::Duration time, std::initializer_list<LeaderLease*> leases) {
    for (absl::Duration gone; gone < time; gone += kLeaseStepEvery) {
      clock_.Advance(kLeaseStepEvery);
      for (LeaderLease* lease : leases) {
        EXPECT_THAT(lease->Step(ctx_), IsOk());
      }
    }
  }

  support::FakeClock clock_;
  support::FakeApiClient api_{clock_};
  CallContext ctx_{.deadline = absl::InfiniteDuration(), .stop = {}, .clock = &clock_};
  LeaderLease one_{api_, {.namespace_name = "csi", .name = "diffsnap-driver", .holder = "one"}};
  LeaderLease two_{api_, {.namespace_name = "csi", .name = "diffsnap-driver", .holder = "two"}};
};

TEST_F(LeaderLeaseTest, TheFirstLeadsAsLongAsItRenews) {
  EXPECT_FALSE(one_.leads(clock_));
  EXPECT_THAT(one_.Step(ctx_), IsOk());
  EXPECT_THAT(two_.Step(ctx_), IsOk());
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(one_.leads(clock_));
    EXPECT_FALSE(two_.leads(clock_));
    Pass(kLeaseStepEvery, {&one_, &two_});
  }
  EXPECT_EQ(Holder(), "one");
}

TEST_F(LeaderLeaseTest, OneThatIsHeldIsRenewedByOneRequest) {
  Pass(2 * kLeaseStepEvery, {&one_});
  api_.ClearCalls();
  Pass(10 * kLeaseStepEvery, {&one_});
  EXPECT_TRUE(one_.leads(clock_));
  EXPECT_EQ(api_.CallCount("update", "leases"), 10);
  EXPECT_EQ(api_.CallCount("get", "leases"), 0);
}

// By hand, say: what is written under the condition that nothing changed is refused then.
TEST_F(LeaderLeaseTest, OneThatAnotherTookMeanwhileIsSeenSo) {
  Pass(2 * kLeaseStepEvery, {&one_});
  api_.SetField({kLeases, "csi", "diffsnap-driver"}, {"spec", "holderIdentity"}, "two");
  Pass(kLeaseStepEvery, {&one_});
  EXPECT_FALSE(one_.leads(clock_));
  EXPECT_EQ(Holder(), "two");
}

TEST_F(LeaderLeaseTest, AfterALeaderThatDiedTheNextLeads) {
  EXPECT_THAT(one_.Step(ctx_), IsOk());
  EXPECT_THAT(two_.Step(ctx_), IsOk());
  while (!two_.leads(clock_)) {
    EXPECT_LT(clock_.Now(), absl::FromUnixSeconds(1'700'000'000) + absl::Seconds(30));
    Pass(kLeaseStepEvery, {&two_});
    // By its own clock the first one has long ended.
    EXPECT_FALSE(two_.leads(clock_) && one_.leads(clock_));
  }
  EXPECT_EQ(Holder(), "two");
  EXPECT_GE(clock_.Now(), absl::FromUnixSeconds(1'700'000'000) + kLeaseDuration);
  // The first one wakes up and follows.
  EXPECT_THAT(one_.Step(ctx_), IsOk());
  EXPECT_FALSE(one_.leads(clock_));
  EXPECT_TRUE(two_.leads(clock_));
}

TEST_F(LeaderLeaseTest, ALeaderThatCannotRenewEndsBeforeAnotherBegins) {
  EXPECT_THAT(one_.Step(ctx_), IsOk());
  api_.FailNext("*", "leases", absl::UnavailableError("away"), 1000);
  clock_.Advance(kLeadTimeMax - absl::Seconds(1));
  EXPECT_FALSE(one_.Step(ctx_).ok());
  EXPECT_TRUE(one_.leads(clock_));
  clock_.Advance(absl::Seconds(1));
  EXPECT_FALSE(one_.leads(clock_));
  api_.ClearFaults();
  EXPECT_THAT(one_.Step(ctx_), IsOk());
  EXPECT_TRUE(one_.leads(clock_));
}

TEST_F(LeaderLeaseTest, WhatIsGivenUpIsTakenAtOnce) {
  EXPECT_THAT(one_.Step(ctx_), IsOk());
  EXPECT_THAT(two_.Step(ctx_), IsOk());
  EXPECT_THAT(two_.Release(ctx_), IsOk());
  EXPECT_EQ(Holder(), "one");
  EXPECT_THAT(one_.Release(ctx_), IsOk());
  EXPECT_FALSE(one_.leads(clock_));
  EXPECT_THAT(two_.Step(ctx_), IsOk());
  EXPECT_TRUE(two_.leads(clock_));
}

TEST_F(LeaderLeaseTest, OfTwoThatTakeItAtOnceOneLeads) {
  for (const char* verb : {"create", "update"}) {
    EXPECT_THAT(two_.Release(ctx_), IsOk());
    api_.SetInterceptor([&](const support::ApiCall& call, const Json*) {
      if (call.verb == verb) {
        api_.SetInterceptor({});
        EXPECT_THAT(two_.Step(ctx_), IsOk());
      }
      return absl::OkStatus();
    });
    EXPECT_THAT(one_.Step(ctx_), IsOk());
    EXPECT_FALSE(one_.leads(clock_)) << verb;
    EXPECT_TRUE(two_.leads(clock_)) << verb;
  }
}

TEST_F(LeaderLeaseTest, RunLeadsAndGivesUpInTheEnd) {
  std::stop_source stop;
  CallContext ctx = ctx_;
  ctx.stop = stop.get_token();
  std::jthread thread([&] { one_.Run(ctx); });
  clock_.AwaitSleepers(1);
  EXPECT_TRUE(one_.leads(clock_));
  EXPECT_EQ(one_.heartbeat().Age(clock_), absl::ZeroDuration());
  stop.request_stop();
  thread.join();
  EXPECT_EQ(Holder(), "");
}

TEST_F(LeaderLeaseTest, RunGivesUpTheLeaseAlsoWhenItsTimeIsOver) {
  clock_.SetAutoAdvance(true);
  one_.Run(ctx_.WithTimeout(absl::Seconds(5)));
  EXPECT_EQ(Holder(), "");
}

TEST_F(LeaderLeaseTest, RunTellsWhenItBeginsToLeadAndWhatFails) {
  static std::vector<std::string> told;
  told.clear();
  SetLogSink([](LogLevel, const std::string& line) {
    told.push_back(GetString(*ParseJson(line), {"@message"}));
  });
  clock_.SetAutoAdvance(true);
  one_.Run(ctx_.WithTimeout(5 * kLeaseStepEvery));
  EXPECT_THAT(told, testing::ElementsAre("this process leads"));
  told.clear();
  api_.Forbid("*", "leases");
  one_.Run(ctx_.WithTimeout(kLeaseStepEvery));
  SetLogSink(nullptr);
  EXPECT_THAT(told, testing::Contains("the lease could not be taken or renewed"));
}

}  // namespace
}  // namespace csidelta::k8s::leader_lease_test
