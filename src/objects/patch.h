#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/json.h"
#include "objects/object.h"

namespace csidelta::objects {

class DifferentialSnapshot;
struct DataDeletionStatus;
struct DeletedBackup;
struct LostData;
struct LastAttempt;
struct LastGoodBackup;
struct RepositorySize;
struct RequestStatus;
struct Verification;
struct VolumeBase;
struct JobRates;
struct VolumeJob;
struct VolumeTaskStatus;

// A merge patch (RFC 7396): the fields that are named here change, all others stay. The kinds that
// have a field stand with it; the API server ignores fields that a kind does not have. A value.
class Patch {
 public:
  // --- Any kind
  Patch& SetLabel(absl::string_view key, absl::string_view value) {
    return Set({"metadata", "labels", key}, value);
  }
  Patch& SetLabels(const std::map<std::string, std::string>& labels);  // others stay
  Patch& RemoveLabel(absl::string_view key) { return Set({"metadata", "labels", key}, nullptr); }
  Patch& SetAnnotation(absl::string_view key, absl::string_view value) {
    return Set({"metadata", "annotations", key}, value);
  }
  Patch& SetAnnotations(const std::map<std::string, std::string>& annotations);  // others stay
  Patch& RemoveAnnotation(absl::string_view key) {
    return Set({"metadata", "annotations", key}, nullptr);
  }
  // These and no others.
  Patch& SetFinalizers(const std::vector<std::string>& finalizers) {
    return Set({"metadata", "finalizers"}, finalizers);
  }
  Patch& SetOwners(const std::vector<OwnerReference>& owners) {
    return Set({"metadata", "ownerReferences"}, ToJson(owners));
  }
  // Those of `object`, as they are written there; none: no field.
  Patch& SetOwnersOf(const Object& object);
  // Nothing changes, with ABORTED, unless the object is as it was read.
  Patch& IfVersion(absl::string_view resource_version) {
    return Set({"metadata", "resourceVersion"}, resource_version);
  }
  // Nothing changes, with ABORTED, unless it is this object and no later one of its name.
  Patch& IfUid(absl::string_view uid) { return Set({"metadata", "uid"}, uid); }

  // --- VolumeSnapshotContent, VolumeGroupSnapshotContent
  Patch& SetDeletionPolicy(absl::string_view policy) {  // Retain, Delete
    return Set({"spec", "deletionPolicy"}, policy);
  }

  // Facts that only an absent driver could report: its handle, when it took the snapshot, and its
  // size. Of the status of a VolumeSnapshotContent.
  Patch& SetTaken(absl::string_view handle, std::optional<absl::Time> taken_at,
                  std::optional<int64_t> restore_size_bytes);

  // The driver's handle in the status of a content of that type: of a VolumeSnapshot or a group.
  Patch& SetHandle(const k8s::ResourceType& type, absl::string_view handle);

  // --- VolumeGroupSnapshotContent
  // In the status: the driver has the group, whose handle this is.
  Patch& SetReadyGroup(absl::string_view handle);

  // --- PersistentVolume
  Patch& SetReclaimPolicy(absl::string_view policy) {  // Retain, Delete
    return Set({"spec", "persistentVolumeReclaimPolicy"}, policy);
  }
  // It is for a PVC of that uid, and of the name that it is for.
  Patch& SetPvcUid(absl::string_view uid) { return Set({"spec", "claimRef", "uid"}, uid); }
  // Reserves it for this very PVC, or with the uid "" for any PVC of that name, whatever it was
  // reserved for before.
  Patch& SetPvc(absl::string_view namespace_name, absl::string_view name, absl::string_view uid);
  // It is for any PVC of the name that it is for.
  Patch& ForgetPvcUid();
  Patch& SetAccessModes(const std::vector<std::string>& modes) {
    return Set({"spec", "accessModes"}, modes);
  }

  // --- PersistentVolumeClaim
  // The PersistentVolume that it is to be bound to; it is the only one that it ever names.
  Patch& SetVolumeName(absl::string_view name) { return Set({"spec", "volumeName"}, name); }

  // --- DifferentialSnapshot
  // Its status; conditions that do not change keep the time of their last transition.
  Patch& SetRequestStatus(const DifferentialSnapshot& object, const RequestStatus& status,
                          absl::Time now);

  // --- DataUpload, DataDownload, VolumeTask
  Patch& Cancel() { return Set({"spec", "cancel"}, true); }  // asks who works at it to stop

  // --- DataDeletion
  // The whole status.
  Patch& SetStatus(const DataDeletionStatus& status);

  // --- ProtectedVolume: parts of its status; others stay
  Patch& SetLastGood(const std::optional<LastGoodBackup>& backup);
  Patch& SetDeletedBackup(const std::optional<DeletedBackup>& backup);
  Patch& SetLostData(const std::optional<LostData>& lost);
  Patch& SetLastAttempt(const LastAttempt& attempt, int64_t failures);
  Patch& SetBase(const std::optional<VolumeBase>& base);  // nothing: none exists
  Patch& SetVerification(const Verification& verification);
  Patch& SetRepository(const RepositorySize& size);
  Patch& SetRestoredAt(absl::Time at);
  Patch& SetPvcGoneAt(std::optional<absl::Time> at);  // nothing: it is there
  Patch& SetNextStep(absl::string_view text);

  // --- Secret
  // These keys, in base64; others stay.
  Patch& SetEncodedData(const std::map<std::string, std::string>& data) {
    return Set({"data"}, data);
  }

  // --- ConfigMap
  Patch& SetEntry(absl::string_view key, absl::string_view text) {  // others stay
    return Set({"data", key}, text);
  }

  // --- VolumeTask
  // With what is not set nothing of the run before stays.
  Patch& SetStatus(const VolumeTaskStatus& status);
  Patch& SetJob(const VolumeJob& job);        // and nothing of the one before
  Patch& SetJobRates(const JobRates& rates);  // all else of the job stays

  bool is_empty() const { return json_.empty(); }
  const Json& json() const { return json_; }

 private:
  Patch& Set(JsonPath path, Json leaf) {
    SetJson(json_, path, std::move(leaf));
    return *this;
  }

  Json json_ = Json::object();
};

}  // namespace csidelta::objects
