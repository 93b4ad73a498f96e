#include "csi/deletion_proof.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/volume_group_snapshot.h"

namespace csidelta::csi {
namespace {

using objects::Object;

// Far more than needed: the sidecar has one query under way at a time, so a handle is lost once. A
// later sweep resumes what is not finished by then.
constexpr int kStepsMax = 20;
// Without the right to write a status, the driver's sidecar is given this long to do it.
constexpr absl::Duration kStatusWait = absl::Seconds(30);
// How long the sidecar may take for its first report about a new object.
constexpr absl::Duration kFirstReportWait = absl::Seconds(5);

enum class Step { kNone, kDelete, kWriteHandle, kWait, kRelease, kReleaseUndone };

bool IsGroupContent(const PendingDeletion& deletion) {
  return objects::IsGroupKind(deletion.key.type);
}

Step NextStep(const PendingDeletion& deletion, const Object* object) {
  if (object == nullptr) {
    return Step::kNone;
  }
  const bool has_handle = !objects::HandleOf(deletion.key.type, *object).empty();
  const bool sidecar_is_done = !object->HasFinalizer(
      IsGroupContent(deletion) ? objects::kGroupContentBoundProtectionFinalizer
                               : objects::kContentBoundProtectionFinalizer);
  if (!object->is_being_deleted()) {
    return has_handle ? Step::kDelete : Step::kWriteHandle;
  }
  if (has_handle) {
    return objects::IsInGroup(deletion.key.type, *object) && sidecar_is_done ? Step::kReleaseUndone
                                                                             : Step::kWait;
  }
  if (!objects::IsStatusCleared(*object)) {
    return Step::kWriteHandle;
  }
  return sidecar_is_done ? Step::kRelease : Step::kWait;
}

absl::Status RemoveOurFinalizer(const CallContext& ctx, const Environment& env,
                                const PendingDeletion& deletion, Object object) {
  object.RemoveFinalizer(objects::kDeletionFinalizer);
  return objects::Apply(
      ctx, env.api, deletion.key,
      objects::Patch().SetFinalizers(object.finalizers()).IfVersion(object.resource_version()));
}

absl::Status Do(Step step, const CallContext& ctx, const Environment& env,
                const PendingDeletion& deletion, const Object& object) {
  switch (step) {
    case Step::kDelete:
      return env.api.Delete(ctx, deletion.key, {.uid = object.uid()});
    case Step::kWriteHandle:
      return objects::Apply(ctx, env.api, deletion.key,
                            objects::Patch().SetHandle(deletion.key.type, deletion.handle),
                            "status");
    case Step::kRelease:
    case Step::kReleaseUndone:
      return RemoveOurFinalizer(ctx, env, deletion, object);
    case Step::kNone:
    case Step::kWait:
      break;
  }
  return absl::OkStatus();
}

void LogPending(const PendingDeletion& deletion, const Object& object) {
  const bool is_group = IsGroupContent(deletion);
  CSIDELTA_LOG(
      kWarn, "the driver has not deleted what a deleted backup had yet and will be asked again",
      {"driver", objects::DriverOf(object)},
      {is_group ? "group_snapshot_handle" : "snapshot_handle", deletion.handle},
      {is_group ? "volume_group_snapshot_content" : "volume_snapshot_content", deletion.key.name},
      {"last_error", objects::ErrorInStatus(object)});
}

}  // namespace

bool IsPendingDeletion(const Object& content) {
  return content.HasFinalizer(objects::kDeletionFinalizer);
}

PendingDeletion PendingDeletionOf(const k8s::ResourceType& type, const Object& content) {
  return {.key = {.type = type, .namespace_name = "", .name = content.name()},
          .handle = objects::HandleOrSource(type, content)};
}

std::string DescribePendingDeletion(const k8s::ResourceType& type, const Object& content) {
  const PendingDeletion deletion = PendingDeletionOf(type, content);
  const std::string error = objects::ErrorInStatus(content);
  return absl::StrCat(
      "driver ", objects::DriverOf(content), " has not been seen to delete ",
      IsGroupContent(deletion) ? "group " : "snapshot ", deletion.handle, " of a deleted backup",
      error.empty() ? "" : absl::StrCat(" (", error, ")"),
      ": the next backup with the plugin goes on with it; without the plugin, delete it in the "
      "storage system and take the finalizer ",
      objects::kDeletionFinalizer, " off");
}

absl::Status WriteHandle(const CallContext& ctx, const Environment& env, const k8s::ObjectKey& key,
                         const std::string& handle, absl::Duration grace_period) {
  bool needless = false;
  const auto has_reported = [&](const objects::Object* content) -> absl::StatusOr<bool> {
    needless = content == nullptr || content->is_being_deleted() ||
               !objects::HandleOf(key.type, *content).empty();
    return needless || !objects::ErrorInStatus(*content).empty();
  };
  const auto wait = [&](absl::Duration time) {
    return objects::WaitFor<objects::Object>(ctx.WithTimeout(time), env.api, key, has_reported);
  };
  const absl::Status first = wait(std::min(grace_period, kFirstReportWait));
  RETURN_IF_ERROR(ctx.Check());
  if (!absl::IsDeadlineExceeded(first)) {
    RETURN_IF_ERROR(first);
  }
  if (needless) {
    return absl::OkStatus();
  }
  const absl::Status written =
      objects::Apply(ctx, env.api, key, objects::Patch().SetHandle(key.type, handle), "status");
  if (!absl::IsPermissionDenied(written)) {
    return k8s::IgnoreNotFound(written);
  }
  return Annotate(wait(kStatusWait), absl::StrCat("wait for the sidecar to take up ", handle));
}

absl::StatusOr<DeletionResult> ProveDeletion(const CallContext& ctx, const Environment& env,
                                             const PendingDeletion& deletion, absl::Duration wait) {
  const absl::Time end = ctx.clock->Now() + wait;
  bool was_undone = false;
  for (int steps = 0; steps < kStepsMax; ++steps) {
    ASSIGN_OR_RETURN(auto object, objects::Find<Object>(ctx, env.api, deletion.key));
    Step step = NextStep(deletion, object.has_value() ? &*object : nullptr);
    if (step == Step::kWait && ctx.clock->Now() < end) {
      const Object known = *object;
      const absl::Status seen = objects::WaitFor<Object>(
          ctx.WithTimeout(end - ctx.clock->Now()), env.api, deletion.key,
          [&](const Object* now) -> absl::StatusOr<bool> {
            object = now == nullptr ? std::nullopt : std::optional(*now);
            step = NextStep(deletion, now);
            return step != Step::kWait;
          },
          &known);
      RETURN_IF_ERROR(ctx.Check());
      if (!absl::IsDeadlineExceeded(seen)) {
        RETURN_IF_ERROR(seen);
      }
    }
    if (step == Step::kNone) {
      return was_undone ? DeletionResult::kDeclined : DeletionResult::kGone;
    }
    if (step == Step::kWait) {
      LogPending(deletion, *object);
      return DeletionResult::kInProgress;
    }
    CSIDELTA_CHECK(object.has_value());  // NextStep() has a step for what exists alone.
    was_undone = step == Step::kReleaseUndone;
    // Another process may be at it as well: what it did shows when the object is read again.
    RETURN_IF_ERROR(k8s::IgnoreGone(Do(step, ctx, env, deletion, *object)));
  }
  return DeletionResult::kInProgress;
}

}  // namespace csidelta::csi
