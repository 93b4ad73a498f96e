// csi-delta mover-key: an operator takes the keys of a location elsewhere, and brings them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "datamover/keyring.h"
#include "tests/cli/program_runner.h"
#include "tests/support/api_test_server.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_secure_random.h"
#include "tests/support/kind_names.h"
#include "tests/support/status_matchers.h"

namespace csidelta::cli::mover_key_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class MoverKeyTest : public testing::Test {
 protected:
  MoverKeyTest() : api_server_(api_, {SecretType()}) {
    program_.Write("kubeconfig", api_server_.Kubeconfig());
  }

  std::string Path(const std::string& name) const { return program_.Path(name); }

  Outcome Run(const std::string& verb, const std::string& location,
              const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"mover-key",         verb,         "--kubeconfig",
                                      Path("kubeconfig"),  "--location", location,
                                      "--mover-namespace", "mover"};
    words.insert(words.end(), more.begin(), more.end());
    return program_.Run(words);
  }

  // The ring of a location as the mover sees it.
  absl::StatusOr<repository::Keyring> Ring(const std::string& location, bool make = false) {
    return datamover::OpenKeyring(CallContext(), api_, "mover",
                                  {.velero_namespace = "velero", .location = location}, make,
                                  random_);
  }

  ProgramRunner program_;
  support::FakeSecureRandom random_;
  support::FakeApiClient api_;
  support::ApiTestServer api_server_;
};

TEST_F(MoverKeyTest, ImportAcceptsTheExport) {
  const auto made = Ring("default", /*make=*/true);
  ASSERT_THAT(made, support::IsOk());
  const Outcome exported = Run("export", "default", {});
  ASSERT_EQ(exported.code, ExitCode::kOk) << exported.error;
  EXPECT_THAT(exported.error,
              AllOf(HasSubstr("--confirm"), Not(HasSubstr(made->newest().password.Reveal()))));
  program_.Write("keys", exported.out);
  const Outcome imported = Run("import", "elsewhere", {Path("keys")});
  ASSERT_EQ(imported.code, ExitCode::kOk) << imported.error;
  EXPECT_THAT(imported.out, AllOf(HasSubstr(made->newest().fingerprint),
                                  Not(HasSubstr(made->newest().password.Reveal()))));
  const auto there = Ring("elsewhere");
  ASSERT_THAT(there, support::IsOk());
  EXPECT_EQ(there->keys, made->keys);
  EXPECT_TRUE(there->newest_confirmed()) << "who brings it has it";
}

TEST_F(MoverKeyTest, AKeyIsConfirmedByWhoSaysSoAndNotByExporting) {
  ASSERT_THAT(Ring("default", /*make=*/true), support::IsOk());
  ASSERT_EQ(Run("export", "default", {}).code, ExitCode::kOk);
  EXPECT_FALSE(Ring("default")->newest_confirmed());
  const Outcome confirmed = Run("export", "default", {"--confirm"});
  ASSERT_EQ(confirmed.code, ExitCode::kOk) << confirmed.error;
  EXPECT_THAT(confirmed.out, Not(HasSubstr(Ring("default")->newest().password.Reveal())));
  EXPECT_TRUE(Ring("default")->newest_confirmed());
}

TEST_F(MoverKeyTest, ConfirmingMeansWhatWasExportedAndNoLaterKey) {
  ASSERT_THAT(Ring("default", /*make=*/true), support::IsOk());
  const Outcome too_early = Run("export", "default", {"--confirm"});
  EXPECT_EQ(too_early.code, ExitCode::kFailed);
  EXPECT_THAT(too_early.error, HasSubstr("no key of this location was exported"));
  EXPECT_FALSE(Ring("default")->newest_confirmed());
  ASSERT_EQ(Run("export", "default", {}).code, ExitCode::kOk);
  const repository::RepositoryKey later = repository::MakeRepositoryKey(random_);
  ASSERT_TRUE(api_.Mutate(
      datamover::KeyringSecretKey("mover", {.velero_namespace = "velero", .location = "default"}),
      [&](Json& secret) {
        secret["data"][later.fingerprint] = absl::Base64Escape(later.password.Reveal());
      }));
  const Outcome confirmed = Run("export", "default", {"--confirm"});
  ASSERT_EQ(confirmed.code, ExitCode::kOk) << confirmed.error;
  EXPECT_THAT(confirmed.error, AllOf(HasSubstr("not confirmed, since it was not exported: "),
                                     HasSubstr(later.fingerprint)));
  EXPECT_TRUE(Ring("default")->newest_confirmed());
  EXPECT_FALSE(Ring("default")->confirmed.contains(later.fingerprint));
}

TEST_F(MoverKeyTest, ExportWithoutTheRightToWritePrintsKeysAndAWarning) {
  const auto made = Ring("default", /*make=*/true);
  api_.Forbid("update", "secrets");
  const Outcome exported = Run("export", "default", {});
  ASSERT_EQ(exported.code, ExitCode::kOk) << exported.error;
  EXPECT_THAT(exported.out, HasSubstr(made->newest().fingerprint));
  EXPECT_THAT(exported.error, HasSubstr("could not be noted"));
}

TEST_F(MoverKeyTest, AnOldKeyIsRemovedOnceAnotherIsTheNewest) {
  const auto made = Ring("default", /*make=*/true);
  const std::string old = made->newest().fingerprint;
  EXPECT_EQ(Run("remove", "default", {old}).code, ExitCode::kFailed);
  const repository::RepositoryKey newer = repository::MakeRepositoryKey(random_);
  program_.Write("keys", repository::FormatKeyringFile({.keys = {newer}}));
  ASSERT_EQ(Run("import", "default", {Path("keys"), "--newest"}).code, ExitCode::kOk);
  const Outcome removed = Run("remove", "default", {old});
  ASSERT_EQ(removed.code, ExitCode::kOk) << removed.error;
  EXPECT_THAT(Ring("default")->keys, ElementsAre(newer));
}

TEST_F(MoverKeyTest, ANewKeyTakesOverOnlyWhenAsked) {
  const auto made = Ring("default", /*make=*/true);
  const repository::RepositoryKey newer = repository::MakeRepositoryKey(random_);
  program_.Write("keys", repository::FormatKeyringFile({.keys = {newer}}));
  ASSERT_EQ(Run("import", "default", {Path("keys")}).code, ExitCode::kOk);
  EXPECT_EQ(Ring("default")->newest(), made->newest());
  ASSERT_EQ(Run("import", "default", {Path("keys"), "--newest"}).code, ExitCode::kOk);
  EXPECT_THAT(Ring("default")->keys, ElementsAre(newer, made->newest()));
}

TEST_F(MoverKeyTest, AnInvalidKeyIsNeitherImportedNorShown) {
  program_.Write("keys", "hunter2 hunter2\n");
  const Outcome outcome = Run("import", "default", {Path("keys")});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("line 1"), Not(HasSubstr("hunter2"))));
  EXPECT_THAT(api_.All(SecretType()), IsEmpty());
}

TEST_F(MoverKeyTest, ExportMakesNoKeys) {
  const Outcome outcome = Run("export", "default", {});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error, HasSubstr("no keys for location velero/default"));
  EXPECT_THAT(api_.All(SecretType()), IsEmpty());
  EXPECT_EQ(Run("export", "", {}).code, ExitCode::kFailed);
}

}  // namespace
}  // namespace csidelta::cli::mover_key_test
