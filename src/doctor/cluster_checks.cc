#include <map>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "csi/deletion_proof.h"
#include "csi/population.h"
#include "csi/snapshot_state.h"
#include "datamover/controller/mover_kinds.h"
#include "doctor/checks.h"
#include "inplace/swap_state.h"
#include "objects/client.h"
#include "objects/cluster.h"
#include "objects/persistent_volume.h"
#include "objects/volume_group_snapshot.h"
#include "objects/volume_snapshot.h"
#include "objects/workload.h"

namespace csidelta::doctor {
namespace {

// A snapshot that takes longer than this has a driver that does not get on.
constexpr absl::Duration kSnapshotTimeMax = absl::Hours(1);

// Says so where a kind is not served, or where that is not known; whether it is not.
bool FindMissing(CheckContext& context, const k8s::ResourceType& type, absl::string_view command) {
  const std::string subject = absl::StrCat("CRD ", k8s::ToString(type));
  const bool is_missing = context.IsMissing(subject, context.cache().List(type).status());
  if (is_missing) {
    context.Fault(subject, "not installed", std::string(command));
  }
  return is_missing;
}

bool RunsController(const objects::Deployment& deployment) {
  return absl::c_any_of(deployment.containers(), [](const objects::DeployedContainer& container) {
    return absl::StrContains(container.image, "snapshot-controller");
  });
}

// Whether it handles volume groups: as its flag says, else as its version does by itself. That is
// since external-snapshotter 8.7 (pkg/features/features.go).
bool HasGroups(const objects::Deployment& deployment) {
  for (const std::string& argument : deployment.arguments()) {
    const std::vector<std::string> parts =
        absl::StrSplit(argument, absl::MaxSplits("CSIVolumeGroupSnapshot=", 1));
    if (parts.size() > 1) {
      return absl::StartsWithIgnoreCase(parts[1], "t");
    }
  }
  return absl::c_any_of(deployment.containers(), [](const objects::DeployedContainer& container) {
    return VersionOf(container.image) >= std::vector<int>{8, 7};
  });
}

// Of a controller that looks at a member of a group whose kinds it does not know.
void ReportGroups(CheckContext& context, const std::string& controller) {
  const auto members = absl::c_count_if(context.List<objects::VolumeSnapshotContent>(),
                                        [](const objects::VolumeSnapshotContent& content) {
                                          return !content.group_handle().empty();
                                        });
  const std::string text =
      "its feature gate CSIVolumeGroupSnapshot is off, and its process ends when a member of a "
      "volume group is restored, imported or deleted; then no volume snapshot of the cluster gets "
      "ready";
  const std::string gate =
      "give it and csi-snapshotter --feature-gates=CSIVolumeGroupSnapshot=true";
  if (members > 0) {
    context.Warn(controller, absl::StrCat(text, "; VolumeSnapshotContents of members: ", members),
                 gate);
  } else {
    context.Note(controller, text,
                 absl::StrCat("nothing, if no backup has volume groups; else ", gate));
  }
}

void WarnOfPendingDeletion(CheckContext& context, const k8s::ResourceType& type,
                           const objects::Object& content) {
  context.Warn(SubjectOf(type.kind, content), csi::DescribePendingDeletion(type, content),
               "look at the log of the driver's csi-snapshotter");
}

void FaultUnreachable(CheckContext& context, const absl::Status& status) {
  if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) {
    context.Fault("", absl::StrCat("the API server does not answer: ", status.message()),
                  "check the network; kubectl config view --minify shows the server's address");
  } else if (absl::IsUnauthenticated(status)) {
    context.Fault("", absl::StrCat("the API server refuses the credentials: ", status.message()),
                  "log in again, or name another context with --context");
  } else {
    context.Fault("", std::string(status.message()),
                  "check --kubeconfig, KUBECONFIG and --context; kubectl config get-contexts lists "
                  "the contexts");
  }
}

}  // namespace

void CheckClusterReachable(CheckContext& context) {
  const auto system = objects::Get<objects::Namespace>(
      context.ctx().WithTimeout(context.options().reach_time_max), context.cache().api(),
      objects::Namespace::Key("", "kube-system"));
  if (system.ok()) {
    context.Good("", absl::StrCat("this is cluster ", system->uid()));
  } else if (absl::IsPermissionDenied(system.status())) {
    context.Unknown("namespace kube-system", system.status());
  } else {
    FaultUnreachable(context, system.status());
    context.ExplainsOthers();
  }
}

void CheckSnapshotKinds(CheckContext& context) {
  for (const k8s::ResourceType* type :
       {&objects::VolumeSnapshot::Type(), &objects::VolumeSnapshotContent::Type(),
        &objects::VolumeSnapshotClass::Type()}) {
    if (FindMissing(context, *type, datamover::InstallCommand(*type))) {
      context.ExplainsOthers();
    }
  }
}

void CheckSnapshotController(CheckContext& context) {
  const auto& deployments = context.cache().List<objects::Deployment>();
  if (!context.IsKnown("deployments", deployments.status())) {
    return;
  }
  for (const objects::Deployment& deployment : *deployments) {
    if (!RunsController(deployment)) {
      continue;
    }
    const std::string name = SubjectOf("deployment", deployment);
    if (deployment.available_replicas() == 0) {
      context.Fault(name, "the snapshot controller is not available: no volume snapshot gets ready",
                    DescribeCommand(deployment.namespace_name(), deployment.name()));
    } else if (!HasGroups(deployment)) {
      ReportGroups(context, name);
    } else {
      context.Good(name, "the snapshot controller is available");
    }
    return;
  }
  context.Note("", "no Deployment runs a snapshot-controller",
               absl::StrCat("nothing, if your provider runs it elsewhere; else ",
                            datamover::InstallCommand(objects::VolumeSnapshot::Type())));
}

void CheckMoverKindFields(CheckContext& context) {
  for (const k8s::ResourceType* type : datamover::MoverKinds()) {
    const absl::StatusOr<objects::CustomResourceDefinition> definition =
        objects::Get<objects::CustomResourceDefinition>(context.ctx(), context.cache().api(),
                                                        datamover::DefinitionOf(*type));
    if (context.IsMissing(type->plural, definition.status()) || !definition.ok()) {
      continue;  // That it is missing is said of the kind itself.
    }
    const std::vector<std::string> undeclared = datamover::UndeclaredFields(*definition, *type);
    if (!undeclared.empty()) {
      context.Fault(type->plural,
                    absl::StrCat("the cluster's definition is of an older version, and drops ",
                                 absl::StrJoin(undeclared, ", ")),
                    datamover::kUpdateKinds);
    }
  }
}

void CheckMoverKinds(CheckContext& context) {
  for (const k8s::ResourceType* type : datamover::MoverKinds()) {
    FindMissing(context, *type, datamover::kUpdateKinds);
  }
}

void CheckStuckSnapshots(CheckContext& context) {
  const auto contents = context.cache().List<objects::VolumeSnapshotContent>();
  std::map<std::string, const objects::VolumeSnapshotContent*> by_name;
  if (contents.ok()) {
    for (const objects::VolumeSnapshotContent& content : *contents) {
      by_name.emplace(content.name(), &content);
    }
  }
  csi::PopulationReader populations(context.ctx(), context.cache().api());
  for (const auto& snapshot : context.List<objects::VolumeSnapshot>()) {
    // A younger one may have been made after the contents were listed.
    if (!context.IsPast(snapshot.created_at(), kSnapshotTimeMax)) {
      continue;
    }
    csi::ContentReading reading;
    const auto content = by_name.find(snapshot.bound_content());
    if (content != by_name.end()) {
      reading.is_handle_gone =
          populations.IsHandleGone(content->second->driver(), content->second->handle())
              .value_or(false);
    } else if (contents.ok()) {
      reading.kind = csi::ContentReading::Kind::kGone;
    }
    const csi::SnapshotStatus status = csi::StatusOf(snapshot, reading);
    const std::string& message = status.conditions.front().message;
    if (status.state == csi::SnapshotState::kLost) {
      context.Warn(
          SubjectOf("VolumeSnapshot", snapshot),
          absl::StrCat("what it stands for cannot be reached: ", message),
          "csi-delta snapshot show says more; delete the VolumeSnapshot if it is of no use");
    } else if (status.state != csi::SnapshotState::kReady &&
               status.state != csi::SnapshotState::kUnverified) {
      context.Warn(SubjectOf("VolumeSnapshot", snapshot),
                   absl::StrCat("not ready for over an hour", message.empty() ? "" : "; ", message),
                   "look at the driver's log; delete the VolumeSnapshot if nothing waits for it");
    }
  }
}

void CheckStuckContents(CheckContext& context) {
  for (const auto& content : context.List<objects::VolumeSnapshotContent>()) {
    if (!context.IsPast(content.deleted_at(), kSnapshotTimeMax)) {
      continue;
    }
    if (csi::IsPendingDeletion(content)) {
      WarnOfPendingDeletion(context, objects::VolumeSnapshotContent::Type(), content);
      continue;
    }
    const std::string error = content.error_message();
    context.Warn(SubjectOf("VolumeSnapshotContent", content),
                 absl::StrCat("being deleted for over an hour; driver ", content.driver(),
                              ", snapshot ", content.handle(), error.empty() ? "" : ": ", error),
                 "look at the log of the driver's csi-snapshotter");
  }
  for (const char* const version : objects::kGroupVersions) {
    const k8s::ResourceType type = objects::VolumeGroupSnapshotContent::kKind.TypeOf(version);
    const absl::StatusOr<std::vector<objects::Object>>& contents = context.cache().List(type);
    if (!contents.ok()) {
      continue;
    }
    for (const objects::Object& content : *contents) {
      if (csi::IsPendingDeletion(content) &&
          context.IsPast(content.deleted_at(), kSnapshotTimeMax)) {
        WarnOfPendingDeletion(context, type, content);
      }
    }
    break;
  }
}

void CheckRestoredVolumes(CheckContext& context) {
  for (const inplace::KeptVolume& kept :
       inplace::KeptVolumesAmong(context.List<objects::PersistentVolume>())) {
    context.Note(absl::StrCat("PersistentVolume ", kept.volume),
                 inplace::KeptVolumeText(kept, context.ctx().clock->Now()),
                 absl::StrCat(inplace::SwapCommand(kept, "--finish"),
                              " deletes it, once its data is not needed"));
  }
}

}  // namespace csidelta::doctor
