#include "csi/snapshot_origin.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "csi/snapshot_types.h"
#include "k8s/find.h"
#include "objects/persistent_volume.h"
#include "objects/workload.h"

namespace csidelta::csi {
namespace {

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
  absl::StatusOr<std::optional<Json>> FindWorkload(const k8s::ResourceType& type,
                                                   const std::string& name) {
    absl::StatusOr<std::optional<Json>> found = k8s::Find(
        ctx_, api_, {.type = type, .namespace_name = request_.namespace_name, .name = name});
    if (absl::IsPermissionDenied(found.status())) {
      not_checked_.push_back(absl::StrCat(
          "PVCs of ", type.kind, " ", name,
          " not checked, only what says that it was taken of it: ", found.status().message()));
      return std::nullopt;
    }
    if (found.ok() && !found->has_value()) {
      not_checked_.push_back(absl::StrCat(type.kind, " ", request_.namespace_name, "/", name,
                                          " does not exist: only what says that it was taken of it "
                                          "is listed"));
    }
    return found;
  }

  absl::StatusOr<EntryTest> OfPod() {
    ASSIGN_OR_RETURN(std::optional<Json> found, FindWorkload(PodType(), request_.pod));
    std::vector<std::string> pvcs;
    if (found.has_value()) {
      ASSIGN_OR_RETURN(const objects::Pod pod, objects::Pod::Of(*std::move(found)));
      pvcs = pod.pvcs();
    }
    return EntryTest([pvcs = std::move(pvcs),
                      workload = absl::StrCat("Pod/", request_.pod)](const SnapshotEntry& entry) {
      return entry.workload == workload ||
             std::find(pvcs.begin(), pvcs.end(), entry.pvc) != pvcs.end();
    });
  }

  absl::StatusOr<EntryTest> OfStatefulSet() {
    ASSIGN_OR_RETURN(std::optional<Json> found,
                     FindWorkload(StatefulSetType(), request_.stateful_set));
    std::optional<objects::StatefulSet> stateful_set;
    if (found.has_value()) {
      ASSIGN_OR_RETURN(stateful_set, objects::StatefulSet::Of(*std::move(found)));
    }
    return EntryTest([stateful_set = std::move(stateful_set),
                      workload = absl::StrCat("StatefulSet/", request_.stateful_set)](
                         const SnapshotEntry& entry) {
      return entry.workload == workload ||
             (stateful_set.has_value() && stateful_set->Uses(entry.pvc));
    });
  }

  absl::StatusOr<EntryTest> OfVolume() {
    ASSIGN_OR_RETURN(std::optional<Json> found, k8s::Find(ctx_, api_, VolumeKey(request_.volume)));
    if (!found.has_value()) {
      not_checked_.push_back(absl::StrCat("PersistentVolume ", request_.volume,
                                          " does not exist: listed is what was taken of a volume "
                                          "that the driver calls so"));
      return EntryTest([handle = request_.volume](const SnapshotEntry& entry) {
        return entry.volume_handle == handle;
      });
    }
    ASSIGN_OR_RETURN(objects::PersistentVolume volume,
                     objects::PersistentVolume::Of(*std::move(found)));
    if (volume.driver().empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("PersistentVolume ", request_.volume,
                       " is not of a CSI driver, so that there is no snapshot of it"));
    }
    return EntryTest([volume = std::move(volume)](const SnapshotEntry& entry) {
      return IsOfVolume(entry, volume);
    });
  }

  static bool IsOfVolume(const SnapshotEntry& entry, const objects::PersistentVolume& volume) {
    if (entry.content_kind == ContentReading::Kind::kPresent) {
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

}  // namespace csidelta::csi
