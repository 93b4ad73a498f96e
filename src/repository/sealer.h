#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/cipher.h"
#include "base/random.h"
#include "repository/format.h"

namespace csidelta::repository {

using SealKey = CtrPoly1305::Key;

// A key for what is stored under `name` alone: an envelope that was made with it opens under no
// other name, and none that was made with `master` itself opens with it. Its three parts are the
// first 64 bytes of HMAC-SHA-256(master, "csi-delta sidecar 1\0" name "\1") and the same with "\2",
// the master key being `encrypt`, `mac_k` and `mac_r` one after the other.
SealKey KeyBoundTo(const SealKey& master, absl::string_view name);

// Makes and opens envelopes: IV, AES-256-CTR ciphertext, Poly1305-AES over the ciphertext. An
// envelope is kEnvelopeBytes longer than its plaintext. Makes a fresh IV for each.
// Thread-compatible: one per thread; cheap to make, cheaper to keep. Does not own `random`.
class Sealer {
 public:
  Sealer(const SealKey& key, SecureRandom& random) : cipher_(key), random_(&random) {}

  // Writes the envelope of `plaintext` to `out`, which is exactly kEnvelopeBytes longer and shares
  // no byte with it.
  void Seal(absl::Span<const uint8_t> plaintext, absl::Span<uint8_t> out);
  std::string Seal(absl::string_view plaintext);

  // Checks the MAC, then decrypts. `out` has room for the plaintext and is apart from the envelope.
  // DATA_LOSS when the envelope is too short or its MAC is wrong.
  absl::Status Open(absl::Span<const uint8_t> envelope, absl::Span<uint8_t> out);
  absl::StatusOr<std::string> Open(absl::string_view envelope);

 private:
  CtrPoly1305 cipher_;
  SecureRandom* random_;
};

inline absl::Span<const uint8_t> AsBytes(absl::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}
inline absl::string_view AsText(absl::Span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace csidelta::repository
