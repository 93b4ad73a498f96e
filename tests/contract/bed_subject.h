#pragma once

#include <memory>
#include <string>

#include "tests/contract/changed_block_source_contract.h"

namespace csidelta::contract {

// The client of snapshot metadata in a test bed: a real API server, claims and volume snapshots of
// the test driver, upstream's metadata sidecar. `description` is the path of a JSON object:
//   admin, client                  kubeconfigs: of the creator of objects; of the client that asks
//   volumes                        the folder of the driver's volumes, as files
//   storage_class, snapshot_class
// Makes a namespace of its own, csi-delta-contract-..., and deletes all that it made there; when
// that is gone is the bed's business.
std::unique_ptr<ChangedBlockSubject> MakeBedSubject(const std::string& description);

}  // namespace csidelta::contract
