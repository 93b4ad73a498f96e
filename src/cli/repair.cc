#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/refill.h"
#include "cli/snapshot_filter.h"
#include "incremental/file_block_device.h"
#include "repository/repairer.h"

namespace csidelta::cli {
namespace {

using incremental::FileBlockDevice;
using repository::Id;
using repository::PackRepair;
using repository::RepairIndexResult;
using repository::Repository;

constexpr int kPacksMax = 1000;

Json Ids(const std::vector<Id>& ids) {
  Json list = Json::array();
  for (const Id& id : ids) {
    list.push_back(id.Hex());
  }
  return list;
}

class RepairIndexCommand : public Command {
 public:
  VerbSyntax Declare() override {
    ArgumentTable table;
    table.Add("--read-all-packs", "trust no index file, read the header of every pack",
              options_.read_all_packs);
    table.Add("-n,--dry-run", "only say what would be done", options_.dry_run);
    return {.name = "repair index",
            .summary = "Make the index agree with the packs that are stored",
            .details = "",
            .table = std::move(table)};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    ASSIGN_OR_RETURN(Repository * repository, session.Open(ctx, LockKind::kExclusive));
    ProgressMeter meter(session.console(), *ctx.clock);
    options_.progress = [&meter](absl::string_view stage, int64_t done, int64_t total) {
      meter.ReportCount(stage, done, total);
    };
    ASSIGN_OR_RETURN(const RepairIndexResult result,
                     repository::RepairIndex(ctx, *repository, *session.lock(), options_));
    session.console().PrintResult(
        {{"message_type", "result"},
         {"dry_run", options_.dry_run},
         {"unreadable_files", Ids(result.unreadable_files)},
         {"packs_added", Ids(result.packs_added)},
         {"packs_dropped", Ids(result.packs_dropped)},
         {"packs_unreadable", Ids(result.packs_unreadable)},
         {"index_files_written", result.files_written},
         {"index_files_removed", result.files_removed}},
        absl::StrCat(options_.dry_run ? "would list " : "listed ", result.packs_added.size(),
                     " packs anew and drop ", result.packs_dropped.size(), "; ",
                     result.unreadable_files.size(), " index files and ",
                     result.packs_unreadable.size(), " packs do not read\n"));
    return result.packs_unreadable.empty() ? ExitCode::kOk : ExitCode::kIncomplete;
  }

 private:
  repository::RepairIndexOptions options_;
};

class RepairPacksCommand : public Command {
 public:
  VerbSyntax Declare() override {
    ArgumentTable table;
    table.AddWords("PACK", "the damaged packs, by their whole ids; check --read-data names them", 1,
                   kPacksMax, packs_);
    table.Add(
        "--from", "DEVICE",
        "the live volume or an image of it: lost chunks are read from it where they are still "
        "the same",
        device_);
    table.Add("--snapshot", "ID", "the snapshot that says where the chunks lie in DEVICE (latest)",
              snapshot_);
    table.Add("--drop-lost",
              "remove the packs also when blobs are lost, and with them what needs those",
              drop_lost_);
    return {.name = "repair packs",
            .summary = "Save what is left of damaged packs, and fill in the rest from a volume",
            .details = "Ends with exit code 3 when blobs are lost.",
            .table = std::move(table)};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    ASSIGN_OR_RETURN(const std::vector<Id> packs, PackIds());
    ASSIGN_OR_RETURN(Repository * repository, session.Open(ctx, LockKind::kExclusive));
    repository::RepairPacksOptions options;
    std::unique_ptr<FileBlockDevice> device;
    std::optional<VolumeRefill> refill;
    if (!device_.empty()) {
      ASSIGN_OR_RETURN(device, FileBlockDevice::OpenForRead(device_));
      ASSIGN_OR_RETURN(const repository::StoredSnapshot stored,
                       ChooseSnapshot(ctx, *repository, snapshot_, {}));
      refill.emplace(*repository, stored, *device);
      options.prepare_refill = [&refill](const CallContext& prepare_ctx,
                                         const absl::flat_hash_set<repository::BlobId>& data) {
        return refill->Prepare(prepare_ctx, data);
      };
      options.refill = [&refill](const CallContext& refill_ctx,
                                 const repository::BlobHandle& handle) {
        return refill->Load(refill_ctx, handle);
      };
    }
    options.drop_lost = drop_lost_;
    ProgressMeter meter(session.console(), *ctx.clock);
    options.progress = [&meter](absl::string_view stage, int64_t done, int64_t total) {
      meter.ReportCount(stage, done, total);
    };
    ASSIGN_OR_RETURN(const std::vector<PackRepair> repairs,
                     repository::RepairPacks(ctx, *repository, *session.lock(), packs, options));
    return Tell(session.console(), repairs);
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

  static ExitCode Tell(Console& console, const std::vector<PackRepair>& repairs) {
    Json list = Json::array();
    std::string text;
    std::size_t lost = 0;
    for (const PackRepair& repair : repairs) {
      lost += repair.lost.size();
      list.push_back({{"pack", repair.pack.Hex()},
                      {"blobs_intact", repair.blobs_intact},
                      {"blobs_elsewhere", repair.blobs_elsewhere},
                      {"blobs_refilled", repair.blobs_refilled},
                      {"blobs_lost", repair.lost.size()},
                      {"removed", repair.removed}});
      absl::StrAppend(&text, "pack ", repair.pack.ShortHex(), ": ", repair.blobs_intact,
                      " intact, ", repair.blobs_elsewhere, " elsewhere, ", repair.blobs_refilled,
                      " filled in, ", repair.lost.size(), " lost",
                      repair.removed ? "" : "; it stays", "\n");
    }
    console.PrintResult(
        {{"message_type", "result"}, {"blobs_lost", lost}, {"packs", std::move(list)}}, text);
    return lost == 0 ? ExitCode::kOk : ExitCode::kIncomplete;
  }

  std::vector<std::string> packs_;
  std::string device_;
  std::string snapshot_ = "latest";
  bool drop_lost_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeRepairIndexCommand() { return std::make_unique<RepairIndexCommand>(); }
std::unique_ptr<Command> MakeRepairPacksCommand() { return std::make_unique<RepairPacksCommand>(); }

}  // namespace csidelta::cli
