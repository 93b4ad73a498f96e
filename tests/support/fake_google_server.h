#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/clock.h"
#include "tests/support/fake_bucket_server.h"

namespace csidelta::support {

struct FakeGoogleOptions {
  std::string bucket = "bucket";
  std::size_t page_objects_max = 4;
  // Whether a request with this token is let in; "" where it had none.
  std::function<bool(const std::string& token)> accepts = [](const std::string& token) {
    return token == "token";
  };
  const Clock* clock = &Clock::Real();
  TestServerOptions http = {};
};

// The JSON API of Google Cloud Storage with one bucket in memory: multipart uploads with
// generations and their conditions, metadata, downloads with ranges, listings, deletions. It
// trusts nothing: it takes an upload apart, and refuses one whose CRC32C, computed by code of its
// own, is not that of its metadata. Downloads are refused in plain text, all else in JSON.
// Thread-safe. Source: docs.cloud.google.com/storage/docs/json_api/v1/objects and status-codes.
class FakeGoogleServer : public FakeBucketServer {
 public:
  explicit FakeGoogleServer(FakeGoogleOptions options = {});
  ~FakeGoogleServer() override { Stop(); }

  // Every object is kept for that reason: "retentionPolicyNotMet", "objectUnderActiveHold".
  void Retain(const std::string& reason);

 private:
  void Serve(const ServedRequest& request, ServedConnection& connection) override;
  std::vector<LifecycleRule> ReadLifecycle(const Json& rules) const override;
  void Upload(const ServedRequest& request, std::map<std::string, std::string>& query,
              ServedConnection& connection);
  void List(std::map<std::string, std::string>& query, ServedConnection& connection);
  void Delete(const std::string& key, ServedConnection& connection);
  void Fail(int status, const std::string& reason, const std::string& message,
            ServedConnection& connection) const;

  const FakeGoogleOptions options_;
  std::string retained_;
};

}  // namespace csidelta::support
