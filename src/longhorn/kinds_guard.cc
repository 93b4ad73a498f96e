#include "longhorn/kinds_guard.h"

#include <algorithm>
#include <array>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/human_text.h"
#include "base/log.h"

namespace csidelta::longhorn {
namespace {

constexpr absl::string_view kOfAProcess =
    "it describes a process of Longhorn, which makes it again for what runs";
constexpr absl::string_view kOfItsDisks =
    "it describes what lies on the disks of a node, which is not in the backup";
constexpr absl::string_view kOfTheTarget =
    "Longhorn makes it again from what its backup target holds, and takes one that appears for a "
    "request to change what is there";
constexpr absl::string_view kExistingWins = "one that the cluster has stays as it is";

constexpr std::array kKinds = {
    KnownKind{"Snapshot", "snapshots", KindRule::kNeverRestored,
              "Longhorn would take a new snapshot, of today's data, under the old name"},
    KnownKind{"Engine", "engines", KindRule::kNeverRestored,
              "a restored one lists no snapshots, and Longhorn deletes those of the volume that it "
              "does not list"},
    KnownKind{"SystemRestore", "systemrestores", KindRule::kNeverRestored,
              "it is a command: Longhorn would roll the whole system back to a system backup"},
    KnownKind{"Volume", "volumes", KindRule::kLeftOut,
              "Longhorn would make an empty volume of that name, or fill one from an old snapshot "
              "or backup; a restored PVC gets a volume of its own"},
    KnownKind{"VolumeAttachment", "volumeattachments", KindRule::kLeftOut,
              "it says where the volume was attached when the backup was made"},
    KnownKind{"Replica", "replicas", KindRule::kLeftOut, kOfItsDisks},
    KnownKind{"EngineFrontend", "enginefrontends", KindRule::kLeftOut, kOfAProcess},
    KnownKind{"Shard", "shards", KindRule::kLeftOut, kOfItsDisks},
    KnownKind{"ShardGroup", "shardgroups", KindRule::kLeftOut, kOfItsDisks},
    KnownKind{"SnapshotGroup", "snapshotgroups", KindRule::kLeftOut,
              "Longhorn would take new snapshots, of today's data, under the old name"},
    KnownKind{
        "Backup", "backups", KindRule::kLeftOut,
        "Longhorn would take it for a request to upload a snapshot now, and finds the backups "
        "of its backup target by itself"},
    KnownKind{"BackupVolume", "backupvolumes", KindRule::kLeftOut, kOfTheTarget},
    KnownKind{"BackupBackingImage", "backupbackingimages", KindRule::kLeftOut, kOfTheTarget},
    KnownKind{"SystemBackup", "systembackups", KindRule::kLeftOut, kOfTheTarget},
    KnownKind{"InstanceManager", "instancemanagers", KindRule::kLeftOut, kOfAProcess},
    KnownKind{"ShareManager", "sharemanagers", KindRule::kLeftOut, kOfAProcess},
    KnownKind{"BackingImageManager", "backingimagemanagers", KindRule::kLeftOut, kOfAProcess},
    KnownKind{"BackingImageDataSource", "backingimagedatasources", KindRule::kLeftOut,
              "it describes how the file of a backing image is fetched, and Longhorn makes it for "
              "each image"},
    KnownKind{
        "EngineImage", "engineimages", KindRule::kLeftOut,
        "it says on which nodes an image is deployed, and Longhorn makes it for those that it "
        "uses"},
    KnownKind{"Node", "nodes", KindRule::kLeftOut,
              "it describes a node and its disks, and Longhorn makes it for each node that it runs "
              "on"},
    KnownKind{"Orphan", "orphans", KindRule::kLeftOut, kOfItsDisks},
    KnownKind{"SupportBundle", "supportbundles", KindRule::kLeftOut,
              "it is a command: Longhorn would collect a support bundle"},
    KnownKind{"BackingImage", "backingimages", KindRule::kRestoredIfDownloaded,
              "its file lies on disks, and Longhorn can fetch it again only when it downloaded it "
              "(spec.sourceType download)"},
    KnownKind{"Setting", "settings", KindRule::kRestored, kExistingWins},
    KnownKind{"RecurringJob", "recurringjobs", KindRule::kRestored, kExistingWins},
    KnownKind{"BackupTarget", "backuptargets", KindRule::kRestored, kExistingWins},
};

// Whether the kind itself is a reason to leave the object out.
bool IsLeftOut(const KnownKind* known, const Json& object, bool guard_is_on) {
  if (known == nullptr) {
    return guard_is_on;
  }
  switch (known->rule) {
    case KindRule::kNeverRestored:
      return true;
    case KindRule::kLeftOut:
      return guard_is_on;
    case KindRule::kRestoredIfDownloaded:
      return guard_is_on && GetString(object, {"spec", "sourceType"}) != "download";
    case KindRule::kRestored:
      break;
  }
  return false;
}

bool IsPowerOfTen(int64_t count) {
  while (count > 1 && count % 10 == 0) {
    count /= 10;
  }
  return count == 1;
}

}  // namespace

absl::Span<const KnownKind> KnownKinds() { return kKinds; }

const KnownKind* FindKind(absl::string_view kind) {
  const auto* const found = std::find_if(
      kKinds.begin(), kKinds.end(), [&](const KnownKind& known) { return known.kind == kind; });
  return found == kKinds.end() ? nullptr : found;
}

std::optional<LeftOut> WhyLeftOut(const objects::Object& object, absl::string_view target_namespace,
                                  const GuardSettings& settings) {
  const std::string api_version = object.api_version();
  if (!absl::StartsWith(api_version, absl::StrCat(kGroup, "/"))) {
    return std::nullopt;
  }
  const std::string kind = object.kind();
  const KnownKind* const known = FindKind(kind);
  const std::string resource =
      known == nullptr ? Quoted(kind) : absl::StrCat(known->plural, ".", kGroup);
  if (api_version == absl::StrCat(kGroup, "/", kDroppedVersion)) {
    return LeftOut{.resource = resource,
                   .reason = "it is of longhorn.io/v1beta1, which Longhorn dropped in 1.10"};
  }
  if (target_namespace != settings.namespace_name) {
    return LeftOut{.resource = resource,
                   .reason = absl::StrCat("Longhorn lives in namespace ", settings.namespace_name,
                                          ", and one in ", target_namespace,
                                          " could neither work nor be deleted; another namespace "
                                          "of Longhorn is set by longhornNamespace")};
  }
  if (!IsLeftOut(known, object.json(), settings.is_on)) {
    return std::nullopt;
  }
  return LeftOut{.resource = resource,
                 .reason = known == nullptr
                               ? "this version does not know what Longhorn does with a "
                                 "restored one; csi-delta doctor lists such kinds"
                               : std::string(known->reason)};
}

void LeftOutLog::Note(absl::string_view run_uid, absl::string_view resource,
                      absl::string_view object, absl::string_view reason) {
  const int64_t count = Count(run_uid, resource, reason);
  if (count == 1) {
    CSIDELTA_LOG(kInfo, absl::StrCat(resource, " ", object, " is left out: ", reason));
  } else if (IsPowerOfTen(count)) {
    CSIDELTA_LOG(kInfo, absl::StrCat(resource, ": ", count,
                                     " are left out by now, for the same reason: ", reason));
  }
}

int64_t LeftOutLog::Count(absl::string_view run_uid, absl::string_view resource,
                          absl::string_view reason) {
  const std::string key = absl::StrCat(run_uid, "\n", resource, "\n", reason);
  const MutexLock lock(mutex_);
  if (counts_.size() >= kCountsMax && !counts_.contains(key)) {
    counts_.clear();
  }
  return ++counts_[key];
}

}  // namespace csidelta::longhorn
