#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "base/memory_budget.h"
#include "repository/repo_snapshot.h"
#include "repository/repository.h"

// Which packs checks have read and verified, and when: kept in the repository, so that it is known
// wherever the repository is. Sidecars: restic does not see them, and they open under their own
// names alone. A file that does not open or decode says nothing.
namespace csidelta::repository {

inline constexpr char kVerifiedFolder[] = "aux/v1/verified/";
inline constexpr char kVerifiedSnapshotsKey[] = "aux/v1/verified/snapshots";

// Minutes since 1970, twice; 1 more for what was found damaged then. 0: not known. Of two the
// greater counts: the later one, and damage before a good reading of the same minute.
using Verdict = uint32_t;
Verdict VerdictAt(absl::Time time, bool is_good);
// When it was good; nothing if it was not, or is not known.
std::optional<absl::Time> GoodAt(Verdict verdict);

struct VerdictRow {
  static constexpr std::size_t kNameBytes = 12;
  static constexpr std::size_t kBytes = kNameBytes + sizeof(Verdict);

  std::array<uint8_t, kNameBytes> name = {};  // how an id begins
  Verdict verdict = 0;

  static VerdictRow Of(const Id& id, Verdict verdict);
  friend auto operator<=>(const VerdictRow&, const VerdictRow&) = default;
};

// One file, as a value: rows of packs, or of snapshots with what they were computed from.
//
// The text, little-endian: "CSDV", u32 version 1, u32 number of inputs; then inputs and rows, each
// 12 bytes of a name and u32 verdict. That of an input is 0 for a file of packs, whose name is the
// SHA-256 of its key, and 1 for an index file.
struct VerdictFile {
  std::vector<VerdictRow> inputs = {};
  std::vector<VerdictRow> rows = {};

  std::string Encode() const;
  // INVALID_ARGUMENT when malformed, or of another version.
  static absl::StatusOr<VerdictFile> Decode(absl::string_view text);
};

// The record as one check sees and writes it.
//
//   Load() --> Note()* --> PrepareTrees(), AddNeed()* --> Save()
//
// It is files "packs-<random>" of kVerifiedFolder, whose rows are merged. Save() writes them again,
// without packs that are gone, and then deletes those that it has merged. So nothing is lost by
// checks that run side by side, or by one that is killed between its steps.
//
// Memory: 4 bytes for each pack, and for each tree, if that is at most a quarter of what is free.
// Otherwise nothing is known, and Save() says why. Borrows the repository.
class VerifiedPacks {
 public:
  explicit VerifiedPacks(Repository& repository) : repository_(repository) {}

  // REQUIRES an index that was just loaded: packs that are not in it are gone. An error only when
  // the store does not answer.
  absl::Status Load(const CallContext& ctx);

  // By its ordinal in the index. 0 for a damaged pack.
  Verdict Of(uint32_t pack) const {
    return pack < packs_.size() && packs_[pack] % 2 == 0 ? packs_[pack] : 0;
  }
  // A pack was read and is good, or it is damaged.
  void Note(uint32_t pack, bool is_good, absl::Time now);

  // The oldest verdict of the packs that hold a tree, its content, and the trees below it, as far
  // as they were added: blobs and trees by their first copies in the index.
  absl::Status PrepareTrees();
  void AddNeed(uint32_t tree, const IndexedCopy& blob);
  Verdict OfTree(const IndexedCopy& tree) const;

  // Of the snapshots that there are, by OfTree(): nothing where a check did not get so far.
  absl::Status Save(const CallContext& ctx, std::optional<std::vector<VerdictRow>> snapshots);

 private:
  void Merge(const VerdictFile& file, absl::Time now);
  absl::Status Write(const CallContext& ctx);

  Repository& repository_;
  MemoryBudget::Share share_;
  MemoryBudget::Share trees_share_;
  absl::Status unknown_;            // why nothing is known
  std::vector<Verdict> packs_;      // by their ordinals
  std::vector<Verdict> trees_;      // by their numbers in the index
  std::vector<std::string> files_;  // merged into packs_, or of no use
  bool is_changed_ = false;
};

// As of when all blobs of snapshots were verified, if that is known. Of none if packs may have been
// removed since it was computed, or another check has recorded something since: the next check
// knows again. Costs three requests.
absl::StatusOr<std::map<Id, absl::Time>> ReadVerifiedSnapshots(
    const CallContext& ctx, const Repository& repository,
    absl::Span<const StoredSnapshot> snapshots);

}  // namespace csidelta::repository
