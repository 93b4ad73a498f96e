// The streams of the service SnapshotMetadata, true and untrue.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "base/extent.h"
#include "tests/csi_driver/driver_fixture.h"

namespace csidelta::csi_driver::snapshot_metadata_test {
namespace {

namespace pb = ::csi::v1;
using testing::ElementsAre;

constexpr absl::Duration kLong = absl::Seconds(30);
constexpr int64_t kBlock = 4096;
constexpr int64_t kCapacity = int64_t{4} << 20;

// What a stream delivered until it ended.
struct Delivered {
  std::vector<pb::GetMetadataDeltaResponse> messages;
  grpc::Status status;

  std::vector<Extent> Extents() const {
    std::vector<Extent> extents;
    for (const auto& message : messages) {
      for (const pb::BlockMetadata& block : message.block_metadata()) {
        extents.push_back({block.byte_offset(), block.size_bytes()});
      }
    }
    return extents;
  }
};

class SnapshotMetadataTest : public DriverFixture {
 protected:
  // A base, and a target with blocks 1, 3, 5 and 7 changed.
  void SetUp() override {
    DriverFixture::SetUp();
    VolumeSpec spec;
    spec.name = "v";
    spec.size.required_bytes = kCapacity;
    const std::string volume = store_->CreateVolume(spec)->id;
    WriteTo(volume, 0, "old");
    base_ = store_->CreateSnapshot("base", volume)->id;
    for (const int64_t block : {1, 3, 5, 7}) {
      WriteTo(volume, block * kBlock, "new");
    }
    target_ = store_->CreateSnapshot("target", volume)->id;
  }

  pb::GetMetadataDeltaRequest DeltaRequest(int32_t max_results = 0,
                                           int64_t starting_offset = 0) const {
    pb::GetMetadataDeltaRequest request;
    request.set_base_snapshot_id(base_);
    request.set_target_snapshot_id(target_);
    request.set_max_results(max_results);
    request.set_starting_offset(starting_offset);
    return request;
  }

  Delivered Delta(int32_t max_results = 0, int64_t starting_offset = 0) {
    grpc::ClientContext context;
    const auto reader =
        metadata_->GetMetadataDelta(&context, DeltaRequest(max_results, starting_offset));
    Delivered delivered;
    pb::GetMetadataDeltaResponse message;
    while (reader->Read(&message)) {
      delivered.messages.push_back(message);
    }
    delivered.status = reader->Finish();
    return delivered;
  }

  std::vector<Extent> LyingDelta(const std::string& rule) {
    AddRule(rule);
    const Delivered delivered = Delta();
    faults_.Clear();
    EXPECT_TRUE(delivered.status.ok()) << delivered.status.error_message();
    return delivered.Extents();
  }

  static Extent Block(int64_t index) { return {index * kBlock, kBlock}; }

  std::string base_;
  std::string target_;
};

TEST_F(SnapshotMetadataTest, VariableLengthsAreSaidToBeSo) {
  StopServing();
  options_.blocks.fixed = false;
  options_.blocks.bytes = 3 * kBlock;
  Serve();
  const Delivered delivered = Delta();
  ASSERT_EQ(delivered.messages.size(), 1u);
  EXPECT_EQ(delivered.messages[0].block_metadata_type(), pb::VARIABLE_LENGTH);
  EXPECT_THAT(delivered.Extents(), ElementsAre(Extent{0, 9 * kBlock}));
}

TEST_F(SnapshotMetadataTest, MessagesHaveAsManyExtentsAsWereAskedFor) {
  for (const int32_t max_results : {1, 2, 3, 4, 128, std::numeric_limits<int32_t>::max()}) {
    const Delivered delivered = Delta(max_results);
    EXPECT_THAT(delivered.Extents(), ElementsAre(Block(1), Block(3), Block(5), Block(7)));
    EXPECT_EQ(delivered.messages.size(),
              static_cast<size_t>((int64_t{4} + max_results - 1) / max_results))
        << max_results;
  }
  EXPECT_EQ(Delta(-1).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(SnapshotMetadataTest, AnInterruptedStreamContinuesWhereItStopped) {
  AddRule(R"({"method":"GetMetadataDelta","after_messages":2,"code":"ABORTED","times":1})");
  const Delivered first = Delta(1);
  EXPECT_EQ(first.status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_THAT(first.Extents(), ElementsAre(Block(1), Block(3)));
  const Delivered rest = Delta(1, first.Extents().back().end_bytes());
  EXPECT_TRUE(rest.status.ok());
  EXPECT_THAT(rest.Extents(), ElementsAre(Block(5), Block(7)));
}

TEST_F(SnapshotMetadataTest, NothingChangedIsAMessageWithoutBlocks) {
  target_ = base_;
  const Delivered delivered = Delta();
  ASSERT_EQ(delivered.messages.size(), 1u);
  EXPECT_EQ(delivered.messages[0].volume_capacity_bytes(), kCapacity);
}

TEST_F(SnapshotMetadataTest, ExtentsCanLie) {
  EXPECT_THAT(LyingDelta(R"({"lie":"omit","extent":1})"),
              ElementsAre(Block(1), Block(5), Block(7)));
  EXPECT_THAT(LyingDelta(R"({"lie":"omit","extents":3})"), ElementsAre(Block(7)));
  EXPECT_THAT(LyingDelta(R"({"lie":"shift","extent":3})"),
              ElementsAre(Block(1), Block(3), Block(5), Block(8)));
  EXPECT_THAT(
      LyingDelta(R"({"lie":"overlap"})"),
      ElementsAre(Block(1), Extent{kBlock + kBlock / 2, kBlock}, Block(3), Block(5), Block(7)));
  EXPECT_THAT(LyingDelta(R"({"lie":"unordered","extent":2})"),
              ElementsAre(Block(1), Block(3), Block(7), Block(5)));
  EXPECT_THAT(LyingDelta(R"({"lie":"unordered","extent":3})"),
              ElementsAre(Block(1), Block(3), Block(5), Block(7)));
  EXPECT_EQ(LyingDelta(R"({"lie":"zero_length","extent":1})")[1], (Extent{3 * kBlock, 0}));
  EXPECT_EQ(LyingDelta(R"({"lie":"negative_length","extent":1})")[1],
            (Extent{3 * kBlock, -kBlock}));
  EXPECT_EQ(LyingDelta(R"({"lie":"negative_offset"})")[0], (Extent{-kBlock, kBlock}));
  EXPECT_EQ(LyingDelta(R"({"lie":"overflow","extent":3})")[3],
            (Extent{std::numeric_limits<int64_t>::max() - 1, kBlock}));
  EXPECT_EQ(LyingDelta(R"({"lie":"beyond_capacity"})")[4], (Extent{kCapacity, kBlock}));
  EXPECT_EQ(LyingDelta(R"({"lie":"everything"})").size(), static_cast<size_t>(kCapacity / kBlock));
}

TEST_F(SnapshotMetadataTest, MessagesCanLie) {
  AddRule(R"({"lie":"capacity_changes","after_messages":1})");
  AddRule(R"({"lie":"type_changes","after_messages":2})");
  AddRule(R"({"lie":"end","after_messages":3})");
  const Delivered delivered = Delta(1);
  EXPECT_TRUE(delivered.status.ok());
  ASSERT_EQ(delivered.messages.size(), 3u);
  EXPECT_EQ(delivered.messages[0].volume_capacity_bytes(), kCapacity);
  EXPECT_NE(delivered.messages[1].volume_capacity_bytes(), kCapacity);
  EXPECT_EQ(delivered.messages[1].block_metadata_type(), pb::FIXED_LENGTH);
  EXPECT_EQ(delivered.messages[2].block_metadata_type(), pb::VARIABLE_LENGTH);
}

TEST_F(SnapshotMetadataTest, AMessageCanBeLargerThanClientsTake) {
  AddRule(R"({"lie":"huge_message","after_messages":1})");
  const Delivered delivered = Delta(1);
  EXPECT_EQ(delivered.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(delivered.messages.size(), 1u);
}

TEST_F(SnapshotMetadataTest, EveryMessageCanBeHeld) {
  AddRule(R"({"after_messages":1,"hold":true,"per_message":true})");
  grpc::ClientContext context;
  const auto reader = metadata_->GetMetadataDelta(&context, DeltaRequest(1));
  pb::GetMetadataDeltaResponse message;
  ASSERT_TRUE(reader->Read(&message));
  for (int read = 1; read < 4; ++read) {
    ASSERT_TRUE(faults_.WaitFor("GetMetadataDelta", {.held = 1}, kLong));
    faults_.Release("GetMetadataDelta");
    ASSERT_TRUE(reader->Read(&message));
  }
  ASSERT_TRUE(faults_.WaitFor("GetMetadataDelta", {.held = 1}, kLong));  // Before the end.
  faults_.Release("GetMetadataDelta");
  EXPECT_FALSE(reader->Read(&message));
  EXPECT_TRUE(reader->Finish().ok());
}

TEST_F(SnapshotMetadataTest, ClearingTheRulesLetsAStreamGo) {
  AddRule(R"({"hold":true,"per_message":true})");
  const std::jthread clearer([this] {
    EXPECT_TRUE(faults_.WaitFor("GetMetadataDelta", {.held = 1}, kLong));
    faults_.Clear();
  });
  EXPECT_EQ(Delta(1).messages.size(), 4u);
}

TEST_F(SnapshotMetadataTest, AHeldStreamEndsWithItsCaller) {
  AddRule(R"({"after_messages":1,"hold":true})");
  grpc::ClientContext context;
  const auto reader = metadata_->GetMetadataDelta(&context, DeltaRequest());
  pb::GetMetadataDeltaResponse message;
  ASSERT_TRUE(reader->Read(&message));
  ASSERT_TRUE(faults_.WaitFor("GetMetadataDelta", {.held = 1}, kLong));
  context.TryCancel();
  EXPECT_TRUE(faults_.WaitFor("GetMetadataDelta", {.failed = 1}, kLong));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

}  // namespace
}  // namespace csidelta::csi_driver::snapshot_metadata_test
