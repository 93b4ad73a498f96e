#include "tests/support/fake_s3_server.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/md5.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "net/url.h"

namespace csidelta::support {
namespace {

constexpr absl::Duration kSkewMax = absl::Minutes(15);

std::string Sha256Of(const std::string& bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

std::string Md5Of(const std::string& bytes) {
  std::array<unsigned char, MD5_DIGEST_LENGTH> digest;
  EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_md5(), nullptr);
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

std::string Hmac(const std::string& key, const std::string& text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(), nullptr);
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

// "Credential=a, SignedHeaders=b, Signature=c" as a map.
std::map<std::string, std::string> AuthorizationParts(absl::string_view header) {
  const bool is_known = absl::ConsumePrefix(&header, "AWS4-HMAC-SHA256 ");
  return ReadPairs(is_known ? absl::StrReplaceAll(header, {{", ", "&"}}) : "");
}

std::string EscapeXml(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

}  // namespace

FakeS3Server::FakeS3Server(FakeS3Options options)
    : FakeBucketServer(*options.clock), options_(std::move(options)) {
  Start(options_.http);
}

void FakeS3Server::SetSessionToken(const std::string& token) {
  std::scoped_lock lock(mutex_);
  options_.session_token = token;
}

void FakeS3Server::SetSecretKey(const std::string& key) {
  std::scoped_lock lock(mutex_);
  options_.secret_access_key = key;
}

void FakeS3Server::Serve(const ServedRequest& request, ServedConnection& connection) {
  const std::optional<Target> target = Split(request);
  const bool with_body = request.method != "HEAD";
  if (AnswerOddly(request, connection)) {
    return;
  }
  if (is_gone_ || !target.has_value()) {
    Fail(404, "NoSuchBucket", connection, with_body);
    return;
  }
  if (const std::string code = Verify(request, *target); !code.empty()) {
    Fail(absl::StartsWith(code, "X") || code == "BadDigest" ? 400 : 403, code, connection,
         with_body);
    return;
  }
  Answer(request, *target, connection);
}

bool FakeS3Server::AnswerOddly(const ServedRequest& request, ServedConnection& connection) {
  const S3Quirks& quirks = options_.quirks;
  const bool is_head = request.method == "HEAD";
  const auto names_region = [&](const std::string& header) {
    return absl::StrContains(ValueOf(request.headers, header), options_.region);
  };
  const std::string region = absl::StrCat("<Region>", options_.region, "</Region>");
  if (quirks.region == S3Quirks::Region::kByHost && !names_region("host")) {
    connection.Raw(absl::StrCat("HTTP/1.1 301 Moved Permanently\r\nContent-Length: 0\r\n",
                                "x-amz-bucket-region: ", options_.region, "\r\n\r\n"));
  } else if (quirks.region == S3Quirks::Region::kBySignature && !names_region("authorization")) {
    Fail(400, "AuthorizationHeaderMalformed", connection, !is_head, region);
  } else if (is_head && quirks.head_status != 0) {
    Fail(quirks.head_status, "", connection, /*with_body=*/false);
  } else if (quirks.throttles &&
             throttled_.insert(absl::StrCat(request.method, " ", request.target)).second) {
    // HEAD has no body that could name KMS.
    Fail(is_head ? 503 : 400, "KMS.ThrottlingException", connection, !is_head);
  } else if (quirks.refuses_checksum && request.headers.contains("x-amz-checksum-sha256")) {
    connection.Send(400,
                    "<Error><Code>InvalidArgument</Code><Message>Unsupported header "
                    "'x-amz-checksum-sha256' received for this API call.</Message></Error>");
  } else if (quirks.refuses_checksum && request.method == "PUT" &&
             ValueOf(request.headers, "content-md5") != absl::Base64Escape(Md5Of(request.body))) {
    Fail(400, "InvalidRequest", connection);
  } else {
    return false;
  }
  return true;
}

std::optional<FakeS3Server::Target> FakeS3Server::Split(const ServedRequest& request) const {
  Target target;
  const std::vector<std::string> parts = absl::StrSplit(request.target, absl::MaxSplits('?', 1));
  target.path = parts.front();
  target.raw_query = parts.size() > 1 ? parts.back() : "";
  target.query = ReadPairs(target.raw_query);
  std::string path = net::PercentDecode(target.path.substr(1));
  if (!absl::StartsWith(ValueOf(request.headers, "host"), options_.bucket + ".")) {
    const std::vector<std::string> segments = absl::StrSplit(path, absl::MaxSplits('/', 1));
    if (segments.front() != options_.bucket) {
      return std::nullopt;
    }
    path = segments.size() > 1 ? segments.back() : "";
  }
  target.key = path;
  return target;
}

std::string FakeS3Server::ExpectedSignature(const ServedRequest& request, const Target& target,
                                            const std::string& signed_names) const {
  std::vector<std::string> query = absl::StrSplit(target.raw_query, '&', absl::SkipEmpty());
  std::sort(query.begin(), query.end());
  std::string lines;
  for (const absl::string_view name : absl::StrSplit(signed_names, ';')) {
    absl::StrAppend(&lines, name, ":", ValueOf(request.headers, std::string(name)), "\n");
  }
  const std::string time = ValueOf(request.headers, "x-amz-date");
  const std::string day = time.substr(0, 8);
  const std::string canonical =
      absl::StrCat(request.method, "\n", target.path, "\n", absl::StrJoin(query, "&"), "\n", lines,
                   "\n", signed_names, "\n", ValueOf(request.headers, "x-amz-content-sha256"));
  const std::string text =
      absl::StrCat("AWS4-HMAC-SHA256\n", time, "\n", day, "/", options_.region,
                   "/s3/aws4_request\n", absl::BytesToHexString(Sha256Of(canonical)));
  std::string key = absl::StrCat("AWS4", options_.secret_access_key);
  for (const std::string& step :
       {day, options_.region, std::string("s3"), std::string("aws4_request")}) {
    key = Hmac(key, step);
  }
  return absl::BytesToHexString(Hmac(key, text));
}

std::string FakeS3Server::Verify(const ServedRequest& request, const Target& target) {
  const auto refuse = [&](const char* code, const std::string& why) {
    refusals_.push_back(absl::StrCat(request.method, " ", request.target, ": ", why));
    return std::string(code);
  };
  std::map<std::string, std::string> parts =
      AuthorizationParts(ValueOf(request.headers, "authorization"));
  absl::Time time;
  if (!absl::ParseTime("%E4Y%m%dT%H%M%SZ", ValueOf(request.headers, "x-amz-date"), &time,
                       nullptr)) {
    return refuse("AccessDenied", "no date");
  }
  if (absl::AbsDuration(time - clock_.Now()) > kSkewMax) {
    return refuse("RequestTimeTooSkewed", "clock");
  }
  const std::string scope = absl::StrCat(ValueOf(request.headers, "x-amz-date").substr(0, 8), "/",
                                         options_.region, "/s3/aws4_request");
  if (parts["Credential"] != absl::StrCat(options_.access_key_id, "/", scope)) {
    return refuse("InvalidAccessKeyId", "credential " + parts["Credential"]);
  }
  if (ValueOf(request.headers, "x-amz-security-token") != options_.session_token) {
    return refuse("ExpiredToken", "session token");
  }
  const std::vector<std::string> names = absl::StrSplit(parts["SignedHeaders"], ';');
  const std::set<std::string> signed_set(names.begin(), names.end());
  if (!std::is_sorted(names.begin(), names.end()) || !signed_set.contains("host")) {
    return refuse("SignatureDoesNotMatch", "signed headers " + parts["SignedHeaders"]);
  }
  for (const auto& [name, value] : request.headers) {
    if ((absl::StartsWith(name, "x-amz-") || name == "range" || name == "if-none-match") &&
        !signed_set.contains(name)) {
      return refuse("SignatureDoesNotMatch", name + " is not signed");
    }
  }
  if (parts["Signature"] != ExpectedSignature(request, target, parts["SignedHeaders"])) {
    return refuse("SignatureDoesNotMatch", "signature");
  }
  if (is_bench()) {
    return "";
  }
  const std::string hash = Sha256Of(request.body);
  if (ValueOf(request.headers, "x-amz-content-sha256") != absl::BytesToHexString(hash)) {
    return refuse("XAmzContentSHA256Mismatch", "payload hash");
  }
  const std::string checksum = ValueOf(request.headers, "x-amz-checksum-sha256");
  if (!checksum.empty() && checksum != absl::Base64Escape(hash)) {
    return refuse("BadDigest", "checksum");
  }
  return "";
}

void FakeS3Server::Answer(const ServedRequest& request, const Target& target,
                          ServedConnection& connection) {
  if (target.key.empty()) {
    if (request.method == "GET" && target.query.contains("prefix")) {
      List(target, connection);
    } else if (request.method == "POST" && target.query.contains("delete")) {
      DeleteMany(request, connection);
    } else {
      Fail(405, "MethodNotAllowed", connection);
    }
  } else if (request.method == "PUT") {
    Put(request, target.key, connection);
  } else if (request.method == "GET" || request.method == "HEAD") {
    Get(request, target.key, connection);
  } else if (request.method == "DELETE") {
    Delete(target.key, connection);
  } else {
    Fail(405, "MethodNotAllowed", connection);
  }
}

// docs.aws.amazon.com/AmazonS3/latest/userguide/intro-lifecycle-rules.html: versions since they are
// not current, markers when no version is left below them, uploads since they began.
std::vector<FakeS3Server::LifecycleRule> FakeS3Server::ReadLifecycle(const Json& rules) const {
  std::vector<LifecycleRule> read;
  for (const Json& rule : JsonArrayAt(rules, {"Rules"})) {
    CSIDELTA_CHECK(rule.size() == 4 && GetString(rule, {"Status"}) == "Enabled");
    LifecycleRule one{.kind = "marker", .prefix = GetString(rule, {"Filter", "Prefix"}), .age = {}};
    if (rule.contains("NoncurrentVersionExpiration")) {
      one.kind = "version";
      one.age = Days(rule, {"NoncurrentVersionExpiration", "NoncurrentDays"});
    } else if (rule.contains("AbortIncompleteMultipartUpload")) {
      one.kind = "upload";
      one.age = Days(rule, {"AbortIncompleteMultipartUpload", "DaysAfterInitiation"});
    } else {
      CSIDELTA_CHECK(GetBool(rule, {"Expiration", "ExpiredObjectDeleteMarker"}));
    }
    read.push_back(std::move(one));
  }
  return read;
}

void FakeS3Server::Delete(const std::string& key, ServedConnection& connection) {
  if (refused_.contains(key)) {
    Fail(403, "AccessDenied", connection);
    return;
  }
  const bool was_there = Remove(key);
  if (keeps_versions()) {
    Leave("marker", key);
  }
  if (options_.quirks.odd_statuses && !was_there) {
    Fail(404, "NoSuchKey", connection);
  } else if (options_.quirks.odd_statuses) {
    connection.Send(200, "");
  } else {
    connection.Raw("HTTP/1.1 204 No Content\r\n\r\n");
  }
}

void FakeS3Server::DeleteMany(const ServedRequest& request, ServedConnection& connection) {
  const BatchManner manner = options_.quirks.batch;
  std::vector<std::string> keys = absl::StrSplit(request.body, "<Key>");
  keys.erase(keys.begin());
  if (manner == BatchManner::kNotImplemented || manner == BatchManner::kNotAllowed) {
    const bool is_allowed = manner == BatchManner::kNotImplemented;
    Fail(is_allowed ? 501 : 405, is_allowed ? "NotImplemented" : "MethodNotAllowed", connection);
    return;
  }
  if (manner == BatchManner::kFails) {
    Fail(500, "InternalError", connection);
    return;
  }
  bool is_xml = true;
  for (std::string& key : keys) {
    const std::string written = key.substr(0, key.find("</Key>"));
    key = absl::StrReplaceAll(written, {{"&lt;", "<"}, {"&gt;", ">"}, {"&amp;", "&"}});
    is_xml = is_xml && EscapeXml(key) == written;
  }
  if (manner == BatchManner::kMalformed || keys.size() > 1000 || !is_xml ||
      ValueOf(request.headers, "content-md5") != absl::Base64Escape(Md5Of(request.body))) {
    Fail(400, "MalformedXML", connection);
    return;
  }
  std::string entries;
  for (const std::string& key : keys) {
    const bool is_left_out = manner == BatchManner::kLeavesOut && &key == &keys.back();
    const bool is_refused = refused_.contains(key);
    if (manner <= BatchManner::kLeavesOut && !is_left_out && !is_refused) {
      Remove(key);
    }
    const char* const element = is_refused ? "Error" : "Deleted";
    absl::StrAppend(&entries, is_left_out ? "<!--" : "", "<", element, "><Key>", EscapeXml(key),
                    "</Key>", is_refused ? "<Code>AccessDenied</Code>" : "", "</", element, ">",
                    is_left_out ? "-->" : "");
  }
  entries += manner == BatchManner::kForeign ? "<Deleted><Key>elsewhere</Key></Deleted>" : "";
  const std::string answer =
      absl::StrCat(manner == BatchManner::kHostile ? "<!DOCTYPE a [<!ENTITY b \"b\">]>" : "",
                   "<DeleteResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">", entries,
                   "</DeleteResult>");
  connection.Send(200,
                  manner == BatchManner::kCutOff ? answer.substr(0, answer.size() - 20) : answer);
}

void FakeS3Server::Put(const ServedRequest& request, const std::string& key,
                       ServedConnection& connection) {
  if (const std::string condition = ValueOf(request.headers, "if-none-match"); !condition.empty()) {
    using Condition = S3Quirks::Condition;
    const Condition known = options_.quirks.if_none_match;
    if (known == Condition::kNotImplemented || known == Condition::kInvalid) {
      const bool is_invalid = known == Condition::kInvalid;
      Fail(is_invalid ? 400 : 501, is_invalid ? "InvalidArgument" : "NotImplemented", connection);
      return;
    }
    if (known == Condition::kHeeded && objects_.contains(key)) {
      Fail(412, "PreconditionFailed", connection);
      return;
    }
  }
  const std::string& stored = Store(key, Received(request.body)).bytes;
  put_headers_[key] = request.headers;
  Headers headers = {
      {"ETag", "\"0123\""},
      {"x-amz-checksum-sha256", is_bench() ? ValueOf(request.headers, "x-amz-checksum-sha256")
                                           : absl::Base64Escape(Sha256Of(stored))}};
  if (options_.quirks.omits_etag) {
    headers.clear();
  }
  connection.Send(options_.quirks.odd_statuses ? 204 : 200, "", headers);
}

void FakeS3Server::Get(const ServedRequest& request, const std::string& key,
                       ServedConnection& connection) {
  const bool is_head = request.method == "HEAD";
  const auto found = objects_.find(key);
  if (found == objects_.end()) {
    Fail(404, "NoSuchKey", connection, !is_head);
    return;
  }
  const std::string& bytes = found->second.bytes;
  if (is_head) {
    const std::string length = absl::StrCat("Content-Length: ", bytes.size(), "\r\n");
    connection.Raw(
        absl::StrCat("HTTP/1.1 200 OK\r\n", options_.quirks.omits_length ? "" : length, "\r\n"));
  } else if (!options_.heeds_ranges) {
    connection.Send(200, bytes);
  } else if (!SendObject(request, bytes, {}, connection)) {
    Fail(416, "InvalidRange", connection);
  }
}

// The continuation token is the last key, or folder, of the page before; before an empty page it
// has "!" behind it. The first form of listings is that of ListObjects: NextMarker only where there
// is a delimiter.
void FakeS3Server::List(const Target& target, ServedConnection& connection) {
  const auto get = [&](const char* name) { return ValueOf(target.query, name); };
  const std::string prefix = get("prefix");
  const bool is_v1 = options_.quirks.lists_v1;
  std::string token =
      is_v1 ? get("marker") : std::max(get("continuation-token"), get("start-after"));
  const bool is_empty = options_.quirks.lists_empty_pages && absl::EndsWith(token, "!");
  token = std::string(absl::StripSuffix(token, "!"));
  const auto written = [&](const std::string& key) {
    return get("encoding-type") == "url" ? net::PercentEncode(key) : EscapeXml(key);
  };
  std::string entries;
  std::string last;
  std::size_t count = 0;
  bool is_truncated = is_empty;
  for (auto object = token < prefix ? objects_.lower_bound(prefix) : objects_.upper_bound(token);
       object != objects_.end() && absl::StartsWith(object->first, prefix) && !is_empty; ++object) {
    const auto slash = get("delimiter").empty()
                           ? std::string::npos
                           : object->first.find(get("delimiter"), prefix.size());
    const bool is_folder = slash != std::string::npos;
    const std::string name = is_folder ? object->first.substr(0, slash + 1) : object->first;
    if (is_folder && (name == last || name == token)) {
      continue;
    }
    if (count == options_.page_objects_max) {
      is_truncated = true;
      break;
    }
    ++count;
    last = name;
    absl::StrAppend(
        &entries,
        is_folder
            ? absl::StrCat("<CommonPrefixes><Prefix>", written(name), "</Prefix></CommonPrefixes>")
            : absl::StrCat("<Contents><Key>", written(name), "</Key><Size>",
                           object->second.bytes.size(),
                           "</Size><StorageClass>STANDARD</StorageClass></Contents>"));
  }
  const std::string next = is_empty ? token : options_.quirks.lists_empty_pages ? last + "!" : last;
  std::string where_next = is_v1 ? absl::StrCat("<Marker>", written(token), "</Marker>") : "";
  if (is_truncated && !is_v1) {
    where_next =
        absl::StrCat("<NextContinuationToken>", EscapeXml(next), "</NextContinuationToken>");
  } else if (is_truncated && !get("delimiter").empty()) {
    absl::StrAppend(&where_next, "<NextMarker>", written(next), "</NextMarker>");
  }
  connection.Send(
      200,
      absl::StrCat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"http://"
                   "s3.amazonaws.com/doc/2006-03-01/\"><Name>",
                   options_.bucket, "</Name><Prefix>", net::PercentEncode(prefix), "</Prefix>",
                   get("encoding-type") == "url" ? "<EncodingType>url</EncodingType>" : "",
                   "<IsTruncated>", is_truncated ? "true" : "false", "</IsTruncated>", entries,
                   where_next, "</ListBucketResult>"));
}

void FakeS3Server::Fail(int status, const std::string& code, ServedConnection& connection,
                        bool with_body, const std::string& more) const {
  const std::string body =
      absl::StrCat("<?xml version=\"1.0\"?><Error><Code>", code, "</Code><Message>fake: ", code,
                   "</Message>", more, "</Error>");
  if (with_body) {
    connection.Send(status, body, {{"Date", HttpNow()}, {"x-amz-request-id", "req1"}});
  } else {
    connection.Raw(absl::StrCat("HTTP/1.1 ", status, " Text\r\nDate: ", HttpNow(),
                                "\r\nContent-Length: ", body.size(), "\r\n\r\n"));
  }
}

}  // namespace csidelta::support
