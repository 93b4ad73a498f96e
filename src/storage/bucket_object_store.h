#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/secret.h"
#include "base/status_macros.h"
#include "net/http_client.h"
#include "storage/metered_object_store.h"
#include "storage/object_store.h"
#include "storage/renewed.h"
#include "storage/s3_signer.h"
#include "storage/s3_xml.h"

namespace csidelta::storage {

// A kubelet takes a minute or two to show a Pod a Secret that was changed.
inline constexpr absl::Duration kNewCredentialsTimeMax = absl::Minutes(3);

inline constexpr int64_t kErrorBytesMax = int64_t{64} << 10;  // of an answer that is no object

// What storage classes and tiers are for; what lies elsewhere is small, and read in each run.
inline constexpr char kPacksPrefix[] = "data/";

// What HttpClient should do for a bucket: bodies of a whole pack, and no waiting for a dead server.
net::HttpLimits BucketHttpLimits();

// One request to a bucket, before it is signed.
struct BucketCall {
  std::string what;  // Begins each error: "get KEY".
  std::string method;
  std::string key = {};      // "" for the bucket itself
  std::string query = {};    // percent-encoded
  HeaderList headers = {};   // of a read: it asks for a part of an object
  bool is_retained = false;  // Asks for the object lock of the options.
  // Text before and behind the body, where a dialect wants an envelope.
  std::string body_head = {};
  absl::string_view body = {};
  std::string body_end = {};
  std::string sha256_hex = {};  // of the body
  bool is_part = false;         // of the body of another request
  int64_t answer_bytes_max = 0;
};

// What all buckets behind HTTP share: one request after another is signed, sent and judged; reads,
// listings and deletions are the same but for their form. A class for each dialect says how a
// request looks, and what a refusal means.
//
// When the server says that our clock is wrong, its Date is believed from then on; when it calls
// the credentials expired, they are fetched again; the request is sent again once for each. When
// it refuses credentials after it had let us in, they are waited for to be exchanged where they
// lie, for at most kNewCredentialsTimeMax: who rotates keys does not do it everywhere at once. A
// refused signature is made again with the same keys first, and a host that is not found is looked
// for a few times; once it had let us in, that it is not found is UNAVAILABLE. A redirect is
// followed where the dialect knows how.
//
// S3's DeleteObjects and Azure's Blob Batch delete many objects. A server that refuses them, or
// whose answer cannot be understood, gets a request for each object from then on.
//
// Borrows `http`, `credentials` and `meter`, which is told of every request after a call's first.
class BucketObjectStore : public ObjectStore {
 public:
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
    return ListPages(ctx, {.prefix = prefix, .after = after}, sink);
  }
  absl::Status ListFolder(const CallContext& ctx, const std::string& prefix,
                          ObjectSink sink) override {
    return ListPages(ctx, {.prefix = prefix, .is_deep = false}, sink);
  }
  absl::Status Delete(const CallContext& ctx, const std::string& key) override;
  DeletionLimits deletion_limits() const override { return {.requests_in_flight_max = 64}; }

 protected:
  // Why an answer is no success, as far as another request may help. The last three refuse the
  // credentials.
  enum class Refusal { kOther, kClock, kSignature, kExpired, kCredentials };

  struct SignedRequest {
    net::HttpRequest http;
    Secret credential;  // Tells one credential from another.
  };

  // A page of a listing. Prefix and `after` are keys.
  struct PageRequest {
    std::string prefix;
    std::string after = {};  // "": from the beginning
    bool is_deep = true;     // Else only what lies directly below the prefix.
    std::string token = {};  // of the page before; "": the first one
  };

  // `prefix`: "", or what stands before every key, with "/" behind.
  BucketObjectStore(std::string prefix, net::HttpClient& http, RenewableCredentials& credentials,
                    StoreMeter& meter)
      : prefix_(std::move(prefix)), http_(http), credentials_(credentials), meter_(meter) {}

  // `time` is the server's, as far as known.
  virtual absl::StatusOr<SignedRequest> Sign(const CallContext& ctx, const BucketCall& call,
                                             absl::Time time) = 0;
  virtual Refusal ReadRefusal(const net::HttpResponse& response) const = 0;
  // Whether a refusal (3xx, 4xx) said where the bucket is, and requests go there from now on.
  virtual bool Follow(const net::HttpResponse& /*response*/) { return false; }
  // The error for an answer that is no success, without `call.what`.
  virtual absl::Status ReadFailure(const net::HttpResponse& response,
                                   const BucketCall& call) const = 0;
  // Method, query and limit of the answer; may ignore `after`.
  virtual BucketCall PageCall(const PageRequest& page) const = 0;
  // Keys as they stand in the bucket.
  virtual absl::StatusOr<ListPage> ParsePage(const std::string& body) const = 0;
  // What a GET of an object's bytes asks for.
  virtual std::string DownloadQuery() const { return ""; }
  // DATA_LOSS when the bytes of a whole object are others than the answer promises.
  virtual absl::Status CheckWhole(const net::HttpResponse& /*response*/) const {
    return absl::OkStatus();
  }

  // Send() of a batch. A refusal that is not transient ends batches.
  absl::StatusOr<net::HttpResponse> SendBatch(const CallContext& ctx, const BucketCall& call);
  // No batch is sent any more, because of `why`. UNIMPLEMENTED: this one tells of no key.
  absl::Status EndBatches(const absl::Status& why);
  bool takes_batches() const { return takes_batches_; }
  // The statuses of a batch of so many keys before its answer is read.
  static std::vector<absl::Status> Untold(std::size_t keys) {
    return {keys, absl::UnimplementedError("the answer does not say that it was deleted")};
  }
  // Notes what an answer says about a key. If it says two things, the worse one counts.
  static void Tell(absl::Status status, absl::Status& told) {
    const bool is_gone = status.ok() || absl::IsNotFound(status);
    if (!is_gone || absl::IsUnimplemented(told)) {
      told = is_gone ? absl::OkStatus() : std::move(status);
    }
  }

  // Any answer that is neither a wrong clock nor refused credentials, when that could be helped.
  absl::StatusOr<net::HttpResponse> Send(const CallContext& ctx, const BucketCall& call) {
    return Annotate(Answer(ctx, call), call.what);
  }
  // ReadFailure(), with the pause that the server requests by Retry-After.
  absl::Status Failure(const net::HttpResponse& response, const BucketCall& call) const;
  // Tells the meter of a request that its call needs besides its first.
  void CountFurther(const BucketCall& call);
  // Takes off a key what stands before it in the bucket.
  absl::Status CutRoot(absl::string_view what, absl::string_view prefix, std::string& key) const;

  const std::string& prefix() const { return prefix_; }
  bool was_let_in() const { return was_let_in_; }
  absl::Time ServerTime(const CallContext& ctx) const {
    return ctx.clock->Now() + absl::Seconds(clock_skew_seconds_.load());
  }

 private:
  absl::Status ListPages(const CallContext& ctx, PageRequest page, ObjectSink sink);
  absl::Status PassOn(ListPage& found, const PageRequest& page, absl::string_view what,
                      ObjectSink sink) const;
  absl::StatusOr<int64_t> SizeByGet(const CallContext& ctx, const std::string& key);
  absl::StatusOr<net::HttpResponse> Answer(const CallContext& ctx, const BucketCall& call);
  bool Correct(const CallContext& ctx, const net::HttpResponse& response, Refusal refusal,
               absl::Time signed_at);
  bool AwaitOthers(const CallContext& ctx, const BucketCall& call, const Secret& refused,
                   absl::Duration latest);

  const std::string prefix_;
  net::HttpClient& http_;
  RenewableCredentials& credentials_;
  StoreMeter& meter_;
  std::atomic<int64_t> clock_skew_seconds_ =
      0;  // The server's clock is ahead of the local one by so much.
  std::atomic<bool> was_let_in_ = false;  // with whichever credentials
  std::atomic<bool> takes_batches_ = true;
};

// Whether the status is a success of HTTP.
inline bool IsSuccess(const net::HttpResponse& response) { return response.status / 100 == 2; }

// Each segment of a path, percent-encoded.
std::string EncodePath(absl::string_view path);

}  // namespace csidelta::storage
