#include "datamover/keyring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "objects/keys.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_secure_random.h"
#include "tests/support/status_matchers.h"

namespace csidelta::datamover::keyring_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr char kMover[] = "mover";

class KeyringTest : public testing::Test {
 protected:
  absl::StatusOr<Keyring> Open(bool make) {
    return OpenKeyring(CallContext(), api_, kMover, owner_, make, random_);
  }
  void Damage(const std::function<void(Json&)>& change) {
    ASSERT_TRUE(api_.Mutate(KeyringSecretKey(kMover, owner_), change));
  }

  support::FakeApiClient api_;
  support::FakeSecureRandom random_;
  const KeyringOwner owner_ = {.velero_namespace = "velero", .location = "default"};
};

TEST_F(KeyringTest, IsMadeAtTheFirstUseAndThenKept) {
  const auto made = Open(/*make=*/true);
  ASSERT_THAT(made, IsOk());
  ASSERT_EQ(made->keys.size(), 1U);
  std::string bytes;
  ASSERT_TRUE(absl::Base64Unescape(made->newest().password.Reveal(), &bytes));
  EXPECT_EQ(bytes.size(), 32U);
  EXPECT_EQ(made->newest().fingerprint, KeyFingerprint(made->newest().password.Reveal()));
  EXPECT_FALSE(made->newest_confirmed());
  const auto again = Open(/*make=*/true);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->keys, made->keys);
}

TEST_F(KeyringTest, ReadingMakesNoneAndSaysHowToBringThem) {
  EXPECT_THAT(Open(/*make=*/false),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("velero/default"), HasSubstr("mover-key import"))));
  EXPECT_EQ(api_.object_count(), 0);
}

TEST_F(KeyringTest, OfTwoThatMakeItOneWins) {
  const RepositoryKey theirs = MakeRepositoryKey(random_);
  api_.SetInterceptor([&](const support::ApiCall& call, const Json* /*body*/) {
    if (call.verb == "create") {
      api_.Seed(KeyringSecretKey(kMover, owner_).type,
                {{"metadata",
                  {{"name", KeyringSecretName(owner_)},
                   {"namespace", kMover},
                   {"annotations",
                    {{objects::kMoverVeleroNamespaceLabel, "velero"},
                     {objects::kMoverLocationAnnotation, "default"},
                     {objects::kNewestKeyAnnotation, theirs.fingerprint}}}}},
                 {"data", {{theirs.fingerprint, absl::Base64Escape(theirs.password.Reveal())}}}});
    }
    return absl::OkStatus();
  });
  const auto keyring = Open(/*make=*/true);
  ASSERT_THAT(keyring, IsOk());
  EXPECT_EQ(keyring->keys, std::vector<RepositoryKey>{theirs});
}

TEST_F(KeyringTest, ANewerKeyComesFirstAndTheOlderStays) {
  const auto made = Open(/*make=*/true);
  const RepositoryKey newer = MakeRepositoryKey(random_);
  ASSERT_THAT(ImportKeys(CallContext(), api_, kMover, owner_, {.keys = {newer}}, /*newest=*/true),
              IsOk());
  const auto now = Open(/*make=*/false);
  ASSERT_THAT(now, IsOk());
  EXPECT_THAT(now->keys, ElementsAre(newer, made->newest()));
  EXPECT_TRUE(now->newest_confirmed());
}

TEST_F(KeyringTest, AnOldKeyIsBroughtWithoutTakingOver) {
  const auto made = Open(/*make=*/true);
  const RepositoryKey older = MakeRepositoryKey(random_);
  ASSERT_THAT(ImportKeys(CallContext(), api_, kMover, owner_, {.keys = {older}}, /*newest=*/false),
              IsOk());
  EXPECT_THAT(Open(/*make=*/false)->keys, ElementsAre(made->newest(), older));
  EXPECT_FALSE(Open(/*make=*/false)->newest_confirmed());
}

TEST_F(KeyringTest, ConfirmingNeedsTheKey) {
  const auto made = Open(/*make=*/true);
  EXPECT_THAT(ConfirmKeys(CallContext(), api_, kMover, owner_, {"0123456789abcdef"}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no key 0123456789abcdef")));
  EXPECT_THAT(ConfirmKeys(CallContext(), api_, kMover, owner_, {made->newest().fingerprint}),
              IsOk());
  EXPECT_TRUE(Open(/*make=*/false)->newest_confirmed());
}

// Data may be sealed with it: nothing is written as if it had never been, until it is back.
TEST_F(KeyringTest, AKeyThatWentIsMissedByItsFingerprintAndCanBeBroughtBack) {
  const auto made = Open(/*make=*/true);
  const RepositoryKey lost = made->newest();
  const RepositoryKey newer = MakeRepositoryKey(random_);
  ASSERT_THAT(ConfirmKeys(CallContext(), api_, kMover, owner_, {lost.fingerprint}), IsOk());
  ASSERT_THAT(ImportKeys(CallContext(), api_, kMover, owner_, {.keys = {newer}}, /*newest=*/true),
              IsOk());
  Damage([&](Json& secret) { secret["data"].erase(lost.fingerprint); });
  EXPECT_THAT(Open(/*make=*/true),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(absl::StrCat("key ", lost.fingerprint, " is not there")),
                             HasSubstr("Secret mover/csi-delta-keys-velero.default"))));
  EXPECT_THAT(ImportKeys(CallContext(), api_, kMover, owner_, {.keys = {lost}}, /*newest=*/false),
              IsOk());
  EXPECT_THAT(Open(/*make=*/true)->keys, ElementsAre(newer, lost));
}

TEST_F(KeyringTest, ANewestKeyThatIsNotThereIsMissed) {
  ASSERT_THAT(Open(/*make=*/true), IsOk());
  Damage([](Json& secret) { secret["data"] = Json::object(); });
  EXPECT_THAT(Open(/*make=*/true),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is not there")));
}

TEST_F(KeyringTest, AKeyUnderAnothersNameIsRefused) {
  const auto made = Open(/*make=*/true);
  Damage([&](Json& secret) {
    secret["data"][made->newest().fingerprint] = absl::Base64Escape("another-long-password");
  });
  EXPECT_THAT(Open(/*make=*/true), StatusIs(absl::StatusCode::kFailedPrecondition,
                                            AllOf(HasSubstr(made->newest().fingerprint),
                                                  Not(HasSubstr("another-long-password")))));
}

TEST_F(KeyringTest, SomebodyElsesSecretIsLeftAlone) {
  ASSERT_THAT(Open(/*make=*/true), IsOk());
  Damage([](Json& secret) {
    secret["metadata"]["annotations"][objects::kMoverLocationAnnotation] = "other";
  });
  EXPECT_THAT(Open(/*make=*/true), StatusIs(absl::StatusCode::kFailedPrecondition,
                                            HasSubstr("\"velero/other\", not velero/default")));
}

TEST(KeyringName, NoTwoOwnersShareOne) {
  EXPECT_NE(KeyringSecretName({.velero_namespace = "a-b", .location = "c"}),
            KeyringSecretName({.velero_namespace = "a", .location = "b-c"}));
  const std::string longest(253, 'l');
  const std::string name = KeyringSecretName({.velero_namespace = "velero", .location = longest});
  EXPECT_LE(name.size(), 253U);
  EXPECT_NE(name, KeyringSecretName({.velero_namespace = "velero",
                                     .location = absl::StrCat(longest.substr(1), "m")}));
}

TEST(KeyringFile, SurvivesItsText) {
  support::FakeSecureRandom random;
  const Keyring keyring = {.keys = {MakeRepositoryKey(random), MakeRepositoryKey(random)},
                           .confirmed = {}};
  const auto read = ParseKeyringFile(FormatKeyringFile(keyring));
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->keys, keyring.keys);
}

TEST(KeyringFile, HoldsSoManyKeysAndNoMore) {
  support::FakeSecureRandom random;
  Keyring keyring;
  for (std::size_t i = 0; i < kKeysMax; ++i) {
    keyring.keys.push_back(MakeRepositoryKey(random));
  }
  const auto full = ParseKeyringFile(FormatKeyringFile(keyring));
  ASSERT_THAT(full, IsOk());
  EXPECT_EQ(full->keys.size(), kKeysMax);
  keyring.keys.push_back(MakeRepositoryKey(random));
  EXPECT_THAT(ParseKeyringFile(FormatKeyringFile(keyring)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("more than 64 keys")));
}

TEST(KeyringFile, WhatIsWrongIsToldByLineAndNeverByText) {
  support::FakeSecureRandom random;
  const RepositoryKey key = MakeRepositoryKey(random);
  const std::string line = absl::StrCat(key.fingerprint, " ", key.password.Reveal(), "\n");
  const auto refused = [&](const std::string& text, const char* words) {
    EXPECT_THAT(ParseKeyringFile(text),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(words), Not(HasSubstr(key.password.Reveal())))));
  };
  refused("", "there is no key");
  refused(absl::StrCat(line, key.password.Reveal(), "\n"), "line 2 is not");
  refused(absl::StrCat("0123456789abcdef ", key.password.Reveal(), "\n"), "line 1: the password");
  EXPECT_THAT(ParseKeyringFile(absl::StrCat("# of velero/default\n\n", line)), IsOk());
}

}  // namespace
}  // namespace csidelta::datamover::keyring_test
