#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/repository/check_text.h"
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
using repository::CheckOptions;
using repository::CheckReport;
using repository::FindingKind;
using repository::Id;
using repository::PackRepair;
using repository::RepairIndexResult;
using repository::RepairPacksOptions;
using repository::RepairPacksResult;
using repository::Repository;

constexpr int kPacksMax = 1000;
constexpr char kCheckSays[] = "csi-delta check says what is left, and what helps\n";
constexpr char kFromText[] =
    "the live volume or an image of it: lost chunks are looked for in all of it";

Json IndexJson(const RepairIndexResult& result) {
  return {{"unreadable_files", HexOf(result.unreadable_files)},
          {"packs_added", HexOf(result.packs_added)},
          {"packs_dropped", HexOf(result.packs_dropped)},
          {"packs_unreadable", HexOf(result.packs_unreadable)},
          {"index_files_written", result.files_written},
          {"index_files_removed", result.files_removed}};
}

std::string IndexText(const RepairIndexResult& result, bool dry_run) {
  return absl::StrCat(dry_run ? "would list " : "listed ",
                      Counted(std::ssize(result.packs_added), "pack"), " again and ",
                      dry_run ? "drop " : "dropped ", result.packs_dropped.size(), "; ",
                      Counted(std::ssize(result.unreadable_files), "index file"), " and ",
                      Counted(std::ssize(result.packs_unreadable), "pack"), " could not be read\n");
}

Json PacksJson(const RepairPacksResult& result) {
  Json list = Json::array();
  for (const PackRepair& repair : result.packs) {
    list.push_back({{"pack", repair.pack.Hex()},
                    {"blobs_intact", repair.blobs_intact},
                    {"blobs_elsewhere", repair.blobs_elsewhere},
                    {"blobs_refilled", repair.blobs_filled_in},
                    {"blobs_lost", repair.lost.size()},
                    {"removed", repair.removed}});
  }
  return {{"blobs_lost", result.lost()},
          {"blobs_missing", result.blobs_missing},
          {"missing_refilled", result.missing_filled_in},
          {"trees_unreadable", result.trees_unreadable},
          {"packs_unlisted", HexOf(result.unlisted)},
          {"packs", std::move(list)}};
}

std::string PacksText(const RepairPacksResult& result) {
  std::string text;
  for (const PackRepair& repair : result.packs) {
    absl::StrAppend(&text, "pack ", repair.pack.ShortHex(), ": ", repair.blobs_intact, " intact, ",
                    repair.blobs_elsewhere, " elsewhere, ", repair.blobs_filled_in, " filled in, ",
                    repair.lost.size(), " lost", repair.removed ? "" : "; it stays", "\n");
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
    absl::StrAppend(&text, Counted(result.trees_unreadable, "tree"), " cannot be read\n");
  }
  return text;
}

// The volume of --from, which fills in what is lost.
class VolumeAtHand {
 public:
  // Without a path there is none.
  absl::Status Open(const std::string& path, RepairPacksOptions& options) {
    if (path.empty()) {
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(device_, FileBlockDevice::OpenForRead(path));
    source_.emplace(*device_);
    options.prepare_repair_source = [this, &options](const CallContext& ctx,
                                                     const repository::WantedChunks& wanted) {
      return source_->Prepare(ctx, wanted, options.progress);
    };
    options.repair_source = [this](const CallContext& ctx, const repository::BlobHandle& handle) {
      return source_->Load(ctx, handle);
    };
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<FileBlockDevice> device_;
  std::optional<VolumeRepairSource> source_;
};

// The steps that a report asks for, in their order.
struct RepairPlan {
  bool index = false;
  std::vector<Id> free = {};    // damaged packs that no snapshot needs: what is left is moved
  std::vector<Id> needed = {};  // the same of others, and what they lost is filled in
  bool fills_in = false;        // what is in no pack
  std::vector<Id> lost = {};    // snapshots
};

RepairPlan MakePlan(const CheckReport& report) {
  RepairPlan plan;
  for (const repository::Finding& finding : report.findings) {
    const bool is_free = finding.remedy == repository::Remedy::kRepair;
    if (finding.kind == FindingKind::kPackDamaged || finding.kind == FindingKind::kPackWrongSize) {
      (is_free ? plan.free : plan.needed).push_back(finding.id);
      continue;
    }
    plan.index |= is_free || finding.kind == FindingKind::kPackMissing;
    plan.fills_in |= !is_free && (finding.kind == FindingKind::kPackMissing ||
                                  finding.kind == FindingKind::kBlobMissing);
  }
  plan.lost = engine::LostSnapshots(report);
  return plan;
}

// Checks, and does what the report asks for: index, packs, snapshots, with a check after each.
class RepairCommand : public Command {
 public:
  VerbSyntax Declare() override;
  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override;

 protected:
  bool only_snapshots_ = false;
  bool is_plan_ = false;
  bool forgets_ = false;
  bool read_data_ = false;

 private:
  absl::Status Check(const CallContext& ctx, Session& session);
  absl::Status RepairAll(const CallContext& ctx, Session& session);
  // Before anything is removed: a second reading has to find the same damage. FAILED_PRECONDITION
  // also if what snapshots lack is stored, and only not listed.
  absl::Status ConfirmLoss(const CallContext& ctx, Session& session);
  absl::Status RepairIndex(const CallContext& ctx, Session& session);
  absl::Status RepairPacks(const CallContext& ctx, Session& session, const std::vector<Id>& packs,
                           bool drop_lost);
  // Says what RepairAll() would do.
  absl::Status Plan();

  std::string volume_;
  CheckOptions check_;
  RepairPacksOptions packs_;
  CheckReport report_;
  RepairPlan todo_;
  Json result_ = {{"removed", 0}};  // snapshots
  std::string text_;
};

VerbSyntax RepairCommand::Declare() {
  ArgumentTable table;
  table.Add("--plan", "only print what would be done", is_plan_);
  table.Add("--from", "VOLUME", kFromText, volume_);
  table.Add("--forget", "give up what is lost: remove the snapshots that cannot be restored, too",
            forgets_);
  table.Add("--read-data", "read all data, to find packs that are damaged inside", read_data_);
  return {.name = "repair",
          .summary = "Check the repository, and repair what can be repaired",
          .details =
              "Does repair index, repair packs and repair snapshots as far as they are needed, "
              "with a check after each, and prints what is left and the next command. Removes no "
              "snapshot without --forget. Ends with exit code 3 when damage is left.",
          .table = std::move(table),
          .family = VerbFamily::kRepository,
          .examples = {"repair --plan", "repair --from /dev/vg/orders"}};
}

absl::StatusOr<ExitCode> RepairCommand::Run(const CallContext& ctx, Session& session) {
  ProgressMeter meter(session.console(), *ctx.clock, session.Opening());
  check_.progress = packs_.progress = CountsOf(meter);
  if (read_data_) {
    check_.read_data = repository::ReadEverything{};
  }
  VolumeAtHand volume;
  RETURN_IF_ERROR(volume.Open(volume_, packs_));
  RETURN_IF_ERROR(
      session.Open(ctx, is_plan_ ? LockKind::kReadAlone : LockKind::kExclusive).status());
  packs_.writer.pack_target_bytes = session.engine().pack_target_bytes();
  RETURN_IF_ERROR(Check(ctx, session));
  if (only_snapshots_ && !report_.complete) {
    return absl::FailedPreconditionError(
        "the index cannot be read, so what snapshots lack is not known; run csi-delta repair");
  }
  RETURN_IF_ERROR(is_plan_ ? Plan() : RepairAll(ctx, session));
  for (const Id& id : report_.unreadable) {
    absl::StrAppend(&text_, "the file snapshots/", id.Hex(), " cannot be read\n");
  }
  result_["message_type"] = "result";
  result_["dry_run"] = is_plan_;
  result_["unrestorable"] = HexOf(report_.unrestorable);
  result_["unreadable"] = HexOf(report_.unreadable);
  result_["errors_left"] = report_.errors;
  result_["next_step"] = report_.next_step;
  session.console().PrintResult(
      result_,
      absl::StrCat(text_.empty() && report_.ok() ? "nothing to do\n" : text_, CheckText(report_)));
  const bool is_done = only_snapshots_ ? report_.unrestorable.empty() : report_.ok() || is_plan_;
  return is_done ? ExitCode::kOk : ExitCode::kIncomplete;
}

absl::Status RepairCommand::Check(const CallContext& ctx, Session& session) {
  Repository& repository = *session.engine().repository();
  repository.DropIndex();  // The step before may have changed it.
  ASSIGN_OR_RETURN(report_, repository::CheckRepository(ctx, repository, check_));
  todo_ = only_snapshots_ ? RepairPlan{.lost = engine::LostSnapshots(report_)} : MakePlan(report_);
  return absl::OkStatus();
}

absl::Status RepairCommand::RepairAll(const CallContext& ctx, Session& session) {
  RETURN_IF_ERROR(RepairIndex(ctx, session));
  const RepairPlan todo = todo_;
  if (forgets_ && (!todo.needed.empty() || !todo.lost.empty())) {
    RETURN_IF_ERROR(ConfirmLoss(ctx, session));
  }
  if (!todo.free.empty()) {
    RETURN_IF_ERROR(RepairPacks(ctx, session, todo.free, /*drop_lost=*/true));
  }
  if ((!volume_.empty() && todo.fills_in) ||
      (!todo.needed.empty() && (forgets_ || !volume_.empty()))) {
    RETURN_IF_ERROR(RepairPacks(ctx, session, todo.needed, forgets_));
  }
  if (forgets_ && !todo_.lost.empty()) {
    std::vector<Id> lost = todo_.lost;
    // Only what two readings found lost before anything was changed.
    std::erase_if(lost, [&](const Id& id) { return !absl::c_linear_search(todo.lost, id); });
    RETURN_IF_ERROR(repository::RemoveSnapshots(ctx, *session.engine().repository(),
                                                *session.lock(), lost, check_.progress));
    result_["removed"] = lost.size();
    absl::StrAppend(&text_, "removed ", Counted(std::ssize(lost), "snapshot"),
                    " that could not be restored\n");
    RETURN_IF_ERROR(Check(ctx, session));
  }
  return RepairIndex(ctx, session);  // Drops what no snapshot needs any more.
}

absl::Status RepairCommand::ConfirmLoss(const CallContext& ctx, Session& session) {
  const bool is_stored = absl::c_any_of(report_.findings, [](const repository::Finding& finding) {
    return finding.remedy == repository::Remedy::kRepair &&
           (finding.kind == repository::FindingKind::kTreeUnreadable ||
            finding.kind == repository::FindingKind::kBlobMissing);
  });
  if (is_stored) {
    return absl::FailedPreconditionError(
        "what snapshots lack is in packs that no index lists; run csi-delta repair first");
  }
  ASSIGN_OR_RETURN(Repository * again, session.engine().OpenAgain(ctx));
  RETURN_IF_ERROR(engine::ConfirmLost(ctx, *again, check_, report_));
  again->DropIndex();  // Its memory is needed for the checks to come.
  return absl::OkStatus();
}

absl::Status RepairCommand::RepairIndex(const CallContext& ctx, Session& session) {
  if (!todo_.index) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(
      const RepairIndexResult result,
      repository::RepairIndex(ctx, *session.engine().repository(), *session.lock(),
                              {.read_all_packs = read_data_, .progress = check_.progress}));
  result_["index"] = IndexJson(result);
  absl::StrAppend(&text_, IndexText(result, /*dry_run=*/false));
  return Check(ctx, session);
}

absl::Status RepairCommand::RepairPacks(const CallContext& ctx, Session& session,
                                        const std::vector<Id>& packs, bool drop_lost) {
  packs_.drop_lost = drop_lost;
  session.engine().repository()->DropIndex();
  ASSIGN_OR_RETURN(
      const RepairPacksResult result,
      repository::RepairPacks(ctx, *session.engine().repository(), *session.lock(), packs, packs_));
  result_["packs"].push_back(PacksJson(result));
  absl::StrAppend(&text_, PacksText(result));
  return Check(ctx, session);
}

absl::Status RepairCommand::Plan() {
  const auto damaged = std::ssize(todo_.free) + std::ssize(todo_.needed);
  const auto add = [this](bool is_due, const std::string& step) {
    absl::StrAppend(&text_, is_due ? absl::StrCat(step, "\n") : "");
  };
  add(todo_.index, "would make the index agree with the packs");
  add(damaged > 0, absl::StrCat("would save what is left of ", Counted(damaged, "damaged pack")));
  add(todo_.fills_in, volume_.empty() ? "could look for lost chunks in the VOLUME of --from"
                                      : "would look for lost chunks in the volume");
  add(!todo_.lost.empty(),
      absl::StrCat(forgets_ ? "would remove " : "could remove with --forget ",
                   Counted(std::ssize(todo_.lost), "snapshot"), " if still not restorable"));
  return absl::OkStatus();
}

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
    ProgressMeter meter(session.console(), *ctx.clock, session.Opening());
    ASSIGN_OR_RETURN(Repository * repository, session.Open(ctx, LockKind::kExclusive));
    options_.progress = CountsOf(meter);
    ASSIGN_OR_RETURN(const RepairIndexResult result,
                     repository::RepairIndex(ctx, *repository, *session.lock(), options_));
    Json json = IndexJson(result);
    json["message_type"] = "result";
    json["dry_run"] = options_.dry_run;
    session.console().PrintResult(json,
                                  absl::StrCat(IndexText(result, options_.dry_run), kCheckSays));
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
        "damaged packs, by their whole ids, which check --read-data --json prints; none: those "
        "that are listed and not there",
        0, kPacksMax, packs_);
    table.Add("--from", "DEVICE", kFromText, device_);
    table.Add("--drop-lost",
              "remove the packs also when blobs are lost, and with them what needs those",
              drop_lost_);
    return {
        .name = "repair packs",
        .summary = "Save what is left of damaged packs, and fill in the rest from a volume",
        .details =
            "Also restores blobs that snapshots reference but no pack contains. Ends with exit "
            "code 3 when blobs are lost; check then names the snapshots that cannot be restored.",
        .table = std::move(table),
        .family = VerbFamily::kRepository,
        .examples = {"repair packs", "repair packs --from /dev/vg/orders"}};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    ASSIGN_OR_RETURN(const std::vector<Id> packs, PackIds());
    ASSIGN_OR_RETURN(Repository * repository, session.Open(ctx, LockKind::kExclusive));
    RepairPacksOptions options;
    ProgressMeter meter(session.console(), *ctx.clock);
    options.progress = CountsOf(meter);
    VolumeAtHand volume;
    RETURN_IF_ERROR(volume.Open(device_, options));
    options.drop_lost = drop_lost_;
    options.writer.pack_target_bytes = session.engine().pack_target_bytes();
    ASSIGN_OR_RETURN(const RepairPacksResult result,
                     repository::RepairPacks(ctx, *repository, *session.lock(), packs, options));
    Json json = PacksJson(result);
    json["message_type"] = "result";
    const std::string text = PacksText(result);
    session.console().PrintResult(
        json, text.empty() ? "nothing to repair\n" : absl::StrCat(text, kCheckSays));
    return result.lost() == 0 && result.trees_unreadable == 0 ? ExitCode::kOk
                                                              : ExitCode::kIncomplete;
  }

 private:
  absl::StatusOr<std::vector<Id>> PackIds() const {
    std::vector<Id> ids;
    for (const std::string& text : packs_) {
      const absl::StatusOr<Id> id = Id::Parse(text);
      if (!id.ok()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "\"", text,
            "\" is not the id of a pack; csi-delta check --read-data --json prints them"));
      }
      ids.push_back(*id);
    }
    return ids;
  }

  std::vector<std::string> packs_;
  std::string device_;
  bool drop_lost_ = false;
};

class RepairSnapshotsCommand : public RepairCommand {
 public:
  VerbSyntax Declare() override {
    only_snapshots_ = true;
    ArgumentTable table;
    table.Add("--forget", "remove them", forgets_);
    table.Add("--read-data", "read all data, so as to find those too that need damaged bytes",
              read_data_);
    table.Add("-n,--dry-run", "only print what would be done", is_plan_);
    return {.name = "repair snapshots",
            .summary = "Name the snapshots that cannot be restored; --forget removes them",
            .details =
                "A volume needs all of its chunks: nothing replaces what is lost. First try what "
                "brings it back, repair --from and backup --force. A snapshot whose own file "
                "cannot be read is named; only forget with its whole id removes it. Ends with exit "
                "code 3 when snapshots are left that cannot be restored.",
            .table = std::move(table),
            .family = VerbFamily::kRepository,
            .examples = {"repair snapshots", "repair snapshots --forget"}};
  }
};

}  // namespace

void AddRepairCommands(Commands& all) {
  AddEach<RepairCommand, RepairConfigCommand, RepairIndexCommand, RepairPacksCommand,
          RepairSnapshotsCommand>(all);
}

}  // namespace csidelta::cli
