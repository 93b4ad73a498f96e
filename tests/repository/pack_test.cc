#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "repository/byte_buffer.h"
#include "repository/pack_reader.h"
#include "repository/pack_writer.h"
#include "repository/repository.h"
#include "tests/repository/verify_pack.h"
#include "tests/support/fake_object_store.h"
#include "tests/support/fake_secure_random.h"
#include "tests/support/status_matchers.h"

namespace csidelta::repository::pack_test {
namespace {

using support::FakeSecureRandom;
using support::IsOk;
using support::IsOkAndHolds;
using support::Noise;
using support::Prose;
using support::StatusIs;

class PackTest : public testing::Test {
 protected:
  absl::Status Add(PackBuilder& builder, const BlobId& id, absl::string_view text) {
    ASSIGN_OR_RETURN(const BlobCodec::Compressed blob,
                     codec_.Compress({.type = builder.type(), .id = id}, text));
    return builder.Add(blob, codec_);
  }

  Pack MakePack(BlobType type, const std::vector<std::string>& blobs) {
    PackBuilder builder(type, codec_);
    for (const std::string& blob : blobs) {
      EXPECT_THAT(Add(builder, Id::Of(blob), blob), IsOk());
    }
    const int64_t bytes = builder.bytes();
    absl::StatusOr<Pack> pack = builder.Finish();
    EXPECT_THAT(pack, IsOk());
    EXPECT_EQ(static_cast<int64_t>(pack->bytes.size()), bytes);
    return *std::move(pack);
  }

  absl::StatusOr<std::vector<PackEntry>> Verify(const PackId& id, absl::string_view bytes) {
    damaged_.clear();
    return VerifyPack(id, bytes, codec_, [this](const PackEntry& entry, const absl::Status&) {
      damaged_.push_back(entry.handle.id);
    });
  }

  absl::StatusOr<std::vector<PackEntry>> ReadHeader(const std::string& bytes) {
    store_.SetObject(PackKey(Id()), bytes);
    return ReadPackHeader(ctx_, store_, Id(), static_cast<int64_t>(bytes.size()), codec_.sealer());
  }

  // A pack with any header.
  std::string WithHeader(absl::string_view blobs, absl::string_view header) {
    std::string bytes(blobs);
    const std::string sealed = codec_.sealer().Seal(header);
    bytes += sealed;
    AppendLe32(bytes, static_cast<uint32_t>(sealed.size()));
    return bytes;
  }

  FakeSecureRandom random_;
  const SealKey key_ = MakeMasterKey(random_);
  BlobCodec codec_{key_, 1, random_};
  support::FakeObjectStore store_;
  CallContext ctx_;
  std::vector<BlobId> damaged_;
};

TEST_F(PackTest, ComesBack) {
  for (const BlobType type : {BlobType::kData, BlobType::kTree}) {
    const std::vector<std::string> blobs = {"x", Prose(100'000, 1), Noise(70'000, 2), Prose(50, 3)};
    const Pack pack = MakePack(type, blobs);
    EXPECT_EQ(pack.id, Id::Of(pack.bytes.view()));
    EXPECT_EQ(PackBytes(pack.entries), static_cast<int64_t>(pack.bytes.size()));
    EXPECT_THAT(Verify(pack.id, pack.bytes.view()), IsOkAndHolds(pack.entries));
    EXPECT_THAT(ReadHeader(std::string(pack.bytes.view())), IsOkAndHolds(pack.entries));
    for (std::size_t i = 0; i < blobs.size(); ++i) {
      const PackEntry& entry = pack.entries[i];
      EXPECT_THAT(
          codec_.Decode(entry.handle, entry.span,
                        pack.bytes.view().substr(entry.span.offset_bytes, entry.span.sealed_bytes)),
          IsOkAndHolds(blobs[i]));
      EXPECT_EQ(entry.span.plaintext_bytes(), blobs[i].size());
    }
  }
}

TEST_F(PackTest, TreesAreAlwaysCompressedAndDataWhereItShrinks) {
  const Pack data = MakePack(BlobType::kData, {"x", Noise(1000, 1), Prose(1000, 1)});
  EXPECT_FALSE(data.entries[0].span.compressed());
  EXPECT_FALSE(data.entries[1].span.compressed());
  EXPECT_TRUE(data.entries[2].span.compressed());
  const Pack trees = MakePack(BlobType::kTree, {"x", Noise(1000, 1), Prose(1000, 1)});
  for (const PackEntry& entry : trees.entries) {
    EXPECT_TRUE(entry.span.compressed());
  }
}

TEST_F(PackTest, AHeaderThatIsLongerThanTheFirstRequestTakesTwo) {
  std::vector<std::string> blobs;
  for (int i = 0; i < 300; ++i) {
    blobs.push_back(Noise(40, static_cast<uint64_t>(i)));
  }
  const Pack pack = MakePack(BlobType::kData, blobs);
  EXPECT_THAT(ReadHeader(std::string(pack.bytes.view())), IsOkAndHolds(pack.entries));
  EXPECT_EQ(store_.call_count(), 2);
}

TEST_F(PackTest, AnIdThatIsNotTheContentsIsRefused) {
  PackBuilder builder(BlobType::kData, codec_);
  ASSERT_THAT(Add(builder, Id::Of("one"), "one"), IsOk());
  const int64_t bytes = builder.bytes();
  EXPECT_THAT(Add(builder, Id::Of("two"), "2"), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(Add(builder, Id::Of(""), ""), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(builder.bytes(), bytes);
  const absl::StatusOr<Pack> pack = builder.Finish();
  ASSERT_THAT(pack, IsOk());
  EXPECT_THAT(Verify(pack->id, pack->bytes.view()), IsOk());
}

TEST_F(PackTest, BuildersThatJoinMakeOnePack) {
  BlobCodec other_codec(key_, 1, random_);
  PackBuilder first(BlobType::kData, codec_);
  PackBuilder second(BlobType::kData, other_codec);
  ASSERT_THAT(Add(first, Id::Of("one"), "one"), IsOk());
  ASSERT_THAT(Add(second, Id::Of("two"), "two"), IsOk());
  second.Append(first);
  EXPECT_TRUE(first.empty()) << "and starts over";
  ASSERT_THAT(Add(first, Id::Of("three"), "three"), IsOk());
  for (PackBuilder* builder : {&first, &second}) {
    const std::size_t blobs = builder->entries().size();
    const absl::StatusOr<Pack> pack = builder->Finish();
    ASSERT_THAT(pack, IsOk());
    EXPECT_EQ(pack->entries.size(), blobs);
    EXPECT_THAT(Verify(pack->id, pack->bytes.view()), IsOkAndHolds(pack->entries));
  }
}

TEST_F(PackTest, AnyFlippedByteIsFound) {
  const Pack pack = MakePack(BlobType::kData, {"one", Prose(200, 1), Noise(60, 1)});
  for (std::size_t i = 0; i < pack.bytes.size(); ++i) {
    std::string bytes(pack.bytes.view());
    bytes[i] = static_cast<char>(bytes[i] ^ 0x10);
    EXPECT_THAT(Verify(pack.id, bytes), StatusIs(absl::StatusCode::kDataLoss)) << i;
  }
}

TEST_F(PackTest, ADamagedBlobIsNamedAndTheOthersAreTried) {
  const Pack pack = MakePack(BlobType::kData, {"one", "two", "three"});
  std::string bytes(pack.bytes.view());
  bytes[pack.entries[1].span.offset_bytes + 17] ^= 1;
  EXPECT_FALSE(Verify(pack.id, bytes).ok());
  EXPECT_THAT(damaged_, testing::ElementsAre(Id::Of("two")));
}

TEST_F(PackTest, AnythingShorterIsFound) {
  const Pack pack = MakePack(BlobType::kData, {"one", "two"});
  for (std::size_t length = 0; length < pack.bytes.size(); ++length) {
    const std::string bytes(pack.bytes.view().substr(0, length));
    EXPECT_THAT(Verify(pack.id, bytes), StatusIs(absl::StatusCode::kDataLoss)) << length;
    EXPECT_THAT(ReadHeader(bytes), StatusIs(absl::StatusCode::kDataLoss)) << length;
  }
}

TEST_F(PackTest, HostileHeadersAreRefused) {
  const Pack pack = MakePack(BlobType::kData, {"one", Prose(300, 1)});
  const absl::string_view blobs = pack.bytes.view().substr(
      0, pack.entries[1].span.offset_bytes + pack.entries[1].span.sealed_bytes);
  const std::string header = EncodePackHeader(pack.entries);
  ASSERT_THAT(ReadHeader(WithHeader(blobs, header)), IsOk());
  const auto is_damage = StatusIs(absl::StatusCode::kDataLoss);
  std::string wrong_type = header;
  wrong_type[0] = 4;
  std::string long_blob = header;
  long_blob[4] = static_cast<char>(0xFF);
  std::string short_blob = header;
  short_blob[1] = 31;
  std::string no_plaintext = header;
  no_plaintext.replace(37 + 5, 4, std::string(4, '\0'));
  EXPECT_THAT(ReadHeader(WithHeader(blobs, wrong_type)), is_damage);
  EXPECT_THAT(ReadHeader(WithHeader(blobs, long_blob)), is_damage);
  EXPECT_THAT(ReadHeader(WithHeader(blobs, short_blob)), is_damage);
  EXPECT_THAT(ReadHeader(WithHeader(blobs, no_plaintext)), is_damage);
  EXPECT_THAT(ReadHeader(WithHeader(blobs, "")), is_damage);
  EXPECT_THAT(ReadHeader(WithHeader(blobs, header.substr(0, 37))), is_damage);  // A gap.
  EXPECT_THAT(ReadHeader(WithHeader(blobs, header + header)), is_damage);
  EXPECT_THAT(ReadHeader(WithHeader(blobs, header + "x")), is_damage);
  for (const uint32_t length : {0U, 31U, 0x01000001U, 0xFFFFFFFFU}) {
    std::string bytes = WithHeader(blobs, header);
    bytes.resize(bytes.size() - 4);
    AppendLe32(bytes, length);
    EXPECT_THAT(ReadHeader(bytes), is_damage) << length;
  }
}

TEST_F(PackTest, ALyingPlaintextLengthIsFoundWhenTheBlobIsRead) {
  const std::string text = Prose(300, 1);
  const Pack pack = MakePack(BlobType::kData, {text});
  for (const uint32_t length : {1U, 299U, 301U, 1U << 20}) {
    BlobSpan span = pack.entries[0].span;
    span.uncompressed_bytes = length;
    EXPECT_THAT(
        codec_.Decode(pack.entries[0].handle, span, pack.bytes.view().substr(0, span.sealed_bytes)),
        StatusIs(absl::StatusCode::kDataLoss));
  }
}

}  // namespace
}  // namespace csidelta::repository::pack_test
