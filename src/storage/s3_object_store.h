#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "net/url.h"
#include "storage/bucket_object_store.h"
#include "storage/credentials.h"

namespace csidelta::storage {

struct S3Options {
  net::Url endpoint = {};  // scheme, host and port; its target does not count
  std::string bucket = {};
  std::string prefix = {};  // "", or what stands before every key, with "/" behind
  std::string region = "us-east-1";
  // https://host/bucket/key; else https://bucket.host/key.
  bool path_style = true;
  std::string storage_class = {};           // of packs: "STANDARD_IA"; "": the bucket's own
  std::string server_side_encryption = {};  // "AES256", "aws:kms"; "": the bucket's own
  std::string kms_key_id = {};
  std::string tagging = {};  // of every object, "KEY=VALUE&KEY=VALUE", percent-encoded
  // "GOVERNANCE" or "COMPLIANCE": every object is locked for so long from its Put(), but for those
  // below the exempt prefixes (relative to `prefix`), which must stay deletable.
  std::string object_lock_mode = {};
  absl::Duration object_lock_duration = absl::ZeroDuration();
  std::vector<std::string> object_lock_exempt_prefixes = {};
  bool sends_checksum = true;   // else Content-MD5 in its place
  int page_objects_max = 1000;  // of a listing
};

// Objects in a bucket, over S3's REST dialect: one PUT per object, no multipart; every request
// signed with Signature V4, its payload's SHA-256 included, which is also stored with the object as
// x-amz-checksum-sha256. Verified against the bytes by the server; a mismatch is DATA_LOSS. A
// server that refuses that header, as Backblaze B2 did, gets Content-MD5 (RFC 1864) in its place.
// An answer that names neither checksum nor ETag proves nothing: the object is looked up.
//
// Credentials, clock and hosts: see BucketObjectStore. A bucket of another region is moved to once,
// when the server names the region, and the host names none or the one that it is moved from; else
// it is FAILED_PRECONDITION. Servers that know only the first form of listings are listed by it. A
// server that refuses If-None-Match makes if_absent UNIMPLEMENTED; one that overlooks it cannot be
// told from one that heeds it.
class S3ObjectStore : public BucketObjectStore {
 public:
  S3ObjectStore(S3Options options, net::HttpClient& http, CredentialsProvider& credentials,
                StoreMeter& meter);

  absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                   const PutOptions& options) override;
  // An error of an archived object has the number of archived ones beside it.
  absl::StatusOr<std::string> Get(const CallContext& ctx, const std::string& key,
                                  int64_t size_bytes_max) override;
  absl::StatusOr<std::string> GetRange(const CallContext& ctx, const std::string& key,
                                       ByteRange range) override;
  absl::Status Delete(const CallContext& ctx, const std::string& key) override;
  absl::StatusOr<std::vector<absl::Status>> DeleteBatch(
      const CallContext& ctx, absl::Span<const std::string> keys) override;
  DeletionLimits deletion_limits() const override;
  absl::StatusOr<Retention> GetRetention(const CallContext& ctx, const std::string& key,
                                         const std::string& version) override;
  absl::Status SetRetention(const CallContext& ctx, const std::string& key,
                            const std::string& version, const Retention& retention) override;
  absl::StatusOr<VersionPage> ListVersions(const CallContext& ctx, const std::string& prefix,
                                           const VersionCursor& from) override;
  absl::Status RestoreVersion(const CallContext& ctx, const std::string& key,
                              const std::string& version) override;
  absl::Status DeleteVersion(const CallContext& ctx, const std::string& key,
                             const std::string& version) override;
  absl::StatusOr<std::string> GetBucketDocument(const CallContext& ctx,
                                                BucketDocument document) override;
  std::string Describe() const override;

 private:
  absl::StatusOr<SignedRequest> Sign(const CallContext& ctx, const BucketCall& call,
                                     absl::Time time) override;
  Refusal ReadRefusal(const net::HttpResponse& response) const override;
  absl::Status ReadFailure(const net::HttpResponse& response,
                           const BucketCall& call) const override;
  absl::Status Explain(const net::HttpResponse& response, const S3Error& error) const;
  bool Follow(const net::HttpResponse& response) override;
  BucketCall PageCall(const PageRequest& page) const override;
  absl::StatusOr<ListPage> ParsePage(const std::string& body) const override;
  // Send(), with the checksum of the body until the server has refused its header.
  absl::StatusOr<net::HttpResponse> SendWithChecksum(const CallContext& ctx, BucketCall call);
  // Whether the object has these bytes, as far as a look tells; UNAVAILABLE when it has not.
  absl::Status ProveStored(const CallContext& ctx, const std::string& key, absl::string_view bytes);
  absl::Status CountArchived(const CallContext& ctx, const absl::Status& status);
  std::string LocationAt(const net::Url& endpoint) const;
  std::string WhereItLeads(const net::HttpResponse& response) const;
  // An answer that is not a success is an error.
  absl::StatusOr<net::HttpResponse> Succeed(const CallContext& ctx, const BucketCall& call);
  HeaderList PutHeaders(const std::string& key, const PutOptions& options) const;
  bool IsRetained(const std::string& key) const;

  // Where requests go, and with whose keys.
  struct Way {
    net::Url endpoint;
    std::string region;
    bool is_moved = false;       // not the one of the options
    std::string keys_from = {};  // Credentials::source
  };
  Way way() const {
    const MutexLock lock(mutex_);
    return way_;
  }

  const S3Options options_;
  CredentialsProvider& credentials_;
  std::atomic<bool> checksum_refused_;
  mutable std::atomic<bool> lists_by_marker_ = false;  // The server knows the first form alone.
  mutable Mutex mutex_;
  Way way_ ABSL_GUARDED_BY(mutex_);
  std::string archived_ ABSL_GUARDED_BY(mutex_);  // What CountArchived() found; "": not looked yet.
};

}  // namespace csidelta::storage
