#include "storage/s3_object_store.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/crypto.h"
#include "base/rfc3339.h"
#include "storage/object_rules.h"
#include "storage/s3_errors.h"
#include "storage/s3_xml.h"

namespace csidelta::storage {
namespace {

constexpr char kEmptySha256[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr char kChecksumHeader[] = "x-amz-checksum-sha256";
constexpr int64_t kErrorBytesMax = int64_t{64} << 10;
constexpr int64_t kListPagesMax = 65'536;  // Of 1000 objects each: an exbibyte of packs.
constexpr int64_t kEmptyPagesMax = 1000;   // In a row; a server may need some to find the next key.
// A clock that differs by more is what a refusal without a reason may come from.
constexpr absl::Duration kSkewMin = absl::Minutes(5);
constexpr absl::Duration kLookForCredentialsAgain = absl::Seconds(5);
constexpr int kLooksForHostMax = 4;  // of a server that was never reached
constexpr int kSameKeysMax = 3;      // requests with keys that were good until now
constexpr absl::Duration kBeforeAnotherRequest = absl::Seconds(1);

std::string EncodePath(absl::string_view path) {
  return absl::StrJoin(absl::StrSplit(path, '/'), "/",
                       [](std::string* out, absl::string_view segment) {
                         out->append(net::PercentEncode(segment));
                       });
}

std::string Base64OfHex(const std::string& hex) {
  return absl::Base64Escape(absl::HexStringToBytes(hex));
}

bool IsSuccess(const net::HttpResponse& response) { return response.status / 100 == 2; }

// A page for people. Objects are put without a type, and no store calls them that; what a store has
// to say of a deletion is no HTML.
bool IsPage(const net::HttpResponse& response, absl::string_view method) {
  const absl::string_view text = absl::StripLeadingAsciiWhitespace(response.body);
  return absl::StartsWithIgnoreCase(net::Header(response, "content-type"), "text/html") ||
         (method == "DELETE" && (absl::StartsWithIgnoreCase(text, "<!doctype html") ||
                                 absl::StartsWithIgnoreCase(text, "<html")));
}

// Whether an answer to HEAD, which has no body, leaves open what is refused: a token that expired,
// a timeout, a conflict and a stray signature all look like a refusal for good. An answer to GET
// says what it is, and Send acts on that.
bool IsUntold(const net::HttpResponse& response) {
  constexpr int kTold[] = {404, 408, 425, 429};
  return response.status / 100 == 4 && !absl::c_linear_search(kTold, response.status);
}

// Whether the credentials are what is refused, and not what they are used for.
bool IsRefusal(const net::HttpResponse& response) {
  const S3Error error = ReadS3Error(response);
  return absl::IsUnauthenticated(S3Status(response, error, error.region));
}

// What HttpClient's errors mean here: NOT_FOUND is a missing host there, but an object here. A
// resolver that restarts says so of any host.
absl::Status FromTransport(const absl::Status& status, bool host_was_there) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return host_was_there ? absl::UnavailableError(status.message())
                            : absl::FailedPreconditionError(status.message());
    case absl::StatusCode::kInvalidArgument:
      return absl::FailedPreconditionError(status.message());
    case absl::StatusCode::kInternal:
      return absl::DataLossError(status.message());
    default:
      return status;
  }
}

// Whether the answer is the range that was asked for: "bytes 0-9/100".
absl::Status CheckRange(const net::HttpResponse& response, const std::string& key,
                        const ByteRange& range) {
  const int64_t end_bytes = range.offset_bytes + range.length_bytes;
  if (response.status == 200 && range.offset_bytes == 0 &&
      std::ssize(response.body) == range.length_bytes) {
    return absl::OkStatus();  // The whole object is what was asked for.
  }
  if (response.status != 206) {
    return absl::DataLossError(absl::StrCat("get ", key, ": the server does not heed ranges"));
  }
  const std::string header = net::Header(response, "content-range");
  const std::string expected = absl::StrCat("bytes ", range.offset_bytes, "-", end_bytes - 1, "/");
  if (absl::StartsWith(header, expected) && std::ssize(response.body) == range.length_bytes) {
    return absl::OkStatus();
  }
  // A range that begins inside the object and ends past it is shortened by the server.
  int64_t size_bytes = 0;
  const std::vector<std::string> parts = absl::StrSplit(header, '/');
  if (absl::SimpleAtoi(parts.back(), &size_bytes) && size_bytes >= 0 && size_bytes < end_bytes) {
    return ObjectEndsBefore(key, range, size_bytes);
  }
  return absl::DataLossError(absl::StrCat("get ", key, ": the answer is another range"));
}

// A listing, as it is asked for and passed on.
struct Listing {
  absl::string_view root;  // what stands before every key in the bucket
  absl::string_view prefix = {};
  bool is_deep = true;  // Else only what lies directly below the prefix.
  std::string what;
};

// Takes off a key what stands before it in the bucket.
absl::Status CutRoot(const Listing& listing, std::string& key) {
  absl::string_view rest = key;
  if (!absl::ConsumePrefix(&rest, listing.root) || !absl::StartsWith(rest, listing.prefix)) {
    return absl::DataLossError(
        absl::StrCat(listing.what, ": the server names objects from elsewhere"));
  }
  key.erase(0, listing.root.size());
  return absl::OkStatus();
}

// Hands what one page shows to `sink`; what has no key of csi-delta is passed over.
absl::Status PassOn(ListPage& page, const Listing& listing, ObjectSink sink) {
  for (ObjectInfo& object : page.objects) {
    RETURN_IF_ERROR(CutRoot(listing, object.key));
    if (!listing.is_deep && absl::StrContains(object.key.substr(listing.prefix.size()), "/")) {
      return absl::DataLossError(
          absl::StrCat(listing.what, ": the server does not heed the delimiter"));
    }
    RETURN_IF_ERROR(CheckKey(object.key).ok() ? sink(object) : absl::OkStatus());
  }
  for (std::string& folder : page.folders) {
    RETURN_IF_ERROR(CutRoot(listing, folder));
    absl::string_view segment = absl::string_view(folder).substr(listing.prefix.size());
    if (absl::ConsumeSuffix(&segment, "/") && IsKeySegment(segment) && CheckPrefix(folder).ok()) {
      RETURN_IF_ERROR(sink({.key = folder, .size_bytes = 0}));
    }
  }
  return absl::OkStatus();
}

}  // namespace

net::HttpLimits S3HttpLimits() {
  net::HttpLimits limits;
  limits.body_bytes_max = kXmlBytesMax;
  limits.connect_time_max = absl::Seconds(10);
  limits.silence_max = absl::Seconds(60);
  limits.silence_bytes_min = int64_t{16} << 10;
  limits.idle_connections_max = 64;
  return limits;
}

S3ObjectStore::S3ObjectStore(S3Options options, net::HttpClient& http,
                             CredentialsProvider& credentials, StoreMeter& meter)
    : options_(std::move(options)), http_(http), credentials_(credentials), meter_(meter) {}

std::string S3ObjectStore::Describe() const {
  return absl::StrCat("s3:", options_.endpoint.scheme, "://", options_.endpoint.HostHeader(), "/",
                      options_.bucket, options_.prefix.empty() ? "" : "/",
                      absl::string_view(options_.prefix)
                          .substr(0, options_.prefix.empty() ? 0 : options_.prefix.size() - 1));
}

net::HttpRequest S3ObjectStore::Sign(const Call& call, const Credentials& credentials,
                                     absl::Time time) const {
  net::HttpRequest request{.method = call.method,
                           .url = options_.endpoint,
                           .headers = call.headers,
                           .body = "",
                           .borrowed_body = call.body,
                           .answer_bytes_max = call.answer_bytes_max};
  std::string path = call.key.empty() ? "" : EncodePath(absl::StrCat(options_.prefix, call.key));
  if (options_.path_style) {
    path = absl::StrCat(net::PercentEncode(options_.bucket), "/", path);
  } else {
    request.url.host = absl::StrCat(options_.bucket, ".", options_.endpoint.host);
  }
  request.url.target = absl::StrCat("/", path, call.query.empty() ? "" : "?", call.query);
  RequestToSign to_sign{.method = call.method,
                        .target = request.url.target,
                        .headers = call.headers,
                        .sha256_hex = call.sha256_hex.empty() ? kEmptySha256 : call.sha256_hex};
  request.headers.emplace_back("x-amz-content-sha256", to_sign.sha256_hex);
  if (call.is_retained) {  // By the server's clock, so that it lies ahead.
    request.headers.emplace_back("x-amz-object-lock-mode", options_.object_lock_mode);
    request.headers.emplace_back("x-amz-object-lock-retain-until-date",
                                 FormatRfc3339Seconds(time + options_.object_lock_duration));
  }
  to_sign.headers = request.headers;
  to_sign.headers.emplace_back("host", request.url.HostHeader());
  for (auto& header : SignRequest(to_sign, credentials,
                                  {.time = time, .region = options_.region, .service = "s3"})) {
    request.headers.push_back(std::move(header));
  }
  return request;
}

// Whether the reason of a refusal could be taken away, so that the request may be sent again.
bool S3ObjectStore::Correct(const CallContext& ctx, const net::HttpResponse& response) {
  const S3Error error = ReadS3Error(response);
  const absl::Time now = ctx.clock->Now() + absl::Seconds(clock_skew_seconds_.load());
  absl::Time others;
  const bool says_time =
      absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", net::Header(response, "date"), &others, nullptr);
  const bool is_skewed =
      error.code == "RequestTimeTooSkewed" || (response.status == 403 && error.code.empty());
  if (is_skewed && says_time && absl::AbsDuration(others - now) >= kSkewMin) {
    clock_skew_seconds_ = absl::ToInt64Seconds(others - ctx.clock->Now());
    return true;
  }
  if (error.code == "ExpiredToken" || error.code == "TokenRefreshRequired") {
    credentials_.Forget();
    return true;
  }
  return false;
}

// Waits until there are other credentials than those that were refused. False when none come.
bool S3ObjectStore::AwaitOthers(const CallContext& ctx, const Credentials& refused) {
  const absl::Duration latest = ctx.clock->Uptime() + kNewCredentialsTimeMax;
  while (credentials_.MayBeExchanged() && ctx.Check().ok()) {
    credentials_.Forget();
    const absl::StatusOr<Credentials> now = credentials_.Get(ctx);
    if (now.ok() && !(now->access_key_id == refused.access_key_id &&
                      now->secret_access_key == refused.secret_access_key &&
                      now->session_token == refused.session_token)) {
      return true;
    }
    if (ctx.clock->Uptime() >= latest) {
      return false;
    }
    ctx.clock->SleepFor(kLookForCredentialsAgain, ctx.stop);
  }
  return false;
}

absl::StatusOr<net::HttpResponse> S3ObjectStore::Answer(const CallContext& ctx, const Call& call) {
  constexpr int kCorrectionsMax = 2;
  int looks_for_host = 0;
  int same_keys = 0;
  int corrections = 0;
  while (true) {
    RETURN_IF_ERROR(ctx.Check());
    ASSIGN_OR_RETURN(const Credentials credentials, credentials_.Get(ctx));
    const absl::Time time = ctx.clock->Now() + absl::Seconds(clock_skew_seconds_.load());
    absl::StatusOr<net::HttpResponse> response = http_.Send(ctx, Sign(call, credentials, time));
    if (absl::IsNotFound(response.status()) && !was_let_in_ &&
        ++looks_for_host < kLooksForHostMax) {
      ctx.clock->SleepFor(kBeforeAnotherRequest, ctx.stop);
      continue;
    }
    if (!response.ok()) {
      return FromTransport(response.status(), was_let_in_);
    }
    if (IsSuccess(*response) && IsPage(*response, call.method)) {
      return absl::UnavailableError("a gateway answered with a page in the store's place");
    }
    const bool is_read = call.method == "GET" || call.method == "HEAD";
    const int partial = call.headers.empty() ? 200 : 206;
    if (is_read && IsSuccess(*response) && response->status != 200 && response->status != partial) {
      return absl::UnavailableError(absl::StrCat("the server answered ", response->status,
                                                 ", which is not an answer of a store to a read"));
    }
    if (IsSuccess(*response)) {
      was_let_in_ = true;
      return response;
    }
    // Some servers say so once in a long while, of a request like any other.
    if (was_let_in_ && ReadS3Error(*response).code == "SignatureDoesNotMatch" &&
        ++same_keys < kSameKeysMax) {
      ctx.clock->SleepFor(kBeforeAnotherRequest, ctx.stop);
      continue;
    }
    const bool may_be_corrected = response->status / 100 == 4 && corrections < kCorrectionsMax;
    if (may_be_corrected && Correct(ctx, *response)) {
      ++corrections;
      continue;
    }
    if (!was_let_in_ || !IsRefusal(*response) || !AwaitOthers(ctx, credentials)) {
      return response;
    }
  }
}

absl::Status S3ObjectStore::Failure(const net::HttpResponse& response, const Call& call) const {
  const S3Error error = ReadS3Error(response);
  absl::Status status =
      Annotate(S3Status(response, error, options_.region),
               absl::StrCat("bucket ", options_.bucket, " at ", options_.endpoint.HostHeader()));
  if (was_let_in_ && error.code == "SignatureDoesNotMatch") {
    status = {status.code(),
              absl::StrCat(status.message(),
                           "; the same place accepted earlier requests, so the keys were changed, "
                           "or a proxy on the way changes requests")};
  }
  return Annotate(status, call.what);
}

bool S3ObjectStore::IsRetained(const std::string& key) const {
  return !options_.object_lock_mode.empty() &&
         absl::c_none_of(options_.object_lock_exempt_prefixes,
                         [&](const std::string& exempt) { return absl::StartsWith(key, exempt); });
}

absl::StatusOr<net::HttpResponse> S3ObjectStore::SendWithChecksum(const CallContext& ctx,
                                                                  Call call) {
  if (checksum_refused_) {
    return Send(ctx, call);
  }
  call.headers.emplace_back(kChecksumHeader, Base64OfHex(call.sha256_hex));
  ASSIGN_OR_RETURN(net::HttpResponse response, Send(ctx, call));
  const std::string why = response.status / 100 == 4 ? ReadS3Error(response).message : "";
  if (!absl::StrContains(why, kChecksumHeader) || !absl::StrContains(why, "nsupported")) {
    return response;
  }
  checksum_refused_ = true;
  call.headers.pop_back();
  return Send(ctx, call);
}

HeaderList S3ObjectStore::PutHeaders(const PutOptions& options) const {
  HeaderList headers;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) {
      headers.emplace_back(name, value);
    }
  };
  add("if-none-match", options.if_absent ? "*" : "");
  add("x-amz-storage-class", options_.storage_class);
  add("x-amz-server-side-encryption", options_.server_side_encryption);
  add("x-amz-server-side-encryption-aws-kms-key-id", options_.kms_key_id);
  add("x-amz-tagging", options_.tagging);
  return headers;
}

absl::Status S3ObjectStore::Put(const CallContext& ctx, const std::string& key,
                                absl::string_view bytes, const PutOptions& options) {
  RETURN_IF_ERROR(CheckPut(key, options));
  PutOptions known = options;
  if (known.sha256_hex.empty()) {
    known.sha256_hex = Sha256Hex(bytes);
  }
  const Call call{.what = absl::StrCat("put ", key),
                  .method = "PUT",
                  .key = key,
                  .headers = PutHeaders(known),
                  .is_retained = IsRetained(key),
                  .body = bytes,
                  .sha256_hex = known.sha256_hex,
                  .answer_bytes_max = kErrorBytesMax};
  ASSIGN_OR_RETURN(const net::HttpResponse response, SendWithChecksum(ctx, call));
  if (IsSuccess(response)) {
    const std::string stored = net::Header(response, kChecksumHeader);
    if (stored.empty() && net::Header(response, "etag").empty()) {
      return absl::UnavailableError(absl::StrCat(
          call.what, ": the answer does not name what was stored, as that of a store does"));
    }
    return stored.empty() || stored == Base64OfHex(known.sha256_hex)
               ? absl::OkStatus()
               : absl::DataLossError(absl::StrCat(call.what, ": the server stored other bytes"));
  }
  if (response.status == 412 && options.if_absent) {
    return ObjectExists(key);
  }
  const absl::Status status = Failure(response, call);
  // Servers that are older than the condition refuse it in different ways.
  const bool knows_no_condition =
      options.if_absent && absl::IsFailedPrecondition(status) &&
      (response.status == 501 || (response.status == 400 && ReadS3Error(response).region.empty()));
  return knows_no_condition
             ? absl::UnimplementedError(absl::StrCat(
                   call.what, " if absent", absl::StripPrefix(status.message(), call.what)))
             : status;
}

absl::StatusOr<std::string> S3ObjectStore::Get(const CallContext& ctx, const std::string& key,
                                               int64_t size_bytes_max) {
  RETURN_IF_ERROR(CheckKey(key));
  const Call call{.what = absl::StrCat("get ", key),
                  .method = "GET",
                  .key = key,
                  .answer_bytes_max = std::max(size_bytes_max, kErrorBytesMax)};
  absl::StatusOr<net::HttpResponse> response = Send(ctx, call);
  if (absl::IsDataLoss(response.status())) {
    return ObjectTooLarge(key, size_bytes_max);  // The client's limit, set by us.
  }
  RETURN_IF_ERROR(response.status());
  if (!IsSuccess(*response)) {
    return Failure(*response, call);
  }
  if (std::ssize(response->body) > size_bytes_max) {
    return ObjectTooLarge(key, size_bytes_max);
  }
  return std::move(response->body);
}

absl::StatusOr<std::string> S3ObjectStore::GetRange(const CallContext& ctx, const std::string& key,
                                                    ByteRange range) {
  RETURN_IF_ERROR(CheckGetRange(key, range));
  const int64_t last = range.offset_bytes + range.length_bytes - 1;
  ASSIGN_OR_RETURN(
      net::HttpResponse response,
      Succeed(ctx, {.what = absl::StrCat("get ", key),
                    .method = "GET",
                    .key = key,
                    .headers = {{"range", absl::StrCat("bytes=", range.offset_bytes, "-", last)}},
                    .answer_bytes_max = std::max(range.length_bytes, kErrorBytesMax)}));
  RETURN_IF_ERROR(CheckRange(response, key, range));
  return std::move(response.body);
}

absl::StatusOr<ObjectInfo> S3ObjectStore::Stat(const CallContext& ctx, const std::string& key) {
  RETURN_IF_ERROR(CheckKey(key));
  const Call call{.what = absl::StrCat("stat ", key),
                  .method = "HEAD",
                  .key = key,
                  .answer_bytes_max = kErrorBytesMax};
  ASSIGN_OR_RETURN(net::HttpResponse response, Send(ctx, call));
  if (IsUntold(response)) {
    const absl::StatusOr<std::string> byte =
        GetRange(ctx, key, {.offset_bytes = 0, .length_bytes = 1});
    if (!byte.ok() && !absl::IsOutOfRange(byte.status())) {  // An empty object has no first byte.
      return byte.status();
    }
    ASSIGN_OR_RETURN(response, Send(ctx, call));
  }
  if (!IsSuccess(response)) {
    return Failure(response, call);
  }
  ObjectInfo object{.key = key, .size_bytes = 0};
  if (!absl::SimpleAtoi(net::Header(response, "content-length"), &object.size_bytes) ||
      object.size_bytes < 0) {
    return absl::DataLossError(absl::StrCat(call.what, ": the answer has no size"));
  }
  return object;
}

absl::Status S3ObjectStore::ListPages(const CallContext& ctx, const std::string& prefix,
                                      const std::string& after, bool is_deep, ObjectSink sink) {
  RETURN_IF_ERROR(CheckPrefix(prefix));
  const Listing listing{.root = options_.prefix,
                        .prefix = prefix,
                        .is_deep = is_deep,
                        .what = absl::StrCat("list ", prefix)};
  const std::string base =
      absl::StrCat(is_deep ? "" : "delimiter=%2F&",
                   "encoding-type=url&list-type=2&max-keys=", options_.page_objects_max,
                   "&prefix=", net::PercentEncode(absl::StrCat(options_.prefix, prefix)));
  std::string token;
  int64_t empty_pages = 0;
  for (int64_t pages = 0; pages < kListPagesMax; ++pages) {
    Call call{
        .what = listing.what, .method = "GET", .query = base, .answer_bytes_max = kXmlBytesMax};
    if (pages > 0) {
      meter_.Add(&StoreUsage::list_requests, 1);
      absl::StrAppend(&call.query, "&continuation-token=", net::PercentEncode(token));
    } else if (!after.empty()) {
      absl::StrAppend(&call.query,
                      "&start-after=", net::PercentEncode(absl::StrCat(options_.prefix, after)));
    }
    ASSIGN_OR_RETURN(const net::HttpResponse response, Succeed(ctx, call));
    absl::StatusOr<ListPage> page = ParseListPage(response.body);
    if (!page.ok()) {
      // Cut off, or of another server that answered once; never a listing of nothing.
      return absl::UnavailableError(absl::StrCat(listing.what, ": ", page.status().message()));
    }
    RETURN_IF_ERROR(PassOn(*page, listing, sink));
    if (page->next_token.empty()) {
      return absl::OkStatus();
    }
    const bool is_empty = page->objects.empty() && page->folders.empty();
    empty_pages = is_empty ? empty_pages + 1 : 0;
    if (page->next_token == token || empty_pages > kEmptyPagesMax) {
      break;
    }
    token = std::move(page->next_token);
  }
  return absl::DataLossError(absl::StrCat(listing.what, ": the listing has no end"));
}

absl::Status S3ObjectStore::Delete(const CallContext& ctx, const std::string& key) {
  RETURN_IF_ERROR(CheckKey(key));
  const Call call{.what = absl::StrCat("delete ", key),
                  .method = "DELETE",
                  .key = key,
                  .answer_bytes_max = kErrorBytesMax};
  ASSIGN_OR_RETURN(const net::HttpResponse response, Send(ctx, call));
  if (IsSuccess(response)) {
    return absl::OkStatus();
  }
  const absl::Status status = Failure(response, call);
  if (absl::IsPermissionDenied(status)) {
    return AsRetained(absl::PermissionDeniedError(
        absl::StrCat(status.message(),
                     "; either it is retained (object lock), or the right to delete is missing")));
  }
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::StatusOr<net::HttpResponse> S3ObjectStore::Succeed(const CallContext& ctx, const Call& call) {
  RETURN_IF_ERROR(Annotate(call.key.empty() ? absl::OkStatus() : CheckKey(call.key), call.what));
  ASSIGN_OR_RETURN(net::HttpResponse response,
                   call.body.empty() ? Send(ctx, call) : SendWithChecksum(ctx, call));
  // Of a copy, a failure may come in an answer that began as a success; an object may hold
  // anything.
  const bool is_object = call.method == "GET" && !call.key.empty();
  if (!IsSuccess(response) || (!is_object && !ReadS3Error(response).code.empty())) {
    return Failure(response, call);
  }
  return response;
}

absl::StatusOr<Retention> S3ObjectStore::GetRetention(const CallContext& ctx,
                                                      const std::string& key,
                                                      const std::string& version) {
  RETURN_IF_ERROR(CheckKey(key));
  const Call call{.what = absl::StrCat("get the retention of ", key),
                  .method = "GET",
                  .key = key,
                  .query = absl::StrCat("retention=", version.empty() ? "" : "&versionId=",
                                        net::PercentEncode(version)),
                  .answer_bytes_max = kErrorBytesMax};
  ASSIGN_OR_RETURN(const net::HttpResponse response, Send(ctx, call));
  if (ReadS3Error(response).code == "NoSuchObjectLockConfiguration") {
    return Retention();
  }
  return IsSuccess(response) ? Annotate(ParseRetention(response.body), call.what)
                             : Failure(response, call);
}

absl::Status S3ObjectStore::SetRetention(const CallContext& ctx, const std::string& key,
                                         const std::string& version, const Retention& retention) {
  const std::string body =
      absl::StrCat("<Retention xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Mode>",
                   retention.mode, "</Mode><RetainUntilDate>",
                   FormatRfc3339Seconds(retention.until), "</RetainUntilDate></Retention>");
  return Succeed(ctx, {.what = absl::StrCat("extend the retention of ", key),
                       .method = "PUT",
                       .key = key,
                       .query = absl::StrCat("retention=&versionId=", net::PercentEncode(version)),
                       .headers = {{"content-type", "application/xml"}},
                       .body = body,
                       .sha256_hex = Sha256Hex(body),
                       .answer_bytes_max = kErrorBytesMax})
      .status();
}

absl::StatusOr<VersionPage> S3ObjectStore::ListVersions(const CallContext& ctx,
                                                        const std::string& prefix,
                                                        const VersionCursor& from) {
  RETURN_IF_ERROR(CheckPrefix(prefix));
  const Listing listing{.root = options_.prefix, .what = absl::StrCat("list versions of ", prefix)};
  std::string query = "encoding-type=url";
  if (!from.key.empty()) {
    absl::StrAppend(&query,
                    "&key-marker=", net::PercentEncode(absl::StrCat(options_.prefix, from.key)));
  }
  absl::StrAppend(&query, "&max-keys=", options_.page_objects_max,
                  "&prefix=", net::PercentEncode(absl::StrCat(options_.prefix, prefix)));
  if (!from.id.empty()) {
    absl::StrAppend(&query, "&version-id-marker=", net::PercentEncode(from.id));
  }
  absl::StrAppend(&query, "&versions=");
  ASSIGN_OR_RETURN(const net::HttpResponse response,
                   Succeed(ctx, {.what = listing.what,
                                 .method = "GET",
                                 .query = query,
                                 .answer_bytes_max = kXmlBytesMax}));
  absl::StatusOr<VersionPage> page = ParseVersionPage(response.body);
  if (!page.ok()) {
    return absl::UnavailableError(absl::StrCat(listing.what, ": ", page.status().message()));
  }
  for (ObjectVersion& version : page->versions) {
    RETURN_IF_ERROR(CutRoot(listing, version.key));
  }
  if (!page->next.key.empty()) {
    RETURN_IF_ERROR(CutRoot(listing, page->next.key));
  }
  std::erase_if(page->versions,
                [](const ObjectVersion& version) { return !CheckKey(version.key).ok(); });
  return page;
}

absl::Status S3ObjectStore::RestoreVersion(const CallContext& ctx, const std::string& key,
                                           const std::string& version) {
  const std::string source = absl::StrCat("/", options_.bucket, "/", options_.prefix, key);
  HeaderList headers = PutHeaders({});
  headers.emplace_back(
      "x-amz-copy-source",
      absl::StrCat(EncodePath(source), "?versionId=", net::PercentEncode(version)));
  return Succeed(ctx, {.what = absl::StrCat("restore a version of ", key),
                       .method = "PUT",
                       .key = key,
                       .headers = std::move(headers),
                       .is_retained = IsRetained(key),
                       .answer_bytes_max = kErrorBytesMax})
      .status();
}

absl::Status S3ObjectStore::DeleteVersion(const CallContext& ctx, const std::string& key,
                                          const std::string& version) {
  const absl::Status status =
      Succeed(ctx, {.what = absl::StrCat("delete a version of ", key),
                    .method = "DELETE",
                    .key = key,
                    .query = absl::StrCat("versionId=", net::PercentEncode(version)),
                    .answer_bytes_max = kErrorBytesMax})
          .status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::StatusOr<std::string> S3ObjectStore::GetBucketDocument(const CallContext& ctx,
                                                             BucketDocument document) {
  const std::string name = document == BucketDocument::kVersioning   ? "versioning"
                           : document == BucketDocument::kObjectLock ? "object-lock"
                                                                     : "lifecycle";
  const Call call{.what = absl::StrCat("get the bucket's ", name),
                  .method = "GET",
                  .query = absl::StrCat(name, "="),
                  .answer_bytes_max = kXmlBytesMax};
  ASSIGN_OR_RETURN(net::HttpResponse response, Send(ctx, call));
  const std::string code = ReadS3Error(response).code;
  if (code == "NoSuchLifecycleConfiguration" || code == "ObjectLockConfigurationNotFoundError") {
    return "";
  }
  if (!IsSuccess(response)) {
    return Failure(response, call);
  }
  return std::move(response.body);
}

}  // namespace csidelta::storage
