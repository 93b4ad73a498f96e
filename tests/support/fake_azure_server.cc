#include "tests/support/fake_azure_server.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/crypto.h"
#include "net/url.h"

namespace csidelta::support {
namespace {

constexpr absl::Duration kAzureSkewMax = absl::Minutes(15);

constexpr char kCrcHeader[] = "x-ms-content-crc64";

// A name that XML can have, else percent-encoded with a mark.
std::string NameElement(const std::string& name) {
  const bool is_plain = std::all_of(name.begin(), name.end(), [](char c) { return c >= ' '; });
  return is_plain ? absl::StrCat("<Name>", name, "</Name>")
                  : absl::StrCat("<Name Encoded=\"true\">", net::PercentEncode(name), "</Name>");
}

}  // namespace

FakeAzureServer::FakeAzureServer(FakeAzureOptions options)
    : FakeBucketServer(*options.clock), options_(std::move(options)) {
  Start(options_.http);
}

std::string FakeAzureServer::uri() const {
  return absl::StrCat(url(), options_.account_in_path ? "/" : "",
                      options_.account_in_path ? options_.account : "");
}

void FakeAzureServer::AllowToken(const std::string& token, absl::Time expires_at) {
  std::scoped_lock lock(mutex_);
  tokens_[token] = expires_at;
}

void FakeAzureServer::SetKey(const std::string& key) {
  std::scoped_lock lock(mutex_);
  options_.key = key;
}

std::size_t FakeAzureServer::uncommitted_blocks() const {
  std::scoped_lock lock(mutex_);
  std::size_t count = 0;
  for (const auto& [key, blocks] : blocks_) {
    count += blocks.size();
  }
  return count;
}

void FakeAzureServer::Serve(const ServedRequest& request, ServedConnection& connection) {
  const bool with_body = request.method != "HEAD";
  const std::optional<Target> target = Split(request);
  if (is_gone_ || !target.has_value()) {
    Fail({404, "ContainerNotFound"}, with_body, connection);
  } else if (const std::optional<Refusal> refusal = Verify(request, *target)) {
    Fail(*refusal, with_body, connection);
  } else {
    Answer(request, *target, connection);
  }
}

std::optional<FakeAzureServer::Target> FakeAzureServer::Split(const ServedRequest& request) const {
  Target target;
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(request.target, absl::MaxSplits('?', 1));
  target.path = parts.first;
  target.query = ReadPairs(parts.second);
  const std::string path = net::PercentDecode(target.path);
  absl::string_view rest = path;
  if (options_.account_in_path && !absl::ConsumePrefix(&rest, "/" + options_.account)) {
    return std::nullopt;
  }
  if (!absl::ConsumePrefix(&rest, "/" + options_.container) ||
      (!rest.empty() && !absl::ConsumePrefix(&rest, "/"))) {
    return std::nullopt;
  }
  target.key = std::string(rest);
  return target;
}

// .../authorize-with-shared-key#blob-queue-and-file-services-shared-key-authorization
std::string FakeAzureServer::ExpectedSignature(const ServedRequest& request,
                                               const Target& target) const {
  const auto header = [&](const char* name) { return ValueOf(request.headers, name); };
  const std::string length = header("content-length");
  std::string text = absl::StrCat(
      request.method, "\n", header("content-encoding"), "\n", header("content-language"), "\n",
      length == "0" ? "" : length, "\n", header("content-md5"), "\n", header("content-type"), "\n",
      header("date"), "\n", header("if-modified-since"), "\n", header("if-match"), "\n",
      header("if-none-match"), "\n", header("if-unmodified-since"), "\n", header("range"), "\n");
  for (const auto& [name, value] : request.headers) {
    if (absl::StartsWith(name, "x-ms-")) {
      text += name + ":" + value + "\n";
    }
  }
  text += "/" + options_.account + target.path;
  for (const auto& [name, value] : target.query) {
    text += "\n" + name + ":" + value;
  }
  std::string key;
  absl::Base64Unescape(options_.key, &key);
  std::array<unsigned char, 32> digest;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(), nullptr);
  return absl::Base64Escape({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

std::optional<FakeAzureServer::Refusal> FakeAzureServer::CheckLetIn(const ServedRequest& request,
                                                                    const Target& target) const {
  const std::string authorization = ValueOf(request.headers, "authorization");
  absl::string_view shown = authorization;
  if (absl::ConsumePrefix(&shown, "Bearer ")) {
    const auto token = tokens_.find(std::string(shown));
    const bool is_good = token != tokens_.end() && clock_.Now() < token->second;
    return is_good ? std::nullopt
                   : std::optional<Refusal>(
                         Refusal{401, "InvalidAuthenticationInfo",
                                 "Lifetime validation failed. The token is expired."});
  }
  if (authorization.empty() && !options_.sas.empty() && target.query.contains("sig")) {
    const bool is_good = absl::EndsWith(request.target, options_.sas);
    return is_good
               ? std::nullopt
               : std::optional<Refusal>(Refusal{403, "AuthenticationFailed",
                                                "Signature not valid in the specified time frame"});
  }
  if (options_.key.empty()) {
    return Refusal{403, "KeyBasedAuthenticationNotPermitted"};
  }
  if (authorization !=
      absl::StrCat("SharedKey ", options_.account, ":", ExpectedSignature(request, target))) {
    return Refusal{403, "AuthenticationFailed",
                   "The MAC signature found in the HTTP request is not the same as any computed"};
  }
  return std::nullopt;
}

// The header for a checksum that the request has, and its value for `bytes`.
std::pair<std::string, std::string> FakeAzureServer::ChecksumFor(const ServedRequest& request,
                                                                 const std::string& bytes) const {
  const std::string header = request.headers.contains(kCrcHeader) ? kCrcHeader : "content-md5";
  if (is_bench()) {
    return {header, ValueOf(request.headers, header)};
  }
  const uint64_t crc = Crc64(bytes);  // in the order of bytes of azure_object_store_test.cc
  const std::string crc_bytes(reinterpret_cast<const char*>(&crc), sizeof(crc));
  return {header, absl::Base64Escape(header == kCrcHeader ? crc_bytes : Md5(bytes))};
}

std::optional<FakeAzureServer::Refusal> FakeAzureServer::Verify(const ServedRequest& request,
                                                                const Target& target) {
  absl::Time time;
  if (!absl::ParseTime(kHttpTime, ValueOf(request.headers, "x-ms-date"), &time, nullptr) ||
      absl::AbsDuration(time - clock_.Now()) > kAzureSkewMax) {
    return Refusal{403, "AuthenticationFailed", "Request date header too old"};
  }
  std::optional<Refusal> refusal = CheckLetIn(request, target);
  if (!refusal.has_value() && !is_bench() &&
      ValueOf(request.headers, "x-ms-version") < "2021-12-02") {
    refusal = Refusal{400, "InvalidHeaderValue", "version"};
  }
  const auto [header, sum] = ChecksumFor(request, request.body);
  if (!refusal.has_value() && request.method == "PUT" && ValueOf(request.headers, header) != sum) {
    refusal = Refusal{400, header == kCrcHeader ? "Crc64Mismatch" : "Md5Mismatch"};
  }
  if (refusal.has_value()) {
    refusals_.push_back(absl::StrCat(request.method, " ", request.target, ": ", refusal->code, " ",
                                     refusal->detail));
  }
  return refusal;
}

void FakeAzureServer::Answer(const ServedRequest& request, const Target& target,
                             ServedConnection& connection) {
  if (target.key.empty()) {
    const std::string comp = ValueOf(target.query, "comp");
    const bool is_container = ValueOf(target.query, "restype") == "container";
    if (request.method == "GET" && is_container && comp == "list") {
      List(target, connection);
    } else if (request.method == "GET" && is_container && comp.empty()) {
      connection.Send(200, "");  // Get Container Properties
    } else if (request.method == "PUT" && is_container && comp.empty()) {
      Fail({409, "ContainerAlreadyExists"}, true, connection);
    } else if (request.method == "POST" && comp == "batch") {
      Batch(request, connection);
    } else {
      Fail({405, "UnsupportedHttpVerb"}, true, connection);
    }
  } else if (request.method == "PUT") {
    std::string body = Received(request.body);
    const auto checksum = ChecksumFor(request, body);
    if (const std::optional<Refusal> refusal = Put(request, std::move(body), target)) {
      Fail(*refusal, true, connection);
    } else {
      connection.Send(201, "", {checksum});
    }
  } else if (request.method == "GET" || request.method == "HEAD") {
    Get(request, target.key, connection);
  } else if (request.method != "DELETE") {
    Fail({405, "UnsupportedHttpVerb"}, true, connection);
  } else if (const std::optional<Refusal> refusal = Delete(target.key)) {
    Fail(*refusal, true, connection);
  } else {
    connection.Send(202, "");
  }
}

std::optional<FakeAzureServer::Refusal> FakeAzureServer::Delete(const std::string& key) {
  if (refused_.contains(key)) {
    return Refusal{412, "LeaseIdMissing"};
  }
  return Remove(key) ? std::nullopt : std::optional(Refusal{404, "BlobNotFound"});
}

// .../blob-batch
void FakeAzureServer::Batch(const ServedRequest& request, ServedConnection& connection) {
  const std::string type = ValueOf(request.headers, "content-type");
  const std::string boundary = type.substr(std::min(type.size(), type.find("boundary=") + 9));
  std::vector<std::string> parts = absl::StrSplit(request.body, "--" + boundary);
  const bool is_whole = absl::StartsWith(type, "multipart/mixed; boundary=") && parts.size() > 2 &&
                        parts.front().empty() && absl::StartsWith(parts.back(), "--");
  const BatchManner manner = options_.batch;
  if (manner == BatchManner::kNotImplemented || manner == BatchManner::kNotAllowed) {
    Fail({manner == BatchManner::kNotImplemented ? 501 : 405, "NotImplemented"}, true, connection);
    return;
  }
  if (manner == BatchManner::kFails) {
    Fail({500, "InternalError"}, true, connection);
    return;
  }
  if (manner == BatchManner::kMalformed || !is_whole || parts.size() > 258) {
    Fail({400, "InvalidInput"}, true, connection);
    return;
  }
  std::string answer;
  for (std::size_t i = 1; i + 1 < parts.size(); ++i) {
    std::string id = parts[i].substr(parts[i].find("Content-ID: ") + 12);
    id = id.substr(0, id.find("\r\n"));
    const bool is_left_out = manner == BatchManner::kLeavesOut && i + 2 == parts.size();
    const std::optional<Refusal> refusal =
        AnswerPart(parts[i], manner <= BatchManner::kLeavesOut && !is_left_out);
    absl::StrAppend(&answer, "--answer\r\nContent-Type: application/http\r\nContent-ID: ", id,
                    "\r\n\r\nHTTP/1.1 ");
    if (refusal.has_value()) {
      absl::StrAppend(&answer, refusal->status, " Text\r\nx-ms-error-code: ", refusal->code,
                      "\r\n\r\n<Error><Code>", refusal->code,
                      "</Code><Message>m</Message></Error>\r\n");
    } else {
      absl::StrAppend(&answer, "202 Accepted\r\nx-ms-delete-type-permanent: true\r\n\r\n");
    }
    if (is_left_out) {
      answer.resize(answer.rfind("--answer"));
    }
  }
  if (manner == BatchManner::kForeign) {
    absl::StrAppend(&answer, "--answer\r\nContent-ID: 1000\r\n\r\nHTTP/1.1 202 Accepted\r\n\r\n");
  }
  answer +=
      manner == BatchManner::kHostile ? "--answer\r\nContent-ID: 0\r\n\r\nHTTP/9 202\r\n\r\n" : "";
  answer += manner == BatchManner::kCutOff ? "" : "--answer--\r\n";
  connection.Send(202, answer, {{"Content-Type", "multipart/mixed; boundary=answer"}});
}

// A request within a batch, with a signature of its own.
std::optional<FakeAzureServer::Refusal> FakeAzureServer::AnswerPart(const std::string& text,
                                                                    bool is_done) {
  const std::vector<std::string> pieces = absl::StrSplit(text, "\r\n\r\n");
  ServedRequest part;
  std::vector<std::string> lines = absl::StrSplit(pieces.size() == 3 ? pieces[1] : "", "\r\n");
  const std::vector<std::string> words = absl::StrSplit(lines.front(), ' ');
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::pair<std::string, std::string> header = absl::StrSplit(lines[i], ": ");
    part.headers[absl::AsciiStrToLower(header.first)] = header.second;
  }
  part.method = words.front();
  part.target = words.size() == 3 ? words[1] : "";
  const std::optional<Target> target = Split(part);
  const bool is_form = absl::StartsWith(text,
                                        "\r\nContent-Type: application/http\r\n"
                                        "Content-Transfer-Encoding: binary\r\nContent-ID: ");
  if (!is_form || part.method != "DELETE" || !target.has_value() || target->key.empty() ||
      part.headers.contains("x-ms-version")) {
    refusals_.push_back("a part of a batch");
    return Refusal{400, "InvalidInput"};
  }
  if (const std::optional<Refusal> refusal = CheckLetIn(part, *target)) {
    return refusal;
  }
  return is_done ? Delete(target->key) : std::nullopt;
}

// learn.microsoft.com/azure/storage/blobs/lifecycle-management-policy-structure: a prefix begins
// with the container; versions and snapshots count from the day on which they were made, and go
// when they are older. .../rest/api/storageservices/put-block: blocks that were not committed go a
// week after the last of them.
std::vector<FakeAzureServer::LifecycleRule> FakeAzureServer::ReadLifecycle(
    const Json& rules) const {
  std::vector<LifecycleRule> read = {{.kind = "upload", .prefix = "", .age = absl::Hours(7 * 24)}};
  for (const Json& rule : JsonArrayAt(rules, {"rules"})) {
    CSIDELTA_CHECK(GetBool(rule, {"enabled"}) && GetString(rule, {"type"}) == "Lifecycle");
    for (std::string prefix : GetStringList(rule, {"definition", "filters", "prefixMatch"})) {
      CSIDELTA_CHECK(absl::StartsWith(prefix, options_.container + "/"));
      prefix.erase(0, options_.container.size() + 1);
      for (const auto& [kind, action] : FindJson(rule, {"definition", "actions"})->items()) {
        CSIDELTA_CHECK((kind == "version" || kind == "snapshot") && action.size() == 1);
        read.push_back(
            {.kind = kind,
             .prefix = prefix,
             .age = Days(action, {"delete", "daysAfterCreationGreaterThan"}) + absl::Seconds(1),
             .since_made = true});
      }
    }
  }
  return read;
}

void FakeAzureServer::Dropped(const std::string& kind, const std::string& key) {
  if (kind == "upload") {
    blocks_.erase(key);
  }
}

std::optional<FakeAzureServer::Refusal> FakeAzureServer::Put(const ServedRequest& request,
                                                             std::string body,
                                                             const Target& target) {
  const std::string comp = ValueOf(target.query, "comp");
  std::map<std::string, std::string>& blocks = blocks_[target.key];
  if (comp == "block") {
    const std::string id = ValueOf(target.query, "blockid");
    std::string raw;
    if (!absl::Base64Unescape(id, &raw) || raw.empty() || raw.size() > 64 ||
        (!blocks.empty() && blocks.begin()->first.size() != id.size()) || body.empty()) {
      return Refusal{400, "InvalidBlobOrBlock"};
    }
    blocks[id] = std::move(body);
    DropLeftovers("upload", target.key);
    Leave("upload", target.key);
    return std::nullopt;
  }
  if (comp == "blocklist") {
    std::vector<std::string> ids = absl::StrSplit(std::exchange(body, ""), "<Uncommitted>");
    ids.erase(ids.begin());
    for (const std::string& id : ids) {
      const auto block = blocks.find(id.substr(0, id.find('<')));
      if (block == blocks.end()) {
        return Refusal{400, "InvalidBlockList"};
      }
      body += block->second;
    }
  } else if (ValueOf(request.headers, "x-ms-blob-type") != "BlockBlob") {
    return Refusal{400, "MissingRequiredHeader"};
  }
  if (ValueOf(request.headers, "if-none-match") == "*" && objects_.contains(target.key)) {
    return Refusal{409, "BlobAlreadyExists"};
  }
  Store(target.key, std::move(body));
  put_headers_[target.key] = request.headers;
  blocks.clear();
  DropLeftovers("upload", target.key);
  return std::nullopt;
}

void FakeAzureServer::Get(const ServedRequest& request, const std::string& key,
                          ServedConnection& connection) {
  const bool is_head = request.method == "HEAD";
  const auto found = objects_.find(key);
  if (found == objects_.end()) {
    Fail({404, "BlobNotFound"}, !is_head, connection);
    return;
  }
  const std::string& bytes = found->second.bytes;
  if (is_head) {
    connection.Raw(absl::StrCat("HTTP/1.1 200 OK\r\nContent-Length: ", bytes.size(), "\r\n\r\n"));
  } else if (!SendObject(request, bytes, {}, connection)) {
    Fail({416, "InvalidRange"}, true, connection);
  }
}

// The marker is "2!" and the last name of the page before, as base64.
void FakeAzureServer::List(const Target& target, ServedConnection& connection) const {
  const std::string prefix = ValueOf(target.query, "prefix");
  const std::string delimiter = ValueOf(target.query, "delimiter");
  const std::string marker = ValueOf(target.query, "marker");
  std::string after;
  absl::Base64Unescape(absl::StripPrefix(marker, "2!"), &after);
  std::string entries;
  std::string last = after;
  std::size_t count = 0;
  bool is_cut = false;
  for (auto blob = after < prefix ? objects_.lower_bound(prefix) : objects_.upper_bound(after);
       blob != objects_.end() && absl::StartsWith(blob->first, prefix) && !is_cut; ++blob) {
    const auto slash =
        delimiter.empty() ? std::string::npos : blob->first.find(delimiter, prefix.size());
    const bool is_folder = slash != std::string::npos;
    const std::string name = is_folder ? blob->first.substr(0, slash + 1) : blob->first;
    if (is_folder && name == last) {
      continue;
    }
    is_cut = count == options_.page_objects_max;
    if (!is_cut) {
      ++count;
      last = name;
      entries += is_folder ? absl::StrCat("<BlobPrefix>", NameElement(name), "</BlobPrefix>")
                           : absl::StrCat("<Blob>", NameElement(name),
                                          "<Properties><Last-Modified>Fri, 17 Nov 2023 22:13:20 "
                                          "GMT</Last-Modified><Content-Length>",
                                          blob->second.bytes.size(),
                                          "</Content-Length><BlobType>BlockBlob</BlobType>"
                                          "</Properties></Blob>");
    }
  }
  connection.Send(200, absl::StrCat("\xEF\xBB\xBF<?xml version=\"1.0\" encoding=\"utf-8\"?>",
                                    "<EnumerationResults ContainerName=\"", options_.container,
                                    "\"><Blobs>", entries, "</Blobs><NextMarker>",
                                    is_cut ? "2!" + absl::Base64Escape(last) : "",
                                    "</NextMarker></EnumerationResults>"));
}

void FakeAzureServer::Fail(const Refusal& refusal, bool with_body,
                           ServedConnection& connection) const {
  if (!with_body) {
    connection.Raw(absl::StrCat("HTTP/1.1 ", refusal.status, " Text\r\nDate: ", HttpNow(),
                                "\r\nx-ms-error-code: ", refusal.code,
                                "\r\nContent-Length: 9\r\n\r\n"));
    return;
  }
  connection.Send(
      refusal.status,
      absl::StrCat("\xEF\xBB\xBF<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>",
                   refusal.code, "</Code><Message>fake: ", refusal.code, "\nRequestId:r1</Message>",
                   refusal.detail.empty()
                       ? ""
                       : absl::StrCat("<AuthenticationErrorDetail>", refusal.detail,
                                      "</AuthenticationErrorDetail>"),
                   "</Error>"),
      {{"Date", HttpNow()}, {"x-ms-request-id", "r1"}, {"x-ms-error-code", refusal.code}});
}

}  // namespace csidelta::support
