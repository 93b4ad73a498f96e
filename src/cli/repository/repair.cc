#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/repository/repair_source.h"
#include "cli/text.h"
#include "engine/check.h"
#include "incremental/mover/file_block_device.h"
#include "repository/checker.h"
#include "repository/forget.h"
#include "repository/repairer.h"

namespace csidelta::cli {
namespace {

using incremental::FileBlockDevice;
using repository::Id;
using repository::PackRepair;
using repository::RepairIndexResult;
using repository::RepairPacksResult;
using repository::Repository;

constexpr int kPacksMax = 1000;

class RepairConfigCommand : public Command {
 public:
  VerbSyntax Declare() override {
    return {.name = "repair config",
            .summary = "Make the file config again, if it is lost or damaged",
            .details =
                "A snapshot or an index file proves which key is the repository's. The repository "
                "gets a new id. A config that opens is left as it is.",
            .family = VerbFamily::kRepository,
            .examples = {"repair config", "repair config --repo /srv/backups"}};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    ASSIGN_OR_RETURN(Repository * repository, session.engine().RepairConfig(ctx));
    const std::string id = repository->config().id.Hex();
    session.console().PrintResult(
        {{"message_type", "result"}, {"id", id}, {"repository", session.location()}},
        absl::StrCat("made the config of ", session.location(), " again; the id is now ",
                     id.substr(0, 10), "\n"));
    return ExitCode::kOk;
  }
};

class RepairIndexCommand : public Command {
 public:
  VerbSyntax Declare() override {
    ArgumentTable table;
    table.Add("--read-all-packs", "trust no index file, read the header of every pack",
              options_.read_all_packs);
    table.Add("-n,--dry-run", "only print what would be done", options_.dry_run);
    table.Add("--assume-ended",
              "list packs again although a client whose exclusive lock ran out may still delete "
              "them: you know that it has ended",
              options_.assume_ended);
    return {.name = "repair index",
            .summary = "Make the index agree with the packs that are stored",
            .table = std::move(table),
            .family = VerbFamily::kRepository,
            .examples = {"repair index --dry-run", "repair index --read-all-packs"}};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    ASSIGN_OR_RETURN(Repository * repository, session.Open(ctx, LockKind::kExclusive));
    ProgressMeter meter(session.console(), *ctx.clock);
    options_.progress = CountsOf(meter);
    ASSIGN_OR_RETURN(const RepairIndexResult result,
                     repository::RepairIndex(ctx, *repository, *session.lock(), options_));
    session.console().PrintResult(
        {{"message_type", "result"},
         {"dry_run", options_.dry_run},
         {"unreadable_files", HexOf(result.unreadable_files)},
         {"packs_added", HexOf(result.packs_added)},
         {"packs_dropped", HexOf(result.packs_dropped)},
         {"packs_unreadable", HexOf(result.packs_unreadable)},
         {"index_files_written", result.files_written},
         {"index_files_removed", result.files_removed}},
        absl::StrCat(options_.dry_run ? "would list " : "listed ",
                     Counted(std::ssize(result.packs_added), "pack"), " again and ",
                     options_.dry_run ? "drop " : "dropped ", result.packs_dropped.size(), "; ",
                     Counted(std::ssize(result.unreadable_files), "index file"), " and ",
                     Counted(std::ssize(result.packs_unreadable), "pack"), " could not be read\n",
                     result.packs_dropped.empty()
                         ? ""
                         : "what the dropped packs held, repair packs --from fills in where the "
                           "volume still has it; check names the snapshots that need it\n"));
    return result.packs_unreadable.empty() ? ExitCode::kOk : ExitCode::kIncomplete;
  }

 private:
  repository::RepairIndexOptions options_;
};

class RepairPacksCommand : public Command {
 public:
  VerbSyntax Declare() override {
    ArgumentTable table;
    table.AddPositionals(
        "PACK",
        "damaged packs, by their whole ids, which check --read-data names; none: those "
        "that are listed and not there",
        0, kPacksMax, packs_);
    table.Add("--from", "DEVICE",
              "the live volume or an image of it: lost chunks are looked for in all of it",
              device_);
    table.Add("--drop-lost",
              "remove the packs also when blobs are lost, and with them what needs those",
              drop_lost_);
    return {
        .name = "repair packs",
        .summary = "Save what is left of damaged packs, and fill in the rest from a volume",
        .details =
            "Also fills in what snapshots name and no pack holds, whatever became of the pack "
            "that did. Ends with exit code 3 when blobs are lost; check then names the snapshots "
            "that cannot be restored.",
        .table = std::move(table),
        .family = VerbFamily::kRepository,
        .examples = {"repair packs", "repair packs --from /dev/vg/orders"}};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    ASSIGN_OR_RETURN(const std::vector<Id> packs, PackIds());
    ASSIGN_OR_RETURN(Repository * repository, session.Open(ctx, LockKind::kExclusive));
    repository::RepairPacksOptions options;
    std::unique_ptr<FileBlockDevice> device;
    std::optional<VolumeRepairSource> repair_source;
    ProgressMeter meter(session.console(), *ctx.clock);
    options.progress = CountsOf(meter);
    if (!device_.empty()) {
      ASSIGN_OR_RETURN(device, FileBlockDevice::OpenForRead(device_));
      repair_source.emplace(*device);
      options.prepare_repair_source = [&](const CallContext& prepare_ctx,
                                          const repository::WantedChunks& wanted) {
        return repair_source->Prepare(prepare_ctx, wanted, options.progress);
      };
      options.repair_source = [&repair_source](const CallContext& scan_ctx,
                                               const repository::BlobHandle& handle) {
        return repair_source->Load(scan_ctx, handle);
      };
    }
    options.drop_lost = drop_lost_;
    options.writer.pack_target_bytes = session.in_bucket() ? repository::kPackTargetBytesRemote
                                                           : repository::kPackTargetBytesLocal;
    ASSIGN_OR_RETURN(const RepairPacksResult result,
                     repository::RepairPacks(ctx, *repository, *session.lock(), packs, options));
    return Report(session.console(), result);
  }

 private:
  absl::StatusOr<std::vector<Id>> PackIds() const {
    std::vector<Id> ids;
    for (const std::string& text : packs_) {
      const absl::StatusOr<Id> id = Id::Parse(text);
      if (!id.ok()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "\"", text, "\" is not the id of a pack; csi-delta check --read-data prints them"));
      }
      ids.push_back(*id);
    }
    return ids;
  }

  static ExitCode Report(Console& console, const RepairPacksResult& result) {
    Json list = Json::array();
    std::string text;
    for (const PackRepair& repair : result.packs) {
      list.push_back({{"pack", repair.pack.Hex()},
                      {"blobs_intact", repair.blobs_intact},
                      {"blobs_elsewhere", repair.blobs_elsewhere},
                      {"blobs_refilled", repair.blobs_filled_in},
                      {"blobs_lost", repair.lost.size()},
                      {"removed", repair.removed}});
      absl::StrAppend(&text, "pack ", repair.pack.ShortHex(), ": ", repair.blobs_intact,
                      " intact, ", repair.blobs_elsewhere, " elsewhere, ", repair.blobs_filled_in,
                      " filled in, ", repair.lost.size(), " lost",
                      repair.removed ? "" : "; it stays", "\n");
    }
    for (const Id& pack : result.unlisted) {
      absl::StrAppend(&text, "pack ", pack.ShortHex(),
                      ": is in no index, so there is nothing to move\n");
    }
    if (result.blobs_missing > 0) {
      absl::StrAppend(&text, "in no pack: ", result.missing_filled_in, " filled in, ",
                      result.blobs_missing - result.missing_filled_in, " lost\n");
    }
    if (result.trees_unreadable > 0) {
      absl::StrAppend(&text, result.trees_unreadable, " trees do not read\n");
    }
    console.PrintResult({{"message_type", "result"},
                         {"blobs_lost", result.lost()},
                         {"blobs_missing", result.blobs_missing},
                         {"missing_refilled", result.missing_filled_in},
                         {"trees_unreadable", result.trees_unreadable},
                         {"packs_unlisted", HexOf(result.unlisted)},
                         {"packs", std::move(list)}},
                        text.empty() ? "nothing to repair\n" : text);
    return result.lost() == 0 && result.trees_unreadable == 0 ? ExitCode::kOk
                                                              : ExitCode::kIncomplete;
  }

  std::vector<std::string> packs_;
  std::string device_;
  bool drop_lost_ = false;
};

class RepairSnapshotsCommand : public Command {
 public:
  VerbSyntax Declare() override {
    ArgumentTable table;
    table.Add("--forget", "remove them", forget_);
    table.Add("--read-data", "read all data, so as to find those too that need damaged bytes",
              read_data_);
    table.Add("-n,--dry-run", "only print what would be done", dry_run_);
    return {.name = "repair snapshots",
            .summary = "Name the snapshots that cannot be restored, and remove them",
            .details =
                "A volume is all of its chunks: nothing is put in the place of what is lost. First "
                "try what brings it back, repair packs --from and backup --force. A snapshot whose "
                "own file does not read is named, and goes only by forget with its whole id. Ends "
                "with exit code 3 when snapshots are left that cannot be restored.",
            .table = std::move(table),
            .family = VerbFamily::kRepository,
            .examples = {"repair snapshots", "repair snapshots --forget"}};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    ASSIGN_OR_RETURN(Repository * repository, session.Open(ctx, LockKind::kExclusive));
    ProgressMeter meter(session.console(), *ctx.clock);
    repository::CheckOptions check;
    if (read_data_) {
      check.read_data = repository::ReadEverything{};
    }
    check.progress = CountsOf(meter);
    ASSIGN_OR_RETURN(const repository::CheckReport report,
                     repository::CheckRepository(ctx, *repository, check));
    if (!report.complete) {
      return absl::FailedPreconditionError(
          "the index does not read, so what snapshots lack is not known; run csi-delta repair "
          "index");
    }
    const std::vector<Id> lost = engine::LostSnapshots(report);
    const bool removes = forget_ && !dry_run_;
    if (removes && !lost.empty()) {
      ASSIGN_OR_RETURN(Repository * again, session.engine().OpenAgain(ctx));
      RETURN_IF_ERROR(engine::ConfirmLost(ctx, *again, check, report));
      RETURN_IF_ERROR(
          repository::RemoveSnapshots(ctx, *repository, *session.lock(), lost, check.progress));
    }
    Report(session.console(), report, lost);
    const std::size_t left = report.unrestorable.size() - (removes ? lost.size() : 0);
    return left == 0 ? ExitCode::kOk : ExitCode::kIncomplete;
  }

 private:
  void Report(Console& console, const repository::CheckReport& report,
              const std::vector<Id>& lost) const {
    std::string text;
    for (const Id& id : lost) {
      absl::StrAppend(&text, "snapshot ", id.ShortHex(), " cannot be restored",
                      !forget_   ? ""
                      : dry_run_ ? ": would be removed"
                                 : ": removed",
                      "\n");
    }
    for (const Id& id : report.unreadable) {
      absl::StrAppend(&text, "the file snapshots/", id.Hex(), " does not read\n");
    }
    absl::StrAppend(&text, report.unrestorable.empty() ? "every snapshot can be restored\n"
                                                       : "all others are good\n");
    console.PrintResult({{"message_type", "result"},
                         {"dry_run", dry_run_},
                         {"unrestorable", HexOf(lost)},
                         {"unreadable", HexOf(report.unreadable)},
                         {"removed", forget_ && !dry_run_ ? lost.size() : 0}},
                        text);
  }

  bool forget_ = false;
  bool read_data_ = false;
  bool dry_run_ = false;
};

}  // namespace

void AddRepairCommands(Commands& all) {
  AddEach<RepairConfigCommand, RepairIndexCommand, RepairPacksCommand, RepairSnapshotsCommand>(all);
}

}  // namespace csidelta::cli
