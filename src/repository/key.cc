#include "repository/key.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "repository/repo_snapshot.h"

namespace csidelta::repository {
namespace {

absl::StatusOr<std::string> Base64Member(const Json& json, JsonPath path, absl::string_view name) {
  std::string bytes;
  const std::string text = GetString(json, path);
  if (text.empty() || !absl::Base64Unescape(text, &bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("key: ", name, " is not base64"));
  }
  return bytes;
}

template <std::size_t N>
absl::Status CopyExactly(const std::string& bytes, std::array<uint8_t, N>& out) {
  if (bytes.size() != N) {
    return absl::InvalidArgumentError("key: wrong length of a part");
  }
  std::copy(bytes.begin(), bytes.end(), out.begin());
  return absl::OkStatus();
}

absl::Status CheckScrypt(const ScryptParameters& parameters) {
  const auto [n, r, p] = parameters;
  const bool possible = n > 1 && std::has_single_bit(n) && r > 0 && p > 0;
  // Divisions, because the products may overflow.
  if (!possible || n > kScryptMemoryBytesMax / 128 / r || n * r > kScryptWorkMax / p ||
      p > kScryptMemoryBytesMax / 128 / r) {
    return absl::InvalidArgumentError(absl::StrCat("key: scrypt parameters out of bounds: N=", n,
                                                   " r=", r, " p=", p,
                                                   "; make another key with restic key add"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ScryptParameters> DecodeScrypt(const Json& json) {
  if (GetString(json, {"kdf"}) != "scrypt") {
    return absl::InvalidArgumentError("key: the key derivation is not scrypt");
  }
  const int64_t n = GetInt(json, {"N"});
  const int64_t r = GetInt(json, {"r"});
  const int64_t p = GetInt(json, {"p"});
  constexpr int64_t kFactorMax = std::numeric_limits<int32_t>::max();
  if (n < 0 || r < 0 || p < 0 || r > kFactorMax || p > kFactorMax) {
    return absl::InvalidArgumentError("key: scrypt parameters out of bounds");
  }
  const ScryptParameters parameters = {
      .n = static_cast<uint64_t>(n), .r = static_cast<uint32_t>(r), .p = static_cast<uint32_t>(p)};
  RETURN_IF_ERROR(CheckScrypt(parameters));
  return parameters;
}

absl::StatusOr<SealKey> DeriveKey(absl::string_view password, absl::string_view salt,
                                  const ScryptParameters& parameters) {
  std::array<uint8_t, 64> derived;
  RETURN_IF_ERROR(DeriveScrypt(password, AsBytes(salt), parameters, kScryptMemoryBytesMax * 2,
                               absl::MakeSpan(derived)));
  SealKey key;
  std::copy_n(derived.begin(), 32, key.encrypt.begin());
  std::copy_n(derived.begin() + 32, 16, key.mac_k.begin());
  std::copy_n(derived.begin() + 48, 16, key.mac_r.begin());
  return key;
}

std::string EncodeMasterKey(const SealKey& key) {
  return absl::StrCat("{\"mac\":{\"k\":\"", absl::Base64Escape(AsText(key.mac_k)), "\",\"r\":\"",
                      absl::Base64Escape(AsText(key.mac_r)), "\"},\"encrypt\":\"",
                      absl::Base64Escape(AsText(key.encrypt)), "\"}");
}

absl::StatusOr<SealKey> DecodeMasterKey(absl::string_view text) {
  ASSIGN_OR_RETURN(const Json json, ParseJsonObject(text));
  ASSIGN_OR_RETURN(const std::string k, Base64Member(json, {"mac", "k"}, "mac.k"));
  ASSIGN_OR_RETURN(const std::string r, Base64Member(json, {"mac", "r"}, "mac.r"));
  ASSIGN_OR_RETURN(const std::string encrypt, Base64Member(json, {"encrypt"}, "encrypt"));
  SealKey key;
  RETURN_IF_ERROR(CopyExactly(k, key.mac_k));
  RETURN_IF_ERROR(CopyExactly(r, key.mac_r));
  RETURN_IF_ERROR(CopyExactly(encrypt, key.encrypt));
  return key;
}

}  // namespace

ScryptCost CostOf(const ScryptParameters& parameters) {
  const auto [n, r, p] = parameters;
  return {.memory_bytes = static_cast<int64_t>(128 * uint64_t{r} * (n + p + 2)), .work = n * r * p};
}

absl::StatusOr<KeyFile> DecodeKeyFile(absl::string_view json_text) {
  ASSIGN_OR_RETURN(const Json json, ParseJsonObject(json_text));
  KeyFile file;
  ASSIGN_OR_RETURN(file.scrypt, DecodeScrypt(json));
  ASSIGN_OR_RETURN(file.salt, Base64Member(json, {"salt"}, "salt"));
  ASSIGN_OR_RETURN(file.data, Base64Member(json, {"data"}, "data"));
  if (file.salt.size() != kKeySaltBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("key: the salt has ", file.salt.size(), " bytes, not ", kKeySaltBytes));
  }
  if (file.data.size() > kKeyDataBytesMax) {
    return absl::InvalidArgumentError("key: too long for a sealed master key");
  }
  file.username = GetString(json, {"username"});
  file.hostname = GetString(json, {"hostname"});
  if (const auto created = ParseRfc3339(GetString(json, {"created"})); created.has_value()) {
    file.created = *created;  // For people only.
  }
  return file;
}

std::string EncodeKeyFile(const KeyFile& file) {
  return absl::StrCat(
      "{\"created\":\"", FormatRfc3339(file.created), "\",\"username\":", JsonText(file.username),
      ",\"hostname\":", JsonText(file.hostname), ",\"kdf\":\"scrypt\",\"N\":", file.scrypt.n,
      ",\"r\":", file.scrypt.r, ",\"p\":", file.scrypt.p, ",\"salt\":\"",
      absl::Base64Escape(file.salt), "\",\"data\":\"", absl::Base64Escape(file.data), "\"}");
}

SealKey MakeMasterKey(SecureRandom& random) {
  SealKey key;
  random.Fill(absl::MakeSpan(key.encrypt));
  random.Fill(absl::MakeSpan(key.mac_k));
  random.Fill(absl::MakeSpan(key.mac_r));
  return key;
}

absl::StatusOr<KeyFile> WrapMasterKey(const SealKey& master, absl::string_view password,
                                      const KeyOwner& owner, absl::Time created,
                                      const ScryptParameters& scrypt, SecureRandom& random) {
  RETURN_IF_ERROR(CheckScrypt(scrypt));
  KeyFile file = {.created = created,
                  .username = owner.username,
                  .hostname = owner.hostname,
                  .scrypt = scrypt,
                  .salt = std::string(kKeySaltBytes, '\0'),
                  .data = ""};
  random.Fill({reinterpret_cast<uint8_t*>(file.salt.data()), file.salt.size()});
  ASSIGN_OR_RETURN(const SealKey derived, DeriveKey(password, file.salt, file.scrypt));
  file.data = Sealer(derived, random).Seal(EncodeMasterKey(master));
  return file;
}

absl::StatusOr<SealKey> UnwrapMasterKey(const KeyFile& file, absl::string_view password,
                                        SecureRandom& random) {
  RETURN_IF_ERROR(CheckScrypt(file.scrypt));
  ASSIGN_OR_RETURN(const SealKey derived, DeriveKey(password, file.salt, file.scrypt));
  const absl::StatusOr<std::string> text = Sealer(derived, random).Open(file.data);
  if (!text.ok()) {
    return absl::UnauthenticatedError("wrong password");
  }
  return DecodeMasterKey(*text);
}

}  // namespace csidelta::repository
