#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "csi/content_deletion.h"
#include "csi/environment.h"
#include "inplace/restore_guard.h"
#include "inplace/volume_swap.h"
#include "objects/backup.h"
#include "objects/keys.h"
#include "objects/persistent_volume.h"
#include "objects/volume_snapshot.h"
#include "objects/workload.h"
#include "snapshots/promotion.h"
#include "snapshots/snapshot_inventory.h"
#include "snapshots/snapshot_removal.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"
#include "tests/support/late_copies.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

namespace csidelta::csi {

// The PVC shop/data holds "new" and its VolumeSnapshot monday "old", on a driver that binds before
// it copies. Each look at a Volume of Longhorn brings its copy one of `stages` further; each look
// at Pods, if it is a driver that shows nothing. Then a Pod runs as soon as its volume is complete.
class LateCopyWorld {
 public:
  static constexpr char kLonghorn[] = "driver.longhorn.io";

  explicit LateCopyWorld(std::vector<std::string> stages = {"", "initiated", "completed"},
                         int looks_per_stage = 1, const std::string& driver = kLonghorn)
      : stages_(std::move(stages)),
        looks_per_stage_(looks_per_stage),
        driver_(driver),
        is_shown_(driver == kLonghorn) {
    cluster.driver_name = driver;
    ctx_.clock = &clock_;
    clock_.SetAutoAdvance(true);
    cluster.strict = true;
    support::SeedStorageClass(api, "fast", driver);
    api.Seed(VolumeSnapshotClassType(), support::MakeClassObject("snaps", driver));
    Json pvc = support::MakeObject("v1", "PersistentVolumeClaim", "shop", "data");
    pvc["spec"] = {{"storageClassName", "fast"},
                   {"accessModes", {"ReadWriteOnce"}},
                   {"volumeMode", "Filesystem"},
                   {"resources", {{"requests", {{"storage", "1Gi"}}}}}};
    EXPECT_THAT(api.Create(ctx_, PersistentVolumeClaimType(), "shop", pvc), support::IsOk());
    original_ = HandleOf("data");
    cluster.driver().Write(original_, "old");
    Json snapshot =
        support::MakeObject("snapshot.storage.k8s.io/v1", "VolumeSnapshot", "shop", "monday");
    snapshot["spec"] = {{"source", {{"persistentVolumeClaimName", "data"}}},
                        {"volumeSnapshotClassName", "snaps"}};
    EXPECT_THAT(api.Create(ctx_, VolumeSnapshotType(), "shop", snapshot), support::IsOk());
    cluster.driver().Write(original_, "new");
    api.SetInterceptor([this](const support::ApiCall& call, const Json*) { return See(call); });
  }

  // --- The verbs, as their programs run them

  absl::Status Promote() {
    const CallContext ctx = Ctx();
    snapshots::PromotionRequest request;
    request.targets.push_back(
        {.snapshot = Monday(), .options = {.namespace_name = "shop", .name = "copy"}});
    absl::StatusOr<snapshots::PromotionPlan> plan = snapshots::PlanPromotions(ctx, api, request);
    if (!plan.ok() || !plan->promotions.front().refusals.empty()) {
      return plan.ok() ? absl::FailedPreconditionError("refused") : plan.status();
    }
    absl::StatusOr<std::vector<objects::PersistentVolumeClaim>> made =
        snapshots::MakePvcs(ctx, api, *plan);
    if (!made.ok()) {
      return made.status();
    }
    return snapshots::AwaitPvc(ctx, api, made->front(),
                               {.source = plan->promotions.front().snapshot, .driver = driver_},
                               not_checked)
        .status();
  }
  absl::Status Restore() {
    const CallContext ctx = Ctx();
    const inplace::SwapTarget target = {.namespace_name = "shop",
                                        .pvc_name = "data",
                                        .snapshot_name = "monday",
                                        .snapshot = Monday(),
                                        .takes_safety_snapshot = false};
    const absl::StatusOr<inplace::RestoreSurroundings> around =
        inplace::ReadRestoreSurroundings(ctx, api, "shop");
    if (!around.ok()) {
      return around.status();
    }
    absl::StatusOr<inplace::SwapPlan> plan = inplace::PlanSwap(ctx, api, *around, target);
    if (!plan.ok() || !plan->refusals.empty()) {
      return plan.ok() ? inplace::RefusalStatus("shop", "data", plan->refusals) : plan.status();
    }
    inplace::VolumeSwap swap(ctx, api, Random::Real(), target, [](const inplace::SwapProgress&) {});
    const absl::Status prepared = swap.Prepare(*plan);
    if (!prepared.ok()) {
      return prepared;
    }
    const absl::StatusOr<inplace::SwapResult> result = swap.Exchange();
    if (result.ok()) {
      not_checked = result->not_checked;
    }
    return result.status();
  }
  absl::Status Finish() {
    const CallContext ctx = Ctx();
    return inplace::VolumeSwap(ctx, api, Random::Real(),
                               {.namespace_name = "shop", .pvc_name = "data"},
                               [](const inplace::SwapProgress&) {})
        .Finish()
        .status();
  }
  // As `snapshot delete monday --last-too`.
  absl::Status DeleteSnapshot() {
    const CallContext ctx = Ctx();
    const absl::StatusOr<snapshots::Inventory> inventory =
        snapshots::ReadInventory(ctx, api,
                                 {.namespace_name = "shop",
                                  .names = {"monday"},
                                  .mover_namespace = {},
                                  .now = ctx.clock->Now()});
    if (!inventory.ok() || inventory->entries.empty()) {
      return inventory.ok() ? absl::NotFoundError("monday") : inventory.status();
    }
    const std::vector<snapshots::PlannedRemoval> plan =
        snapshots::PlanRemoval(*inventory, {0}, {.last_too = true});
    if (plan.front().verdict != snapshots::RemovalVerdict::kDelete) {
      return absl::FailedPreconditionError(
          plan.front().kept_for.empty() ? "being deleted" : plan.front().kept_for.front().message);
    }
    return snapshots::RemoveAsRead(ctx, api, plan.front().unit, {}).status();
  }
  // The archive has the content of monday.
  absl::Status DeleteBackup() {
    const CallContext ctx = Ctx();
    if (!archived_.has_value()) {
      return absl::NotFoundError("no backup");
    }
    return DeleteSnapshotOfBackup(ctx, env_, *objects::VolumeSnapshotContent::Of(*archived_),
                                  support::As<objects::Backup>(support::MakeBackupObject(
                                      "nightly", "Completed", "backup-uid")),
                                  absl::Seconds(1))
        .status();
  }
  void ArchiveMonday() {
    const std::string content = GetString(*api.Find(VolumeSnapshotKey("shop", "monday")),
                                          {"status", "boundVolumeSnapshotContentName"});
    api.Mutate(VolumeSnapshotContentKey(content), [](Json& object) {
      SetJson(object, {"metadata", "labels", objects::kBackupNameLabel}, "nightly");
    });
    archived_ = *api.Find(VolumeSnapshotContentKey(content));
  }

  // After a restore into the PVC data that did not wait for its data: as it is with a driver that
  // shows nothing, and as the version before did with Longhorn.
  absl::Status RestoreEarly() {
    std::vector<std::string> stages = std::exchange(stages_, {is_shown_ ? "completed" : ""});
    const absl::Status restored = Restore();
    if (is_shown_) {
      copies.BeginAgain();
    }
    stages_ = std::move(stages);
    stage_ = 0;
    return restored;
  }

  // As Velero's restore makes it, with the plugin's action.
  absl::Status MakeCopy() {
    Json pvc = support::MakeObject("v1", "PersistentVolumeClaim", "shop", "copy");
    pvc["spec"] = {{"storageClassName", "fast"},
                   {"accessModes", {"ReadWriteOnce"}},
                   {"volumeMode", "Filesystem"},
                   {"resources", {{"requests", {{"storage", "1Gi"}}}}},
                   {"dataSource",
                    {{"apiGroup", "snapshot.storage.k8s.io"},
                     {"kind", "VolumeSnapshot"},
                     {"name", "monday"}}}};
    return api.Create(ctx_, PersistentVolumeClaimType(), "shop", pvc).status();
  }

  // Before the call of that position, of those that the verb makes, `act` runs once.
  void Before(int position, std::function<void()> act) {
    calls_left_ = position;
    act_ = std::move(act);
  }
  bool has_acted() const { return act_ == nullptr; }

  const Environment& env() const { return env_; }

  objects::VolumeSnapshot Monday() const {
    return *objects::VolumeSnapshot::Of(*api.Find(VolumeSnapshotKey("shop", "monday")));
  }
  bool HasMonday() const { return !cluster.driver().snapshots().empty(); }
  std::string DataOf(const std::string& pvc) const {
    return cluster.driver().volumes()[HandleOf(pvc)];
  }
  bool HasOriginal() const { return cluster.driver().volumes().contains(original_); }
  std::string HandleOf(const std::string& pvc) const {
    const std::optional<Json> found = api.Find(ClaimKey("shop", pvc));
    const std::string volume = found.has_value() ? GetString(*found, {"spec", "volumeName"}) : "";
    const std::optional<Json> pv = api.Find(VolumeKey(volume));
    return pv.has_value() ? GetString(*pv, {"spec", "csi", "volumeHandle"}) : "";
  }
  CallContext Ctx() const { return ctx_.WithTimeout(absl::Minutes(5)); }

  void RunPod(const std::string& pvc) {
    api.Seed(objects::Pod::Type(),
             {{"metadata", {{"name", "user-of-" + pvc}, {"namespace", "shop"}}},
              {"spec",
               {{"volumes", {{{"name", "v"}, {"persistentVolumeClaim", {{"claimName", pvc}}}}}}}},
              {"status", {{"phase", "Running"}}}});
  }

  std::vector<std::string> not_checked;

 private:
  absl::Status See(const support::ApiCall& call) {
    if (is_acting_) {
      return absl::OkStatus();
    }
    is_acting_ = true;
    // What must hold at each moment.
    EXPECT_FALSE(copies.has_lost_a_source()) << "before " << call.verb << " " << call.plural;
    EXPECT_TRUE(HasOriginal() || copies.all_complete()) << call.verb << " " << call.plural;
    if (act_ != nullptr && calls_left_-- == 0) {
      std::exchange(act_, nullptr)();
    }
    const bool is_look = call.plural == (is_shown_ ? "volumes" : "pods");
    if (is_look && copies.size() > 0 && ++looks_ % looks_per_stage_ == 0) {
      copies.Show(stages_[std::min(stage_++, stages_.size() - 1)]);
    }
    for (const char* pvc : {"data", "copy"}) {
      if (!is_shown_ && copies.is_complete(HandleOf(pvc))) {
        RunPod(pvc);
      }
    }
    is_acting_ = false;
    return absl::OkStatus();
  }

  std::vector<std::string> stages_;
  const int looks_per_stage_;
  const std::string driver_;
  const bool is_shown_;
  std::size_t stage_ = 0;
  int looks_ = 0;
  bool is_acting_ = false;
  int calls_left_ = 0;
  std::function<void()> act_;
  std::optional<Json> archived_;
  std::string original_;
  support::FakeClock clock_;
  CallContext ctx_;

 public:
  support::FakeApiClient api{clock_};
  support::FakeSnapshotCluster cluster{api};
  support::LateCopies copies{api, cluster, is_shown_};

 private:
  Environment env_{.api = api,
                   .clock = clock_,
                   .random = Random::Real(),
                   .velero_namespace = "velero",
                   .enable_csi = true};
};

}  // namespace csidelta::csi
