#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/prune_verb.h"
#include "cli/text.h"

namespace csidelta::cli {
namespace {

using repository::PruneFigures;
using repository::PruneOptions;
using repository::PrunePlan;
using repository::PruneResult;
using repository::Repository;

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
  return absl::StrCat("used: ", FormatBytes(figures.bytes_used), " in ",
                      Counted(figures.blobs_used, "blob"),
                      "; unused: ", FormatBytes(figures.bytes_unused + figures.bytes_duplicate),
                      "; in packs that no index lists: ", FormatBytes(figures.bytes_unindexed),
                      "\n", dry_run ? "would remove " : "removed ",
                      Counted(figures.packs_removed + figures.packs_unindexed, "pack"), " and ",
                      dry_run ? "repack " : "repacked ", figures.packs_repacked, ": ",
                      FormatBytes(figures.bytes_freed), " freed, ",
                      FormatBytes(figures.bytes_unused_after), " stay unused\n");
}

class PruneCommand : public Command {
 public:
  VerbSyntax Declare() override {
    ArgumentTable table;
    table.Add("-n,--dry-run", "only say what would be done", dry_run_);
    DeclarePruneFlags(table, flags_);
    return {.name = "prune",
            .summary = "Free the space of what no snapshot uses any more",
            .details =
                "Waits for backups that are under way, and needs none to be undone when it "
                "is cut off: the next prune goes on.",
            .table = std::move(table),
            .family = VerbFamily::kRepository};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    RETURN_IF_ERROR(ReadPruneFlags(flags_, session).status());
    ASSIGN_OR_RETURN(Repository * repository, session.Open(ctx, LockKind::kExclusive));
    ASSIGN_OR_RETURN(PruneOptions options, ReadPruneFlags(flags_, session));
    RETURN_IF_ERROR(PlanAndPrune(ctx, session, *repository, std::move(options), dry_run_));
    return ExitCode::kOk;
  }

 private:
  bool dry_run_ = false;
  PruneFlags flags_;
};

}  // namespace

void DeclarePruneFlags(ArgumentTable& table, PruneFlags& flags) {
  table.Add("--max-unused", "LIMIT",
            "how much of what remains may be unused: \"5%\" (the default), \"2G\", \"0\" or "
            "\"unlimited\"",
            flags.unused_max);
  table.AddBytes("--max-repack-size", "write at most so many bytes of packs again",
                 flags.repack_bytes_max);
}

absl::StatusOr<PruneOptions> ReadPruneFlags(const PruneFlags& flags, const Session& session) {
  PruneOptions options;
  ASSIGN_OR_RETURN(options.unused_max, repository::ParseUnusedLimit(flags.unused_max));
  if (flags.repack_bytes_max >= 0) {
    options.repack_bytes_max = flags.repack_bytes_max;
  }
  options.pack_target_bytes =
      session.in_bucket() ? repository::kPackTargetBytesRemote : repository::kPackTargetBytesLocal;
  return options;
}

absl::Status PlanAndPrune(const CallContext& ctx, Session& session, Repository& repository,
                          PruneOptions options, bool dry_run) {
  ProgressMeter meter(session.console(), *ctx.clock);
  options.progress = [&meter](absl::string_view stage, int64_t done, int64_t total) {
    meter.ReportCount(stage, done, total);
  };
  RETURN_IF_ERROR(repository.LoadIndex(ctx));
  ASSIGN_OR_RETURN(const PrunePlan plan, repository::PlanPrune(ctx, repository, options));
  PruneResult done;
  if (!dry_run) {
    ASSIGN_OR_RETURN(done, repository::RunPrune(ctx, repository, *session.lock(), plan, options));
  }
  Json result = FiguresJson(plan.figures);
  result["message_type"] = "result";
  result["dry_run"] = dry_run;
  result["packs_written"] = done.packs_written;
  result["packs_deleted"] = done.packs_deleted;
  result["index_files_written"] = done.index_files_written;
  result["index_files_removed"] = done.index_files_removed;
  result["scratch_bytes"] = repository.scratch().peak_bytes();
  session.console().PrintResult(result, FiguresText(plan.figures, dry_run));
  return absl::OkStatus();
}

std::unique_ptr<Command> MakePruneCommand() { return std::make_unique<PruneCommand>(); }

}  // namespace csidelta::cli
