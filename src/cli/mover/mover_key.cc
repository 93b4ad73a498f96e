#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/human_text.h"
#include "base/status_macros.h"
#include "cli/cluster_verb.h"
#include "cli/command.h"
#include "cli/password.h"
#include "datamover/keyring.h"

namespace csidelta::cli {
namespace {

using datamover::KeyringOwner;

std::vector<std::string> FingerprintsOf(const repository::Keyring& keyring) {
  std::vector<std::string> fingerprints;
  for (const repository::RepositoryKey& key : keyring.keys) {
    fingerprints.push_back(key.fingerprint);
  }
  return fingerprints;
}

// A keyring without its keys.
Json KeyringJson(absl::string_view message_type, const repository::Keyring& keyring) {
  return {{"message_type", std::string(message_type)},
          {"newest", keyring.newest().fingerprint},
          {"keys", FingerprintsOf(keyring)},
          {"confirmed", keyring.confirmed}};
}

// A verb on the keys of a location.
class MoverKeyCommand : public MoverCommand {
 protected:
  virtual absl::StatusOr<ExitCode> WorkOnKeys() = 0;

  void DeclareLocation(ArgumentTable& table) {
    table.Add("--location", "NAME", "the BackupStorageLocation whose repositories they open",
              owner_.location);
  }

  absl::StatusOr<ExitCode> Work() override {
    if (owner_.location.empty()) {
      return absl::InvalidArgumentError("give --location");
    }
    ASSIGN_OR_RETURN(owner_.velero_namespace, cluster().OneVelero());
    return WorkOnKeys();
  }

  const KeyringOwner& owner() const { return owner_; }
  const std::string& mover() const { return cluster().mover_namespace; }

  ExitCode Report(absl::string_view message_type, const repository::Keyring& keyring) const {
    console().PrintResult(
        KeyringJson(message_type, keyring),
        absl::StrCat("location ", owner_.velero_namespace, "/", owner_.location, " has ",
                     Counted(std::ssize(keyring.keys), "key"), ", of which ",
                     keyring.newest().fingerprint, " is the newest\n"));
    return ExitCode::kOk;
  }

 private:
  KeyringOwner owner_ = {};
};

class MoverKeyExportCommand : public MoverKeyCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override {
    DeclareLocation(table);
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
        .examples = {"mover-key export --location default > default.keys",
                     "mover-key export --location default --confirm"}};
  }

  absl::StatusOr<ExitCode> WorkOnKeys() override {
    ASSIGN_OR_RETURN(repository::Keyring keyring,
                     datamover::OpenKeyring(ctx(), api(), mover(), owner(),
                                            /*make=*/false, SecureRandom::Real()));
    return confirm_ ? Confirm(std::move(keyring)) : Export(keyring);
  }

 private:
  // Records the keys before it prints them: --confirm confirms these, and no later key.
  absl::StatusOr<ExitCode> Export(const repository::Keyring& keyring) const {
    const absl::Status recorded =
        datamover::RecordExportedKeys(ctx(), api(), mover(), owner(), FingerprintsOf(keyring));
    if (session().environment().make_out_private != nullptr) {
      RETURN_IF_ERROR(session().environment().make_out_private());
    }
    console().Print(repository::FormatKeyringFile(keyring));
    console().Info(
        recorded.ok() ? "keep this outside of the cluster, then run the same with --confirm"
                      : absl::StrCat("keep this outside of the cluster; that it was exported could "
                                     "not be noted, so --confirm will not know it: ",
                                     recorded.message()));
    return ExitCode::kOk;
  }

  absl::StatusOr<ExitCode> Confirm(repository::Keyring keyring) const {
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
    RETURN_IF_ERROR(datamover::ConfirmKeys(ctx(), api(), mover(), owner(), exported));
    keyring.confirmed.insert(exported.begin(), exported.end());
    console().PrintResult(KeyringJson("keys_confirmed", keyring),
                          absl::StrCat("confirmed ", Counted(std::ssize(keyring.confirmed), "key"),
                                       "; ", keyring.newest().fingerprint, " is the newest\n"));
    if (!left_out.empty()) {
      console().Info(
          absl::StrCat("not confirmed, since it was not exported: ", absl::StrJoin(left_out, ", "),
                       "; run the same without --confirm again"));
    }
    return ExitCode::kOk;
  }

  bool confirm_ = false;
};

class MoverKeyImportCommand : public MoverKeyCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override {
    table.AddPositional("FILE", "what mover-key export printed", file_);
    DeclareLocation(table);
    table.Add("--newest",
              "use the first of them for new data; existing data stays as it is, and is read with "
              "its own keys",
              newest_);
    return {.name = "mover-key import",
            .summary = "Import the keys of a location",
            .details =
                "Use it to restore in another cluster, to bring back a lost key, or with --newest "
                "to rotate the key. Existing keys stay. Imported keys count as confirmed.",
            .examples = {"mover-key import --location default default.keys",
                         "mover-key import --location default --newest new.keys  # rotation"}};
  }

  absl::StatusOr<ExitCode> WorkOnKeys() override {
    ASSIGN_OR_RETURN(const std::string text, ReadSmallText(file_));
    ASSIGN_OR_RETURN(const repository::Keyring keys,
                     Annotate(repository::ParseKeyringFile(text), file_));
    ASSIGN_OR_RETURN(const repository::Keyring keyring,
                     datamover::ImportKeys(ctx(), api(), mover(), owner(), keys, newest_));
    return Report("keys_imported", keyring);
  }

 private:
  std::string file_;
  bool newest_ = false;
};

class MoverKeyRemoveCommand : public MoverKeyCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override {
    table.AddPositional("FINGERPRINT", "of the key, 16 hexadecimal digits", fingerprint_);
    DeclareLocation(table);
    return {.name = "mover-key remove",
            .summary = "Remove a key that no repository of a location uses any more",
            .details =
                "This ends a key rotation: workers no longer get the key. First make sure with key "
                "list that each repository has another one. The newest key cannot be removed.",
            .examples = {"mover-key remove --location default 0123456789abcdef",
                         "mover-key remove --location s3 0123456789abcdef --context prod"}};
  }

  absl::StatusOr<ExitCode> WorkOnKeys() override {
    ASSIGN_OR_RETURN(const repository::Keyring keyring,
                     datamover::RemoveKey(ctx(), api(), mover(), owner(), fingerprint_));
    return Report("key_removed", keyring);
  }

 private:
  std::string fingerprint_;
};

}  // namespace

void AddMoverKeyCommands(Commands& all) {
  AddEach<MoverKeyExportCommand, MoverKeyImportCommand, MoverKeyRemoveCommand>(all);
}

}  // namespace csidelta::cli
