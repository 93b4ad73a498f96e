#include "cli/mover/scratch_restore.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "k8s/api_client.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/cluster.h"
#include "objects/data_transfer.h"
#include "objects/keys.h"
#include "objects/persistent_volume.h"
#include "velero/data_reference.h"
#include "velero/labels.h"

namespace csidelta::cli {
namespace {

using objects::DataDownload;
using objects::DataUpload;
using objects::Namespace;
using objects::PersistentVolume;
using objects::PersistentVolumeClaim;
using objects::Restore;

constexpr absl::Duration kRemovalTimeout = absl::Minutes(10);
constexpr std::size_t kScratchBaseBytesMax = 50;  // of the name of the namespace in others
constexpr std::size_t kRunBaseBytesMax = 38;
constexpr char kDelete[] = "Delete";

absl::StatusOr<std::vector<DataDownload>> ListDownloads(const CallContext& ctx, k8s::ApiClient& api,
                                                        const ScratchRestore& plan) {
  return objects::List<DataDownload>(ctx, api, plan.velero_namespace,
                                     LabelledWith(objects::kRestoreNameLabel, plan.restore));
}

// Has each volume that the Restore filled go with its PVC. Others may stand for data that was there
// before, such as a volume of NFS, and stay as they are.
absl::Status ReleaseVolumes(const CallContext& ctx, k8s::ApiClient& api,
                            const ScratchRestore& plan) {
  ASSIGN_OR_RETURN(const std::vector<DataDownload> downloads, ListDownloads(ctx, api, plan));
  for (const DataDownload& download : downloads) {
    if (!download.Validate().ok() || download.target_namespace() != plan.into ||
        !download.target_volume().empty()) {
      continue;
    }
    ASSIGN_OR_RETURN(const std::optional<PersistentVolumeClaim> pvc,
                     objects::Find<PersistentVolumeClaim>(
                         ctx, api, PersistentVolumeClaim::Key(plan.into, download.target_pvc())));
    if (!pvc.has_value() || !pvc->is_bound()) {
      continue;
    }
    ASSIGN_OR_RETURN(
        const std::optional<PersistentVolume> volume,
        objects::Find<PersistentVolume>(ctx, api, PersistentVolume::Key("", pvc->volume_name())));
    if (volume.has_value() && volume->is_retained()) {
      RETURN_IF_ERROR(k8s::IgnoreNotFound(
          objects::Apply(ctx, api, volume->key(),
                         objects::Patch().IfUid(volume->uid()).SetReclaimPolicy(kDelete))));
    }
  }
  return absl::OkStatus();
}

}  // namespace

int64_t CountFailed(const RestoredPvcs& pvcs) {
  return std::count_if(pvcs.begin(), pvcs.end(),
                       [](const auto& pvc) { return !pvc.second.empty(); });
}

k8s::ListOptions LabelledWith(absl::string_view label, absl::string_view name) {
  return {.label_selector = absl::StrCat(label, "=", velero::ValidLabelValue(name)),
          .field_selector = ""};
}

std::string ScratchName(absl::string_view namespace_name) {
  return absl::StrCat(namespace_name.substr(0, kScratchBaseBytesMax), "-try");
}

std::string RunName(absl::Time now, absl::string_view namespace_name) {
  return absl::StrCat("try-", absl::FormatTime("%Y%m%d%H%M%S", now, absl::UTCTimeZone()), "-",
                      namespace_name.substr(0, kRunBaseBytesMax));
}

absl::Status CheckScratch(const CallContext& ctx, k8s::ApiClient& api, const ScratchRestore& plan) {
  if (!velero::IsNamespaceName(plan.from) || !velero::IsNamespaceName(plan.into) ||
      plan.from == plan.into) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", plan.from, "\" and \"", plan.into,
                     "\" are not the names of two namespaces; choose another one by --into"));
  }
  ASSIGN_OR_RETURN(const std::optional<Namespace> there,
                   objects::Find<Namespace>(ctx, api, Namespace::Key("", plan.into)));
  return there.has_value()
             ? absl::FailedPreconditionError(absl::StrCat(
                   "namespace ", plan.into,
                   " exists, and the scratch namespace is removed afterwards: delete it, or choose "
                   "another one by --into"))
             : absl::OkStatus();
}

absl::StatusOr<std::string> RestoreIntoScratch(const CallContext& ctx, k8s::ApiClient& api,
                                               const ScratchRestore& plan, absl::Duration timeout) {
  Restore restore =
      Restore::OfNamespace(plan.velero_namespace, plan.restore, plan.backup, plan.from, plan.into);
  for (const auto& [key, value] : plan.labels) {
    restore.SetLabel(key, value);
  }
  RETURN_IF_ERROR(objects::Create(ctx, api, restore).status());
  std::string trouble;
  const absl::Status status = objects::WaitFor<Restore>(
      ctx.WithTimeout(timeout), api, restore.key(),
      [&](const Restore* now) -> absl::StatusOr<bool> {
        if (now == nullptr) {
          return absl::NotFoundError(absl::StrCat("Restore ", plan.restore, " is gone"));
        }
        if (now->is_over() && now->phase() != "Completed") {
          trouble =
              absl::StrCat("Restore ", plan.restore, " is ", now->phase(),
                           now->failure_reason().empty() ? "" : ": ", now->failure_reason(),
                           "; velero restore describe ", plan.restore, " --details says more");
        }
        return now->is_over();
      });
  if (absl::IsDeadlineExceeded(status) && ctx.Check().ok()) {
    return absl::StrCat("the restore was not over in time; velero restore describe ", plan.restore,
                        " --details says what it waits for");
  }
  RETURN_IF_ERROR(status);
  return trouble;
}

absl::StatusOr<RestoredPvcs> CompareScratch(const CallContext& ctx, k8s::ApiClient& api,
                                            const ScratchRestore& plan) {
  ASSIGN_OR_RETURN(const std::vector<DataUpload> uploads,
                   objects::List<DataUpload>(ctx, api, plan.velero_namespace,
                                             LabelledWith(objects::kBackupNameLabel, plan.backup)));
  RestoredPvcs result;
  for (const DataUpload& upload : uploads) {
    if (upload.source_namespace() == plan.from && upload.phase() == "Completed") {
      result[upload.source_pvc()] = "no DataDownload was made for it";
    }
  }
  ASSIGN_OR_RETURN(const std::vector<DataDownload> downloads, ListDownloads(ctx, api, plan));
  for (const DataDownload& download : downloads) {
    if (download.Validate().ok() && download.target_namespace() == plan.into) {
      result[download.target_pvc()] =
          download.known_phase() == objects::DataPhase::kCompleted
              ? ""
              : absl::StrCat("DataDownload ", download.name(), " is ", download.phase(), ": ",
                             download.message());
    }
  }
  ASSIGN_OR_RETURN(const std::vector<PersistentVolumeClaim> pvcs,
                   objects::List<PersistentVolumeClaim>(ctx, api, plan.into));
  std::map<std::string, bool> are_bound;
  for (const PersistentVolumeClaim& pvc : pvcs) {
    are_bound[pvc.name()] = pvc.is_bound();
    result.try_emplace(pvc.name());  // of a backup by native snapshots: it is bound, or not
  }
  for (auto& [pvc, trouble] : result) {
    const auto bound = are_bound.find(pvc);
    if (bound == are_bound.end()) {
      trouble = "it is not in the scratch namespace";
    } else if (trouble.empty() && !bound->second) {
      trouble = "it is not bound";
    }
  }
  return result;
}

absl::Status RemoveScratch(const CallContext& ctx, k8s::ApiClient& api,
                           const ScratchRestore& plan) {
  const absl::Status released = ReleaseVolumes(ctx, api, plan);
  const k8s::ObjectKey key = Namespace::Key("", plan.into);
  RETURN_IF_ERROR(k8s::IgnoreNotFound(api.Delete(ctx, key, {})));
  RETURN_IF_ERROR(objects::WaitFor<Namespace>(
      ctx.WithTimeout(kRemovalTimeout), api, key,
      [](const Namespace* scratch) -> absl::StatusOr<bool> { return scratch == nullptr; }));
  return released;
}

}  // namespace csidelta::cli
