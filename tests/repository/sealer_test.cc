#include "repository/sealer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "tests/support/fake_secure_random.h"
#include "tests/support/status_matchers.h"

namespace csidelta::repository::sealer_test {
namespace {

using support::FakeSecureRandom;
using support::IsOkAndHolds;
using support::StatusIs;

// Hands out the given bytes, in order.
class GivenRandom : public SecureRandom {
 public:
  explicit GivenRandom(std::vector<uint8_t> bytes) : bytes_(std::move(bytes)) {}
  void Fill(absl::Span<uint8_t> bytes) override {
    ASSERT_LE(at_ + bytes.size(), bytes_.size());
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(at_), bytes.size(), bytes.begin());
    at_ += bytes.size();
  }

 private:
  std::vector<uint8_t> bytes_;
  std::size_t at_ = 0;
};

template <std::size_t N>
std::array<uint8_t, N> Ascending(uint8_t first) {
  std::array<uint8_t, N> bytes;
  std::iota(bytes.begin(), bytes.end(), first);
  return bytes;
}

SealKey VectorKey() {
  SealKey key;
  key.encrypt = Ascending<32>(0);
  key.mac_k = Ascending<16>(0x20);
  key.mac_r.fill(0xFF);
  return key;
}

std::string Hex(absl::string_view bytes) { return absl::BytesToHexString(bytes); }

// By Python's hmac, of what docs/repository-format.md says.
TEST(SealerTest, AKeyIsBoundToAName) {
  const SealKey bound = KeyBoundTo(VectorKey(), "aux/v1/chains");
  EXPECT_EQ(Hex(AsText(bound.encrypt)),
            "eb353c67743bdf51db3bb12506f5a8534e03e91685c4499645133aa39a64bdd4");
  EXPECT_EQ(Hex(AsText(bound.mac_k)), "d6720b6bab31f72e70836a6304a85fe6");
  EXPECT_EQ(Hex(AsText(bound.mac_r)), "bdee062f34e8989683ecafadbbac0c8f");
  FakeSecureRandom random;
  const std::string envelope = Sealer(bound, random).Seal("text");
  EXPECT_THAT(Sealer(bound, random).Open(envelope), IsOkAndHolds("text"));
  for (const SealKey& other : {VectorKey(), KeyBoundTo(VectorKey(), "aux/v1/chain")}) {
    EXPECT_THAT(Sealer(other, random).Open(envelope), StatusIs(absl::StatusCode::kDataLoss));
  }
}

TEST(SealerTest, MakesThePublishedEnvelope) {
  const auto iv = Ascending<16>(0x40);
  GivenRandom random({iv.begin(), iv.end()});
  const std::string envelope = Sealer(VectorKey(), random).Seal("hello restic v2");
  EXPECT_EQ(Hex(envelope),
            "404142434445464748494a4b4c4d4e4f"
            "cb1bb353f87ac88ae00f0ba4ad2d83"
            "aca255adb31d6d2045b8dabedb1e30f6");
  EXPECT_THAT(Sealer(VectorKey(), random).Open(envelope), IsOkAndHolds("hello restic v2"));
}

TEST(SealerTest, TheCounterWraps) {
  GivenRandom random(std::vector<uint8_t>(16, 0xFF));
  const std::string envelope = Sealer(VectorKey(), random).Seal(std::string(32, '\0'));
  EXPECT_EQ(Hex(envelope.substr(16, 32)),
            "e999e41d4ca770da5387117b5d8f57eef29000b62a499fd0a9f39a6add2e7780");
}

TEST(SealerTest, ClampedAndUnclampedKeysAreOne) {
  SealKey clamped = VectorKey();
  for (const std::size_t i : {3U, 7U, 11U, 15U}) {
    clamped.mac_r[i] &= 0x0F;
  }
  for (const std::size_t i : {4U, 8U, 12U}) {
    clamped.mac_r[i] &= 0xFC;
  }
  FakeSecureRandom random;
  const std::string envelope = Sealer(VectorKey(), random).Seal("text");
  EXPECT_THAT(Sealer(clamped, random).Open(envelope), IsOkAndHolds("text"));
}

TEST(SealerTest, AnIvOfZerosIsNeitherMadeNorTaken) {
  std::vector<uint8_t> bytes(32, 0);
  bytes[31] = 1;
  GivenRandom random(bytes);
  const std::string envelope = Sealer(VectorKey(), random).Seal("x");
  EXPECT_EQ(envelope[15], 1);

  std::string zero_iv = envelope;
  zero_iv[15] = 0;
  EXPECT_THAT(Sealer(VectorKey(), random).Open(zero_iv), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(SealerTest, EveryLengthComesBack) {
  FakeSecureRandom random;
  Sealer sealer(VectorKey(), random);
  for (const std::size_t length : {0U, 1U, 15U, 16U, 17U, 1000U, 65536U}) {
    const std::string plaintext = support::Noise(length, length);
    const std::string envelope = sealer.Seal(plaintext);
    EXPECT_EQ(envelope.size(), length + kEnvelopeBytes);
    EXPECT_THAT(sealer.Open(envelope), IsOkAndHolds(plaintext));
  }
}

TEST(SealerTest, AnyFlippedBitIsFound) {
  FakeSecureRandom random;
  Sealer sealer(VectorKey(), random);
  const std::string envelope = sealer.Seal("seventeen letters");
  for (std::size_t bit = 0; bit < envelope.size() * 8; ++bit) {
    std::string flipped = envelope;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_THAT(sealer.Open(flipped), StatusIs(absl::StatusCode::kDataLoss)) << bit;
  }
}

TEST(SealerTest, AnythingShorterIsFound) {
  FakeSecureRandom random;
  Sealer sealer(VectorKey(), random);
  const std::string envelope = sealer.Seal("seventeen letters");
  for (std::size_t length = 0; length < envelope.size(); ++length) {
    EXPECT_THAT(sealer.Open(absl::string_view(envelope).substr(0, length)),
                StatusIs(absl::StatusCode::kDataLoss));
  }
}

TEST(SealerTest, AnotherKeyDoesNotOpen) {
  FakeSecureRandom random;
  const std::string envelope = Sealer(VectorKey(), random).Seal("text");
  SealKey other = VectorKey();
  other.mac_k[0] ^= 1;
  EXPECT_THAT(Sealer(other, random).Open(envelope), StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace csidelta::repository::sealer_test
