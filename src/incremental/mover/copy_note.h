#pragma once

#include "absl/status/status.h"
#include "base/call_context.h"
#include "repository/copier.h"
#include "repository/repository.h"

namespace csidelta::incremental {

// Saves the sidecar of a copy of a volume, so that increments that build on it are cheap, and
// guarded; of any other snapshot one with its needs alone. For CopyOptions::note. Reads the trees
// of the source that stand above its leaves, where its parent has others. REQUIRES a loaded index
// of `from`.
absl::Status RecordCopy(const CallContext& ctx, repository::Repository& from,
                        repository::Repository& to, const repository::CopyToNote& copy);

}  // namespace csidelta::incremental
