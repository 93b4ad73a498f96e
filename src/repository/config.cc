#include "repository/config.h"

#include <array>
#include <bit>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "repository/format.h"

namespace csidelta::repository {
namespace {

// What restic makes, too. It is prime, which keeps Rabin's test short.
constexpr int kPolynomialDegree = 53;

// a * b modulo `polynomial`, whose degree is kPolynomialDegree, over GF(2).
uint64_t MultiplyModulo(uint64_t a, uint64_t b, uint64_t polynomial) {
  uint64_t product = 0;
  for (; b != 0; b >>= 1) {
    if ((b & 1) != 0) {
      product ^= a;
    }
    a <<= 1;
    if ((a >> kPolynomialDegree & 1) != 0) {
      a ^= polynomial;
    }
  }
  return product;
}

uint64_t RandomUint64(SecureRandom& random) {
  std::array<uint8_t, 8> bytes;
  random.Fill(absl::MakeSpan(bytes));
  uint64_t value = 0;
  for (const uint8_t byte : bytes) {
    value = value << 8 | byte;
  }
  return value;
}

}  // namespace

Id RandomId(SecureRandom& random) {
  std::array<uint8_t, Id::kBytes> bytes;
  random.Fill(absl::MakeSpan(bytes));
  return Id(bytes);
}

bool IsIrreducible(uint64_t polynomial) {
  const bool shape = std::bit_width(polynomial) == kPolynomialDegree + 1 && (polynomial & 1) != 0 &&
                     std::popcount(polynomial) % 2 == 1;
  if (!shape) {
    return false;
  }
  // The degree is prime, so that x^(2^53) = x is left to prove: a factor of degree 1 is excluded by
  // the shape.
  constexpr uint64_t kX = 2;
  uint64_t power = kX;
  for (int i = 0; i < kPolynomialDegree; ++i) {
    power = MultiplyModulo(power, power, polynomial);
  }
  return power == kX;
}

Config MakeConfig(SecureRandom& random) {
  Config config;
  config.version = kRepositoryVersion;
  config.id = RandomId(random);
  constexpr uint64_t kTop = uint64_t{1} << kPolynomialDegree;
  do {
    config.chunker_polynomial = (RandomUint64(random) & (kTop - 1)) | kTop | 1;
  } while (!IsIrreducible(config.chunker_polynomial));  // About one in 26 is.
  return config;
}

absl::StatusOr<Config> DecodeConfig(absl::string_view text) {
  const absl::StatusOr<Json> parsed = ParseJsonObject(text);
  if (!parsed.ok()) {
    return Annotate(parsed.status(), "config");
  }
  const Json& json = *parsed;
  Config config;
  const int64_t version = GetInt(json, {"version"});
  if (version != 1 && version != kRepositoryVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "config: repository version ", version, " is not known; a newer csi-delta may know it"));
  }
  config.version = static_cast<int>(version);
  const absl::StatusOr<Id> id = Id::Parse(GetString(json, {"id"}));
  if (!id.ok()) {
    return Annotate(id.status(), "config");
  }
  config.id = *id;
  const std::string polynomial = GetString(json, {"chunker_polynomial"});
  if (!absl::SimpleHexAtoi(polynomial, &config.chunker_polynomial) ||
      !IsIrreducible(config.chunker_polynomial)) {
    return absl::InvalidArgumentError("config: the chunker's polynomial is not irreducible");
  }
  return config;
}

std::string EncodeConfig(const Config& config) {
  return absl::StrCat("{\"version\":", config.version, ",\"id\":\"", config.id.Hex(),
                      "\",\"chunker_polynomial\":\"", absl::Hex(config.chunker_polynomial), "\"}");
}

}  // namespace csidelta::repository
