#include "doctor/checkup.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <limits>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/enum_names.h"
#include "doctor/checks.h"

namespace csidelta::doctor {
namespace {

// What others need comes first, and is to be mended first.
constexpr std::array kChecks = {
    Check{"cluster-reachable", "does the API server answer, and which cluster is this?",
          CheckClusterReachable},
    Check{"snapshot-kinds", "are the CRDs of VolumeSnapshots installed?", CheckSnapshotKinds},
    Check{"velero-namespace", "is Velero in the given namespace?", CheckVeleroNamespace},
    Check{"mover-namespace", "is the data mover in the given namespace?", CheckMoverNamespace},
    Check{"snapshot-controller", "does the snapshot controller run?", CheckSnapshotController},
    Check{"mover-kinds", "are the data mover's CRDs installed?", CheckMoverKinds},
    Check{"mover-kind-fields", "have the data mover's CRDs all fields that this version uses?",
          CheckMoverKindFields},
    Check{"stuck-snapshots", "are VolumeSnapshots stuck?", CheckStuckSnapshots},
    Check{"stuck-contents", "do VolumeSnapshotContents fail to be deleted?", CheckStuckContents},
    Check{"restored-volumes", "are volumes left that an in-place restore has replaced?",
          CheckRestoredVolumes},
    Check{"copies-into-volumes", "are restores into existing volumes unfinished?",
          CheckCopiesIntoVolumes},
    Check{"restores-without-data", "did restores leave PVCs without data?",
          CheckRestoresWithoutData},
    Check{"velero-server", "does Velero's server run?", CheckVeleroServer},
    Check{"velero-version", "is Velero 1.12 or newer?", CheckVeleroVersion},
    Check{"velero-csi-feature", "does Velero run with EnableCSI?", CheckVeleroCsiFeature},
    Check{"velero-plugin", "is the plugin installed in Velero, without velero-plugin-for-csi?",
          CheckVeleroPlugin},
    Check{"velero-policies",
          "do volume policies fit Velero's version and the data mover of their schedules?",
          CheckVeleroPolicies},
    Check{"uploads-waiting", "are DataUploads processed?", CheckUploadsWaiting},
    Check{"uploads-failed", "did uploads of the last day fail?", CheckUploadsFailed},
    Check{"downloads-waiting", "are DataDownloads processed?", CheckDownloadsWaiting},
    Check{"deletions-pending", "does data stay that was to be deleted?", CheckDeletionsPending},
    Check{"deletions-failing", "are there DataDeletions that cannot succeed?",
          CheckDeletionsFailing},
    Check{"deletions-impossible", "does data stay that this cluster can never delete?",
          CheckDeletionsImpossible},
    Check{"location-default", "is one storage location the default?", CheckLocationDefault},
    Check{"location-available", "does Velero reach its storage locations?", CheckLocationAvailable},
    Check{"location-provider", "does the data mover support the storage locations?",
          CheckLocationProvider},
    Check{"location-shared", "has each storage location a bucket and prefix of its own?",
          CheckLocationShared},
    Check{"location-tls", "is the connection to the buckets encrypted and verified?",
          CheckLocationTls},
    Check{"location-credentials", "are there credentials for the storage locations?",
          CheckLocationCredentials},
    Check{"location-readable", "can the buckets be listed?", CheckLocationReadable},
    Check{"location-writable", "can objects be written into the buckets?", CheckLocationWritable},
    Check{"location-immutable", "do object locks and lifecycle rules keep what backups need?",
          CheckLocationImmutable},
    Check{"keyring-present", "is there a keyring for each storage location?", CheckKeyringPresent},
    Check{"keyring-whole", "does each key fit its fingerprint?", CheckKeyringWhole},
    Check{"keyring-confirmed", "has each key been backed up?", CheckKeyringConfirmed},
    Check{"mover-pod-security", "is the mover's namespace restricted?", CheckMoverPodSecurity},
    Check{"mover-deployment", "does the mover's controller run?", CheckMoverDeployment},
    Check{"mover-leader", "does one of the controllers lead?", CheckMoverLeader},
    Check{"mover-settings", "can the mover's settings be read?", CheckMoverSettings},
    Check{"mover-setting-names", "do the objects exist that the settings name?",
          CheckMoverSettingNames},
    Check{"mover-accounts", "do the ServiceAccounts of controller and workers exist?",
          CheckMoverAccounts},
    Check{"mover-admission", "do policies limit what workers and controller may write?",
          CheckMoverAdmission},
    Check{"mover-quota", "do quotas leave room for workers?", CheckMoverQuota},
    Check{"mover-tasks-silent", "do all running workers report?", CheckMoverTasksSilent},
    Check{"mover-orphans", "are objects left whose DataUpload is gone?", CheckMoverOrphans},
    Check{"mover-bases", "is each base snapshot needed by the next backup?", CheckMoverBases},
    Check{"kept-snapshots", "does the storage still have the snapshots that backups keep there?",
          CheckKeptSnapshots},
    Check{"mover-queue", "do all transfers end before Velero cancels them?", CheckMoverQueue},
    Check{"mover-first-full", "does a full backup of the largest PVC end before Velero cancels it?",
          CheckMoverFirstFull},
    Check{"mover-flags", "does the mover's controller run with limits of its own?",
          CheckMoverFlags},
    Check{"mover-memory", "is the controller's memory limit enough for so many objects?",
          CheckMoverMemory},
    Check{"mover-scratch",
          "are the workers' scratch space and memory enough for the largest volume?",
          CheckMoverScratch},
    Check{"mover-worker-pod", "does the API server accept a worker's Pod and PVC?",
          CheckMoverWorkerPod},
    Check{"clock-skew", "do the clocks of this machine and of the nodes agree?", CheckClockSkew},
    Check{"driver-object", "is each CSI driver in use registered?", CheckDriverObject},
    Check{"driver-storage-class", "do the storage classes of PVCs exist?", CheckDriverStorageClass},
    Check{"driver-snapshot-class", "does each driver have a class for snapshots?",
          CheckDriverSnapshotClass},
    Check{"driver-changed-blocks", "can each driver list changed blocks?",
          CheckDriverChangedBlocks},
    Check{"driver-metadata-service", "do the services of snapshot metadata answer?",
          CheckDriverMetadataService},
    Check{"driver-block-device", "which PVCs can never become a block device?",
          CheckDriverBlockDevice},
    Check{"driver-snapshot-limit", "which drivers refuse what because of snapshots?",
          CheckDriverSnapshotLimit},
    Check{"driver-zones", "do restores fill volumes that their Pods can use?", CheckDriverZones},
    Check{"driver-snapshots", "has the storage all snapshots that the cluster names?",
          CheckDriverSnapshots},
    Check{"volumes-not-csi", "which volumes belong to no CSI driver?", CheckVolumesNotCsi},
    Check{"claims-unbound", "which PVCs have no volume?", CheckClaimsUnbound},
    Check{"longhorn-found", "is Longhorn where the plugin looks for it?", CheckLonghornFound},
    Check{"longhorn-class", "do VolumeSnapshotClasses of Longhorn take snapshots?",
          CheckLonghornClass},
    Check{"longhorn-snapshots", "are snapshots of Longhorn near a limit, waiting or stuck?",
          CheckLonghornSnapshots},
    Check{"longhorn-native", "are native snapshots of Longhorn left without their backup?",
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

constexpr EnumNames<Severity, 5> kSeverityNames = {{{Severity::kGood, "good"},
                                                    {Severity::kNote, "note"},
                                                    {Severity::kWarning, "warning"},
                                                    {Severity::kFault, "fault"},
                                                    {Severity::kUnknown, "unknown"}}};

// Names that a finding lists, before it only counts.
constexpr std::size_t kNamesMax = 5;

constexpr absl::string_view kReachable = "cluster-reachable";  // what all others need

// Checks whose names begin so say nothing of use where `needed` has failed.
struct Prerequisite {
  absl::string_view prefix;
  absl::string_view needed;
};
constexpr std::array kPrerequisites = {
    Prerequisite{"snapshot-controller", "snapshot-kinds"},
    Prerequisite{"mover-bases", "snapshot-kinds"},
    Prerequisite{"stuck-", "snapshot-kinds"},
    Prerequisite{"driver-snapshot-class", "snapshot-kinds"},
    Prerequisite{"driver-snapshots", "snapshot-kinds"},
    Prerequisite{"velero-", "velero-namespace"},
    Prerequisite{"uploads-", "velero-namespace"},
    Prerequisite{"downloads-", "velero-namespace"},
    Prerequisite{"deletions-", "velero-namespace"},
    Prerequisite{"location-", "velero-namespace"},
    Prerequisite{"keyring-", "velero-namespace"},
    Prerequisite{"mover-", "mover-namespace"},
    Prerequisite{"device-access", "mover-namespace"},
    Prerequisite{"clock-skew", "mover-namespace"},
    Prerequisite{"mover-flags", "mover-deployment"},
    Prerequisite{"mover-memory", "mover-deployment"},
    Prerequisite{"mover-worker-pod", "mover-deployment"},
    Prerequisite{"device-access", "mover-deployment"},
    Prerequisite{"mover-setting-names", "mover-settings"},
    Prerequisite{"mover-queue", "mover-settings"},
    Prerequisite{"mover-scratch", "mover-settings"},
    Prerequisite{"mover-worker-pod", "mover-settings"},
    Prerequisite{"device-access", "mover-settings"},
};

// One cause is one finding: those of a check that differ only in their subject become one.
std::vector<Finding> OnePerCause(const std::vector<Finding>& findings) {
  std::vector<Finding> merged;
  for (const Finding& finding : findings) {
    const auto same = absl::c_find_if(merged, [&finding](const Finding& one) {
      return one.severity == finding.severity && one.text == finding.text &&
             one.remediation == finding.remediation && one.severity != Severity::kGood;
    });
    if (same == merged.end()) {
      merged.push_back(finding);
    } else {
      absl::StrAppend(&same->subject, ", ", finding.subject);
    }
  }
  return merged;
}

// Makes checks one after the other, and says each cause once. Borrows all.
class Checkup {
 public:
  Checkup(ClusterCache& cache, const CheckupOptions& options, Random& random,
          const FindingSink& sink)
      : cache_(cache), options_(options), random_(random), sink_(sink) {}

  void Make(const Check& check);
  void CountLeftOut();

 private:
  // A finding that others are left out for.
  struct Cause {
    std::string check;
    std::string subject;
    bool is_prerequisite = false;
    std::set<std::string> left_out = {};  // checks
  };

  // What an unmet prerequisite is explained by; nullptr: all are met.
  Cause* UnmetPrerequisite(absl::string_view check);
  // Whether it was said before why that is unknown; then it is counted only.
  bool IsRepeated(const Finding& finding);

  ClusterCache& cache_;
  const CheckupOptions& options_;
  Random& random_;
  const FindingSink& sink_;
  std::deque<Cause> causes_;                // in the order in which they were found; never moved
  std::map<std::string, Cause*> unmet_;     // by the check that failed, or was left out
  std::map<std::string, Cause*> reported_;  // by the text of an unknown one
};

Checkup::Cause* Checkup::UnmetPrerequisite(absl::string_view check) {
  for (const absl::string_view needed : PrerequisitesOf(check)) {
    if (const auto found = unmet_.find(std::string(needed)); found != unmet_.end()) {
      return found->second;
    }
  }
  return nullptr;
}

bool Checkup::IsRepeated(const Finding& finding) {
  if (finding.severity != Severity::kUnknown) {
    return false;
  }
  const auto reported = reported_.find(finding.text);
  if (reported != reported_.end()) {
    reported->second->left_out.insert(finding.check);
    return true;
  }
  causes_.push_back({.check = finding.check, .subject = finding.subject});
  reported_[finding.text] = &causes_.back();
  return false;
}

void Checkup::Make(const Check& check) {
  const std::string name(check.name);
  if (Cause* const cause = UnmetPrerequisite(check.name); cause != nullptr) {
    cause->left_out.insert(name);
    unmet_[name] = cause;
    return;
  }
  std::vector<Finding> findings;
  const FindingSink recording = [&](const Finding& finding) { findings.push_back(finding); };
  CheckContext context(cache_, options_, random_, check.name, recording);
  if (context.IsKnown("", cache_.ctx().Check())) {
    check.run(context);
  }
  if (findings.empty()) {
    context.Good("", "no fault found");
  }
  findings = OnePerCause(findings);
  for (const Finding& finding : findings) {
    if (!IsRepeated(finding)) {
      sink_(finding);
    }
  }
  if (context.explains_others()) {
    causes_.push_back({.check = name, .subject = findings.back().subject, .is_prerequisite = true});
    unmet_[name] = &causes_.back();
  }
}

void Checkup::CountLeftOut() {
  for (const Cause& cause : causes_) {
    // The same check may have said the same of several subjects.
    std::vector<std::string> names(cause.left_out.begin(), cause.left_out.end());
    std::erase(names, cause.check);
    if (names.empty()) {
      continue;
    }
    const std::string count = absl::StrCat(names.size(), names.size() == 1 ? " check" : " checks");
    sink_({.severity = Severity::kUnknown,
           .check = cause.check,
           .subject = cause.subject,
           .text = cause.is_prerequisite
                       ? absl::StrCat(count, " not made because of this: ", Listed(names))
                       : absl::StrCat(count, " not completed for the same reason: ", Listed(names)),
           .remediation = "mend that first, then run csi-delta doctor again"});
  }
}

}  // namespace

std::vector<absl::string_view> PrerequisitesOf(absl::string_view check) {
  std::vector<absl::string_view> needed;
  if (check == kReachable) {
    return needed;
  }
  needed.push_back(kReachable);
  for (const Prerequisite& prerequisite : kPrerequisites) {
    if (absl::StartsWith(check, prerequisite.prefix) && check != prerequisite.needed) {
      needed.push_back(prerequisite.needed);
    }
  }
  return needed;
}

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

std::vector<int> VersionOf(absl::string_view image) {
  std::vector<int> version;
  const absl::string_view tag = absl::StripPrefix(image.substr(image.rfind(':') + 1), "v");
  for (const absl::string_view part : absl::StrSplit(tag, '.')) {
    version.push_back(0);
    if (!absl::SimpleAtoi(part.substr(0, part.find_first_not_of("0123456789")), &version.back())) {
      return {};
    }
  }
  if (version.size() == 2) {
    version.push_back(std::numeric_limits<int>::max());
  }
  return version.size() > 2 ? version : std::vector<int>();
}

std::string FlagIn(const objects::Deployment& deployment, absl::string_view flag) {
  const std::vector<std::string> words =
      absl::StrSplit(absl::StrJoin(deployment.arguments(), "="), '=');
  const auto found = absl::c_find(words, flag);
  return found == words.end() || found + 1 == words.end() ? "" : *(found + 1);
}

std::string SubjectOf(absl::string_view kind, absl::string_view space, absl::string_view name) {
  return absl::StrCat(kind, " ", space, space.empty() ? "" : "/", name);
}

std::string SubjectOf(absl::string_view kind, const objects::Object& object) {
  return SubjectOf(kind, object.namespace_name(), object.name());
}

std::string DescribeCommand(absl::string_view space, absl::string_view deployment) {
  return absl::StrCat("kubectl describe deployment ", deployment, " --namespace ", space,
                      " && kubectl describe pods --namespace ", space);
}

std::string HelmCommand(CheckContext& context, absl::string_view verb) {
  return absl::StrCat("helm ", verb, " csi-delta deploy/chart --namespace ",
                      context.options().mover_namespace);
}

std::string ToString(Severity severity) { return EnumName(kSeverityNames, severity); }

void CheckContext::Unknown(std::string subject, const absl::Status& status,
                           std::string remediation) {
  if (status.ok()) {
    return;
  }
  Report(Severity::kUnknown, std::move(subject), std::string(status.message()),
         !remediation.empty() ? std::move(remediation)
         : absl::IsPermissionDenied(status)
             ? "run it as a user who may read this"
             : "make sure that the API server answers, and run it again");
}

bool CheckContext::IsKnown(std::string subject, const absl::Status& status) {
  Unknown(std::move(subject), status);
  return status.ok();
}

bool CheckContext::IsMissing(std::string subject, const absl::Status& status) {
  const bool is_missing = absl::IsNotFound(status);
  Unknown(std::move(subject), is_missing ? absl::OkStatus() : status);
  return is_missing;
}

void CheckContext::Report(Severity severity, std::string subject, std::string text,
                          std::string remediation) {
  sink_({.severity = severity,
         .check = std::string(check_),
         .subject = std::move(subject),
         .text = std::move(text),
         .remediation = std::move(remediation)});
}

std::vector<objects::Object> CheckContext::List(const k8s::ResourceType& type,
                                                absl::string_view namespace_name) {
  const std::vector<objects::Object>* list = Listed(type, namespace_name);
  return list == nullptr ? std::vector<objects::Object>() : *list;
}

const std::vector<objects::Object>* CheckContext::Listed(const k8s::ResourceType& type,
                                                         absl::string_view namespace_name) {
  const absl::StatusOr<std::vector<objects::Object>>& list = cache_.List(type, namespace_name);
  if (list.ok()) {
    return &*list;
  }
  IsMissing(absl::StrCat(type.plural, namespace_name.empty() ? "" : " of ", namespace_name),
            list.status());
  return nullptr;
}

absl::Span<const Check> AllChecks() { return kChecks; }

void RunCheckup(const CallContext& ctx, k8s::ApiClient& api, const CheckupOptions& options,
                Random& random, const FindingSink& sink) {
  ClusterCache cache(ctx, api);
  Checkup checkup(cache, options, random, sink);
  for (const Check& check : kChecks) {
    if (!check.makes_objects || options.probe) {
      checkup.Make(check);
    }
  }
  checkup.CountLeftOut();
}

}  // namespace csidelta::doctor
