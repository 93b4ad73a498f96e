#include "repository/blob.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/crypto.h"
#include "repository/format.h"

namespace csidelta::repository {
namespace {

constexpr char kDigits[] = "0123456789abcdef";
constexpr uint8_t kNoDigit = 16;

// The value of each character as a lower-case hexadecimal digit. Index files are half digits.
constexpr std::array<uint8_t, 256> MakeDigitValues() {
  std::array<uint8_t, 256> values{};
  for (uint8_t& value : values) {
    value = kNoDigit;
  }
  for (uint8_t digit = 0; digit < kNoDigit; ++digit) {
    values[static_cast<uint8_t>(kDigits[digit])] = digit;
  }
  return values;
}
constexpr std::array<uint8_t, 256> kDigitValues = MakeDigitValues();

}  // namespace

absl::StatusOr<Id> Id::Parse(absl::string_view hex) {
  if (hex.size() != kHexDigits) {
    return absl::InvalidArgumentError("an id has 64 hexadecimal digits");
  }
  std::array<uint8_t, kBytes> bytes;
  uint8_t seen = 0;
  for (std::size_t i = 0; i < kBytes; ++i) {
    const uint8_t high = kDigitValues[static_cast<uint8_t>(hex[2 * i])];
    const uint8_t low = kDigitValues[static_cast<uint8_t>(hex[2 * i + 1])];
    seen = static_cast<uint8_t>(seen | high | low);
    bytes[i] = static_cast<uint8_t>(high << 4 | low);
  }
  if ((seen & kNoDigit) != 0) {
    return absl::InvalidArgumentError("an id has lower-case hexadecimal digits only");
  }
  return Id(bytes);
}

Id Id::Of(absl::string_view bytes) { return Id(Sha256(bytes)); }

std::pair<Id, Id> Id::OfTwo(absl::string_view first, absl::string_view second) {
  const auto [of_first, of_second] = Sha256OfTwo(first, second);
  return {Id(of_first), Id(of_second)};
}

void Id::WriteHex(char* out) const {
  for (const uint8_t byte : bytes_) {
    *out++ = kDigits[byte >> 4];
    *out++ = kDigits[byte & 15];
  }
}

std::string Id::Hex() const {
  std::string hex(kHexDigits, '0');
  WriteHex(hex.data());
  return hex;
}

absl::string_view BlobTypeName(BlobType type) { return type == BlobType::kTree ? "tree" : "data"; }

std::string Describe(const BlobHandle& handle) {
  return absl::StrCat(BlobTypeName(handle.type), " blob ", handle.id.ShortHex());
}

uint32_t BlobSpan::plaintext_bytes() const {
  if (compressed()) {
    return uncompressed_bytes;
  }
  return sealed_bytes < kEnvelopeBytes ? 0 : sealed_bytes - uint32_t{kEnvelopeBytes};
}

}  // namespace csidelta::repository
