// A file of keys, as an operator brings it.

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "repository/keyring.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes) {
  namespace repository = csidelta::repository;
  const absl::string_view text(reinterpret_cast<const char*>(data), bytes);
  const auto keyring = repository::ParseKeyringFile(text);
  if (!keyring.ok()) {
    CSIDELTA_CHECK(keyring.status().code() == absl::StatusCode::kInvalidArgument);
    return 0;
  }
  CSIDELTA_CHECK(!keyring->keys.empty() && keyring->keys.size() <= repository::kKeysMax);
  for (const repository::RepositoryKey& key : keyring->keys) {
    CSIDELTA_CHECK(repository::KeyFingerprint(key.password.Reveal()) == key.fingerprint);
  }
  const auto again = repository::ParseKeyringFile(repository::FormatKeyringFile(*keyring));
  CSIDELTA_CHECK(again.ok() && again->keys == keyring->keys);
  return 0;
}
