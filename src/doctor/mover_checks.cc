#include <array>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/quantity.h"
#include "base/rfc3339.h"
#include "csi/snapshot_types.h"
#include "datamover/mover_environment.h"
#include "datamover/settings.h"
#include "datamover/volume_task.h"
#include "doctor/checks.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "velero/data_upload.h"

namespace csidelta::doctor {
namespace {

// Its Deployment has the same name.
constexpr char kControllerAccount[] = "csi-delta-mover";
// A worker reports every ten seconds.
constexpr absl::Duration kSilenceMax = absl::Minutes(2);
// A lease is renewed every two seconds; clocks differ.
constexpr absl::Duration kLeaseAgeMax = absl::Minutes(1);

std::string InMover(Visit& visit, absl::string_view kind, absl::string_view name) {
  return absl::StrCat(kind, " ", visit.options().mover_namespace, "/", name);
}

// Resources that a worker takes of a quota.
constexpr std::array kQuotaResources = {"pods",       "limits.memory",          "requests.memory",
                                        "limits.cpu", "requests.cpu",           "secrets",
                                        "memory",     "persistentvolumeclaims", "cpu"};

bool IsUsedUp(const Json& quota, const char* resource) {
  const auto hard = ParseQuantity(GetString(quota, {"status", "hard", resource}));
  const auto used = ParseQuantity(GetString(quota, {"status", "used", resource}));
  return hard.ok() && used.ok() && *used >= *hard;
}

absl::StatusOr<datamover::MoverSettings> Settings(Visit& visit) {
  return datamover::ReadMoverSettings(visit.ctx(), visit.facts().api(),
                                      visit.options().mover_namespace);
}

std::string SettingsSubject(Visit& visit) {
  return InMover(visit, "config map", datamover::kSettingsConfigMap);
}

void FindNamed(Visit& visit, const k8s::ResourceType& type, absl::string_view space,
               const std::string& name) {
  if (name.empty()) {
    return;
  }
  const absl::Status status = visit.facts().Find(type, space, name).status();
  if (absl::IsNotFound(status)) {
    visit.Fault(SettingsSubject(visit),
                absl::StrCat("names ", type.kind, " ", name, ", which does not exist"),
                "make it, or name another one");
  } else if (!status.ok()) {
    visit.Unknown(SettingsSubject(visit), status);
  }
}

}  // namespace

void CheckMoverLeader(Visit& visit) {
  const absl::StatusOr<Json> lease =
      visit.facts().api().Get(visit.ctx(), {.type = csi::LeaseType(),
                                            .namespace_name = visit.options().mover_namespace,
                                            .name = datamover::kMoverLease});
  const std::string subject = InMover(visit, "lease", datamover::kMoverLease);
  if (absl::IsNotFound(lease.status())) {
    visit.Fault(subject, "there is none: no controller has ever led here",
                "see that the mover's controller runs");
    return;
  }
  if (!lease.ok()) {
    visit.Unknown(subject, lease.status());
    return;
  }
  const std::string holder = GetString(*lease, {"spec", "holderIdentity"});
  const auto renewed = ParseRfc3339(GetString(*lease, {"spec", "renewTime"}));
  if (holder.empty() || !renewed.has_value() ||
      *renewed + kLeaseAgeMax < visit.ctx().clock->Now()) {
    visit.Fault(subject, "nobody renews it: no controller leads",
                "look at the log of the mover's controller");
  } else {
    visit.Good(subject, absl::StrCat(holder, " leads"));
  }
}

void CheckMoverSettings(Visit& visit) {
  const absl::StatusOr<datamover::MoverSettings> settings = Settings(visit);
  if (settings.ok() && settings->is_paused) {
    visit.Warn(SettingsSubject(visit), "paused is set: no backup or restore of data begins",
               "set paused to false once the reason for it is gone");
  }
  const absl::Status& status = settings.status();
  if (absl::IsInvalidArgument(status)) {
    visit.Fault(SettingsSubject(visit), std::string(status.message()),
                "correct it: docs/data-mover-settings.md has all keys");
  } else if (!status.ok()) {
    visit.Unknown(SettingsSubject(visit), status);
  }
}

void CheckMoverSettingNames(Visit& visit) {
  const absl::StatusOr<datamover::MoverSettings> settings = Settings(visit);
  if (!settings.ok()) {
    visit.Unknown(SettingsSubject(visit), settings.status());
    return;
  }
  FindNamed(visit, PriorityClassType(), "", settings->worker.priority_class);
  for (const auto& [name, of_class] : settings->storage_classes) {
    FindNamed(visit, StorageClassType(), "", name);
    FindNamed(visit, StorageClassType(), "", of_class.intermediate_class);
  }
  for (const std::string& secret : settings->worker.image_pull_secrets) {
    FindNamed(visit, csi::SecretType(), visit.options().mover_namespace, secret);
  }
}

void CheckMoverNamespace(Visit& visit) {
  const std::string& space = visit.options().mover_namespace;
  const absl::Status status = visit.facts().Find(NamespaceType(), "", space).status();
  if (absl::IsNotFound(status)) {
    visit.Fault(absl::StrCat("namespace ", space), "does not exist",
                "install the chart, or name the mover's namespace with --namespace");
  } else if (!status.ok()) {
    visit.Unknown(absl::StrCat("namespace ", space), status);
  }
}

void CheckMoverPodSecurity(Visit& visit) {
  const std::string& name = visit.options().mover_namespace;
  const absl::StatusOr<Json> space = visit.facts().Find(NamespaceType(), "", name);
  if (!space.ok()) {
    visit.Unknown(absl::StrCat("namespace ", name), space.status());
    return;
  }
  const std::string level = k8s::Label(*space, objects::kPodSecurityLabel);
  if (level != "restricted") {
    visit.Note(absl::StrCat("namespace ", name),
               level.empty() ? "enforces no level of pod security"
                             : absl::StrCat("enforces the level ", level, " of pod security"),
               absl::StrCat("workers need no more than restricted: kubectl label namespace ", name,
                            " ", objects::kPodSecurityLabel, "=restricted"));
  }
}

void CheckMoverDeployment(Visit& visit) {
  const std::string& space = visit.options().mover_namespace;
  const absl::StatusOr<Json> found =
      visit.facts().Find(DeploymentType(), space, kControllerAccount);
  const std::string subject = InMover(visit, "deployment", kControllerAccount);
  if (absl::IsNotFound(found.status())) {
    visit.Note(subject, "there is none, so nothing can be said of the controller",
               "nothing, if it runs under another name; else install the chart");
  } else if (!found.ok()) {
    visit.Unknown(subject, found.status());
  } else if (GetInt(*found, {"status", "availableReplicas"}) < 1) {
    visit.Fault(subject, "is not available: nothing is moved", "kubectl describe it and its pods");
  } else {
    visit.Good(subject, "is available");
  }
}

void CheckMoverAccounts(Visit& visit) {
  const std::string& space = visit.options().mover_namespace;
  for (const char* account : {kControllerAccount, kWorkerAccount}) {
    const absl::Status status = visit.facts().Find(ServiceAccountType(), space, account).status();
    if (absl::IsNotFound(status)) {
      visit.Fault(InMover(visit, "service account", account), "does not exist",
                  "install the chart, which makes it with its roles");
    } else if (!status.ok()) {
      visit.Unknown(InMover(visit, "service account", account), status);
    }
  }
}

void CheckMoverQuota(Visit& visit) {
  for (const Json& quota : visit.Look(ResourceQuotaType(), visit.options().mover_namespace)) {
    for (const char* resource : kQuotaResources) {
      if (IsUsedUp(quota, resource)) {
        visit.Warn(InMover(visit, "resource quota", k8s::Name(quota)),
                   absl::StrCat("leaves no ", resource, " for another worker"),
                   "raise it, or lower the mover's limit of workers");
      }
    }
  }
}

void CheckMoverTasksSilent(Visit& visit) {
  for (const Json& task :
       visit.Look(datamover::VolumeTaskType(), visit.options().mover_namespace)) {
    const datamover::VolumeTaskStatus status = datamover::TaskStatusOf(task);
    if (status.phase == datamover::TaskPhase::kRunning && status.heartbeat_at.has_value() &&
        *status.heartbeat_at + kSilenceMax < visit.ctx().clock->Now()) {
      visit.Warn(
          InMover(visit, "VolumeTask", k8s::Name(task)),
          absl::StrCat("its worker has said nothing since ", FormatRfc3339(*status.heartbeat_at)),
          "look at the log of the Pod of the same name");
    }
  }
}

void CheckMoverOrphans(Visit& visit) {
  std::set<std::string> uids;
  for (const std::string& space : visit.options().velero_namespaces) {
    for (const k8s::ResourceType* type : {&csi::DataUploadType(), &csi::DataDownloadType()}) {
      const auto& list = visit.facts().List(*type, space);
      if (!list.ok()) {
        visit.Unknown(absl::StrCat(type->plural, " of ", space), list.status());
        return;
      }
      for (const Json& object : *list) {
        uids.insert(k8s::Uid(object));
      }
    }
  }
  for (const Json& task :
       visit.Look(datamover::VolumeTaskType(), visit.options().mover_namespace)) {
    const absl::StatusOr<datamover::VolumeTaskSpec> spec = datamover::TaskSpecOf(task);
    if (spec.ok() && spec->kind != datamover::TaskKind::kForget &&
        !uids.contains(spec->subject.uid)) {
      visit.Warn(InMover(visit, "VolumeTask", k8s::Name(task)),
                 absl::StrCat("its ", spec->subject.kind, " ", spec->subject.namespace_name, "/",
                              spec->subject.name, " is gone"),
                 "the controller removes it within ten minutes; see that it runs");
    }
  }
}

}  // namespace csidelta::doctor
