// A file of keys, as an operator brings it.

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "datamover/keyring.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes) {
  namespace datamover = csidelta::datamover;
  const absl::string_view text(reinterpret_cast<const char*>(data), bytes);
  const auto keyring = datamover::ParseKeyringFile(text);
  if (!keyring.ok()) {
    CSIDELTA_CHECK(keyring.status().code() == absl::StatusCode::kInvalidArgument);
    return 0;
  }
  CSIDELTA_CHECK(!keyring->keys.empty() && keyring->keys.size() <= datamover::kKeysMax);
  for (const datamover::RepositoryKey& key : keyring->keys) {
    CSIDELTA_CHECK(datamover::KeyFingerprint(key.password.Reveal()) == key.fingerprint);
  }
  const auto again = datamover::ParseKeyringFile(datamover::FormatKeyringFile(*keyring));
  CSIDELTA_CHECK(again.ok() && again->keys == keyring->keys);
  return 0;
}
