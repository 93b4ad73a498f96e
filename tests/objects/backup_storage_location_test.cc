#include "objects/backup_storage_location.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace csidelta::objects::backup_storage_location_test {
namespace {

using support::StatusIs;
using testing::HasSubstr;

Json Location() {
  return {{"metadata", {{"name", "default"}, {"namespace", "velero"}}},
          {"spec",
           {{"provider", "velero.io/aws"},
            {"objectStorage",
             {{"bucket", "b"},
              {"prefix", "/some//where/"},
              {"caCert", "cGVt"},
              {"caCertRef", {{"name", "ca"}, {"key", "tls"}}}}},
            {"config", {{"region", "eu-west-1"}, {"s3ForcePathStyle", "True"}}},
            {"credential", {{"name", "creds"}, {"key", "cloud"}}},
            {"accessMode", "ReadOnly"}}}};
}

TEST(BackupStorageLocationTest, IsRead) {
  const auto location = BackupStorageLocation::Parse(Object(Location()));
  ASSERT_THAT(location, support::IsOk());
  EXPECT_EQ(location->name(), "default");
  EXPECT_EQ(location->namespace_name(), "velero");
  EXPECT_EQ(location->provider(), "velero.io/aws");
  EXPECT_EQ(location->bucket(), "b");
  EXPECT_EQ(location->prefix(), "some/where");
  EXPECT_EQ(location->ca_cert_pem(), "pem");
  EXPECT_EQ(location->ca_cert_ref(), (SecretKeyName{.name = "ca", .key = "tls"}));
  EXPECT_EQ(location->credential(), (SecretKeyName{.name = "creds", .key = "cloud"}));
  EXPECT_EQ(location->Config("region"), "eu-west-1");
  EXPECT_EQ(location->Config("s3Url"), "");
  EXPECT_TRUE(location->ConfigFlag("s3ForcePathStyle"));
  EXPECT_FALSE(location->ConfigFlag("insecureSkipTLSVerify"));
  EXPECT_TRUE(location->is_read_only());
}

TEST(BackupStorageLocationTest, MayBeWrittenToUnlessItSaysOtherwise) {
  Json object = Location();
  EraseJson(object, {"spec", "accessMode"});
  EXPECT_FALSE(BackupStorageLocation::Parse(Object(object))->is_read_only());
}

TEST(BackupStorageLocationTest, WhatIsWrongIsNamed) {
  const auto with = [](JsonPath path, Json value) {
    Json object = Location();
    SetJson(object, path, std::move(value));
    return BackupStorageLocation::Parse(Object(object));
  };
  EXPECT_THAT(with({"spec", "objectStorage", "bucket"}, ""),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("velero/default: spec.objectStorage.bucket: missing")));
  EXPECT_THAT(with({"spec", "objectStorage", "prefix"}, "a/../b"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("prefix: has \"..\"")));
  EXPECT_THAT(with({"spec", "objectStorage", "caCert"}, "%"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("caCert: not base64")));
  EXPECT_THAT(with({"spec", "credential", "key"}, ""),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a Secret without its key")));
  EXPECT_THAT(with({"spec", "provider"}, 5),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("provider: is not a string")));
}

}  // namespace
}  // namespace csidelta::objects::backup_storage_location_test
