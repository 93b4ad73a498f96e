#include "repository/checker.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "repository/blob_marks.h"
#include "repository/content_check.h"
#include "repository/format.h"
#include "repository/index_rewriter.h"
#include "repository/pack_contents.h"
#include "repository/pack_reader.h"
#include "repository/parallel.h"
#include "repository/tree_walk.h"
#include "repository/volume_check.h"

namespace csidelta::repository {
namespace {

constexpr char kRepairIndex[] = "run repair index";
constexpr char kRepairPacks[] = "run repair packs, with the volume at hand if it still exists";
constexpr char kBackUpAnew[] =
    "a new full backup brings back what still exists; forget the snapshots that need it";

std::string PackName(const PackId& id) { return absl::StrCat("pack ", id.Hex()); }

class Checker {
 public:
  Checker(const CallContext& ctx, Repository& repository, const CheckOptions& options)
      : ctx_(ctx), repository_(repository), options_(options) {}

  absl::StatusOr<CheckReport> Run() {
    ASSIGN_OR_RETURN(const bool readable, CheckIndex());
    if (!readable) {
      report_.complete = false;
      return std::move(report_);
    }
    RETURN_IF_ERROR(CheckPacks());
    RETURN_IF_ERROR(CheckTrees());
    RETURN_IF_ERROR(ReadPacks());
    report_.scratch_bytes = repository_.scratch().peak_bytes();
    return std::move(report_);
  }

 private:
  const BlobIndex& index() const { return repository_.index(); }

  void Add(FindingKind kind, bool is_error, std::string thing, absl::string_view detail,
           absl::string_view next_step) {
    std::scoped_lock lock(mutex_);
    ++(is_error ? report_.errors : report_.notes);
    if (report_.findings.size() < kFindingsMax) {
      report_.findings.push_back({.kind = kind,
                                  .is_error = is_error,
                                  .thing = std::move(thing),
                                  .detail = std::string(detail),
                                  .next_step = std::string(next_step)});
    }
  }

  // False when a file does not read; all of them are named then.
  absl::StatusOr<bool> CheckIndex() {
    ASSIGN_OR_RETURN(const std::vector<FileInfo> files,
                     repository_.ListFiles(ctx_, FileKind::kIndex));
    report_.index_files = static_cast<int64_t>(files.size());
    const absl::Status loaded = repository_.LoadIndex(ctx_);
    if (loaded.ok()) {
      for (const PackId& pack : repository_.packs_listed_differently()) {
        Add(FindingKind::kPackListedDifferently, true, PackName(pack),
            "two index files list different blobs in it", kRepairIndex);
      }
      report_.packs = static_cast<int64_t>(index().packs().size());
      report_.blobs = index().entry_count();
      return true;
    }
    if (!IsDamage(loaded)) {
      return loaded;
    }
    for (const FileInfo& file : files) {
      RETURN_IF_ERROR(ctx_.Check());
      const absl::Status status = LoadIndexFile(ctx_, repository_, file.id).status();
      if (IsDamage(status)) {
        Add(FindingKind::kIndexUnreadable, true, absl::StrCat("index ", file.id.Hex()),
            status.message(), kRepairIndex);
      } else if (!status.ok()) {
        return status;
      }
    }
    return false;
  }

  absl::Status CheckPacks() {
    std::vector<bool> stored(index().packs().size());
    RETURN_IF_ERROR(repository_.ListPacks(ctx_, [&](const FileInfo& file) {
      const std::optional<uint32_t> ordinal = index().FindPack(file.id);
      if (!ordinal.has_value()) {
        Add(FindingKind::kPackUnindexed, false, PackName(file.id),
            "is in no index, as backups leave packs that were cut off", "prune removes it");
      } else {
        stored[*ordinal] = true;
        CheckPack(file, index().facts(*ordinal));
      }
      return absl::OkStatus();
    }));
    for (uint32_t i = 0; i < stored.size(); ++i) {
      const PackId& id = index().packs()[i];
      if (!stored[i] && index().FindPack(id) == i) {
        Add(FindingKind::kPackMissing, true, PackName(id), "is indexed, but not stored",
            kRepairPacks);
      }
    }
    return absl::OkStatus();
  }

  void CheckPack(const FileInfo& file, const PackFacts& facts) {
    if (file.size_bytes != facts.stored_bytes) {
      Add(FindingKind::kPackWrongSize, true, PackName(file.id),
          absl::StrCat("has ", file.size_bytes, " bytes instead of ", facts.stored_bytes),
          kRepairPacks);
      return;
    }
    if (facts.has_data && facts.has_tree) {
      Add(FindingKind::kPackMixed, false, PackName(file.id), "holds data and trees",
          "prune separates them");
    }
    if (!std::holds_alternative<ReadNothing>(options_.read_data)) {
      readable_packs_.push_back(file);
    }
  }

  absl::Status CheckTrees() {
    ASSIGN_OR_RETURN(const std::vector<StoredSnapshot> snapshots,
                     repository_.ListSnapshots(ctx_, [this](const Id& id, const absl::Status& why) {
                       Add(FindingKind::kSnapshotUnreadable, true,
                           absl::StrCat("snapshot ", id.Hex()), why.message(),
                           "forget it by its id");
                     }));
    report_.snapshots = static_cast<int64_t>(snapshots.size());
    std::vector<BlobId> roots;
    roots.reserve(snapshots.size());
    for (const StoredSnapshot& snapshot : snapshots) {
      roots.push_back(snapshot.snapshot.tree);
    }
    BlobMarks visited(index());
    VolumeCheck volumes(repository_);
    RETURN_IF_ERROR(WalkAndCheckContent(roots, visited, volumes));
    report_.trees = visited.count();
    return CheckVolumes(snapshots, volumes);
  }

  absl::Status WalkAndCheckContent(const std::vector<BlobId>& roots, BlobMarks& visited,
                                   VolumeCheck& volumes) {
    const auto missing = [this](const BlobId& blob, uint32_t tree) {
      return AddMissing(blob, tree);
    };
    const auto wrong_size = [this](const ContentCheck::WrongSize& file) {
      return AddWrongSize(file);
    };
    ContentCheck content(index(), repository_.scratch(), volumes,
                         {.missing = missing, .wrong_size = wrong_size});
    RETURN_IF_ERROR(WalkTrees(
        ctx_, repository_, roots, visited,
        [&](const BlobId& tree, const absl::StatusOr<absl::string_view>& text,
            std::vector<BlobId>& below) { return CheckTree(tree, text, below, content); }));
    Report(options_.progress, "content", 0, 0);
    return content.Finish();
  }

  absl::Status CheckTree(const BlobId& tree, const absl::StatusOr<absl::string_view>& text,
                         std::vector<BlobId>& below, ContentCheck& content) {
    Report(options_.progress, "trees", ++trees_done_, 0);
    absl::Status status = text.status();
    if (status.ok()) {
      ASSIGN_OR_RETURN(const std::optional<IndexedCopy> copy,
                       index().Find({.type = BlobType::kTree, .id = tree}));
      uint32_t nodes = 0;
      status = ReadTreeNodes(*text, below, [&](const Node& node) {
        const uint32_t number = nodes++;
        return node.type == NodeType::kFile ? content.Add(copy->first, number, node)
                                            : absl::OkStatus();
      });
    }
    if (IsDamage(status)) {
      Add(FindingKind::kTreeUnreadable, true, absl::StrCat("tree ", tree.Hex()), status.message(),
          kBackUpAnew);
      return absl::OkStatus();
    }
    return status;
  }

  absl::Status AddMissing(const BlobId& blob, uint32_t tree) {
    {
      std::scoped_lock lock(mutex_);
      if (missing_.size() >= kFindingsMax || !missing_.insert(blob).second) {
        return absl::OkStatus();
      }
    }
    ASSIGN_OR_RETURN(const PackEntry entry, index().EntryOf(tree));
    Add(FindingKind::kBlobMissing, true, absl::StrCat("data blob ", blob.Hex()),
        absl::StrCat("is in no index, but in tree ", entry.handle.id.Hex()), kRepairIndex);
    return absl::OkStatus();
  }

  // Reads the tree again for the file's name: rather than keep the names of all files.
  absl::Status AddWrongSize(const ContentCheck::WrongSize& wrong) {
    ASSIGN_OR_RETURN(const PackEntry entry, index().EntryOf(wrong.tree));
    ASSIGN_OR_RETURN(const std::string text, repository_.LoadBlob(ctx_, entry.handle));
    uint32_t nodes = 0;
    return DecodeTree(text, [&](const Node& node) {
      if (nodes++ == wrong.node) {
        Add(FindingKind::kFileWrongSize, true,
            absl::StrCat("file \"", node.name, "\" in tree ", entry.handle.id.Hex()),
            absl::StrCat("says ", node.size_bytes, " bytes, but its content has ",
                         node.size_bytes - wrong.absent_bytes),
            kBackUpAnew);
      }
      return absl::OkStatus();
    });
  }

  absl::Status CheckVolumes(const std::vector<StoredSnapshot>& snapshots, VolumeCheck& volumes) {
    for (std::size_t i = 0; i < snapshots.size(); ++i) {
      Report(options_.progress, "volumes", static_cast<int64_t>(i),
             static_cast<int64_t>(snapshots.size()));
      if (!IsVolume(snapshots[i].snapshot)) {
        continue;
      }
      const absl::Status status = volumes.Check(ctx_, snapshots[i].snapshot);
      if (IsDamage(status) || absl::IsFailedPrecondition(status)) {
        Add(FindingKind::kVolumeMalformed, true, absl::StrCat("snapshot ", snapshots[i].id.Hex()),
            status.message(), kBackUpAnew);
      } else if (!status.ok()) {
        return status;
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadPacks() {
    const std::vector<FileInfo> packs =
        ChooseSubset(std::move(readable_packs_), options_.read_data, options_.seed);
    std::vector<uint32_t> ordinals;
    ordinals.reserve(packs.size());
    for (const FileInfo& pack : packs) {
      ordinals.push_back(*index().FindPack(pack.id));
    }
    for (std::size_t begin = 0; begin < packs.size();) {
      const auto rest = absl::MakeConstSpan(ordinals).subspan(begin);
      const std::size_t pass = PacksOfPass(index(), rest);
      RETURN_IF_ERROR(ReadBatch(absl::MakeConstSpan(packs).subspan(begin, pass), rest.first(pass),
                                packs.size()));
      begin += pass;
    }
    return absl::OkStatus();
  }

  absl::Status ReadBatch(absl::Span<const FileInfo> packs, absl::Span<const uint32_t> ordinals,
                         std::size_t total) {
    ASSIGN_OR_RETURN(const PackContents contents, ContentsOf(index(), ordinals));
    return ParallelFor(packs.size(), kMaintenanceThreads, [&](std::size_t i) -> absl::Status {
      RETURN_IF_ERROR(ctx_.Check());
      RETURN_IF_ERROR(ReadPack(packs[i], contents.at(ordinals[i])));
      std::scoped_lock lock(mutex_);
      report_.bytes_read += packs[i].size_bytes;
      Report(options_.progress, "packs", ++report_.packs_read, static_cast<int64_t>(total));
      return absl::OkStatus();
    });
  }

  absl::Status ReadPack(const FileInfo& pack, absl::Span<const NumberedEntry> indexed) {
    if (pack.size_bytes > kPackReadBytesMax) {
      AddDamaged(pack.id, "is longer than any writer makes packs");
      return absl::OkStatus();
    }
    const absl::StatusOr<std::string> bytes =
        repository_.store().Get(ctx_, PackKey(pack.id), kPackReadBytesMax);
    if (!bytes.ok()) {
      if (!IsDamage(bytes.status())) {
        return bytes.status();
      }
      AddDamaged(pack.id, bytes.status().message());
      return absl::OkStatus();
    }
    const std::unique_ptr<BlobCodec> codec = repository_.MakeCodec();
    std::string details;
    const absl::StatusOr<std::vector<PackEntry>> entries =
        VerifyPack(pack.id, *bytes, *codec, [&details](const PackEntry&, const absl::Status& why) {
          absl::StrAppend(&details, details.empty() ? "" : "; ", why.message());
        });
    if (!entries.ok()) {
      AddDamaged(pack.id, details.empty() ? entries.status().message() : details);
    } else if (*entries != InPackOrder(indexed)) {
      Add(FindingKind::kPackListedDifferently, true, PackName(pack.id),
          "its header lists other blobs than the index", kRepairIndex);
    }
    return absl::OkStatus();
  }

  void AddDamaged(const PackId& pack, absl::string_view detail) {
    Add(FindingKind::kPackDamaged, true, PackName(pack), detail, kRepairPacks);
  }

  // An index need not list them so.
  static std::vector<PackEntry> InPackOrder(absl::Span<const NumberedEntry> indexed) {
    std::vector<PackEntry> entries;
    for (const NumberedEntry& numbered : indexed) {
      entries.push_back(numbered.entry);
    }
    std::sort(entries.begin(), entries.end(), [](const PackEntry& left, const PackEntry& right) {
      return left.span.offset_bytes < right.span.offset_bytes;
    });
    return entries;
  }

  const CallContext& ctx_;
  Repository& repository_;
  const CheckOptions& options_;
  std::vector<FileInfo> readable_packs_;
  std::atomic<int64_t> trees_done_ = 0;
  std::mutex mutex_;  // Guards what follows while threads are at work.
  absl::flat_hash_set<BlobId> missing_;
  CheckReport report_;
};

}  // namespace

absl::string_view NameOf(FindingKind kind) {
  constexpr std::array<absl::string_view, 12> kNames = {
      "index-unreadable", "pack-listed-differently",
      "pack-missing",     "pack-wrong-size",
      "pack-mixed",       "pack-unindexed",
      "pack-damaged",     "snapshot-unreadable",
      "tree-unreadable",  "blob-missing",
      "file-wrong-size",  "volume-malformed"};
  return kNames[static_cast<std::size_t>(kind)];
}

absl::StatusOr<CheckReport> CheckRepository(const CallContext& ctx, Repository& repository,
                                            const CheckOptions& options) {
  return Checker(ctx, repository, options).Run();
}

}  // namespace csidelta::repository
