#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/random.h"
#include "repository/blob.h"

namespace csidelta::repository {

// The identity of a repository.
struct Config {
  int version = 0;
  Id id;
  // restic's chunker uses it, we do not: an irreducible polynomial over GF(2), bit i for x^i.
  uint64_t chunker_polynomial = 0;
};

Id RandomId(SecureRandom& random);
Config MakeConfig(SecureRandom& random);

// INVALID_ARGUMENT when malformed or the polynomial is not irreducible; FAILED_PRECONDITION for a
// version that we cannot write. Version 1 reads as well as 2.
absl::StatusOr<Config> DecodeConfig(absl::string_view json);
std::string EncodeConfig(const Config& config);

// Rabin's test. Exposed for tests.
bool IsIrreducible(uint64_t polynomial);

}  // namespace csidelta::repository
