#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/clock.h"
#include "tests/support/fake_bucket_server.h"
#include "tests/support/quirky_s3.h"

namespace csidelta::support {

struct FakeAzureOptions {
  std::string account = "teststore";
  std::string key = "c2VjcmV0L2tleStvZj10ZXN0";  // base64; "": requests by key are refused
  std::string sas = {};                          // a query that lets in; "": none does
  std::string container = "container";
  bool account_in_path = true;  // as emulators have it; else in the host's name
  std::size_t page_objects_max = 4;
  BatchManner batch = BatchManner::kHeeded;
  const Clock* clock = &Clock::Real();
  TestServerOptions http = {};
};

// The Blob service of Azure with one container in memory, as its documentation has it
// (learn.microsoft.com/rest/api/storageservices). It trusts nothing: for each request it computes
// signature and checksum again. Thread-safe.
class FakeAzureServer : public FakeBucketServer {
 public:
  explicit FakeAzureServer(FakeAzureOptions options = {});
  ~FakeAzureServer() override { Stop(); }

  // Of the storage account.
  std::string uri() const;
  // Lets bearers of `token` in until then.
  void AllowToken(const std::string& token, absl::Time expires_at);
  void SetKey(const std::string& key);
  // Blocks that no list has made part of a blob.
  std::size_t uncommitted_blocks() const;

 private:
  struct Target {
    std::string path;                          // as it was sent
    std::string key;                           // decoded; "" for the container
    std::map<std::string, std::string> query;  // decoded
  };
  struct Refusal {
    int status = 0;
    std::string code;
    std::string detail = {};
  };

  void Serve(const ServedRequest& request, ServedConnection& connection) override;
  std::vector<LifecycleRule> ReadLifecycle(const Json& rules) const override;
  void Dropped(const std::string& kind, const std::string& key) override;
  void Answer(const ServedRequest& request, const Target& target, ServedConnection& connection);
  std::optional<Target> Split(const ServedRequest& request) const;
  std::optional<Refusal> Verify(const ServedRequest& request, const Target& target);
  std::pair<std::string, std::string> ChecksumFor(const ServedRequest& request,
                                                  const std::string& bytes) const;
  std::optional<Refusal> CheckLetIn(const ServedRequest& request, const Target& target) const;
  std::string ExpectedSignature(const ServedRequest& request, const Target& target) const;
  std::optional<Refusal> Put(const ServedRequest& request, std::string body, const Target& target);
  void Get(const ServedRequest& request, const std::string& key, ServedConnection& connection);
  std::optional<Refusal> Delete(const std::string& key);
  void Batch(const ServedRequest& request, ServedConnection& connection);
  std::optional<Refusal> AnswerPart(const std::string& text, bool is_done);
  void List(const Target& target, ServedConnection& connection) const;
  void Fail(const Refusal& refusal, bool with_body, ServedConnection& connection) const;

  FakeAzureOptions options_;
  std::map<std::string, std::map<std::string, std::string>> blocks_;  // by key and id
  std::map<std::string, absl::Time> tokens_;
};

}  // namespace csidelta::support
