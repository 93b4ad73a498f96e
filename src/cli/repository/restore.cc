#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/repository/snapshot_filter.h"
#include "cli/restore_into.h"
#include "cli/text.h"
#include "engine/restore.h"

namespace csidelta::cli {
namespace {

using engine::RestorePlan;
using engine::RestoreTarget;
using repository::StoredSnapshot;

// "snapshot 8ab6fc6f of shop:/orders, 2026-11-21 13:05:00"
std::string SnapshotText(const StoredSnapshot& stored) {
  return absl::StrCat("snapshot ", stored.id.ShortHex(), " of ", VolumeName(stored.snapshot), ", ",
                      FormatMoment(stored.snapshot.time));
}

// Whether what was asked for is what was chosen.
ExitCode CodeOf(Console& console, const RestorePlan& plan) {
  if (!plan.may_be_older) {
    return ExitCode::kOk;
  }
  console.Warn(
      absl::StrCat("snapshot ", plan.snapshot.id.ShortHex(),
                   " is the latest that can be read; one that cannot be read may be newer"));
  return ExitCode::kIncomplete;
}

// REQUIRES that it was no dry run.
std::string Summary(const engine::RestoreOutcome& outcome, const std::string& path) {
  const incremental::RestoreResult& result = *outcome.result;
  return absl::StrCat(
      "restored ", SnapshotText(outcome.plan.snapshot), "\n", Describe(outcome.plan.target), " ",
      path, ": ", FormatBytes(result.logical_bytes), ", of which ",
      FormatBytes(result.written_bytes), " written, ",
      result.compared_bytes > 0 ? absl::StrCat(FormatBytes(result.kept_bytes), " held already, ")
                                : "",
      "and ", FormatBytes(result.zero_bytes), " zero, in ", FormatTotal(result.duration_ms), "\n");
}

class RestoreCommand : public RepositoryCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override;
  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override;

 private:
  // The data lost by the restore, in one sentence; "": none.
  std::string Loss(const RestoreTarget& target, int64_t volume_bytes) const;
  void PrintPlan(Console& console, const RestorePlan& plan) const;
  absl::Status Announce(const CallContext& ctx, Session& session, const RestorePlan& plan) const;

  engine::RestoreJob job_;
  bool yes_ = false;
  RestoreIntoFlags into_;
};

VerbSyntax RestoreCommand::Describe(ArgumentTable& table) {
  table.AddOptionalPositional("ID", kOneSnapshot, job_.snapshot);
  table.Add("-t,--target", "PATH", "the block device or image file to write over", job_.target);
  table.Add("-n,--dry-run", "only print what would be written over", job_.is_dry_run);
  table.Add("--yes", "do not ask on a terminal before something is written over", yes_);
  table.Add("--target-is-zero",
            "the target reads as zeros, so zeros need not be written; checked on a sample",
            job_.target_is_zero);
  table.Add("--differing",
            "read the target, and fetch and write only what differs from the snapshot",
            job_.only_differing);
  DeclareFilterFlags(table, job_.filter);
  into_.Declare(table);
  return {
      .name = "restore",
      .summary = "Write a volume back to a device or an image file",
      .details =
          "The target is overwritten, zeros included. A missing file is created. In a larger "
          "target bytes past the end of the volume are left untouched. A device that is mounted or "
          "in use is refused. So is a path below /dev that is not a device, and \"latest\" where "
          "snapshots of several hosts and paths match. On a terminal you are asked before anything "
          "is overwritten. Every byte is verified before it is written. Until the restore has "
          "finished, the target begins with a text that says so. Exit code 3 when \"latest\" was "
          "restored, and a snapshot that may be newer cannot be read. With --upload and --into the "
          "data mover replaces the data of a PVC; then the repository is not read here.",
      .examples = {"restore latest --path /orders --target orders.img",
                   "restore --pvc shop/data --backup nightly-1 --target data.img",
                   "restore --upload nightly-1-x7k2p --into shop/data"}};
}

absl::StatusOr<ExitCode> RestoreCommand::Run(const CallContext& ctx, Session& session) {
  if (into_.is_asked_for() == !job_.target.empty()) {
    return absl::InvalidArgumentError(
        "give one target: a device or an image file with --target, or a PVC with --into");
  }
  if (into_.is_asked_for()) {
    into_.source = session.options().in_cluster;
    RETURN_IF_ERROR(into_.Check(job_.snapshot));
    into_.is_dry_run = job_.is_dry_run;
    into_.yes = yes_;
    return RunRestoreInto(ctx, session, into_);
  }
  ASSIGN_OR_RETURN(job_.snapshot, session.NameSnapshot(ctx, job_.snapshot, job_.filter));
  const engine::RestoreConsent consent = [&](const RestorePlan& plan) {
    return Announce(ctx, session, plan);
  };
  ProgressMeter meter(session.console(), *ctx.clock, session.Opening());
  ASSIGN_OR_RETURN(const engine::RestoreOutcome outcome,
                   engine::RunRestore(ctx, session.engine(), job_, consent, BytesOf(meter)));
  if (!outcome.result.has_value()) {
    PrintPlan(session.console(), outcome.plan);
    return CodeOf(session.console(), outcome.plan);
  }
  Json json = incremental::ToJson(*outcome.result);
  json["target"] = job_.target;
  json["target_kind"] = NameOf(outcome.plan.target.kind);
  json["may_be_older"] = outcome.plan.may_be_older;
  session.console().PrintResult(json, Summary(outcome, job_.target));
  return CodeOf(session.console(), outcome.plan);
}

std::string RestoreCommand::Loss(const RestoreTarget& target, int64_t volume_bytes) const {
  if (!target.holds_something()) {
    return "";
  }
  const int64_t kept_bytes = target.size_bytes - volume_bytes;
  return absl::StrCat(
      target.kind == RestoreTarget::Kind::kDevice ? "device " : "file ", job_.target, " (",
      FormatBytes(target.size_bytes), ") will be overwritten",
      kept_bytes > 0 ? absl::StrCat(", except the last ", FormatBytes(kept_bytes)) : "");
}

void RestoreCommand::PrintPlan(Console& console, const RestorePlan& plan) const {
  const auto& [stored, target, volume_bytes, may_be_older] = plan;
  const std::string loss = Loss(target, volume_bytes);
  console.PrintResult(
      {{"message_type", "result"},
       {"dry_run", true},
       {"snapshot_id", stored.id.Hex()},
       {"logical_bytes", volume_bytes},
       {"target", job_.target},
       {"target_kind", NameOf(target.kind)},
       {"target_bytes", target.size_bytes},
       {"may_be_older", may_be_older}},
      absl::StrCat("would restore ", SnapshotText(stored), ", ", FormatBytes(volume_bytes), "\n",
                   loss.empty() ? absl::StrCat("would create ", job_.target) : loss, "\n"));
}

absl::Status RestoreCommand::Announce(const CallContext& ctx, Session& session,
                                      const RestorePlan& plan) const {
  const auto& [stored, target, volume_bytes, may_be_older] = plan;
  const std::string loss = Loss(target, volume_bytes);
  if (loss.empty()) {
    return absl::OkStatus();
  }
  const std::string text =
      absl::StrCat("restoring ", SnapshotText(stored), ", ", FormatBytes(volume_bytes), ": ", loss);
  if (yes_ || session.environment().confirm == nullptr) {
    session.console().Info(text);
    return absl::OkStatus();
  }
  return session.Ask(ctx, absl::StrCat(text, ". Go on?"));
}

}  // namespace

void AddRestoreCommand(Commands& all) { AddEach<RestoreCommand>(all); }

}  // namespace csidelta::cli
