#include "longhorn/native_snapshot.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/crypto.h"
#include "base/status_macros.h"
#include "k8s/object.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "velero/labels.h"

namespace csidelta::longhorn {
namespace {

constexpr char kMadeBy[] = "csi-delta";
constexpr std::size_t kNameHashBytes = 40;
// What the chain of an engine may hold, with the head and with what is marked as removed.
constexpr int64_t kChainEntriesMax = 250;
// Of a full volume, as HowToMakeRoom() advises.
constexpr int64_t kKeptOfFullMax = 100;
constexpr absl::Duration kAskAgainAfter = absl::Seconds(1);
constexpr char kDenied[] = "denied the request";  // by a webhook, and not by the roles

// Makes `step` while its answer may be another one later, until `ctx` ends.
absl::Status AskUntilAnswered(const CallContext& ctx, absl::FunctionRef<absl::Status()> step) {
  const absl::Duration asked_at = ctx.clock->Uptime();
  while (true) {
    const absl::Status status = step();
    if (!IsRetryable(status)) {
      return status;
    }
    if (kAskAgainAfter >= ctx.TimeLeft() || !ctx.clock->SleepFor(kAskAgainAfter, ctx.stop)) {
      const bool is_away = absl::StrContains(status.message(), "failed calling webhook");
      return Annotate(
          status,
          absl::StrCat(is_away ? "Longhorn does not answer: does longhorn-manager run? " : "",
                       "tried for ", absl::ToInt64Seconds(ctx.clock->Uptime() - asked_at), " s"));
    }
  }
}

// A clone that stands on the snapshot may be done soon.
absl::Status ForClones(const absl::Status& refused) {
  return absl::IsPermissionDenied(refused) && absl::StrContains(refused.message(), kDenied)
             ? absl::UnavailableError(refused.message())
             : refused;
}

std::string KubectlDelete(const k8s::ObjectKey& key) {
  return absl::StrCat("kubectl -n ", key.namespace_name, " delete ", k8s::ToString(key.type), " ",
                      key.name);
}

}  // namespace

std::string NativeSnapshotName(absl::string_view backup_uid, absl::string_view volume_uid) {
  return absl::StrCat(
      kNativeNamePrefix,
      Sha256Hex(absl::StrCat(backup_uid, "/", volume_uid)).substr(0, kNameHashBytes));
}

bool IsNativeSnapshotName(absl::string_view name) {
  return absl::ConsumePrefix(&name, kNativeNamePrefix) && name.size() == kNameHashBytes &&
         name.find_first_not_of("0123456789abcdef") == absl::string_view::npos;
}

bool IsNativeMadeAgain(const Snapshot& snapshot) {
  return IsNativeSnapshotName(snapshot.name()) &&
         snapshot.Label(objects::kLonghornMadeByLabel).empty() &&
         !snapshot.EngineLabel(objects::kLonghornEngineBackupUidLabel).empty();
}

Json MakeNativeSnapshot(const NativeRequest& request, absl::string_view name) {
  const std::string backup = velero::ValidLabelValue(request.backup_name);
  const Json labels = {{objects::kLonghornMadeByLabel, kMadeBy},
                       {objects::kCsiDeltaLabel, request.velero_namespace},
                       {objects::kBackupNameLabel, backup},
                       {objects::kBackupUidLabel, request.backup_uid},
                       {objects::kPvcUidLabel, request.pvc_uid}};
  // The engine keeps these when the object is lost and made again.
  const Json engine_labels = {{objects::kLonghornEngineBackupLabel, backup},
                              {objects::kLonghornEngineBackupUidLabel, request.backup_uid},
                              {objects::kLonghornEnginePvcLabel,
                               absl::StrCat(request.pvc_namespace, "/", request.pvc_name)}};
  return {
      {"apiVersion", absl::StrCat(kGroup, "/", kVersion)},
      {"kind", Snapshot::Type().kind},
      {"metadata",
       {{"name", std::string(name)}, {"namespace", request.namespace_name}, {"labels", labels}}},
      {"spec", {{"volume", request.volume}, {"createSnapshot", true}, {"labels", engine_labels}}}};
}

bool IsNativeOf(const Snapshot& snapshot, const NativeRequest& request) {
  return snapshot.Label(objects::kLonghornMadeByLabel) == kMadeBy &&
         snapshot.Label(objects::kBackupUidLabel) == request.backup_uid &&
         snapshot.volume() == request.volume;
}

absl::Status RequireUsable(const Volume& volume) {
  const std::string clone = volume.clone_state();
  const char* why = nullptr;
  if (volume.is_being_deleted()) {
    why = "is being deleted";
  } else if (volume.robustness() == "faulted") {
    why = "is faulted: none of its replicas is usable";
  } else if (volume.is_standby()) {
    why = "is a standby volume, which follows a volume of another cluster";
  } else if (volume.is_being_restored()) {
    why = "is being restored from a backup of Longhorn";
  } else if (!clone.empty() && clone != "completed") {
    why = "is a clone that is not complete";
  }
  return why == nullptr ? absl::OkStatus()
                        : absl::FailedPreconditionError(
                              absl::StrCat("Longhorn's Volume ", volume.name(), " ", why));
}

// As longhorn-engine words it (pkg/controller/control.go, pkg/replica/replica.go).
bool IsForWantOfRoom(absl::string_view error) {
  return absl::StrContains(error, "snapshot count ") ||
         absl::StrContains(error, "snapshot free space ") ||
         absl::StrContains(error, "too many active disks");
}

std::string HowToMakeRoom(const Volume& volume) {
  const int64_t count_max = volume.snapshot_count_max().value_or(kSnapshotMaxCountDefault);
  return absl::StrCat("free places with: csi-delta longhorn prune --volume ", volume.name(),
                      " --keep-last ", std::clamp<int64_t>(count_max / 2, 1, kKeptOfFullMax));
}

absl::Status RequireRoom(const CallContext& ctx, k8s::ApiClient& api, const Volume& volume,
                         absl::string_view name) {
  const std::string selector = absl::StrCat(objects::kLonghornVolumeLabel, "=", volume.name());
  // Thousands of snapshots of other volumes would be read from the store otherwise.
  ASSIGN_OR_RETURN(const k8s::ObjectList list,
                   api.List(ctx, Snapshot::Type(), volume.namespace_name(),
                            {.label_selector = selector, .may_be_old = true}));
  int64_t used = 0;
  for (const Json& object : list.items) {
    if (k8s::Name(object) == name) {
      return absl::OkStatus();
    }
    used += GetBool(object, {"status", "markRemoved"}) ? 0 : 1;
  }
  const int64_t count_max = volume.snapshot_count_max().value_or(kSnapshotMaxCountDefault);
  const int64_t entries = std::ssize(list.items) + 1;  // With the head, which has no object.
  if (used < count_max && entries < kChainEntriesMax) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "Longhorn's Volume ", volume.name(), " has ", list.items.size(), " snapshots (",
      list.items.size() - static_cast<std::size_t>(used),
      " marked as removed), its snapshotMaxCount is ", count_max, " and ", kChainEntriesMax - 1,
      " the most of any volume: none was taken; ", HowToMakeRoom(volume)));
}

absl::StatusOr<Snapshot> CreateNative(const CallContext& ctx, k8s::ApiClient& api,
                                      const NativeRequest& request, absl::string_view name) {
  const k8s::ObjectKey key = Snapshot::Key(request.namespace_name, name);
  absl::StatusOr<Json> made;
  RETURN_IF_ERROR(AskUntilAnswered(ctx, [&] {
    made = api.Create(ctx, key.type, key.namespace_name, MakeNativeSnapshot(request, name));
    if (absl::IsAlreadyExists(made.status())) {
      made = api.Get(ctx, key);
    }
    return made.status();
  }));
  ASSIGN_OR_RETURN(Snapshot snapshot, Snapshot::Of(*std::move(made)));
  if (!IsNativeOf(snapshot, request)) {
    return absl::AlreadyExistsError(
        absl::StrCat(k8s::ToString(key), " is not of this backup and volume"));
  }
  return snapshot;
}

NativeState StateOf(const Snapshot* snapshot, absl::string_view uid) {
  if (snapshot == nullptr || snapshot->uid() != uid || snapshot->is_being_deleted() ||
      snapshot->is_marked_removed()) {
    return NativeState::kGone;
  }
  if (snapshot->is_ready()) {
    return NativeState::kReady;
  }
  return TakenAt(*snapshot).has_value() ? NativeState::kTaken : NativeState::kPending;
}

std::optional<absl::Time> TakenAt(const Snapshot& snapshot) {
  const std::optional<absl::Time> taken_at = snapshot.taken_at();
  return taken_at.has_value() ? taken_at : snapshot.requested_at();
}

absl::Status RemoveNative(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& key,
                          absl::string_view uid) {
  if (uid.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(k8s::ToString(key), ": its uid is not known"));
  }
  const absl::Status removed = AskUntilAnswered(ctx, [&] {
    return ForClones(k8s::IgnoreGone(api.Delete(ctx, key, {.uid = std::string(uid)})));
  });
  return removed.ok() ? removed
                      : absl::Status(removed.code(), absl::StrCat(removed.message(),
                                                                  "; later: ", KubectlDelete(key)));
}

absl::Status RemoveNativeOf(const CallContext& ctx, k8s::ApiClient& api,
                            const NativeRequest& request, absl::string_view name) {
  const k8s::ObjectKey key = Snapshot::Key(request.namespace_name, name);
  absl::StatusOr<std::optional<Snapshot>> found;
  RETURN_IF_ERROR(AskUntilAnswered(ctx, [&] {
    found = objects::Find<Snapshot>(ctx, api, key);
    return found.status();
  }));
  return found->has_value() && IsNativeOf(**found, request)
             ? RemoveNative(ctx, api, key, (*found)->uid())
             : absl::OkStatus();
}

}  // namespace csidelta::longhorn
