#include "datamover/controller/mover_kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "objects/volume_task.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/kind_names.h"
#include "tests/support/mover_kinds.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

namespace csidelta::datamover::mover_kinds_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> UndeclaredIn(const Json& definition) {
  return UndeclaredFields(support::As<objects::CustomResourceDefinition>(definition),
                          objects::VolumeTask::Type());
}

Json& PropertiesOf(Json& definition, const char* part) {
  return definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][part]
                   ["properties"];
}

TEST(MoverKindsTest, WhatTheChartShipsDeclaresEveryField) {
  support::FakeApiClient api;
  support::SeedMoverKinds(api);
  EXPECT_THAT(CheckMoverKinds(CallContext(), api), IsOk());
}

TEST(MoverKindsTest, AnOlderDefinitionIsRefusedByItsFieldsWithTheCommand) {
  support::FakeApiClient api;
  for (const k8s::ResourceType* type : MoverKinds()) {
    SCOPED_TRACE(type->kind);
    support::SeedMoverKinds(api);
    const std::string field = type->kind == "ProtectedVolume" ? "nextStep" : "phase";
    api.Mutate(DefinitionOf(*type),
               [&field](Json& definition) { PropertiesOf(definition, "status").erase(field); });
    EXPECT_THAT(CheckMoverKinds(CallContext(), api),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr(DefinitionOf(*type).name),
                               HasSubstr(absl::StrCat("older version, and drops status.", field,
                                                      "; kubectl apply")),
                               HasSubstr("--filename deploy/chart/crds"))));
  }
}

// The API server would drop from a job which packs are damaged, and the worker would rely on them.
TEST(MoverKindsTest, FieldsInsideOfOthersCount) {
  Json definition = support::ShippedDefinition("volumetask.yaml");
  PropertiesOf(definition, "spec")["job"]["properties"]["upload"]["properties"].erase("damage");
  EXPECT_THAT(UndeclaredIn(definition), ElementsAre("spec.job.upload.damage"));
  PropertiesOf(definition, "status")["outcome"]["properties"].erase("check");
  EXPECT_THAT(UndeclaredIn(definition),
              ElementsAre("spec.job.upload.damage", "status.outcome.check.damage"));
}

// Fields of another version of the kind do not help: only the one that is used counts.
TEST(MoverKindsTest, FieldsOfAnotherVersionDoNotCount) {
  Json definition = support::ShippedDefinition("volumetask.yaml");
  EXPECT_THAT(UndeclaredIn(definition), ElementsAre());
  definition["spec"]["versions"][0]["name"] = "v1";
  EXPECT_THAT(UndeclaredIn(definition), testing::Contains("spec.type"));
  EXPECT_THAT(UndeclaredIn(Json::object()), testing::Contains("status.phase"));
}

TEST(MoverKindsTest, AMissingDefinitionIsRefusedWithTheCommand) {
  support::FakeApiClient api;
  support::SeedMoverKinds(api);
  api.Remove(DefinitionOf(objects::VolumeTask::Type()));
  EXPECT_THAT(CheckMoverKinds(CallContext(), api),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("volumetasks.mover.csi-delta.io is not installed"),
                             HasSubstr("kubectl apply --server-side"))));
}

TEST(MoverKindsTest, DefinitionsThatMustNotBeReadAreNoProof) {
  support::FakeApiClient api;
  support::SeedMoverKinds(api);
  api.Forbid("get", "customresourcedefinitions");
  EXPECT_THAT(CheckMoverKinds(CallContext(), api),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("helm upgrade")));
}

TEST(ExplainUnserved, TheKindsOfGroupsAreNotThoseOfTheSnapshotController) {
  EXPECT_EQ(ExplainUnserved(VolumeGroupSnapshotType("v1")),
            "the API server does not serve the kind VolumeGroupSnapshot");
}

}  // namespace
}  // namespace csidelta::datamover::mover_kinds_test
