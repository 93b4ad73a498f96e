#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/http_test_server.h"

namespace csidelta::support {

struct FakeGoogleOptions {
  std::string bucket = "bucket";
  std::size_t page_objects_max = 4;
  // Whether a request with this token is let in; "" where it had none.
  std::function<bool(const std::string& token)> accepts = [](const std::string& token) {
    return token == "token";
  };
  TestServerOptions http = {};
};

// The JSON API of Google Cloud Storage with one bucket in memory: multipart uploads with
// generations and their conditions, metadata, downloads with ranges, listings, deletions. It
// trusts nothing: it takes an upload apart, and refuses one whose CRC32C, computed by code of its
// own, is not that of its metadata. Downloads are refused in plain text, all else in JSON.
// Thread-safe. Source: docs.cloud.google.com/storage/docs/json_api/v1/objects and status-codes.
class FakeGoogleServer {
 public:
  // Answers a request in its own way and returns true, or leaves it alone.
  using Interference =
      std::function<bool(const ServedRequest& request, ServedConnection& connection)>;

  struct Object {
    std::string bytes = {};
    std::string crc32c = {};  // of them, as metadata have it
    int64_t generation = 0;
    std::string storage_class = "STANDARD";
    std::string kms_key_name = {};
  };

  explicit FakeGoogleServer(FakeGoogleOptions options = {});

  std::string url(const std::string& host = "127.0.0.1") const { return server_.url(host); }
  TestAuthority& authority() { return server_.authority(); }
  int64_t request_count() const { return server_.request_count(); }

  // Called first for each request from now on, one at a time.
  void Interfere(Interference interference);
  // An upload stores one bit otherwise from now on, and a download sends one so.
  void Flip();
  // The bucket is deleted.
  void Vanish();
  // Every object is kept for that reason: "retentionPolicyNotMet", "objectUnderActiveHold".
  void Retain(const std::string& reason);

  std::map<std::string, Object> objects() const;
  void SetObject(const std::string& key, const std::string& bytes);
  std::vector<ServedRequest> requests() const;
  // What was wrong with uploads that were refused for their form.
  std::vector<std::string> refusals() const;

 private:
  struct Target {
    std::string path;
    std::map<std::string, std::string> query = {};  // decoded
  };

  void Serve(const ServedRequest& request, ServedConnection& connection);
  void Upload(const ServedRequest& request, Target& target, ServedConnection& connection);
  void Download(const ServedRequest& request, const Object& object, ServedConnection& connection);
  void List(Target& target, ServedConnection& connection);
  void Delete(const std::string& key, ServedConnection& connection);
  void Fail(int status, const std::string& reason, const std::string& message,
            ServedConnection& connection) const;

  mutable std::mutex mutex_;  // Guards all that follows but the server.
  FakeGoogleOptions options_;
  std::map<std::string, Object> objects_;
  std::vector<ServedRequest> requests_;
  std::vector<std::string> refusals_;
  Interference interference_;
  bool flips_ = false;
  bool vanished_ = false;
  std::string retained_;
  int64_t generation_ = 1000;
  HttpTestServer server_;
};

}  // namespace csidelta::support
