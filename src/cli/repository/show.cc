#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/repository/snapshot_filter.h"
#include "cli/repository/snapshot_info.h"
#include "cli/text.h"
#include "incremental/mover/full_reason.h"
#include "incremental/mover/volume_record.h"
#include "repository/verified_packs.h"

namespace csidelta::cli {
namespace {

using incremental::VolumeRecord;
using repository::RepoSnapshot;
using repository::StoredSnapshot;
using repository::VolumeManifest;

constexpr int kNameColumns = 16;
constexpr std::size_t kChildrenShown = 20;

// Which snapshots a backup builds on, and which build on it.
struct Chain {
  int64_t length = 1;  // with the snapshot and the one that it begins with
  repository::Id first;
  bool is_whole = false;  // `first` is a full backup; else its parent was removed
  std::vector<repository::Id> children;
};

Chain ChainOf(const StoredSnapshot& stored, const std::vector<StoredSnapshot>& all) {
  std::map<repository::Id, const RepoSnapshot*> by_id;
  Chain chain{.length = 1, .first = stored.id, .is_whole = false, .children = {}};
  for (const StoredSnapshot& other : all) {
    by_id[other.id] = &other.snapshot;
    if (other.snapshot.parent == stored.id) {
      chain.children.push_back(other.id);
    }
  }
  const RepoSnapshot* at = &stored.snapshot;
  // The ids are those that files claim: a circle must end, too.
  for (std::size_t steps = 0; steps < all.size(); ++steps) {
    chain.is_whole = ModeOf(*at) == "full" || !at->parent.has_value();
    const auto parent = chain.is_whole ? by_id.end() : by_id.find(*at->parent);
    if (parent == by_id.end()) {
      break;
    }
    ++chain.length;
    chain.first = parent->first;
    at = parent->second;
  }
  return chain;
}

std::string ChildrenText(const Chain& chain) {
  std::string out;
  for (std::size_t i = 0; i < std::min(chain.children.size(), kChildrenShown); ++i) {
    absl::StrAppend(&out, i == 0 ? "" : " ", chain.children[i].ShortHex());
  }
  if (chain.children.size() > kChildrenShown) {
    absl::StrAppend(&out, " and ", chain.children.size() - kChildrenShown, " more");
  }
  return out;
}

// Lines of a name and a value, which is broken to fit; what is not known has none.
class Sheet {
 public:
  explicit Sheet(int columns) : columns_(columns) {}

  void Add(absl::string_view name, absl::string_view value) {
    if (absl::StripAsciiWhitespace(value).empty()) {  // which wraps to an empty line
      return;
    }
    std::string body = WrapText(Printable(value), kNameColumns, columns_);
    body.replace(0, kNameColumns, Padded(std::string(name), kNameColumns));
    text_.append(body);
  }

  std::string Take() && { return std::move(text_); }

 private:
  const int columns_;
  std::string text_;
};

void AddReason(const std::string& name, Sheet& sheet) {
  const incremental::FullReasonText* const text = incremental::FindReason(name);
  sheet.Add("Why full", text == nullptr ? name : absl::StrCat(text->sentence, " (", name, ")"));
  sheet.Add("Next step", text == nullptr ? "" : text->next_step);
}

void AddBackup(const RepoSnapshot& snapshot, const VolumeManifest* manifest, Sheet& sheet) {
  std::string mode = ModeOf(snapshot);
  std::string reason = snapshot.volume.has_value() ? snapshot.volume->reason : "";
  if (manifest != nullptr) {
    mode = manifest->kind;
    reason = manifest->reason;
  }
  if (!mode.empty()) {
    const std::string label = reason.empty() ? "" : incremental::LabelOf(reason);
    sheet.Add("Backup", absl::StrCat(mode, " backup", label.empty() ? "" : ": ", label));
  }
  if (!reason.empty()) {
    AddReason(reason, sheet);
  }
  if (const int64_t size_bytes = SummaryBytes(snapshot); size_bytes > 0) {
    sheet.Add("Size", FormatBytes(size_bytes));
  }
  if (snapshot.volume.has_value() && snapshot.volume->changed_bytes.has_value()) {
    sheet.Add("Changed", FormatBytes(*snapshot.volume->changed_bytes));
  }
  if (manifest != nullptr) {
    sheet.Add("Read", FormatBytes(manifest->read_bytes));
  }
  if (snapshot.summary.has_value()) {
    sheet.Add("Added",
              absl::StrCat(FormatBytes(static_cast<int64_t>(snapshot.summary->data_added_packed)),
                           ", of ", FormatBytes(static_cast<int64_t>(snapshot.summary->data_added)),
                           " before compression"));
  }
  if (const std::optional<absl::Duration> took = DurationOf(snapshot); took.has_value()) {
    sheet.Add("Took", FormatElapsed(*took));
  }
}

void AddVolume(const VolumeManifest& manifest, Sheet& sheet) {
  sheet.Add("Listed by", manifest.source);
  sheet.Add("Chunks", absl::StrCat(FormatBytes(manifest.chunk_bytes), " each, ",
                                   manifest.zero_chunks, " of zeros"));
  if (!manifest.pvc_name.empty()) {
    sheet.Add("PVC", absl::StrCat(manifest.pvc_namespace, "/", manifest.pvc_name));
  }
  sheet.Add("PVC uid", manifest.pvc_uid);
  sheet.Add("PV", manifest.pv);
  sheet.Add("StorageClass", manifest.storage_class);
  sheet.Add("Volume mode", manifest.volume_mode);
  sheet.Add("File system", manifest.fs_type);
  sheet.Add("Access modes", absl::StrJoin(manifest.access_modes, ", "));
  sheet.Add("CSI driver", manifest.csi_driver);
  sheet.Add("Volume handle", manifest.volume_handle);
  sheet.Add("Snapshot handle", manifest.snapshot_handle);
  sheet.Add("Change id", manifest.change_id);
  sheet.Add("Snapshot taken", manifest.snapshot_time);
}

void AddChain(const StoredSnapshot& stored, const Chain& chain, Sheet& sheet) {
  if (stored.snapshot.parent.has_value()) {
    sheet.Add("Parent", stored.snapshot.parent->ShortHex());
  }
  sheet.Add("Chain",
            absl::StrCat(Counted(chain.length, "snapshot"), " since ", chain.first.ShortHex(),
                         chain.is_whole ? "" : ", whose parent was removed"));
  sheet.Add("Parent of", ChildrenText(chain));
}

// Commands to go on with.
void AddLinks(const StoredSnapshot& stored, const Chain& chain, const std::string& program,
              Sheet& sheet) {
  if (chain.length > 1) {
    sheet.Add("See parent", absl::StrCat(program, " show ", stored.snapshot.parent->ShortHex()));
    sheet.Add("See changes", absl::StrCat(program, " map ", stored.id.ShortHex()));
  }
  if (!chain.children.empty()) {
    sheet.Add("See child", absl::StrCat(program, " show ", chain.children.front().ShortHex()));
  }
}

std::string SheetOf(const StoredSnapshot& stored, const VolumeManifest* manifest,
                    const Chain& chain, std::optional<absl::Time> verified,
                    const ProgramEnvironment& environment) {
  const RepoSnapshot& snapshot = stored.snapshot;
  Sheet sheet(environment.table_columns);
  sheet.Add("Snapshot", stored.id.Hex());
  sheet.Add("Time", absl::FormatTime("%Y-%m-%d %H:%M:%S %Z", snapshot.time, absl::LocalTimeZone()));
  sheet.Add("Host", snapshot.hostname);
  sheet.Add("Path", absl::StrJoin(snapshot.paths, ", "));
  AddBackup(snapshot, manifest, sheet);
  sheet.Add("Verified", !verified.has_value() ? "not known"
                                              : absl::FormatTime("%Y-%m-%d %H:%M %Z", *verified,
                                                                 absl::LocalTimeZone()));
  AddChain(stored, chain, sheet);
  if (manifest != nullptr) {
    AddVolume(*manifest, sheet);
  }
  sheet.Add("Tags", absl::StrJoin(snapshot.tags, ", "));
  sheet.Add("User", snapshot.username);
  sheet.Add("Made by", snapshot.program_version);
  sheet.Add("Tree", snapshot.tree.Hex());
  if (snapshot.original.has_value()) {
    sheet.Add("Copy of", snapshot.original->Hex());
  }
  AddLinks(stored, chain, environment.program, sheet);
  return std::move(sheet).Take();
}

std::string JsonOf(const StoredSnapshot& stored, const VolumeManifest* manifest, const Chain& chain,
                   std::optional<absl::Time> verified) {
  const Json chain_json = {{"length", chain.length},
                           {"first", chain.first.Hex()},
                           {"whole", chain.is_whole},
                           {"children", HexOf(chain.children)}};
  std::string volume = manifest == nullptr ? "null" : repository::EncodeManifest(*manifest);
  std::erase(volume, '\n');
  return absl::StrCat("{\"snapshot\":", SnapshotJsonText(stored, verified), ",\"volume\":", volume,
                      ",\"chain\":", DumpJson(chain_json), "}\n");
}

class ShowCommand : public RepositoryCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override {
    table.AddOptionalPositional("ID", kOneSnapshot, id_);
    DeclareFilterFlags(table, filter_);
    return {.name = "show",
            .summary = "Print all that is known of a snapshot",
            .details =
                "What the backup did and why, its chain, and what /volume.json says of the volume. "
                "The chain is the snapshots that were built one on the other since the last full "
                "backup; each of them can be restored without the others. Verified is as of "
                "when all packs with blobs of it were read by a check; not known before, or if "
                "packs were removed since. Of a snapshot of another program, only what its file "
                "says.\n\nWith --json: one object with "
                "snapshot, as csi-delta snapshots prints it, volume, which is /volume.json or "
                "null, and chain.",
            .examples = {"show latest", "show 8ab6fc6f --json"}};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    ASSIGN_OR_RETURN(id_, session.NameSnapshot(ctx, id_, filter_));
    ASSIGN_OR_RETURN(repository::Repository * repository, session.Open(ctx, LockKind::kRead));
    Console& console = session.console();
    ASSIGN_OR_RETURN(const StoredSnapshot stored,
                     engine::ChooseSnapshot(ctx, ListenerOf(console), *repository, id_, filter_));
    UnreadableSnapshots unreadable(console);
    ASSIGN_OR_RETURN(const std::vector<StoredSnapshot> all,
                     repository->ListSnapshots(ctx, unreadable.DamagedSink()));
    const Chain chain = ChainOf(stored, all);
    absl::StatusOr<std::unique_ptr<VolumeRecord>> record =
        incremental::OpenVolumeRecord(ctx, *repository, stored);
    if (!record.ok() && !absl::IsFailedPrecondition(record.status())) {
      return record.status();
    }
    const VolumeManifest* const manifest = record.ok() ? &(*record)->manifest : nullptr;
    const auto known = repository::ReadVerifiedSnapshots(ctx, *repository, {stored});
    const auto verified =
        known.ok() && !known->empty() ? std::optional(known->begin()->second) : std::nullopt;
    console.Print(console.options().json
                      ? JsonOf(stored, manifest, chain, verified)
                      : SheetOf(stored, manifest, chain, verified, session.environment()));
    return unreadable.code();
  }

 private:
  std::string id_;
  SnapshotFilter filter_;
};

}  // namespace

void AddShowCommand(Commands& all) { AddEach<ShowCommand>(all); }

}  // namespace csidelta::cli
