#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/memory_budget.h"
#include "base/random.h"
#include "base/secret.h"
#include "incremental/mover/backup_result.h"
#include "incremental/mover/memory_plan.h"
#include "repository/format.h"
#include "repository/keyring.h"
#include "repository/lock.h"
#include "repository/repository.h"
#include "storage/location.h"

namespace csidelta::engine {

// Reports of work under way. All may be called by several threads at once.

// Sentences for users: `info` for those who want details, `warn` for everyone.
struct Listener {
  std::function<void(absl::string_view sentence)> note = [](absl::string_view) {};
  std::function<void(absl::string_view sentence)> warn = [](absl::string_view) {};
};

// The bytes of a volume, with one call at a time.
using ByteProgress = std::function<void(const incremental::TransferProgress& now)>;

// Progress of other work, in objects. `total`: 0 if it is not known.
using Progress = std::function<void(absl::string_view stage, int64_t done, int64_t total)>;

// How work locks the repository. Each kind waits for locks of other clients, by default until a
// stale lock expires.
enum class LockKind {
  kRead,       // shared; where the store does not let us write, none
  kReadAlone,  // alone; likewise
  kWrite,      // shared, and there must be one
  kExclusive,  // alone, and there must be one
};

// The location of a repository. Nothing is written if its settings are read-only.
struct RepositoryTarget {
  storage::Location location;
  storage::StoreSettings settings = {};
};

// The keys of a repository, or else its password.
struct RepositoryKeys {
  std::optional<repository::Keyring> keyring = {};
  Secret password = {};
};

// Opens the store at `location`: storage::OpenStore, or a test's.
using StoreOpener = std::function<absl::StatusOr<std::unique_ptr<storage::OpenedStore>>(
    const storage::Location& location, const storage::StoreSettings& settings, Random& random)>;

// The options of a session. The functions are called when their values are needed, each as often:
// one may read a file, or ask a person.
struct SessionOptions {
  // `kind`: the lock of the work, without one kExclusive if it may delete.
  std::function<absl::StatusOr<RepositoryTarget>(const CallContext& ctx, LockKind kind)> place;
  // The keys of a ring, the newest first; nothing if a password opens the repository.
  std::function<absl::StatusOr<std::optional<repository::Keyring>>()> keyring;
  std::function<std::string()> keyring_name;  // for messages: where a key is to be added
  // `twice`: it is a new password, to be repeated.
  std::function<absl::StatusOr<Secret>(const CallContext& ctx, const std::string& place,
                                       bool twice)>
      password;

  std::string program_version;  // as snapshots record it
  std::string host;             // this machine's name
  std::string user = {};        // "": not known
  std::string pod_uid = {};     // that this runs in
  std::string scratch_folder;
  // The memory of all work of the session; less if the process has less, see BudgetWithin().
  int64_t memory_budget_bytes = incremental::kMemoryBudgetBytes;
  bool no_lock = false;
  std::optional<absl::Duration> retry_lock = {};
  ScryptParameters scrypt = repository::kScryptWritten;  // of keys that are made
  Random* random = &Random::Real();
  StoreOpener open_store = storage::OpenStore;
  // Identifies this client, and tells which locks of other clients are stale; called for each lock.
  std::function<repository::LivenessProbes()> liveness_probes = [] {
    return repository::LivenessProbes();
  };
  // Blocks until a volume may be written to; an error is permanent.
  std::function<absl::Status(const CallContext&)> await_writing = [](const CallContext&) {
    return absl::OkStatus();
  };
  Listener listener = {};
};

// One repository, for one piece of work: opened, locked, and closed by the destructor. Not
// thread-safe, but for OpenIn().
class Session {
 public:
  explicit Session(SessionOptions options);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Listener& listener() const { return options_.listener; }
  Random& random() const { return *options_.random; }
  const std::string& program_version() const { return options_.program_version; }
  const std::string& host() const { return options_.host; }
  const std::string& user() const { return options_.user; }
  absl::Status AwaitWriting(const CallContext& ctx) const { return options_.await_writing(ctx); }

  MemoryBudget& memory() const { return *memory_; }
  // Uses the budget of `other`, for work with two repositories. REQUIRES that nothing is open yet.
  void ShareMemory(const Session& other) { memory_ = other.memory_; }

  // Makes the repository. ALREADY_EXISTS if there is one.
  absl::StatusOr<repository::Repository*> Init(const CallContext& ctx);
  // Makes its config again: Repository::RepairConfig(). Takes no lock.
  absl::StatusOr<repository::Repository*> RepairConfig(const CallContext& ctx);
  // Opens the repository and takes the lock, unless the options request no lock for reading.
  // INVALID_ARGUMENT if they do so for work that writes.
  absl::StatusOr<repository::Repository*> Open(const CallContext& ctx, LockKind kind);

  // Opens the same repository again, by new connections, without anything that was read before.
  // Drops the index that Open() loaded. Lives as long as this. REQUIRES Open().
  absl::StatusOr<repository::Repository*> OpenAgain(const CallContext& ctx);

  // The store, to list the repositories in its folders, or to repair one that does not open. It is
  // read-only unless `read_only` is false.
  absl::StatusOr<storage::ObjectStore*> OpenLocation(const CallContext& ctx, bool read_only = true);
  // Read once, for any number of repositories.
  absl::StatusOr<RepositoryKeys> ReadKeys(const CallContext& ctx) const;
  // Opens a repository for reading, without a lock. Thread-safe.
  absl::StatusOr<std::unique_ptr<repository::Repository>> OpenIn(const CallContext& ctx,
                                                                 storage::ObjectStore& store,
                                                                 const RepositoryKeys& keys) const;

  // The repository that Open() opened; null before.
  repository::Repository* repository() { return repository_.get(); }
  // The lock that Open() took; null without one. Its held() may be false after kRead.
  repository::Lock* lock() { return lock_.get(); }

  // The address, for messages; "" before it is known.
  const std::string& place() const { return place_; }
  bool in_bucket() const { return in_bucket_; }
  // The size of new packs, if no flag sets it.
  int64_t pack_target_bytes() const {
    return in_bucket_ ? repository::kPackTargetBytesRemote : repository::kPackTargetBytesLocal;
  }
  incremental::StoreNumbers Numbers() const;
  // The same with what closes the session: the deletion of its lock.
  incremental::StoreNumbers NumbersOfAll() const;

 private:
  struct Opened {
    std::unique_ptr<repository::Repository> repository;
    std::optional<repository::RepositoryKey> key_to_add = {};  // the newest, if another opened it
  };

  absl::StatusOr<std::unique_ptr<storage::OpenedStore>> NewStore(const CallContext& ctx,
                                                                 LockKind kind, bool read_only);
  absl::Status OpenStore(const CallContext& ctx, LockKind kind, bool read_only = false);
  repository::Environment KeyEnvironment() const;
  absl::StatusOr<Opened> OpenWithKeyring(const CallContext& ctx, storage::ObjectStore& store,
                                         repository::Keyring keyring) const;
  absl::Status OpenWithPassword(const CallContext& ctx);
  // Adds the newest key of the ring, so that the next client that writes finds it, whichever key
  // opened the repository.
  absl::Status AddNewestKey(const CallContext& ctx);
  absl::Status TakeLock(const CallContext& ctx, LockKind kind);

  const SessionOptions options_;
  std::shared_ptr<MemoryBudget> memory_;
  std::string place_;
  std::atomic<bool> has_reported_waiting_ = false;
  bool in_bucket_ = false;
  std::unique_ptr<storage::OpenedStore> store_;
  std::unique_ptr<repository::Repository> repository_;
  std::unique_ptr<repository::Lock> lock_;
  std::optional<repository::RepositoryKey> key_to_add_;
  std::unique_ptr<storage::OpenedStore> store_again_;
  std::unique_ptr<repository::Repository> repository_again_;
};

}  // namespace csidelta::engine
