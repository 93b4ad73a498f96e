#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "cli/session.h"
#include "datamover/repository_access.h"
#include "storage/location.h"

namespace csidelta::cli {

// The flags that say the same: where the repository is, and how to get at it.
GlobalOptions OptionsOf(const objects::JobRepository& repository);

// The bucket of a location, as a worker that has `access` would open it, but with the Secret in
// memory. No I/O.
absl::StatusOr<std::unique_ptr<storage::OpenedStore>> OpenLocationStore(
    const ProgramEnvironment& environment, const datamover::RepositoryAccess& access);

}  // namespace csidelta::cli
