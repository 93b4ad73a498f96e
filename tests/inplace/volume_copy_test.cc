#include "inplace/volume_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/rfc3339.h"
#include "csi/copy_record.h"
#include "objects/keys.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::inplace::volume_copy_test {
namespace {

using objects::PersistentVolumeClaim;
using objects::Pod;
using objects::VolumeSnapshot;
using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr char kDone[] =
    R"({"message_type":"status","stage":"copy","bytes_done":1,"total_bytes":2}
{"message_type":"result","logical_bytes":100,"compared_bytes":100,"written_bytes":8,"zero_bytes":2,"kept_bytes":90,"used_list":true,"list_refused":""}
)";

class VolumeCopyTest : public testing::Test {
 protected:
  VolumeCopyTest() {
    bed_.clock.SetAutoAdvance(true);
    Json target = support::MakeObject("v1", "PersistentVolumeClaim", "shop", "data");
    target["spec"] = {{"storageClassName", "fast"},
                      {"volumeMode", "Block"},
                      {"volumeName", "pv-1"},
                      {"accessModes", {"ReadWriteOnce"}}};
    target["status"] = {{"phase", "Bound"}, {"capacity", {{"storage", "2Gi"}}}};
    bed_.api.Seed(PersistentVolumeClaimType(), target);
    Json snapshot = support::MakeSnapshotObject("shop", "monday", "content-of-monday");
    snapshot["status"]["readyToUse"] = true;
    snapshot["status"]["restoreSize"] = "1Gi";
    bed_.api.Seed(VolumeSnapshotType(), snapshot);
    pod_key_ = {PodType(), "shop", CopyName(target_pvc(), monday())};
    pvc_key_ = ClaimKey("shop", pod_key_.name);
  }

  PersistentVolumeClaim target_pvc() {
    return *PersistentVolumeClaim::Of(*bed_.api.Find(ClaimKey("shop", "data")));
  }
  VolumeSnapshot monday() {
    return *VolumeSnapshot::Of(*bed_.api.Find(VolumeSnapshotKey("shop", "monday")));
  }
  VolumeCopyRequest Request() {
    return {.target = target_pvc(),
            .snapshot = monday(),
            .safety_snapshot = "before",
            .pod = {.image = "csi-delta:1"},
            .on_progress = [this](const VolumeCopyProgress& progress) {
              progress_.push_back(progress.done_bytes);
            }};
  }
  absl::StatusOr<VolumeCopyResult> Copy(const VolumeCopyRequest& request) {
    return CopyIntoVolume(bed_.ctx, bed_.api, request, notes_);
  }

  void SetPhase(const std::string& phase, const std::string& message = "") {
    bed_.api.Mutate(pod_key_, [&](Json& pod) {
      pod["status"]["phase"] = phase;
      if (!message.empty()) {
        pod["status"]["containerStatuses"] = {
            {{"name", "copy"}, {"state", {{"terminated", {{"message", message}}}}}}};
      }
    });
  }
  // As a kubelet: each time that the Pod is read it goes one step on.
  void Steps(std::vector<std::function<void()>> steps) {
    steps_ = std::move(steps);
    bed_.api.SetInterceptor([this](const support::ApiCall& call, const Json*) -> absl::Status {
      if (call.verb == "get" && call.plural == "pods" && call.subresource.empty() &&
          looks_ < steps_.size()) {
        steps_[looks_++]();
      }
      return absl::OkStatus();
    });
  }
  std::function<void()> Running(const std::string& log = "") {
    return [this, log] {
      SetPhase("Running");
      bed_.api.SetLog(pod_key_, log);
    };
  }
  std::function<void()> Ended(const std::string& phase, const std::string& message) {
    return [this, phase, message] { SetPhase(phase, message); };
  }
  // Nothing of a copy is left; what was there before is.
  void ExpectNothingLeft() {
    EXPECT_EQ(bed_.api.Find(pod_key_), std::nullopt);
    EXPECT_EQ(bed_.api.Find(pvc_key_), std::nullopt);
    EXPECT_EQ(bed_.api.All(PersistentVolumeClaimType()).size(), 1U);
  }
  // The object as it was sent.
  void Keep(const std::string& plural, std::optional<Json>& into) {
    bed_.api.OnCreate(plural, [&into](support::FakeApiClient&, const Json& made) { into = made; });
  }

  support::ActionBed bed_;
  k8s::ObjectKey pod_key_;
  k8s::ObjectKey pvc_key_;
  std::vector<std::function<void()>> steps_;
  std::size_t looks_ = 0;
  std::vector<std::string> notes_;
  std::vector<int64_t> progress_;
};

TEST_F(VolumeCopyTest, APodCopiesAndNothingIsLeft) {
  Steps({Running(R"({"message_type":"status","bytes_done":5,"total_bytes":9,"stage":"copy"})"
                 "\n"),
         Running("no document\n"),
         Running("x\n{\"message_type\":\"status\",\"bytes_done\":7,\"total_bytes\":9}\n"),
         Ended("Succeeded", kDone)});
  const auto copied = Copy(Request());
  ASSERT_THAT(copied, IsOk());
  EXPECT_EQ(copied->written_bytes, 8);
  EXPECT_EQ(copied->zero_bytes, 2);
  EXPECT_EQ(copied->kept_bytes, 90);
  EXPECT_TRUE(copied->used_list);
  EXPECT_THAT(progress_, ElementsAre(5, 7));
  EXPECT_THAT(notes_, IsEmpty());
  ExpectNothingLeft();
  EXPECT_EQ(target_pvc().volume_name(), "pv-1");
  EXPECT_FALSE(ParseCopyRecord(target_pvc()).has_value());
}

TEST_F(VolumeCopyTest, ThePodIsRestrictedAndHasNoToken) {
  std::optional<Json> pod;
  std::optional<Json> pvc;
  Keep("pods", pod);
  Keep("persistentvolumeclaims", pvc);
  Steps({Ended("Succeeded", kDone)});
  VolumeCopyRequest request = Request();
  request.pod.supplemental_groups = {6};
  request.pod.image_pull_secrets = {"registry"};
  ASSERT_THAT(Copy(request), IsOk());
  ASSERT_TRUE(pod.has_value() && pvc.has_value());
  const Json& spec = (*pod)["spec"];
  const Json& container = spec["containers"][0];
  EXPECT_EQ(spec["automountServiceAccountToken"], false);
  EXPECT_EQ(spec["restartPolicy"], "Never");
  EXPECT_EQ(spec["securityContext"]["runAsNonRoot"], true);
  EXPECT_EQ(spec["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
  EXPECT_EQ(spec["securityContext"]["supplementalGroups"], Json::array({6}));
  EXPECT_EQ(spec["imagePullSecrets"][0]["name"], "registry");
  EXPECT_EQ(container["securityContext"]["capabilities"]["drop"], Json::array({"ALL"}));
  EXPECT_EQ(container["securityContext"]["allowPrivilegeEscalation"], false);
  EXPECT_EQ(container["securityContext"]["readOnlyRootFilesystem"], true);
  EXPECT_EQ(container["image"], "csi-delta:1");
  EXPECT_THAT(container["args"], Not(Contains("--volume-snapshot")));
  // The temporary PVC is read, the PVC is written.
  EXPECT_EQ(spec["volumes"][0]["persistentVolumeClaim"]["claimName"], "data");
  EXPECT_EQ(spec["volumes"][1]["persistentVolumeClaim"]["claimName"], pvc_key_.name);
  for (const int i : {0, 1}) {
    EXPECT_EQ(container["volumeDevices"][i]["name"], spec["volumes"][i]["name"]);
  }
  EXPECT_EQ(container["volumeDevices"][0]["devicePath"], kCopyTargetPath);
  EXPECT_EQ(container["volumeDevices"][1]["devicePath"], kCopySourcePath);
  EXPECT_THAT(container["args"], AllOf(Contains(kCopySourcePath), Contains(kCopyTargetPath)));
  EXPECT_EQ((*pvc)["spec"]["dataSource"]["name"], "monday");
  EXPECT_EQ((*pvc)["spec"]["volumeMode"], "Block");
  EXPECT_EQ((*pvc)["spec"]["storageClassName"], "fast");
  EXPECT_EQ((*pvc)["spec"]["resources"]["requests"]["storage"], "1Gi");
  for (const Json& made : {*pod, *pvc}) {
    EXPECT_EQ(k8s::Label(made, objects::kCopiesIntoLabel), target_pvc().uid());
    EXPECT_EQ(k8s::Label(made, objects::kExcludeFromBackupLabel), "true");
    EXPECT_EQ(made["metadata"]["ownerReferences"][0]["uid"], target_pvc().uid());
  }
}

// One that was left behind, and is scheduled when the PVC is in use again, writes nothing.
TEST_F(VolumeCopyTest, ThePodMustNotBeginLater) {
  std::optional<Json> pod;
  Keep("pods", pod);
  Steps({Ended("Succeeded", kDone)});
  const absl::Time latest = bed_.clock.Now() + kCopyStartTimeMax;
  ASSERT_THAT(Copy(Request()), IsOk());
  EXPECT_THAT((*pod)["spec"]["containers"][0]["args"],
              AllOf(Contains("--start-before"), Contains(FormatRfc3339(latest))));
}

TEST_F(VolumeCopyTest, WithAnAccountTheDriverIsAsked) {
  std::optional<Json> pod;
  Keep("pods", pod);
  Steps({Ended("Succeeded", kDone)});
  VolumeCopyRequest request = Request();
  request.pod.service_account = "lister";
  ASSERT_THAT(Copy(request), IsOk());
  EXPECT_EQ((*pod)["spec"]["serviceAccountName"], "lister");
  EXPECT_EQ((*pod)["spec"]["automountServiceAccountToken"], true);
  EXPECT_THAT((*pod)["spec"]["containers"][0]["args"],
              AllOf(Contains("--volume-snapshot"), Contains("shop/before"), Contains("--base"),
                    Contains("monday")));
  request.safety_snapshot = "";
  looks_ = 0;
  Steps({Ended("Succeeded", kDone)});
  ASSERT_THAT(Copy(request), IsOk());
  EXPECT_THAT((*pod)["spec"]["containers"][0]["args"], Not(Contains("--volume-snapshot")));
}

TEST_F(VolumeCopyTest, APodThatFailsSaysWhy) {
  Steps({Running(), Ended("Failed",
                          "noise\n{\"message_type\":\"exit_error\",\"code\":1,"
                          "\"message\":\"the device is partly old\"}\n")});
  EXPECT_THAT(Copy(Request()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("PVC shop/data"), HasSubstr("the device is partly old"))));
  ExpectNothingLeft();
}

// What looks at the PVC before a copy is complete sees of what, and what finishes it.
TEST_F(VolumeCopyTest, ThePvcSaysWhatIsCopiedUntilThatIsComplete) {
  std::optional<csi::CopyRecord> while_running;
  Steps({Running(), [&] { while_running = ParseCopyRecord(target_pvc()); }, Ended("Failed", "")});
  EXPECT_THAT(Copy(Request()), StatusIs(absl::StatusCode::kFailedPrecondition));
  ASSERT_TRUE(while_running.has_value());
  EXPECT_EQ(while_running->method, csi::CopyRecord::Method::kSnapshot);
  EXPECT_EQ(while_running->from, "monday");
  const auto after = ParseCopyRecord(target_pvc());
  ASSERT_TRUE(after.has_value());
  EXPECT_TRUE(after->has_begun);
  EXPECT_FALSE(csi::IsWrittenByPod(*while_running) && while_running->has_ended);
  EXPECT_TRUE(after->has_ended);
  looks_ = 0;
  Steps({Running(), [&] { while_running = ParseCopyRecord(target_pvc()); },
         Ended("Succeeded", kDone)});
  ASSERT_THAT(Copy(Request()), IsOk());
  EXPECT_TRUE(csi::IsWrittenByPod(*while_running)) << "again, and so it says";
  EXPECT_FALSE(ParseCopyRecord(target_pvc()).has_value());
}

// The snapshot controller takes its finalizer off the PVC once the snapshot for safety is taken.
TEST_F(VolumeCopyTest, APvcThatIsChangedAfterItWasReadIsReadAgain) {
  Steps({Running(), Ended("Succeeded", kDone)});
  bed_.api.FailNext("patch", "persistentvolumeclaims", absl::AbortedError("modified"), 3);
  EXPECT_THAT(Copy(Request()), IsOk());
  EXPECT_EQ(bed_.api.CallCount("patch", "persistentvolumeclaims"), 5) << "four, and one at the end";
  ExpectNothingLeft();
}

TEST_F(VolumeCopyTest, APvcThatChangesAllTheTimeIsNotWrittenInto) {
  bed_.api.FailNext("patch", "persistentvolumeclaims", absl::AbortedError("modified"), 1000);
  EXPECT_THAT(Copy(Request()), StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(bed_.api.CallCount("create", "pods"), 0);
}

TEST_F(VolumeCopyTest, WhereNothingWasWrittenNothingIsPartlyOld) {
  Steps({Ended("Failed", R"({"message_type":"exit_error","code":22,"message":"too small"})")});
  EXPECT_THAT(Copy(Request()), StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_FALSE(ParseCopyRecord(target_pvc()).has_value());
  // But what was partly old before still is.
  bed_.api.Mutate(ClaimKey("shop", "data"), [](Json& pvc) {
    SetJson(
        pvc, {"metadata", "annotations", objects::kCopyRecordAnnotation},
        csi::FormatCopyRecord(
            {.method = csi::CopyRecord::Method::kSnapshot, .from = "tuesday", .has_begun = true}));
  });
  looks_ = 0;
  Steps({Ended("Failed", R"({"message_type":"exit_error","code":22,"message":"too small"})")});
  EXPECT_THAT(Copy(Request()), StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_TRUE(ParseCopyRecord(target_pvc()).has_value());
}

// Of two that begin at once one finds the other's record.
TEST_F(VolumeCopyTest, APodIsWithdrawnWhereAnotherRestoreHasBegun) {
  bed_.api.OnCreate("pods", [](support::FakeApiClient& api, const Json&) {
    api.Mutate(ClaimKey("shop", "data"), [](Json& pvc) {
      SetJson(pvc, {"metadata", "annotations", objects::kCopyRecordAnnotation},
              csi::FormatCopyRecord({.method = csi::CopyRecord::Method::kMover,
                                     .from = "velero/x",
                                     .id = "download-uid"}));
    });
  });
  EXPECT_THAT(Copy(Request()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("meanwhile"), HasSubstr("DataDownload velero/x"))));
  ExpectNothingLeft();
  EXPECT_EQ(ParseCopyRecord(target_pvc())->id, "download-uid");
}

// What was deleted and made again meanwhile is another volume.
TEST_F(VolumeCopyTest, APvcThatIsMadeAgainIsNotWrittenInto) {
  const VolumeCopyRequest request = Request();
  // With its record, too, as by a client that writes back what it read.
  bed_.api.OnCreate("pods", [](support::FakeApiClient& api, const Json&) {
    api.Mutate(ClaimKey("shop", "data"), [](Json& pvc) { pvc["metadata"]["uid"] = "later-uid"; });
  });
  Steps({Ended("Succeeded", kDone)});
  for (const char* want : {"meanwhile", "made again"}) {
    EXPECT_THAT(Copy(request), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(want)));
    ExpectNothingLeft();
  }
  EXPECT_EQ(bed_.api.CallCount("create", "pods"), 1);
}

// The Pod is there by then: what is given up then for a moment is given up half-way.
TEST_F(VolumeCopyTest, AMomentInWhichTheRecordCannotBeReadAgainEndsNothing) {
  absl::Status answer;
  int times = 0;
  bed_.api.OnCreate("pods", [&](support::FakeApiClient& api, const Json&) {
    api.FailNext("get", "persistentvolumeclaims", answer, times);
  });
  for (const absl::Status& moment :
       {absl::UnavailableError("away"), absl::DeadlineExceededError("slow"),
        absl::AbortedError("busy"), absl::ResourceExhaustedError("too many")}) {
    SCOPED_TRACE(moment.ToString());
    answer = moment;
    times = 5;
    looks_ = 0;
    Steps({Running(), Ended("Succeeded", kDone)});
    EXPECT_THAT(Copy(Request()), IsOk());
    ExpectNothingLeft();
  }
}

TEST_F(VolumeCopyTest, WhereTheRecordCannotBeReadAgainTheCopyEnds) {
  bed_.api.OnCreate("pods", [](support::FakeApiClient& api, const Json&) {
    api.FailNext("get", "persistentvolumeclaims", absl::UnavailableError("away"), 100);
  });
  const absl::Time began = bed_.clock.Now();
  EXPECT_THAT(Copy(Request()), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("away")));
  EXPECT_LT(bed_.clock.Now() - began, absl::Minutes(1));
  ExpectNothingLeft();
  EXPECT_TRUE(ParseCopyRecord(target_pvc())->has_ended);
}

TEST_F(VolumeCopyTest, WhereTheRecordMayNotBeReadAgainTheCopyEndsAtOnce) {
  bed_.api.OnCreate("pods", [](support::FakeApiClient& api, const Json&) {
    api.FailNext("get", "persistentvolumeclaims", absl::PermissionDeniedError("forbidden"));
  });
  EXPECT_THAT(Copy(Request()), StatusIs(absl::StatusCode::kPermissionDenied));
  ExpectNothingLeft();
}

// Else the PVC is marked, and kept from other restores, until people look.
TEST_F(VolumeCopyTest, AMomentInWhichNothingCanBeRemovedLeavesNothing) {
  bed_.api.OnEvent("pods", [](support::FakeApiClient& api, const k8s::WatchEvent& event) {
    if (event.kind == k8s::WatchEvent::Kind::kDeleted) {
      api.FailNext("get", "pods", absl::UnavailableError("away"), 3);
      api.FailNext("delete", "persistentvolumeclaims", absl::UnavailableError("away"), 3);
      api.FailNext("get", "persistentvolumeclaims", absl::UnavailableError("away"), 3);
      api.FailNext("patch", "persistentvolumeclaims", absl::AbortedError("changed"), 3);
    }
  });
  Steps({Ended("Succeeded", kDone)});
  bed_.api.FailNext("delete", "pods", absl::UnavailableError("away"), 3);
  EXPECT_THAT(Copy(Request()), IsOk());
  ExpectNothingLeft();
  EXPECT_THAT(notes_, IsEmpty());
  EXPECT_FALSE(ParseCopyRecord(target_pvc()).has_value());
}

TEST_F(VolumeCopyTest, ARecordThatDiffersInAnythingIsAnothers) {
  csi::CopyRecord record;
  bed_.api.OnCreate("pods", [&](support::FakeApiClient& api, const Json&) {
    api.Mutate(ClaimKey("shop", "data"), [&](Json& pvc) {
      SetJson(pvc, {"metadata", "annotations", objects::kCopyRecordAnnotation},
              FormatCopyRecord(record));
    });
  });
  for (const csi::CopyRecord& other : std::vector<csi::CopyRecord>{
           {.method = csi::CopyRecord::Method::kSnapshot, .from = "tuesday", .has_begun = true},
           {.method = csi::CopyRecord::Method::kRepository, .from = "monday", .has_begun = true},
           {.method = csi::CopyRecord::Method::kSnapshot,
           .from = "monday",
           .id = "another",
           .has_begun = true}}) {
    record = other;
    EXPECT_THAT(Copy(Request()),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has begun meanwhile")));
    ExpectNothingLeft();
    EXPECT_EQ(FormatCopyRecord(*ParseCopyRecord(target_pvc())), FormatCopyRecord(other));
  }
}

TEST_F(VolumeCopyTest, APvcThatWasMadeAgainIsNotCopiedInto) {
  const VolumeCopyRequest request = Request();
  bed_.api.Mutate(ClaimKey("shop", "data"), [](Json& pvc) {
    SetJson(pvc, {"metadata", "uid"}, "another");
  });
  EXPECT_THAT(Copy(request), StatusIs(absl::StatusCode::kFailedPrecondition,
                                      HasSubstr("was deleted and made again")));
  EXPECT_EQ(bed_.api.CallCount("create", "pods"), 0);
  EXPECT_FALSE(ParseCopyRecord(target_pvc()).has_value());
}

TEST_F(VolumeCopyTest, NoPodIsMadeWhileTheMoverWrites) {
  bed_.api.Seed(DataDownloadType(),
                {{"metadata", {{"name", "x"}, {"namespace", "velero"}, {"uid", "download-uid"}}},
                 {"status", {{"phase", "InProgress"}}}});
  bed_.api.Mutate(ClaimKey("shop", "data"), [](Json& pvc) {
    SetJson(
        pvc, {"metadata", "annotations", objects::kCopyRecordAnnotation},
        csi::FormatCopyRecord(
            {.method = csi::CopyRecord::Method::kMover, .from = "velero/x", .id = "download-uid"}));
  });
  EXPECT_THAT(Copy(Request()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("DataDownload velero/x")));
  EXPECT_EQ(bed_.api.CallCount("create", "pods"), 0);
  EXPECT_TRUE(ParseCopyRecord(target_pvc()).has_value());
}

TEST_F(VolumeCopyTest, AVolumeThatIsTooSmallIsOutOfRange) {
  Steps({Ended("Failed", R"({"message_type":"exit_error","code":22,"message":"too small"})")});
  EXPECT_THAT(Copy(Request()), StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("too small")));
}

// Exit code 20: the list was wrong, the copy is good.
TEST_F(VolumeCopyTest, AResultCountsWhateverTheExitCode) {
  Steps({Ended("Failed", kDone)});
  const auto copied = Copy(Request());
  ASSERT_THAT(copied, IsOk());
  EXPECT_EQ(copied->written_bytes, 8);
}

TEST_F(VolumeCopyTest, APodThatIsKilledIsNoResult) {
  Steps({Ended("Failed", "")});
  EXPECT_THAT(Copy(Request()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("it said nothing")));
  ExpectNothingLeft();
}

TEST_F(VolumeCopyTest, APodThatDoesNotStartIsGivenUp) {
  Steps({[this] {
    bed_.api.Mutate(pod_key_, [](Json& pod) {
      pod["status"]["phase"] = "Pending";
      pod["status"]["containerStatuses"] = {
          {{"state", {{"waiting", {{"reason", "ErrImagePull"}, {"message", "no such image"}}}}}}};
    });
  }});
  EXPECT_THAT(Copy(Request()), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        AllOf(HasSubstr("did not start within 10m"),
                                              HasSubstr("ErrImagePull: no such image"),
                                              HasSubstr("nothing was written"))));
  ExpectNothingLeft();
  EXPECT_FALSE(ParseCopyRecord(target_pvc()).has_value());
}

TEST_F(VolumeCopyTest, AStopEndsThePodAndSaysWhatIsLeft) {
  std::stop_source stop;
  bed_.ctx.stop = stop.get_token();
  Steps({Running(), [&stop] { stop.request_stop(); }});
  EXPECT_THAT(Copy(Request()),
              StatusIs(absl::StatusCode::kCancelled,
                       AllOf(HasSubstr("may be partly old"), HasSubstr("run this again"))));
  ExpectNothingLeft();
}

TEST_F(VolumeCopyTest, ADeadlineEndsThePodAsWell) {
  bed_.ctx = bed_.ctx.WithTimeout(absl::Minutes(2));
  Steps({Running()});
  EXPECT_THAT(Copy(Request()), StatusIs(absl::StatusCode::kDeadlineExceeded));
  ExpectNothingLeft();
}

TEST_F(VolumeCopyTest, APodThatIsDeletedMeanwhileIsAnError) {
  Steps({Running(), [this] { bed_.api.Remove(pod_key_); }});
  EXPECT_THAT(Copy(Request()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another client deleted")));
  ExpectNothingLeft();
}

TEST_F(VolumeCopyTest, AnotherPodUnderTheNameIsNotFollowed) {
  Steps({Running(), [this] {
           Json another = *bed_.api.Find(pod_key_);
           SetJson(another, {"metadata", "uid"}, "another");
           SetJson(another, {"status", "phase"}, "Succeeded");
           bed_.api.Seed(PodType(), another);
         }});
  EXPECT_THAT(Copy(Request()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another client deleted")));
  EXPECT_NE(bed_.api.Find(pod_key_), std::nullopt);
}

TEST_F(VolumeCopyTest, WhatStaysBehindIsNamed) {
  Steps({Ended("Succeeded", kDone)});
  bed_.api.FailNext("delete", "persistentvolumeclaims", absl::InternalError("no"));
  ASSERT_THAT(Copy(Request()), IsOk());
  EXPECT_THAT(notes_, ElementsAre(AllOf(HasSubstr("temporary PVC shop/"), HasSubstr("stays"),
                                        HasSubstr("kubectl delete pvc"))));
  looks_ = 0;
  Steps({Ended("Failed", "")});
  bed_.api.FailNext("delete", "pods", absl::InternalError("no"));
  EXPECT_THAT(Copy(Request()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("it said nothing"), HasSubstr("kubectl delete pod"))));
  EXPECT_TRUE(csi::IsWrittenByPod(*ParseCopyRecord(target_pvc()))) << "its Pod may still write";
}

TEST_F(VolumeCopyTest, WithoutTheRightToReadLogsThereIsNoProgress) {
  bed_.api.Forbid("get", "pods/log");
  bed_.api.SetInterceptor([this](const support::ApiCall& call, const Json*) -> absl::Status {
    if (call.subresource == "log") {
      return absl::PermissionDeniedError("pods/log is forbidden");
    }
    if (call.verb == "get" && call.plural == "pods") {
      const bool runs = ++looks_ < 4;
      SetPhase(runs ? "Running" : "Succeeded", runs ? "" : kDone);
    }
    return absl::OkStatus();
  });
  ASSERT_THAT(Copy(Request()), IsOk());
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("progress not read")));
  EXPECT_THAT(progress_, IsEmpty());
}

TEST_F(VolumeCopyTest, AnApiServerThatIsAwayForAMomentEndsNothing) {
  Steps({Running(), Running(), Ended("Succeeded", kDone)});
  bed_.api.OnCreate("pods", [](support::FakeApiClient& api, const Json&) {
    api.FailNext("get", "pods", absl::UnavailableError("away"), 5);
  });
  EXPECT_THAT(Copy(Request()), IsOk());
  ExpectNothingLeft();
}

// What a program that was killed left behind: its Pod is gone on with while it runs. What ended
// says nothing of the volume as it is now.
TEST_F(VolumeCopyTest, ASecondRunGoesOnWithAPodThatRuns) {
  int made = 0;
  bed_.api.OnCreate("pods", [&made](support::FakeApiClient&, const Json&) { ++made; });
  for (const std::string phase : {"", "Pending", "Running", "Succeeded", "Failed"}) {
    SCOPED_TRACE(phase);
    const Json labels = {{objects::kCopiesIntoLabel, target_pvc().uid()}};
    Json pod = support::MakeObject("v1", "Pod", "shop", pod_key_.name);
    pod["metadata"]["labels"] = labels;
    pod["status"]["phase"] = phase;
    bed_.api.Seed(PodType(), pod);
    Json pvc = support::MakeObject("v1", "PersistentVolumeClaim", "shop", pvc_key_.name);
    pvc["metadata"]["labels"] = labels;
    pvc["spec"]["dataSource"] = {
        {"apiGroup", "snapshot.storage.k8s.io"}, {"kind", "VolumeSnapshot"}, {"name", "monday"}};
    bed_.api.Seed(PersistentVolumeClaimType(), pvc);
    made = 0;
    looks_ = 0;
    const int made_wanted = phase == "Succeeded" || phase == "Failed" ? 1 : 0;
    bed_.api.SetInterceptor([&](const support::ApiCall& call, const Json*) -> absl::Status {
      const bool is_look = call.verb == "get" && call.plural == "pods" && call.subresource.empty();
      if (is_look && made == made_wanted && ++looks_ > 2) {
        SetPhase("Succeeded", kDone);
      }
      return absl::OkStatus();
    });
    EXPECT_THAT(Copy(Request()), IsOk());
    EXPECT_EQ(made, made_wanted);
    ExpectNothingLeft();
  }
}

TEST_F(VolumeCopyTest, UnmanagedObjectsAreNotTouched) {
  bed_.api.Seed(PodType(), support::MakeObject("v1", "Pod", "shop", pod_key_.name));
  EXPECT_THAT(Copy(Request()), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("Pod")));
  EXPECT_NE(bed_.api.Find(pod_key_), std::nullopt);
  EXPECT_EQ(bed_.api.Find(pvc_key_), std::nullopt);

  bed_.api.Remove(pod_key_);
  bed_.api.Seed(PersistentVolumeClaimType(),
                support::MakeObject("v1", "PersistentVolumeClaim", "shop", pvc_key_.name));
  EXPECT_THAT(Copy(Request()), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("PVC")));
  EXPECT_NE(bed_.api.Find(pvc_key_), std::nullopt);
}

TEST_F(VolumeCopyTest, ATemporaryPvcThatCannotBeUsedEndsIt) {
  Json pvc = support::MakeObject("v1", "PersistentVolumeClaim", "shop", pvc_key_.name,
                                 {{objects::kCopiesIntoLabel, target_pvc().uid()}});
  pvc["spec"]["dataSource"] = {
      {"apiGroup", "snapshot.storage.k8s.io"}, {"kind", "VolumeSnapshot"}, {"name", "tuesday"}};
  bed_.api.Seed(PersistentVolumeClaimType(), pvc);
  EXPECT_THAT(Copy(Request()), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("PVC")));
  pvc["spec"]["dataSource"]["name"] = "monday";
  pvc["metadata"]["labels"] = Json::object();
  bed_.api.Seed(PersistentVolumeClaimType(), pvc);
  EXPECT_THAT(Copy(Request()), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("PVC")));
  // What an earlier run of the same restore left half-way still says so.
  bed_.api.Mutate(ClaimKey("shop", "data"), [](Json& target) {
    SetJson(
        target, {"metadata", "annotations", objects::kCopyRecordAnnotation},
        csi::FormatCopyRecord(
            {.method = csi::CopyRecord::Method::kSnapshot, .from = "monday", .has_begun = true}));
  });
  pvc["metadata"]["labels"] = {{objects::kCopiesIntoLabel, target_pvc().uid()}};
  pvc["metadata"]["deletionTimestamp"] = "2026-11-26T08:00:00Z";
  pvc["metadata"]["finalizers"] = Json::array({"kubernetes.io/pvc-protection"});
  bed_.api.Seed(PersistentVolumeClaimType(), pvc);
  EXPECT_THAT(Copy(Request()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("still being deleted")));
  EXPECT_TRUE(ParseCopyRecord(target_pvc()).has_value());
  EXPECT_EQ(bed_.api.CallCount("create", "pods"), 0);
}

TEST_F(VolumeCopyTest, APodThatIsBeingDeletedIsNotGoneOnWith) {
  Json pod = support::MakeObject("v1", "Pod", "shop", pod_key_.name,
                                 {{objects::kCopiesIntoLabel, target_pvc().uid()}});
  pod["status"]["phase"] = "Running";
  pod["metadata"]["deletionTimestamp"] = "2026-11-26T08:00:00Z";
  pod["metadata"]["finalizers"] = Json::array({"example.com/slow"});
  bed_.api.Seed(PodType(), pod);
  std::optional<Json> made;
  Keep("pods", made);
  Steps({[] {}, [this] { bed_.api.Remove(pod_key_); }, [] {}, Ended("Succeeded", kDone)});
  ASSERT_THAT(Copy(Request()), IsOk());
  EXPECT_TRUE(made.has_value());
  ExpectNothingLeft();
}

// After any call that fails the next run copies, and nothing is left.
TEST_F(VolumeCopyTest, AnyCallMayFailAndTheNextRunCopies) {
  for (int n = 1;; ++n) {
    SCOPED_TRACE(n);
    looks_ = 0;
    Steps({Running(), Running(), Ended("Succeeded", kDone)});
    bed_.api.FailCall(n, absl::InternalError("fault"));
    const auto first = Copy(Request());
    const bool hit = bed_.api.sweep_hit();
    bed_.api.ClearFaults();
    if (!hit) {
      ASSERT_THAT(first, IsOk());
      EXPECT_GT(n, 5);
      return;
    }
    looks_ = 0;
    Steps({Running(), Ended("Succeeded", kDone)});
    EXPECT_THAT(Copy(Request()), IsOk());
    ExpectNothingLeft();
  }
}

TEST_F(VolumeCopyTest, ARepositoryNeedsNoTemporaryPvc) {
  std::optional<Json> pod;
  Keep("pods", pod);
  bed_.api.SetInterceptor([&](const support::ApiCall& call, const Json*) -> absl::Status {
    if (call.verb == "get" && call.plural == "pods" && pod.has_value()) {
      pod_key_.name = k8s::Name(*pod);
      SetPhase("Succeeded", kDone);
    }
    return absl::OkStatus();
  });
  const auto restored = RestoreIntoVolume(
      bed_.ctx, bed_.api,
      {.target = target_pvc(),
       .source = {.secret = "repository", .words = {"latest", "--path", "/orders"}},
       .pod = {.image = "csi-delta:1"}},
      notes_);
  ASSERT_THAT(restored, IsOk());
  EXPECT_EQ(restored->written_bytes, 8);
  const Json& container = (*pod)["spec"]["containers"][0];
  EXPECT_THAT(container["args"], AllOf(Contains("restore"), Contains("--differing"),
                                       Contains("latest"), Contains("/orders")));
  EXPECT_EQ(container["envFrom"][0]["secretRef"]["name"], "repository");
  EXPECT_EQ(container["volumeDevices"].size(), 1U);
  EXPECT_EQ(bed_.api.CallCount("create", "persistentvolumeclaims"), 0);
  ExpectNothingLeft();
}

TEST_F(VolumeCopyTest, ItsOwnPodIsNoOtherUser) {
  Json pod = support::MakeObject("v1", "Pod", "shop", pod_key_.name,
                                 {{objects::kCopiesIntoLabel, target_pvc().uid()}});
  EXPECT_TRUE(IsCopyPod(*Pod::Of(pod), target_pvc(), pod_key_.name));
  pod["metadata"]["labels"] = Json::object();
  EXPECT_FALSE(IsCopyPod(*Pod::Of(pod), target_pvc(), pod_key_.name));
  pod = support::MakeObject("v1", "Pod", "shop", "app",
                            {{objects::kCopiesIntoLabel, target_pvc().uid()}});
  EXPECT_FALSE(IsCopyPod(*Pod::Of(pod), target_pvc(), pod_key_.name));
}

TEST_F(VolumeCopyTest, EachRestoreFromARepositoryHasANameOfItsOwn) {
  const RepositorySource source{.secret = "repository", .words = {"latest"}};
  EXPECT_EQ(CopyName(target_pvc(), source), CopyName(target_pvc(), source));
  EXPECT_NE(CopyName(target_pvc(), source),
            CopyName(target_pvc(), RepositorySource{.secret = "other", .words = {"latest"}}));
  EXPECT_NE(CopyName(target_pvc(), source),
            CopyName(target_pvc(), RepositorySource{.secret = "repository", .words = {"5f3a"}}));
  EXPECT_NE(CopyName(target_pvc(), source), CopyName(target_pvc(), monday()));
}

TEST_F(VolumeCopyTest, TheRightsAreAskedForBefore) {
  EXPECT_THAT(CheckMayCopy(bed_.ctx, bed_.api, "shop"), IsOk());
  for (const auto& [verb, plural] :
       std::vector<std::pair<std::string, std::string>>{{"create", "pods"},
                                                        {"get", "pods"},
                                                        {"list", "pods"},
                                                        {"delete", "pods"},
                                                        {"create", "persistentvolumeclaims"},
                                                        {"patch", "persistentvolumeclaims"},
                                                        {"delete", "persistentvolumeclaims"}}) {
    bed_.api.Forbid(verb, plural);
    EXPECT_THAT(CheckMayCopy(bed_.ctx, bed_.api, "shop"),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr(verb + " " + plural)));
    bed_.api.ClearFaults();
  }
}

}  // namespace
}  // namespace csidelta::inplace::volume_copy_test
