#include "csi/snapshot_lifecycle.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/group_types.h"
#include "csi/moved_group.h"
#include "csi/retry.h"
#include "csi/snapshot_types.h"
#include "csi/turn_wait.h"
#include "csi/volume_turn.h"
#include "k8s/find.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "velero/labels.h"

namespace csidelta::csi {
namespace {

constexpr size_t kNameClaimBytesMax = 35;

std::string ToString(const SnapshotRequest& request) {
  return absl::StrCat("claim ", request.claim_namespace, "/", request.claim_name);
}

std::string NameFor(const std::string& claim_name, const std::string& backup_uid,
                    const std::string& claim_uid) {
  std::string claim = absl::StrReplaceAll(claim_name, {{".", "-"}});
  claim.resize(std::min(claim.size(), kNameClaimBytesMax));
  const std::string hash = Sha256Hex(absl::StrCat(backup_uid, "/", claim_uid));
  return absl::StrCat("velero-", claim, "-", hash.substr(0, kNameHashBytes));
}

Json MakeSnapshot(const Environment& env, const SnapshotRequest& request, absl::Time asked_at) {
  // None of the claim's own labels: a controller that prunes by label would take the VolumeSnapshot
  // for a stray object of its own.
  const Json labels = {{objects::kBackupNameLabel, velero::ValidLabelValue(request.backup.name)},
                       {objects::kBackupUidLabel, request.backup.uid},
                       {objects::kPvcUidLabel, request.claim_uid},
                       {objects::kCsiDeltaLabel, env.velero_namespace}};
  const Json annotations = {{objects::kAskedAtAnnotation, FormatRfc3339(asked_at)}};
  const Json metadata = {{"name", SnapshotName(request)},
                         {"namespace", request.claim_namespace},
                         {"labels", labels},
                         {"annotations", annotations}};
  const Json source = {{"persistentVolumeClaimName", request.claim_name}};
  const Json spec = {{"source", source}, {"volumeSnapshotClassName", request.class_name}};
  return {{"apiVersion", "snapshot.storage.k8s.io/v1"},
          {"kind", "VolumeSnapshot"},
          {"metadata", metadata},
          {"spec", spec}};
}

DriversWord WordAbout(const SnapshotRequest& request) {
  return DriversWord(ToString(request), "snapshot handle", request.backup.csi_snapshot_timeout);
}

absl::StatusOr<TakenSnapshot> AwaitHandle(const CallContext& ctx, const Environment& env,
                                          const SnapshotRequest& request, VolumeTurn& turn,
                                          const Json& made) {
  TurnWaiter waiter(ctx, env, turn);
  DriversWord word = WordAbout(request);
  TakenSnapshot taken;
  const k8s::ObjectKey key = VolumeSnapshotKey(request.claim_namespace, SnapshotName(request));
  const auto is_bound = [&](const Json* object) -> absl::StatusOr<bool> {
    if (object == nullptr || k8s::Uid(*object) != k8s::Uid(made) || k8s::BeingDeleted(*object)) {
      return absl::NotFoundError(
          absl::StrCat("VolumeSnapshot ", key.name, " was deleted by somebody"));
    }
    taken.snapshot = *object;
    RETURN_IF_ERROR(word.Hear(*object, ctx.clock->Now()));
    return !BoundContentName(*object).empty();
  };
  absl::Status status = waiter.WaitFor(key, is_bound, &made);
  if (!status.ok()) {
    return word.AddTo(status);
  }
  const std::string content_name = BoundContentName(taken.snapshot);
  status = waiter.WaitForExisting(
      VolumeSnapshotContentKey(content_name), [&](const Json* object) -> absl::StatusOr<bool> {
        if (object == nullptr) {
          return absl::NotFoundError(
              absl::StrCat("VolumeSnapshotContent ", content_name, " was deleted by somebody"));
        }
        taken.content = *object;
        RETURN_IF_ERROR(word.Hear(*object, ctx.clock->Now()));
        return !SnapshotHandle(*object).empty();
      });
  if (!status.ok()) {
    return word.AddTo(status);
  }
  return taken;
}

// --- Making

// Creates the VolumeSnapshot, or takes up the one that an interrupted call left. An error leaves
// open whether it exists.
absl::StatusOr<Json> EnsureSnapshot(const CallContext& ctx, const Environment& env,
                                    const SnapshotRequest& request) {
  absl::StatusOr<Json> snapshot = env.api.Create(ctx, VolumeSnapshotType(), request.claim_namespace,
                                                 MakeSnapshot(env, request, ctx.clock->Now()));
  if (!absl::IsAlreadyExists(snapshot.status())) {
    return snapshot;
  }
  const k8s::ObjectKey key = VolumeSnapshotKey(request.claim_namespace, SnapshotName(request));
  snapshot = env.api.Get(ctx, key);
  RETURN_IF_ERROR(snapshot.status());
  if (!IsOurs(*snapshot, request.backup) || SourceClaimName(*snapshot) != request.claim_name ||
      k8s::Label(*snapshot, objects::kPvcUidLabel) != request.claim_uid) {
    return absl::AlreadyExistsError(absl::StrCat("VolumeSnapshot ", key.namespace_name, "/",
                                                 key.name, " is not of this backup"));
  }
  return snapshot;
}

// --- Removing

bool RefersTo(const Json& content, const Json& snapshot) {
  const std::string uid = GetString(content, {"spec", "volumeSnapshotRef", "uid"});
  return GetString(content, {"spec", "volumeSnapshotRef", "namespace"}) ==
             k8s::Namespace(snapshot) &&
         GetString(content, {"spec", "volumeSnapshotRef", "name"}) == k8s::Name(snapshot) &&
         (uid.empty() || uid == k8s::Uid(snapshot));
}

// The snapshot controller calls the content so that it makes for a VolumeSnapshot of a claim.
std::string MadeContentName(const Json& snapshot) {
  return absl::StrCat("snapcontent-", k8s::Uid(snapshot));
}

// Has the content's snapshot deleted along with it. Whether there was such a content; one that
// refers to another VolumeSnapshot is none. A content that the controller made needs no look.
absl::StatusOr<bool> MarkForDeletion(const CallContext& ctx, k8s::ApiClient& api,
                                     const k8s::ObjectKey& content, const Json& snapshot) {
  if (content.name != MadeContentName(snapshot)) {
    const absl::StatusOr<Json> found = api.Get(ctx, content);
    if (absl::IsNotFound(found.status()) || (found.ok() && !RefersTo(*found, snapshot))) {
      return false;
    }
    RETURN_IF_ERROR(found.status());
    if (!MovedGroupOf(*found).empty()) {
      RETURN_IF_ERROR(ReleaseMember(ctx, api, *found));
      return true;
    }
  }
  const absl::Status status = api.Patch(ctx, content, k8s::PatchKind::kMerge,
                                        {{"spec", {{"deletionPolicy", "Delete"}}}}, "")
                                  .status();
  if (absl::IsNotFound(status)) {
    return false;
  }
  RETURN_IF_ERROR(status);
  return true;
}

// "" while it has none.
std::string KnownContentName(const Json& snapshot) {
  const std::string bound = BoundContentName(snapshot);
  return bound.empty() ? GetString(snapshot, {"spec", "source", "volumeSnapshotContentName"})
                       : bound;
}

absl::Status TryRemove(const CallContext& ctx, k8s::ApiClient& api, const Json& snapshot) {
  const bool knows_content = !KnownContentName(snapshot).empty();
  const k8s::ObjectKey content = VolumeSnapshotContentKey(ContentNameOf(snapshot));
  ASSIGN_OR_RETURN(const bool marked, MarkForDeletion(ctx, api, content, snapshot));
  RETURN_IF_ERROR(k8s::IgnoreGone(
      api.Delete(ctx, VolumeSnapshotKey(k8s::Namespace(snapshot), k8s::Name(snapshot)),
                 {.uid = k8s::Uid(snapshot), .resource_version = ""})));
  if (marked || knows_content) {
    return absl::OkStatus();
  }
  // A content that came between our look and the deletion has nobody to delete it with any more.
  ASSIGN_OR_RETURN(const bool came_late, MarkForDeletion(ctx, api, content, snapshot));
  return came_late ? k8s::IgnoreGone(api.Delete(ctx, content, {})) : absl::OkStatus();
}

absl::Status TryCleanUp(const CallContext& ctx, const Environment& env,
                        const SnapshotRequest& request) {
  const absl::StatusOr<Json> snapshot =
      env.api.Get(ctx, VolumeSnapshotKey(request.claim_namespace, SnapshotName(request)));
  if (absl::IsNotFound(snapshot.status()) ||
      (snapshot.ok() && (!IsOurs(*snapshot, request.backup) || EnteredArchive(*snapshot)))) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(snapshot.status());
  return TryRemove(ctx, env.api, *snapshot);
}

// Removes what TakeSnapshot made in vain, in its own time. The name alone tells it, because the
// answer to the request that created it may have been lost.
void CleanUp(const Environment& env, const SnapshotRequest& request, const Clock& clock) {
  const CallContext ctx = CleanUpContext(clock);
  const absl::Time give_up_at = clock.Now() + kRefusalPatience;
  absl::Status removed = TryCleanUp(ctx, env, request);
  while (!removed.ok() && MayBeStarting(removed) && clock.Now() < give_up_at) {
    clock.SleepUntil(clock.Now() + kRefusalPause, ctx.stop);
    removed = TryCleanUp(ctx, env, request);
  }
  if (!removed.ok()) {
    CSIDELTA_LOG(kWarn, "a volume snapshot is left behind", {"namespace", request.claim_namespace},
                 {"volume_snapshot", SnapshotName(request)}, {"status", removed.ToString()});
  }
}

// --- Making, in turn

absl::StatusOr<TakenSnapshot> MakeInTurn(const CallContext& ctx, const Environment& env,
                                         const SnapshotRequest& request, VolumeTurn& turn) {
  Json snapshot;
  absl::StatusOr<TakenSnapshot> taken;
  const absl::Status made = RetryTransient(ctx, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(snapshot, EnsureSnapshot(ctx, env, request));
    return absl::OkStatus();
  });
  if (made.ok()) {
    taken = AwaitHandle(ctx.WithTimeout(request.backup.csi_snapshot_timeout), env, request, turn,
                        snapshot);
  } else {
    taken = Annotate(made, absl::StrCat("create a VolumeSnapshot of ", ToString(request)));
  }
  if (!taken.ok()) {
    CleanUp(env, request, *ctx.clock);
  }
  return taken;
}

absl::Status TryRetainAndForget(const CallContext& ctx, k8s::ApiClient& api, const Json& snapshot) {
  const k8s::ObjectKey content = VolumeSnapshotContentKey(BoundContentName(snapshot));
  const k8s::ObjectKey key = VolumeSnapshotKey(k8s::Namespace(snapshot), k8s::Name(snapshot));
  if (content.name.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("VolumeSnapshot ", key.namespace_name, "/", key.name, " is not bound"));
  }
  const absl::StatusOr<Json> retained = api.Patch(ctx, content, k8s::PatchKind::kMerge,
                                                  {{"spec", {{"deletionPolicy", "Retain"}}}}, "");
  if (!absl::IsNotFound(retained.status())) {
    RETURN_IF_ERROR(retained.status());
    if (GetString(*retained, {"spec", "deletionPolicy"}) != "Retain" ||
        GetString(*retained, {"spec", "volumeSnapshotRef", "uid"}) != k8s::Uid(snapshot)) {
      return absl::FailedPreconditionError(
          absl::StrCat("VolumeSnapshotContent ", content.name, " cannot be retained"));
    }
    RETURN_IF_ERROR(k8s::IgnoreGone(
        api.Delete(ctx, content, {.uid = k8s::Uid(*retained), .resource_version = ""})));
  }
  return k8s::IgnoreGone(api.Delete(ctx, key, {.uid = k8s::Uid(snapshot), .resource_version = ""}));
}

}  // namespace

std::string ContentNameOf(const Json& snapshot) {
  // The content may be there before the VolumeSnapshot knows it.
  const std::string known = KnownContentName(snapshot);
  return known.empty() ? MadeContentName(snapshot) : known;
}

bool EnteredArchive(const Json& snapshot) {
  return !k8s::Annotation(snapshot, objects::kVolumeSnapshotHandleAnnotation).empty();
}

CallContext CleanUpContext(const Clock& clock) {
  CallContext ctx;
  ctx.clock = &clock;
  return ctx.WithTimeout(kCleanUpTimeout);
}

std::string MemberGroupName(const Json& snapshot) {
  std::string name = k8s::Annotation(snapshot, objects::kGroupNameLabel);
  return GroupOwnerName(snapshot) == name ? name : "";
}

std::string SnapshotName(const SnapshotRequest& request) {
  return NameFor(request.claim_name, request.backup.uid, request.claim_uid);
}

bool IsMadeByUs(const Json& snapshot) {
  if (!MemberGroupName(snapshot).empty()) {
    return !k8s::Label(snapshot, objects::kCsiDeltaLabel).empty();
  }
  std::string claim_name = SourceClaimName(snapshot);
  if (claim_name.empty()) {
    claim_name = k8s::Annotation(snapshot, objects::kMemberClaimAnnotation);
  }
  return !k8s::Label(snapshot, objects::kCsiDeltaLabel).empty() && !claim_name.empty() &&
         k8s::Name(snapshot) == NameFor(claim_name, k8s::Label(snapshot, objects::kBackupUidLabel),
                                        k8s::Label(snapshot, objects::kPvcUidLabel));
}

bool IsOurs(const Json& snapshot, const velero::Backup& backup) {
  return !backup.uid.empty() && k8s::Label(snapshot, objects::kBackupUidLabel) == backup.uid &&
         IsMadeByUs(snapshot);
}

absl::StatusOr<TakenSnapshot> TakeSnapshot(const CallContext& ctx, const Environment& env,
                                           const SnapshotRequest& request) {
  const TurnRequest turn_request{
      .lease_namespace = env.velero_namespace,
      .claim_namespace = request.claim_namespace,
      .claim_name = request.claim_name,
      .claim_uid = request.claim_uid,
      .backup_name = request.backup.name,
      .backup_uid = request.backup.uid,
      .holder = absl::StrCat(request.backup.uid, "_", absl::Hex(env.random.Below(UINT64_MAX))),
  };
  // Long enough to see a dead holder's turn run out.
  const CallContext waiting =
      ctx.WithTimeout(std::max(request.backup.csi_snapshot_timeout, 2 * kTurnDuration));
  while (true) {
    ASSIGN_OR_RETURN(VolumeTurn turn, VolumeTurn::Take(waiting, env.api, turn_request));
    const OtherSnapshots others{.namespace_name = request.claim_namespace,
                                .concerns =
                                    [&](const Json& snapshot) {
                                      return SourceClaimName(snapshot) == request.claim_name &&
                                             k8s::Name(snapshot) != SnapshotName(request);
                                    },
                                .ours_too = turn.taken_over(),
                                .of = ToString(request)};
    const absl::Status alone = AwaitOthers(waiting, env, others, turn);
    absl::StatusOr<TakenSnapshot> taken =
        alone.ok() ? MakeInTurn(ctx, env, request, turn) : absl::StatusOr<TakenSnapshot>(alone);
    if (const absl::Status released = turn.Release(CleanUpContext(*ctx.clock), env.api);
        !released.ok()) {
      CSIDELTA_LOG(kInfo, "the volume's turn is left to run out", {"status", released.ToString()});
    }
    if (!turn.lost() || !absl::IsAborted(alone)) {
      return taken;
    }
  }
}

absl::Status RemoveSnapshot(const CallContext& ctx, k8s::ApiClient& api,
                            const k8s::ObjectKey& snapshot, absl::string_view uid) {
  return RetryTransient(ctx, [&]() -> absl::Status {
    const absl::StatusOr<Json> found = api.Get(ctx, snapshot);
    if (absl::IsNotFound(found.status()) || (found.ok() && k8s::Uid(*found) != uid)) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(found.status());
    return TryRemove(ctx, api, *found);
  });
}

absl::Status RetainAndForget(const CallContext& ctx, k8s::ApiClient& api, const Json& snapshot) {
  return RetryTransient(ctx, [&] { return TryRetainAndForget(ctx, api, snapshot); });
}

}  // namespace csidelta::csi
