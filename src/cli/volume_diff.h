#pragma once

#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/extent.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "incremental/mover/volume_record.h"

namespace csidelta::cli {

// The volume of the snapshot whose id begins with `id`; "latest" only where all are of one volume.
absl::StatusOr<std::unique_ptr<incremental::VolumeRecord>> OpenVolume(
    const CallContext& ctx, Console& console, repository::Repository& repository,
    const std::string& id);

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
