#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "csi/environment.h"
#include "csi/settings.h"
#include "doctor/checks.h"
#include "k8s/object.h"
#include "longhorn/kinds_guard.h"
#include "objects/keys.h"
#include "velero/backup.h"

namespace csidelta::doctor {
namespace {

constexpr absl::Duration kLonghornListTimeMax = absl::Seconds(10);

// The definitions of Longhorn's kinds, or none after having said why they are not known. By the
// label that Longhorn gives each: all definitions of a cluster may be a hundred megabytes.
std::vector<Json> LonghornDefinitions(Visit& visit) {
  const absl::StatusOr<k8s::ObjectList> list = visit.facts().api().List(
      visit.ctx().WithTimeout(kLonghornListTimeMax), CustomResourceDefinitionType(), "",
      {.label_selector = objects::kLonghornDefinitionLabel,
       .field_selector = "",
       .may_be_old = true});
  if (!list.ok()) {
    visit.Unknown(CustomResourceDefinitionType().plural, list.status());
    return {};
  }
  std::vector<Json> definitions;
  for (const Json& definition : list->items) {
    if (GetString(definition, {"spec", "group"}) == longhorn::kGroup) {
      definitions.push_back(definition);
    }
  }
  return definitions;
}

// Whether a list of resources names some of Longhorn's: "snapshots.longhorn.io", "*.longhorn.io".
bool NamesLonghorn(const std::vector<std::string>& resources) {
  return std::any_of(resources.begin(), resources.end(), [](const std::string& resource) {
    return resource == "*" || absl::EndsWith(resource, longhorn::kGroup);
  });
}

// The backups that a Schedule makes; as far as it can be read.
absl::StatusOr<velero::Backup> BackupOf(const Json& schedule) {
  const Json* const metadata = FindJson(schedule, {"metadata"});
  const Json* const spec = FindJson(schedule, {"spec", "template"});
  return velero::ParseBackup({{"metadata", metadata == nullptr ? Json() : *metadata},
                              {"spec", spec == nullptr ? Json() : *spec}});
}

bool Archives(const velero::Backup& backup, const std::string& longhorn_namespace) {
  return backup.IncludesNamespace(longhorn_namespace) &&
         (backup.included_resources.empty() || NamesLonghorn(backup.included_resources)) &&
         !NamesLonghorn(backup.excluded_resources);
}

}  // namespace

void CheckLonghornKinds(Visit& visit) {
  for (const Json& definition : LonghornDefinitions(visit)) {
    if (longhorn::FindKind(GetString(definition, {"spec", "names", "kind"})) == nullptr) {
      visit.Note(absl::StrCat("resource ", k8s::Name(definition)),
                 "is not known to this version, and left out of restores",
                 "update the plugin, or tell its authors of the kind");
    }
  }
}

void CheckLonghornInBackups(Visit& visit) {
  if (LonghornDefinitions(visit).empty()) {
    return;
  }
  for (const std::string& space : visit.options().velero_namespaces) {
    const absl::StatusOr<velero::PluginConfig> config = csi::ReadPluginConfig(
        visit.ctx().WithTimeout(kLonghornListTimeMax), {.api = visit.facts().api(),
                                                        .clock = *visit.ctx().clock,
                                                        .random = visit.random(),
                                                        .velero_namespace = space,
                                                        .enable_csi = false});
    if (!config.ok()) {
      visit.Unknown(absl::StrCat("settings of the plugin in ", space), config.status());
      continue;
    }
    if (config->longhorn_guard) {
      continue;
    }
    for (const Json& schedule : visit.Look(ScheduleType(), space)) {
      const absl::StatusOr<velero::Backup> backup = BackupOf(schedule);
      if (backup.ok() && Archives(*backup, config->longhorn_namespace)) {
        visit.Warn(absl::StrCat("schedule ", space, "/", k8s::Name(schedule)),
                   absl::StrCat("archives Longhorn's objects in ", config->longhorn_namespace,
                                ", and longhornGuard is off: a restore makes volumes and backups "
                                "of Longhorn anew"),
                   "remove longhornGuard from the settings, or exclude the namespace");
      }
    }
  }
}

}  // namespace csidelta::doctor
