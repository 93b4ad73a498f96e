#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "storage/location.h"
#include "tests/support/fake_bucket_server.h"

namespace csidelta::support {

enum class Dialect { kS3, kAzure, kGoogle };
inline constexpr Dialect kDialects[] = {Dialect::kS3, Dialect::kAzure, Dialect::kGoogle};
inline const char* DialectName(Dialect dialect) {
  return dialect == Dialect::kS3 ? "S3" : dialect == Dialect::kAzure ? "Azure" : "Google";
}

struct BucketBedOptions {
  std::string prefix = {};
  bool tls = false;
  // Of Google: whether a request with this token is let in.
  std::function<bool(const std::string& token)> accepts = [](const std::string& token) {
    return token.empty();
  };
};

// The fake of a bucket's service, and where the product finds it. The settings sign in by keys that
// do not end, and send Google nothing, as to an emulator.
struct BucketBed {
  BucketBed(Dialect dialect, const Clock& clock, const BucketBedOptions& options = {});

  absl::StatusOr<std::unique_ptr<storage::OpenedStore>> Open() const;

  std::unique_ptr<FakeBucketServer> server;
  storage::Location location;
  storage::StoreSettings settings;
};

// An error as such a service writes it: "CODE", or "CODE: message".
std::string ErrorOf(Dialect dialect, absl::string_view error);

}  // namespace csidelta::support
