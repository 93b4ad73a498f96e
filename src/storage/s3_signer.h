#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/secret.h"

namespace csidelta::storage {

using HeaderList = std::vector<std::pair<std::string, std::string>>;

struct Credentials {
  std::string access_key_id;
  Secret secret_access_key;
  Secret session_token;                            // empty unless they are temporary
  absl::Time expires_at = absl::InfiniteFuture();  // not used by the signer
  std::string source = {};                         // for messages: "the environment (...)"
};

// A request as it goes over the wire.
struct RequestToSign {
  std::string method;
  std::string target;      // percent-encoded path, perhaps "?" and percent-encoded query
  HeaderList headers;      // all that are to be signed, Host among them
  std::string sha256_hex;  // of the body
};

struct SigningScope {
  absl::Time time;
  std::string region;
  std::string service;  // "s3"
};

// AWS Signature Version 4: the headers to add to the request, which are X-Amz-Date, for temporary
// credentials X-Amz-Security-Token, and Authorization. The path is signed as it stands in `target`,
// which is what S3 wants of paths encoded once; "." and ".." are not taken out of it. The caller
// adds X-Amz-Content-Sha256 before, where the service wants it. Pure.
HeaderList SignRequest(const RequestToSign& request, const Credentials& credentials,
                       const SigningScope& scope);

// The text whose hash is signed; exposed for tests, where a mismatch must say why. `headers` in any
// order, lower-case names not needed.
std::string CanonicalRequest(const RequestToSign& request);

}  // namespace csidelta::storage
