#include "cli/run_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <stop_token>

#include "absl/strings/str_cat.h"
#include "cli/cluster_access.h"
#include "tests/support/api_test_server.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/kind_names.h"
#include "tests/support/scratch_file.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::cli::run_program_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using support::ScratchFile;
using support::StatusIs;
using testing::HasSubstr;

absl::StatusOr<std::string> Shell(
    const std::string& script, std::vector<std::pair<std::string, std::string>> environment = {}) {
  return RunProgram(CallContext(), {.arguments = {"sh", "-c", script},
                                    .environment = std::move(environment),
                                    .output_bytes_max = 100});
}

TEST(RunProgramTest, ReturnsWhatAProgramWritesToItsEnd) {
  EXPECT_THAT(Shell("echo one; echo two"), IsOkAndHolds("one\ntwo\n"));
  EXPECT_THAT(Shell("true"), IsOkAndHolds(""));
}

TEST(RunProgramTest, AVariableComesInsteadOfOurOwnAndTheOthersStay) {
  setenv("CSI_DELTA_TEST_KEPT", "kept", 1);
  setenv("CSI_DELTA_TEST_REPLACED", "old", 1);
  EXPECT_THAT(Shell("echo $CSI_DELTA_TEST_KEPT $CSI_DELTA_TEST_REPLACED",
                    {{"CSI_DELTA_TEST_REPLACED", "new"}}),
              IsOkAndHolds("kept new\n"));
  unsetenv("CSI_DELTA_TEST_KEPT");
  unsetenv("CSI_DELTA_TEST_REPLACED");
}

TEST(RunProgramTest, SaysHowAProgramEnded) {
  EXPECT_THAT(Shell("echo half; exit 3"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("sh ended with 3")));
  EXPECT_THAT(Shell("kill -9 $$"), StatusIs(absl::StatusCode::kFailedPrecondition,
                                            HasSubstr("sh was ended by signal 9")));
  EXPECT_THAT(RunProgram(CallContext(), {.arguments = {"no-such-program"}}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no-such-program")));
  EXPECT_THAT(Shell("while :; do echo more and more; done"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("longer than")));
}

TEST(RunProgramTest, AProgramIsEndedWithTheCall) {
  std::stop_source stop;
  stop.request_stop();
  CallContext ctx;
  ctx.stop = stop.get_token();
  EXPECT_THAT(RunProgram(ctx, {.arguments = {"sleep", "1000"}}),
              StatusIs(absl::StatusCode::kCancelled));
}

// A kubeconfig as EKS, GKE and AKS write it, with a real program that counts how often it was run.
TEST(ClusterAccessTest, LogsInByTheProgramOfTheKubeconfig) {
  const ScratchFile kubeconfig;
  const ScratchFile runs;
  const ScratchFile login;
  std::vector<std::string> tokens;
  support::FakeApiClient api;
  support::ApiTestServer server(
      api, {PersistentVolumeClaimType()}, {},
      [&](const support::ServedRequest& request, support::ServedConnection&) {
        tokens.push_back(request.headers.at("authorization"));
        return false;
      });
  login.Write(absl::StrCat(
      "#!/bin/sh\n[ \"$PROFILE\" = prod ] || exit 1\necho run >> ", runs.path(),
      "\nprintf '%s' \"$KUBERNETES_EXEC_INFO\" | grep -q 'v1\",\"kind\":\"ExecCredential' || exit "
      "2\n"
      "printf '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\","
      "\"status\":{\"token\":\"t%d\",\"expirationTimestamp\":\"2000-01-01T00:00:00Z\"}}' $(wc -l "
      "< ",
      runs.path(), ")\n"));
  kubeconfig.Write(server.Kubeconfig(absl::StrCat(
      "{exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: [", login.path(),
      "], env: [{name: PROFILE, value: prod}], interactiveMode: Never}}")));
  ClusterAccess access;
  access.kubeconfig = kubeconfig.path();
  const std::unique_ptr<k8s::ApiClient> client = access.MakeClient();
  // Each answer has expired when it comes, as one of ten seconds has in a wait of a minute.
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(client->List(CallContext(), PersistentVolumeClaimType(), "shop", {}), IsOk());
  }
  EXPECT_THAT(tokens, testing::ElementsAre("Bearer t1", "Bearer t2"));
}

}  // namespace
}  // namespace csidelta::cli::run_program_test
