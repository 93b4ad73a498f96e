#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/random.h"
#include "net/http_client.h"
#include "net/proxy.h"
#include "net/url.h"
#include "storage/azure_object_store.h"
#include "storage/credentials.h"
#include "storage/google_object_store.h"
#include "storage/limited_object_store.h"
#include "storage/metered_object_store.h"
#include "storage/object_store.h"
#include "storage/retrying_object_store.h"
#include "storage/s3_object_store.h"

namespace csidelta::storage {

// Where a repository is, as a person writes it.
struct Location {
  enum class Kind { kDirectory, kS3, kAzure, kGoogle };

  Kind kind = Kind::kDirectory;
  std::string directory = {};  // of kDirectory
  net::Url endpoint = {};      // of kS3
  // Of kS3, kAzure (its container) and kGoogle.
  std::string bucket = {};
  std::string prefix = {};  // "" or ending in "/"
};

// Understands restic's forms: PATH, local:PATH, s3:https://HOST[:PORT]/BUCKET[/PREFIX], the same
// with http, s3://HOST/BUCKET[/PREFIX] and s3:HOST/BUCKET[/PREFIX], which mean https,
// azure:CONTAINER:/[PREFIX] and gs:BUCKET:/[PREFIX].
// INVALID_ARGUMENT with what is wrong otherwise; the message does not repeat a password. Pure.
absl::StatusOr<Location> ParseLocation(absl::string_view text);

enum class BucketStyle { kAuto, kPath, kVirtualHost };

// How to talk to the place.
struct StoreSettings {
  CredentialsEnvironment environment;
  net::TlsOptions tls;
  net::TlsOptions sts_tls;  // STS and Entra ID are not behind the bucket's own certificates.
  net::ProxySettings proxy;
  // The request options of S3Options; its place is the Location's, its region and style are set by
  // what follows.
  S3Options s3;
  GoogleEnvironment google_environment;
  GoogleOptions google;  // The same of a bucket of Google.
  std::string region;    // "": the environment's, else that in an AWS host name, else us-east-1
  BucketStyle style = BucketStyle::kAuto;  // kAuto: virtual hosts for AWS, paths for all others
  AzureEnvironment azure_environment;
  AzureOptions azure;  // its container and prefix are the Location's
  StoreLimits limits;
  RetryOptions retry;
  bool read_only = false;
};

// A store with all its decorators: limits around retries around counts around the place itself. A
// call that waits for its turn does not use up the time that its retries have.
class OpenedStore {
 public:
  virtual ~OpenedStore() = default;
  virtual ObjectStore& store() = 0;
  virtual const StoreMeter& meter() const = 0;
};

// INVALID_ARGUMENT when location and settings do not go together. No I/O: whether the place is
// there, and lets us in, shows at the first call. `random` is borrowed.
absl::StatusOr<std::unique_ptr<OpenedStore>> OpenStore(const Location& location,
                                                       const StoreSettings& settings,
                                                       Random& random);

// The region in the name of an AWS endpoint ("s3.eu-west-1.amazonaws.com"), or "". Pure.
std::string RegionOfHost(absl::string_view host);

}  // namespace csidelta::storage
