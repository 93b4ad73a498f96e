// What a client of snapshot metadata asks of the API server before it may ask the service.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "csi/bound_snapshot.h"
#include "csi/expose/audience_tokens.h"
#include "csi/expose/metadata_service.h"
#include "tests/support/metadata_cluster.h"
#include "tests/support/scratch_file.h"
#include "tests/support/status_matchers.h"

namespace csidelta::csi::metadata_access_test {
namespace {

using support::IsOk;
using support::MetadataCluster;
using support::StatusIs;
using testing::HasSubstr;

constexpr char kPem[] = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";

class MetadataAccessTest : public testing::Test {
 protected:
  absl::StatusOr<BoundSnapshot> Read(const std::string& change_id_annotation = "") {
    return ReadBoundSnapshot(ctx_, cluster_.api, "app", "new", change_id_annotation);
  }
  void ChangeSnapshot(const std::function<void(Json&)>& change) {
    cluster_.api.Mutate(VolumeSnapshotKey("app", "new"), change);
  }
  void ChangeContent(const std::function<void(Json&)>& change) {
    cluster_.api.Mutate(VolumeSnapshotContentKey("content-new"), change);
  }

  MetadataCluster cluster_;
  CallContext ctx_ = cluster_.Context();
};

TEST_F(MetadataAccessTest, ReadsABoundSnapshot) {
  ChangeSnapshot([](Json& snapshot) {
    SetJson(snapshot, {"metadata", "annotations", "csi.example/change-id"}, "52 de/7");
  });
  const absl::StatusOr<BoundSnapshot> snapshot = Read("csi.example/change-id");
  ASSERT_THAT(snapshot, IsOk());
  EXPECT_EQ(snapshot->driver, support::kDriver);
  EXPECT_EQ(snapshot->snapshot_handle, "handle-new");
  EXPECT_EQ(snapshot->volume_handle, "volume-1");
  EXPECT_EQ(snapshot->claim, "data");
  EXPECT_EQ(snapshot->change_id, "52 de/7");
  EXPECT_EQ(snapshot->restore_size_bytes, 1 << 30);
  EXPECT_EQ(snapshot->creation_time, absl::FromUnixSeconds(1'700'003'600));
  EXPECT_EQ(Read()->change_id, "");
}

// Anyone may make a VolumeSnapshot that names a content.
TEST_F(MetadataAccessTest, ABindingCountsOnlyFromBothSides) {
  for (const char* field : {"namespace", "name", "uid"}) {
    ChangeContent([&](Json& content) {
      SetJson(content, {"spec", "volumeSnapshotRef", field}, "other");
    });
    EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("belongs to another VolumeSnapshot")))
        << field;
    cluster_.AddSnapshot("new", 1'700'003'600);
  }
  EXPECT_THAT(Read(), IsOk());
}

TEST_F(MetadataAccessTest, AnUnreadySnapshotIsRefused) {
  ChangeContent([](Json& content) { content["status"]["readyToUse"] = false; });
  EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not ready")));
  ChangeSnapshot([](Json& snapshot) {
    SetJson(snapshot, {"status"}, {{"error", {{"message", "quota"}}}, {"readyToUse", false}});
  });
  EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("quota")));
  cluster_.api.Remove(VolumeSnapshotKey("app", "new"));
  EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(MetadataAccessTest, TheServiceIsFoundByItsDriver) {
  cluster_.Advertise("metadata.csi:50051", kPem);
  const absl::StatusOr<MetadataService> service =
      FindMetadataService(ctx_, cluster_.api, support::kDriver);
  ASSERT_THAT(service, IsOk());
  EXPECT_EQ(service->address, "metadata.csi:50051");
  EXPECT_EQ(service->audience, "metadata-of-hostpath");
  EXPECT_EQ(service->ca_pem, kPem);
  EXPECT_FALSE(service->may_be_old());
}

TEST_F(MetadataAccessTest, AnOldInstallationHasTheOldVersion) {
  cluster_.Advertise("metadata.csi:50051", kPem, "v1alpha1");
  const absl::StatusOr<MetadataService> service =
      FindMetadataService(ctx_, cluster_.api, support::kDriver);
  ASSERT_THAT(service, IsOk());
  EXPECT_TRUE(service->may_be_old());
}

TEST_F(MetadataAccessTest, ADriverMayHaveNoService) {
  EXPECT_THAT(FindMetadataService(ctx_, cluster_.api, support::kDriver),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("has no SnapshotMetadataService")));
  cluster_.api.RemoveType("snapshotmetadataservices");
  EXPECT_THAT(FindMetadataService(ctx_, cluster_.api, support::kDriver),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(MetadataAccessTest, EveryFieldOfTheServiceIsNeeded) {
  cluster_.Advertise("metadata.csi:50051", kPem);
  const k8s::ObjectKey key{support::MetadataServiceType(), "", support::kDriver};
  const Json whole = *cluster_.api.Find(key);
  for (const char* field : {"address", "audience", "caCert"}) {
    for (const Json& value : {Json(), Json(7), Json("")}) {
      cluster_.api.Mutate(key, [&](Json& service) { service["spec"][field] = value; });
      EXPECT_THAT(FindMetadataService(ctx_, cluster_.api, support::kDriver),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(field)));
      cluster_.api.SetField(key, {"spec"}, whole["spec"]);
    }
  }
}

TEST_F(MetadataAccessTest, CertificatesMayBePlainPem) {
  cluster_.Advertise("metadata.csi:50051", kPem);
  cluster_.api.SetField({support::MetadataServiceType(), "", support::kDriver}, {"spec", "caCert"},
                        kPem);
  EXPECT_EQ(FindMetadataService(ctx_, cluster_.api, support::kDriver)->ca_pem, kPem);
}

TEST_F(MetadataAccessTest, ATokenIsKeptUntilShortlyBeforeItExpires) {
  AudienceTokens tokens(cluster_.api, {});
  EXPECT_EQ(tokens.Token(ctx_, "a")->Reveal(), "token-1");
  EXPECT_EQ(tokens.Token(ctx_, "b")->Reveal(), "token-2") << "each audience has its own";
  cluster_.clock.Advance(absl::Minutes(8) + absl::Seconds(59));
  EXPECT_EQ(tokens.Token(ctx_, "a")->Reveal(), "token-1");
  cluster_.clock.Advance(absl::Seconds(2));
  EXPECT_EQ(tokens.Token(ctx_, "a")->Reveal(), "token-3");
}

TEST_F(MetadataAccessTest, ARefusedTokenIsNotUsedAgain) {
  AudienceTokens tokens(cluster_.api, {});
  const Secret first = *tokens.Token(ctx_, "a");
  tokens.Refuse(ctx_, "a", first);
  EXPECT_EQ(tokens.Token(ctx_, "a")->Reveal(), "token-2");
  tokens.Refuse(ctx_, "a", first);
  EXPECT_EQ(tokens.Token(ctx_, "a")->Reveal(), "token-2") << "another caller has replaced it";
}

TEST_F(MetadataAccessTest, AUserThatIsNoServiceAccountMustNameOne) {
  cluster_.api.SetUsername("system:admin");
  AudienceTokens none(cluster_.api, {});
  EXPECT_THAT(none.Token(ctx_, "a"), StatusIs(absl::StatusCode::kFailedPrecondition,
                                              HasSubstr("\"system:admin\" is no service")));
  AudienceTokens named(cluster_.api, {.service_account = "velero/mover", .token_path = ""});
  EXPECT_EQ(named.Token(ctx_, "a")->Reveal(), "token-1");
  AudienceTokens malformed(cluster_.api, {.service_account = "mover", .token_path = ""});
  EXPECT_THAT(malformed.Token(ctx_, "a"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(MetadataAccessTest, AProjectedTokenIsReadAgain) {
  const support::ScratchFile file;
  file.Write("projected-1");
  AudienceTokens tokens(cluster_.api, {.service_account = "", .token_path = file.path()});
  EXPECT_EQ(tokens.Token(ctx_, "a")->Reveal(), "projected-1");
  file.Write("projected-2");
  cluster_.clock.Advance(absl::Minutes(1));
  EXPECT_EQ(tokens.Token(ctx_, "a")->Reveal(), "projected-2");
  file.Write("projected-3");
  tokens.Refuse(ctx_, "a", Secret("projected-2"));
  EXPECT_EQ(tokens.Token(ctx_, "a")->Reveal(), "projected-3");
  EXPECT_EQ(cluster_.api.CallCount("create", "*"), 0);
}

}  // namespace
}  // namespace csidelta::csi::metadata_access_test
