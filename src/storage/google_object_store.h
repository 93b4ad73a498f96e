#pragma once

#include <string>

#include "net/url.h"
#include "storage/bucket_object_store.h"
#include "storage/google_credentials.h"

namespace csidelta::storage {

struct GoogleOptions {
  net::Url endpoint = {};         // scheme, host and port; its target does not count
  std::string endpoint_url = {};  // as it was given; "": Google's own
  std::string bucket = {};
  std::string prefix = {};           // "", or what stands before every key, with "/" behind
  std::string storage_class = {};    // of data packs; "": the bucket's own
  std::string kms_key_name = {};     // "projects/P/locations/L/keyRings/R/cryptoKeys/K"
  std::string service_account = {};  // to impersonate; "": none
  int page_objects_max = 1000;       // of a listing
};

// INVALID_ARGUMENT when a text is not what it should be; sets `endpoint`, which is the emulator's
// when `emulator_host` is not "". Pure.
absl::Status CompleteGoogleOptions(const std::string& emulator_host, GoogleOptions& options);

// Objects in a bucket of Google Cloud Storage, over its JSON API: one POST per object, a multipart
// upload whose metadata carry the CRC32C of the bytes. The server shows the object only when they
// agree; the answer and each download of a whole object are compared as well. Classes are for data
// packs alone: everything else is read in each run. Every class, ARCHIVE too, is readable at once.
//
// Credentials and hosts: see BucketObjectStore and GoogleCredentials. Retentions, versions and
// documents of the bucket are not supported yet.
// Source: docs.cloud.google.com/storage/docs/json_api/v1/objects.
class GoogleObjectStore : public BucketObjectStore {
 public:
  GoogleObjectStore(GoogleOptions options, net::HttpClient& http, GoogleCredentials& credentials,
                    StoreMeter& meter);

  absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                   const PutOptions& options) override;
  absl::StatusOr<ObjectInfo> Stat(const CallContext& ctx, const std::string& key) override;
  std::string Describe() const override;

 private:
  absl::StatusOr<SignedRequest> Sign(const CallContext& ctx, const BucketCall& call,
                                     absl::Time time) override;
  Refusal ReadRefusal(const net::HttpResponse& response) const override;
  absl::Status ReadFailure(const net::HttpResponse& response,
                           const BucketCall& call) const override;
  BucketCall PageCall(const PageRequest& page) const override;
  absl::StatusOr<ListPage> ParsePage(const std::string& body) const override;
  std::string DownloadQuery() const override { return "alt=media"; }
  absl::Status CheckWhole(const net::HttpResponse& response) const override;

  const GoogleOptions options_;
  GoogleCredentials& credentials_;
};

}  // namespace csidelta::storage
