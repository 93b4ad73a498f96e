#include "tests/contract/locked_store_contract.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "storage/bucket_rules.h"
#include "tests/support/status_matchers.h"

namespace csidelta::contract {

using support::IsOk;
using support::StatusIs;
using testing::Not;
using testing::SizeIs;

namespace {

constexpr char kKey[] = "data/00/pack";
constexpr absl::Duration kLong = absl::Hours(1);
constexpr int64_t kBytesMax = 1 << 10;
constexpr const char* kModes[] = {"GOVERNANCE", "COMPLIANCE"};

}  // namespace

std::string LockedStoreContract::MustPut(const std::string& key, const std::string& bytes) {
  EXPECT_THAT(store_.Put(ctx_, key, bytes, {}), IsOk());
  for (const storage::ObjectVersion& version : VersionsOf(key)) {
    if (version.is_latest) {
      return version.id;
    }
  }
  ADD_FAILURE() << key << " has no latest version";
  return "";
}

absl::Time LockedStoreContract::Soon(absl::Duration from_now) {
  return absl::FromUnixSeconds(absl::ToUnixSeconds(subject_->Now() + from_now));
}

absl::Status LockedStoreContract::SetRetention(const std::string& key, const std::string& version,
                                               const std::string& mode, absl::Duration from_now) {
  return store_.SetRetention(ctx_, key, version, {.mode = mode, .until = Soon(from_now)});
}

void LockedStoreContract::MustLock(const std::string& key, const std::string& version,
                                   const std::string& mode, absl::Duration duration) {
  ASSERT_THAT(SetRetention(key, version, mode, duration), IsOk());
}

std::vector<storage::ObjectVersion> LockedStoreContract::VersionsOf(const std::string& key) {
  std::vector<storage::ObjectVersion> versions;
  EXPECT_THAT(storage::ForEachVersion(ctx_, store_, "",
                                      [&](const storage::ObjectVersion& version) {
                                        if (version.key == key) {
                                          versions.push_back(version);
                                        }
                                        return absl::OkStatus();
                                      }),
              IsOk());
  return versions;
}

TEST_P(LockedStoreContract, AnOverwriteAddsAVersionAndADeletionAMarker) {
  const std::string first = MustPut(kKey, "one");
  const std::string second = MustPut(kKey, "second");
  ASSERT_THAT(store_.Delete(ctx_, kKey), IsOk());
  EXPECT_THAT(store_.Get(ctx_, kKey, kBytesMax), StatusIs(absl::StatusCode::kNotFound));
  const std::vector<storage::ObjectVersion> versions = VersionsOf(kKey);
  ASSERT_THAT(versions, SizeIs(3));
  EXPECT_TRUE(versions[0].is_delete_marker && versions[0].is_latest);
  EXPECT_EQ(versions[1].id, second);
  EXPECT_EQ(versions[2].id, first);
  EXPECT_EQ(versions[1].size_bytes, 6);
  EXPECT_FALSE(versions[1].is_latest || versions[1].is_delete_marker);
  ASSERT_THAT(store_.DeleteVersion(ctx_, kKey, versions[0].id), IsOk());
  EXPECT_EQ(store_.Get(ctx_, kKey, kBytesMax).value_or(""), "second");
  ASSERT_THAT(store_.DeleteVersion(ctx_, kKey, second), IsOk());
  EXPECT_EQ(store_.Get(ctx_, kKey, kBytesMax).value_or(""), "one");
}

TEST_P(LockedStoreContract, AnOlderVersionIsPutAgain) {
  const std::string first = MustPut(kKey, "one");
  MustPut(kKey, "second");
  ASSERT_THAT(store_.RestoreVersion(ctx_, kKey, first), IsOk());
  EXPECT_EQ(store_.Get(ctx_, kKey, kBytesMax).value_or(""), "one");
  EXPECT_THAT(VersionsOf(kKey), SizeIs(3));
}

TEST_P(LockedStoreContract, ALockedVersionIsHiddenButNotDeletedUntilItsLockEnds) {
  for (const char* mode : kModes) {
    const std::string key = absl::StrCat("data/", mode);
    const std::string version = MustPut(key, "precious");
    MustLock(key, version, mode, absl::Seconds(3));
    EXPECT_THAT(store_.DeleteVersion(ctx_, key, version), Not(IsOk())) << mode;
    EXPECT_THAT(store_.Put(ctx_, key, "junk", {}), IsOk());
    EXPECT_THAT(store_.Delete(ctx_, key), IsOk());
    EXPECT_THAT(VersionsOf(key), SizeIs(3));
  }
  subject_->Pass(absl::Seconds(4));
  for (const char* mode : kModes) {
    const std::string key = absl::StrCat("data/", mode);
    EXPECT_THAT(store_.DeleteVersion(ctx_, key, VersionsOf(key).back().id), IsOk()) << mode;
    EXPECT_THAT(VersionsOf(key), SizeIs(2)) << mode;
  }
}

TEST_P(LockedStoreContract, ARetentionIsAsItWasSetAndMayBeExtended) {
  for (const char* mode : kModes) {
    const std::string key = absl::StrCat("data/", mode);
    const std::string version = MustPut(key, "precious");
    EXPECT_EQ(store_.GetRetention(ctx_, key, version).value_or(storage::Retention()).mode, "");
    MustLock(key, version, mode, kLong);
    MustLock(key, version, mode, 2 * kLong);
    const absl::StatusOr<storage::Retention> retention = store_.GetRetention(ctx_, key, version);
    ASSERT_THAT(retention, IsOk());
    EXPECT_EQ(retention->mode, mode);
    EXPECT_LT(absl::AbsDuration(retention->until - Soon(2 * kLong)), absl::Minutes(1));
  }
}

TEST_P(LockedStoreContract, ARetentionIsNotMadeWeakerAndNotSetIntoThePast) {
  const std::string version = MustPut(kKey, "precious");
  EXPECT_THAT(SetRetention(kKey, version, "GOVERNANCE", -kLong), Not(IsOk()));
  MustLock(kKey, version, "COMPLIANCE", kLong);
  EXPECT_THAT(SetRetention(kKey, version, "GOVERNANCE", 2 * kLong), Not(IsOk()));
  EXPECT_THAT(SetRetention(kKey, version, "COMPLIANCE", -kLong), Not(IsOk()));
  if (GetParam().refuses_earlier_dates) {
    EXPECT_THAT(SetRetention(kKey, version, "COMPLIANCE", absl::Minutes(1)), Not(IsOk()));
  }
  const std::string other = MustPut("data/other", "precious");
  MustLock("data/other", other, "GOVERNANCE", kLong);
  if (GetParam().refuses_earlier_dates) {
    EXPECT_THAT(SetRetention("data/other", other, "GOVERNANCE", absl::Minutes(1)), Not(IsOk()));
  }
  if (GetParam().lets_governance_become_compliance) {
    EXPECT_THAT(SetRetention("data/other", other, "COMPLIANCE", kLong), IsOk());
  }
}

TEST_P(LockedStoreContract, ADeleteMarkerHasNoRetention) {
  MustPut(kKey, "precious");
  ASSERT_THAT(store_.Delete(ctx_, kKey), IsOk());
  const std::string marker = VersionsOf(kKey).front().id;
  EXPECT_THAT(SetRetention(kKey, marker, "GOVERNANCE", kLong), Not(IsOk()));
  EXPECT_THAT(store_.DeleteVersion(ctx_, kKey, marker), IsOk());
}

TEST_P(LockedStoreContract, OnlyGovernanceIsBypassed) {
  const std::string governed = MustPut("data/governed", "precious");
  const std::string kept = MustPut("data/kept", "precious");
  MustLock("data/governed", governed, "GOVERNANCE", kLong);
  MustLock("data/kept", kept, "COMPLIANCE", kLong);
  EXPECT_THAT(store_.DeleteVersion(ctx_, "data/governed", governed), Not(IsOk()));
  EXPECT_THAT(subject_->DeleteBypassingGovernance("data/governed", governed), IsOk());
  EXPECT_THAT(VersionsOf("data/governed"), SizeIs(0));
  EXPECT_THAT(subject_->DeleteBypassingGovernance("data/kept", kept), Not(IsOk()));
  EXPECT_THAT(VersionsOf("data/kept"), SizeIs(1));
}

TEST_P(LockedStoreContract, ALegalHoldHoldsUntilItIsTakenAway) {
  const std::string version = MustPut(kKey, "precious");
  ASSERT_THAT(subject_->SetLegalHold(kKey, version, true), IsOk());
  EXPECT_THAT(store_.DeleteVersion(ctx_, kKey, version), Not(IsOk()));
  EXPECT_THAT(subject_->DeleteBypassingGovernance(kKey, version), Not(IsOk()));
  EXPECT_THAT(store_.Delete(ctx_, kKey), IsOk());
  ASSERT_THAT(subject_->SetLegalHold(kKey, version, false), IsOk());
  EXPECT_THAT(store_.DeleteVersion(ctx_, kKey, version), IsOk());
}

TEST_P(LockedStoreContract, APutIsLockedWhenItAsksForIt) {
  for (const char* mode : kModes) {
    const std::string key = absl::StrCat("data/", mode);
    subject_->LockPuts(mode, kLong);
    ASSERT_THAT(subject_->store().Put(ctx_, key, "precious", {}), IsOk());
    const std::string version = VersionsOf(key).front().id;
    const absl::StatusOr<storage::Retention> retention = store_.GetRetention(ctx_, key, version);
    ASSERT_THAT(retention, IsOk());
    EXPECT_EQ(retention->mode, mode);
    EXPECT_LT(absl::AbsDuration(retention->until - Soon(kLong)), absl::Minutes(1));
    EXPECT_THAT(store_.DeleteVersion(ctx_, key, version), Not(IsOk()));
  }
}

TEST_P(LockedStoreContract, TheDefaultRetentionLocksWhatAsksForNothing) {
  ASSERT_THAT(subject_->SetDefaultRetention("COMPLIANCE", 2), IsOk());
  const std::string version = MustPut(kKey, "precious");
  EXPECT_THAT(store_.DeleteVersion(ctx_, kKey, version), Not(IsOk()));
  const storage::BucketRules rules = storage::ReadBucketRules(ctx_, store_);
  EXPECT_EQ(rules.keeps_versions.value_or(false), true) << rules.keeps_versions.status();
  ASSERT_THAT(rules.object_lock, IsOk());
  EXPECT_TRUE(rules.object_lock->is_enabled);
  EXPECT_EQ(rules.object_lock->mode, "COMPLIANCE");
  EXPECT_EQ(rules.object_lock->days, 2);
  ASSERT_THAT(subject_->SetDefaultRetention("", 0), IsOk());
  EXPECT_EQ(
      storage::ReadBucketRules(ctx_, store_).object_lock.value_or(storage::ObjectLockRule()).mode,
      "");
}

TEST_P(LockedStoreContract, AListingOfVersionsGoesOnWhereItStopped) {
  std::vector<std::string> ids;
  for (int i = 0; i < 9; ++i) {
    ids.insert(ids.begin(), MustPut(kKey, absl::StrCat(i)));
  }
  MustPut("data/00/other", "");
  std::vector<std::string> listed;
  for (const storage::ObjectVersion& version : VersionsOf(kKey)) {
    listed.push_back(version.id);
  }
  EXPECT_EQ(listed, ids);
}

}  // namespace csidelta::contract
