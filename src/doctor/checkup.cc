#include "doctor/checkup.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "doctor/checks.h"

namespace csidelta::doctor {
namespace {

constexpr std::array kChecks = {
    Check{"cluster-reachable", "does the API server answer, and who is this cluster?",
          CheckClusterReachable},
    Check{"snapshot-kinds", "does the cluster know volume snapshots?", CheckSnapshotKinds},
    Check{"snapshot-controller", "does the snapshot controller run?", CheckSnapshotController},
    Check{"mover-kinds", "are the mover's own kinds installed?", CheckMoverKinds},
    Check{"mover-kind-fields", "have the mover's own kinds all fields that this version uses?",
          CheckMoverKindFields},
    Check{"stuck-snapshots", "do volume snapshots wait in vain?", CheckStuckSnapshots},
    Check{"stuck-contents", "do contents of volume snapshots refuse to go?", CheckStuckContents},
    Check{"restored-volumes", "do volumes stay that an in-place restore has replaced?",
          CheckRestoredVolumes},
    Check{"copies-into-volumes", "do restores stay unfinished that write into a volume in place?",
          CheckCopiesIntoVolumes},
    Check{"velero-namespace", "is Velero where we look for it?", CheckVeleroNamespace},
    Check{"velero-server", "does Velero's server run?", CheckVeleroServer},
    Check{"velero-version", "is Velero 1.12 or newer?", CheckVeleroVersion},
    Check{"velero-csi-feature", "does Velero run with EnableCSI?", CheckVeleroCsiFeature},
    Check{"velero-plugin", "is our plugin installed in Velero?", CheckVeleroPlugin},
    Check{"uploads-waiting", "does somebody take up DataUploads?", CheckUploadsWaiting},
    Check{"uploads-failed", "did uploads of the last day fail?", CheckUploadsFailed},
    Check{"downloads-waiting", "does somebody take up DataDownloads?", CheckDownloadsWaiting},
    Check{"deletions-pending", "does data stay that was to be deleted?", CheckDeletionsPending},
    Check{"location-default", "is one storage location the default?", CheckLocationDefault},
    Check{"location-available", "does Velero reach its storage locations?", CheckLocationAvailable},
    Check{"location-provider", "do we know the kinds of the storage locations?",
          CheckLocationProvider},
    Check{"location-tls", "is the way to the buckets encrypted and proven?", CheckLocationTls},
    Check{"location-credentials", "are there credentials for the storage locations?",
          CheckLocationCredentials},
    Check{"location-readable", "can we list the buckets?", CheckLocationReadable},
    Check{"location-writable", "can we write into the buckets?", CheckLocationWritable},
    Check{"keyring-present", "is there a keyring for each storage location?", CheckKeyringPresent},
    Check{"keyring-whole", "does each key fit its fingerprint?", CheckKeyringWhole},
    Check{"keyring-confirmed", "has somebody a copy of each key?", CheckKeyringConfirmed},
    Check{"mover-namespace", "is there the mover's namespace?", CheckMoverNamespace},
    Check{"mover-pod-security", "is the mover's namespace restricted?", CheckMoverPodSecurity},
    Check{"mover-deployment", "does the mover's controller run?", CheckMoverDeployment},
    Check{"mover-leader", "does one of the controllers lead?", CheckMoverLeader},
    Check{"mover-settings", "can the mover's settings be read?", CheckMoverSettings},
    Check{"mover-setting-names", "does what the settings name exist?", CheckMoverSettingNames},
    Check{"mover-accounts", "are there the accounts of controller and workers?",
          CheckMoverAccounts},
    Check{"mover-quota", "do quotas leave room for workers?", CheckMoverQuota},
    Check{"mover-tasks-silent", "do all running workers report?", CheckMoverTasksSilent},
    Check{"mover-orphans", "is there anything whose DataUpload is gone?", CheckMoverOrphans},
    Check{"mover-queue", "do all transfers end before Velero cancels them?", CheckMoverQueue},
    Check{"mover-flags", "does the mover's controller run with limits of its own?",
          CheckMoverFlags},
    Check{"driver-object", "is each CSI driver in use registered?", CheckDriverObject},
    Check{"driver-storage-class", "do the claims' storage classes exist?", CheckDriverStorageClass},
    Check{"driver-snapshot-class", "does each driver have a class for snapshots?",
          CheckDriverSnapshotClass},
    Check{"driver-changed-blocks", "can each driver say which blocks changed?",
          CheckDriverChangedBlocks},
    Check{"driver-metadata-service", "do the services of snapshot metadata answer?",
          CheckDriverMetadataService},
    Check{"driver-block-device", "which claims can never become a block device?",
          CheckDriverBlockDevice},
    Check{"driver-snapshot-limit", "which drivers keep few snapshots of a volume?",
          CheckDriverSnapshotLimit},
    Check{"volumes-not-csi", "which volumes are no CSI driver's?", CheckVolumesNotCsi},
    Check{"claims-unbound", "which claims have no volume?", CheckClaimsUnbound},
    Check{"longhorn-found", "is Longhorn where the plugin looks for it?", CheckLonghornFound},
    Check{"longhorn-class", "do classes for snapshots of Longhorn make snapshots?",
          CheckLonghornClass},
    Check{"longhorn-snapshots", "do snapshots of Longhorn come near a limit, wait or refuse to go?",
          CheckLonghornSnapshots},
    Check{"longhorn-native", "do native snapshots of Longhorn stay without their backup?",
          CheckLonghornNative},
    Check{"longhorn-jobs", "do jobs of Longhorn remove snapshots that are needed?",
          CheckLonghornJobs},
    Check{"longhorn-webhook", "does Longhorn answer when a PVC is changed?", CheckLonghornWebhook},
    Check{"longhorn-kinds", "does the plugin know all kinds of Longhorn?", CheckLonghornKinds},
    Check{"longhorn-in-backups", "would restores make objects of Longhorn that do harm?",
          CheckLonghornInBackups},
    Check{"device-access", "may workers open devices of each storage class in use?",
          CheckDeviceAccess, /*makes_objects=*/true},
};

// Names that a finding lists, before it only counts.
constexpr std::size_t kNamesMax = 5;

}  // namespace

std::string Listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kNamesMax); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", names[i]);
  }
  if (names.size() > kNamesMax) {
    absl::StrAppend(&text, " and ", names.size() - kNamesMax, " more");
  }
  return text;
}

absl::string_view WordOf(Grade grade) {
  switch (grade) {
    case Grade::kGood:
      return "good";
    case Grade::kNote:
      return "note";
    case Grade::kWarning:
      return "warning";
    case Grade::kFault:
      return "fault";
    case Grade::kUnknown:
      break;
  }
  return "unknown";
}

void Visit::Good(std::string subject, std::string text) {
  Say(Grade::kGood, std::move(subject), std::move(text), "");
}

void Visit::Note(std::string subject, std::string text, std::string cure) {
  Say(Grade::kNote, std::move(subject), std::move(text), std::move(cure));
}

void Visit::Warn(std::string subject, std::string text, std::string cure) {
  Say(Grade::kWarning, std::move(subject), std::move(text), std::move(cure));
}

void Visit::Fault(std::string subject, std::string text, std::string cure) {
  Say(Grade::kFault, std::move(subject), std::move(text), std::move(cure));
}

void Visit::Unknown(std::string subject, const absl::Status& status) {
  Say(Grade::kUnknown, std::move(subject), std::string(status.message()),
      absl::IsPermissionDenied(status) ? "run it as somebody who may read this"
                                       : "see to it that the API server answers, and ask again");
}

void Visit::Say(Grade grade, std::string subject, std::string text, std::string cure) {
  sink_({.grade = grade,
         .check = std::string(check_),
         .subject = std::move(subject),
         .text = std::move(text),
         .cure = std::move(cure)});
}

std::vector<objects::Object> Visit::Look(const k8s::ResourceType& type,
                                         absl::string_view namespace_name) {
  const absl::StatusOr<std::vector<objects::Object>>& list = facts_.List(type, namespace_name);
  if (list.ok()) {
    return *list;
  }
  if (!absl::IsNotFound(list.status())) {
    Unknown(absl::StrCat(type.plural, namespace_name.empty() ? "" : " of ", namespace_name),
            list.status());
  }
  return {};
}

absl::Span<const Check> AllChecks() { return kChecks; }

void RunCheckup(const CallContext& ctx, k8s::ApiClient& api, const CheckupOptions& options,
                Random& random, const FindingSink& sink) {
  ClusterFacts facts(ctx, api);
  for (const Check& check : kChecks) {
    if (check.makes_objects && !options.probe) {
      continue;
    }
    bool said = false;
    const FindingSink noting = [&](const Finding& finding) {
      said = true;
      sink(finding);
    };
    Visit visit(facts, options, random, check.name, noting);
    check.run(visit);
    if (!said) {
      visit.Good("", "nothing to complain of");
    }
  }
}

}  // namespace csidelta::doctor
