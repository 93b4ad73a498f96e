#include "snapshots/snapshot_origin.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "objects/client.h"
#include "objects/persistent_volume.h"
#include "objects/workload.h"

namespace csidelta::snapshots {
namespace {

using objects::PersistentVolume;
using EntryTest = std::function<bool(const SnapshotEntry& entry)>;

class OriginFinder {
 public:
  OriginFinder(const CallContext& ctx, k8s::ApiClient& api, const OriginRequest& request)
      : ctx_(ctx), api_(api), request_(request) {}

  absl::StatusOr<SnapshotOrigin> Find() {
    EntryTest of_workload = nullptr;
    EntryTest of_volume = nullptr;
    if (!request_.pod.empty() || !request_.stateful_set.empty()) {
      RETURN_IF_ERROR(CheckWorkload());
      ASSIGN_OR_RETURN(of_workload, request_.pod.empty() ? OfStatefulSet() : OfPod());
    }
    if (!request_.volume.empty()) {
      ASSIGN_OR_RETURN(of_volume, OfVolume());
    }
    return SnapshotOrigin{.is_of =
                              [of_workload = std::move(of_workload),
                               of_volume = std::move(of_volume)](const SnapshotEntry& entry) {
                                return (of_workload == nullptr || of_workload(entry)) &&
                                       (of_volume == nullptr || of_volume(entry));
                              },
                          .not_checked = std::move(not_checked_)};
  }

 private:
  absl::Status CheckWorkload() const {
    if (!request_.pod.empty() && !request_.stateful_set.empty()) {
      return absl::InvalidArgumentError("name one of --pod and --statefulset");
    }
    if (request_.namespace_name.empty()) {
      return absl::InvalidArgumentError(
          "--pod and --statefulset are of one namespace: name it with -n, instead of -A");
    }
    return absl::OkStatus();
  }

  // Nothing when it does not exist, or may not be read.
  template <typename Kind>
  absl::StatusOr<std::optional<Kind>> FindWorkload(const std::string& name) {
    auto found = objects::Find<Kind>(ctx_, api_, request_.namespace_name, name);
    if (absl::IsPermissionDenied(found.status())) {
      not_checked_.push_back(absl::StrCat(
          "PVCs of ", Kind::kKind.kind, " ", name,
          " not checked, only what says that it was taken of it: ", found.status().message()));
      return std::optional<Kind>();
    }
    if (found.ok() && !found->has_value()) {
      not_checked_.push_back(absl::StrCat(Kind::kKind.kind, " ", request_.namespace_name, "/", name,
                                          " does not exist: only what says that it was taken of it "
                                          "is listed"));
    }
    return found;
  }

  absl::StatusOr<EntryTest> OfPod() {
    ASSIGN_OR_RETURN(const auto pod, FindWorkload<objects::Pod>(request_.pod));
    std::vector<std::string> pvcs = pod.has_value() ? pod->pvcs() : std::vector<std::string>();
    return EntryTest([pvcs = std::move(pvcs),
                      workload = absl::StrCat("Pod/", request_.pod)](const SnapshotEntry& entry) {
      return entry.workload == workload ||
             std::find(pvcs.begin(), pvcs.end(), entry.pvc) != pvcs.end();
    });
  }

  absl::StatusOr<EntryTest> OfStatefulSet() {
    ASSIGN_OR_RETURN(auto stateful_set, FindWorkload<objects::StatefulSet>(request_.stateful_set));
    return EntryTest([stateful_set = std::move(stateful_set),
                      workload = absl::StrCat("StatefulSet/", request_.stateful_set)](
                         const SnapshotEntry& entry) {
      return entry.workload == workload ||
             (stateful_set.has_value() && stateful_set->Uses(entry.pvc));
    });
  }

  absl::StatusOr<EntryTest> OfVolume() {
    ASSIGN_OR_RETURN(auto volume, objects::Find<PersistentVolume>(ctx_, api_, "", request_.volume));
    if (!volume.has_value()) {
      not_checked_.push_back(absl::StrCat("PersistentVolume ", request_.volume,
                                          " does not exist: listed is what was taken of a volume "
                                          "that the driver calls so"));
      return EntryTest([handle = request_.volume](const SnapshotEntry& entry) {
        return entry.volume_handle == handle;
      });
    }
    if (volume->driver().empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("PersistentVolume ", request_.volume,
                       " is not of a CSI driver, so that there is no snapshot of it"));
    }
    return EntryTest([volume = *std::move(volume)](const SnapshotEntry& entry) {
      return IsOfVolume(entry, volume);
    });
  }

  static bool IsOfVolume(const SnapshotEntry& entry, const PersistentVolume& volume) {
    if (entry.content_kind == csi::ContentReading::Kind::kPresent) {
      return absl::EqualsIgnoreCase(entry.driver, volume.driver()) &&
             !entry.volume_handle.empty() && entry.volume_handle == volume.handle();
    }
    return !entry.pvc.empty() && entry.pvc == volume.pvc_name() &&
           entry.namespace_name == volume.pvc_namespace();
  }

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const OriginRequest& request_;
  std::vector<std::string> not_checked_;
};

}  // namespace

absl::StatusOr<SnapshotOrigin> FindOrigin(const CallContext& ctx, k8s::ApiClient& api,
                                          const OriginRequest& request) {
  return OriginFinder(ctx, api, request).Find();
}

}  // namespace csidelta::snapshots
