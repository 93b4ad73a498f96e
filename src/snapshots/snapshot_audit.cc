#include "snapshots/snapshot_audit.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "objects/client.h"
#include "snapshots/snapshot_import.h"

namespace csidelta::snapshots {
namespace {

using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

constexpr std::size_t kDriverNameMax = 63;
constexpr absl::Duration kMayBeNew = absl::Minutes(5);

KnownContent ContentInfo(const VolumeSnapshotContent& content) {
  return {.name = content.name(),
          .driver = content.driver(),
          .handle = content.handle_or_source(),
          .volume_handle = content.source_volume(),
          .snapshot_namespace = content.snapshot_namespace(),
          .snapshot_name = content.snapshot_name(),
          .snapshot_uid = content.snapshot_uid(),
          .is_retained = content.is_retained(),
          .is_being_deleted = content.is_being_deleted()};
}

KnownSnapshot SnapshotInfo(const VolumeSnapshot& snapshot) {
  const std::string bound = snapshot.bound_content();
  return {.namespace_name = snapshot.namespace_name(),
          .name = snapshot.name(),
          .uid = snapshot.uid(),
          .content = bound.empty() ? snapshot.source_content() : bound,
          .is_being_deleted = snapshot.is_being_deleted()};
}

class Auditor {
 public:
  explicit Auditor(const AuditInfo& info);
  AuditFindings Run();

 private:
  bool Concerns(const KnownContent& content) const {
    return info_.driver.empty() || content.driver == info_.driver;
  }
  bool Stays(const KnownContent& content) const {
    return Concerns(content) && !content.is_being_deleted && names_before_.contains(content.name);
  }

  void FindTwice();
  void FindWithoutSnapshot();

  // A content that is gone has no driver any more: with one that is asked for, these are of all.
  void FindWithoutContent();
  void FindUnknown();
  void FindLost();

  const AuditInfo& info_;
  std::set<std::string> names_before_;
  std::set<std::string> names_after_;
  AuditFindings findings_;
};

Auditor::Auditor(const AuditInfo& info) : info_(info) {
  for (const KnownContent& content : info.before) {
    names_before_.insert(content.name);
  }
  for (const KnownContent& content : info.after) {
    names_after_.insert(content.name);
  }
}

AuditFindings Auditor::Run() {
  FindTwice();
  if (info_.snapshots.has_value()) {
    FindWithoutSnapshot();
    FindWithoutContent();
  }
  if (info_.storage.has_value()) {
    FindUnknown();
    FindLost();
  }
  const auto by_name = [](const KnownContent& left, const KnownContent& right) {
    return left.name < right.name;
  };
  std::sort(findings_.lost.begin(), findings_.lost.end(), by_name);
  std::sort(findings_.without_snapshot.begin(), findings_.without_snapshot.end(), by_name);
  std::sort(findings_.without_content.begin(), findings_.without_content.end(),
            [](const KnownSnapshot& left, const KnownSnapshot& right) {
              return std::tie(left.namespace_name, left.name) <
                     std::tie(right.namespace_name, right.name);
            });
  std::sort(findings_.unknown.begin(), findings_.unknown.end(),
            [](const UnknownSnapshot& left, const UnknownSnapshot& right) {
              return left.snapshot.handle < right.snapshot.handle;
            });
  return std::move(findings_);
}

void Auditor::FindTwice() {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> contents;
  for (const KnownContent& content : info_.after) {
    if (!content.handle.empty() && Concerns(content)) {
      contents[{content.driver, content.handle}].push_back(content.name);
    }
  }
  for (auto& [key, names] : contents) {
    if (names.size() > 1) {
      std::sort(names.begin(), names.end());
      findings_.twice.push_back(
          {.driver = key.first, .handle = key.second, .contents = std::move(names)});
    }
  }
}

void Auditor::FindWithoutSnapshot() {
  std::map<std::pair<std::string, std::string>, std::string> uids;
  for (const KnownSnapshot& snapshot : *info_.snapshots) {
    uids[{snapshot.namespace_name, snapshot.name}] = snapshot.uid;
  }
  for (const KnownContent& content : info_.after) {
    const auto found = uids.find({content.snapshot_namespace, content.snapshot_name});
    const bool is_there = found != uids.end() &&
                          (content.snapshot_uid.empty() || content.snapshot_uid == found->second);
    if (Stays(content) && !is_there) {
      findings_.without_snapshot.push_back(content);
    }
  }
}

void Auditor::FindWithoutContent() {
  for (const KnownSnapshot& snapshot : *info_.snapshots) {
    if (!snapshot.content.empty() && !snapshot.is_being_deleted &&
        !names_before_.contains(snapshot.content) && !names_after_.contains(snapshot.content)) {
      findings_.without_content.push_back(snapshot);
    }
  }
}

void Auditor::FindUnknown() {
  std::set<std::string> handles;
  std::set<std::string> busy_volumes;
  for (const std::vector<KnownContent>* const list : {&info_.before, &info_.after}) {
    for (const KnownContent& content : *list) {
      if (content.driver == info_.storage->driver) {
        (content.handle.empty() ? busy_volumes : handles)
            .insert(content.handle.empty() ? content.volume_handle : content.handle);
      }
    }
  }
  for (const StorageSnapshot& snapshot : info_.storage->snapshots) {
    if (!handles.contains(snapshot.handle) && !busy_volumes.contains(snapshot.volume_handle)) {
      const bool may_be_new =
          snapshot.taken_at.has_value() && *snapshot.taken_at > info_.now - kMayBeNew;
      findings_.unknown.push_back({.snapshot = snapshot, .may_be_new = may_be_new});
    }
  }
}

void Auditor::FindLost() {
  std::set<std::string> handles;
  for (const StorageSnapshot& snapshot : info_.storage->snapshots) {
    handles.insert(snapshot.handle);
  }
  std::map<std::string, std::string> handles_before;
  for (const KnownContent& content : info_.before) {
    handles_before[content.name] = content.handle;
  }
  for (const KnownContent& content : info_.after) {
    const bool is_of_storage = content.driver == info_.storage->driver;
    const bool had_handle =
        !content.handle.empty() && Stays(content) && handles_before[content.name] == content.handle;
    if (is_of_storage && had_handle && !handles.contains(content.handle)) {
      findings_.lost.push_back(content);
    }
  }
}

absl::StatusOr<std::vector<KnownContent>> ReadKnownContents(const CallContext& ctx,
                                                            k8s::ApiClient& api) {
  std::vector<KnownContent> contents;
  absl::Status read = objects::ReadPages<VolumeSnapshotContent>(
      ctx, api, VolumeSnapshotContent::Type(), "", {},
      [&contents](const std::vector<VolumeSnapshotContent>& page, bool is_first) {
        if (is_first) {
          contents.clear();
        }
        std::transform(page.begin(), page.end(), std::back_inserter(contents), ContentInfo);
      });
  if (absl::IsPermissionDenied(read)) {
    return absl::PermissionDeniedError(absl::StrCat(
        "VolumeSnapshotContents cannot be listed, and nothing can be compared: ", read.message(),
        "; ClusterRole ", kSnapshotReaderRole, " has the right"));
  }
  RETURN_IF_ERROR(read);
  return contents;
}

absl::StatusOr<std::vector<KnownSnapshot>> ReadKnownSnapshots(const CallContext& ctx,
                                                              k8s::ApiClient& api) {
  std::vector<KnownSnapshot> snapshots;
  RETURN_IF_ERROR(objects::ReadPages<VolumeSnapshot>(
      ctx, api, VolumeSnapshot::Type(), "", {},
      [&snapshots](const std::vector<VolumeSnapshot>& page, bool is_first) {
        if (is_first) {
          snapshots.clear();
        }
        std::transform(page.begin(), page.end(), std::back_inserter(snapshots), SnapshotInfo);
      }));
  return snapshots;
}

}  // namespace

bool IsDriverName(absl::string_view name) {
  const auto is_inner = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_';
  };
  return !name.empty() && name.size() <= kDriverNameMax &&
         absl::ascii_isalnum(static_cast<unsigned char>(name.front())) &&
         std::all_of(name.begin(), name.end(), is_inner);
}

AuditFindings Audit(const AuditInfo& info) { return Auditor(info).Run(); }

absl::StatusOr<AuditReading> ReadAuditInfo(const CallContext& ctx, k8s::ApiClient& api,
                                           const std::string& driver,
                                           const StorageReader& read_storage) {
  AuditReading reading;
  AuditInfo& info = reading.info;
  info.driver = driver;
  ASSIGN_OR_RETURN(info.before, ReadKnownContents(ctx, api));
  absl::StatusOr<std::vector<KnownSnapshot>> snapshots = ReadKnownSnapshots(ctx, api);
  if (snapshots.ok()) {
    info.snapshots = *std::move(snapshots);
  } else if (absl::IsPermissionDenied(snapshots.status())) {
    reading.not_checked.push_back(
        absl::StrCat("VolumeSnapshots not checked: ", snapshots.status().message()));
  } else {
    return snapshots.status();
  }
  if (read_storage) {
    ASSIGN_OR_RETURN(info.storage, read_storage());
    info.driver = info.storage->driver;
  } else {
    reading.not_checked.emplace_back(
        "the storage was not asked: which snapshots it has and the cluster does not know, and "
        "which it lost, says --csi-address");
  }
  info.now = ctx.clock->Now();
  ASSIGN_OR_RETURN(info.after, ReadKnownContents(ctx, api));
  return reading;
}

}  // namespace csidelta::snapshots
