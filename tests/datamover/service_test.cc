#include "datamover/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "csi/snapshot_types.h"
#include "datamover/mover_kinds.h"
#include "datamover/settings.h"
#include "datamover/volume_task.h"
#include "k8s/wait.h"
#include "net/http_client.h"
#include "net/url.h"
#include "tests/datamover/mover_bed.h"
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
    EXPECT_THAT(ParseVeleroNamespaces(wrong),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--velero-namespaces")))
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
  bed.api.Mutate(DefinitionOf(VolumeTask::Type()), [](Json& definition) {
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
              ["properties"]
                  .erase("message");
  });
  EXPECT_THAT(RunService(CallContext(), bed.api, Settings()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("volumetasks.mover.csi-delta.io"),
                             HasSubstr("drops status.message; kubectl apply"))));
  EXPECT_EQ(bed.api.watches(), 0);
}

// What it answers, at the port that its Lease names.
std::string Metrics(const CallContext& ctx, const MoverBed& bed) {
  const Json lease =
      bed.api.Find({csi::LeaseType(), "mover", "csi-delta-datamover"}).value_or(Json());
  const std::string holder = GetString(lease, {"spec", "holderIdentity"});
  const auto url = net::ParseUrl(absl::StrCat(
      "http://127.0.0.1:", holder.substr(std::min(holder.size(), holder.rfind(':') + 1)),
      "/metrics"));
  EXPECT_THAT(url, IsOk()) << holder;
  const auto answer = net::HttpClient(net::HttpClientOptions())
                          .Send(ctx, {.method = "GET", .url = *url, .headers = {}, .body = ""});
  EXPECT_THAT(answer, IsOk());
  return answer.ok() ? answer->body : "";
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
  EXPECT_THAT(
      k8s::WaitFor(
          ctx, bed.api, {csi::DataUploadType(), "velero", "nightly"},
          [](const Json* object) -> absl::StatusOr<bool> {
            return object != nullptr && GetString(*object, {"status", "phase"}) == "Completed";
          }),
      IsOk());
  EXPECT_THAT(
      k8s::WaitFor(ctx, bed.api, csi::VolumeSnapshotContentKey("du-1"),
                   [](const Json* object) -> absl::StatusOr<bool> { return object == nullptr; }),
      IsOk())
      << "the base of a volume that is gone";
  const std::string metrics = Metrics(ctx, bed);
  for (const char* queue :
       {"archives", "bases", "contents", "deletions", "downloads", "groups", "tasks", "uploads"}) {
    EXPECT_THAT(metrics,
                HasSubstr(absl::StrCat("csi_delta_mover_queue_depth{queue=\"", queue, "\"} ")));
  }
  EXPECT_THAT(metrics, HasSubstr("csi_delta_mover_reconciles_total{queue=\"uploads\"} "));
  EXPECT_THAT(metrics,
              testing::Not(HasSubstr("csi_delta_mover_reconciles_total{queue=\"uploads\"} 0\n")));
  stop.request_stop();
  service.join();
  EXPECT_THAT(ended, IsOk());
  const Json lease =
      bed.api.Find({csi::LeaseType(), "mover", "csi-delta-datamover"}).value_or(Json());
  EXPECT_EQ(GetString(lease, {"spec", "holderIdentity"}), "") << "it was given up";
}

// One that waits asks again after minutes only: it is told.
TEST(MoverServiceTest, AnUploadThatEndsLetsTheNextBegin) {
  MoverBed bed;
  support::SeedMoverKinds(bed.api);
  bed.api.Seed({"", "v1", "namespaces", "Namespace", false},
               {{"metadata", {{"name", "kube-system"}, {"uid", bed.env.cluster}}}});
  bed.api.Seed(csi::ConfigMapType(),
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
    EXPECT_THAT(
        k8s::WaitFor(
            ctx, bed.api, {csi::DataUploadType(), "velero", name},
            [](const Json* object) -> absl::StatusOr<bool> {
              return object != nullptr && GetString(*object, {"status", "phase"}) == "Completed";
            }),
        IsOk())
        << name;
  }
  stop.request_stop();
}

}  // namespace
}  // namespace csidelta::datamover::service_test
