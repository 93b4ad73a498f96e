#include "cli/longhorn_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "longhorn/types.h"

namespace csidelta::cli {

void LonghornFlags::Declare(ArgumentTable& table) {
  table.Add("--volume", "VOLUME", "only those of this Volume of Longhorn", volume);
  table.Add("--pvc", "NS/PVC", "only those of the volume of this PVC, also when that is gone", pvc);
  table.Add("--job", "JOB", "only those that this RecurringJob took", job);
  table.Add("--of-gone-jobs",
            "only those of a RecurringJob that is gone, or does not apply to their volume any more",
            of_gone_jobs);
  table.AddParsed("--older-than", "SPAN", "only those that were taken longer ago: \"1y6m30d12h\"",
                  [this](const std::string& value) -> absl::Status {
                    ASSIGN_OR_RETURN(older_than, ParseCalendarSpan(value));
                    return absl::OkStatus();
                  });
}

absl::StatusOr<longhorn::Selection> LonghornFlags::Select(absl::Time now) const {
  longhorn::Selection selection{.volume = volume, .job = job, .of_gone_jobs = of_gone_jobs};
  if (!pvc.empty()) {
    const std::size_t slash = pvc.find('/');
    if (slash == std::string::npos || slash == 0 || slash + 1 == pvc.size() ||
        pvc.find('/', slash + 1) != std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", pvc, "\" does not name a PVC; write it as NAMESPACE/NAME"));
    }
    selection.pvc_namespace = pvc.substr(0, slash);
    selection.pvc_name = pvc.substr(slash + 1);
  }
  if (!older_than.IsZero()) {
    selection.before = GoBack(now, older_than, absl::LocalTimeZone());
  }
  return selection;
}

absl::StatusOr<std::string> LonghornNamespace(const ClusterOptions& cluster,
                                              absl::string_view verb) {
  if (cluster.all_namespaces) {
    return absl::InvalidArgumentError(
        absl::StrCat(verb, " works in Longhorn's namespace: leave out -A; name it with -n"));
  }
  if (!cluster.selector.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(verb, " chooses nothing by labels: leave out -l; give --volume, --pvc, --job ",
                     "or another of --help"));
  }
  return cluster.namespace_name.empty() ? longhorn::kDefaultNamespace : cluster.namespace_name;
}

absl::Status CheckSelection(const longhorn::Inventory& inventory,
                            const longhorn::Selection& selection) {
  if (selection.of_gone_jobs && !inventory.are_jobs_known) {
    return absl::PermissionDeniedError(absl::StrCat("which RecurringJobs are gone is not known: ",
                                                    absl::StrJoin(inventory.not_checked, "; ")));
  }
  return absl::OkStatus();
}

std::string LonghornSnapshotName(absl::string_view name) {
  return absl::StrCat("snapshot.", longhorn::kGroup, "/", name);
}

std::string JobText(const longhorn::SnapshotEntry& entry) {
  switch (entry.job_state) {
    case longhorn::JobState::kGone:
      return absl::StrCat(entry.job, " (gone)");
    case longhorn::JobState::kNotOfVolume:
      return absl::StrCat(entry.job, " (not of the volume)");
    case longhorn::JobState::kNone:
    case longhorn::JobState::kUnknown:
    case longhorn::JobState::kApplies:
      break;
  }
  return entry.job;
}

}  // namespace csidelta::cli
