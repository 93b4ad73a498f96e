// csi/snapshot_audit.h: what of two lists of contents, the VolumeSnapshots and a storage's list is
// a finding.
#include "csi/snapshot_audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "csi/snapshot_types.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::csi::snapshot_audit_test {
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
AuditFacts Whole() {
  AuditFacts facts;
  facts.before = {Content("a")};
  facts.after = {Content("a")};
  facts.snapshots = {Snapshot("a")};
  facts.storage = StorageList{.driver = kMine,
                              .snapshots = {{.handle = "handle-a", .volume_handle = "volume-a"}}};
  facts.now = absl::FromUnixSeconds(1'000'000);
  return facts;
}

TEST(SnapshotAuditTest, WhatIsWholeIsNoFinding) { EXPECT_TRUE(Audit(Whole()).IsEmpty()); }

TEST(SnapshotAuditTest, UnknownIsWhatNeitherListHas) {
  AuditFacts facts = Whole();
  facts.storage->snapshots.push_back({.handle = "b", .volume_handle = "volume-b"});
  facts.storage->snapshots.push_back({.handle = "new",
                                      .volume_handle = "volume-b",
                                      .size_bytes = 1,
                                      .taken_at = facts.now - absl::Minutes(1)});
  AuditFindings findings = Audit(facts);
  ASSERT_EQ(findings.unknown.size(), 2u);
  EXPECT_EQ(findings.unknown[0].snapshot.handle, "b");
  EXPECT_FALSE(findings.unknown[0].may_be_new);
  EXPECT_TRUE(findings.unknown[1].may_be_new);
  // A content of the handle came, or went, meanwhile.
  for (std::vector<KnownContent>* const list : {&facts.before, &facts.after}) {
    KnownContent content = Content("b");
    content.handle = "b";
    content.is_being_deleted = true;
    list->push_back(content);
    EXPECT_EQ(Audit(facts).unknown.size(), 1u);
    // Another driver may use the same handle.
    list->back().driver = "other.example.com";
    EXPECT_EQ(Audit(facts).unknown.size(), 2u);
    // One that is being taken has no handle yet.
    list->back() = Content("b");
    list->back().handle = "";
    EXPECT_THAT(Audit(facts).unknown, IsEmpty());
    list->pop_back();
  }
}

TEST(SnapshotAuditTest, LostIsWhatBothListsHave) {
  AuditFacts facts = Whole();
  facts.storage->snapshots.clear();
  ASSERT_EQ(Audit(facts).lost.size(), 1u);
  EXPECT_EQ(Audit(facts).lost[0].snapshot_name, "a");
  AuditFacts came = facts;
  came.before.clear();
  EXPECT_THAT(Audit(came).lost, IsEmpty());
  AuditFacts got_handle = facts;
  got_handle.before[0].handle = "";
  EXPECT_THAT(Audit(got_handle).lost, IsEmpty());
  AuditFacts goes = facts;
  goes.after[0].is_being_deleted = true;
  EXPECT_THAT(Audit(goes).lost, IsEmpty());
  facts.before[0].driver = facts.after[0].driver = "other.example.com";
  EXPECT_THAT(Audit(facts).lost, IsEmpty());
}

TEST(SnapshotAuditTest, WithoutSnapshotIsByNameAndUid) {
  AuditFacts facts = Whole();
  facts.snapshots->front().uid = "of another";
  EXPECT_EQ(Audit(facts).without_snapshot.size(), 1u);
  facts.after[0].snapshot_uid = "";  // A static one that is not bound yet.
  EXPECT_THAT(Audit(facts).without_snapshot, IsEmpty());
  facts.snapshots->clear();
  EXPECT_EQ(Audit(facts).without_snapshot.size(), 1u);
  AuditFacts goes = facts;
  goes.after[0].is_being_deleted = true;
  EXPECT_TRUE(Audit(goes).IsEmpty());
  facts.driver = "other.example.com";
  facts.storage.reset();
  EXPECT_TRUE(Audit(facts).IsEmpty());
  facts.driver = "";
  facts.snapshots.reset();  // Not known is not gone.
  EXPECT_TRUE(Audit(facts).IsEmpty());
}

TEST(SnapshotAuditTest, WithoutContentAndTwice) {
  AuditFacts facts = Whole();
  facts.snapshots->push_back(Snapshot("c"));
  facts.snapshots->push_back(Snapshot("goes"));
  facts.snapshots->back().is_being_deleted = true;
  facts.snapshots->push_back(Snapshot("unbound"));
  facts.snapshots->back().content = "";
  ASSERT_EQ(Audit(facts).without_content.size(), 1u);
  EXPECT_EQ(Audit(facts).without_content[0].name, "c");
  facts.before.push_back(Content("c"));
  EXPECT_THAT(Audit(facts).without_content, IsEmpty());
  KnownContent second = Content("a");
  second.name = "another";
  facts.after.push_back(second);
  ASSERT_EQ(Audit(facts).twice.size(), 1u);
  EXPECT_THAT(Audit(facts).twice[0].contents, ElementsAre("another", "content-a"));
  facts.after.back().driver = "other.example.com";
  EXPECT_THAT(Audit(facts).twice, IsEmpty());
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
  const absl::StatusOr<AuditReading> reading = ReadAuditFacts(ctx, api, "", [&] {
    EXPECT_EQ(api.CallCount("list", "volumesnapshotcontents"), 1);
    return StorageList{.driver = support::kDriver, .snapshots = {{.handle = "handle"}}};
  });
  ASSERT_THAT(reading, IsOk());
  EXPECT_EQ(api.CallCount("list", "volumesnapshotcontents"), 2);
  EXPECT_EQ(reading->facts.driver, support::kDriver);
  EXPECT_THAT(reading->not_checked, IsEmpty());
  EXPECT_TRUE(Audit(reading->facts).IsEmpty());
  api.Forbid("list", "volumesnapshots");
  EXPECT_THAT(ReadAuditFacts(ctx, api, "", nullptr)->not_checked,
              ElementsAre(HasSubstr("VolumeSnapshots not checked"), HasSubstr("--csi-address")));
  EXPECT_THAT(ReadAuditFacts(ctx, api, "",
                             []() -> absl::StatusOr<StorageList> {
                               return absl::UnavailableError("no driver");
                             }),
              StatusIs(absl::StatusCode::kUnavailable));
  api.Forbid("list", "volumesnapshotcontents");
  EXPECT_THAT(
      ReadAuditFacts(ctx, api, "", nullptr),
      StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("csi-delta-snapshot-reader")));
}

}  // namespace
}  // namespace csidelta::csi::snapshot_audit_test
