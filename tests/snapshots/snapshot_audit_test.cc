// snapshots/snapshot_audit.h: what of two lists of contents, the VolumeSnapshots and a storage's
// list is a finding.
#include "snapshots/snapshot_audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::snapshots::snapshot_audit_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kMine[] = "d.example.com";

KnownContent Content(const std::string& name) {
  return {.name = absl::StrCat("content-", name),
          .driver = kMine,
          .handle = absl::StrCat("handle-", name),
          .volume_handle = absl::StrCat("volume-", name),
          .snapshot_namespace = "shop",
          .snapshot_name = name,
          .snapshot_uid = absl::StrCat("uid-", name),
          .is_retained = false,
          .is_being_deleted = false};
}
KnownSnapshot Snapshot(const std::string& name) {
  return {.namespace_name = "shop",
          .name = name,
          .uid = absl::StrCat("uid-", name),
          .content = absl::StrCat("content-", name),
          .is_being_deleted = false};
}

// One whole snapshot.
AuditInfo Whole() {
  AuditInfo info;
  info.before = {Content("a")};
  info.after = {Content("a")};
  info.snapshots = {Snapshot("a")};
  info.storage = StorageList{.driver = kMine,
                             .snapshots = {{.handle = "handle-a", .volume_handle = "volume-a"}}};
  info.now = absl::FromUnixSeconds(1'000'000);
  return info;
}

TEST(SnapshotAuditTest, WhatIsWholeIsNoFinding) { EXPECT_TRUE(Audit(Whole()).IsEmpty()); }

TEST(SnapshotAuditTest, UnknownIsWhatNeitherListHas) {
  AuditInfo info = Whole();
  info.storage->snapshots.push_back({.handle = "b", .volume_handle = "volume-b"});
  info.storage->snapshots.push_back({.handle = "new",
                                     .volume_handle = "volume-b",
                                     .size_bytes = 1,
                                     .taken_at = info.now - absl::Minutes(1)});
  AuditFindings findings = Audit(info);
  ASSERT_EQ(findings.unknown.size(), 2u);
  EXPECT_EQ(findings.unknown[0].snapshot.handle, "b");
  EXPECT_FALSE(findings.unknown[0].may_be_new);
  EXPECT_TRUE(findings.unknown[1].may_be_new);
  // A content of the handle came, or went, meanwhile.
  for (std::vector<KnownContent>* const list : {&info.before, &info.after}) {
    KnownContent content = Content("b");
    content.handle = "b";
    content.is_being_deleted = true;
    list->push_back(content);
    EXPECT_EQ(Audit(info).unknown.size(), 1u);
    // Another driver may use the same handle.
    list->back().driver = "other.example.com";
    EXPECT_EQ(Audit(info).unknown.size(), 2u);
    // One that is being taken has no handle yet.
    list->back() = Content("b");
    list->back().handle = "";
    EXPECT_THAT(Audit(info).unknown, IsEmpty());
    list->pop_back();
  }
}

TEST(SnapshotAuditTest, LostIsWhatBothListsHave) {
  AuditInfo info = Whole();
  info.storage->snapshots.clear();
  ASSERT_EQ(Audit(info).lost.size(), 1u);
  EXPECT_EQ(Audit(info).lost[0].snapshot_name, "a");
  AuditInfo came = info;
  came.before.clear();
  EXPECT_THAT(Audit(came).lost, IsEmpty());
  AuditInfo got_handle = info;
  got_handle.before[0].handle = "";
  EXPECT_THAT(Audit(got_handle).lost, IsEmpty());
  AuditInfo goes = info;
  goes.after[0].is_being_deleted = true;
  EXPECT_THAT(Audit(goes).lost, IsEmpty());
  info.before[0].driver = info.after[0].driver = "other.example.com";
  EXPECT_THAT(Audit(info).lost, IsEmpty());
}

TEST(SnapshotAuditTest, WithoutSnapshotIsByNameAndUid) {
  AuditInfo info = Whole();
  info.snapshots->front().uid = "of another";
  EXPECT_EQ(Audit(info).without_snapshot.size(), 1u);
  info.after[0].snapshot_uid = "";  // A static one that is not bound yet.
  EXPECT_THAT(Audit(info).without_snapshot, IsEmpty());
  info.snapshots->clear();
  EXPECT_EQ(Audit(info).without_snapshot.size(), 1u);
  AuditInfo goes = info;
  goes.after[0].is_being_deleted = true;
  EXPECT_TRUE(Audit(goes).IsEmpty());
  info.driver = "other.example.com";
  info.storage.reset();
  EXPECT_TRUE(Audit(info).IsEmpty());
  info.driver = "";
  info.snapshots.reset();  // Not known is not gone.
  EXPECT_TRUE(Audit(info).IsEmpty());
}

TEST(SnapshotAuditTest, WithoutContentAndTwice) {
  AuditInfo info = Whole();
  info.snapshots->push_back(Snapshot("c"));
  info.snapshots->push_back(Snapshot("goes"));
  info.snapshots->back().is_being_deleted = true;
  info.snapshots->push_back(Snapshot("unbound"));
  info.snapshots->back().content = "";
  ASSERT_EQ(Audit(info).without_content.size(), 1u);
  EXPECT_EQ(Audit(info).without_content[0].name, "c");
  info.before.push_back(Content("c"));
  EXPECT_THAT(Audit(info).without_content, IsEmpty());
  KnownContent second = Content("a");
  second.name = "another";
  info.after.push_back(second);
  ASSERT_EQ(Audit(info).twice.size(), 1u);
  EXPECT_THAT(Audit(info).twice[0].contents, ElementsAre("another", "content-a"));
  info.after.back().driver = "other.example.com";
  EXPECT_THAT(Audit(info).twice, IsEmpty());
}

TEST(SnapshotAuditTest, NamesOfDrivers) {
  for (const char* good : {"d.example.com", "ebs.csi.aws.com", "A-b_c.d", "x"}) {
    EXPECT_TRUE(IsDriverName(good)) << good;
  }
  for (const std::string& bad : {std::string(), std::string("-a"), std::string("a b"),
                                 std::string("a\x1b"), std::string("a/b"), std::string(64, 'a')}) {
    EXPECT_FALSE(IsDriverName(bad)) << bad;
  }
}

TEST(SnapshotAuditTest, ContentsAreReadBeforeAndAfter) {
  support::FakeApiClient api;
  api.Seed(VolumeSnapshotContentType(),
           support::MakeContentObject("content", "shop", "snap", "handle"));
  api.Seed(VolumeSnapshotType(), support::MakeSnapshotObject("shop", "snap", "content"));
  const CallContext ctx;
  const absl::StatusOr<AuditReading> reading = ReadAuditInfo(ctx, api, "", [&] {
    EXPECT_EQ(api.CallCount("list", "volumesnapshotcontents"), 1);
    return StorageList{.driver = support::kDriver, .snapshots = {{.handle = "handle"}}};
  });
  ASSERT_THAT(reading, IsOk());
  EXPECT_EQ(api.CallCount("list", "volumesnapshotcontents"), 2);
  EXPECT_EQ(reading->info.driver, support::kDriver);
  EXPECT_THAT(reading->not_checked, IsEmpty());
  EXPECT_TRUE(Audit(reading->info).IsEmpty());
  api.Forbid("list", "volumesnapshots");
  EXPECT_THAT(ReadAuditInfo(ctx, api, "", nullptr)->not_checked,
              ElementsAre(HasSubstr("VolumeSnapshots not checked"), HasSubstr("--csi-address")));
  EXPECT_THAT(ReadAuditInfo(ctx, api, "",
                            []() -> absl::StatusOr<StorageList> {
                              return absl::UnavailableError("no driver");
                            }),
              StatusIs(absl::StatusCode::kUnavailable));
  api.Forbid("list", "volumesnapshotcontents");
  EXPECT_THAT(
      ReadAuditInfo(ctx, api, "", nullptr),
      StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("csi-delta-snapshot-reader")));
}

}  // namespace
}  // namespace csidelta::snapshots::snapshot_audit_test
