#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/call_context.h"
#include "base/extent.h"
#include "cli/progress.h"
#include "incremental/mover/volume_record.h"

namespace csidelta::cli {

// FAILED_PRECONDITION if the two volumes have chunks of different sizes. Pure.
absl::Status RequireEqualChunks(const incremental::VolumeRecord& before,
                                const incremental::VolumeRecord& after);

// Calls `found` for the extents of `after` that differ from `before`, or that `before` lacks. The
// extents are in order, and none touches the next. A chunk that is short on one side only differs.
// An error of `found` ends the comparison. Compares trees level by level; reads no data and no
// equal trees. Memory does not grow with the volume. Errors: those of RequireEqualChunks(), and of
// the repository.
absl::Status CompareVolumes(const CallContext& ctx, const incremental::VolumeRecord& before,
                            const incremental::VolumeRecord& after, ProgressMeter& meter,
                            absl::FunctionRef<absl::Status(const Extent&)> found);

}  // namespace csidelta::cli
