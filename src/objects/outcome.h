#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/json.h"
#include "base/json_fields.h"

// How the work of a worker ended: VolumeTask.status.outcome, which the worker writes and the
// controller reads, both with the codec below. Programs decide by code, cause and figures; the
// message is for people.
namespace csidelta::objects {

inline constexpr std::size_t kDamagedPacksMax = 64;

// The parts of a repository that no new backup may rely on, as its newest check found them. It is
// part of that check's outcome, of the volume's record, and of the next upload's job. Other damage
// than packs, such as a chunk that no index lists, is not in the fields.
struct RepositoryDamage {
  std::vector<std::string> packs = {};  // IsPackId(); at most kDamagedPacksMax
  int64_t packs_found = 0;              // all, also those that are not among `packs`
  // If `packs` does not have all: no damaged pack was written later, by the clock of the store. Not
  // set where the store tells no times.
  std::optional<absl::Time> written_until = {};

  friend bool operator==(const RepositoryDamage&, const RepositoryDamage&) = default;
};

// 64 lower-case hexadecimal digits.
bool IsPackId(absl::string_view text);

// A reader that refuses nothing omits packs that are not ids, and those beyond the limit.
inline constexpr auto kRepositoryDamageFields = [](auto& fields, auto& damage) {
  fields("packs", damage.packs, CountMax{kDamagedPacksMax}, OnlyTexts{IsPackId});
  fields("packsFound", damage.packs_found);
  fields("writtenUntil", damage.written_until);
};

inline constexpr std::size_t kOutcomeMessageBytesMax = 4096;
inline constexpr std::size_t kOutcomeTextBytesMax = 300;  // of each text among the figures
inline constexpr std::size_t kOutcomeLocksMax = 64;

enum class OutcomeCode {
  kDone,     // what was asked for is there; `cause` may say what was wrong on the way
  kFailed,   // it is not; `cause` and `message` say why
  kStopped,  // it was told to stop before it finished
};
// "Done".
std::string ToString(OutcomeCode code);

// Why, as far as it makes a difference to the controller.
enum class OutcomeCause {
  kNone,
  kNoRepository,   // there is no repository at that address
  kLocked,         // others use the repository: `locks`
  kNoKey,          // no key that the worker has opens the repository
  kRetained,       // the bucket refuses to delete an object: an object lock, or a missing right
  kAuditMismatch,  // of a backup that is good: the list of changed blocks omitted some
  kListRefused,    // of a backup that is good: the list contradicts itself or the volume
};
// "Locked"; "" for kNone.
std::string ToString(OutcomeCause cause);

// What a backup did. Bytes and milliseconds.
struct BackupFigures {
  std::string snapshot_id = {};
  std::string mode = {};           // "full", "incremental"
  std::string reason = {};         // incremental::FullReasonText::name; "" for an incremental one
  std::string reason_detail = {};  // may be ""
  std::string base = {};           // the parent's snapshot
  int64_t logical_bytes = 0;
  int64_t changed_bytes = 0;
  int64_t read_bytes = 0;
  int64_t audit_bytes = 0;
  int64_t stored_bytes = 0;
  int64_t retries = 0;
  int64_t duration_ms = 0;
  int64_t audit_ms = 0;
  int64_t peak_memory_bytes = 0;
  std::optional<int64_t> repository_bytes = {};  // where it was measured
  std::optional<int64_t> repository_snapshots = {};

  friend bool operator==(const BackupFigures&, const BackupFigures&) = default;
};

// Why it was full, as annotations and records have it: "parent-damaged: pack 6e0ca2f1 is gone"; ""
// for an incremental one.
std::string ReasonText(const BackupFigures& figures);

// What a restore did.
struct RestoreFigures {
  std::string file_system = {};  // that the volume holds; "" for none that we know
  int64_t logical_bytes = 0;
  int64_t compared_bytes = 0;
  int64_t written_bytes = 0;
  int64_t zero_bytes = 0;
  int64_t kept_bytes = 0;
  // What the repository snapshot says of itself: the cluster, and /NAMESPACE/PVC.
  std::string host = {};
  std::string path = {};

  friend bool operator==(const RestoreFigures&, const RestoreFigures&) = default;
};

// The numbers as kRestoredBytesAnnotation has them: a JSON object. Reading, all are 0 in what is
// none.
std::string FormatRestoredBytes(const RestoreFigures& figures);
RestoreFigures ParseRestoredBytes(absl::string_view text);

inline constexpr std::size_t kCheckFindingsMax = 20;
inline constexpr std::size_t kCheckTagsMax = 1000;

inline constexpr std::size_t kOrphansMax = 100;

// A repository snapshot of an upload that the check's job does not name.
struct OrphanedSnapshot {
  std::string id = {};          // 64 hexadecimal digits
  std::string upload_tag = {};  // "du-<uid>"
  std::string backup = {};      // "<namespace>/<name>" of the Backup; "": not recorded
  std::string made_at = {};     // RFC 3339

  friend bool operator==(const OrphanedSnapshot&, const OrphanedSnapshot&) = default;
};

// What a renewal of object locks did.
struct LockFigures {
  int64_t objects = 0;  // that snapshots need
  int64_t due = 0;      // of these, whose turn it was
  int64_t extended = 0;
  int64_t failed = 0;                      // all, also those that are not among `findings`
  std::vector<std::string> findings = {};  // for people, at most kCheckFindingsMax
  int64_t requests = 0;
  std::optional<absl::Time> earliest =
      {};  // the first end of a lock among the objects that were due

  friend bool operator==(const LockFigures&, const LockFigures&) = default;
};

// What a check of a repository read and found. A check that finds damage is Done: it did its work.
struct CheckFigures {
  int64_t packs = 0;
  int64_t packs_read = 0;
  int64_t read_bytes = 0;
  int64_t snapshots = 0;
  int64_t errors = 0;                          // all, also those that are not among `findings`
  std::vector<std::string> findings = {};      // for people, at most kCheckFindingsMax
  int64_t broken_snapshots = 0;                // that cannot be restored
  std::vector<std::string> broken_tags = {};   // of these: "du-<uid>"; at most kCheckTagsMax
  int64_t orphans_found = 0;                   // all, also those that are not among `orphans`
  std::vector<OrphanedSnapshot> orphans = {};  // the oldest, at most kOrphansMax
  RepositoryDamage damage = {};
  std::optional<LockFigures> locks = {};  // where the job asks for a renewal

  friend bool operator==(const CheckFigures&, const CheckFigures&) = default;
};

struct Outcome {
  OutcomeCode code = OutcomeCode::kFailed;
  OutcomeCause cause = OutcomeCause::kNone;
  // What went wrong, in one sentence; of a deletion that is done, what stays locked; else "".
  std::string message = {};
  std::vector<std::string> locks = {};  // of kLocked: their ids, 64 hexadecimal digits each
  std::optional<BackupFigures> backup = {};
  std::optional<RestoreFigures> restore = {};
  std::optional<CheckFigures> check = {};

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// As part of a merge patch: what is not set is null, so that nothing of a run before stays. Texts
// and lists are cut to their limits.
Json ToJson(const Outcome& outcome);

// Reads what ToJson() writes. It comes out of a Pod, so every field may be missing or absurd: such
// a field counts as not set, a negative count as 0. Nothing when `json` is no object with a known
// code.
std::optional<Outcome> ReadOutcome(const Json& json);

}  // namespace csidelta::objects
