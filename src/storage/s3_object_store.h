#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "net/http_client.h"
#include "net/url.h"
#include "storage/credentials.h"
#include "storage/metered_object_store.h"
#include "storage/object_store.h"

namespace csidelta::storage {

// Storage classes of objects that cannot be read until the bucket has restored them.
inline constexpr absl::string_view kArchiveClasses[] = {"GLACIER", "DEEP_ARCHIVE"};

struct S3Options {
  net::Url endpoint = {};  // scheme, host and port; its target does not count
  std::string bucket = {};
  std::string prefix = {};  // "", or what stands before every key, with "/" behind
  std::string region = "us-east-1";
  // https://host/bucket/key; else https://bucket.host/key.
  bool path_style = true;
  std::string storage_class = {};           // "STANDARD_IA"; "": the bucket's own
  std::string server_side_encryption = {};  // "AES256", "aws:kms"; "": the bucket's own
  std::string kms_key_id = {};
  std::string tagging = {};  // of every object, "KEY=VALUE&KEY=VALUE", percent-encoded
  // "GOVERNANCE" or "COMPLIANCE": every object is locked for so long from its Put(), but for those
  // below the exempt prefixes (relative to `prefix`), which must stay deletable.
  std::string object_lock_mode = {};
  absl::Duration object_lock_duration = absl::ZeroDuration();
  std::vector<std::string> object_lock_exempt_prefixes = {};
  int page_objects_max = 1000;  // of a listing
};

// A kubelet takes a minute or two to show a Pod a Secret that was changed.
inline constexpr absl::Duration kNewCredentialsTimeMax = absl::Minutes(3);

// What HttpClient should do for S3: bodies of a whole pack, and no waiting for a dead server.
net::HttpLimits S3HttpLimits();

// Objects in a bucket, over S3's REST dialect: one PUT per object, no multipart; every request
// signed with Signature V4, its payload's SHA-256 included, which is also stored with the object as
// x-amz-checksum-sha256. Verified against the bytes by the server; a mismatch is DATA_LOSS. A
// server that refuses that header, as Backblaze B2 did, verifies the signed one alone.
//
// Redirects are not followed: a bucket of another region is FAILED_PRECONDITION, naming the region.
// When the server says that our clock is wrong, its Date is believed from then on; when it calls
// the credentials expired, they are fetched again; the request is sent again once for each. When
// it refuses credentials after it had let us in, they are waited for to be exchanged where they
// lie, for at most kNewCredentialsTimeMax: who rotates keys does not do it everywhere at once. A
// refused signature is made again with the same keys first, and a host that is not found is looked
// for a few times; once it had let us in, that it is not found is UNAVAILABLE. A
// server that refuses If-None-Match makes if_absent UNIMPLEMENTED; one that overlooks it cannot be
// told from one that heeds it.
//
// Borrows `http`, `credentials` and `meter`, which is told of the pages of a listing after the
// first.
class S3ObjectStore : public ObjectStore {
 public:
  S3ObjectStore(S3Options options, net::HttpClient& http, CredentialsProvider& credentials,
                StoreMeter& meter);

  absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                   const PutOptions& options) override;
  absl::StatusOr<std::string> Get(const CallContext& ctx, const std::string& key,
                                  int64_t size_bytes_max) override;
  absl::StatusOr<std::string> GetRange(const CallContext& ctx, const std::string& key,
                                       ByteRange range) override;
  absl::StatusOr<ObjectInfo> Stat(const CallContext& ctx, const std::string& key) override;
  absl::Status List(const CallContext& ctx, const std::string& prefix, ObjectSink sink) override {
    return ListAfter(ctx, prefix, "", sink);
  }
  absl::Status ListAfter(const CallContext& ctx, const std::string& prefix,
                         const std::string& after, ObjectSink sink) override {
    return ListPages(ctx, prefix, after, /*is_deep=*/true, sink);
  }
  absl::Status ListFolder(const CallContext& ctx, const std::string& prefix,
                          ObjectSink sink) override {
    return ListPages(ctx, prefix, "", /*is_deep=*/false, sink);
  }
  absl::Status Delete(const CallContext& ctx, const std::string& key) override;
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
  // One request, before it is signed.
  struct Call {
    std::string what;  // Begins each error: "get KEY".
    std::string method;
    std::string key = {};      // "" for the bucket itself
    std::string query = {};    // percent-encoded
    HeaderList headers = {};   // of a read: it asks for a part of an object
    bool is_retained = false;  // Asks for the object lock of the options.
    absl::string_view body = {};
    std::string sha256_hex = {};  // of the body
    int64_t answer_bytes_max = 0;
  };

  absl::Status ListPages(const CallContext& ctx, const std::string& prefix,
                         const std::string& after, bool is_deep, ObjectSink sink);
  net::HttpRequest Sign(const Call& call, const Credentials& credentials, absl::Time time) const;
  // Any answer that is neither a wrong clock nor refused credentials, when that could be helped.
  absl::StatusOr<net::HttpResponse> Answer(const CallContext& ctx, const Call& call);
  absl::StatusOr<net::HttpResponse> Send(const CallContext& ctx, const Call& call) {
    return Annotate(Answer(ctx, call), call.what);
  }
  // Send(), with the checksum of the body until the server has refused its header.
  absl::StatusOr<net::HttpResponse> SendWithChecksum(const CallContext& ctx, Call call);
  // An answer that is not a success is an error.
  absl::StatusOr<net::HttpResponse> Succeed(const CallContext& ctx, const Call& call);
  bool Correct(const CallContext& ctx, const net::HttpResponse& response);
  bool AwaitOthers(const CallContext& ctx, const Credentials& refused);
  absl::Status Failure(const net::HttpResponse& response, const Call& call) const;
  HeaderList PutHeaders(const PutOptions& options) const;
  bool IsRetained(const std::string& key) const;

  const S3Options options_;
  net::HttpClient& http_;
  CredentialsProvider& credentials_;
  StoreMeter& meter_;
  std::atomic<int64_t> clock_skew_seconds_ =
      0;  // The server's clock is ahead of the local one by so much.
  std::atomic<bool> was_let_in_ = false;  // with whichever credentials
  std::atomic<bool> checksum_refused_ = false;
};

}  // namespace csidelta::storage
