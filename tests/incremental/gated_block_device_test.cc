#include "incremental/mover/gated_block_device.h"

#include <gtest/gtest.h>

#include "tests/support/fake_block_device.h"
#include "tests/support/status_matchers.h"

namespace csidelta::incremental::gated_block_device_test {
namespace {

using support::IsOk;
using support::StatusIs;

TEST(GatedBlockDeviceTest, NothingIsWrittenThatTheGateRefuses) {
  support::FakeBlockDevice device(1 << 20, 512, 7);
  absl::Status gate;
  int asked = 0;
  GatedBlockDevice gated(device, [&] {
    ++asked;
    return gate;
  });
  AlignedBuffer memory(4096);
  std::fill_n(memory.data(), 4096, uint8_t{9});
  const CallContext ctx;
  const Extent extent{.offset_bytes = 4096, .length_bytes = 4096};
  auto queue = gated.OpenQueue(2);
  ASSERT_THAT(queue, IsOk());

  EXPECT_THAT(WriteFully(ctx, **queue, extent, memory.data()), IsOk());
  EXPECT_EQ(device.Load(4096, 1), "\x09");

  gate = absl::FailedPreconditionError("another Pod");
  const Extent other{.offset_bytes = 8192, .length_bytes = 4096};
  EXPECT_THAT(WriteFully(ctx, **queue, other, memory.data()),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(gated.MakeZero(ctx, other), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(device.Load(8192, 1), "\x07");
  EXPECT_EQ((*queue)->in_flight(), 0);
  EXPECT_EQ(asked, 3);
  EXPECT_THAT(ReadFully(ctx, **queue, other, memory.data()), IsOk());
  EXPECT_EQ(asked, 3) << "reads pass";
}

}  // namespace
}  // namespace csidelta::incremental::gated_block_device_test
