#include "cli/repository/group_listing.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/human_text.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "base/worker_pool.h"
#include "cli/repository/volume_groups.h"
#include "repository/find_repositories.h"
#include "repository/repository.h"
#include "storage/folder_object_store.h"

namespace csidelta::cli {
namespace {

using repository::FileKind;
using repository::Id;
using repository::Repository;

constexpr std::size_t kRepositoriesAtOnce = 4;  // Each opens with 32 MiB of scrypt.
constexpr std::size_t kSnapshotsAtOnce = 256;   // In memory, of one repository.

// Reads repositories, several at the same time, and keeps what is of groups.
class GroupReader {
 public:
  GroupReader(const CallContext& ctx, Session& session, storage::ObjectStore& location,
              const RepositoryKeys& keys, const GroupListing& listing)
      : ctx_(ctx), session_(session), location_(location), keys_(keys), listing_(listing) {}

  // An error ends everything; what is only this repository's is noted.
  absl::Status Read(const std::string& folder) {
    storage::FolderObjectStore store(location_, folder);
    const absl::Status read = ReadFrom(store);
    RETURN_IF_ERROR(ctx_.Check());
    if (is_full_) {
      return read;
    }
    if (repository::IsNoRepository(read)) {
      AddUnseen(folder, absl::FailedPreconditionError("its config is missing"));
    } else if (!read.ok()) {
      AddUnseen(folder, read);
    } else {
      ++seen_;
    }
    return absl::OkStatus();
  }

  void AddUnseen(const std::string& folder, const absl::Status& why) {
    const MutexLock lock(mutex_);
    unseen_.emplace(folder, why);
  }

  // Not while Read() runs, which is all that the lock is for. The folders that were not seen:
  const std::map<std::string, absl::Status>& unseen() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return unseen_;
  }
  bool has_seen_any() const { return seen_ > 0; }
  bool has_seen_all() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return unseen_.empty() && !is_damaged_;
  }
  std::vector<GroupMember> TakeMembers() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return std::move(members_);
  }

 private:
  absl::Status ReadFrom(storage::ObjectStore& store) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Repository> repository,
                     session_.engine().OpenIn(ctx_, store, keys_));
    ASSIGN_OR_RETURN(const std::vector<repository::FileInfo> files,
                     repository->ListFiles(ctx_, FileKind::kSnapshot));
    const std::string location = store.Describe();
    for (std::size_t begin = 0; begin < files.size(); begin += kSnapshotsAtOnce) {
      std::vector<Id> ids;
      for (std::size_t i = begin; i < std::min(begin + kSnapshotsAtOnce, files.size()); ++i) {
        ids.push_back(files[i].id);
      }
      ASSIGN_OR_RETURN(
          const std::vector<repository::StoredSnapshot> snapshots,
          repository->LoadSnapshots(ctx_, ids, [&](const Id& id, const absl::Status& status) {
            const MutexLock lock(mutex_);
            is_damaged_ = true;
            session_.console().Warn(absl::StrCat("snapshot ", id.ShortHex(), " in ", location,
                                                 " is damaged: ", status.message()));
          }));
      for (const repository::StoredSnapshot& stored : snapshots) {
        RETURN_IF_ERROR(Keep(stored, location));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Keep(const repository::StoredSnapshot& stored, const std::string& location) {
    std::optional<GroupMember> member = MemberOf(stored, location);
    const bool is_asked_for =
        member.has_value() &&
        (listing_.names.empty() || absl::c_any_of(listing_.names, [&](const std::string& name) {
           return IsCalled(member->tags, name);
         }));
    if (!is_asked_for) {
      return absl::OkStatus();
    }
    member->chosen = listing_.filter.Matches(stored.snapshot);
    const MutexLock lock(mutex_);
    memory_bytes_ += member->MemoryBytes();
    if (memory_bytes_ > kGroupMemoryMax) {
      is_full_ = true;
      return absl::ResourceExhaustedError(
          "there are too many volume groups to list them together; name one, or give a folder "
          "further down with --repo");
    }
    members_.push_back(*std::move(member));
    return absl::OkStatus();
  }

  const CallContext& ctx_;
  Session& session_;
  storage::ObjectStore& location_;
  const RepositoryKeys& keys_;
  const GroupListing& listing_;
  std::atomic<int64_t> seen_ = 0;  // repositories
  std::atomic<bool> is_full_ = false;
  Mutex mutex_;  // Guards all that follows, and the console.
  std::vector<GroupMember> members_ ABSL_GUARDED_BY(mutex_);
  int64_t memory_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_damaged_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, absl::Status> unseen_ ABSL_GUARDED_BY(mutex_);
};

void Show(const std::vector<VolumeGroup>& groups, Console& console) {
  if (!console.options().json) {
    for (const VolumeGroup& group : groups) {
      console.Print(DescribeGroup(group));
    }
    const auto complete = absl::c_count_if(groups, [](const VolumeGroup& group) {
      return group.state == VolumeGroup::State::kComplete;
    });
    console.Print(
        absl::StrCat(Counted(std::ssize(groups), "volume group"), ", ", complete, " complete\n"));
    return;
  }
  absl::string_view before = "[";
  for (const VolumeGroup& group : groups) {
    console.Print(absl::StrCat(before, GroupJsonText(group)));
    before = ",";
  }
  console.Print(groups.empty() ? "[]\n" : "]\n");
}

}  // namespace

absl::StatusOr<ExitCode> ListVolumeGroups(const CallContext& ctx, Session& session,
                                          const GroupListing& listing) {
  ASSIGN_OR_RETURN(storage::ObjectStore* const location, session.engine().OpenLocation(ctx));
  ASSIGN_OR_RETURN(const RepositoryKeys keys, session.engine().ReadKeys(ctx));
  GroupReader reader(ctx, session, *location, keys, listing);
  ASSIGN_OR_RETURN(
      const std::vector<std::string> folders,
      repository::FindRepositories(ctx, *location, kRepositoryDepthMax,
                                   [&](const std::string& folder, const absl::Status& status) {
                                     reader.AddUnseen(folder, status);
                                   }));
  if (folders.empty() && reader.unseen().empty()) {
    return repository::AsNoRepository(absl::NotFoundError(absl::StrCat(
        "there is no repository in ", location->Describe(), ", nor up to ", kRepositoryDepthMax,
        " folders below it, as in and below plugins/csi-delta of a location")));
  }
  RETURN_IF_ERROR(ParallelFor(folders.size(), kRepositoriesAtOnce,
                              [&](std::size_t i) { return reader.Read(folders[i]); }));
  if (!reader.has_seen_any()) {
    return reader.unseen().begin()->second;
  }
  for (const auto& [folder, status] : reader.unseen()) {
    const std::string at = storage::FolderObjectStore(*location, folder).Describe();
    session.console().Warn(absl::StrCat("not seen: ", at, ": ", Explain(status, at)));
  }
  std::vector<VolumeGroup> groups = SortIntoGroups(reader.TakeMembers());
  std::erase_if(groups, [](const VolumeGroup& group) {
    return absl::c_none_of(group.members, [](const GroupMember& member) { return member.chosen; });
  });
  if (listing.latest > 0) {
    KeepNewest(groups, listing.latest);
  }
  Show(groups, session.console());
  return reader.has_seen_all() ? ExitCode::kOk : ExitCode::kIncomplete;
}

}  // namespace csidelta::cli
