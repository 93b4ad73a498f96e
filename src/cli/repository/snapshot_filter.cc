#include "cli/repository/snapshot_filter.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

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

int64_t SummaryBytes(const RepoSnapshot& snapshot) {
  return snapshot.summary.has_value()
             ? static_cast<int64_t>(snapshot.summary->total_bytes_processed)
             : 0;
}

std::string SnapshotJsonText(const StoredSnapshot& stored) {
  std::string text = repository::EncodeSnapshot(stored.snapshot);
  text.pop_back();  // The closing brace.
  absl::StrAppend(&text, ",\"id\":\"", stored.id.Hex(), "\",\"short_id\":\"", stored.id.ShortHex(),
                  "\"}");
  return text;
}

}  // namespace csidelta::cli
