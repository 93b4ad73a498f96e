#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "csi/environment.h"
#include "k8s/object.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/kind_names.h"
#include "tests/support/longhorn/engine.h"
#include "tests/support/longhorn/fake_longhorn.h"
#include "tests/support/longhorn/kinds.h"
#include "tests/support/snapshot_objects.h"

namespace csidelta::support {

inline constexpr char kLonghornNamespace[] = "longhorn-system";
inline constexpr char kLonghornVolume[] = "pvc-1";
inline constexpr int64_t kLonghornVolumeBytes = int64_t{16} << 20;

// Advances by itself, but for what is due while an action waits for its Snapshot: by a sleep that
// news can end, in the thread of the test. Other threads sleep until it was moved on.
class NativeClock : public FakeClock {
 public:
  explicit NativeClock(std::function<void()> on_wait) : on_wait_(std::move(on_wait)) {
    SetAutoAdvance(true);
  }

  bool SleepUntil(absl::Time wake_at, std::stop_token stop) const override {
    if (std::this_thread::get_id() != owner_) {
      return SleepUntilMoved(wake_at, stop);
    }
    if (stop.stop_possible()) {
      on_wait_();
    }
    return FakeClock::SleepUntil(wake_at, std::move(stop));
  }

 private:
  const std::thread::id owner_ = std::this_thread::get_id();
  const std::function<void()> on_wait_;
};

// A cluster with the stand-in of Longhorn, its volume "pvc-1", which is attached, and the PVC
// shop/data, which has it. The backup "nightly" has a policy that gives CSI volumes to Longhorn.
//
// The clock of actions advances by itself; Longhorn's passes while an action waits for a Snapshot.
class NativeBed {
 public:
  NativeBed() {
    longhorn.AddVolume(kLonghornVolume, kLonghornVolumeBytes);
    longhorn.Attach(kLonghornVolume);
    Pass(absl::Seconds(10));
    pvc = SeedPvc("data", kLonghornVolume);
    backup = MakeBackupObject("nightly", "InProgress");
    SetJson(backup, {"spec"},
            Json{{"csiSnapshotTimeout", "10m0s"},
                 {"resourcePolicy", {{"kind", "configmap"}, {"name", "policies"}}}});
    SetPolicy("{csi-delta: longhorn}");
    api().SetInterceptor([this](const ApiCall& call, const Json* body) { return See(call, body); });
  }

  FakeApiClient& api() { return longhorn.api(); }

  // A PVC in "shop" that is bound to a detached volume of Longhorn, by the PersistentVolume
  // "pv-<name>".
  Json AddPvc(const std::string& name, const std::string& volume) {
    Do([&] { longhorn.AddVolume(volume, kLonghornVolumeBytes); });
    return SeedPvc(name, volume);
  }
  Json SeedPvc(const std::string& name, const std::string& volume) {
    const std::string pv = "pv-" + name;
    api().Seed(PersistentVolumeType(),
               {{"metadata", {{"name", pv}}},
                {"spec", {{"csi", {{"driver", "driver.longhorn.io"}, {"volumeHandle", volume}}}}}});
    return api().Seed(PersistentVolumeClaimType(),
                      {{"metadata", {{"name", name}, {"namespace", "shop"}}},
                       {"spec",
                        {{"volumeName", pv},
                         {"storageClassName", "longhorn"},
                         {"resources", {{"requests", {{"storage", "8Mi"}}}}}}},
                       {"status", {{"phase", "Bound"}}}});
  }

  // The one rule of the backup's policy is for CSI volumes and has these parameters.
  void SetPolicy(const std::string& parameters) {
    Json policies = MakeObject("v1", "ConfigMap", kVeleroNamespace, "policies");
    SetJson(policies, {"data"},
            Json{{"policy.yaml",
                  "version: v1\nvolumePolicies:\n- conditions: {csi: {}}\n  action: {type: custom, "
                  "parameters: " +
                      parameters + "}\n"}});
    api().Seed(ConfigMapType(), policies);
  }

  // Of Longhorn's time.
  void Pass(absl::Duration time) {
    const bool was_passing = std::exchange(is_passing_, true);
    longhorn.Pass(time);
    is_passing_ = was_passing;
  }

  static k8s::ObjectKey SnapshotKey(const std::string& name) {
    return {longhorn_stand_in::SnapshotType(), kLonghornNamespace, name};
  }
  static k8s::ObjectKey VolumeKey() {
    return {longhorn_stand_in::VolumeType(), kLonghornNamespace, kLonghornVolume};
  }
  std::vector<Json> Snapshots() { return api().All(longhorn_stand_in::SnapshotType()); }
  // Of another hand, and ready.
  void AddSnapshot(const std::string& name) {
    Do([&] { EXPECT_TRUE(Create(name).ok()); });
    Pass(absl::Seconds(6));
  }
  absl::StatusOr<Json> Create(const std::string& name) {
    return api().Create({}, longhorn_stand_in::SnapshotType(), kLonghornNamespace,
                        {{"apiVersion", longhorn_stand_in::kApiVersion},
                         {"kind", "Snapshot"},
                         {"metadata", {{"name", name}}},
                         {"spec", {{"volume", kLonghornVolume}, {"createSnapshot", true}}}});
  }
  void PatchVolume(const Json& patch) {
    Do([&] { EXPECT_TRUE(api().Patch({}, VolumeKey(), k8s::PatchKind::kMerge, patch, "").ok()); });
    Pass(absl::Seconds(6));
  }
  bool EngineHas(const std::string& name) {
    bool has = false;
    longhorn.engines().Handle(kLonghornVolume,
                              [&](longhorn_stand_in::Engine& engine) { has = engine.Has(name); });
    return has;
  }

  // What `step` asks of the API server is not counted as an action's.
  void Do(const std::function<void()>& step) {
    const bool was_passing = std::exchange(is_passing_, true);
    step();
    is_passing_ = was_passing;
  }

  // The requests of actions.
  int Count(const std::string& verb, const std::string& plural) const {
    const std::scoped_lock lock(calls_mutex_);
    int count = 0;
    for (const ApiCall& call : calls) {
      count += call.verb == verb && call.plural == plural ? 1 : 0;
    }
    return count;
  }
  // Whatever an action does: Longhorn's objects are created and deleted, and never written.
  void ExpectNoWritesToLonghorn() const {
    for (const ApiCall& call : calls) {
      const bool is_longhorns = call.plural == "snapshots" || call.plural == "volumes" ||
                                call.plural == "engines" || call.plural == "volumeattachments";
      EXPECT_FALSE(is_longhorns && (call.verb == "update" || call.verb == "patch")) << call;
    }
  }

  longhorn_stand_in::FakeLonghorn longhorn;
  NativeClock clock{[this] { Wait(); }};
  csi::Environment env{.api = longhorn.api(),
                       .clock = clock,
                       .random = Random::Real(),
                       .velero_namespace = kVeleroNamespace,
                       .enable_csi = true};
  CallContext ctx{.deadline = absl::InfiniteDuration(), .stop = {}, .clock = &clock};
  Json pvc;
  Json backup;
  absl::Duration passes_per_wait = absl::Seconds(8);
  std::vector<ApiCall> calls;
  // Asked about each request of an action, but those that its watch makes in a thread of its own;
  // an error is its answer. What it asks of the API server itself it does by Do().
  std::function<absl::Status(const ApiCall& call, const Json* body)> on_call;
  // Each time that an action waits, before Longhorn's time passes.
  std::function<void()> on_wait;
  // That are open while an action waits. A Backup's watch is begun by a thread of its own, and one
  // of another Backup stays open: with fewer, the action may have waited before its own was there.
  int watches = 1;

 private:
  absl::Status See(const ApiCall& call, const Json* body) {
    const bool is_watch = std::this_thread::get_id() != owner_;
    if (!is_watch && is_passing_) {
      return absl::OkStatus();
    }
    {
      const std::scoped_lock lock(calls_mutex_);
      calls.push_back(call);
    }
    return on_call && !is_watch ? on_call(call, body) : absl::OkStatus();
  }

  // What Longhorn did is known to the action before its clock goes on.
  void Wait() {
    api().AwaitWatches(watches);
    if (on_wait) {
      on_wait();
    }
    Pass(passes_per_wait);
    api().AwaitEvents();
  }

  const std::thread::id owner_ = std::this_thread::get_id();
  mutable std::mutex calls_mutex_;  // Only a watch has another thread than the test.
  bool is_passing_ = false;
};

}  // namespace csidelta::support
