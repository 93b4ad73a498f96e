// csi-delta snapshot audit: against an API server, and the CSI driver of the tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "tests/cli/program_runner.h"
#include "tests/cli/snapshot_verb_fixture.h"
#include "tests/csi_driver/driver_fixture.h"
#include "tests/csi_driver/listing_driver.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"

namespace csidelta::cli::snapshot_audit_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class SnapshotAuditVerbTest : public SnapshotVerbTest {
 protected:
  SnapshotAuditVerbTest() : SnapshotVerbTest("audit") {
    Ready("monday", "2026-11-23T05:00:00Z");
    Ready("tuesday", "2026-11-24T05:00:00Z");
  }
};

TEST_F(SnapshotAuditVerbTest, WithoutADriverOnlyTheClusterIsCompared) {
  Outcome outcome = Run({});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, HasSubstr("nothing was found; compared 2 VolumeSnapshotContents, 2 "
                                     "VolumeSnapshots\n"));
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("not asked"), HasSubstr("--csi-address")));
  ASSERT_TRUE(api_.Remove(VolumeSnapshotKey("shop", "monday")));
  ASSERT_TRUE(api_.Remove(VolumeSnapshotContentKey("content-of-tuesday")));
  api_.Seed(VolumeSnapshotContentType(),
            support::MakeContentObject("second", "shop", "second", "handle-of-monday"));
  outcome = Run({});
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("content-of-monday"), HasSubstr("shop/monday"),
                                 HasSubstr("shop/tuesday"), HasSubstr("content-of-monday,second")));
  const Json value = RunJson({});
  EXPECT_EQ(value.at("without_snapshot").size(), 2u);
  EXPECT_EQ(GetString(value.at("without_content").at(0), {"name"}), "tuesday");
  EXPECT_EQ(GetString(value.at("twice").at(0), {"handle"}), "handle-of-monday");
  EXPECT_FALSE(GetBool(value, {"storage_asked"}, true));
  EXPECT_EQ(value.at("not_checked").size(), 1u);
  EXPECT_THAT(RunJson({"--driver", "other.example.com"}).at("without_snapshot"), IsEmpty());
}

TEST_F(SnapshotAuditVerbTest, WhatIsWrongIsSaid) {
  EXPECT_THAT(Run({"-l", "a=b"}).error, HasSubstr("-l"));
  EXPECT_THAT(Run({"--driver", "a b"}).error, HasSubstr("csidrivers"));
  EXPECT_THAT(Run({"--csi-address", "unix:///nowhere/csi.sock"}).error,
              HasSubstr("no socket /nowhere/csi.sock"));
  api_.Forbid("list", "volumesnapshotcontents");
  const Outcome outcome = Run({});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error, HasSubstr("csi-delta-snapshot-reader"));
}

TEST_F(SnapshotAuditVerbTest, HostileTextsAreHarmless) {
  Change("monday", {"status", "boundVolumeSnapshotContentName"}, HostileText());
  ChangeContent("tuesday", {"status", "snapshotHandle"}, HostileText());
  ChangeContent("tuesday", {"spec", "driver"}, HostileText());
  ChangeContent("tuesday", {"spec", "volumeSnapshotRef", "name"}, HostileText());
  const Outcome outcome = Run({});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, HasSubstr("content-of-tuesday"));
  ExpectHarmless(outcome.out);
  ExpectHarmless(outcome.error);
  ExpectHarmless(Run({"-o", "json"}).out);
}

TEST_F(SnapshotAuditVerbTest, WhatADriverSaysIsHarmless) {
  csi_driver::ListingDriver driver;
  const std::string hostile = "red \x1b[31m\n next \xe2\x80\xae turned; rm -rf /";
  driver.say = [&](const auto&, auto& answer) {
    for (const std::string& handle : {hostile, std::string("it's; --all"), std::string("-x")}) {
      auto* const snapshot = answer.add_entries()->mutable_snapshot();
      snapshot->set_snapshot_id(handle);
      snapshot->set_source_volume_id(hostile);
    }
    return grpc::Status::OK;
  };
  const Outcome outcome = Run({"--csi-address", driver.Address()});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  ExpectHarmless(outcome.out);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("-o json has the handle"), HasSubstr("'it'\\''s; --all'"),
                    HasSubstr("import --driver liar.example.com -- -x")));
  const Json value = RunJson({"--csi-address", driver.Address()});
  ASSERT_EQ(value.at("unknown").size(), 3u);
  EXPECT_EQ(GetString(value.at("unknown").at(2), {"handle"}), hostile);
  driver.say = [&](const auto&, auto&) {
    return grpc::Status(grpc::StatusCode::INTERNAL, hostile);
  };
  const Outcome failed = Run({"--csi-address", driver.Address()});
  EXPECT_EQ(failed.code, ExitCode::kFailed);
  EXPECT_THAT(failed.error, AllOf(HasSubstr("ListSnapshots of CSI driver liar.example.com"),
                                  HasSubstr("the driver's log says more")));
  ExpectHarmless(failed.error);
}

TEST_F(SnapshotAuditVerbTest, ADriverIsShownTheSecretOfItsClass) {
  csi_driver::ListingDriver driver;
  std::string shown;
  driver.say = [&](const auto& request, auto&) {
    const auto found = request.secrets().find("userKey");
    shown = found == request.secrets().end() ? "nothing" : found->second;
    return grpc::Status::OK;
  };
  Json snapshot_class = support::MakeClassObject("pool", driver.name);
  SetJson(snapshot_class, {"parameters"},
          {{"csi.storage.k8s.io/snapshotter-list-secret-name", "ceph"},
           {"csi.storage.k8s.io/snapshotter-list-secret-namespace", "storage"}});
  api_.Seed(VolumeSnapshotClassType(), snapshot_class);
  const Outcome without = Run({"--csi-address", driver.Address()});
  EXPECT_EQ(without.code, ExitCode::kFailed);
  EXPECT_THAT(without.error, HasSubstr("storage/ceph"));
  EXPECT_EQ(driver.calls, 0);
  Json secret = support::MakeObject("v1", "Secret", "storage", "ceph");
  SetJson(secret, {"data", "userKey"}, "azE=");
  api_.Seed(SecretType(), secret);
  EXPECT_EQ(Run({"--csi-address", driver.Address()}).code, ExitCode::kOk);
  EXPECT_EQ(shown, "k1");
}

// A driver beside the API server.
class SnapshotAuditDriverTest : public csi_driver::DriverFixture {
 protected:
  SnapshotAuditDriverTest()
      : DriverFixture("/dev/shm"),
        api_server_(api_, {VolumeSnapshotType(), VolumeSnapshotContentType()}) {
    program_.Write("kubeconfig", api_server_.Kubeconfig());
  }

  void SetUp() override {
    DriverFixture::SetUp();
    csi_driver::VolumeSpec spec;
    spec.name = "v";
    spec.size.required_bytes = 1 << 20;
    volume_ = store_->CreateVolume(spec)->id;
    known_ = store_->CreateSnapshot("known", volume_)->id;
    clock_.Advance(absl::Hours(1));
    unknown_ = store_->CreateSnapshot("unknown", volume_)->id;
    Seed("known", known_);
    Seed("lost", "it-is-gone");
  }

  void Seed(const std::string& name, const std::string& handle) {
    const std::string content = "content-of-" + name;
    api_.Seed(VolumeSnapshotType(), support::MakeSnapshotObject("shop", name, content));
    Json object = support::MakeContentObject(content, "shop", name, handle);
    SetJson(object, {"spec", "driver"}, "fixture.csi-delta.io");
    api_.Seed(VolumeSnapshotContentType(), object);
  }

  Outcome Run(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"--kubeconfig",  program_.Path("kubeconfig"),
                                      "snapshot",      "audit",
                                      "--csi-address", Address()};
    words.insert(words.end(), more.begin(), more.end());
    return program_.Run(words);
  }

  ProgramRunner program_;
  support::FakeApiClient api_;
  support::ApiTestServer api_server_;
  std::string volume_;
  std::string known_;
  std::string unknown_;
};

TEST_F(SnapshotAuditDriverTest, NamesWhatOnlyOneSideHas) {
  const Outcome outcome = Run({"-n", "shop"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr(unknown_), HasSubstr(volume_), HasSubstr("1.0 MiB"),
                    HasSubstr("csi-delta snapshot import --driver fixture.csi-delta.io -n shop " +
                              unknown_),
                    HasSubstr("it-is-gone"), HasSubstr("shop/lost"), Not(HasSubstr(known_)),
                    HasSubstr("2 snapshots of fixture.csi-delta.io")));
  EXPECT_THAT(outcome.error, IsEmpty());
  const Json value = ParseJson(Run({"-o", "json"}).out).value_or(Json());
  ASSERT_EQ(value.at("unknown").size(), 1u);
  const Json& unknown = value.at("unknown").at(0);
  EXPECT_EQ(GetString(unknown, {"handle"}), unknown_);
  EXPECT_EQ(GetString(unknown, {"volume"}), volume_);
  EXPECT_EQ(GetInt(unknown, {"size_bytes"}), 1 << 20);
  EXPECT_THAT(GetString(unknown, {"taken_at"}), Not(IsEmpty()));
  ASSERT_EQ(value.at("lost").size(), 1u);
  EXPECT_EQ(GetString(value.at("lost").at(0), {"snapshot"}), "lost");
  EXPECT_EQ(Run({"-o", "name"}).out,
            "volumesnapshotcontent.snapshot.storage.k8s.io/content-of-lost\n");
}

TEST_F(SnapshotAuditDriverTest, ADriverThatDoesNotListIsAnError) {
  StopServing();
  options_.list_snapshots = false;
  Serve();
  const Outcome outcome = Run({});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("fixture.csi-delta.io"), HasSubstr("LIST_SNAPSHOTS"),
                                   HasSubstr("without --csi-address")));
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_THAT(Run({"--driver", "other.example.com"}).error, HasSubstr("other.example.com"));
}

}  // namespace
}  // namespace csidelta::cli::snapshot_audit_test
