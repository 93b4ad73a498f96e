#include "k8s/reconcile_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "k8s/object.h"
#include "k8s/wait.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace csidelta::k8s::reconcile_loop_test {
namespace {

using support::IsOk;
using support::StatusIs;
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
  CallContext ctx_{.deadline = absl::InfiniteFuture(), .stop = {}, .clock = &clock_};
  Notebook notebook_;
  bool leads_ = true;
  ReconcileLoop loop_{{.type = kConfigMaps, .namespace_name = "ns", .label_selector = ""},
                      notebook_,
                      [this] { return leads_; }};
};

TEST_F(ReconcileLoopTest, WhatChangedIsLookedAtOnce) {
  EXPECT_FALSE(loop_.is_synced());
  loop_.OnAll({Thing("a"), Thing("b")});
  EXPECT_TRUE(loop_.is_synced());
  EXPECT_THAT(Work(), ElementsAre("a", "b"));
  EXPECT_THAT(Work(), IsEmpty());
  loop_.OnEvent({.kind = WatchEvent::Kind::kModified, .object = Thing("b", "2")});
  EXPECT_THAT(Work(), ElementsAre("b2"));
  loop_.OnEvent({.kind = WatchEvent::Kind::kModified, .object = Thing("b", "3")});
  loop_.OnEvent({.kind = WatchEvent::Kind::kDeleted, .object = Thing("b", "3")});
  EXPECT_THAT(Work(), IsEmpty());
  loop_.OnEvent({.kind = WatchEvent::Kind::kModified, .object = Thing("a", "4")});
  loop_.OnAll({});
  EXPECT_THAT(Work(), IsEmpty());
}

TEST_F(ReconcileLoopTest, AListCountsWhenItIsWhole) {
  loop_.OnPage({Thing("a"), Thing("b")}, /*is_first=*/true);
  EXPECT_THAT(Work(), IsEmpty());
  EXPECT_FALSE(loop_.is_synced());
  loop_.OnPage({Thing("b"), Thing("c")}, /*is_first=*/true);  // It had to begin again.
  loop_.OnPage({Thing("d")}, /*is_first=*/false);
  loop_.OnListed();
  EXPECT_THAT(Work(), ElementsAre("b", "c", "d"));
  loop_.OnPage({Thing("d", "2")}, /*is_first=*/true);
  EXPECT_THAT(Work(), ElementsAre("d2")) << "what is there already goes on meanwhile";
  loop_.Wake("ns", "b");
  EXPECT_THAT(Work(), ElementsAre("b"));
  loop_.OnListed();
  loop_.Wake("ns", "b");
  EXPECT_THAT(Work(), IsEmpty());
}

TEST_F(ReconcileLoopTest, WhatIsOverIsNotHeld) {
  Json long_one = Thing("a");
  long_one["data"]["long"] = std::string(1000, 'x');
  long_one["metadata"]["managedFields"] = Json::array({1});
  loop_.OnAll({long_one, Thing("b", "over")});
  EXPECT_THAT(Work(), ElementsAre("a"));
  EXPECT_EQ(notebook_.last, Thing("a"));
  loop_.OnEvent({.kind = WatchEvent::Kind::kModified, .object = Thing("a", "over")});
  loop_.Wake("ns", "a");
  loop_.Wake("ns", "b");
  EXPECT_THAT(Work(), IsEmpty());
}

TEST_F(ReconcileLoopTest, ItsTimeComes) {
  notebook_.answers["a"] = {clock_.Now() + absl::Seconds(5)};
  loop_.OnAll({Thing("a")});
  EXPECT_THAT(Work(), ElementsAre("a"));
  clock_.Advance(absl::Seconds(4));
  EXPECT_THAT(Work(), IsEmpty());
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(Work(), ElementsAre("a"));
}

TEST_F(ReconcileLoopTest, WhoWakesItNeedNotKnowIt) {
  notebook_.answers["a"] = {clock_.Now() + absl::Hours(5)};
  loop_.OnAll({Thing("a")});
  EXPECT_THAT(Work(), ElementsAre("a"));
  loop_.Wake("ns", "a");
  loop_.Wake("ns", "nobody");
  EXPECT_THAT(Work(), ElementsAre("a"));
}

TEST_F(ReconcileLoopTest, WhatChangesWhileItIsLookedAtIsLookedAtAgain) {
  notebook_.answers["a"] = {clock_.Now() + absl::Hours(5), clock_.Now() + absl::Hours(5)};
  notebook_.on_look = [&](const std::string&) {
    notebook_.on_look = nullptr;
    loop_.Wake("ns", "a");
  };
  loop_.OnAll({Thing("a")});
  EXPECT_THAT(Work(), ElementsAre("a", "a"));
}

TEST_F(ReconcileLoopTest, AfterAnErrorItIsLookedAtSoon) {
  notebook_.answers["a"] = {absl::UnavailableError("away"), absl::AbortedError("changed")};
  loop_.OnAll({Thing("a")});
  EXPECT_THAT(Work(), ElementsAre("a"));
  clock_.Advance(absl::Seconds(2));
  EXPECT_THAT(Work(), ElementsAre("a"));
  clock_.Advance(absl::Milliseconds(100));
  EXPECT_THAT(Work(), ElementsAre("a"));
  clock_.Advance(absl::Hours(1));
  EXPECT_THAT(Work(), IsEmpty());
}

TEST_F(ReconcileLoopTest, WhoDoesNotLeadOnlyFollows) {
  leads_ = false;
  loop_.OnAll({Thing("a")});
  EXPECT_THAT(Work(), IsEmpty());
  leads_ = true;
  EXPECT_THAT(Work(), ElementsAre("a"));
}

// Marks what it sees.
class Marker : public Reconciler {
 public:
  explicit Marker(ApiClient& api) : api_(api) {}

  absl::StatusOr<absl::Time> Reconcile(const CallContext& ctx, const Json& object) override {
    if (GetString(object, {"data", "state"}) != "seen") {
      const ObjectKey key{kConfigMaps, "ns", k8s::Name(object)};
      absl::StatusOr<Json> patched =
          api_.Patch(ctx, key, PatchKind::kMerge, {{"data", {{"state", "seen"}}}}, "");
      if (!patched.ok()) {
        return patched.status();
      }
    }
    return absl::InfiniteFuture();
  }

 private:
  ApiClient& api_;
};

TEST_F(ReconcileLoopTest, FollowsAndWorksUntilItIsStopped) {
  support::FakeApiClient api(clock_);
  Marker marker(api);
  ReconcileLoop loop({.type = kConfigMaps, .namespace_name = "ns", .label_selector = ""}, marker,
                     [] { return true; });
  std::stop_source stop;
  CallContext ctx = ctx_;
  ctx.stop = stop.get_token();
  clock_.SetAutoAdvance(true);
  absl::Status ended;
  std::jthread following([&] { ended = loop.Follow(ctx, api); });
  std::jthread working([&] { loop.Work(ctx); });
  api.AwaitWatches(1);
  api.Seed(kConfigMaps, Thing("a"));
  EXPECT_THAT(WaitFor(ctx_, api, {kConfigMaps, "ns", "a"},
                      [](const Json* object) -> absl::StatusOr<bool> {
                        return object != nullptr && GetString(*object, {"data", "state"}) == "seen";
                      }),
              IsOk());
  stop.request_stop();
  following.join();
  working.join();
  EXPECT_THAT(ended, StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace csidelta::k8s::reconcile_loop_test
