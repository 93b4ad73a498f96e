#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/repository/snapshot_filter.h"
#include "cli/text.h"
#include "engine/resume.h"
#include "incremental/mover/copy_note.h"
#include "repository/copier.h"

namespace csidelta::cli {
namespace {

using repository::CopiedSnapshot;
using repository::Id;
using repository::Repository;
using repository::StoredSnapshot;

Json CopyJson(const CopiedSnapshot& copied) {
  Json json = {{"source", copied.source.Hex()},
               {"snapshot_id", copied.copy.Hex()},
               {"was_there", copied.was_there},
               {"new_bytes", copied.counts.plaintext_bytes},
               {"stored_bytes", copied.counts.stored_bytes}};
  if (!copied.was_damaged.ok()) {
    json["was_damaged"] = std::string(copied.was_damaged.message());
    json["mended"] = copied.not_mended.ok();
  }
  return json;
}

std::string CopyText(const CopiedSnapshot& copied) {
  const std::string names = absl::StrCat("snapshot ", copied.source.ShortHex(),
                                         copied.was_there ? " is there already as " : " copied to ",
                                         copied.copy.ShortHex());
  if (!copied.not_mended.ok()) {
    return absl::StrCat(names, ", but cannot be restored: ", copied.was_damaged.message(),
                        "; nor can it be copied again: ", copied.not_mended.message(), "\n");
  }
  return absl::StrCat(names, ", stored ", FormatBytes(copied.counts.stored_bytes),
                      copied.was_damaged.ok()
                          ? ""
                          : absl::StrCat("; it had lost data, which was copied again: ",
                                         copied.was_damaged.message()),
                      "\n");
}

void TellCopied(Console& console, const std::vector<CopiedSnapshot>& copied) {
  Json list = Json::array();
  std::string text;
  for (const CopiedSnapshot& one : copied) {
    list.push_back(CopyJson(one));
    text += CopyText(one);
    if (!one.not_noted.ok()) {
      console.Warn(absl::StrCat("the sidecar of ", one.copy.ShortHex(), " could not be stored (",
                                one.not_noted.message(),
                                "); a backup that builds on it reads the index instead"));
    }
  }
  console.PrintResult({{"message_type", "result"}, {"snapshots", std::move(list)}},
                      copied.empty() ? "no snapshot to copy\n" : text);
}

// The same status, with what to do about the repository to copy from.
absl::Status OfSource(const absl::Status& status, absl::string_view place) {
  if (repository::IsNoRepository(status)) {
    return repository::AsNoRepository(absl::NotFoundError(
        absl::StrCat(status.message(), "; give the repository to copy from with --from-repo")));
  }
  if (repository::IsWrongPassword(status)) {
    return repository::AsWrongPassword(absl::UnauthenticatedError(
        absl::StrCat("the password does not open ", place,
                     "; give the right one with --from-password-file or RESTIC_FROM_PASSWORD")));
  }
  return status;
}

class CopyCommand : public RepositoryCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override;
  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override;

 private:
  bool HasOwnPassword(const GetVariable& get) const;

  // The source, with this repository's password if it has none of its own.
  RepositoryChoice SourceChoice(const Session& session) const;

  // The same environment, in which RESTIC_FROM_... stands for RESTIC_...
  ProgramEnvironment SourceEnvironment(const ProgramEnvironment& environment) const;

  std::vector<std::string> ids_;
  RepositoryChoice from_;
  SnapshotFilter filter_;
};

VerbSyntax CopyCommand::Describe(ArgumentTable& table) {
  table.AddPositionals("ID",
                       "the snapshots, by the beginnings of their ids, or \"latest\"; none: all", 0,
                       kSnapshotIdsMax, ids_);
  table.Add("--from-repo", "REPO", "the repository to copy from (default: $RESTIC_FROM_REPOSITORY)",
            from_.repository);
  table.Add("--from-repository-file", "FILE",
            "a file that names it (default: $RESTIC_FROM_REPOSITORY_FILE)", from_.repository_file);
  table.Add("--from-password-file", "FILE",
            "a file with its password (default: $RESTIC_FROM_PASSWORD_FILE)", from_.password_file);
  table.Add("--from-password-command", "COMMAND",
            "a command that prints its password (default: "
            "$RESTIC_FROM_PASSWORD_COMMAND)",
            from_.password_command);
  DeclareFilterFlags(table, filter_);
  return {.name = "copy",
          .summary = "Copy snapshots from another repository into this one",
          .details =
              "Data that this repository has already is not read again. A snapshot that was copied "
              "before is checked: if it lacks data, that is copied again, and the exit code is 3. "
              "Unless the other repository has a password of its own, it is opened with that of "
              "this one.",
          .examples = {"copy --from-repo /srv/backups", "copy latest --from-repo /srv/backups"}};
}

absl::StatusOr<ExitCode> CopyCommand::Run(const CallContext& ctx, Session& session) {
  const GetVariable& get = session.environment().get;
  const bool from_cluster = session.options().in_cluster.are_given();
  if (!from_cluster && from_.repository.empty() && from_.repository_file.empty() &&
      get("RESTIC_FROM_REPOSITORY") == nullptr && get("RESTIC_FROM_REPOSITORY_FILE") == nullptr) {
    return absl::InvalidArgumentError(
        "the repository to copy from is missing; give --from-repo, or --pvc");
  }
  if (from_cluster && from_ != RepositoryChoice()) {
    return absl::InvalidArgumentError(
        "copy from --pvc or --upload, or from --from-repo, not both; the destination is --repo");
  }
  const ProgramEnvironment from_environment = SourceEnvironment(session.environment());
  GlobalOptions from_options = session.options();
  from_options.choice = {};  // It names the repository to copy to.
  Session source(from_options, from_environment, session.console());
  if (from_cluster) {
    session.Choose(session.options().choice);
  } else {
    source.Choose(SourceChoice(session));
  }
  source.engine().ShareMemory(session.engine());
  ProgressMeter meter(session.console(), *ctx.clock, source.Opening());
  const absl::StatusOr<Repository*> opened = source.Open(ctx, LockKind::kRead);
  if (!opened.ok()) {
    return OfSource(opened.status(), source.location());
  }
  Repository* const from = *opened;
  ASSIGN_OR_RETURN(Repository * to, session.Open(ctx, LockKind::kWrite));
  UnreadableSnapshots unreadable(session.console());
  ASSIGN_OR_RETURN(const std::vector<StoredSnapshot> chosen,
                   ChooseSnapshots(ctx, session.console(), *from, ids_, filter_, unreadable));
  std::vector<Id> ids(chosen.size());
  absl::c_transform(chosen, ids.begin(), [](const StoredSnapshot& stored) { return stored.id; });
  std::vector<CopiedSnapshot> copied;
  if (!ids.empty()) {
    const engine::OrphanScope scope = {.all = session.lock()->unfinished().others == 0,
                                       .own = {},
                                       .fence = session.lock()->AsFence()};
    ASSIGN_OR_RETURN(
        const engine::ResumeAnswer unfinished,
        engine::FindUnfinished(ctx, *to, false, std::numeric_limits<int64_t>::max(), scope));
    repository::CopyOptions options;
    options.writer.pack_target_bytes = session.engine().pack_target_bytes();
    options.progress = CountsOf(meter);
    options.note = [&](const CallContext& note_ctx, const repository::CopyToNote& note) {
      return incremental::RecordCopy(note_ctx, *from, *to, note);
    };
    absl::StatusOr<std::vector<CopiedSnapshot>> done =
        repository::CopySnapshots(ctx, *from, *to, *session.lock(), ids, options);
    engine::RecordEnd(ctx, *to, unfinished, done.ok());
    ASSIGN_OR_RETURN(copied, std::move(done));
  }
  TellCopied(session.console(), copied);
  const bool was_whole =
      absl::c_all_of(copied, [](const CopiedSnapshot& one) { return one.was_damaged.ok(); });
  return was_whole ? unreadable.code() : ExitCode::kIncomplete;
}

bool CopyCommand::HasOwnPassword(const GetVariable& get) const {
  return !from_.password_file.empty() || !from_.password_command.empty() ||
         get("RESTIC_FROM_PASSWORD") != nullptr || get("RESTIC_FROM_PASSWORD_FILE") != nullptr ||
         get("RESTIC_FROM_PASSWORD_COMMAND") != nullptr;
}

RepositoryChoice CopyCommand::SourceChoice(const Session& session) const {
  RepositoryChoice choice = from_;
  if (!HasOwnPassword(session.environment().get)) {
    choice.password_file = session.options().choice.password_file;
    choice.password_command = session.options().choice.password_command;
  }
  return choice;
}

ProgramEnvironment CopyCommand::SourceEnvironment(const ProgramEnvironment& environment) const {
  ProgramEnvironment source = environment;
  source.get = [get = environment.get,
                own_password = HasOwnPassword(environment.get)](const char* name) {
    absl::string_view rest = name;
    const bool is_place = absl::StartsWith(rest, "RESTIC_REPOSITORY");
    const bool is_password = absl::StartsWith(rest, "RESTIC_PASSWORD");
    if (is_place || (is_password && own_password)) {
      absl::ConsumePrefix(&rest, "RESTIC_");
      return get(absl::StrCat("RESTIC_FROM_", rest).c_str());
    }
    return get(name);
  };
  return source;
}

}  // namespace

void AddCopyCommand(Commands& all) { AddEach<CopyCommand>(all); }

}  // namespace csidelta::cli
