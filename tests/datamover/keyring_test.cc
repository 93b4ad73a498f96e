#include "datamover/keyring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "objects/core.h"
#include "objects/data_transfer.h"
#include "objects/keys.h"
#include "objects/protected_volume.h"
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
  absl::StatusOr<repository::Keyring> Open(bool make) {
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
  EXPECT_EQ(made->newest().fingerprint,
            repository::KeyFingerprint(made->newest().password.Reveal()));
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
  const repository::RepositoryKey others = repository::MakeRepositoryKey(random_);
  api_.SetInterceptor([&](const support::ApiCall& call, const Json* /*body*/) {
    if (call.verb == "create") {
      api_.Seed(KeyringSecretKey(kMover, owner_).type,
                {{"metadata",
                  {{"name", KeyringSecretName(owner_)},
                   {"namespace", kMover},
                   {"annotations",
                    {{objects::kMoverVeleroNamespaceLabel, "velero"},
                     {objects::kMoverLocationAnnotation, "default"},
                     {objects::kNewestKeyAnnotation, others.fingerprint}}}}},
                 {"data", {{others.fingerprint, absl::Base64Escape(others.password.Reveal())}}}});
    }
    return absl::OkStatus();
  });
  const auto keyring = Open(/*make=*/true);
  ASSERT_THAT(keyring, IsOk());
  EXPECT_EQ(keyring->keys, std::vector<repository::RepositoryKey>{others});
}

TEST_F(KeyringTest, ANewerKeyComesFirstAndTheOlderStays) {
  const auto made = Open(/*make=*/true);
  const repository::RepositoryKey newer = repository::MakeRepositoryKey(random_);
  ASSERT_THAT(ImportKeys(CallContext(), api_, kMover, owner_, {.keys = {newer}}, /*newest=*/true),
              IsOk());
  const auto now = Open(/*make=*/false);
  ASSERT_THAT(now, IsOk());
  EXPECT_THAT(now->keys, ElementsAre(newer, made->newest()));
  EXPECT_TRUE(now->newest_confirmed());
}

TEST_F(KeyringTest, AnOldKeyIsBroughtWithoutTakingOver) {
  const auto made = Open(/*make=*/true);
  const repository::RepositoryKey older = repository::MakeRepositoryKey(random_);
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

// Data may be encrypted with it: nothing is written as if it had never been, until it is back.
TEST_F(KeyringTest, AKeyThatWentIsMissedByItsFingerprintAndCanBeBroughtBack) {
  const auto made = Open(/*make=*/true);
  const repository::RepositoryKey lost = made->newest();
  const repository::RepositoryKey newer = repository::MakeRepositoryKey(random_);
  ASSERT_THAT(ConfirmKeys(CallContext(), api_, kMover, owner_, {lost.fingerprint}), IsOk());
  ASSERT_THAT(ImportKeys(CallContext(), api_, kMover, owner_, {.keys = {newer}}, /*newest=*/true),
              IsOk());
  Damage([&](Json& secret) { secret["data"].erase(lost.fingerprint); });
  EXPECT_THAT(Open(/*make=*/true),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(absl::StrCat("key ", lost.fingerprint, " is missing")),
                             HasSubstr("Secret mover/csi-delta-keys-velero.default"))));
  EXPECT_THAT(ImportKeys(CallContext(), api_, kMover, owner_, {.keys = {lost}}, /*newest=*/false),
              IsOk());
  EXPECT_THAT(Open(/*make=*/true)->keys, ElementsAre(newer, lost));
}

TEST_F(KeyringTest, ANewestKeyThatIsNotThereIsMissed) {
  ASSERT_THAT(Open(/*make=*/true), IsOk());
  Damage([](Json& secret) { secret["data"] = Json::object(); });
  EXPECT_THAT(Open(/*make=*/true),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is missing")));
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

TEST_F(KeyringTest, AForeignSecretIsLeftAlone) {
  ASSERT_THAT(Open(/*make=*/true), IsOk());
  Damage([](Json& secret) {
    secret["metadata"]["annotations"][objects::kMoverLocationAnnotation] = "other";
  });
  EXPECT_THAT(Open(/*make=*/true), StatusIs(absl::StatusCode::kFailedPrecondition,
                                            HasSubstr("\"velero/other\", not velero/default")));
}

// --- A Secret that something else made

class BroughtKeyTest : public KeyringTest {
 protected:
  void Bring(const std::string& text, const Json& more = Json::object()) {
    Json secret = {{"metadata", {{"name", KeyringSecretName(owner_)}, {"namespace", kMover}}},
                   {"data", {{"key", absl::Base64Escape(text)}}}};
    secret["data"].update(more);
    api_.Seed(KeyringSecretKey(kMover, owner_).type, secret);
  }
};

TEST_F(BroughtKeyTest, OneKeyInTheFieldKeyIsUsedAtTheFirstUploadAndCountsAsConfirmed) {
  const repository::RepositoryKey key = repository::MakeRepositoryKey(random_);
  for (const char* end : {"", "\n"}) {
    Bring(absl::StrCat(key.password.Reveal(), end));
    api_.ClearCalls();
    const auto keyring = Open(/*make=*/true);
    ASSERT_THAT(keyring, IsOk());
    EXPECT_THAT(keyring->keys, ElementsAre(key));
    EXPECT_TRUE(keyring->newest_confirmed());
    EXPECT_EQ(api_.calls().size(), 1U) << "it is read, and nothing else";
  }
}

TEST_F(BroughtKeyTest, OfSeveralLinesTheFirstIsTheNewest) {
  const repository::RepositoryKey one = repository::MakeRepositoryKey(random_);
  const repository::RepositoryKey two = repository::MakeRepositoryKey(random_);
  for (const std::vector<repository::RepositoryKey>& keys :
       {std::vector<repository::RepositoryKey>{one, two},
        std::vector<repository::RepositoryKey>{two, one}}) {
    Bring(repository::FormatKeyringFile({.keys = keys}));
    const auto keyring = Open(/*make=*/true);
    ASSERT_THAT(keyring, IsOk());
    EXPECT_EQ(keyring->keys, keys);
  }
}

TEST_F(BroughtKeyTest, WhatItHoldsInsteadIsRefusedBySecretFieldAndForm) {
  const std::string name = "Secret mover/csi-delta-keys-velero.default";
  const auto refused = [&](const char* what) {
    EXPECT_THAT(Open(/*make=*/true),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr(name), HasSubstr(what), Not(HasSubstr("hunter2")))));
  };
  Bring("hunter2");
  refused("its field key must hold one key, of at least 16 printable characters without blanks");
  Bring("a text with hunter2 and blanks in it");
  refused("lines as mover-key export prints them: line 1");
  Json other = Json::object();
  other["other"] = absl::Base64Escape("hunter2");
  Bring(std::string(repository::MakeRepositoryKey(random_).password.Reveal()), other);
  refused("in addition to the field key it holds others");
  Damage([](Json& secret) { secret["data"].erase("key"); });
  refused("it has no field key");
}

TEST_F(BroughtKeyTest, IsNotWrittenToSinceItsSourceWouldReplaceIt) {
  const repository::RepositoryKey key = repository::MakeRepositoryKey(random_);
  Bring(std::string(key.password.Reveal()));
  const auto before = api_.Find(KeyringSecretKey(kMover, owner_));
  EXPECT_THAT(ConfirmKeys(CallContext(), api_, kMover, owner_, {key.fingerprint}), IsOk());
  EXPECT_THAT(RecordExportedKeys(CallContext(), api_, kMover, owner_, {key.fingerprint}), IsOk());
  EXPECT_THAT(ImportKeys(CallContext(), api_, kMover, owner_,
                         {.keys = {repository::MakeRepositoryKey(random_)}}, /*newest=*/true),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("its keys are in the field key, which the tool that made the "
                                 "Secret keeps; change them there")));
  EXPECT_THAT(RemoveKey(CallContext(), api_, kMover, owner_, key.fingerprint),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("change them there")));
  EXPECT_EQ(api_.Find(KeyringSecretKey(kMover, owner_)), before);
}

// --- A Secret that is lost

class LostKeyringTest : public KeyringTest {
 protected:
  static constexpr char kKey[] = "0123456789abcdef";

  void AddUpload(const std::string& location, const std::string& key,
                 const std::string& data_mover = "csi-delta") {
    api_.Seed(objects::DataUpload::Type(),
              {{"metadata",
                {{"name", absl::StrCat("u-", location)},
                 {"namespace", "velero"},
                 {"annotations", {{objects::kMoverKeyAnnotation, key}}}}},
               {"spec", {{"datamover", data_mover}, {"backupStorageLocation", location}}}});
  }
  void AddVolume(const std::string& location, const std::string& snapshot_id) {
    Json volume = {{"metadata", {{"name", "v"}, {"namespace", "velero"}}},
                   {"spec", {{"backupStorageLocation", location}}}};
    if (!snapshot_id.empty()) {
      volume["status"]["lastGoodBackup"]["snapshotID"] = snapshot_id;
    }
    api_.Seed(objects::ProtectedVolume::Type(), volume);
  }
  void ExpectNoneIsMade(const std::string& source) {
    EXPECT_THAT(Open(/*make=*/true),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("Secret mover/csi-delta-keys-velero.default: it is not "
                                         "there, but "),
                               HasSubstr(source), HasSubstr("mover-key import"))));
    EXPECT_THAT(api_.All(objects::Secret::Type()), testing::IsEmpty());
  }
};

TEST_F(LostKeyringTest, IsNotReplacedWhereADataUploadNamesAKey) {
  AddUpload("default", kKey);
  ExpectNoneIsMade("DataUpload velero/u-default was encrypted with key 0123456789abcdef");
}

// Two uploads are the first of a location.
TEST_F(LostKeyringTest, IsNotLostIfAnotherUploadMadeItMeanwhile) {
  std::string others;
  bool is_begun = false;
  api_.SetInterceptor([&](const support::ApiCall& call, const Json* /*body*/) {
    if (call.verb == "list" && !std::exchange(is_begun, true)) {
      const auto made = Open(/*make=*/true);
      EXPECT_THAT(made, IsOk());
      others = made->newest().fingerprint;
      AddUpload("default", others);
    }
    return absl::OkStatus();
  });
  const auto keyring = Open(/*make=*/true);
  ASSERT_THAT(keyring, IsOk());
  EXPECT_EQ(keyring->newest().fingerprint, others);
}

TEST_F(LostKeyringTest, IsNotReplacedWhereARecordHasAGoodBackup) {
  AddVolume("default", absl::StrCat("csi-delta/1/c0000000-0000-4000-8000-000000000000/shop/"
                                    "c1a10000-0000-4000-8000-000000000000/",
                                    std::string(64, 'a'), "/", kKey));
  ExpectNoneIsMade("ProtectedVolume velero/v was encrypted with key 0123456789abcdef");
}

TEST_F(LostKeyringTest, OtherLocationsMoversAndVolumesWithoutBackupSayNothing) {
  AddUpload("other", kKey);
  AddUpload("default", kKey, "velero");
  AddVolume("default", "");
  EXPECT_THAT(Open(/*make=*/true), IsOk());
}

TEST_F(LostKeyringTest, WithoutAnAnswerNoneIsMade) {
  api_.Forbid("list", "datauploads");
  EXPECT_THAT(Open(/*make=*/true), StatusIs(absl::StatusCode::kPermissionDenied, testing::_));
  EXPECT_THAT(api_.All(objects::Secret::Type()), testing::IsEmpty());
}

TEST_F(LostKeyringTest, WithoutTheKindOfRecordsTheFirstKeyIsMade) {
  api_.RemoveType(objects::ProtectedVolume::kKind.plural);
  EXPECT_THAT(Open(/*make=*/true), IsOk());
}

// With the copy, or with a new key where none exists.
TEST_F(LostKeyringTest, AnImportEndsIt) {
  AddUpload("default", kKey);
  const repository::RepositoryKey key = repository::MakeRepositoryKey(random_);
  ASSERT_THAT(ImportKeys(CallContext(), api_, kMover, owner_, {.keys = {key}}, /*newest=*/false),
              IsOk());
  EXPECT_THAT(Open(/*make=*/true)->keys, ElementsAre(key));
}

// --- One key for several clusters

TEST_F(KeyringTest, AnImportBeforeTheFirstUploadMakesTheRing) {
  const repository::RepositoryKey key = repository::MakeRepositoryKey(random_);
  support::FakeApiClient other_cluster;
  for (support::FakeApiClient* cluster : {&api_, &other_cluster}) {
    ASSERT_THAT(
        ImportKeys(CallContext(), *cluster, kMover, owner_, {.keys = {key}}, /*newest=*/false),
        IsOk());
    const auto keyring =
        OpenKeyring(CallContext(), *cluster, kMover, owner_, /*make=*/true, random_);
    ASSERT_THAT(keyring, IsOk());
    EXPECT_THAT(keyring->keys, ElementsAre(key));
    EXPECT_TRUE(keyring->newest_confirmed());
  }
}

// --- The end of a key rotation

TEST_F(KeyringTest, AKeyThatIsRemovedIsNotMissed) {
  const auto made = Open(/*make=*/true);
  const std::string old = made->newest().fingerprint;
  ASSERT_THAT(RecordExportedKeys(CallContext(), api_, kMover, owner_, {old}), IsOk());
  ASSERT_THAT(ConfirmKeys(CallContext(), api_, kMover, owner_, {old}), IsOk());
  EXPECT_THAT(RemoveKey(CallContext(), api_, kMover, owner_, old),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is the newest")));
  const repository::RepositoryKey newer = repository::MakeRepositoryKey(random_);
  ASSERT_THAT(ImportKeys(CallContext(), api_, kMover, owner_, {.keys = {newer}}, /*newest=*/true),
              IsOk());
  EXPECT_THAT(RemoveKey(CallContext(), api_, kMover, owner_, old), IsOk());
  const auto left = Open(/*make=*/true);
  ASSERT_THAT(left, IsOk());
  EXPECT_THAT(left->keys, ElementsAre(newer));
  EXPECT_THAT(left->exported, testing::IsEmpty());
  EXPECT_THAT(RemoveKey(CallContext(), api_, kMover, owner_, old),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("has no key")));
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
  const repository::Keyring keyring = {
      .keys = {repository::MakeRepositoryKey(random), repository::MakeRepositoryKey(random)},
      .confirmed = {}};
  const auto read = repository::ParseKeyringFile(repository::FormatKeyringFile(keyring));
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->keys, keyring.keys);
}

TEST(KeyringFile, HoldsSoManyKeysAndNoMore) {
  support::FakeSecureRandom random;
  repository::Keyring keyring;
  for (std::size_t i = 0; i < repository::kKeysMax; ++i) {
    keyring.keys.push_back(repository::MakeRepositoryKey(random));
  }
  const auto full = repository::ParseKeyringFile(repository::FormatKeyringFile(keyring));
  ASSERT_THAT(full, IsOk());
  EXPECT_EQ(full->keys.size(), repository::kKeysMax);
  keyring.keys.push_back(repository::MakeRepositoryKey(random));
  EXPECT_THAT(repository::ParseKeyringFile(repository::FormatKeyringFile(keyring)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("more than 64 keys")));
}

TEST(KeyringFile, WhatIsWrongIsToldByLineAndNeverByText) {
  support::FakeSecureRandom random;
  const repository::RepositoryKey key = repository::MakeRepositoryKey(random);
  const std::string line = absl::StrCat(key.fingerprint, " ", key.password.Reveal(), "\n");
  const auto refused = [&](const std::string& text, const char* words) {
    EXPECT_THAT(repository::ParseKeyringFile(text),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(words), Not(HasSubstr(key.password.Reveal())))));
  };
  refused("", "there is no key");
  refused(absl::StrCat(line, key.password.Reveal(), "\n"), "line 2 is not");
  refused(absl::StrCat("0123456789abcdef ", key.password.Reveal(), "\n"), "line 1: the password");
  EXPECT_THAT(repository::ParseKeyringFile(absl::StrCat("# of velero/default\n\n", line)), IsOk());
}

}  // namespace
}  // namespace csidelta::datamover::keyring_test
