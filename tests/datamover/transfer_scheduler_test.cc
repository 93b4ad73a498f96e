#include "datamover/transfer_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
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

TEST_F(TransferSchedulerTest, AnObjectThatIsOverIsNotQueuedAgainByAsking) {
  scheduler_.Put(Upload(0));
  scheduler_.Remove("uid-0");
  scheduler_.Ask(Upload(0));
  scheduler_.AdmitRunning(Upload(0));
  EXPECT_EQ(scheduler_.counts().admitted + scheduler_.counts().waiting, 0);
}

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
        scheduler.NoteBackup(upload.volume, upload.created_at);
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
