#include "datamover/records/base_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "datamover/presence.h"
#include "tests/support/typed.h"

namespace csidelta::datamover::base_use_test {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

csi::BaseSnapshot Base() {
  return {.content_name = "du-1",
          .owner = {.velero_namespace = "velero",
                    .location = "default",
                    .claim_namespace = "shop",
                    .claim = "data",
                    .claim_uid = "uid-1",
                    .cluster = "c"},
          .driver = "d.example.com",
          .snapshot_handle = "snap-1",
          .snapshot_taken_at = kNow - absl::Hours(24),
          .created_at = kNow - absl::Hours(24),
          .is_needed = false,
          .upload = "1"};
}

objects::LastGoodBackup OfUpload(const std::string& upload, absl::Time taken_at) {
  return {.backup = "nightly", .upload = upload, .snapshot_id = "s", .taken_at = taken_at};
}

BaseInfo Info() {
  return {.now = kNow,
          .age_max = absl::Hours(14 * 24),
          .last_good = OfUpload("1", kNow - absl::Hours(24))};
}

std::string CodeOf(const csi::BaseSnapshot& base, const BaseInfo& info) {
  const std::optional<Finding> found = WhyUseless(base, info);
  return found.has_value() ? std::string(found->code) : "";
}

struct Case {
  std::string name;
  std::string expected;  // "": nothing
  std::function<void(csi::BaseSnapshot&, BaseInfo&)> change;
};

TEST(WhyUseless, DecidesByWhatIsKnown) {
  const std::vector<Case> cases = {
      {"nothing is wrong", "", [](auto&, auto&) {}},
      {"the PVC was deleted", "PvcGone", [](auto&, auto& info) { info.pvc_is_gone = true; }},
      {"the location is missing", "LocationGone",
       [](auto&, auto& info) { info.location_missing_for = kMissingGracePeriod; }},
      {"the location is missing since a moment ago", "",
       [](auto&, auto& info) { info.location_missing_for = absl::Minutes(59); }},
      {"the driver keeps none", "DriverKeepsNone", [](auto&, auto& info) { info.is_kept = false; }},
      {"the repository snapshot was deleted", "SnapshotDeleted",
       [](auto&, auto& info) { info.snapshot_is_deleted = true; }},
      {"the repository snapshot of another upload was deleted", "",
       [](auto&, auto& info) {
         info.last_good->upload = "0";
         info.last_good->taken_at = kNow - absl::Hours(48);
         info.snapshot_is_deleted = true;
         info.backup_missing_for = absl::InfiniteDuration();
       }},
      {"a newer upload left no base", "Superseded",
       [](auto&, auto& info) { info.last_good = OfUpload("2", kNow - absl::Hours(1)); }},
      {"the record is not written yet", "",
       [](auto&, auto& info) { info.last_good = OfUpload("0", kNow - absl::Hours(48)); }},
      {"the record does not say when the newer upload was taken", "",
       [](auto&, auto& info) {
         info.last_good = OfUpload("2", kNow);
         info.last_good->taken_at.reset();
       }},
      {"an older base does not say whose it is", "",
       [](auto& base, auto& info) {
         base.upload = "";
         info.last_good = OfUpload("2", kNow);
         info.snapshot_is_deleted = true;
         info.backup_missing_for = absl::InfiniteDuration();
       }},
      {"the Backup is missing", "BackupGone",
       [](auto&, auto& info) { info.backup_missing_for = kMissingGracePeriod; }},
      {"the Backup is missing since a moment ago", "",
       [](auto&, auto& info) { info.backup_missing_for = absl::Minutes(59); }},
      {"there is no record", "",
       [](auto&, auto& info) {
         info.last_good.reset();
         info.snapshot_is_deleted = true;
         info.backup_missing_for = absl::InfiniteDuration();
       }},
      {"as old as it may be", "",
       [](auto& base, auto& info) { base.snapshot_taken_at = info.now - info.age_max; }},
      {"older", "TooOld",
       [](auto& base, auto& info) {
         base.snapshot_taken_at = info.now - info.age_max - absl::Seconds(1);
       }},
      {"older, without a record", "TooOld",
       [](auto& base, auto& info) {
         info.last_good.reset();
         base.snapshot_taken_at.reset();
         base.created_at = info.now - info.age_max - absl::Seconds(1);
       }},
      {"of unknown age", "", [](auto& base, auto&) {
         base.snapshot_taken_at.reset();
         base.created_at.reset();
       }}};
  for (const Case& test : cases) {
    csi::BaseSnapshot base = Base();
    BaseInfo info = Info();
    test.change(base, info);
    EXPECT_EQ(CodeOf(base, info), test.expected) << test.name;
  }
}

struct PvcCase {
  std::string requested, capacity;  // "": missing
  bool waits_to_grow = false;
};

TEST(ReadPvc, WaitsToGrowOnceItRequestsMoreThanItHas) {
  for (const PvcCase& test : std::vector<PvcCase>{{"20Gi", "10Gi", true},
                                                  {"10737418241", "10Gi", true},
                                                  {"10Gi", "10Gi"},
                                                  {"10Gi", "20Gi"},
                                                  {"20Gi", ""},
                                                  {"", "10Gi"},
                                                  {"much", "10Gi"}}) {
    Json json = {{"metadata", {{"name", "data"}, {"namespace", "shop"}, {"uid", "uid-1"}}}};
    if (!test.requested.empty()) {
      SetJson(json, {"spec", "resources", "requests", "storage"}, test.requested);
    }
    if (!test.capacity.empty()) {
      SetJson(json, {"status", "capacity", "storage"}, test.capacity);
    }
    BaseInfo info;
    ReadPvc(support::As<objects::PersistentVolumeClaim>(json), Base().owner, info);
    EXPECT_FALSE(info.pvc_is_gone);
    EXPECT_EQ(info.pvc_waits_to_grow, test.waits_to_grow) << test.requested << test.capacity;
  }
}

struct InTheWayCase {
  std::string driver;
  bool waits_to_grow, is_being_deleted;
  std::string expected;  // "": nothing
};

TEST(WhyUseless, IsInTheWayUnlessTheDriverIsKnownToGrowVolumesWithSnapshots) {
  for (const auto& test :
       std::vector<InTheWayCase>{{"d.example.com", true, false, "PvcWaitsToGrow"},
                                 {"csi.vsphere.vmware.com", true, false, "PvcWaitsToGrow"},
                                 {"rbd.csi.ceph.com", true, false, ""},
                                 {"rbd.csi.ceph.com", false, true, "PvcBeingDeleted"},
                                 {"csi.vsphere.vmware.com", true, true, "PvcBeingDeleted"}}) {
    csi::BaseSnapshot base = Base();
    base.driver = test.driver;
    BaseInfo info = Info();
    info.pvc_waits_to_grow = test.waits_to_grow;
    info.pvc_is_being_deleted = test.is_being_deleted;
    EXPECT_EQ(CodeOf(base, info), test.expected) << test.driver;
  }
}

TEST(WhyUseless, KnowsABackupThatWasDeletedThoughTheRecordHasAnother) {
  BaseInfo info = Info();
  info.last_good = OfUpload("0", kNow - absl::Hours(48));
  info.deleted_upload = "1";
  EXPECT_EQ(CodeOf(Base(), info), "BackupGone");
  info.deleted_upload = "2";
  EXPECT_EQ(CodeOf(Base(), info), "");
}

}  // namespace
}  // namespace csidelta::datamover::base_use_test
