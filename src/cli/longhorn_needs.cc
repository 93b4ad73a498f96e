#include "cli/longhorn_needs.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "k8s/api_client.h"
#include "longhorn/types.h"
#include "objects/client.h"
#include "objects/persistent_volume_claim.h"
#include "objects/volume_snapshot.h"
#include "snapshots/snapshot_prune.h"
#include "velero/volume_decision.h"

namespace csidelta::cli {
namespace {

using objects::PersistentVolumeClaim;
using objects::VolumeSnapshotContent;

// A need of one Snapshot, by its name.
struct SnapshotNeed {
  std::string snapshot;
  std::string message;
};

// The Snapshots that a content stands for. Longhorn's CSI driver calls the one that it takes for a
// VolumeSnapshot after that one's uid; until it answers there is no handle.
std::vector<std::string> LonghornSnapshotsOf(const VolumeSnapshotContent& content) {
  std::vector<std::string> names;
  for (const std::string& handle : {content.handle(), content.source_handle()}) {
    if (absl::StartsWith(handle, longhorn::kSnapshotHandlePrefix)) {
      names.push_back(handle.substr(handle.rfind('/') + 1));
    }
  }
  if (content.driver() == velero::kLonghornDriver && content.handle().empty() &&
      content.source_handle().empty()) {
    names.push_back(absl::StrCat("snapshot-", content.snapshot_uid()));
  }
  return names;
}

class NeedsReader {
 public:
  NeedsReader(const CallContext& ctx, k8s::ApiClient& api,
              const longhorn::InventoryRequest& request, longhorn::Inventory& inventory)
      : ctx_(ctx), api_(api), request_(request), inventory_(inventory) {}

  absl::Status Read() {
    RETURN_IF_ERROR(ReadContents());
    RETURN_IF_ERROR(ReadPvcs());
    for (const SnapshotNeed& need : contents_) {
      inventory_.needs.Add(need.snapshot, longhorn::ProtectionReason::kVolumeSnapshot,
                           need.message);
    }
    for (const SnapshotNeed& need : pending_) {
      inventory_.needs.Add(need.snapshot, longhorn::ProtectionReason::kPendingPvc, need.message);
    }
    absl::StatusOr<std::set<std::string>> backups = snapshots::ReadBackupNames(ctx_, api_);
    RETURN_IF_ERROR(Excuse(backups.status(), "whether Backups of Velero are gone"));
    longhorn::Protect(inventory_, backups.ok() ? std::optional(*std::move(backups)) : std::nullopt,
                      ctx_.clock->Now());
    return absl::OkStatus();
  }

 private:
  template <typename Kind>
  absl::Status ReadEach(objects::PageSink<Kind> sink) {
    return objects::ReadPages<Kind>(
        ctx_, api_, Kind::Type(), "",
        {.label_selector = "", .field_selector = "", .page_items_max = longhorn::kPageItemsMax},
        sink);
  }

  absl::Status ReadContents() {
    const absl::Status read = ReadEach<VolumeSnapshotContent>(
        [&](const std::vector<VolumeSnapshotContent>& page, bool is_first) {
          if (is_first) {
            contents_.clear();
            by_volume_snapshot_.clear();
          }
          for (const VolumeSnapshotContent& content : page) {
            NoteContent(content);
          }
        });
    // Without the kind there are no VolumeSnapshots.
    return Excuse(k8s::IgnoreNotFound(read), "VolumeSnapshots that need them");
  }

  void NoteContent(const VolumeSnapshotContent& content) {
    const std::string space = content.snapshot_namespace();
    const std::string message =
        absl::StrCat("VolumeSnapshot ", space, "/", content.snapshot_name(), " needs it");
    for (const std::string& snapshot : LonghornSnapshotsOf(content)) {
      contents_.push_back({.snapshot = snapshot, .message = message});
      by_volume_snapshot_.emplace(std::pair(space, content.snapshot_name()), snapshot);
    }
  }

  absl::Status ReadPvcs() {
    const absl::Status read = ReadEach<PersistentVolumeClaim>(
        [&](const std::vector<PersistentVolumeClaim>& page, bool is_first) {
          if (is_first) {
            pending_.clear();
          }
          for (const PersistentVolumeClaim& pvc : page) {
            NotePvc(pvc);
          }
        });
    return Excuse(read, "PVCs that are filled from them");
  }

  void NotePvc(const PersistentVolumeClaim& pvc) {
    if (!pvc.is_being_filled()) {
      return;
    }
    const auto [begin, end] =
        by_volume_snapshot_.equal_range(std::pair(pvc.namespace_name(), pvc.source_snapshot()));
    for (auto it = begin; it != end; ++it) {
      pending_.push_back({.snapshot = it->second,
                          .message = absl::StrCat("PVC ", pvc.namespace_name(), "/", pvc.name(),
                                                  " is being filled from it")});
    }
  }

  absl::Status Excuse(const absl::Status& read, absl::string_view what) {
    if (!absl::IsPermissionDenied(read) || request_.requires_all) {
      return read;
    }
    inventory_.not_checked.push_back(absl::StrCat(what, " not checked: ", read.message()));
    return absl::OkStatus();
  }

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const longhorn::InventoryRequest& request_;
  longhorn::Inventory& inventory_;
  std::vector<SnapshotNeed> contents_;
  std::vector<SnapshotNeed> pending_;
  // The Snapshots behind a VolumeSnapshot, by its namespace and name.
  std::multimap<std::pair<std::string, std::string>, std::string> by_volume_snapshot_;
};

}  // namespace

absl::StatusOr<longhorn::Inventory> ReadLonghorn(const CallContext& ctx, k8s::ApiClient& api,
                                                 const longhorn::InventoryRequest& request) {
  ASSIGN_OR_RETURN(longhorn::Inventory inventory, longhorn::ReadInventory(ctx, api, request));
  RETURN_IF_ERROR(NeedsReader(ctx, api, request, inventory).Read());
  return inventory;
}

}  // namespace csidelta::cli
