#include "longhorn/native_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "longhorn/types.h"
#include "objects/keys.h"
#include "tests/support/await.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/longhorn_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::longhorn::native_watch_test {
namespace {

using support::IsOk;
using support::StatusIs;

constexpr char kBackupUid[] = "backup-uid";
// Of the machine's time, on a busy one; the test's clock stands still.
constexpr std::chrono::seconds kEndsWithin(30);

class NativeWatchTest : public testing::Test {
 protected:
  using Interest = NativeWatch::Interest;

  // As the API server shows it: Longhorn has not taken it.
  Json Make(const std::string& name, const std::string& backup_uid = kBackupUid) {
    Json object = support::MakeLonghornObject("Snapshot", name);
    SetJson(object, {"metadata", "labels"}, Json{{objects::kBackupUidLabel, backup_uid}});
    return api_.Seed(Snapshot::Type(), object);
  }
  void SetReady(const std::string& name) {
    EXPECT_TRUE(api_.Mutate(Snapshot::Key(kDefaultNamespace, name), [](Json& object) {
      SetJson(object, {"status", "readyToUse"}, true);
    }));
  }
  static absl::StatusOr<bool> IsReady(const Snapshot* snapshot) {
    if (snapshot == nullptr) {
      return absl::NotFoundError("gone");
    }
    return snapshot->is_ready();
  }
  // Awaits in a thread that it is ready; NOT_FOUND when it is gone. Without `made` it goes on.
  std::future<absl::Status> Begin(Interest& interest, std::optional<Json> made = std::nullopt) {
    std::optional<Snapshot> known;
    if (made.has_value()) {
      known = *Snapshot::Of(*made);
    }
    return std::async(std::launch::async, [this, &interest, known = std::move(known)] {
      return interest.Await(ctx_, IsReady, known.has_value() ? &*known : nullptr);
    });
  }
  // How that ended. One that does not end is a failure, and not a test that hangs.
  absl::Status End(std::future<absl::Status>& end) {
    if (end.wait_for(kEndsWithin) == std::future_status::ready) {
      return end.get();
    }
    ADD_FAILURE() << "it goes on, though what it awaits has happened";
    stop_.request_stop();
    const support::AwaitEnd stopped("a wait to end that was stopped");
    return end.get();
  }
  absl::Status Await(Interest& interest, std::optional<Json> made = std::nullopt) {
    std::future<absl::Status> end = Begin(interest, std::move(made));
    return End(end);
  }

  support::FakeClock clock_;
  support::FakeApiClient api_{clock_};
  std::stop_source stop_;
  CallContext ctx_{
      .deadline = absl::InfiniteDuration(), .stop = stop_.get_token(), .clock = &clock_};
  NativeWatch watch_{api_, clock_, kDefaultNamespace, kBackupUid};
};

TEST_F(NativeWatchTest, AllShareOneWatchAndNothingIsListedOrRead) {
  std::vector<std::unique_ptr<Interest>> interests;
  std::vector<std::future<absl::Status>> ends;
  for (const char* name : {"csd-1", "csd-2", "csd-3"}) {
    interests.push_back(std::make_unique<Interest>(watch_, name));
    ends.push_back(Begin(*interests.back(), Make(name)));
    clock_.AwaitSleepers(static_cast<int>(ends.size()));
  }
  api_.AwaitWatches(1);
  for (const char* name : {"csd-3", "csd-1", "csd-2"}) {
    SetReady(name);
  }
  for (std::future<absl::Status>& end : ends) {
    EXPECT_THAT(End(end), IsOk());
  }
  EXPECT_EQ(api_.CallCount("watch", "snapshots"), 1);
  EXPECT_EQ(api_.CallCount("list", "snapshots"), 0);
  EXPECT_EQ(api_.CallCount("get", "snapshots"), 0);
}

TEST_F(NativeWatchTest, WhatHappensBeforeItIsAwaitedIsNotMissed) {
  Interest first(watch_, "csd-1");
  std::future<absl::Status> end = Begin(first, Make("csd-1"));
  api_.AwaitWatches(1);
  Interest second(watch_, "csd-2");
  const Json made = Make("csd-2");
  SetReady("csd-2");
  api_.AwaitEvents();
  EXPECT_THAT(Await(second, made), IsOk());
  EXPECT_EQ(api_.CallCount("get", "snapshots"), 0);
  SetReady("csd-1");
  EXPECT_THAT(End(end), IsOk());
}

TEST_F(NativeWatchTest, OneThatWasMadeBeforeTheWatchBeganIsReadOnce) {
  Interest early(watch_, "csd-1");
  const Json made = Make("csd-1");
  SetReady("csd-1");
  Interest first(watch_, "csd-2");
  std::future<absl::Status> end = Begin(first, Make("csd-2"));
  api_.AwaitWatches(1);
  EXPECT_THAT(Await(early, made), IsOk());
  EXPECT_EQ(api_.CallCount("get", "snapshots"), 1);
  SetReady("csd-2");
  EXPECT_THAT(End(end), IsOk());
}

TEST_F(NativeWatchTest, OnlyTheSnapshotItselfIsShown) {
  Interest interest(watch_, "csd-1");
  const Snapshot made = *Snapshot::Of(Make("csd-1"));
  std::atomic<int> shown = 0;
  std::future<absl::Status> end = std::async(std::launch::async, [&] {
    return interest.Await(
        ctx_,
        [&](const Snapshot* snapshot) {
          ++shown;
          return IsReady(snapshot);
        },
        &made);
  });
  api_.AwaitWatches(1);
  Make("csd-2");
  Make("csd-3", "another-backup");
  api_.Remove(Snapshot::Key(kDefaultNamespace, "csd-2"));
  api_.AwaitEvents();
  SetReady("csd-1");
  EXPECT_THAT(End(end), IsOk());
  EXPECT_EQ(shown, 2) << "as it was made, and ready";
}

TEST_F(NativeWatchTest, OneThatIsDeletedIsShownAsGone) {
  Interest interest(watch_, "csd-1");
  std::future<absl::Status> end = Begin(interest, Make("csd-1"));
  api_.AwaitWatches(1);
  api_.Remove(Snapshot::Key(kDefaultNamespace, "csd-1"));
  EXPECT_THAT(End(end), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(NativeWatchTest, AWatchThatEndsGoesOnWhereItWas) {
  Interest interest(watch_, "csd-1");
  std::future<absl::Status> end = Begin(interest, Make("csd-1"));
  api_.AwaitWatches(1);
  Make("csd-2");
  api_.AwaitEvents();
  api_.EndWatches();
  SetReady("csd-1");
  EXPECT_THAT(End(end), IsOk());
  EXPECT_EQ(api_.CallCount("list", "snapshots"), 0);
}

// One is gone and one ready since, and a third is still to be made.
TEST_F(NativeWatchTest, WhereTheApiServerForgotThoseOfTheBackupAreListed) {
  Interest gone(watch_, "csd-1");
  Interest ready(watch_, "csd-2");
  std::future<absl::Status> end_of_gone = Begin(gone, Make("csd-1"));
  api_.AwaitWatches(1);
  std::future<absl::Status> end_of_ready = Begin(ready, Make("csd-2"));
  clock_.AwaitSleepers(2);
  Interest later(watch_, "csd-3");
  std::atomic<int> watches = 0;
  api_.SetInterceptor([&](const support::ApiCall& call, const Json*) {
    if (call.verb == "watch" && ++watches == 1) {
      api_.Remove(Snapshot::Key(kDefaultNamespace, "csd-1"));
      SetReady("csd-2");
      api_.CompactHistory();
    }
    return absl::OkStatus();
  });
  api_.AwaitEvents();
  api_.EndWatches();
  clock_.AwaitSleepers(3);  // Before the list there is a pause.
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(End(end_of_gone), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(End(end_of_ready), IsOk());
  EXPECT_EQ(api_.CallCount("list", "snapshots"), 1);
  api_.AwaitWatches(1);
  const int reads = api_.CallCount("get", "snapshots");
  // Of another backup, so that the watch tells nothing of it, and the list without it is all.
  const Json made = Make("csd-3", "another-backup");
  SetReady("csd-3");
  api_.AwaitEvents();
  std::future<absl::Status> end_of_later = Begin(later, made);
  clock_.AwaitSleepers(1);
  clock_.Advance(kReadAgainAfter);
  EXPECT_THAT(End(end_of_later), IsOk()) << "it was not made when the others were listed";
  EXPECT_EQ(api_.CallCount("get", "snapshots"), reads + 1);
}

TEST_F(NativeWatchTest, OneOfWhichNothingIsHeardIsRead) {
  api_.Forbid("watch", "snapshots");
  api_.Forbid("list", "snapshots");
  Interest interest(watch_, "csd-1");
  std::future<absl::Status> end = Begin(interest, Make("csd-1"));
  clock_.AwaitSleepers(2);
  SetReady("csd-1");
  clock_.Advance(kReadAgainAfter);
  EXPECT_THAT(End(end), IsOk());
  EXPECT_EQ(api_.CallCount("get", "snapshots"), 1);
}

TEST_F(NativeWatchTest, ItEndsInTimeAndCanGoOn) {
  Interest interest(watch_, "csd-1");
  const Json made = Make("csd-1");
  ctx_.deadline = clock_.Uptime() + absl::Seconds(5);
  std::future<absl::Status> end = Begin(interest, made);
  clock_.AwaitSleepers(1);
  clock_.Advance(absl::Seconds(5));
  EXPECT_THAT(End(end), StatusIs(absl::StatusCode::kDeadlineExceeded));
  ctx_.deadline = absl::InfiniteDuration();
  SetReady("csd-1");
  EXPECT_THAT(Await(interest), IsOk());
  EXPECT_EQ(api_.CallCount("watch", "snapshots"), 1);
}

TEST_F(NativeWatchTest, AStopEndsIt) {
  Interest interest(watch_, "csd-1");
  std::future<absl::Status> end = Begin(interest, Make("csd-1"));
  clock_.AwaitSleepers(1);
  stop_.request_stop();
  EXPECT_THAT(End(end), StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(NativeWatchTest, AnErrorOfTheCallerEndsIt) {
  Interest interest(watch_, "csd-1");
  const Snapshot made = *Snapshot::Of(Make("csd-1"));
  EXPECT_THAT(interest.Await(
                  ctx_, [](const Snapshot*) { return absl::InternalError("no"); }, &made),
              StatusIs(absl::StatusCode::kInternal));
  EXPECT_EQ(api_.CallCount("watch", "snapshots"), 0) << "nothing was awaited";
}

}  // namespace
}  // namespace csidelta::longhorn::native_watch_test
