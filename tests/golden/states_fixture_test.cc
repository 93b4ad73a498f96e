// What processes of an older version left in a cluster (fbeb56d/objects.json, see README.md), and
// how those of this version go on from there: after an upgrade in the middle of a backup, a restore
// or a deletion. A failure means that work is lost or done twice: mend the program, never the
// fixture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "backupitemactions/actions.h"
#include "base/random.h"
#include "base/rfc3339.h"
#include "csi/environment.h"
#include "datamover/base_reconciler.h"
#include "datamover/deletion_reconciler.h"
#include "datamover/download_reconciler.h"
#include "datamover/keyring.h"
#include "datamover/mover_environment.h"
#include "datamover/task_watch.h"
#include "datamover/transfer_scheduler.h"
#include "datamover/upload_reconciler.h"
#include "datamover/volume_task.h"
#include "deleteitemactions/actions.h"
#include "k8s/object.h"
#include "k8s/reconcile_loop.h"
#include "objects/keys.h"
#include "repository/keyring.h"
#include "restoreitemactions/actions.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_secure_random.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"
#include "tests/support/paths.h"
#include "tests/support/snapshot_fields.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"
#include "velero/data_reference.h"

namespace csidelta::states_fixture_test {
namespace {

using support::IsOk;
using testing::Contains;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return std::move(bytes).str();
}

// The folder of a version, read once.
class Fixture {
 public:
  explicit Fixture(const std::string& version)
      : folder_(support::SourcePath("tests/golden/" + version)),
        told_(ParseJsonObject(ReadFile(absl::StrCat(folder_, "/objects.json"))).value()) {}

  const Json& told() const { return told_; }

  // `place`: "<plural>/<line>".
  const Json& Object(const std::string& place) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(place, '/');
    std::vector<Json>& lines = lines_[parts.first];
    if (lines.empty()) {
      const std::string text = ReadFile(absl::StrCat(folder_, "/objects/", parts.first, ".jsonl"));
      for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
        lines.push_back(ParseJsonObject(line).value());
      }
    }
    std::size_t index = 0;
    EXPECT_TRUE(absl::SimpleAtoi(parts.second, &index));
    return lines.at(index);
  }

  // Objects by their plural.
  std::vector<std::pair<std::string, Json>> Objects(const Json& places) {
    std::vector<std::pair<std::string, Json>> objects;
    for (const Json& place : places) {
      const std::string text = place.get<std::string>();
      objects.emplace_back(text.substr(0, text.find('/')), Object(text));
    }
    return objects;
  }

 private:
  const std::string folder_;
  const Json told_;
  std::map<std::string, std::vector<Json>> lines_;
};

Fixture& TheFixture() {
  static Fixture& fixture = *new Fixture("fbeb56d");
  return fixture;
}

// An object that was read in a list does not tell its group and kind.
k8s::ResourceType TypeOf(const std::string& plural, const Json& object) {
  for (const k8s::ResourceType& type :
       {StorageClassType(), PersistentVolumeClaimType(), PersistentVolumeType(), PodType(),
        SecretType(), ConfigMapType()}) {
    if (type.plural == plural) {
      return type;
    }
  }
  const std::vector<std::string> parts =
      absl::StrSplit(GetString(object, {"apiVersion"}), '/', absl::SkipEmpty());
  return {.group = parts.size() == 2 ? parts[0] : "",
          .version = parts.empty() ? "v1" : parts.back(),
          .plural = plural,
          .kind = GetString(object, {"kind"}),
          .namespaced = !k8s::Namespace(object).empty()};
}

std::set<std::string> Names(const std::vector<Json>& objects) {
  std::set<std::string> names;
  for (const Json& object : objects) {
    names.insert(absl::StrCat(k8s::Namespace(object), "/", k8s::Name(object)));
  }
  return names;
}

// A cluster as it was at one moment, with the controllers that every cluster has.
class StatesFixtureTest : public testing::Test {
 protected:
  StatesFixtureTest()
      : cluster_(GetString(TheFixture().told(), {"cluster"})),
        mover_namespace_(GetString(TheFixture().told(), {"mover_namespace"})) {
    ctx_.clock = &clock_;
    clock_.SetAutoAdvance(true);
    api_.SetStatusSubresource("volumetasks", true);
    api_.SetStatusSubresource("datadeletions", true);
    for (const auto& [plural, task] :
         TheFixture().Objects(TheFixture().told()["succeeded_tasks"])) {
      statuses_[k8s::Name(task)] = task["status"];
    }
  }

  void Load(const std::string& state) {
    ASSERT_TRUE(TheFixture().told()["states"].contains(state)) << state;
    for (const auto& [plural, object] :
         TheFixture().Objects(TheFixture().told()["states"][state])) {
      api_.Seed(TypeOf(plural, object), object);
      Await(object);
    }
    api_.ClearCalls();
  }

  // It is later than what the object tells of.
  void Await(const Json& object) {
    for (const char* field : {"creationTimestamp", "deletionTimestamp"}) {
      const auto time = ParseRfc3339(GetString(object, {"metadata", field}));
      if (time.has_value() && clock_.Now() < *time + absl::Seconds(2)) {
        clock_.Advance(*time + absl::Seconds(2) - clock_.Now());
      }
    }
  }

  Json The(const k8s::ResourceType& type, const std::string& space, const std::string& name) const {
    const std::optional<Json> found = api_.Find({type, space, name});
    EXPECT_TRUE(found.has_value()) << type.plural << " " << space << "/" << name;
    return found.value_or(Json());
  }
  Json Backup(const std::string& name) const { return The(BackupType(), "velero", name); }

  // The items of a kind in the archive of a backup.
  static std::vector<Json> Archived(const std::string& backup, const std::string& kind) {
    std::vector<Json> found;
    for (auto& [plural, object] :
         TheFixture().Objects(TheFixture().told()["archives"][backup]["items"])) {
      if (plural == kind) {
        found.push_back(std::move(object));
      }
    }
    return found;
  }

  // Workers end as they did then.
  void EndWorkers() {
    for (const Json& pod : api_.All(PodType())) {
      const auto status = statuses_.find(k8s::Name(pod));
      if (status != statuses_.end()) {
        api_.Mutate({datamover::VolumeTask::Type(), mover_namespace_, k8s::Name(pod)},
                    [&](Json& task) { task["status"] = status->second; });
        api_.Mutate({PodType(), mover_namespace_, k8s::Name(pod)},
                    [](Json& ended) { ended["status"]["phase"] = "Succeeded"; });
      }
    }
  }

  const std::string cluster_;
  const std::string mover_namespace_;
  support::FakeClock clock_;
  support::FakeApiClient api_{clock_};
  CallContext ctx_;
  csi::Environment env_{.api = api_,
                        .clock = clock_,
                        .random = Random::Real(),
                        .velero_namespace = "velero",
                        .enable_csi = true};
  std::map<std::string, Json> statuses_;  // of VolumeTasks that succeeded, by their names
};

// --- Backups

TEST_F(StatesFixtureTest, ASnapshotThatWasTakenIsTakenUp) {
  const support::FakeSnapshotCluster cluster(api_);
  Load("snapshot-taken");
  const std::set<std::string> before = Names(api_.All(VolumeSnapshotType()));
  const auto action = backupitemactions::MakePvcAction(env_);
  const auto result =
      action->Execute(ctx_, objects::Object(The(PersistentVolumeClaimType(), "shop", "data")),
                      objects::Object(Backup("local")));
  ASSERT_THAT(result, IsOk());
  ASSERT_THAT(result->additional_items, SizeIs(1));
  const velero::ResourceIdentifier& item = result->additional_items[0];
  EXPECT_THAT(before, Contains(absl::StrCat(item.namespace_name, "/", item.name)));
  EXPECT_EQ(Names(api_.All(VolumeSnapshotType())), before);
}

TEST_F(StatesFixtureTest, AGroupThatWasTakenIsTakenUp) {
  support::FakeSnapshotCluster cluster(api_);
  Load("group-taken");
  const std::set<std::string> groups = Names(api_.All(VolumeGroupSnapshotType("v1")));
  const std::set<std::string> members = Names(api_.All(VolumeSnapshotType()));
  ASSERT_THAT(groups, SizeIs(1));
  cluster.Resync();  // The snapshot controller goes on, too.
  const auto action = backupitemactions::MakePvcAction(env_);
  for (const char* claim : {"log", "wal"}) {
    const auto result =
        action->Execute(ctx_, objects::Object(The(PersistentVolumeClaimType(), "shop", claim)),
                        objects::Object(Backup("local")));
    ASSERT_THAT(result, IsOk()) << result.status();
    ASSERT_THAT(result->additional_items, SizeIs(2));
    EXPECT_THAT(groups, Contains(absl::StrCat("shop/", result->additional_items[0].name)));
    EXPECT_THAT(members, Contains(absl::StrCat("shop/", result->additional_items[1].name)));
  }
  EXPECT_EQ(Names(api_.All(VolumeGroupSnapshotType("v1"))), groups);
  EXPECT_EQ(Names(api_.All(VolumeSnapshotType())), members);
}

// Velero asks for what its archive holds, whichever version of the plugin answers.
TEST_F(StatesFixtureTest, OperationsOfAnOlderVersionAreKnown) {
  Load("moved-completed");
  const auto action = backupitemactions::MakePvcAction(env_);
  int uploads = 0;
  for (const Json& operation : TheFixture().told()["archives"]["moved"]["operations"]) {
    const std::string id = GetString(operation, {"spec", "operationID"});
    if (GetString(operation, {"spec", "resourceIdentifier", "Resource"}) ==
        "persistentvolumeclaims") {
      const auto progress = action->Progress(ctx_, id, objects::Object(Backup("moved")));
      ASSERT_THAT(progress, IsOk());
      EXPECT_TRUE(progress->completed) << id;
      EXPECT_EQ(progress->error, "") << id;
      ++uploads;
    }
  }
  EXPECT_EQ(uploads, 3);
}

TEST_F(StatesFixtureTest, SoIsThatOfAGroup) {
  Load("group-taken");
  const auto action = backupitemactions::MakeVolumeGroupSnapshotAction(env_);
  int groups = 0;
  for (const Json& operation : TheFixture().told()["archives"]["local"]["operations"]) {
    const std::string id = GetString(operation, {"spec", "operationID"});
    if (id.starts_with("g1/")) {
      const auto progress = action->Progress(ctx_, id, objects::Object(Backup("local")));
      ASSERT_THAT(progress, IsOk());
      EXPECT_EQ(progress->error, "") << id;
      ++groups;
    }
  }
  EXPECT_EQ(groups, 1);
}

// The controller of this version has no records of the volumes of an older one yet.
TEST_F(StatesFixtureTest, BasesAreKept) {
  support::FakeSecureRandom secure_random;
  const datamover::MoverEnvironment env = {.api = api_,
                                           .random = Random::Real(),
                                           .secure_random = secure_random,
                                           .mover_namespace = mover_namespace_,
                                           .cluster = cluster_,
                                           .image = "csi-delta:test",
                                           .worker_service_account = "csi-delta-worker",
                                           .settings = {}};
  Load("moved-completed");
  const datamover::DeletedSnapshots deleted;
  const datamover::VolumeRecords records(1, [](const datamover::VolumeRecordKey&) {});
  datamover::BaseReconciler reconciler(env, deleted, records);
  int bases = 0;
  // Before and after the grace periods.
  for (int hour = 0; hour < 3; ++hour) {
    for (const Json& content : api_.All(VolumeSnapshotContentType())) {
      if (k8s::Label(content, objects::kBaseLabel) == "true") {
        ++bases;
        EXPECT_THAT(reconciler.Reconcile(ctx_, content), IsOk());
        EXPECT_TRUE(api_.Find({VolumeSnapshotContentType(), "", k8s::Name(content)}).has_value())
            << k8s::Name(content);
      }
    }
    clock_.Advance(absl::Hours(1));
  }
  EXPECT_GE(bases, 3);
}

// --- Restores of an older version's archive

class ArchiveFixtureTest : public StatesFixtureTest {
 protected:
  Json Restore() {
    Json restore = The({"velero.io", "v1", "restores", "Restore", true}, "velero", "local-restore");
    SetJson(restore, {"status", "phase"}, "InProgress");
    return restore;
  }

  static Json WithoutStatus(Json item) {
    EraseJson(item, {"status"});
    return item;
  }
};

TEST_F(ArchiveFixtureTest, SnapshotsComeBackUnderTheNamesOfThen) {
  Load("local-restored");
  std::set<std::string> made_then;
  for (const Json& snapshot : api_.All(VolumeSnapshotType())) {
    if (k8s::Namespace(snapshot) == "copy-of-local") {
      made_then.insert(k8s::Name(snapshot));
    }
  }
  ASSERT_THAT(made_then, SizeIs(3));
  for (const std::string& name : made_then) {
    api_.Remove(VolumeSnapshotKey("copy-of-local", name));
    api_.Remove(VolumeSnapshotContentKey(name));
  }
  std::set<std::string> snapshots;
  std::set<std::string> contents;
  const auto snapshot_action = restoreitemactions::MakeVolumeSnapshotAction(env_);
  for (const Json& item : Archived("local", "volumesnapshots")) {
    const auto result = snapshot_action->Execute(ctx_, objects::Object(WithoutStatus(item)),
                                                 objects::Object(item), objects::Object(Restore()));
    ASSERT_THAT(result, IsOk());
    ASSERT_TRUE(result->item.has_value());
    snapshots.insert(result->item->name());
  }
  const auto content_action = restoreitemactions::MakeVolumeSnapshotContentAction(env_);
  for (const Json& item : Archived("local", "volumesnapshotcontents")) {
    const auto result = content_action->Execute(ctx_, objects::Object(WithoutStatus(item)),
                                                objects::Object(item), objects::Object(Restore()));
    ASSERT_THAT(result, IsOk());
    ASSERT_TRUE(result->item.has_value());
    contents.insert(result->item->name());
    EXPECT_EQ(GetString(result->item->json(), {"spec", "source", "snapshotHandle"}),
              support::SnapshotHandle(item));
  }
  EXPECT_EQ(snapshots, made_then);
  EXPECT_EQ(contents, made_then);
}

TEST_F(ArchiveFixtureTest, PvcsAreFilledFromThem) {
  Load("local-restored");
  std::map<std::string, std::string> sources_then;  // by PVC
  for (const Json& claim : api_.All(PersistentVolumeClaimType())) {
    if (k8s::Namespace(claim) == "copy-of-local") {
      sources_then[k8s::Name(claim)] = GetString(claim, {"spec", "dataSource", "name"});
      api_.Remove(ClaimKey("copy-of-local", k8s::Name(claim)));
    }
  }
  const auto action = restoreitemactions::MakePvcAction(env_);
  int claims = 0;
  for (const Json& item : Archived("local", "persistentvolumeclaims")) {
    const auto result = action->Execute(ctx_, objects::Object(WithoutStatus(item)),
                                        objects::Object(item), objects::Object(Restore()));
    ASSERT_THAT(result, IsOk());
    ASSERT_TRUE(result->item.has_value());
    EXPECT_EQ(GetString(result->item->json(), {"spec", "dataSource", "name"}),
              sources_then[k8s::Name(item)]);
    EXPECT_THAT(GetString(result->item->json(), {"spec", "dataSource", "name"}), Not(IsEmpty()));
    ++claims;
  }
  EXPECT_EQ(claims, 3);
}

// The driver's snapshots and groups go, through contents of the names that the old version gave.
TEST_F(ArchiveFixtureTest, TheDriverKeepsNothingOfADeletedBackup) {
  for (const auto& [plural, item] :
       TheFixture().Objects(TheFixture().told()["archives"]["local"]["items"])) {
    if (plural == "volumesnapshotclasses" || plural == "volumegroupsnapshotclasses") {
      api_.Seed(TypeOf(plural, item), item);
    }
  }
  support::FakeSnapshotCluster cluster(api_);
  std::set<std::string> members;
  const std::vector<Json> groups = Archived("local", "volumegroupsnapshotcontents");
  ASSERT_THAT(groups, SizeIs(1));
  const auto group = support::As<objects::VolumeGroupSnapshotContent>(groups[0]);
  for (const objects::GroupMember& member : group.members()) {
    members.insert(member.snapshot_handle);
  }
  ASSERT_THAT(members, SizeIs(2));
  cluster.driver().AddGroup(group.handle_or_source(), members);
  const std::vector<Json> contents = Archived("local", "volumesnapshotcontents");
  ASSERT_THAT(contents, SizeIs(3));
  for (const Json& content : contents) {
    if (!members.contains(support::SnapshotHandle(content))) {
      cluster.driver().AddSnapshot(support::SnapshotHandle(content));
    }
  }
  ASSERT_THAT(cluster.driver().snapshots(), SizeIs(1));
  std::set<std::string> made;
  for (const char* plural : {"volumesnapshotcontents", "volumegroupsnapshotcontents"}) {
    api_.OnCreate(plural, [&made](support::FakeApiClient&, const Json& content) {
      made.insert(k8s::Name(content));
    });
  }
  Json backup;
  for (const auto& [plural, object] :
       TheFixture().Objects(TheFixture().told()["states"]["local-restored"])) {
    if (plural == "backups" && k8s::Name(object) == "local") {
      backup = object;
      Await(object);
    }
  }
  SetJson(backup, {"status", "phase"}, "Deleting");
  const auto deletions = deleteitemactions::MakeGroupDeletions(env_);
  const auto snapshots = deleteitemactions::MakeVolumeSnapshotContentAction(env_, deletions);
  for (const Json& content : contents) {
    EXPECT_THAT(snapshots->Execute(ctx_, objects::Object(content), objects::Object(backup)),
                IsOk());
  }
  EXPECT_THAT(deleteitemactions::MakeVolumeGroupSnapshotContentAction(deletions)->Execute(
                  ctx_, objects::Object(groups[0]), objects::Object(backup)),
              IsOk());
  EXPECT_THAT(cluster.driver().groups(), IsEmpty());
  EXPECT_THAT(cluster.driver().snapshots(), IsEmpty());
  EXPECT_EQ(cluster.driver().CallCount("DeleteSnapshot"), 1);
  for (const char* state : {"snapshot-deleting", "group-deleting"}) {
    for (const auto& [plural, object] :
         TheFixture().Objects(TheFixture().told()["states"][state])) {
      if (k8s::Name(object).starts_with("csi-delta-delete-")) {
        EXPECT_THAT(made, Contains(k8s::Name(object)));
      }
    }
  }
}

// --- The mover

// Controllers of this version, from their start, and workers that end as they did then.
class MoverFixtureTest : public StatesFixtureTest, public testing::WithParamInterface<const char*> {
 protected:
  MoverFixtureTest() {
    programs_.driver_name = "test.csi-delta.io";
    api_.OnCreate("pods", [this](support::FakeApiClient&, const Json& pod) { Start(pod); });
  }

  // A state, in which the controllers of every cluster are through with what they had begun.
  void LoadSettled(const std::string& state) {
    Load(state);
    programs_.driver().cut_at_nanoseconds = absl::ToUnixNanos(clock_.Now());
    // No client plays those that protect claims and volumes.
    for (const k8s::ResourceType& type : {PersistentVolumeClaimType(), PersistentVolumeType()}) {
      for (const Json& object : api_.All(type)) {
        api_.Mutate({type, k8s::Namespace(object), k8s::Name(object)}, [](Json& unprotected) {
          EraseJson(unprotected, {"metadata", "finalizers"});
        });
      }
    }
    programs_.Resync();
  }

  void Start(const Json& pod) {
    api_.Mutate({PodType(), mover_namespace_, k8s::Name(pod)}, [](Json& started) {
      started["spec"]["nodeName"] = "node-1";
      started["status"] = {{"phase", "Running"}};
    });
    api_.Mutate({datamover::VolumeTask::Type(), mover_namespace_, k8s::Name(pod)}, [](Json& task) {
      task["status"] = {{"phase", "Running"}, {"node", "node-1"}};
    });
  }

  // What watches of tasks and Pods tell of them, as they are now.
  void TellWatchers() {
    std::set<std::string> pods;
    for (const Json& pod : api_.All(PodType())) {
      mover_.running->NotePod(support::As<objects::Pod>(pod));
      pods.insert(k8s::Name(pod));
    }
    mover_.running->NotePods(pods);
    for (const Json& task : api_.All(datamover::VolumeTask::Type())) {
      mover_.running->NoteTask(support::As<datamover::VolumeTask>(task));
      enqueue_table_.Enqueue(k8s::Name(task));
    }
  }

  // Names of what the mover made by now.
  std::set<std::string> Made() const {
    std::set<std::string> names;
    for (const k8s::ResourceType& type :
         {datamover::VolumeTask::Type(), PodType(), PersistentVolumeClaimType(),
          VolumeSnapshotType(), VolumeSnapshotContentType()}) {
      for (const Json& object : api_.All(type)) {
        if (!k8s::Label(object, objects::kMoverTaskLabel).empty()) {
          names.insert(absl::StrCat(type.plural, "/", k8s::Name(object)));
        }
      }
    }
    return names;
  }

  // Nothing of `before` was made a second time.
  void ExpectNothingMadeTwice(const std::set<std::string>& before) const {
    for (const support::ApiCall& call : api_.calls()) {
      if (call.verb == "create") {
        EXPECT_THAT(before, Not(Contains(absl::StrCat(call.plural, "/", call.name))));
      }
    }
  }

  void ExpectNoWorkers() const {
    EXPECT_THAT(api_.All(datamover::VolumeTask::Type()), IsEmpty());
    for (const Json& pod : api_.All(PodType())) {
      EXPECT_EQ(k8s::Label(pod, objects::kMoverTaskLabel), "") << k8s::Name(pod);
    }
  }

  // Of a state, the objects of a kind that have this label.
  static std::vector<Json> Then(const std::string& state, const std::string& kind,
                                const std::string& label, const std::string& value) {
    std::vector<Json> found;
    for (auto& [plural, object] : TheFixture().Objects(TheFixture().told()["states"][state])) {
      if (plural == kind && k8s::Label(object, label) == value) {
        found.push_back(std::move(object));
      }
    }
    return found;
  }

  support::FakeSnapshotCluster programs_{api_};
  support::FakeSecureRandom secure_random_;
  datamover::MoverEnvironment mover_{.api = api_,
                                     .random = Random::Real(),
                                     .secure_random = secure_random_,
                                     .mover_namespace = mover_namespace_,
                                     .cluster = cluster_,
                                     .image = "csi-delta:test",
                                     .worker_service_account = "csi-delta-worker",
                                     .settings = {}};
  datamover::EnqueueTable enqueue_table_;
  datamover::TransferScheduler scheduler_{
      datamover::LimitsOf(mover_.settings), clock_, [] { return true; },
      [this](const std::string& task) { enqueue_table_.Enqueue(task); }};
};

class UploadFixtureTest : public MoverFixtureTest {};

TEST_P(UploadFixtureTest, GoesOnToItsEnd) {
  LoadSettled(GetParam());
  const std::set<std::string> before = Made();
  datamover::UploadReconciler reconciler(mover_, scheduler_, [](const datamover::UploadEnd&) {});
  k8s::ReconcileLoop loop(
      {.type = DataUploadType(), .namespace_name = "velero", .label_selector = ""}, reconciler,
      [] { return true; }, clock_);
  datamover::SubjectEventHandler handler(
      datamover::TransferSubjects("DataUpload", datamover::QueuedUpload, scheduler_),
      enqueue_table_, loop);
  for (int look = 0; look < 40; ++look) {
    handler.OnAll(api_.All(DataUploadType()));
    loop.WorkOnce(ctx_);
    EndWorkers();
    TellWatchers();
    clock_.Advance(absl::Milliseconds(500));
  }
  // What the controller of then made of them.
  const std::vector<Json> then =
      Then("moved-completed", "datauploads", objects::kBackupNameLabel, "moved");
  int compared = 0;
  for (const Json& was : then) {
    const std::optional<Json> found = api_.Find({DataUploadType(), "velero", k8s::Name(was)});
    if (!found.has_value()) {
      continue;  // The plugin had not asked for it yet.
    }
    ++compared;
    const Json& now = *found;
    EXPECT_EQ(GetString(now, {"status", "phase"}), "Completed")
        << GetString(now, {"status", "message"});
    EXPECT_EQ(GetString(now, {"status", "snapshotID"}), GetString(was, {"status", "snapshotID"}));
    for (const char* figure : {"mode", "base", "changed-bytes", "stored-bytes", "cut-at",
                               "volume-group", "volume-group-snapshot"}) {
      const std::string key = absl::StrCat("mover.csi-delta.io/", figure);
      EXPECT_EQ(k8s::Annotation(now, key), k8s::Annotation(was, key)) << key;
    }
  }
  EXPECT_GE(compared, 1);
  ExpectNothingMadeTwice(before);
  ExpectNoWorkers();
}
INSTANTIATE_TEST_SUITE_P(States, UploadFixtureTest,
                         testing::Values("upload-accepted", "upload-prepared", "upload-inprogress"),
                         [](const auto& param) {
                           return std::string(param.param).substr(std::string("upload-").size());
                         });

class DownloadFixtureTest : public MoverFixtureTest {};

TEST_P(DownloadFixtureTest, GoesOnToItsEnd) {
  LoadSettled(GetParam());
  const std::set<std::string> before = Made();
  datamover::DownloadReconciler reconciler(mover_, scheduler_,
                                           [](const datamover::DownloadEnd&) {});
  k8s::ReconcileLoop loop(
      {.type = DataDownloadType(), .namespace_name = "velero", .label_selector = ""}, reconciler,
      [] { return true; }, clock_);
  datamover::SubjectEventHandler handler(
      datamover::TransferSubjects("DataDownload", datamover::QueuedDownload, scheduler_),
      enqueue_table_, loop);
  for (int look = 0; look < 60; ++look) {
    handler.OnAll(api_.All(DataDownloadType()));
    loop.WorkOnce(ctx_);
    EndWorkers();
    TellWatchers();
    clock_.Advance(absl::Milliseconds(500));
  }
  const std::vector<Json> downloads = api_.All(DataDownloadType());
  EXPECT_THAT(downloads, Not(IsEmpty()));
  for (const Json& download : downloads) {
    EXPECT_EQ(GetString(download, {"status", "phase"}), "Completed")
        << GetString(download, {"status", "message"});
    const Json target =
        The(PersistentVolumeClaimType(), GetString(download, {"spec", "targetVolume", "namespace"}),
            GetString(download, {"spec", "targetVolume", "pvc"}));
    EXPECT_EQ(GetString(target, {"status", "phase"}), "Bound");
  }
  ExpectNothingMadeTwice(before);
  ExpectNoWorkers();
}
INSTANTIATE_TEST_SUITE_P(States, DownloadFixtureTest,
                         testing::Values("download-accepted", "download-prepared",
                                         "download-inprogress"),
                         [](const auto& param) {
                           return std::string(param.param).substr(std::string("download-").size());
                         });

class DeletionFixtureTest : public MoverFixtureTest {};

TEST_P(DeletionFixtureTest, GoesOnToItsEnd) {
  LoadSettled(GetParam());
  const std::set<std::string> before = Made();
  k8s::ReconcileLoop* looping = nullptr;
  datamover::DeletionQueue queue(mover_.settings.deletions.workers_max, clock_,
                                 [&looping](const datamover::DeletionQueue::Name& name) {
                                   looping->Enqueue(name.namespace_name, name.name);
                                 });
  datamover::DeletionReconciler reconciler(mover_, queue);
  k8s::ReconcileLoop loop(
      {.type = DataDeletionType(), .namespace_name = "velero", .label_selector = ""}, reconciler,
      [] { return true; }, clock_);
  looping = &loop;
  datamover::SubjectEventHandler handler(datamover::DeletionSubjects(queue), enqueue_table_, loop);
  for (int look = 0; look < 40; ++look) {
    handler.OnAll(api_.All(DataDeletionType()));
    loop.WorkOnce(ctx_);
    EndWorkers();
    TellWatchers();
    clock_.Advance(absl::Milliseconds(500));
  }
  const std::vector<Json> deletions = api_.All(DataDeletionType());
  EXPECT_THAT(deletions, Not(IsEmpty()));
  for (const Json& deletion : deletions) {
    EXPECT_EQ(GetString(deletion, {"status", "phase"}), "Completed") << deletion.dump();
  }
  ExpectNothingMadeTwice(before);
  ExpectNoWorkers();
}
INSTANTIATE_TEST_SUITE_P(States, DeletionFixtureTest,
                         testing::Values("deletion-waiting", "deletion-inprogress"),
                         [](const auto& param) {
                           return std::string(param.param).substr(std::string("deletion-").size());
                         });

// All of one cluster, at once: in the middle of deletions the older version was replaced, and the
// next backup is made by this one.
class UpgradeFixtureTest : public MoverFixtureTest {
 protected:
  UpgradeFixtureTest() { deletion_looping_ = &deletion_loop_; }

  // Keys of the location, which this version may not make.
  datamover::Keyring Keys() {
    absl::StatusOr<datamover::Keyring> ring = datamover::OpenKeyring(
        ctx_, api_, mover_namespace_, {.velero_namespace = "velero", .location = "default"},
        /*make=*/false, secure_random_);
    EXPECT_THAT(ring, IsOk());
    return ring.value_or(datamover::Keyring());
  }

  std::set<std::string> Bases() const {
    std::set<std::string> names;
    for (const Json& content : api_.All(VolumeSnapshotContentType())) {
      if (k8s::Label(content, objects::kBaseLabel) == "true") {
        names.insert(k8s::Name(content));
      }
    }
    return names;
  }

  // The DataUpload of that volume in the last backup of the older version.
  static Json LastUpload(const std::string& claim) {
    for (const Json& upload :
         Then("moved-completed", "datauploads", objects::kBackupNameLabel, "moved")) {
      if (GetString(upload, {"spec", "sourcePVC"}) == claim) {
        return upload;
      }
    }
    ADD_FAILURE() << claim;
    return Json();
  }

  // Velero backs the volume of DataUpload `last` up once more. What its worker reports is an
  // increment to that one. Returns the uid of the new DataUpload.
  std::string BackUp(const Json& last) {
    const std::string space = GetString(last, {"spec", "sourceNamespace"});
    Json snapshot = {{"apiVersion", "snapshot.storage.k8s.io/v1"},
                     {"kind", "VolumeSnapshot"},
                     {"metadata", {{"name", "velero-after-upgrade"}, {"namespace", space}}}};
    snapshot["spec"] = {
        {"source", {{"persistentVolumeClaimName", GetString(last, {"spec", "sourcePVC"})}}},
        {"volumeSnapshotClassName", GetString(last, {"spec", "csiSnapshot", "snapshotClass"})}};
    EXPECT_THAT(api_.Create(ctx_, VolumeSnapshotType(), space, snapshot), IsOk());
    Json upload = {{"metadata",
                    {{"name", "after-upgrade"},
                     {"namespace", "velero"},
                     {"labels", last["metadata"]["labels"]}}},
                   {"spec", last["spec"]}};
    upload["spec"]["csiSnapshot"]["volumeSnapshot"] = "velero-after-upgrade";
    const std::string uid = k8s::Uid(api_.Seed(DataUploadType(), upload));
    std::string status = statuses_.at(datamover::TaskNameOf("DataUpload", k8s::Uid(last))).dump();
    const std::string before = k8s::Annotation(last, "mover.csi-delta.io/base");
    status = absl::StrReplaceAll(status,
                                 {{SnapshotOf(last), kNextSnapshot}, {before, SnapshotOf(last)}});
    statuses_[datamover::TaskNameOf("DataUpload", uid)] = ParseJsonObject(status).value();
    return uid;
  }

  static std::string SnapshotOf(const Json& upload) {
    const auto reference = velero::ParseDataReference(GetString(upload, {"status", "snapshotID"}));
    EXPECT_THAT(reference, IsOk());
    return reference.ok() ? reference->snapshot_id : "";
  }

  // Every controller looks once.
  void Look() {
    for (const Json& deletion : api_.All(DataDeletionType())) {
      deleted_.Note(support::As<objects::DataDeletion>(deletion));
    }
    deletion_follower_.OnAll(api_.All(DataDeletionType()));
    upload_follower_.OnAll(api_.All(DataUploadType()));
    deletion_loop_.WorkOnce(ctx_);
    upload_loop_.WorkOnce(ctx_);
    for (const Json& content : api_.All(VolumeSnapshotContentType())) {
      if (k8s::Label(content, objects::kBaseLabel) == "true") {
        EXPECT_THAT(bases_.Reconcile(ctx_, content), IsOk());
      }
    }
    TellWatchers();
    clock_.Advance(absl::Milliseconds(500));
  }

  static constexpr char kNextSnapshot[] =
      "5ec0000000000000000000000000000000000000000000000000000000000000";

  k8s::ReconcileLoop* deletion_looping_ = nullptr;
  datamover::DeletionQueue deletion_queue_{mover_.settings.deletions.workers_max, clock_,
                                           [this](const datamover::DeletionQueue::Name& name) {
                                             deletion_looping_->Enqueue(name.namespace_name,
                                                                        name.name);
                                           }};
  datamover::DeletionReconciler deletions_{mover_, deletion_queue_};
  k8s::ReconcileLoop deletion_loop_{
      {.type = DataDeletionType(), .namespace_name = "velero", .label_selector = ""},
      deletions_,
      [] { return true; },
      clock_};
  datamover::SubjectEventHandler deletion_follower_{datamover::DeletionSubjects(deletion_queue_),
                                                    enqueue_table_, deletion_loop_};
  datamover::UploadReconciler uploads_{mover_, scheduler_, [](const datamover::UploadEnd&) {}};
  k8s::ReconcileLoop upload_loop_{
      {.type = DataUploadType(), .namespace_name = "velero", .label_selector = ""},
      uploads_,
      [] { return true; },
      clock_};
  datamover::SubjectEventHandler upload_follower_{
      datamover::TransferSubjects("DataUpload", datamover::QueuedUpload, scheduler_),
      enqueue_table_, upload_loop_};
  datamover::DeletedSnapshots deleted_;
  datamover::VolumeRecords records_{1, [](const datamover::VolumeRecordKey&) {}};
  datamover::BaseReconciler bases_{mover_, deleted_, records_};
};

TEST_P(UpgradeFixtureTest, KeepsBasesKeysAndDeletions) {
  LoadSettled(GetParam());
  const std::set<std::string> bases = Bases();
  ASSERT_THAT(bases, SizeIs(3));
  const k8s::ObjectKey ring_key = datamover::KeyringSecretKey(
      mover_namespace_, {.velero_namespace = "velero", .location = "default"});
  const Json key_data = api_.Find(ring_key).value()["data"];
  const Json last = LastUpload("data");
  const std::string base_name = datamover::TaskNameOf("DataUpload", BackUp(last));
  const k8s::ObjectKey secret{SecretType(), mover_namespace_, base_name};

  // Until the next backup has its worker: with the base beside it, and the key of then.
  for (int look = 0; look < 40 && !api_.Find({PodType(), mover_namespace_, base_name}); ++look) {
    Look();
  }
  EXPECT_EQ(Bases(), bases);
  ASSERT_TRUE(api_.Find(secret).has_value());
  std::string given;
  ASSERT_TRUE(absl::Base64Unescape(GetString(*api_.Find(secret), {"data", "keyring"}), &given));
  EXPECT_EQ(given, repository::FormatKeyringFile(Keys()));
  EXPECT_EQ(Keys().newest().fingerprint,
            velero::ParseDataReference(GetString(last, {"status", "snapshotID"}))->key);

  for (int look = 0; look < 60; ++look) {
    EndWorkers();
    Look();
  }
  // The next increment: to the repository snapshot of then, whose base its own one has replaced.
  const Json upload = The(DataUploadType(), "velero", "after-upgrade");
  EXPECT_EQ(GetString(upload, {"status", "phase"}), "Completed")
      << GetString(upload, {"status", "message"});
  EXPECT_EQ(k8s::Annotation(upload, "mover.csi-delta.io/mode"), "incremental");
  EXPECT_EQ(k8s::Annotation(upload, "mover.csi-delta.io/base"), SnapshotOf(last));
  std::set<std::string> then = bases;
  then.erase(datamover::TaskNameOf("DataUpload", k8s::Uid(last)));
  then.insert(base_name);
  EXPECT_EQ(Bases(), then);
  EXPECT_EQ(api_.Find(ring_key).value()["data"], key_data);
  const std::vector<Json> deletions = api_.All(DataDeletionType());
  EXPECT_THAT(deletions, Not(IsEmpty()));
  for (const Json& deletion : deletions) {
    EXPECT_EQ(GetString(deletion, {"status", "phase"}), "Completed") << deletion.dump();
  }
  ExpectNoWorkers();
}
INSTANTIATE_TEST_SUITE_P(States, UpgradeFixtureTest,
                         testing::Values("deletion-waiting", "deletion-inprogress"),
                         [](const auto& param) {
                           return std::string(param.param).substr(std::string("deletion-").size());
                         });

}  // namespace
}  // namespace csidelta::states_fixture_test
