#include "tests/support/fake_snapshot_cluster.h"

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/crypto.h"
#include "base/quantity.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "objects/volume_group_snapshot.h"
#include "objects/volume_snapshot.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_fields.h"
#include "tests/support/typed.h"

namespace csidelta::support {
namespace {

using k8s::Annotation;
using k8s::BeingDeleted;
using k8s::Name;
using k8s::Namespace;
using k8s::ObjectKey;
using k8s::Uid;
using k8s::WatchEvent;
using objects::VolumeGroupSnapshot;
using objects::VolumeGroupSnapshotContent;
using objects::VolumeSnapshot;

constexpr char kBeingCreated[] = "snapshot.storage.kubernetes.io/volumesnapshot-being-created";
constexpr char kGroupBeingCreated[] =
    "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-created";
constexpr char kClaimFinalizer[] = "snapshot.storage.kubernetes.io/pvc-as-source-protection";
constexpr char kClaimProtection[] = "kubernetes.io/pvc-protection";
constexpr char kVolumeProtection[] = "kubernetes.io/pv-protection";
constexpr char kSnapshotGroup[] = "snapshot.storage.k8s.io";

// The content that this thread looks at as a sidecar, which does not take its own writes for news:
// with a driver that refuses it would never rest.
thread_local const void* looked_at_by_sidecar = nullptr;

bool HasFinalizer(const Json& object, const std::string& finalizer) {
  const Json* all = FindJson(object, {"metadata", "finalizers"});
  return all != nullptr && std::find(all->begin(), all->end(), finalizer) != all->end();
}

void AddFinalizer(Json& object, const std::string& finalizer) {
  if (!HasFinalizer(object, finalizer)) {
    object["metadata"]["finalizers"].push_back(finalizer);
  }
}

void DropFinalizer(Json& object, const std::string& finalizer) {
  if (!HasFinalizer(object, finalizer)) {
    return;
  }
  Json kept = Json::array();
  for (const Json& one : object["metadata"]["finalizers"]) {
    if (one != finalizer) {
      kept.push_back(one);
    }
  }
  if (kept.empty()) {
    EraseJson(object, {"metadata", "finalizers"});
  } else {
    object["metadata"]["finalizers"] = kept;
  }
}

bool HasStatus(const Json& object) {
  const Json* status = FindJson(object, {"status"});
  return status != nullptr && status->is_object() && !status->empty();
}

std::string Quoted(const absl::Status& status) {
  return DumpJson(Json(std::string(status.message())));
}

std::string DynamicContentName(const Json& snapshot) {
  return absl::StrCat("snapcontent-", Uid(snapshot));
}

std::string DynamicGroupContentName(const Json& group) {
  return absl::StrCat("groupsnapcontent-", Uid(group));
}

std::string Text(const Json& object, JsonPath path) { return GetString(object, path); }

ObjectKey SnapshotKeyOf(const Json& content) {
  return VolumeSnapshotKey(Text(content, {"spec", "volumeSnapshotRef", "namespace"}),
                           Text(content, {"spec", "volumeSnapshotRef", "name"}));
}

bool RefersTo(const Json& content, const char* field, const Json& object) {
  const Json* ref = FindJson(content, {"spec", field});
  return ref != nullptr && Text(*ref, {"name"}) == Name(object) &&
         Text(*ref, {"namespace"}) == Namespace(object) && Text(*ref, {"uid"}) == Uid(object);
}

// Whether a content of either kind was deleted and the sidecar is told that this is meant.
bool IsToGo(const std::optional<Json>& content) {
  return content.has_value() && BeingDeleted(*content) &&
         (!Annotation(*content, objects::kContentBeingDeletedAnnotation).empty() ||
          !Annotation(*content, objects::kGroupBeingDeletedAnnotation).empty());
}

std::string SecondsOf(int64_t nanoseconds) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixNanos(nanoseconds),
                          absl::UTCTimeZone());
}

Json ErrorOf(const std::string& message) {
  return {{"message", message}, {"time", FormatRfc3339(absl::Now())}};
}

}  // namespace

FakeSnapshotCluster::FakeSnapshotCluster(FakeApiClient& api) : api_(api) {
  for (const char* plural :
       {"volumesnapshots", "volumesnapshotcontents", "volumegroupsnapshots",
        "volumegroupsnapshotcontents", "persistentvolumeclaims", "persistentvolumes", "backups"}) {
    api.OnEvent(plural, [this](FakeApiClient&, const WatchEvent& event) { OnEvent(event); });
  }
}

FakeSnapshotCluster::~FakeSnapshotCluster() = default;

std::string FakeSnapshotCluster::MemberHandle(const std::string& group_uid,
                                              const std::string& volume) {
  return absl::StrCat("snap-", group_uid, "-", volume);
}

// --- What changed, and who looks at it

void FakeSnapshotCluster::OnEvent(const WatchEvent& event) {
  const bool gone = event.kind == WatchEvent::Kind::kDeleted;
  Note(Text(event.object, {"kind"}), event.object, gone);
  if (!has_thread_) {
    {
      std::scoped_lock lock(queue_mutex_);
      for (const Key& key : failed_) {
        if (waiting_.insert(key).second) {
          queue_.push_back({absl::InfinitePast(), key});
        }
      }
      failed_.clear();
    }
    Drain();
  }
}

void FakeSnapshotCluster::Note(const std::string& kind, const Json& object, bool gone) {
  if (kind == "VolumeSnapshot") {
    NoteSnapshot(object, gone);
  } else if (kind == "VolumeSnapshotContent") {
    AddContent(object, gone);
  } else if (kind == "VolumeGroupSnapshot") {
    NoteGroup(object, gone);
  } else if (kind == "VolumeGroupSnapshotContent") {
    Enqueue(Part::kGroupContent, "", Name(object));
    Enqueue(Part::kSidecarGroupContent, "", Name(object));
    Enqueue(Part::kGroup, Text(object, {"spec", "volumeGroupSnapshotRef", "namespace"}),
            Text(object, {"spec", "volumeGroupSnapshotRef", "name"}));
  } else if (kind == "PersistentVolumeClaim") {
    NoteClaim(object, gone);
  } else if (kind == "PersistentVolume") {
    Enqueue(Part::kVolume, "", Name(object));
  } else if (kind == "Pod") {
    RecordPod(object);
  } else if (kind == "Backup" && gone) {
    for (const Json& lease : api_.All(LeaseType())) {  // The garbage collector.
      const Json* owners = FindJson(lease, {"metadata", "ownerReferences"});
      if (owners != nullptr && !owners->empty() && Text((*owners)[0], {"uid"}) == Uid(object)) {
        api_.Remove({LeaseType(), Namespace(lease), Name(lease)});
      }
    }
  }
}

std::string FakeSnapshotCluster::PolicySeen(const Json& content) const {
  return sees_policies_late ? class_policy : Text(content, {"spec", "deletionPolicy"});
}

void FakeSnapshotCluster::NoteSnapshot(const Json& snapshot, bool gone) {
  if (gone) {
    const std::string claim = support::SourceClaimName(snapshot);
    if (!claim.empty()) {
      FinishClaimDeletion(Namespace(snapshot), claim, Name(snapshot));
    }
    const bool unprotected = !strict && controller_runs;
    const auto content = api_.Find(VolumeSnapshotContentKey(support::BoundContentName(snapshot)));
    if (unprotected && content.has_value() && RefersTo(*content, "volumeSnapshotRef", snapshot)) {
      const ObjectKey key = VolumeSnapshotContentKey(Name(*content));
      Change(key, [](Json& object) {
        SetJson(object, {"metadata", "annotations", objects::kContentBeingDeletedAnnotation},
                "yes");
      });
      if (PolicySeen(*content) == "Delete") {
        Delete(key);
      }
    }
  }
  Enqueue(Part::kSnapshot, Namespace(snapshot), Name(snapshot));
  for (const std::string& content :
       {support::BoundContentName(snapshot), DynamicContentName(snapshot)}) {
    if (!content.empty()) {
      Enqueue(Part::kContent, "", content);
      Enqueue(Part::kSidecarContent, "", content);
    }
  }
}

void FakeSnapshotCluster::AddContent(const Json& content, bool gone) {
  if (gone && !strict && sidecar_runs &&
      !HasFinalizer(content, objects::kContentBoundProtectionFinalizer) &&
      Text(content, {"spec", "deletionPolicy"}) == "Delete" &&
      Text(content, {"status", "volumeGroupSnapshotHandle"}).empty() &&
      !support::SnapshotHandle(content).empty()) {
    driver_.DeleteSnapshot(support::SnapshotHandle(content)).IgnoreError();
  }
  Enqueue(Part::kContent, "", Name(content));
  Enqueue(Part::kSidecarContent, "", Name(content));
  const ObjectKey snapshot = SnapshotKeyOf(content);
  Enqueue(Part::kSnapshot, snapshot.namespace_name, snapshot.name);
}

void FakeSnapshotCluster::NoteGroup(const Json& group, bool gone) {
  Enqueue(Part::kGroup, Namespace(group), Name(group));
  Enqueue(Part::kGroupContent, "", DynamicGroupContentName(group));
  Enqueue(Part::kSidecarGroupContent, "", DynamicGroupContentName(group));
  if (gone) {
    for (const Json& member : Members(group, true)) {
      Enqueue(Part::kSnapshot, Namespace(member), Name(member));
    }
  }
}

void FakeSnapshotCluster::NoteClaim(const Json& claim, bool gone) {
  if (gone) {
    ClaimGone(claim);
  } else {
    Enqueue(Part::kClaim, Namespace(claim), Name(claim));
  }
  if (Text(claim, {"spec", "dataSource", "kind"}) == "VolumeSnapshot") {
    Enqueue(Part::kSnapshot, Namespace(claim), Text(claim, {"spec", "dataSource", "name"}));
  }
}

void FakeSnapshotCluster::Enqueue(Part part, const std::string& namespace_name,
                                  const std::string& name) {
  const Key key{part, namespace_name, name};
  if (looked_at_by_sidecar != nullptr && *static_cast<const Key*>(looked_at_by_sidecar) == key) {
    return;
  }
  std::scoped_lock lock(queue_mutex_);
  if (waiting_.insert(key).second) {
    queue_.push_back({has_thread_ ? absl::Now() + lag_ : absl::InfinitePast(), key});
    queued_.notify_all();
  }
}

void FakeSnapshotCluster::Drain() {
  std::scoped_lock drain(drain_mutex_);
  while (true) {
    Key key;
    {
      std::scoped_lock lock(queue_mutex_);
      if (queue_.empty()) {
        return;
      }
      key = queue_.front().key;
      queue_.pop_front();
      waiting_.erase(key);
    }
    if (!Sync(key).ok()) {
      std::scoped_lock lock(queue_mutex_);
      failed_.insert(key);
    }
  }
}

void FakeSnapshotCluster::Run(absl::Duration lag, absl::Duration retry_interval) {
  {
    std::scoped_lock lock(queue_mutex_);
    lag_ = lag;
    has_thread_ = true;
  }
  thread_ = std::jthread(
      [this, retry_interval](const std::stop_token& stop) { Work(stop, retry_interval); });
}

void FakeSnapshotCluster::Work(const std::stop_token& stop, absl::Duration retry_interval) {
  absl::Time retry_at = absl::InfiniteFuture();
  std::unique_lock lock(queue_mutex_);
  while (!stop.stop_requested()) {
    const absl::Time now = absl::Now();
    if (now >= retry_at) {
      for (const Key& key : std::exchange(failed_, {})) {
        if (waiting_.insert(key).second) {
          queue_.push_back({now, key});
        }
      }
      retry_at = absl::InfiniteFuture();
    }
    if (queue_.empty() || queue_.front().at > now) {
      const absl::Time wake =
          std::min(queue_.empty() ? absl::InfiniteFuture() : queue_.front().at, retry_at);
      const auto news = [&] { return !queue_.empty() && queue_.front().at <= absl::Now(); };
      if (wake == absl::InfiniteFuture()) {
        queued_.wait(lock, stop, [&] { return !queue_.empty(); });
      } else {
        queued_.wait_for(lock, stop, absl::ToChronoNanoseconds(wake - now), news);
      }
      continue;
    }
    const Key key = queue_.front().key;
    queue_.pop_front();
    waiting_.erase(key);
    working_ = true;
    lock.unlock();
    const bool done = Sync(key).ok();
    lock.lock();
    working_ = false;
    if (!done) {
      failed_.insert(key);
      retry_at = std::min(retry_at, absl::Now() + retry_interval);
    }
  }
}

bool FakeSnapshotCluster::idle() const {
  std::scoped_lock lock(queue_mutex_);
  return queue_.empty() && !working_;
}

void FakeSnapshotCluster::ProtectVolumes() {
  protects_volumes_ = true;
  api_.OnEvent("pods", [this](FakeApiClient&, const WatchEvent& event) { OnEvent(event); });
  api_.SetAdmission([](const FakeApiClient::AdmissionRequest& request) -> absl::StatusOr<Json> {
    Json object = request.object;
    if (request.operation == "CREATE" && request.type.kind == "PersistentVolumeClaim") {
      AddFinalizer(object, kClaimProtection);
    } else if (request.operation == "CREATE" && request.type.kind == "PersistentVolume") {
      AddFinalizer(object, kVolumeProtection);
    }
    return object;
  });
}

void FakeSnapshotCluster::Resync() {
  for (const Json& object : api_.All(VolumeSnapshotType())) {
    NoteSnapshot(object, false);
  }
  for (const Json& object : api_.All(VolumeSnapshotContentType())) {
    AddContent(object, false);
  }
  for (const Json& object : api_.All(VolumeGroupSnapshotType(group_version))) {
    NoteGroup(object, false);
  }
  for (const Json& object : api_.All(VolumeGroupSnapshotContentType(group_version))) {
    Note("VolumeGroupSnapshotContent", object, false);
  }
  for (const Json& object : api_.All(PersistentVolumeClaimType())) {
    NoteClaim(object, false);
  }
  if (!has_thread_) {
    Drain();
  }
}

void FakeSnapshotCluster::LetDriverWork() {
  driver_.ClearFaults();
  Resync();
}

absl::Status FakeSnapshotCluster::Sync(const Key& key) {
  const auto find = [&](const k8s::ResourceType& type) {
    return api_.Find({type, std::get<1>(key), std::get<2>(key)});
  };
  std::optional<Json> object;
  const Part part = std::get<Part>(key);
  if (part == Part::kSidecarContent || part == Part::kSidecarGroupContent) {
    looked_at_by_sidecar = &key;
  }
  const absl::Cleanup rested = [] { looked_at_by_sidecar = nullptr; };
  switch (part) {
    case Part::kSnapshot:
      object = find(VolumeSnapshotType());
      return object && controller_runs ? SyncSnapshot(*object) : absl::OkStatus();
    case Part::kContent:
      object = find(VolumeSnapshotContentType());
      return object && controller_runs ? SyncContent(*object) : absl::OkStatus();
    case Part::kSidecarContent:
      object = find(VolumeSnapshotContentType());
      return object && sidecar_runs ? SideContent(*object) : absl::OkStatus();
    case Part::kGroup:
      object = find(VolumeGroupSnapshotType(group_version));
      return object && controller_runs && groups_run ? SyncGroup(*object) : absl::OkStatus();
    case Part::kGroupContent:
      object = find(VolumeGroupSnapshotContentType(group_version));
      return object && controller_runs && groups_run ? SyncGroupContent(*object) : absl::OkStatus();
    case Part::kSidecarGroupContent:
      object = find(VolumeGroupSnapshotContentType(group_version));
      return object && sidecar_runs && groups_run ? SideGroupContent(*object) : absl::OkStatus();
    case Part::kClaim:
      object = find(PersistentVolumeClaimType());
      return object ? SyncClaim(*object) : absl::OkStatus();
    case Part::kVolume:
      object = find(PersistentVolumeType());
      if (object) {
        SyncVolume(*object);
      }
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

bool FakeSnapshotCluster::Change(const ObjectKey& key, const std::function<void(Json&)>& change) {
  Json after;
  bool changed = false;
  api_.Mutate(key, [&](Json& object) {
    const Json before = object;
    change(object);
    changed = object != before;
    after = changed ? object : Json();
  });
  if (changed) {
    Note(key.type.kind, after, !api_.Find(key).has_value());
  }
  return changed;
}

Json FakeSnapshotCluster::Make(const k8s::ResourceType& type, Json object) {
  Json made = api_.Seed(type, std::move(object));
  Note(type.kind, made, false);
  return made;
}

void FakeSnapshotCluster::Delete(const ObjectKey& key) {
  const auto object = api_.Find(key);
  if (!object.has_value() || BeingDeleted(*object)) {
    return;
  }
  Change(key, [](Json& deleted) {
    SetJson(deleted, {"metadata", "deletionTimestamp"}, FormatRfc3339(absl::Now()));
  });
}

// --- snapshot-controller

absl::Status FakeSnapshotCluster::FailSnapshot(const Json& snapshot, const std::string& message) {
  if (support::ErrorMessage(snapshot) != message) {
    Change(VolumeSnapshotKey(Namespace(snapshot), Name(snapshot)), [&](Json& object) {
      object["status"]["error"] = ErrorOf(message);
      object["status"]["readyToUse"] = false;
    });
  }
  return absl::FailedPreconditionError(message);
}

// Takes the controller's finalizer off a claim that no unready VolumeSnapshot but `but` is of.
void FakeSnapshotCluster::FinishClaimDeletion(const std::string& namespace_name,
                                              const std::string& claim, const std::string& but) {
  const auto found = api_.Find(ClaimKey(namespace_name, claim));
  if (!found.has_value() || !HasFinalizer(*found, kClaimFinalizer)) {
    return;
  }
  const bool needed = api_.Any(VolumeSnapshotType(), [&](const Json& other) {
    return Namespace(other) == namespace_name && Name(other) != but &&
           support::SourceClaimName(other) == claim && !support::ReadyToUse(other);
  });
  if (needed) {
    return;
  }
  Change(ClaimKey(namespace_name, claim),
         [](Json& object) { DropFinalizer(object, kClaimFinalizer); });
}

absl::Status FakeSnapshotCluster::SyncSnapshot(const Json& snapshot) {
  const std::string claim = support::SourceClaimName(snapshot);
  if (!claim.empty()) {
    FinishClaimDeletion(Namespace(snapshot), claim, "");
  }
  if (BeingDeleted(snapshot)) {
    return SyncDeletedSnapshot(snapshot);
  }
  const std::string source = Text(snapshot, {"spec", "source", "volumeSnapshotContentName"});
  const auto content =
      api_.Find(VolumeSnapshotContentKey(source.empty() ? DynamicContentName(snapshot) : source));
  const bool bound = content.has_value() &&
                     Text(*content, {"spec", "deletionPolicy"}) == "Delete" &&
                     Text(*content, {"spec", "volumeSnapshotRef", "name"}) == Name(snapshot);
  const ObjectKey key = VolumeSnapshotKey(Namespace(snapshot), Name(snapshot));
  if (!HasFinalizer(snapshot, objects::kSnapshotSourceProtectionFinalizer) ||
      (bound && !HasFinalizer(snapshot, objects::kSnapshotBoundProtectionFinalizer))) {
    Change(key, [&](Json& object) {
      AddFinalizer(object, objects::kSnapshotSourceProtectionFinalizer);
      if (bound) {
        AddFinalizer(object, objects::kSnapshotBoundProtectionFinalizer);
      }
    });
  }
  if (!support::ReadyToUse(snapshot) || support::BoundContentName(snapshot).empty()) {
    return SyncUnready(snapshot);
  }
  const auto own = api_.Find(VolumeSnapshotContentKey(support::BoundContentName(snapshot)));
  if (!own.has_value()) {
    return strict ? FailSnapshot(snapshot, "VolumeSnapshotContent is missing") : absl::OkStatus();
  }
  if (!RefersTo(*own, "volumeSnapshotRef", snapshot)) {
    return strict ? FailSnapshot(snapshot,
                                 "VolumeSnapshotContent is not bound to the VolumeSnapshot "
                                 "correctly")
                  : absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status FakeSnapshotCluster::SyncDeletedSnapshot(const Json& snapshot) {
  std::string content_name = support::BoundContentName(snapshot);
  if (content_name.empty() && !support::SourceClaimName(snapshot).empty()) {
    content_name = DynamicContentName(snapshot);
  }
  auto content = api_.Find(VolumeSnapshotContentKey(content_name));
  if (content.has_value() && !RefersTo(*content, "volumeSnapshotRef", snapshot)) {
    content.reset();
  }
  const bool deletes = content.has_value() && PolicySeen(*content) == "Delete";
  if (!HasFinalizer(snapshot, objects::kSnapshotSourceProtectionFinalizer) &&
      !HasFinalizer(snapshot, objects::kSnapshotBoundProtectionFinalizer)) {
    return absl::OkStatus();
  }
  if (content.has_value() && IsBeingRestored(snapshot)) {
    return absl::FailedPreconditionError("in use");
  }
  const std::string group = As<VolumeSnapshot>(snapshot).group_snapshot();
  if (!group.empty() &&
      api_.Find({VolumeGroupSnapshotType(group_version), Namespace(snapshot), group})) {
    return absl::FailedPreconditionError("its group is there");
  }
  if (content.has_value()) {
    Change(VolumeSnapshotContentKey(Name(*content)), [](Json& object) {
      SetJson(object, {"metadata", "annotations", objects::kContentBeingDeletedAnnotation}, "yes");
    });
  }
  if (deletes) {
    Delete(VolumeSnapshotContentKey(Name(*content)));
  }
  Change(VolumeSnapshotKey(Namespace(snapshot), Name(snapshot)), [&](Json& object) {
    DropFinalizer(object, objects::kSnapshotSourceProtectionFinalizer);
    if (!deletes) {
      DropFinalizer(object, objects::kSnapshotBoundProtectionFinalizer);
    }
    if (!group.empty()) {
      DropFinalizer(object, objects::kSnapshotInGroupFinalizer);
    }
  });
  return absl::OkStatus();
}

bool FakeSnapshotCluster::IsBeingRestored(const Json& snapshot) const {
  return strict && api_.Any(PersistentVolumeClaimType(), [&](const Json& claim) {
    return Namespace(claim) == Namespace(snapshot) &&
           Text(claim, {"spec", "dataSource", "kind"}) == "VolumeSnapshot" &&
           Text(claim, {"spec", "dataSource", "name"}) == Name(snapshot) &&
           Text(claim, {"status", "phase"}) == "Pending";
  });
}

absl::Status FakeSnapshotCluster::SyncUnready(const Json& snapshot) {
  if (!Text(snapshot, {"spec", "source", "volumeSnapshotContentName"}).empty()) {
    return BindStatic(snapshot);
  }
  if (As<VolumeSnapshot>(snapshot).group_owner().has_value()) {
    const auto own = api_.Find(VolumeSnapshotContentKey(support::BoundContentName(snapshot)));
    return own.has_value() ? UpdateSnapshotStatus(snapshot, *own)
                           : absl::FailedPreconditionError("a member without content");
  }
  const auto content = api_.Find(VolumeSnapshotContentKey(DynamicContentName(snapshot)));
  if (!content.has_value()) {
    return MakeContent(snapshot);
  }
  if (!RefersTo(*content, "volumeSnapshotRef", snapshot)) {
    return FailSnapshot(snapshot, absl::StrCat("VolumeSnapshotContent [", Name(*content),
                                               "] is bound to a different snapshot"));
  }
  return UpdateSnapshotStatus(snapshot, *content);
}

absl::Status FakeSnapshotCluster::BindStatic(const Json& snapshot) {
  const std::string name = Text(snapshot, {"spec", "source", "volumeSnapshotContentName"});
  const ObjectKey key = VolumeSnapshotContentKey(name);
  auto content = api_.Find(key);
  if (!content.has_value()) {
    return FailSnapshot(snapshot, "VolumeSnapshotContent is missing");
  }
  if (FindJson(*content, {"spec", "source", "snapshotHandle"}) == nullptr) {
    return FailSnapshot(
        snapshot,
        "VolumeSnapshotContent is dynamically provisioned while expecting a pre-provisioned one");
  }
  const std::string uid = Text(*content, {"spec", "volumeSnapshotRef", "uid"});
  if (Text(*content, {"spec", "volumeSnapshotRef", "name"}) != Name(snapshot) ||
      Text(*content, {"spec", "volumeSnapshotRef", "namespace"}) != Namespace(snapshot) ||
      (!uid.empty() && uid != Uid(snapshot))) {
    return FailSnapshot(snapshot, absl::StrCat("VolumeSnapshotContent [", name,
                                               "] is bound to a different snapshot"));
  }
  if (uid.empty() || Text(*content, {"spec", "volumeSnapshotClassName"}).empty()) {
    const std::string class_name = Text(snapshot, {"spec", "volumeSnapshotClassName"});
    Change(key, [&](Json& object) {
      object["spec"]["volumeSnapshotRef"]["uid"] = Uid(snapshot);
      if (!class_name.empty()) {
        object["spec"]["volumeSnapshotClassName"] = class_name;
      }
    });
    content = api_.Find(key);
  }
  return content.has_value() ? UpdateSnapshotStatus(snapshot, *content) : absl::OkStatus();
}

absl::StatusOr<Json> FakeSnapshotCluster::ClassOf(const k8s::ResourceType& type,
                                                  const std::string& name) const {
  auto found = api_.Find({type, "", name});
  if (!found.has_value()) {
    if (strict) {
      return absl::NotFoundError(absl::StrCat(ToString(type), " \"", name, "\" not found"));
    }
    found = Json{{"metadata", {{"name", name}}}, {"driver", driver_name}};
  }
  if (Text(*found, {"deletionPolicy"}).empty()) {
    SetJson(*found, {"deletionPolicy"}, class_policy);
  }
  return *found;
}

// The volume handle of a claim.
absl::StatusOr<std::string> FakeSnapshotCluster::VolumeOf(const std::string& namespace_name,
                                                          const std::string& claim) const {
  const auto object = api_.Find(ClaimKey(namespace_name, claim));
  if (!strict && !object.has_value()) {
    return "volume-1";
  }
  if (!object.has_value()) {
    return absl::NotFoundError(absl::StrCat("persistentvolumeclaim \"", claim, "\" not found"));
  }
  if (strict && Text(*object, {"status", "phase"}) != "Bound") {
    return absl::FailedPreconditionError(absl::StrCat(
        "the PVC ", claim, " is not yet bound to a PV, will not attempt to take a snapshot"));
  }
  const auto volume = api_.Find(VolumeKey(Text(*object, {"spec", "volumeName"})));
  const std::string handle =
      volume.has_value() ? Text(*volume, {"spec", "csi", "volumeHandle"}) : "";
  if (!handle.empty()) {
    return handle;
  }
  if (strict) {
    return absl::FailedPreconditionError("cannot find CSI PersistentVolumeSource for volume");
  }
  return "volume-1";
}

absl::Status FakeSnapshotCluster::MakeContent(const Json& snapshot) {
  const std::string claim = support::SourceClaimName(snapshot);
  if (strict) {
    Change(ClaimKey(Namespace(snapshot), claim), [](Json& object) {
      if (!BeingDeleted(object)) {
        AddFinalizer(object, kClaimFinalizer);
      }
    });
  }
  const absl::StatusOr<Json> snapshot_class =
      ClassOf(VolumeSnapshotClassType(), Text(snapshot, {"spec", "volumeSnapshotClassName"}));
  const absl::StatusOr<std::string> volume = VolumeOf(Namespace(snapshot), claim);
  const absl::Status wrong = !snapshot_class.ok() ? snapshot_class.status() : volume.status();
  if (!wrong.ok()) {
    return FailSnapshot(
        snapshot,
        absl::StrCat("Failed to create snapshot content with error failed to get input parameters "
                     "to create snapshot ",
                     Name(snapshot), ": ", Quoted(wrong)));
  }
  Json content = {{"metadata", {{"name", DynamicContentName(snapshot)}}},
                  {"spec",
                   {{"driver", Text(*snapshot_class, {"driver"})},
                    {"deletionPolicy", Text(*snapshot_class, {"deletionPolicy"})},
                    {"source", {{"volumeHandle", *volume}}},
                    {"volumeSnapshotClassName", Name(*snapshot_class)},
                    {"volumeSnapshotRef",
                     {{"apiVersion", absl::StrCat(kSnapshotGroup, "/v1")},
                      {"kind", "VolumeSnapshot"},
                      {"namespace", Namespace(snapshot)},
                      {"name", Name(snapshot)},
                      {"uid", Uid(snapshot)},
                      {"resourceVersion", Text(snapshot, {"metadata", "resourceVersion"})}}}}}};
  const std::string secret = Text(*snapshot_class, {"parameters", objects::kSnapshotterSecretName});
  if (!secret.empty()) {
    content["metadata"]["annotations"] = {
        {objects::kDeletionSecretNameAnnotation, secret},
        {objects::kDeletionSecretNamespaceAnnotation,
         Text(*snapshot_class, {"parameters", objects::kSnapshotterSecretNamespace})}};
  }
  return UpdateSnapshotStatus(snapshot, Make(VolumeSnapshotContentType(), content));
}

// Tells a VolumeSnapshot what its content's status says.
absl::Status FakeSnapshotCluster::UpdateSnapshotStatus(const Json& snapshot, const Json& content) {
  std::string group;
  const std::string group_handle = Text(content, {"status", "volumeGroupSnapshotHandle"});
  if (!group_handle.empty() && names_groups) {
    for (const Json& one : api_.All(VolumeGroupSnapshotContentType(group_version))) {
      if (Text(one, {"status", "volumeGroupSnapshotHandle"}) == group_handle) {
        group = Text(one, {"spec", "volumeGroupSnapshotRef", "name"});
      }
    }
    if (group.empty() && strict) {
      return absl::NotFoundError("cannot find the group snapshot");
    }
  }
  Change(VolumeSnapshotKey(Namespace(snapshot), Name(snapshot)), [&](Json& object) {
    Json& status = object["status"];
    if (!status.contains("boundVolumeSnapshotContentName")) {
      status["boundVolumeSnapshotContentName"] = Name(content);
    }
    const int64_t snapshot_taken_at = GetInt(content, {"status", "creationTime"});
    if (!status.contains("creationTime") && snapshot_taken_at != 0) {
      status["creationTime"] = SecondsOf(snapshot_taken_at);
    }
    const bool ready = support::ReadyToUse(content);
    if (!status.contains("readyToUse") || status["readyToUse"] != ready) {
      status["readyToUse"] = ready;
      if (ready) {
        status.erase("error");
      }
    }
    const int64_t size = GetInt(content, {"status", "restoreSize"});
    if (!status.contains("restoreSize") && size > 0) {
      status["restoreSize"] = absl::StrCat(size);
    }
    if (const Json* error = FindJson(content, {"status", "error"}); error != nullptr) {
      status["error"] = *error;
    } else {
      status.erase("error");
    }
    if (!status.contains("volumeGroupSnapshotName") && !group.empty()) {
      status["volumeGroupSnapshotName"] = group;
    }
  });
  return absl::OkStatus();
}

absl::Status FakeSnapshotCluster::SyncContent(const Json& content) {
  if (Text(content, {"spec", "volumeSnapshotRef", "uid"}).empty()) {
    return absl::OkStatus();
  }
  const ObjectKey key = VolumeSnapshotContentKey(Name(content));
  if (!BeingDeleted(content) && !HasFinalizer(content, objects::kContentBoundProtectionFinalizer)) {
    Change(key,
           [](Json& object) { AddFinalizer(object, objects::kContentBoundProtectionFinalizer); });
    return absl::OkStatus();
  }
  const auto snapshot = api_.Find(SnapshotKeyOf(content));
  if (!snapshot.has_value() || !RefersTo(content, "volumeSnapshotRef", *snapshot)) {
    return absl::OkStatus();  // It may be a copy in another cluster: its data is not to be lost.
  }
  if (BeingDeleted(*snapshot) &&
      (HasFinalizer(*snapshot, objects::kSnapshotSourceProtectionFinalizer) ||
       HasFinalizer(*snapshot, objects::kSnapshotBoundProtectionFinalizer))) {
    Change(key, [](Json& object) {
      SetJson(object, {"metadata", "annotations", objects::kContentBeingDeletedAnnotation}, "yes");
    });
  }
  return absl::OkStatus();
}

// --- snapshot-controller: groups

absl::StatusOr<std::vector<std::string>> FakeSnapshotCluster::SelectVolumes(
    const Json& group) const {
  const auto labels = GetStringMap(group, {"spec", "source", "selector", "matchLabels"});
  std::vector<std::string> volumes;
  for (const Json& claim : api_.All(PersistentVolumeClaimType())) {
    const bool selected = std::all_of(labels.begin(), labels.end(), [&](const auto& label) {
      return k8s::Label(claim, label.first) == label.second;
    });
    if (!selected || Namespace(claim) != Namespace(group)) {
      continue;
    }
    if (strict && Text(claim, {"status", "phase"}) != "Bound") {
      return absl::FailedPreconditionError(
          absl::StrCat("the PVC ", Name(claim),
                       " is not yet bound to a PV, will not attempt to take a group snapshot"));
    }
    const auto volume = api_.Find(VolumeKey(Text(claim, {"spec", "volumeName"})));
    volumes.push_back(volume.has_value() ? Text(*volume, {"spec", "csi", "volumeHandle"}) : "");
  }
  if (volumes.empty()) {
    const std::string selector = absl::StrJoin(labels, ",", absl::PairFormatter("="));
    return absl::NotFoundError(
        absl::StrCat("label selector ", selector, " for group snapshot not applied to any PVC"));
  }
  return volumes;
}

absl::Status FakeSnapshotCluster::SyncGroup(const Json& group) {
  if (BeingDeleted(group)) {
    return SyncDeletedGroup(group);
  }
  const ObjectKey key = As<VolumeGroupSnapshot>(group).key();
  const std::string source = Text(group, {"spec", "source", "volumeGroupSnapshotContentName"});
  const std::string bound = As<VolumeGroupSnapshot>(group).bound_content();
  const bool is_ready = GetBool(group, {"status", "readyToUse"}) && !bound.empty();
  std::string name = source.empty() ? DynamicGroupContentName(group) : source;
  name = is_ready ? bound : name;
  const auto content = api_.Find(GroupContentKey(group_version, name));
  if (!content.has_value() && is_ready && !strict) {
    return absl::OkStatus();
  }
  if (!content.has_value()) {
    return source.empty() && !is_ready ? MakeGroupContent(group)
                                       : FailContent(key, "VolumeGroupSnapshotContent is missing");
  }
  if (!HasFinalizer(group, objects::kGroupSnapshotBoundProtectionFinalizer)) {
    Change(key, [](Json& object) {
      AddFinalizer(object, objects::kGroupSnapshotBoundProtectionFinalizer);
    });
  }
  if (is_ready) {
    return absl::OkStatus();
  }
  if (!source.empty()) {
    Change(GroupContentKey(group_version, source),
           [&](Json& object) { object["spec"]["volumeGroupSnapshotRef"]["uid"] = Uid(group); });
  } else if (!As<VolumeGroupSnapshotContent>(*content).handle_or_source().empty()) {
    const Json* members = FindJson(*content, {"status", group_list.c_str()});
    for (std::size_t i = 0; members != nullptr && i < members->size(); ++i) {
      RETURN_IF_ERROR(MakeMember(group, *content, (*members)[i], i == 1));
    }
  }
  Change(key, [&](Json& object) {
    Json& status = object["status"];
    if (!status.contains("boundVolumeGroupSnapshotContentName")) {
      status["boundVolumeGroupSnapshotContentName"] = Name(*content);
    }
    const std::string snapshot_taken_at = Text(*content, {"status", "creationTime"});
    if (!status.contains("creationTime") && !snapshot_taken_at.empty()) {
      status["creationTime"] = snapshot_taken_at;
    }
    const bool ready = GetBool(*content, {"status", "readyToUse"});
    if (!status.contains("readyToUse") || status["readyToUse"] != ready) {
      status["readyToUse"] = ready;
      if (ready) {
        status.erase("error");
      }
    }
    if (const Json* error = FindJson(*content, {"status", "error"}); error != nullptr) {
      status["error"] = *error;
    }
  });
  return absl::OkStatus();
}

absl::Status FakeSnapshotCluster::MakeGroupContent(const Json& group) {
  const ObjectKey key = As<VolumeGroupSnapshot>(group).key();
  const absl::StatusOr<Json> group_class =
      ClassOf(VolumeGroupSnapshotClassType(group_version),
              Text(group, {"spec", "volumeGroupSnapshotClassName"}));
  const absl::StatusOr<std::vector<std::string>> volumes = SelectVolumes(group);
  const absl::Status wrong = !group_class.ok() ? group_class.status() : volumes.status();
  if (!wrong.ok()) {
    return FailContent(
        key, absl::StrCat("failed to create group snapshot content with error: failed to get input "
                          "parameters to create group snapshot ",
                          Name(group), ": ", Quoted(wrong)));
  }
  Json content = {
      {"metadata", {{"name", DynamicGroupContentName(group)}}},
      {"spec",
       {{"driver", Text(*group_class, {"driver"})},
        {"deletionPolicy", Text(*group_class, {"deletionPolicy"})},
        {"volumeGroupSnapshotClassName", Name(*group_class)},
        {"source", {{"volumeHandles", *volumes}}},
        {"volumeGroupSnapshotRef",
         {{"apiVersion", absl::StrCat(objects::kGroupSnapshotGroup, "/", group_version)},
          {"kind", "VolumeGroupSnapshot"},
          {"namespace", Namespace(group)},
          {"name", Name(group)},
          {"uid", Uid(group)}}}}}};
  const std::string secret =
      Text(*group_class, {"parameters", objects::kGroupSnapshotterSecretName});
  if (!secret.empty()) {
    content["metadata"]["annotations"] = {
        {objects::kGroupDeletionSecretNameAnnotation, secret},
        {objects::kGroupDeletionSecretNamespaceAnnotation,
         Text(*group_class, {"parameters", objects::kGroupSnapshotterSecretNamespace})}};
  }
  Make(VolumeGroupSnapshotContentType(group_version), content);
  Change(key, [&](Json& object) {
    object["status"]["boundVolumeGroupSnapshotContentName"] = DynamicGroupContentName(group);
    object["status"]["readyToUse"] = false;
  });
  return absl::OkStatus();
}

std::string FakeSnapshotCluster::ClaimOf(const std::string& volume_handle) const {
  for (const Json& volume : api_.All(PersistentVolumeType())) {
    if (Text(volume, {"spec", "csi", "volumeHandle"}) == volume_handle) {
      const std::string name = Text(volume, {"spec", "claimRef", "name"});
      if (!name.empty()) {
        return name;
      }
      for (const Json& claim : api_.All(PersistentVolumeClaimType())) {
        if (Text(claim, {"spec", "volumeName"}) == Name(volume)) {
          return Name(claim);
        }
      }
    }
  }
  return "";
}

absl::Status FakeSnapshotCluster::MakeMember(const Json& group, const Json& content,
                                             const Json& member, bool second) {
  const std::string hash = Sha256Hex(absl::StrCat(Uid(group), Text(member, {"volumeHandle"})));
  const ObjectKey content_key = VolumeSnapshotContentKey("snapcontent-" + hash);
  const ObjectKey key = VolumeSnapshotKey(Namespace(group), "snapshot-" + hash);
  if (!api_.Find(content_key).has_value()) {
    Json made = {
        {"metadata",
         {{"name", content_key.name},
          {"annotations",
           {{objects::kGroupHandleOfMemberAnnotation,
             As<VolumeGroupSnapshotContent>(content).handle_or_source()}}}}},
        {"spec",
         {{"driver", Text(content, {"spec", "driver"})},
          {"deletionPolicy", Text(content, {"spec", "deletionPolicy"})},
          {"source", {{"volumeHandle", Text(member, {"volumeHandle"})}}},
          {"volumeSnapshotRef",
           {{"kind", "VolumeSnapshot"}, {"namespace", key.namespace_name}, {"name", key.name}}}}}};
    for (const auto& [from, to] : {std::pair(objects::kGroupDeletionSecretNameAnnotation,
                                             objects::kDeletionSecretNameAnnotation),
                                   std::pair(objects::kGroupDeletionSecretNamespaceAnnotation,
                                             objects::kDeletionSecretNamespaceAnnotation)}) {
      if (!Annotation(content, from).empty()) {
        made["metadata"]["annotations"][to] = Annotation(content, from);
      }
    }
    Make(VolumeSnapshotContentType(), made);
  }
  if (!api_.Find(key).has_value()) {
    Make(
        VolumeSnapshotType(),
        {{"metadata",
          {{"name", key.name},
           {"namespace", key.namespace_name},
           {"finalizers", Json::array({objects::kSnapshotInGroupFinalizer})},
           {"ownerReferences",
            Json::array(
                {{{"apiVersion", absl::StrCat(objects::kGroupSnapshotGroup, "/", group_version)},
                  {"kind", "VolumeGroupSnapshot"},
                  {"name", Name(group)},
                  {"uid", Uid(group)}}})}}},
         {"spec",
          {{"source", {{"persistentVolumeClaimName", ClaimOf(Text(member, {"volumeHandle"}))}}}}}});
  }
  const auto snapshot = api_.Find(key);
  if (!snapshot.has_value()) {
    return absl::UnavailableError("deleted meanwhile");
  }
  Change(content_key, [&](Json& object) {
    object["spec"]["volumeSnapshotRef"]["uid"] = Uid(*snapshot);
    Json& status = object["status"];
    status["snapshotHandle"] = Text(member, {"snapshotHandle"});
    status["volumeGroupSnapshotHandle"] =
        As<VolumeGroupSnapshotContent>(content).handle_or_source();
    for (const char* field : {"creationTime", "restoreSize", "readyToUse"}) {
      if (!status.contains(field) && member.contains(field)) {
        status[field] = member[field];
      }
    }
    if (second && !member_error.empty()) {
      status["error"] = ErrorOf(member_error);
      status["readyToUse"] = false;
    }
  });
  Change(key, [&](Json& object) {
    object["status"]["boundVolumeSnapshotContentName"] = content_key.name;
  });
  return absl::OkStatus();
}

std::vector<Json> FakeSnapshotCluster::Members(const Json& group, bool all) const {
  std::vector<Json> members;
  const std::string known = absl::StrCat(objects::kGroupSnapshotGroup, "/", controller_version);
  for (const Json& json : api_.All(VolumeSnapshotType())) {
    const auto snapshot = As<VolumeSnapshot>(json);
    if (snapshot.IsMemberOf(Uid(group)) && (all || snapshot.group_owner()->api_version == known)) {
      members.push_back(json);
    }
  }
  return members;
}

absl::Status FakeSnapshotCluster::SyncDeletedGroup(const Json& group) {
  if (!HasFinalizer(group, objects::kGroupSnapshotBoundProtectionFinalizer)) {
    return absl::OkStatus();
  }
  const ObjectKey content_key =
      GroupContentKey(group_version, As<VolumeGroupSnapshot>(group).bound_content());
  auto content = api_.Find(content_key);
  if (content.has_value() && !RefersTo(*content, "volumeGroupSnapshotRef", group)) {
    content.reset();
  }
  const std::vector<Json> members = Members(group, false);
  if (std::any_of(members.begin(), members.end(),
                  [&](const Json& member) { return IsBeingRestored(member); })) {
    return absl::FailedPreconditionError("a member is in use");
  }
  const bool deletes =
      content.has_value() && Text(*content, {"spec", "deletionPolicy"}) == "Delete";
  if (content.has_value()) {
    Change(content_key, [](Json& object) {
      SetJson(object, {"metadata", "annotations", objects::kGroupBeingDeletedAnnotation}, "yes");
    });
  }
  if (deletes) {
    Delete(content_key);
  }
  for (const Json& member : members) {
    Delete(VolumeSnapshotKey(Namespace(member), Name(member)));
  }
  if (!deletes) {  // Else it stays until its content is gone.
    Change(As<VolumeGroupSnapshot>(group).key(), [](Json& object) {
      DropFinalizer(object, objects::kGroupSnapshotBoundProtectionFinalizer);
    });
  }
  return absl::OkStatus();
}

absl::Status FakeSnapshotCluster::SyncGroupContent(const Json& content) {
  if (!Text(content, {"spec", "volumeGroupSnapshotRef", "uid"}).empty() && !BeingDeleted(content) &&
      !HasFinalizer(content, objects::kGroupContentBoundProtectionFinalizer)) {
    Change(GroupContentKey(group_version, Name(content)), [](Json& object) {
      AddFinalizer(object, objects::kGroupContentBoundProtectionFinalizer);
    });
  }
  return absl::OkStatus();
}

// --- csi-snapshotter

absl::Status FakeSnapshotCluster::FailContent(const ObjectKey& key, const std::string& message,
                                              const Json* looked_at) {
  const auto object = api_.Find(key);
  if (object.has_value() && support::ErrorMessage(*object) != message) {
    Change(key, [&](Json& failed) {
      if (looked_at != nullptr && !HasStatus(*looked_at)) {
        failed["status"] = Json::object();  // Whatever others wrote meanwhile.
      }
      failed["status"]["error"] = ErrorOf(message);
      failed["status"]["readyToUse"] = false;
    });
  }
  return absl::FailedPreconditionError(message);
}

absl::Status FakeSnapshotCluster::CheckSecret(const Json& content, const char* name,
                                              const char* namespace_name) const {
  const std::string secret = Annotation(content, name);
  if (strict && !secret.empty() &&
      !api_.Find({SecretType(), Annotation(content, namespace_name), secret})) {
    return absl::NotFoundError(
        absl::StrCat("cannot get credentials for snapshot content \"", Name(content), "\""));
  }
  return absl::OkStatus();
}

absl::Status FakeSnapshotCluster::SideContent(const Json& content) {
  const bool static_content = FindJson(content, {"spec", "source", "snapshotHandle"}) != nullptr;
  if (strict && Text(content, {"spec", "driver"}) != driver_name) {
    return absl::OkStatus();
  }
  if (BeingDeleted(content)) {
    const bool unbound =
        static_content && Text(content, {"spec", "volumeSnapshotRef", "uid"}).empty();
    const bool meant = Annotation(content, kBeingCreated).empty() &&
                       !Annotation(content, objects::kContentBeingDeletedAnnotation).empty();
    if (unbound || meant) {
      return SideDelete(content);
    }
  }
  const bool member = !Annotation(content, objects::kGroupHandleOfMemberAnnotation).empty();
  if (!static_content && !HasStatus(content) && !member) {
    return SideCreate(content);
  }
  if (support::ReadyToUse(content)) {
    Change(VolumeSnapshotContentKey(Name(content)), [](Json& object) {
      EraseJson(object, {"metadata", "annotations", kBeingCreated});
    });
    return absl::OkStatus();
  }
  return SideUpdate(content);
}

absl::Status FakeSnapshotCluster::SideDelete(const Json& content) {
  const ObjectKey key = VolumeSnapshotContentKey(Name(content));
  if (Text(content, {"spec", "deletionPolicy"}) == "Delete" &&
      !support::SnapshotHandle(content).empty() &&
      Text(content, {"status", "volumeGroupSnapshotHandle"}).empty()) {
    RETURN_IF_ERROR(CheckSecret(content, objects::kDeletionSecretNameAnnotation,
                                objects::kDeletionSecretNamespaceAnnotation));
    RETURN_IF_ERROR(driver_.DeleteSnapshot(support::SnapshotHandle(content)));
    Change(key, [](Json& object) {
      for (const char* field : {"snapshotHandle", "readyToUse", "creationTime", "restoreSize"}) {
        EraseJson(object, {"status", field});
      }
    });
  }
  Change(key,
         [](Json& object) { DropFinalizer(object, objects::kContentBoundProtectionFinalizer); });
  return absl::OkStatus();
}

absl::Status FakeSnapshotCluster::SideCreate(const Json& content) {
  const ObjectKey key = VolumeSnapshotContentKey(Name(content));
  const absl::Status input = [&]() -> absl::Status {
    RETURN_IF_ERROR(
        ClassOf(VolumeSnapshotClassType(), Text(content, {"spec", "volumeSnapshotClassName"}))
            .status());
    return CheckSecret(content, objects::kDeletionSecretNameAnnotation,
                       objects::kDeletionSecretNamespaceAnnotation);
  }();
  if (!input.ok()) {
    return FailContent(key,
                       absl::StrCat("Failed to create snapshot: failed to get input parameters "
                                    "to create snapshot for content ",
                                    Name(content), ": ", Quoted(input)));
  }
  Change(key, [](Json& object) {
    SetJson(object, {"metadata", "annotations", kBeingCreated}, "yes");
  });
  const std::string volume = Text(content, {"spec", "source", "volumeHandle"});
  const absl::StatusOr<FakeStorageDriver::Snapshot> snapshot = driver_.CreateSnapshot(
      absl::StrCat("handle-", Text(content, {"spec", "volumeSnapshotRef", "uid"})), volume);
  if (absl::IsCancelled(snapshot.status())) {
    return snapshot.status();  // The driver has not answered yet.
  }
  if (!snapshot.ok()) {
    if (!FakeStorageDriver::IsOpen(snapshot.status())) {
      Change(key, [](Json& object) {
        EraseJson(object, {"metadata", "annotations", kBeingCreated});
      });
    }
    const std::string what = absl::StrCat("failed to take snapshot of the volume ", volume, ": ",
                                          Quoted(snapshot.status()));
    return FailContent(
        key, absl::StrCat(HasStatus(content) ? "Failed to check and update snapshot content: "
                                             : "Failed to create snapshot: ",
                          what));
  }
  Change(key, [&](Json& object) {
    Json& status = object["status"];
    if (!status.contains("snapshotHandle")) {
      status["snapshotHandle"] = snapshot->handle;
    }
    if (!status.contains("readyToUse") || status["readyToUse"] != snapshot->ready) {
      status["readyToUse"] = snapshot->ready;
      if (snapshot->ready) {
        status.erase("error");
      }
    }
    if (!status.contains("creationTime")) {
      status["creationTime"] = snapshot->cut_at_nanoseconds;
    }
    if (!status.contains("restoreSize") && snapshot->size_bytes > 0) {
      status["restoreSize"] = snapshot->size_bytes;
    }
  });
  if (const auto now = api_.Find(key); snapshot->ready || IsToGo(now)) {
    looked_at_by_sidecar = nullptr;  // It may have been deleted meanwhile: one more look.
  }
  Change(key, [](Json& object) { EraseJson(object, {"metadata", "annotations", kBeingCreated}); });
  return snapshot->ready ? absl::OkStatus() : absl::UnavailableError("not ready yet");
}

// Asks the driver about a snapshot that exists, or that may.
absl::Status FakeSnapshotCluster::SideUpdate(const Json& content) {
  const ObjectKey key = VolumeSnapshotContentKey(Name(content));
  const bool member = !Text(content, {"status", "volumeGroupSnapshotHandle"}).empty() &&
                      !support::SnapshotHandle(content).empty();
  std::string handle = support::SnapshotHandle(content);
  if (handle.empty()) {
    handle = Text(content, {"spec", "source", "snapshotHandle"});
  }
  if (FindJson(content, {"spec", "source", "snapshotHandle"}) == nullptr && !member) {
    return Annotation(content, objects::kGroupHandleOfMemberAnnotation).empty()
               ? SideCreate(content)
               : absl::OkStatus();
  }
  const absl::StatusOr<FakeStorageDriver::Snapshot> found = driver_.SnapshotStatus(handle);
  if (absl::IsCancelled(found.status())) {
    return found.status();
  }
  if (!found.ok()) {
    return FailContent(key,
                       absl::StrCat("Failed to check and update snapshot content: failed to "
                                    "list snapshot for content ",
                                    Name(content), ": ", Quoted(found.status())),
                       &content);
  }
  if (member && !member_error.empty()) {
    return absl::OkStatus();
  }
  Change(key, [&](Json& object) {
    Json& status = object["status"];
    if (!status.contains("snapshotHandle")) {
      status["snapshotHandle"] = handle;
    }
    if (!status.contains("readyToUse") || status["readyToUse"] != found->ready) {
      status["readyToUse"] = found->ready;
      if (found->ready) {
        status.erase("error");
      }
    }
    if (!status.contains("creationTime") && strict) {
      status["creationTime"] =
          found->cut_at_nanoseconds == 0 ? absl::GetCurrentTimeNanos() : found->cut_at_nanoseconds;
    }
    if (!status.contains("restoreSize") && found->size_bytes > 0) {
      status["restoreSize"] = found->size_bytes;
    }
    if (!status.contains("volumeGroupSnapshotHandle") && !found->group.empty()) {
      status["volumeGroupSnapshotHandle"] = found->group;
    }
  });
  return found->ready ? absl::OkStatus() : absl::UnavailableError("not ready yet");
}

absl::Status FakeSnapshotCluster::SideGroupContent(const Json& content) {
  const ObjectKey key = GroupContentKey(group_version, Name(content));
  const bool static_content =
      FindJson(content, {"spec", "source", "groupSnapshotHandles"}) != nullptr;
  if (strict && Text(content, {"spec", "driver"}) != driver_name) {
    return absl::OkStatus();
  }
  if (BeingDeleted(content)) {
    const bool unbound =
        static_content && Text(content, {"spec", "volumeGroupSnapshotRef", "uid"}).empty();
    const bool meant = Annotation(content, kGroupBeingCreated).empty() &&
                       !Annotation(content, objects::kGroupBeingDeletedAnnotation).empty();
    if (unbound || meant) {
      return SideDeleteGroup(content);
    }
  }
  if (GetBool(content, {"status", "readyToUse"})) {
    Change(key, [](Json& object) {
      EraseJson(object, {"metadata", "annotations", kGroupBeingCreated});
    });
    return absl::OkStatus();
  }
  if (!static_content) {
    return SideCreateGroup(content);
  }
  const std::string handle =
      Text(content, {"spec", "source", "groupSnapshotHandles", "volumeGroupSnapshotHandle"});
  const absl::Status found = driver_.GroupStatus(handle);
  if (!found.ok()) {
    return FailContent(key,
                       absl::StrCat("Failed to check and update group snapshot content: failed "
                                    "to list group snapshot for content ",
                                    Name(content), ": ", Quoted(found)),
                       &content);
  }
  Change(key, [&](Json& object) {
    Json& status = object["status"];
    status["volumeGroupSnapshotHandle"] = handle;
    status["readyToUse"] = true;
    status["creationTime"] = SecondsOf(absl::GetCurrentTimeNanos());
    status.erase("error");
  });
  return absl::OkStatus();
}

absl::Status FakeSnapshotCluster::SideDeleteGroup(const Json& content) {
  const ObjectKey key = GroupContentKey(group_version, Name(content));
  const std::string handle = Text(content, {"status", "volumeGroupSnapshotHandle"});
  if (Text(content, {"spec", "deletionPolicy"}) == "Delete" && !handle.empty()) {
    RETURN_IF_ERROR(CheckSecret(content, objects::kGroupDeletionSecretNameAnnotation,
                                objects::kGroupDeletionSecretNamespaceAnnotation));
    std::set<std::string> ids;
    for (const objects::GroupMember& member : As<VolumeGroupSnapshotContent>(content).members()) {
      ids.insert(member.snapshot_handle);
    }
    if (ids.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("cannot delete group snapshot content ", Name(content),
                       ". No snapshots found in the group snapshot"));
    }
    RETURN_IF_ERROR(driver_.DeleteGroup(
        handle, ids, Annotation(content, objects::kGroupDeletionSecretNameAnnotation)));
    Change(key, [](Json& object) {
      for (const char* field :
           {"volumeGroupSnapshotHandle", "readyToUse", "creationTime", "error"}) {
        EraseJson(object, {"status", field});
      }
    });
  }
  Change(key, [](Json& object) {
    DropFinalizer(object, objects::kGroupContentBoundProtectionFinalizer);
  });
  return absl::OkStatus();
}

absl::Status FakeSnapshotCluster::CheckGroupInput(const Json& content) const {
  const auto group_class = ClassOf(VolumeGroupSnapshotClassType(group_version),
                                   Text(content, {"spec", "volumeGroupSnapshotClassName"}));
  const absl::Status input = !group_class.ok()
                                 ? group_class.status()
                                 : CheckSecret(content, objects::kGroupDeletionSecretNameAnnotation,
                                               objects::kGroupDeletionSecretNamespaceAnnotation);
  return input.ok() ? input
                    : absl::FailedPreconditionError(
                          absl::StrCat("failed to get input parameters to create group snapshot "
                                       "for group snapshot content ",
                                       Name(content), ": ", Quoted(input)));
}

absl::Status FakeSnapshotCluster::SideCreateGroup(const Json& content) {
  const ObjectKey key = GroupContentKey(group_version, Name(content));
  const std::string failed = HasStatus(content)
                                 ? "Failed to check and update group snapshot content: "
                                 : "Failed to create group snapshot: ";
  const absl::Status input = CheckGroupInput(content);
  if (!input.ok()) {
    return FailContent(key, absl::StrCat(failed, input.message()));
  }
  Change(key, [](Json& object) {
    SetJson(object, {"metadata", "annotations", kGroupBeingCreated}, "yes");
  });
  std::vector<std::string> volumes;
  for (const Json& volume : content["spec"]["source"]["volumeHandles"]) {
    volumes.push_back(volume);
  }
  const std::string uid = Text(content, {"spec", "volumeGroupSnapshotRef", "uid"});
  const absl::StatusOr<FakeStorageDriver::Group> group =
      driver_.CreateGroup(absl::StrCat("group-", uid), absl::StrCat("snap-", uid), volumes);
  if (absl::IsCancelled(group.status())) {
    return group.status();
  }
  if (!group.ok()) {
    if (!FakeStorageDriver::IsOpen(group.status())) {
      Change(key, [](Json& object) {
        EraseJson(object, {"metadata", "annotations", kGroupBeingCreated});
      });
    }
    return FailContent(key,
                       absl::StrCat(failed, "failed to take group snapshot of the volumes [",
                                    absl::StrJoin(volumes, " "), "]: ", Quoted(group.status())));
  }
  Json members = Json::array();
  for (const FakeStorageDriver::Snapshot& member : group->members) {
    Json info = {{"volumeHandle", member.volume}, {"snapshotHandle", member.handle}};
    if (group_list == "volumeSnapshotInfoList") {
      info["creationTime"] = member.cut_at_nanoseconds;
      info["restoreSize"] = member.size_bytes;
      info["readyToUse"] = member.ready;
    }
    members.push_back(info);
  }
  Change(key, [&](Json& object) {
    Json& status = object["status"];
    if (!status.contains("volumeGroupSnapshotHandle")) {
      status["volumeGroupSnapshotHandle"] = group->handle;
    }
    if (!status.contains("readyToUse") || status["readyToUse"] != group->ready) {
      status["readyToUse"] = group->ready;
      if (group->ready) {
        status.erase("error");
      }
    }
    if (!status.contains("creationTime")) {
      status["creationTime"] =
          SecondsOf(group->members.empty() ? absl::GetCurrentTimeNanos()
                                           : group->members[0].cut_at_nanoseconds);
    }
    if (!status.contains(group_list)) {
      status[group_list] = members;
    }
  });
  if (const auto now = api_.Find(key); group->ready || IsToGo(now)) {
    looked_at_by_sidecar = nullptr;  // It may have been deleted meanwhile: one more look.
  }
  Change(key, [](Json& object) {
    EraseJson(object, {"metadata", "annotations", kGroupBeingCreated});
  });
  return group->ready ? absl::OkStatus() : absl::UnavailableError("not ready yet");
}

// --- csi-provisioner and the binder

void FakeSnapshotCluster::RecordPod(const Json& pod) {
  const Json* volumes = FindJson(pod, {"spec", "volumes"});
  for (const Json& volume : volumes == nullptr ? Json::array() : *volumes) {
    if (const std::string claim = Text(volume, {"persistentVolumeClaim", "claimName"});
        !claim.empty()) {
      Enqueue(Part::kClaim, Namespace(pod), claim);
    }
  }
}

bool FakeSnapshotCluster::IsUsedByPod(const Json& claim) const {
  return api_.Any(PodType(), [&](const Json& pod) {
    const Json* volumes = FindJson(pod, {"spec", "volumes"});
    return volumes != nullptr && Namespace(pod) == Namespace(claim) &&
           !Text(pod, {"spec", "nodeName"}).empty() &&
           std::any_of(volumes->begin(), volumes->end(), [&](const Json& volume) {
             return Text(volume, {"persistentVolumeClaim", "claimName"}) == Name(claim);
           });
  });
}

absl::Status FakeSnapshotCluster::SyncClaim(const Json& claim) {
  if (protects_volumes_ && BeingDeleted(claim) && HasFinalizer(claim, kClaimProtection) &&
      !IsUsedByPod(claim)) {
    Change(ClaimKey(Namespace(claim), Name(claim)),
           [](Json& object) { DropFinalizer(object, kClaimProtection); });
  }
  if (Text(claim, {"status", "phase"}) == "Bound" || BeingDeleted(claim)) {
    return absl::OkStatus();
  }
  const std::string volume_name = Text(claim, {"spec", "volumeName"});
  if (!volume_name.empty()) {
    if (const auto volume = api_.Find(VolumeKey(volume_name)); volume.has_value()) {
      SyncVolume(*volume);
    }
    return absl::OkStatus();
  }
  if (FindJson(claim, {"spec", "selector"}) != nullptr || !provisioner_runs) {
    return absl::OkStatus();
  }
  const auto storage_class =
      api_.Find({StorageClassType(), "", Text(claim, {"spec", "storageClassName"})});
  if (strict && (!storage_class.has_value() ||
                 (Text(*storage_class, {"volumeBindingMode"}) == "WaitForFirstConsumer" &&
                  Annotation(claim, objects::kSelectedNodeAnnotation).empty()))) {
    return absl::OkStatus();
  }
  return Provision(claim);
}

// The handle of the snapshot that a claim is to be filled from; "" where none exists.
absl::StatusOr<std::string> FakeSnapshotCluster::SourceOf(const Json& claim) const {
  if (Text(claim, {"spec", "dataSource", "kind"}) != "VolumeSnapshot") {
    return "";
  }
  const std::string name = Text(claim, {"spec", "dataSource", "name"});
  const auto snapshot = api_.Find(VolumeSnapshotKey(Namespace(claim), name));
  const auto content =
      snapshot.has_value()
          ? api_.Find(VolumeSnapshotContentKey(support::BoundContentName(*snapshot)))
          : std::nullopt;
  if (content.has_value() && support::ReadyToUse(*snapshot)) {
    return support::SnapshotHandle(*content);
  }
  if (!strict) {
    return content.has_value() ? support::SnapshotHandle(*content) : "";
  }
  return absl::FailedPreconditionError(
      snapshot.has_value()
          ? absl::StrCat("error getting handle for DataSource Type VolumeSnapshot by Name ", name,
                         ": snapshot ", name, " is not Ready")
          : absl::StrCat("error getting handle for DataSource Type VolumeSnapshot by Name ", name,
                         ": error getting snapshot ", name, " from api server"));
}

// What csi-provisioner finds wrong before it asks the driver.
absl::Status FakeSnapshotCluster::CheckRequest(const Json& claim) const {
  const std::string attributes = Text(claim, {"spec", "volumeAttributesClassName"});
  if (!attributes.empty() &&
      !api_.Find({VolumeAttributesClassType(), "", attributes}).has_value()) {
    return absl::NotFoundError(
        absl::StrCat("volumeattributesclasses.storage.k8s.io \"", attributes, "\" not found"));
  }
  return driver_.CheckModes(claim["spec"]["accessModes"].get<std::vector<std::string>>(),
                            Text(claim, {"spec", "volumeMode"}) == "Block");
}

absl::Status FakeSnapshotCluster::Provision(const Json& claim) {
  const absl::StatusOr<std::string> source = SourceOf(claim);
  const std::string name = absl::StrCat("pvc-", Uid(claim));
  const std::string handle = absl::StrCat("handle-of-", name);
  absl::Status made = source.ok() ? CheckRequest(claim) : source.status();
  if (made.ok()) {
    made = driver_.CreateVolume(
        handle, *source,
        ParseQuantity(Text(claim, {"spec", "resources", "requests", "storage"})).value_or(0));
  }
  if (!made.ok()) {
    if (!absl::IsCancelled(made)) {
      RefuseVolume(claim,
                   absl::StrCat("failed to provision volume with StorageClass \"",
                                Text(claim, {"spec", "storageClassName"}), "\": ", made.message()));
    }
    return made;
  }
  if (on_volume && !source->empty()) {
    on_volume(claim, handle, *source);
  }
  Json volume = {{"metadata",
                  {{"name", name},
                   {"labels", {{"made-by", "provisioner"}}},
                   {"annotations", {{"pv.kubernetes.io/provisioned-by", driver_name}}}}}};
  volume["spec"] = {
      {"accessModes", claim["spec"]["accessModes"]},
      {"capacity", {{"storage", Text(claim, {"spec", "resources", "requests", "storage"})}}},
      {"claimRef", {{"namespace", Namespace(claim)}, {"name", Name(claim)}, {"uid", Uid(claim)}}},
      {"csi",
       {{"driver", driver_name},
        {"fsType", "ext4"},
        {"volumeAttributes",
         {{"pool", "one"},
          {"storage.kubernetes.io/csiProvisionerIdentity", absl::StrCat("1-2-", driver_name)}}},
        {"volumeHandle", handle}}},
      {"persistentVolumeReclaimPolicy", reclaim_policy},
      {"storageClassName", Text(claim, {"spec", "storageClassName"})},
      {"volumeMode", Text(claim, {"spec", "volumeMode"})}};
  if (const Json* const attributes = FindJson(claim, {"spec", "volumeAttributesClassName"});
      attributes != nullptr) {
    volume["spec"]["volumeAttributesClassName"] = *attributes;
  }
  if (fills_when_bound) {
    api_.Seed({"storage.k8s.io", "v1", "csidrivers", "CSIDriver", false},
              {{"metadata",
                {{"name", driver_name},
                 {"annotations", {{objects::kFilledWhenBoundAnnotation, "true"}}}}}});
  }
  Make(PersistentVolumeType(), volume);
  Bind(ClaimKey(Namespace(claim), Name(claim)), name);
  return absl::OkStatus();
}

void FakeSnapshotCluster::RefuseVolume(const Json& claim, const std::string& message) {
  api_.Seed(
      {"", "v1", "events", "Event", true},
      {{"metadata",
        {{"name", absl::StrCat(Name(claim), ".", Uid(claim))}, {"namespace", Namespace(claim)}}},
       {"involvedObject", {{"uid", Uid(claim)}}},
       {"reason", "ProvisioningFailed"},
       {"message", message}});
}

void FakeSnapshotCluster::Bind(const ObjectKey& claim_key, const std::string& volume_name) {
  std::string claim_uid;
  Change(claim_key, [&](Json& claim) {
    claim["spec"]["volumeName"] = volume_name;
    SetJson(claim, {"status", "phase"}, "Bound");
    claim_uid = Uid(claim);
  });
  Change(VolumeKey(volume_name), [&](Json& volume) {
    volume["spec"]["claimRef"]["uid"] = claim_uid;
    SetJson(volume, {"status", "phase"}, "Bound");
  });
}

void FakeSnapshotCluster::SyncVolume(const Json& volume) {
  if (protects_volumes_ && BeingDeleted(volume) && HasFinalizer(volume, kVolumeProtection) &&
      Text(volume, {"status", "phase"}) != "Bound") {
    Change(VolumeKey(Name(volume)), [](Json& object) { DropFinalizer(object, kVolumeProtection); });
    return;
  }
  const std::string space = Text(volume, {"spec", "claimRef", "namespace"});
  const std::string name = Text(volume, {"spec", "claimRef", "name"});
  const std::string uid = Text(volume, {"spec", "claimRef", "uid"});
  if (Text(volume, {"status", "phase"}) == "Bound" && !uid.empty()) {
    return;
  }
  const auto claim = api_.Find(ClaimKey(space, name));
  if (!uid.empty() && (!claim.has_value() || Uid(*claim) != uid)) {
    Reclaim(volume);
    return;
  }
  if (uid.empty() && !name.empty() && Text(volume, {"status", "phase"}) == "Released") {
    Change(VolumeKey(Name(volume)), [](Json& object) {
      SetJson(object, {"status", "phase"}, "Available");
    });
  }
  if (!claim.has_value() || Text(*claim, {"status", "phase"}) == "Bound" ||
      Text(*claim, {"spec", "volumeMode"}) != Text(volume, {"spec", "volumeMode"})) {
    return;
  }
  if (binder_runs && (uid.empty() || uid == Uid(*claim))) {
    Bind(ClaimKey(space, name), Name(volume));
  }
}

// A volume whose claim is gone: kept, or deleted by the provisioner that made it.
void FakeSnapshotCluster::Reclaim(const Json& volume) {
  const ObjectKey key = VolumeKey(Name(volume));
  if (Text(volume, {"spec", "persistentVolumeReclaimPolicy"}) != "Delete") {
    if (Text(volume, {"status", "phase"}) != "Released") {
      Change(key, [](Json& object) { SetJson(object, {"status", "phase"}, "Released"); });
    }
    return;
  }
  if (Annotation(volume, objects::kProvisionedByAnnotation).empty() || !provisioner_runs) {
    return;
  }
  driver_.DeleteVolume(Text(volume, {"spec", "csi", "volumeHandle"})).IgnoreError();
  api_.Remove(key);
}

void FakeSnapshotCluster::ClaimGone(const Json& claim) {
  const std::string name = Text(claim, {"spec", "volumeName"});
  const auto volume = api_.Find(VolumeKey(name));
  if (name.empty() || !volume.has_value() ||
      Text(*volume, {"spec", "claimRef", "uid"}) != Uid(claim)) {
    return;
  }
  if (Text(*volume, {"spec", "persistentVolumeReclaimPolicy"}) == "Delete") {
    api_.Remove(VolumeKey(name));
    driver_.DeleteVolume(Text(*volume, {"spec", "csi", "volumeHandle"})).IgnoreError();
  } else {
    Change(VolumeKey(name), [](Json& released) {
      SetJson(released, {"status", "phase"}, "Released");
    });
  }
}

int DeleteFreeVolumes(FakeApiClient& api) {
  int deleted = 0;
  for (const Json& volume : api.All(PersistentVolumeType())) {
    const auto claim = api.Find(ClaimKey(GetString(volume, {"spec", "claimRef", "namespace"}),
                                         GetString(volume, {"spec", "claimRef", "name"})));
    if (GetString(volume, {"spec", "persistentVolumeReclaimPolicy"}) == "Delete" &&
        (!claim.has_value() || Uid(*claim) != GetString(volume, {"spec", "claimRef", "uid"}))) {
      api.Remove(VolumeKey(Name(volume)));
      ++deleted;
    }
  }
  return deleted;
}

}  // namespace csidelta::support
