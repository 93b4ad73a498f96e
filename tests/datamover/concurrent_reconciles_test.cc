// Many DataUploads at once, as the controller's threads reconcile them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "datamover/controller/upload_reconciler.h"
#include "datamover/transfer_scheduler.h"
#include "datamover/worker/task_watch.h"
#include "k8s/informer.h"
#include "k8s/object.h"
#include "k8s/reconcile_loop.h"
#include "objects/keys.h"
#include "tests/datamover/mover_bed.h"
#include "tests/support/await.h"
#include "tests/support/kind_names.h"

namespace csidelta::datamover::concurrent_reconciles_test {
namespace {

constexpr int kUploads = 12;

TransferLimits LimitsFor(int transfers) {
  TransferLimits limits;
  limits.total = transfers;
  return limits;
}

class ConcurrentReconcilesTest : public testing::Test {
 protected:
  ConcurrentReconcilesTest() {
    for (int i = 0; i < kUploads; ++i) {
      bed_.AddClaim("shop", absl::StrCat("data-", i));
      bed_.AddUpload(absl::StrCat("upload-", i), "shop", absl::StrCat("data-", i));
    }
    ctx_.stop = stop_.get_token();
  }
  ~ConcurrentReconcilesTest() override {
    stop_.request_stop();
    following_.join();
    working_.join();
  }

  // Switches of the bed are set before.
  void Start() {
    following_ = std::thread([this] {
      k8s::Informer(objects_, {&handler_, &loop_}).Run(ctx_, bed_.api).IgnoreError();
    });
    working_ = std::thread([this] { loop_.Work(ctx_); });
  }

  void AwaitAll(const std::string& what, const std::function<bool(const std::string&)>& is_so) {
    support::Await(what, [&] {
      bed_.clock.Advance(absl::Milliseconds(10));
      for (int i = 0; i < kUploads; ++i) {
        if (!is_so(absl::StrCat("upload-", i))) {
          return false;
        }
      }
      return true;
    });
  }

  MoverBed bed_;
  std::stop_source stop_;
  CallContext ctx_ = bed_.ctx;
  const k8s::WatchedObjects objects_{
      .type = DataUploadType(), .namespace_name = "velero", .label_selector = ""};
  EnqueueTable enqueue_table_;
  TransferScheduler scheduler_{LimitsFor(kUploads), bed_.clock, [] { return true; },
                               [this](const std::string& task) { enqueue_table_.Enqueue(task); }};
  UploadReconciler reconciler_{bed_.env, scheduler_, [](const TransferEnd&) {}};
  k8s::ReconcileLoop loop_{objects_.type, reconciler_, [] { return true; }, bed_.clock};
  SubjectEventHandler handler_{TransferSubjects("DataUpload", QueuedUpload, scheduler_),
                               enqueue_table_, loop_};
  std::thread following_;
  std::thread working_;
};

TEST_F(ConcurrentReconcilesTest, AllFinishes) {
  Start();
  AwaitAll("all uploads to be completed",
           [this](const std::string& name) { return bed_.PhaseOf(name) == "Completed"; });
  EXPECT_EQ(bed_.pods_made, kUploads);
}

TEST_F(ConcurrentReconcilesTest, SlotsAreGivenEvenly) {
  bed_.worker = MoverBed::Worker::kPending;
  Start();
  AwaitAll("all Pods", [this](const std::string& name) { return bed_.Pod(name).has_value(); });
  std::map<std::string, int> users;
  for (const Json& pod : bed_.api.All(PodType())) {
    ++users[k8s::Label(pod, objects::kSlotLabel)];
  }
  ASSERT_EQ(static_cast<int>(users.size()), bed_.env.settings.transfers_per_node_max);
  for (const auto& [slot, pods] : users) {
    EXPECT_EQ(pods, kUploads / bed_.env.settings.transfers_per_node_max) << "slot " << slot;
  }
}

}  // namespace
}  // namespace csidelta::datamover::concurrent_reconciles_test
