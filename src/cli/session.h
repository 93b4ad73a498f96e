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
#include "cli/console.h"
#include "cli/password.h"
#include "engine/session.h"
#include "incremental/mover/memory_plan.h"
#include "repository/lock.h"
#include "repository/repository.h"
#include "storage/location.h"

namespace csidelta::cli {

// "csi-delta 0.1.0", as snapshots record it.
std::string ProgramVersion();

inline constexpr int kTableColumns = 80;  // off a terminal

// What the program takes from around it. Lives longer than what is made with it.
struct ProgramEnvironment {
  GetVariable get;
  Sink out;
  Sink error;
  bool error_is_terminal = false;
  int columns = kHelpColumns;         // of the terminal, for help
  int table_columns = kTableColumns;  // of the terminal, for tables
  bool out_is_terminal = false;       // that can be drawn on
  std::string program = "csi-delta";  // as a person called it
  // Asks at a terminal whether to go on; null where there is no terminal.
  std::function<absl::StatusOr<bool>(const CallContext& ctx, absl::string_view question)> confirm =
      nullptr;
  // Has what `out` writes be read by this user alone, where it goes to a file; may be null.
  std::function<absl::Status()> make_out_private = nullptr;
  Random* random = &Random::Real();
  ScryptParameters scrypt = repository::kScryptWritten;  // of keys that are made
  engine::StoreOpener open_store = storage::OpenStore;
  // Which client this is, and which locks of other clients are stale; asked for each lock.
  std::function<repository::LivenessProbes()> liveness_probes = [] {
    return repository::LivenessProbes();
  };
  // Blocks until a volume may be written to; an error: never again.
  std::function<absl::Status(const CallContext&)> await_writing = [](const CallContext&) {
    return absl::OkStatus();
  };
};

// Which repository, and how it opens.
struct RepositoryChoice {
  std::string repository;
  std::string repository_file;
  std::string password_file;
  std::string password_command;
  std::string keyring_file = {};
};

// The flags of all verbs, and of those on a repository.
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
  std::vector<std::string> store_options;  // "s3.region=eu-west-1"
  ClusterOptions cluster;
};

ProgramSyntax DeclareFlags(GlobalOptions& options);

// Sets in `settings` what "s3.NAME=VALUE" says. INVALID_ARGUMENT, with the names that there are.
absl::Status ApplyStoreOption(absl::string_view option, storage::StoreSettings& settings);

// Makes `settings` trust these certificates beside those of --cacert or the system's, for the
// bucket and where its keys are asked for. INVALID_ARGUMENT, naming the source, when none exist.
absl::Status TrustBesides(const std::string& pem, absl::string_view source,
                          storage::StoreSettings& settings);

// How to talk to the place of the repository, by the flags and by what stands in for them. The
// certificates to trust are those of --cacert, else RESTIC_CACERT, else AWS_CA_BUNDLE, which also
// counts where keys of a bucket are asked for, as do those of --add-cacert. Reads the files.
absl::StatusOr<storage::StoreSettings> MakeStoreSettings(const GlobalOptions& options,
                                                         const GetVariable& get);

// The text of --repo, or of what stands in for it. INVALID_ARGUMENT when none exists, or both of
// the two flags.
absl::StatusOr<std::string> ChooseRepository(const RepositoryChoice& choice,
                                             const GetVariable& get);

using engine::LockKind;
using engine::RepositoryKeys;

// One run of a verb: options, console, and the one repository that most verbs use, which is opened
// as the flags say. Not thread-safe.
class Session {
 public:
  Session(const GlobalOptions& options, const ProgramEnvironment& environment, Console& console)
      : options_(options), environment_(environment), console_(console) {}

  const GlobalOptions& options() const { return options_; }
  const ProgramEnvironment& environment() const { return environment_; }
  Console& console() { return console_; }

  // Another repository than that of the flags, for the verbs that need two.
  void Choose(const RepositoryChoice& choice) { choice_ = choice; }

  // The same for work below the program.
  engine::Session& engine() { return engine_; }

  absl::StatusOr<repository::Repository*> Init(const CallContext& ctx) { return engine_.Init(ctx); }
  absl::StatusOr<repository::Repository*> Open(const CallContext& ctx, LockKind kind) {
    return engine_.Open(ctx, kind);
  }
  repository::Lock* lock() { return engine_.lock(); }
  const std::string& location() const { return engine_.place(); }
  bool in_bucket() const { return engine_.in_bucket(); }

 private:
  engine::SessionOptions EngineOptions();
  const RepositoryChoice& choice() const { return choice_ ? *choice_ : options_.choice; }
  absl::StatusOr<engine::RepositoryTarget> Target() const;
  absl::StatusOr<Secret> Password(const CallContext& ctx, const std::string& location,
                                  bool twice) const;

  const GlobalOptions& options_;
  const ProgramEnvironment& environment_;
  Console& console_;
  std::optional<RepositoryChoice> choice_;
  engine::Session engine_{EngineOptions()};
};

// Tells the console.
engine::Listener ListenerOf(Console& console);

// The user's name by the environment, else "".
std::string UserName(const GetVariable& get);

}  // namespace csidelta::cli
