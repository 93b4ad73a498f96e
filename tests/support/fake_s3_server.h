#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/support/http_test_server.h"
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
class FakeS3Server {
 public:
  // Answers a request in its own way and returns true, or leaves it alone.
  using Interference =
      std::function<bool(const ServedRequest& request, ServedConnection& connection)>;

  explicit FakeS3Server(FakeS3Options options = {});

  std::string url(const std::string& host = "127.0.0.1") const { return server_.url(host); }
  uint16_t port() const { return server_.port(); }
  TestAuthority& authority() { return server_.authority(); }
  int64_t request_count() const { return server_.request_count(); }
  int connection_count() const { return server_.connection_count(); }

  // What is wrong with an answer to a request that was done otherwise.
  enum class Spoiling {
    kNone,
    kCut,      // done, but not answered
    kShort,    // ends in the middle of its body
    kFlipped,  // one bit of the body is another; of a Put(): of the object, as the answer says
  };
  using Spoiler = std::function<Spoiling(const ServedRequest& request)>;

  // Called first for each request from now on, one at a time.
  void Interfere(Interference interference);
  // The same for those that are served all the same.
  void Spoil(Spoiler spoiler);

  std::map<std::string, std::string> objects() const;
  void SetObject(const std::string& key, const std::string& bytes);
  // Begins again with these objects: nothing was asked for yet, and nothing goes wrong.
  void Reset(std::map<std::string, std::string> objects);
  std::vector<ServedRequest> requests() const;
  // Headers of the last Put() of each object.
  std::map<std::string, std::map<std::string, std::string>> put_headers() const;
  // What was wrong with the requests that were refused for their signature.
  std::vector<std::string> refusals() const;
  // Expect other keys from now on.
  void SetSessionToken(const std::string& token);
  void SetSecretKey(const std::string& key);
  // No request deletes that object from now on.
  void Refuse(const std::string& key);

 private:
  struct Target {
    std::string path;                          // as it was sent
    std::string key;                           // decoded; "" for the bucket
    std::map<std::string, std::string> query;  // decoded
    std::string raw_query;
  };

  void Serve(const ServedRequest& request, ServedConnection& connection);
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
  void SendBody(int status, std::string body, const Headers& headers,
                ServedConnection& connection) const;

  mutable std::mutex mutex_;  // Guards all that follows but the server.
  FakeS3Options options_;
  std::map<std::string, std::string> objects_;
  std::map<std::string, std::map<std::string, std::string>> put_headers_;
  std::vector<ServedRequest> requests_;
  std::vector<std::string> refusals_;
  std::set<std::string> refused_;    // objects
  std::set<std::string> throttled_;  // requests that were, by method and target
  Interference interference_;
  Spoiler spoiler_;
  Spoiling spoiling_ = Spoiling::kNone;  // of the request that is being served
  HttpTestServer server_;
};

}  // namespace csidelta::support
