#include "csi/deletion_proof.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "csi/group_types.h"
#include "csi/snapshot_types.h"
#include "csi/static_content.h"
#include "k8s/find.h"
#include "k8s/object.h"
#include "k8s/wait.h"
#include "objects/keys.h"

namespace csidelta::csi {
namespace {

// Far more than it takes: one look of the sidecar is under way at a time, so a handle is lost once.
// What comes to no end by then is gone on with by a later sweep.
constexpr int kStepsMax = 20;

enum class Step { kNone, kDelete, kWriteHandle, kWait, kRelease, kReleaseUndone };

bool IsGroupContent(const PendingDeletion& deletion) {
  return deletion.key.type.group == kGroupSnapshotGroup;
}

std::string HandleField(const PendingDeletion& deletion) {
  return IsGroupContent(deletion) ? "volumeGroupSnapshotHandle" : "snapshotHandle";
}

bool HasFinalizer(const Json& object, absl::string_view finalizer) {
  const Json* const all = FindJson(object, {"metadata", "finalizers"});
  return all != nullptr && all->is_array() &&
         std::find(all->begin(), all->end(), std::string(finalizer)) != all->end();
}

// What is left of a status once the driver has deleted what it named.
bool IsCleared(const Json& object) {
  const Json* const status = FindJson(object, {"status"});
  return status != nullptr && status->is_object() &&
         FindJson(object, {"status", "readyToUse"}) == nullptr;
}

Step NextStep(const PendingDeletion& deletion, const Json* object) {
  if (object == nullptr) {
    return Step::kNone;
  }
  const bool has_handle = !GetString(*object, {"status", HandleField(deletion)}).empty();
  const bool sidecar_is_done = !HasFinalizer(
      *object, IsGroupContent(deletion) ? objects::kGroupContentBoundProtectionFinalizer
                                        : objects::kContentBoundProtectionFinalizer);
  if (!k8s::BeingDeleted(*object)) {
    return has_handle ? Step::kDelete : Step::kWriteHandle;
  }
  if (has_handle) {
    const bool is_member = !IsGroupContent(deletion) &&
                           !GetString(*object, {"status", "volumeGroupSnapshotHandle"}).empty();
    return is_member && sidecar_is_done ? Step::kReleaseUndone : Step::kWait;
  }
  if (!IsCleared(*object)) {
    return Step::kWriteHandle;
  }
  return sidecar_is_done ? Step::kRelease : Step::kWait;
}

absl::Status WriteStatusHandle(const CallContext& ctx, const Environment& env,
                               const PendingDeletion& deletion) {
  const Json patch = {{"status", {{HandleField(deletion), deletion.handle}}}};
  return env.api.Patch(ctx, deletion.key, k8s::PatchKind::kMerge, patch, "status").status();
}

absl::Status RemoveOurFinalizer(const CallContext& ctx, const Environment& env,
                                const PendingDeletion& deletion, const Json& object) {
  Json others = Json::array();
  if (const Json* const all = FindJson(object, {"metadata", "finalizers"});
      all != nullptr && all->is_array()) {
    std::copy_if(all->begin(), all->end(), std::back_inserter(others),
                 [](const Json& one) { return one != objects::kDeletionFinalizer; });
  }
  const Json patch = {
      {"metadata",
       {{"finalizers", std::move(others)}, {"resourceVersion", k8s::ResourceVersion(object)}}}};
  return env.api.Patch(ctx, deletion.key, k8s::PatchKind::kMerge, patch, "").status();
}

absl::Status Do(Step step, const CallContext& ctx, const Environment& env,
                const PendingDeletion& deletion, const Json& object) {
  switch (step) {
    case Step::kDelete:
      return env.api.Delete(ctx, deletion.key, {.uid = k8s::Uid(object), .resource_version = ""});
    case Step::kWriteHandle:
      return WriteStatusHandle(ctx, env, deletion);
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

bool IsPendingDeletion(const Json& content) {
  return HasFinalizer(content, objects::kDeletionFinalizer);
}

PendingDeletion PendingDeletionOf(const k8s::ResourceType& type, const Json& content) {
  return {.key = {.type = type, .namespace_name = "", .name = k8s::Name(content)},
          .handle = type.group == kGroupSnapshotGroup ? GroupHandleOf(content) : HandleOf(content)};
}

std::string DescribePendingDeletion(const k8s::ResourceType& type, const Json& content) {
  const PendingDeletion deletion = PendingDeletionOf(type, content);
  const std::string error = ErrorMessage(content);
  return absl::StrCat(
      "driver ", GetString(content, {"spec", "driver"}), " has not been seen to delete ",
      IsGroupContent(deletion) ? "group " : "snapshot ", deletion.handle, " of a deleted backup",
      error.empty() ? "" : absl::StrCat(" (", error, ")"),
      ": the next backup with the plugin goes on with it; without the plugin, delete it in the "
      "storage system and take the finalizer ",
      objects::kDeletionFinalizer, " off");
}

absl::StatusOr<bool> EnsurePendingDeletion(const CallContext& ctx, const Environment& env,
                                           const k8s::ObjectKey& key, const Json& content,
                                           absl::Duration wait) {
  for (int tries = 0; tries < kStepsMax; ++tries) {
    const absl::Status created = env.api.Create(ctx, key.type, "", content).status();
    if (!absl::IsAlreadyExists(created)) {
      RETURN_IF_ERROR(created);
      return true;
    }
    ASSIGN_OR_RETURN(const std::optional<Json> there, k8s::Find(ctx, env.api, key));
    if (!there.has_value()) {
      continue;
    }
    if (HasFinalizer(*there, objects::kDeletionFinalizer)) {
      return true;
    }
    if (k8s::BeingDeleted(*there)) {  // No finalizer can be added to it.
      const absl::Status gone = k8s::WaitFor(
          ctx.WithTimeout(wait), env.api, key,
          [](const Json* object) -> absl::StatusOr<bool> { return object == nullptr; });
      RETURN_IF_ERROR(ctx.Check());
      if (absl::IsDeadlineExceeded(gone)) {
        return false;
      }
      RETURN_IF_ERROR(gone);
      continue;
    }
    Json finalizers = there->at("metadata").value("finalizers", Json::array());
    finalizers.push_back(objects::kDeletionFinalizer);
    const Json patch = {{"metadata",
                         {{"finalizers", std::move(finalizers)},
                          {"resourceVersion", k8s::ResourceVersion(*there)}}}};
    RETURN_IF_ERROR(
        k8s::IgnoreGone(env.api.Patch(ctx, key, k8s::PatchKind::kMerge, patch, "").status()));
  }
  return absl::AbortedError(absl::StrCat(ToString(key), " changes all the time"));
}

absl::StatusOr<DeletionState> ProveDeletion(const CallContext& ctx, const Environment& env,
                                            const PendingDeletion& deletion, absl::Duration wait) {
  const absl::Time end = ctx.clock->Now() + wait;
  bool was_undone = false;
  for (int steps = 0; steps < kStepsMax; ++steps) {
    ASSIGN_OR_RETURN(std::optional<Json> object, k8s::Find(ctx, env.api, deletion.key));
    Step step = NextStep(deletion, object.has_value() ? &*object : nullptr);
    if (step == Step::kWait && ctx.clock->Now() < end) {
      const Json known = *object;
      const absl::Status seen = k8s::WaitFor(
          ctx.WithTimeout(end - ctx.clock->Now()), env.api, deletion.key,
          [&](const Json* now) -> absl::StatusOr<bool> {
            object = now == nullptr ? std::nullopt : std::optional<Json>(*now);
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
