#include "cli/repository/snapshot_info.h"

#include <algorithm>
#include <map>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/repository/snapshot_filter.h"
#include "cli/text.h"
#include "incremental/mover/block_uploader.h"
#include "incremental/mover/full_reason.h"

namespace csidelta::cli {
namespace {

using repository::RepoSnapshot;
using repository::StoredSnapshot;

constexpr std::size_t kReasonBytesMax = 13;
constexpr char kNotRecorded[] = "-";

std::string ModeCell(const RepoSnapshot& snapshot) {
  const std::string mode = ModeOf(snapshot);
  return mode == "incremental" ? "incr" : mode.empty() ? kNotRecorded : mode;
}

std::string ReasonCell(const RepoSnapshot& snapshot) {
  if (!snapshot.volume.has_value()) {
    return kNotRecorded;
  }
  return Printable(incremental::LabelOf(snapshot.volume->reason)).substr(0, kReasonBytesMax);
}

std::string ChangedCell(const RepoSnapshot& snapshot) {
  return snapshot.volume.has_value() && snapshot.volume->changed_bytes.has_value()
             ? FormatBytes(*snapshot.volume->changed_bytes)
             : kNotRecorded;
}

std::string AddedCell(const RepoSnapshot& snapshot) {
  return snapshot.summary.has_value()
             ? FormatBytes(static_cast<int64_t>(snapshot.summary->data_added_packed))
             : kNotRecorded;
}

std::string TookCell(const RepoSnapshot& snapshot) {
  const std::optional<absl::Duration> duration = DurationOf(snapshot);
  return duration.has_value() ? FormatElapsed(*duration) : kNotRecorded;
}

std::vector<std::string> BackupHead(bool is_wide) {
  std::vector<std::string> head = {"ID", "Time", "Mode", "Reason", "Changed", "Added", "Took"};
  if (is_wide) {
    head.insert(head.end(), {"Size", "Parent", "Verified", "Tags"});
  }
  return head;
}

std::vector<std::string> BackupRow(const StoredSnapshot& stored, bool is_wide,
                                   const std::string& verified) {
  const RepoSnapshot& snapshot = stored.snapshot;
  std::vector<std::string> row = {stored.id.ShortHex(),
                                  absl::FormatTime(is_wide ? "%Y-%m-%d %H:%M:%S" : "%Y-%m-%d %H:%M",
                                                   snapshot.time, absl::LocalTimeZone()),
                                  ModeCell(snapshot),
                                  ReasonCell(snapshot),
                                  ChangedCell(snapshot),
                                  AddedCell(snapshot),
                                  TookCell(snapshot)};
  if (is_wide) {
    const int64_t size_bytes = SummaryBytes(snapshot);
    row.insert(row.end(), {size_bytes == 0 ? kNotRecorded : FormatBytes(size_bytes),
                           snapshot.parent.has_value() ? snapshot.parent->ShortHex() : kNotRecorded,
                           verified, absl::StrJoin(GivenTags(snapshot), ",")});
  }
  return row;
}

}  // namespace

std::string ModeOf(const RepoSnapshot& snapshot) {
  if (snapshot.volume.has_value()) {
    return snapshot.volume->mode;
  }
  const std::string kind = repository::TagValue(snapshot, "kind");
  return kind == "incr" ? "incremental" : kind == "full" ? kind : "";
}

std::optional<absl::Duration> DurationOf(const RepoSnapshot& snapshot) {
  if (!snapshot.summary.has_value() || snapshot.summary->backup_start == absl::Time() ||
      snapshot.summary->backup_end < snapshot.summary->backup_start) {
    return std::nullopt;
  }
  return snapshot.summary->backup_end - snapshot.summary->backup_start;
}

std::vector<std::string> GivenTags(const RepoSnapshot& snapshot) {
  std::vector<std::string> tags = snapshot.tags;
  std::erase_if(tags, [](const std::string& tag) {
    return std::any_of(incremental::kReservedTags.begin(), incremental::kReservedTags.end(),
                       [&](absl::string_view name) { return absl::StartsWith(tag, name); });
  });
  return tags;
}

std::string SnapshotTables(absl::Span<const StoredSnapshot> snapshots, int columns,
                           const std::map<repository::Id, absl::Time>& verified, absl::Time now) {
  const bool is_wide = columns >= kWideTableColumns;
  std::vector<std::string> volumes;
  std::map<std::string, std::vector<std::vector<std::string>>> tables;
  for (const StoredSnapshot& stored : snapshots) {
    const std::string volume = engine::VolumeName(stored.snapshot);
    std::vector<std::vector<std::string>>& rows = tables[volume];
    if (rows.empty()) {
      volumes.push_back(volume);
      rows.push_back(BackupHead(is_wide));
    }
    const auto found = verified.find(stored.id);
    rows.push_back(BackupRow(
        stored, is_wide, found == verified.end() ? kNotRecorded : FormatAge(found->second, now)));
  }
  std::string out;
  for (const std::string& volume : volumes) {
    absl::StrAppend(&out, Printable(volume), "\n", FormatTable(tables[volume]), "\n");
  }
  absl::StrAppend(&out, Counted(std::ssize(snapshots), "snapshot"));
  if (volumes.size() > 1) {
    absl::StrAppend(&out, " of ", Counted(std::ssize(volumes), "volume"));
  }
  const auto oldest = absl::c_min_element(
      verified, [](const auto& left, const auto& right) { return left.second < right.second; });
  const std::string verified_text =
      verified.empty() ? ""
                       : absl::StrCat("\n", verified.size(), " of them verified, the oldest ",
                                      FormatAge(oldest->second, now), " ago");
  return absl::StrCat(out, snapshots.empty() ? "" : "; each can be restored by itself",
                      verified_text, "\n");
}

}  // namespace csidelta::cli
