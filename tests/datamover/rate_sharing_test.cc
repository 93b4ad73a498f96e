#include "datamover/controller/rate_sharing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "k8s/informer.h"
#include "objects/client.h"
#include "objects/patch.h"
#include "tests/datamover/mover_bed.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"
#include "tests/support/volume_jobs.h"

namespace csidelta::datamover::rate_sharing_test {
namespace {

using objects::JobRates;
using support::IsOk;
using testing::Contains;
using testing::HasSubstr;

const objects::VolumeWork kUpload = objects::UploadWork{.device = "/dev/volume"};
const objects::VolumeWork kDownload =
    objects::DownloadWork{.device = "/dev/volume", .snapshot_id = "a"};

class RateSharingTest : public testing::Test {
 protected:
  RateSharingTest() {
    bed_.env.settings.rates_max = {.upload = 3000, .download = 3000};
    ReadSettings(R"({"limits": {"uploadKiBPerSecond": 3000, "downloadKiBPerSecond": 3000}})");
  }

  static k8s::ObjectKey Key(const std::string& name) {
    return objects::VolumeTask::Key(MoverBed::kMover, name);
  }
  void Begin(const std::string& name, const objects::VolumeWork& work = kUpload) {
    const objects::VolumeJob job{.repository = {.address = "/repository"},
                                 .limits = {.rates = FirstRates(bed_.env.settings)},
                                 .work = work};
    EXPECT_THAT(bed_.api.Create(bed_.ctx, objects::VolumeTask::Type(), MoverBed::kMover,
                                support::TaskWithJob(name, job)),
                IsOk());
    in_use_[name] = {};
  }
  objects::VolumeTask Task(const std::string& name) const {
    return support::As<objects::VolumeTask>(bed_.api.Find(Key(name)).value_or(Json::object()));
  }
  // The worker keeps to what the task has now.
  void See(const std::string& name) {
    in_use_[name] = *Task(name).rates();
    seen_[name] = Task(name).generation();
  }
  void Report(const std::string& name, objects::TaskPhase phase = objects::TaskPhase::kRunning) {
    const objects::Patch patch =
        objects::Patch().SetStatus({.phase = phase, .observed_generation = seen_[name]});
    EXPECT_THAT(objects::Apply(bed_.ctx, bed_.api, Key(name), patch, "status"), IsOk());
  }
  void End(const std::string& name) {
    in_use_.erase(name);
    Report(name, objects::TaskPhase::kSucceeded);
  }
  void Deliver() {
    const auto list = bed_.api.List(bed_.ctx, objects::VolumeTask::Type(), MoverBed::kMover, {});
    informer_.OnAll(list->items);
  }
  void Move() {
    Deliver();
    sharing_.MoveShares(bed_.ctx);
  }
  // All that is under way arrives.
  void Settle() {
    for (int round = 0; round < 4; ++round) {
      for (const auto& [name, rates] : in_use_) {
        See(name);
        Report(name);
      }
      Move();
    }
  }
  JobRates InUse() const {
    JobRates sum;
    for (const auto& [name, rates] : in_use_) {
      sum.upload += rates.upload;
      sum.download += rates.download;
    }
    return sum;
  }
  void ReadSettings(const std::string& text, const std::string& key = "config.json") {
    const Json map = {{"apiVersion", "v1"},
                      {"kind", "ConfigMap"},
                      {"metadata", {{"name", kSettingsConfigMap}, {"namespace", "mover"}}},
                      {"data", {{key, text}}}};
    const auto config_map = support::As<objects::ConfigMap>(map);
    sharing_.ReadSettings(bed_.ctx, &config_map);
  }

  MoverBed bed_;
  bool leads_ = true;
  RateSharing sharing_{bed_.env, [this] { return leads_; }};
  k8s::Informer informer_{{.type = objects::VolumeTask::Type()}, {&sharing_.tasks()}};
  std::map<std::string, JobRates> in_use_;  // of workers; nothing before they see their task
  std::map<std::string, int64_t> seen_;     // generations
};

TEST_F(RateSharingTest, SharesMoveWhenAWorkerBeginsAndEnds) {
  Begin("one");
  Settle();
  EXPECT_EQ(*Task("one").rates(), (JobRates{.upload = 2986, .download = 2986})) << "nearly all";
  Begin("two");
  Begin("restore", kDownload);
  Settle();
  const JobRates one = *Task("one").rates();
  EXPECT_EQ(one, *Task("two").rates());
  EXPECT_NEAR(static_cast<double>(one.upload), 3000 * 8 / 17.0, 20);
  EXPECT_NEAR(static_cast<double>(one.download), 3000 / 10.0, 20);
  EXPECT_NEAR(static_cast<double>(Task("restore").rates()->download), 3000 * 8 / 10.0, 20);
  End("two");
  Settle();
  EXPECT_NEAR(static_cast<double>(Task("one").rates()->upload), 3000 * 8 / 9.0, 20);
  bed_.api.ClearCalls();
  Settle();
  EXPECT_EQ(bed_.api.CallCount("patch", "volumetasks"), 8) << "the reports alone";
}

// Whatever arrives when, workers together never use more than the limit, and all get their shares.
TEST_F(RateSharingTest, SharesNeverAddUpToMoreThanTheLimit) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    std::minstd_rand random(seed);
    const auto any = [&] {
      return std::next(in_use_.begin(), static_cast<int64_t>(random() % in_use_.size()))->first;
    };
    for (int step = 0; step < 150; ++step) {
      const auto what = random() % 20;
      if (in_use_.empty() || (what == 0 && in_use_.size() < 15)) {
        Begin(absl::StrCat("t", seed, "-", step), random() % 2 == 0 ? kUpload : kDownload);
      } else if (what == 1) {
        End(any());
      } else if (what < 7) {
        See(any());
      } else if (what < 12) {
        Report(any());
      } else if (what < 15) {
        Deliver();
      } else {
        sharing_.MoveShares(bed_.ctx);
      }
      ASSERT_LE(InUse().upload, 3000) << "seed " << seed << ", step " << step;
      ASSERT_LE(InUse().download, 3000) << "seed " << seed << ", step " << step;
    }
    Settle();
    for (const auto& [name, rates] : in_use_) {
      EXPECT_GE(std::min(rates.upload, rates.download), 2900 / (8 * 15)) << name;
    }
  }
}

TEST_F(RateSharingTest, OtherLimitsCountAtOnce) {
  Begin("one");
  Begin("two");
  Settle();
  ReadSettings(R"({"limits": {"uploadKiBPerSecond": 600}, "worker": {"limitDownload": 70}})");
  Move();
  EXPECT_EQ(*Task("one").rates(), (JobRates{.upload = 293, .download = 70}));
  Settle();
  ReadSettings(R"({"limits": {"uploadKiBPerSecond": 6000}})");
  Move();
  EXPECT_EQ(*Task("two").rates(), (JobRates{.upload = 2993, .download = 0}));
  Settle();
  ReadSettings("{}");
  Move();
  EXPECT_EQ(*Task("one").rates(), JobRates());
}

TEST_F(RateSharingTest, SettingsThatAreGoneOrDamagedChangeNothing) {
  Begin("one");
  Settle();
  const JobRates before = *Task("one").rates();
  sharing_.ReadSettings(bed_.ctx, nullptr);
  ReadSettings("", "other.json");
  for (const char* damaged :
       {"{", R"({"limits": {"uploadKiBPerSecond": 0}})",
        R"({"limits": {"uploadKiBPerSecond": -7}})", R"({"worker": {"limitUpload": 1000000001}})",
        R"({"limits": {"uploadKibPerSecond": 300}})"}) {
    ReadSettings(damaged);
    Settle();
    EXPECT_EQ(*Task("one").rates(), before) << damaged;
  }
  const auto events = bed_.api.List(bed_.ctx, EventType(), "mover", {});
  ASSERT_THAT(events, IsOk());
  std::set<std::string> said;
  for (const Json& event : events->items) {
    said.insert(absl::StrCat(GetString(event, {"reason"}), " ", GetString(event, {"message"})));
  }
  EXPECT_EQ(said.size(), 6U) << "each reason once";
  EXPECT_THAT(said, Contains(HasSubstr("SettingsRefused limits.uploadKiBPerSecond: 0 is not")));
}

TEST_F(RateSharingTest, AWorkerThatIsNotHeardOfIsWaitedForAMinute) {
  Begin("lost");
  Settle();
  Begin("other");
  for (int round = 0; round < 3; ++round) {
    Move();
    See("other");
    Report("other");
  }
  EXPECT_EQ(Task("other").rates()->upload, kFirstKib) << "the lost one may still use the rest";
  bed_.clock.Advance(kShareAssumedAfter);
  Move();
  EXPECT_GT(Task("other").rates()->upload, 1400);
}

TEST_F(RateSharingTest, OnlyOneThatLeadsWrites) {
  Begin("one");
  leads_ = false;
  Settle();
  EXPECT_EQ(Task("one").rates()->upload, kFirstKib);
  leads_ = true;
  Settle();
  EXPECT_GT(Task("one").rates()->upload, 2900);
}

TEST_F(RateSharingTest, ARunningControllerFollowsTheConfigMap) {
  Begin("one");
  std::jthread following([this](std::stop_token stop) {
    CallContext ctx = bed_.ctx;
    ctx.stop = std::move(stop);
    sharing_.FollowSettings(ctx);
  });
  for (const int64_t kib : {512, 1024}) {
    bed_.api.Seed(
        ConfigMapType(),
        {{"metadata", {{"name", kSettingsConfigMap}, {"namespace", "mover"}}},
         {"data",
          {{"config.json", absl::StrCat(R"({"limits": {"uploadKiBPerSecond": )", kib, "}}")}}}});
    support::Await("the limit to count", [&] {
      Settle();
      return Task("one").rates()->upload == kib - 14;
    });
  }
}

}  // namespace
}  // namespace csidelta::datamover::rate_sharing_test
