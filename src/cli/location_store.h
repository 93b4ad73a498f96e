#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "cli/session.h"
#include "datamover/repository_access.h"
#include "storage/location.h"
#include "storage/s3_signer.h"

namespace csidelta::cli {

// The flags for the same repository: its address, and how to access it.
GlobalOptions OptionsOf(const objects::JobRepository& repository);

// The credentials of the Secret of `access`; nothing if it has none for the location's profile.
absl::StatusOr<std::optional<storage::Credentials>> CredentialsOf(
    const datamover::RepositoryAccess& access);

// The repository of `access` as a worker opens it, except that the Secret is in memory; without
// credentials in it, they are those of the environment. Flags of `given` about the bucket count,
// too: INVALID_ARGUMENT if they weaken the object locks of `access`. Reads the files that they and
// variables name.
absl::StatusOr<engine::RepositoryTarget> TargetOf(const datamover::RepositoryAccess& access,
                                                  const GlobalOptions& given,
                                                  const GetVariable& get);

// The bucket of a location, opened as above.
absl::StatusOr<std::unique_ptr<storage::OpenedStore>> OpenLocationStore(
    const ProgramEnvironment& environment, const datamover::RepositoryAccess& access);

}  // namespace csidelta::cli
