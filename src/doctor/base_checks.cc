#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/human_text.h"
#include "datamover/base_use.h"
#include "datamover/settings.h"
#include "doctor/checks.h"

namespace csidelta::doctor {

void CheckMoverBases(Visit& visit) {
  const std::string subject = "base snapshots";
  const absl::StatusOr<datamover::MoverSettings> settings = ReadSettings(visit);
  if (!settings.ok()) {
    visit.Unknown(subject, settings.status());
    return;
  }
  const std::vector<std::string>& veleros = visit.options().velero_namespaces;
  const absl::StatusOr<std::vector<datamover::ListedBase>> all = datamover::ListBasesWithUse(
      {.mover_namespace = visit.options().mover_namespace,
       .velero_namespaces = {veleros.begin(), veleros.end()},
       .settings = *settings,
       .now = visit.ctx().clock->Now()},
      [&visit](const k8s::ResourceType& type, absl::string_view namespace_name) {
        return visit.facts().List(type, namespace_name);
      });
  if (!all.ok()) {
    visit.Unknown(subject, all.status());
    return;
  }
  std::map<datamover::BaseUselessness, std::vector<std::string>> by_reason;
  for (const datamover::ListedBase& listed : *all) {
    if (listed.useless.has_value() && !listed.is_in_use) {
      const csi::BaseOwner& owner = listed.base.owner;
      by_reason[*listed.useless].push_back(absl::StrCat(listed.base.content_name, " of PVC ",
                                                        owner.claim_namespace, "/", owner.claim));
    }
  }
  for (const auto& [reason, names] : by_reason) {
    visit.Warn(subject,
               absl::StrCat(Counted(std::ssize(names), "base snapshot"),
                            " of no use: ", datamover::TextOf(reason), ": ", Listed(names)),
               "the mover's controller drops them within ten minutes, or after an hour where a "
               "Backup or a BackupStorageLocation was not found; where they stay, see that it "
               "runs, or drop them: csi-delta bases drop --unused --yes");
  }
  if (by_reason.empty()) {
    visit.Good(subject, absl::StrCat(Counted(std::ssize(*all), "base snapshot"),
                                     " kept, each for the next backup"));
  }
}

}  // namespace csidelta::doctor
