#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/rfc3339.h"
#include "csi/snapshot_types.h"
#include "datamover/mover_environment.h"
#include "datamover/settings.h"
#include "doctor/checks.h"
#include "objects/client.h"
#include "objects/cluster.h"
#include "objects/deployment.h"
#include "objects/keys.h"
#include "objects/lease.h"
#include "objects/resource_quota.h"
#include "objects/secret.h"
#include "objects/service_account.h"
#include "objects/storage_class.h"
#include "objects/volume_task.h"
#include "velero/data_upload.h"

namespace csidelta::doctor {
namespace {

using objects::ResourceQuota;
using objects::VolumeTask;

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

bool IsUsedUp(const ResourceQuota& quota, const char* resource) {
  const std::optional<int64_t> hard = quota.Hard(resource);
  const std::optional<int64_t> used = quota.Used(resource);
  return hard.has_value() && used.has_value() && *used >= *hard;
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

absl::StatusOr<datamover::MoverSettings> ReadSettings(Visit& visit) {
  return datamover::ReadMoverSettings(visit.ctx(), visit.facts().api(),
                                      visit.options().mover_namespace);
}

void CheckMoverLeader(Visit& visit) {
  const auto lease = objects::Get<objects::Lease>(
      visit.ctx(), visit.facts().api(),
      objects::Lease::Key(visit.options().mover_namespace, datamover::kMoverLease));
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
  const std::string holder = lease->holder();
  const auto renewed = lease->renewed_at();
  if (holder.empty() || !renewed.has_value() ||
      *renewed + kLeaseAgeMax < visit.ctx().clock->Now()) {
    visit.Fault(subject, "nobody renews it: no controller leads",
                "look at the log of the mover's controller");
  } else {
    visit.Good(subject, absl::StrCat(holder, " leads"));
  }
}

void CheckMoverSettings(Visit& visit) {
  const absl::StatusOr<datamover::MoverSettings> settings = ReadSettings(visit);
  if (settings.ok() && settings->is_paused) {
    visit.Warn(SettingsSubject(visit), "paused is set: no backup or restore of data begins",
               "set paused to false once the reason for it is gone");
  }
  const absl::Status& status = settings.status();
  if (absl::IsInvalidArgument(status)) {
    visit.Fault(SettingsSubject(visit), std::string(status.message()),
                "correct it: docs/data-mover-settings.md has all keys");
    visit.ExplainsOthers();
  } else if (!status.ok()) {
    visit.Unknown(SettingsSubject(visit), status);
  }
}

void CheckMoverSettingNames(Visit& visit) {
  const absl::StatusOr<datamover::MoverSettings> settings = ReadSettings(visit);
  if (!settings.ok()) {
    visit.Unknown(SettingsSubject(visit), settings.status());
    return;
  }
  FindNamed(visit, PriorityClassType(), "", settings->worker.priority_class);
  for (const auto& [name, of_class] : settings->storage_classes) {
    FindNamed(visit, objects::StorageClass::Type(), "", name);
    FindNamed(visit, objects::StorageClass::Type(), "", of_class.intermediate_class);
  }
  for (const std::string& secret : settings->worker.image_pull_secrets) {
    FindNamed(visit, objects::Secret::Type(), visit.options().mover_namespace, secret);
  }
}

void CheckMoverNamespace(Visit& visit) {
  const std::string& space = visit.options().mover_namespace;
  const absl::Status status = visit.facts().Find(objects::Namespace::Type(), "", space).status();
  if (absl::IsNotFound(status)) {
    visit.Fault(absl::StrCat("namespace ", space), "does not exist",
                "install the chart, or name the mover's namespace with --namespace");
    visit.ExplainsOthers();
  } else if (!status.ok()) {
    visit.Unknown(absl::StrCat("namespace ", space), status);
  }
}

void CheckMoverPodSecurity(Visit& visit) {
  const std::string& name = visit.options().mover_namespace;
  const auto space = visit.facts().Find(objects::Namespace::Type(), "", name);
  if (!space.ok()) {
    visit.Unknown(absl::StrCat("namespace ", name), space.status());
    return;
  }
  const std::string level = space->Label(objects::kPodSecurityLabel);
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
  const auto found = visit.facts().Find<objects::Deployment>(space, kControllerAccount);
  const std::string subject = InMover(visit, "deployment", kControllerAccount);
  if (absl::IsNotFound(found.status())) {
    visit.Note(subject, "there is none, so nothing can be said of the controller",
               "nothing, if it runs under another name; else install the chart");
    visit.ExplainsOthers();
  } else if (!found.ok()) {
    visit.Unknown(subject, found.status());
  } else if (found->available_replicas() < 1) {
    visit.Fault(subject, "is not available: nothing is moved", "kubectl describe it and its pods");
  } else {
    visit.Good(subject, "is available");
  }
}

void CheckMoverAccounts(Visit& visit) {
  const std::string& space = visit.options().mover_namespace;
  for (const char* account : {kControllerAccount, kWorkerAccount}) {
    const absl::Status status =
        visit.facts().Find(objects::ServiceAccount::Type(), space, account).status();
    if (absl::IsNotFound(status)) {
      visit.Fault(InMover(visit, "service account", account), "does not exist",
                  "install the chart, which makes it with its roles");
    } else if (!status.ok()) {
      visit.Unknown(InMover(visit, "service account", account), status);
    }
  }
}

void CheckMoverQuota(Visit& visit) {
  for (const ResourceQuota& quota : visit.Look<ResourceQuota>(visit.options().mover_namespace)) {
    for (const char* resource : kQuotaResources) {
      if (IsUsedUp(quota, resource)) {
        visit.Warn(InMover(visit, "resource quota", quota.name()),
                   absl::StrCat("leaves no ", resource, " for another worker"),
                   "raise it, or lower the mover's limit of workers");
      }
    }
  }
}

void CheckMoverTasksSilent(Visit& visit) {
  for (const VolumeTask& task : visit.Look<VolumeTask>(visit.options().mover_namespace)) {
    const objects::VolumeTaskStatus status = task.status();
    if (status.phase == objects::TaskPhase::kRunning && status.heartbeat_at.has_value() &&
        *status.heartbeat_at + kSilenceMax < visit.ctx().clock->Now()) {
      visit.Warn(
          InMover(visit, "VolumeTask", task.name()),
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
      for (const objects::Object& object : *list) {
        uids.insert(object.uid());
      }
    }
  }
  for (const VolumeTask& task : visit.Look<VolumeTask>(visit.options().mover_namespace)) {
    const absl::StatusOr<objects::VolumeTaskSpec> spec = task.spec();
    if (!spec.ok()) {
      continue;
    }
    if (const std::string& space = spec->subject.namespace_name;
        !absl::c_linear_search(visit.options().velero_namespaces, space)) {
      visit.Warn(InMover(visit, "VolumeTask", task.name()),
                 absl::StrCat("is of namespace ", space, ", which is not among those of Velero (",
                              absl::StrJoin(visit.options().velero_namespaces, ", "), ")"),
                 "put it back into veleroNamespaces, or end the task: docs/data-mover-status.md");
    } else if (spec->kind != objects::TaskKind::kForget &&
               spec->kind != objects::TaskKind::kCheck && !uids.contains(spec->subject.uid)) {
      visit.Warn(InMover(visit, "VolumeTask", task.name()),
                 absl::StrCat("its ", spec->subject.kind, " ", spec->subject.namespace_name, "/",
                              spec->subject.name, " is gone"),
                 "the controller removes it within ten minutes; see that it runs");
    }
  }
}

}  // namespace csidelta::doctor
