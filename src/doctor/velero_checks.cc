#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/human_text.h"
#include "datamover/controller/mover_kinds.h"
#include "doctor/checks.h"
#include "objects/backup.h"
#include "objects/backup_storage_location.h"
#include "objects/core.h"
#include "objects/data_deletion.h"
#include "objects/data_transfer.h"
#include "objects/node.h"
#include "objects/restricted_pod.h"
#include "objects/workload.h"
#include "velero/volume_policy.h"

namespace csidelta::doctor {
namespace {

using objects::DataDeletion;
using objects::Deployment;

constexpr char kVeleroDeployment[] = "velero";
constexpr char kPluginImage[] = "velero-plugin-for-csi-delta";
constexpr char kCsiFeature[] = "EnableCSI";
constexpr char kArchitectureLabel[] = "kubernetes.io/arch";
constexpr char kGlobalPoliciesFlag[] = "--global-backup-volume-policies-configmap";
constexpr char kAddCsiFeature[] =
    R"([{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--features=EnableCSI"}])";
constexpr char kCsiPluginImage[] = "velero-plugin-for-csi:";  // Velero's own, until 1.13
constexpr char kUpgradeVelero[] = "https://velero.io/docs/main/ has a page for each upgrade";
// A controller that runs takes up what is new within seconds.
constexpr absl::Duration kTakenUpWithin = absl::Minutes(5);
constexpr absl::Duration kRecently = absl::Hours(24);
constexpr absl::Duration kDeletedWithin = absl::Hours(1);
constexpr absl::Duration kFailingFor = absl::Hours(24);

// Gives `check` the Deployment of each server, with its name, or says why it is not known.
void ForEachServer(
    CheckContext& context,
    absl::FunctionRef<void(const std::string& subject, const Deployment& server)> check) {
  for (const std::string& space : context.options().velero_namespaces) {
    const auto server = context.cache().Find<Deployment>(space, kVeleroDeployment);
    const std::string subject = SubjectOf("deployment", space, kVeleroDeployment);
    if (context.IsMissing(subject, server.status())) {
      context.Note(subject, "it was not found, so the server cannot be checked",
                   "nothing, if Velero runs under another name");
    } else if (server.ok()) {
      check(subject, *server);
    }
  }
}

// Whether the server in the namespace is known to be older.
bool IsBefore(CheckContext& context, const std::string& space, const std::vector<int>& version) {
  const auto server = context.cache().Find<Deployment>(space, kVeleroDeployment);
  return server.ok() && absl::c_any_of(server->containers(), [&](const auto& container) {
           const std::vector<int> found = VersionOf(container.image);
           return !found.empty() && found < version;
         });
}

// What follows the volume policies of a ConfigMap: "schedule x", then "backup y".
struct PolicyUsers {
  std::vector<std::string> all;
  std::vector<std::string> by_us;  // whose data mover is csi-delta
};

// By the ConfigMap's name. A Backup tells its global policies, a Schedule has those of the server.
std::map<std::string, PolicyUsers> UsersOfPolicies(CheckContext& context,
                                                   const std::string& space) {
  std::map<std::string, PolicyUsers> users;
  const auto add = [&](absl::string_view kind, const objects::Backup& backup,
                       const std::string& global) {
    for (const std::string& name : {backup.resource_policy_config_map(), global}) {
      users[name].all.push_back(absl::StrCat(kind, backup.name()));
      if (backup.is_moved_by_us()) {
        users[name].by_us.push_back(users[name].all.back());
      }
    }
  };
  const auto server = context.cache().Find<Deployment>(space, kVeleroDeployment);
  const std::string global = server.ok() ? FlagIn(*server, kGlobalPoliciesFlag) : "";
  for (const objects::Object& schedule : context.List(kScheduleKind.Type(), space)) {
    add("schedule ", objects::Backup::OfSchedule(schedule).value_or(objects::Backup()), global);
  }
  for (const auto& backup : context.List<objects::Backup>(space)) {
    add("backup ", backup, backup.global_policy_config_map());
  }
  users.erase("");
  return users;
}

// Objects of one namespace, by what is wrong with them: one cause is one finding.
using DeletionsByCause = std::map<std::string, std::vector<DataDeletion>>;

// "DataDeletion velero/a", "7 DataDeletions of velero".
template <typename Kind>
std::string SubjectOfAll(const std::vector<Kind>& objects, absl::string_view space) {
  return objects.size() == 1 ? SubjectOf(Kind::kKind.kind, space, objects.front().name())
                             : absl::StrCat(objects.size(), " ", Kind::kKind.kind, "s of ", space);
}

// " (a, b and 5 more)"; "" where the subject names it.
template <typename Kind>
std::string OthersOf(const std::vector<Kind>& objects) {
  if (objects.size() == 1) {
    return "";
  }
  std::vector<std::string> names;
  names.reserve(objects.size());
  for (const Kind& object : objects) {
    names.push_back(object.name());
  }
  return absl::StrCat(" (", Listed(names), ")");
}

// DataUploads or DataDownloads of the mover that no controller has accepted.
template <typename Kind>
void FindWaiting(CheckContext& context) {
  for (const std::string& space : context.options().velero_namespaces) {
    std::vector<Kind> waiting;
    for (Kind& object : context.List<Kind>(space)) {
      const std::string phase = object.phase();
      if (object.is_managed() && (phase.empty() || phase == "New") &&
          context.IsPast(object.created_at(), kTakenUpWithin)) {
        waiting.push_back(std::move(object));
      }
    }
    if (!waiting.empty()) {
      context.Fault(
          SubjectOfAll(waiting, space),
          absl::StrCat("New for over five minutes: no data mover accepts it", OthersOf(waiting)),
          "make sure that the mover's controller runs and serves this namespace");
    }
  }
}

// Why a deletion of data cannot succeed; nothing where it may.
std::optional<std::string> WhyItFails(CheckContext& context, const std::string& space,
                                      const DataDeletion& object) {
  const objects::DataDeletionStatus status = object.status();
  if (status.phase == objects::DeletionPhase::kCompleted) {
    return std::nullopt;
  }
  if (status.phase == objects::DeletionPhase::kFailed) {
    return absl::StrCat("its data stays: ", status.message);
  }
  const std::string location = object.spec().location;
  if (!location.empty() &&
      absl::IsNotFound(
          context.cache().Find<objects::BackupStorageLocation>(space, location).status())) {
    return absl::StrCat("its data stays: BackupStorageLocation ", location, " does not exist");
  }
  if (status.trouble == objects::DeletionTrouble::kFailed &&
      context.IsPast(status.trouble_since, kFailingFor)) {
    return absl::StrCat("has failed for over a day: ", status.message);
  }
  return std::nullopt;
}

}  // namespace

void CheckVeleroNamespace(CheckContext& context) {
  std::size_t faults = 0;
  for (const std::string& space : context.options().velero_namespaces) {
    const std::string subject = absl::StrCat("namespace ", space);
    const auto& locations = context.cache().List(objects::BackupStorageLocation::Type(), space);
    if (context.IsMissing(subject, locations.status())) {
      context.Fault(subject, "Velero's CRDs are not installed",
                    std::string(datamover::InstallCommand(objects::BackupStorageLocation::Type())));
      ++faults;
    } else if (locations.ok() && locations->empty()) {
      context.Fault(subject, "has no BackupStorageLocation",
                    "name Velero's namespace with --velero-namespace, or make a location");
      ++faults;
    }
  }
  if (faults > 0 && faults == context.options().velero_namespaces.size()) {
    context.ExplainsOthers();
  }
}

void CheckVeleroServer(CheckContext& context) {
  ForEachServer(context, [&](const std::string& subject, const Deployment& server) {
    if (server.available_replicas() < 1) {
      context.Fault(subject, "is not available",
                    DescribeCommand(server.namespace_name(), kVeleroDeployment));
    }
  });
}

void CheckVeleroVersion(CheckContext& context) {
  ForEachServer(context, [&](const std::string& subject, const Deployment& server) {
    for (const objects::DeployedContainer& container : server.containers()) {
      const std::string& image = container.image;
      const std::vector<int> version = VersionOf(image);
      if (version.empty()) {
        context.Note(subject,
                     absl::StrCat("the version of image ", image, " is not known from its tag"),
                     "make sure that it is Velero 1.12 or newer");
      } else if (version < std::vector<int>{1, 12}) {
        context.Fault(subject, absl::StrCat("image ", image, " is too old to move data"),
                      kUpgradeVelero);
      } else {
        context.Good(subject, absl::StrCat("runs image ", image));
      }
    }
  });
}

void CheckVeleroCsiFeature(CheckContext& context) {
  ForEachServer(context, [&](const std::string& subject, const Deployment& server) {
    if (!absl::StrContains(absl::StrJoin(server.arguments(), " "), kCsiFeature)) {
      context.Fault(
          subject, "runs without --features=EnableCSI, so CSI volumes are left out",
          absl::StrCat("kubectl patch deployment ", kVeleroDeployment, " --namespace ",
                       server.namespace_name(), " --type json --patch '", kAddCsiFeature, "'"));
    }
  });
}

void CheckVeleroPlugin(CheckContext& context) {
  ForEachServer(context, [&](const std::string& subject, const Deployment& server) {
    for (const objects::DeployedContainer& container : server.init_containers()) {
      if (absl::StrContains(container.image, kCsiPluginImage)) {
        context.Warn(subject,
                     absl::StrCat("has image ", container.image,
                                  " besides csi-delta's: Velero 1.14 and newer have its actions "
                                  "built in and refuse it, and older ones do not need it"),
                     absl::StrCat("velero plugin remove ", container.image));
      }
    }
    if (absl::c_none_of(server.init_containers(), [](const objects::DeployedContainer& container) {
          return absl::StrContains(container.image, kPluginImage);
        })) {
      context.Warn(subject, absl::StrCat("has no init container of an image named ", kPluginImage),
                   "velero plugin add IMAGE; without it moved data is never deleted");
    }
    std::vector<std::string> unfit;
    for (const auto& node : context.List<objects::Node>()) {
      if (node.Label(kArchitectureLabel) != objects::ImageNodeLabels().at(kArchitectureLabel)) {
        unfit.push_back(node.name());
      }
    }
    if (!unfit.empty() && !objects::NamesArchitecture(server)) {
      context.Warn(
          subject,
          absl::StrCat("may run on nodes that the plugin's image is not for: ", Listed(unfit)),
          absl::StrCat("add ", kArchitectureLabel, ": amd64 to its nodeSelector"));
    }
  });
}

void CheckVeleroPolicies(CheckContext& context) {
  for (const std::string& space : context.options().velero_namespaces) {
    for (const auto& [name, users] : UsersOfPolicies(context, space)) {
      const std::string subject = SubjectOf("configmap", space, name);
      const auto config_map = context.cache().Find<objects::ConfigMap>(space, name);
      const auto policies = config_map.ok() ? velero::VolumePolicies::FromConfigMap(*config_map)
                                            : config_map.status();
      const bool is_past =
          absl::IsNotFound(config_map.status()) && absl::StartsWith(users.all.front(), "backup ");
      if (is_past || !context.IsKnown(subject, policies.status())) {
        continue;
      }
      if (policies->AnyRuleIs(velero::PolicyAction::kCustom) &&
          IsBefore(context, space, {1, 18, 1})) {
        context.Fault(subject,
                      absl::StrCat("has a rule of type custom, which this Velero does not know: "
                                   "these fail, or do without the rule: ",
                                   Listed(users.all)),
                      absl::StrCat("1.18.1 or newer is needed: ", kUpgradeVelero));
      }
      if (!users.by_us.empty() && policies->AnyRuleIs(velero::PolicyAction::kSnapshot)) {
        context.Warn(subject,
                     absl::StrCat("has a rule of type snapshot, and csi-delta moves the data of ",
                                  Listed(users.by_us),
                                  ": from 1.19 on Velero's own data mover gets those volumes"),
                     "make it a rule of type custom with the parameter csi-delta: move");
      }
    }
  }
}

void CheckUploadsWaiting(CheckContext& context) { FindWaiting<objects::DataUpload>(context); }

void CheckDownloadsWaiting(CheckContext& context) { FindWaiting<objects::DataDownload>(context); }

void CheckDeletionsPending(CheckContext& context) {
  for (const std::string& space : context.options().velero_namespaces) {
    DeletionsByCause causes;
    for (const DataDeletion& object : context.List<DataDeletion>(space)) {
      if (object.phase() != objects::DeletionPhase::kCompleted &&
          !WhyItFails(context, space, object).has_value() &&
          context.IsPast(object.created_at(), kDeletedWithin)) {
        causes[object.status().message].push_back(object);
      }
    }
    for (const auto& [message, deletions] : causes) {
      int64_t attempts = 0;
      for (const DataDeletion& deletion : deletions) {
        attempts = std::max(attempts, deletion.status().attempts);
      }
      context.Warn(SubjectOfAll(deletions, space),
                   absl::StrCat("not done after an hour and ", Counted(attempts, "attempt"), ": ",
                                message, OthersOf(deletions)),
                   "see that the mover's controller runs, and what holds the repository's lock");
    }
  }
}

void CheckDeletionsFailing(CheckContext& context) {
  for (const std::string& space : context.options().velero_namespaces) {
    DeletionsByCause causes;
    for (const DataDeletion& object : context.List<DataDeletion>(space)) {
      if (const auto why = WhyItFails(context, space, object); why.has_value()) {
        causes[*why].push_back(object);
      }
    }
    for (const auto& [why, deletions] : causes) {
      context.Warn(
          SubjectOfAll(deletions, space), absl::StrCat(why, OthersOf(deletions)),
          "do what the message says, then: csi-delta deletions retry; kubectl delete datadeletion "
          "gives the request up, and the data stays in the bucket");
    }
  }
}

void CheckDeletionsImpossible(CheckContext& context) {
  for (const std::string& space : context.options().velero_namespaces) {
    const std::string subject = SubjectOf("configmap", space, objects::kUndeletedConfigMap);
    const auto record =
        context.cache().Find<objects::ConfigMap>(space, objects::kUndeletedConfigMap);
    if (context.IsMissing(subject, record.status()) || !record.ok()) {
      continue;
    }
    std::vector<std::string> texts;
    absl::c_transform(record->data(), std::back_inserter(texts),
                      [](const auto& entry) { return entry.second; });
    if (!texts.empty()) {
      context.Warn(subject,
                   absl::StrCat("data of deleted backups stays, which this cluster can never "
                                "delete: ",
                                Listed(texts)),
                   absl::StrCat("delete it in its own cluster, then: kubectl -n ", space,
                                " delete configmap ", objects::kUndeletedConfigMap));
    }
  }
}

void CheckUploadsFailed(CheckContext& context) {
  for (const objects::DataUpload& upload : context.ListInVeleros<objects::DataUpload>()) {
    if (upload.is_managed() && upload.phase() == "Failed" &&
        !context.IsPast(upload.created_at(), kRecently)) {
      context.Warn(absl::StrCat("volume ", upload.source_namespace(), "/", upload.source_pvc()),
                   absl::StrCat("was not saved by DataUpload ", upload.namespace_name(), "/",
                                upload.name(), ": ", upload.message()),
                   "do what the message says, and back it up again");
    }
  }
}

}  // namespace csidelta::doctor
