#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/call_context.h"
#include "base/extent.h"
#include "cli/progress.h"
#include "incremental/mover/volume_record.h"

namespace csidelta::cli {

// FAILED_PRECONDITION when the two volumes have chunks of different sizes. Pure.
absl::Status RequireEqualChunks(const incremental::VolumeRecord& before,
                                const incremental::VolumeRecord& after);

// Calls `found` for the extents of `after` that differ from `before`, or that `before` does not
// have, in order, none touching the next; ends with its error. What is shorter than a chunk on one
// side only differs too. Compares level by level and reads no data; equal trees are not read.
// Memory does not grow with the volume. Errors: those of RequireEqualChunks(), and of the
// repository.
absl::Status CompareVolumes(const CallContext& ctx, const incremental::VolumeRecord& before,
                            const incremental::VolumeRecord& after, ProgressMeter& meter,
                            absl::FunctionRef<absl::Status(const Extent&)> found);

}  // namespace csidelta::cli
