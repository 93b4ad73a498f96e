#include "datamover/controller/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "datamover/controller/mover_kinds.h"
#include "datamover/settings.h"
#include "k8s/cached_client.h"
#include "k8s/wait.h"
#include "net/http_client.h"
#include "net/url.h"
#include "objects/protected_volume.h"
#include "objects/volume_task.h"
#include "tests/datamover/mover_bed.h"
#include "tests/support/await.h"
#include "tests/support/kind_names.h"
#include "tests/support/mover_kinds.h"
#include "tests/support/status_matchers.h"

namespace csidelta::datamover::service_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

ServiceSettings Settings() {
  return {.mover_namespace = MoverBed::kMover,
          .velero_namespaces = "velero,velero-two",
          .image = "csi-delta:test",
          .worker_service_account = "csi-delta-worker",
          .listen = "127.0.0.1:0"};
}

TEST(MoverServiceTest, NamespacesAreAList) {
  EXPECT_THAT(*ParseVeleroNamespaces("velero"), ElementsAre("velero"));
  EXPECT_THAT(*ParseVeleroNamespaces("a,b"), ElementsAre("a", "b"));
  for (const char* wrong : {"", "a,", "a,a", "A", "a b", "../x"}) {
    EXPECT_THAT(ParseVeleroNamespaces(wrong), StatusIs(absl::StatusCode::kInvalidArgument,
                                                       HasSubstr("such as velero,velero-two")))
        << wrong;
  }
}

TEST(MoverServiceTest, WhatIsMissingIsNamedBeforeAnythingStarts) {
  support::FakeApiClient api;
  const auto refusal = [&](const ServiceSettings& settings) {
    return std::string(RunService(CallContext(), api, settings).message());
  };
  ServiceSettings wrong = Settings();
  wrong.image = "";
  EXPECT_THAT(refusal(wrong), HasSubstr("--image"));
  wrong = Settings();
  wrong.mover_namespace = "";
  EXPECT_THAT(refusal(wrong), HasSubstr("--namespace"));
  EXPECT_THAT(api.calls(), testing::IsEmpty());
}

void SeedCluster(MoverBed& bed) {
  bed.api.Seed({"", "v1", "namespaces", "Namespace", false},
               {{"metadata", {{"name", "kube-system"}, {"uid", bed.env.cluster}}}});
  support::SeedMoverKinds(bed.api);
}

TEST(MoverServiceTest, WithKindsOfAnOlderVersionItDoesNotStart) {
  MoverBed bed;
  SeedCluster(bed);
  bed.api.Mutate(DefinitionOf(objects::VolumeTask::Type()), [](Json& definition) {
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
              ["properties"]
                  .erase("stage");
  });
  EXPECT_THAT(RunService(CallContext(), bed.api, Settings()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("volumetasks.mover.csi-delta.io"),
                             HasSubstr("drops status.stage; kubectl apply"))));
  EXPECT_EQ(bed.api.watches(), 0);
}

// The answer at the port that its Lease names.
net::HttpResponse Ask(const CallContext& ctx, const MoverBed& bed, absl::string_view path) {
  const Json lease = bed.api.Find({LeaseType(), "mover", "csi-delta-datamover"}).value_or(Json());
  const std::string holder = GetString(lease, {"spec", "holderIdentity"});
  const auto url = net::ParseUrl(absl::StrCat(
      "http://127.0.0.1:", holder.substr(std::min(holder.size(), holder.rfind(':') + 1)), path));
  EXPECT_THAT(url, IsOk()) << holder;
  const auto answer = net::HttpClient(net::HttpClientOptions())
                          .Send(ctx, {.method = "GET", .url = *url, .headers = {}, .body = ""});
  EXPECT_THAT(answer, IsOk());
  return answer.ok() ? *answer : net::HttpResponse();
}

void AwaitCompleted(const CallContext& ctx, MoverBed& bed, const std::string& name) {
  EXPECT_THAT(
      k8s::WaitFor(
          ctx, bed.api, {DataUploadType(), "velero", name},
          [](const Json* object) -> absl::StatusOr<bool> {
            return object != nullptr && GetString(*object, {"status", "phase"}) == "Completed";
          }),
      IsOk())
      << name;
}

TEST(MoverServiceTest, MovesVolumesUntilItIsStopped) {
  MoverBed bed;
  SeedCluster(bed);
  CallContext ctx = CallContext().WithTimeout(absl::Seconds(60));
  std::stop_source stop;
  ctx.stop = stop.get_token();
  absl::Status ended;
  std::jthread service([&] { ended = RunService(ctx, bed.api, Settings()); });
  bed.api.AwaitWatches(8);  // Three kinds of two Veleros, tasks and Pods.
  bed.AddBase("gone", bed.env.cluster);
  bed.AddUpload("nightly");
  AwaitCompleted(ctx, bed, "nightly");
  EXPECT_THAT(
      k8s::WaitFor(ctx, bed.api, VolumeSnapshotContentKey("du-1"),
                   [](const Json* object) -> absl::StatusOr<bool> { return object == nullptr; }),
      IsOk())
      << "the base of a volume that is gone";
  const std::string record =
      objects::ProtectedVolume::NameOf(MoverBed::ClaimUid("shop", "data"), "default");
  EXPECT_THAT(k8s::WaitFor(ctx, bed.api, objects::ProtectedVolume::Key("velero", record),
                           [](const Json* object) -> absl::StatusOr<bool> {
                             return object != nullptr &&
                                    GetString(*object, {"status", "lastGoodBackup", "mode"}) != "";
                           }),
              IsOk());
  EXPECT_EQ(Ask(ctx, bed, "/healthz").status, 200);
  const std::string metrics = Ask(ctx, bed, "/metrics").body;
  for (const char* queue : {"archives", "bases", "claims", "contents", "deletions", "downloads",
                            "groups", "tasks", "uploads"}) {
    EXPECT_THAT(metrics,
                HasSubstr(absl::StrCat("csi_delta_mover_queue_depth{queue=\"", queue, "\"} ")));
  }
  EXPECT_THAT(metrics, HasSubstr("csi_delta_mover_reconciles_total{queue=\"uploads\"} "));
  EXPECT_THAT(metrics, HasSubstr("csi_delta_mover_recovery_point_age_seconds{velero_namespace="
                                 "\"velero\",location=\"default\",namespace=\"shop\","));
  EXPECT_THAT(metrics,
              testing::Not(HasSubstr("csi_delta_mover_reconciles_total{queue=\"uploads\"} 0\n")));
  stop.request_stop();
  service.join();
  EXPECT_THAT(ended, IsOk());
  const Json lease = bed.api.Find({LeaseType(), "mover", "csi-delta-datamover"}).value_or(Json());
  EXPECT_EQ(GetString(lease, {"spec", "holderIdentity"}), "") << "it was given up";
}

void AwaitLeader(const CallContext& ctx, MoverBed& bed) {
  EXPECT_THAT(
      k8s::WaitFor(
          ctx, bed.api, {LeaseType(), "mover", "csi-delta-datamover"},
          [](const Json* object) -> absl::StatusOr<bool> {
            return object != nullptr && !GetString(*object, {"spec", "holderIdentity"}).empty();
          }),
      IsOk());
}

TEST(MoverServiceTest, HealthFailsForEachLoopThatStandsStill) {
  MoverBed bed;
  SeedCluster(bed);
  CallContext ctx = CallContext().WithTimeout(absl::Seconds(60));
  std::stop_source stop;
  ctx.stop = stop.get_token();
  ServiceSettings settings = Settings();
  settings.loop_age_max = absl::Nanoseconds(1);
  std::jthread service([&] { EXPECT_THAT(RunService(ctx, bed.api, settings), IsOk()); });
  AwaitLeader(ctx, bed);
  net::HttpResponse ill;
  support::Await("a turn of each loop", [&] {
    ill = Ask(ctx, bed, "/healthz");
    return absl::StrContains(ill.body, "the lease has stood still for ") &&
           absl::StrContains(ill.body, "the informer of datauploads has stood still for ") &&
           absl::StrContains(ill.body, "the writer of records has stood still for ");
  });
  EXPECT_EQ(ill.status, 503);
  stop.request_stop();
}

// An API server as one replica sees it.
class ReplicaClient : public k8s::ForwardingClient {
 public:
  using ForwardingClient::ForwardingClient;

  absl::StatusOr<Json> Create(const CallContext& ctx, const k8s::ResourceType& type,
                              absl::string_view namespace_name, const Json& object) override {
    Count(type);
    return ForwardingClient::Create(ctx, type, namespace_name, object);
  }
  absl::StatusOr<Json> Update(const CallContext& ctx, const k8s::ObjectKey& key,
                              const Json& object) override {
    Count(key.type);
    return ForwardingClient::Update(ctx, key, object);
  }
  absl::StatusOr<Json> Patch(const CallContext& ctx, const k8s::ObjectKey& key, k8s::PatchKind kind,
                             const Json& patch, absl::string_view subresource) override {
    Count(key.type);
    return ForwardingClient::Patch(ctx, key, kind, patch, subresource);
  }
  absl::Status Delete(const CallContext& ctx, const k8s::ObjectKey& key,
                      const k8s::DeleteOptions& options) override {
    Count(key.type);
    return ForwardingClient::Delete(ctx, key, options);
  }

  int writes() const { return writes_; }  // but those of its Lease

 private:
  void Count(const k8s::ResourceType& type) { writes_ += type.plural == "leases" ? 0 : 1; }

  std::atomic<int> writes_ = 0;
};

TEST(MoverServiceTest, OfTwoReplicasOneWorksAndTheOtherTakesOver) {
  MoverBed bed;
  SeedCluster(bed);
  for (const char* name : {"one", "two"}) {
    bed.AddClaim("shop", name);
  }
  const CallContext ctx = CallContext().WithTimeout(absl::Seconds(60));
  std::stop_source first_stop;
  std::stop_source second_stop;
  CallContext first_ctx = ctx;
  first_ctx.stop = first_stop.get_token();
  CallContext second_ctx = ctx;
  second_ctx.stop = second_stop.get_token();
  ReplicaClient first(bed.api);
  ReplicaClient second(bed.api);
  std::jthread first_replica(
      [&] { EXPECT_THAT(RunService(first_ctx, first, Settings()), IsOk()); });
  AwaitLeader(ctx, bed);
  std::jthread second_replica(
      [&] { EXPECT_THAT(RunService(second_ctx, second, Settings()), IsOk()); });
  bed.api.AwaitWatches(24);  // More than one replica has.
  bed.AddUpload("one", "shop", "one");
  AwaitCompleted(ctx, bed, "one");
  EXPECT_GT(first.writes(), 0);
  EXPECT_EQ(second.writes(), 0);
  first_stop.request_stop();
  first_replica.join();
  const int writes = first.writes();
  bed.AddUpload("two", "shop", "two");
  AwaitCompleted(ctx, bed, "two");
  EXPECT_EQ(first.writes(), writes);
  EXPECT_GT(second.writes(), 0);
  second_stop.request_stop();
}

// One that waits asks again after minutes only: it is told.
TEST(MoverServiceTest, AnUploadThatEndsLetsTheNextBegin) {
  MoverBed bed;
  SeedCluster(bed);
  bed.api.Seed(ConfigMapType(),
               {{"metadata", {{"name", kSettingsConfigMap}, {"namespace", MoverBed::kMover}}},
                {"data", {{"config.json", R"({"limits": {"total": 1}})"}}}});
  const std::vector<std::string> names = {"one", "two", "three"};
  for (const std::string& name : names) {
    bed.AddClaim("shop", name);
    bed.AddUpload(name, "shop", name);
  }
  CallContext ctx = CallContext().WithTimeout(absl::Seconds(60));
  std::stop_source stop;
  ctx.stop = stop.get_token();
  std::jthread service([&] { EXPECT_THAT(RunService(ctx, bed.api, Settings()), IsOk()); });
  for (const std::string& name : names) {
    AwaitCompleted(ctx, bed, name);
  }
  stop.request_stop();
}

}  // namespace
}  // namespace csidelta::datamover::service_test
