#include "storage/azure_object_store.h"

#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/crypto.h"
#include "storage/object_rules.h"
#include "storage/s3_errors.h"

namespace csidelta::storage {
namespace {

constexpr char kAzureVersion[] = "2021-12-02";  // the first that knows the tier Cold
constexpr char kAzureTime[] = "%a, %d %b %Y %H:%M:%S GMT";
constexpr char kCrcHeader[] = "x-ms-content-crc64";  // of all versions since 2019-02-02
constexpr absl::string_view kAzureTiers[] = {"Hot", "Cool", "Cold"};
// Of the service: 50,000 blocks of at most 4000 MiB. The lower limit is that of Velero's plugin.
constexpr int64_t kBlockBytesMin = int64_t{1} << 20;
constexpr int64_t kBlockBytesMax = int64_t{4000} << 20;

struct AzureMeaning {
  absl::string_view code;
  absl::StatusCode status;
  absl::string_view advice = "";
  bool is_retained = false;
};
// Names of errors that say more than the HTTP status beside them.
constexpr AzureMeaning kAzureMeanings[] = {
    {"AccountBeingCreated", absl::StatusCode::kUnavailable},
    {"AuthenticationFailed", absl::StatusCode::kUnauthenticated,
     "key, SAS or clock is wrong, or the SAS has expired"},
    {"AuthorizationFailure", absl::StatusCode::kPermissionDenied,
     "the firewall of the storage account may refuse this network"},
    {"AuthorizationPermissionMismatch", absl::StatusCode::kPermissionDenied,
     "the identity needs the role Storage Blob Data Contributor, and a SAS the rights racwdl"},
    {"BlobArchived", absl::StatusCode::kFailedPrecondition,
     "the object is archived, by a lifecycle rule of the account, say: set all archived blobs "
     "below data/ to the tier Hot, Cool or Cold, wait until they are rehydrated, then try again"},
    {"BlobBeingRehydrated", absl::StatusCode::kFailedPrecondition,
     "the object was archived and is being rehydrated, which takes up to 15 hours"},
    {"BlobImmutableDueToPolicy", absl::StatusCode::kPermissionDenied, "", true},
    {"BlobNotFound", absl::StatusCode::kNotFound},
    {"ContainerBeingDeleted", absl::StatusCode::kFailedPrecondition,
     "the container is being deleted; once it is gone, make it again"},
    {"ContainerNotFound", absl::StatusCode::kFailedPrecondition,
     "make the container, or correct its name"},
    {"Crc64Mismatch", absl::StatusCode::kDataLoss},
    {"InvalidBlockList", absl::StatusCode::kUnavailable},  // Blocks of this attempt were dropped.
    {"KeyBasedAuthenticationNotPermitted", absl::StatusCode::kPermissionDenied,
     "the storage account refuses keys and SAS; sign in with Entra ID"},
    {"LeaseIdMissing", absl::StatusCode::kPermissionDenied, "a lease keeps the blob; break it",
     true},
    {"Md5Mismatch", absl::StatusCode::kDataLoss},
    {"ServerBusy", absl::StatusCode::kResourceExhausted},
    {"SnapshotsPresent", absl::StatusCode::kPermissionDenied,
     "snapshots of the blob keep it; delete them", true}};

// Its lowest byte first, as all machines that this runs on have it.
std::string Crc64Bytes(absl::string_view bytes) {
  const uint64_t crc = Crc64(bytes);
  return {reinterpret_cast<const char*>(&crc), sizeof(crc)};
}

struct AzureError {
  std::string code;
  std::string message;  // its first line
  std::string detail;   // of refused credentials; may repeat what was signed
};

AzureError ReadAzureError(const net::HttpResponse& response) {
  AzureError error;
  // Of HEAD, and of a gateway, there is no XML.
  const auto pick = [&](absl::string_view path, const std::string& text) {
    PickText(path, text,
             {{"Error/Code", &error.code},
              {"Error/Message", &error.message},
              {"Error/AuthenticationErrorDetail", &error.detail}});
    return absl::OkStatus();
  };
  ReadXml(response.body, pick).IgnoreError();
  if (error.code.empty()) {
    error.code = net::Header(response, "x-ms-error-code");
  }
  error.message = error.message.substr(0, error.message.find('\n'));
  return error;
}

// Crc64Mismatch also of a body that is right, from a server that computes another CRC. The detail
// of a refused signature names the header as well.
bool IsRefusalOfCrc(const net::HttpResponse& response) {
  const AzureError error = ReadAzureError(response);
  return error.code == "Crc64Mismatch" || error.code == "UnsupportedHeader" ||
         absl::StrContains(error.message, kCrcHeader);
}

}  // namespace

absl::Status CheckAzureOptions(AzureOptions& options) {
  std::string& tier = options.access_tier;
  if (absl::EqualsIgnoreCase(tier, "Archive")) {
    return absl::InvalidArgumentError(
        "blobs of tier Archive cannot be read until they are rehydrated, and a repository reads "
        "its own in each run; use Hot, Cool or Cold");
  }
  const auto* const known = absl::c_find_if(
      kAzureTiers, [&](absl::string_view one) { return absl::EqualsIgnoreCase(one, tier); });
  if (!tier.empty() && known == std::end(kAzureTiers)) {
    return absl::InvalidArgumentError("the access tier is Hot, Cool or Cold");
  }
  tier = tier.empty() ? "" : std::string(*known);
  if (options.block_bytes < kBlockBytesMin || options.block_bytes > kBlockBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a block has from ", kBlockBytesMin, " to ", kBlockBytesMax, " bytes"));
  }
  return absl::OkStatus();
}

std::string AzureStringToSign(const net::HttpRequest& request, absl::string_view account) {
  std::map<std::string, std::string> headers;
  for (const auto& [name, value] : request.headers) {
    headers[absl::AsciiStrToLower(name)] = std::string(absl::StripAsciiWhitespace(value));
  }
  const std::size_t bytes = request.BodyBytes();
  headers["content-length"] = bytes == 0 ? "" : absl::StrCat(bytes);
  std::string text = request.method;
  for (const char* const name :
       {"content-encoding", "content-language", "content-length", "content-md5", "content-type",
        "date", "if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range"}) {
    absl::StrAppend(&text, "\n", headers[name]);
  }
  for (const auto& [name, value] : headers) {
    absl::StrAppend(&text,
                    absl::StartsWith(name, "x-ms-") ? absl::StrCat("\n", name, ":", value) : "");
  }
  const std::pair<absl::string_view, absl::string_view> target =
      absl::StrSplit(request.url.target, absl::MaxSplits('?', 1));
  absl::StrAppend(&text, "\n/", account, target.first);
  std::map<std::string, std::string> query;  // No name comes twice.
  for (const absl::string_view part : absl::StrSplit(target.second, '&', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> one =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    query[absl::AsciiStrToLower(net::PercentDecode(one.first))] = net::PercentDecode(one.second);
  }
  for (const auto& [name, value] : query) {
    absl::StrAppend(&text, "\n", name, ":", value);
  }
  return text;
}

absl::StatusOr<ListPage> ParseBlobList(absl::string_view xml) {
  ListPage page;
  ObjectInfo blob;
  bool is_encoded = false;
  bool is_shown = true;
  bool has_marker = false;
  const auto take = [&](absl::string_view path, std::string text) -> absl::Status {
    if (path == "NextMarker") {
      has_marker = true;
      page.next_token = std::move(text);
      return absl::OkStatus();
    }
    if (!absl::ConsumePrefix(&path, "Blobs/Blob")) {
      return absl::OkStatus();
    }
    const bool is_folder = absl::ConsumePrefix(&path, "Prefix");
    if (path == "/Name/@Encoded") {
      is_encoded = text == "true";
    } else if (path == "/Name") {
      blob.key = std::exchange(is_encoded, false) ? net::PercentDecode(text) : std::move(text);
    } else if (path == "/Properties/Content-Length") {
      if (!absl::SimpleAtoi(text, &blob.size_bytes) || blob.size_bytes < 0) {
        return absl::InvalidArgumentError("the size of a listed blob is not a number");
      }
    } else if (path == "/Properties/Last-Modified") {
      if (!absl::ParseTime(kAzureTime, text, &blob.modified_at, nullptr)) {
        blob.modified_at = absl::InfinitePast();
      }
    } else if ((path == "/Properties/ResourceType" && text == "directory") ||
               (path == "/Deleted" && text == "true") || (path == "/Snapshot" && !text.empty()) ||
               (path == "/IsCurrentVersion" && text == "false")) {
      is_shown = false;
    } else if (path.empty() && is_folder) {
      page.folders.push_back(std::exchange(blob, {}).key);
    } else if (path.empty()) {
      if (std::exchange(is_shown, true)) {
        page.objects.push_back(blob);
      }
      blob = {};
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(ReadXmlBelow("EnumerationResults", "a listing of a container", xml, take));
  if (!has_marker) {
    return absl::InvalidArgumentError("a page of a listing does not say whether it is the last");
  }
  return page;
}

absl::StatusOr<std::vector<std::pair<std::string, net::HttpResponse>>> ParseBatchAnswer(
    const net::HttpResponse& answer) {
  const std::pair<std::string, std::string> type =
      absl::StrSplit(net::Header(answer, "content-type"), absl::MaxSplits("boundary=", 1));
  const std::string boundary =
      absl::StrCat("--", absl::StripSuffix(absl::StripPrefix(type.second, "\""), "\""));
  std::vector<absl::string_view> texts = absl::StrSplit(answer.body, boundary);
  if (type.second.empty() || texts.size() < 2 || !absl::StartsWith(texts.back(), "--")) {
    return absl::InvalidArgumentError("not a whole answer to a batch");
  }
  texts.pop_back();
  std::vector<std::pair<std::string, net::HttpResponse>> parts;
  for (const absl::string_view text : absl::MakeSpan(texts).subspan(1)) {
    // Headers of the part, then status and headers of the answer, then its body.
    const std::vector<absl::string_view> pieces =
        absl::StrSplit(text, absl::MaxSplits("\r\n\r\n", 2));
    std::string id;
    for (absl::string_view line : absl::StrSplit(pieces.front(), "\r\n")) {
      if (absl::StartsWithIgnoreCase(line, "content-id:")) {
        id = std::string(absl::StripAsciiWhitespace(line.substr(line.find(':') + 1)));
      }
    }
    net::HttpResponse response;
    response.body = std::string(pieces.size() > 2 ? pieces[2] : "");
    absl::string_view status = pieces.size() > 1 ? pieces[1] : "";
    if (!absl::ConsumePrefix(&status, "HTTP/1.1 ") ||
        !absl::SimpleAtoi(status.substr(0, 3), &response.status)) {
      return absl::InvalidArgumentError("a part of an answer to a batch has no status");
    }
    parts.emplace_back(std::move(id), std::move(response));
  }
  return parts;
}

AzureObjectStore::AzureObjectStore(AzureOptions options, net::HttpClient& http,
                                   AzureCredentials& credentials, Random& random, StoreMeter& meter)
    : BucketObjectStore(options.prefix, http, credentials, meter),
      options_(std::move(options)),
      credentials_(credentials),
      random_(random),
      meter_(meter) {}

std::string AzureObjectStore::Describe() const {
  return absl::StrCat("azure:", options_.container, ":/", prefix());
}

absl::StatusOr<BucketObjectStore::SignedRequest> AzureObjectStore::Sign(const CallContext& ctx,
                                                                        const BucketCall& call,
                                                                        absl::Time time) {
  ASSIGN_OR_RETURN(const AzureAccess access, credentials_.Get(ctx));
  net::HttpRequest request{.method = call.method,
                           .url = access.endpoint,
                           .headers = call.headers,
                           .body = "",
                           .borrowed_body = call.body,
                           .answer_bytes_max = call.answer_bytes_max};
  absl::StrAppend(&request.url.target, "/", net::PercentEncode(options_.container),
                  call.key.empty() ? "" : "/",
                  call.key.empty() ? "" : EncodePath(absl::StrCat(prefix(), call.key)),
                  call.query.empty() ? "" : "?", call.query);
  if (!call.is_part) {
    request.headers.emplace_back("x-ms-version", kAzureVersion);
  }
  request.headers.emplace_back("x-ms-date",
                               absl::FormatTime(kAzureTime, time, absl::UTCTimeZone()));
  if (!access.key.empty()) {
    const Sha256Digest signature =
        HmacSha256(access.key.Reveal(), AzureStringToSign(request, access.account));
    request.headers.emplace_back(
        "authorization",
        absl::StrCat("SharedKey ", access.account, ":", absl::Base64Escape(AsBytes(signature))));
  } else if (!access.token.empty()) {
    request.headers.emplace_back("authorization", absl::StrCat("Bearer ", access.token.Reveal()));
  } else {
    absl::StrAppend(&request.url.target, call.query.empty() ? "?" : "&", access.sas.Reveal());
  }
  return SignedRequest{
      .http = std::move(request),
      .credential = Secret(absl::StrCat(access.key.Reveal(), "\n", access.sas.Reveal(), "\n",
                                        access.token.Reveal()))};
}

BucketObjectStore::Refusal AzureObjectStore::ReadRefusal(const net::HttpResponse& response) const {
  const AzureError error = ReadAzureError(response);
  if (response.status == 401) {
    return Refusal::kExpired;
  }
  if (error.code != "AuthenticationFailed") {
    return response.status == 403 && error.code.empty() ? Refusal::kClock : Refusal::kOther;
  }
  if (error.detail.empty() || absl::StrContains(error.detail, "date header")) {
    return Refusal::kClock;
  }
  return absl::StrContains(error.detail, "MAC signature") ? Refusal::kSignature
                                                          : Refusal::kCredentials;
}

absl::Status AzureObjectStore::ReadFailure(const net::HttpResponse& response,
                                           const BucketCall& /*call*/) const {
  const AzureError error = ReadAzureError(response);
  absl::Status status = S3Status(
      response, {.code = error.code, .message = error.message, .region = "", .endpoint = ""}, "");
  std::string text = absl::StrCat("container ", options_.container, ": ", status.message());
  if (response.status == 401 || response.status == 403) {
    absl::StrAppend(&text, " (signed in ", credentials_.way().text, ")");
  }
  const auto* const meaning = absl::c_find_if(
      kAzureMeanings, [&](const AzureMeaning& one) { return one.code == error.code; });
  if (meaning == std::end(kAzureMeanings)) {
    // Only that name says that a blob is missing.
    const bool is_other = response.status == 404 && !error.code.empty();
    return {is_other ? absl::StatusCode::kFailedPrecondition : status.code(), text};
  }
  // Azurite calls a wrong key so; the service says AuthenticationFailed.
  const bool may_be_key = error.code == "AuthorizationFailure" && credentials_.way().is_key;
  absl::StrAppend(&text, meaning->advice.empty() ? "" : "; ", meaning->advice,
                  may_be_key ? ", or the key is wrong" : "");
  status = absl::Status(meaning->status, text);
  return meaning->is_retained ? AsRetained(std::move(status)) : status;
}

BucketCall AzureObjectStore::PageCall(const PageRequest& page) const {
  const std::string from = absl::StrCat(prefix(), page.prefix);
  std::string query =
      absl::StrCat("restype=container&comp=list", page.is_deep ? "" : "&delimiter=%2F",
                   "&maxresults=", options_.page_objects_max,
                   from.empty() ? "" : "&prefix=", net::PercentEncode(from));
  if (!page.token.empty()) {
    absl::StrAppend(&query, "&marker=", net::PercentEncode(page.token));
  }
  return {.what = "", .method = "GET", .query = std::move(query), .answer_bytes_max = kXmlBytesMax};
}

absl::StatusOr<ListPage> AzureObjectStore::ParsePage(const std::string& body) const {
  return ParseBlobList(body);
}

absl::Status AzureObjectStore::Put(const CallContext& ctx, const std::string& key,
                                   absl::string_view bytes, const PutOptions& options) {
  RETURN_IF_ERROR(CheckPut(key, options));
  BucketCall call{.what = absl::StrCat("put ", key),
                  .method = "PUT",
                  .key = key,
                  .body = bytes,
                  .answer_bytes_max = kErrorBytesMax};
  if (options.if_absent) {
    call.headers.emplace_back("if-none-match", "*");
  }
  if (!options_.access_tier.empty() && absl::StartsWith(key, kPacksPrefix)) {
    call.headers.emplace_back("x-ms-access-tier", options_.access_tier);
  }
  if (std::ssize(bytes) > options_.block_bytes) {
    return PutBlocks(ctx, call);
  }
  call.headers.emplace_back("x-ms-blob-type", "BlockBlob");
  return PutBody(ctx, std::move(call));
}

absl::StatusOr<std::vector<absl::Status>> AzureObjectStore::DeleteBatch(
    const CallContext& ctx, absl::Span<const std::string> keys) {
  const std::string boundary = absl::StrCat("batch_", absl::Hex(random_.Below(int64_t{1} << 62)));
  std::string body;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    RETURN_IF_ERROR(CheckKey(keys[i]));
    const BucketCall part{.what = "", .method = "DELETE", .key = keys[i], .is_part = true};
    ASSIGN_OR_RETURN(const SignedRequest request, Sign(ctx, part, ServerTime(ctx)));
    absl::StrAppend(&body, "--", boundary,
                    "\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n"
                    "Content-ID: ",
                    i, "\r\n\r\nDELETE ", request.http.url.target, " HTTP/1.1\r\n");
    for (const auto& [name, value] : request.http.headers) {
      absl::StrAppend(&body, name, ": ", value, "\r\n");
    }
    absl::StrAppend(&body, "content-length: 0\r\n\r\n");
  }
  absl::StrAppend(&body, "--", boundary, "--\r\n");
  const BucketCall call{
      .what = absl::StrCat("delete ", keys.size(), " objects"),
      .method = "POST",
      .query = "restype=container&comp=batch",
      .headers = {{"content-type", absl::StrCat("multipart/mixed; boundary=", boundary)}},
      .body = body,
      .answer_bytes_max = kXmlBytesMax};
  ASSIGN_OR_RETURN(const net::HttpResponse answer, SendBatch(ctx, call));
  const auto parts = ParseBatchAnswer(answer);
  if (!parts.ok()) {
    return EndBatches(Annotate(parts.status(), call.what));
  }
  std::vector<absl::Status> told = Untold(keys.size());
  for (const auto& [id, part] : *parts) {
    std::size_t number = 0;
    if (!absl::SimpleAtoi(id, &number) || number >= keys.size()) {
      // Without an id it is the refusal of the whole batch.
      const absl::Status refused = Failure(part, call);
      return id.empty() && !IsSuccess(part) && MayHeal(refused) ? refused : EndBatches(refused);
    }
    // A refusal of credentials stays untold: a request of its own may renew them.
    if (IsSuccess(part) || ReadRefusal(part) == Refusal::kOther) {
      Tell(IsSuccess(part)
               ? absl::OkStatus()
               : Annotate(ReadFailure(part, call), absl::StrCat("delete ", keys[number])),
           told[number]);
    }
  }
  return told;
}

// Puts `call.body` block by block, then the list that makes a blob of them.
absl::Status AzureObjectStore::PutBlocks(const CallContext& ctx, BucketCall& call) {
  // With the number 16 bytes, as restic has: all blocks of a blob have ids of one length.
  std::string attempt(12, '\0');
  absl::c_generate(attempt, [&] { return static_cast<char>(random_.Below(256)); });
  std::string list = "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>";
  absl::string_view rest = call.body;
  for (int64_t count = 0; !rest.empty(); ++count) {
    const std::string id =
        absl::Base64Escape(absl::StrCat(attempt, absl::Hex(count, absl::kZeroPad4)));
    const absl::string_view block = rest.substr(0, static_cast<std::size_t>(options_.block_bytes));
    rest.remove_prefix(block.size());
    RETURN_IF_ERROR(
        PutBody(ctx, {.what = call.what,
                      .method = "PUT",
                      .key = call.key,
                      .query = absl::StrCat("comp=block&blockid=", net::PercentEncode(id)),
                      .body = block,
                      .answer_bytes_max = kErrorBytesMax}));
    meter_.Add(&StoreUsage::put_requests, 1);
    absl::StrAppend(&list, "<Uncommitted>", id, "</Uncommitted>");
  }
  absl::StrAppend(&list, "</BlockList>");
  call.query = "comp=blocklist";
  call.body = list;
  return PutBody(ctx, call);
}

// One PUT with a checksum of its body. A server has verified the CRC-64 if its answer repeats it.
absl::Status AzureObjectStore::PutBody(const CallContext& ctx, BucketCall call) {
  const bool with_crc = !crc_is_unknown_;
  const std::string checksum =
      absl::Base64Escape(with_crc ? Crc64Bytes(call.body) : Md5(call.body));
  const char* const header = with_crc ? kCrcHeader : "content-md5";
  if (!checksum.empty()) {
    call.headers.emplace_back(header, checksum);
  }
  ASSIGN_OR_RETURN(const net::HttpResponse response, Send(ctx, call));
  const std::string stored = net::Header(response, header);
  const bool is_stored = response.status == 201;
  if (with_crc && (is_stored ? stored.empty() : IsRefusalOfCrc(response))) {
    crc_is_unknown_ = true;
    CountFurther(call);
    std::erase_if(call.headers, [&](const auto& one) {  // What is stored now is this object.
      return one.first == kCrcHeader || (is_stored && one.first == "if-none-match");
    });
    return PutBody(ctx, std::move(call));
  }
  if (!IsSuccess(response)) {
    const bool is_conditional =
        absl::c_any_of(call.headers, [](const auto& one) { return one.first == "if-none-match"; });
    const std::string code = ReadAzureError(response).code;
    // A SAS that may create, but not write, is told so of a blob that is there.
    return is_conditional && (response.status == 412 || code == "BlobAlreadyExists" ||
                              code == "UnauthorizedBlobOverwrite")
               ? ObjectExists(call.key)
               : Failure(response, call);
  }
  if (!is_stored) {
    return absl::UnavailableError(absl::StrCat(call.what, ": the server answered ", response.status,
                                               ", not that it stored something"));
  }
  return stored.empty() || stored == checksum
             ? absl::OkStatus()
             : absl::DataLossError(absl::StrCat(call.what, ": the server stored other bytes"));
}

}  // namespace csidelta::storage
