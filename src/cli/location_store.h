#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "cli/session.h"
#include "datamover/repository_access.h"
#include "storage/location.h"

namespace csidelta::cli {

// The bucket of a location, as a worker with the flags of `access` would open it, but with the
// Secret in memory. No I/O.
absl::StatusOr<std::unique_ptr<storage::OpenedStore>> OpenLocationStore(
    const ProgramEnvironment& environment, const datamover::RepositoryAccess& access);

}  // namespace csidelta::cli
