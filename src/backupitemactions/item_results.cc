#include "backupitemactions/item_results.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/log.h"
#include "csi/group/group_lifecycle.h"
#include "csi/retry.h"
#include "k8s/event_recorder.h"
#include "objects/client.h"
#include "objects/event.h"
#include "objects/persistent_volume.h"

namespace csidelta::backupitemactions {
namespace {

using Kind = SnapshotOperation::Kind;

absl::string_view FormOf(Kind kind) {
  switch (kind) {
    case Kind::kVolumeSnapshot:
      return "1";
    case Kind::kGroup:
      return "g1";
    case Kind::kLonghorn:
      return "l1";
  }
  return "";
}

constexpr size_t kParts = 5;

}  // namespace

std::string EncodeOperationId(const SnapshotOperation& operation) {
  return absl::StrCat(FormOf(operation.kind), "/", operation.namespace_name, "/",
                      operation.snapshot_name, "/", operation.snapshot_uid, "/",
                      FormatRfc3339(operation.started_at));
}

absl::StatusOr<SnapshotOperation> DecodeOperationId(absl::string_view id, Kind kind) {
  const std::vector<std::string> parts = absl::StrSplit(id, '/');
  if (parts.size() == kParts && parts[0] == FormOf(kind) && !parts[1].empty() &&
      !parts[2].empty() && !parts[3].empty()) {
    if (const auto started_at = ParseRfc3339(parts[4]); started_at.has_value()) {
      return SnapshotOperation{.kind = kind,
                               .namespace_name = parts[1],
                               .snapshot_name = parts[2],
                               .snapshot_uid = parts[3],
                               .started_at = *started_at};
    }
  }
  return absl::InvalidArgumentError(velero::UnknownOperation(id, absl::InfinitePast()).error);
}

void AddAnnotations(const std::map<std::string, std::string>& annotations,
                    objects::Object& object) {
  for (const auto& [key, value] : annotations) {
    object.SetAnnotation(key, value);
  }
}

std::string FreezeWindowText(const objects::VolumeGroupSnapshot& group) {
  const auto window = csi::FreezeWindow(group);
  return window.has_value() ? absl::FormatDuration(absl::Ceil(*window, absl::Milliseconds(1)))
                            : "unknown";
}

std::optional<objects::Object> IfChanged(const objects::Object& item, objects::Object changed) {
  return changed == item ? std::nullopt : std::optional(std::move(changed));
}

velero::OperationProgress Failed(velero::OperationProgress progress, std::string error) {
  CSIDELTA_CHECK(
      !error.empty());  // The host takes a completed operation without one for a success.
  progress.completed = true;
  progress.description = error;
  progress.error = std::move(error);
  return progress;
}

velero::OperationProgress NotYet(velero::OperationProgress progress, std::string description) {
  progress.description = std::move(description);
  return progress;
}

void ReportNoSnapshot(const csi::Environment& env, const objects::Object& backup,
                      absl::string_view namespace_name, absl::string_view pvc,
                      absl::string_view why) {
  const CallContext ctx = csi::CleanUpContext(env.clock);
  const auto found =
      objects::Find<objects::PersistentVolumeClaim>(ctx, env.api, namespace_name, pvc);
  if (!found.ok()) {
    CSIDELTA_LOG(kInfo, "an event could not be written", {"namespace", std::string(namespace_name)},
                 {"name", std::string(pvc)}, {"error", found.status().ToString()});
  } else if (found->has_value()) {
    objects::TryEmitEvent(
        ctx, env.api, **found, k8s::EventType::kWarning, "SnapshotFailed",
        absl::StrCat("backup ", backup.name(), " has no snapshot of this PVC: ", why));
  }
}

}  // namespace csidelta::backupitemactions
