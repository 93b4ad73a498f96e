#include "storage/s3_signer.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/crypto.h"

namespace csidelta::storage {
namespace {

constexpr char kAlgorithm[] = "AWS4-HMAC-SHA256";

// By name: the order of whole lines would put "a-b" before "a". Values of one name keep theirs.
using SortedHeaders = std::map<std::string, std::vector<std::string>>;

SortedHeaders Sort(const HeaderList& headers) {
  SortedHeaders sorted;
  for (const auto& [name, value] : headers) {
    std::string trimmed = value;
    absl::RemoveExtraAsciiWhitespace(&trimmed);
    sorted[absl::AsciiStrToLower(name)].push_back(std::move(trimmed));
  }
  return sorted;
}

std::string SignedNames(const SortedHeaders& headers) {
  return absl::StrJoin(headers, ";",
                       [](std::string* out, const auto& header) { out->append(header.first); });
}

std::string CanonicalQuery(absl::string_view query) {
  if (query.empty()) {
    return "";
  }
  // Sorted by name, then by value, which the order of the texts is not: "=" stands behind digits.
  std::vector<std::pair<std::string, std::string>> parts;
  for (const absl::string_view part : absl::StrSplit(query, '&')) {
    std::pair<std::string, std::string> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    parts.push_back(std::move(pair));
  }
  std::sort(parts.begin(), parts.end());
  return absl::StrJoin(parts, "&", absl::PairFormatter("="));
}

std::string ScopeText(const SigningScope& scope, absl::string_view day) {
  return absl::StrCat(day, "/", scope.region, "/", scope.service, "/aws4_request");
}

Sha256Digest SigningKey(const Secret& secret, const SigningScope& scope, absl::string_view day) {
  Sha256Digest key = HmacSha256(absl::StrCat("AWS4", secret.Reveal()), day);
  key = HmacSha256(AsBytes(key), scope.region);
  key = HmacSha256(AsBytes(key), scope.service);
  return HmacSha256(AsBytes(key), "aws4_request");
}

}  // namespace

std::string CanonicalRequest(const RequestToSign& request) {
  const SortedHeaders headers = Sort(request.headers);
  const std::pair<absl::string_view, absl::string_view> target =
      absl::StrSplit(request.target, absl::MaxSplits('?', 1));
  std::string lines;
  for (const auto& [name, values] : headers) {
    absl::StrAppend(&lines, name, ":", absl::StrJoin(values, ","), "\n");
  }
  return absl::StrCat(request.method, "\n", target.first, "\n", CanonicalQuery(target.second), "\n",
                      lines, "\n", SignedNames(headers), "\n", request.sha256_hex);
}

HeaderList SignRequest(const RequestToSign& request, const Credentials& credentials,
                       const SigningScope& scope) {
  const std::string time = absl::FormatTime("%Y%m%d%ET%H%M%SZ", scope.time, absl::UTCTimeZone());
  const std::string day = time.substr(0, 8);
  HeaderList added = {{"x-amz-date", time}};
  if (!credentials.session_token.empty()) {
    added.emplace_back("x-amz-security-token", credentials.session_token.Reveal());
  }
  RequestToSign whole = request;
  whole.headers.insert(whole.headers.end(), added.begin(), added.end());
  const std::string text = absl::StrCat(kAlgorithm, "\n", time, "\n", ScopeText(scope, day), "\n",
                                        Sha256Hex(CanonicalRequest(whole)));
  const Sha256Digest signature =
      HmacSha256(AsBytes(SigningKey(credentials.secret_access_key, scope, day)), text);
  added.emplace_back(
      "authorization",
      absl::StrCat(kAlgorithm, " Credential=", credentials.access_key_id, "/",
                   ScopeText(scope, day), ", SignedHeaders=", SignedNames(Sort(whole.headers)),
                   ", Signature=", absl::BytesToHexString(AsBytes(signature))));
  return added;
}

}  // namespace csidelta::storage
