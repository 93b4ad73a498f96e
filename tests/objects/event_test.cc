#include "objects/event.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

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

}  // namespace
}  // namespace csidelta::objects::event_test
