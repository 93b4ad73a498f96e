#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/json.h"
#include "tests/bench/request_counts.h"
#include "tests/bench/scaled_clock.h"
#include "tests/bench/simulated_nodes.h"
#include "tests/bench/upload_tracks.h"
#include "tests/support/api_test_server.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_snapshot_cluster.h"

namespace csidelta::bench {

struct ClusterOptions {
  int admissions = 20;                              // transfers at once, by the settings
  absl::Duration latency = absl::Milliseconds(10);  // of each request but watches
  WorkerPlan worker = {};
};

// A cluster for the data mover's controller: an API server over HTTPS (the project's fake one,
// whose objects are in this process), the programs that make snapshots and volumes, nodes on which
// workers are simulated, Velero's location "default", and a Backup "nightly" that goes on for ever.
class ControlCluster {
 public:
  static constexpr char kMover[] = "mover";
  static constexpr char kVelero[] = "velero";

  // Borrows the clock.
  ControlCluster(const ScaledClock& clock, const ClusterOptions& options);

  // The volumes from `first` on, each with what Velero makes of it but its DataUpload.
  void AddVolumes(int first, int count);
  // The DataUploads of these volumes, at once. Their names sort by number.
  void AddUploads(int first, int count);
  void Cancel(const std::string& upload);
  // So many DataDeletions in each of so many repositories, at once.
  absl::Status AddDeletions(int repositories, int per_repository);
  // Whether so many of them are Completed, at the latest after `time_max`.
  bool AwaitDeletions(int count, absl::Duration time_max);
  int deletions_done() const;
  absl::Time deletions_done_at() const;  // of the last one
  // DataUploads of earlier nights, and volume snapshots that were kept as bases.
  void AddFinished(int uploads, int bases);
  // Every watch ends, and none can go on where it was: 410 Gone.
  void ExpireWatches();
  // Every watch ends, as a server ends them after some minutes.
  void EndWatches() { api_.EndWatches(); }
  // Until a controller leads and nothing was asked of the server for so long but its Lease, as long
  // as `goes_on`; whether that came within `time_max`.
  bool AwaitRest(absl::Duration rest, absl::Duration time_max,
                 const std::function<bool()>& goes_on);

  // Has a request take what the options say from its client's side, TLS and the server's own work
  // included, and returns what it takes then. With the cluster of a kubeconfig file, while it
  // rests.
  absl::StatusOr<absl::Duration> TuneLatency(const std::string& kubeconfig_path);

  UploadTracks& tracks() { return tracks_; }
  const RequestCounts& requests() const { return counts_; }  // of the controller alone
  const SimulatedNodes& nodes() const { return *nodes_; }
  // What the fake keeps for tests that look at every call is dropped.
  void ForgetCalls() { api_.ClearCalls(); }
  std::string Kubeconfig() const { return server_->Kubeconfig("{token: bench}"); }

 private:
  void SeedMover(const ClusterOptions& options);
  void SeedVelero();
  void AddClaims(int first, int count);

  const ScaledClock& clock_;
  const absl::Duration latency_;   // by the machine's clock
  std::atomic<int64_t> pause_ns_;  // before a request is served
  support::FakeApiClient api_;
  support::FakeSnapshotCluster snapshots_;
  UploadTracks tracks_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> deletions_done_;                 // by name; guarded by mutex_
  absl::Time deletions_done_at_ = absl::InfinitePast();  // guarded by mutex_
  RequestCounts counts_;
  std::unique_ptr<SimulatedNodes> nodes_;
  std::unique_ptr<support::ApiTestServer> server_;
};

}  // namespace csidelta::bench
