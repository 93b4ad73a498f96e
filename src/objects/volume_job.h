#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/enum_names.h"
#include "base/json.h"
#include "objects/outcome.h"

// The job of a worker: VolumeTask.spec.job. The controller writes it before it makes the worker's
// Pod, and the worker reads it when it begins, both with the codec below. It has no secret in it:
// those are files of the worker's Secret. deploy/chart/crds/volumetask.yaml is its schema.
namespace csidelta::objects {

// When an incremental backup would become a full one.
enum class OnFallback { kProceed, kWarn, kFail };
inline constexpr EnumNames<OnFallback, 3> kOnFallbackNames = {
    {{OnFallback::kProceed, "proceed"}, {OnFallback::kWarn, "warn"}, {OnFallback::kFail, "fail"}}};

// "warn".
inline std::string ToString(OnFallback on_fallback) {
  return EnumName(kOnFallbackNames, on_fallback);
}
// What ToString() says; nothing for any other text.
inline std::optional<OnFallback> ParseOnFallback(absl::string_view text) {
  return EnumValue(kOnFallbackNames, text);
}

// How each object is locked when it is put, and by a renewal.
struct JobObjectLock {
  std::string mode = {};  // "GOVERNANCE", "COMPLIANCE"
  int64_t days = 0;

  friend bool operator==(const JobObjectLock&, const JobObjectLock&) = default;
};
inline constexpr int64_t kObjectLockDaysMin = 14;
inline constexpr int64_t kObjectLockDaysMax = 36'500;

// The repository, and how to get at it.
struct JobRepository {
  std::string address = {};        // as --repo of csi-delta and -r of restic have it
  std::string region = {};         // "": that of the worker's environment
  std::string bucket_lookup = {};  // "auto", "dns", "path"; "": auto
  std::string encryption = {};     // of the bucket: "AES256", "aws:kms"; "": none is asked for
  std::string kms_key_id = {};
  std::string tagging = {};  // KEY=VALUE&KEY=VALUE
  // NAME=VALUE, as -o of csi-delta has them. A map would keep what is no longer set.
  std::vector<std::string> options = {};
  std::optional<JobObjectLock> object_lock = {};
  bool insecure_tls = false;
  bool is_read_only = false;      // no lock is taken, and nothing written
  bool has_certificates = false;  // kCaFile of the Secret is trusted besides
  bool has_keyring = false;       // kKeyringFile of the Secret; else RESTIC_PASSWORD and its kin

  friend bool operator==(const JobRepository&, const JobRepository&) = default;
};

// How fast a worker may send to and read from its bucket, in KiB a second. 0: no limit.
struct JobRates {
  int64_t upload = 0;
  int64_t download = 0;

  friend bool operator==(const JobRates&, const JobRates&) = default;
};
// Names of the fields of both; for JSON.
inline constexpr auto kJobRateFields = [](auto& fields, auto& rates) {
  fields("uploadKiBPerSecond", rates.upload);
  fields("downloadKiBPerSecond", rates.download);
};

// Limits of the worker. 0: no limit.
struct JobLimits {
  int64_t memory_bytes = 0;  // of buffers, within what its container may have
  JobRates rates = {};       // change while the worker runs

  friend bool operator==(const JobLimits&, const JobLimits&) = default;
};

// Back up the device; a missing repository is made.
struct UploadWork {
  std::string device = {};  // a path in the worker's container
  std::string host = {};    // of the repository snapshot: the cluster
  std::string path = {};    // of the repository snapshot: /NAMESPACE/PVC
  std::string volume_snapshot =
      {};  // NAMESPACE/NAME that the device was made of; "": none is asked
  std::vector<std::string> tags = {};
  OnFallback on_fallback = OnFallback::kWarn;
  bool is_full = false;      // a full backup is requested
  std::string parent = {};   // the id of the repository snapshot to build on; "": the newest
  std::string pvc_uid = {};  // a parent of another PVC is compared by content alone
  std::string restored_snapshot = {};  // which filled the PVC, where the repository is another's
  std::string why_no_parent = {};      // where the controller knows
  // Of a DifferentialSnapshot: NAME=VALUE. A map would keep what is no longer set, as a job is
  // merged into the one before it.
  std::vector<std::string> driver_parameters = {};
  // What the newest check of the repository found; nothing: no damage.
  std::optional<RepositoryDamage> damage = {};

  friend bool operator==(const UploadWork&, const UploadWork&) = default;
};

// Restore to the device.
struct DownloadWork {
  std::string device = {};
  std::string snapshot_id = {};
  bool only_differing = false;                  // read the device first
  std::optional<absl::Time> start_before = {};  // later nothing is written

  friend bool operator==(const DownloadWork&, const DownloadWork&) = default;
};

// One of both.
struct ForgetItem {
  std::string snapshot_id = {};  // of the repository snapshot, in full
  std::string tag = {};          // all repository snapshots that have it

  friend auto operator<=>(const ForgetItem&, const ForgetItem&) = default;
};

inline constexpr std::size_t kForgetItemsMax = 500;

// Remove repository snapshots of one repository, then free their space. One that was not found
// counts as removed.
struct ForgetWork {
  std::vector<ForgetItem> items = {};  // 1 to kForgetItemsMax
  // As in UploadWork: of a blob with several copies a damaged one is not the one that stays.
  std::optional<RepositoryDamage> damage = {};

  friend bool operator==(const ForgetWork&, const ForgetWork&) = default;
};

// Read part of the repository's data, beside backups, and see whether each backup can be restored.
struct CheckWork {
  int64_t part = 1;  // of `parts`, from 1; over all parts each pack is read once
  int64_t parts = 1;
  std::optional<absl::Time> read_newer_than = {};  // packs written later are read besides, first
  // Repository snapshots with this host that were made before `orphans_before`, by an upload whose
  // tag is not in `known_tags`, are reported. "": none is.
  std::string host = {};
  std::vector<std::string> known_tags = {};  // "du-<uid>", at most kKnownTagsMax
  std::optional<absl::Time> orphans_before = {};
  // Before the check, extend the object locks of what snapshots need: of the objects whose turn
  // came since `locks_renewed_at`, or of all. Nothing: extend none.
  std::optional<JobObjectLock> renew_locks = {};
  std::optional<absl::Time> locks_renewed_at = {};

  friend bool operator==(const CheckWork&, const CheckWork&) = default;
};
inline constexpr int64_t kCheckPartsMax = 10'000;
inline constexpr std::size_t kKnownTagsMax = 5'000;

using VolumeWork = std::variant<UploadWork, DownloadWork, ForgetWork, CheckWork>;

struct VolumeJob {
  JobRepository repository = {};
  JobLimits limits = {};
  // How long to wait for locks of other clients; nothing: until a stale one expires.
  std::optional<absl::Duration> lock_wait = {};
  std::vector<std::string> ended_pods = {};  // uids: the locks of these are dead
  VolumeWork work = {};

  friend bool operator==(const VolumeJob&, const VolumeJob&) = default;
};

// As a merge patch of spec.job: what is not set is null, so that nothing of a job before stays.
Json ToJson(const VolumeJob& job);

// Reads what ToJson() leaves where it is merged. INVALID_ARGUMENT names the path of a field that is
// missing, of the wrong type or out of range, or that this version does not know. A job that is not
// wholly understood is not done.
absl::StatusOr<VolumeJob> ReadJob(const Json& json);

}  // namespace csidelta::objects
