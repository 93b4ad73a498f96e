#include "diffsnap/class_secrets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::diffsnap::class_secrets_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;

class ClassSecretsTest : public testing::Test {
 protected:
  void NameSecret(const std::string& name, const std::string& space) {
    Json object = support::MakeClassObject("fast", support::kDriver);
    SetJson(object, {"parameters"},
            {{"csi.storage.k8s.io/snapshotter-secret-name", name},
             {"csi.storage.k8s.io/snapshotter-secret-namespace", space}});
    api_.Seed(VolumeSnapshotClassType(), object);
  }
  void Store(const std::string& space, const std::string& name, const std::string& key) {
    Json object = support::MakeObject("v1", "Secret", space, name);
    SetJson(object, {"data", "userKey"}, absl::Base64Escape(key));
    api_.Seed(SecretType(), object);
  }
  absl::StatusOr<DriverSecrets> Read() { return secrets_.Read(ctx_, owner_); }

  support::FakeClock clock_;
  support::FakeApiClient api_{clock_};
  CallContext ctx_{.deadline = absl::InfiniteDuration(), .stop = {}, .clock = &clock_};
  ClassSecrets secrets_{api_};
  SecretsOwner owner_{.class_name = "fast", .namespace_name = "app", .snapshot_name = "monday"};
};

TEST_F(ClassSecretsTest, AreWhatTheClassNames) {
  NameSecret("ceph", "storage");
  Store("storage", "ceph", "k1");
  EXPECT_EQ(*Read(), (DriverSecrets{{"userKey", Secret("k1")}}));
}

TEST_F(ClassSecretsTest, NamesMayBeMadeOfTheVolumeSnapshots) {
  NameSecret("key-${volumesnapshot.name}", "${volumesnapshot.namespace}");
  Store("app", "key-monday", "k1");
  Store("app", "key-tuesday", "k2");
  EXPECT_EQ(Read()->at("userKey"), Secret("k1"));
  owner_.snapshot_name = "tuesday";
  EXPECT_EQ(Read()->at("userKey"), Secret("k2"));
}

// A class whose driver wants a Secret to list snapshots.
void SeedListingClass(support::FakeApiClient& api, const std::string& name,
                      const std::string& driver, const std::string& secret) {
  Json object = support::MakeClassObject(name, driver);
  SetJson(object, {"parameters"},
          {{"csi.storage.k8s.io/snapshotter-secret-name", "for-deletions"},
           {"csi.storage.k8s.io/snapshotter-secret-namespace", "storage"},
           {"csi.storage.k8s.io/snapshotter-list-secret-name", secret},
           {"csi.storage.k8s.io/snapshotter-list-secret-namespace", "storage"}});
  api.Seed(VolumeSnapshotClassType(), object);
}

TEST_F(ClassSecretsTest, ForListingTheyAreThoseOfTheClassesOfTheDriver) {
  Store("storage", "pool-a", "k1");
  Store("storage", "pool-b", "k2");
  SeedListingClass(api_, "a", support::kDriver, "pool-a");
  SeedListingClass(api_, "a-too", support::kDriver, "pool-a");
  SeedListingClass(api_, "b", support::kDriver, "pool-b");
  SeedListingClass(api_, "template", support::kDriver, "key-${volumesnapshotcontent.name}");
  SeedListingClass(api_, "other", "other.example.com", "missing");
  api_.Seed(VolumeSnapshotClassType(), support::MakeClassObject("plain", support::kDriver));
  const auto sets = ReadListingSecrets(ctx_, api_, support::kDriver);
  ASSERT_THAT(sets, IsOk());
  EXPECT_EQ(*sets,
            (std::vector<DriverSecrets>{{{"userKey", Secret("k1")}}, {{"userKey", Secret("k2")}}}));
}

TEST_F(ClassSecretsTest, ForListingNoneIsOneEmptySet) {
  SeedListingClass(api_, "other", "other.example.com", "missing");
  EXPECT_EQ(*ReadListingSecrets(ctx_, api_, support::kDriver), std::vector<DriverSecrets>(1));
  api_.RemoveType("volumesnapshotclasses");
  EXPECT_EQ(*ReadListingSecrets(ctx_, api_, support::kDriver), std::vector<DriverSecrets>(1));
}

TEST_F(ClassSecretsTest, ForListingWhatMayNotBeReadIsNamed) {
  SeedListingClass(api_, "a", support::kDriver, "pool-a");
  EXPECT_THAT(ReadListingSecrets(ctx_, api_, support::kDriver),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("storage/pool-a")));
  api_.Forbid("list", "volumesnapshotclasses");
  EXPECT_THAT(ReadListingSecrets(ctx_, api_, support::kDriver),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("volumesnapshotclasses")));
}

TEST_F(ClassSecretsTest, WithoutAnyTheListIsEmpty) {
  api_.Seed(VolumeSnapshotClassType(), support::MakeClassObject("fast", support::kDriver));
  EXPECT_THAT(*Read(), testing::IsEmpty());
  owner_.class_name = "";
  api_.ClearCalls();
  EXPECT_THAT(*Read(), testing::IsEmpty());
  EXPECT_TRUE(api_.calls().empty());
}

TEST_F(ClassSecretsTest, WhatIsMissingIsNamed) {
  EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("fast")));
  NameSecret("ceph", "storage");
  EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("storage/ceph")));
  NameSecret("${volumesnapshotcontent.name}", "storage");
  EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kUnavailable,
                               HasSubstr("storage/${volumesnapshotcontent.name}")));
  NameSecret("ceph", "");
  EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(ClassSecretsTest, ASecretThatIsRenewedCountsAfterAMinute) {
  NameSecret("ceph", "storage");
  Store("storage", "ceph", "k1");
  EXPECT_THAT(Read(), IsOk());
  Store("storage", "ceph", "k2");
  clock_.Advance(absl::Seconds(59));
  api_.ClearCalls();
  EXPECT_EQ(Read()->at("userKey"), Secret("k1"));
  EXPECT_TRUE(api_.calls().empty());
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(Read()->at("userKey"), Secret("k2"));
}

}  // namespace
}  // namespace csidelta::diffsnap::class_secrets_test
