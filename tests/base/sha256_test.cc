#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "base/crypto.h"

namespace csidelta::sha256_test {
namespace {

std::string Bytes(std::size_t count, int seed) {
  std::string bytes(count, '\0');
  uint32_t state = static_cast<uint32_t>(seed) * 2654435761U + 1;
  for (char& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

// Around the borders of blocks and of their padding.
std::vector<std::size_t> Lengths() {
  std::vector<std::size_t> lengths;
  for (std::size_t length = 0; length < 200; ++length) {
    lengths.push_back(length);
  }
  lengths.insert(lengths.end(), {1000, 4096, 65535, 100'001});
  return lengths;
}

TEST(Sha256Test, ThePublishedVectors) {
  const auto hex = [](absl::string_view text) {
    Sha256Hasher hasher;
    hasher.Update(text);
    return absl::BytesToHexString(AsBytes(hasher.Finish()));
  };
  EXPECT_EQ(hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// RFC 3720, appendix B.4, and the check value of the catalogue of CRCs.
TEST(Crc32cTest, ThePublishedVectors) {
  std::string ascending(32, '\0');
  for (std::size_t i = 0; i < ascending.size(); ++i) {
    ascending[i] = static_cast<char>(i);
  }
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  EXPECT_EQ(Crc32c(ascending), 0x46DD794Eu);
}

TEST(Crc64Test, AgreesBitByBitAtEveryLengthAndAlignment) {
  EXPECT_EQ(Crc64("123456789"), 0xAE8B14860A799888u);  // the check value of the catalogue
  const auto bit_by_bit = [](auto polynomial, absl::string_view bytes) {
    auto crc = static_cast<decltype(polynomial)>(-1);
    for (const char byte : bytes) {
      crc ^= static_cast<uint8_t>(byte);
      for (int bit = 0; bit < 8; ++bit) {
        crc = (crc >> 1) ^ (crc % 2 == 1 ? polynomial : 0);
      }
    }
    return ~crc;
  };
  const std::string text = Bytes(100, 3);
  for (std::size_t at = 0; at <= 16; ++at) {
    for (std::size_t length = 0; at + length <= text.size(); ++length) {
      const absl::string_view bytes = absl::string_view(text).substr(at, length);
      ASSERT_EQ(Crc64(bytes), bit_by_bit(uint64_t{0x9A6C9329AC4BC9B5}, bytes))
          << at << " " << length;
      ASSERT_EQ(Crc32c(bytes), bit_by_bit(uint32_t{0x82F63B78}, bytes)) << at << " " << length;
    }
  }
}

TEST(Sha256Test, TheHasherAgreesWithTheLibrary) {
  for (const std::size_t length : Lengths()) {
    const std::string bytes = Bytes(length, 1);
    for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{63},
                                    std::size_t{64}, std::size_t{65}, std::size_t{1'000'000}}) {
      if (length / piece > 3000) {
        continue;
      }
      Sha256Hasher hasher;
      for (std::size_t at = 0; at < length; at += piece) {
        hasher.Update(absl::string_view(bytes).substr(at, piece));
      }
      ASSERT_EQ(hasher.Finish(), Sha256(bytes)) << length << " in pieces of " << piece;
    }
  }
}

TEST(Sha256Test, FinishStartsOver) {
  Sha256Hasher hasher;
  hasher.Update("something");
  hasher.Finish();
  hasher.Update("abc");
  EXPECT_EQ(hasher.Finish(), Sha256("abc"));
}

TEST(Sha256Test, TwoAtATimeAgreeWithTheLibrary) {
  for (const std::size_t first : Lengths()) {
    for (const std::size_t second : {std::size_t{0}, std::size_t{1}, std::size_t{63},
                                     std::size_t{64}, std::size_t{129}, std::size_t{5000}}) {
      const std::string a = Bytes(first, 1);
      const std::string b = Bytes(second, 2);
      const auto digests = Sha256OfTwo(a, b);
      ASSERT_EQ(digests.first, Sha256(a)) << first << " " << second;
      ASSERT_EQ(digests.second, Sha256(b)) << first << " " << second;
    }
  }
}

TEST(Sha256Test, BesideAStreamInAnyState) {
  for (std::size_t begun = 0; begun < 130; begun += 3) {
    for (const std::size_t length :
         {std::size_t{0}, std::size_t{10}, std::size_t{64}, std::size_t{200}, std::size_t{3000}}) {
      const std::string a = Bytes(length, 1);
      const std::string b = Bytes(1000, 2);
      Sha256Hasher hasher;
      hasher.Update(Bytes(begun, 3));
      ASSERT_EQ(hasher.UpdateBeside(a, b), Sha256(b));
      hasher.Update("end");
      ASSERT_EQ(hasher.Finish(), Sha256(Bytes(begun, 3) + a + "end")) << begun << " " << length;
    }
  }
}

}  // namespace
}  // namespace csidelta::sha256_test
