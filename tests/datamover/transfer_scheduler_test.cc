#include "datamover/transfer_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/fake_clock.h"

namespace csidelta::datamover::transfer_scheduler_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class TransferSchedulerTest : public testing::Test {
 protected:
  static QueuedTransfer Upload(int i) {
    QueuedTransfer transfer;
    transfer.uid = absl::StrCat("uid-", i);
    transfer.task = absl::StrCat("du-", i);
    transfer.name = absl::StrCat("DataUpload velero/", i);
    transfer.volume = absl::StrCat("shop/data-", i);
    transfer.volume_namespace = absl::StrCat("ns-", i % 50);
    transfer.location = "default";
    transfer.created_at = absl::FromUnixSeconds(1'700'000'000 + i);
    return transfer;
  }
  static TransferLimits Limits(int total) {
    return {.total = total,
            .per_namespace = {},
            .per_storage_class = {{"slow", 1}},
            .per_location = {}};
  }

  support::FakeClock clock_;
  bool leads_ = true;
  std::vector<std::string> enqueued_;
  TransferScheduler scheduler_{Limits(10), clock_, [this] { return leads_; },
                               [this](const std::string& task) { enqueued_.push_back(task); }};
};

TEST_F(TransferSchedulerTest, AnEndEnqueuesTheOneThatIsAdmittedAndLooksAtFew) {
  constexpr int kWaiting = 2000;
  for (int i = 0; i < 10 + kWaiting; ++i) {
    scheduler_.Put(Upload(i));
  }
  EXPECT_EQ(scheduler_.counts().admitted, 10);
  EXPECT_EQ(scheduler_.counts().waiting, kWaiting);
  for (int i = 0; i < 100; ++i) {
    enqueued_.clear();
    const int64_t before = scheduler_.steps();
    scheduler_.Remove(absl::StrCat("uid-", i));
    ASSERT_THAT(enqueued_, ElementsAre(absl::StrCat("du-", i + 10)));
    ASSERT_LE(scheduler_.steps() - before, 20);
  }
}

TEST_F(TransferSchedulerTest, AskingTellsTheReasonAndWhenToAskAgain) {
  for (int i = 0; i < 11; ++i) {
    scheduler_.Put(Upload(i));
  }
  EXPECT_EQ(scheduler_.Ask(Upload(3)).admitted_at,
            absl::FromUnixMicros(absl::ToUnixMicros(clock_.Now())));
  const TransferScheduler::Answer waits = scheduler_.Ask(Upload(10));
  EXPECT_EQ(waits.admitted_at, std::nullopt);
  EXPECT_EQ(waits.waits_for, "waits: at most 10 transfers at once");
  EXPECT_EQ(waits.ask_again, clock_.Now() + kAskAgainEvery);
  EXPECT_EQ(scheduler_.Ask(Upload(99)).waits_for, "waits until all transfers are known");
}

TEST_F(TransferSchedulerTest, AnUploadAsksAgainWhenItsWindowOpens) {
  const auto at = [this](absl::Duration later) {
    return absl::FormatTime("%H:%M", clock_.Now() + later, absl::UTCTimeZone());
  };
  for (const absl::Duration until_open : {absl::Minutes(3), absl::Hours(3)}) {
    TransferLimits limits = Limits(10);
    limits.upload_windows = {
        *ParseDailyWindow(absl::StrCat(at(until_open), "-", at(until_open + absl::Hours(1))))};
    TransferScheduler scheduler(
        limits, clock_, [] { return true; }, [](const std::string&) {});
    scheduler.Put(Upload(0));
    EXPECT_FALSE(scheduler.counts().uploads_are_admitted);
    const absl::Time ask_again = scheduler.Ask(Upload(0)).ask_again;
    EXPECT_EQ(ask_again, std::min(clock_.Now() + kAskAgainEvery,
                                  NextOpening(limits.upload_windows, clock_.Now())));
    EXPECT_LE(ask_again, clock_.Now() + std::min(until_open, kAskAgainEvery));
    clock_.Advance(until_open);
    EXPECT_NE(scheduler.Ask(Upload(0)).admitted_at, std::nullopt);
    EXPECT_TRUE(scheduler.counts().uploads_are_admitted);
  }
}

TEST_F(TransferSchedulerTest, AdmitsNothingUntilItMay) {
  leads_ = false;
  for (int i = 0; i < 12; ++i) {
    scheduler_.Put(Upload(i));
  }
  scheduler_.Remove("uid-11");
  EXPECT_THAT(enqueued_, IsEmpty());
  EXPECT_EQ(scheduler_.counts().admitted, 0);
  EXPECT_EQ(scheduler_.Ask(Upload(0)).waits_for, "waits until all transfers are known");
  leads_ = true;
  EXPECT_NE(scheduler_.Ask(Upload(0)).admitted_at, std::nullopt);
  EXPECT_EQ(scheduler_.counts().admitted, 10) << "the others in their order, not when they ask";
  EXPECT_THAT(enqueued_, testing::SizeIs(9)) << "all but the one that asks";
}

TEST_F(TransferSchedulerTest, WhatItAdmittedIsVoidOnceAnotherProcessLeads) {
  scheduler_.Put(Upload(0));
  EXPECT_EQ(scheduler_.counts().admitted, 1);
  leads_ = false;
  QueuedTransfer changed = Upload(0);
  changed.storage_class = "fast";
  scheduler_.Put(changed);
  EXPECT_EQ(scheduler_.counts().admitted, 0);
}

TEST_F(TransferSchedulerTest, AClassLimitHoldsWhateverEnds) {
  for (int i = 0; i < 4; ++i) {
    QueuedTransfer slow = Upload(i);
    slow.storage_class = "slow";
    scheduler_.Put(slow);
  }
  EXPECT_THAT(enqueued_, ElementsAre("du-0"));
  QueuedTransfer second = Upload(1);
  second.storage_class = "slow";
  EXPECT_EQ(scheduler_.Ask(second).waits_for,
            "waits: at most 1 transfer of storage class slow at once");
  scheduler_.Remove("uid-0");
  EXPECT_THAT(enqueued_, ElementsAre("du-0", "du-1"));
}

TEST_F(TransferSchedulerTest, WhatIsGivenBackGoesToAnother) {
  for (int i = 0; i < 11; ++i) {
    scheduler_.Put(Upload(i));
  }
  enqueued_.clear();
  QueuedTransfer waits = Upload(0);
  waits.admitted_at = scheduler_.Ask(waits).admitted_at;
  scheduler_.Put(waits);  // Its object shows the admission,
  waits.admitted_at = std::nullopt;
  waits.is_held_back = true;
  scheduler_.Put(waits);  // and then that it was given back.
  EXPECT_THAT(enqueued_, ElementsAre("du-10"));
  EXPECT_EQ(scheduler_.Ask(Upload(0)).waits_for, "waits: at most 10 transfers at once");
  EXPECT_EQ(scheduler_.AdmitRunning(Upload(0)),
            absl::FromUnixMicros(absl::ToUnixMicros(clock_.Now())));
  EXPECT_EQ(scheduler_.counts().admitted, 11);
}

// It asks again before the informer delivers that it gave the admission back.
TEST_F(TransferSchedulerTest, WhatWasGivenBackIsNotGivenAgainThoughNothingElseIsSeen) {
  QueuedTransfer transfer = Upload(0);
  scheduler_.Put(transfer);
  const std::optional<absl::Time> first = scheduler_.Ask(transfer).admitted_at;
  ASSERT_NE(first, std::nullopt);
  clock_.Advance(absl::Seconds(2));
  transfer.given_back_at = first;
  const std::optional<absl::Time> second = scheduler_.Ask(transfer).admitted_at;
  EXPECT_EQ(second, absl::FromUnixMicros(absl::ToUnixMicros(clock_.Now())));
  transfer.given_back_at = std::nullopt;
  transfer.admitted_at = first;
  scheduler_.Put(transfer);  // Now they come.
  transfer.admitted_at = std::nullopt;
  transfer.given_back_at = first;
  transfer.is_held_back = true;
  scheduler_.Put(transfer);
  EXPECT_EQ(scheduler_.counts().admitted, 1) << "the second one";
  clock_.Advance(absl::Seconds(2));
  transfer.given_back_at = second;
  transfer.is_held_back = false;
  EXPECT_EQ(scheduler_.AdmitRunning(transfer),
            absl::FromUnixMicros(absl::ToUnixMicros(clock_.Now())));
}

TEST_F(TransferSchedulerTest, AnObjectThatIsOverIsNotQueuedAgainByAsking) {
  scheduler_.Put(Upload(0));
  scheduler_.Remove("uid-0");
  scheduler_.Ask(Upload(0));
  scheduler_.AdmitRunning(Upload(0));
  EXPECT_EQ(scheduler_.counts().admitted + scheduler_.counts().waiting, 0);
}

// The objects of transfers as the API server holds them, and an informer that is late. Each step of
// a transfer is one of its reconcile: it asks, writes what it was told, runs, ends, or is refused
// what its Pod needs and gives its admission back. Some writes meet another one, and change
// nothing.
class RandomRefusalsTest : public testing::TestWithParam<unsigned> {
 protected:
  static constexpr int kTotal = 3;

  struct Object {
    QueuedTransfer now;
    std::deque<std::optional<QueuedTransfer>> undelivered;  // nullopt: it is over
    bool is_over = false;
    bool is_due = false;  // its reconcile is enqueued, or its timer runs
  };

  int Pick(int below) {
    return static_cast<int>(std::uniform_int_distribution<>(0, below - 1)(random_));
  }
  Object& Any() {
    return objects_[static_cast<std::size_t>(Pick(static_cast<int>(objects_.size())))];
  }

  void Add() {
    QueuedTransfer transfer;
    const std::string name = absl::StrCat(objects_.size());
    const bool is_restore = Pick(3) == 0;
    transfer.uid = absl::StrCat("uid-", name);
    transfer.task = name;
    transfer.name = absl::StrCat("DataUpload velero/", name);
    transfer.kind = is_restore ? TransferKind::kRestore : TransferKind::kUpload;
    transfer.volume = absl::StrCat(is_restore ? "target/" : "", Pick(8));
    transfer.volume_namespace = absl::StrCat("ns", Pick(3));
    transfer.storage_class = Pick(2) == 0 ? "slow" : "";
    transfer.created_at = clock_.Now();
    objects_.push_back({.now = transfer, .undelivered = {transfer}});
  }

  bool Write(Object& object, const QueuedTransfer& changed) {
    if (Pick(5) == 0) {
      return false;
    }
    object.now = changed;
    object.undelivered.emplace_back(changed);
    return true;
  }

  // Only the first version makes it due: what comes later wakes by the scheduler alone.
  void Deliver(Object& object) {
    if (object.undelivered.empty()) {
      return;
    }
    const std::optional<QueuedTransfer> version = object.undelivered.front();
    object.undelivered.pop_front();
    object.is_due = object.is_due || known_.insert(object.now.uid).second;
    version.has_value() ? scheduler_.Put(*version) : scheduler_.Remove(object.now.uid);
  }

  void Step(Object& object) {
    if (object.is_over || !object.is_due) {
      return;
    }
    QueuedTransfer changed = object.now;
    if (!changed.admitted_at.has_value()) {
      changed.is_held_back = false;
      changed.admitted_at = scheduler_.Ask(changed).admitted_at;
      changed.given_back_at = std::nullopt;
      if (Write(object, changed)) {
        object.is_due = changed.admitted_at.has_value();
      }
    } else if (!may_refuse_ || Pick(4) == 0) {
      if (Write(object, changed)) {
        object.is_over = true;
        object.undelivered.back() = std::nullopt;
      }
    } else if (Pick(2) == 0) {
      changed.given_back_at = std::exchange(changed.admitted_at, std::nullopt);
      changed.is_refused = true;
      changed.is_held_back = true;
      Write(object, changed);  // It tries again after a pause.
    }
  }

  void CheckAdmissions() {
    std::map<std::string, int> by_volume;
    int admitted = 0;
    for (const Object& object : objects_) {
      if (object.now.admitted_at.has_value() && !object.is_over) {
        ++admitted;
        ASSERT_EQ(++by_volume[object.now.volume], 1) << object.now.volume;
      }
    }
    ASSERT_LE(admitted, scheduler_.counts().admitted) << "an admission is lost";
    ASSERT_LE(admitted, kTotal) << "an admission is given twice";
  }

  support::FakeClock clock_;
  std::mt19937 random_{GetParam()};
  std::deque<Object> objects_;
  std::set<std::string> known_;
  bool may_refuse_ = true;
  TransferScheduler scheduler_{
      {.total = kTotal,
       .per_namespace = {},
       .per_storage_class = {{"slow", 2}},
       .per_location = {}},
      clock_,
      [] { return true; },
      [this](const std::string& task) { objects_.at(std::stoul(task)).is_due = true; }};
};

TEST_P(RandomRefusalsTest, NoAdmissionIsLostOrGivenTwice) {
  for (int i = 0; i < 600; ++i) {
    clock_.Advance(absl::Milliseconds(100));
    const int choice = Pick(12);
    if (objects_.empty() || (choice == 0 && objects_.size() < 40)) {
      Add();
    } else if (choice < 6) {
      Deliver(Any());
    } else {
      Step(Any());
    }
    ASSERT_NO_FATAL_FAILURE(CheckAdmissions()) << "after change " << i;
  }
  ASSERT_GT(objects_.size(), 10U);
  may_refuse_ = false;
  for (int round = 0; round < 400; ++round) {
    for (Object& object : objects_) {
      clock_.Advance(absl::Milliseconds(1));
      Step(object);
      Deliver(object);
    }
    ASSERT_NO_FATAL_FAILURE(CheckAdmissions());
  }
  for (const Object& object : objects_) {
    EXPECT_TRUE(object.is_over) << object.now.name;
  }
  EXPECT_EQ(scheduler_.counts().admitted + scheduler_.counts().waiting, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomRefusalsTest, testing::Range(0U, 40U));

// Informers of several kinds put and remove while workers ask.
TEST_F(TransferSchedulerTest, SeveralThreadsMayUseIt) {
  constexpr int kThreads = 4;
  constexpr int kEach = 200;
  std::atomic<int> enqueued = 0;
  TransferScheduler scheduler(
      Limits(10), clock_, [] { return true; }, [&](const std::string&) { ++enqueued; });
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kEach; ++i) {
        const QueuedTransfer upload = Upload(thread * kEach + i);
        scheduler.Put(upload);
        scheduler.RecordBackup(upload.volume, upload.created_at);
        scheduler.Ask(upload);
        EXPECT_LE(scheduler.counts().admitted, 10);
        scheduler.Remove(upload.uid);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(scheduler.counts().admitted + scheduler.counts().waiting, 0);
  EXPECT_GT(enqueued, 0);
}

}  // namespace
}  // namespace csidelta::datamover::transfer_scheduler_test
