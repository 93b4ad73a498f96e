#include "k8s/reconcile_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "k8s/leader_lease.h"
#include "k8s/object.h"
#include "tests/support/await.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"

namespace csidelta::k8s::reconcile_loop_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const ResourceType kConfigMaps{"", "v1", "configmaps", "ConfigMap", true};

Json Thing(const std::string& name, const std::string& state = "") {
  return Json{{"metadata", {{"namespace", "ns"}, {"name", name}}}, {"data", {{"state", state}}}};
}

// Notes what it is shown, and answers what the test says, in order; then "never".
class Notebook : public Reconciler {
 public:
  absl::StatusOr<absl::Time> Reconcile(const CallContext&, const Json& object) override {
    const std::string name = k8s::Name(object);
    seen.push_back(name + GetString(object, {"data", "state"}));
    last = object;
    if (on_look) {
      on_look(name);
    }
    std::vector<absl::StatusOr<absl::Time>>& next = answers[name];
    if (next.empty()) {
      return absl::InfiniteFuture();
    }
    const absl::StatusOr<absl::Time> answer = next.front();
    next.erase(next.begin());
    return answer;
  }

  bool Concerns(const Json& object) const override {
    return GetString(object, {"data", "state"}) != "over";
  }
  void Reduce(Json& object) const override { object["data"].erase("long"); }

  std::vector<std::string> Seen() { return std::exchange(seen, {}); }

  std::vector<std::string> seen;
  Json last;
  std::map<std::string, std::vector<absl::StatusOr<absl::Time>>> answers;
  std::function<void(const std::string&)> on_look;
};

class ReconcileLoopTest : public testing::Test {
 protected:
  std::vector<std::string> Work() {
    loop_.WorkOnce(ctx_);
    return notebook_.Seen();
  }

  support::FakeClock clock_;
  CallContext ctx_{.deadline = absl::InfiniteDuration(), .stop = {}, .clock = &clock_};
  Notebook notebook_;
  bool leads_ = true;
  ReconcileLoop loop_{kConfigMaps, notebook_, [this] { return leads_; }, clock_};
  Informer informer_{{.type = kConfigMaps}, {&loop_}};
};

TEST_F(ReconcileLoopTest, WhatChangedIsLookedAtOnce) {
  EXPECT_FALSE(loop_.is_synced());
  informer_.OnAll({Thing("a"), Thing("b")});
  EXPECT_TRUE(loop_.is_synced());
  EXPECT_THAT(Work(), ElementsAre("a", "b"));
  EXPECT_THAT(Work(), IsEmpty());
  informer_.OnEvent({.kind = WatchEvent::Kind::kModified, .object = Thing("b", "2")});
  EXPECT_THAT(Work(), ElementsAre("b2"));
  informer_.OnEvent({.kind = WatchEvent::Kind::kModified, .object = Thing("b", "3")});
  informer_.OnEvent({.kind = WatchEvent::Kind::kDeleted, .object = Thing("b", "3")});
  EXPECT_THAT(Work(), IsEmpty());
  informer_.OnEvent({.kind = WatchEvent::Kind::kModified, .object = Thing("a", "4")});
  informer_.OnAll({});
  EXPECT_THAT(Work(), IsEmpty());
}

TEST_F(ReconcileLoopTest, TheFirstListCountsWhenItIsWhole) {
  informer_.OnPage({Thing("a")}, /*is_first=*/true);
  EXPECT_THAT(Work(), IsEmpty());
  EXPECT_FALSE(loop_.is_synced());
  informer_.OnListed();
  EXPECT_THAT(Work(), ElementsAre("a"));
  informer_.OnPage({Thing("d", "2")}, /*is_first=*/true);
  EXPECT_THAT(Work(), ElementsAre("d2")) << "what is there already goes on meanwhile";
}

TEST_F(ReconcileLoopTest, WhatIsOverIsNotHeld) {
  Json long_one = Thing("a");
  long_one["data"]["long"] = std::string(1000, 'x');
  long_one["metadata"]["managedFields"] = Json::array({1});
  informer_.OnAll({long_one, Thing("b", "over")});
  EXPECT_THAT(Work(), ElementsAre("a"));
  EXPECT_EQ(notebook_.last, Thing("a"));
  informer_.OnEvent({.kind = WatchEvent::Kind::kModified, .object = Thing("a", "over")});
  loop_.Enqueue("ns", "a");
  loop_.Enqueue("ns", "b");
  EXPECT_THAT(Work(), IsEmpty());
}

TEST_F(ReconcileLoopTest, ItsTimeComes) {
  notebook_.answers["a"] = {clock_.Now() + absl::Seconds(5)};
  informer_.OnAll({Thing("a")});
  EXPECT_THAT(Work(), ElementsAre("a"));
  clock_.Advance(absl::Seconds(4));
  EXPECT_THAT(Work(), IsEmpty());
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(Work(), ElementsAre("a"));
}

TEST_F(ReconcileLoopTest, WhoWakesItNeedNotKnowIt) {
  notebook_.answers["a"] = {clock_.Now() + absl::Hours(5)};
  informer_.OnAll({Thing("a")});
  EXPECT_THAT(Work(), ElementsAre("a"));
  loop_.Enqueue("ns", "a");
  loop_.Enqueue("ns", "unknown");
  EXPECT_THAT(Work(), ElementsAre("a"));
}

TEST_F(ReconcileLoopTest, WhatChangesWhileItIsLookedAtIsLookedAtAgain) {
  notebook_.answers["a"] = {clock_.Now() + absl::Hours(5), clock_.Now() + absl::Hours(5)};
  notebook_.on_look = [&](const std::string&) {
    notebook_.on_look = nullptr;
    loop_.Enqueue("ns", "a");
  };
  informer_.OnAll({Thing("a")});
  EXPECT_THAT(Work(), ElementsAre("a", "a"));
}

TEST_F(ReconcileLoopTest, AfterAnErrorItIsLookedAtSoon) {
  notebook_.answers["a"] = {absl::UnavailableError("away"), absl::AbortedError("changed")};
  informer_.OnAll({Thing("a")});
  EXPECT_THAT(Work(), ElementsAre("a"));
  clock_.Advance(absl::Seconds(2));
  EXPECT_THAT(Work(), ElementsAre("a"));
  clock_.Advance(absl::Milliseconds(100));
  EXPECT_THAT(Work(), ElementsAre("a"));
  clock_.Advance(absl::Hours(1));
  EXPECT_THAT(Work(), IsEmpty());
}

TEST_F(ReconcileLoopTest, ErrorsInARowAreRetriedLessAndLessOften) {
  const absl::Status away = absl::UnavailableError("away");
  notebook_.answers["a"] = {away, away, away, away, away, away, clock_.Now(), away};
  informer_.OnAll({Thing("a")});
  EXPECT_THAT(Work(), ElementsAre("a"));
  for (const int seconds : {2, 4, 8, 16, 30}) {
    clock_.Advance(absl::Seconds(seconds) - absl::Milliseconds(1));
    EXPECT_THAT(Work(), IsEmpty()) << seconds;
    clock_.Advance(absl::Milliseconds(1));
    EXPECT_THAT(Work(), ElementsAre("a")) << seconds;
  }
  clock_.Advance(kReconcileAgainMax);
  EXPECT_THAT(Work(), ElementsAre("a", "a")) << "one was well";
  clock_.Advance(kReconcileAgainFirst);
  EXPECT_THAT(Work(), ElementsAre("a")) << "what went well ended the row";
}

TEST_F(ReconcileLoopTest, WhoHasBeenDueForTheLongestComesFirst) {
  informer_.OnAll({Thing("a"), Thing("b"), Thing("c")});
  EXPECT_THAT(Work(), ElementsAre("a", "b", "c"));
  loop_.Enqueue("ns", "c");
  clock_.Advance(absl::Seconds(1));
  informer_.OnEvent({.kind = WatchEvent::Kind::kModified, .object = Thing("a", "2")});
  loop_.Enqueue("ns", "b");
  clock_.Advance(absl::Seconds(1));
  loop_.Enqueue("ns", "c");
  EXPECT_THAT(Work(), ElementsAre("c", "a2", "b"));
}

// More than one thread can do: all get their share, whatever they are called.
TEST_F(ReconcileLoopTest, NoObjectStarvesUnderOverload) {
  constexpr int kObjects = 20;
  constexpr absl::Duration kCost = absl::Milliseconds(90);
  std::map<std::string, absl::Duration> last;
  absl::Duration longest;
  const absl::Duration begun = clock_.Uptime();
  absl::Duration woken = begun;
  std::vector<Json> things;
  for (int i = 0; i < kObjects; ++i) {
    const std::string name = absl::StrCat("upload-", 10 + i);
    things.push_back(Thing(name));
    last[name] = begun;
  }
  notebook_.on_look = [&](const std::string& name) {
    longest = std::max(longest, clock_.Uptime() - last.at(name));
    last.at(name) = clock_.Uptime();
    clock_.Advance(kCost);
    if (clock_.Uptime() - woken >= absl::Seconds(1)) {
      woken += absl::Seconds(1);
      for (const auto& [other, seen] : last) {
        loop_.Enqueue("ns", other);
      }
    }
    leads_ = clock_.Uptime() - begun < absl::Seconds(30);
  };
  informer_.OnAll(things);
  Work();
  for (const auto& [name, seen] : last) {
    longest = std::max(longest, clock_.Uptime() - seen);
  }
  EXPECT_LE(longest, absl::Seconds(5));
}

TEST_F(ReconcileLoopTest, WhoDoesNotLeadOnlyFollows) {
  leads_ = false;
  informer_.OnAll({Thing("a")});
  EXPECT_THAT(Work(), IsEmpty());
  leads_ = true;
  EXPECT_THAT(Work(), ElementsAre("a"));
}

// Holds what it is shown until it may go on, or is stopped.
class Gate : public Reconciler {
 public:
  absl::StatusOr<absl::Time> Reconcile(const CallContext& ctx, const Json& object) override {
    const std::string name = k8s::Name(object);
    std::unique_lock lock(mutex_);
    is_shared_ |= !inside_.insert(name).second;
    ++looks_[name];
    changed_.notify_all();
    changed_.wait(lock, ctx.stop, [&] { return !held_.contains(name); });
    inside_.erase(name);
    changed_.notify_all();
    if (!ctx.Check().ok()) {
      ++stopped_;
      return ctx.Check();
    }
    return absl::InfiniteFuture();
  }

  void Hold(const std::string& name) {
    std::scoped_lock lock(mutex_);
    held_.insert(name);
  }
  void Release(const std::string& name) {
    std::scoped_lock lock(mutex_);
    held_.erase(name);
    changed_.notify_all();
  }
  void AwaitLooks(const std::string& name, int looks) {
    std::unique_lock lock(mutex_);
    support::AwaitOn(changed_, lock, absl::StrCat(looks, " looks at ", name),
                     [&] { return looks_[name] >= looks; });
  }
  void AwaitNoReconcile() {
    std::unique_lock lock(mutex_);
    support::AwaitOn(changed_, lock, "no object to be reconciled", [&] { return inside_.empty(); });
  }
  int looks(const std::string& name) {
    std::scoped_lock lock(mutex_);
    return looks_[name];
  }
  int stopped() {
    std::scoped_lock lock(mutex_);
    return stopped_;
  }
  // Whether one object was ever looked at by two at once.
  bool is_shared() {
    std::scoped_lock lock(mutex_);
    return is_shared_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::set<std::string> held_;
  std::set<std::string> inside_;
  std::map<std::string, int> looks_;
  int stopped_ = 0;
  bool is_shared_ = false;
};

// A loop at work in threads of its own, from the start of the test to its end.
class WorkingLoopTest : public testing::Test {
 protected:
  ~WorkingLoopTest() override {
    stop_.request_stop();
    working_.join();
  }
  void Change(const std::string& name) {
    informer_.OnEvent({.kind = WatchEvent::Kind::kModified, .object = Thing(name)});
  }

  support::FakeClock clock_;
  std::stop_source stop_;
  const CallContext ctx_{
      .deadline = absl::InfiniteDuration(), .stop = stop_.get_token(), .clock = &clock_};
  Gate gate_;
  std::atomic<bool> leads_ = true;
  ReconcileLoop loop_{kConfigMaps, gate_, [this] { return leads_.load(); }, clock_,
                      /*concurrent=*/2};
  Informer informer_{{.type = kConfigMaps}, {&loop_}};
  std::thread working_{[this] { loop_.Work(ctx_); }};
};

TEST_F(WorkingLoopTest, OneThatTakesLongHoldsNoneOfTheOthersUp) {
  gate_.Hold("a");
  informer_.OnAll({Thing("a"), Thing("b"), Thing("c")});
  gate_.AwaitLooks("a", 1);
  gate_.AwaitLooks("b", 1);
  gate_.AwaitLooks("c", 1);
  Change("b");
  gate_.AwaitLooks("b", 2);
  EXPECT_EQ(gate_.looks("a"), 1);
}

TEST_F(WorkingLoopTest, NoObjectIsWorkedAtByTwoAtOnce) {
  gate_.Hold("a");
  informer_.OnAll({Thing("a"), Thing("b")});
  gate_.AwaitLooks("a", 1);
  gate_.AwaitLooks("b", 1);
  Change("a");
  Change("b");
  gate_.AwaitLooks("b", 2);
  informer_.OnEvent({.kind = WatchEvent::Kind::kDeleted, .object = Thing("a")});
  Change("a");  // Made again.
  Change("b");
  gate_.AwaitLooks("b", 3);
  EXPECT_EQ(gate_.looks("a"), 1) << "though it is due, and a thread is free";
  gate_.Release("a");
  gate_.AwaitLooks("a", 2);
  EXPECT_FALSE(gate_.is_shared());
}

TEST_F(WorkingLoopTest, WithoutTheLeadNothingGoesOn) {
  gate_.Hold("a");
  gate_.Hold("b");
  informer_.OnAll({Thing("a"), Thing("b")});
  gate_.AwaitLooks("a", 1);
  gate_.AwaitLooks("b", 1);
  leads_ = false;
  gate_.AwaitNoReconcile();
  EXPECT_EQ(gate_.stopped(), 2);
  Change("a");
  gate_.Release("a");
  gate_.Release("b");
  EXPECT_EQ(gate_.looks("a") + gate_.looks("b"), 2);
  leads_ = true;
  gate_.AwaitLooks("a", 2);
  support::Await("what was stopped to be due again", [this] {
    clock_.Advance(kReconcileAgainFirst);
    return gate_.looks("b") == 2;
  });
  gate_.AwaitNoReconcile();
  EXPECT_EQ(gate_.stopped(), 2);
}

// What is stopped when the lead ends is over before another one may lead.
TEST(ReconcileLoopTimesTest, ALeadIsCheckedOftenEnough) {
  EXPECT_LT(2 * ReconcileLoop::kLeadCheckedEvery, kLeaseDuration - kLeadTimeMax);
}

TEST_F(WorkingLoopTest, FollowsAndWorksUntilItIsStopped) {
  support::FakeApiClient api(clock_);
  std::jthread following([&] { informer_.Run(ctx_, api).IgnoreError(); });
  api.AwaitWatches(1);
  api.Seed(kConfigMaps, Thing("a"));
  gate_.AwaitLooks("a", 1);
  stop_.request_stop();
}

// --- With a cache of the same objects

Json Stored(const std::string& name, int version, const std::string& state = "") {
  Json thing = Thing(name, state);
  thing["metadata"]["resourceVersion"] = absl::StrCat(version);
  return thing;
}

class CachedReconcileLoopTest : public testing::Test {
 protected:
  CachedReconcileLoopTest() {
    cache_.Add(informer_, [this](const Json& object) { return notebook_.Concerns(object); });
    informer_.Add(loop_);
  }

  void Tell(const Json& object) {
    informer_.OnEvent({.kind = WatchEvent::Kind::kModified, .object = object});
  }
  void Write(const Json& object) {
    cache_.RecordWritten(cache_.Begin(), {kConfigMaps, "ns", k8s::Name(object)}, object);
  }
  std::vector<std::string> Work() {
    loop_.WorkOnce(ctx_);
    return notebook_.Seen();
  }
  // Once, at the next look.
  void WhileLooking(std::function<void()> act) {
    acted_ = false;
    notebook_.on_look = [this, act = std::move(act)](const std::string&) {
      if (!std::exchange(acted_, true)) {
        act();
      }
    };
  }

  support::FakeClock clock_;
  CallContext ctx_{.deadline = absl::InfiniteDuration(), .stop = {}, .clock = &clock_};
  Notebook notebook_;
  const WatchedObjects objects_{.type = kConfigMaps, .namespace_name = "ns", .label_selector = ""};
  Informer informer_{objects_};
  ObjectCache cache_;
  ReconcileLoop loop_{objects_.type, notebook_, [] { return true; }, clock_, 1, &cache_};
  bool acted_ = false;
};

TEST_F(CachedReconcileLoopTest, LooksAtWhatTheCacheHas) {
  informer_.OnAll({Stored("a", 5, "1")});
  Write(Stored("a", 6, "2"));
  EXPECT_THAT(Work(), ElementsAre("a2"));
  Tell(Stored("b", 7, "1"));
  EXPECT_THAT(Work(), ElementsAre("b1")) << "one that is new";
}

TEST_F(CachedReconcileLoopTest, ItsOwnChangeDoesNotMakeAnObjectDue) {
  notebook_.answers["a"] = {clock_.Now() + absl::Seconds(5)};
  WhileLooking([&] { Write(Stored("a", 6, "2")); });
  informer_.OnAll({Stored("a", 5, "1")});
  EXPECT_THAT(Work(), ElementsAre("a1"));
  Tell(Stored("a", 6, "2"));
  EXPECT_THAT(Work(), IsEmpty());
  clock_.Advance(absl::Seconds(5));
  EXPECT_THAT(Work(), ElementsAre("a2")) << "when the reconcile said";
  Tell(Stored("a", 7, "3"));
  EXPECT_THAT(Work(), ElementsAre("a3")) << "a change by another";
}

// The informer is often faster than the answer.
TEST_F(CachedReconcileLoopTest, NorDoesOneThatIsToldBeforeItIsAnswered) {
  WhileLooking([&] {
    Tell(Stored("a", 6, "2"));
    Write(Stored("a", 6, "2"));
  });
  informer_.OnAll({Stored("a", 5, "1")});
  EXPECT_THAT(Work(), ElementsAre("a1"));
}

TEST_F(CachedReconcileLoopTest, AChangeByAnotherOrAWakeMeanwhileMakesItDue) {
  WhileLooking([&] {
    Write(Stored("a", 6, "2"));
    Tell(Stored("a", 7, "3"));
  });
  informer_.OnAll({Stored("a", 5, "1")});
  EXPECT_THAT(Work(), ElementsAre("a1", "a3"));
  WhileLooking([&] {
    loop_.Enqueue("ns", "a");
    Write(Stored("a", 8, "4"));
    Tell(Stored("a", 8, "4"));
  });
  Tell(Stored("a", 7, "3"));
  loop_.Enqueue("ns", "a");
  EXPECT_THAT(Work(), ElementsAre("a3", "a4"));
}

TEST_F(CachedReconcileLoopTest, WhatTheCacheCannotKeepIsHeldHere) {
  informer_.OnAll({Thing("a", "1")});
  EXPECT_THAT(Work(), ElementsAre("a1"));
  Tell(Thing("a", "2"));
  EXPECT_THAT(Work(), ElementsAre("a2"));
}

TEST_F(CachedReconcileLoopTest, AnErrorAfterAnOwnChangeIsTriedAgain) {
  notebook_.answers["a"] = {absl::UnavailableError("away")};
  WhileLooking([&] { Write(Stored("a", 6, "2")); });
  informer_.OnAll({Stored("a", 5, "1")});
  EXPECT_THAT(Work(), ElementsAre("a1"));
  Tell(Stored("a", 6, "2"));
  EXPECT_THAT(Work(), IsEmpty());
  clock_.Advance(kReconcileAgainFirst);
  EXPECT_THAT(Work(), ElementsAre("a2"));
}

TEST_F(CachedReconcileLoopTest, WhatThisProcessHasEndedIsNotLookedAtAgain) {
  notebook_.answers["a"] = {clock_.Now()};
  WhileLooking([&] { Write(Stored("a", 6, "over")); });
  informer_.OnAll({Stored("a", 5, "1"), Stored("b", 5)});
  EXPECT_THAT(Work(), ElementsAre("a1", "b"));
  loop_.Enqueue("ns", "a");
  EXPECT_THAT(Work(), IsEmpty());
  Tell(Stored("a", 6, "over"));
  EXPECT_THAT(Work(), IsEmpty());
}

TEST_F(ReconcileLoopTest, AReconcileThatDoesNotEndIsSeen) {
  informer_.OnAll({Thing("a"), Thing("b")});
  EXPECT_EQ(loop_.oldest_reconcile(), absl::ZeroDuration());
  std::vector<absl::Duration> seen;
  notebook_.on_look = [&](const std::string&) {
    clock_.Advance(absl::Minutes(11));
    seen.push_back(loop_.oldest_reconcile());
  };
  Work();
  EXPECT_THAT(seen, ElementsAre(absl::Minutes(11), absl::Minutes(11)));
  EXPECT_EQ(loop_.oldest_reconcile(), absl::ZeroDuration());
}

TEST_F(ReconcileLoopTest, TheFiguresOfItsQueue) {
  EXPECT_EQ(loop_.figures().due, 0);
  informer_.OnAll({Thing("a"), Thing("b"), Thing("c")});
  clock_.Advance(absl::Seconds(3));
  informer_.OnEvent({.kind = WatchEvent::Kind::kModified, .object = Thing("d")});
  clock_.Advance(absl::Seconds(2));
  QueueFigures figures = loop_.figures();
  EXPECT_EQ(figures.due, 4);
  EXPECT_EQ(figures.oldest_wait, absl::Seconds(5));
  EXPECT_EQ(figures.reconciles, 0);
  notebook_.answers["a"] = {absl::UnavailableError("away"), absl::AbortedError("changed")};
  notebook_.answers["b"] = {clock_.Now() + absl::Minutes(9)};
  notebook_.on_look = [this](const std::string&) { clock_.Advance(absl::Milliseconds(250)); };
  Work();
  figures = loop_.figures();
  EXPECT_EQ(figures.due, 0) << "the others are due later";
  EXPECT_EQ(figures.oldest_wait, absl::ZeroDuration());
  EXPECT_EQ(figures.reconciles, 4);
  EXPECT_EQ(figures.reconcile_time, absl::Seconds(1));
  EXPECT_EQ(figures.retries, 1);
  clock_.Advance(kReconcileAgainFirst);
  Work();
  EXPECT_EQ(loop_.figures().reconciles, 5);
  EXPECT_EQ(loop_.figures().retries, 1) << "a change by another is no error";
  figures += {.due = 2,
              .oldest_wait = absl::Seconds(9),
              .reconciles = 1,
              .reconcile_time = absl::Seconds(1),
              .retries = 3};
  EXPECT_EQ(figures.due, 2);
  EXPECT_EQ(figures.oldest_wait, absl::Seconds(9));
  EXPECT_EQ(figures.reconciles, 5);
  EXPECT_EQ(figures.reconcile_time, absl::Seconds(2));
  EXPECT_EQ(figures.retries, 4);
}

}  // namespace
}  // namespace csidelta::k8s::reconcile_loop_test
