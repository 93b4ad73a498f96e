#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/cipher.h"
#include "base/random.h"
#include "repository/sealer.h"

namespace csidelta::repository {

// What we write. With a generated password this is ample, and it takes 66 ms and 32 MiB.
inline constexpr ScryptParameters kScryptWritten = {.n = 32768, .r = 8, .p = 1};
// What is accepted from the writer of the file, before a password is proven: 128 * r * (n + p)
// bytes of memory, four times what restic asks for at most, and n * r * p steps, some seconds.
inline constexpr uint64_t kScryptMemoryBytesMax = uint64_t{256} << 20;
inline constexpr uint64_t kScryptWorkMax = uint64_t{1} << 24;
inline constexpr std::size_t kKeySaltBytes = 64;
inline constexpr std::size_t kKeyDataBytesMax = 4096;

// What deriving a key takes, by what its file claims.
struct ScryptCost {
  int64_t memory_bytes = 0;
  uint64_t work = 0;  // Steps: 2^18, which is what we write, take 66 ms.
};
// REQUIRES parameters that DecodeKeyFile() accepts.
ScryptCost CostOf(const ScryptParameters& parameters);

// A key file: the master key, sealed with a key derived from a password.
struct KeyFile {
  absl::Time created;
  std::string username;
  std::string hostname;
  ScryptParameters scrypt;
  std::string salt;  // Bytes, not base64.
  std::string data;  // Likewise: the envelope of the master key.
};

// INVALID_ARGUMENT when malformed, or when the parameters are out of bounds.
absl::StatusOr<KeyFile> DecodeKeyFile(absl::string_view json);
std::string EncodeKeyFile(const KeyFile& file);

struct KeyOwner {
  std::string username;
  std::string hostname;
};

// A new random master key.
SealKey MakeMasterKey(SecureRandom& random);

// A key file that opens `master` with `password`, at the cost that `scrypt` says. INVALID_ARGUMENT
// for a cost that DecodeKeyFile() would not accept.
absl::StatusOr<KeyFile> WrapMasterKey(const SealKey& master, absl::string_view password,
                                      const KeyOwner& owner, absl::Time created,
                                      const ScryptParameters& scrypt, SecureRandom& random);

// UNAUTHENTICATED when the password is not this file's (or the file was tampered with, which cannot
// be told apart); INVALID_ARGUMENT when what it seals is malformed.
absl::StatusOr<SealKey> UnwrapMasterKey(const KeyFile& file, absl::string_view password,
                                        SecureRandom& random);

}  // namespace csidelta::repository
