#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/environment.h"
#include "longhorn/kinds_guard.h"
#include "objects/backup.h"
#include "restoreitemactions/actions.h"

namespace csidelta::restoreitemactions {
namespace {

// Velero resolves the resources of an action by the kinds that the cluster serves, keeps what it
// cannot resolve as it is, and takes it for a pattern (v1.18.1:pkg/util/collections, the same in
// 1.11). So this one name holds for all kinds of Longhorn, also for those that are newer than this
// program; it matches those of groups below Longhorn's too, which are let through.
constexpr char kAllOfLonghorn[] = "*.longhorn.io";

class LonghornGuardAction : public velero::ActionOn<velero::RestoreItemAction> {
 public:
  explicit LonghornGuardAction(const csi::Environment& env)
      : ActionOn(kAllOfLonghorn), settings_(env) {}

  absl::StatusOr<velero::RestoreItemResult> Execute(
      const CallContext& ctx, const objects::Object& item, const objects::Object& item_from_backup,
      const objects::Object& restore_object) override {
    ASSIGN_OR_RETURN(const objects::Restore restore, objects::Restore::Parse(restore_object));
    ASSIGN_OR_RETURN(const auto config, settings_.Get(ctx, restore.uid()));
    const longhorn::GuardSettings guard{.namespace_name = config->longhorn_namespace,
                                        .is_on = config->longhorn_guard};
    const std::string namespace_in_backup = item_from_backup.namespace_name();
    const std::optional<longhorn::LeftOut> left_out =
        longhorn::WhyLeftOut(item, restore.MapNamespace(namespace_in_backup), guard);
    if (!left_out.has_value()) {
      return velero::RestoreItemResult{};
    }
    log_.Note(restore.uid(), left_out->resource,
              absl::StrCat(namespace_in_backup, "/", item_from_backup.name()), left_out->reason);
    velero::RestoreItemResult result;
    result.skip_restore = true;
    return result;
  }

 private:
  csi::SettingsOrDefaults settings_;
  longhorn::LeftOutLog log_;
};

}  // namespace

std::unique_ptr<velero::RestoreItemAction> MakeLonghornGuardAction(const csi::Environment& env) {
  return std::make_unique<LonghornGuardAction>(env);
}

}  // namespace csidelta::restoreitemactions
