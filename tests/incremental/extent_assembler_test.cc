#include "incremental/sources/extent_assembler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "tests/support/status_matchers.h"

namespace csidelta::incremental::extent_assembler_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kSize = 1 << 20;

ListedExtent Data(int64_t offset, int64_t length) {
  return {.extent = {offset, length}, .kind = ExtentKind::kData};
}

struct Assembly {
  explicit Assembly(int64_t size_bytes = kSize) : assembler(size_bytes, sink) {}

  absl::Status Stream(const std::vector<BlockTuple>& tuples, int64_t capacity_bytes = kSize,
                      int32_t type = kVariableLength) {
    assembler.BeginStream();
    RETURN_IF_ERROR(assembler.TakeMessage(
        {.block_metadata_type = type, .volume_capacity_bytes = capacity_bytes}));
    for (const BlockTuple& tuple : tuples) {
      RETURN_IF_ERROR(assembler.TakeTuple(tuple));
    }
    return absl::OkStatus();
  }

  std::vector<ListedExtent> listed;
  std::function<absl::Status(const ListedExtent&)> sink = [this](const ListedExtent& extent) {
    listed.push_back(extent);
    return absl::OkStatus();
  };
  ExtentAssembler assembler;
};

TEST(ExtentAssemblerTest, JoinsWhatTouchesAndHoldsOneBack) {
  Assembly assembly;
  ASSERT_THAT(assembly.Stream({{0, 4096}, {4096, 4096}, {16384, 512}}), IsOk());
  EXPECT_THAT(assembly.listed, ElementsAre(Data(0, 8192)));
  ASSERT_THAT(assembly.assembler.Finish(), IsOk());
  EXPECT_THAT(assembly.listed, ElementsAre(Data(0, 8192), Data(16384, 512)));
  EXPECT_EQ(assembly.assembler.next_offset_bytes(), 16896);
}

TEST(ExtentAssemblerTest, JoinsAcrossStreams) {
  Assembly assembly;
  ASSERT_THAT(assembly.Stream({{0, 4096}}), IsOk());
  ASSERT_THAT(assembly.Stream({{4096, 4096}}), IsOk());
  ASSERT_THAT(assembly.assembler.Finish(), IsOk());
  EXPECT_THAT(assembly.listed, ElementsAre(Data(0, 8192)));
}

TEST(ExtentAssemblerTest, CutsOffWhatCameBefore) {
  Assembly assembly;
  ASSERT_THAT(assembly.Stream({{0, 4096}, {8192, 4096}}), IsOk());
  // A server that restarts, whatever it was asked for, and a first tuple that begins early.
  ASSERT_THAT(assembly.Stream({{0, 4096}, {8192, 8192}, {32768, 1}}), IsOk());
  ASSERT_THAT(assembly.assembler.Finish(), IsOk());
  EXPECT_THAT(assembly.listed, ElementsAre(Data(0, 4096), Data(8192, 8192), Data(32768, 1)));
}

TEST(ExtentAssemblerTest, AnExtentThatEndsBehindTheDeviceIsShortened) {
  Assembly assembly(10'000);
  ASSERT_THAT(assembly.Stream({{8192, 4096}, {12288, 4096}}), IsOk());
  ASSERT_THAT(assembly.assembler.Finish(), IsOk());
  EXPECT_THAT(assembly.listed, ElementsAre(Data(8192, 1808)));
  EXPECT_EQ(assembly.assembler.next_offset_bytes(), 16384) << "the driver's own numbers";
}

TEST(ExtentAssemblerTest, TheDeviceBeyondTheCapacityIsUnknown) {
  Assembly assembly;
  ASSERT_THAT(assembly.Stream({{0, 4096}}, kSize - 4096), IsOk());
  ASSERT_THAT(assembly.assembler.Finish(), IsOk());
  EXPECT_THAT(assembly.listed,
              ElementsAre(Data(0, 4096), ListedExtent{.extent = {kSize - 4096, 4096},
                                                      .kind = ExtentKind::kUnknown}));
}

TEST(ExtentAssemblerTest, AListWithoutAMessageDoesNotSayThatThereIsNothing) {
  Assembly assembly;
  assembly.assembler.BeginStream();
  EXPECT_THAT(assembly.assembler.Finish(), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(assembly.listed, IsEmpty());
  EXPECT_FALSE(assembly.assembler.reached_capacity());
}

TEST(ExtentAssemblerTest, TheSinksErrorIsItsOwn) {
  Assembly assembly;
  assembly.sink = [](const ListedExtent&) { return absl::DataLossError("disk"); };
  EXPECT_THAT(assembly.Stream({{0, 1}, {2, 1}}), StatusIs(absl::StatusCode::kDataLoss, "disk"));
  EXPECT_TRUE(assembly.assembler.sink_failed());
}

TEST(ExtentAssemblerTest, FixedLengthsMayEndShort) {
  Assembly assembly(12388);
  ASSERT_THAT(assembly.Stream({{0, 4096}, {8192, 4096}, {12288, 100}}, 12388, kFixedLength),
              IsOk());
  ASSERT_THAT(assembly.assembler.Finish(), IsOk());
  EXPECT_THAT(assembly.listed, ElementsAre(Data(0, 4096), Data(8192, 4196)));
  EXPECT_TRUE(assembly.assembler.reached_capacity());
}

struct LieCase {
  const char* name;
  std::vector<BlockTuple> tuples;
  const char* message;
  int32_t type = kVariableLength;
  int64_t capacity_bytes = kSize;
};
class LieTest : public testing::TestWithParam<LieCase> {};

TEST_P(LieTest, IsRefusedByName) {
  Assembly assembly;
  EXPECT_THAT(assembly.Stream(GetParam().tuples, GetParam().capacity_bytes, GetParam().type),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(GetParam().message)));
  EXPECT_FALSE(assembly.assembler.sink_failed());
}

const LieCase kLieCases[] = {
    {"ZeroLength", {{0, 0}}, "empty, negative or overflows"},
    {"NegativeLength", {{4096, -4096}}, "empty, negative or overflows"},
    {"NegativeOffset", {{-1, 4096}}, "empty, negative or overflows"},
    {"Overflow", {{kMax, 1}}, "empty, negative or overflows"},
    {"OverflowByLength", {{1, kMax}}, "empty, negative or overflows"},
    {"Unordered", {{8192, 4096}, {0, 4096}}, "before the end"},
    {"Overlapping", {{0, 4096}, {4095, 4096}}, "before the end"},
    {"Repeated", {{0, 4096}, {0, 4096}}, "before the end"},
    {"BeyondCapacity", {{kSize, 4096}}, "past the end of the volume"},
    {"FixedThatVaries", {{0, 4096}, {8192, 512}}, "another length", kFixedLength},
    {"NoCapacity", {}, "0 bytes", kVariableLength, 0},
    {"NegativeCapacity", {}, "-1 bytes", kVariableLength, -1},
};
INSTANTIATE_TEST_SUITE_P(Table, LieTest, testing::ValuesIn(kLieCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(ExtentAssemblerTest, CapacityAndKindNeverChange) {
  for (const bool new_stream : {false, true}) {
    for (const BlockMessage& other :
         {BlockMessage{kVariableLength, kSize / 2}, BlockMessage{kFixedLength, kSize}}) {
      Assembly assembly;
      ASSERT_THAT(assembly.Stream({{0, 4096}}), IsOk());
      if (new_stream) {
        assembly.assembler.BeginStream();
      }
      EXPECT_THAT(assembly.assembler.TakeMessage(other),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the list changes")));
    }
  }
}

}  // namespace
}  // namespace csidelta::incremental::extent_assembler_test
