#include "repository/checker.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/keep_rules.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "base/worker_pool.h"
#include "repository/blob_fetcher.h"
#include "repository/chain.h"
#include "repository/content_check.h"
#include "repository/format.h"
#include "repository/index.h"
#include "repository/maintenance_memory.h"
#include "repository/pack_contents.h"
#include "repository/pack_reader.h"
#include "repository/pack_scanner.h"
#include "repository/stored_packs.h"
#include "repository/tree_walk.h"
#include "repository/verified_packs.h"
#include "repository/volume_check.h"

namespace csidelta::repository {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;
// The bits that are held for each copy of a blob (bad copies; bad, inner and visited trees;
// whole leaves and level-1 trees) and for each pack (missing, bad, needed, chunks needed, damaged).
constexpr int64_t kCheckBitsPerCopy = 6;
constexpr int64_t kCheckBitsPerPack = 5;
// Of one request that reads a pack.
constexpr int64_t kPieceBytesMax = 16 * kMebibyte;

std::string PackName(const PackId& id) { return absl::StrCat("pack ", id.Hex()); }

// The newest snapshot of a volume, if that one cannot be restored: of several volumes the newest of
// these. Null if no volume has such. One that is dated in the future is the newest only where all
// are: otherwise no backup of today would ever come after it.
const StoredSnapshot* FindLostEnd(absl::Span<const StoredSnapshot> snapshots, absl::Time now,
                                  const CheckReport& report) {
  const auto is_of_the_future = [now](const StoredSnapshot& stored) {
    return IsOfTheFuture(stored.snapshot.time, now);
  };
  absl::flat_hash_map<Id, const StoredSnapshot*> ends;
  for (const StoredSnapshot& stored : snapshots) {  // oldest first
    if (IsVolume(stored.snapshot)) {
      const StoredSnapshot*& end = ends[ChainOf(stored.snapshot.hostname, stored.snapshot.paths)];
      end = end == nullptr || is_of_the_future(*end) || !is_of_the_future(stored) ? &stored : end;
    }
  }
  const StoredSnapshot* lost = nullptr;
  for (const auto& [chain, stored] : ends) {
    if (absl::c_linear_search(report.unrestorable, stored->id) &&
        (lost == nullptr ||
         std::tie(lost->snapshot.time, lost->id) < std::tie(stored->snapshot.time, stored->id))) {
      lost = stored;
    }
  }
  return lost;
}

// `lost_end` is set for kBackUp.
std::string CommandOf(const Finding& finding, bool has_read, const StoredSnapshot* lost_end) {
  // What only reading finds, only reading finds again.
  const std::string repair = absl::StrCat("csi-delta repair", has_read ? " --read-data" : "");
  switch (finding.remedy) {
    case Remedy::kRepair:
      return repair;
    case Remedy::kBackUp:
      return absl::StrCat(TagValue(lost_end->snapshot, kBackupTag).empty()
                              ? "csi-delta backup --force VOLUME (with host and path of snapshot "
                              : "velero backup create NAME (that moves the PVC of snapshot ",
                          lost_end->id.ShortHex(), ")");
    case Remedy::kForgetFile:
      return absl::StrCat("csi-delta forget ", finding.id.Hex());
    case Remedy::kForget:
      return absl::StrCat(repair, " --forget");
    case Remedy::kRestic:
      return "restic repair snapshots --forget";
    case Remedy::kPrune:
      return "csi-delta prune";
  }
  return "";
}

// By all that is known at the end. Each command changes something, whatever was run before.
void ChooseRemedies(absl::Span<const StoredSnapshot> snapshots, absl::Time now,
                    const absl::flat_hash_set<BlobId>& in_unindexed, CheckReport& report) {
  const StoredSnapshot* const lost_end = FindLostEnd(snapshots, now, report);
  report.lacks_chunks &= !report.lost_volumes.empty();
  const Finding* first = nullptr;
  for (Finding& finding : report.findings) {
    if (in_unindexed.contains(finding.id)) {
      finding.remedy = Remedy::kRepair;
    }
    if (finding.remedy == Remedy::kBackUp && lost_end == nullptr) {
      const bool is_of_pack = finding.kind < FindingKind::kSnapshotUnreadable;  // These come first.
      finding.remedy =
          is_of_pack || !report.lost_volumes.empty() ? Remedy::kForget : Remedy::kRestic;
    }
    finding.next_step = CommandOf(finding, report.packs_read > 0, lost_end);
    if (finding.is_error && (first == nullptr || finding.remedy < first->remedy)) {
      first = &finding;
    }
  }
  report.next_step = first == nullptr ? "" : first->next_step;
}

class Checker {
 public:
  Checker(const CallContext& ctx, Repository& repository, const CheckOptions& options,
          VerifiedPacks& verified)
      : ctx_(ctx), repository_(repository), options_(options), verified_(verified) {}

  absl::StatusOr<CheckReport> Run();

 private:
  const BlobIndex& index() const { return repository_.index(); }

  void Add(FindingKind kind, std::string thing, absl::string_view detail, Remedy remedy,
           const Id& id);

  // False when a file does not read; all of them are named then.
  absl::StatusOr<bool> CheckIndex();
  absl::Status CheckPacks();
  absl::Status CheckPack(const FileInfo& file, uint32_t ordinal);
  template <typename T>
  absl::Status Note(std::vector<T>& list, const T& element) {
    return repository_.memory().Append(lists_share_, list, element, "a check of many packs");
  }
  // Before the index: what a backup adds afterwards, beside this check, is in neither.
  absl::Status ListSnapshots();
  absl::Status CheckTrees();
  absl::StatusOr<bool> IsBadTree(const BlobId& tree) const;

  // Calls bad what is above a bad tree, a level at a time: only when there is any are the trees
  // read again that have others below them, of a volume one in 257.
  absl::Status FindAncestors();
  absl::Status CheckByChildren(const FetchedBlob& tree);
  absl::Status MarkBad(const BlobId& tree);

  // A snapshot needs this blob: whose packs are bad, these are not to be dropped for nothing.
  // `is_chunk`: a volume may hold it, which no tree is, and no volume.json.
  absl::Status MarkNeeded(const BlobHandle& handle, bool is_chunk);

  // Whether no copy can be had of a blob that the index lists.
  absl::StatusOr<bool> IsLost(const IndexedCopy& first) const;
  absl::Status WalkAndCheckContent(BlobMarks& visited, VolumeCheck& volumes);
  absl::Status CheckTree(const BlobId& tree, const absl::StatusOr<absl::string_view>& text,
                         std::vector<BlobId>& below, ContentCheck& content);

  // What is in no index may still be in a pack that is in none: only then is there an index to
  // repair.
  absl::Status FindInUnindexed();
  absl::Status ReportBlobs();
  void ReportPacks();
  void CallDamaged(uint32_t ordinal) { damaged_[ordinal] = true; }
  // Takes bad packs out of the record.
  void ForgetVerified();
  // Lists the packs again for their times, if there is damage.
  absl::Status ListDamaged();
  // Tries to: what was noted stays until all is read, or no index lists it.
  void NoteDamaged();

  // Reads the tree again for the file's name: rather than keep the names of all files.
  absl::Status AddWrongSize(const ContentCheck::WrongSize& wrong);
  absl::Status CheckVolumes(VolumeCheck& volumes);
  absl::Status ReadPacks();
  // What is left of packs that are `cut` is read, too; they are known to be bad.
  absl::Status ReadAll(absl::Span<const FileInfo> packs, bool cut);
  absl::Status ReadTogether(absl::Span<const FileInfo> packs, PackContents& contents, bool cut);
  void CountRead(const FileInfo& pack);
  void MarkBadCopies(absl::Span<const NumberedEntry> indexed,
                     absl::Span<const std::size_t> numbers);
  // A pack that is stored, and not as the index has it.
  struct BadPack {
    FindingKind kind = FindingKind::kPackDamaged;
    std::string detail = "is damaged";
  };
  // A pack in which a scan found something, by its number among those that were scanned.
  struct Suspect {
    std::size_t pack = 0;
    std::vector<std::size_t> damaged = {};  // by the last scan for what the index lists
    bool is_listed_so = false;              // likewise
    PackFindings found = {};                // by the last scan
  };
  // All packs may be damaged: drops what is said of one.
  static void Shorten(PackFindings& found) {
    std::string(found.detail.empty() ? "" : BadPack().detail).swap(found.detail);
  }
  // What was read wrong once may have been the way, not the pack.
  absl::Status LookAgain(std::vector<PackToScan>& packs, std::vector<Suspect>& suspects);
  // Scans for what headers list, or else again for what the index lists.
  absl::Status ScanAgain(std::vector<PackToScan>& packs, std::vector<Suspect>& suspects,
                         bool by_header);
  void Conclude(const PackId& pack, absl::Span<const NumberedEntry> indexed, Suspect suspect);

  void CallBad(uint32_t ordinal, FindingKind kind, std::string detail);
  void ReportPack(uint32_t ordinal);

  const CallContext& ctx_;
  Repository& repository_;
  const CheckOptions& options_;
  std::vector<StoredSnapshot> snapshots_;  // oldest first
  std::vector<std::pair<Id, absl::Status>> unreadable_snapshots_;
  std::vector<FileInfo> readable_packs_;
  std::vector<FileInfo> unindexed_;
  std::vector<FileInfo> wrong_size_;
  std::atomic<int64_t> trees_done_ = 0;
  std::atomic<int64_t> trees_lost_ = 0;
  MemoryBudget::Share marks_share_;
  MemoryBudget::Share lists_share_;
  PackBits missing_packs_;               // that the index lists and the store does not have
  std::optional<BlobMarks> bad_copies_;  // By their own numbers: read, and not what they should be.
  std::optional<BlobMarks> bad_trees_;   // That do not read, or lack something.
  std::optional<BlobMarks> inner_trees_;           // With trees below them.
  absl::flat_hash_set<Id> malformed_;              // Snapshots of volumes.
  Mutex mutex_;                                    // Guards what follows while threads are at work.
  PackBits bad_;                                   // Stored; complete once the packs were read.
  bool has_bad_ = false;                           // or missing ones
  std::map<uint32_t, BadPack> bad_packs_;          // Of these; at most kFindingsMax.
  PackBits needed_;                                // A snapshot lacks a blob of it.
  PackBits needed_chunks_;                         // Of these, of chunks of a volume.
  absl::flat_hash_set<BlobId> roots_;              // Trees of snapshots.
  absl::flat_hash_set<BlobId> in_unindexed_;       // What is in no index, but in a pack.
  PackBits damaged_;                               // No backup is to rely on it.
  DistrustedPacks noted_;                          // ReadDamaged()
  absl::flat_hash_map<BlobId, uint32_t> missing_;  // In no index; and a tree that names it.
  VerifiedPacks& verified_;
  std::vector<VerdictRow> verified_snapshots_;
  int64_t bytes_to_read_ = 0;
  CheckReport report_;
};

void Checker::CallBad(uint32_t ordinal, FindingKind kind, std::string detail) {
  bad_[ordinal] = true;
  has_bad_ = true;
  if (bad_packs_.size() < kFindingsMax) {
    bad_packs_.emplace(ordinal, BadPack{.kind = kind, .detail = std::move(detail)});
  }
}

absl::StatusOr<CheckReport> Checker::Run() {
  ASSIGN_OR_RETURN(noted_, ReadDamaged(ctx_, repository_));
  RETURN_IF_ERROR(ListSnapshots());
  ASSIGN_OR_RETURN(const bool readable, CheckIndex());
  if (!readable) {  // All that follows is found by the index.
    report_.complete = false;
    ChooseRemedies({}, ctx_.clock->Now(), {}, report_);
    return std::move(report_);
  }
  const int64_t copies = index().entry_count();
  ASSIGN_OR_RETURN(
      marks_share_,
      repository_.memory().Take(
          copies * kCheckBitsPerCopy / 8 + int64_t{index().pack_count()} * kCheckBitsPerPack / 8,
          absl::StrCat("checking ", copies, " blobs in ", index().pack_count(), " packs")));
  bad_copies_.emplace(index());
  bad_trees_.emplace(index());
  inner_trees_.emplace(index());
  for (PackBits* bits : {&bad_, &needed_, &needed_chunks_, &damaged_}) {
    bits->resize(index().pack_count());
  }
  for (const PackId& pack : repository_.packs_listed_differently()) {
    CallDamaged(*index().FindPack(pack));
  }
  RETURN_IF_ERROR(verified_.Load(ctx_));
  RETURN_IF_ERROR(CheckPacks());
  // First what the packs hold, by which it is then known what snapshots lack.
  RETURN_IF_ERROR(ReadAll(wrong_size_, /*cut=*/true));
  RETURN_IF_ERROR(ReadPacks());
  ForgetVerified();
  RETURN_IF_ERROR(CheckTrees());
  RETURN_IF_ERROR(ReportBlobs());
  ReportPacks();
  ChooseRemedies(snapshots_, ctx_.clock->Now(), in_unindexed_, report_);
  RETURN_IF_ERROR(ListDamaged());
  NoteDamaged();
  ForgetVerified();
  const absl::Status saved = verified_.Save(ctx_, std::move(verified_snapshots_));
  report_.not_recorded = std::string(report_.packs_read > 0 ? saved.message() : "");
  report_.scratch_bytes = repository_.scratch().peak_bytes();
  return std::move(report_);
}

void Checker::Add(FindingKind kind, std::string thing, absl::string_view detail, Remedy remedy,
                  const Id& id) {
  const bool is_error = kind != FindingKind::kPackMixed && kind != FindingKind::kPackUnindexed;
  const MutexLock lock(mutex_);
  ++(is_error ? report_.errors : report_.notes);
  if (report_.findings.size() < kFindingsMax) {
    report_.findings.push_back({.kind = kind,
                                .is_error = is_error,
                                .thing = std::move(thing),
                                .detail = std::string(detail),
                                .id = id,
                                .remedy = remedy});
  }
}

absl::StatusOr<bool> Checker::CheckIndex() {
  ASSIGN_OR_RETURN(const std::vector<FileInfo> files,
                   repository_.ListFiles(ctx_, FileKind::kIndex));
  report_.index_files = static_cast<int64_t>(files.size());
  const absl::Status loaded = repository_.LoadIndex(ctx_);
  if (loaded.ok()) {
    for (const PackId& pack : repository_.packs_listed_differently()) {
      Add(FindingKind::kPackListedDifferently, PackName(pack),
          "two index files list different blobs in it", Remedy::kRepair, pack);
    }
    report_.packs = index().pack_count();
    report_.blobs = index().entry_count();
    return true;
  }
  if (!IsDamage(loaded)) {
    return loaded;
  }
  for (const FileInfo& file : files) {
    RETURN_IF_ERROR(ctx_.Check());
    const absl::Status status =
        repository_.ReadIndexFile(ctx_, file, [](const IndexedPack&) { return absl::OkStatus(); });
    if (IsDamage(status)) {
      Add(FindingKind::kIndexUnreadable, absl::StrCat("index ", file.id.Hex()), status.message(),
          Remedy::kRepair, file.id);
    } else if (!status.ok()) {
      return status;
    }
  }
  return false;
}

absl::Status Checker::CheckPacks() {
  missing_packs_.assign(index().pack_count(), true);
  RETURN_IF_ERROR(ListPacksFast(ctx_, repository_, [&](const FileInfo& file) {
    const std::optional<uint32_t> ordinal = index().FindPack(file.id);
    if (ordinal.has_value()) {
      missing_packs_[*ordinal] = false;
      return CheckPack(file, *ordinal);
    }
    Add(FindingKind::kPackUnindexed, PackName(file.id),
        "is in no index, as interrupted backups leave them", Remedy::kPrune, file.id);
    return Note(unindexed_, file);
  }));
  for (uint32_t i = 0; i < missing_packs_.size(); ++i) {
    // One that is listed in two ways is here twice.
    if (missing_packs_[i]) {
      missing_packs_[i] = index().FindPack(index().PackAt(i)) == i;
      has_bad_ |= missing_packs_[i];
    }
  }
  return absl::OkStatus();
}

absl::Status Checker::CheckPack(const FileInfo& file, uint32_t ordinal) {
  const PackInfo info = index().info(ordinal);
  if (file.size_bytes != info.stored_bytes) {
    CallBad(ordinal, FindingKind::kPackWrongSize,
            absl::StrCat("has ", file.size_bytes, " bytes instead of ", info.stored_bytes));
    return Note(wrong_size_, file);
  }
  if (info.has_data && info.has_tree) {
    Add(FindingKind::kPackMixed, PackName(file.id), "holds data and trees, which prune separates",
        Remedy::kPrune, file.id);
  }
  ++report_.packs_unchosen;
  report_.bytes_unchosen += file.size_bytes;
  if (!MayBeChosen(file, options_.read_data, options_.read_newer_than)) {
    return absl::OkStatus();
  }
  if (GoodAt(verified_.Of(ordinal)) >= options_.read_older_than &&
      file.modified_at <= options_.read_newer_than) {
    ++report_.packs_recent;
    report_.bytes_recent += file.size_bytes;
    return absl::OkStatus();
  }
  return Note(readable_packs_, file);
}

absl::Status Checker::ListSnapshots() {
  ASSIGN_OR_RETURN(snapshots_,
                   repository_.ListSnapshots(ctx_, [this](const Id& id, const absl::Status& why) {
                     unreadable_snapshots_.emplace_back(id, why);
                   }));
  return absl::OkStatus();
}

absl::Status Checker::CheckTrees() {
  for (const auto& [id, why] : unreadable_snapshots_) {
    Add(FindingKind::kSnapshotUnreadable, absl::StrCat("snapshot ", id.Hex()), why.message(),
        Remedy::kForgetFile, id);
    report_.unrestorable.push_back(id);
    report_.unreadable.push_back(id);
  }
  report_.snapshots = static_cast<int64_t>(snapshots_.size());
  if (options_.on_snapshot) {
    absl::c_for_each(snapshots_, options_.on_snapshot);
  }
  BlobMarks visited(index());
  RETURN_IF_ERROR(verified_.PrepareTrees());
  VolumeCheck volumes(repository_, verified_);
  RETURN_IF_ERROR(WalkAndCheckContent(visited, volumes));
  report_.trees = visited.count();
  RETURN_IF_ERROR(FindAncestors());
  RETURN_IF_ERROR(CheckVolumes(volumes));
  for (const StoredSnapshot& stored : snapshots_) {
    ASSIGN_OR_RETURN(const bool is_bad, IsBadTree(stored.snapshot.tree));
    if (is_bad || malformed_.contains(stored.id)) {
      report_.unrestorable.push_back(stored.id);
      if (IsVolume(stored.snapshot)) {
        report_.lost_volumes.push_back(stored.id);
      }
      for (const std::string& tag : stored.snapshot.tags) {
        if (report_.unrestorable_tags.size() < kFindingsMax) {
          report_.unrestorable_tags.push_back(tag);
        }
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Checker::IsBadTree(const BlobId& tree) const {
  ASSIGN_OR_RETURN(const std::optional<IndexedCopy> copy, index().FindTree(tree));
  return !copy.has_value() || bad_trees_->Contains(copy->first);
}

absl::Status Checker::FindAncestors() {
  bool found = bad_trees_->count() > 0 || trees_lost_ > 0;
  std::vector<BlobToFetch> inner;
  if (found) {
    RETURN_IF_ERROR(index().ForEach([&](const IndexedCopy& copy) {
      if (copy.number == copy.first && copy.entry.handle.type == BlobType::kTree &&
          inner_trees_->Contains(copy.first)) {
        inner.push_back({.handle = copy.entry.handle, .location = index().LocationOf(copy)});
      }
    }));
  }
  while (found) {
    const int64_t before = bad_trees_->count();
    RETURN_IF_ERROR(FetchBlobs(ctx_, repository_, inner,
                               [this](const FetchedBlob& blob) { return CheckByChildren(blob); }));
    found = bad_trees_->count() > before;
  }
  return absl::OkStatus();
}

absl::Status Checker::CheckByChildren(const FetchedBlob& tree) {
  std::vector<BlobId> below;
  absl::Status read = tree.plaintext.status();
  if (read.ok()) {
    read = ReadTreeNodes(*tree.plaintext, below, [](const Node&) { return absl::OkStatus(); });
  }
  if (!read.ok() && !IsDamage(read)) {
    return read;
  }
  bool is_bad = !read.ok();
  for (std::size_t i = 0; i < below.size() && !is_bad; ++i) {
    ASSIGN_OR_RETURN(is_bad, IsBadTree(below[i]));
  }
  return is_bad ? MarkBad(tree.handle.id) : absl::OkStatus();
}

absl::Status Checker::MarkBad(const BlobId& tree) {
  ASSIGN_OR_RETURN(const std::optional<IndexedCopy> copy, index().FindTree(tree));
  if (copy.has_value()) {
    bad_trees_->Mark(copy->first);
    RETURN_IF_ERROR(MarkNeeded(copy->entry.handle, /*is_chunk=*/false));
  }
  return absl::OkStatus();
}

absl::Status Checker::MarkNeeded(const BlobHandle& handle, bool is_chunk) {
  return index().ForEachCopyOf(handle, [&](const IndexedCopy& copy) {
    const MutexLock lock(mutex_);
    needed_[copy.pack_ordinal] = true;
    needed_chunks_[copy.pack_ordinal] = needed_chunks_[copy.pack_ordinal] || is_chunk;
    return true;
  });
}

absl::StatusOr<bool> Checker::IsLost(const IndexedCopy& first) const {
  if (!has_bad_) {
    return false;
  }
  bool lost = true;
  RETURN_IF_ERROR(index().ForEachCopyOf(first.entry.handle, [this, &lost](const IndexedCopy& copy) {
    lost = missing_packs_[copy.pack_ordinal] ||
           (bad_[copy.pack_ordinal] && bad_copies_->Contains(copy.number));
    return lost;
  }));
  return lost;
}

absl::Status Checker::WalkAndCheckContent(BlobMarks& visited, VolumeCheck& volumes) {
  const auto missing = [this](const BlobId& blob, uint32_t tree) {
    bad_trees_->Mark(tree);
    const MutexLock lock(mutex_);
    if (missing_.size() < kFindingsMax) {
      missing_.emplace(blob, tree);
    }
    return absl::OkStatus();
  };
  const auto listed = [this](const IndexedCopy& first, uint32_t tree) -> absl::Status {
    verified_.AddNeed(tree, first);
    ASSIGN_OR_RETURN(const bool lost, IsLost(first));
    if (lost) {
      bad_trees_->Mark(tree);
      ASSIGN_OR_RETURN(const PackEntry in, index().EntryOf(tree));
      RETURN_IF_ERROR(MarkNeeded(first.entry.handle, !roots_.contains(in.handle.id)));
    }
    return absl::OkStatus();
  };
  const auto wrong_size = [this](const ContentCheck::WrongSize& file) {
    return AddWrongSize(file);
  };
  const std::vector<BlobId> roots = RootsOf(snapshots_);
  roots_.insert(roots.begin(), roots.end());
  ContentCheck content(index(), repository_.scratch(), volumes,
                       {.missing = missing, .listed = listed, .wrong_size = wrong_size});
  RETURN_IF_ERROR(
      WalkTrees(ctx_, repository_, roots, visited,
                [&](const BlobId& tree, const absl::StatusOr<absl::string_view>& text,
                    std::vector<BlobId>& below) { return CheckTree(tree, text, below, content); }));
  Report(options_.progress, "content", 0, 0);
  return content.Finish();
}

absl::Status Checker::CheckTree(const BlobId& tree, const absl::StatusOr<absl::string_view>& text,
                                std::vector<BlobId>& below, ContentCheck& content) {
  Report(options_.progress, "trees", ++trees_done_, 0);
  absl::Status status = text.status();
  if (status.ok()) {
    ASSIGN_OR_RETURN(const std::optional<IndexedCopy> copy, index().FindTree(tree));
    uint32_t nodes = 0;
    status = ReadTreeNodes(*text, below, [&](const Node& node) {
      const uint32_t number = nodes++;
      return node.type == NodeType::kFile ? content.Add(copy->first, number, node)
                                          : absl::OkStatus();
    });
    if (!below.empty()) {
      inner_trees_->Mark(copy->first);
    }
  }
  if (IsDamage(status)) {
    Add(FindingKind::kTreeUnreadable, absl::StrCat("tree ", tree.Hex()), status.message(),
        Remedy::kBackUp, tree);
    ++trees_lost_;
    RETURN_IF_ERROR(index().ForEachCopyOf(
        {.type = BlobType::kTree, .id = tree}, [this](const IndexedCopy& copy) {
          const MutexLock lock(mutex_);
          CallDamaged(*index().FindPack(index().PackAt(copy.pack_ordinal)));
          return true;
        }));
    return MarkBad(tree);
  }
  return status;
}

absl::Status Checker::FindInUnindexed() {
  absl::flat_hash_set<BlobId> trees;
  for (const Finding& finding : report_.findings) {
    if (finding.kind == FindingKind::kTreeUnreadable) {
      trees.insert(finding.id);
    }
  }
  if (unindexed_.empty() || (missing_.empty() && trees.empty())) {
    return absl::OkStatus();
  }
  return ReadPackHeaders(
      ctx_, repository_, unindexed_,
      [&](const FileInfo&, const absl::StatusOr<std::vector<PackEntry>>& entries) {
        for (const PackEntry& entry : entries.ok() ? *entries : std::vector<PackEntry>()) {
          const BlobId& id = entry.handle.id;
          if (entry.handle.type == BlobType::kData ? missing_.contains(id) : trees.contains(id)) {
            in_unindexed_.insert(id);
          }
        }
        return entries.ok() || IsDamage(entries.status()) ? absl::OkStatus() : entries.status();
      });
}

absl::Status Checker::ReportBlobs() {
  RETURN_IF_ERROR(FindInUnindexed());
  for (const auto& [blob, tree] : missing_) {
    ASSIGN_OR_RETURN(const PackEntry entry, index().EntryOf(tree));
    const bool is_chunk = !roots_.contains(entry.handle.id);
    report_.lacks_chunks |= is_chunk && !in_unindexed_.contains(blob);
    // Without the tree: of several that name it, each check meets another first.
    Add(FindingKind::kBlobMissing, absl::StrCat(is_chunk ? "chunk " : "volume.json ", blob.Hex()),
        "is in no index", Remedy::kBackUp, blob);
  }
  return absl::OkStatus();
}

void Checker::ReportPacks() {
  for (uint32_t i = 0; has_bad_ && i < index().pack_count(); ++i) {
    if (missing_packs_[i] || bad_[i]) {
      ReportPack(i);
      CallDamaged(i);
    }
  }
}

void Checker::ReportPack(uint32_t ordinal) {
  const PackId id = index().PackAt(ordinal);
  const auto found = bad_packs_.find(ordinal);
  BadPack pack = found != bad_packs_.end() ? found->second : BadPack();
  if (missing_packs_[ordinal]) {
    pack = {.kind = FindingKind::kPackMissing, .detail = "is indexed, but not stored"};
  }
  // A snapshot or a tree that cannot be read may need it.
  const bool is_free = !needed_[ordinal] && trees_lost_ == 0 && unreadable_snapshots_.empty();
  if (is_free) {
    absl::StrAppend(&pack.detail, "; no snapshot needs what is lost with it");
  }
  report_.lacks_chunks |= needed_chunks_[ordinal];
  Add(pack.kind, PackName(id), pack.detail, is_free ? Remedy::kRepair : Remedy::kBackUp, id);
}

absl::Status Checker::ListDamaged() {
  for (uint32_t i = 0; i < damaged_.size(); ++i) {
    if (damaged_[i]) {
      ++report_.damaged_packs_found;
      if (report_.damaged_packs.size() < kFindingsMax) {
        report_.damaged_packs.push_back(index().PackAt(i));
      }
    }
  }
  if (report_.damaged_packs_found == 0) {
    return absl::OkStatus();
  }
  return ListPacksFast(ctx_, repository_, [&](const FileInfo& file) {
    const std::optional<uint32_t> ordinal = index().FindPack(file.id);
    if (ordinal.has_value() && damaged_[*ordinal]) {
      report_.damaged_until = std::max(report_.damaged_until, file.modified_at);
    }
    return absl::OkStatus();
  });
}

void Checker::NoteDamaged() {
  absl::flat_hash_set<PackId> damaged(report_.damaged_packs.begin(), report_.damaged_packs.end());
  for (const PackId& pack : noted_.packs) {
    if (report_.packs_read < report_.packs && index().FindPack(pack).has_value()) {
      damaged.insert(pack);
    }
  }
  if (damaged != noted_.packs) {
    const auto add = [](std::string* out, const PackId& id) { out->append(id.Hex()); };
    repository_.SaveSidecarAs(ctx_, kDamagedKey, absl::StrJoin(damaged, "\n", add)).IgnoreError();
  }
}

void Checker::ForgetVerified() {
  for (uint32_t i = 0; i < damaged_.size(); ++i) {
    if (missing_packs_[i] || bad_[i] || damaged_[i]) {
      verified_.Note(i, /*is_good=*/false, ctx_.clock->Now());
    }
  }
}

absl::Status Checker::AddWrongSize(const ContentCheck::WrongSize& wrong) {
  bad_trees_->Mark(wrong.tree);
  ASSIGN_OR_RETURN(const PackEntry entry, index().EntryOf(wrong.tree));
  ASSIGN_OR_RETURN(const std::string text, repository_.LoadBlob(ctx_, entry.handle));
  uint32_t nodes = 0;
  return DecodeTree(text, [&](const Node& node) {
    if (nodes++ == wrong.node) {
      Add(FindingKind::kFileWrongSize,
          absl::StrCat("file \"", node.name, "\" in tree ", entry.handle.id.Hex()),
          absl::StrCat("says ", node.size_bytes, " bytes, but its content has ",
                       node.size_bytes - wrong.absent_bytes),
          Remedy::kBackUp, entry.handle.id);
    }
    return absl::OkStatus();
  });
}

absl::Status Checker::CheckVolumes(VolumeCheck& volumes) {
  int64_t done = 0;
  for (const auto& [id, snapshot] : snapshots_) {
    Report(options_.progress, "volumes", done++, snapshots_.size());
    ASSIGN_OR_RETURN(const bool is_bad, IsBadTree(snapshot.tree));
    if (!IsVolume(snapshot) || is_bad) {  // What it lacks is a finding already.
      continue;
    }
    const absl::Status status = volumes.Check(ctx_, snapshot);
    if (IsDamage(status) || absl::IsFailedPrecondition(status)) {
      Add(FindingKind::kVolumeMalformed, absl::StrCat("snapshot ", id.Hex()), status.message(),
          Remedy::kBackUp, id);
      malformed_.insert(id);
    } else if (!status.ok()) {
      return status;
    } else if (volumes.oldest() != 0) {
      verified_snapshots_.push_back(VerdictRow::Of(id, volumes.oldest()));
    }
  }
  return absl::OkStatus();
}

absl::Status Checker::ReadPacks() {
  const std::vector<FileInfo> packs = ChoosePacks(std::move(readable_packs_), options_.read_data,
                                                  options_.read_newer_than, options_.seed);
  for (const FileInfo& pack : packs) {
    bytes_to_read_ += pack.size_bytes;
  }
  report_.packs_unchosen -= report_.packs_recent + std::ssize(packs);
  report_.bytes_unchosen -= report_.bytes_recent + bytes_to_read_;
  if (bytes_to_read_ > 0) {
    Report(options_.progress, kReadingPacks, 0, bytes_to_read_);
  }
  return ReadAll(packs, /*cut=*/false);
}

absl::Status Checker::ReadAll(absl::Span<const FileInfo> packs, bool cut) {
  MemoryBudget& memory = repository_.memory();
  std::vector<uint32_t> ordinals;
  for (const FileInfo& pack : packs) {
    ordinals.push_back(*index().FindPack(pack.id));
  }
  const int64_t blobs_max = BlobsPerPass(memory.free_bytes());
  absl::Span<const uint32_t> left = ordinals;
  while (!left.empty()) {
    const std::size_t pass = PacksOfPass(index(), left, blobs_max);
    ASSIGN_OR_RETURN(HeldContents held, TakeContents(memory, index(), left.first(pass)));
    RETURN_IF_ERROR(ReadTogether(packs.first(pass), held.contents, cut));
    packs.remove_prefix(pass);
    left.remove_prefix(pass);
  }
  return absl::OkStatus();
}

absl::Status Checker::ReadTogether(absl::Span<const FileInfo> packs, PackContents& contents,
                                   bool cut) {
  std::vector<PackToScan> scans;
  std::vector<absl::Span<const NumberedEntry>> indexed;
  std::vector<Suspect> suspects;
  for (const FileInfo& pack : packs) {
    const uint32_t ordinal = *index().FindPack(pack.id);
    std::vector<NumberedEntry>& entries = contents.at(ordinal);
    if (!cut && pack.size_bytes > kPackReadBytesMax) {
      std::vector<std::size_t> all(entries.size());
      std::iota(all.begin(), all.end(), 0);
      MarkBadCopies(entries, all);
      CallBad(ordinal, FindingKind::kPackDamaged, "is longer than any writer makes packs");
      CountRead(pack);
      continue;
    }
    scans.push_back({.file = pack, .blobs = SortByOffset(entries)});
    indexed.push_back(entries);
  }
  const auto note = [&](std::size_t i, PackFindings found) {
    const MutexLock lock(mutex_);
    if (!found.detail.empty() || !found.is_listed_so) {
      Shorten(found);  // The second look says how.
      Suspect suspect = {
          .pack = i, .damaged = std::move(found.damaged), .is_listed_so = found.is_listed_so};
      suspect.found = std::move(found);
      suspects.push_back(std::move(suspect));
    } else if (!cut) {
      verified_.Note(*index().FindPack(scans[i].file.id), /*is_good=*/true, ctx_.clock->Now());
    }
    if (!cut) {
      CountRead(scans[i].file);
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(ScanPacks(ctx_, repository_, scans, cut ? kMebibyte : kPieceBytesMax, note));
  RETURN_IF_ERROR(cut ? absl::OkStatus() : LookAgain(scans, suspects));
  for (Suspect& suspect : suspects) {
    const std::size_t i = suspect.pack;
    if (cut) {
      MarkBadCopies(indexed[i], suspect.damaged);
    } else {
      Conclude(scans[i].file.id, indexed[i], std::move(suspect));
    }
  }
  return absl::OkStatus();
}

void Checker::CountRead(const FileInfo& pack) {
  report_.bytes_read += pack.size_bytes;
  ++report_.packs_read;
  Report(options_.progress, kReadingPacks, report_.bytes_read, bytes_to_read_);
}

void Checker::MarkBadCopies(absl::Span<const NumberedEntry> indexed,
                            absl::Span<const std::size_t> numbers) {
  for (const std::size_t number : numbers) {
    bad_copies_->Mark(indexed[number].copy);
  }
}

absl::Status Checker::LookAgain(std::vector<PackToScan>& packs, std::vector<Suspect>& suspects) {
  RETURN_IF_ERROR(ScanAgain(packs, suspects, /*by_header=*/true));
  RETURN_IF_ERROR(ScanAgain(packs, suspects, /*by_header=*/false));
  return ScanAgain(packs, suspects, /*by_header=*/true);
}

absl::Status Checker::ScanAgain(std::vector<PackToScan>& packs, std::vector<Suspect>& suspects,
                                bool by_header) {
  std::vector<PackToScan> scans;
  std::vector<Suspect*> scanned;
  for (Suspect& suspect : suspects) {
    if (by_header ? !suspect.found.header.empty() : !suspect.found.detail.empty()) {
      PackToScan& pack = packs[suspect.pack];
      scans.push_back(
          {.file = pack.file, .blobs = std::move(by_header ? suspect.found.header : pack.blobs)});
      scanned.push_back(&suspect);
    }
  }
  const auto note = [&](std::size_t i, PackFindings found) {
    if (!by_header) {
      scanned[i]->damaged = std::move(found.damaged);
      scanned[i]->is_listed_so = found.is_listed_so;
    }
    if (i >= kFindingsMax) {
      Shorten(found);
    }
    scanned[i]->found = std::move(found);
    return absl::OkStatus();
  };
  return scans.empty() ? absl::OkStatus()
                       : ScanPacks(ctx_, repository_, scans, kPieceBytesMax, note);
}

void Checker::Conclude(const PackId& pack, absl::Span<const NumberedEntry> indexed,
                       Suspect suspect) {
  const uint32_t ordinal = *index().FindPack(pack);
  if (!suspect.found.detail.empty()) {
    MarkBadCopies(indexed, suspect.damaged);
    CallBad(ordinal, FindingKind::kPackDamaged, std::move(suspect.found.detail));
  } else if (!suspect.is_listed_so) {
    Add(FindingKind::kPackListedDifferently, PackName(pack),
        "its header lists other blobs than the index", Remedy::kRepair, pack);
    CallDamaged(ordinal);
  } else {
    verified_.Note(ordinal, /*is_good=*/true, ctx_.clock->Now());
  }
}

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
  VerifiedPacks verified(repository);
  absl::StatusOr<CheckReport> report = Checker(ctx, repository, options, verified).Run();
  if (!report.ok()) {  // It may have read for hours.
    verified.Save(FinalContext(ctx), std::nullopt).IgnoreError();
  }
  return report;
}

}  // namespace csidelta::repository
