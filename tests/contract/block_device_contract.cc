#include "tests/contract/block_device_contract.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <stop_token>

#include "tests/support/status_matchers.h"

namespace csidelta::contract {

using incremental::AlignedBuffer;
using incremental::BlockDevice;
using incremental::IoCompletion;
using incremental::IoKind;
using incremental::IoQueue;
using support::IsOk;
using support::StatusIs;

namespace {

constexpr int64_t kPieceBytes = 64 << 10;
constexpr int64_t kWholeBytes = 1 << 20;

std::string Pattern(int64_t length_bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::string bytes(static_cast<std::size_t>(length_bytes), '\0');
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<char>(random()); });
  return bytes;
}

AlignedBuffer BufferOf(const std::string& bytes) {
  AlignedBuffer buffer(static_cast<int64_t>(bytes.size()));
  std::memcpy(buffer.data(), bytes.data(), bytes.size());
  return buffer;
}

}  // namespace

std::string BlockDeviceContract::ReadAll(BlockDevice& device) {
  AlignedBuffer buffer(kPieceBytes);
  absl::StatusOr<std::unique_ptr<IoQueue>> queue = device.OpenQueue(1);
  EXPECT_THAT(queue, IsOk());
  std::string bytes;
  for (int64_t at = 0; at < device.info().size_bytes; at += kPieceBytes) {
    const int64_t length = std::min(kPieceBytes, device.info().size_bytes - at);
    EXPECT_THAT(ReadFully(ctx_, **queue, {at, length}, buffer.data()), IsOk());
    bytes.append(buffer.View(length).data(), static_cast<std::size_t>(length));
  }
  return bytes;
}

TEST_P(BlockDeviceContract, SaysWhatItIs) {
  BlockDevice* device = subject_->Make(kWholeBytes);
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(device->info().size_bytes, kWholeBytes);
  EXPECT_GE(device->info().alignment_bytes, 1);
  EXPECT_EQ(kIoAlignmentBytes % device->info().alignment_bytes, 0);
  EXPECT_FALSE(device->info().engine.empty());
  EXPECT_EQ(ReadAll(*device), std::string(kWholeBytes, '\xA5'));
}

TEST_P(BlockDeviceContract, ManyTransfersInFlightComeBackEachOnce) {
  BlockDevice* device = subject_->Make(kWholeBytes);
  ASSERT_NE(device, nullptr);
  const std::string want = Pattern(kWholeBytes, 1);
  for (const IoKind kind : {IoKind::kWrite, IoKind::kRead}) {
    AlignedBuffer memory(kWholeBytes);
    if (kind == IoKind::kWrite) {
      std::memcpy(memory.data(), want.data(), want.size());
    }
    auto queue = device->OpenQueue(8);
    ASSERT_THAT(queue, IsOk());
    std::set<uint64_t> tags;
    int64_t next = 0;
    while (next < kWholeBytes || (*queue)->in_flight() > 0) {
      if (next < kWholeBytes && (*queue)->in_flight() < (*queue)->depth()) {
        (*queue)->Submit({.kind = kind,
                          .offset_bytes = next,
                          .length_bytes = kPieceBytes,
                          .memory = memory.data() + next,
                          .tag = static_cast<uint64_t>(next)});
        next += kPieceBytes;
        continue;
      }
      const absl::StatusOr<IoCompletion> done = (*queue)->Wait(ctx_);
      ASSERT_THAT(done, IsOk());
      EXPECT_THAT(done->status, IsOk());
      EXPECT_TRUE(tags.insert(done->tag).second);
    }
    EXPECT_EQ(tags.size(), kWholeBytes / kPieceBytes);
    EXPECT_EQ(memory.View(kWholeBytes), want);
  }
  EXPECT_EQ(ReadAll(*device), want);
}

TEST_P(BlockDeviceContract, AShortTailIsReadAndWritten) {
  for (const int64_t size : {int64_t{1}, int64_t{511}, int64_t{513}, kPieceBytes + 4097}) {
    BlockDevice* device = subject_->Make(size);
    if (device == nullptr) {
      continue;  // A device has whole blocks only; the subject said so.
    }
    ASSERT_EQ(device->info().size_bytes, size);
    const std::string want = Pattern(size, static_cast<unsigned>(size));
    AlignedBuffer memory = BufferOf(want);
    {
      auto queue = device->OpenQueue(2);
      ASSERT_THAT(queue, IsOk());
      EXPECT_THAT(WriteFully(ctx_, **queue, {0, size}, memory.data()), IsOk());
    }
    EXPECT_EQ(ReadAll(*device), want) << size;
    EXPECT_EQ(device->info().size_bytes, size);
  }
}

TEST_P(BlockDeviceContract, AVolumesTailLeavesWhatIsBehindIt) {
  BlockDevice* device = subject_->Make(kWholeBytes);
  ASSERT_NE(device, nullptr);
  const int64_t tail = kPieceBytes + 100;
  const std::string bytes = Pattern(tail, 7);
  AlignedBuffer memory = BufferOf(bytes);
  {
    auto queue = device->OpenQueue(2);
    ASSERT_THAT(queue, IsOk());
    EXPECT_THAT(WriteFully(ctx_, **queue, {0, tail}, memory.data()), IsOk());
  }
  std::string want(kWholeBytes, '\xA5');
  want.replace(0, bytes.size(), bytes);
  EXPECT_EQ(ReadAll(*device), want);
}

TEST_P(BlockDeviceContract, MakesZerosOfWhateverWasThere) {
  BlockDevice* device = subject_->Make(kWholeBytes);
  ASSERT_NE(device, nullptr);
  std::string want(kWholeBytes, '\xA5');
  const auto zero = [&](int64_t offset, int64_t length) {
    EXPECT_THAT(device->MakeZero(ctx_, {offset, length}), IsOk());
    std::fill_n(want.begin() + offset, length, '\0');
  };
  zero(0, 4096);
  zero(kPieceBytes, 3 * kPieceBytes);
  zero(8 * kPieceBytes, 4096 + 100);  // The tail of a volume smaller than its target.
  zero(kWholeBytes - 4096, 4096);
  EXPECT_EQ(ReadAll(*device), want);
  EXPECT_THAT(device->Flush(ctx_), IsOk());
}

TEST_P(BlockDeviceContract, ZerosAndWritesNextToEachOtherDoNotMix) {
  BlockDevice* device = subject_->Make(kWholeBytes);
  ASSERT_NE(device, nullptr);
  const std::string bytes = Pattern(kPieceBytes, 3);
  AlignedBuffer memory = BufferOf(bytes);
  auto queue = device->OpenQueue(1);
  ASSERT_THAT(queue, IsOk());
  std::string want(kWholeBytes, '\xA5');
  for (int64_t at = 0; at < kWholeBytes; at += 2 * kPieceBytes) {
    ASSERT_THAT(WriteFully(ctx_, **queue, {at, kPieceBytes}, memory.data()), IsOk());
    ASSERT_THAT(device->MakeZero(ctx_, {at + kPieceBytes, kPieceBytes}), IsOk());
    want.replace(static_cast<std::size_t>(at), bytes.size(), bytes);
    std::fill_n(want.begin() + at + kPieceBytes, kPieceBytes, '\0');
  }
  EXPECT_THAT(device->Flush(ctx_), IsOk());
  EXPECT_EQ(ReadAll(*device), want);
}

TEST_P(BlockDeviceContract, AQueueMayGoWithTransfersInFlight) {
  BlockDevice* device = subject_->Make(kWholeBytes);
  ASSERT_NE(device, nullptr);
  AlignedBuffer memory(kWholeBytes);
  auto queue = device->OpenQueue(8);
  ASSERT_THAT(queue, IsOk());
  for (int64_t i = 0; i < 8; ++i) {
    (*queue)->Submit({.kind = IoKind::kRead,
                      .offset_bytes = i * kPieceBytes,
                      .length_bytes = kPieceBytes,
                      .memory = memory.data() + i * kPieceBytes});
  }
  queue->reset();
}

TEST_P(BlockDeviceContract, AStopEndsWork) {
  BlockDevice* device = subject_->Make(kWholeBytes);
  ASSERT_NE(device, nullptr);
  std::stop_source stop;
  stop.request_stop();
  CallContext ctx = ctx_;
  ctx.stop = stop.get_token();
  AlignedBuffer memory(kPieceBytes);
  auto queue = device->OpenQueue(1);
  ASSERT_THAT(queue, IsOk());
  EXPECT_THAT(ReadFully(ctx, **queue, {0, kPieceBytes}, memory.data()),
              StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(device->MakeZero(ctx, {0, kPieceBytes}), StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace csidelta::contract
