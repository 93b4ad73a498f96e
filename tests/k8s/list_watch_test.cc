#include "k8s/list_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "k8s/object.h"
#include "tests/support/await.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace csidelta::k8s::follow_test {
namespace {

using support::FakeApiClient;
using support::StatusIs;
using testing::ElementsAre;
using testing::Pair;

const ResourceType kConfigMaps{"", "v1", "configmaps", "ConfigMap", true};

Json Thing(const std::string& name, const std::string& state) {
  return Json{{"metadata", {{"namespace", "ns"}, {"name", name}}}, {"data", {{"state", state}}}};
}

// The objects as they were told of.
class Mirror : public ObjectEventHandler {
 public:
  void OnPage(const std::vector<Json>& objects, bool is_first) override {
    std::scoped_lock lock(mutex_);
    if (is_first) {
      listed_.clear();
    }
    for (const Json& object : objects) {
      listed_[k8s::Name(object)] = GetString(object, {"data", "state"});
    }
  }

  void OnListed() override {
    std::scoped_lock lock(mutex_);
    states_ = listed_;
    ++lists_;
    changed_.notify_all();
  }

  void OnEvent(const WatchEvent& event) override {
    std::scoped_lock lock(mutex_);
    const std::string name = k8s::Name(event.object);
    if (event.kind == WatchEvent::Kind::kDeleted) {
      states_.erase(name);
    } else {
      states_[name] = GetString(event.object, {"data", "state"});
    }
    changed_.notify_all();
  }

  // Blocks until the thing is in this state; "": gone.
  void Await(const std::string& name, const std::string& state) {
    std::unique_lock lock(mutex_);
    support::AwaitOn(changed_, lock, absl::StrCat(name, " to be \"", state, "\""), [&] {
      const auto found = states_.find(name);
      return (found == states_.end() ? "" : found->second) == state;
    });
  }

  int lists() {
    std::scoped_lock lock(mutex_);
    return lists_;
  }
  std::map<std::string, std::string> states() {
    std::scoped_lock lock(mutex_);
    return states_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> states_;
  std::map<std::string, std::string> listed_;
  int lists_ = 0;
};

class ListWatchTest : public testing::Test {
 protected:
  ListWatchTest() { clock_.SetAutoAdvance(true); }
  ~ListWatchTest() override { Stop().IgnoreError(); }

  void Start() {
    thread_ = std::jthread([this] {
      const CallContext ctx{
          .deadline = absl::InfiniteDuration(), .stop = stop_.get_token(), .clock = &clock_};
      ended_ = ListAndWatch(ctx, api_, followed_, mirror_);
    });
  }
  absl::Status Stop() {
    stop_.request_stop();
    if (thread_.joinable()) {
      thread_.join();
    }
    return ended_;
  }
  void Set(const std::string& name, const std::string& state) {
    api_.Seed(kConfigMaps, Thing(name, state));
  }

  support::FakeClock clock_;
  FakeApiClient api_{clock_};
  WatchedObjects followed_{.type = kConfigMaps, .namespace_name = "", .label_selector = ""};
  Mirror mirror_;
  std::stop_source stop_;
  std::jthread thread_;
  absl::Status ended_;
};

TEST_F(ListWatchTest, TellsWhatIsThereAndWhatBecomesOfIt) {
  Set("a", "old");
  Set("b", "old");
  Start();
  mirror_.Await("b", "old");
  api_.AwaitWatches(1);
  Set("a", "new");
  Set("c", "old");
  api_.Remove({kConfigMaps, "ns", "b"});
  mirror_.Await("b", "");
  EXPECT_THAT(mirror_.states(), ElementsAre(Pair("a", "new"), Pair("c", "old")));
  EXPECT_THAT(Stop(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(mirror_.lists(), 1);
}

TEST_F(ListWatchTest, OtherNamespacesAndLabelsAreNotFollowed) {
  followed_.namespace_name = "ns";
  followed_.label_selector = "ours=yes";
  const auto add = [&](const std::string& space, const std::string& name, const std::string& own) {
    Json thing = Thing(name, "there");
    thing["metadata"]["namespace"] = space;
    thing["metadata"]["labels"] = {{"ours", own}};
    api_.Seed(kConfigMaps, thing);
  };
  add("other", "a", "yes");
  add("ns", "b", "no");
  add("ns", "c", "yes");
  Start();
  api_.AwaitWatches(1);
  add("other", "d", "yes");
  add("ns", "e", "no");
  add("ns", "f", "yes");
  mirror_.Await("f", "there");
  EXPECT_THAT(mirror_.states(), ElementsAre(Pair("c", "there"), Pair("f", "there")));
}

TEST_F(ListWatchTest, BeginsAfterAResourceVersionWithoutAList) {
  Set("a", "old");
  followed_.after = ResourceVersion(api_.Seed(kConfigMaps, Thing("b", "old")));
  Set("c", "old");
  Start();
  mirror_.Await("c", "old");
  EXPECT_THAT(mirror_.states(), ElementsAre(Pair("c", "old")));
  EXPECT_EQ(mirror_.lists(), 0);
}

TEST_F(ListWatchTest, BeginsWithAListWhereThatVersionIsForgotten) {
  followed_.after = ResourceVersion(api_.Seed(kConfigMaps, Thing("a", "old")));
  api_.CompactHistory();
  Start();
  mirror_.Await("a", "old");
  EXPECT_EQ(mirror_.lists(), 1);
}

TEST_F(ListWatchTest, AWatchThatEndsGoesOnWhereItWas) {
  Start();
  api_.AwaitWatches(1);
  for (int i = 0; i < 5; ++i) {
    api_.EndWatches();
    Set("a", std::to_string(i));
    mirror_.Await("a", std::to_string(i));
  }
  EXPECT_EQ(mirror_.lists(), 1);
}

TEST_F(ListWatchTest, AWatchThatToldSomethingIsFollowedByTheNextAtOnce) {
  Start();
  api_.AwaitWatches(1);
  const absl::Time begun = clock_.Now();
  for (int i = 0; i < 5; ++i) {
    Set("a", std::to_string(i));
    mirror_.Await("a", std::to_string(i));
    const int watches = api_.CallCount("watch", "configmaps");
    api_.EndWatches();
    support::Await("the next watch",
                   [&] { return api_.CallCount("watch", "configmaps") > watches; });
  }
  EXPECT_EQ(clock_.Now(), begun);
}

TEST_F(ListWatchTest, AnOutageIsWaitedFor) {
  api_.FailNext("list", "configmaps", absl::UnavailableError("away"), 3);
  api_.FailNext("watch", "configmaps", absl::UnavailableError("away"), 3);
  Start();
  api_.AwaitWatches(1);
  Set("a", "new");
  mirror_.Await("a", "new");
  EXPECT_EQ(mirror_.lists(), 1);
}

TEST_F(ListWatchTest, AListThatWasAnsweredEndsAnOutage) {
  api_.FailNext("list", "configmaps", absl::UnavailableError("away"), 8);
  api_.FailNext("watch", "configmaps", absl::PermissionDeniedError("no"), 1);
  absl::Time refused;
  absl::Duration waited;
  bool listed = false;
  api_.SetInterceptor([&](const support::ApiCall& call, const Json*) {
    if (call.verb == "watch" && refused == absl::Time()) {
      refused = clock_.Now();
    } else if (call.verb == "list" && refused != absl::Time() && !listed) {
      listed = true;
      waited = clock_.Now() - refused;
    }
    return absl::OkStatus();
  });
  Start();
  api_.AwaitWatches(1);
  EXPECT_TRUE(listed);
  EXPECT_LE(waited, absl::Milliseconds(100)) << "as after the first failure";
}

TEST_F(ListWatchTest, AfterAGapThereIsANewList) {
  Set("gone", "old");
  Set("a", "old");
  // While there is no watch, one goes, and the server drops that it was there.
  bool done = false;
  api_.SetInterceptor([&](const support::ApiCall& call, const Json*) {
    if (call.verb == "watch" && !done) {
      done = true;
      api_.Remove({kConfigMaps, "ns", "gone"});
      Set("a", "new");
      api_.CompactHistory();
    }
    return absl::OkStatus();
  });
  Start();
  mirror_.Await("a", "new");
  mirror_.Await("gone", "");
  EXPECT_EQ(mirror_.lists(), 2);
}

TEST_F(ListWatchTest, ARefusalIsAskedAgain) {
  api_.FailNext("list", "configmaps", absl::PermissionDeniedError("no"), 2);
  Set("a", "old");
  Start();
  mirror_.Await("a", "old");
}

}  // namespace
}  // namespace csidelta::k8s::follow_test
