#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "csi/environment.h"
#include "doctor/checks.h"
#include "longhorn/kinds_guard.h"
#include "longhorn/native_snapshot.h"
#include "longhorn/snapshot_inventory.h"
#include "longhorn/types.h"
#include "longhorn/volume_data.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/cluster.h"
#include "objects/keys.h"
#include "objects/volume_snapshot.h"
#include "snapshots/snapshot_prune.h"
#include "velero/volume_decision.h"

namespace csidelta::doctor {
namespace {

using objects::CustomResourceDefinition;
using objects::EndpointSlice;
using objects::WebhookConfiguration;

constexpr absl::Duration kLonghornListTimeMax = absl::Seconds(10);
// Of that, the part that is worth a warning.
constexpr double kCountShareMax = 0.8;
// Its monitor looks every 5 seconds, and a detached volume is attached within a minute or so.
constexpr absl::Duration kShownAfterMax = absl::Minutes(2);
constexpr absl::Duration kTakenAfterMax = absl::Minutes(10);
constexpr absl::Duration kDeletedAfterMax = absl::Hours(1);
// It keeps so many snapshots of a volume, whichever program took them.
constexpr char kDeletingTask[] = "snapshot-delete";
// Settings of Longhorn, which it makes in its namespace when it starts.
constexpr char kVersionSetting[] = "current-longhorn-version";
constexpr char kPurgeIsDisabledSetting[] = "disable-snapshot-purge";

// The definitions of Longhorn's kinds, or none after having said why they are not known. By the
// label that Longhorn gives each: all definitions of a cluster may be a hundred megabytes.
std::vector<CustomResourceDefinition> LonghornDefinitions(CheckContext& context) {
  absl::StatusOr<std::vector<CustomResourceDefinition>> definitions =
      objects::List<CustomResourceDefinition>(context.ctx().WithTimeout(kLonghornListTimeMax),
                                              context.cache().api(), "",
                                              {.label_selector = objects::kLonghornDefinitionLabel,
                                               .field_selector = "",
                                               .may_be_old = true});
  if (!context.IsKnown(CustomResourceDefinition::kKind.plural, definitions.status())) {
    return {};
  }
  std::erase_if(*definitions, [](const CustomResourceDefinition& definition) {
    return definition.group() != longhorn::kGroup;
  });
  return *std::move(definitions);
}

// The settings of the plugin for a Velero, or nothing after having said why they are not known.
std::optional<velero::PluginConfig> PluginConfigOf(CheckContext& context,
                                                   const std::string& space) {
  const absl::StatusOr<velero::PluginConfig> config = csi::ReadPluginConfig(
      context.ctx().WithTimeout(kLonghornListTimeMax), {.api = context.cache().api(),
                                                        .clock = *context.ctx().clock,
                                                        .random = context.random(),
                                                        .velero_namespace = space,
                                                        .enable_csi = false});
  const std::string subject = absl::StrCat("settings of the plugin in ", space);
  return context.IsKnown(subject, config.status()) ? std::optional(*config) : std::nullopt;
}

// Where Longhorn is, as each Velero's settings of the plugin have it.
std::set<std::string> LonghornNamespaces(CheckContext& context) {
  std::set<std::string> spaces;
  for (const std::string& velero : context.options().velero_namespaces) {
    if (const auto config = PluginConfigOf(context, velero); config.has_value()) {
      spaces.insert(config->longhorn_namespace);
    }
  }
  return spaces;
}

// What a setting of Longhorn says; "" where that is not known.
std::string SettingOf(CheckContext& context, const std::string& space, const char* name) {
  const auto setting = context.cache().Find<longhorn::Setting>(space, name);
  return setting.ok() ? setting->value() : "";
}

// The native snapshots of backups, each with the name of its backup. One that is being deleted
// goes, and one that is marked as removed is gone for those who could use it.
struct NativeSnapshots {
  std::vector<std::pair<std::string, std::string>> of_backups;
  std::vector<std::pair<std::string, std::string>> made_again;  // longhorn::IsNativeMadeAgain()
};

absl::StatusOr<NativeSnapshots> ReadNatives(const CallContext& ctx, k8s::ApiClient& api,
                                            const std::string& space) {
  NativeSnapshots found;
  const auto sort = [&](const longhorn::Snapshot& snapshot) {
    if (snapshot.is_being_deleted() || snapshot.is_marked_removed()) {
      return;
    }
    if (!snapshot.Label(objects::kLonghornMadeByLabel).empty()) {
      found.of_backups.emplace_back(snapshot.name(), snapshot.Label(objects::kBackupNameLabel));
    } else if (longhorn::IsNativeMadeAgain(snapshot)) {
      found.made_again.emplace_back(snapshot.name(),
                                    snapshot.EngineLabel(objects::kLonghornEngineBackupLabel));
    }
  };
  RETURN_IF_ERROR(objects::ReadWanted<longhorn::Snapshot>(
      ctx, api, longhorn::Snapshot::Type(), space,
      [](absl::string_view name) { return absl::StartsWith(name, longhorn::kNativeNamePrefix); },
      objects::ForEach<longhorn::Snapshot>([&] { found = {}; }, sort)));
  return found;
}

// "NAME (backup BACKUP)", of each whose backup is not among `backups`.
std::vector<std::string> NamedWithBackup(
    const std::vector<std::pair<std::string, std::string>>& natives,
    const std::set<std::string>& backups) {
  std::vector<std::string> named;
  for (const auto& [name, backup] : natives) {
    if (!backups.contains(backup)) {
      named.push_back(backup.empty() ? name : absl::StrCat(name, " (backup ", backup, ")"));
    }
  }
  return named;
}

// Names of snapshots that need attention.
struct SnapshotTroubles {
  std::vector<std::string> almost_full;    // volumes that have almost as many as they may
  std::vector<std::string> undeletable;    // by their names
  std::vector<std::string> on_detached;    // being deleted, of a volume that no node has
  std::vector<std::string> hanging;        // being deleted
  std::vector<std::string> not_shown;      // taken
  std::vector<std::string> still_to_take;  // not taken
};

class SnapshotsReader {
 public:
  SnapshotsReader(CheckContext& context, std::string space)
      : context_(context), space_(std::move(space)) {}

  // As the API server remembers them, one at a time: there may be 30,000. NOT_FOUND where the kind
  // is not served.
  absl::StatusOr<SnapshotTroubles> Read() {
    for (longhorn::Volume& volume : context_.List<longhorn::Volume>(space_)) {
      std::string name = volume.name();
      volumes_.emplace(std::move(name), std::move(volume));
    }
    RETURN_IF_ERROR(objects::ReadWanted<longhorn::Snapshot>(
        context_.ctx().WithTimeout(kLonghornListTimeMax), context_.cache().api(),
        longhorn::Snapshot::Type(), space_, [](absl::string_view) { return true; },
        objects::ForEach<longhorn::Snapshot>(
            [&] {
              troubles_ = {};
              counts_.clear();
            },
            [&](const longhorn::Snapshot& snapshot) { Inspect(snapshot); })));
    FindAlmostFull();
    return std::move(troubles_);
  }

 private:
  void FindAlmostFull() {
    for (const auto& [name, count] : counts_) {
      const auto volume = volumes_.find(name);
      const int64_t max =
          volume == volumes_.end()
              ? longhorn::kSnapshotMaxCountDefault
              : volume->second.snapshot_count_max().value_or(longhorn::kSnapshotMaxCountDefault);
      if (static_cast<double>(count) >= kCountShareMax * static_cast<double>(max)) {
        troubles_.almost_full.push_back(absl::StrCat(name, " (", count, " of ", max, ")"));
      }
    }
  }

  void Inspect(const longhorn::Snapshot& snapshot) {
    if (!snapshot.is_marked_removed()) {
      ++counts_[snapshot.volume()];
    }
    if (snapshot.name().size() > longhorn::kDeletableNameBytesMax) {
      troubles_.undeletable.push_back(snapshot.name());
    } else if (snapshot.is_being_deleted()) {
      InspectDeleted(snapshot);
    } else if (!snapshot.is_ready() && !snapshot.is_marked_removed() &&
               context_.IsPast(snapshot.requested_at(), kShownAfterMax)) {
      troubles_.not_shown.push_back(snapshot.name());
    } else if (snapshot.is_to_be_taken() && !snapshot.requested_at().has_value() &&
               !snapshot.taken_at().has_value() &&
               context_.IsPast(snapshot.created_at(), kTakenAfterMax)) {
      troubles_.still_to_take.push_back(
          absl::StrCat(snapshot.name(), snapshot.error().empty() ? "" : ": ", snapshot.error()));
    }
  }

  // The newest of a volume stays by design, until there is a newer one.
  void InspectDeleted(const longhorn::Snapshot& snapshot) {
    if (!context_.IsPast(snapshot.deleted_at(), kDeletedAfterMax) ||
        (snapshot.is_newest() && snapshot.is_marked_removed())) {
      return;
    }
    const auto volume = volumes_.find(snapshot.volume());
    const bool is_detached = volume != volumes_.end() && volume->second.state() == "detached";
    (is_detached ? troubles_.on_detached : troubles_.hanging).push_back(snapshot.name());
  }

  CheckContext& context_;
  const std::string space_;
  std::map<std::string, longhorn::Volume> volumes_;
  std::map<std::string, int64_t> counts_;  // by volume; of those that its maximum counts
  SnapshotTroubles troubles_;
};

// Whether some Pod answers for a service.
bool IsAnswered(const std::vector<EndpointSlice>& slices, const std::string& service) {
  return absl::c_any_of(slices, [&](const EndpointSlice& slice) {
    return slice.service() == service && slice.is_ready();
  });
}

// The services in a namespace that are asked by webhooks which fail without an answer.
std::set<std::string> ServicesOfWebhooks(CheckContext& context, const std::string& space) {
  std::set<std::string> services;
  for (const k8s::ResourceType* const type :
       {&WebhookConfiguration::MutatingType(), &WebhookConfiguration::ValidatingType()}) {
    for (const objects::Object& configuration : context.List(*type)) {
      for (const objects::ServiceWebhook& webhook :
           WebhookConfiguration(configuration).webhooks()) {
        if (webhook.namespace_name == space && webhook.fails_closed) {
          services.insert(webhook.service);
        }
      }
    }
  }
  return services;
}

// Whether a list of resources names some of Longhorn's: "snapshots.longhorn.io", "*.longhorn.io".
bool NamesLonghorn(const std::vector<std::string>& resources) {
  return std::any_of(resources.begin(), resources.end(), [](const std::string& resource) {
    return resource == "*" || absl::EndsWith(resource, longhorn::kGroup);
  });
}

bool Archives(const objects::Backup& backup, const std::string& longhorn_namespace) {
  return backup.IncludesNamespace(longhorn_namespace) &&
         (backup.included_resources().empty() || NamesLonghorn(backup.included_resources())) &&
         !NamesLonghorn(backup.excluded_resources());
}

}  // namespace

void CheckLonghornFound(CheckContext& context) {
  if (LonghornDefinitions(context).empty()) {
    return;
  }
  std::map<std::string, std::string> versions;  // by namespace
  for (const longhorn::Setting& setting : context.List<longhorn::Setting>()) {
    if (setting.name() == kVersionSetting) {
      versions[setting.namespace_name()] = setting.value();
    }
  }
  if (!context.cache().List(longhorn::Setting::Type()).ok()) {
    return;
  }
  for (const std::string& space : LonghornNamespaces(context)) {
    const std::string subject = absl::StrCat("Longhorn in ", space);
    if (const auto found = versions.find(space); found != versions.end()) {
      context.Good(subject, absl::StrCat("version ", found->second));
    } else if (versions.empty()) {
      context.Note(subject, "its CRDs are installed, but Longhorn is not",
                   "if Longhorn was uninstalled, delete its CRDs and webhook configurations, too");
    } else {
      context.Warn(subject,
                   absl::StrCat("it is not installed there, but in ", versions.begin()->first,
                                ": no native snapshot is taken or restored"),
                   absl::StrCat("set longhornNamespace: ", versions.begin()->first,
                                " in the settings of the plugin"));
    }
  }
}

void CheckLonghornClass(CheckContext& context) {
  for (const auto& snapshot_class : context.List<objects::VolumeSnapshotClass>()) {
    if (const absl::Status status = longhorn::CheckClassOfMove(snapshot_class); !status.ok()) {
      context.Warn(absl::StrCat("driver ", velero::kLonghornDriver), std::string(status.message()),
                   "make one with it, and name it in the volume policy by snapshotClass");
    }
  }
}

void CheckLonghornSnapshots(CheckContext& context) {
  for (const std::string& space : LonghornNamespaces(context)) {
    const std::string subject = absl::StrCat("snapshots of Longhorn in ", space);
    const absl::StatusOr<SnapshotTroubles> found = SnapshotsReader(context, space).Read();
    if (context.IsMissing(subject, found.status()) || !found.ok()) {
      continue;
    }
    if (!found->undeletable.empty()) {
      context.Fault(subject,
                    absl::StrCat("their names have more than 63 characters, so Longhorn can delete "
                                 "neither them nor their volumes: ",
                                 Listed(found->undeletable)),
                    "give snapshots shorter names; for these, ask Longhorn's support");
    }
    const auto warn = [&](const std::vector<std::string>& names, absl::string_view text,
                          const char* remediation) {
      if (!names.empty()) {
        context.Warn(subject, absl::StrCat(text, ": ", Listed(names)), remediation);
      }
    };
    warn(found->almost_full, "volumes near their limit of snapshots; at the limit none is taken",
         "free places with: csi-delta longhorn prune --volume VOLUME --keep-last 100, or raise "
         "snapshotMaxCount of the Volume");
    warn(found->on_detached,
         "being deleted for over an hour, and waiting for an attachment of their volumes",
         "start a Pod that uses the volume, or leave them until one does");
    warn(found->hanging, "being deleted for over an hour",
         found->hanging.empty() || SettingOf(context, space, kPurgeIsDisabledSetting) != "true"
             ? "look at their status.error, and at the log of longhorn-manager"
             : "set Longhorn's setting disable-snapshot-purge to false; they wait for that");
    warn(found->not_shown, "taken over 2 minutes ago, and not shown as ready",
         "look at the log of longhorn-manager: its monitor of the volume's engine fails; before "
         "Longhorn 1.6 it does if snapshotMaxCount is below what the volume has");
    warn(found->still_to_take,
         "not taken for over 10 minutes; Longhorn takes them as soon as it can, with the data of "
         "that moment",
         "delete those that are not wanted any more");
  }
}

void CheckLonghornNative(CheckContext& context) {
  for (const std::string& space : LonghornNamespaces(context)) {
    const CallContext ctx = context.ctx().WithTimeout(kLonghornListTimeMax);
    const std::string subject = absl::StrCat("native snapshots in ", space);
    const std::string deletion =
        absl::StrCat(": kubectl -n ", space, " delete snapshots.longhorn.io NAME");
    const absl::StatusOr<NativeSnapshots> natives = ReadNatives(ctx, context.cache().api(), space);
    if (context.IsMissing(subject, natives.status()) || !natives.ok()) {
      continue;
    }
    if (const auto again = NamedWithBackup(natives->made_again, {}); !again.empty()) {
      context.Warn(subject,
                   absl::StrCat(again.size(),
                                " that lost their object, for which Longhorn made another: no "
                                "restore uses them, and no deletion of a backup deletes them: ",
                                Listed(again)),
                   absl::StrCat("if you do not need them", deletion));
    }
    if (natives->of_backups.empty()) {
      continue;
    }
    // Read last: each Backup is older than its snapshots.
    const auto backups = snapshots::ReadBackupNames(ctx, context.cache().api());
    if (!backups.ok()) {
      context.Unknown(subject, backups.status());
    } else if (const auto orphaned = NamedWithBackup(natives->of_backups, *backups);
               !orphaned.empty()) {
      context.Warn(
          subject,
          absl::StrCat(orphaned.size(),
                       " of backups that Velero does not list: ", Listed(orphaned)),
          absl::StrCat("if Velero will not read these backups from a bucket again", deletion));
    }
  }
}

void CheckLonghornJobs(CheckContext& context) {
  for (const std::string& space : LonghornNamespaces(context)) {
    for (const auto& job : context.List<longhorn::RecurringJob>(space)) {
      if (job.task() == kDeletingTask) {
        context.Warn(
            absl::StrCat("recurring job ", space, "/", job.name()),
            absl::StrCat("deletes all but ", job.retained(),
                         " snapshots of a volume, native ones of backups, those of "
                         "VolumeSnapshots and the bases of incremental backups among them"),
            "let it keep more than all others take together, or give these volumes no job "
            "of this kind");
      }
    }
  }
}

void CheckLonghornWebhook(CheckContext& context) {
  for (const std::string& space : LonghornNamespaces(context)) {
    const std::set<std::string> services = ServicesOfWebhooks(context, space);
    if (services.empty()) {
      continue;
    }
    const auto slices = context.cache().List<EndpointSlice>(space);
    if (!context.IsKnown(absl::StrCat("endpointslices of ", space), slices.status())) {
      continue;
    }
    for (const std::string& service : services) {
      if (!IsAnswered(*slices, service)) {
        context.Fault(absl::StrCat("service ", space, "/", service),
                      "no Pod answers for it: the API server refuses every change of a PVC, in all "
                      "namespaces",
                      "see why longhorn-manager does not run; if Longhorn is gone, delete its "
                      "webhook configurations");
      }
    }
  }
}

void CheckLonghornKinds(CheckContext& context) {
  for (const CustomResourceDefinition& definition : LonghornDefinitions(context)) {
    if (longhorn::FindKind(definition.defined_kind()) == nullptr) {
      context.Note(absl::StrCat("resource ", definition.name()),
                   "is not known to this version, so restores omit it",
                   "update the plugin, or tell its authors of the kind");
    }
  }
}

void CheckLonghornInBackups(CheckContext& context) {
  if (LonghornDefinitions(context).empty()) {
    return;
  }
  for (const std::string& space : context.options().velero_namespaces) {
    const std::optional<velero::PluginConfig> config = PluginConfigOf(context, space);
    if (!config.has_value() || config->longhorn_guard) {
      continue;
    }
    for (const objects::Object& schedule : context.List(kScheduleKind.Type(), space)) {
      const absl::StatusOr<objects::Backup> backup = objects::Backup::OfSchedule(schedule);
      if (backup.ok() && Archives(*backup, config->longhorn_namespace)) {
        context.Warn(absl::StrCat("schedule ", space, "/", schedule.name()),
                     absl::StrCat("archives Longhorn's objects in ", config->longhorn_namespace,
                                  ", and longhornGuard is off: a restore makes volumes and backups "
                                  "of Longhorn again"),
                     "remove longhornGuard from the settings, or exclude the namespace");
      }
    }
  }
}

}  // namespace csidelta::doctor
