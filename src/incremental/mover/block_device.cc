#include "incremental/mover/block_device.h"

#include "base/status_macros.h"

namespace csidelta::incremental {
namespace {

absl::Status Transfer(const CallContext& ctx, IoQueue& queue, IoKind kind, const Extent& extent,
                      uint8_t* memory) {
  CSIDELTA_CHECK(queue.in_flight() == 0);
  RETURN_IF_ERROR(ctx.Check());
  queue.Submit({.kind = kind,
                .offset_bytes = extent.offset_bytes,
                .length_bytes = extent.length_bytes,
                .memory = memory});
  ASSIGN_OR_RETURN(const IoCompletion done, queue.Wait(ctx));
  return done.status;
}

}  // namespace

absl::Status ReadFully(const CallContext& ctx, IoQueue& queue, const Extent& extent,
                       uint8_t* memory) {
  return Transfer(ctx, queue, IoKind::kRead, extent, memory);
}

absl::Status WriteFully(const CallContext& ctx, IoQueue& queue, const Extent& extent,
                        uint8_t* memory) {
  return Transfer(ctx, queue, IoKind::kWrite, extent, memory);
}

}  // namespace csidelta::incremental
