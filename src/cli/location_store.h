#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cli/session.h"
#include "datamover/repository_access.h"
#include "storage/location.h"

namespace csidelta::cli {

// The flags for the same repository: its address, and how to access it.
GlobalOptions OptionsOf(const objects::JobRepository& repository);

// The cloud of which the caller's own credentials are used, as `access` has none for the location:
// "AWS", "Azure", "Google". "" if it has.
absl::StatusOr<absl::string_view> CloudOfCaller(const datamover::RepositoryAccess& access);

// The variables for a store of Azure or Google: those of `access`, whose credentials are in a file
// in memory, which stays until the program ends; then those of `get`, but for the cloud's own if
// `access` has credentials. For other stores those of `get`.
absl::StatusOr<GetVariable> VariablesOf(const datamover::RepositoryAccess& access,
                                        const GetVariable& get);

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
