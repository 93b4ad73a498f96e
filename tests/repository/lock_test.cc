#include "repository/lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "repository/index.h"
#include "tests/repository/repository_fixture.h"
#include "tests/support/await.h"
#include "tests/support/watched_store.h"

namespace csidelta::repository::lock_test {
namespace {

using support::IsOk;
using support::StatusIs;
using support::StoreOperation;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

ProcessIdentity SomeProcess() {
  return {.boot_id = "b00t", .pid_namespace = 4026531836, .pid = 42, .start_ticks = 777};
}

// --- Owners ---

TEST(LockOwnerTest, HostnamesComeBack) {
  const LockOwner process = {.name = "node-1.example", .process = SomeProcess(), .pod_uid = ""};
  const LockOwner pod = {.name = "worker", .process = {}, .pod_uid = "1234-5678"};
  const LockOwner both = {.name = "worker", .process = SomeProcess(), .pod_uid = "1234-5678"};
  EXPECT_EQ(EncodeLockHostname(process), "node-1.example_boot-b00t_ns-4026531836_pid-42_start-777");
  LockOwner shifted = both;
  shifted.process.time_namespace = 4026533000;
  EXPECT_EQ(EncodeLockHostname(shifted),
            "worker_boot-b00t_ns-4026531836_pid-42_start-777_time-4026533000_pod-1234-5678");
  for (const LockOwner& owner : {process, pod, both, shifted}) {
    const std::optional<LockOwner> read = DecodeLockHostname(EncodeLockHostname(owner));
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->name, owner.name);
    EXPECT_EQ(read->pod_uid, owner.pod_uid);
    EXPECT_EQ(read->process.boot_id, owner.process.boot_id);
    EXPECT_EQ(read->process.pid, owner.process.pid);
    EXPECT_EQ(read->process.start_ticks, owner.process.start_ticks);
    EXPECT_EQ(read->process.pid_namespace, owner.process.pid_namespace);
    EXPECT_EQ(read->process.time_namespace, owner.process.time_namespace);
  }
}

TEST(LockOwnerTest, AProcessThatIsNotKnownWhollyIsLeftOut) {
  LockOwner owner = {.name = "my_node", .process = SomeProcess(), .pod_uid = ""};
  owner.process.start_ticks = 0;
  EXPECT_EQ(EncodeLockHostname(owner), "my-node");
}

TEST(LockOwnerTest, OtherHostnamesProveNothing) {
  for (const char* hostname :
       {"", "laptop", "my_laptop", "a_boot-b_ns-1_pid-2", "a_boot-b_ns-x_pid-2_start-3",
        "a_ns-1_boot-b_pid-2_start-3", "a_boot-b_ns-1_pid-2_start-3_x",
        "a_boot-b_ns-1_pid-2_start-3_time-x", "a_boot-b_ns-1_pid-2_start-"}) {
    EXPECT_FALSE(DecodeLockHostname(hostname).has_value()) << hostname;
  }
}

struct DeathCase {
  const char* name;
  std::optional<uint64_t> start_ticks;  // of its pid; 0: it is gone; nothing: cannot be told
  std::function<void(LockOwner&, LivenessProbes&)> change;
  bool dead;
};

TEST(LockOwnerTest, OnlyProofCounts) {
  const auto nothing = [](LockOwner&, LivenessProbes&) {};
  const LockOwner pod = {.name = "worker", .process = {}, .pod_uid = "u"};
  const std::vector<DeathCase> cases = {
      {"alive", 777, nothing, false},
      {"gone", 0, nothing, true},
      {"pid used again", 778, nothing, true},
      {"cannot be told", std::nullopt, nothing, false},
      {"gone, but another boot", 0,
       [](LockOwner& o, LivenessProbes&) { o.process.boot_id = "other"; }, false},
      {"gone, but another namespace", 0,
       [](LockOwner& o, LivenessProbes&) { o.process.pid_namespace = 1; }, false},
      {"gone, but we do not know ourselves", 0, [](LockOwner&, LivenessProbes& w) { w.self = {}; },
       false},
      {"gone, but it did not say its start", 0,
       [](LockOwner& o, LivenessProbes&) { o.process.start_ticks = 0; }, false},
      {"pod gone", 777,
       [&](LockOwner& o, LivenessProbes& w) {
         o = pod;
         w.pod_is_gone = [](const std::string& uid) { return uid == "u"; };
       },
       true},
      {"pod alive", 777,
       [&](LockOwner& o, LivenessProbes& w) {
         o = pod;
         w.pod_is_gone = [](const std::string&) { return false; };
       },
       false},
      {"pod gone, but no server to ask", 777, [&](LockOwner& o, LivenessProbes&) { o = pod; },
       false},
  };
  for (const DeathCase& one : cases) {
    LockOwner owner = {.name = "x", .process = SomeProcess(), .pod_uid = ""};
    LivenessProbes liveness_probes;
    liveness_probes.self = SomeProcess();
    liveness_probes.start_ticks_of = [&](int64_t pid) -> std::optional<uint64_t> {
      return pid == 42 ? one.start_ticks : 0;
    };
    one.change(owner, liveness_probes);
    EXPECT_EQ(IsProvenDead(owner, liveness_probes), one.dead) << one.name;
  }
}

// The kernel shows start times as the reader's time namespace counts them.
TEST(LockOwnerTest, AStartTimeProvesDeathInsideOneTimeNamespaceOnly) {
  LockOwner owner = {.name = "x", .process = SomeProcess(), .pod_uid = ""};
  owner.process.time_namespace = 5;
  LivenessProbes liveness_probes;
  liveness_probes.self = SomeProcess();
  liveness_probes.start_ticks_of = [](int64_t) { return 778; };
  EXPECT_FALSE(IsProvenDead(owner, liveness_probes));
  liveness_probes.self.time_namespace = 5;
  EXPECT_TRUE(IsProvenDead(owner, liveness_probes));
  liveness_probes.self.time_namespace = 6;
  liveness_probes.start_ticks_of = [](int64_t) { return 0; };
  EXPECT_TRUE(IsProvenDead(owner, liveness_probes))
      << "no process has its pid, from wherever one looks";
}

TEST(LockOwnerTest, TheKernelKnowsTheLivingAndTheDead) {
  const ProcessIdentity self = OwnProcess();
  EXPECT_EQ(self.boot_id.size(), 32U);
  EXPECT_EQ(self.pid, getpid());
  EXPECT_EQ(StartTicksOf(getpid()), self.start_ticks);
  const pid_t child = fork();
  if (child == 0) {
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(StartTicksOf(child), 0U);
}

// --- Locks ---

// A clock whose sleeps pass at once and tell the test, and whose time of day can be set.
class StepClock : public Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch() + uptime_ + set_by_; }
  absl::Duration Uptime() const override { return uptime_; }
  bool SleepUntil(absl::Time wake_at, std::stop_token stop) const override {
    return SleepFor(wake_at - Now(), std::move(stop));
  }
  bool SleepFor(absl::Duration duration, std::stop_token stop) const override {
    uptime_ += duration;
    if (on_sleep != nullptr) {
      on_sleep();
    }
    return !stop.stop_requested();
  }
  void Advance(absl::Duration step) { uptime_ += step; }
  void SetForward(absl::Duration step) { set_by_ += step; }

  std::function<void()> on_sleep;

 private:
  mutable absl::Duration uptime_ = absl::Hours(1);
  absl::Duration set_by_ = absl::Hours(400'000);
};

class LockTest : public RepositoryFixture {
 protected:
  LockTest() : repository_(Init()) {
    ctx_.clock = &step_;
    options_.refresh_by_thread = false;
    options_.owner = {.name = "us", .process = SomeProcess(), .pod_uid = ""};
    options_.liveness_probes.self = SomeProcess();
    options_.liveness_probes.start_ticks_of = [](int64_t) { return 777; };
  }

  absl::StatusOr<std::unique_ptr<Lock>> Acquire(bool exclusive,
                                                absl::Duration wait_max = absl::ZeroDuration()) {
    LockOptions options = options_;
    options.exclusive = exclusive;
    options.wait_max = wait_max;
    options.on_wait = [this](const std::string& text) { waits_.push_back(text); };
    return Lock::Acquire(ctx_, *repository_, options);
  }

  // A lock of another client, in the store.
  Id PutForeign(bool exclusive, const std::string& hostname = "laptop") {
    const LockFile file = {.time = step_.Now() + absl::Hours(24 * foreign_count_++),
                           .exclusive = exclusive,
                           .hostname = hostname,
                           .username = "eve",
                           .pid = 7};
    return *repository_->SaveFile(ctx_, FileKind::kLock, EncodeLock(file));
  }

  void RemoveForeign(const Id& id) {
    EXPECT_THAT(repository_->RemoveFile(ctx_, FileKind::kLock, id), IsOk());
  }

  std::vector<std::string> Locks() const { return KeysBelow("locks/"); }

  StepClock step_;
  std::unique_ptr<Repository> repository_;
  LockOptions options_;
  std::vector<std::string> waits_;
  int foreign_count_ = 0;
};

TEST_F(LockTest, IsThereUntilReleased) {
  {
    const auto lock = Acquire(false);
    ASSERT_THAT(lock, IsOk());
    EXPECT_TRUE((*lock)->held());
    EXPECT_THAT(Locks(), SizeIs(1));
    EXPECT_THAT((*lock)->Fence(ctx_), IsOk());
    EXPECT_THAT((*lock)->Release(ctx_), IsOk());
    EXPECT_THAT(Locks(), IsEmpty());
    EXPECT_THAT((*lock)->Fence(ctx_), StatusIs(absl::StatusCode::kAborted));
    const auto dropped = Acquire(true);
    EXPECT_THAT(Locks(), SizeIs(1));
  }
  EXPECT_THAT(Locks(), IsEmpty());
}

TEST_F(LockTest, LocksThatGoTogether) {
  for (const bool others : {false, true}) {
    const Id foreign = PutForeign(others);
    for (const bool own : {false, true}) {
      const auto lock = Acquire(own);
      EXPECT_EQ(lock.ok(), !others && !own);
      if (!lock.ok()) {
        EXPECT_TRUE(IsLocked(lock.status()));
        EXPECT_THAT(std::string(lock.status().message()), HasSubstr("eve on laptop"));
      }
    }
    EXPECT_THAT(Locks(), ElementsAre(FileKey(FileKind::kLock, foreign)));
    RemoveForeign(foreign);
  }
}

TEST_F(LockTest, TheDeadAreRemovedFirst) {
  LockOwner dead = options_.owner;
  dead.process.start_ticks = 1;
  PutForeign(true, EncodeLockHostname(dead));
  PutForeign(false, EncodeLockHostname(dead));
  const auto lock = Acquire(true);
  ASSERT_THAT(lock, IsOk());
  EXPECT_THAT(Locks(), SizeIs(1));
}

TEST_F(LockTest, SaysWhatItMetOfRunsThatMayNotHaveEnded) {
  LockOwner dead = options_.owner;
  dead.process.start_ticks = 1;
  PutForeign(true, EncodeLockHostname(dead));
  PutForeign(false, EncodeLockHostname(options_.owner));  // Seen alive.
  PutForeign(false);                                      // Not of csi-delta.
  const auto lock = Acquire(false);
  ASSERT_THAT(lock, IsOk());
  EXPECT_EQ((*lock)->unfinished().removed, 1);
  EXPECT_EQ((*lock)->unfinished().others, 2);
  EXPECT_THAT(Locks(), SizeIs(3));
}

TEST_F(LockTest, AStaleLockExpires) {
  PutForeign(true);
  step_.SetForward(absl::Hours(24));  // Times of day say nothing.
  const absl::Duration begun = step_.Uptime();
  const auto lock = Acquire(false, kLockWaitForStale);
  ASSERT_THAT(lock, IsOk());
  EXPECT_THAT(Locks(), SizeIs(1));
  EXPECT_GE(step_.Uptime() - begun, kLockStaleAfter);
  EXPECT_LE(step_.Uptime() - begun, kLockWaitForStale);
  EXPECT_THAT(waits_, ElementsAre(HasSubstr("exclusive lock")));
}

// The owner of an exclusive lock that expired may be frozen, and delete packs when it goes on.
TEST_F(LockTest, AnExpiredExclusiveLockLeavesAMark) {
  LockOwner dead = options_.owner;
  dead.process.start_ticks = 1;
  PutForeign(true, EncodeLockHostname(dead));
  ASSERT_THAT(Acquire(false), IsOk());
  EXPECT_THAT(KeysBelow("aux/"), IsEmpty()) << "its owner is proven dead";
  for (const bool exclusive : {false, true}) {
    PutForeign(exclusive);
    ASSERT_THAT(Acquire(true, kLockWaitForStale), IsOk());
    EXPECT_THAT(KeysBelow("aux/"), SizeIs(exclusive ? 1 : 0));
  }
}

TEST_F(LockTest, AFreezeByEitherClockIsNoticedBeforeTheNextDeletion) {
  for (const bool by_uptime : {false, true}) {
    const auto lock = Acquire(true);
    ASSERT_THAT(lock, IsOk());
    store_.SetObject("data/00/1", "");
    EXPECT_THAT((*lock)->Delete(ctx_, "data/00/1"), IsOk());
    EXPECT_THAT(KeysBelow("data/"), IsEmpty());
    store_.SetObjects({{"data/00/2", ""}, {"config", store_.objects().at("config")}});
    by_uptime ? step_.Advance(absl::Minutes(1)) : step_.SetForward(absl::Minutes(1));
    EXPECT_THAT((*lock)->Delete(ctx_, "data/00/2"), StatusIs(absl::StatusCode::kAborted));
    EXPECT_THAT(KeysBelow("data/"), SizeIs(1));
    store_.RemoveObject("data/00/2");
  }
}

TEST_F(LockTest, AFreezeWithinManyDeletionsIsNoticedBeforeTheNextRequest) {
  const std::vector<std::string> keys = {"data/00/1", "data/00/2", "data/00/3", "data/00/4"};
  for (const bool is_lost : {false, true}) {
    const auto lock = Acquire(true);
    ASSERT_THAT(lock, IsOk());
    store_.TakeBatches(2, /*in_flight=*/1);
    for (const std::string& key : keys) {
      store_.SetObject(key, "");
    }
    std::vector<std::string> gone;
    bool froze = false;
    const auto freeze = [&](std::size_t number, const absl::Status& deleted) {
      gone.push_back(deleted.ok() ? keys[number] : "");
      if (!std::exchange(froze, true)) {
        step_.Advance(absl::Minutes(2));
        if (is_lost) {
          store_.RemoveObject(Locks().front());
        }
      }
      return deleted;
    };
    EXPECT_EQ((*lock)->Delete(ctx_, keys, freeze).code(),
              is_lost ? absl::StatusCode::kAborted : absl::StatusCode::kOk);
    EXPECT_EQ(gone.size() + KeysBelow("data/").size(), keys.size());
    EXPECT_EQ(KeysBelow("data/").empty(), !is_lost);
  }
}

TEST_F(LockTest, OthersAreLetInForAsLongAsTheyTake) {
  const auto lock = Acquire(true);
  ASSERT_THAT(lock, IsOk());
  std::unique_ptr<Lock> other;
  int sleeps = 0;
  step_.on_sleep = [&] {
    if (++sleeps == 1) {
      EXPECT_THAT(Locks(), IsEmpty());
      other = *Acquire(false);
    } else if (sleeps == 9) {
      other.reset();
    }
  };
  EXPECT_THAT((*lock)->LetOthersIn(ctx_), IsOk());
  EXPECT_GT(sleeps, 9);
  EXPECT_THAT(Locks(), SizeIs(1));
  EXPECT_THAT((*lock)->Fence(ctx_), IsOk());
  step_.on_sleep = nullptr;
  store_.RemoveObject(Locks().front());
  step_.Advance(absl::Minutes(1));
  EXPECT_THAT((*lock)->LetOthersIn(ctx_), StatusIs(absl::StatusCode::kAborted));
}

TEST_F(LockTest, AStepOfTheTimeOfDayRefreshesTheLock) {
  for (const absl::Duration step : {absl::Hours(1), -absl::Hours(2)}) {
    const auto lock = Acquire(true);
    ASSERT_THAT(lock, IsOk());
    const std::vector<std::string> before = Locks();
    step_.SetForward(step);
    EXPECT_THAT((*lock)->Fence(ctx_), IsOk());
    EXPECT_THAT(Locks(), SizeIs(1));
    EXPECT_NE(Locks(), before);
  }
}

TEST_F(LockTest, AnOldLockIsNotRemovedBeforeItWasWatched) {
  PutForeign(true);
  step_.Advance(absl::Hours(24 * 30));
  EXPECT_TRUE(IsLocked(Acquire(false, absl::Minutes(29)).status()));
  EXPECT_THAT(Locks(), SizeIs(1));
}

TEST_F(LockTest, SettingTheTimeOfDayMakesNoLockOld) {
  PutForeign(true);
  for (const absl::Duration off_by : {absl::Hours(24), -absl::Hours(48)}) {
    step_.SetForward(off_by);
    step_.on_sleep = [&] { step_.SetForward(off_by); };
    EXPECT_TRUE(IsLocked(Acquire(false, absl::Minutes(29)).status())) << off_by;
    EXPECT_THAT(Locks(), SizeIs(1));
  }
}

TEST_F(LockTest, ALockThatIsRefreshedHolds) {
  Id foreign = PutForeign(true);
  const absl::Duration begun = step_.Uptime();
  absl::Duration refreshed_at = begun;
  step_.on_sleep = [&] {
    if (step_.Uptime() - refreshed_at > absl::Minutes(5)) {
      const Id next = PutForeign(true);
      RemoveForeign(foreign);
      foreign = next;
      refreshed_at = step_.Uptime();
    }
  };
  EXPECT_TRUE(IsLocked(Acquire(false, absl::Hours(3)).status()));
  EXPECT_GE(step_.Uptime() - begun, absl::Hours(3) - kLockPollEvery);
  EXPECT_LE(step_.Uptime() - begun, absl::Hours(3) + kLockPollEvery);
  EXPECT_THAT(Locks(), ElementsAre(FileKey(FileKind::kLock, foreign)));
}

TEST_F(LockTest, WaitingEndsWhenTheOtherReleases) {
  const Id foreign = PutForeign(true);
  const absl::Duration begun = step_.Uptime();
  int sleeps = 0;
  step_.on_sleep = [&] {
    if (++sleeps == 3) {
      EXPECT_GE(step_.Uptime() - begun, 3 * kLockPollEvery / 2);
      EXPECT_LE(step_.Uptime() - begun, 3 * kLockPollEvery);
      EXPECT_THAT(Locks(), ElementsAre(FileKey(FileKind::kLock, foreign))) << "it waits for it";
      RemoveForeign(foreign);
    }
  };
  EXPECT_THAT(Acquire(true, absl::Minutes(10)), IsOk());
  EXPECT_EQ(sleeps, 4) << "three times for the other, and once until its own has settled";
  EXPECT_THAT(waits_, ElementsAre(HasSubstr("exclusive lock")));
}

TEST_F(LockTest, AcquireStepsBackFromALockThatComesWhileItSettles) {
  Id foreign;
  step_.on_sleep = [&] {
    step_.on_sleep = nullptr;
    foreign = PutForeign(true);
  };
  EXPECT_TRUE(IsLocked(Acquire(true).status()));
  EXPECT_THAT(Locks(), ElementsAre(FileKey(FileKind::kLock, foreign)));
}

TEST_F(LockTest, RefreshingReplacesTheFile) {
  const auto lock = Acquire(false);
  ASSERT_THAT(lock, IsOk());
  const std::vector<std::string> before = Locks();
  step_.Advance(absl::Minutes(5));
  ASSERT_THAT((*lock)->Refresh(ctx_), IsOk());
  EXPECT_THAT(Locks(), SizeIs(1));
  EXPECT_NE(Locks(), before);
  const auto text = repository_->LoadFile(ctx_, FileKind::kLock, *Id::Parse(Locks()[0].substr(6)));
  ASSERT_THAT(text, IsOk());
  EXPECT_EQ(DecodeLock(*text)->time, step_.Now());
}

// Credentials that may add and read, but not delete.
TEST_F(LockTest, AWrittenLockIsARefreshWhateverBecomesOfTheOldOne) {
  const auto refuse = [&] {
    store_.AddFault({.operation = StoreOperation::kDelete,
                     .last_call = 1000,
                     .status = absl::PermissionDeniedError("403")});
  };
  const auto deletions = [&] {
    const std::vector<support::StoreCall> calls = store_.calls();
    return std::count_if(calls.begin(), calls.end(), [](const support::StoreCall& call) {
      return call.operation == StoreOperation::kDelete;
    });
  };
  auto lock = Acquire(false);
  ASSERT_THAT(lock, IsOk());
  store_.Restart();
  refuse();
  for (int i = 0; i < 22; ++i) {
    step_.Advance(kLockRefreshEvery);
    ASSERT_THAT((*lock)->Refresh(ctx_), IsOk());
    EXPECT_THAT((*lock)->Fence(ctx_), IsOk());
  }
  EXPECT_EQ(deletions(), 1) << "refused once, it is not tried with each refresh";
  EXPECT_THAT((*lock)->Release(ctx_), IsOk());
  EXPECT_THAT(Locks(), SizeIs(23));

  // The next command of this machine knows them for those of a dead process.
  options_.liveness_probes.start_ticks_of = [](int64_t) { return 778; };
  store_.Restart();
  refuse();
  lock = Acquire(true);
  ASSERT_THAT(lock, IsOk());
  EXPECT_EQ(deletions(), 1);
  EXPECT_THAT((*lock)->Release(ctx_), IsOk());

  store_.Restart();
  lock = Acquire(true);
  ASSERT_THAT(lock, IsOk());
  EXPECT_THAT(Locks(), SizeIs(1)) << "who may delete removes them all";
}

TEST_F(LockTest, LeftoversGoTogetherOnceTheyMay) {
  const auto lock = Acquire(false);
  ASSERT_THAT(lock, IsOk());
  store_.AddFault({.operation = StoreOperation::kDelete,
                   .last_call = 3,
                   .status = absl::UnavailableError("503")});
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT((*lock)->Refresh(ctx_), IsOk());
  }
  EXPECT_THAT(Locks(), SizeIs(4));
  ASSERT_THAT((*lock)->Refresh(ctx_), IsOk());
  EXPECT_THAT(Locks(), SizeIs(1));
}

TEST_F(LockTest, AnOldOrMissingLockDoesNotPassTheFence) {
  auto lock = Acquire(false);
  ASSERT_THAT(lock, IsOk());
  step_.Advance(kLockFenceAgeMax + absl::Seconds(1));
  EXPECT_THAT((*lock)->Fence(ctx_), StatusIs(absl::StatusCode::kAborted));
  ASSERT_THAT((*lock)->Refresh(ctx_), IsOk());
  EXPECT_THAT((*lock)->Fence(ctx_), IsOk());
  store_.RemoveObject(Locks()[0]);
  EXPECT_THAT((*lock)->Fence(ctx_), StatusIs(absl::StatusCode::kAborted));
}

TEST_F(LockTest, ALockThatWasRemovedIsNotMadeAgain) {
  const auto lock = Acquire(false);
  ASSERT_THAT(lock, IsOk());
  store_.RemoveObject(Locks()[0]);
  EXPECT_THAT((*lock)->Refresh(ctx_), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(Locks(), IsEmpty());
  EXPECT_THAT((*lock)->Refresh(ctx_), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT((*lock)->Fence(ctx_), StatusIs(absl::StatusCode::kAborted));
}

TEST_F(LockTest, AFaultAtAnyCallLeavesNoAbandonedLock) {
  for (int64_t call = 1; call <= 3; ++call) {
    store_.AddFault({.first_call = call, .last_call = call, .status = absl::UnavailableError("x")});
    { const auto lock = Acquire(true); }
    store_.ClearFaults();
    EXPECT_THAT(Locks(), IsEmpty()) << call;
  }
}

// When its file is in the store, while it settles, and while it is replaced.
TEST_F(LockTest, AStopAtAnyMomentLeavesNoAbandonedLock) {
  support::WatchedStore watched(store_);
  const auto repository = Repository::Open(ctx_, watched, kTestPassword, environment_);
  ASSERT_THAT(repository, IsOk());
  options_.exclusive = true;
  for (const char* moment : {"first put", "settling", "second put"}) {
    std::stop_source stop;
    ctx_.stop = stop.get_token();
    int puts = 0;
    watched.after_put = [&](const std::string&) {
      ++puts;
      if (moment == std::string(puts == 1 ? "first put" : "second put")) {
        stop.request_stop();
      }
    };
    step_.on_sleep = [&] {
      if (moment == std::string("settling")) {
        stop.request_stop();
      }
    };
    {
      const auto lock = Lock::Acquire(ctx_, **repository, options_);
      EXPECT_EQ(lock.ok(), moment == std::string("second put")) << moment;
      if (lock.ok()) {
        (*lock)->Refresh(ctx_).IgnoreError();
        EXPECT_THAT(Locks(), SizeIs(1)) << moment;
      }
    }
    EXPECT_TRUE(stop.stop_requested()) << moment;
    EXPECT_THAT(Locks(), IsEmpty()) << moment;
  }
}

TEST_F(LockTest, ALockWhosePutWasNotAnsweredBeforeTheStopGoes) {
  store_.AddFault({.operation = StoreOperation::kPut,
                   .key_prefix = "locks/",
                   .status = absl::UnavailableError("no answer"),
                   .after_effect = true});
  support::WatchedStore watched(store_);
  const auto repository = Repository::Open(ctx_, watched, kTestPassword, environment_);
  ASSERT_THAT(repository, IsOk());
  std::stop_source stop;
  ctx_.stop = stop.get_token();
  watched.after_put = [&](const std::string&) { stop.request_stop(); };
  EXPECT_FALSE(Lock::Acquire(ctx_, **repository, options_).ok());
  EXPECT_THAT(Locks(), IsEmpty());
}

TEST_F(LockTest, AReadOnlyStoreIsReadWithoutOne) {
  store_.AddFault({.operation = StoreOperation::kPut,
                   .key_prefix = "locks/",
                   .last_call = 100,
                   .status = absl::PermissionDeniedError("403")});
  EXPECT_THAT(Acquire(false), StatusIs(absl::StatusCode::kPermissionDenied));
  options_.required = false;
  const auto lock = Acquire(false);
  ASSERT_THAT(lock, IsOk());
  EXPECT_FALSE((*lock)->held());
}

TEST_F(LockTest, ALockThatCannotBeReadIsRespected) {
  const std::string key = FileKey(FileKind::kLock, Id::Of("x"));
  store_.SetObject(key, "no envelope");
  EXPECT_TRUE(IsLocked(Acquire(false).status()));
  store_.SetObject(key, "");
  EXPECT_THAT(Acquire(false), IsOk());
}

// A writer that stood still for so long that its lock went, between its index file and its look.
TEST_F(LockTest, PacksThatWereNotDeletedStayIndexedThoughTheLockIsGone) {
  for (const bool is_stored : {true, false}) {
    const std::vector<IndexedPack> packs = {{.id = Id::Of("gone"), .entries = {}},
                                            {.id = Id::Of("pack"), .entries = {}}};
    if (is_stored) {
      store_.SetObject(PackKey(packs[1].id), "others rely on it by now");
    }
    int looks = 0;
    const auto fence = [&](const CallContext&) {
      return ++looks == 2 ? absl::AbortedError("the lock of this run was removed")
                          : absl::OkStatus();
    };
    EXPECT_THAT(SaveIndex(ctx_, *repository_, packs, fence), StatusIs(absl::StatusCode::kAborted));
    std::vector<PackId> listed;
    const auto files = repository_->ListFiles(ctx_, FileKind::kIndex);
    ASSERT_THAT(files, IsOk());
    for (const FileInfo& file : *files) {
      EXPECT_THAT(repository_->ReadIndexFile(ctx_, file,
                                             [&](const IndexedPack& pack) {
                                               listed.push_back(pack.id);
                                               return absl::OkStatus();
                                             }),
                  IsOk());
    }
    EXPECT_EQ(listed, is_stored ? std::vector<PackId>{packs[1].id} : std::vector<PackId>{});
    for (const std::string& key : KeysBelow("index/")) {
      store_.RemoveObject(key);
    }
    store_.RemoveObject(PackKey(packs[1].id));
  }
}

TEST_F(LockTest, AThreadRefreshesUntilReleased) {
  support::FakeClock clock;
  ctx_.clock = &clock;
  options_.refresh_by_thread = true;
  // The settling of the acquisition.
  std::jthread mover([&clock] {
    clock.AwaitSleepers(1);
    clock.Advance(kLockSettle);
  });
  const auto lock = Acquire(false);
  mover.join();
  ASSERT_THAT(lock, IsOk());
  const std::vector<std::string> before = Locks();
  clock.AwaitSleepers(1);
  clock.Advance(kLockRefreshEvery);
  support::Await("the lock to be refreshed",
                 [&] { return Locks() != before && Locks().size() == 1; });
  EXPECT_THAT((*lock)->Release(ctx_), IsOk());
  EXPECT_THAT(Locks(), IsEmpty());
}

}  // namespace
}  // namespace csidelta::repository::lock_test
