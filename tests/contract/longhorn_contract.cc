#include "tests/contract/longhorn_contract.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/rfc3339.h"
#include "k8s/object.h"
#include "tests/support/status_matchers.h"

// Names of the cases' sections are those of the table in tests/support/longhorn/README.md. The
// suite shares nothing with the stand-in, so that it also judges that.
namespace csidelta::contract {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::HasSubstr;

// The longest that a step takes: an attachment, and two rounds of the engine monitor.
constexpr absl::Duration kGracePeriod = absl::Seconds(60);
constexpr absl::Duration kStep = absl::Milliseconds(100);
// Longer than the reaction to one round of the monitor, and shorter than the time to the next.
constexpr absl::Duration kSettleTime = absl::Seconds(2);
// Longer than a round of the monitor and the reaction to it.
constexpr absl::Duration kQuietTime = absl::Seconds(12);
// A client may ask again what failed with 500; an answer is not awaited for longer than this.
constexpr absl::Duration kCallTimeMax = absl::Seconds(10);
constexpr char kVolumeLabel[] = "longhornvolume";
constexpr char kFinalizer[] = "longhorn.io";
constexpr char kHead[] = "volume-head";
constexpr char kMutatorDenied[] = "admission webhook \"mutator.longhorn.io\" denied the request: ";
constexpr char kValidatorDenied[] =
    "admission webhook \"validator.longhorn.io\" denied the request: ";

k8s::ResourceType LonghornType(const char* plural, const char* kind) {
  return {"longhorn.io", "v1beta2", plural, kind, true};
}

const k8s::ResourceType kPodClaims{"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim",
                                   true};

CallContext Soon() { return CallContext().WithTimeout(kCallTimeMax); }

bool IsReady(const Json& snapshot) { return GetBool(snapshot, {"status", "readyToUse"}); }
bool IsRequested(const Json& snapshot) {
  return !GetString(snapshot, {"status", "requestedTime"}).empty();
}
bool HasAnyStatus(const Json& snapshot) {
  const Json* const status = FindJson(snapshot, {"status"});
  return status != nullptr && !status->empty();
}
bool HasFinalizer(const Json& snapshot) {
  const Json* const all = FindJson(snapshot, {"metadata", "finalizers"});
  return all != nullptr && std::find(all->begin(), all->end(), kFinalizer) != all->end();
}
LonghornContract::Check ErrorHas(const std::string& text) {
  return [text](const Json& snapshot) {
    return absl::StrContains(GetString(snapshot, {"status", "error"}), text);
  };
}
// It was deleted, is marked in the engine, and waits for a newer one.
bool Lingers(const Json& snapshot) {
  return k8s::BeingDeleted(snapshot) && GetBool(snapshot, {"status", "markRemoved"}) &&
         !IsReady(snapshot);
}

}  // namespace

LonghornContract::LonghornContract()
    : subject_(GetParam().make()),
      client_(subject_->client()),
      namespace_(subject_->namespace_name()),
      attached_(subject_->attached_volume()),
      detached_(subject_->detached_volume()) {}

// The newest first, so that an older one does not wait for it; volumes of the tests last.
LonghornContract::~LonghornContract() {
  if (manager_is_stopped_) {
    MustRun("manager-start");
  }
  for (auto key = made_.rbegin(); key != made_.rend(); ++key) {
    client_.Delete(Soon(), *key, {}).IgnoreError();
  }
}

bool LonghornContract::Has(const std::vector<std::string>& commands) {
  return std::all_of(commands.begin(), commands.end(),
                     [this](const std::string& command) { return subject_->HasCommand(command); });
}

void LonghornContract::MustRun(const std::string& command, const std::string& volume) {
  EXPECT_THAT(subject_->RunCommand(command, volume), IsOk()) << command << " " << volume;
  manager_is_stopped_ =
      command == "manager-stop" || (manager_is_stopped_ && command != "manager-start");
}

Json LonghornContract::EngineSnapshots(const std::string& volume) {
  const absl::StatusOr<std::string> printed = subject_->RunCommand("engine-snapshots", volume);
  EXPECT_THAT(printed, IsOk()) << volume;
  absl::StatusOr<Json> snapshots = ParseJsonObject(printed.value_or(""));
  EXPECT_THAT(snapshots, IsOk()) << printed.value_or("");
  Json found = snapshots.value_or(Json::object());
  found.erase(kHead);
  return found;
}

bool LonghornContract::EngineHas(const std::string& volume, const std::string& name) {
  return EngineSnapshots(volume).contains(name);
}

bool LonghornContract::Until(const std::function<bool()>& done) {
  const absl::Time deadline = subject_->Now() + kGracePeriod;
  while (!done()) {
    if (subject_->Now() > deadline) {
      return false;
    }
    subject_->Pass(kStep);
  }
  return true;
}

Json LonghornContract::Await(const std::string& name, const std::string& what, const Check& check) {
  absl::StatusOr<Json> object;
  const bool done = Until([&] {
    object = Get(SnapshotKey(name));
    return object.ok() && check(*object);
  });
  EXPECT_TRUE(done) << name << " never " << what << ": "
                    << (object.ok() ? DumpJson(*object) : object.status().ToString());
  return done ? *object : Json::object();
}

Json LonghornContract::AwaitReady(const std::string& name) { return Await(name, "ready", IsReady); }

void LonghornContract::AwaitGone(const k8s::ObjectKey& key) {
  absl::StatusOr<Json> object;
  EXPECT_TRUE(Until([&] {
    object = Get(key);
    return absl::IsNotFound(object.status());
  })) << ToString(key)
      << " stays: " << (object.ok() ? DumpJson(*object) : object.status().ToString());
}

void LonghornContract::ExpectStays(const std::string& name, absl::Duration time,
                                   const std::string& what, const Check& check) {
  subject_->Pass(time);
  const absl::StatusOr<Json> object = Get(SnapshotKey(name));
  EXPECT_TRUE(object.ok() && check(*object))
      << name << " is not " << what << ": "
      << (object.ok() ? DumpJson(*object) : object.status().ToString());
}

k8s::ObjectKey LonghornContract::SnapshotKey(const std::string& name) const {
  return {LonghornType("snapshots", "Snapshot"), namespace_, name};
}

k8s::ObjectKey LonghornContract::VolumeKey(const std::string& name) const {
  return {LonghornType("volumes", "Volume"), namespace_, name};
}

std::string LonghornContract::NewName(const std::string& base_name) {
  return absl::StrCat(base_name, "-", absl::Hex(Random::Real().Below(uint64_t{1} << 40)));
}

Json LonghornContract::SnapshotJson(const std::string& name, const std::string& volume,
                                    bool create_snapshot) const {
  return {{"apiVersion", "longhorn.io/v1beta2"},
          {"kind", "Snapshot"},
          {"metadata", {{"name", name}}},
          {"spec",
           {{"volume", volume},
            {"createSnapshot", create_snapshot},
            {"labels", {{"contract", "yes"}}}}}};
}

absl::StatusOr<Json> LonghornContract::Create(const Json& snapshot,
                                              const std::string& namespace_name) {
  const std::string space = namespace_name.empty() ? namespace_ : namespace_name;
  const k8s::ResourceType type = LonghornType("snapshots", "Snapshot");
  absl::StatusOr<Json> made = client_.Create(Soon(), type, space, snapshot);
  if (made.ok()) {
    made_.push_back({type, space, k8s::Name(*made)});
  }
  return made;
}

Json LonghornContract::MustCreate(const std::string& name, const std::string& volume,
                                  bool create_snapshot) {
  const absl::StatusOr<Json> made = Create(SnapshotJson(name, volume, create_snapshot));
  EXPECT_THAT(made, IsOk());
  return made.value_or(Json::object());
}

std::string LonghornContract::Take(const std::string& base_name, const std::string& volume) {
  const std::string name = NewName(base_name);
  MustCreate(name, volume);
  AwaitReady(name);
  return name;
}

absl::StatusOr<Json> LonghornContract::Patch(const k8s::ObjectKey& key, const Json& patch,
                                             const std::string& subresource) {
  return client_.Patch(Soon(), key, k8s::PatchKind::kMerge, patch, subresource);
}

absl::StatusOr<Json> LonghornContract::Get(const k8s::ObjectKey& key) {
  return client_.Get(Soon(), key);
}

absl::Status LonghornContract::Delete(const std::string& name) {
  return client_.Delete(Soon(), SnapshotKey(name), {});
}

void LonghornContract::MustDelete(const std::string& name) {
  EXPECT_THAT(Delete(name), IsOk()) << name;
}

bool LonghornContract::HasTicket(const std::string& volume, const std::string& snapshot) {
  const absl::StatusOr<Json> attachment =
      Get({LonghornType("volumeattachments", "VolumeAttachment"), namespace_, volume});
  EXPECT_THAT(attachment, IsOk());
  return attachment.ok() &&
         FindJson(*attachment, {"spec", "attachmentTickets",
                                absl::StrCat("snapshot-controller-", snapshot)}) != nullptr;
}

std::string LonghornContract::StateOf(const std::string& volume) {
  return GetString(Get(VolumeKey(volume)).value_or(Json()), {"status", "state"});
}

std::string LonghornContract::CreateVolume(const std::string& base_name, const Json& more) {
  const std::string name = NewName(base_name);
  Json volume = {{"apiVersion", "longhorn.io/v1beta2"},
                 {"kind", "Volume"},
                 {"metadata", {{"name", name}}},
                 {"spec",
                  {{"size", "16777216"},
                   {"numberOfReplicas", 1},
                   {"frontend", "blockdev"},
                   {"accessMode", "rwo"},
                   {"dataEngine", "v1"},
                   {"snapshotMaxCount", 250}}}};
  volume["spec"].update(more);
  EXPECT_THAT(client_.Create(Soon(), VolumeKey("").type, namespace_, volume), IsOk());
  made_.push_back(VolumeKey(name));
  return name;
}

std::string LonghornContract::MakeVolume() {
  const std::string name = CreateVolume("contract");
  EXPECT_TRUE(Until([&] { return StateOf(name) == "detached"; })) << name << " never detached";
  MustRun("attach", name);
  EXPECT_TRUE(Until([&] { return StateOf(name) == "attached"; })) << name << " never attached";
  return name;
}

std::string LonghornContract::MakeClone(const std::string& volume, const std::string& snapshot) {
  const std::string name =
      CreateVolume("clone", {{"dataSource", absl::StrCat("snap://", volume, "/", snapshot)}});
  EXPECT_TRUE(Until([&] { return !StateOf(name).empty(); })) << name << " was never looked at";
  return name;
}

std::string LonghornContract::CloneStateOf(const std::string& volume) {
  return GetString(Get(VolumeKey(volume)).value_or(Json()), {"status", "cloneStatus", "state"});
}

void LonghornContract::SetMaxCount(const std::string& volume, int count) {
  EXPECT_THAT(Patch(VolumeKey(volume), {{"spec", {{"snapshotMaxCount", count}}}}), IsOk());
}

#define SKIP_WITHOUT(...)                                  \
  if (!Has({__VA_ARGS__})) {                               \
    GTEST_SKIP() << "the subject has no " << #__VA_ARGS__; \
  }                                                        \
  static_assert(true)

// --- Admission

TEST_P(LonghornContract, CreateAddsLabelFinalizerAndOwner) {
  const std::string name = NewName("made");
  Json snapshot = SnapshotJson(name, attached_);
  SetJson(snapshot, {"metadata", "labels", "team"}, "a");
  const absl::StatusOr<Json> made = Create(snapshot);
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(k8s::Label(*made, kVolumeLabel), attached_);
  EXPECT_EQ(k8s::Label(*made, "team"), "a");
  EXPECT_TRUE(HasFinalizer(*made));
  const Json* const owners = FindJson(*made, {"metadata", "ownerReferences"});
  ASSERT_TRUE(owners != nullptr && owners->size() == 1) << DumpJson(*made);
  const Json volume = Get(VolumeKey(attached_)).value_or(Json());
  EXPECT_EQ(GetString((*owners)[0], {"kind"}), "Volume");
  EXPECT_EQ(GetString((*owners)[0], {"name"}), attached_);
  EXPECT_EQ(GetString((*owners)[0], {"uid"}), k8s::Uid(volume));
  EXPECT_EQ(FindJson((*owners)[0], {"controller"}), nullptr);
  EXPECT_FALSE(HasAnyStatus(*made));
}

TEST_P(LonghornContract, AnOwnerThatTheClientSetStays) {
  Json snapshot = SnapshotJson(NewName("owned"), attached_);
  const std::string uid = k8s::Uid(Get(VolumeKey(detached_)).value_or(Json()));
  SetJson(snapshot, {"metadata", "ownerReferences"},
          Json::array({{{"apiVersion", "longhorn.io/v1beta2"},
                        {"kind", "Volume"},
                        {"name", detached_},
                        {"uid", uid}}}));
  const absl::StatusOr<Json> made = Create(snapshot);
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ((*made)["metadata"]["ownerReferences"].size(), 1);
  EXPECT_EQ(GetString((*made)["metadata"]["ownerReferences"][0], {"uid"}), uid);
}

TEST_P(LonghornContract, CreateWithoutItsVolumeIsRefused) {
  EXPECT_THAT(
      Create(SnapshotJson(NewName("orphan"), "no-such-volume")),
      StatusIs(
          absl::StatusCode::kInvalidArgument,
          AllOf(HasSubstr(absl::StrCat(kMutatorDenied, "failed to get volume no-such-volume: ")),
                HasSubstr("not found"))));
}

TEST_P(LonghornContract, VolumeOwnerAndVolumeLabelAreImmutable) {
  const std::string name = NewName("fixed");
  MustCreate(name, attached_);
  const auto is_refused = StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(kValidatorDenied));
  EXPECT_THAT(Patch(SnapshotKey(name), {{"spec", {{"volume", detached_}}}}), is_refused);
  EXPECT_THAT(Patch(SnapshotKey(name), {{"metadata", {{"ownerReferences", nullptr}}}}), is_refused);
  EXPECT_THAT(Patch(SnapshotKey(name), {{"metadata", {{"labels", {{kVolumeLabel, detached_}}}}}}),
              is_refused);
}

TEST_P(LonghornContract, OtherLabelsAndTheRestOfTheSpecAreMutable) {
  const std::string name = NewName("mutable");
  MustCreate(name, attached_);
  const std::vector<Json> patches = {{{"spec", {{"labels", {{"contract", "no"}}}}}},
                                     {{"metadata", {{"labels", {{"team", "b"}}}}}}};
  for (const Json& patch : patches) {
    const absl::StatusOr<Json> patched = Patch(SnapshotKey(name), patch);
    if (subject_->is_as_proposed()) {
      EXPECT_THAT(patched, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("immutable")));
    } else {
      EXPECT_THAT(patched, IsOk());
    }
  }
}

TEST_P(LonghornContract, ARemovedFinalizerComesBack) {
  const std::string name = NewName("kept");
  MustCreate(name, attached_);
  const absl::StatusOr<Json> patched =
      Patch(SnapshotKey(name), {{"metadata", {{"finalizers", nullptr}}}});
  ASSERT_THAT(patched, IsOk());
  EXPECT_TRUE(HasFinalizer(*patched));
}

TEST_P(LonghornContract, AStatusIsWrittenByTheSubresourceOnly) {
  const std::string name = NewName("plain");
  Json snapshot = SnapshotJson(name, attached_);
  SetJson(snapshot, {"status", "parent"}, "made-up");
  const absl::StatusOr<Json> made = Create(snapshot);
  ASSERT_THAT(made, IsOk());
  EXPECT_FALSE(HasAnyStatus(*made));
  const Json patch = {{"status", {{"checksum", "made-up"}}}};
  const absl::StatusOr<Json> ignored = Patch(SnapshotKey(name), patch);
  ASSERT_THAT(ignored, IsOk());
  EXPECT_EQ(GetString(*ignored, {"status", "checksum"}), "");
  const absl::StatusOr<Json> written = Patch(SnapshotKey(name), patch, "status");
  ASSERT_THAT(written, IsOk());
  EXPECT_EQ(GetString(*written, {"status", "checksum"}), "made-up");
}

TEST_P(LonghornContract, OneThatALinkedCloneStandsOnCannotBeDeleted) {
  SKIP_WITHOUT("attach");
  const std::string volume = MakeVolume();
  const std::string name = NewName("entry");
  MustCreate(name, attached_);
  const char* const label = "longhorn.io/linked-clone-source-snapshot";
  if (!Patch(VolumeKey(volume), {{"metadata", {{"labels", {{label, name}}}}}}).ok()) {
    GTEST_SKIP() << "the label of linked clones cannot be set here";
  }
  subject_->Pass(kStep * 10);
  EXPECT_THAT(Delete(name),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr(kValidatorDenied)));
  EXPECT_THAT(Patch(VolumeKey(volume), {{"metadata", {{"labels", {{label, nullptr}}}}}}), IsOk());
  subject_->Pass(kStep * 10);
  EXPECT_THAT(Delete(name), IsOk());
}

TEST_P(LonghornContract, NoneIsTakenOfALegacyLinkedClone) {
  SKIP_WITHOUT("attach");
  const std::string volume = MakeVolume();
  const char* const label = "longhorn.io/legacy-linked-clone";
  if (!Patch(VolumeKey(volume), {{"metadata", {{"labels", {{label, "true"}}}}}}).ok()) {
    GTEST_SKIP() << "the label of linked clones cannot be set here";
  }
  subject_->Pass(kStep * 10);
  EXPECT_THAT(Create(SnapshotJson(NewName("refused"), volume)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(kValidatorDenied)));
}

// It stays, and so does its volume: real ones are left behind.
TEST_P(LonghornContract, OneWithALongNameCannotBeDeletedNorCanItsVolume) {
  SKIP_WITHOUT("attach");
  const std::string volume = MakeVolume();
  std::string name = NewName("long");
  name.resize(64, 'n');
  MustCreate(name, volume);
  const absl::Status refused = Delete(name);
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr(absl::StrCat(kValidatorDenied, "failed to check if snapshot ", name,
                                           " is a linked-clone entrypoint: ")),
                    HasSubstr("must be no more than 63 bytes")));
  EXPECT_THAT(client_.Delete(Soon(), VolumeKey(volume), {}), IsOk());
  subject_->Pass(kQuietTime);
  EXPECT_TRUE(k8s::BeingDeleted(Get(VolumeKey(volume)).value_or(Json())));
  EXPECT_THAT(Get(SnapshotKey(name)), IsOk());
}

TEST_P(LonghornContract, WithoutAManagerSnapshotsAndClaimsCannotBeWritten) {
  SKIP_WITHOUT("manager-stop", "manager-start");
  const std::string name = NewName("before");
  MustCreate(name, attached_);
  const std::string claim = NewName("claim");
  ASSERT_THAT(client_.Create(Soon(), kPodClaims, subject_->other_namespace(),
                             {{"apiVersion", "v1"},
                              {"kind", "PersistentVolumeClaim"},
                              {"metadata", {{"name", claim}}},
                              {"spec",
                               {{"accessModes", {"ReadWriteOnce"}},
                                {"storageClassName", "none"},
                                {"resources", {{"requests", {{"storage", "1Mi"}}}}}}}}),
              IsOk());
  made_.push_back({kPodClaims, subject_->other_namespace(), claim});
  MustRun("manager-stop");
  const auto is_away = [](const char* webhook) {
    return StatusIs(absl::StatusCode::kUnavailable,
                    HasSubstr(absl::StrCat("failed calling webhook \"", webhook, "\"")));
  };
  EXPECT_THAT(client_.Create(Soon(), SnapshotKey("").type, namespace_,
                             SnapshotJson(NewName("after"), attached_)),
              is_away("mutator.longhorn.io"));
  EXPECT_THAT(client_.Delete(Soon(), SnapshotKey(name), {}), is_away("validator.longhorn.io"));
  EXPECT_THAT(client_.Patch(Soon(), made_.back(), k8s::PatchKind::kMerge,
                            {{"metadata", {{"annotations", {{"a", "b"}}}}}}, ""),
              is_away("validator.longhorn.io"));
  EXPECT_THAT(Patch(SnapshotKey(name), {{"status", {{"checksum", "x"}}}}, "status"), IsOk())
      << "a status is not intercepted";
  MustRun("manager-start");
  EXPECT_TRUE(Until([&] { return Delete(name).ok(); }));
}

// --- Taking snapshots

TEST_P(LonghornContract, ASnapshotIsRequestedAtOnceAndReadyAfterTheNextRoundOfTheMonitor) {
  const std::string name = NewName("ready");
  const absl::Time begun = subject_->Now();
  MustCreate(name, attached_);
  const Json requested = Await(name, "requested", IsRequested);
  EXPECT_LT(subject_->Now() - begun, absl::Seconds(3));
  const absl::Time requested_at =
      ParseRfc3339(GetString(requested, {"status", "requestedTime"})).value_or(absl::UnixEpoch());
  EXPECT_GE(requested_at, begun - absl::Seconds(2));
  const Json ready = AwaitReady(name);
  EXPECT_LT(subject_->Now() - begun, absl::Seconds(15));
  EXPECT_TRUE(ParseRfc3339(GetString(ready, {"status", "creationTime"})).has_value());
  EXPECT_TRUE(GetBool(ready, {"status", "userCreated"}));
  EXPECT_FALSE(GetBool(ready, {"status", "markRemoved"}));
  EXPECT_EQ(GetString(ready, {"status", "labels", "contract"}), "yes");
  EXPECT_EQ(GetString(ready, {"status", "error"}), "");
  EXPECT_GT(GetInt(ready, {"status", "restoreSize"}), 0);
  EXPECT_TRUE(GetBool(ready, {"status", "children", kHead})) << DumpJson(ready);
  EXPECT_TRUE(Until([&] { return !HasTicket(attached_, name); })) << "it may go a moment later";
}

TEST_P(LonghornContract, SnapshotsAreAChain) {
  const std::string older = Take("older", attached_);
  const std::string newer = Take("newer", attached_);
  EXPECT_EQ(GetString(Get(SnapshotKey(newer)).value_or(Json()), {"status", "parent"}), older);
  Await(older, "the parent of the newer", [&](const Json& snapshot) {
    return GetBool(snapshot, {"status", "children", newer});
  });
}

TEST_P(LonghornContract, TheVolumeHeadHasNoObject) {
  Take("one", attached_);
  EXPECT_THAT(Get(SnapshotKey(kHead)), StatusIs(absl::StatusCode::kNotFound));
}

TEST_P(LonghornContract, AnObjectOutsideTheNamespaceIsDecoratedAndIgnored) {
  const std::string name = NewName("mapped");
  const std::string elsewhere = subject_->other_namespace();
  const absl::StatusOr<Json> made = Create(SnapshotJson(name, attached_), elsewhere);
  ASSERT_THAT(made, IsOk());
  EXPECT_TRUE(HasFinalizer(*made));
  EXPECT_EQ(k8s::Label(*made, kVolumeLabel), attached_);
  subject_->Pass(kQuietTime);
  const k8s::ObjectKey key{SnapshotKey("").type, elsewhere, name};
  EXPECT_FALSE(HasAnyStatus(Get(key).value_or(Json())));
  if (Has({"engine-snapshots"})) {
    EXPECT_FALSE(EngineHas(attached_, name));
  }
  EXPECT_THAT(client_.Delete(Soon(), key, {}), IsOk());
  subject_->Pass(kQuietTime);
  EXPECT_TRUE(k8s::BeingDeleted(Get(key).value_or(Json())))
      << "no controller removes its finalizer";
  // Here it can be removed, so that the namespace goes.
  EXPECT_THAT(Patch(key, {{"metadata", {{"finalizers", nullptr}}}}), IsOk());
  AwaitGone(key);
}

TEST_P(LonghornContract, ALostObjectThatIsToldToCreateTakesASnapshot) {
  const std::string name = NewName("flipped");
  MustCreate(name, attached_, /*create_snapshot=*/false);
  const absl::StatusOr<Json> told =
      Patch(SnapshotKey(name), {{"spec", {{"createSnapshot", true}}}});
  if (subject_->is_as_proposed()) {
    EXPECT_THAT(told, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("immutable")));
    AwaitGone(SnapshotKey(name));
  } else {
    ASSERT_THAT(told, IsOk());
    AwaitReady(name);
  }
}

TEST_P(LonghornContract, AnObjectThatCreatesNoneAndHasNoneIsLostAndDeleted) {
  const std::string name = NewName("lost");
  MustCreate(name, attached_, /*create_snapshot=*/false);
  AwaitGone(SnapshotKey(name));
}

TEST_P(LonghornContract, ADetachedVolumeIsAttachedForTheSnapshotAndDetachedAgain) {
  const std::string name = NewName("apart");
  ASSERT_EQ(StateOf(detached_), "detached");
  MustCreate(name, detached_);
  EXPECT_FALSE(IsReady(Await(name, "waiting for the volume", ErrorHas("is not running"))));
  EXPECT_TRUE(HasTicket(detached_, name));
  const Json ready = AwaitReady(name);
  EXPECT_EQ(GetString(ready, {"status", "error"}), "");
  EXPECT_TRUE(Until([&] { return !HasTicket(detached_, name); }));
  EXPECT_TRUE(Until([&] { return StateOf(detached_) == "detached"; }));
  EXPECT_TRUE(IsReady(Get(SnapshotKey(name)).value_or(Json())));
}

TEST_P(LonghornContract, OneThatIsDeletedBeforeItWasRequestedIsCancelled) {
  SKIP_WITHOUT("engine-snapshots", "attach", "detach");
  const std::string name = NewName("cancelled");
  ASSERT_EQ(StateOf(detached_), "detached");
  MustCreate(name, detached_);
  Await(name, "waiting for the volume", ErrorHas("is not running"));
  MustDelete(name);
  bool was_attached = false;
  EXPECT_TRUE(Until([&] {
    was_attached = was_attached || StateOf(detached_) == "attached";
    return absl::IsNotFound(Get(SnapshotKey(name)).status());
  })) << name
      << " stays";
  EXPECT_FALSE(was_attached) << "it goes without the engine";
  EXPECT_FALSE(HasTicket(detached_, name));
  EXPECT_TRUE(Until([&] { return StateOf(detached_) == "detached"; }));
  MustRun("attach", detached_);
  EXPECT_TRUE(Until([&] { return StateOf(detached_) == "attached"; }));
  subject_->Pass(kQuietTime);
  EXPECT_FALSE(EngineHas(detached_, name)) << "none was ever taken";
  MustRun("detach", detached_);
}

// --- Deleting snapshots

TEST_P(LonghornContract, AMiddleOneIsRemovedFromTheEngineBeforeItGoes) {
  SKIP_WITHOUT("engine-snapshots");
  const std::string older = Take("older", attached_);
  const std::string middle = Take("middle", attached_);
  const std::string newer = Take("newer", attached_);
  MustDelete(middle);
  AwaitGone(SnapshotKey(middle));
  EXPECT_FALSE(EngineHas(attached_, middle));
  Await(newer, "the child of the older", [&](const Json& snapshot) {
    return GetString(snapshot, {"status", "parent"}) == older;
  });
  EXPECT_TRUE(EngineHas(attached_, older));
}

TEST_P(LonghornContract, TheNewestLingersUntilThereIsANewerOne) {
  const std::string newest = Take("newest", attached_);
  MustDelete(newest);
  Await(newest, "lingering", Lingers);
  ExpectStays(newest, kQuietTime, "lingering", Lingers);
  EXPECT_FALSE(HasTicket(attached_, newest));
  Take("newer", attached_);
  AwaitGone(SnapshotKey(newest));
}

TEST_P(LonghornContract, OneOfADetachedVolumeHangsUntilTheVolumeIsAttached) {
  SKIP_WITHOUT("attach", "detach");
  const std::string older = Take("older", detached_);
  EXPECT_TRUE(Until([&] { return StateOf(detached_) == "detached"; }));
  Take("newer", detached_);
  EXPECT_TRUE(Until([&] { return StateOf(detached_) == "detached"; }));
  MustDelete(older);
  Await(older, "delayed", ErrorHas("snapshot deletion delayed: volume engine "));
  ExpectStays(older, 3 * kQuietTime, "hanging",
              [](const Json& snapshot) { return k8s::BeingDeleted(snapshot); });
  EXPECT_FALSE(HasTicket(detached_, older));
  EXPECT_EQ(StateOf(detached_), "detached");
  MustRun("attach", detached_);
  AwaitGone(SnapshotKey(older));
  MustRun("detach", detached_);
  EXPECT_TRUE(Until([&] { return StateOf(detached_) == "detached"; }));
}

TEST_P(LonghornContract, AnEntryWithoutAnObjectGetsOneWithAnotherUid) {
  SKIP_WITHOUT("attach", "engine-snapshots");
  const std::string volume = MakeVolume();
  // Deleted before the monitor saw it, it goes at once; in the engine it stays as the newest.
  for (int tries = 0; tries < 5; ++tries) {
    const std::string name = NewName("stub");
    MustCreate(name, volume);
    const std::string uid = k8s::Uid(Await(name, "requested", IsRequested));
    MustDelete(name);
    const Json stub = Await(name, "a stub, or lingering", [&](const Json& snapshot) {
      return k8s::Uid(snapshot) != uid || Lingers(snapshot);
    });
    if (k8s::Uid(stub) == uid) {
      continue;  // The monitor was faster.
    }
    EXPECT_FALSE(GetBool(stub, {"spec", "createSnapshot"}));
    const Json shown = Await(name, "marked", [](const Json& snapshot) {
      return GetBool(snapshot, {"status", "markRemoved"});
    });
    EXPECT_FALSE(IsReady(shown));
    EXPECT_TRUE(EngineHas(volume, name));
    return;
  }
  FAIL() << "the monitor was faster five times";
}

TEST_P(LonghornContract, AnEmptiedListOfTheEngineDeletesWhatTheEngineStillHas) {
  SKIP_WITHOUT("attach", "engine-snapshots");
  const std::string volume = MakeVolume();
  const std::string first = Take("first", volume);
  const std::string second = Take("second", volume);
  const std::string newest = Take("newest", volume);
  const k8s::ResourceType engines = LonghornType("engines", "Engine");
  const auto list = client_.List(
      {}, engines, namespace_,
      {.label_selector = absl::StrCat(kVolumeLabel, "=", volume), .field_selector = ""});
  ASSERT_TRUE(list.ok() && list->items.size() == 1);
  ASSERT_THAT(Patch({engines, namespace_, k8s::Name(list->items[0])},
                    {{"status", {{"snapshots", nullptr}}}}, "status"),
              IsOk());
  AwaitGone(SnapshotKey(first));
  AwaitGone(SnapshotKey(second));
  EXPECT_TRUE(Until([&] {
    const Json left = EngineSnapshots(volume);
    return !left.contains(first) && !left.contains(second) && GetBool(left, {newest, "removed"});
  })) << DumpJson(EngineSnapshots(volume));
}

// As a restore that also restores the status writes it. Three ends were seen on a real one, by
// which write comes first; in each of them today's data is taken.
TEST_P(LonghornContract, ARestoredStatusHasTodaysDataTakenWithOneOfThreeEnds) {
  SKIP_WITHOUT("attach", "engine-snapshots");
  const std::string volume = MakeVolume();
  // What an engine that has just come has to be compared with would be deleted before it is taken.
  Take("first", volume);
  subject_->Pass(kSettleTime);
  const std::string name = NewName("restored");
  const std::string uid = k8s::Uid(MustCreate(name, volume));
  ASSERT_THAT(Patch(SnapshotKey(name),
                    {{"status", {{"creationTime", "2026-01-02T03:04:05Z"}, {"readyToUse", true}}}},
                    "status"),
              IsOk());
  EXPECT_TRUE(Until([&] { return EngineHas(volume, name); })) << name << " is not taken";
  subject_->Pass(2 * kQuietTime);
  const absl::StatusOr<Json> object = Get(SnapshotKey(name));
  if (GetBool(EngineSnapshots(volume), {name, "removed"})) {
    EXPECT_TRUE(object.ok() ? k8s::Uid(*object) != uid : absl::IsNotFound(object.status()));
    return;
  }
  ASSERT_THAT(object, IsOk()) << "the snapshot stays, and so does an object";
  EXPECT_TRUE(IsReady(*object)) << DumpJson(*object);
  EXPECT_EQ(GetBool(*object, {"spec", "createSnapshot"}), k8s::Uid(*object) == uid);
}

// --- System snapshots

TEST_P(LonghornContract, AnExpansionTakesASystemSnapshotThatThePurgeOfAnotherTakesAlong) {
  SKIP_WITHOUT("attach", "engine-snapshots");
  const std::string volume = MakeVolume();
  const std::string older = Take("older", volume);
  ASSERT_THAT(Patch(VolumeKey(volume), {{"spec", {{"size", "33554432"}}}}), IsOk());
  std::string system;
  EXPECT_TRUE(Until([&] {
    const Json snapshots = EngineSnapshots(volume);
    for (const auto& [name, entry] : snapshots.items()) {
      system = name == older ? system : name;
    }
    return !system.empty();
  }));
  const Json made = AwaitReady(system);
  EXPECT_FALSE(GetBool(made, {"spec", "createSnapshot"}));
  EXPECT_FALSE(GetBool(made, {"status", "userCreated"}));
  EXPECT_EQ(GetString(made, {"status", "requestedTime"}),
            GetString(made, {"status", "creationTime"}));
  EXPECT_EQ(k8s::Label(made, kVolumeLabel), volume);
  const std::string newer = Take("newer", volume);
  EXPECT_EQ(GetInt(Get(SnapshotKey(newer)).value_or(Json()), {"status", "restoreSize"}), 33554432);
  MustDelete(older);
  AwaitGone(SnapshotKey(older));
  AwaitGone(SnapshotKey(system));
  EXPECT_TRUE(EngineHas(volume, newer));
}

// --- Limits

TEST_P(LonghornContract, OneBeyondTheMaximumFailsAndIsTakenWhenAPlaceBecomesFree) {
  SKIP_WITHOUT("attach");
  const std::string volume = MakeVolume();
  SetMaxCount(volume, 2);
  subject_->Pass(kQuietTime);
  const std::string first = Take("first", volume);
  Take("second", volume);
  const std::string third = NewName("third");
  MustCreate(third, volume);
  const Json refused = Await(third, "refused", ErrorHas("equal or larger than snapshotMaxCount"));
  EXPECT_FALSE(IsRequested(refused));
  MustDelete(first);
  AwaitReady(third);
}

TEST_P(LonghornContract, AMaximumBelowWhatIsShownIsRefused) {
  SKIP_WITHOUT("attach");
  const std::string volume = MakeVolume();
  for (const char* name : {"first", "second", "third"}) {
    Take(name, volume);
  }
  EXPECT_THAT(Patch(VolumeKey(volume), {{"spec", {{"snapshotMaxCount", 2}}}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(kValidatorDenied),
                             HasSubstr("can't make snapshotMaxCount or snapshotMaxSize be smaller "
                                       "than current usage, please remove snapshots first"))));
  SetMaxCount(volume, 3);
}

// The webhook counts what the monitor saw last, up to 5 s ago.
TEST_P(LonghornContract, AMaximumLoweredBeforeTheMonitorSeesTheNewestFreezesIt) {
  SKIP_WITHOUT("attach");
  const std::string volume = MakeVolume();
  Take("first", volume);
  Take("second", volume);
  for (int shown = 2; shown < 7; ++shown) {
    const std::string unseen = NewName("unseen");
    MustCreate(unseen, volume);
    Await(unseen, "requested", IsRequested);
    if (!Patch(VolumeKey(volume), {{"spec", {{"snapshotMaxCount", shown}}}}).ok()) {
      AwaitReady(unseen);
      continue;  // The monitor was faster.
    }
    ExpectStays(unseen, 3 * kQuietTime, "requested and not ready",
                [](const Json& snapshot) { return IsRequested(snapshot) && !IsReady(snapshot); });
    SetMaxCount(volume, 250);
    AwaitReady(unseen);
    return;
  }
  FAIL() << "the monitor was faster five times";
}

TEST_P(LonghornContract, ANameTooLongForAFileFaultsTheVolume) {
  SKIP_WITHOUT("attach");
  const std::string volume = MakeVolume();
  std::string name = NewName("name");
  name.resize(240, 'n');
  MustCreate(name, volume);
  EXPECT_TRUE(Until([&] {
    return GetString(Get(VolumeKey(volume)).value_or(Json()), {"status", "robustness"}) ==
           "faulted";
  }));
  EXPECT_FALSE(IsReady(Get(SnapshotKey(name)).value_or(Json())));
}

// --- Volumes

// --- Clones: CreateVolume makes such a Volume and returns, so a PVC is bound before the copy.

TEST_P(LonghornContract, ACloneIsMadeAtOnceAndCopiedLater) {
  SKIP_WITHOUT("attach", "engine-snapshots");
  const std::string snapshot = Take("source", attached_);
  const std::string clone = MakeClone(attached_, snapshot);
  EXPECT_EQ(CloneStateOf(clone), "") << "made at once, copied later";
  MustRun("attach", clone);
  EXPECT_TRUE(Until([&] { return CloneStateOf(clone) == "initiated"; }));
  EXPECT_NE(
      GetInt(Get(VolumeKey(clone)).value_or(Json()), {"status", "cloneStatus", "attemptCount"}), 0);
  EXPECT_TRUE(Until([&] { return CloneStateOf(clone) == "completed"; }));
  EXPECT_TRUE(Until([&] { return StateOf(clone) == "attached"; }));
  EXPECT_TRUE(EngineHas(clone, snapshot)) << "its first snapshot has the name of the source's";
  EXPECT_EQ(GetString(Get(SnapshotKey(snapshot)).value_or(Json()), {"spec", "volume"}), attached_);
}

TEST_P(LonghornContract, TheFirstSnapshotOfACloneGetsAnObjectWhenItsNameIsFree) {
  SKIP_WITHOUT("attach", "engine-snapshots");
  const std::string volume = MakeVolume();
  const std::string snapshot = Take("source", volume);
  Take("newer", volume);
  const std::string clone = MakeClone(volume, snapshot);
  MustRun("attach", clone);
  EXPECT_TRUE(Until([&] { return CloneStateOf(clone) == "completed"; }));
  EXPECT_TRUE(Until([&] { return StateOf(clone) == "attached" && EngineHas(clone, snapshot); }));
  subject_->Pass(kQuietTime);
  MustDelete(snapshot);
  const Json made = Await(snapshot, "the clone's", [&](const Json& object) {
    return GetString(object, {"spec", "volume"}) == clone && IsReady(object);
  });
  EXPECT_FALSE(GetBool(made, {"spec", "createSnapshot"}, true));
  EXPECT_FALSE(GetBool(made, {"status", "userCreated"}));
  EXPECT_EQ(GetString(made, {"status", "labels", "contract"}), "") << "no label of the source's";
}

TEST_P(LonghornContract, DeletingTheSourceOfACloneIsTakenAndFailsTheCopy) {
  SKIP_WITHOUT("attach");
  const std::string volume = MakeVolume();
  const std::string snapshot = Take("source", volume);
  Take("newer", volume);
  const std::string clone = MakeClone(volume, snapshot);
  EXPECT_TRUE(Until([&] { return CloneStateOf(clone) == "initiated"; }));
  EXPECT_THAT(Delete(snapshot), IsOk()) << "it is not refused";
  EXPECT_TRUE(Until([&] { return CloneStateOf(clone) == "failed"; }));
  EXPECT_THAT(Get(VolumeKey(clone)), IsOk());
  const auto events = client_.List(Soon(), {"", "v1", "events", "Event", true}, namespace_,
                                   {.label_selector = "", .field_selector = ""});
  ASSERT_THAT(events, IsOk());
  EXPECT_TRUE(std::any_of(events->items.begin(), events->items.end(), [&](const Json& event) {
    return GetString(event, {"reason"}) == "VolumeCloneFailed" &&
           GetString(event, {"involvedObject", "name"}) == clone;
  }));
}

TEST_P(LonghornContract, DeletingAVolumeTakesItsSnapshotsOrWaitsForThem) {
  SKIP_WITHOUT("attach");
  const std::string volume = MakeVolume();
  const std::string older = Take("older", volume);
  const std::string newer = Take("newer", volume);
  EXPECT_THAT(client_.Delete(Soon(), VolumeKey(volume), {}), IsOk());
  if (subject_->is_as_proposed()) {
    ExpectStays(older, kQuietTime, "there and ready", IsReady);
    EXPECT_THAT(Get(VolumeKey(volume)), IsOk());
    MustDelete(newer);
    MustDelete(older);
  }
  AwaitGone(SnapshotKey(older));
  AwaitGone(SnapshotKey(newer));
  AwaitGone(VolumeKey(volume));
}

}  // namespace csidelta::contract
