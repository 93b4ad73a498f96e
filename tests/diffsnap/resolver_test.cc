#include "diffsnap/resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/diffsnap/dsnap_bed.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

namespace csidelta::diffsnap::resolver_test {
namespace {

using Kind = Resolution::Kind;
using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;
using testing::StartsWith;

constexpr char kOther[] = "other.csi.k8s.io";

class ResolverTest : public testing::Test {
 protected:
  Resolution Get(const Json& object) {
    const auto resolution = Resolve(bed_.ctx, bed_.api, bed_.contents, support::kDriver,
                                    support::As<objects::DifferentialSnapshot>(object));
    EXPECT_THAT(resolution, IsOk());
    return resolution.value_or(Resolution{});
  }
  Resolution GetFor(Json spec) { return Get(bed_.Ask(std::move(spec))); }

  void ExpectFailure(Json spec, absl::string_view code) {
    const std::string text = DumpJson(spec);
    const Resolution resolution = GetFor(std::move(spec));
    EXPECT_EQ(resolution.kind, Kind::kFailure) << text;
    EXPECT_THAT(resolution.error, StartsWith(absl::StrCat(code, ": "))) << text;
    EXPECT_EQ(resolution.resolved, (objects::ResolvedNames{.driver = support::kDriver}));
  }

  DsnapBed bed_;
};

TEST_F(ResolverTest, NamesBecomeHandles) {
  const Resolution pair =
      GetFor({{"baseVolumeSnapshotName", "monday"}, {"targetVolumeSnapshotName", "tuesday"}});
  EXPECT_EQ(pair.kind, Kind::kSuccess);
  EXPECT_EQ(pair.resolved, (objects::ResolvedNames{.driver = support::kDriver,
                                                   .base_handle = "snap-monday",
                                                   .target_handle = "snap-tuesday",
                                                   .volume_handle = "volume-1",
                                                   .class_name = "fast",
                                                   .volume_size_bytes = int64_t{1} << 30}));
  const Resolution alone = GetFor({{"targetVolumeSnapshotName", "tuesday"}, {"mode", "Block"}});
  EXPECT_EQ(alone.kind, Kind::kSuccess);
  EXPECT_EQ(alone.resolved.base_handle, "");
}

TEST_F(ResolverTest, AnyTwoOfOneVolumeAreAPair) {
  bed_.AddSnapshot("friday", "snap-friday");
  for (const auto& [base, target] : {std::pair("tuesday", "monday"), std::pair("monday", "friday"),
                                     std::pair("monday", "monday")}) {
    const Resolution pair =
        GetFor({{"baseVolumeSnapshotName", base}, {"targetVolumeSnapshotName", target}});
    EXPECT_EQ(pair.kind, Kind::kSuccess) << base << " " << target;
    EXPECT_EQ(pair.resolved.base_handle, absl::StrCat("snap-", base));
  }
}

TEST_F(ResolverTest, WhatIsOfAnotherDriverIsLeftAlone) {
  bed_.AddSnapshot("theirs", "snap-1", kOther);
  EXPECT_EQ(GetFor({{"targetVolumeSnapshotName", "theirs"}}).kind, Kind::kForeign);
  bed_.SetReady("theirs", false);
  EXPECT_EQ(GetFor({{"targetVolumeSnapshotName", "theirs"}}).kind, Kind::kForeign);
  // Whatever else is wrong with it.
  EXPECT_EQ(GetFor({{"targetVolumeSnapshotName", "theirs"}, {"mode", "File"}}).kind,
            Kind::kForeign);
}

TEST_F(ResolverTest, AnUnknownTargetIsUnclaimed) {
  EXPECT_EQ(GetFor({{"targetVolumeSnapshotName", "none"}}).kind, Kind::kUnresolved);
  EXPECT_EQ(GetFor(Json::object()).kind, Kind::kUnresolved);
  Json unbound = support::MakeSnapshotObject("app", "unbound", "");
  EraseJson(unbound, {"spec", "volumeSnapshotClassName"});
  bed_.api.Seed(VolumeSnapshotType(), unbound);
  EXPECT_EQ(GetFor({{"targetVolumeSnapshotName", "unbound"}}).kind, Kind::kUnresolved);
}

TEST_F(ResolverTest, ATargetThatIsNotBoundIsOfTheDriverOfItsClass) {
  bed_.api.Seed(VolumeSnapshotType(), support::MakeSnapshotObject("app", "unbound", ""));
  bed_.api.Seed(VolumeSnapshotClassType(), support::MakeClassObject("fast", support::kDriver));
  const Resolution resolution = GetFor({{"targetVolumeSnapshotName", "unbound"}});
  EXPECT_EQ(resolution.kind, Kind::kNotReady);
  EXPECT_THAT(resolution.error, HasSubstr("app/unbound is not ready to use yet"));
  EXPECT_EQ(resolution.resolved.driver, support::kDriver);
}

TEST_F(ResolverTest, ATargetThatVanishesAfterItWasClaimedIsAFailure) {
  Json object = bed_.Ask({{"targetVolumeSnapshotName", "none"}});
  SetJson(object, {"status", "resolved", "driver"}, support::kDriver);
  const Resolution resolution = Get(object);
  EXPECT_EQ(resolution.kind, Kind::kFailure);
  EXPECT_THAT(resolution.error, StartsWith("TargetSnapshotNotFound: "));
}

TEST_F(ResolverTest, ABaseThatIsNotReadyIsWaitedFor) {
  bed_.SetReady("monday", false);
  const Resolution resolution =
      GetFor({{"baseVolumeSnapshotName", "monday"}, {"targetVolumeSnapshotName", "tuesday"}});
  EXPECT_EQ(resolution.kind, Kind::kNotReady);
  EXPECT_THAT(resolution.error, StartsWith("NotReady: "));
}

TEST_F(ResolverTest, WhatCanNeverBeServedIsAFailure) {
  bed_.AddSnapshot("theirs", "snap-theirs", kOther);
  bed_.AddSnapshot("elsewhere", "snap-elsewhere", support::kDriver, "volume-2");
  const auto with = [](const std::string& member, Json value) {
    return Json{{"targetVolumeSnapshotName", "tuesday"}, {member, std::move(value)}};
  };
  ExpectFailure(with("mode", "File"), "UnsupportedMode");
  ExpectFailure(with("volumeId", "volume-2"), "VolumeMismatch");
  ExpectFailure(with("startOffset", "9999999999"), "InvalidOffset");
  ExpectFailure(with("startOffset", "o:9999999999.0.0.x"), "InvalidOffset");
  ExpectFailure(with("startOffset", "9999999999999999999"), "InvalidOffset");
  ExpectFailure(with("startOffset", std::string(2801, 'x')), "InvalidOffset");
  ExpectFailure(with("parameters", {{"csi.storage.k8s.io/snapshotter-secret-name", "x"}}),
                "InvalidArgument");
  ExpectFailure(with("parameters", {{"long", std::string(5000, 'x')}}), "InvalidArgument");
  ExpectFailure(with("parameters", {{"a", std::string(2048, 'x')}, {"b", std::string(2048, 'x')}}),
                "InvalidArgument");
  ExpectFailure(with("baseVolumeSnapshotName", "none"), "BaseSnapshotNotFound");
  ExpectFailure(with("baseVolumeSnapshotName", "theirs"), "DriverMismatch");
  ExpectFailure(with("baseVolumeSnapshotName", "elsewhere"), "VolumeMismatch");
  ExpectFailure({{"targetVolumeSnapshotName", "tuesday"},
                 {"baseVolumeSnapshotName", "monday"},
                 {"baseSnapshotHandle", "snap-monday"}},
                "InvalidArgument");
  EXPECT_EQ(GetFor(with("volumeId", "volume-1")).kind, Kind::kSuccess);
}

TEST_F(ResolverTest, AHandleOfAnotherVolumeOrNamespaceIsRefused) {
  bed_.AddSnapshot("elsewhere", "snap-elsewhere", support::kDriver, "volume-2");
  bed_.AddSnapshot("secret", "snap-secret", support::kDriver, "", "their-namespace");
  bed_.AddSnapshot("imported", "snap-imported", support::kDriver, "");
  // Known here and there: a managed copy in another namespace takes nothing away.
  bed_.AddSnapshot("copy", "snap-monday", support::kDriver, "", "their-namespace");
  bed_.AddSnapshot("of-another", "snap-gone", kOther, "volume-2");
  const auto with = [](const std::string& handle) {
    return Json{{"targetVolumeSnapshotName", "tuesday"}, {"baseSnapshotHandle", handle}};
  };
  ExpectFailure(with("snap-elsewhere"), "VolumeMismatch");
  ExpectFailure(with("snap-secret"), "VolumeMismatch");
  for (const std::string handle : {"snap-monday", "snap-imported", "snap-gone"}) {
    const Json object = bed_.Ask(with(handle));
    bed_.clock.Advance(ContentIndex::kLagMax);
    const Resolution resolution = Get(object);
    EXPECT_EQ(resolution.kind, Kind::kSuccess) << handle;
    EXPECT_EQ(resolution.resolved.base_handle, handle);
  }
}

TEST_F(ResolverTest, ABaseByItsHandleCostsNoList) {
  bed_.api.ClearCalls();
  EXPECT_EQ(
      GetFor({{"targetVolumeSnapshotName", "tuesday"}, {"baseSnapshotHandle", "snap-monday"}}).kind,
      Kind::kSuccess);
  for (const support::ApiCall& call : bed_.api.calls()) {
    EXPECT_NE(call.verb, "list");
  }
}

TEST_F(ResolverTest, AHandleThatIsNotKnownIsLookedUpAgainBeforeItIsTaken) {
  const Json object =
      bed_.Ask({{"targetVolumeSnapshotName", "tuesday"}, {"baseSnapshotHandle", "snap-secret"}});
  EXPECT_EQ(Get(object).kind, Kind::kNotReady);
  // Made just before the object, and reported to the index just after it.
  bed_.AddSnapshot("secret", "snap-secret", support::kDriver, "", "their-namespace");
  bed_.contents_informer.OnAll(bed_.api.All(VolumeSnapshotContentType()));
  bed_.clock.Advance(ContentIndex::kLagMax);
  EXPECT_EQ(Get(object).kind, Kind::kFailure);
}

TEST_F(ResolverTest, ABaseByItsHandleIsNotTakenWhenThereAreTooManyContents) {
  const Json object =
      bed_.Ask({{"targetVolumeSnapshotName", "tuesday"}, {"baseSnapshotHandle", "snap-monday"}});
  ContentIndex overfull(support::kDriver, 1);
  k8s::Informer(ContentIndex::Watched(), {&overfull})
      .OnAll(bed_.api.All(VolumeSnapshotContentType()));
  const auto resolution = Resolve(bed_.ctx, bed_.api, overfull, support::kDriver,
                                  support::As<objects::DifferentialSnapshot>(object));
  ASSERT_THAT(resolution, IsOk());
  EXPECT_EQ(resolution->kind, Kind::kNotReady);
  EXPECT_THAT(resolution->error, HasSubstr("delete old ones"));
}

TEST_F(ResolverTest, BeforeTheContentsAreKnownABaseByItsHandleIsUndecided) {
  const Json object =
      bed_.Ask({{"targetVolumeSnapshotName", "tuesday"}, {"baseSnapshotHandle", "snap-monday"}});
  const ContentIndex unsynced(support::kDriver);
  EXPECT_THAT(Resolve(bed_.ctx, bed_.api, unsynced, support::kDriver,
                      support::As<objects::DifferentialSnapshot>(object)),
              StatusIs(absl::StatusCode::kAborted));
}

TEST_F(ResolverTest, AnUnknownVolumeIsLeftToTheDriver) {
  bed_.AddSnapshot("imported", "snap-imported", support::kDriver, "");
  const Resolution resolution = GetFor({{"targetVolumeSnapshotName", "imported"},
                                        {"baseVolumeSnapshotName", "monday"},
                                        {"volumeId", "volume-1"}});
  EXPECT_EQ(resolution.kind, Kind::kSuccess);
  EXPECT_EQ(resolution.resolved.volume_handle, "volume-1");
}

TEST_F(ResolverTest, OnlyItsOwnNamespaceIsLookedInto) {
  bed_.AddSnapshot("away", "snap-away", support::kDriver, "volume-1", "their-namespace");
  EXPECT_EQ(GetFor({{"targetVolumeSnapshotName", "away"}}).kind, Kind::kUnresolved);
  ExpectFailure({{"targetVolumeSnapshotName", "tuesday"}, {"baseVolumeSnapshotName", "away"}},
                "BaseSnapshotNotFound");
}

TEST_F(ResolverTest, AContentThatIsBoundToAnotherIsNotTaken) {
  Json thief = support::MakeSnapshotObject("app", "thief", "content-tuesday");
  SetJson(thief, {"status", "readyToUse"}, true);
  bed_.api.Seed(VolumeSnapshotType(), thief);
  const Resolution resolution = GetFor({{"targetVolumeSnapshotName", "thief"}});
  EXPECT_EQ(resolution.kind, Kind::kNotReady);
  EXPECT_THAT(resolution.error, HasSubstr("belongs to another VolumeSnapshot"));
}

TEST_F(ResolverTest, AnApiServerThatIsAwayDecidesNothing) {
  const Json object = bed_.Ask({{"targetVolumeSnapshotName", "tuesday"}});
  bed_.api.FailNext("get", "volumesnapshots", absl::UnavailableError("away"));
  EXPECT_THAT(Resolve(bed_.ctx, bed_.api, bed_.contents, support::kDriver,
                      support::As<objects::DifferentialSnapshot>(object)),
              StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace csidelta::diffsnap::resolver_test
