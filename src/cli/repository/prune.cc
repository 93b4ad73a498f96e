#include "cli/repository/prune.h"
#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/text.h"

namespace csidelta::cli {
namespace {

using repository::PruneFigures;

Json FiguresJson(const PruneFigures& figures) {
  return {{"snapshots", figures.snapshots},
          {"blobs_used", figures.blobs_used},
          {"blobs_unused", figures.blobs_unused},
          {"blobs_duplicate", figures.blobs_duplicate},
          {"bytes_used", figures.bytes_used},
          {"bytes_unused", figures.bytes_unused},
          {"bytes_duplicate", figures.bytes_duplicate},
          {"packs_kept", figures.packs_kept},
          {"packs_removed", figures.packs_removed},
          {"packs_repacked", figures.packs_repacked},
          {"packs_unindexed", figures.packs_unindexed},
          {"packs_missing", figures.packs_missing},
          {"bytes_removed", figures.bytes_removed},
          {"bytes_repacked", figures.bytes_repacked},
          {"bytes_unindexed", figures.bytes_unindexed},
          {"bytes_freed", figures.bytes_freed},
          {"bytes_unused_after", figures.bytes_unused_after}};
}

std::string FiguresText(const PruneFigures& figures, bool dry_run) {
  return absl::StrCat(FormatBytes(figures.bytes_used), " in use, ",
                      FormatBytes(figures.bytes_unused + figures.bytes_duplicate), " unused, ",
                      FormatBytes(figures.bytes_unindexed), " unreferenced\n",
                      dry_run ? "would remove " : "removed ",
                      Counted(figures.packs_removed + figures.packs_unindexed, "pack"), " and ",
                      dry_run ? "repack " : "repacked ", figures.packs_repacked, ": ",
                      FormatBytes(figures.bytes_freed), " freed, ",
                      FormatBytes(figures.bytes_unused_after), " stay unused\n");
}

class PruneCommand : public RepositoryCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override {
    table.Add("-n,--dry-run", "only print what would be done", dry_run_);
    DeclarePruneFlags(table, flags_);
    return {
        .name = "prune",
        .summary = "Free the space of what no snapshot uses any more",
        .details = "Waits for running backups. It is safe to interrupt: the next prune continues.",
        .examples = {"prune --dry-run", "prune --max-unused 10%"}};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    ASSIGN_OR_RETURN(engine::PruneJob job, ReadPruneFlags(flags_));
    job.is_dry_run = dry_run_;
    ProgressMeter meter(session.console(), *ctx.clock, session.Opening());
    ASSIGN_OR_RETURN(const engine::PruneOutcome outcome,
                     engine::RunPrune(ctx, session.engine(), job, CountsOf(meter)));
    PrintPruned(session.console(), outcome, dry_run_);
    return WarnOfRefused(session.console(), outcome.done.refused);
  }

 private:
  bool dry_run_ = false;
  PruneFlags flags_;
};

}  // namespace

void DeclarePruneFlags(ArgumentTable& table, PruneFlags& flags) {
  table.Add("--max-unused", "LIMIT",
            "how much of what remains may be unused: \"10%\", \"2G\", \"0\" or \"unlimited\"",
            flags.unused_max);
  table.AddBytes("--max-repack-size", "write at most so many bytes of packs again",
                 flags.repack_bytes_max);
}

absl::StatusOr<engine::PruneJob> ReadPruneFlags(const PruneFlags& flags) {
  engine::PruneJob job;
  ASSIGN_OR_RETURN(job.unused_max, repository::ParseUnusedLimit(flags.unused_max));
  if (flags.repack_bytes_max >= 0) {
    job.repack_bytes_max = flags.repack_bytes_max;
  }
  return job;
}

void PrintPruned(Console& console, const engine::PruneOutcome& outcome, bool dry_run) {
  Json result = FiguresJson(outcome.figures);
  result["message_type"] = "result";
  result["dry_run"] = dry_run;
  result["packs_written"] = outcome.done.packs_written;
  result["packs_deleted"] = outcome.done.packs_deleted;
  result["index_files_written"] = outcome.done.index_files_written;
  result["index_files_removed"] = outcome.done.index_files_removed;
  result["not_deleted"] = outcome.done.refused.count;
  result["packs_locked"] = outcome.locked.locked;
  result["locked_until"] = LockedUntil(outcome.locked);
  result["scratch_bytes"] = outcome.scratch_bytes;
  std::string text = FiguresText(outcome.figures, dry_run);
  if (const std::string locked = engine::TextOf(outcome.locked, "packs"); !locked.empty()) {
    absl::StrAppend(&text, locked, "\n");
  }
  console.PrintResult(result, text);
}

Json LockedUntil(const engine::LockedObjects& objects) {
  return objects.locked == 0 ? Json(nullptr) : Json(FormatRfc3339Seconds(objects.until));
}

ExitCode WarnOfRefused(Console& console, const repository::RefusedDeletions& refused) {
  if (refused.count == 0) {
    return ExitCode::kOk;
  }
  console.Warn(std::string(engine::StatusOf(refused).message()));
  return ExitCode::kIncomplete;
}

void AddPruneCommand(Commands& all) { AddEach<PruneCommand>(all); }

}  // namespace csidelta::cli
