#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/human_text.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/password.h"
#include "datamover/keyring.h"

namespace csidelta::cli {
namespace {

using datamover::KeyringOwner;

// Whose keys, and where they lie.
struct KeyringLocation {
  std::string mover_namespace;
  KeyringOwner owner = {};

  void Declare(ArgumentTable& table) {
    table.Add("--location", "NAME", "the BackupStorageLocation whose repositories they open",
              owner.location);
  }

  // INVALID_ARGUMENT where no location is given. No I/O.
  absl::StatusOr<std::unique_ptr<k8s::ApiClient>> MakeClient(const ClusterOptions& cluster) {
    if (owner.location.empty()) {
      return absl::InvalidArgumentError("give --location");
    }
    mover_namespace = cluster.mover_namespace;
    ASSIGN_OR_RETURN(owner.velero_namespace, cluster.OneVelero());
    return cluster.access.MakeClient();
  }
};

std::vector<std::string> FingerprintsOf(const repository::Keyring& keyring) {
  std::vector<std::string> fingerprints;
  for (const repository::RepositoryKey& key : keyring.keys) {
    fingerprints.push_back(key.fingerprint);
  }
  return fingerprints;
}

// A keyring without its keys.
Json Describe(absl::string_view message_type, const repository::Keyring& keyring) {
  return {{"message_type", std::string(message_type)},
          {"newest", keyring.newest().fingerprint},
          {"keys", FingerprintsOf(keyring)},
          {"confirmed", keyring.confirmed}};
}

std::string KeysText(const KeyringOwner& owner, const repository::Keyring& keyring) {
  return absl::StrCat("location ", owner.velero_namespace, "/", owner.location, " has ",
                      Counted(std::ssize(keyring.keys), "key"), ", of which ",
                      keyring.newest().fingerprint, " is the newest\n");
}

class MoverKeyExportCommand : public Command {
 public:
  VerbSyntax Declare() override {
    ArgumentTable table;
    location_.Declare(table);
    table.Add(
        "--confirm",
        "confirm that a copy of what was exported is kept: prints no key, and ends the warnings",
        confirm_);
    return {
        .name = "mover-key export",
        .summary = "Print the keys of a location's repositories, to be kept elsewhere",
        .details =
            "Without these keys the data cannot be decrypted. mover-key import takes what is "
            "printed. Once a copy is stored safely outside of the cluster, run the same command "
            "with --confirm: it confirms the keys that were exported, and no later one.",
        .table = std::move(table),
        .family = VerbFamily::kMover,
        .examples = {"mover-key export --location default > default.keys",
                     "mover-key export --location default --confirm"}};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    ASSIGN_OR_RETURN(const std::unique_ptr<k8s::ApiClient> api,
                     location_.MakeClient(session.options().cluster));
    ASSIGN_OR_RETURN(repository::Keyring keyring,
                     datamover::OpenKeyring(ctx, *api, location_.mover_namespace, location_.owner,
                                            /*make=*/false, SecureRandom::Real()));
    return confirm_ ? Confirm(ctx, *api, std::move(keyring), session.console())
                    : Export(ctx, *api, keyring, session);
  }

 private:
  // Records the keys before it prints them: --confirm confirms these, and no later key.
  absl::StatusOr<ExitCode> Export(const CallContext& ctx, k8s::ApiClient& api,
                                  const repository::Keyring& keyring, Session& session) const {
    Console& console = session.console();
    const absl::Status recorded = datamover::RecordExportedKeys(
        ctx, api, location_.mover_namespace, location_.owner, FingerprintsOf(keyring));
    if (session.environment().make_out_private != nullptr) {
      RETURN_IF_ERROR(session.environment().make_out_private());
    }
    console.Print(repository::FormatKeyringFile(keyring));
    console.Info(recorded.ok()
                     ? "keep this outside of the cluster, then run the same with --confirm"
                     : absl::StrCat("keep this outside of the cluster; that it was exported could "
                                    "not be noted, so --confirm will not know it: ",
                                    recorded.message()));
    return ExitCode::kOk;
  }

  absl::StatusOr<ExitCode> Confirm(const CallContext& ctx, k8s::ApiClient& api,
                                   repository::Keyring keyring, Console& console) const {
    std::vector<std::string> exported;
    std::vector<std::string> left_out;
    for (const std::string& fingerprint : FingerprintsOf(keyring)) {
      if (keyring.exported.contains(fingerprint)) {
        exported.push_back(fingerprint);
      } else if (!keyring.confirmed.contains(fingerprint)) {
        left_out.push_back(fingerprint);
      }
    }
    if (exported.empty() && !left_out.empty()) {
      return absl::FailedPreconditionError(
          "no key of this location was exported; run the same without --confirm, and keep what it "
          "prints");
    }
    RETURN_IF_ERROR(
        datamover::ConfirmKeys(ctx, api, location_.mover_namespace, location_.owner, exported));
    keyring.confirmed.insert(exported.begin(), exported.end());
    console.PrintResult(Describe("keys_confirmed", keyring),
                        absl::StrCat("confirmed ", Counted(std::ssize(keyring.confirmed), "key"),
                                     "; ", keyring.newest().fingerprint, " is the newest\n"));
    if (!left_out.empty()) {
      console.Info(
          absl::StrCat("not confirmed, since it was not exported: ", absl::StrJoin(left_out, ", "),
                       "; run the same without --confirm again"));
    }
    return ExitCode::kOk;
  }

  KeyringLocation location_;
  bool confirm_ = false;
};

class MoverKeyImportCommand : public Command {
 public:
  VerbSyntax Declare() override {
    ArgumentTable table;
    table.AddPositional("FILE", "what mover-key export printed", file_);
    location_.Declare(table);
    table.Add("--newest",
              "use the first of them for new data; existing data stays as it is, and is read with "
              "its own keys",
              newest_);
    return {.name = "mover-key import",
            .summary = "Import the keys of a location",
            .details =
                "Use it to restore in another cluster, to bring back a lost key, or with --newest "
                "to rotate the key. Existing keys stay. Imported keys count as confirmed.",
            .table = std::move(table),
            .family = VerbFamily::kMover,
            .examples = {"mover-key import --location default default.keys",
                         "mover-key import --location default --newest new.keys  # rotation"}};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    ASSIGN_OR_RETURN(const std::unique_ptr<k8s::ApiClient> api,
                     location_.MakeClient(session.options().cluster));
    ASSIGN_OR_RETURN(const std::string text, ReadSmallText(file_));
    ASSIGN_OR_RETURN(const repository::Keyring keys,
                     Annotate(repository::ParseKeyringFile(text), file_));
    ASSIGN_OR_RETURN(const repository::Keyring keyring,
                     datamover::ImportKeys(ctx, *api, location_.mover_namespace, location_.owner,
                                           keys, newest_));
    session.console().PrintResult(Describe("keys_imported", keyring),
                                  KeysText(location_.owner, keyring));
    return ExitCode::kOk;
  }

 private:
  std::string file_;
  KeyringLocation location_;
  bool newest_ = false;
};

class MoverKeyRemoveCommand : public Command {
 public:
  VerbSyntax Declare() override {
    ArgumentTable table;
    table.AddPositional("FINGERPRINT", "of the key, 16 hexadecimal digits", fingerprint_);
    location_.Declare(table);
    return {.name = "mover-key remove",
            .summary = "Remove a key that no repository of a location uses any more",
            .details =
                "This ends a key rotation: workers no longer get the key. First make sure with key "
                "list that each repository has another one. The newest key cannot be removed.",
            .table = std::move(table),
            .family = VerbFamily::kMover,
            .examples = {"mover-key remove --location default 0123456789abcdef",
                         "mover-key remove --location s3 0123456789abcdef --context prod"}};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    ASSIGN_OR_RETURN(const std::unique_ptr<k8s::ApiClient> api,
                     location_.MakeClient(session.options().cluster));
    ASSIGN_OR_RETURN(
        const repository::Keyring keyring,
        datamover::RemoveKey(ctx, *api, location_.mover_namespace, location_.owner, fingerprint_));
    session.console().PrintResult(Describe("key_removed", keyring),
                                  KeysText(location_.owner, keyring));
    return ExitCode::kOk;
  }

 private:
  std::string fingerprint_;
  KeyringLocation location_;
};

}  // namespace

void AddMoverKeyCommands(Commands& all) {
  AddEach<MoverKeyExportCommand, MoverKeyImportCommand, MoverKeyRemoveCommand>(all);
}

}  // namespace csidelta::cli
