#include <atomic>
#include <set>

#include "absl/algorithm/container.h"
#include "net/http_client.h"
#include "net/url.h"
#include "storage/s3_object_store.h"
#include "tests/cli/sweep_fixture.h"
#include "tests/support/await.h"
#include "tests/support/fake_s3_server.h"
#include "tests/support/fixed_credentials.h"

namespace csidelta::cli::fault_sweep_test {
namespace {

using support::FakeS3Options;
using support::FakeS3Server;
using support::FixedCredentials;
using support::ServedConnection;
using support::ServedRequest;
using Spoiling = FakeS3Server::Spoiling;

bool IsListing(const ServedRequest& request) {
  return request.target.find("list-type=") != std::string::npos;
}
bool IsWrite(const ServedRequest& request) {
  return request.method == "PUT" || request.method == "DELETE";
}
bool HasBytes(const ServedRequest& request) {
  return request.method == "GET" && !IsListing(request);
}
// Nothing but the transport guards a listing against another bit.
bool IsGuarded(const ServedRequest& request) { return !IsListing(request); }
bool HasText(const ServedRequest& request) { return request.method != "HEAD"; }
bool IsDeletionIn(const ServedRequest& request, absl::string_view folder) {
  return request.method == "DELETE" &&
         absl::StrContains(net::PercentDecode(request.target), folder);
}

// What goes wrong at one request, and once.
struct FaultKind {
  const char* name;
  int status = 0;              // of what is answered; 0: see below
  const char* code = "";       // of an error of S3
  const char* body = nullptr;  // instead of such an error
  const char* type = "";       // Content-Type
  bool is_silent = false;      // no answer at all
  bool is_reset = false;       // the connection is closed before anything is done
  Spoiling spoiling = Spoiling::kNone;
  bool (*may_be)(const ServedRequest&) = nullptr;  // which it can happen to; null: to all
  // It must not be noticed: the call is made again.
  bool heals = false;
};

constexpr char kPage[] =
    "<!DOCTYPE html><html><head><title>Maintenance</title></head><body>Back soon.</body></html>";
constexpr char kHalfAList[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult><Name>bucket</Name>"
    "<IsTruncated>false</IsTruncated>";
constexpr char kOtherXml[] = "<?xml version=\"1.0\"?>\n<Result></Result>";

constexpr FaultKind kNotFound = {.name = "not found", .status = 404, .code = "NoSuchKey"};
constexpr FaultKind kWrongBit = {
    .name = "a wrong bit", .spoiling = Spoiling::kFlipped, .may_be = IsGuarded};
constexpr FaultKind kThrottled = {
    .name = "too many requests", .status = 429, .code = "SlowDown", .heals = true};
constexpr FaultKind kEmptyAnswer = {
    .name = "an empty answer", .status = 200, .body = "", .heals = true};
constexpr FaultKind kFaults[] = {
    kNotFound,
    kWrongBit,
    kThrottled,
    {.name = "forbidden", .status = 403, .code = "AccessDenied"},
    {.name = "a page of an unknown origin", .status = 403, .body = kPage, .type = "text/html"},
    {.name = "unauthorized", .status = 401, .body = ""},
    {.name = "moved", .status = 301, .code = "PermanentRedirect"},
    {.name = "no bucket", .status = 404, .code = "NoSuchBucket"},
    {.name = "not implemented", .status = 501, .code = "NotImplemented"},
    {.name = "no such version", .status = 505, .body = ""},
    {.name = "a timeout of the client's", .status = 408, .code = "RequestTimeout", .heals = true},
    {.name = "a timeout that is a bad request",
     .status = 400,
     .code = "RequestTimeout",
     .heals = true},
    {.name = "too early", .status = 425, .body = "", .heals = true},
    {.name = "a conflict", .status = 409, .code = "OperationAborted", .heals = true},
    {.name = "internal error", .status = 500, .code = "InternalError", .heals = true},
    {.name = "bad gateway", .status = 502, .body = kPage, .type = "text/html", .heals = true},
    {.name = "unavailable", .status = 503, .code = "SlowDown", .heals = true},
    {.name = "gateway timeout", .status = 504, .body = "", .heals = true},
    {.name = "full", .status = 507, .code = "InsufficientStorage", .heals = true},
    {.name = "unknown error", .status = 520, .body = kPage, .type = "text/html", .heals = true},
    {.name = "connection refused", .status = 521, .body = "", .heals = true},
    {.name = "connection timed out", .status = 522, .body = "", .heals = true},
    {.name = "origin unreachable", .status = 523, .body = "", .heals = true},
    {.name = "a timeout occurred", .status = 524, .body = "", .heals = true},
    {.name = "an expired token", .status = 400, .code = "ExpiredToken", .heals = true},
    {.name = "a stray signature", .status = 403, .code = "SignatureDoesNotMatch", .heals = true},
    {.name = "a page", .status = 200, .body = kPage, .type = "text/html", .heals = true},
    {.name = "a page of no type", .status = 200, .body = kPage, .may_be = HasText, .heals = true},
    {.name = "an empty answer", .status = 200, .body = "", .may_be = HasText, .heals = true},
    {.name = "half a list", .status = 200, .body = kHalfAList, .may_be = IsListing, .heals = true},
    {.name = "no list", .status = 200, .body = kOtherXml, .may_be = IsListing, .heals = true},
    {.name = "no content", .status = 204, .body = nullptr, .may_be = HasBytes, .heals = true},
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
  static constexpr std::size_t kBackupSample = 12;

  FaultSweepTest() : server_(ServerOptions()) {
    http_ = std::make_unique<net::HttpClient>(
        net::HttpClientOptions{.tls = {}, .proxy = {}, .limits = storage::BucketHttpLimits()});
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

  // The request after so many others goes wrong, if it can so.
  void Misbehave(const FaultKind& kind, int64_t point) {
    was_met_ = false;
    const auto is_due = [this, kind, left = std::make_shared<std::atomic<int64_t>>(point)](
                            const ServedRequest& request) {
      const bool now = left->fetch_sub(1) == 0 && (kind.may_be == nullptr || kind.may_be(request));
      was_met_ = was_met_ || now;
      return now;
    };
    if (kind.spoiling != Spoiling::kNone) {
      server_.Spoil([=](const ServedRequest& request) {
        return is_due(request) ? kind.spoiling : Spoiling::kNone;
      });
      return;
    }
    server_.Interfere([=, this](const ServedRequest& request, ServedConnection& connection) {
      if (!is_due(request)) {
        return false;
      }
      if (kind.is_silent) {
        BeSilent(connection);
      } else if (kind.is_reset) {
        connection.Cut();
      } else {
        const std::string body = kind.status == 204 ? ""
                                 : kind.body != nullptr
                                     ? kind.body
                                     : absl::StrCat("<Error><Code>", kind.code, "</Code></Error>");
        connection.Raw(absl::StrCat(
            "HTTP/1.1 ", kind.status, " Text\r\n",
            *kind.type == '\0' ? "" : absl::StrCat("Content-Type: ", kind.type, "\r\n"),
            kind.status == 204 ? "" : absl::StrCat("Content-Length: ", body.size(), "\r\n"), "\r\n",
            request.method == "HEAD" ? "" : body));
      }
      return true;
    });
  }

  // Until the client has enough of it, by its fast clock.
  void BeSilent(ServedConnection& connection) {
    constexpr int64_t kLooksMax = 200;  // Of all who look, until one more flight is due.
    int64_t fly_at = 0;
    support::Await("the client to have enough of a silence", [&] {
      if (clock_.looks() >= fly_at) {
        clock_.Fly(1.5 * storage::BucketHttpLimits().silence_max);
        fly_at = clock_.looks() + kLooksMax;
      }
      return connection.PeerIsGone() || connection.stop().stop_requested();
    });
    clock_.Fly(absl::ZeroDuration());
    connection.Cut();
  }

  void InitAgainAfterEachFault() {
    store_.SetObjects({});
    again_ = [&] {
      Run({"init"});  // It may be there already.
      MustRun({"snapshots"});
    };
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
    std::set<int64_t> met;
    int points = 0;
    for (const int64_t point : sample_.Below(std::ssize(kFaults) * requests, sample)) {
      FailOnce(words, kFaults[static_cast<std::size_t>(point / requests)], point % requests);
      points += was_met_ ? 1 : 0;
      met.insert(was_met_ ? point / requests : -1);
    }
    met.erase(-1);
    EXPECT_TRUE(!sample_.is_everything() || met.size() == std::size(kFaults))
        << "only " << met.size() << " of the faults were met";
    RecordProperty("points", points);
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
    variables_["RESTIC_PASSWORD"] = kPassword;
    Misbehave(kind, point);
    std::vector<std::string> quietly = words;
    quietly.emplace_back("--quiet");
    const Outcome outcome = Run(quietly);
    SCOPED_TRACE(absl::StrCat("said: ", outcome.error));
    server_.Reset(server_.objects());
    code_ = outcome.code;
    if (outcome.code != ExitCode::kOk) {
      // Who was not let in yet is told at once what is wrong with the place.
      EXPECT_FALSE(kind.heals && point > 0);
      ExpectOneClearError(outcome);
    } else if (words[0] == "restore") {
      EXPECT_TRUE(ReadFile("target") == kept_image_);
    } else if (words[0] == "forget") {
      EXPECT_EQ(absl::c_count_if(
                    server_.objects(),
                    [](const auto& object) { return object.first.starts_with("snapshots/"); }),
                1);
    } else if (words[0] == "backup") {
      ExpectRestores(GetString(outcome.Result(), {"snapshot_id"}), image_, {});
    }
    if (again_ != nullptr) {
      again_();
    } else {
      RunAgain(words);
    }
    ExpectGood({});
  }

  // A line that names what it is about; what a check finds goes to stdout. A restore also says what
  // it leaves.
  static void ExpectOneClearError(const Outcome& outcome) {
    if (outcome.out.find("\"message_type\":\"finding\"") != std::string::npos) {
      return;
    }
    const std::string& error = outcome.error;
    std::vector<std::string> lines = absl::StrSplit(error, '\n', absl::SkipEmpty());
    std::erase_if(lines, [](const std::string& line) {
      return line.find("is incomplete and marked as such") != std::string::npos;
    });
    EXPECT_EQ(lines.size(), 1u);
    EXPECT_THAT(error, testing::ContainsRegex("config|key|lock|snapshot|index|data/|pack|aux/|blob|"
                                              "there is no repository in|holds a repository"));
  }

  storage::StoreMeter meter_;
  FixedCredentials credentials_;
  FakeS3Server server_;
  std::unique_ptr<net::HttpClient> http_;
  std::unique_ptr<storage::S3ObjectStore> place_;
  std::map<std::string, std::string> base_;
  std::function<void()> again_;  // What the user does after a fault; null: the same once more.
  bool in_bucket_ = false;
  bool was_met_ = false;           // by the last fault, a request
  ExitCode code_ = ExitCode::kOk;  // of the run that met it
};

// What is billed: opening, locking and closing included.
class CountedRequestsTest : public FaultSweepTest {
 protected:
  absl::StatusOr<std::unique_ptr<storage::OpenedStore>> OpenStore(
      const storage::Location& location, const storage::StoreSettings& given) override {
    if (!in_bucket_) {
      return FaultSweepTest::OpenStore(location, given);
    }
    storage::StoreSettings settings = given;
    settings.environment.keys = *credentials_.Get(CallContext());
    ASSIGN_OR_RETURN(const storage::Location bucket,
                     storage::ParseLocation(absl::StrCat("s3:", server_.url(), "/bucket")));
    return storage::OpenStore(bucket, settings, Random::Real());
  }
};

TEST_F(CountedRequestsTest, AnUnchangedIncrementSaysWhatTheServerSaw) {
  Backup();
  GoodRun(BackupArguments());
  server_.Reset(server_.objects());
  const Outcome again = MustRun(BackupArguments());
  const std::vector<ServedRequest> seen = server_.requests();
  EXPECT_EQ(GetInt(again.Result(), {"requests"}), std::ssize(seen));
  EXPECT_EQ(GetInt(again.Result(), {"write_requests"}), absl::c_count_if(seen, IsWrite));
}

TEST_F(FaultSweepTest, Init) {
  InitAgainAfterEachFault();
  Sweep({"init"});
}

TEST_F(FaultSweepTest, InitStoresAgainWhatWasStoredWrongly) {
  InitAgainAfterEachFault();
  FaultKind kind = kWrongBit;
  kind.heals = true;
  FailEach({"init"}, kind, IsWrite);
}

TEST_F(FaultSweepTest, InitKeepsItsKeyWhenItReadsAWrongConfig) {
  InitAgainAfterEachFault();
  FailEach({"init"}, kWrongBit, HasBytes);
}

TEST_F(FaultSweepTest, Backup) {
  MakeGenerations();
  WriteImage({1, 12, 23, 14, 5, 26});
  Sweep(BackupArguments(), kBackupSample);
}

TEST_F(FaultSweepTest, FirstBackup) { Sweep(BackupArguments()); }

TEST_F(FaultSweepTest, IncrementalBackup) {
  MakeGenerations();
  WriteImage({1, 12, 23, 14, 5, 6});
  Sweep(BackupByList(kept_, 2 * kChunkBytes, kChunkBytes));
}

TEST_F(FaultSweepTest, BackupStoresAgainWhatWasStoredWrongly) {
  MakeGenerations();
  WriteImage({1, 12, 23, 14, 5, 26});
  FaultKind kind = kWrongBit;
  kind.heals = true;
  FailEach(BackupArguments(), kind, IsWrite);
}

TEST_F(FaultSweepTest, BackupRetriesWritesThatAreThrottled) {
  MakeGenerations();
  WriteImage({1, 12, 23, 14, 5, 26});
  FailEach(BackupArguments(), kThrottled, IsWrite);
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
           [](const ServedRequest& request) { return IsDeletionIn(request, "/index/"); });
}

TEST_F(FaultSweepTest, PruneDeletesAgainWhatAnEmptyAnswerReportedDeleted) {
  MakeGenerations();
  FailEach({"forget", "--keep-last", "1", "--prune"}, kEmptyAnswer,
           [](const ServedRequest& request) {
             return IsDeletionIn(request, "/index/") || IsDeletionIn(request, "/snapshots/");
           });
}

TEST_F(FaultSweepTest, RepairIndex) {
  MakeGenerations();
  Sweep({"repair", "index"});
}

TEST_F(FaultSweepTest, Check) {
  MakeGenerations();
  Sweep({"check", "--read-data"});
}

TEST_F(FaultSweepTest, Copy) {
  MakeGenerations();
  MakeSourceOfCopy();
  Sweep({"copy"});
}

TEST_F(FaultSweepTest, KeyAdd) {
  MakeGenerations();
  WriteFile("new", "new secret");
  Sweep({"key", "add", "--new-password-file", Path("new")});
}

TEST_F(FaultSweepTest, KeyRemove) {
  MakeGenerations();
  WriteFile("new", "new secret");
  const Json added = MustRun({"key", "add", "--new-password-file", Path("new")}).Result();
  const std::vector<std::string> words = {"key", "remove", GetString(added, {"id"})};
  again_ = [&] {
    EXPECT_TRUE(code_ != ExitCode::kOk || OpenWith("new secret") == ExitCode::kWrongPassword);
    Run(words);  // It may be gone.
    EXPECT_EQ(OpenWith("new secret"), ExitCode::kWrongPassword);
  };
  Sweep(words);
}

TEST_F(FaultSweepTest, KeyRemoveDeletesAgainWhatAnEmptyAnswerReportedDeleted) {
  MakeGenerations();
  WriteFile("new", "new secret");
  const Json added = MustRun({"key", "add", "--new-password-file", Path("new")}).Result();
  again_ = [&] { EXPECT_EQ(OpenWith("new secret"), ExitCode::kWrongPassword); };
  FailEach({"key", "remove", GetString(added, {"id"})}, kEmptyAnswer,
           [](const ServedRequest& request) { return IsDeletionIn(request, "/keys/"); });
}

TEST_F(FaultSweepTest, KeyPasswd) {
  MakeGenerations();
  WriteFile("new", "new secret");
  const std::vector<std::string> words = {"key", "passwd", "--new-password-file", Path("new")};
  again_ = [&] {
    EXPECT_TRUE(code_ != ExitCode::kOk || OpenWith(kPassword) == ExitCode::kWrongPassword);
    // The user that changed it knows both.
    variables_["RESTIC_PASSWORD"] = OpenWith(kPassword) == ExitCode::kOk ? kPassword : "new secret";
    MustRun({"snapshots"});
  };
  Sweep(words);
}

class ClosedPortTest : public SweepFixture {
 protected:
  absl::StatusOr<std::unique_ptr<storage::OpenedStore>> OpenStore(
      const storage::Location& location, const storage::StoreSettings& settings) override {
    return storage::OpenStore(location, settings, Random::Real());
  }
};

TEST_F(ClosedPortTest, AWaitForAnUnreachableStoreIsReported) {
  variables_["RESTIC_REPOSITORY"] = "s3:http://127.0.0.1:1/bucket";
  variables_["AWS_ACCESS_KEY_ID"] = "id";
  variables_["AWS_SECRET_ACCESS_KEY"] = "secret";
  const std::string note = "waiting for s3:http://127.0.0.1:1/bucket, trying again: ";
  const Outcome outcome = Run({"init"});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error, testing::HasSubstr(note));
  EXPECT_EQ(outcome.error.find(note), outcome.error.rfind(note)) << "once";
  EXPECT_THAT(Run({"init", "--quiet"}).error, testing::Not(testing::HasSubstr(note)));
}

// What one answer of a source of credentials is instead, once.
struct SourceFault {
  const char* name;
  int status = 0;  // 0: nothing is answered, and the connection closed
  const char* body = "";
  bool of_sts = false;  // What STS says when it will do better soon; of others it is a refusal.
};

constexpr SourceFault kSourceFaults[] = {
    {.name = "reset"},
    {.name = "internal error", .status = 500},
    {.name = "unavailable", .status = 503},
    {.name = "too many requests", .status = 429, .body = "<Error><Code>Throttling</Code></Error>"},
    {.name = "unknown error", .status = 520, .body = kPage},
    {.name = "a page", .status = 200, .body = kPage},
    {.name = "an empty answer", .status = 200},
    {.name = "half an answer", .status = 200, .body = "{\"AccessKeyId\":\"AKID"},
    {.name = "an identity that is not known yet",
     .status = 400,
     .body = "<ErrorResponse><Error><Code>InvalidIdentityToken</Code></Error></ErrorResponse>",
     .of_sts = true},
    {.name = "an identity provider that does not answer",
     .status = 400,
     .body = "<ErrorResponse><Error><Code>IDPCommunicationError</Code></Error></ErrorResponse>",
     .of_sts = true}};

// Sources of credentials of which one answer goes wrong: that must not be noticed.
class CredentialsSweepTest : public FaultSweepTest {
 protected:
  enum class Source { kContainer, kSts, kInstance };  // The last is asked three times.

  CredentialsSweepTest()
      : source_server_([this](const ServedRequest& request, ServedConnection& connection) {
          Serve(request, connection);
        }) {
    WriteFile("token", "web+token");
  }

  void Serve(const ServedRequest& request, ServedConnection& connection) {
    if (left_-- == 0) {
      was_met_ = true;
      fault_->status == 0 ? connection.Cut() : connection.Send(fault_->status, fault_->body);
      return;
    }
    const std::string expiry =
        absl::FormatTime(absl::RFC3339_sec, clock_.Now() + absl::Hours(6), absl::UTCTimeZone());
    if (source_ == Source::kSts) {
      connection.Send(
          200, absl::StrCat("<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult>"
                            "<Credentials><AccessKeyId>AKIDTEST</AccessKeyId><SecretAccessKey>"
                            "secret/key+of=test</SecretAccessKey><SessionToken>t</SessionToken>"
                            "<Expiration>",
                            expiry,
                            "</Expiration></Credentials></AssumeRoleWithWebIdentityResult>"
                            "</AssumeRoleWithWebIdentityResponse>"));
    } else if (request.method == "PUT") {
      connection.Send(200, "metadata-token");
    } else if (request.target.ends_with("security-credentials/")) {
      connection.Send(200, "role");
    } else {
      connection.Send(200, absl::StrCat(R"({"Code":"Success","AccessKeyId":"AKIDTEST",)"
                                        R"("SecretAccessKey":"secret/key+of=test","Token":"t",)"
                                        R"("Expiration":")",
                                        expiry, "\"}"));
    }
  }

  // A process finds its credentials again.
  struct OwnStore : storage::OpenedStore {
    OwnStore(const storage::CredentialsEnvironment& environment, storage::S3Options options,
             net::HttpClient& http)
        : chain(environment, http, http),
          place(std::move(options), http, chain, own_meter),
          retried(place) {}
    storage::ObjectStore& store() override { return retried.store(); }
    const storage::StoreMeter& meter() const override { return retried.meter(); }

    storage::StoreMeter own_meter;
    storage::CredentialsChain chain;
    storage::S3ObjectStore place;
    RetriedStore retried;
  };

  absl::StatusOr<std::unique_ptr<storage::OpenedStore>> OpenStore(
      const storage::Location& location, const storage::StoreSettings& settings) override {
    if (!in_bucket_) {
      return FaultSweepTest::OpenStore(location, settings);
    }
    storage::CredentialsEnvironment environment;
    if (source_ == Source::kContainer) {
      environment.container_url = source_server_.url() + "/keys";
    } else if (source_ == Source::kSts) {
      environment.role_arn = "arn:aws:iam::1:role/r";
      environment.role_session_name = "session";
      environment.web_identity_token_file = Path("token");
      environment.sts_url = source_server_.url();
    } else {
      environment.metadata_url = source_server_.url();
    }
    environment.shared_credentials_file = Path("none");
    environment.config_file = Path("none");
    storage::S3Options options;
    options.endpoint = *net::ParseUrl(server_.url());
    options.bucket = "bucket";
    return std::make_unique<OwnStore>(environment, options, *http_);
  }

  void SweepSources(const std::vector<std::string>& words) {
    const auto base = store_.objects();
    in_bucket_ = true;
    server_.SetSessionToken("t");
    constexpr int64_t kFaultCount = std::size(kSourceFaults);
    int points = 0;
    for (const int64_t point : sample_.Below(5 * kFaultCount, kSample)) {
      const int64_t request = point / kFaultCount;
      source_ = request == 0 ? Source::kContainer : request == 1 ? Source::kSts : Source::kInstance;
      fault_ = &kSourceFaults[point % kFaultCount];
      if (fault_->of_sts && source_ != Source::kSts) {
        continue;
      }
      SCOPED_TRACE(absl::StrCat(fault_->name, " at question ", request, " for credentials"));
      server_.Reset(base);
      was_met_ = false;
      left_ = static_cast<int>(request < 2 ? 0 : request - 2);
      MustRun(words);
      EXPECT_TRUE(was_met_);
      ExpectGood({});
      ++points;
      if (HasFailure()) {
        return;
      }
    }
    RecordProperty("points", points);
  }

  Source source_ = Source::kContainer;
  const SourceFault* fault_ = kSourceFaults;
  std::atomic<int> left_ = -1;
  support::HttpTestServer source_server_;
};

TEST_F(CredentialsSweepTest, Backup) {
  MakeGenerations();
  WriteImage({1, 12, 23, 14, 5, 26});
  SweepSources(BackupArguments());
}

TEST_F(CredentialsSweepTest, Restore) {
  MakeGenerations();
  WriteFile("target", "");
  SweepSources({"restore", kept_, "--target", Path("target")});
}

TEST_F(CredentialsSweepTest, ForgetAndPrune) {
  MakeGenerations();
  SweepSources({"forget", "--keep-last", "1", "--prune", "--max-unused", "0"});
}

// Reads that are wrong so often in a row that it looks like damage.
class WrongReadsTest : public SweepFixture {};

TEST_F(WrongReadsTest, ASnapshotThatReadsAtTheSecondAttemptIsNotRemoved) {
  const std::string id = Backup();
  int refused = 0;
  for (int64_t wrong = 1; wrong <= 3; ++wrong) {
    store_.AddFault({.operation = support::StoreOperation::kGetRange,
                     .key_prefix = "data/",
                     .first_call = 1,
                     .last_call = wrong,
                     .wrong_bytes = support::WrongBytes::kFlipped});
    const Outcome outcome = Run({"repair", "--forget"});
    store_.ClearFaults();
    ASSERT_TRUE(store_.objects().contains("snapshots/" + id)) << wrong << outcome.out;
    refused += outcome.error.find("nothing was removed") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(refused, 0);
  ExpectRestores(id, image_, {});
}

TEST_F(WrongReadsTest, APackThatReadsAtTheSecondAttemptLosesNothing) {
  const std::string id = Backup();
  for (const auto& [key, bytes] : store_.objects()) {
    if (!key.starts_with("data/")) {
      continue;
    }
    store_.AddFault({.operation = support::StoreOperation::kGetRange,
                     .key_prefix = key,
                     .first_call = 1,
                     .last_call = 2,
                     .wrong_bytes = support::WrongBytes::kFlipped});
    Run({"repair", "packs", key.substr(key.rfind('/') + 1), "--drop-lost"});
    store_.ClearFaults();
    ExpectRestores(id, image_, {});
  }
}

TEST_F(WrongReadsTest, ALostSnapshotIsRemoved) {
  const std::string id = Backup();
  for (const auto& [key, bytes] : store_.objects()) {
    if (key.starts_with("data/")) {
      store_.RemoveObject(key);
    }
  }
  MustRun({"repair", "--forget"});
  EXPECT_FALSE(store_.objects().contains("snapshots/" + id));
}

}  // namespace
}  // namespace csidelta::cli::fault_sweep_test
