#include "storage/s3_object_store.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
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

constexpr absl::string_view kGlobalHost = "s3.amazonaws.com";
constexpr absl::string_view kAwsDomain = ".amazonaws.com";

std::string Base64OfHex(const std::string& hex) {
  return absl::Base64Escape(absl::HexStringToBytes(hex));
}

// Whether a server's word may become a part of a host's name.
bool IsRegion(absl::string_view text) {
  constexpr std::size_t kBytesMax = 63;  // of a label of DNS
  return !text.empty() && text.size() <= kBytesMax && text.front() != '-' && text.back() != '-' &&
         absl::c_all_of(text, [](char c) {
           return absl::ascii_islower(static_cast<unsigned char>(c)) ||
                  absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '-';
         });
}

// The status, its marks included, with more behind its message.
absl::Status WithMore(const absl::Status& status, absl::string_view more) {
  absl::Status longer(status.code(), absl::StrCat(status.message(), more));
  status.ForEachPayload(
      [&](absl::string_view name, const absl::Cord& payload) { longer.SetPayload(name, payload); });
  return longer;
}

// Most servers do not tell an object lock from a missing right.
absl::Status OfDeletion(const absl::Status& status) {
  return absl::IsPermissionDenied(status)
             ? AsRetained(absl::PermissionDeniedError(absl::StrCat(
                   status.message(),
                   "; either it is retained (object lock), or the right to delete is missing")))
             : status;
}

}  // namespace

S3ObjectStore::S3ObjectStore(S3Options options, net::HttpClient& http,
                             CredentialsProvider& credentials, StoreMeter& meter)
    : BucketObjectStore(options.prefix, http, credentials, meter),
      options_(std::move(options)),
      credentials_(credentials),
      checksum_refused_(!options_.sends_checksum),
      way_{.endpoint = options_.endpoint, .region = options_.region} {}

std::string S3ObjectStore::Describe() const { return LocationAt(options_.endpoint); }

std::string S3ObjectStore::LocationAt(const net::Url& endpoint) const {
  return absl::StrCat("s3:", endpoint.scheme, "://", endpoint.HostHeader(), "/", options_.bucket,
                      prefix().empty() ? "" : "/", absl::StripSuffix(prefix(), "/"));
}

absl::StatusOr<BucketObjectStore::SignedRequest> S3ObjectStore::Sign(const CallContext& ctx,
                                                                     const BucketCall& call,
                                                                     absl::Time time) {
  ASSIGN_OR_RETURN(const Credentials credentials, credentials_.Get(ctx));
  const Way way = [&] {
    const MutexLock lock(mutex_);
    way_.keys_from = credentials.source;
    return way_;
  }();
  net::HttpRequest request{.method = call.method,
                           .url = way.endpoint,
                           .headers = call.headers,
                           .body = "",
                           .borrowed_body = call.body,
                           .answer_bytes_max = call.answer_bytes_max};
  std::string path = call.key.empty() ? "" : EncodePath(absl::StrCat(prefix(), call.key));
  if (options_.path_style) {
    path = absl::StrCat(net::PercentEncode(options_.bucket), "/", path);
  } else {
    request.url.host = absl::StrCat(options_.bucket, ".", way.endpoint.host);
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
  for (auto& header :
       SignRequest(to_sign, credentials, {.time = time, .region = way.region, .service = "s3"})) {
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
  return Explain(response, ReadS3Error(response));
}

absl::Status S3ObjectStore::Explain(const net::HttpResponse& response, const S3Error& error) const {
  const Way now = way();
  const absl::Status status =
      Annotate(S3Status(response, error, now.region),
               absl::StrCat("bucket ", options_.bucket, " at ", now.endpoint.HostHeader()));
  std::string more = WhereItLeads(response);
  if (was_let_in() && error.code == "SignatureDoesNotMatch") {
    more =
        "; the same place accepted earlier requests, so the keys were changed, or a proxy on the "
        "way changes requests";
  }
  if ((absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status)) &&
      !now.keys_from.empty()) {
    absl::StrAppend(&more, " (the keys came from ", now.keys_from, ")");
  }
  return WithMore(status, more);
}

// As botocore's S3RegionRedirectorv2 does: once, when an answer names the region. But the host
// stays the one that the user gave, with the name of another region in it.
bool S3ObjectStore::Follow(const net::HttpResponse& response) {
  const S3Error error = ReadS3Error(response);
  const bool is_redirect = response.status / 100 == 3;
  if (!IsRegion(error.region) || (!is_redirect && response.status != 400)) {
    return false;
  }
  const MutexLock lock(mutex_);
  if (way_.is_moved || way_.region == error.region) {
    return way_.is_moved && way_.region == error.region;  // Another request has moved.
  }
  std::string host =
      options_.endpoint.host == kGlobalHost
          ? absl::StrCat("s3.", error.region, kAwsDomain)
          : absl::StrReplaceAll(options_.endpoint.host, {{absl::StrCat(".", way_.region, "."),
                                                          absl::StrCat(".", error.region, ".")}});
  if (is_redirect && host == options_.endpoint.host) {
    return false;  // It would answer the same again.
  }
  way_.endpoint.host = std::move(host);
  way_.region = error.region;
  way_.is_moved = true;
  return true;
}

// Of a redirect that is not followed: the place that it leads to, as a repository there is written.
std::string S3ObjectStore::WhereItLeads(const net::HttpResponse& response) const {
  const std::string text = net::Header(response, "location");
  absl::StatusOr<net::Url> place = net::ParseUrl(absl::string_view(text).substr(0, text.find('?')));
  if (response.status / 100 != 3 || !place.ok()) {
    return "";
  }
  place->host = std::string(absl::StripPrefix(place->host, absl::StrCat(options_.bucket, ".")));
  return absl::StrCat("; it leads to ", place->scheme, "://", place->HostHeader(),
                      ": if the bucket is there, write ", LocationAt(*place));
}

BucketCall S3ObjectStore::PageCall(const PageRequest& page) const {
  std::string query = absl::StrCat(page.is_deep ? "" : "delimiter=%2F&", "encoding-type=url");
  const std::string after =
      page.token.empty() && !page.after.empty() ? absl::StrCat(prefix(), page.after) : page.token;
  const std::string rest =
      absl::StrCat("max-keys=", options_.page_objects_max,
                   "&prefix=", net::PercentEncode(absl::StrCat(prefix(), page.prefix)));
  if (lists_by_marker_) {
    absl::StrAppend(&query, after.empty() ? "" : "&marker=", net::PercentEncode(after), "&", rest);
  } else {
    absl::StrAppend(&query, "&list-type=2&", rest,
                    after.empty()        ? ""
                    : page.token.empty() ? "&start-after="
                                         : "&continuation-token=",
                    net::PercentEncode(after));
  }
  return {.what = "", .method = "GET", .query = std::move(query), .answer_bytes_max = kXmlBytesMax};
}

absl::StatusOr<ListPage> S3ObjectStore::ParsePage(const std::string& body) const {
  ASSIGN_OR_RETURN(ListPage page, ParseListPage(body));
  lists_by_marker_ = lists_by_marker_ || page.is_by_marker;
  return page;
}

bool S3ObjectStore::IsRetained(const std::string& key) const {
  return !options_.object_lock_mode.empty() &&
         absl::c_none_of(options_.object_lock_exempt_prefixes,
                         [&](const std::string& exempt) { return absl::StartsWith(key, exempt); });
}

absl::StatusOr<net::HttpResponse> S3ObjectStore::SendWithChecksum(const CallContext& ctx,
                                                                  BucketCall call) {
  const auto send_md5 = [&] {
    const std::string md5 = Md5(call.body);
    if (!md5.empty()) {
      call.headers.emplace_back("content-md5", absl::Base64Escape(md5));
    }
    return Send(ctx, call);
  };
  if (checksum_refused_) {
    return send_md5();
  }
  call.headers.emplace_back(kChecksumHeader, Base64OfHex(call.sha256_hex));
  ASSIGN_OR_RETURN(net::HttpResponse response, Send(ctx, call));
  const std::string why = response.status / 100 == 4 ? ReadS3Error(response).message : "";
  if (!absl::StrContains(why, kChecksumHeader) || !absl::StrContains(why, "nsupported")) {
    return response;
  }
  checksum_refused_ = true;
  call.headers.pop_back();
  CountFurther(call);
  return send_md5();
}

HeaderList S3ObjectStore::PutHeaders(const std::string& key, const PutOptions& options) const {
  HeaderList headers;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) {
      headers.emplace_back(name, value);
    }
  };
  add("if-none-match", options.if_absent ? "*" : "");
  add("x-amz-storage-class", absl::StartsWith(key, kPacksPrefix) ? options_.storage_class : "");
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
                        .headers = PutHeaders(key, known),
                        .is_retained = IsRetained(key),
                        .body = bytes,
                        .sha256_hex = known.sha256_hex,
                        .answer_bytes_max = kErrorBytesMax};
  ASSIGN_OR_RETURN(const net::HttpResponse response, SendWithChecksum(ctx, call));
  if (IsSuccess(response)) {
    const std::string stored = net::Header(response, kChecksumHeader);
    if (stored.empty() && net::Header(response, "etag").empty()) {
      return Annotate(ProveStored(ctx, key, bytes), call.what);
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

absl::Status S3ObjectStore::ProveStored(const CallContext& ctx, const std::string& key,
                                        absl::string_view bytes) {
  CountFurther({.what = "", .method = "HEAD", .key = key});
  absl::StatusOr<ObjectInfo> object = Stat(ctx, key);
  bool is_there = object.ok() && object->size_bytes == std::ssize(bytes);
  // A small one may replace another of its size; a pack has its hash as key.
  if (is_there && std::ssize(bytes) <= kErrorBytesMax) {
    CountFurther({.what = "", .method = "GET", .key = key});
    ASSIGN_OR_RETURN(const std::string stored, Get(ctx, key, kErrorBytesMax));
    is_there = stored == bytes;
  }
  if (is_there || (!object.ok() && !absl::IsNotFound(object.status()))) {
    return object.status();
  }
  return absl::UnavailableError(
      "the answer does not name what was stored, as that of a store does, and it is not there");
}

absl::StatusOr<std::string> S3ObjectStore::Get(const CallContext& ctx, const std::string& key,
                                               int64_t size_bytes_max) {
  absl::StatusOr<std::string> bytes = BucketObjectStore::Get(ctx, key, size_bytes_max);
  if (IsArchived(bytes.status())) {
    return CountArchived(ctx, bytes.status());
  }
  return bytes;
}

absl::StatusOr<std::string> S3ObjectStore::GetRange(const CallContext& ctx, const std::string& key,
                                                    ByteRange range) {
  absl::StatusOr<std::string> bytes = BucketObjectStore::GetRange(ctx, key, range);
  if (IsArchived(bytes.status())) {
    return CountArchived(ctx, bytes.status());
  }
  return bytes;
}

// Counted once for each store: a listing of a large repository takes its time.
absl::Status S3ObjectStore::CountArchived(const CallContext& ctx, const absl::Status& status) {
  {
    const MutexLock lock(mutex_);
    if (!archived_.empty()) {
      return WithMore(status, archived_);
    }
  }
  int64_t packs = 0;
  int64_t archived = 0;
  CountFurther(PageCall({.prefix = kPacksPrefix}));
  const absl::Status listed = List(ctx, kPacksPrefix, [&](const ObjectInfo& object) {
    ++packs;
    archived += object.is_archived ? 1 : 0;
    return absl::OkStatus();
  });
  // What another tier of a class has archived (INTELLIGENT_TIERING) no listing shows.
  std::string found =
      !listed.ok() || archived == 0
          ? "; a listing does not tell how many packs are archived"
          : absl::StrCat("; ", archived, " of ", packs, " packs are of an archive class");
  const MutexLock lock(mutex_);
  archived_ = std::move(found);
  return WithMore(status, archived_);
}

absl::Status S3ObjectStore::Delete(const CallContext& ctx, const std::string& key) {
  return OfDeletion(BucketObjectStore::Delete(ctx, key));
}

// XML has no control characters; a prefix may have some.
DeletionLimits S3ObjectStore::deletion_limits() const {
  const bool is_text = absl::c_none_of(
      prefix(), [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); });
  return is_text && takes_batches()
             ? DeletionLimits{.keys_per_request_max = 1000, .requests_in_flight_max = 4}
             : BucketObjectStore::deletion_limits();
}

absl::StatusOr<std::vector<absl::Status>> S3ObjectStore::DeleteBatch(
    const CallContext& ctx, absl::Span<const std::string> keys) {
  std::string body = "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  absl::flat_hash_map<std::string, std::size_t> numbers;  // by the keys that the bucket has
  for (std::size_t i = 0; i < keys.size(); ++i) {
    RETURN_IF_ERROR(CheckKey(keys[i]));
    const std::string key = absl::StrCat(prefix(), keys[i]);
    numbers.emplace(key, i);
    absl::StrAppend(&body, "<Object><Key>",
                    absl::StrReplaceAll(key, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}}),
                    "</Key></Object>");
  }
  // A quiet answer would name only the keys that failed.
  absl::StrAppend(&body, "<Quiet>false</Quiet></Delete>");
  BucketCall call{.what = absl::StrCat("delete ", keys.size(), " objects"),
                  .method = "POST",
                  .query = "delete=",
                  .headers = {{"content-type", "application/xml"}},
                  .body = body,
                  .sha256_hex = Sha256Hex(body),
                  .answer_bytes_max = kXmlBytesMax};
  // All servers accept this checksum of a batch; many refuse the newer ones.
  const std::string md5 = Md5(body);
  call.headers.emplace_back(md5.empty() ? kChecksumHeader : "content-md5",
                            md5.empty() ? Base64OfHex(call.sha256_hex) : absl::Base64Escape(md5));
  ASSIGN_OR_RETURN(const net::HttpResponse response, SendBatch(ctx, call));
  const absl::StatusOr<std::vector<DeletedObject>> deleted = ParseDeleteResult(response.body);
  if (!deleted.ok()) {
    return EndBatches(Annotate(deleted.status(), call.what));
  }
  std::vector<absl::Status> told = Untold(keys.size());
  for (const DeletedObject& object : *deleted) {
    const auto number = numbers.find(object.key);
    if (number == numbers.end()) {
      return EndBatches(absl::DataLossError(
          absl::StrCat(call.what, ": the server names objects from elsewhere")));
    }
    absl::Status status;
    if (!object.is_deleted) {
      net::HttpResponse part;
      part.status = object.error.code == "AccessDenied" ? 403 : 200;
      status = Annotate(Explain(part, object.error), absl::StrCat("delete ", keys[number->second]));
    }
    Tell(OfDeletion(status), told[number->second]);
  }
  return told;
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
  HeaderList headers = PutHeaders(key, {});
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
