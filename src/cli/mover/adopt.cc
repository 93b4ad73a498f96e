#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/human_text.h"
#include "base/json.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "cli/cluster_verb.h"
#include "cli/command.h"
#include "cli/location_store.h"
#include "datamover/controller/service.h"
#include "datamover/records/restored_pvcs.h"
#include "objects/access.h"
#include "objects/backup_storage_location.h"
#include "objects/client.h"
#include "repository/lock.h"

namespace csidelta::cli {
namespace {

constexpr std::size_t kPausesLookedAt = 3;  // A backup by hand comes between two of a schedule.
// So long a weekly backup of another repository is awaited, after a nightly one was missed. A
// longer pause proves nothing: two backups by hand have one of a year.
constexpr absl::Duration kOthersDueMax = absl::Hours(8 * 24);

// The newest lock or repository snapshot of a cluster, as the store dates it.
struct LastWrite {
  std::string key = {};  // "": there is none
  absl::Time at = absl::InfinitePast();
  absl::Time silent_from = absl::InfinitePast();  // when a backup was missed
};

// Of times in descending order.
absl::Duration LongestPause(const std::vector<absl::Time>& times) {
  absl::Duration longest = times.size() < 2 ? absl::Hours(24) : repository::kLockStaleAfter;
  for (std::size_t i = 1; i < times.size() && i <= kPausesLookedAt; ++i) {
    longest = std::max(longest, times[i - 1] - times[i]);
  }
  return longest;
}

absl::StatusOr<LastWrite> LastWriteInto(const CallContext& ctx, storage::ObjectStore& store,
                                        const std::string& repository) {
  LastWrite last;
  std::vector<absl::Time> times;
  const auto look = [&](const storage::ObjectInfo& info) {
    times.push_back(info.modified_at);
    if (info.modified_at > last.at) {
      last = {.key = info.key, .at = info.modified_at};
    }
    return info.modified_at == absl::InfinitePast()
               ? absl::FailedPreconditionError(
                     absl::StrCat("the store does not say when ", info.key, " was written"))
               : absl::OkStatus();
  };
  RETURN_IF_ERROR(store.List(ctx, repository + "snapshots/", look));
  std::sort(times.begin(), times.end(), std::greater<>());
  const absl::Duration pause = LongestPause(times);
  RETURN_IF_ERROR(store.List(ctx, repository + "locks/", look));
  last.silent_from = last.at + pause;
  return last;
}

// Into all repositories that are `depth` folders below `folder`.
absl::StatusOr<LastWrite> FindLastWrite(const CallContext& ctx, storage::ObjectStore& store,
                                        const std::string& folder, int depth) {
  if (depth == 0) {
    return LastWriteInto(ctx, store, folder);
  }
  std::vector<std::string> below;
  RETURN_IF_ERROR(store.ListFolder(ctx, folder, [&below](const storage::ObjectInfo& info) {
    below.push_back(info.key);
    return absl::OkStatus();
  }));
  LastWrite last;
  for (const std::string& one : below) {
    if (absl::EndsWith(one, "/")) {
      ASSIGN_OR_RETURN(LastWrite older, FindLastWrite(ctx, store, one, depth - 1));
      if (older.at > last.at) {
        std::swap(last, older);
      }
      last.silent_from =
          std::max(last.silent_from, std::min(older.silent_from, older.at + kOthersDueMax));
    }
  }
  return last;
}

class AdoptCommand : public MoverCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override;
  absl::StatusOr<ExitCode> Work() override;

 private:
  // OK if the cluster has missed a backup.
  absl::Status CheckSilence() const;
  absl::StatusOr<std::string> Adopt() const;

  datamover::ForeignCluster foreign_ = {
      .mover_namespace = "", .velero_namespace = "", .location = "default", .cluster = ""};
  bool undo_ = false;
  bool yes_ = false;
};

VerbSyntax AdoptCommand::Describe(ArgumentTable& table) {
  table.Add("--from-cluster", "UID",
            "the uid of the lost cluster, which is its folder in the bucket; messages of uploads "
            "name it",
            foreign_.cluster);
  table.Add("--location", "NAME", "the BackupStorageLocation of that bucket", foreign_.location);
  table.Add("--undo", "undo it: PVCs start repositories of their own; no data is deleted", undo_);
  table.Add("--yes", "do it (default: only print what would be done)", yes_);
  return {.name = "adopt",
          .summary = "Continue the backups of a lost cluster in its repositories",
          .details =
              "PVCs that were restored from its backups, or will be, are backed up into its "
              "repositories: their first backup stores only what differs. A PVC that was backed up "
              "since keeps its own. Refuses while that cluster may still write: a snapshot or a "
              "lock there is younger than its last schedule. Your user and the time are recorded "
              "in the mover's namespace. Uploads under way are not changed.",
          .examples = {"adopt --from-cluster UID", "adopt --from-cluster UID --yes"}};
}

absl::StatusOr<ExitCode> AdoptCommand::Work() {
  foreign_.mover_namespace = cluster().mover_namespace;
  ASSIGN_OR_RETURN(foreign_.velero_namespace, cluster().OneVelero());
  ASSIGN_OR_RETURN(const std::string own, datamover::ReadClusterUid(ctx(), api()));
  if (!velero::IsUid(foreign_.cluster) || foreign_.cluster == own) {
    return absl::InvalidArgumentError("give --from-cluster, the uid of another cluster");
  }
  ASSIGN_OR_RETURN(const auto pvcs, datamover::ListRestored(ctx(), api(), foreign_));
  int64_t bytes = 0;
  Json list = Json::array();
  for (const auto& [pvc, restored] : pvcs) {
    const std::string path = velero::RepositoryPath(restored.source);
    bytes += restored.data_bytes;
    list.push_back({{"pvc", pvc}, {"repository", path}, {"data_bytes", restored.data_bytes}});
    console().Info(absl::StrCat("PVC ", pvc, ": ", FormatBytes(restored.data_bytes), " of ", path));
  }
  ASSIGN_OR_RETURN(auto by, datamover::FindAdoption(ctx(), api(), foreign_));
  if (undo_) {
    RETURN_IF_ERROR(k8s::IgnoreNotFound(api().Delete(ctx(), datamover::AdoptionKey(foreign_), {})));
    by.reset();
  } else if (!by.has_value()) {
    RETURN_IF_ERROR(CheckSilence());
    if (yes_) {
      ASSIGN_OR_RETURN(by, Adopt());
    }
  }
  const std::string there =
      absl::StrCat(" in the repositories of cluster ", foreign_.cluster,
                   by.has_value() ? absl::StrCat(", adopted by ", *by)
                                  : "; run this again with --yes if it is gone for good");
  console().PrintResult(
      {{"message_type", "result"},
       {"cluster", foreign_.cluster},
       {"adopted_by", by.has_value() ? Json(*by) : Json()},
       {"pvcs", std::move(list)},
       {"data_bytes", bytes}},
      absl::StrCat("backups of ", Counted(std::ssize(pvcs), "PVC"), " with ", FormatBytes(bytes),
                   undo_            ? " begin repositories of their own"
                   : by.has_value() ? absl::StrCat(" go on", there)
                                    : absl::StrCat(" would go on", there),
                   "\n"));
  return ExitCode::kOk;
}

absl::StatusOr<std::string> AdoptCommand::Adopt() const {
  const auto user = objects::Create(ctx(), api(), objects::SelfSubjectReview::Ask());
  std::string by = absl::StrCat(user.ok() ? user->username() : "an unknown user", " at ",
                                FormatRfc3339Seconds(ctx().clock->Now()));
  RETURN_IF_ERROR(datamover::RecordAdoption(ctx(), api(), foreign_, by));
  return by;
}

absl::Status AdoptCommand::CheckSilence() const {
  ASSIGN_OR_RETURN(const auto location,
                   objects::Get<objects::BackupStorageLocation>(
                       ctx(), api(), foreign_.velero_namespace, foreign_.location));
  ASSIGN_OR_RETURN(const datamover::RepositoryAccess access,
                   datamover::OpenLocationAccess(ctx(), api(), location));
  ASSIGN_OR_RETURN(const std::unique_ptr<storage::OpenedStore> opened,
                   OpenLocationStore(session().environment(), access));
  ASSIGN_OR_RETURN(const LastWrite last,
                   FindLastWrite(ctx(), opened->store(), foreign_.cluster + "/", 2));
  if (last.key.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("location ", foreign_.location, " has no backups of cluster ",
                     foreign_.cluster, "; check --from-cluster and --location"));
  }
  if (ctx().clock->Now() >= last.silent_from) {
    console().Info(absl::StrCat("the cluster wrote last at ", FormatMoment(last.at), ": ", last.key,
                                "; it has missed a backup since"));
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "cluster ", foreign_.cluster, " may be there: ", last.key, " is of ", FormatMoment(last.at),
      ", and the next is due until ", FormatMoment(last.silent_from),
      "; run this again then, with no backup here before, or let the PVCs start over"));
}

}  // namespace

void AddAdoptCommand(Commands& all) { AddEach<AdoptCommand>(all); }

}  // namespace csidelta::cli
