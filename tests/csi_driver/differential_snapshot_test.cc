// The pages of GetDifferentialSnapshot, true and untrue.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/extent.h"
#include "tests/csi_driver/driver_fixture.h"

namespace csidelta::csi_driver::differential_snapshot_test {
namespace {

namespace pb = ::csi::differentialsnapshot::v1;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr absl::Duration kLong = absl::Seconds(30);
constexpr int64_t kBlock = 4096;
constexpr uint64_t kCapacity = uint64_t{4} << 20;
constexpr int kPagesMax = 100;

class DifferentialSnapshotTest : public DriverFixture {
 protected:
  // A base, and a target in which blocks 1, 3 and 5 were written and block 0 became zero.
  void SetUp() override {
    options_.differential_snapshot = true;
    DriverFixture::SetUp();
    VolumeSpec spec;
    spec.name = "v";
    spec.size.required_bytes = static_cast<int64_t>(kCapacity);
    volume_ = store_->CreateVolume(spec)->id;
    WriteTo(volume_, 0, "old");
    base_ = store_->CreateSnapshot("base", volume_)->id;
    WriteTo(volume_, 0, std::string(3, '\0'));
    for (const int64_t block : {1, 3, 5}) {
      WriteTo(volume_, block * kBlock, "new");
    }
    request_.set_snapshot_base(base_);
    request_.set_snapshot_target(store_->CreateSnapshot("target", volume_)->id);
  }

  void Restart() {
    StopServing();
    Serve();
  }

  grpc::Status Ask(pb::DifferentialSnapshotResponse* response) {
    grpc::ClientContext context;
    return pb::DifferentialSnapshot::NewStub(channel_)->GetDifferentialSnapshot(&context, request_,
                                                                                response);
  }

  pb::DifferentialSnapshotResponse MustAsk() {
    pb::DifferentialSnapshotResponse response;
    const grpc::Status status = Ask(&response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  grpc::StatusCode CodeOf() {
    pb::DifferentialSnapshotResponse response;
    return Ask(&response).error_code();
  }

  static std::vector<Extent> Extents(const pb::DifferentialSnapshotResponse& page) {
    std::vector<Extent> extents;
    for (const pb::ChangedBlock& block : page.change_block_list()) {
      extents.push_back({static_cast<int64_t>(block.offset()), static_cast<int64_t>(block.size())});
    }
    return extents;
  }

  // All pages from the first one on.
  std::vector<std::vector<Extent>> Pages() {
    std::vector<std::vector<Extent>> pages;
    request_.clear_start_offset();
    do {
      const pb::DifferentialSnapshotResponse page = MustAsk();
      pages.push_back(Extents(page));
      request_.set_start_offset(page.next_offset());
    } while (!request_.start_offset().empty() && pages.size() < kPagesMax);
    return pages;
  }

  static Extent Block(int64_t index) { return {index * kBlock, kBlock}; }

  std::string volume_;
  std::string base_;
  pb::DifferentialSnapshotRequest request_;
};

TEST_F(DifferentialSnapshotTest, ZerosStandAloneWithVariableLengths) {
  options_.blocks.fixed = false;
  Restart();
  EXPECT_THAT(Extents(MustAsk()), ElementsAre(Block(0), Block(1), Block(3), Block(5)));
  request_.set_snapshot_target(base_);
  request_.clear_snapshot_base();
  EXPECT_THAT(Extents(MustAsk()), ElementsAre(Block(0)));
}

TEST_F(DifferentialSnapshotTest, PagesGoOnWhereTheirCursorSays) {
  for (const bool opaque : {false, true}) {
    options_.opaque_cursors = opaque;
    Restart();
    for (const uint64_t entries : {1, 2, 3, 4, 5}) {
      request_.set_max_entries(entries);
      const std::vector<std::vector<Extent>> pages = Pages();
      EXPECT_EQ(pages.size(), (4 + entries - 1) / entries);
      std::vector<Extent> all;
      for (const std::vector<Extent>& page : pages) {
        all.insert(all.end(), page.begin(), page.end());
      }
      EXPECT_THAT(all, ElementsAre(Block(0), Block(1), Block(3), Block(5)));
    }
  }
}

TEST_F(DifferentialSnapshotTest, NumericCursorsAreOffsets) {
  request_.set_start_offset("8192");
  EXPECT_THAT(Extents(MustAsk()), ElementsAre(Block(3), Block(5)));
  for (const char* wrong : {"x", "-", "1.5", "99999999999999999999"}) {
    request_.set_start_offset(wrong);
    EXPECT_EQ(CodeOf(), grpc::StatusCode::INVALID_ARGUMENT) << wrong;
  }
  for (const char* outside : {"-1", "4194305"}) {
    request_.set_start_offset(outside);
    EXPECT_EQ(CodeOf(), grpc::StatusCode::OUT_OF_RANGE) << outside;
  }
}

TEST_F(DifferentialSnapshotTest, OpaqueCursorsBelongToTheirPair) {
  options_.opaque_cursors = true;
  Restart();
  request_.set_max_entries(1);
  const std::string cursor = MustAsk().next_offset();
  for (const std::string& wrong : {std::string("8192"), cursor + "x", std::string("AAAA")}) {
    request_.set_start_offset(wrong);
    EXPECT_EQ(CodeOf(), grpc::StatusCode::INVALID_ARGUMENT) << wrong;
  }
  request_.set_start_offset(cursor);
  EXPECT_THAT(Extents(MustAsk()), ElementsAre(Block(1)));
  EXPECT_THAT(Extents(MustAsk()), ElementsAre(Block(1)));  // Presented again.
  request_.set_snapshot_base(request_.snapshot_target());
  EXPECT_EQ(CodeOf(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(DifferentialSnapshotTest, ResultsExpire) {
  options_.opaque_cursors = true;
  options_.result_seconds = 60;
  Restart();
  request_.set_max_entries(1);
  const pb::DifferentialSnapshotResponse page = MustAsk();
  EXPECT_EQ(page.timeout(), static_cast<uint64_t>(absl::ToUnixSeconds(clock_.Now()) + 60));
  request_.set_start_offset(page.next_offset());
  clock_.Advance(absl::Seconds(60));
  EXPECT_EQ(MustAsk().timeout(), page.timeout());
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(CodeOf(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(DifferentialSnapshotTest, ParametersReachTheDriverAndComeBackAsContext) {
  (*request_.mutable_parameters())["context"] = "volume-7@";
  EXPECT_EQ(MustAsk().change_block_list(1).context(), "volume-7@4096");
}

TEST_F(DifferentialSnapshotTest, RefusesWhatItCannotAnswer) {
  request_.set_mode("Block");
  request_.set_volume_id(volume_);
  EXPECT_EQ(CodeOf(), grpc::StatusCode::OK);
  request_.set_mode("File");
  EXPECT_EQ(CodeOf(), grpc::StatusCode::UNIMPLEMENTED);
  request_.set_mode("");
  request_.set_volume_id("vol-other");
  EXPECT_EQ(CodeOf(), grpc::StatusCode::INVALID_ARGUMENT);
  request_.set_volume_id("");
  request_.set_snapshot_base("snap-none");
  EXPECT_EQ(CodeOf(), grpc::StatusCode::NOT_FOUND);
  request_.clear_snapshot_target();
  EXPECT_EQ(CodeOf(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(DifferentialSnapshotTest, PagesCanLie) {
  request_.set_max_entries(2);
  const auto lied = [this](const std::string& rule) {
    AddRule(rule);
    pb::DifferentialSnapshotResponse page = MustAsk();
    faults_.Clear();
    return page;
  };
  EXPECT_THAT(Extents(lied(R"({"lie":"omit","extent":1})")), ElementsAre(Block(0), Block(3)));
  EXPECT_EQ(lied(R"({"lie":"end"})").next_offset(), "");
  EXPECT_EQ(lied(R"({"lie":"capacity_changes"})").volume_size(), kCapacity + kBlock);
  EXPECT_EQ(lied(R"({"lie":"expired"})").timeout(), 1'000'000'000u);
  EXPECT_EQ(lied(R"({"lie":"same_cursor"})").next_offset(), "0");
  const pb::DifferentialSnapshotResponse empty = lied(R"({"lie":"empty_message"})");
  EXPECT_THAT(Extents(empty), IsEmpty());
  EXPECT_EQ(empty.next_offset(), "0");
  EXPECT_EQ(lied(R"({"lie":"negative_length"})").change_block_list(0).size(),
            static_cast<uint64_t>(-kBlock));

  AddRule(R"({"lie":"huge_message","times":1})");
  EXPECT_EQ(CodeOf(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  AddRule(R"({"code":"ABORTED","skip":1})");
  EXPECT_EQ(CodeOf(), grpc::StatusCode::OK);
  EXPECT_EQ(CodeOf(), grpc::StatusCode::ABORTED);
}

TEST_F(DifferentialSnapshotTest, CallsCanBeHeldWhenTheirPageIsMade) {
  AddRule(R"({"after_messages":0,"hold":true})");
  std::vector<Extent> page;
  {
    const std::jthread caller([&] { page = Extents(MustAsk()); });
    ASSERT_TRUE(faults_.WaitFor("GetDifferentialSnapshot", {.held = 1}, kLong));
    ASSERT_TRUE(store_->DeleteSnapshot(base_).ok());
    faults_.Clear();
  }
  EXPECT_THAT(page, ElementsAre(Block(0), Block(1), Block(3), Block(5)));
}

}  // namespace
}  // namespace csidelta::csi_driver::differential_snapshot_test
