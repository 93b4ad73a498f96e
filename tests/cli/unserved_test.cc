// Verbs on a cluster without the CRDs of snapshots, Velero, Longhorn or the data mover, and without
// an API server.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "objects/cluster.h"
#include "tests/cli/program_runner.h"
#include "tests/support/api_test_server.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/kind_names.h"

namespace csidelta::cli::unserved_test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kMover[] = "helm install csi-delta deploy/chart --namespace csi-delta";
constexpr char kVelero[] = "https://velero.io/docs/main/basic-install/";
constexpr char kSnapshots[] =
    "kubectl apply -k \"https://github.com/kubernetes-csi/external-snapshotter/client/config/crd";
constexpr char kLonghorn[] = "https://longhorn.io/docs/";

struct VerbCase {
  const char* arguments;
  const char* command;  // that installs what the verb needs
};
void PrintTo(const VerbCase& one, std::ostream* out) { *out << one.arguments; }

class UnservedTest : public testing::TestWithParam<VerbCase> {
 protected:
  UnservedTest() {
    for (const char* name : {"kube-system", "shop", "csi-delta", "velero"}) {
      api_.Seed(objects::Namespace::Type(), {{"metadata", {{"name", name}, {"uid", "the-uid"}}}});
    }
    api_.Seed(PersistentVolumeClaimType(),
              {{"metadata", {{"name", "orders"}, {"namespace", "shop"}, {"uid", "u"}}},
               {"spec", {{"volumeName", "pv"}, {"storageClassName", "fast"}}},
               {"status", {{"phase", "Bound"}}}});
    api_.Seed(PersistentVolumeType(),
              {{"metadata", {{"name", "pv"}}},
               {"spec",
                {{"csi", {{"driver", "d"}, {"volumeHandle", "h"}}},
                 {"claimRef", {{"namespace", "shop"}, {"name", "orders"}, {"uid", "u"}}}}}});
    program_.Write("kubeconfig", server_.Kubeconfig());
  }

  support::FakeApiClient api_;
  support::ApiTestServer server_{
      api_,
      {objects::Namespace::Type(), PersistentVolumeClaimType(), PersistentVolumeType(), PodType(),
       SecretType(), ConfigMapType(), LeaseType(), EventType(), StorageClassType(),
       StatefulSetType(), ResourceQuotaType(), VolumeAttachmentType(), objects::Deployment::Type(),
       k8s::ResourceType{"authorization.k8s.io", "v1", "selfsubjectaccessreviews",
                         "SelfSubjectAccessReview", false}}};
  ProgramRunner program_;
};

TEST_P(UnservedTest, NamesWhatIsMissingAndTheCommandThatInstallsIt) {
  std::vector<std::string> words = absl::StrSplit(GetParam().arguments, ' ');
  words.insert(words.end(), {"--kubeconfig", program_.Path("kubeconfig")});
  const Outcome outcome = program_.Run(words);
  EXPECT_EQ(outcome.code, ExitCode::kFailed) << outcome.out;
  EXPECT_THAT(outcome.error, HasSubstr(GetParam().command));
  EXPECT_THAT(outcome.error, Not(HasSubstr("404")));
  EXPECT_THAT(outcome.error, HasSubstr("csi-delta doctor"));
}

const VerbCase kVerbs[] = {
    {"status", kMover},
    {"snapshots --pvc shop/orders", kMover},
    {"snapshots --upload nightly-1", kVelero},
    {"restore --upload nightly-1 --into shop/orders --yes", kVelero},
    {"deletions list", kMover},
    {"deletions retry one", kMover},
    {"bases list", kSnapshots},
    {"bases drop --unused", kSnapshots},
    {"adopt --from-cluster 00000000-0000-0000-0000-000000000001", kVelero},
    {"try shop", kVelero},
    {"try shop --backup latest", kVelero},
    {"snapshot list -n shop", kSnapshots},
    {"snapshot show one -n shop", kSnapshots},
    {"snapshot create orders -n shop", kSnapshots},
    {"snapshot delete one -n shop", kSnapshots},
    {"snapshot prune -n shop --keep-last 1", kSnapshots},
    {"snapshot promote one -n shop", kSnapshots},
    {"snapshot promote --set one -n shop", kSnapshots},
    {"snapshot restore one --into orders -n shop --yes", kSnapshots},
    {"snapshot restore --set one -n shop --yes", kSnapshots},
    {"snapshot import handle -n shop --driver d", kSnapshots},
    {"longhorn list", kLonghorn},
    {"longhorn prune --keep-last 1", kLonghorn},
};
INSTANTIATE_TEST_SUITE_P(Table, UnservedTest, testing::ValuesIn(kVerbs));

TEST_F(UnservedTest, DoctorIsAChecklistInTheOrderOfTheWork) {
  const std::vector<std::string> words = {"doctor", "--kubeconfig", program_.Path("kubeconfig")};
  const Outcome outcome = program_.Run(words);
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.out, testing::ContainsRegex(
                               "^fault    1. snapshot-kinds: CRD volumesnapshots.*\n"
                               "         kubectl apply -k .*\n"
                               "fault    2. velero-namespace: .*\n         velero install .*\n"
                               "fault    3. mover-namespace: .*\n         helm install .*\n"
                               "(warning|unknown)  "));
  EXPECT_THAT(outcome.out, testing::EndsWith(" good\nthen: csi-delta doctor\n"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("\x1b")));
  program_.out_is_terminal = true;
  EXPECT_THAT(program_.Run(words).out, HasSubstr("\x1b[31mfault    \x1b[0m1. snapshot-kinds"));
  program_.variables["NO_COLOR"] = "1";
  EXPECT_THAT(program_.Run(words).out, Not(HasSubstr("\x1b")));
}

TEST(NoServerTest, AnIncompleteCommandIsRefusedBeforeTheClusterIsLookedFor) {
  EXPECT_THAT(ProgramRunner().Run({"snapshot", "create", "--kubeconfig", "/none"}).error,
              HasSubstr("name the PVCs in one way"));
}

TEST(NoServerTest, AClosedPortEndsAVerbWithinSeconds) {
  const ProgramRunner program;
  program.Write("kubeconfig",
                "{apiVersion: v1, kind: Config, current-context: x, users: [],\n"
                "clusters: [{name: c, cluster: {server: \"http://127.0.0.1:1\"}}],\n"
                "contexts: [{name: x, context: {cluster: c}}]}\n");
  const absl::Time begin = absl::Now();
  const Outcome outcome = program.Run({"status", "--kubeconfig", program.Path("kubeconfig")});
  EXPECT_LT(absl::Now() - begin, absl::Seconds(8));
  EXPECT_THAT(outcome.error, HasSubstr("the API server does not answer: connect to 127.0.0.1:1"));
  EXPECT_THAT(outcome.error, HasSubstr("; check the network, and the server's address"));
}

}  // namespace
}  // namespace csidelta::cli::unserved_test
