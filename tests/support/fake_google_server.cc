#include "tests/support/fake_google_server.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/crypto.h"
#include "net/url.h"

namespace csidelta::support {
namespace {

// Base64 of the four bytes, the highest first.
std::string ChecksumText(uint32_t crc) {
  const char parts[] = {static_cast<char>(crc >> 24), static_cast<char>(crc >> 16),
                        static_cast<char>(crc >> 8), static_cast<char>(crc)};
  return absl::Base64Escape(absl::string_view(parts, sizeof(parts)));
}

std::string ChecksumOf(const std::string& bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> made = {};
    for (uint32_t i = 0; i < made.size(); ++i) {
      made[i] = i;
      for (int bit = 0; bit < 8; ++bit) {
        made[i] = (made[i] >> 1) ^ (made[i] % 2 == 1 ? 0x82F63B78 : 0);
      }
    }
    return made;
  }();
  uint32_t crc = 0xFFFFFFFF;
  for (const char c : bytes) {
    crc = (crc >> 8) ^ table[(crc ^ static_cast<uint8_t>(c)) % table.size()];
  }
  return ChecksumText(~crc);
}

// Computed once.
const std::string& ChecksumIn(auto& object) {
  if (object.checksum.empty()) {
    object.checksum = ChecksumOf(object.bytes);
  }
  return object.checksum;
}

Json MetadataOf(const std::string& key, auto& object) {
  return {{"kind", "storage#object"},
          {"name", key},
          {"size", absl::StrCat(object.bytes.size())},
          {"generation", absl::StrCat(object.generation)},
          {"crc32c", ChecksumIn(object)},
          {"updated", "2026-01-02T03:04:05.678Z"}};
}

// Metadata and bytes of a body of multipart/related (RFC 2387); "" or what is wrong with it.
std::string TakeApart(const ServedRequest& request, Json& metadata, std::string& bytes) {
  const std::string header = ValueOf(request.headers, "content-type");
  absl::string_view type = header;
  if (!absl::ConsumePrefix(&type, "multipart/related; boundary=") || type.size() > 70) {
    return "content type";
  }
  const std::vector<absl::string_view> parts =
      absl::StrSplit(request.body, absl::StrCat("--", type));
  if (parts.size() != 4 || !parts.front().empty() || parts.back() != "--\r\n") {
    return "boundary";
  }
  std::string text;
  for (const auto& [part, content] : {std::pair(parts[1], &text), std::pair(parts[2], &bytes)}) {
    const std::pair<absl::string_view, absl::string_view> one =
        absl::StrSplit(part, absl::MaxSplits("\r\n\r\n", 1));
    *content = std::string(absl::StripSuffix(one.second, "\r\n"));
    if (!absl::StartsWith(one.first, "\r\nContent-Type: ") ||
        content->size() + 2 != one.second.size()) {
      return "part";
    }
  }
  metadata = Json::parse(text, nullptr, false);
  return metadata.is_object() && metadata.value("name", "") != "" ? "" : "metadata";
}

}  // namespace

FakeGoogleServer::FakeGoogleServer(FakeGoogleOptions options)
    : FakeBucketServer(*options.clock), options_(std::move(options)) {
  Start(options_.http);
}

void FakeGoogleServer::Retain(const std::string& reason) {
  std::scoped_lock lock(mutex_);
  retained_ = reason;
}

void FakeGoogleServer::Serve(const ServedRequest& request, ServedConnection& connection) {
  std::pair<std::string, std::string> target =
      absl::StrSplit(request.target, absl::MaxSplits('?', 1));
  std::map<std::string, std::string> query = ReadPairs(target.second);
  std::string token = ValueOf(request.headers, "authorization");
  token = absl::StartsWith(token, "Bearer ") ? token.substr(7) : token;
  const std::string root = absl::StrCat("/storage/v1/b/", options_.bucket, "/o");
  const std::string root_of_xml = absl::StrCat("/", options_.bucket, "/");
  if (request.method == "GET" && absl::StartsWith(target.first, root_of_xml)) {  // a download
    const std::string name = net::PercentDecode(target.first.substr(root_of_xml.size()));
    target.first = absl::StrCat(root, "/", net::PercentEncode(name));
    query = {{"alt", "media"}};
  }
  absl::string_view key = target.first;
  const bool is_download = request.method == "GET" && query["alt"] == "media";
  if (!options_.accepts(token)) {
    Fail(401, "authError", "Invalid Credentials", connection);
  } else if (!is_gone_ && request.method == "GET" && target.first + "/o" == root) {
    connection.Send(200, Json({{"kind", "storage#bucket"}, {"name", options_.bucket}}).dump());
  } else if (is_gone_ ||
             !(absl::ConsumePrefix(&key, "/upload" + root) || absl::ConsumePrefix(&key, root))) {
    if (is_download) {
      connection.Send(404, "The specified bucket does not exist.");
    } else {
      Fail(404, "notFound", "The specified bucket does not exist.", connection);
    }
  } else if (request.method == "POST" && absl::StartsWith(target.first, "/upload/")) {
    Upload(request, query, connection);
  } else if (request.method == "GET" && key.empty()) {
    List(query, connection);
  } else if (!absl::ConsumePrefix(&key, "/") || absl::StrContains(key, "/")) {
    Fail(404, "notFound", "Not Found", connection);  // A "/" of a name must be encoded.
  } else {
    const std::string name = net::PercentDecode(key);
    const auto found = objects_.find(name);
    if (found == objects_.end()) {
      const std::string message = absl::StrCat("No such object: ", options_.bucket, "/", name);
      if (is_download) {
        connection.Send(404, message, {{"Content-Type", "text/html; charset=UTF-8"}});
      } else {
        Fail(404, "notFound", message, connection);
      }
    } else if (is_download) {
      // In two lines, as the service sends it.
      const Headers headers = {{"x-goog-hash", "crc32c=" + ChecksumIn(found->second)},
                               {"x-goog-hash", "md5=xxxxxxxxxxxxxxxxxxxxxx=="},
                               {"x-goog-generation", absl::StrCat(found->second.generation)}};
      if (!SendObject(request, found->second.bytes, headers, connection)) {
        connection.Send(416, "The requested range cannot be satisfied.");
      }
    } else if (request.method == "GET") {
      connection.Send(200, MetadataOf(name, found->second).dump());
    } else {
      Delete(name, connection);
    }
  }
}

void FakeGoogleServer::Upload(const ServedRequest& request,
                              std::map<std::string, std::string>& query,
                              ServedConnection& connection) {
  Json metadata;
  std::string bytes;
  const std::string wrong =
      query["uploadType"] == "multipart" ? TakeApart(request, metadata, bytes) : "upload type";
  if (!wrong.empty()) {
    refusals_.push_back(wrong);
    Fail(400, "badRequest", "Malformed multipart body: " + wrong, connection);
    return;
  }
  const std::string told = metadata.value("crc32c", "");
  const std::string sum = is_bench() ? ChecksumText(Crc32c(bytes)) : ChecksumOf(bytes);
  if (told != sum && !is_bench()) {
    refusals_.push_back("checksum");
    Fail(400, "invalid",
         absl::StrCat("Provided CRC32C \"", told, "\" doesn't match calculated CRC32C \"", sum,
                      "\"."),
         connection);
    return;
  }
  const std::string name = metadata["name"];
  const auto before = objects_.find(name);
  int64_t wanted = -1;
  if (absl::SimpleAtoi(query["ifGenerationMatch"], &wanted) &&
      wanted != (before == objects_.end() ? 0 : before->second.generation)) {
    Fail(412, "conditionNotMet", "At least one of the pre-conditions did not hold.", connection);
    return;
  }
  if (before != objects_.end() && !retained_.empty()) {
    Delete(name, connection);
    return;
  }
  put_headers_[name] = {{"storageClass", metadata.value("storageClass", "STANDARD")},
                        {"kmsKeyName", query["kmsKeyName"]}};
  std::string stored = Received(bytes);
  const bool is_same = stored == bytes;
  Object& object = Store(name, std::move(stored));
  object.checksum = is_same ? sum : "";
  connection.Send(200, MetadataOf(name, object).dump());
}

// docs.cloud.google.com/storage/docs/lifecycle: all conditions of a rule hold, days at least;
// deleting what is not live deletes it for good.
std::vector<FakeGoogleServer::LifecycleRule> FakeGoogleServer::ReadLifecycle(
    const Json& rules) const {
  std::vector<LifecycleRule> read;
  for (const Json& rule : JsonArrayAt(rules, {"lifecycle", "rule"})) {
    const bool of_upload = GetString(rule, {"action", "type"}) == "AbortIncompleteMultipartUpload";
    CSIDELTA_CHECK(of_upload || (GetString(rule, {"action", "type"}) == "Delete" &&
                                 !GetBool(rule, {"condition", "isLive"}, true)));
    CSIDELTA_CHECK(rule["condition"].size() == (of_upload ? 2 : 3));
    for (const std::string& prefix : GetStringList(rule, {"condition", "matchesPrefix"})) {
      read.push_back({.kind = of_upload ? "upload" : "version",
                      .prefix = prefix,
                      .age = of_upload ? Days(rule, {"condition", "age"})
                                       : Days(rule, {"condition", "daysSinceNoncurrentTime"})});
    }
  }
  return read;
}

// The page token is the last name, or prefix, of the page before. `startOffset` is inclusive.
void FakeGoogleServer::List(std::map<std::string, std::string>& query,
                            ServedConnection& connection) {
  const std::string prefix = query["prefix"];
  const std::string token = query["pageToken"];
  Json page = {{"kind", "storage#objects"}};
  std::size_t wanted = 1000;
  const bool says = absl::SimpleAtoi(query["maxResults"], &wanted);
  const std::size_t limit = std::min(says ? wanted : 1000, options_.page_objects_max);
  std::size_t count = 0;
  std::string last;
  for (auto each = objects_.lower_bound(query["startOffset"]); each != objects_.end(); ++each) {
    auto& [name, object] = *each;
    const std::size_t slash = query["delimiter"].empty() || !absl::StartsWith(name, prefix)
                                  ? name.npos
                                  : name.find(query["delimiter"], prefix.size());
    const std::string shown = slash == name.npos ? name : name.substr(0, slash + 1);
    if (!absl::StartsWith(name, prefix) || shown <= token || shown == last) {
      continue;
    }
    if (count++ == limit) {
      page["nextPageToken"] = last;
      break;
    }
    last = shown;
    if (slash == name.npos) {
      page["items"].push_back(MetadataOf(name, object));
    } else {
      page["prefixes"].push_back(shown);
    }
  }
  connection.Send(200, page.dump(), {{"Content-Type", "application/json; charset=UTF-8"}});
}

void FakeGoogleServer::Delete(const std::string& key, ServedConnection& connection) {
  if (!retained_.empty()) {
    Fail(403, retained_, absl::StrCat("Object '", key, "' cannot be deleted or overwritten."),
         connection);
    return;
  }
  Remove(key);
  connection.Raw("HTTP/1.1 204 No Content\r\n\r\n");
}

void FakeGoogleServer::Fail(int status, const std::string& reason, const std::string& message,
                            ServedConnection& connection) const {
  const Json one = {{"domain", "global"}, {"reason", reason}, {"message", message}};
  const Json body = {
      {"error", {{"code", status}, {"message", message}, {"errors", Json::array({one})}}}};
  connection.Send(status, body.dump(), {{"Content-Type", "application/json; charset=UTF-8"}});
}

}  // namespace csidelta::support
