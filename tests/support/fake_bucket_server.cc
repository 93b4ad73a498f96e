#include "tests/support/fake_bucket_server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "net/url.h"

namespace csidelta::support {

std::string ValueOf(const std::map<std::string, std::string>& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? "" : found->second;
}

std::map<std::string, std::string> ReadPairs(absl::string_view text) {
  std::map<std::string, std::string> pairs;
  for (const absl::string_view part : absl::StrSplit(text, '&', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> one = absl::StrSplit(part, absl::MaxSplits('=', 1));
    pairs[net::PercentDecode(one.first)] = net::PercentDecode(one.second);
  }
  return pairs;
}

void FakeBucketServer::Start(const TestServerOptions& options) {
  is_bench_ = options.is_bench;
  server_ = std::make_unique<HttpTestServer>(
      [this](const ServedRequest& request, ServedConnection& connection) {
        Take(request, connection);
      },
      options);
}

void FakeBucketServer::Interfere(Interference interference) {
  std::scoped_lock lock(mutex_);
  interference_ = std::move(interference);
}

void FakeBucketServer::Spoil(Spoiler spoiler) {
  std::scoped_lock lock(mutex_);
  spoiler_ = std::move(spoiler);
}

void FakeBucketServer::Refuse(const std::string& key) {
  std::scoped_lock lock(mutex_);
  refused_.insert(key);
}

void FakeBucketServer::Vanish() {
  std::scoped_lock lock(mutex_);
  is_gone_ = true;
}

std::map<std::string, std::string> FakeBucketServer::objects() const {
  std::scoped_lock lock(mutex_);
  std::map<std::string, std::string> objects;
  for (const auto& [key, object] : objects_) {
    objects[key] = object.bytes;
  }
  return objects;
}

void FakeBucketServer::SetObject(const std::string& key, const std::string& bytes) {
  std::scoped_lock lock(mutex_);
  Store(key, bytes);
}

void FakeBucketServer::Reset(const std::map<std::string, std::string>& objects) {
  std::scoped_lock lock(mutex_);
  objects_.clear();
  for (const auto& [key, bytes] : objects) {
    Store(key, bytes);
  }
  put_headers_.clear();
  requests_.clear();
  refusals_.clear();
  leftovers_.clear();
  interference_ = nullptr;
  spoiler_ = nullptr;
}

void FakeBucketServer::KeepVersions() {
  std::scoped_lock lock(mutex_);
  keeps_versions_ = true;
}

void FakeBucketServer::Leave(const std::string& kind, const std::string& key) {
  std::scoped_lock lock(mutex_);
  leftovers_.push_back({kind, key, clock_.Now(), clock_.Now()});
}

void FakeBucketServer::DropLeftovers(const std::string& kind, const std::string& key) {
  std::erase_if(leftovers_,
                [&](const Leftover& one) { return one.kind == kind && one.key == key; });
}

std::multiset<std::string> FakeBucketServer::leftovers() const {
  std::scoped_lock lock(mutex_);
  std::multiset<std::string> texts;
  for (const Leftover& one : leftovers_) {
    texts.insert(absl::StrCat(one.kind, " ", one.key));
  }
  return texts;
}

void FakeBucketServer::ApplyLifecycle(const Json& rules) {
  std::scoped_lock lock(mutex_);
  for (const LifecycleRule& rule : ReadLifecycle(rules)) {
    const std::multiset<std::string> before = leftovers();
    std::erase_if(leftovers_, [&](const Leftover& one) {
      const absl::Duration age = clock_.Now() - (rule.since_made ? one.made_at : one.since);
      const bool ends = one.kind == rule.kind && absl::StartsWith(one.key, rule.prefix) &&
                        age >= rule.age &&
                        (rule.kind != "marker" || !before.contains("version " + one.key));
      if (ends) {
        Dropped(one.kind, one.key);
      }
      return ends;
    });
  }
}

void FakeBucketServer::KeepVersionOf(const std::string& key) {
  if (const auto found = objects_.find(key); keeps_versions_ && found != objects_.end()) {
    leftovers_.push_back({"version", key, found->second.made_at, clock_.Now()});
  }
}

absl::Duration FakeBucketServer::Days(const Json& value, JsonPath path) {
  const int64_t days = GetInt(value, path, -1);
  CSIDELTA_CHECK(days >= 0);
  return absl::Hours(24) * days;
}

std::vector<ServedRequest> FakeBucketServer::requests() const {
  std::scoped_lock lock(mutex_);
  return requests_;
}

std::map<std::string, std::map<std::string, std::string>> FakeBucketServer::put_headers() const {
  std::scoped_lock lock(mutex_);
  return put_headers_;
}

std::vector<std::string> FakeBucketServer::refusals() const {
  std::scoped_lock lock(mutex_);
  return refusals_;
}

void FakeBucketServer::Take(const ServedRequest& request, ServedConnection& connection) {
  std::scoped_lock lock(mutex_);
  if (!is_bench_) {
    requests_.push_back(request);
  }
  if (interference_ && interference_(request, connection)) {
    return;
  }
  const Spoiling spoiling = spoiler_ ? spoiler_(request) : Spoiling::kNone;
  spoils_object_ = spoiling == Spoiling::kFlipped && !request.body.empty();
  connection.Spoil(spoils_object_ ? Spoiling::kNone : spoiling);
  Serve(request, connection);
}

std::string FakeBucketServer::Received(std::string bytes) const {
  if (spoils_object_ && !bytes.empty()) {
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  }
  return bytes;
}

FakeBucketServer::Object& FakeBucketServer::Store(const std::string& key, std::string bytes) {
  KeepVersionOf(key);
  return objects_[key] = {
             .bytes = std::move(bytes), .generation = ++generation_, .made_at = clock_.Now()};
}

bool FakeBucketServer::Remove(const std::string& key) {
  KeepVersionOf(key);
  return objects_.erase(key) > 0;
}

bool FakeBucketServer::SendObject(const ServedRequest& request, const std::string& bytes,
                                  Headers headers, ServedConnection& connection) {
  const std::string of_azure = ValueOf(request.headers, "x-ms-range");
  const std::string header = of_azure.empty() ? ValueOf(request.headers, "range") : of_azure;
  absl::string_view range = header;
  if (!absl::ConsumePrefix(&range, "bytes=")) {
    connection.Send(200, bytes, headers);
    return true;
  }
  const std::pair<std::string, std::string> ends = absl::StrSplit(range, '-');
  std::size_t first = 0;
  std::size_t last = bytes.size();  // of "bytes=N-"
  if (!absl::SimpleAtoi(ends.first, &first) ||
      !(ends.second.empty() || absl::SimpleAtoi(ends.second, &last)) || first >= bytes.size()) {
    return false;
  }
  last = std::min(last, bytes.size() - 1);
  headers.emplace_back("Content-Range",
                       absl::StrCat("bytes ", first, "-", last, "/", bytes.size()));
  connection.Send(206, bytes.substr(first, last - first + 1), headers);
  return true;
}

std::string FakeBucketServer::HttpNow() const {
  return absl::FormatTime(kHttpTime, clock_.Now(), absl::UTCTimeZone());
}

}  // namespace csidelta::support
