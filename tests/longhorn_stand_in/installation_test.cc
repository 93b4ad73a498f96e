#include "tests/support/longhorn/installation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "k8s/object.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/status_matchers.h"

namespace csidelta::longhorn_stand_in::installation_test {
namespace {

using support::IsOk;

const k8s::ResourceType kDefinitions{"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                     "CustomResourceDefinition", false};
const k8s::ResourceType kValidating{"admissionregistration.k8s.io", "v1",
                                    "validatingwebhookconfigurations",
                                    "ValidatingWebhookConfiguration", false};

Json SnapshotDefinition() {
  const std::vector<Json> all = CustomResourceDefinitions();
  const auto found = std::find_if(all.begin(), all.end(), [](const Json& one) {
    return k8s::Name(one) == "snapshots.longhorn.io";
  });
  return found == all.end() ? Json() : *found;
}

TEST(InstallationTest, SnapshotsHaveAShortNameColumnsAndASchema) {
  const Json definition = SnapshotDefinition();
  EXPECT_EQ(definition["spec"]["names"]["shortNames"], Json::array({"lhsnap"}));
  EXPECT_EQ(GetString(definition, {"spec", "scope"}), "Namespaced");
  const Json& version = definition["spec"]["versions"][0];
  EXPECT_EQ(GetString(version, {"name"}), "v1beta2");
  EXPECT_NE(FindJson(version, {"subresources", "status"}), nullptr);
  std::vector<std::string> columns;
  for (const Json& column : version["additionalPrinterColumns"]) {
    columns.push_back(GetString(column, {"name"}));
  }
  EXPECT_THAT(columns, testing::ElementsAre("Volume", "CreationTime", "ReadyToUse", "RestoreSize",
                                            "Size", "Age"));
  const Json* const schema = FindJson(version, {"schema", "openAPIV3Schema", "properties"});
  ASSERT_NE(schema, nullptr);
  EXPECT_EQ((*schema)["spec"]["required"], Json::array({"volume"}));
  EXPECT_EQ(GetString(*schema, {"status", "properties", "readyToUse", "type"}), "boolean");
}

TEST(InstallationTest, WebhooksFailClosedAndAskOnlyWhatLonghornAsks) {
  const std::vector<Json> all = WebhookConfigurations("https://127.0.0.1:9443", "PEM");
  ASSERT_EQ(all.size(), 2);
  for (const Json& configuration : all) {
    const Json& hook = configuration["webhooks"][0];
    EXPECT_EQ(GetString(hook, {"failurePolicy"}), "Fail");
    EXPECT_EQ(GetString(hook, {"clientConfig", "caBundle"}), absl::Base64Escape("PEM"));
    EXPECT_EQ(hook["rules"][0]["resources"], Json::array({"snapshots"}))
        << "and not snapshots/status";
  }
  EXPECT_EQ(GetString(all[0]["webhooks"][0], {"name"}), "mutator.longhorn.io");
  EXPECT_EQ(GetString(all[0]["webhooks"][0], {"clientConfig", "url"}),
            "https://127.0.0.1:9443/v1/webhook/mutation");
  EXPECT_EQ(all[0]["webhooks"][0]["rules"][0]["operations"], Json::array({"CREATE", "UPDATE"}));
  const Json& validator = all[1]["webhooks"][0];
  EXPECT_EQ(validator["rules"][0]["operations"], Json::array({"CREATE", "UPDATE", "DELETE"}));
  EXPECT_EQ(validator["rules"][1]["resources"], Json::array({"persistentvolumeclaims"}));
  EXPECT_EQ(validator["rules"][2]["resources"], Json::array({"volumes"}));
  for (const int rule : {1, 2}) {
    EXPECT_EQ(validator["rules"][rule]["operations"], Json::array({"UPDATE"}));
  }
}

TEST(InstallationTest, InstallingAgainBringsTheWebhooksUpToDate) {
  support::FakeApiClient api;
  api.OnCreate(kDefinitions.plural, [](support::FakeApiClient& server, const Json& made) {
    server.Mutate({kDefinitions, "", k8s::Name(made)}, [](Json& definition) {
      SetJson(definition, {"status", "conditions"},
              Json::array({{{"type", "Established"}, {"status", "True"}}}));
    });
  });
  const CallContext ctx = CallContext().WithTimeout(absl::Seconds(20));
  ASSERT_THAT(Install(ctx, api, "longhorn-system", "https://127.0.0.1:1", "PEM"), IsOk());
  ASSERT_THAT(Install(ctx, api, "longhorn-system", "https://127.0.0.1:2", "PEM"), IsOk());
  EXPECT_EQ(api.All(kDefinitions).size(), CustomResourceDefinitions().size());
  const Json hooks = api.Find({kValidating, "", "longhorn-webhook-validator"}).value_or(Json());
  EXPECT_EQ(GetString(hooks["webhooks"][0], {"clientConfig", "url"}),
            "https://127.0.0.1:2/v1/webhook/validation");
}

}  // namespace
}  // namespace csidelta::longhorn_stand_in::installation_test
