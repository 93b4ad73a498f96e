#include "storage/google_object_store.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/crypto.h"
#include "base/json_fields.h"
#include "storage/google_errors.h"
#include "storage/object_rules.h"

namespace csidelta::storage {
namespace {

constexpr char kGoogleUrl[] = "https://storage.googleapis.com";
constexpr absl::string_view kGoogleClasses[] = {"STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE"};
// Below every character of a key: a listing begins at its offset, and not behind it.
constexpr char kBehindKey[] = "!";
constexpr int64_t kPageValuesMax = 100'000;

// What the server says of an object; -1 and "" where it says nothing.
struct GoogleObject {
  std::string name = {};
  int64_t size_bytes = -1;
  std::string crc32c = {};
  absl::Time updated_at = absl::InfinitePast();
};
constexpr auto kGoogleObjectFields = [](auto& fields, auto& object) {
  fields("name", object.name);
  fields("size", object.size_bytes, AsText());
  fields("crc32c", object.crc32c);
  fields("updated", object.updated_at);
};

// As metadata and headers have it: base64 of the four bytes, the highest first.
std::string Crc32cText(absl::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) {
    text.push_back(static_cast<char>((crc >> shift) & 0xFF));
  }
  return absl::Base64Escape(text);
}

absl::StatusOr<GoogleObject> ParseGoogleObject(const std::string& body, absl::string_view what) {
  const absl::StatusOr<Json> json = ParseJsonObject(body, kPageValuesMax);
  GoogleObject object = ReadFields<GoogleObject>(kGoogleObjectFields, json.ok() ? &*json : nullptr);
  if (object.size_bytes < 0) {
    return absl::UnavailableError(
        absl::StrCat(what, ": the answer does not say the object's size, as that of a store does"));
  }
  return object;
}

}  // namespace

absl::Status CompleteGoogleOptions(const std::string& emulator_host, GoogleOptions& options) {
  for (const auto& [name, text] : {std::pair("KMS key", &options.kms_key_name),
                                   std::pair("service account", &options.service_account)}) {
    if (!absl::c_all_of(*text, absl::ascii_isgraph)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the ", name, " has a blank or another character that none has"));
    }
  }
  if (!options.storage_class.empty() &&
      !absl::c_linear_search(kGoogleClasses, options.storage_class)) {
    return absl::InvalidArgumentError(
        "the storage class of Google is STANDARD, NEARLINE, COLDLINE or ARCHIVE");
  }
  std::string text = options.endpoint_url.empty() ? kGoogleUrl : options.endpoint_url;
  if (!emulator_host.empty()) {
    text = absl::StrCat(absl::StrContains(emulator_host, "://") ? "" : "http://", emulator_host);
  }
  ASSIGN_OR_RETURN(options.endpoint,
                   Annotate(net::ParseUrl(text), emulator_host.empty() ? "the endpoint of Google"
                                                                       : "STORAGE_EMULATOR_HOST"));
  if (emulator_host.empty() && options.endpoint.scheme != "https") {
    return absl::InvalidArgumentError(
        "the endpoint of Google must be https, as tokens are sent to it; for an emulator set "
        "STORAGE_EMULATOR_HOST");
  }
  return absl::OkStatus();
}

GoogleObjectStore::GoogleObjectStore(GoogleOptions options, net::HttpClient& http,
                                     GoogleCredentials& credentials, StoreMeter& meter)
    : BucketObjectStore(options.prefix, http, credentials, meter),
      options_(std::move(options)),
      credentials_(credentials) {}

std::string GoogleObjectStore::Describe() const {
  return absl::StrCat("gs:", options_.bucket, ":/", absl::StripSuffix(prefix(), "/"));
}

absl::StatusOr<BucketObjectStore::SignedRequest> GoogleObjectStore::Sign(const CallContext& ctx,
                                                                         const BucketCall& call,
                                                                         absl::Time /*time*/) {
  ASSIGN_OR_RETURN(const GoogleToken token, credentials_.Get(ctx));
  net::HttpRequest request{.method = call.method,
                           .url = options_.endpoint,
                           .headers = call.headers,
                           .body = call.body_head,
                           .borrowed_body = call.body,
                           .body_end = call.body_end,
                           .answer_bytes_max = call.answer_bytes_max};
  const bool is_upload = call.method == "POST";
  request.url.target = absl::StrCat(is_upload ? "/upload" : "", "/storage/v1/b/",
                                    net::PercentEncode(options_.bucket), "/o");
  if (!is_upload && !call.key.empty()) {
    absl::StrAppend(&request.url.target, "/", net::PercentEncode(absl::StrCat(prefix(), call.key)));
  }
  absl::StrAppend(&request.url.target, call.query.empty() ? "" : "?", call.query);
  if (!token.text.empty()) {
    request.headers.emplace_back("authorization", absl::StrCat("Bearer ", token.text.Reveal()));
  }
  return SignedRequest{.http = std::move(request), .credential = token.text};
}

BucketObjectStore::Refusal GoogleObjectStore::ReadRefusal(const net::HttpResponse& response) const {
  return response.status == 401 ? Refusal::kExpired : Refusal::kOther;
}

absl::Status GoogleObjectStore::ReadFailure(const net::HttpResponse& response,
                                            const BucketCall& call) const {
  const bool of_object = !call.key.empty() && call.method != "POST";
  absl::Status status =
      Annotate(GoogleStatus(response, of_object),
               absl::StrCat("bucket ", options_.bucket, " at ", options_.endpoint.HostHeader()));
  const bool is_refused = absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status);
  return is_refused && !IsRetained(status)
             ? absl::Status(
                   status.code(),
                   absl::StrCat(status.message(), " (credentials: ", credentials_.Describe(), ")"))
             : status;
}

BucketCall GoogleObjectStore::PageCall(const PageRequest& page) const {
  std::string query = absl::StrCat(
      page.is_deep ? "" : "delimiter=%2F&",
      "fields=kind,nextPageToken,prefixes,items(name,size,updated)&prettyPrint=false&maxResults=",
      options_.page_objects_max,
      "&prefix=", net::PercentEncode(absl::StrCat(prefix(), page.prefix)));
  if (!page.after.empty()) {
    absl::StrAppend(&query, "&startOffset=",
                    net::PercentEncode(absl::StrCat(prefix(), page.after, kBehindKey)));
  }
  if (!page.token.empty()) {
    absl::StrAppend(&query, "&pageToken=", net::PercentEncode(page.token));
  }
  return {.what = "", .method = "GET", .query = std::move(query), .answer_bytes_max = kXmlBytesMax};
}

absl::StatusOr<ListPage> GoogleObjectStore::ParsePage(const std::string& body) const {
  ASSIGN_OR_RETURN(const Json json, ParseJsonObject(body, kPageValuesMax));
  if (GetString(json, {"kind"}) != "storage#objects") {
    return absl::InvalidArgumentError("not a list of objects");
  }
  ListPage page;
  page.next_token = GetString(json, {"nextPageToken"});
  for (const Json& item : JsonArrayAt(json, {"items"})) {
    GoogleObject object = ReadFields<GoogleObject>(kGoogleObjectFields, &item);
    if (object.name.empty() || object.size_bytes < 0) {
      return absl::InvalidArgumentError("an object of a list has no name or no size");
    }
    page.objects.push_back({.key = std::move(object.name),
                            .size_bytes = object.size_bytes,
                            .modified_at = object.updated_at});
  }
  page.folders = GetStringList(json, {"prefixes"});
  return page;
}

absl::Status GoogleObjectStore::CheckWhole(const net::HttpResponse& response) const {
  for (absl::string_view hash :
       absl::StrSplit(net::Header(response, "x-goog-hash"), ',', absl::SkipWhitespace())) {
    hash = absl::StripAsciiWhitespace(hash);
    if (absl::ConsumePrefix(&hash, "crc32c=") && hash != Crc32cText(response.body)) {
      return absl::DataLossError("other bytes came than the server has, by its CRC32C");
    }
  }
  return absl::OkStatus();
}

absl::Status GoogleObjectStore::Put(const CallContext& ctx, const std::string& key,
                                    absl::string_view bytes, const PutOptions& options) {
  RETURN_IF_ERROR(CheckPut(key, options));
  const std::string crc32c = Crc32cText(bytes);
  Json metadata = {{"name", absl::StrCat(prefix(), key)},
                   {"crc32c", crc32c},
                   {"contentType", "application/octet-stream"}};
  if (!options_.storage_class.empty() && absl::StartsWith(key, kPacksPrefix)) {
    metadata["storageClass"] = options_.storage_class;
  }
  std::string query = "fields=size,crc32c&uploadType=multipart";
  if (options.if_absent) {
    absl::StrAppend(&query, "&ifGenerationMatch=0");
  }
  if (!options_.kms_key_name.empty()) {
    absl::StrAppend(&query, "&kmsKeyName=", net::PercentEncode(options_.kms_key_name));
  }
  // No bytes hold their own hash, so that it can stand between the parts.
  const std::string boundary = options.sha256_hex.empty() ? Sha256Hex(bytes) : options.sha256_hex;
  const BucketCall call{
      .what = absl::StrCat("put ", key),
      .method = "POST",
      .key = key,
      .query = std::move(query),
      .headers = {{"content-type", absl::StrCat("multipart/related; boundary=", boundary)}},
      .body_head =
          absl::StrCat("--", boundary, "\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n",
                       DumpJson(metadata), "\r\n--", boundary,
                       "\r\nContent-Type: application/octet-stream\r\n\r\n"),
      .body = bytes,
      .body_end = absl::StrCat("\r\n--", boundary, "--\r\n"),
      .answer_bytes_max = kErrorBytesMax};
  ASSIGN_OR_RETURN(const net::HttpResponse response, Send(ctx, call));
  const bool is_condition = ReadGoogleError(response).code != "orgPolicyConstraintFailed";
  if (response.status == 412 && options.if_absent && is_condition) {
    return ObjectExists(key);
  }
  if (!IsSuccess(response)) {
    return Failure(response, call);
  }
  ASSIGN_OR_RETURN(const GoogleObject stored, ParseGoogleObject(response.body, call.what));
  return stored.crc32c == crc32c && stored.size_bytes == std::ssize(bytes)
             ? absl::OkStatus()
             : absl::DataLossError(absl::StrCat(call.what, ": the server stored other bytes"));
}

absl::StatusOr<ObjectInfo> GoogleObjectStore::Stat(const CallContext& ctx, const std::string& key) {
  RETURN_IF_ERROR(CheckKey(key));
  const BucketCall call{.what = absl::StrCat("stat ", key),
                        .method = "GET",
                        .key = key,
                        .query = "fields=size",
                        .answer_bytes_max = kErrorBytesMax};
  ASSIGN_OR_RETURN(const net::HttpResponse response, Send(ctx, call));
  if (!IsSuccess(response)) {
    return Failure(response, call);
  }
  ASSIGN_OR_RETURN(const GoogleObject object, ParseGoogleObject(response.body, call.what));
  return ObjectInfo{.key = key, .size_bytes = object.size_bytes};
}

}  // namespace csidelta::storage
