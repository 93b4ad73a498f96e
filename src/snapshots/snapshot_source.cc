#include "snapshots/snapshot_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "csi/snapshot_class.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/workload.h"

namespace csidelta::snapshots {
namespace {

using objects::PersistentVolumeClaim;
using objects::VolumeSnapshotClass;

absl::StatusOr<std::vector<PersistentVolumeClaim>> ListPvcs(const CallContext& ctx,
                                                            k8s::ApiClient& api,
                                                            const PvcSelection& selection) {
  return objects::List<PersistentVolumeClaim>(ctx, api, selection.namespace_name,
                                              {.label_selector = selection.label_selector});
}

absl::StatusOr<std::vector<PersistentVolumeClaim>> ReadPvcs(const CallContext& ctx,
                                                            k8s::ApiClient& api,
                                                            const std::string& namespace_name,
                                                            std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::vector<PersistentVolumeClaim> pvcs;
  pvcs.reserve(names.size());
  for (const std::string& name : names) {
    auto pvc = objects::Get<PersistentVolumeClaim>(ctx, api, namespace_name, name);
    if (absl::IsNotFound(pvc.status())) {
      return absl::NotFoundError(absl::StrCat("PVC ", namespace_name, "/", name,
                                              " was not found; kubectl get pvc -n ", namespace_name,
                                              " lists those that exist"));
    }
    RETURN_IF_ERROR(pvc.status());
    pvcs.push_back(*std::move(pvc));
  }
  return pvcs;
}

absl::StatusOr<SelectedPvcs> OfPod(const CallContext& ctx, k8s::ApiClient& api,
                                   const PvcSelection& selection) {
  ASSIGN_OR_RETURN(const auto pod,
                   objects::Get<objects::Pod>(ctx, api, selection.namespace_name, selection.pod));
  ASSIGN_OR_RETURN(std::vector<PersistentVolumeClaim> pvcs,
                   ReadPvcs(ctx, api, selection.namespace_name, pod.pvcs()));
  return SelectedPvcs{.pvcs = std::move(pvcs), .workload = absl::StrCat("Pod/", selection.pod)};
}

absl::StatusOr<SelectedPvcs> OfStatefulSet(const CallContext& ctx, k8s::ApiClient& api,
                                           const PvcSelection& selection) {
  ASSIGN_OR_RETURN(const auto stateful_set,
                   objects::Get<objects::StatefulSet>(ctx, api, selection.namespace_name,
                                                      selection.stateful_set));
  ASSIGN_OR_RETURN(const std::vector<PersistentVolumeClaim> all, ListPvcs(ctx, api, selection));
  SelectedPvcs selected{.workload = absl::StrCat("StatefulSet/", selection.stateful_set)};
  std::copy_if(all.begin(), all.end(), std::back_inserter(selected.pvcs),
               [&](const PersistentVolumeClaim& pvc) { return stateful_set.Uses(pvc.name()); });
  return selected;
}

absl::StatusOr<SelectedPvcs> Select(const CallContext& ctx, k8s::ApiClient& api,
                                    const PvcSelection& selection) {
  if (!selection.pod.empty()) {
    return OfPod(ctx, api, selection);
  }
  if (!selection.stateful_set.empty()) {
    return OfStatefulSet(ctx, api, selection);
  }
  SelectedPvcs selected;
  if (selection.names.empty()) {
    ASSIGN_OR_RETURN(selected.pvcs, ListPvcs(ctx, api, selection));
  } else {
    ASSIGN_OR_RETURN(selected.pvcs, ReadPvcs(ctx, api, selection.namespace_name, selection.names));
  }
  return selected;
}

// The classes of the cluster, where they may be listed.
struct KnownClasses {
  bool are_read = false;
  std::vector<VolumeSnapshotClass> classes;
};

std::string ClassesOf(const std::vector<VolumeSnapshotClass>& classes, const std::string& driver) {
  std::vector<std::string> names;
  for (const VolumeSnapshotClass& one : classes) {
    if (absl::EqualsIgnoreCase(one.driver(), driver)) {
      names.push_back(one.name());
    }
  }
  return names.empty() ? "no class is of that driver"
                       : absl::StrCat("classes of that driver: ", absl::StrJoin(names, ", "));
}

absl::Status CheckNamedClass(const std::string& class_name, const std::string& driver,
                             const KnownClasses& known) {
  const VolumeSnapshotClass* const found = objects::OfName(known.classes, class_name);
  if (found == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "VolumeSnapshotClass ", class_name, " was not found; ", ClassesOf(known.classes, driver)));
  }
  const std::string of = found->driver();
  if (driver.empty() || absl::EqualsIgnoreCase(of, driver)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("VolumeSnapshotClass ", class_name, " is of driver ", of, ", the volume of ",
                   driver, "; ", ClassesOf(known.classes, driver)));
}

class SourcePreparer {
 public:
  SourcePreparer(const CallContext& ctx, k8s::ApiClient& api, const std::string& class_name)
      : ctx_(ctx), api_(api), class_name_(class_name) {}

  absl::StatusOr<SnapshotSources> Prepare(const std::vector<PersistentVolumeClaim>& pvcs) {
    RETURN_IF_ERROR(ReadClasses());
    std::vector<std::string> in_the_way;
    SnapshotSources prepared;
    prepared.sources.reserve(pvcs.size());
    for (const PersistentVolumeClaim& pvc : pvcs) {
      absl::StatusOr<SnapshotSource> source = SourceOf(pvc);
      if (absl::IsFailedPrecondition(source.status())) {
        in_the_way.push_back(absl::StrCat("PVC ", pvc.namespace_name(), "/", pvc.name(), ": ",
                                          source.status().message()));
        continue;
      }
      RETURN_IF_ERROR(source.status());
      prepared.sources.push_back(*std::move(source));
    }
    if (!in_the_way.empty()) {
      return absl::FailedPreconditionError(absl::StrJoin(in_the_way, "\n"));
    }
    prepared.not_checked = std::move(not_checked_);
    return prepared;
  }

 private:
  absl::Status ReadClasses() {
    auto list = objects::List<VolumeSnapshotClass>(ctx_, api_, "");
    if (absl::IsPermissionDenied(list.status())) {
      not_checked_.push_back(absl::StrCat("class not checked: ", list.status().message()));
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(list.status());
    known_ = {.are_read = true, .classes = *std::move(list)};
    return absl::OkStatus();
  }

  absl::StatusOr<SnapshotSource> SourceOf(const PersistentVolumeClaim& pvc) {
    if (!pvc.is_bound()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "it is not bound to a volume (", pvc.phase().empty() ? "new" : pvc.phase(),
          "); kubectl describe pvc ", pvc.name(), " -n ", pvc.namespace_name(), " says why"));
    }
    ASSIGN_OR_RETURN(const std::string driver, DriverOf(pvc));
    ASSIGN_OR_RETURN(std::string class_name, ClassFor(pvc, driver));
    return SnapshotSource{.pvc = pvc, .driver = driver, .class_name = std::move(class_name)};
  }

  // "" where that may not be read.
  absl::StatusOr<std::string> DriverOf(const PersistentVolumeClaim& pvc) {
    const auto volume = objects::Get<objects::PersistentVolume>(ctx_, api_, "", pvc.volume_name());
    if (absl::IsPermissionDenied(volume.status())) {
      not_checked_.push_back(
          absl::StrCat("driver of PVC ", pvc.name(), " not checked: ", volume.status().message()));
      return "";
    }
    if (absl::IsNotFound(volume.status())) {
      return absl::FailedPreconditionError(
          absl::StrCat("its PersistentVolume ", pvc.volume_name(), " was not found"));
    }
    RETURN_IF_ERROR(volume.status());
    if (volume->driver().empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("its PersistentVolume ", pvc.volume_name(),
                       " is not of a CSI driver, so that there is no snapshot of it"));
    }
    return volume->driver();
  }

  absl::StatusOr<std::string> ClassFor(const PersistentVolumeClaim& pvc,
                                       const std::string& driver) const {
    if (!class_name_.empty()) {
      if (known_.are_read) {
        RETURN_IF_ERROR(CheckNamedClass(class_name_, driver, known_));
      }
      return class_name_;
    }
    if (!known_.are_read || driver.empty()) {
      return pvc.Annotation(objects::kVolumeSnapshotClassAnnotation);
    }
    ASSIGN_OR_RETURN(
        csi::SnapshotClassChoice choice,
        csi::ChooseSnapshotClass(
            {.driver = driver,
             .claim_annotation = pvc.Annotation(objects::kVolumeSnapshotClassAnnotation)},
            known_.classes));
    return std::move(choice.name);
  }

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const std::string& class_name_;
  KnownClasses known_;
  std::vector<std::string> not_checked_;
};

}  // namespace

absl::Status CheckOneWay(const PvcSelection& selection) {
  const int ways = (selection.names.empty() ? 0 : 1) + (selection.pod.empty() ? 0 : 1) +
                   (selection.stateful_set.empty() ? 0 : 1) +
                   (selection.label_selector.empty() ? 0 : 1) + (selection.all ? 1 : 0);
  return ways == 1
             ? absl::OkStatus()
             : absl::InvalidArgumentError(
                   "name the PVCs in one way: their names, --pod, --statefulset, -l or --all");
}

absl::StatusOr<SelectedPvcs> SelectPvcs(const CallContext& ctx, k8s::ApiClient& api,
                                        const PvcSelection& selection) {
  RETURN_IF_ERROR(CheckOneWay(selection));
  ASSIGN_OR_RETURN(SelectedPvcs selected, Select(ctx, api, selection));
  if (selected.pvcs.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "no PVC of namespace ", selection.namespace_name, " is selected; kubectl get pvc -n ",
        selection.namespace_name, " --show-labels lists those that exist"));
  }
  return selected;
}

absl::StatusOr<SnapshotSources> PrepareSources(const CallContext& ctx, k8s::ApiClient& api,
                                               const std::vector<PersistentVolumeClaim>& pvcs,
                                               const std::string& class_name) {
  return SourcePreparer(ctx, api, class_name).Prepare(pvcs);
}

}  // namespace csidelta::snapshots
