#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/crypto.h"
#include "base/random.h"

namespace csidelta::support {

// Bytes that anybody can guess: the same ones for the same seed. Thread-safe.
class FakeSecureRandom : public SecureRandom {
 public:
  explicit FakeSecureRandom(uint64_t seed = 1) : seed_(seed) {}

  void Fill(absl::Span<uint8_t> bytes) override {
    std::scoped_lock lock(mutex_);
    while (!bytes.empty()) {
      const Sha256Digest block = Sha256(absl::StrCat(seed_, " ", count_++));
      const std::size_t taken = std::min(bytes.size(), block.size());
      std::copy_n(block.begin(), taken, bytes.begin());
      bytes.remove_prefix(taken);
    }
  }

 private:
  std::mutex mutex_;
  const uint64_t seed_;
  uint64_t count_ = 0;
};

// `count` bytes that do not compress.
inline std::string Noise(std::size_t count, uint64_t seed) {
  std::string bytes(count, '\0');
  FakeSecureRandom(seed).Fill({reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()});
  return bytes;
}

// `count` bytes that do.
inline std::string Prose(std::size_t count, uint64_t seed) {
  std::string text;
  for (uint64_t line = 0; text.size() < count; ++line) {
    absl::StrAppend(&text, "line ", line, " of volume ", seed, ": nothing happened here\n");
  }
  text.resize(count);
  return text;
}

}  // namespace csidelta::support
