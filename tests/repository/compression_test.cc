#include "repository/compression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "repository/sealer.h"
#include "tests/support/fake_secure_random.h"
#include "tests/support/status_matchers.h"

namespace csidelta::repository::compression_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using support::Noise;
using support::Prose;
using support::StatusIs;

absl::Status Exactly(Decompressor& decompressor, absl::string_view frame, std::string& out) {
  return decompressor.DecompressExactly(AsBytes(frame),
                                        {reinterpret_cast<uint8_t*>(out.data()), out.size()});
}

TEST(CompressionTest, CompressibleBytesComeBack) {
  Decompressor decompressor;
  for (const int level : {1, 3, 9}) {
    Compressor compressor(level);
    for (const std::size_t length : {100U, 4096U, 524288U}) {
      const std::string text = Prose(length, 1);
      const std::string frame(AsText(compressor.Shrink(AsBytes(text))));
      ASSERT_FALSE(frame.empty());
      EXPECT_LT(frame.size(), text.size());
      std::string out(length, '\0');
      ASSERT_THAT(Exactly(decompressor, frame, out), IsOk());
      EXPECT_EQ(out, text);
    }
  }
}

TEST(CompressionTest, IncompressibleBytesHaveNoFrame) {
  Compressor compressor(1);
  for (const std::string& bytes : {std::string(), std::string("a"), std::string("abcdefgh"),
                                   Noise(100, 1), Noise(524288, 2)}) {
    EXPECT_TRUE(compressor.Shrink(AsBytes(bytes)).empty()) << bytes.size();
  }
  EXPECT_FALSE(compressor.Shrink(AsBytes(Prose(1000, 1))).empty());  // It still works.
}

TEST(CompressionTest, FramesOfUnknownLength) {
  Compressor compressor(3);
  Decompressor decompressor;
  const std::string text = Prose(1'000'000, 1);
  const std::string frame = compressor.Compress(text);
  EXPECT_THAT(decompressor.Decompress(frame, 1'000'000), IsOkAndHolds(text));
  EXPECT_THAT(decompressor.Decompress(compressor.Compress(""), 0), IsOkAndHolds(""));
  EXPECT_THAT(decompressor.Decompress(compressor.Compress("ab") + compressor.Compress("cd"), 100),
              IsOkAndHolds("abcd"));
}

TEST(CompressionTest, ABombIsStopped) {
  const std::string bomb = Compressor(19).Compress(std::string(std::size_t{64} << 20, '\0'));
  EXPECT_LT(bomb.size(), 16384U);
  EXPECT_THAT(Decompressor().Decompress(bomb, 1 << 20),
              StatusIs(absl::StatusCode::kResourceExhausted));
  std::string out(1 << 20, '\0');
  Decompressor decompressor;
  EXPECT_THAT(Exactly(decompressor, bomb, out), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(CompressionTest, AnotherLengthIsDamage) {
  const std::string frame = Compressor(1).Compress(Prose(1000, 1));
  Decompressor decompressor;
  for (const std::size_t length : {0U, 999U, 1001U, 100000U}) {
    std::string out(length, '\0');
    EXPECT_THAT(Exactly(decompressor, frame, out), StatusIs(absl::StatusCode::kDataLoss)) << length;
  }
}

TEST(CompressionTest, BrokenFramesAreDamage) {
  const std::string frame = Compressor(1).Compress(Prose(1000, 1));
  Decompressor decompressor;
  for (std::size_t length = 0; length < frame.size(); ++length) {
    std::string out(1000, '\0');
    EXPECT_FALSE(Exactly(decompressor, frame.substr(0, length), out).ok()) << length;
    if (length > 0) {
      EXPECT_THAT(decompressor.Decompress(frame.substr(0, length), 1 << 20),
                  StatusIs(absl::StatusCode::kDataLoss))
          << length;
    }
  }
  EXPECT_THAT(decompressor.Decompress("", 100), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(decompressor.Decompress("no frame", 100), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(decompressor.Decompress(frame, 1000), IsOk());  // It still works.
}

}  // namespace
}  // namespace csidelta::repository::compression_test
