#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/json.h"
#include "tests/support/http_test_server.h"

namespace csidelta::support {

// What the fakes of buckets' services have in common: one bucket in memory that may keep versions,
// and wrong answers at will. Each dialect has a class, which answers in Serve(). Thread-safe.
class FakeBucketServer {
 public:
  // Answers a request in its own way and returns true, or leaves it alone.
  using Interference =
      std::function<bool(const ServedRequest& request, ServedConnection& connection)>;
  using Spoiling = support::Spoiling;
  using Spoiler = std::function<Spoiling(const ServedRequest& request)>;

  virtual ~FakeBucketServer() = default;

  std::string url(const std::string& host = "127.0.0.1") const { return server_->url(host); }
  uint16_t port() const { return server_->port(); }
  TestAuthority& authority() { return server_->authority(); }
  int64_t request_count() const { return server_->request_count(); }
  int connection_count() const { return server_->connection_count(); }

  // Called first for each request from now on, one at a time; may call this object.
  void Interfere(Interference interference);
  // The same for those that are served all the same.
  void Spoil(Spoiler spoiler);
  // No request deletes that object from now on: a lock or a lease keeps it.
  void Refuse(const std::string& key);
  // The bucket is deleted.
  void Vanish();

  std::map<std::string, std::string> objects() const;
  void SetObject(const std::string& key, const std::string& bytes);
  // Begins again with these objects: nothing was asked for yet, and nothing goes wrong.
  void Reset(const std::map<std::string, std::string>& objects);
  // What is written over or deleted stays as a version from now on.
  void KeepVersions();
  // Adds an "upload" in parts that was interrupted, or a "snapshot" of a blob, which Azure has.
  void Leave(const std::string& kind, const std::string& key);
  // What the bucket has besides its objects, as "KIND KEY": the above, and each "version" and, in
  // S3, delete "marker".
  std::multiset<std::string> leftovers() const;
  // A day of lifecycle rules, which have the form of deploy/buckets.
  void ApplyLifecycle(const Json& rules);

  std::vector<ServedRequest> requests() const;
  // What the last request that made each object said of it.
  std::map<std::string, std::map<std::string, std::string>> put_headers() const;
  // What was wrong with requests that were refused for what the client is to do right.
  std::vector<std::string> refusals() const;

 protected:
  struct Object {
    std::string bytes;
    std::string checksum = {};  // of the dialect
    int64_t generation = 0;
    absl::Time made_at = {};
  };
  // Leftovers of a kind below a prefix end at this age, counted since they are leftovers, or since
  // they were made.
  struct LifecycleRule {
    std::string kind;
    std::string prefix;
    absl::Duration age;
    bool since_made = false;
  };

  explicit FakeBucketServer(const Clock& clock) : clock_(clock) {}
  // From the constructor and the destructor of a dialect.
  void Start(const TestServerOptions& options);
  void Stop() { server_.reset(); }

  virtual void Serve(const ServedRequest& request, ServedConnection& connection) = 0;
  // What else is in a file of rules ends the program: this fake would not heed it.
  virtual std::vector<LifecycleRule> ReadLifecycle(const Json& rules) const = 0;
  virtual void Dropped(const std::string& /*kind*/, const std::string& /*key*/) {}

  // Bytes as they arrive in the bucket: they may be spoilt.
  std::string Received(std::string bytes) const;
  Object& Store(const std::string& key, std::string bytes);
  bool Remove(const std::string& key);  // false: it is not there
  bool keeps_versions() const { return keeps_versions_; }
  void DropLeftovers(const std::string& kind, const std::string& key);
  // All bytes, or the range that is asked for, whose end may be open. False when that begins past
  // their end.
  static bool SendObject(const ServedRequest& request, const std::string& bytes, Headers headers,
                         ServedConnection& connection);
  std::string HttpNow() const;
  bool is_bench() const { return is_bench_; }
  static absl::Duration Days(const Json& value, JsonPath path);

  const Clock& clock_;
  mutable std::recursive_mutex mutex_;  // Guards all that follows but the server.
  std::map<std::string, Object> objects_;
  std::map<std::string, std::map<std::string, std::string>> put_headers_;
  std::vector<std::string> refusals_;
  std::set<std::string> refused_;  // objects
  bool is_gone_ = false;

 private:
  struct Leftover {
    std::string kind;
    std::string key;
    absl::Time made_at;
    absl::Time since;
  };

  void Take(const ServedRequest& request, ServedConnection& connection);
  void KeepVersionOf(const std::string& key);

  std::vector<ServedRequest> requests_;
  Interference interference_;
  Spoiler spoiler_;
  bool spoils_object_ = false;  // by the request that is being served
  int64_t generation_ = 1000;
  bool keeps_versions_ = false;
  bool is_bench_ = false;
  std::vector<Leftover> leftovers_;
  std::unique_ptr<HttpTestServer> server_;
};

constexpr char kHttpTime[] = "%a, %d %b %Y %H:%M:%S GMT";

// "" when there is no such name.
std::string ValueOf(const std::map<std::string, std::string>& values, const std::string& name);
// "name=value&..." of a target or a form, decoded.
std::map<std::string, std::string> ReadPairs(absl::string_view text);

}  // namespace csidelta::support
