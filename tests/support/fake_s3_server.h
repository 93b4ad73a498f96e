#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/clock.h"
#include "tests/support/fake_bucket_server.h"
#include "tests/support/quirky_s3.h"

namespace csidelta::support {

struct FakeS3Options {
  std::string access_key_id = "AKIDTEST";
  std::string secret_access_key = "secret/key+of=test";
  std::string session_token = {};  // "": none is expected
  std::string region = "us-east-1";
  std::string bucket = "bucket";
  std::size_t page_objects_max = 4;
  bool heeds_ranges = true;
  S3Quirks quirks = {};
  const Clock* clock = &Clock::Real();
  TestServerOptions http = {};
};

// S3's REST dialect with one bucket in memory. It trusts nothing: for each request it computes the
// signature and the payload's hash again, by code of its own, and refuses what does not agree, as
// S3 does. Both styles of addressing. Thread-safe.
class FakeS3Server : public FakeBucketServer {
 public:
  explicit FakeS3Server(FakeS3Options options = {});
  ~FakeS3Server() override { Stop(); }

  // Expect other keys from now on.
  void SetSessionToken(const std::string& token);
  void SetSecretKey(const std::string& key);

 private:
  struct Target {
    std::string path;                          // as it was sent
    std::string key;                           // decoded; "" for the bucket
    std::map<std::string, std::string> query;  // decoded
    std::string raw_query;
  };

  void Serve(const ServedRequest& request, ServedConnection& connection) override;
  std::vector<LifecycleRule> ReadLifecycle(const Json& rules) const override;
  void Answer(const ServedRequest& request, const Target& target, ServedConnection& connection);
  // Whether a quirk has answered the request before it is looked at.
  bool AnswerOddly(const ServedRequest& request, ServedConnection& connection);
  void Delete(const std::string& key, ServedConnection& connection);
  void DeleteMany(const ServedRequest& request, ServedConnection& connection);
  std::optional<Target> Split(const ServedRequest& request) const;
  // "" or the code of the error, with why in refusals_.
  std::string Verify(const ServedRequest& request, const Target& target);
  std::string ExpectedSignature(const ServedRequest& request, const Target& target,
                                const std::string& signed_names) const;
  void Put(const ServedRequest& request, const std::string& key, ServedConnection& connection);
  void Get(const ServedRequest& request, const std::string& key, ServedConnection& connection);
  void List(const Target& target, ServedConnection& connection);
  // `more` is XML behind the message.
  void Fail(int status, const std::string& code, ServedConnection& connection,
            bool with_body = true, const std::string& more = "") const;

  FakeS3Options options_;
  std::set<std::string> throttled_;  // requests that were, by method and target
};

}  // namespace csidelta::support
