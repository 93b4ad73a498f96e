#include "incremental/sources/block_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "snapshot_metadata.pb.h"
#include "tests/support/status_matchers.h"

namespace csidelta::incremental::block_metadata_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

absl::StatusOr<std::vector<BlockTuple>> Tuples(const std::string& wire) {
  std::vector<BlockTuple> tuples;
  RETURN_IF_ERROR(DecodeBlockTuples(wire, [&](const BlockTuple& tuple) {
    tuples.push_back(tuple);
    return absl::OkStatus();
  }));
  return tuples;
}

snapshotmetadata::GetMetadataDeltaResponse Response(const std::vector<BlockTuple>& tuples) {
  snapshotmetadata::GetMetadataDeltaResponse response;
  response.set_block_metadata_type(snapshotmetadata::VARIABLE_LENGTH);
  response.set_volume_capacity_bytes(int64_t{64} << 40);
  for (const BlockTuple& tuple : tuples) {
    auto* added = response.add_block_metadata();
    added->set_byte_offset(tuple.offset_bytes);
    added->set_size_bytes(tuple.size_bytes);
  }
  return response;
}

TEST(BlockMetadataTest, ReadsWhatProtobufWrites) {
  const std::vector<BlockTuple> tuples = {{0, 4096},    {4096, 1},  {int64_t{1} << 45, 300},
                                          {kMax, kMax}, {-1, kMin}, {0, 0}};
  const std::string wire = Response(tuples).SerializeAsString();
  EXPECT_THAT(DecodeBlockMessage(wire),
              IsOkAndHolds(BlockMessage{.block_metadata_type = kVariableLength,
                                        .volume_capacity_bytes = int64_t{64} << 40}));
  EXPECT_THAT(Tuples(wire), IsOkAndHolds(tuples));
}

TEST(BlockMetadataTest, AnEmptyMessageSaysNothing) {
  EXPECT_THAT(DecodeBlockMessage(""), IsOkAndHolds(BlockMessage{}));
  EXPECT_THAT(Tuples(""), IsOkAndHolds(IsEmpty()));
}

TEST(BlockMetadataTest, UnknownFieldsArePassedOver) {
  std::string wire = Response({{8192, 4096}}).SerializeAsString();
  wire += std::string(
      "\x25"
      "abcd",
      5);  // field 4, 32 bits
  wire += std::string(
      "\x29"
      "abcdefgh",
      9);  // field 5, 64 bits
  wire += std::string(
      "\x32\x03"
      "abc",
      5);                              // field 6, bytes
  wire += std::string("\x38\x01", 2);  // field 7, a number
  wire += std::string("\x18\x05", 2);  // field 3, but a number
  EXPECT_THAT(Tuples(wire), IsOkAndHolds(ElementsAre(BlockTuple{8192, 4096})));
  EXPECT_THAT(DecodeBlockMessage(wire), IsOk());
}

TEST(BlockMetadataTest, TheOrderOfFieldsIsFree) {
  const std::string whole = Response({{8192, 4096}}).SerializeAsString();
  const std::string tuples = Response({{8192, 4096}}).SerializeAsString().substr(whole.size() - 8);
  snapshotmetadata::GetMetadataDeltaResponse parsed;
  ASSERT_TRUE(parsed.ParseFromString(tuples + whole));
  EXPECT_THAT(
      Tuples(tuples + whole),
      IsOkAndHolds(testing::SizeIs(static_cast<std::size_t>(parsed.block_metadata_size()))));
}

TEST(BlockMetadataTest, EveryCutIsReadOrRefusedAndNeverReadBeyond) {
  const std::string wire =
      Response({{int64_t{1} << 40, 4096}, {int64_t{1} << 41, 1}}).SerializeAsString();
  for (std::size_t cut = 0; cut < wire.size(); ++cut) {
    const std::string part = wire.substr(0, cut);
    snapshotmetadata::GetMetadataDeltaResponse parsed;
    EXPECT_EQ(parsed.ParseFromString(part), Tuples(part).ok()) << cut;
    EXPECT_EQ(parsed.ParseFromString(part), DecodeBlockMessage(part).ok()) << cut;
  }
}

struct BadCase {
  const char* name;
  std::string wire;
};
class BadMessageTest : public testing::TestWithParam<BadCase> {};

TEST_P(BadMessageTest, IsRefusedByPlace) {
  EXPECT_THAT(Tuples(GetParam().wire),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("malformed at byte 0")));
}

const BadCase kBadCases[] = {
    {"EndlessNumber", std::string(11, '\xff')},
    {"FieldZero", std::string("\x00\x01", 2)},
    {"Group", std::string("\x0b\x0c", 2)},
    {"UnknownWireType", std::string("\x0e", 1)},
    {"LengthBeyondTheEnd", std::string("\x1a\x7f\x08", 3)},
    {"HugeLength", std::string("\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11)},
    {"LongTag", std::string("\x88\x80\x80\x80\x80\x00\x01", 7)},
    {"LongLength", std::string("\x1a\x80\x80\x80\x80\x80\x00", 7)},
    {"TupleThatEndsEarly", std::string("\x1a\x01\x08", 3)},
    {"CutFixed", std::string("\x29"
                             "abc",
                             4)},
};
INSTANTIATE_TEST_SUITE_P(Table, BadMessageTest, testing::ValuesIn(kBadCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(BlockMetadataTest, TheReceiverEndsTheReading) {
  int seen = 0;
  EXPECT_THAT(DecodeBlockTuples(Response({{0, 1}, {2, 1}}).SerializeAsString(),
                                [&](const BlockTuple&) {
                                  ++seen;
                                  return absl::DataLossError("enough");
                                }),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_EQ(seen, 1);
}

}  // namespace
}  // namespace csidelta::incremental::block_metadata_test
