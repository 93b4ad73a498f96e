#include <atomic>

#include "net/http_client.h"
#include "storage/s3_object_store.h"
#include "tests/cli/sweep_fixture.h"
#include "tests/support/fake_s3_server.h"

namespace csidelta::cli {
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
std::ostream& operator<<(std::ostream& out, const FaultKind& kind) { return out << kind.name; }

// A bucket's server of which one answer goes wrong: each of a verb's requests in turn. The program
// then does its work, or ends with one clear error; nothing is lost, and the same verb succeeds
// when it is run again.
class FaultSweepTest : public SweepFixture, public testing::WithParamInterface<FaultKind> {
 protected:
  static constexpr std::size_t kSample = 1;  // of the requests of each kind

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
    return std::make_unique<LentStore>(*place_);
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

  void Misbehave(const std::shared_ptr<std::atomic<int64_t>>& left) {
    const FaultKind kind = GetParam();
    const auto is_due = [left] { return left->fetch_sub(1) == 0; };
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
      if (kind.is_reset) {
        connection.Cut();
      } else if (kind.is_silent) {
        clock_.Advance(storage::S3HttpLimits().silence_max + absl::Seconds(1));
      } else {
        const std::string body = absl::StrCat("<Error><Code>", kind.code, "</Code></Error>");
        connection.Raw(absl::StrCat("HTTP/1.1 ", kind.status, " Text\r\nContent-Length: ",
                                    body.size(), "\r\n\r\n", request.method == "HEAD" ? "" : body));
      }
      return true;
    });
  }

  static bool IsListing(const ServedRequest& request) {
    return request.target.find("list-type=") != std::string::npos;
  }

  static std::vector<int64_t> ChoosePoints(const std::vector<ServedRequest>& requests) {
    std::map<std::string, std::vector<int64_t>> by_kind;
    for (int64_t i = 0; i < std::ssize(requests); ++i) {
      const ServedRequest& request = requests[static_cast<std::size_t>(i)];
      const bool is_write = request.method == "PUT" || request.method == "DELETE";
      by_kind[is_write ? "write" : "read"].push_back(i);
    }
    std::vector<int64_t> points;
    for (auto& [kind, numbers] : by_kind) {
      for (const int64_t point : SweepFixture::ChoosePoints(std::move(numbers), kSample)) {
        points.push_back(point);
      }
    }
    return points;
  }

  void Sweep(const std::vector<std::string>& words) {
    in_bucket_ = true;
    const std::map<std::string, std::string> base = store_.objects();
    server_.Reset(base);
    MustRun(words);
    const std::vector<int64_t> points = ChoosePoints(server_.requests());
    for (const int64_t point : points) {
      SCOPED_TRACE(absl::StrCat(GetParam().name, " at request ", point + 1, " of ", words[0]));
      server_.Reset(base);
      Misbehave(std::make_shared<std::atomic<int64_t>>(point));
      std::vector<std::string> quietly = words;
      quietly.emplace_back("--quiet");
      const Outcome outcome = Run(quietly);
      server_.Reset(server_.objects());
      if (outcome.code != ExitCode::kOk) {
        EXPECT_FALSE(GetParam().heals) << outcome.error;
        const std::vector<std::string> lines =
            absl::StrSplit(outcome.error, '\n', absl::SkipEmpty());
        EXPECT_EQ(lines.size(), 1u) << outcome.error;
      } else if (words[0] == "restore") {
        EXPECT_TRUE(ReadFile("target") == kept_image_);
      }
      MustRun(words);
      ExpectGood({});
      if (HasFailure()) {
        ADD_FAILURE() << "first: " << outcome.error;
        return;
      }
    }
    points_ += static_cast<int>(points.size());
    RecordProperty("points", points_);
    in_bucket_ = false;
  }

  storage::StoreMeter meter_;
  FixedCredentials credentials_;
  FakeS3Server server_;
  std::unique_ptr<net::HttpClient> http_;
  std::unique_ptr<storage::S3ObjectStore> place_;
  bool in_bucket_ = false;
  int points_ = 0;
};

TEST_P(FaultSweepTest, Backup) {
  MakeGenerations();
  WriteImage({1, 12, 23, 14, 5, 26});
  Sweep(BackupWords());
}

TEST_P(FaultSweepTest, Restore) {
  MakeGenerations();
  WriteFile("target", std::string(image_.size(), '\xa5'));
  Sweep({"restore", kept_, "--target", Path("target")});
  EXPECT_TRUE(ReadFile("target") == kept_image_);
}

TEST_P(FaultSweepTest, ForgetAndPrune) {
  MakeGenerations();
  Sweep({"forget", "--keep-last", "1", "--prune", "--max-unused", "0"});
}

class MoreFaultSweepTest : public FaultSweepTest {};

TEST_P(MoreFaultSweepTest, Check) {
  MakeGenerations();
  Sweep({"check", "--read-data"});
}

TEST_P(MoreFaultSweepTest, Copy) {
  MakeGenerations();
  source_.SetObjects(store_.objects());
  store_.SetObjects({});
  MakeRepository(store_);
  kept_.clear();
  variables_["RESTIC_FROM_REPOSITORY"] = "/source";
  Sweep({"copy"});
}

std::string NameOf(const testing::TestParamInfo<FaultKind>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(
    Healing, FaultSweepTest,
    testing::Values(
        FaultKind{.name = "TooManyRequests", .status = 429, .code = "SlowDown", .heals = true},
        FaultKind{.name = "InternalError", .status = 500, .code = "InternalError", .heals = true},
        FaultKind{.name = "Unavailable", .status = 503, .code = "SlowDown", .heals = true},
        FaultKind{.name = "Reset", .is_reset = true, .heals = true},
        FaultKind{.name = "ResetAfterEffect", .spoiling = Spoiling::kCut, .heals = true},
        FaultKind{.name = "Silence", .is_silent = true, .heals = true}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Refusing, FaultSweepTest,
    testing::Values(FaultKind{.name = "Forbidden", .status = 403, .code = "AccessDenied"},
                    FaultKind{.name = "NotFound", .status = 404, .code = "NoSuchKey"},
                    FaultKind{.name = "Full", .status = 507, .code = "InsufficientStorage"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Lying, FaultSweepTest,
    testing::Values(FaultKind{.name = "ShortBody", .spoiling = Spoiling::kShort, .heals = true},
                    FaultKind{.name = "WrongBody", .spoiling = Spoiling::kFlipped}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    OneOfEach, MoreFaultSweepTest,
    testing::Values(
        FaultKind{.name = "Unavailable", .status = 503, .code = "SlowDown", .heals = true},
        FaultKind{.name = "Forbidden", .status = 403, .code = "AccessDenied"},
        FaultKind{.name = "NotFound", .status = 404, .code = "NoSuchKey"},
        FaultKind{.name = "WrongBody", .spoiling = Spoiling::kFlipped}),
    NameOf);

}  // namespace
}  // namespace csidelta::cli
