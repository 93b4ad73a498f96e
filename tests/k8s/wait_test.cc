#include "k8s/wait.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "k8s/object.h"
#include "tests/support/await.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace csidelta::k8s::wait_test {
namespace {

using support::FakeApiClient;
using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;

const ResourceType kConfigMaps{"", "v1", "configmaps", "ConfigMap", true};
const ObjectKey kKey{kConfigMaps, "ns", "thing"};

Json Thing(const std::string& state) {
  return Json{{"metadata", {{"namespace", "ns"}, {"name", "thing"}}}, {"data", {{"state", state}}}};
}

absl::StatusOr<bool> IsReady(const Json* object) {
  return object != nullptr && GetString(*object, {"data", "state"}) == "ready";
}

absl::StatusOr<bool> IsGone(const Json* object) { return object == nullptr; }

void SetState(FakeApiClient& api, const std::string& state) {
  api.SetField(kKey, {"data", "state"}, state);
}

class WaitForTest : public testing::Test {
 protected:
  WaitForTest() { clock_.SetAutoAdvance(true); }

  // Runs WaitFor beside `meanwhile`, which starts once the wait watches.
  absl::Status WaitWhile(const std::function<void()>& meanwhile,
                         absl::StatusOr<bool> (*done)(const Json*)) {
    std::jthread other([&] {
      api_.AwaitWatches(1);
      meanwhile();
    });
    return WaitFor(CallContext().WithTimeout(absl::Seconds(30)), api_, kKey, done);
  }

  FakeApiClient api_;
  support::FakeClock clock_;
  const CallContext timed_{.clock = &clock_};
};

TEST_F(WaitForTest, ReturnsAtOnceWhenTheObjectIsAsWanted) {
  api_.Seed(kConfigMaps, Thing("ready"));
  EXPECT_THAT(WaitFor({}, api_, kKey, IsReady), IsOk());
  EXPECT_EQ(api_.CallCount("watch", "*"), 0);
}

TEST_F(WaitForTest, WaitsForAnObjectThatDoesNotExistYet) {
  EXPECT_THAT(WaitWhile([&] { api_.Seed(kConfigMaps, Thing("ready")); }, IsReady), IsOk());
  EXPECT_EQ(api_.CallCount("list", "*"), 1);
  EXPECT_EQ(api_.CallCount("watch", "*"), 1);
}

TEST_F(WaitForTest, SeesAChange) {
  api_.Seed(kConfigMaps, Thing("new"));
  EXPECT_THAT(WaitWhile([&] { SetState(api_, "ready"); }, IsReady), IsOk());
}

TEST_F(WaitForTest, GoesOnFromWhatIsKnown) {
  const Json known = api_.Seed(kConfigMaps, Thing("new"));
  SetState(api_, "ready");  // Before the watch begins, after the object was seen.
  EXPECT_THAT(WaitFor({}, api_, kKey, IsReady, &known), IsOk());
  EXPECT_EQ(api_.CallCount("list", "*"), 0);
  EXPECT_EQ(api_.CallCount("watch", "*"), 1);
}

TEST_F(WaitForTest, ReadsAgainWhenWhatIsKnownIsTooOld) {
  const Json known = api_.Seed(kConfigMaps, Thing("new"));
  SetState(api_, "ready");
  api_.FailNext("watch", "*", absl::OutOfRangeError("too old"));
  EXPECT_THAT(WaitFor({}, api_, kKey, IsReady, &known), IsOk());
  EXPECT_EQ(api_.CallCount("list", "*"), 1);
}

TEST_F(WaitForTest, BeginsWithTheWatchWhenTheObjectExists) {
  api_.Seed(kConfigMaps, Thing("ready"));
  EXPECT_THAT(WaitForExisting({}, api_, kKey, IsReady), IsOk());
  EXPECT_EQ(api_.CallCount("list", "*"), 0);
  EXPECT_EQ(api_.CallCount("watch", "*"), 1);
}

TEST_F(WaitForTest, NoticesAfterTheWatchThatTheObjectHadGone) {
  std::jthread other([&] {
    api_.AwaitWatches(1);
    api_.EndWatches();
  });
  EXPECT_THAT(WaitForExisting({}, api_, kKey, IsGone), IsOk());
  EXPECT_EQ(api_.CallCount("list", "*"), 1);
}

TEST_F(WaitForTest, GetsNullWhenTheObjectGoes) {
  api_.Seed(kConfigMaps, Thing("new"));
  EXPECT_THAT(WaitWhile([&] { api_.Remove(kKey); }, IsGone), IsOk());
}

TEST_F(WaitForTest, EndsWithThePredicatesError) {
  api_.Seed(kConfigMaps, Thing("new"));
  const auto refuse = [](const Json* object) -> absl::StatusOr<bool> {
    if (GetString(*object, {"data", "state"}) == "broken") {
      return absl::FailedPreconditionError("driver said no");
    }
    return false;
  };
  EXPECT_THAT(WaitWhile([&] { SetState(api_, "broken"); }, refuse),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("driver said no")));
}

TEST_F(WaitForTest, WatchesAgainWhenTheWatchEnds) {
  api_.Seed(kConfigMaps, Thing("new"));
  const auto meanwhile = [&] {
    api_.EndWatches();
    support::Await("another watch", [&] { return api_.CallCount("watch", "*") >= 2; });
    SetState(api_, "ready");
  };
  EXPECT_THAT(WaitWhile(meanwhile, IsReady), IsOk());
}

TEST_F(WaitForTest, ListsAgainWhenTheWatchIsTooOldOrBreaks) {
  for (const absl::Status& fault :
       {absl::OutOfRangeError("too old"), absl::UnavailableError("connection lost")}) {
    FakeApiClient api;
    api.Seed(kConfigMaps, Thing("new"));
    api.FailNext("watch", "*", fault);
    std::jthread other([&] {
      api.AwaitWatches(1);
      SetState(api, "ready");
    });
    EXPECT_THAT(WaitFor({}, api, kKey, IsReady), IsOk());
    EXPECT_EQ(api.CallCount("list", "*"), 2);
  }
}

TEST_F(WaitForTest, PollsWhereWatchingIsForbidden) {
  api_.Forbid("watch", "*");
  api_.Seed(kConfigMaps, Thing("new"));
  api_.SetInterceptor([&](const support::ApiCall& call, const Json*) {
    if (call.verb == "get" && api_.CallCount("get", "*") == 2) {
      SetState(api_, "ready");
    }
    return absl::OkStatus();
  });
  const absl::Time start = clock_.Now();
  EXPECT_THAT(WaitFor(timed_, api_, kKey, IsReady), IsOk());
  EXPECT_EQ(clock_.Now() - start, absl::Seconds(2));
}

TEST_F(WaitForTest, GetsAndWatchesWhereListingIsForbidden) {
  api_.Forbid("list", "*");
  api_.Seed(kConfigMaps, Thing("new"));
  EXPECT_THAT(WaitWhile([&] { SetState(api_, "ready"); }, IsReady), IsOk());
}

TEST_F(WaitForTest, EndsWithOtherErrors) {
  api_.RemoveType("configmaps");
  EXPECT_THAT(WaitFor({}, api_, kKey, IsReady),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("wait for configmaps ns/thing")));
}

TEST_F(WaitForTest, EndsAtTheDeadline) {
  EXPECT_THAT(WaitFor(timed_.WithTimeout(absl::Minutes(10)), api_, kKey, IsReady),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(WaitForTest, EndsWhenStopped) {
  std::stop_source stop;
  CallContext ctx;
  ctx.stop = stop.get_token();
  std::jthread other([&] {
    api_.AwaitWatches(1);
    stop.request_stop();
  });
  EXPECT_THAT(WaitFor(ctx, api_, kKey, IsReady), StatusIs(absl::StatusCode::kCancelled));
}

// --- Among many

class WaitForAmongTest : public WaitForTest {
 protected:
  void Store(const std::string& name, const std::string& state,
             const std::string& namespace_name = "ns") {
    Json thing = Thing(state);
    thing["metadata"]["name"] = name;
    thing["metadata"]["namespace"] = namespace_name;
    api_.Seed(kConfigMaps, thing);
  }
  void Set(const std::string& name, const std::string& state) {
    api_.SetField({kConfigMaps, "ns", name}, {"data", "state"}, state);
  }

  // Until "a" and "b" have both been seen ready; what was shown meanwhile is in shown_.
  absl::Status WaitForBoth(CallContext ctx) {
    std::set<std::string> ready;
    return WaitForAmong(ctx, api_, kConfigMaps, "ns",
                        [&](const Json* object) -> absl::StatusOr<bool> {
                          const std::string name = k8s::Name(*object);
                          const std::string state = GetString(*object, {"data", "state"});
                          shown_.push_back(absl::StrCat(name, " ", state));
                          if (state == "ready") {
                            ready.insert(name);
                          }
                          return ready.size() == 2;
                        });
  }
  absl::Status WaitWhile(const std::function<void()>& meanwhile) {
    std::jthread other([&] {
      api_.AwaitWatches(1);
      meanwhile();
    });
    return WaitForBoth(CallContext().WithTimeout(absl::Seconds(30)));
  }

  std::vector<std::string> shown_;
};

TEST_F(WaitForAmongTest, WhatIsThereIsSeenWithoutAWatch) {
  Store("a", "ready");
  Store("b", "ready");
  Store("c", "ready", "elsewhere");
  EXPECT_THAT(WaitForBoth({}), IsOk());
  EXPECT_THAT(shown_, testing::ElementsAre("a ready", "b ready"));
  EXPECT_EQ(api_.CallCount("watch", "*"), 0);
}

TEST_F(WaitForAmongTest, WhatComesAndWhatChangesIsSeen) {
  Store("a", "new");
  EXPECT_THAT(WaitWhile([&] {
                Store("b", "new");
                Set("b", "ready");
                Set("a", "ready");
              }),
              IsOk());
  EXPECT_THAT(shown_, testing::ElementsAre("a new", "b new", "b ready", "a ready"));
  EXPECT_EQ(api_.CallCount("list", "*"), 1);
  EXPECT_EQ(api_.CallCount("watch", "*"), 1);
}

TEST_F(WaitForAmongTest, WhatGoesIsNotTold) {
  Store("a", "ready");
  Store("gone", "new");
  EXPECT_THAT(WaitWhile([&] {
                api_.Remove({kConfigMaps, "ns", "gone"});
                Store("b", "ready");
              }),
              IsOk());
  EXPECT_THAT(shown_, testing::ElementsAre("a ready", "gone new", "b ready"));
}

TEST_F(WaitForAmongTest, AWatchThatToldSomethingIsFollowedByAListAtOnce) {
  const absl::Time start = clock_.Now();
  Store("a", "new");
  std::atomic<bool> seen = false;
  std::jthread other([&] {
    api_.AwaitWatches(1);
    Set("a", "newer");
    support::Await("the change to be seen", [&] { return seen.load(); });
    const int lists = api_.CallCount("list", "*");
    api_.EndWatches();
    support::Await("the next list", [&] { return api_.CallCount("list", "*") > lists; });
    Set("a", "ready");
  });
  EXPECT_THAT(WaitForAmong(timed_, api_, kConfigMaps, "ns",
                           [&](const Json* object) -> absl::StatusOr<bool> {
                             const std::string state = GetString(*object, {"data", "state"});
                             seen = seen || state == "newer";
                             return state == "ready";
                           }),
              IsOk());
  EXPECT_EQ(clock_.Now(), start);
}

TEST_F(WaitForAmongTest, PollsWhereWatchingIsForbidden) {
  api_.Forbid("watch", "*");
  Store("a", "ready");
  Store("b", "new");
  api_.SetInterceptor([&](const support::ApiCall& call, const Json*) {
    if (call.verb == "list" && api_.CallCount("list", "*") == 3) {
      Set("b", "ready");
    }
    return absl::OkStatus();
  });
  const absl::Time start = clock_.Now();
  EXPECT_THAT(WaitForBoth(timed_), IsOk());
  EXPECT_EQ(clock_.Now() - start, absl::Seconds(2));
}

}  // namespace
}  // namespace csidelta::k8s::wait_test
