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

void CheckMoverBases(CheckContext& context) {
  const std::string subject = "base snapshots";
  const absl::StatusOr<datamover::MoverSettings> settings = ReadSettings(context);
  if (!settings.ok()) {
    context.Unknown(subject, settings.status());
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
  if (!all.ok()) {
    context.Unknown(subject, all.status());
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
    context.Warn(subject,
                 absl::StrCat(Counted(std::ssize(names), "base snapshot"),
                              " of no use: ", datamover::TextOf(reason), ": ", Listed(names)),
                 "the mover's controller drops them within ten minutes, or after an hour where a "
                 "Backup or a BackupStorageLocation was not found; where they stay, see that it "
                 "runs, or drop them: csi-delta bases drop --unused --yes");
  }
  if (by_reason.empty()) {
    context.Good(subject, absl::StrCat(Counted(std::ssize(*all), "base snapshot"),
                                       " kept, each for the next backup"));
  }
}

}  // namespace csidelta::doctor
