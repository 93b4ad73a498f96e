#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "cli/session.h"
#include "datamover/repository_access.h"
#include "storage/location.h"

namespace csidelta::cli {

// The flags for the same repository: its address, and how to access it.
GlobalOptions OptionsOf(const objects::JobRepository& repository);

// The bucket of a location, opened as a worker with `access` opens it, except that the Secret is in
// memory. No I/O.
absl::StatusOr<std::unique_ptr<storage::OpenedStore>> OpenLocationStore(
    const ProgramEnvironment& environment, const datamover::RepositoryAccess& access);

}  // namespace csidelta::cli
