#include "k8s/informer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "k8s/object.h"
#include "tests/support/await.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace csidelta::k8s::informer_test {
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
  void OnObjectChanged(const Json& object) override {
    std::scoped_lock lock(mutex_);
    states_[k8s::Name(object)] = GetString(object, {"data", "state"});
    changed_.notify_all();
  }
  void OnObjectDeleted(const ObjectId& id, const Json* /*last*/) override {
    std::scoped_lock lock(mutex_);
    states_.erase(id.name);
    changed_.notify_all();
  }
  void OnListed() override {
    std::scoped_lock lock(mutex_);
    ++lists_;
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
  int lists_ = 0;
};

class InformerRunTest : public testing::Test {
 protected:
  InformerRunTest() { clock_.SetAutoAdvance(true); }
  ~InformerRunTest() override { Stop().IgnoreError(); }

  void Start() {
    thread_ = std::jthread([this] {
      const CallContext ctx{
          .deadline = absl::InfiniteDuration(), .stop = stop_.get_token(), .clock = &clock_};
      ended_ = Informer(followed_, {&mirror_}).Run(ctx, api_, after_);
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
  WatchedObjects followed_{.type = kConfigMaps};
  std::string after_;
  Mirror mirror_;
  std::stop_source stop_;
  std::jthread thread_;
  absl::Status ended_;
};

TEST_F(InformerRunTest, TellsWhatIsThereAndWhatBecomesOfIt) {
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

TEST_F(InformerRunTest, OtherNamespacesAndLabelsAreNotFollowed) {
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

TEST_F(InformerRunTest, BeginsAfterAResourceVersionWithoutAList) {
  Set("a", "old");
  after_ = ResourceVersion(api_.Seed(kConfigMaps, Thing("b", "old")));
  Set("c", "old");
  Start();
  mirror_.Await("c", "old");
  EXPECT_THAT(mirror_.states(), ElementsAre(Pair("c", "old")));
  EXPECT_EQ(mirror_.lists(), 0);
}

TEST_F(InformerRunTest, BeginsWithAListWhereThatVersionIsForgotten) {
  after_ = ResourceVersion(api_.Seed(kConfigMaps, Thing("a", "old")));
  api_.CompactHistory();
  Start();
  mirror_.Await("a", "old");
  api_.AwaitWatches(1);
  EXPECT_EQ(mirror_.lists(), 1);
}

TEST_F(InformerRunTest, AWatchThatEndsGoesOnWhereItWas) {
  Start();
  api_.AwaitWatches(1);
  for (int i = 0; i < 5; ++i) {
    api_.EndWatches();
    Set("a", std::to_string(i));
    mirror_.Await("a", std::to_string(i));
  }
  EXPECT_EQ(mirror_.lists(), 1);
}

TEST_F(InformerRunTest, AWatchThatToldSomethingIsFollowedByTheNextAtOnce) {
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

TEST_F(InformerRunTest, AnOutageIsWaitedFor) {
  api_.FailNext("list", "configmaps", absl::UnavailableError("away"), 3);
  api_.FailNext("watch", "configmaps", absl::UnavailableError("away"), 3);
  Start();
  api_.AwaitWatches(1);
  Set("a", "new");
  mirror_.Await("a", "new");
  EXPECT_EQ(mirror_.lists(), 1);
}

TEST_F(InformerRunTest, AListThatWasAnsweredEndsAnOutage) {
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

TEST_F(InformerRunTest, AfterAGapThereIsANewList) {
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
  api_.AwaitWatches(1);
  EXPECT_EQ(mirror_.lists(), 2);
}

TEST_F(InformerRunTest, ARefusalIsAskedAgain) {
  api_.FailNext("list", "configmaps", absl::PermissionDeniedError("no"), 2);
  Set("a", "old");
  Start();
  mirror_.Await("a", "old");
}

// --- Differences

Json Stored(const std::string& name, int version, const std::string& uid) {
  return Json{{"metadata",
               {{"namespace", "ns"},
                {"name", name},
                {"uid", uid},
                {"resourceVersion", absl::StrCat(version)}}}};
}

// Writes down what it is told, and holds what it is told to hold.
class Notebook : public ObjectEventHandler {
 public:
  explicit Notebook(std::string prefix = "") : prefix_(std::move(prefix)) {}

  void OnObjectChanged(const Json& object) override {
    seen.push_back(absl::StrCat(prefix_, k8s::Name(object), " is ", ResourceVersion(object)));
    if (on_change) {
      on_change();
    }
  }
  void OnObjectDeleted(const ObjectId& id, const Json* last) override {
    seen.push_back(absl::StrCat(prefix_, id.name, " of ", id.uid, " is gone",
                                last == nullptr ? "" : " as " + ResourceVersion(*last)));
  }
  void OnListed() override { seen.push_back(absl::StrCat(prefix_, "listed")); }
  bool Holds(const ObjectId& id) const override { return !unheld.contains(id.name); }

  std::vector<std::string> Seen() { return std::exchange(seen, {}); }

  std::vector<std::string> seen;
  std::set<std::string> unheld;
  std::function<void()> on_change;

 private:
  const std::string prefix_;
};

class InformerTest : public testing::Test {
 protected:
  void Event(WatchEvent::Kind kind, const Json& object) {
    informer_.OnEvent({.kind = kind, .object = object});
  }

  Notebook notebook_;
  Informer informer_{{.type = kConfigMaps}, {&notebook_}};
};

TEST_F(InformerTest, ALaterListReportsItsDifferencesAlone) {
  informer_.OnAll({Stored("a", 1, "ua"), Stored("b", 2, "ub"), Stored("c", 3, "uc")});
  EXPECT_THAT(notebook_.Seen(), ElementsAre("a is 1", "b is 2", "c is 3", "listed"));
  informer_.OnPage({Stored("a", 1, "ua"), Stored("b", 5, "ub")}, /*is_first=*/true);
  EXPECT_THAT(notebook_.Seen(), ElementsAre("b is 5")) << "the list is not whole yet";
  informer_.OnPage({Stored("d", 4, "ud")}, /*is_first=*/false);
  informer_.OnListed();
  EXPECT_THAT(notebook_.Seen(), ElementsAre("d is 4", "c of uc is gone", "listed"));
}

TEST_F(InformerTest, AListThatBeginsAgainCountsFromItsBeginning) {
  informer_.OnPage({Stored("a", 1, "ua"), Stored("b", 2, "ub")}, /*is_first=*/true);
  informer_.OnPage({Stored("b", 2, "ub")}, /*is_first=*/true);
  informer_.OnListed();
  EXPECT_THAT(notebook_.Seen(), ElementsAre("a is 1", "b is 2", "a of ua is gone", "listed"));
}

TEST_F(InformerTest, AnEventThatComesTwiceIsReportedOnce) {
  Event(WatchEvent::Kind::kAdded, Stored("a", 1, "ua"));
  Event(WatchEvent::Kind::kAdded, Stored("a", 1, "ua"));
  Event(WatchEvent::Kind::kModified, Stored("a", 2, "ua"));
  informer_.OnAll({Stored("a", 2, "ua")});
  EXPECT_THAT(notebook_.Seen(), ElementsAre("a is 1", "a is 2", "listed"));
}

TEST_F(InformerTest, ADeletionThatWasSeenHasItsLastState) {
  Event(WatchEvent::Kind::kAdded, Stored("a", 1, "ua"));
  Event(WatchEvent::Kind::kDeleted, Stored("a", 2, "ua"));
  informer_.OnAll({});
  EXPECT_THAT(notebook_.Seen(), ElementsAre("a is 1", "a of ua is gone as 2", "listed"));
}

// client-go reports an update, and each handler compares the uids.
TEST_F(InformerTest, AnotherObjectOfTheSameNameComesAfterTheEndOfTheFirst) {
  informer_.OnAll({Stored("a", 1, "first")});
  informer_.OnAll({Stored("a", 7, "second")});
  EXPECT_THAT(notebook_.Seen(),
              ElementsAre("a is 1", "listed", "a of first is gone", "a is 7", "listed"));
  Event(WatchEvent::Kind::kModified, Stored("a", 9, "third"));
  EXPECT_THAT(notebook_.Seen(), ElementsAre("a of second is gone", "a is 9"));
}

TEST_F(InformerTest, NothingIsRememberedOfWhatNoHandlerHolds) {
  notebook_.unheld = {"a"};
  informer_.OnAll({Stored("a", 1, "ua"), Stored("b", 2, "ub")});
  informer_.OnAll({Stored("a", 1, "ua"), Stored("b", 2, "ub")});
  EXPECT_THAT(notebook_.Seen(), ElementsAre("a is 1", "b is 2", "listed", "a is 1", "listed"));
  informer_.OnAll({});
  EXPECT_THAT(notebook_.Seen(), ElementsAre("b of ub is gone", "listed"));
  notebook_.unheld = {};
  Event(WatchEvent::Kind::kDeleted, Stored("a", 3, "ua"));
  EXPECT_THAT(notebook_.Seen(), ElementsAre("a of ua is gone as 3")) << "a watch saw it";
}

TEST_F(InformerTest, WhatAHandlerExpectsIsReportedWhenItIsGone) {
  informer_.OnAll({});
  informer_.Expect({"ns", "written", "uw"});
  informer_.OnAll({});
  EXPECT_THAT(notebook_.Seen(), ElementsAre("listed", "written of uw is gone", "listed"));
  informer_.OnPage({}, /*is_first=*/true);
  informer_.Expect({"ns", "later", "ul"});
  informer_.OnListed();
  EXPECT_THAT(notebook_.Seen(), ElementsAre("listed")) << "the list was older";
  Event(WatchEvent::Kind::kAdded, Stored("later", 1, "ul"));
  EXPECT_THAT(notebook_.Seen(), ElementsAre("later is 1"));
}

TEST_F(InformerTest, WhatIsExpectedWhileItIsReportedIsRemembered) {
  notebook_.unheld = {"a"};
  notebook_.on_change = [this] { informer_.Expect({"ns", "a", "ua"}); };
  informer_.OnAll({Stored("a", 1, "ua")});
  informer_.OnAll({});
  EXPECT_THAT(notebook_.Seen(), ElementsAre("a is 1", "listed", "a of ua is gone", "listed"));
}

TEST_F(InformerTest, ObjectsWithoutAVersionAreAlwaysReported) {
  informer_.OnAll({Thing("a", "old")});
  informer_.OnAll({Thing("a", "old")});
  EXPECT_THAT(notebook_.Seen(), ElementsAre("a is ", "listed", "a is ", "listed"));
}

// A handler that never returns lets no other request, page or event begin a turn.
TEST_F(InformerRunTest, ItsHeartbeatIsAsOldAsWhatAHandlerDoes) {
  class Slow : public ObjectEventHandler {
   public:
    explicit Slow(std::function<void()> work) : work_(std::move(work)) {}
    void OnObjectChanged(const Json& /*object*/) override { work_(); }
    void OnObjectDeleted(const ObjectId& /*id*/, const Json* /*last*/) override {}

   private:
    const std::function<void()> work_;
  };
  Set("a", "old");
  std::vector<absl::Duration> ages;
  Informer* followed = nullptr;
  Slow slow([&] {
    ages.push_back(followed->heartbeat().Age(clock_));
    clock_.Advance(absl::Minutes(11));
    ages.push_back(followed->heartbeat().Age(clock_));
    stop_.request_stop();
  });
  Informer informer(followed_, {&slow});
  followed = &informer;
  const CallContext ctx{
      .deadline = absl::InfiniteDuration(), .stop = stop_.get_token(), .clock = &clock_};
  informer.Run(ctx, api_).IgnoreError();
  EXPECT_THAT(ages, ElementsAre(absl::ZeroDuration(), absl::Minutes(11)));
}

TEST(InformerDeathTest, AHandlerThatIsAddedLateWouldMissObjects) {
  Notebook late;
  Informer informer({.type = kConfigMaps});
  informer.OnAll({});
  EXPECT_DEATH(informer.Add(late), "check failed");
}

TEST(InformerHandlersTest, OneListAndWatchServesAllInOrder) {
  support::FakeApiClient api;
  Notebook one("one: ");
  Notebook two("two: ");
  Informer informer({.type = kConfigMaps, .namespace_name = "ns"}, {&one});
  informer.Add(two);
  std::stop_source stop;
  CallContext ctx = CallContext().WithTimeout(absl::Seconds(30));
  ctx.stop = stop.get_token();
  one.on_change = [&] { EXPECT_THAT(two.seen, ElementsAre("two: listed")); };
  two.on_change = [&] { stop.request_stop(); };
  std::jthread thread([&] { informer.Run(ctx, api).IgnoreError(); });
  api.AwaitWatches(1);
  api.Seed(kConfigMaps, Thing("a", ""));
  thread.join();
  EXPECT_THAT(one.seen, testing::SizeIs(2));
  EXPECT_THAT(two.seen, testing::SizeIs(2));
  EXPECT_EQ(api.CallCount("list", "configmaps"), 1);
  EXPECT_EQ(api.CallCount("watch", "configmaps"), 1);
}

}  // namespace
}  // namespace csidelta::k8s::informer_test
