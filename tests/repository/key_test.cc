#include "repository/key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_replace.h"
#include "tests/support/fake_secure_random.h"
#include "tests/support/status_matchers.h"

namespace csidelta::repository::key_test {
namespace {

using support::FakeSecureRandom;
using support::IsOk;
using support::StatusIs;

TEST(KeyTest, ScryptMatchesThePublishedVector) {
  std::vector<uint8_t> salt(64);
  std::iota(salt.begin(), salt.end(), uint8_t{0});
  std::array<uint8_t, 64> derived;
  ASSERT_THAT(DeriveScrypt("correct horse", salt, kScryptWritten, kScryptMemoryBytesMax,
                           absl::MakeSpan(derived)),
              IsOk());
  EXPECT_EQ(absl::BytesToHexString(AsText(derived)),
            "4f620ec2a06c82a2137dab96719170cd8813254f6a6005f11189b84ec42ccafb"
            "f7198738340ce1c9e84577e3a86a0cd4dfe49f55d43a86b5ed9a37e2e262ae4a");
}

class KeyFileTest : public testing::Test {
 protected:
  FakeSecureRandom random_;
  const SealKey master_ = MakeMasterKey(random_);
  const KeyFile file_ =
      *WrapMasterKey(master_, "secret", {"me", "here"}, absl::FromUnixSeconds(1'700'000'000),
                     kScryptWritten, random_);
  const std::string text_ = EncodeKeyFile(file_);
};

TEST_F(KeyFileTest, ComesBack) {
  const absl::StatusOr<KeyFile> read = DecodeKeyFile(text_);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->hostname, "here");
  EXPECT_EQ(read->username, "me");
  EXPECT_EQ(read->created, absl::FromUnixSeconds(1'700'000'000));
  const absl::StatusOr<SealKey> master = UnwrapMasterKey(*read, "secret", random_);
  ASSERT_THAT(master, IsOk());
  EXPECT_EQ(master->encrypt, master_.encrypt);
  EXPECT_EQ(master->mac_k, master_.mac_k);
  EXPECT_EQ(master->mac_r, master_.mac_r);
}

TEST_F(KeyFileTest, AnotherPasswordDoesNotOpen) {
  for (const char* password : {"", "Secret", "secret "}) {
    EXPECT_THAT(UnwrapMasterKey(file_, password, random_),
                StatusIs(absl::StatusCode::kUnauthenticated));
  }
}

TEST_F(KeyFileTest, HasTheFieldsInResticsOrder) {
  EXPECT_THAT(text_,
              testing::StartsWith("{\"created\":\"2023-11-14T22:13:20Z\",\"username\":\"me\","
                                  "\"hostname\":\"here\",\"kdf\":\"scrypt\",\"N\":32768,"
                                  "\"r\":8,\"p\":1,\"salt\":\""));
}

TEST_F(KeyFileTest, RefusesWhatIsMalformed) {
  const std::string salt = absl::Base64Escape(file_.salt);
  const std::vector<std::pair<std::string, std::string>> replacements = {
      {"\"scrypt\"", "\"argon2\""},
      {"\"N\":32768", "\"N\":0"},
      {"\"N\":32768", "\"N\":1"},
      {"\"N\":32768", "\"N\":32767"},
      {"\"N\":32768", "\"N\":-32768"},
      {"\"N\":32768", "\"N\":4611686018427387904"},
      {"\"N\":32768", "\"N\":18446744073709551615"},
      {"\"N\":32768", "\"N\":\"32768\""},
      {"\"r\":8", "\"r\":0"},
      {"\"r\":8", "\"r\":4294967295"},
      {"\"p\":1,", "\"p\":0,"},
      {"\"p\":1,", "\"p\":1000000000,"},
      {salt, salt.substr(4)},
      {salt, "***"},
      {"\"data\":\"", "\"data\":\"*"},
      {"{", "["},
  };
  for (const auto& [from, to] : replacements) {
    const std::string text = absl::StrReplaceAll(text_, {{from, to}});
    ASSERT_NE(text, text_) << from;
    EXPECT_THAT(DecodeKeyFile(text), StatusIs(absl::StatusCode::kInvalidArgument)) << to;
  }
}

TEST_F(KeyFileTest, ASealedThingThatIsNoKeyIsRefused) {
  for (const char* content : {"", "null", "{}",
                              "{\"mac\":{\"k\":\"AA==\",\"r\":\"AA==\"},"
                              "\"encrypt\":\"AA==\"}"}) {
    KeyFile file = file_;
    std::array<uint8_t, 64> derived;
    ASSERT_THAT(DeriveScrypt("secret", AsBytes(file.salt), file.scrypt, kScryptMemoryBytesMax,
                             absl::MakeSpan(derived)),
                IsOk());
    SealKey key;
    std::copy_n(derived.begin(), 32, key.encrypt.begin());
    std::copy_n(derived.begin() + 32, 16, key.mac_k.begin());
    std::copy_n(derived.begin() + 48, 16, key.mac_r.begin());
    file.data = Sealer(key, random_).Seal(content);
    EXPECT_THAT(UnwrapMasterKey(file, "secret", random_),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << content;
  }
}

}  // namespace
}  // namespace csidelta::repository::key_test
