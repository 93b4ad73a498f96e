#include "csi/deletion_proof.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/backup_contents.h"
#include "k8s/api_client.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/volume_group_snapshot.h"

namespace csidelta::csi {
namespace {

using objects::Object;

// Far more than it takes: one look of the sidecar is under way at a time, so a handle is lost once.
// What comes to no end by then is gone on with by a later sweep.
constexpr int kStepsMax = 20;

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

absl::StatusOr<bool> EnsurePendingDeletion(const CallContext& ctx, const Environment& env,
                                           const k8s::ObjectKey& key, const Object& content,
                                           absl::Duration wait) {
  for (int tries = 0; tries < kStepsMax; ++tries) {
    const absl::Status created = objects::Create(ctx, env.api, key.type, content).status();
    if (!absl::IsAlreadyExists(created)) {
      RETURN_IF_ERROR(created);
      return true;
    }
    ASSIGN_OR_RETURN(const auto there, objects::Find<Object>(ctx, env.api, key));
    if (!there.has_value()) {
      continue;
    }
    if (IsPendingDeletion(*there)) {
      return true;
    }
    if (there->is_being_deleted()) {  // No finalizer can be added to it.
      ASSIGN_OR_RETURN(const bool is_gone, AwaitGone(ctx, env, key, wait));
      if (!is_gone) {
        return false;
      }
      continue;
    }
    std::vector<std::string> finalizers = there->finalizers();
    finalizers.emplace_back(objects::kDeletionFinalizer);
    RETURN_IF_ERROR(k8s::IgnoreGone(objects::Apply(
        ctx, env.api, key,
        objects::Patch().SetFinalizers(finalizers).IfVersion(there->resource_version()))));
  }
  return absl::AbortedError(absl::StrCat(ToString(key), " changes all the time"));
}

absl::StatusOr<DeletionState> ProveDeletion(const CallContext& ctx, const Environment& env,
                                            const PendingDeletion& deletion, absl::Duration wait) {
  const absl::Time end = ctx.clock->Now() + wait;
  bool was_undone = false;
  for (int steps = 0; steps < kStepsMax; ++steps) {
    ASSIGN_OR_RETURN(std::optional<Object> object,
                     objects::Find<Object>(ctx, env.api, deletion.key));
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
      return was_undone ? DeletionState::kDeclined : DeletionState::kProven;
    }
    if (step == Step::kWait) {
      return DeletionState::kPending;
    }
    was_undone = step == Step::kReleaseUndone;
    // Another process may be at it as well: what it did shows when the object is read again.
    RETURN_IF_ERROR(k8s::IgnoreGone(Do(step, ctx, env, deletion, *object)));
  }
  return DeletionState::kPending;
}

}  // namespace csidelta::csi
