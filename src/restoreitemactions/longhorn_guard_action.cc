#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/environment.h"
#include "longhorn/kinds_guard.h"
#include "longhorn/left_out_log.h"
#include "longhorn/snapshot_retake.h"
#include "longhorn/types.h"
#include "restoreitemactions/actions.h"
#include "velero/backup.h"

namespace csidelta::restoreitemactions {
namespace {

// Velero resolves the resources of an action by the kinds that the cluster serves, keeps what it
// cannot resolve as it is, and takes it for a pattern (v1.18.1:pkg/util/collections, the same in
// 1.11). So this one name holds for all kinds of Longhorn, also for those that are newer than this
// program; it matches those of groups below Longhorn's too, which are let through.
constexpr char kAllOfLonghorn[] = "*.longhorn.io";

// For what longhornRetake asks about one Snapshot, of which there may be thousands.
constexpr absl::Duration kRetakeTimeMax = absl::Seconds(30);

class LonghornGuardAction : public velero::ActionOn<velero::RestoreItemAction> {
 public:
  explicit LonghornGuardAction(const csi::Environment& env)
      : ActionOn(kAllOfLonghorn), env_(env), settings_(env) {}

  absl::StatusOr<velero::RestoreItemResult> Execute(
      const CallContext& ctx, const objects::Object& item, const objects::Object& item_from_backup,
      const objects::Object& restore_object) override {
    ASSIGN_OR_RETURN(const velero::Restore restore, velero::ParseRestore(restore_object));
    ASSIGN_OR_RETURN(const auto config, settings_.Get(ctx, restore.uid));
    const longhorn::GuardSettings guard{.namespace_name = config->longhorn_namespace,
                                        .is_on = config->longhorn_guard};
    const std::string namespace_in_backup = item_from_backup.namespace_name();
    const std::optional<longhorn::LeftOut> left_out =
        longhorn::WhyLeftOut(item, restore.MapNamespace(namespace_in_backup), guard);
    if (!left_out.has_value()) {
      return velero::RestoreItemResult{};
    }
    std::string reason = left_out->reason;
    if (config->longhorn_retake &&
        IsRetakable(item, restore.MapNamespace(namespace_in_backup), guard.namespace_name)) {
      ASSIGN_OR_RETURN(const std::string retaken,
                       Retake(ctx.WithTimeout(kRetakeTimeMax), restore, guard, item_from_backup));
      absl::StrAppend(&reason, "; ", retaken);
    }
    log_.Note(restore.uid, left_out->resource,
              absl::StrCat(namespace_in_backup, "/", item_from_backup.name()), reason);
    velero::RestoreItemResult result;
    result.skip_restore = true;
    return result;
  }

 private:
  // In other namespaces Longhorn ignores its kinds, and what is of another version it does not
  // read.
  static bool IsRetakable(const objects::Object& item, absl::string_view target,
                          absl::string_view longhorns) {
    return item.kind() == longhorn::Snapshot::kKind.kind && target == longhorns &&
           item.api_version() == longhorn::Snapshot::kKind.ApiVersion();
  }

  // What became of it, for the log. Velero creates nothing: it would restore the old status, too,
  // and Longhorn would take the new snapshot for one that is lost.
  absl::StatusOr<std::string> Retake(const CallContext& ctx, const velero::Restore& restore,
                                     const longhorn::GuardSettings& guard,
                                     const objects::Object& archived) {
    ASSIGN_OR_RETURN(const longhorn::Snapshot snapshot, longhorn::Snapshot::From(archived));
    const absl::StatusOr<std::string> refusal =
        longhorn::Retake(ctx, env_.api, snapshot,
                         {.namespace_name = guard.namespace_name,
                          .restore_name = restore.name,
                          .restore_uid = restore.uid});
    if (!refusal.ok()) {
      return Annotate(refusal.status(),
                      absl::StrCat("longhornRetake: Snapshot ", snapshot.name(),
                                   absl::IsPermissionDenied(refusal.status())
                                       ? " (deploy/longhorn-rbac.yaml has the rights)"
                                       : ""));
    }
    return refusal->empty()
               ? "longhornRetake asks for a new one, of today's data, under another name"
               : absl::StrCat("longhornRetake asks for no new one: ", *refusal);
  }

  const csi::Environment env_;
  csi::SettingsOrDefaults settings_;
  longhorn::LeftOutLog log_;
};

}  // namespace

std::unique_ptr<velero::RestoreItemAction> MakeLonghornGuardAction(const csi::Environment& env) {
  return std::make_unique<LonghornGuardAction>(env);
}

}  // namespace csidelta::restoreitemactions
