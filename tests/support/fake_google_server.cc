#include "tests/support/fake_google_server.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "net/url.h"

namespace csidelta::support {
namespace {

using Json = nlohmann::json;

std::string HeaderIn(const ServedRequest& request, const std::string& name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? "" : found->second;
}

// Base64 of the four bytes, the highest first.
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
  crc = ~crc;
  const char parts[] = {static_cast<char>(crc >> 24), static_cast<char>(crc >> 16),
                        static_cast<char>(crc >> 8), static_cast<char>(crc)};
  return absl::Base64Escape(absl::string_view(parts, sizeof(parts)));
}

void FlipOneBit(std::string& bytes) {
  if (!bytes.empty()) {
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  }
}

Json MetadataOf(const std::string& key, const FakeGoogleServer::Object& object) {
  return {{"kind", "storage#object"},
          {"name", key},
          {"size", absl::StrCat(object.bytes.size())},
          {"generation", absl::StrCat(object.generation)},
          {"crc32c", object.crc32c},
          {"updated", "2026-01-02T03:04:05.678Z"}};
}

// Metadata and bytes of a body of multipart/related (RFC 2387); "" or what is wrong with it.
std::string TakeApart(const ServedRequest& request, Json& metadata, std::string& bytes) {
  const std::string header = HeaderIn(request, "content-type");
  absl::string_view type = header;
  if (!absl::ConsumePrefix(&type, "multipart/related; boundary=") || type.size() > 70) {
    return "content type";
  }
  const std::string mark = absl::StrCat("--", type);
  absl::string_view rest = request.body;
  if (!absl::ConsumePrefix(&rest, mark + "\r\n") ||
      !absl::ConsumePrefix(&rest, "Content-Type: application/json; charset=UTF-8\r\n\r\n")) {
    return "head";
  }
  const std::size_t end = rest.find("\r\n" + mark + "\r\n");
  if (end == rest.npos) {
    return "boundary";
  }
  metadata = Json::parse(std::string(rest.substr(0, end)), nullptr, false);
  rest.remove_prefix(end + mark.size() + 4);
  if (!absl::ConsumePrefix(&rest, "Content-Type: application/octet-stream\r\n\r\n") ||
      !absl::ConsumeSuffix(&rest, "\r\n" + mark + "--\r\n") || absl::StrContains(rest, mark)) {
    return "second part";
  }
  bytes = std::string(rest);
  return metadata.is_object() && metadata.value("name", "") != "" ? "" : "metadata";
}

}  // namespace

FakeGoogleServer::FakeGoogleServer(FakeGoogleOptions options)
    : options_(std::move(options)),
      server_([this](const ServedRequest& request,
                     ServedConnection& connection) { Serve(request, connection); },
              options_.http) {}

void FakeGoogleServer::Interfere(Interference interference) {
  std::scoped_lock lock(mutex_);
  interference_ = std::move(interference);
}

void FakeGoogleServer::Flip() {
  std::scoped_lock lock(mutex_);
  flips_ = true;
}

void FakeGoogleServer::Vanish() {
  std::scoped_lock lock(mutex_);
  vanished_ = true;
}

void FakeGoogleServer::Retain(const std::string& reason) {
  std::scoped_lock lock(mutex_);
  retained_ = reason;
}

std::map<std::string, FakeGoogleServer::Object> FakeGoogleServer::objects() const {
  std::scoped_lock lock(mutex_);
  return objects_;
}

void FakeGoogleServer::SetObject(const std::string& key, const std::string& bytes) {
  std::scoped_lock lock(mutex_);
  objects_[key] = {.bytes = bytes, .crc32c = ChecksumOf(bytes), .generation = ++generation_};
}

std::vector<ServedRequest> FakeGoogleServer::requests() const {
  std::scoped_lock lock(mutex_);
  return requests_;
}

std::vector<std::string> FakeGoogleServer::refusals() const {
  std::scoped_lock lock(mutex_);
  return refusals_;
}

void FakeGoogleServer::Serve(const ServedRequest& request, ServedConnection& connection) {
  std::scoped_lock lock(mutex_);
  requests_.push_back(request);
  if (interference_ && interference_(request, connection)) {
    return;
  }
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(request.target, absl::MaxSplits('?', 1));
  Target target{.path = parts.first};
  for (const absl::string_view part : absl::StrSplit(parts.second, '&', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    target.query[net::PercentDecode(pair.first)] = net::PercentDecode(pair.second);
  }
  std::string token = HeaderIn(request, "authorization");
  token = absl::StartsWith(token, "Bearer ") ? token.substr(7) : token;
  const std::string root = absl::StrCat("/storage/v1/b/", options_.bucket, "/o");
  absl::string_view key = target.path;
  const bool is_download = request.method == "GET" && target.query["alt"] == "media";
  if (!options_.accepts(token)) {
    Fail(401, "authError", "Invalid Credentials", connection);
  } else if (vanished_ ||
             !(absl::ConsumePrefix(&key, "/upload" + root) || absl::ConsumePrefix(&key, root))) {
    if (is_download) {
      connection.Send(404, "The specified bucket does not exist.");
    } else {
      Fail(404, "notFound", "The specified bucket does not exist.", connection);
    }
  } else if (request.method == "POST" && absl::StartsWith(target.path, "/upload/")) {
    Upload(request, target, connection);
  } else if (request.method == "GET" && key.empty()) {
    List(target, connection);
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
      Download(request, found->second, connection);
    } else if (request.method == "GET") {
      connection.Send(200, MetadataOf(name, found->second).dump());
    } else {
      Delete(name, connection);
    }
  }
}

void FakeGoogleServer::Upload(const ServedRequest& request, Target& target,
                              ServedConnection& connection) {
  Json metadata;
  Object object{.generation = ++generation_, .kms_key_name = target.query["kmsKeyName"]};
  const std::string wrong = target.query["uploadType"] == "multipart"
                                ? TakeApart(request, metadata, object.bytes)
                                : "upload type";
  if (!wrong.empty()) {
    refusals_.push_back(wrong);
    Fail(400, "badRequest", "Malformed multipart body: " + wrong, connection);
    return;
  }
  const std::string sum = ChecksumOf(object.bytes);
  if (metadata.value("crc32c", "") != sum) {
    refusals_.push_back("checksum");
    Fail(400, "invalid",
         absl::StrCat("Provided CRC32C \"", metadata.value("crc32c", ""),
                      "\" doesn't match calculated CRC32C \"", sum, "\"."),
         connection);
    return;
  }
  const std::string name = metadata["name"];
  const auto before = objects_.find(name);
  int64_t wanted = -1;
  if (absl::SimpleAtoi(target.query["ifGenerationMatch"], &wanted) &&
      wanted != (before == objects_.end() ? 0 : before->second.generation)) {
    Fail(412, "conditionNotMet", "At least one of the pre-conditions did not hold.", connection);
    return;
  }
  if (before != objects_.end() && !retained_.empty()) {
    Delete(name, connection);
    return;
  }
  object.storage_class = metadata.value("storageClass", "STANDARD");
  object.crc32c = sum;
  if (flips_) {
    FlipOneBit(object.bytes);
    object.crc32c = ChecksumOf(object.bytes);
  }
  objects_[name] = object;
  connection.Send(200, MetadataOf(name, object).dump());
}

void FakeGoogleServer::Download(const ServedRequest& request, const Object& object,
                                ServedConnection& connection) {
  std::string bytes = object.bytes;
  if (flips_) {
    FlipOneBit(bytes);
  }
  // In two lines, as the service sends it.
  Headers headers = {{"x-goog-hash", "crc32c=" + object.crc32c},
                     {"x-goog-hash", "md5=xxxxxxxxxxxxxxxxxxxxxx=="},
                     {"x-goog-generation", absl::StrCat(object.generation)}};
  const std::string header = HeaderIn(request, "range");
  absl::string_view range = header;
  if (!absl::ConsumePrefix(&range, "bytes=")) {
    connection.Send(200, bytes, headers);
    return;
  }
  const std::pair<std::string, std::string> ends = absl::StrSplit(range, '-');
  std::size_t first = 0;
  std::size_t last = 0;
  if (!absl::SimpleAtoi(ends.first, &first) || !absl::SimpleAtoi(ends.second, &last) ||
      first >= bytes.size()) {
    connection.Send(416, "The requested range cannot be satisfied.");
    return;
  }
  last = std::min(last, bytes.size() - 1);
  headers.emplace_back("Content-Range",
                       absl::StrCat("bytes ", first, "-", last, "/", bytes.size()));
  connection.Send(206, bytes.substr(first, last - first + 1), headers);
}

// The page token is the last name, or prefix, of the page before. `startOffset` is inclusive.
void FakeGoogleServer::List(Target& target, ServedConnection& connection) {
  const std::string prefix = target.query["prefix"];
  const std::string token = target.query["pageToken"];
  Json page = {{"kind", "storage#objects"}};
  std::size_t wanted = 1000;
  const bool says = absl::SimpleAtoi(target.query["maxResults"], &wanted);
  const std::size_t limit = std::min(says ? wanted : 1000, options_.page_objects_max);
  std::size_t count = 0;
  std::string last;
  for (auto each = objects_.lower_bound(target.query["startOffset"]); each != objects_.end();
       ++each) {
    const auto& [name, object] = *each;
    const std::size_t slash = target.query["delimiter"].empty() || !absl::StartsWith(name, prefix)
                                  ? name.npos
                                  : name.find(target.query["delimiter"], prefix.size());
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
  objects_.erase(key);
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
