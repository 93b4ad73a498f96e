#include "datamover/running_workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "datamover/ended_pods.h"
#include "datamover/worker/task_watch.h"
#include "k8s/object.h"
#include "k8s/object_cache.h"
#include "objects/volume_task.h"
#include "tests/support/kind_names.h"
#include "tests/support/typed.h"

namespace csidelta::datamover::running_workers_test {
namespace {

constexpr char kTask[] = "du-1";
constexpr absl::Duration kNow = absl::Hours(1);

Json Task(int64_t done_bytes, const char* phase = "Running") {
  Json task = objects::VolumeTask::Make("mover", kTask, {}, {}).json();
  task["metadata"]["resourceVersion"] = std::to_string(done_bytes);
  task["status"] = {{"phase", phase}, {"doneBytes", done_bytes}, {"totalBytes", 100}};
  return task;
}

Json Pod(const char* version) {
  return {{"metadata", {{"name", kTask}, {"uid", "p"}, {"resourceVersion", version}}}};
}

class RunningWorkersTest : public testing::Test {
 protected:
  RunningWorkersTest() {
    Begin();
    RecordTask(Task(1));
    RecordPod(Pod("1"));
    Begin();
    running_.Runs(kTask, kNow, kNow + kRunningReconciledEvery);
  }

  void RecordTask(const Json& task) { running_.RecordTask(support::As<objects::VolumeTask>(task)); }
  void RecordPod(const Json& pod) { running_.RecordPod(support::As<objects::Pod>(pod)); }
  void Begin() { running_.BeginReconcile(kTask); }
  bool OnlyProgressMatters(absl::Duration now = kNow) const {
    return running_.Find(kTask, now).has_value();
  }

  RunningWorkers running_;
};

TEST_F(RunningWorkersTest, ProgressEnqueuesNothing) {
  EXPECT_TRUE(OnlyProgressMatters());
  RecordTask(Task(2));
  RecordPod(Pod("1"));
  running_.RecordPodGone("du-2");
  ASSERT_TRUE(OnlyProgressMatters());
  EXPECT_EQ(running_.Find(kTask, kNow)->progress,
            (RunningWorkers::Progress{.done_bytes = 2, .total_bytes = 100}));
}

TEST_F(RunningWorkersTest, AllElseIs) {
  const std::function<void()> changes[] = {
      [&] { RecordTask(Task(2, "Succeeded")); },
      [&] {
        Json task = Task(1);
        task["metadata"]["annotations"] = {{"a", "b"}};
        RecordTask(task);
      },
      [&] { RecordPod(Pod("2")); },
      [&] { running_.RecordPodGone(kTask); },
      [&] { running_.Remove(kTask); },
  };
  for (const auto& change : changes) {
    ASSERT_TRUE(OnlyProgressMatters());
    change();
    EXPECT_FALSE(OnlyProgressMatters());
    running_.BeginReconcile(kTask);
    RecordTask(Task(1));
    RecordPod(Pod("1"));
    running_.BeginReconcile(kTask);
    running_.Runs(kTask, kNow, kNow + kRunningReconciledEvery);
  }
}

TEST_F(RunningWorkersTest, SoIsTheTime) {
  EXPECT_TRUE(OnlyProgressMatters(kNow + kRunningReconciledEvery - absl::Seconds(1)));
  EXPECT_FALSE(OnlyProgressMatters(kNow + kRunningReconciledEvery));
}

TEST_F(RunningWorkersTest, WhatChangesWhileItIsLookedAtIsLookedAtAgain) {
  Begin();
  EXPECT_FALSE(OnlyProgressMatters());
  RecordPod(Pod("2"));
  running_.Runs(kTask, kNow, kNow + kRunningReconciledEvery);
  EXPECT_FALSE(OnlyProgressMatters());
}

TEST_F(RunningWorkersTest, NothingIsKeptOfThoseThatNothingIsMovedFor) {
  running_.Remove(kTask);
  RecordTask(Task(2));
  RecordPod(Pod("2"));
  running_.Runs(kTask, kNow, kNow + kRunningReconciledEvery);
  running_.Copied(kTask, kNow);
  EXPECT_FALSE(OnlyProgressMatters());
}

TEST_F(RunningWorkersTest, APodThatWentOrChangedMakesItsTransferDue) {
  EnqueueTable enqueue_table;
  EndedPods ended;
  PodEventHandler handler(enqueue_table, nullptr, ended, running_);
  k8s::Informer informer({.type = PodType()}, {&handler});
  informer.OnAll({Pod("1")});
  EXPECT_TRUE(OnlyProgressMatters());
  informer.OnAll({});
  EXPECT_FALSE(OnlyProgressMatters());
  Begin();
  running_.Runs(kTask, kNow, kNow + kRunningReconciledEvery);
  EXPECT_TRUE(OnlyProgressMatters());
  informer.OnAll({Pod("2")});
  EXPECT_FALSE(OnlyProgressMatters()) << "each change is noted";
}

// The author of the change knows it, and has said when to look again.
TEST_F(RunningWorkersTest, AChangeByThisProcessEnqueuesNothing) {
  EnqueueTable enqueue_table;
  int woken = 0;
  enqueue_table.Put(kTask, [&] { ++woken; });
  k8s::Informer informer({.type = PodType()});
  k8s::ObjectCache cache;
  cache.Add(informer);
  EndedPods ended;
  PodEventHandler handler(enqueue_table, &cache, ended, running_);
  informer.Add(handler);
  const auto tell = [&](k8s::WatchEvent::Kind kind, const Json& pod) {
    informer.OnEvent({.kind = kind, .object = pod});
  };
  const k8s::ObjectKey key{PodType(), k8s::Namespace(Pod("2")), kTask};
  cache.RecordWritten(cache.Begin(), key, Pod("2"));
  tell(k8s::WatchEvent::Kind::kAdded, Pod("2"));
  EXPECT_EQ(woken, 0);
  tell(k8s::WatchEvent::Kind::kModified, Pod("3"));
  EXPECT_EQ(woken, 1);
  cache.RecordWritten(cache.Begin(), key, Pod("4"));
  tell(k8s::WatchEvent::Kind::kDeleted, Pod("4"));
  EXPECT_EQ(woken, 2) << "that it is gone is news in any case";
}

}  // namespace
}  // namespace csidelta::datamover::running_workers_test
