#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace csidelta::repository {

// A SHA-256 that names something: a blob by its plaintext, an object by its stored bytes. A value.
// The default is the null id, which names nothing.
class Id {
 public:
  static constexpr std::size_t kBytes = 32;
  static constexpr std::size_t kHexDigits = 2 * kBytes;

  constexpr Id() = default;
  constexpr explicit Id(const std::array<uint8_t, kBytes>& bytes) : bytes_(bytes) {}

  // INVALID_ARGUMENT unless `hex` is 64 lower-case hexadecimal digits.
  static absl::StatusOr<Id> Parse(absl::string_view hex);

  // SHA-256 of `bytes`.
  static Id Of(absl::string_view bytes);
  // Of two at once, for the price of little more than one.
  static std::pair<Id, Id> OfTwo(absl::string_view first, absl::string_view second);

  std::string Hex() const;
  // The first eight digits, as people see ids.
  std::string ShortHex() const { return Hex().substr(0, 8); }
  // Writes kHexDigits digits, without a final zero.
  void WriteHex(char* out) const;

  bool IsNull() const { return *this == Id(); }
  const std::array<uint8_t, kBytes>& bytes() const { return bytes_; }
  // The first eight bytes. Ids are hashes, so this is one too.
  uint64_t Prefix64() const {
    uint64_t prefix = 0;
    std::memcpy(&prefix, bytes_.data(), sizeof(prefix));
    return prefix;
  }
  // The same as a number that never falls while ids ascend.
  uint64_t OrderedPrefix64() const {
    return std::endian::native == std::endian::little ? __builtin_bswap64(Prefix64()) : Prefix64();
  }

  friend auto operator<=>(const Id&, const Id&) = default;
  friend bool operator==(const Id&, const Id&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const Id& id) {
    return H::combine(std::move(state), id.Prefix64());
  }

 private:
  std::array<uint8_t, kBytes> bytes_{};
};

using BlobId = Id;
using PackId = Id;

enum class BlobType : uint8_t { kData = 0, kTree = 1 };

// "data" or "tree".
absl::string_view BlobTypeName(BlobType type);

// What names a blob: equal bytes as data and as tree are two blobs.
struct BlobHandle {
  BlobType type = BlobType::kData;
  BlobId id;

  friend auto operator<=>(const BlobHandle&, const BlobHandle&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const BlobHandle& handle) {
    return H::combine(std::move(state), handle.type, handle.id);
  }
};

// "data blob 07854d2f", for messages.
std::string Describe(const BlobHandle& handle);

// Where the sealed blob lies inside its pack.
struct BlobSpan {
  uint32_t offset_bytes = 0;
  uint32_t sealed_bytes = 0;        // Envelope included.
  uint32_t uncompressed_bytes = 0;  // Plaintext length of a compressed blob; 0: not compressed.

  bool compressed() const { return uncompressed_bytes != 0; }
  // Length of the plaintext.
  uint32_t plaintext_bytes() const;

  friend bool operator==(const BlobSpan&, const BlobSpan&) = default;
};

// One blob of a pack, as header and index list it.
struct PackEntry {
  BlobHandle handle;
  BlobSpan span;

  friend bool operator==(const PackEntry&, const PackEntry&) = default;
};

// One copy of a blob.
struct BlobLocation {
  PackId pack;
  BlobSpan span;

  friend bool operator==(const BlobLocation&, const BlobLocation&) = default;
};

}  // namespace csidelta::repository
