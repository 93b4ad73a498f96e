#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "repository/blob.h"
#include "repository/maintenance.h"
#include "repository/repo_snapshot.h"
#include "repository/repository.h"

// Proves a repository: that every snapshot can be restored, as far as metadata tell, and on demand
// that every stored byte is what it should be.
namespace csidelta::repository {

enum class FindingKind {
  kIndexUnreadable,
  kPackListedDifferently,
  kPackMissing,
  kPackWrongSize,
  kPackMixed,      // A note: data and trees in one pack.
  kPackUnindexed,  // A note: left by a backup that was cut off.
  kPackDamaged,    // Found by reading it.
  kSnapshotUnreadable,
  kTreeUnreadable,
  kBlobMissing,     // A file names a blob that no index lists.
  kFileWrongSize,   // A file's size is not that of its content.
  kVolumeMalformed  // Not the trees that a volume of its manifest's size has.
};

// "pack-missing", ...: for machines.
absl::string_view NameOf(FindingKind kind);

// What helps against damage, in the order in which it is done: of a report, the first.
enum class Remedy {
  kRepair,      // All that a snapshot needs is stored, so no volume is needed.
  kBackUp,      // A new backup that reads everything stores again what the volume still has.
  kForgetFile,  // Of a snapshot whose file does not read: what it needs is not known.
  kForget,      // The newest backup of each volume is whole, so the volumes have changed since.
  kRestic,      // What is left is lost to snapshots of files alone.
  kPrune        // Of notes.
};

struct Finding {
  FindingKind kind = FindingKind::kIndexUnreadable;
  bool is_error = true;  // Else a note: nothing is lost.
  std::string thing;     // "pack 0a1b2c3d...": with the whole id
  std::string detail;    // What is wrong with it.
  Id id = {};            // Of the pack, tree, blob or file; null if it has none.
  Remedy remedy = Remedy::kRepair;
  std::string next_step = {};  // The command that does it.
};

// Findings beyond it are only counted.
inline constexpr std::size_t kFindingsMax = 10'000;

struct CheckReport {
  std::vector<Finding> findings;
  int64_t errors = 0;  // All, also those beyond kFindingsMax.
  int64_t notes = 0;
  int64_t snapshots = 0;
  int64_t index_files = 0;
  int64_t packs = 0;
  int64_t blobs = 0;
  int64_t trees = 0;
  int64_t packs_read = 0;
  int64_t bytes_read = 0;
  // Not read: verified not long ago; or, of the others, not in the subset.
  int64_t packs_recent = 0;
  int64_t bytes_recent = 0;
  int64_t packs_unchosen = 0;
  int64_t bytes_unchosen = 0;
  // "" or why what was read is not in the repository's record of verified packs.
  std::string not_recorded;
  int64_t scratch_bytes = 0;  // The most that lay in scratch files.
  // Snapshots that lack a tree or a chunk, or do not read, oldest first. All others can be
  // restored, as far as was looked: bytes are read with `read_data` only.
  std::vector<Id> unrestorable;
  std::vector<std::string> unrestorable_tags;  // Of these, at most kFindingsMax.
  std::vector<Id> unreadable;                  // Of these, the ones whose own file does not read.
  std::vector<Id> lost_volumes;                // And the snapshots of volumes whose files read.
  bool lacks_chunks = false;                   // An image of a volume may have what is lost.
  // Packs that errors are of, and those of trees that do not read, by their ids; at most
  // kFindingsMax. A new backup is not to rely on them.
  std::vector<PackId> damaged_packs;
  int64_t damaged_packs_found = 0;                  // All, also those beyond kFindingsMax.
  absl::Time damaged_until = absl::InfinitePast();  // When the newest of all was written.
  // False when the index does not read: then nothing else was looked at.
  bool complete = true;
  // Of the first remedy of all errors: a command that changes something, whatever was run before.
  // "" without errors.
  std::string next_step;

  bool ok() const { return errors == 0; }
};

// Which packs to read.
struct ReadNothing {};
struct ReadEverything {};
// Part `part` of `parts`, from 1: over all parts each pack is read once, whatever comes and goes.
struct ReadPart {
  int64_t part = 1;
  int64_t parts = 1;
};
// Packs drawn at random.
struct ReadShare {
  double percent = 100;
};
struct ReadBytes {
  int64_t bytes = 0;
};
using DataSubset = std::variant<ReadNothing, ReadEverything, ReadPart, ReadShare, ReadBytes>;

// "2/7", "10%" or "500M". INVALID_ARGUMENT otherwise.
absl::StatusOr<DataSubset> ParseDataSubset(absl::string_view text);

// Those of `packs` to read, the same ones for the same seed; at least one if there are any, but for
// a part, which may be empty. Pure.
std::vector<FileInfo> ChooseSubset(std::vector<FileInfo> packs, const DataSubset& subset,
                                   uint64_t seed);
// Whether ChoosePacks() may choose this one, by what is known without the others. Pure.
bool MayBeChosen(const FileInfo& pack, const DataSubset& subset, absl::Time read_newer_than);
// The same after all that were written later than `read_newer_than`.
std::vector<FileInfo> ChoosePacks(std::vector<FileInfo> packs, const DataSubset& subset,
                                  absl::Time read_newer_than, uint64_t seed);

struct CheckOptions {
  DataSubset read_data = ReadNothing{};
  // Packs written later than this are read besides, whatever `read_data` says; they are read first.
  absl::Time read_newer_than = absl::InfiniteFuture();
  // Of `read_data`, only packs that were last verified before, or never.
  absl::Time read_older_than = absl::InfiniteFuture();
  uint64_t seed = 0;  // Of what is drawn; the caller says which it was.
  ProgressReporter progress = nullptr;
  // Called with each snapshot whose file reads, oldest first; may be empty.
  std::function<void(const StoredSnapshot& snapshot)> on_snapshot = {};
};

// Damage is a finding; the status is an error only when the store does not answer or `ctx` ends. A
// lock is the caller's: beside a running prune there is no clean result. Backups may run: what they
// add after the call began is not looked at. Notes the damaged packs for ReadDamaged(), if the
// store can be written to, and which packs were verified when, as far as it got. Memory is taken
// from the repository's budget: beside the index a few bits per blob and pack, 56 bytes for each
// pack that is read or in no index, that of ContentCheck, and when reading data pieces of packs, as
// many and as long as is free.
absl::StatusOr<CheckReport> CheckRepository(const CallContext& ctx, Repository& repository,
                                            const CheckOptions& options);

}  // namespace csidelta::repository
