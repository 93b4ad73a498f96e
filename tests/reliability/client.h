#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/random.h"
#include "incremental/mover/backup_result.h"
#include "incremental/mover/block_downloader.h"
#include "repository/checker.h"
#include "repository/copier.h"
#include "repository/lock.h"
#include "repository/pruner.h"
#include "repository/repairer.h"
#include "repository/repository.h"
#include "repository/snapshot_proof.h"
#include "storage/object_store.h"
#include "tests/reliability/shared_store.h"
#include "tests/reliability/volume_model.h"
#include "tests/support/fake_secure_random.h"

namespace csidelta::reliability {

// Numbers of a seed. Thread-safe only where Random must be: one run at a time has it.
class DrawnNumbers : public Random {
 public:
  explicit DrawnNumbers(uint64_t seed) : engine_(seed) {}
  uint64_t Below(uint64_t bound) override { return engine_() % bound; }

 private:
  std::mt19937_64 engine_;
};

struct BackupChoice {
  bool incremental = true;
  bool fail_on_fallback = false;
  std::string immutable_id = {};  // "": the volume may be written to
};

struct ClientOptions {
  const Clock* clock = nullptr;
  uint64_t seed = 1;
  absl::Duration wait_max = repository::kLockWaitForStale;
  bool refresh_by_thread = false;
  repository::LivenessProbes liveness_probes = {.self = {}};
  repository::ProofLimits limits = {};
};

// One run of the program on one repository, without files, cluster and console: each verb opens the
// repository, takes its lock and calls what engine/ and cli/ call. Borrows the store.
class Client {
 public:
  Client(storage::ObjectStore& store, const ClientOptions& options);

  // A repository in which nothing was saved yet; the same objects each time.
  static const Objects& FreshRepository(int number = 0);

  // `handle` is what the volume's driver knows this state by.
  absl::StatusOr<incremental::BackupResult> Backup(const std::string& volume,
                                                   const VolumeState& state,
                                                   const KnownVolumes& known,
                                                   const std::string& handle,
                                                   const BackupChoice& choice = {});
  absl::Status Forget(const std::vector<repository::Id>& ids);
  absl::Status Prune();
  absl::StatusOr<repository::CheckReport> Check(bool read_data = false);
  absl::StatusOr<repository::RepairIndexResult> RepairIndex(bool read_all_packs = false,
                                                            bool assume_ended = true);
  // With the volume as what fills in lost chunks, where it is given.
  absl::StatusOr<repository::RepairPacksResult> RepairPacks(const VolumeState* live = nullptr);
  // The snapshots that were removed since they cannot be restored.
  absl::StatusOr<std::vector<repository::Id>> RepairSnapshots();
  absl::StatusOr<std::vector<repository::CopiedSnapshot>> CopyFrom(storage::ObjectStore& from);

  // As stock restic does: it takes the word of the index, leaves sidecars alone, and its locks go
  // by the clock.
  absl::StatusOr<repository::Id> PlainBackup(const std::string& image);
  absl::Status PlainUnlock();

  // OK when the snapshot is restored and has the bytes of `state`. Takes no lock.
  absl::Status Restores(const repository::Id& id, const VolumeState& state);
  absl::StatusOr<std::vector<repository::StoredSnapshot>> Snapshots();

  // What the last RepairSnapshots() went by, for people.
  const std::string& findings() const { return findings_; }

 private:
  struct Session {
    std::unique_ptr<repository::Repository> repository;
    std::unique_ptr<repository::Lock> lock;
  };
  absl::StatusOr<std::unique_ptr<repository::Repository>> Open(storage::ObjectStore& store);
  absl::StatusOr<Session> OpenLocked(bool exclusive);

  storage::ObjectStore& store_;
  const ClientOptions options_;
  CallContext ctx_;
  support::FakeSecureRandom secure_random_;
  DrawnNumbers random_;
  repository::Environment environment_;
  std::string findings_;
};

}  // namespace csidelta::reliability
