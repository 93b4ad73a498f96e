#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/random.h"
#include "cli/arguments.h"
#include "cli/cluster_access.h"
#include "cli/cluster_repository.h"
#include "cli/console.h"
#include "cli/password.h"
#include "engine/session.h"
#include "engine/snapshot_choice.h"
#include "incremental/mover/memory_plan.h"
#include "repository/lock.h"
#include "repository/repository.h"
#include "storage/limited_object_store.h"
#include "storage/location.h"

namespace csidelta::cli {

// "csi-delta 0.1.0", as recorded in snapshots.
std::string ProgramVersion();

inline constexpr int kTableColumns = 80;  // without a terminal

// The surroundings of the program. Must outlive the objects made with it.
struct ProgramEnvironment {
  GetVariable get;
  Sink out;
  Sink error;
  bool error_is_terminal = false;
  int error_columns = kTableColumns;  // width of the terminal, for a line of progress
  int columns = kHelpColumns;         // width of the terminal, for help
  int table_columns = kTableColumns;  // width of the terminal, for tables
  bool out_is_terminal = false;       // stdout is a terminal that can be redrawn
  std::string program = "csi-delta";  // as it was called
  std::string commit = "";            // of the build; "unknown" of a tree without git; "": not told
  // Asks at the terminal whether to continue; null without a terminal.
  std::function<absl::StatusOr<bool>(const CallContext& ctx, absl::string_view question)> confirm =
      nullptr;
  // Makes the file behind `out`, if it is one, readable for this user only; may be null.
  std::function<absl::Status()> make_out_private = nullptr;
  Random* random = &Random::Real();
  ScryptParameters scrypt = repository::kScryptWritten;  // of new keys
  engine::StoreOpener open_store = storage::OpenStore;
  // Identifies this client, and stale locks of other clients. Called for each lock.
  std::function<repository::LivenessProbes()> liveness_probes = [] {
    return repository::LivenessProbes();
  };
  // Blocks until writes to a volume are allowed. An error means never again.
  std::function<absl::Status(const CallContext&)> await_writing = [](const CallContext&) {
    return absl::OkStatus();
  };
};

// Whether results are in colors: on a terminal, unless NO_COLOR is set (https://no-color.org).
bool HasColors(const ProgramEnvironment& environment);

// The repository, and how to open it.
struct RepositoryChoice {
  std::string repository;
  std::string repository_file;
  std::string password_file;
  std::string password_command;
  std::string keyring_file = {};

  friend bool operator==(const RepositoryChoice&, const RepositoryChoice&) = default;
};

// The flags of all verbs, and of verbs on a repository or a cluster.
struct GlobalOptions {
  RepositoryChoice choice;
  bool json = false;
  bool quiet = false;
  bool no_lock = false;
  std::optional<absl::Duration> retry_lock;
  std::string scratch_folder;
  int64_t memory_budget_bytes = incremental::kMemoryBudgetBytes;
  std::string ca_file;
  std::string added_ca_file;
  bool insecure_tls = false;
  int64_t limit_upload_kib = 0;
  int64_t limit_download_kib = 0;
  std::shared_ptr<storage::ByteLimiters> byte_limiters = nullptr;  // in place of both, if not null
  std::vector<std::string> store_options;                          // "s3.region=eu-west-1"
  ClusterRepositoryFlags in_cluster;                               // instead of `choice`
  ClusterOptions cluster;
};

ProgramSyntax DeclareFlags(GlobalOptions& options);

// Applies an option "s3.NAME=VALUE" to `settings`. INVALID_ARGUMENT lists the known names.
absl::Status ApplyStoreOption(absl::string_view option, storage::StoreSettings& settings);

// Makes `settings` trust these certificates in addition to those of --cacert or the system, for
// the bucket and for the service of its keys. INVALID_ARGUMENT names `source` if `pem` has none.
absl::Status TrustBesides(const std::string& pem, absl::string_view source,
                          storage::StoreSettings& settings);

// The settings of the store of the repository, from flags, else from variables. Trusted
// certificates are those of --cacert, else RESTIC_CACERT, else AWS_CA_BUNDLE. AWS_CA_BUNDLE and
// --add-cacert also count for the service of the bucket's keys. Reads the files; those that
// variables name only for a bucket, and AWS_CA_BUNDLE only for one of S3.
absl::StatusOr<storage::StoreSettings> MakeStoreSettings(
    const GlobalOptions& options, const GetVariable& get,
    storage::Location::Kind kind = storage::Location::Kind::kS3);

// The address of the repository, from flags, else from variables. INVALID_ARGUMENT if it is
// missing or given twice.
absl::StatusOr<std::string> ChooseRepository(const RepositoryChoice& choice,
                                             const GetVariable& get);

using engine::LockKind;
using engine::RepositoryKeys;

// One run of a verb: options, console, and the repository of the flags, which most verbs open. One
// of a PVC is looked up in the cluster when it is needed; its keys stay in memory. Not thread-safe.
class Session {
 public:
  Session(const GlobalOptions& options, const ProgramEnvironment& environment, Console& console)
      : options_(options), environment_(environment), console_(console) {}

  const GlobalOptions& options() const { return options_; }
  const ProgramEnvironment& environment() const { return environment_; }
  Console& console() { return console_; }

  // Replaces the repository of the flags, for verbs that need two.
  void Choose(const RepositoryChoice& choice) { choice_ = choice; }

  // The snapshot for ChooseSnapshot(): `id`, if given; "latest" if `filter` chooses one; else that
  // of --upload. INVALID_ARGUMENT if none of them is given.
  absl::StatusOr<std::string> NameSnapshot(const CallContext& ctx, const std::string& id,
                                           const engine::SnapshotFilter& filter);

  // The repository for work with this lock, which is not opened. Reads the files of the flags.
  absl::StatusOr<engine::RepositoryTarget> Target(const CallContext& ctx, LockKind kind);

  // The session of the layer below.
  engine::Session& engine() { return engine_; }

  absl::StatusOr<repository::Repository*> Init(const CallContext& ctx) { return engine_.Init(ctx); }
  absl::StatusOr<repository::Repository*> Open(const CallContext& ctx, LockKind kind) {
    return engine_.Open(ctx, kind);
  }
  // Asks at the terminal before something is overwritten. FAILED_PRECONDITION after a no,
  // INVALID_ARGUMENT without a terminal.
  absl::Status Ask(const CallContext& ctx, absl::string_view question);

  // "opening s3:https://host/bucket": what the verb does first.
  std::string Opening() const;
  repository::Lock* lock() { return engine_.lock(); }
  const std::string& location() const { return engine_.place(); }

 private:
  engine::SessionOptions EngineOptions();
  const RepositoryChoice& choice() const { return choice_ ? *choice_ : options_.choice; }
  // Looks the repository up in the cluster, for work with this lock, if the flags request that.
  // Done once: what comes first needs the most.
  absl::Status LookUp(const CallContext& ctx, LockKind kind);
  absl::StatusOr<Secret> Password(const CallContext& ctx, const std::string& location,
                                  bool twice) const;

  const GlobalOptions& options_;
  const ProgramEnvironment& environment_;
  Console& console_;
  std::optional<RepositoryChoice> choice_;
  std::optional<ClusterRepository> found_;  // in the cluster
  engine::Session engine_{EngineOptions()};
};

// Prints information and warnings on the console, which is borrowed.
engine::Listener ListenerOf(Console& console);

// The user's name from USER or LOGNAME, else "".
std::string UserName(const GetVariable& get);

}  // namespace csidelta::cli
