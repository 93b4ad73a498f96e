#include "repository/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <string>

#include "tests/support/fake_secure_random.h"
#include "tests/support/status_matchers.h"

namespace csidelta::repository::repository_config_test {
namespace {

using support::FakeSecureRandom;
using support::IsOk;
using support::StatusIs;

constexpr char kId[] = "07854d2fef297a06ba81685e660c332de36d5d18d546927d30daad6d7fda1541";

TEST(ConfigTest, MadeConfigsComeBack) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    FakeSecureRandom random(seed);
    const Config config = MakeConfig(random);
    EXPECT_EQ(config.version, 2);
    EXPECT_EQ(std::bit_width(config.chunker_polynomial), 54);
    const absl::StatusOr<Config> read = DecodeConfig(EncodeConfig(config));
    ASSERT_THAT(read, IsOk());
    EXPECT_EQ(read->id, config.id);
    EXPECT_EQ(read->chunker_polynomial, config.chunker_polynomial);
  }
}

TEST(ConfigTest, KnowsIrreduciblePolynomials) {
  EXPECT_TRUE(IsIrreducible(0x3DA3358B4DC173));  // The one that restic's own tests use.
  EXPECT_FALSE(IsIrreducible(0));
  EXPECT_FALSE(IsIrreducible(3));                 // Of another degree.
  EXPECT_FALSE(IsIrreducible(0x3DA3358B4DC172));  // Divisible by x.
  EXPECT_FALSE(IsIrreducible(0x20000000000001));  // Divisible by x + 1.
  EXPECT_FALSE(IsIrreducible(0x3DA3358B4DC175));
}

TEST(ConfigTest, RefusesWhatIsMalformed) {
  const std::string id = std::string("\"id\":\"") + kId + "\"";
  const std::string polynomial = "\"chunker_polynomial\":\"3da3358b4dc173\"";
  EXPECT_THAT(DecodeConfig("{\"version\":2," + id + "," + polynomial + "}"), IsOk());
  EXPECT_THAT(DecodeConfig("{\"version\":1," + id + "," + polynomial + "}"), IsOk());
  EXPECT_THAT(DecodeConfig("{\"version\":3," + id + "," + polynomial + "}"),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(DecodeConfig("{" + id + "," + polynomial + "}"),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  for (const std::string& text :
       {"{\"version\":2," + polynomial + "}", "{\"version\":2," + id + "}",
        "{\"version\":2,\"id\":\"07\"," + polynomial + "}",
        "{\"version\":2," + id + ",\"chunker_polynomial\":\"zz\"}",
        "{\"version\":2," + id + ",\"chunker_polynomial\":\"3da3358b4dc172\"}",
        "{\"version\":2," + id + ",\"chunker_polynomial\":3}", std::string("[]"), std::string()}) {
    EXPECT_THAT(DecodeConfig(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

}  // namespace
}  // namespace csidelta::repository::repository_config_test
