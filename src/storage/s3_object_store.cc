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

std::string Base64OfHex(const std::string& hex) {
  return absl::Base64Escape(absl::HexStringToBytes(hex));
}

}  // namespace

S3ObjectStore::S3ObjectStore(S3Options options, net::HttpClient& http,
                             CredentialsProvider& credentials, StoreMeter& meter)
    : BucketObjectStore(options.prefix, http, credentials, meter),
      options_(std::move(options)),
      credentials_(credentials) {}

std::string S3ObjectStore::Describe() const {
  return absl::StrCat("s3:", options_.endpoint.scheme, "://", options_.endpoint.HostHeader(), "/",
                      options_.bucket, prefix().empty() ? "" : "/",
                      absl::StripSuffix(prefix(), "/"));
}

absl::StatusOr<BucketObjectStore::SignedRequest> S3ObjectStore::Sign(const CallContext& ctx,
                                                                     const BucketCall& call,
                                                                     absl::Time time) {
  ASSIGN_OR_RETURN(const Credentials credentials, credentials_.Get(ctx));
  net::HttpRequest request{.method = call.method,
                           .url = options_.endpoint,
                           .headers = call.headers,
                           .body = "",
                           .borrowed_body = call.body,
                           .answer_bytes_max = call.answer_bytes_max};
  std::string path = call.key.empty() ? "" : EncodePath(absl::StrCat(prefix(), call.key));
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
  return SignedRequest{.http = std::move(request),
                       .credential = Secret(absl::StrCat(
                           credentials.access_key_id, "\n", credentials.secret_access_key.Reveal(),
                           "\n", credentials.session_token.Reveal()))};
}

BucketObjectStore::Refusal S3ObjectStore::ReadRefusal(const net::HttpResponse& response) const {
  const S3Error error = ReadS3Error(response);
  if (error.code == "RequestTimeTooSkewed" || (response.status == 403 && error.code.empty())) {
    return Refusal::kClock;
  }
  if (error.code == "SignatureDoesNotMatch") {
    return Refusal::kSignature;
  }
  if (error.code == "ExpiredToken" || error.code == "TokenRefreshRequired") {
    return Refusal::kExpired;
  }
  return absl::IsUnauthenticated(S3Status(response, error, error.region)) ? Refusal::kCredentials
                                                                          : Refusal::kOther;
}

absl::Status S3ObjectStore::ReadFailure(const net::HttpResponse& response,
                                        const BucketCall& /*call*/) const {
  const S3Error error = ReadS3Error(response);
  absl::Status status =
      Annotate(S3Status(response, error, options_.region),
               absl::StrCat("bucket ", options_.bucket, " at ", options_.endpoint.HostHeader()));
  if (was_let_in() && error.code == "SignatureDoesNotMatch") {
    status = {status.code(),
              absl::StrCat(status.message(),
                           "; the same place accepted earlier requests, so the keys were changed, "
                           "or a proxy on the way changes requests")};
  }
  return status;
}

BucketCall S3ObjectStore::PageCall(const PageRequest& page) const {
  std::string query =
      absl::StrCat(page.is_deep ? "" : "delimiter=%2F&",
                   "encoding-type=url&list-type=2&max-keys=", options_.page_objects_max,
                   "&prefix=", net::PercentEncode(absl::StrCat(prefix(), page.prefix)));
  if (!page.token.empty()) {
    absl::StrAppend(&query, "&continuation-token=", net::PercentEncode(page.token));
  } else if (!page.after.empty()) {
    absl::StrAppend(&query,
                    "&start-after=", net::PercentEncode(absl::StrCat(prefix(), page.after)));
  }
  return {.what = "", .method = "GET", .query = std::move(query), .answer_bytes_max = kXmlBytesMax};
}

absl::StatusOr<ListPage> S3ObjectStore::ParsePage(const std::string& body) const {
  return ParseListPage(body);
}

bool S3ObjectStore::IsRetained(const std::string& key) const {
  return !options_.object_lock_mode.empty() &&
         absl::c_none_of(options_.object_lock_exempt_prefixes,
                         [&](const std::string& exempt) { return absl::StartsWith(key, exempt); });
}

absl::StatusOr<net::HttpResponse> S3ObjectStore::SendWithChecksum(const CallContext& ctx,
                                                                  BucketCall call) {
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
  const BucketCall call{.what = absl::StrCat("put ", key),
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

absl::Status S3ObjectStore::Delete(const CallContext& ctx, const std::string& key) {
  const absl::Status status = BucketObjectStore::Delete(ctx, key);
  return absl::IsPermissionDenied(status)
             ? AsRetained(absl::PermissionDeniedError(absl::StrCat(
                   status.message(),
                   "; either it is retained (object lock), or the right to delete is missing")))
             : status;
}

absl::StatusOr<net::HttpResponse> S3ObjectStore::Succeed(const CallContext& ctx,
                                                         const BucketCall& call) {
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
  const BucketCall call{.what = absl::StrCat("get the retention of ", key),
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
  const std::string what = absl::StrCat("list versions of ", prefix);
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
  ASSIGN_OR_RETURN(
      const net::HttpResponse response,
      Succeed(ctx,
              {.what = what, .method = "GET", .query = query, .answer_bytes_max = kXmlBytesMax}));
  absl::StatusOr<VersionPage> page = ParseVersionPage(response.body);
  if (!page.ok()) {
    return absl::UnavailableError(absl::StrCat(what, ": ", page.status().message()));
  }
  for (ObjectVersion& version : page->versions) {
    RETURN_IF_ERROR(CutRoot(what, "", version.key));
  }
  if (!page->next.key.empty()) {
    RETURN_IF_ERROR(CutRoot(what, "", page->next.key));
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
  const BucketCall call{.what = absl::StrCat("get the bucket's ", name),
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
