#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/text.h"

namespace csidelta::cli {
namespace {

// Makes a repository with its first key.
class InitCommand : public NewRepositoryCommand {
 public:
  VerbSyntax Describe(ArgumentTable&) override {
    return {.name = "init",
            .summary = "Make a new repository",
            .details =
                "It is a repository of restic's format, version 2, with one key for the "
                "password. A lost password cannot be replaced: the data is lost with it.",
            .examples = {"init", "init --repo s3:https://minio.example/backups/orders"}};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    absl::StatusOr<repository::Repository*> made = session.Init(ctx);
    if (absl::IsAlreadyExists(made.status())) {
      return absl::AlreadyExistsError(absl::StrCat(
          made.status().message(), "; use it as it is, or give another address with --repo"));
    }
    RETURN_IF_ERROR(made.status());
    const std::string id = (*made)->config().id.Hex();
    session.console().PrintResult(
        {{"message_type", "initialized"}, {"id", id}, {"repository", session.location()}},
        absl::StrCat(
            "created repository ", id.substr(0, 10), " at ", session.location(),
            "\nWithout its password nothing in it can be read: keep a copy of it elsewhere.\n"));
    return ExitCode::kOk;
  }
};

using repository::Id;
using repository::KeyInfo;
using repository::Repository;

// A verb that takes a new password. The variables of the old one are not read.
class NewPasswordCommand : public NewRepositoryCommand {
 protected:
  void DeclareNewPassword(ArgumentTable& table) {
    table.Add("--new-password-file", "FILE", "a file with the new password (default: ask for it)",
              file_);
  }

  absl::StatusOr<Secret> ReadNewPassword(const CallContext& ctx) const {
    return ReadPassword(ctx, {.command = "", .file = file_, .text = Secret()}, "new password",
                        /*twice=*/true, "--new-password-file");
  }

 private:
  std::string file_;
};

class KeyListCommand : public RepositoryCommand {
 public:
  VerbSyntax Describe(ArgumentTable&) override {
    return {.name = "key list",
            .summary = "List the keys, each of which opens the repository with its password",
            .details =
                "A key whose file is damaged opens nothing: it is named, and the exit code is 3; "
                "key remove removes it.",
            .examples = {"key list", "key list --json"}};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    ASSIGN_OR_RETURN(const Repository* repository, session.Open(ctx, LockKind::kRead));
    ASSIGN_OR_RETURN(const std::vector<KeyInfo> keys, repository->ListKeys(ctx));
    bool damaged = false;
    Json list = Json::array();
    std::vector<std::vector<std::string>> rows = {{" ID", "User", "Host", "Created"}};
    for (const KeyInfo& key : keys) {
      if (!key.file.ok()) {
        damaged = true;
        session.console().Warn(
            absl::StrCat("key ", key.id.ShortHex(), " is damaged: ", key.file.status().message()));
        continue;
      }
      const std::string created = FormatMoment(key.file->created);
      list.push_back({{"current", key.current},
                      {"id", key.id.Hex()},
                      {"userName", key.file->username},
                      {"hostName", key.file->hostname},
                      {"created", created}});
      rows.push_back({absl::StrCat(key.current ? "*" : " ", key.id.ShortHex()), key.file->username,
                      key.file->hostname, created});
    }
    session.console().PrintResult(list, FormatTable(rows));
    return damaged ? ExitCode::kIncomplete : ExitCode::kOk;
  }
};

class KeyAddCommand : public NewPasswordCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override {
    DeclareNewPassword(table);
    return {.name = "key add",
            .summary = "Add a key, so that one more password opens the repository",
            .examples = {"key add", "key add --new-password-file second.password"}};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    ASSIGN_OR_RETURN(Repository * repository, session.Open(ctx, LockKind::kWrite));
    ASSIGN_OR_RETURN(const Secret password, ReadNewPassword(ctx));
    ASSIGN_OR_RETURN(const Id id, repository->AddKey(ctx, password.Reveal()));
    session.console().PrintResult({{"message_type", "key_added"}, {"id", id.Hex()}},
                                  absl::StrCat("added key ", id.ShortHex(), "\n"));
    return ExitCode::kOk;
  }
};

class KeyRemoveCommand : public RepositoryCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override {
    table.AddPositional("ID", "the key, by the beginning of its id", id_);
    return {.name = "key remove",
            .summary = "Remove a key, so that its password no longer opens the repository",
            .details = "The key that opened the repository stays; give another one's password.",
            .examples = {"key remove 5f3a", "key remove 5f3a --password-file second.password"}};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    ASSIGN_OR_RETURN(Repository * repository, session.Open(ctx, LockKind::kExclusive));
    ASSIGN_OR_RETURN(const Id id, Find(ctx, *repository));
    RETURN_IF_ERROR(repository->RemoveKey(ctx, *session.lock(), id));
    session.console().PrintResult({{"message_type", "key_removed"}, {"id", id.Hex()}},
                                  absl::StrCat("removed key ", id.ShortHex(), "\n"));
    return ExitCode::kOk;
  }

 private:
  absl::StatusOr<Id> Find(const CallContext& ctx, const Repository& repository) const {
    ASSIGN_OR_RETURN(const std::vector<KeyInfo> keys, repository.ListKeys(ctx));
    std::vector<Id> matches;
    for (const KeyInfo& key : keys) {
      if (absl::StartsWith(key.id.Hex(), id_)) {
        matches.push_back(key.id);
      }
    }
    if (matches.size() != 1) {
      return absl::NotFoundError(
          absl::StrCat(matches.empty() ? "no key begins" : "several keys begin", " with ", id_,
                       "; csi-delta key list lists them"));
    }
    return matches.front();
  }

  std::string id_;
};

class KeyPasswdCommand : public NewPasswordCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override {
    DeclareNewPassword(table);
    return {.name = "key passwd",
            .summary = "Change the password",
            .details = "A new key takes the place of the one that opened the repository.",
            .examples = {"key passwd", "key passwd --new-password-file new.password"}};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    ASSIGN_OR_RETURN(Repository * repository, session.Open(ctx, LockKind::kExclusive));
    ASSIGN_OR_RETURN(const Secret password, ReadNewPassword(ctx));
    RETURN_IF_ERROR(repository->ChangePassword(ctx, *session.lock(), password.Reveal()));
    session.console().PrintResult({{"message_type", "password_changed"}}, "changed the password\n");
    return ExitCode::kOk;
  }
};

}  // namespace

void AddInitCommand(Commands& all) { AddEach<InitCommand>(all); }
void AddKeyCommands(Commands& all) {
  AddEach<KeyListCommand, KeyAddCommand, KeyRemoveCommand, KeyPasswdCommand>(all);
}

}  // namespace csidelta::cli
