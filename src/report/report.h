#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/json_reader.h"

// What is known of the backups of many volumes over some time, and its JSON. Values; pure.
namespace csidelta::report {

enum class BackupState {
  kGood,
  kFailed,
  kBroken,  // it was good, and cannot be restored any more
};

// One attempt to back a volume up. A figure that is not known has no value.
struct BackupEntry {
  absl::Time at = {};  // that it restores; of a failed one, when it was requested
  BackupState state = BackupState::kGood;
  std::string backup = {};    // of Velero
  std::string snapshot = {};  // in the repository: the first digits of its id
  std::string base = {};      // that it was built on, likewise
  std::string mode = {};      // "full", "incremental"
  std::string reason = {};    // why it was full, by name
  std::string message = {};   // why it failed, or is broken
  int64_t size_bytes = 0;     // of the volume
  std::optional<int64_t> changed_bytes = {};
  std::optional<int64_t> read_bytes = {};
  std::optional<int64_t> audit_bytes = {};  // read again, though they were listed as unchanged
  std::optional<int64_t> stored_bytes = {};
};

struct VolumeEntry {
  std::string name = {};                    // "shop/orders"
  std::string location = {};                // "velero/default", or the repository
  std::vector<std::string> schedules = {};  // crons of Velero that back it up
  std::optional<absl::Time> known_since = {};
  std::optional<absl::Time> gone_at = {};  // since when it has not existed
  std::optional<absl::Time> verified_at = {};
  std::string finding = {};               // of that check; "": all was good
  std::string next_step = {};             // as its record has it
  std::vector<BackupEntry> backups = {};  // by time
};

struct Report {
  int64_t schema_version = 1;
  absl::Time made_at = {};
  absl::Time since = {};
  std::string subject = {};             // of which cluster or repository
  std::vector<std::string> notes = {};  // what could not be read
  std::vector<VolumeEntry> volumes = {};
};

inline constexpr int64_t kDaysMax = 1100;
inline constexpr std::size_t kVolumesMax = 20'000;
inline constexpr int64_t kBytesMax = int64_t{1} << 60;  // that a figure may say

// Sorts volumes and backups, removes backups that are not of the time of the report, and bounds
// their figures. INVALID_ARGUMENT if there are too many volumes, or if that time is missing or
// longer than kDaysMax.
absl::Status Normalize(Report& report);

// Writes the report as one JSON object in one line, a piece of at most one volume at a time.
void WriteJson(const Report& report, absl::FunctionRef<void(absl::string_view)> sink);

inline constexpr std::size_t kTextBytesMax = 1024;            // longer texts are cut
inline constexpr int64_t kTextsBytesMax = int64_t{64} << 20;  // of a report
inline constexpr int64_t kEntriesMax = 600'000;               // in all lists of a report

// Reads what WriteJson() writes, piece by piece. Unknown members are ignored. INVALID_ARGUMENT says
// where a value is missing, wrong, or one too many.
absl::StatusOr<Report> ReadJson(JsonReader::More more);

}  // namespace csidelta::report
