#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_storage_driver.h"

namespace csidelta::support {

// Plays the programs that stand between the API server and a CSI driver: snapshot-controller and
// csi-snapshotter (external-snapshotter 8.6.0, read side by side with its sources), csi-provisioner
// and the binder of volumes. tests/contract/snapshot_cluster_contract.* is the suite that this and
// the real programs pass.
//
// Each object of their kinds is looked at when it changes, as a reconciler does, one write at a
// time: finalizers, volumesnapshot-being-created around CreateSnapshot,
// volumesnapshot-being-deleted before the driver is asked to delete, errors in the status. What
// failed is tried again with the next change, or by Resync().
//
// Unless Run() was called everything is done before the causing call returns. Then a thread of its
// own does it, `lag` behind each change; watches see every step. The switches are set before the
// calls. Outlives no `api` call.
class FakeSnapshotCluster {
 public:
  bool controller_runs = true;  // snapshot-controller
  bool sidecar_runs = true;     // csi-snapshotter
  bool groups_run = true;       // both with CSIVolumeGroupSnapshot
  bool provisioner_runs = true;
  bool binder_runs = true;  // of volumes that name their PVC
  // Objects must be what an API server has of them: classes, bound claims, volumes and Secrets are
  // there, and every deletion waits for finalizers. Else what a test left out is made up.
  bool strict = false;
  std::string driver_name = "d.example.com";
  bool fills_when_bound = true;           // the driver's CSIDriver says so
  std::string class_policy = "Delete";    // of classes that do not tell
  bool sees_policies_late = false;        // deletes contents by the policy that they were made with
  std::string reclaim_policy = "Delete";  // of provisioned volumes
  std::string group_version = "v1";       // of objects and owner references
  std::string controller_version = "v1";  // that the controller was compiled with
  std::string group_list = "volumeSnapshotInfoList";  // "volumeSnapshotHandlePairList" in v1beta1
  bool names_groups = true;                           // status.volumeGroupSnapshotName of members
  std::string member_error;                           // status.error of a group's second member
  // A volume of this handle was made of the snapshot of that one, for the claim: before anything
  // is bound.
  std::function<void(const Json& claim, const std::string& handle, const std::string& source)>
      on_volume;

  explicit FakeSnapshotCluster(FakeApiClient& api);
  ~FakeSnapshotCluster();
  FakeSnapshotCluster(const FakeSnapshotCluster&) = delete;
  FakeSnapshotCluster& operator=(const FakeSnapshotCluster&) = delete;

  FakeStorageDriver& driver() { return driver_; }
  const FakeStorageDriver& driver() const { return driver_; }

  // From now on a thread works, `lag` behind, and tries again every `retry_interval`.
  void Run(absl::Duration lag, absl::Duration retry_interval);
  // From now on PVCs and PersistentVolumes are made with the finalizers by which
  // kube-controller-manager keeps a PVC as long as a Pod that has a node names it, ended or not,
  // and a PersistentVolume while it is bound. Takes the admission of `api`. Not from the beginning:
  // most tests have no kubelet whose Pods go.
  void ProtectVolumes();
  // Looks at everything again, with the switches as they are now.
  void Resync();
  // The driver has no faults any more, and everything is looked at again.
  void LetDriverWork();
  // Whether there is nothing left to do but what failed.
  bool idle() const;

  // The snapshot handle that the driver gives a volume in a group.
  static std::string MemberHandle(const std::string& group_uid, const std::string& volume);

 private:
  enum class Part {
    kSnapshot,
    kContent,
    kSidecarContent,
    kGroup,
    kGroupContent,
    kSidecarGroupContent,
    kClaim,
    kVolume,
  };
  using Key = std::tuple<Part, std::string, std::string>;  // namespace, name
  struct Due {
    absl::Time at;
    Key key;
  };

  void OnEvent(const k8s::WatchEvent& event);
  void Note(const std::string& kind, const Json& object, bool gone);
  std::string PolicySeen(const Json& content) const;  // by the controller
  void NoteSnapshot(const Json& snapshot, bool gone);
  void AddContent(const Json& content, bool gone);
  void NoteGroup(const Json& group, bool gone);
  void NoteClaim(const Json& claim, bool gone);
  void RecordPod(const Json& pod);
  void Enqueue(Part part, const std::string& namespace_name, const std::string& name);
  void Drain();
  void Work(const std::stop_token& stop, absl::Duration retry_interval);
  absl::Status Sync(const Key& key);

  // Writes as a controller; notes what changed.
  bool Change(const k8s::ObjectKey& key, const std::function<void(Json&)>& change);
  Json Make(const k8s::ResourceType& type, Json object);
  void Delete(const k8s::ObjectKey& key);

  // snapshot-controller
  absl::Status SyncSnapshot(const Json& snapshot);
  absl::Status SyncDeletedSnapshot(const Json& snapshot);
  absl::Status SyncUnready(const Json& snapshot);
  absl::Status BindStatic(const Json& snapshot);
  absl::Status MakeContent(const Json& snapshot);
  absl::Status UpdateSnapshotStatus(const Json& snapshot, const Json& content);
  absl::Status SyncContent(const Json& content);
  absl::Status SyncGroup(const Json& group);
  absl::Status SyncDeletedGroup(const Json& group);
  absl::Status MakeGroupContent(const Json& group);
  absl::Status MakeMember(const Json& group, const Json& content, const Json& member, bool second);
  absl::Status SyncGroupContent(const Json& content);
  absl::Status FailSnapshot(const Json& snapshot, const std::string& message);
  void FinishClaimDeletion(const std::string& namespace_name, const std::string& claim,
                           const std::string& but);
  bool IsBeingRestored(const Json& snapshot) const;
  absl::StatusOr<Json> ClassOf(const k8s::ResourceType& type, const std::string& name) const;
  absl::StatusOr<std::string> VolumeOf(const std::string& namespace_name,
                                       const std::string& claim) const;
  absl::StatusOr<std::vector<std::string>> SelectVolumes(const Json& group) const;
  std::string ClaimOf(const std::string& volume_handle) const;
  std::vector<Json> Members(const Json& group, bool all) const;

  // csi-snapshotter
  absl::Status SideContent(const Json& content);
  absl::Status SideDelete(const Json& content);
  absl::Status SideCreate(const Json& content);
  absl::Status SideUpdate(const Json& content);
  absl::Status SideGroupContent(const Json& content);
  absl::Status SideDeleteGroup(const Json& content);
  absl::Status CheckGroupInput(const Json& content) const;
  absl::Status SideCreateGroup(const Json& content);
  absl::Status CheckSecret(const Json& content, const char* name, const char* namespace_name) const;
  // An error replaces the whole status where the content that was looked at had none.
  absl::Status FailContent(const k8s::ObjectKey& key, const std::string& message,
                           const Json* looked_at = nullptr);

  // csi-provisioner, and kube-controller-manager's binder
  absl::Status SyncClaim(const Json& claim);
  absl::Status Provision(const Json& claim);
  absl::Status CheckRequest(const Json& claim) const;
  absl::StatusOr<std::string> SourceOf(const Json& claim) const;
  void RefuseVolume(const Json& claim, const std::string& message);
  void Bind(const k8s::ObjectKey& claim, const std::string& volume);
  void SyncVolume(const Json& volume);
  bool IsUsedByPod(const Json& claim) const;
  void Reclaim(const Json& volume);
  void ClaimGone(const Json& claim);

  FakeApiClient& api_;
  FakeStorageDriver driver_;
  bool protects_volumes_ = false;
  mutable std::mutex queue_mutex_;
  std::condition_variable_any queued_;
  std::deque<Due> queue_;
  std::set<Key> waiting_;  // what is in queue_
  std::set<Key> failed_;
  absl::Duration lag_ = absl::ZeroDuration();
  bool working_ = false;
  std::mutex drain_mutex_;
  bool has_thread_ = false;
  std::jthread thread_;
};

// As a driver does: volumes whose policy is Delete and whose PVC is gone go. Returns how many.
int DeleteFreeVolumes(FakeApiClient& api);

}  // namespace csidelta::support
