#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/cluster_access.h"
#include "cli/command.h"
#include "cli/password.h"
#include "datamover/keyring.h"

namespace csidelta::cli {
namespace {

using datamover::Keyring;
using datamover::KeyringOwner;

// Whose keys, and where they lie.
struct KeyringPlace {
  ClusterAccess cluster;
  std::string mover_namespace = "csi-delta";
  KeyringOwner owner = {.velero_namespace = "velero", .location = ""};

  void Declare(ArgumentTable& table) {
    cluster.Declare(table);
    table.Add("--namespace", "NS", "the mover's namespace; csi-delta", mover_namespace);
    table.Add("--velero-namespace", "NS", "the namespace of the location; velero",
              owner.velero_namespace);
    table.Add("--location", "NAME", "the BackupStorageLocation whose repositories they open",
              owner.location);
  }

  absl::Status Check() const {
    return owner.location.empty() ? absl::InvalidArgumentError("give --location")
                                  : absl::OkStatus();
  }
};

std::vector<std::string> FingerprintsOf(const Keyring& keyring) {
  std::vector<std::string> fingerprints;
  for (const datamover::RepositoryKey& key : keyring.keys) {
    fingerprints.push_back(key.fingerprint);
  }
  return fingerprints;
}

// What a ring looks like to who must not see the keys.
Json Describe(absl::string_view message_type, const Keyring& keyring) {
  return {{"message_type", std::string(message_type)},
          {"newest", keyring.newest().fingerprint},
          {"keys", FingerprintsOf(keyring)},
          {"confirmed", keyring.confirmed}};
}

class MoverKeyExportCommand : public Command {
 public:
  VerbSyntax Declare() override {
    ArgumentTable table;
    place_.Declare(table);
    table.Add("--confirm",
              "say that a copy of all keys is kept: prints none, and ends the warnings", confirm_);
    return {.name = "mover-key export",
            .summary = "Print the keys of a location's repositories, to be kept elsewhere",
            .details =
                "Without them nobody reads the data. What is printed is what mover-key import "
                "takes. Once it lies in a safe place outside of the cluster, run the same with "
                "--confirm.",
            .table = std::move(table)};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    RETURN_IF_ERROR(place_.Check());
    const std::unique_ptr<k8s::ApiClient> api = place_.cluster.MakeClient();
    ASSIGN_OR_RETURN(Keyring keyring,
                     datamover::OpenKeyring(ctx, *api, place_.mover_namespace, place_.owner,
                                            /*make=*/false, SecureRandom::Real()));
    Console& console = session.console();
    if (!confirm_) {
      if (session.environment().make_out_private != nullptr) {
        RETURN_IF_ERROR(session.environment().make_out_private());
      }
      console.Print(datamover::FormatKeyringFile(keyring));
      console.Note("keep this outside of the cluster, then run the same with --confirm");
      return ExitCode::kOk;
    }
    const std::vector<std::string> fingerprints = FingerprintsOf(keyring);
    RETURN_IF_ERROR(
        datamover::ConfirmKeys(ctx, *api, place_.mover_namespace, place_.owner, fingerprints));
    keyring.confirmed.insert(fingerprints.begin(), fingerprints.end());
    console.PrintResult(Describe("keys_confirmed", keyring),
                        absl::StrCat("confirmed ", fingerprints.size(), " keys, of which ",
                                     keyring.newest().fingerprint, " is the newest\n"));
    return ExitCode::kOk;
  }

 private:
  KeyringPlace place_;
  bool confirm_ = false;
};

class MoverKeyImportCommand : public Command {
 public:
  VerbSyntax Declare() override {
    ArgumentTable table;
    table.AddWord("FILE", "what mover-key export printed", file_);
    place_.Declare(table);
    table.Add("--newest",
              "use the first of them for what is written from now on; data that is there stays as "
              "it is, and is read with the keys that it has",
              newest_);
    return {.name = "mover-key import",
            .summary = "Bring keys of a location's repositories",
            .details =
                "To restore in another cluster, to put back a key that was lost, or with --newest "
                "to change to a new one. Keys that are there already stay. What is brought counts "
                "as confirmed.",
            .table = std::move(table)};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    RETURN_IF_ERROR(place_.Check());
    ASSIGN_OR_RETURN(const std::string text, ReadSmallText(file_));
    const absl::StatusOr<Keyring> keys = datamover::ParseKeyringFile(text);
    if (!keys.ok()) {
      return Annotate(keys.status(), file_);
    }
    const std::unique_ptr<k8s::ApiClient> api = place_.cluster.MakeClient();
    ASSIGN_OR_RETURN(const Keyring keyring, datamover::ImportKeys(ctx, *api, place_.mover_namespace,
                                                                  place_.owner, *keys, newest_));
    session.console().PrintResult(
        Describe("keys_imported", keyring),
        absl::StrCat("location ", place_.owner.velero_namespace, "/", place_.owner.location,
                     " has ", keyring.keys.size(), " keys, of which ", keyring.newest().fingerprint,
                     " is the newest\n"));
    return ExitCode::kOk;
  }

 private:
  std::string file_;
  KeyringPlace place_;
  bool newest_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeMoverKeyExportCommand() {
  return std::make_unique<MoverKeyExportCommand>();
}
std::unique_ptr<Command> MakeMoverKeyImportCommand() {
  return std::make_unique<MoverKeyImportCommand>();
}

}  // namespace csidelta::cli
