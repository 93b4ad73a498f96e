#include "inplace/mover_restore.h"

#include "inplace/in_place_volume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "objects/copy_record.h"
#include "objects/keys.h"
#include "tests/support/cluster_fixture.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"
#include "velero/data_reference.h"

namespace csidelta::inplace::mover_restore_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr char kDriverName[] = "d.example.com";
constexpr char kCounted[] = R"({"logical_bytes":100,"compared_bytes":100,"written_bytes":8})";

// PVC shop/data in mode Block, and DataUpload velero/nightly, which csi-delta completed.
class MoverRestoreTest : public support::ClusterFixture {
 protected:
  MoverRestoreTest() {
    cluster_.ProtectVolumes();
    support::SeedBlockPvc(api_, kDriverName);
    api_.Seed(VolumeSnapshotClassType(), support::MakeClassObject("fast", kDriverName));
    Json upload = support::MakeObject("velero.io/v2alpha1", "DataUpload", "velero", "nightly");
    upload["spec"] = {
        {"datamover", "csi-delta"},  {"backupStorageLocation", "default"},
        {"sourceNamespace", "shop"}, {"sourcePVC", "data"},
        {"snapshotType", "CSI"},     {"csiSnapshot", {{"volumeSnapshot", "velero-nightly"}}}};
    upload["status"] = {{"phase", "Completed"}, {"snapshotID", Reference()}};
    api_.Seed(DataUploadType(), upload);
    options_.on_step = [this](const std::string& sentence) {
      steps_.push_back(sentence);
      is_followed_ = is_followed_ || sentence.find("DataDownload velero/") == 0;
    };
    options_.on_progress = [this](int64_t done_bytes, int64_t) { progress_.push_back(done_bytes); };
    api_.OnCreate("datadownloads",
                  [this](support::FakeApiClient&, const Json& made) { asked_.push_back(made); });
  }

  static std::string Reference() {
    return velero::FormatDataReference({.cluster = "c1000000-0000-4000-8000-000000000001",
                                        .namespace_name = "shop",
                                        .claim_uid = "c1a10000-0000-4000-8000-00000000000a",
                                        .snapshot_id = std::string(64, 'a'),
                                        .key = std::string(16, '0')});
  }

  // As the mover: each time that the DataDownload is followed it goes one step on.
  void Steps(std::vector<std::function<void()>> steps) {
    mover_steps_ = std::move(steps);
    looks_ = 0;
    is_followed_ = false;
    api_.SetInterceptor([this](const support::ApiCall& call, const Json*) -> absl::Status {
      if (call.verb == "get" && call.plural == "datadownloads" && is_followed_ &&
          looks_ < mover_steps_.size()) {
        mover_steps_[looks_++]();
      }
      return absl::OkStatus();
    });
  }
  std::function<void()> Says(const std::string& phase, const std::string& message = "",
                             int64_t done = 0) {
    return [this, phase, message, done] {
      api_.Mutate({DataDownloadType(), "velero", k8s::Name(asked_.back())}, [&](Json& download) {
        download["status"] = {{"phase", phase},
                              {"message", message},
                              {"progress", {{"bytesDone", done}, {"totalBytes", 100}}}};
        if (phase == "Completed") {
          SetJson(download, {"metadata", "annotations", objects::kRestoredBytesAnnotation},
                  kCounted);
        }
      });
    };
  }
  void AddPod() { api_.Seed(PodType(), support::MakePodObject("data", "Running")); }
  void ChangeUpload(const std::function<void(Json&)>& change) {
    api_.Mutate({DataUploadType(), "velero", "nightly"}, change);
  }

  absl::StatusOr<MoverPlan> Plan(const std::string& pvc = "data",
                                 const MovedSource& source = {.velero_namespace = "velero",
                                                              .upload = "nightly"}) {
    const auto around = ReadRestoreSurroundings(ctx_, api_, "shop");
    EXPECT_THAT(around, IsOk());
    return PlanMoverRestore(ctx_, api_, *around, source, pvc);
  }
  absl::StatusOr<MoverRestoreResult> Restore() {
    const auto plan = Plan();
    EXPECT_THAT(plan, IsOk());
    EXPECT_THAT(plan->refusals, IsEmpty());
    return RestoreByMover(ctx_, api_, Random::Real(), *plan, options_, notes_);
  }
  std::string Consent() const {
    return k8s::Annotation(*api_.Find(ClaimKey("shop", "data")), objects::kMayWriteAnnotation);
  }
  std::size_t downloads() const { return api_.All(DataDownloadType()).size(); }
  std::size_t snapshots() const { return api_.All(VolumeSnapshotType()).size(); }

  MoverRestoreOptions options_;
  std::vector<Json> asked_;
  std::vector<std::function<void()>> mover_steps_;
  std::size_t looks_ = 0;
  bool is_followed_ = false;
  std::vector<std::string> steps_;
  std::vector<int64_t> progress_;
  std::vector<std::string> notes_;
};

// A new cluster has no DataUploads.
TEST_F(MoverRestoreTest, WithoutADataUploadItsResultAndLocationSayWhatIsRestored) {
  const auto by_upload = Plan();
  ASSERT_THAT(by_upload, IsOk());
  api_.Remove({DataUploadType(), "velero", "nightly"});
  const auto by_reference =
      Plan("data", {.velero_namespace = "velero", .upload = Reference(), .location = "default"});
  ASSERT_THAT(by_reference, IsOk());
  EXPECT_THAT(by_reference->refusals, IsEmpty());
  EXPECT_EQ(by_reference->download.json().at("spec"), by_upload->download.json().at("spec"));
  EXPECT_THAT(by_reference->download.name(), testing::StartsWith("snapshot-aaaaaaaaaaaaaaaa-"));
  EXPECT_THAT(
      Plan("data", {.velero_namespace = "velero", .upload = "nightly", .location = "default"}),
      StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(MoverRestoreTest, TheMoverIsAskedForThePvcAfterASafetySnapshot) {
  std::size_t snapshots_when_asked = 0;
  std::string consent_when_asked;
  std::string consent_when_accepted;
  absl::Time asked_at;
  api_.OnCreate("datadownloads", [&](support::FakeApiClient&, const Json& made) {
    asked_.push_back(made);
    snapshots_when_asked = snapshots();
    consent_when_asked = Consent();
    asked_at = clock_.Now();
  });
  const auto accepts = Says("Accepted", "waits for its turn");
  Steps({[&] {
           consent_when_accepted = Consent();
           accepts();
         },
         Says("InProgress", "", 5), Says("InProgress", "", 7), Says("Completed")});
  const auto restored = Restore();
  ASSERT_THAT(restored, IsOk());
  EXPECT_EQ(restored->figures.written_bytes, 8);
  EXPECT_EQ(restored->figures.compared_bytes, 100);
  EXPECT_THAT(restored->safety_snapshot, HasSubstr("data-before-restore"));
  EXPECT_EQ(snapshots_when_asked, 1U);
  EXPECT_THAT(progress_, ElementsAre(5, 7));
  EXPECT_THAT(steps_, ElementsAre(HasSubstr("for safety"), HasSubstr("asks the data mover"),
                                  "waits for its turn"));
  EXPECT_EQ(downloads(), 0U);
  ASSERT_FALSE(asked_.empty());
  const Json& download = asked_.front();
  EXPECT_EQ(k8s::Namespace(download), "velero");
  EXPECT_EQ(k8s::Annotation(download, objects::kIntoAnnotation), "data-uid");
  EXPECT_EQ(k8s::Annotation(download, objects::kIntoUploadAnnotation), "nightly");
  const auto parsed = objects::DataDownload::Parse(objects::Object(download));
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(parsed->data_mover(), objects::kDataMoverName);
  EXPECT_EQ(parsed->target_namespace(), "shop");
  EXPECT_EQ(parsed->target_pvc(), "data");
  EXPECT_EQ(parsed->target_volume(), "pv-1");
  EXPECT_EQ(k8s::Label(download, objects::kExcludeFromBackupLabel), "true");
  EXPECT_EQ(ParseRfc3339(k8s::Annotation(download, objects::kStartBeforeAnnotation)),
            asked_at + kMoverStartTimeMax);
  // An older data mover fills a new volume where it does not know of `into`, but none that is
  // named.
  Json unknown = download;
  EraseJson(unknown, {"metadata", "annotations", objects::kIntoAnnotation});
  EXPECT_THAT(objects::DataDownload::Parse(objects::Object(unknown)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("pv-1")));
  // Nothing else can have what the PVC consents to.
  EXPECT_EQ(consent_when_asked, "");
  EXPECT_EQ(consent_when_accepted, k8s::Uid(download));
  EXPECT_EQ(parsed->storage_location(), "default");
  EXPECT_EQ(parsed->source_namespace(), "shop");
  EXPECT_EQ(parsed->moved_snapshot(), Reference());
}

TEST_F(MoverRestoreTest, WithoutSafetyNoneIsTaken) {
  options_.takes_safety_snapshot = false;
  Steps({Says("Completed")});
  std::size_t leases = 0;
  api_.OnCreate("datadownloads", [&](support::FakeApiClient& api, const Json&) {
    leases += api.All(LeaseType()).size();
  });
  const auto restored = Restore();
  ASSERT_THAT(restored, IsOk());
  EXPECT_EQ(leases, 1U);
  EXPECT_EQ(restored->safety_snapshot, "");
  EXPECT_EQ(snapshots(), 0U);
}

TEST_F(MoverRestoreTest, NothingIsAskedForWhereTheSafetySnapshotFails) {
  cluster_.driver().Refuse("CreateSnapshot", "INVALID_ARGUMENT", "no room");
  EXPECT_THAT(Restore().status(), Not(IsOk()));
  EXPECT_EQ(downloads(), 0U);
}

TEST_F(MoverRestoreTest, APodThatStartedMeanwhileIsSeen) {
  api_.OnCreate("volumesnapshots", [this](support::FakeApiClient&, const Json&) { AddPod(); });
  EXPECT_THAT(Restore(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("app-0")));
  EXPECT_EQ(downloads(), 0U);
}

TEST_F(MoverRestoreTest, WhatFailedSaysWhyAndWhereTheOldDataIs) {
  for (const char* phase : {"Failed", "Canceled"}) {
    SCOPED_TRACE(phase);
    Steps({Says(phase, "blob 5f3a is damaged")});
    EXPECT_THAT(Restore(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                    AllOf(HasSubstr("blob 5f3a is damaged"), HasSubstr(phase),
                                          HasSubstr("run this again"),
                                          HasSubstr("VolumeSnapshot data-before-restore"))));
    EXPECT_EQ(Consent(), "");
    EXPECT_EQ(downloads(), 1U);        // For who looks, until the next run.
    clock_.Advance(absl::Seconds(1));  // The next VolumeSnapshot has a name of its own.
  }
  Steps({Says("Completed")});
  EXPECT_THAT(Restore(), IsOk());
  EXPECT_EQ(downloads(), 0U);
}

// The mover does not need the program.
TEST_F(MoverRestoreTest, ARunThatWasKilledIsGoneOnWith) {
  std::stop_source stop;
  ctx_.stop = stop.get_token();
  Steps({Says("InProgress", "", 5), [&stop] { stop.request_stop(); }});
  EXPECT_THAT(Restore(), StatusIs(absl::StatusCode::kCancelled,
                                  AllOf(HasSubstr("goes on"), HasSubstr("\"cancel\":true"))));
  ASSERT_EQ(downloads(), 1U);
  // As the mover has it.
  const std::string uid = k8s::Uid(api_.All(DataDownloadType()).front());
  api_.Mutate(ClaimKey("shop", "data"), [&](Json& pvc) {
    SetJson(pvc, {"metadata", "annotations", objects::kCopyRecordAnnotation},
            objects::FormatCopyRecord({.from = absl::StrCat("velero/", k8s::Name(asked_.back())),
                                       .id = uid,
                                       .has_begun = true,
                                       .has_written = true}));
  });
  ctx_.stop = {};
  steps_.clear();
  Steps({Says("Completed")});
  const auto plan = Plan();
  ASSERT_THAT(plan, IsOk());
  EXPECT_TRUE(plan->goes_on);
  EXPECT_THAT(plan->refusals, IsEmpty());
  const auto restored = Restore();
  ASSERT_THAT(restored, IsOk());
  EXPECT_EQ(restored->safety_snapshot, "");
  EXPECT_EQ(snapshots(), 1U);
  EXPECT_THAT(asked_, SizeIs(1));
  EXPECT_THAT(steps_, Contains(HasSubstr("earlier run")));
}

// What no mover has accepted must not write when it is long forgotten.
TEST_F(MoverRestoreTest, WhatHasNotBegunIsWithdrawn) {
  std::stop_source stop;
  ctx_.stop = stop.get_token();
  Steps({[&stop] { stop.request_stop(); }});
  EXPECT_THAT(Restore(), StatusIs(absl::StatusCode::kCancelled, HasSubstr("nothing was written")));
  EXPECT_EQ(downloads(), 0U);
  EXPECT_EQ(Consent(), "");
}

// Accepted between the last look and the deletion: it is not taken back under the mover's hands.
TEST_F(MoverRestoreTest, WhatIsAcceptedAsItIsWithdrawnGoesOn) {
  std::stop_source stop;
  ctx_.stop = stop.get_token();
  const std::function<void()> accepts = Says("Accepted");
  api_.SetInterceptor([&](const support::ApiCall& call, const Json*) -> absl::Status {
    if (call.verb == "get" && call.plural == "datadownloads" && is_followed_) {
      stop.request_stop();
    } else if (call.verb == "delete" && call.plural == "datadownloads") {
      accepts();
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(Restore(), StatusIs(absl::StatusCode::kCancelled, HasSubstr("goes on")));
  ASSERT_EQ(downloads(), 1U);
  EXPECT_EQ(Consent(), k8s::Uid(asked_.back()));
}

// It could begin while the safety snapshot is taken.
TEST_F(MoverRestoreTest, OneOfAnEarlierRunThatHasNotBegunIsCreatedAgain) {
  std::stop_source stop;
  ctx_.stop = stop.get_token();
  Steps({Says("Accepted"), [&stop] { stop.request_stop(); }});
  EXPECT_THAT(Restore(), StatusIs(absl::StatusCode::kCancelled, HasSubstr("goes on")));
  ASSERT_EQ(downloads(), 1U);
  ctx_.stop = {};
  Steps({Says("Completed")});
  clock_.Advance(absl::Seconds(1));
  EXPECT_FALSE(Plan()->goes_on);
  EXPECT_THAT(Restore(), IsOk());
  EXPECT_THAT(asked_, SizeIs(2));
  EXPECT_EQ(snapshots(), 2U);
}

TEST_F(MoverRestoreTest, WhatThePvcDoesNotConsentToIsWithdrawn) {
  for (const support::Fault fault : {support::Fault::kRefused, support::Fault::kAnswerLost}) {
    clock_.Advance(absl::Seconds(1));
    api_.FailNext("patch", "persistentvolumeclaims", absl::InternalError("odd"), 1, fault);
    api_.FailNext("delete", "datadownloads", absl::UnavailableError("away"), 3);
    EXPECT_THAT(Restore(), StatusIs(absl::StatusCode::kInternal, HasSubstr("may-write")));
    EXPECT_EQ(downloads(), 0U);
    EXPECT_EQ(Consent(), "");
    EXPECT_THAT(notes_, IsEmpty());
  }
}

// A PVC of that name that is made meanwhile was not asked about.
TEST_F(MoverRestoreTest, AnotherPvcOfTheNameDoesNotConsent) {
  api_.OnCreate("datadownloads", [](support::FakeApiClient& api, const Json&) {
    api.SetField(ClaimKey("shop", "data"), {"metadata", "uid"}, "later-uid");
  });
  Steps({Says("Completed")});
  EXPECT_THAT(Restore(), StatusIs(absl::StatusCode::kAborted, HasSubstr("may-write")));
  EXPECT_EQ(Consent(), "");
  EXPECT_EQ(downloads(), 0U);
}

// Nor is that of another run taken back.
TEST_F(MoverRestoreTest, OnlyTheOwnConsentIsTakenBack) {
  Steps({[this] {
    api_.SetField(ClaimKey("shop", "data"),
                  {"metadata", "annotations", objects::kMayWriteAnnotation}, "later-uid");
    Says("Failed", "the consent is gone")();
  }});
  EXPECT_THAT(Restore().status(), Not(IsOk()));
  EXPECT_EQ(Consent(), "later-uid");
}

TEST_F(MoverRestoreTest, AMomentInWhichThePvcCannotBeChangedEndsNothing) {
  api_.FailNext("patch", "persistentvolumeclaims", absl::UnavailableError("away"), 2);
  Steps({Says("Completed")});
  EXPECT_THAT(Restore(), IsOk());
}

// Each writer of DataDownloads could make one of that name: it has another uid.
TEST_F(MoverRestoreTest, KilledAtAnyCallItLeavesNoConsentToAnythingElse) {
  options_.takes_safety_snapshot = false;
  const std::function<void()> completes = Says("Completed");
  for (int n = 1;; ++n) {
    SCOPED_TRACE(n);
    const auto plan = Plan();
    ASSERT_THAT(plan, IsOk());
    is_followed_ = false;
    int calls = 0;
    api_.SetInterceptor([&](const support::ApiCall& call, const Json*) -> absl::Status {
      if (++calls >= n) {
        return absl::InternalError("killed");
      }
      if (call.verb == "get" && call.plural == "datadownloads" && is_followed_) {
        completes();
      }
      return absl::OkStatus();
    });
    const auto restored = RestoreByMover(ctx_, api_, Random::Real(), *plan, options_, notes_);
    api_.ClearFaults();
    if (restored.ok() && calls < n) {
      EXPECT_GT(n, 5);
      return;
    }
    const k8s::ObjectKey key = plan->download.key();
    api_.Remove(key);
    const Json another = api_.Seed(key.type, plan->download.json());
    EXPECT_THAT(Consent(), Not(AnyOf(k8s::Uid(another), absl::StrCat("velero/", key.name))));
    api_.Remove(key);
    clock_.Advance(absl::Minutes(30));  // The Lease that the killed run left runs out.
  }
}

// Gone on with is only what this very DataDownload has begun to write, and what may still go on.
TEST_F(MoverRestoreTest, OnlyWhatHasBegunIsGoneOnWith) {
  const std::string name = Plan()->download.name();
  const auto goes_on = [&](const char* phase, const objects::CopyRecord& record) {
    api_.SetField({DataDownloadType(), "velero", name}, {"status", "phase"}, phase);
    api_.Mutate(ClaimKey("shop", "data"), [&](Json& pvc) {
      SetJson(pvc, {"metadata", "annotations", objects::kCopyRecordAnnotation},
              FormatCopyRecord(record));
    });
    return Plan()->goes_on;
  };
  Json made = Plan()->download.json();
  made["metadata"]["uid"] = "made-uid";
  api_.Seed(DataDownloadType(), made);
  const objects::CopyRecord begun{
      .from = "velero/x", .id = "made-uid", .has_begun = true, .has_written = true};
  EXPECT_TRUE(goes_on("InProgress", begun));
  EXPECT_FALSE(goes_on("Failed", begun));
  objects::CopyRecord other = begun;
  other.id = "other-uid";
  EXPECT_FALSE(goes_on("InProgress", other));
  other = begun;
  other.has_written = false;
  EXPECT_FALSE(goes_on("InProgress", other));
  other = begun;
  other.has_ended = true;
  EXPECT_FALSE(goes_on("InProgress", other));
}

// One that has the name, and restores something else.
TEST_F(MoverRestoreTest, AnotherOneOfTheNameIsNotFollowed) {
  const auto plan = Plan();
  ASSERT_THAT(plan, IsOk());
  const std::vector<std::function<void(Json&)>> changes = {
      [](Json& download) {
        SetJson(download, {"metadata", "annotations", objects::kIntoAnnotation}, "other-uid");
      },
      [](Json& download) { download["spec"]["snapshotID"] = "other"; },
      [](Json& download) { download["spec"]["targetVolume"]["pv"] = "pv-2"; }};
  MoverPlan going_on = *plan;
  going_on.goes_on = true;
  for (const auto& change : changes) {
    Json other = plan->download.json();
    change(other);
    other["status"]["phase"] = "Completed";
    api_.Seed(DataDownloadType(), other);
    EXPECT_THAT(RestoreByMover(ctx_, api_, Random::Real(), going_on, options_, notes_),
                StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("is another one")));
  }
  api_.Remove(plan->download.key());
  EXPECT_THAT(RestoreByMover(ctx_, api_, Random::Real(), going_on, options_, notes_),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("has just ended")));
}

TEST_F(MoverRestoreTest, ADriverThatDeregistersIsRefused) {
  api_.SetField(VolumeKey("pv-1"), {"spec", "csi", "driver"}, "csi.vsphere.vmware.com");
  EXPECT_EQ(Plan()->refusals.front().code, "UnsafeDriver");
}

TEST_F(MoverRestoreTest, ADataDownloadThatIsDeletedIsAnError) {
  Steps({Says("InProgress"), [this] {
           api_.Remove({DataDownloadType(), "velero", k8s::Name(asked_.back())});
         }});
  EXPECT_THAT(Restore(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another client deleted")));
  EXPECT_EQ(Consent(), "");
  // As is one that was made again.
  Steps({Says("InProgress"), [this] {
           Json again = asked_.back();
           again["metadata"]["uid"] = "again-uid";
           again["status"]["phase"] = "Completed";
           api_.Seed(DataDownloadType(), again);
         }});
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(Restore(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another client deleted")));
}

TEST_F(MoverRestoreTest, AMoverThatIsNotThereIsNoted) {
  std::vector<std::function<void()>> nothing(60, [] {});
  nothing.push_back(Says("Completed"));
  Steps(std::move(nothing));
  ASSERT_THAT(Restore(), IsOk());
  EXPECT_THAT(steps_, Contains(HasSubstr("no data mover has accepted")));
}

TEST_F(MoverRestoreTest, AnApiServerThatIsAwayForAMomentEndsNothing) {
  Steps({Says("InProgress"), Says("InProgress"), Says("Completed")});
  api_.OnCreate("datadownloads", [this](support::FakeApiClient& api, const Json& made) {
    asked_.push_back(made);
    api.FailNext("get", "datadownloads", absl::UnavailableError("away"), 3);
  });
  EXPECT_THAT(Restore(), IsOk());
}

TEST_F(MoverRestoreTest, OnlyWhatCsiDeltaCompletedComesBack) {
  ChangeUpload([](Json& upload) { upload["status"]["phase"] = "InProgress"; });
  EXPECT_THAT(Plan(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("InProgress")));
  ChangeUpload([](Json& upload) {
    upload["status"]["phase"] = "Completed";
    upload["spec"]["datamover"] = "velero";
  });
  EXPECT_THAT(Plan(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("\"velero\"")));
  ChangeUpload([](Json& upload) {
    upload["spec"]["datamover"] = "csi-delta";
    upload["status"]["snapshotID"] = "../../x";
  });
  EXPECT_THAT(Plan(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("snapshotID")));
  api_.Remove({DataUploadType(), "velero", "nightly"});
  EXPECT_THAT(Plan(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("velero/nightly")));
}

TEST_F(MoverRestoreTest, WhatIsAgainstThePvcIsAgainstTheMoverToo) {
  AddPod();
  const auto plan = Plan();
  ASSERT_THAT(plan, IsOk());
  ASSERT_THAT(plan->refusals, SizeIs(1));
  EXPECT_EQ(plan->refusals.front().code, "InUse");
  api_.Mutate(ClaimKey("shop", "data"), [](Json& pvc) {
    pvc["spec"]["volumeMode"] = "Filesystem";
    pvc["spec"]["accessModes"] = {"ReadWriteMany"};
  });
  EXPECT_EQ(Plan()->refusals.front().code, "SharedVolume");
  EXPECT_THAT(Plan("none"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("shop/none")));
}

// While the mover writes for another DataDownload, nothing else is restored into the PVC.
TEST_F(MoverRestoreTest, TheMoverAtWorkIsAgainstOthers) {
  api_.Seed(DataDownloadType(),
            {{"metadata", {{"name", "other-1"}, {"namespace", "velero"}, {"uid", "other-uid"}}},
             {"status", {{"phase", "InProgress"}}}});
  api_.Mutate(ClaimKey("shop", "data"), [](Json& pvc) {
    SetJson(pvc, {"metadata", "annotations", objects::kCopyRecordAnnotation},
            objects::FormatCopyRecord({.from = "velero/other-1", .id = "other-uid"}));
  });
  const auto plan = Plan();
  ASSERT_THAT(plan, IsOk());
  ASSERT_THAT(plan->refusals, SizeIs(1));
  EXPECT_EQ(plan->refusals.front().code, "Busy");
  EXPECT_THAT(plan->refusals.front().message,
              AllOf(HasSubstr("DataDownload velero/other-1"), HasSubstr("kubectl annotate")));
}

TEST_F(MoverRestoreTest, TheRightsAreAskedForBefore) {
  EXPECT_THAT(CheckMayAskMover(ctx_, api_, "velero", "shop"), IsOk());
  for (const auto& [verb, plural] :
       std::vector<std::pair<std::string, std::string>>{{"get", "datauploads"},
                                                        {"get", "datadownloads"},
                                                        {"create", "datadownloads"},
                                                        {"delete", "datadownloads"},
                                                        {"patch", "persistentvolumeclaims"},
                                                        {"list", "pods"}}) {
    api_.Forbid(verb, plural);
    EXPECT_THAT(
        CheckMayAskMover(ctx_, api_, "velero", "shop"),
        StatusIs(absl::StatusCode::kPermissionDenied,
                 AllOf(HasSubstr(verb + " " + plural), HasSubstr("csi-delta-snapshot-admin"))));
    api_.ClearFaults();
  }
}

}  // namespace
}  // namespace csidelta::inplace::mover_restore_test
