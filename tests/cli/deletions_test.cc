// csi-delta deletions: an operator sees what data stays, and requests a deletion again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "k8s/object.h"
#include "objects/data_deletion.h"
#include "objects/keys.h"
#include "tests/cli/program_runner.h"
#include "tests/support/api_test_server.h"
#include "tests/support/fake_api_client.h"

namespace csidelta::cli::deletions_test {
namespace {

using objects::DataDeletion;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class DeletionsTest : public testing::Test {
 protected:
  DeletionsTest() : api_server_(api_, {DataDeletion::Type()}) {
    program_.Write("kubeconfig", api_server_.Kubeconfig());
    for (const char* phase : {"", "Waiting", "Failed", "Completed"}) {
      api_.Seed(
          DataDeletion::Type(),
          {{"metadata", {{"name", NameOf(phase)}, {"namespace", "velero"}}},
           {"spec", {{"backupStorageLocation", "default"}, {"snapshotID", "x"}, {"backup", "b"}}},
           {"status", {{"phase", phase}, {"message", absl::StrCat("why ", phase)}}}});
    }
  }

  static std::string NameOf(const std::string& phase) {
    return phase.empty() ? "d-new"
                         : absl::StrCat("d-", phase == "Failed"    ? "failed"
                                              : phase == "Waiting" ? "waiting"
                                                                   : "done");
  }
  Outcome Run(std::vector<std::string> words) const {
    words.insert(words.begin(), "deletions");
    words.insert(words.end(), {"--kubeconfig", program_.Path("kubeconfig")});
    return program_.Run(words);
  }
  bool IsRetried(const std::string& name) const {
    const auto object = api_.Find({DataDeletion::Type(), "velero", name});
    return object.has_value() && !k8s::Annotation(*object, objects::kRetryAnnotation).empty();
  }

  ProgramRunner program_;
  support::FakeApiClient api_;
  support::ApiTestServer api_server_;
};

TEST_F(DeletionsTest, UnfinishedDeletionsAreListedWithTheirReason) {
  const Outcome listed = Run({"list"});
  ASSERT_EQ(listed.code, ExitCode::kOk) << listed.error;
  EXPECT_THAT(listed.out, AllOf(HasSubstr("d-new"), HasSubstr("New"), HasSubstr("why Failed"),
                                Not(HasSubstr("d-done"))));
  EXPECT_THAT(Run({"list", "--all"}).out, HasSubstr("d-done"));
  const Json json = ParseJson(Run({"list", "--json"}).out).value_or(Json());
  ASSERT_EQ(json.size(), 3U);
}

TEST_F(DeletionsTest, ADeletionIsRetriedByItsName) {
  const Outcome retried = Run({"retry", "d-failed"});
  ASSERT_EQ(retried.code, ExitCode::kOk) << retried.error;
  EXPECT_TRUE(IsRetried("d-failed"));
  EXPECT_FALSE(IsRetried("d-waiting"));
  EXPECT_EQ(Run({"retry", "d-nothing"}).code, ExitCode::kFailed);
}

TEST_F(DeletionsTest, AllThatFailedOrWaitAreRetried) {
  ASSERT_EQ(Run({"retry", "--all"}).code, ExitCode::kOk);
  EXPECT_TRUE(IsRetried("d-failed"));
  EXPECT_TRUE(IsRetried("d-waiting"));
  EXPECT_FALSE(IsRetried("d-new"));
  EXPECT_FALSE(IsRetried("d-done"));
  EXPECT_EQ(Run({"retry"}).code, ExitCode::kFailed) << "of nothing";
}

TEST_F(DeletionsTest, ANamespaceThatIsNotVelerosIsRefused) {
  EXPECT_THAT(Run({"retry", "--all", "-n", "velero-two"}).error,
              HasSubstr("name it with --velero-namespace"));
  EXPECT_EQ(Run({"list", "-n", "velero-two"}).code, ExitCode::kFailed);
  EXPECT_FALSE(IsRetried("d-failed"));
}

}  // namespace
}  // namespace csidelta::cli::deletions_test
