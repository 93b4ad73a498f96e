#include "repository/blob_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/status_macros.h"
#include "repository/format.h"
#include "repository/key.h"
#include "tests/support/fake_secure_random.h"
#include "tests/support/status_matchers.h"

namespace csidelta::repository::blob_codec_test {
namespace {

using support::FakeSecureRandom;
using support::IsOk;
using support::Noise;
using support::Prose;
using support::StatusIs;

class BlobCodecTest : public testing::Test {
 protected:
  absl::StatusOr<BlobSpan> AppendSealed(BlobCodec& codec, const BlobHandle& handle,
                                        absl::string_view text, ByteBuffer& out) {
    ASSIGN_OR_RETURN(const BlobCodec::Compressed blob, codec.Compress(handle, text));
    return codec.AppendSealed(blob, out, hasher_);
  }

  FakeSecureRandom random_;
  const SealKey key_ = MakeMasterKey(random_);
  BlobCodec codec_{key_, kDataCompressionLevel, random_};
  Sha256Hasher hasher_;
};

TEST_F(BlobCodecTest, BlobsComeBackIntoTheCallersBuffer) {
  for (const std::string& blob : {std::string("x"), Prose(524288, 1), Noise(524288, 2)}) {
    const BlobHandle handle = {.type = BlobType::kData, .id = Id::Of(blob)};
    ByteBuffer sealed;
    const absl::StatusOr<BlobSpan> span = AppendSealed(codec_, handle, blob, sealed);
    ASSERT_THAT(span, IsOk());
    std::string out(blob.size(), '\0');
    const absl::Span<uint8_t> bytes(reinterpret_cast<uint8_t*>(out.data()), out.size());
    ASSERT_THAT(codec_.DecodeInto(handle, *span, sealed.view(), bytes), IsOk());
    EXPECT_EQ(out, blob);
    EXPECT_THAT(codec_.DecodeInto(handle, *span, sealed.view(), bytes.subspan(1)),
                StatusIs(absl::StatusCode::kDataLoss));
  }
}

TEST_F(BlobCodecTest, TwoBlobsAreProvenEachForItself) {
  const std::string texts[] = {Prose(524288, 1), Noise(70'000, 2)};
  const Id right[] = {Id::Of(texts[0]), Id::Of(texts[1])};
  for (const bool first_good : {true, false}) {
    for (const bool second_good : {true, false}) {
      const bool good[] = {first_good, second_good};
      std::string outs[] = {std::string(texts[0].size(), '\0'), std::string(texts[1].size(), '\0')};
      ByteBuffer envelopes[2];
      BlobCodec::Sealed sealed[2];
      for (int i = 0; i < 2; ++i) {
        const BlobHandle handle = {.type = BlobType::kData, .id = right[i]};
        const auto span = AppendSealed(codec_, handle, texts[i], envelopes[i]);
        ASSERT_THAT(span, IsOk());
        sealed[i] = {.handle = {BlobType::kData, good[i] ? right[i] : right[1 - i]},
                     .span = *span,
                     .envelope = envelopes[i].view(),
                     .out = {reinterpret_cast<uint8_t*>(outs[i].data()), outs[i].size()}};
      }
      const auto [of_first, of_second] = codec_.DecodeTwo(sealed[0], sealed[1]);
      EXPECT_EQ(of_first.ok(), first_good);
      EXPECT_EQ(of_second.ok(), second_good);
      EXPECT_EQ(outs[0], texts[0]);
      EXPECT_EQ(outs[1], texts[1]);
      sealed[0].envelope = sealed[0].envelope.substr(1);
      EXPECT_THAT(codec_.DecodeTwo(sealed[0], sealed[1]).first,
                  StatusIs(absl::StatusCode::kDataLoss));
    }
  }
}

TEST_F(BlobCodecTest, LevelNoneCompressesTreesOnly) {
  BlobCodec codec(key_, kNoCompression, random_);
  const std::string blob = Prose(10'000, 1);
  ByteBuffer sealed;
  const auto data = AppendSealed(codec, {BlobType::kData, Id::Of(blob)}, blob, sealed);
  const auto tree = AppendSealed(codec, {BlobType::kTree, Id::Of(blob)}, blob, sealed);
  ASSERT_THAT(data, IsOk());
  ASSERT_THAT(tree, IsOk());
  EXPECT_FALSE(data->compressed());
  EXPECT_TRUE(tree->compressed());
  EXPECT_EQ(tree->offset_bytes, data->sealed_bytes);
}

TEST_F(BlobCodecTest, AnotherContentIsDamage) {
  const std::string blob = Prose(10'000, 1);
  ByteBuffer sealed;
  const BlobHandle handle = {.type = BlobType::kData, .id = Id::Of(blob)};
  const absl::StatusOr<BlobSpan> span = AppendSealed(codec_, handle, blob, sealed);
  ASSERT_THAT(span, IsOk());
  EXPECT_THAT(codec_.Decode({BlobType::kData, Id::Of("other")}, *span, sealed.view()),
              StatusIs(absl::StatusCode::kDataLoss, testing::HasSubstr("hash")));
  EXPECT_THAT(codec_.Decode(handle, *span, sealed.view().substr(1)),
              StatusIs(absl::StatusCode::kDataLoss));
  BlobSpan bomb = *span;
  bomb.uncompressed_bytes = 0xFFFFFFFF;
  EXPECT_THAT(codec_.Decode(handle, bomb, sealed.view()), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(BlobCodecTest, ABlobBeyondTheLimitIsRefused) {
  ByteBuffer sealed;
  const std::string blob(static_cast<std::size_t>(kDataBlobBytesMax) + 1, 'x');
  EXPECT_THAT(AppendSealed(codec_, {BlobType::kData, Id::Of(blob)}, blob, sealed),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(sealed.size(), 0U);
}

}  // namespace
}  // namespace csidelta::repository::blob_codec_test
