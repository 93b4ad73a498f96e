#include "tests/contract/snapshot_cluster_contract.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_fields.h"
#include "tests/support/typed.h"

namespace csidelta::contract {
namespace {

constexpr char kBeingCreated[] = "snapshot.storage.kubernetes.io/volumesnapshot-being-created";
constexpr char kGroupLabel[] = "contract-group";

bool HasFinalizer(const Json& object, const std::string& finalizer) {
  const Json* all = FindJson(object, {"metadata", "finalizers"});
  return all != nullptr && std::find(all->begin(), all->end(), finalizer) != all->end();
}

bool IsReady(const Json& object) { return support::ReadyToUse(object); }

SnapshotClusterContract::Check ErrorSays(const std::string& text) {
  return
      [text](const Json& object) { return absl::StrContains(support::ErrorMessage(object), text); };
}

k8s::ResourceType GroupType() { return VolumeGroupSnapshotType("v1"); }

}  // namespace

SnapshotClusterContract::SnapshotClusterContract()
    : subject_(GetParam().make()),
      client_(subject_->client()),
      namespace_(subject_->namespace_name()) {}

// What stands behind other objects goes last.
SnapshotClusterContract::~SnapshotClusterContract() {
  subject_->StopFailing();
  const Json policy = {{"spec", {{"deletionPolicy", "Delete"}}}};
  for (const k8s::ObjectKey& content : retained_) {
    client_.Patch({}, content, k8s::PatchKind::kMerge, policy, "").IgnoreError();
  }
  for (auto key = made_.rbegin(); key != made_.rend(); ++key) {
    client_.Delete({}, *key, {}).IgnoreError();
  }
}

bool SnapshotClusterContract::Until(const std::function<bool()>& done) {
  const absl::Time deadline = absl::Now() + subject_->grace_period();
  while (!done()) {
    if (absl::Now() > deadline) {
      return false;
    }
    Clock::Real().SleepFor(absl::Milliseconds(10), {});
  }
  return true;
}

Json SnapshotClusterContract::Await(const k8s::ObjectKey& key, const std::string& what,
                                    const Check& check) {
  absl::StatusOr<Json> object;
  const bool done = Until([&] {
    object = client_.Get({}, key);
    return object.ok() && check(*object);
  });
  EXPECT_TRUE(done) << ToString(key) << " never " << what << ": "
                    << (object.ok() ? DumpJson(*object) : object.status().ToString());
  return done ? *object : Json::object();
}

void SnapshotClusterContract::AwaitGone(const k8s::ObjectKey& key) {
  absl::StatusOr<Json> object;
  EXPECT_TRUE(Until([&] {
    object = client_.Get({}, key);
    return absl::IsNotFound(object.status());
  })) << ToString(key)
      << " stays: " << (object.ok() ? DumpJson(*object) : object.status().ToString());
}

void SnapshotClusterContract::AwaitDriver(const std::string& handle, bool holds) {
  EXPECT_TRUE(Until([&] { return subject_->DriverSnapshots().contains(handle) == holds; }))
      << "the driver " << (holds ? "has not " : "has ") << handle;
}

Json SnapshotClusterContract::ExpectStays(const k8s::ObjectKey& key, const std::string& what,
                                          const Check& check) {
  Clock::Real().SleepFor(subject_->quiet_time(), {});
  const absl::StatusOr<Json> object = client_.Get({}, key);
  EXPECT_TRUE(object.ok() && check(*object))
      << ToString(key) << " is not " << what << ": "
      << (object.ok() ? DumpJson(*object) : object.status().ToString());
  return object.value_or(Json::object());
}

k8s::ObjectKey SnapshotClusterContract::SnapshotKey(const std::string& name) const {
  return VolumeSnapshotKey(namespace_, name);
}

k8s::ObjectKey SnapshotClusterContract::ContentKeyOf(const std::string& snapshot) {
  const Json bound = Await(SnapshotKey(snapshot), "bound", [](const Json& object) {
    return !support::BoundContentName(object).empty();
  });
  return VolumeSnapshotContentKey(support::BoundContentName(bound));
}

Json SnapshotClusterContract::MustCreate(const k8s::ResourceType& type, Json object) {
  object["apiVersion"] =
      type.group.empty() ? type.version : absl::StrCat(type.group, "/", type.version);
  object["kind"] = type.kind;
  const std::string space = type.namespaced ? namespace_ : "";
  const absl::StatusOr<Json> made = client_.Create({}, type, space, object);
  EXPECT_TRUE(made.ok()) << made.status();
  if (made.ok()) {
    made_.push_back({type, space, k8s::Name(*made)});
  }
  return made.value_or(Json::object());
}

void SnapshotClusterContract::MustDelete(const k8s::ObjectKey& key) {
  EXPECT_TRUE(client_.Delete({}, key, {}).ok()) << ToString(key);
}

std::string SnapshotClusterContract::MakeClass(const std::string& policy) {
  return k8s::Name(
      MustCreate(VolumeSnapshotClassType(), {{"metadata", {{"generateName", "contract-"}}},
                                             {"driver", subject_->driver_name()},
                                             {"deletionPolicy", policy}}));
}

std::string SnapshotClusterContract::MakeGroupClass() {
  return k8s::Name(
      MustCreate(VolumeGroupSnapshotClassType("v1"), {{"metadata", {{"generateName", "contract-"}}},
                                                      {"driver", subject_->driver_name()},
                                                      {"deletionPolicy", "Delete"}}));
}

std::string SnapshotClusterContract::MakeClaim(const std::string& name, const std::string& group,
                                               const std::string& from_snapshot) {
  Json claim = {{"metadata", {{"name", name}}},
                {"spec",
                 {{"accessModes", {"ReadWriteOnce"}},
                  {"volumeMode", "Block"},
                  {"storageClassName", subject_->storage_class()},
                  {"resources", {{"requests", {{"storage", "1Mi"}}}}}}}};
  if (!group.empty()) {
    SetJson(claim, {"metadata", "labels", kGroupLabel}, group);
  }
  if (!from_snapshot.empty()) {
    claim["spec"]["dataSource"] = {{"apiGroup", "snapshot.storage.k8s.io"},
                                   {"kind", "VolumeSnapshot"},
                                   {"name", from_snapshot}};
  }
  MustCreate(PersistentVolumeClaimType(), claim);
  const Json bound = Await(ClaimKey(namespace_, name), "bound", [](const Json& object) {
    return GetString(object, {"status", "phase"}) == "Bound";
  });
  const Json volume = Await(VolumeKey(GetString(bound, {"spec", "volumeName"})), "there",
                            [](const Json&) { return true; });
  return GetString(volume, {"spec", "csi", "volumeHandle"});
}

void SnapshotClusterContract::MakeSnapshot(const std::string& name, const std::string& claim,
                                           const std::string& class_name) {
  MustCreate(VolumeSnapshotType(), {{"metadata", {{"name", name}}},
                                    {"spec",
                                     {{"volumeSnapshotClassName", class_name},
                                      {"source", {{"persistentVolumeClaimName", claim}}}}}});
}

Json SnapshotClusterContract::TakeSnapshot(const std::string& name, const std::string& policy) {
  MakeClaim("data");
  MakeSnapshot(name, "data", MakeClass(policy));
  Await(SnapshotKey(name), "ready", IsReady);
  if (policy == "Retain") {
    retained_.push_back(ContentKeyOf(name));
  }
  return Await(ContentKeyOf(name), "ready", IsReady);
}

Json SnapshotClusterContract::TakeGroup(const std::string& name) {
  MustCreate(GroupType(),
             {{"metadata", {{"name", name}}},
              {"spec",
               {{"volumeGroupSnapshotClassName", MakeGroupClass()},
                {"source", {{"selector", {{"matchLabels", {{kGroupLabel, "db"}}}}}}}}}});
  return Await({GroupType(), namespace_, name}, "ready", [](const Json& object) {
    return GetBool(object, {"status", "readyToUse"});
  });
}

std::string SnapshotClusterContract::MakeContent(const std::string& base_name,
                                                 const std::string& handle,
                                                 const std::string& snapshot,
                                                 const std::string& uid, bool finalizer) {
  Json content = {{"metadata", {{"name", absl::StrCat(namespace_, "-", base_name)}}},
                  {"spec",
                   {{"driver", subject_->driver_name()},
                    {"deletionPolicy", "Delete"},
                    {"source", {{"snapshotHandle", handle}}},
                    {"volumeSnapshotRef", {{"namespace", namespace_}, {"name", snapshot}}}}}};
  if (!uid.empty()) {
    content["spec"]["volumeSnapshotRef"]["uid"] = uid;
  }
  if (finalizer) {
    content["metadata"]["finalizers"] = {objects::kContentBoundProtectionFinalizer};
  }
  return k8s::Name(MustCreate(VolumeSnapshotContentType(), content));
}

TEST_P(SnapshotClusterContract, ASnapshotIsBoundAndReady) {
  const std::string volume = MakeClaim("data");
  const std::string class_name = MakeClass("Delete");
  MakeSnapshot("snap", "data", class_name);
  const Json snapshot = Await(SnapshotKey("snap"), "ready", IsReady);
  const Json content = Await(ContentKeyOf("snap"), "ready", IsReady);
  EXPECT_EQ(k8s::Name(content), absl::StrCat("snapcontent-", k8s::Uid(snapshot)));
  EXPECT_EQ(GetString(content, {"spec", "driver"}), subject_->driver_name());
  EXPECT_EQ(GetString(content, {"spec", "deletionPolicy"}), "Delete");
  EXPECT_EQ(GetString(content, {"spec", "source", "volumeHandle"}), volume);
  EXPECT_EQ(GetString(content, {"spec", "volumeSnapshotClassName"}), class_name);
  EXPECT_EQ(GetString(content, {"spec", "volumeSnapshotRef", "uid"}), k8s::Uid(snapshot));
  EXPECT_GT(GetInt(content, {"status", "creationTime"}), 0);
  EXPECT_EQ(GetInt(content, {"status", "restoreSize"}), 1 << 20);
  EXPECT_EQ(k8s::Annotation(content, kBeingCreated), "");
  EXPECT_NE(GetString(snapshot, {"status", "creationTime"}), "");
  EXPECT_NE(GetString(snapshot, {"status", "restoreSize"}), "");
  AwaitDriver(support::SnapshotHandle(content), true);
}

TEST_P(SnapshotClusterContract, BothAreProtectedWhileBound) {
  const Json content = TakeSnapshot("snap");
  EXPECT_TRUE(HasFinalizer(content, objects::kContentBoundProtectionFinalizer));
  Await(SnapshotKey("snap"), "protected", [](const Json& snapshot) {
    return HasFinalizer(snapshot, objects::kSnapshotBoundProtectionFinalizer) &&
           HasFinalizer(snapshot, objects::kSnapshotSourceProtectionFinalizer);
  });
  Await(ClaimKey(namespace_, "data"), "released", [](const Json& claim) {
    return !HasFinalizer(claim, "snapshot.storage.kubernetes.io/pvc-as-source-protection");
  });
}

TEST_P(SnapshotClusterContract, ARetainedSnapshotIsNotBoundProtected) {
  TakeSnapshot("snap", "Retain");
  ExpectStays(SnapshotKey("snap"), "without bound protection", [](const Json& snapshot) {
    return !HasFinalizer(snapshot, objects::kSnapshotBoundProtectionFinalizer) &&
           HasFinalizer(snapshot, objects::kSnapshotSourceProtectionFinalizer);
  });
}

TEST_P(SnapshotClusterContract, DeletingTakesContentAndSnapshotAlong) {
  const Json content = TakeSnapshot("snap");
  MustDelete(SnapshotKey("snap"));
  AwaitGone(VolumeSnapshotContentKey(k8s::Name(content)));
  AwaitGone(SnapshotKey("snap"));
  AwaitDriver(support::SnapshotHandle(content), false);
}

TEST_P(SnapshotClusterContract, RetainKeepsContentAndSnapshot) {
  const Json content = TakeSnapshot("snap", "Retain");
  MustDelete(SnapshotKey("snap"));
  AwaitGone(SnapshotKey("snap"));
  const k8s::ObjectKey key = VolumeSnapshotContentKey(k8s::Name(content));
  ExpectStays(key, "marked and kept", [](const Json& object) {
    return !k8s::BeingDeleted(object) &&
           k8s::Annotation(object, objects::kContentBeingDeletedAnnotation) == "yes";
  });
  EXPECT_TRUE(subject_->DriverSnapshots().contains(support::SnapshotHandle(content)));
  // What is marked goes when it is deleted; under Retain the driver keeps its snapshot.
  MustDelete(key);
  AwaitGone(key);
  EXPECT_TRUE(subject_->DriverSnapshots().contains(support::SnapshotHandle(content)));
  MakeContent("end", support::SnapshotHandle(content), "none", "", true);  // Nothing is to be left.
  const k8s::ObjectKey end = VolumeSnapshotContentKey(absl::StrCat(namespace_, "-end"));
  Await(end, "ready", IsReady);
  MustDelete(end);
  AwaitDriver(support::SnapshotHandle(content), false);
}

TEST_P(SnapshotClusterContract, ABoundContentWaitsForItsSnapshot) {
  const Json content = TakeSnapshot("snap");
  const k8s::ObjectKey key = VolumeSnapshotContentKey(k8s::Name(content));
  MustDelete(key);
  ExpectStays(key, "being deleted", k8s::BeingDeleted);
  EXPECT_TRUE(subject_->DriverSnapshots().contains(support::SnapshotHandle(content)));
  MustDelete(SnapshotKey("snap"));
  AwaitGone(key);
  AwaitGone(SnapshotKey("snap"));
  AwaitDriver(support::SnapshotHandle(content), false);
}

TEST_P(SnapshotClusterContract, AnExistingSnapshotIsBoundByBothSides) {
  const std::string handle = support::SnapshotHandle(TakeSnapshot("snap"));
  const std::string name = MakeContent("static", handle, "copy", "", false);
  MustCreate(VolumeSnapshotType(), {{"metadata", {{"name", "copy"}}},
                                    {"spec", {{"source", {{"volumeSnapshotContentName", name}}}}}});
  const Json copy = Await(SnapshotKey("copy"), "ready", IsReady);
  EXPECT_EQ(support::BoundContentName(copy), name);
  const Json content = Await(VolumeSnapshotContentKey(name), "ready", IsReady);
  EXPECT_EQ(support::SnapshotHandle(content), handle);
  EXPECT_EQ(GetString(content, {"spec", "volumeSnapshotRef", "uid"}), k8s::Uid(copy));
  Await(VolumeSnapshotContentKey(name), "protected", [](const Json& object) {
    return HasFinalizer(object, objects::kContentBoundProtectionFinalizer);
  });
}

TEST_P(SnapshotClusterContract, AnUnboundContentWithFinalizerTakesItsSnapshotAlong) {
  const std::string handle = support::SnapshotHandle(TakeSnapshot("snap", "Retain"));
  const k8s::ObjectKey key =
      VolumeSnapshotContentKey(MakeContent("unbound", handle, "none", "", true));
  Await(key, "ready", IsReady);
  MustDelete(key);
  AwaitGone(key);
  AwaitDriver(handle, false);
}

// By which we know that the driver was asked, and agreed.
TEST_P(SnapshotClusterContract, AContentThatIsHeldTellsThatItsSnapshotWasDeleted) {
  const std::string handle = support::SnapshotHandle(TakeSnapshot("snap", "Retain"));
  const k8s::ObjectKey key =
      VolumeSnapshotContentKey(MakeContent("held", handle, "none", "", true));
  const auto set_finalizers = [&](const Json& finalizers) {
    const Json patch = {{"metadata", {{"finalizers", finalizers}}}};
    EXPECT_TRUE(client_.Patch({}, key, k8s::PatchKind::kMerge, patch, "").ok());
  };
  set_finalizers(
      Json::array({objects::kContentBoundProtectionFinalizer, objects::kDeletionFinalizer}));
  Await(key, "ready", IsReady);
  MustDelete(key);
  Await(key, "deleted but held", [](const Json& object) {
    const Json* const status = FindJson(object, {"status"});
    return !HasFinalizer(object, objects::kContentBoundProtectionFinalizer) &&
           HasFinalizer(object, objects::kDeletionFinalizer) && status != nullptr &&
           status->is_object() && !status->contains("snapshotHandle") &&
           !status->contains("readyToUse");
  });
  AwaitDriver(handle, false);
  set_finalizers(Json::array());
  AwaitGone(key);
}

// An error of a look that began before there was a status costs the handle. Written again, it is
// deleted after all, although the sidecar has no finalizer on the content any more.
TEST_P(SnapshotClusterContract, AHandleThatIsWrittenToAHeldContentIsDeleted) {
  const std::string handle = support::SnapshotHandle(TakeSnapshot("snap", "Retain"));
  subject_->Fail("ListSnapshots", handle, "UNAVAILABLE", "the array is busy");
  const k8s::ObjectKey key =
      VolumeSnapshotContentKey(MakeContent("held", handle, "none", "", true));
  const auto patch = [&](const Json& change, const char* subresource) {
    EXPECT_TRUE(client_.Patch({}, key, k8s::PatchKind::kMerge, change, subresource).ok());
  };
  patch({{"metadata",
          {{"finalizers", Json::array({objects::kContentBoundProtectionFinalizer,
                                       objects::kDeletionFinalizer})}}}},
        "");
  Await(key, "in error", ErrorSays("the array is busy"));
  MustDelete(key);
  Await(key, "held by us alone", [](const Json& object) {
    return !HasFinalizer(object, objects::kContentBoundProtectionFinalizer);
  });
  EXPECT_TRUE(subject_->DriverSnapshots().contains(handle));
  patch({{"status", {{"snapshotHandle", handle}}}}, "status");
  AwaitDriver(handle, false);
  patch({{"metadata", {{"finalizers", Json::array()}}}}, "");
  AwaitGone(key);
}

TEST_P(SnapshotClusterContract, AContentWithoutFinalizerLeavesItsSnapshot) {
  const std::string handle = support::SnapshotHandle(TakeSnapshot("snap"));
  const k8s::ObjectKey key =
      VolumeSnapshotContentKey(MakeContent("bare", handle, "none", "", false));
  Await(key, "ready", IsReady);
  MustDelete(key);
  AwaitGone(key);
  Clock::Real().SleepFor(subject_->quiet_time(), {});
  EXPECT_TRUE(subject_->DriverSnapshots().contains(handle));
}

TEST_P(SnapshotClusterContract, AContentOfAMissingSnapshotWaitsForTheMark) {
  const std::string handle = support::SnapshotHandle(TakeSnapshot("snap", "Retain"));
  const k8s::ObjectKey key = VolumeSnapshotContentKey(
      MakeContent("foreign", handle, "gone", "00000000-0000-4000-8000-00000000beef", true));
  Await(key, "ready", IsReady);
  MustDelete(key);
  ExpectStays(key, "being deleted", k8s::BeingDeleted);
  EXPECT_TRUE(subject_->DriverSnapshots().contains(handle));
  const Json mark = {
      {"metadata", {{"annotations", {{objects::kContentBeingDeletedAnnotation, "yes"}}}}}};
  EXPECT_TRUE(client_.Patch({}, key, k8s::PatchKind::kMerge, mark, "").ok());
  AwaitGone(key);
  AwaitDriver(handle, false);
}

TEST_P(SnapshotClusterContract, ARefusedCreationIsToldByBoth) {
  const std::string volume = MakeClaim("data");
  subject_->Fail("CreateSnapshot", volume, "INTERNAL", "the array is on fire");
  MakeSnapshot("snap", "data", MakeClass("Delete"));
  const k8s::ObjectKey key = ContentKeyOf("snap");
  const Json content = Await(key, "in error", ErrorSays("the array is on fire"));
  EXPECT_TRUE(absl::StrContains(support::ErrorMessage(content),
                                absl::StrCat("failed to take snapshot of the volume ", volume,
                                             ": \"rpc error: code = Internal desc = ")));
  EXPECT_EQ(support::SnapshotHandle(content), "");
  EXPECT_FALSE(support::ReadyToUse(content));
  Await(SnapshotKey("snap"), "in error", ErrorSays("the array is on fire"));
  subject_->StopFailing();
  const Json ready = Await(SnapshotKey("snap"), "ready", IsReady);
  Await(SnapshotKey("snap"), "without error",
        [](const Json& snapshot) { return support::ErrorMessage(snapshot).empty(); });
  EXPECT_EQ(support::ErrorMessage(Await(key, "ready", IsReady)), "");
}

TEST_P(SnapshotClusterContract, AContentIsKeptWhileItsCreationIsOpen) {
  const std::string volume = MakeClaim("data");
  subject_->Fail("CreateSnapshot", volume, "UNAVAILABLE", "no route to the array");
  MakeSnapshot("snap", "data", MakeClass("Delete"));
  const k8s::ObjectKey key = ContentKeyOf("snap");
  Await(key, "in error", ErrorSays("no route to the array"));
  const Check is_open = [](const Json& content) {
    return k8s::Annotation(content, kBeingCreated) == "yes";
  };
  Await(key, "being created", is_open);
  MustDelete(SnapshotKey("snap"));
  ExpectStays(key, "being created", is_open);
  subject_->StopFailing();
  AwaitGone(key);
  AwaitGone(SnapshotKey("snap"));
}

TEST_P(SnapshotClusterContract, ARefusedCreationIsOver) {
  const std::string volume = MakeClaim("data");
  subject_->Fail("CreateSnapshot", volume, "INTERNAL", "never");
  MakeSnapshot("snap", "data", MakeClass("Delete"));
  const k8s::ObjectKey key = ContentKeyOf("snap");
  Await(key, "in error and not being created", [](const Json& content) {
    return !support::ErrorMessage(content).empty() &&
           k8s::Annotation(content, kBeingCreated).empty();
  });
  MustDelete(SnapshotKey("snap"));
  AwaitGone(key);
  AwaitGone(SnapshotKey("snap"));
}

TEST_P(SnapshotClusterContract, ARefusedDeletionKeepsTheContent) {
  const Json content = TakeSnapshot("snap");
  const std::string handle = support::SnapshotHandle(content);
  subject_->Fail("DeleteSnapshot", handle, "FAILED_PRECONDITION", "kept by the array");
  MustDelete(SnapshotKey("snap"));
  const k8s::ObjectKey key = VolumeSnapshotContentKey(k8s::Name(content));
  Await(key, "being deleted", k8s::BeingDeleted);
  ExpectStays(key, "with its handle and finalizer", [&](const Json& object) {
    return support::SnapshotHandle(object) == handle &&
           HasFinalizer(object, objects::kContentBoundProtectionFinalizer) &&
           support::ErrorMessage(object).empty();
  });
  EXPECT_TRUE(subject_->DriverSnapshots().contains(handle));
  subject_->StopFailing();
  AwaitGone(key);
  AwaitGone(SnapshotKey("snap"));
  AwaitDriver(handle, false);
}

TEST_P(SnapshotClusterContract, ASnapshotNamesWhatItLacks) {
  MakeClaim("data");
  MakeSnapshot("classless", "data", "there-is-no-such-class");
  Await(SnapshotKey("classless"), "in error", ErrorSays("there-is-no-such-class"));
  MakeSnapshot("claimless", "there-is-no-such-claim", MakeClass("Delete"));
  Await(SnapshotKey("claimless"), "in error", ErrorSays("Failed to create snapshot content"));
  MustCreate(VolumeSnapshotType(),
             {{"metadata", {{"name", "contentless"}}},
              {"spec", {{"source", {{"volumeSnapshotContentName", "not-there"}}}}}});
  Await(SnapshotKey("contentless"), "in error", ErrorSays("VolumeSnapshotContent is missing"));
}

TEST_P(SnapshotClusterContract, AnExistingSnapshotThatIsGoneIsAnError) {
  const std::string name = MakeContent("lost", "there-is-no-such-handle", "lost", "", false);
  MustCreate(VolumeSnapshotType(), {{"metadata", {{"name", "lost"}}},
                                    {"spec", {{"source", {{"volumeSnapshotContentName", name}}}}}});
  Await(VolumeSnapshotContentKey(name), "in error",
        ErrorSays(
            "Failed to check and update snapshot content: failed to list snapshot for content "));
  Await(SnapshotKey("lost"), "in error", ErrorSays("failed to list snapshot"));
}

TEST_P(SnapshotClusterContract, AClaimIsMadeOfASnapshot) {
  TakeSnapshot("snap");
  EXPECT_NE(MakeClaim("copy", "", "snap"), "");
}

TEST_P(SnapshotClusterContract, AVolumeIsKeptReservedBoundAgainAndGoesByItsPolicy) {
  const auto is_in = [](const std::string& phase) {
    return [phase](const Json& object) { return GetString(object, {"status", "phase"}) == phase; };
  };
  const auto patch = [this](const k8s::ObjectKey& key, const Json& change) {
    const auto patched = client_.Patch({}, key, k8s::PatchKind::kMerge, change, "");
    EXPECT_TRUE(patched.ok()) << patched.status();
  };
  MakeClaim("data");
  const k8s::ObjectKey claim = ClaimKey(namespace_, "data");
  Json again = Await(claim, "bound", is_in("Bound"));
  const k8s::ObjectKey volume = VolumeKey(GetString(again, {"spec", "volumeName"}));
  patch(volume, {{"spec", {{"persistentVolumeReclaimPolicy", "Retain"}}}});
  MustDelete(claim);
  AwaitGone(claim);
  Await(volume, "kept", is_in("Released"));

  patch(volume, {{"spec", {{"claimRef", {{"uid", nullptr}, {"resourceVersion", nullptr}}}}}});
  Await(volume, "reserved", is_in("Available"));
  again["metadata"] = {{"name", "data"}};
  again.erase("status");
  MustCreate(PersistentVolumeClaimType(), again);
  const Json bound = Await(claim, "bound again", is_in("Bound"));
  Await(volume, "bound to it", [&](const Json& object) {
    return GetString(object, {"spec", "claimRef", "uid"}) == k8s::Uid(bound);
  });

  MustDelete(claim);
  AwaitGone(claim);
  Await(volume, "kept again", is_in("Released"));
  patch(volume, {{"spec", {{"persistentVolumeReclaimPolicy", "Delete"}}}});
  AwaitGone(volume);
}

TEST_P(SnapshotClusterContract, AGroupHasMembersThatGoWithIt) {
  const std::set<std::string> volumes = {MakeClaim("one", "db"), MakeClaim("two", "db")};
  const k8s::ObjectKey key{GroupType(), namespace_, "group"};
  const Json group = TakeGroup("group");
  EXPECT_TRUE(HasFinalizer(group, objects::kGroupSnapshotBoundProtectionFinalizer));
  const k8s::ObjectKey content_key =
      GroupContentKey("v1", support::As<objects::VolumeGroupSnapshot>(group).bound_content());
  const Json content = Await(content_key, "there", [](const Json&) { return true; });
  EXPECT_EQ(k8s::Name(content), absl::StrCat("groupsnapcontent-", k8s::Uid(group)));
  EXPECT_TRUE(HasFinalizer(content, objects::kGroupContentBoundProtectionFinalizer));
  std::set<std::string> found;
  std::string member;
  const auto members = client_.List({}, VolumeSnapshotType(), namespace_, {});
  ASSERT_TRUE(members.ok() && members->items.size() == 2) << members.status();
  for (const Json& snapshot : members->items) {
    member = k8s::Name(snapshot);
    const Json ready = Await(SnapshotKey(member), "a ready member", [](const Json& object) {
      return support::ReadyToUse(object) &&
             support::As<objects::VolumeSnapshot>(object).group_snapshot() == "group";
    });
    EXPECT_TRUE(support::As<objects::VolumeSnapshot>(ready).IsMemberOf(k8s::Uid(group)));
    EXPECT_TRUE(HasFinalizer(ready, objects::kSnapshotInGroupFinalizer));
    const Json own = Await(ContentKeyOf(member), "there", [](const Json&) { return true; });
    EXPECT_EQ(k8s::Annotation(own, objects::kGroupHandleOfMemberAnnotation),
              support::As<objects::VolumeGroupSnapshotContent>(content).handle_or_source());
    EXPECT_EQ(GetString(own, {"status", "volumeGroupSnapshotHandle"}),
              support::As<objects::VolumeGroupSnapshotContent>(content).handle_or_source());
    found.insert(GetString(own, {"spec", "source", "volumeHandle"}));
    AwaitDriver(support::SnapshotHandle(own), true);
  }
  EXPECT_EQ(found, volumes);
  MustDelete(SnapshotKey(member));
  ExpectStays(SnapshotKey(member), "being deleted", k8s::BeingDeleted);
  MustDelete(key);
  AwaitGone(key);
  AwaitGone(content_key);
  AwaitGone(SnapshotKey(member));
  for (const objects::GroupMember& one :
       support::As<objects::VolumeGroupSnapshotContent>(content).members()) {
    AwaitDriver(one.snapshot_handle, false);
  }
}

TEST_P(SnapshotClusterContract, AGroupStaysUntilTheDriverHasDeletedIt) {
  MakeClaim("one", "db");
  const k8s::ObjectKey key{GroupType(), namespace_, "group"};
  const Json group = TakeGroup("group");
  const k8s::ObjectKey content_key =
      GroupContentKey("v1", support::As<objects::VolumeGroupSnapshot>(group).bound_content());
  const Json content = Await(content_key, "there", [](const Json&) { return true; });
  subject_->Fail("DeleteVolumeGroupSnapshot",
                 support::As<objects::VolumeGroupSnapshotContent>(content).handle_or_source(),
                 "FAILED_PRECONDITION", "kept by the array");
  MustDelete(key);
  Await(content_key, "being deleted", k8s::BeingDeleted);
  ExpectStays(content_key, "being deleted", [](const Json& object) {
    return k8s::BeingDeleted(object) &&
           !k8s::Annotation(object, objects::kGroupBeingDeletedAnnotation).empty();
  });
  ExpectStays(key, "being deleted", [](const Json& object) {
    return k8s::BeingDeleted(object) &&
           HasFinalizer(object, objects::kGroupSnapshotBoundProtectionFinalizer);
  });
  subject_->StopFailing();
  AwaitGone(content_key);
  AwaitGone(key);
}

TEST_P(SnapshotClusterContract, AGroupOfNoClaimIsAnError) {
  MustCreate(GroupType(),
             {{"metadata", {{"name", "group"}}},
              {"spec",
               {{"volumeGroupSnapshotClassName", MakeGroupClass()},
                {"source", {{"selector", {{"matchLabels", {{kGroupLabel, "none"}}}}}}}}}});
  Await({GroupType(), namespace_, "group"}, "in error",
        ErrorSays("label selector contract-group=none for group snapshot not applied to any PVC"));
}

}  // namespace csidelta::contract
