#include "tests/support/fake_storage_driver.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace csidelta::support {
namespace {

absl::Status RpcError(const std::string& code, const std::string& message) {
  return absl::UnknownError(absl::StrCat("rpc error: code = ", code, " desc = ", message));
}

// As gRPC for Go calls the codes that habits have.
absl::Status AsRpcError(const absl::Status& status) {
  static const auto& names = *new std::map<absl::StatusCode, std::string>{
      {absl::StatusCode::kFailedPrecondition, "FailedPrecondition"},
      {absl::StatusCode::kResourceExhausted, "ResourceExhausted"},
      {absl::StatusCode::kAborted, "Aborted"},
      {absl::StatusCode::kInternal, "Internal"},
      {absl::StatusCode::kInvalidArgument, "InvalidArgument"},
      {absl::StatusCode::kOutOfRange, "OutOfRange"}};
  return status.ok() ? status : RpcError(names.at(status.code()), std::string(status.message()));
}

}  // namespace

bool FakeStorageDriver::IsOpen(const absl::Status& status) {
  for (const char* code :
       {"Canceled", "DeadlineExceeded", "Unavailable", "ResourceExhausted", "Aborted"}) {
    if (absl::StrContains(status.message(), absl::StrCat("code = ", code, " "))) {
      return true;
    }
  }
  return false;
}

FakeStorageDriver::Verdict FakeStorageDriver::Judge(const std::string& method,
                                                    const std::string& subject) {
  ++calls_[method];
  Verdict verdict;
  for (auto fault = faults_.begin(); fault != faults_.end(); ++fault) {
    if ((fault->method != "*" && fault->method != method) ||
        !absl::StrContains(subject, fault->match) || fault->times == 0) {
      continue;
    }
    if (fault->every > 1 && calls_[method] % fault->every != 0) {
      continue;
    }
    fault->times -= fault->times > 0 ? 1 : 0;
    verdict.ready = verdict.ready && !fault->not_ready;
    verdict.leaves_out = fault->leaves_out.empty() ? verdict.leaves_out : fault->leaves_out;
    if (fault->hold) {
      return {.status = absl::CancelledError("held"), .works = false};
    }
    if (!fault->code.empty()) {
      return {.status = RpcError(fault->code, fault->message), .works = fault->works};
    }
  }
  return verdict;
}

int FakeStorageDriver::SnapshotCount(const std::string& volume) const {
  int count = 0;
  for (const auto& [handle, snapshot] : snapshots_) {
    count += snapshot.volume == volume ? 1 : 0;
  }
  return count;
}

absl::Status FakeStorageDriver::CheckHabits(const std::string& handle, const std::string& volume) {
  if (!snapshots_.contains(handle)) {
    const auto latest = latest_at_.find(volume);
    RETURN_IF_ERROR(CheckRoom(
        habits,
        {.snapshots = SnapshotCount(volume),
         .clones = static_cast<int>(clones_.size()),
         .latest_at = latest == latest_at_.end() ? std::nullopt : std::optional(latest->second),
         .now = Now()}));
  }
  return CheckTaken(habits, asked_at_.emplace(handle, Now()).first->second, Now());
}

absl::Status FakeStorageDriver::CreateVolume(const std::string& handle, const std::string& snapshot,
                                             int64_t required_bytes) {
  std::scoped_lock lock(mutex_);
  const Verdict verdict = Judge("CreateVolume", handle);
  const auto source = snapshots_.find(snapshot);
  if (verdict.status.ok() && !snapshot.empty() && source == snapshots_.end() && !takes_any_handle) {
    return RpcError("NotFound", absl::StrCat("snapshot ", snapshot, " does not exist"));
  }
  if (source != snapshots_.end()) {
    RETURN_IF_ERROR(
        AsRpcError(CheckSizeOfClone(habits, required_bytes, source->second.size_bytes)));
  }
  if (verdict.works) {
    volumes_.emplace(handle, source == snapshots_.end() ? "" : source->second.data);
    if (!snapshot.empty()) {
      clones_.insert(handle);
    }
  }
  return verdict.status;
}

absl::Status FakeStorageDriver::CheckModes(const std::vector<std::string>& access_modes,
                                           bool is_block) const {
  return AsRpcError(support::CheckModes(habits, access_modes, is_block));
}

absl::Status FakeStorageDriver::PublishVolume(const std::vector<std::string>& access_modes,
                                              bool is_block) const {
  return AsRpcError(CheckPublish(habits, absl::c_linear_search(access_modes, "ReadWriteMany"),
                                 is_block, "staging", "target"));
}

absl::Status FakeStorageDriver::ExpandVolume(const std::string& handle) {
  std::scoped_lock lock(mutex_);
  const Verdict verdict = Judge("ControllerExpandVolume", handle);
  RETURN_IF_ERROR(verdict.status);
  return AsRpcError(CheckGrows(habits, SnapshotCount(handle)));
}

absl::Status FakeStorageDriver::DeleteVolume(const std::string& handle) {
  std::scoped_lock lock(mutex_);
  const Verdict verdict = Judge("DeleteVolume", handle);
  RETURN_IF_ERROR(AsRpcError(CheckDeletes(habits, SnapshotCount(handle))));
  if (verdict.works) {
    volumes_.erase(handle);
    clones_.erase(handle);
  }
  return verdict.status;
}

FakeStorageDriver::Snapshot FakeStorageDriver::Cut(const std::string& handle,
                                                   const std::string& volume, bool ready) {
  const auto found = volumes_.find(volume);
  return {.handle = handle,
          .volume = volume,
          .group = "",
          .data = found == volumes_.end() ? "" : found->second,
          .size_bytes = size_bytes,
          .cut_at_nanoseconds =
              cut_at_nanoseconds == 0 ? absl::GetCurrentTimeNanos() : cut_at_nanoseconds,
          .ready = ready};
}

absl::StatusOr<FakeStorageDriver::Snapshot> FakeStorageDriver::CreateSnapshot(
    const std::string& handle, const std::string& volume) {
  std::scoped_lock lock(mutex_);
  const Verdict verdict = Judge("CreateSnapshot", volume);
  if (verdict.works) {
    RETURN_IF_ERROR(AsRpcError(CheckHabits(handle, volume)));
    if (snapshots_.emplace(handle, Cut(handle, volume, true)).second) {
      latest_at_[volume] = Now();
    }
  }
  if (!verdict.status.ok()) {
    return verdict.status;
  }
  Snapshot answer = snapshots_.at(handle);
  answer.ready = verdict.ready;
  return answer;
}

absl::Status FakeStorageDriver::DeleteSnapshot(const std::string& handle) {
  std::scoped_lock lock(mutex_);
  const Verdict verdict = Judge("DeleteSnapshot", handle);
  if (!verdict.works) {
    return verdict.status;
  }
  const auto found = snapshots_.find(handle);
  if (found != snapshots_.end() && !found->second.group.empty()) {
    asked_alone_.push_back(handle);
    return RpcError("FailedPrecondition", "the snapshot belongs to a group");
  }
  snapshots_.erase(handle);
  return verdict.status;
}

absl::StatusOr<FakeStorageDriver::Snapshot> FakeStorageDriver::SnapshotStatus(
    const std::string& handle) {
  std::scoped_lock lock(mutex_);
  const Verdict verdict = Judge("ListSnapshots", handle);
  if (!verdict.status.ok()) {
    return verdict.status;
  }
  const auto found = snapshots_.find(handle);
  if (!lists_snapshots || (found == snapshots_.end() && takes_any_handle)) {
    return Snapshot{
        .handle = handle, .volume = "", .group = "", .data = "", .ready = verdict.ready};
  }
  if (found == snapshots_.end()) {
    return absl::NotFoundError(absl::StrCat("can not find snapshot for snapshotID ", handle));
  }
  Snapshot answer = found->second;
  answer.ready = verdict.ready;
  return answer;
}

absl::StatusOr<FakeStorageDriver::Group> FakeStorageDriver::CreateGroup(
    const std::string& handle, const std::string& base_name,
    const std::vector<std::string>& volumes) {
  std::scoped_lock lock(mutex_);
  const Verdict verdict = Judge("CreateVolumeGroupSnapshot", handle);
  if (!takes_groups) {
    return RpcError("Unimplemented", "unknown service csi.v1.GroupController");
  }
  Group group{.handle = handle, .members = {}, .ready = verdict.ready};
  for (const std::string& volume : volumes) {
    if (verdict.works && volume != verdict.leaves_out) {
      const std::string member = absl::StrCat(base_name, "-", volume);
      Snapshot& snapshot = snapshots_.emplace(member, Cut(member, volume, true)).first->second;
      snapshot.group = handle;
      groups_[handle].insert(member);
      group.members.push_back(snapshot);
      group.members.back().ready = verdict.ready;
    }
  }
  if (!verdict.status.ok()) {
    return verdict.status;
  }
  return group;
}

absl::Status FakeStorageDriver::DeleteGroup(const std::string& handle,
                                            const std::set<std::string>& members,
                                            const std::string& secret) {
  std::scoped_lock lock(mutex_);
  const Verdict verdict = Judge("DeleteVolumeGroupSnapshot", handle);
  if (!verdict.works) {
    return verdict.status;
  }
  const auto found = groups_.find(handle);
  if (found != groups_.end() && found->second != members) {
    return RpcError("InvalidArgument", "the ids do not match the group");
  }
  if (found != groups_.end()) {
    for (const std::string& member : members) {
      snapshots_.erase(member);
    }
    groups_.erase(found);
  }
  if (verdict.status.ok()) {
    group_secrets_.push_back(secret);
  }
  return verdict.status;
}

absl::Status FakeStorageDriver::GroupStatus(const std::string& handle) {
  std::scoped_lock lock(mutex_);
  const Verdict verdict = Judge("GetVolumeGroupSnapshot", handle);
  if (verdict.status.ok() && !groups_.contains(handle) && !takes_any_handle) {
    return RpcError("NotFound", absl::StrCat("group ", handle, " does not exist"));
  }
  return verdict.status;
}

void FakeStorageDriver::AddFault(DriverFault fault) {
  std::scoped_lock lock(mutex_);
  faults_.push_back(std::move(fault));
}

void FakeStorageDriver::ClearFaults() {
  std::scoped_lock lock(mutex_);
  faults_.clear();
}

int FakeStorageDriver::CallCount(const std::string& method) const {
  std::scoped_lock lock(mutex_);
  const auto found = calls_.find(method);
  return found == calls_.end() ? 0 : found->second;
}

std::set<std::string> FakeStorageDriver::snapshots() const {
  std::scoped_lock lock(mutex_);
  std::set<std::string> handles;
  for (const auto& [handle, snapshot] : snapshots_) {
    if (snapshot.group.empty()) {
      handles.insert(handle);
    }
  }
  return handles;
}

std::map<std::string, std::set<std::string>> FakeStorageDriver::groups() const {
  std::scoped_lock lock(mutex_);
  return groups_;
}

std::map<std::string, std::string> FakeStorageDriver::volumes() const {
  std::scoped_lock lock(mutex_);
  return volumes_;
}

void FakeStorageDriver::AddSnapshot(const std::string& handle, const std::string& volume) {
  std::scoped_lock lock(mutex_);
  snapshots_.emplace(handle, Cut(handle, volume, true));
}

void FakeStorageDriver::AddGroup(const std::string& handle, const std::set<std::string>& members) {
  std::scoped_lock lock(mutex_);
  groups_[handle] = members;
  for (const std::string& member : members) {
    Snapshot snapshot = Cut(member, "", true);
    snapshot.group = handle;
    snapshots_[member] = snapshot;
  }
}

void FakeStorageDriver::RemoveSnapshot(const std::string& handle) {
  std::scoped_lock lock(mutex_);
  snapshots_.erase(handle);
}

void FakeStorageDriver::Write(const std::string& volume, const std::string& data) {
  std::scoped_lock lock(mutex_);
  volumes_[volume] = data;
}

std::vector<std::string> FakeStorageDriver::asked_alone() const {
  std::scoped_lock lock(mutex_);
  return asked_alone_;
}

std::vector<std::string> FakeStorageDriver::group_secrets() const {
  std::scoped_lock lock(mutex_);
  return group_secrets_;
}

}  // namespace csidelta::support
