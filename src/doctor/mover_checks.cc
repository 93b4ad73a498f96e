#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/human_text.h"
#include "base/rfc3339.h"
#include "csi/kept_snapshots.h"
#include "datamover/mover_environment.h"
#include "datamover/records/base_use.h"
#include "datamover/records/kept_reconciler.h"
#include "datamover/settings.h"
#include "doctor/checks.h"
#include "objects/access.h"
#include "objects/client.h"
#include "objects/cluster.h"
#include "objects/core.h"
#include "objects/data_transfer.h"
#include "objects/keys.h"
#include "objects/storage_class.h"
#include "objects/volume_snapshot.h"
#include "objects/volume_task.h"
#include "objects/workload.h"

namespace csidelta::doctor {
namespace {

using objects::ResourceQuota;
using objects::VolumeTask;

// A worker reports every ten seconds.
constexpr absl::Duration kSilenceMax = absl::Minutes(2);

std::string InMover(CheckContext& context, absl::string_view kind, absl::string_view name) {
  return SubjectOf(kind, context.options().mover_namespace, name);
}

// Resources that a worker takes of a quota.
constexpr absl::string_view kQuotaResources =
    "pods,secrets,persistentvolumeclaims,cpu,memory,ephemeral-storage,requests.cpu,requests.memory,"
    "requests.ephemeral-storage,limits.cpu,limits.memory,limits.ephemeral-storage";

bool IsUsedUp(const ResourceQuota& quota, absl::string_view resource) {
  const std::optional<int64_t> hard = quota.Hard(resource);
  const std::optional<int64_t> used = quota.Used(resource);
  return hard.has_value() && used.has_value() && *used >= *hard;
}

std::string SettingsSubject(CheckContext& context) {
  return InMover(context, "config map", datamover::kSettingsConfigMap);
}

void FindNamed(CheckContext& context, const k8s::ResourceType& type, absl::string_view space,
               const std::string& name) {
  if (name.empty()) {
    return;
  }
  if (context.IsMissing(SettingsSubject(context),
                        context.cache().Find(type, space, name).status())) {
    context.Fault(SettingsSubject(context),
                  absl::StrCat("names ", type.kind, " ", name, ", which does not exist"),
                  "make it, or name another one");
  }
}

}  // namespace

absl::StatusOr<datamover::MoverSettings> ReadSettings(CheckContext& context) {
  return datamover::ReadMoverSettings(context.ctx(), context.cache().api(),
                                      context.options().mover_namespace);
}

std::optional<objects::Deployment> ControllerOf(CheckContext& context) {
  absl::StatusOr<objects::Deployment> found = context.cache().Find<objects::Deployment>(
      context.options().mover_namespace, kMoverDeployment);
  return context.IsKnown(InMover(context, "deployment", kMoverDeployment), found.status())
             ? std::optional(*std::move(found))
             : std::nullopt;
}

void CheckMoverLeader(CheckContext& context) {
  const auto lease = objects::Get<objects::Lease>(
      context.ctx(), context.cache().api(),
      objects::Lease::Key(context.options().mover_namespace, datamover::kMoverLease));
  const std::string subject = InMover(context, "lease", datamover::kMoverLease);
  if (context.IsMissing(subject, lease.status())) {
    context.Fault(subject, "it was not found: no controller has ever become leader here",
                  DescribeCommand(context.options().mover_namespace, kMoverDeployment));
  }
  if (!lease.ok()) {
    return;
  }
  const std::string leader =
      lease->HolderWithin(datamover::kLeaseAgeMax, context.ctx().clock->Now());
  if (leader.empty()) {
    context.Fault(subject, "it is not renewed: no controller leads",
                  absl::StrCat("kubectl logs deployment/", kMoverDeployment, " --namespace ",
                               context.options().mover_namespace));
  } else {
    context.Good(subject, absl::StrCat(leader, " leads"));
  }
}

void CheckMoverSettings(CheckContext& context) {
  const absl::StatusOr<datamover::MoverSettings> settings = ReadSettings(context);
  if (settings.ok() && settings->is_paused) {
    context.Warn(SettingsSubject(context), "paused is set: no backup or restore of data begins",
                 "set paused to false once the reason for it is gone");
  }
  const absl::Status& status = settings.status();
  if (absl::IsInvalidArgument(status)) {
    context.Fault(SettingsSubject(context), std::string(status.message()),
                  absl::StrCat("kubectl edit configmap ", datamover::kSettingsConfigMap,
                               " --namespace ", context.options().mover_namespace,
                               "; docs/data-mover-settings.md has all keys"));
    context.ExplainsOthers();
  } else {
    context.Unknown(SettingsSubject(context), status);
  }
}

void CheckMoverSettingNames(CheckContext& context) {
  const absl::StatusOr<datamover::MoverSettings> settings = ReadSettings(context);
  if (!context.IsKnown(SettingsSubject(context), settings.status())) {
    return;
  }
  FindNamed(context, kPriorityClassKind.Type(), "", settings->worker.priority_class);
  for (const auto& [name, of_class] : settings->storage_classes) {
    FindNamed(context, objects::StorageClass::Type(), "", name);
    FindNamed(context, objects::StorageClass::Type(), "", of_class.intermediate_class);
  }
  for (const std::string& secret : settings->worker.image_pull_secrets) {
    FindNamed(context, objects::Secret::Type(), context.options().mover_namespace, secret);
  }
}

void CheckMoverNamespace(CheckContext& context) {
  const std::string& space = context.options().mover_namespace;
  const std::string subject = absl::StrCat("namespace ", space);
  const bool is_missing = context.IsMissing(
      subject, context.cache().Find(objects::Namespace::Type(), "", space).status());
  const absl::Status controller =
      context.cache().Find<objects::Deployment>(space, kMoverDeployment).status();
  const absl::Status tasks = context.cache().List(VolumeTask::Type()).status();
  if (is_missing || (absl::IsNotFound(controller) && absl::IsNotFound(tasks))) {
    context.Fault(subject, is_missing ? "does not exist" : "has no data mover, nor its CRDs",
                  HelmCommand(context, "install --create-namespace"));
    context.ExplainsOthers();
  }
}

void CheckMoverPodSecurity(CheckContext& context) {
  const std::string& name = context.options().mover_namespace;
  const auto space = context.cache().Find(objects::Namespace::Type(), "", name);
  if (!context.IsKnown(absl::StrCat("namespace ", name), space.status())) {
    return;
  }
  const std::string level = space->Label(objects::kPodSecurityLabel);
  if (level != "restricted") {
    context.Note(absl::StrCat("namespace ", name),
                 level.empty() ? "enforces no level of pod security"
                               : absl::StrCat("enforces the level ", level, " of pod security"),
                 absl::StrCat("workers need no more than restricted: kubectl label namespace ",
                              name, " ", objects::kPodSecurityLabel, "=restricted"));
  }
}

void CheckMoverDeployment(CheckContext& context) {
  const std::string& space = context.options().mover_namespace;
  const auto found = context.cache().Find<objects::Deployment>(space, kMoverDeployment);
  const std::string subject = InMover(context, "deployment", kMoverDeployment);
  if (context.IsMissing(subject, found.status())) {
    context.Note(subject, "it was not found, so the controller cannot be checked",
                 absl::StrCat("nothing, if it runs under another name; else ",
                              HelmCommand(context, "install --create-namespace")));
    context.ExplainsOthers();
  } else if (found.ok() && found->available_replicas() < 1) {
    context.Fault(subject, "is not available: nothing is moved",
                  DescribeCommand(space, kMoverDeployment));
  } else if (found.ok()) {
    context.Good(subject, "is available");
  }
}

void CheckMoverAccounts(CheckContext& context) {
  const std::string& space = context.options().mover_namespace;
  for (const absl::string_view account : {kMoverDeployment, kWorkerAccount}) {
    const std::string subject = InMover(context, "service account", account);
    const auto found = context.cache().Find(objects::ServiceAccount::Type(), space, account);
    if (context.IsMissing(subject, found.status())) {
      context.Fault(subject, "does not exist",
                    HelmCommand(context, "upgrade --reset-then-reuse-values"));
    }
  }
}

void CheckMoverQuota(CheckContext& context) {
  for (const ResourceQuota& quota :
       context.List<ResourceQuota>(context.options().mover_namespace)) {
    for (const absl::string_view resource : absl::StrSplit(kQuotaResources, ',')) {
      if (IsUsedUp(quota, resource)) {
        context.Warn(InMover(context, "resource quota", quota.name()),
                     absl::StrCat("leaves no ", resource, " for another worker"),
                     "raise it, or lower the mover's limit of workers");
      }
    }
  }
}

void CheckMoverTasksSilent(CheckContext& context) {
  for (const VolumeTask& task : context.List<VolumeTask>(context.options().mover_namespace)) {
    const objects::VolumeTaskStatus status = task.status();
    if (status.phase == objects::TaskPhase::kRunning &&
        context.IsPast(status.heartbeat_at, kSilenceMax)) {
      context.Warn(
          InMover(context, "VolumeTask", task.name()),
          absl::StrCat("its worker has not reported since ", FormatRfc3339(*status.heartbeat_at)),
          absl::StrCat("kubectl logs ", task.name(), " --namespace ",
                       context.options().mover_namespace));
    }
  }
}

void CheckMoverOrphans(CheckContext& context) {
  std::set<std::string> uids;
  for (const std::string& space : context.options().velero_namespaces) {
    for (const k8s::ResourceType* type :
         {&objects::DataUpload::Type(), &objects::DataDownload::Type()}) {
      const auto& list = context.cache().List(*type, space);
      if (!context.IsKnown(absl::StrCat(type->plural, " of ", space), list.status())) {
        return;
      }
      for (const objects::Object& object : *list) {
        uids.insert(object.uid());
      }
    }
  }
  for (const VolumeTask& task : context.List<VolumeTask>(context.options().mover_namespace)) {
    const absl::StatusOr<objects::VolumeTaskSpec> spec = task.spec();
    if (!spec.ok()) {
      continue;
    }
    if (const std::string& space = spec->subject.namespace_name;
        !absl::c_linear_search(context.options().velero_namespaces, space)) {
      context.Warn(InMover(context, "VolumeTask", task.name()),
                   absl::StrCat("is of namespace ", space, ", which is not among those of Velero (",
                                absl::StrJoin(context.options().velero_namespaces, ", "), ")"),
                   "put it back into veleroNamespaces, or end the task: docs/data-mover-status.md");
    } else if (spec->kind != objects::TaskKind::kForget &&
               spec->kind != objects::TaskKind::kCheck && !uids.contains(spec->subject.uid)) {
      context.Warn(InMover(context, "VolumeTask", task.name()),
                   absl::StrCat("its ", spec->subject.kind, " ", spec->subject.namespace_name, "/",
                                spec->subject.name, " is gone"),
                   "the controller removes it within ten minutes, if it runs");
    }
  }
}

void CheckMoverBases(CheckContext& context) {
  const std::string subject = "base snapshots";
  const absl::StatusOr<datamover::MoverSettings> settings = ReadSettings(context);
  if (!context.IsKnown(subject, settings.status())) {
    return;
  }
  const std::vector<std::string>& veleros = context.options().velero_namespaces;
  const absl::StatusOr<std::vector<datamover::ListedBase>> all = datamover::ListBasesWithUse(
      {.mover_namespace = context.options().mover_namespace,
       .velero_namespaces = {veleros.begin(), veleros.end()},
       .settings = *settings,
       .now = context.ctx().clock->Now()},
      [&context](const k8s::ResourceType& type, absl::string_view namespace_name) {
        return context.cache().List(type, namespace_name);
      });
  if (!context.IsKnown(subject, all.status())) {
    return;
  }
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const datamover::ListedBase& listed : *all) {
    if (listed.useless.has_value() && !listed.is_in_use) {
      const csi::BaseOwner& owner = listed.base.owner;
      by_reason[listed.useless->message].push_back(absl::StrCat(
          listed.base.content_name, " of PVC ", owner.claim_namespace, "/", owner.claim));
    }
  }
  for (const auto& [reason, names] : by_reason) {
    context.Warn(subject,
                 absl::StrCat(Counted(std::ssize(names), "base snapshot"), " unused: ", reason,
                              ": ", Listed(names)),
                 "the mover's controller drops them within ten minutes, or after an hour where a "
                 "Backup or a BackupStorageLocation was not found; if they stay, make sure that it "
                 "runs, or drop them: csi-delta bases drop --unused --yes");
  }
  if (by_reason.empty()) {
    context.Good(subject, absl::StrCat(Counted(std::ssize(*all), "base snapshot"),
                                       " kept, each for the next backup"));
  }
}

void CheckKeptSnapshots(CheckContext& context) {
  std::set<std::string> unlisted;  // drivers
  for (const auto& record : context.List<objects::VolumeSnapshotContent>()) {
    const csi::KeptSnapshot kept = csi::ReadKept(record);
    if (!record.HasLabel(objects::kKeptLabel)) {
      continue;
    }
    const std::string subject = absl::StrCat("backup ", kept.backup);
    const absl::Time asked_at = record.created_at().value_or(absl::InfinitePast());
    if (kept.state == csi::kKeptGone) {
      context.Fault(subject, absl::StrCat("cannot be restored: ", kept.text),
                    "back up the PVC again, and find what deletes snapshots on the storage");
    } else if (kept.state == csi::kKeptLeft) {
      context.Warn(subject, absl::StrCat("is gone and did not delete what it kept: ", kept.text),
                   "see that no location was removed or renamed, whose bucket still has the Backup "
                   "(velero backup-location get); only then delete the snapshot on the storage, or "
                   "import it to use it (csi-delta snapshot import); VolumeSnapshotContent " +
                       record.name() + " goes a day later");
    } else if (kept.state == csi::kKeptNotReady || kept.state == csi::kKeptUnknown ||
               context.IsPast(asked_at, 2 * datamover::kKeptAskedEvery)) {
      context.Warn(subject, absl::StrCat(kept.text, "; asked at ", FormatRfc3339(asked_at)),
                   "see that the mover's controller runs, and what the CSI driver logs");
    } else if (kept.state == csi::kKeptUnlisted && unlisted.insert(record.driver()).second) {
      context.Unknown(absl::StrCat("driver ", record.driver()),
                      absl::UnimplementedError("does not list snapshots: it is not known whether "
                                               "the storage still has those of backups"),
                      "restore one now and then (csi-delta try), or move the data into a bucket");
    }
  }
}

}  // namespace csidelta::doctor
