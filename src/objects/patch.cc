#include "objects/patch.h"

#include <algorithm>
#include <iterator>

#include "base/rfc3339.h"
#include "objects/data_deletion.h"
#include "objects/persistent_volume_claim.h"
#include "objects/protected_volume.h"
#include "objects/volume_group_snapshot.h"
#include "objects/volume_job.h"
#include "objects/volume_task.h"

namespace csidelta::objects {
namespace {

// Of the status of a VolumeTask. The last three: of a worker of the version before.
constexpr const char* kFieldsOfOneRun[] = {
    "stage", "completionTimestamp", "outcome", "exitCode", "message", "result"};

}  // namespace

Patch& Patch::SetLabels(const std::map<std::string, std::string>& labels) {
  for (const auto& [key, value] : labels) {
    SetLabel(key, value);
  }
  return *this;
}

Patch& Patch::SetAnnotations(const std::map<std::string, std::string>& annotations) {
  for (const auto& [key, value] : annotations) {
    SetAnnotation(key, value);
  }
  return *this;
}

Patch& Patch::SetOwners(const std::vector<OwnerReference>& owners) {
  Json list = Json::array();
  std::transform(owners.begin(), owners.end(), std::back_inserter(list),
                 [](const OwnerReference& owner) { return ToJson(owner); });
  return Set({"metadata", "ownerReferences"}, std::move(list));
}

Patch& Patch::ReserveFor(absl::string_view pvc_namespace, absl::string_view pvc_name) {
  return Set({"spec", "claimRef"}, {{"apiVersion", "v1"},
                                    {"kind", "PersistentVolumeClaim"},
                                    {"namespace", std::string(pvc_namespace)},
                                    {"name", std::string(pvc_name)},
                                    {"uid", nullptr},
                                    {"resourceVersion", nullptr}});
}

Patch& Patch::SetPvc(absl::string_view namespace_name, absl::string_view name,
                     absl::string_view uid) {
  return Set({"spec", "claimRef"}, {{"apiVersion", PersistentVolumeClaim::kKind.ApiVersion()},
                                    {"kind", PersistentVolumeClaim::kKind.kind},
                                    {"namespace", std::string(namespace_name)},
                                    {"name", std::string(name)},
                                    {"uid", std::string(uid)},
                                    {"resourceVersion", nullptr}});
}

Patch& Patch::ForgetPvcUid() {
  return Set({"spec", "claimRef"}, {{"uid", nullptr}, {"resourceVersion", nullptr}});
}

Patch& Patch::SetOwnersOf(const Object& object) {
  const Json* const owners = FindJson(object.json(), {"metadata", "ownerReferences"});
  return Set({"metadata", "ownerReferences"}, owners == nullptr ? Json() : *owners);
}

Patch& Patch::SetHandle(const k8s::ResourceType& type, absl::string_view handle) {
  return Set({"status", IsGroupKind(type) ? "volumeGroupSnapshotHandle" : "snapshotHandle"},
             std::string(handle));
}

Patch& Patch::SetReadyGroup(absl::string_view handle) {
  Set({"status", "volumeGroupSnapshotHandle"}, std::string(handle));
  Set({"status", "readyToUse"}, true);
  return Set({"status", "error"}, nullptr);
}

Patch& Patch::SetStatus(const DataDeletionStatus& status) {
  return Set({"status"}, StatusJson(status));
}

Patch& Patch::SetLastGood(const std::optional<LastGoodBackup>& backup) {
  return Set({"status", "lastGoodBackup"}, backup.has_value() ? ToJson(*backup) : Json());
}

Patch& Patch::SetDeletedBackup(const std::optional<DeletedBackup>& backup) {
  return Set({"status", "deletedBackup"}, backup.has_value() ? ToJson(*backup) : Json());
}

Patch& Patch::SetLastAttempt(const LastAttempt& attempt, int64_t failures) {
  Set({"status", "failures"}, failures);
  return Set({"status", "lastAttempt"}, ToJson(attempt));
}

Patch& Patch::SetBase(const std::optional<VolumeBase>& base) {
  return Set({"status", "base"}, base.has_value() ? ToJson(*base) : Json());
}

Patch& Patch::SetVerification(const Verification& verification) {
  return Set({"status", "verification"}, ToJson(verification));
}

Patch& Patch::SetRepository(const RepositorySize& size) {
  return Set({"status", "repository"}, ToJson(size));
}

Patch& Patch::SetRestoredAt(absl::Time at) {
  return Set({"status", "restoredAt"}, FormatRfc3339Seconds(at));
}

Patch& Patch::SetPvcGoneAt(std::optional<absl::Time> at) {
  return Set({"status", "pvcGoneAt"}, at.has_value() ? Json(FormatRfc3339Seconds(*at)) : Json());
}

Patch& Patch::SetNextStep(absl::string_view text) {
  return Set({"status", "nextStep"}, std::string(text));
}

Patch& Patch::SetTaken(absl::string_view handle, std::optional<absl::Time> taken_at,
                       std::optional<int64_t> restore_size_bytes) {
  Set({"status", "snapshotHandle"}, std::string(handle));
  if (taken_at.has_value()) {
    Set({"status", "creationTime"}, absl::ToUnixNanos(*taken_at));
  }
  if (restore_size_bytes.has_value()) {
    Set({"status", "restoreSize"}, *restore_size_bytes);
  }
  return *this;
}

Patch& Patch::SetStatus(const VolumeTaskStatus& status) {
  Json fields = ToJson(status);
  for (const char* name : kFieldsOfOneRun) {
    if (!fields.contains(name)) {
      fields[name] = nullptr;  // What the run before this one left.
    }
  }
  return Set({"status"}, std::move(fields));
}

Patch& Patch::SetJob(const VolumeJob& job) { return Set({"spec", "job"}, ToJson(job)); }

}  // namespace csidelta::objects
