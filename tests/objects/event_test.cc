#include "objects/event.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace csidelta::objects::event_test {
namespace {

using support::StatusIs;

Event Of(Json json) {
  json["kind"] = "Event";
  return Event::Of(std::move(json)).value();
}

TEST(EventTest, NamesItsFields) {
  const Event event = Of({{"involvedObject", {{"uid", "u-1"}}},
                          {"type", "Warning"},
                          {"reason", "SnapshotCreationFailed"},
                          {"message", "busy"},
                          {"source", {{"component", "csi-snapshotter"}}},
                          {"count", 3},
                          {"lastTimestamp", "2023-11-14T22:13:20Z"}});
  EXPECT_EQ(event.involved_uid(), "u-1");
  EXPECT_EQ(event.type(), "Warning");
  EXPECT_EQ(event.reason(), "SnapshotCreationFailed");
  EXPECT_EQ(event.message(), "busy");
  EXPECT_EQ(event.reporter(), "csi-snapshotter");
  EXPECT_EQ(event.count(), 3);
  EXPECT_EQ(event.last_seen_at(), absl::FromUnixSeconds(1'700'000'000));
}

// events.k8s.io writes other fields of the same object.
TEST(EventTest, ReadsWhatEitherApiWrites) {
  const Event event = Of({{"reportingComponent", "controller"},
                          {"eventTime", "2023-11-14T22:13:00.5Z"},
                          {"lastTimestamp", nullptr},
                          {"series", {{"count", 7}}}});
  EXPECT_EQ(event.reporter(), "controller");
  EXPECT_EQ(event.count(), 7);
  EXPECT_EQ(event.last_seen_at(), absl::FromUnixMillis(1'699'999'980'500));
  EXPECT_EQ(Of({{"series", {{"lastObservedTime", "2023-11-14T22:13:20Z"}}},
                {"eventTime", "2023-11-14T22:13:00Z"}})
                .last_seen_at(),
            absl::FromUnixSeconds(1'700'000'000));
}

TEST(EventTest, WhatIsMissingIsEmpty) {
  const Event event = Of({{"metadata", {{"creationTimestamp", "2023-11-14T22:13:20Z"}}}});
  EXPECT_EQ(event.reporter(), "");
  EXPECT_EQ(event.count(), 1);
  EXPECT_EQ(event.last_seen_at(), absl::FromUnixSeconds(1'700'000'000));
  EXPECT_FALSE(Of(Json::object()).last_seen_at().has_value());
  EXPECT_THAT(Event::Of({{"kind", "Pod"}}), StatusIs(absl::StatusCode::kInvalidArgument));
}

// A Pod that got its node a minute ago, and the Events about it.
class WhyPodWaitsTest : public testing::Test {
 protected:
  WhyPodWaitsTest() { ctx_.clock = &clock_; }

  void AddEvent(const char* reason, const std::string& message, int seconds_ago,
                const char* type = "Warning", const char* uid = "p-1") {
    api_.Seed({"", "v1", "events", "Event", true},
              {{"metadata", {{"name", absl::StrCat("e", ++events_)}, {"namespace", "mover"}}},
               {"involvedObject", {{"uid", uid}}},
               {"type", type},
               {"reason", reason},
               {"message", message},
               {"lastTimestamp", FormatRfc3339(clock_.Now() - absl::Seconds(seconds_ago))}});
  }
  // With one container in this state, if it has a kubelet's report at all.
  std::string Why(const Json& state, const char* node = "n1", const char* phase = "Pending",
                  absl::Duration scheduled_ago = absl::Minutes(1)) {
    Json pod = {{"kind", "Pod"},
                {"metadata", {{"name", "w"}, {"namespace", "mover"}, {"uid", "p-1"}}},
                {"spec", {{"nodeName", node}}},
                {"status",
                 {{"phase", phase},
                  {"conditions",
                   {{{"type", "PodScheduled"},
                     {"status", "True"},
                     {"lastTransitionTime", FormatRfc3339(clock_.Now() - scheduled_ago)}}}}}}};
    if (!state.is_null()) {
      SetJson(pod, {"status", "containerStatuses"}, Json::array({{{"state", state}}}));
    }
    return WhyPodWaits(ctx_, api_, Pod::Of(pod).value());
  }

  support::FakeClock clock_;
  support::FakeApiClient api_{clock_};
  CallContext ctx_;
  int events_ = 0;
};

TEST_F(WhyPodWaitsTest, IsTheNewestWarningOfAPodThatHasANode) {
  EXPECT_EQ(Why(Json()), "") << "no Event";
  AddEvent("FailedScheduling", "0/3 nodes are available", 1);
  AddEvent("Pulled", "the image is there", 2, "Normal");
  AddEvent("FailedMount", "of another Pod", 3, "Warning", "p-2");
  EXPECT_EQ(Why(Json()), "");
  AddEvent("FailedAttachVolume", "has not finished copying data", 20);
  AddEvent("FailedMapVolume", "exit status 32", 10);
  EXPECT_EQ(Why(Json()), "FailedMapVolume: exit status 32");
  const auto waiting = [](const char* reason) { return Json{{"waiting", {{"reason", reason}}}}; };
  EXPECT_EQ(Why(waiting("ContainerCreating")), "FailedMapVolume: exit status 32");
  EXPECT_EQ(Why(waiting("PodInitializing")), "FailedMapVolume: exit status 32");
  EXPECT_EQ(Why(waiting("ImagePullBackOff")), "") << "its status says it";
  EXPECT_EQ(Why(Json(), ""), "") << "no node";
  EXPECT_EQ(Why(Json(), "n1", "Running"), "");
  EXPECT_EQ(Why(Json(), "n1", "Failed"), "");
  EXPECT_EQ(Why(Json(), "n1", "Pending", absl::Seconds(29)), "") << "it takes that long";
  EXPECT_NE(Why(Json(), "n1", "Pending", absl::Seconds(30)), "");
  api_.Forbid("list", "events");
  EXPECT_EQ(Why(Json()), "") << "no error";
}

TEST_F(WhyPodWaitsTest, IsCutAsForeignText) {
  AddEvent("FailedMount", std::string(4000, 'x'), 1);
  EXPECT_EQ(Why(Json()).size(), 512u);
}

}  // namespace
}  // namespace csidelta::objects::event_test
