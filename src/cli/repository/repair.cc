#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/repository/check_text.h"
#include "cli/repository/prune.h"
#include "cli/repository/repair_source.h"
#include "cli/text.h"
#include "engine/check.h"
#include "repository/checker.h"
#include "repository/forget.h"
#include "repository/repairer.h"

namespace csidelta::cli {
namespace {

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

// The steps that a report asks for, in their order.
struct RepairPlan {
  bool index = false;
  std::vector<Id> free = {};    // damaged packs that no snapshot needs: what is left is moved
  std::vector<Id> needed = {};  // the same of others, and what they lost is filled in
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
  }
  return plan;
}

// Checks, and does what the report asks for: index, packs, snapshots, with a check after each.
class RepairCommand : public RepositoryCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override;
  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override;

 private:
  absl::Status Check(const CallContext& ctx, Session& session);
  absl::Status RepairAll(const CallContext& ctx, Session& session);
  // Before anything is removed: a second reading must find the same damage. FAILED_PRECONDITION
  // also if what snapshots lack is stored and only not listed, or if a snapshot's file cannot be
  // read.
  absl::Status ConfirmLoss(const CallContext& ctx, Session& session);
  absl::Status RepairIndex(const CallContext& ctx, Session& session);
  std::vector<Id> PacksToRepair() const;
  absl::Status RepairPacks(const CallContext& ctx, Session& session, const std::vector<Id>& packs);
  // Removes those that two readings found lost before anything was changed.
  absl::Status Forget(const CallContext& ctx, Session& session, const std::vector<Id>& confirmed);
  // Says what RepairAll() would do.
  absl::Status Plan();

  bool is_plan_ = false;
  bool forgets_ = false;
  bool read_data_ = false;
  std::string volume_;
  CheckOptions check_;
  RepairPacksOptions packs_;
  CheckReport report_;
  RepairPlan todo_;
  Json result_ = {{"removed", 0}};  // snapshots
  std::string text_;
};

VerbSyntax RepairCommand::Describe(ArgumentTable& table) {
  table.Add("--plan", "only print what would be done", is_plan_);
  table.Add("--from", "VOLUME", kFromText, volume_);
  table.Add("--forget", "give up what is lost: remove the snapshots that cannot be restored, too",
            forgets_);
  table.Add("--read-data", "read all data, to find packs that are damaged inside", read_data_);
  return {.name = "repair",
          .summary = "Check the repository, and repair what can be repaired",
          .details =
              "Does repair index and repair packs as far as they are needed, with a check after "
              "each, and prints what is left and the next command. Removes no snapshot without "
              "--forget. Ends with exit code 3 when damage is left, and with 0 after --plan.",
          .examples = {"repair --plan", "repair --from /dev/vg/orders"}};
}

absl::StatusOr<ExitCode> RepairCommand::Run(const CallContext& ctx, Session& session) {
  ProgressMeter meter(session.console(), *ctx.clock, session.Opening());
  check_.progress = packs_.progress = CountsOf(meter);
  if (read_data_) {
    check_.read_data = repository::ReadEverything{};
  }
  packs_.drops_lost = [this](const Id& pack) {
    return forgets_ || absl::c_linear_search(todo_.free, pack);
  };
  ASSIGN_OR_RETURN(const auto volume, VolumeRepairSource::Open(volume_, packs_));
  RETURN_IF_ERROR(
      session.Open(ctx, is_plan_ ? LockKind::kReadAlone : LockKind::kExclusive).status());
  packs_.writer.pack_target_bytes = session.engine().pack_target_bytes();
  RETURN_IF_ERROR(Check(ctx, session));
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
  return report_.ok() || is_plan_ ? ExitCode::kOk : ExitCode::kIncomplete;
}

absl::Status RepairCommand::Check(const CallContext& ctx, Session& session) {
  Repository& repository = *session.engine().repository();
  check_.progress("checking", 0, 0);  // The counts of the step before end: some have the same name.
  repository.DropIndex();             // The step before may have changed it.
  ASSIGN_OR_RETURN(report_, repository::CheckRepository(ctx, repository, check_));
  todo_ = MakePlan(report_);
  return absl::OkStatus();
}

absl::Status RepairCommand::RepairAll(const CallContext& ctx, Session& session) {
  RETURN_IF_ERROR(RepairIndex(ctx, session));
  const std::vector<Id> lost = report_.lost_volumes;
  if (forgets_ && (!todo_.needed.empty() || !lost.empty())) {
    RETURN_IF_ERROR(ConfirmLoss(ctx, session));
  }
  const std::vector<Id> packs = PacksToRepair();
  if (!packs.empty() || (report_.lacks_chunks && !volume_.empty())) {
    RETURN_IF_ERROR(RepairPacks(ctx, session, packs));
  }
  if (forgets_ && !report_.lost_volumes.empty()) {
    RETURN_IF_ERROR(Forget(ctx, session, lost));
  }
  return RepairIndex(ctx, session);  // Drops what no snapshot needs any more.
}

std::vector<Id> RepairCommand::PacksToRepair() const {
  std::vector<Id> packs = todo_.free;
  if (forgets_ || !volume_.empty()) {
    packs.insert(packs.end(), todo_.needed.begin(), todo_.needed.end());
  }
  return packs;
}

absl::Status RepairCommand::Forget(const CallContext& ctx, Session& session,
                                   const std::vector<Id>& confirmed) {
  std::vector<Id> lost = report_.lost_volumes;
  std::erase_if(lost, [&](const Id& id) { return !absl::c_linear_search(confirmed, id); });
  const int64_t refused_before = session.lock()->refused().count;
  RETURN_IF_ERROR(repository::RemoveSnapshots(ctx, *session.engine().repository(), *session.lock(),
                                              lost, check_.progress));
  const repository::RefusedDeletions refused = session.lock()->refused();
  const int64_t removed = std::ssize(lost) - (refused.count - refused_before);
  WarnOfRefused(session.console(), refused);
  result_["removed"] = removed;
  absl::StrAppend(&text_, "removed ", Counted(removed, "snapshot"),
                  " that could not be restored\n");
  return Check(ctx, session);
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
  if (!report_.unreadable.empty()) {
    const std::string id = report_.unreadable.front().Hex();
    return absl::FailedPreconditionError(
        absl::StrCat("snapshots/", id, " cannot be read, so what it needs is not known; ",
                     "csi-delta forget ", id, " removes it"));
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
                                        const std::vector<Id>& packs) {
  session.engine().repository()->DropIndex();
  ASSIGN_OR_RETURN(
      const RepairPacksResult result,
      repository::RepairPacks(ctx, *session.engine().repository(), *session.lock(), packs, packs_));
  result_["packs"].push_back(PacksJson(result));
  absl::StrAppend(&text_, PacksText(result));
  return Check(ctx, session);
}

absl::Status RepairCommand::Plan() {
  const auto damaged = std::ssize(PacksToRepair());
  const auto add = [this](bool is_due, const std::string& step) {
    absl::StrAppend(&text_, is_due ? absl::StrCat(step, "\n") : "");
  };
  add(todo_.index, "would make the index agree with the packs");
  add(damaged > 0, absl::StrCat("would save what is left of ", Counted(damaged, "damaged pack")));
  add(report_.lacks_chunks, volume_.empty() ? "could look for lost chunks in the VOLUME of --from"
                                            : "would look for lost chunks in the volume");
  add(!report_.lost_volumes.empty(),
      absl::StrCat(forgets_ ? "would remove " : "could remove with --forget ",
                   Counted(std::ssize(report_.lost_volumes), "snapshot"),
                   " if still not restorable"));
  return absl::OkStatus();
}

class RepairConfigCommand : public RepositoryCommand {
 public:
  VerbSyntax Describe(ArgumentTable&) override {
    return {.name = "repair config",
            .summary = "Make the file config again, if it is lost or damaged",
            .details =
                "A snapshot or an index file proves which key is the repository's. The repository "
                "gets a new id. A config that opens is left as it is.",
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

class RepairIndexCommand : public RepositoryCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override {
    table.Add("--read-all-packs", "trust no index file, read the header of every pack",
              options_.read_all_packs);
    table.Add("-n,--dry-run", "only print what would be done", options_.dry_run);
    table.Add("--assume-ended",
              "list packs again although a client whose exclusive lock ran out may still delete "
              "them: you know that it has ended",
              options_.assume_ended);
    return {.name = "repair index",
            .summary = "Make the index agree with the packs that are stored",
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

class RepairPacksCommand : public RepositoryCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override {
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
        .examples = {"repair packs", "repair packs --from /dev/vg/orders"}};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    ASSIGN_OR_RETURN(const std::vector<Id> packs, PackIds());
    ASSIGN_OR_RETURN(Repository * repository, session.Open(ctx, LockKind::kExclusive));
    RepairPacksOptions options;
    ProgressMeter meter(session.console(), *ctx.clock);
    options.progress = CountsOf(meter);
    ASSIGN_OR_RETURN(const auto volume, VolumeRepairSource::Open(device_, options));
    options.drops_lost = [this](const Id&) { return drop_lost_; };
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

}  // namespace

void AddRepairCommands(Commands& all) {
  AddEach<RepairCommand, RepairConfigCommand, RepairIndexCommand, RepairPacksCommand>(all);
}

}  // namespace csidelta::cli
