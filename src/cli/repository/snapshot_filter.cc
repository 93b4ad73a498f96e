#include "cli/repository/snapshot_filter.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "cli/text.h"

namespace csidelta::cli {
namespace {

using repository::RepoSnapshot;
using repository::StoredSnapshot;

}  // namespace

void DeclareFilterFlags(ArgumentTable& table, SnapshotFilter& filter,
                        absl::string_view host_names) {
  table.AddList(host_names, "HOST", "only snapshots of this host; may be given again",
                filter.hosts);
  table.AddList("--path", "PATH", "only snapshots with this path; may be given again, all count",
                filter.paths);
  table.AddList("--tag", "TAG[,TAG]",
                "only snapshots with all of these tags; given again: or with all of those",
                filter.tags);
  table.Add("--backup", "BACKUP",
            "only snapshots of this Backup of Velero: NAME, or NAMESPACE/NAME of it",
            filter.backup);
  table.AddParsed("--until", "TIME",
                  "only snapshots that are not newer: \"2026-11-21 13:05:00\", or with a time zone "
                  "2026-11-21T13:05:00Z",
                  [&filter](const std::string& value) -> absl::Status {
                    ASSIGN_OR_RETURN(filter.until, ParseMoment(value, absl::LocalTimeZone()));
                    return absl::OkStatus();
                  });
}

absl::StatusOr<std::vector<StoredSnapshot>> ChooseSnapshots(
    const CallContext& ctx, Console& console, const repository::Repository& repository,
    const std::vector<std::string>& ids, const SnapshotFilter& filter,
    UnreadableSnapshots& unreadable) {
  std::vector<StoredSnapshot> chosen;
  if (ids.empty()) {
    ASSIGN_OR_RETURN(chosen, repository.ListSnapshots(ctx, unreadable.DamagedSink()));
    std::erase_if(chosen,
                  [&](const StoredSnapshot& stored) { return !filter.Matches(stored.snapshot); });
  }
  for (const std::string& id : ids) {
    ASSIGN_OR_RETURN(StoredSnapshot stored,
                     engine::ChooseSnapshot(ctx, ListenerOf(console), repository, id, filter));
    chosen.push_back(std::move(stored));
  }
  return chosen;
}

void WarnOfNoMatch(Console& console) {
  console.Warn(absl::StrCat("no snapshot matches ", kFilterFlags));
}

int64_t SummaryBytes(const RepoSnapshot& snapshot) {
  return snapshot.summary.has_value()
             ? static_cast<int64_t>(snapshot.summary->total_bytes_processed)
             : 0;
}

std::string SnapshotJsonText(const StoredSnapshot& stored, std::optional<absl::Time> verified_at) {
  std::string text = repository::EncodeSnapshot(stored.snapshot);
  text.pop_back();  // The closing brace.
  absl::StrAppend(&text, ",\"id\":\"", stored.id.Hex(), "\",\"short_id\":\"", stored.id.ShortHex(),
                  "\"");
  if (verified_at.has_value()) {
    absl::StrAppend(&text, ",\"verified_at\":\"", FormatRfc3339(*verified_at), "\"");
  }
  text.push_back('}');
  return text;
}

}  // namespace csidelta::cli
