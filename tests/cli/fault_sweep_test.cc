#include <atomic>

#include "net/http_client.h"
#include "storage/s3_object_store.h"
#include "tests/cli/sweep_fixture.h"
#include "tests/support/await.h"
#include "tests/support/fake_s3_server.h"

namespace csidelta::cli::fault_sweep_test {
namespace {

using support::FakeS3Options;
using support::FakeS3Server;
using support::ServedConnection;
using support::ServedRequest;
using Spoiling = FakeS3Server::Spoiling;

class FixedCredentials : public storage::CredentialsProvider {
 public:
  absl::StatusOr<storage::Credentials> Get(const CallContext&) override {
    return storage::Credentials{.access_key_id = "AKIDTEST",
                                .secret_access_key = Secret("secret/key+of=test"),
                                .session_token = Secret()};
  }
  void Forget() override {}
  bool MayBeExchanged() const override { return false; }
};

// What goes wrong at one request, and once.
struct FaultKind {
  const char* name;
  int status = 0;  // of an error that is answered; 0: see below
  const char* code = "";
  bool is_silent = false;  // no answer at all
  bool is_reset = false;   // the connection is closed before anything is done
  Spoiling spoiling = Spoiling::kNone;
  // Nobody must notice: the call is made again.
  bool heals = false;
};

constexpr FaultKind kNotFound = {.name = "not found", .status = 404, .code = "NoSuchKey"};
constexpr FaultKind kWrongBit = {.name = "a wrong bit", .spoiling = Spoiling::kFlipped};
constexpr FaultKind kThrottled = {
    .name = "too many requests", .status = 429, .code = "SlowDown", .heals = true};
constexpr FaultKind kFaults[] = {
    kNotFound,
    kWrongBit,
    kThrottled,
    {.name = "forbidden", .status = 403, .code = "AccessDenied"},
    {.name = "internal error", .status = 500, .code = "InternalError", .heals = true},
    {.name = "unavailable", .status = 503, .code = "SlowDown", .heals = true},
    {.name = "full", .status = 507, .code = "InsufficientStorage", .heals = true},
    {.name = "reset", .is_reset = true, .heals = true},
    {.name = "reset after the effect", .spoiling = Spoiling::kCut, .heals = true},
    {.name = "a short body", .spoiling = Spoiling::kShort, .heals = true},
    {.name = "silence", .is_silent = true, .heals = true}};

// A bucket's server of which one answer goes wrong: each of a verb's requests in turn. The program
// then does its work, or ends with one clear error; nothing is lost, and the same verb succeeds
// when it is run again.
class FaultSweepTest : public SweepFixture {
 protected:
  static constexpr std::size_t kSample = 4;  // of what may go wrong with a verb

  FaultSweepTest() : server_(ServerOptions()) {
    http_ = std::make_unique<net::HttpClient>(
        net::HttpClientOptions{.tls = {}, .proxy = {}, .limits = storage::S3HttpLimits()});
    storage::S3Options options;
    options.endpoint = *net::ParseUrl(server_.url());
    options.bucket = "bucket";
    place_ = std::make_unique<storage::S3ObjectStore>(options, *http_, credentials_, meter_);
  }

  FakeS3Options ServerOptions() const {
    FakeS3Options options;
    options.clock = &clock_;
    options.page_objects_max = 100;
    return options;
  }

  absl::StatusOr<std::unique_ptr<storage::OpenedStore>> OpenStore(
      const storage::Location& location, const storage::StoreSettings& settings) override {
    if (!in_bucket_ || location.directory == "/source") {
      return SweepFixture::OpenStore(location, settings);
    }
    return std::make_unique<RetriedStore>(*place_);
  }

  std::map<std::string, std::string> Objects() override {
    return in_bucket_ ? server_.objects() : SweepFixture::Objects();
  }

  // Two generations in a directory, then in the bucket; the second is the one to keep.
  void MakeGenerations() {
    Backup();
    WriteImage({1, 12, 3, 14, 5, 6});
    kept_ = Backup();
    kept_image_ = image_;
  }

  // The request after so many others goes wrong.
  void Misbehave(const FaultKind& kind, int64_t point) {
    const auto is_due = [left = std::make_shared<std::atomic<int64_t>>(point)] {
      return left->fetch_sub(1) == 0;
    };
    if (kind.spoiling != Spoiling::kNone) {
      server_.Spoil([=](const ServedRequest& request) {
        // Nothing but the transport guards a listing against another bit.
        const bool may = kind.spoiling != Spoiling::kFlipped || !IsListing(request);
        return is_due() && may ? kind.spoiling : Spoiling::kNone;
      });
      return;
    }
    server_.Interfere([=, this](const ServedRequest& request, ServedConnection& connection) {
      if (!is_due()) {
        return false;
      }
      if (kind.is_silent) {
        BeSilent(connection);
      } else if (kind.is_reset) {
        connection.Cut();
      } else {
        const std::string body = absl::StrCat("<Error><Code>", kind.code, "</Code></Error>");
        connection.Raw(absl::StrCat("HTTP/1.1 ", kind.status, " Text\r\nContent-Length: ",
                                    body.size(), "\r\n\r\n", request.method == "HEAD" ? "" : body));
      }
      return true;
    });
  }

  // Until the client has enough of it, for whom time flies.
  void BeSilent(ServedConnection& connection) {
    constexpr int64_t kLooksMax = 200;  // Of all who look, until one more flight is due.
    int64_t fly_at = 0;
    support::Await("the client to have enough of a silence", [&] {
      if (clock_.looks() >= fly_at) {
        clock_.Fly(1.5 * storage::S3HttpLimits().silence_max);
        fly_at = clock_.looks() + kLooksMax;
      }
      return connection.PeerIsGone() || connection.stop().stop_requested();
    });
    clock_.Fly(absl::ZeroDuration());
    connection.Cut();
  }

  static bool IsListing(const ServedRequest& request) {
    return request.target.find("list-type=") != std::string::npos;
  }
  static bool IsWrite(const ServedRequest& request) {
    return request.method == "PUT" || request.method == "DELETE";
  }

  // The requests of a good run, for which a repository is in the bucket from now on.
  std::vector<ServedRequest> GoodRun(const std::vector<std::string>& words) {
    in_bucket_ = true;
    base_ = store_.objects();
    server_.Reset(base_);
    MustRun(words);
    return server_.requests();
  }

  // Each request, in each way.
  void Sweep(const std::vector<std::string>& words, std::size_t sample = kSample) {
    const auto requests = std::ssize(GoodRun(words));
    const std::vector<int64_t> points = sample_.Below(std::ssize(kFaults) * requests, sample);
    for (const int64_t point : points) {
      FailOnce(words, kFaults[static_cast<std::size_t>(point / requests)], point % requests);
    }
    RecordProperty("points", static_cast<int>(points.size()));
  }

  // The same, where a sample has each of the ways.
  void SweepEachWay(const std::vector<std::string>& words) {
    const auto requests = std::ssize(GoodRun(words));
    const std::vector<int64_t> points = sample_.Below(requests, std::size(kFaults));
    if (std::ssize(points) == requests) {
      Sweep(words);
      return;
    }
    for (std::size_t i = 0; i < points.size(); ++i) {
      FailOnce(words, kFaults[i], points[i]);
    }
    RecordProperty("points", static_cast<int>(points.size()));
  }

  // Each request of one sort, in one way, also where the rest is a sample.
  void FailEach(const std::vector<std::string>& words, const FaultKind& kind,
                bool (*is_meant)(const ServedRequest&)) {
    const std::vector<ServedRequest> requests = GoodRun(words);
    int points = 0;
    for (int64_t point = 0; point < std::ssize(requests); ++point) {
      if (is_meant(requests[static_cast<std::size_t>(point)])) {
        FailOnce(words, kind, point);
        ++points;
      }
    }
    EXPECT_GT(points, 0);
  }

  void FailOnce(const std::vector<std::string>& words, const FaultKind& kind, int64_t point) {
    if (HasFailure()) {
      return;
    }
    SCOPED_TRACE(absl::StrCat(kind.name, " at request ", point + 1, " of ", words[0]));
    server_.Reset(base_);
    Misbehave(kind, point);
    std::vector<std::string> quietly = words;
    quietly.emplace_back("--quiet");
    const Outcome outcome = Run(quietly);
    SCOPED_TRACE(absl::StrCat("said: ", outcome.error));
    server_.Reset(server_.objects());
    if (outcome.code != ExitCode::kOk) {
      EXPECT_FALSE(kind.heals);
      ExpectOneClearError(outcome);
    } else if (words[0] == "restore") {
      EXPECT_TRUE(ReadFile("target") == kept_image_);
    }
    MustRun(words);
    ExpectGood({});
  }

  // A line that names what it is about; what a check finds goes to stdout.
  static void ExpectOneClearError(const Outcome& outcome) {
    if (outcome.out.find("\"message_type\":\"finding\"") != std::string::npos) {
      return;
    }
    const std::string& error = outcome.error;
    const std::vector<std::string> lines = absl::StrSplit(error, '\n', absl::SkipEmpty());
    EXPECT_EQ(lines.size(), 1u);
    EXPECT_THAT(error, testing::ContainsRegex("config|key|lock|snapshot|index|data/|pack|aux/|blob|"
                                              "there is no repository in"));
  }

  storage::StoreMeter meter_;
  FixedCredentials credentials_;
  FakeS3Server server_;
  std::unique_ptr<net::HttpClient> http_;
  std::unique_ptr<storage::S3ObjectStore> place_;
  std::map<std::string, std::string> base_;
  bool in_bucket_ = false;
};

TEST_F(FaultSweepTest, Backup) {
  MakeGenerations();
  WriteImage({1, 12, 23, 14, 5, 26});
  SweepEachWay(BackupWords());
}

TEST_F(FaultSweepTest, WhatABackupStoresWronglyIsStoredAgain) {
  MakeGenerations();
  WriteImage({1, 12, 23, 14, 5, 26});
  FaultKind kind = kWrongBit;
  kind.heals = true;
  FailEach(BackupWords(), kind, IsWrite);
}

TEST_F(FaultSweepTest, WhatABackupMayNotStoreNowIsStoredLater) {
  MakeGenerations();
  WriteImage({1, 12, 23, 14, 5, 26});
  FailEach(BackupWords(), kThrottled, IsWrite);
}

TEST_F(FaultSweepTest, Restore) {
  MakeGenerations();
  WriteFile("target", "");
  Sweep({"restore", kept_, "--target", Path("target")});
}

TEST_F(FaultSweepTest, ARestoreIsRightOrAnError) {
  MakeGenerations();
  WriteFile("target", "");
  FailEach({"restore", kept_, "--target", Path("target")}, kWrongBit,
           [](const ServedRequest& request) { return !IsWrite(request) && !IsListing(request); });
}

TEST_F(FaultSweepTest, ForgetAndPrune) {
  MakeGenerations();
  Sweep({"forget", "--keep-last", "1", "--prune", "--max-unused", "0"});
}

TEST_F(FaultSweepTest, ForgetAndPruneTakeNoListingForEmpty) {
  MakeGenerations();
  FailEach({"forget", "--keep-last", "1", "--prune"}, kNotFound, IsListing);
}

TEST_F(FaultSweepTest, PruneDeletesNoPackThatIsStillListed) {
  MakeGenerations();
  FailEach({"forget", "--keep-last", "1", "--prune", "--max-unused", "0"}, kNotFound,
           [](const ServedRequest& request) {
             return request.method == "DELETE" &&
                    request.target.find("/index/") != std::string::npos;
           });
}

TEST_F(FaultSweepTest, Check) {
  MakeGenerations();
  Sweep({"check", "--read-data"});
}

TEST_F(FaultSweepTest, Copy) {
  MakeGenerations();
  source_.SetObjects(store_.objects());
  store_.SetObjects({});
  MakeRepository(store_);
  kept_.clear();
  variables_["RESTIC_FROM_REPOSITORY"] = "/source";
  Sweep({"copy"});
}

TEST_F(FaultSweepTest, KeyAdd) {
  MakeGenerations();
  WriteFile("new", "new secret");
  Sweep({"key", "add", "--new-password-file", Path("new")}, 1);  // Keys are made by real scrypt.
}

}  // namespace
}  // namespace csidelta::cli::fault_sweep_test
