#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "k8s/object.h"
#include "snapshots/snapshot_creation.h"
#include "tests/csi/backup_fixture.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::snapshots {

enum class Who { kBackup, kPerson };

// For a VolumeSnapshot of PVC data.
inline CreationRequest PersonsRequest(const std::string& namespace_name, const std::string& name) {
  Json pvc = support::MakeObject("v1", "PersistentVolumeClaim", namespace_name, "data");
  SetJson(pvc, {"metadata", "uid"}, "data-uid");
  return {.source = {.pvc = *objects::PersistentVolumeClaim::Of(pvc),
                     .driver = "d.example.com",
                     .class_name = "fast"},
          .name = name,
          .timeout = absl::Minutes(5)};
}

inline std::string RequesterName(const testing::TestParamInfo<Who>& param) {
  return param.param == Who::kBackup ? "Backup" : "Person";
}

// What holds alike for a VolumeSnapshot and for a group of them, of a backup and of a person.
class TakeSuite : public csi::BackupFixture {
 protected:
  // `driver_call`: by which the driver takes it.
  TakeSuite(Who who, const char* driver_call) : who_(who), driver_call_(driver_call) {}

  virtual absl::Status TakeIt() = 0;
  virtual k8s::ObjectKey Key() const = 0;
  // Of what was taken: that it is there, whole, and then its deletion.
  virtual void DeleteTaken() = 0;
  virtual void ExpectNothingLeft() = 0;

  // The sidecar keeps the objects of a call that is open, and has the driver delete what comes of
  // it.
  void ExpectNothingLeftOnceTheDriverAnswers(const k8s::ResourceType& type) {
    for (const Json& object : api_.All(type)) {
      EXPECT_TRUE(k8s::BeingDeleted(object)) << k8s::Name(object);
    }
    cluster_.LetDriverWork();
    ExpectNothingLeft();
  }

  void ExpectCancelLeavesNothing(const k8s::ResourceType& content) {
    cluster_.driver().Hold(driver_call_);
    clock_.SetAutoAdvance(false);
    std::stop_source stop;
    ctx_.stop = stop.get_token();
    std::jthread call(
        [&] { EXPECT_THAT(TakeIt(), support::StatusIs(absl::StatusCode::kCancelled)); });
    api_.AwaitWatches(1);
    stop.request_stop();
    call.join();
    ExpectNothingLeftOnceTheDriverAnswers(content);
  }

  void ExpectDeletionByOthersEndsIt() {
    cluster_.controller_runs = false;
    clock_.SetAutoAdvance(false);
    std::jthread call([&] {
      EXPECT_THAT(TakeIt(), support::StatusIs(absl::StatusCode::kNotFound,
                                              testing::HasSubstr("deleted by another client")));
    });
    api_.AwaitWatches(1);
    EXPECT_THAT(api_.Delete(ctx_, Key(), {}), support::IsOk());
    call.join();
    ExpectNothingLeft();
  }

  // Every request fails once, in both ways, with what passes and with what stays: whatever the
  // outcome, either all of it is there or nothing is left. `calls_min`: so many requests there are
  // at least, and `failed_calls_min` if the driver does not answer.
  void SweepFailingCalls(int calls_min, int failed_calls_min) {
    backup_ = BackupWith("backup-uid", "20s");
    for (const support::Fault fault : {support::Fault::kRefused, support::Fault::kAnswerLost}) {
      for (const absl::Status& status :
           {absl::UnavailableError("injected"), absl::InternalError("injected")}) {
        for (const bool fails : {false, true}) {
          int n = 1;
          while (FailCall(n, status, fault, fails)) {
            ++n;
          }
          EXPECT_GE(n, fails ? failed_calls_min : calls_min);
        }
      }
    }
  }

  const Who who_;
  const char* const driver_call_;

 private:
  // Whether there was an n-th call.
  bool FailCall(int n, const absl::Status& status, support::Fault fault, bool fails) {
    SCOPED_TRACE(absl::StrCat("call ", n, " ", status.ToString(), " fails ", fails,
                              fault == support::Fault::kRefused ? " refused" : " answer lost"));
    if (fails) {
      cluster_.driver().Hold(driver_call_);
    }
    api_.FailCall(n, status, fault);
    const absl::Status taken = TakeIt();
    const bool was_hit = api_.sweep_hit();
    api_.ClearFaults();
    cluster_.LetDriverWork();
    if (taken.ok()) {
      EXPECT_FALSE(fails);
      DeleteTaken();
    }
    // A Lease or a label whose removal failed for good goes with the next one.
    clock_.Advance(absl::Minutes(30));
    if (!taken.ok() && who_ == Who::kPerson && api_.Find(Key()).has_value()) {
      // No run of a person resumes it.
      EXPECT_THAT(taken.message(), testing::HasSubstr("is left, because"));
      DeleteTaken();
    }
    if (absl::IsInternal(status)) {
      EXPECT_THAT(TakeIt(), support::IsOk());
      DeleteTaken();
    }
    ExpectNothingLeft();
    return was_hit;
  }
};

}  // namespace csidelta::snapshots
