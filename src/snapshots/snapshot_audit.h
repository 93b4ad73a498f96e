#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "k8s/api_client.h"

// What a storage has and the cluster does not know, and the reverse. Changes nothing.
//
// Snapshots come and go while the lists are read, so that contents are read before and after all
// else, and a finding is what both say:
//
//   contents, VolumeSnapshots, the storage, contents again
namespace csidelta::snapshots {

// Whether a CSI driver may be called so: as GetPluginInfo wants it, 63 at most. Pure.
bool IsDriverName(absl::string_view name);

// What a driver says of a snapshot. The texts are its own.
struct StorageSnapshot {
  std::string handle;
  std::string volume_handle = {};
  std::optional<int64_t> size_bytes = {};
  std::optional<absl::Time> taken_at = {};
};

struct StorageList {
  std::string driver;
  std::vector<StorageSnapshot> snapshots;
};

// What matters of a content.
struct KnownContent {
  std::string name;
  std::string driver;
  std::string handle;         // "" before the driver gave it
  std::string volume_handle;  // of a snapshot that is being taken
  std::string snapshot_namespace;
  std::string snapshot_name;
  std::string snapshot_uid;  // "": not bound yet
  bool is_retained = false;
  bool is_being_deleted = false;
};

struct KnownSnapshot {
  std::string namespace_name;
  std::string name;
  std::string uid;
  std::string content;  // bound to, else made for; "": neither yet
  bool is_being_deleted = false;
};

struct AuditInfo {
  std::vector<KnownContent> before;
  std::vector<KnownContent> after;
  std::optional<std::vector<KnownSnapshot>> snapshots;  // nothing: may not be listed
  std::optional<StorageList> storage;                   // nothing: was not asked
  std::string driver;                                   // only what is of it; "": all
  absl::Time now;
};

// One snapshot of the storage without a content.
struct UnknownSnapshot {
  StorageSnapshot snapshot;
  bool may_be_new = false;  // younger than five minutes: it may be on its way into the cluster
};

struct HandleTwice {
  std::string driver;
  std::string handle;
  std::vector<std::string> contents;
};

// Each sorted by what names it.
struct AuditFindings {
  // In the storage, and in neither list of contents; of a volume of which no snapshot is being
  // taken.
  std::vector<UnknownSnapshot> unknown;
  // In both lists of contents with a handle that the storage does not list.
  std::vector<KnownContent> lost;
  // In both lists, not being deleted, and no VolumeSnapshot has the name and uid that they give.
  std::vector<KnownContent> without_snapshot;
  // Not being deleted, and their content is in neither list.
  std::vector<KnownSnapshot> without_content;
  // In the second list.
  std::vector<HandleTwice> twice;

  bool IsEmpty() const {
    return unknown.empty() && lost.empty() && without_snapshot.empty() && without_content.empty() &&
           twice.empty();
  }
};

// Pure.
AuditFindings Audit(const AuditInfo& info);

// Asks the storage between the two lists.
using StorageReader = std::function<absl::StatusOr<StorageList>()>;

struct AuditReading {
  AuditInfo info;
  std::vector<std::string> not_checked;  // "VolumeSnapshots not checked: ..."
};

// PERMISSION_DENIED when contents may not be listed: there is nothing to compare then. Three paged
// LISTs. `read_storage` may be null.
absl::StatusOr<AuditReading> ReadAuditInfo(const CallContext& ctx, k8s::ApiClient& api,
                                           const std::string& driver,
                                           const StorageReader& read_storage);

}  // namespace csidelta::snapshots
