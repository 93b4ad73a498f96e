#include <array>
#include <atomic>
#include <set>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "net/url.h"
#include "storage/bucket_object_store.h"
#include "tests/cli/sweep_fixture.h"
#include "tests/support/await.h"
#include "tests/support/bucket_bed.h"
#include "tests/support/fake_s3_server.h"
#include "tests/support/paths.h"

namespace csidelta::cli::fault_sweep_test {
namespace {

using support::Dialect;
using support::ServedConnection;
using support::ServedRequest;
using support::Spoiling;

bool IsListing(const ServedRequest& request) {
  return absl::StrContains(request.target, "list-type=") ||
         absl::StrContains(request.target, "comp=list") ||
         absl::StrContains(request.target, "maxResults=");
}
bool IsWrite(const ServedRequest& request) {
  return request.method != "GET" && request.method != "HEAD";
}
// Google tells the size of an object as a text.
bool IsStat(const ServedRequest& request) {
  return request.method == "GET" && absl::StrContains(request.target, "fields=size");
}
bool HasBytes(const ServedRequest& request) {
  return request.method == "GET" && !IsListing(request) && !IsStat(request);
}
// Nothing but the transport guards listings and sizes against another bit.
bool IsGuarded(const ServedRequest& request) { return !IsListing(request) && !IsStat(request); }
bool HasText(const ServedRequest& request) { return request.method != "HEAD"; }
bool IsCommit(const ServedRequest& request) {
  return absl::StrContains(request.target, "comp=blocklist");
}
// Of one object, or of many.
bool IsDeletionIn(const ServedRequest& request, absl::string_view folder) {
  const bool is_batch = absl::StrContains(request.target, "?delete=") ||
                        absl::StrContains(request.target, "comp=batch");
  return (is_batch && absl::StrContains(request.body, folder.substr(1))) ||
         (request.method == "DELETE" &&
          absl::StrContains(net::PercentDecode(request.target), folder));
}

// A text for each dialect; null: its service does not answer so.
using Texts = std::array<const char*, std::size(support::kDialects)>;
constexpr Texts Every(const char* text) { return {text, text, text}; }

// What goes wrong at one request, and once.
struct FaultKind {
  const char* name;
  int status = 0;          // of what is answered; 0: see below
  Texts errors = {};       // "CODE", or "CODE: message"
  Texts bodies = {};       // instead of such an error
  const char* type = "";   // Content-Type
  bool is_silent = false;  // no answer at all
  bool is_reset = false;   // the connection is closed before anything is done
  Spoiling spoiling = Spoiling::kNone;
  bool (*may_be)(const ServedRequest&) = nullptr;  // which it can happen to; null: to all
  // It must not be noticed: the call is made again.
  bool heals = false;

  bool IsOf(Dialect dialect) const {
    const auto index = static_cast<std::size_t>(dialect);
    return status == 0 || errors[index] != nullptr || bodies[index] != nullptr;
  }
};

constexpr char kPage[] =
    "<!DOCTYPE html><html><head><title>Maintenance</title></head><body>Back soon.</body></html>";
constexpr Texts kHalfLists = {
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult><Name>bucket</Name>"
    "<IsTruncated>false</IsTruncated>",
    "<?xml version=\"1.0\"?><EnumerationResults><Blobs></Blobs><NextMarker></NextMarker>",
    "{\"kind\":\"storage#objects\",\"items\":["};
constexpr char kXml[] = "<?xml version=\"1.0\"?>\n<Result></Result>";

constexpr FaultKind Refused(const char* name, int status, Texts errors) {
  return {.name = name, .status = status, .errors = errors};
}
constexpr FaultKind Answered(const char* name, int status, Texts bodies, const char* type = "") {
  return {.name = name, .status = status, .bodies = bodies, .type = type};
}
constexpr FaultKind At(bool (*may_be)(const ServedRequest&), FaultKind kind) {
  kind.may_be = may_be;
  return kind;
}
constexpr FaultKind Healing(FaultKind kind) {
  kind.heals = true;
  return kind;
}

constexpr char kHtml[] = "text/html";
constexpr FaultKind kNotFound =
    Refused("not found", 404, {"NoSuchKey", "BlobNotFound", "notFound"});
constexpr FaultKind kWrongBit = {
    .name = "a wrong bit", .spoiling = Spoiling::kFlipped, .may_be = IsGuarded};
constexpr FaultKind kThrottled = Healing(
    Refused("too many requests", 429, {"SlowDown", "TooManyRequests", "rateLimitExceeded"}));
constexpr FaultKind kEmptyAnswer = Healing(Answered("an empty answer", 200, Every("")));
constexpr FaultKind kFaults[] = {
    kNotFound,
    kWrongBit,
    kThrottled,
    Refused("forbidden", 403, {"AccessDenied", "AuthorizationFailure", "forbidden"}),
    Answered("a page of an unknown origin", 403, Every(kPage), kHtml),
    Answered("unauthorized", 401, Every("")),
    Refused("moved", 301, {"PermanentRedirect", "", ""}),
    Refused(
        "no bucket", 404,
        {"NoSuchBucket", "ContainerNotFound", "notFound: The specified bucket does not exist."}),
    Refused("not implemented", 501, Every("NotImplemented")),
    Answered("no such version", 505, Every("")),
    Healing(Refused("a timeout of the client's", 408, {"RequestTimeout", nullptr, "error"})),
    Healing(Refused("a timeout that is a bad request", 400, {"RequestTimeout"})),
    Healing(At(IsCommit, Refused("dropped blocks", 400, {nullptr, "InvalidBlockList"}))),
    Healing(Answered("too early", 425, Every(""))),
    Healing(Refused("a conflict", 409, {"OperationAborted", "AccountBeingCreated"})),
    Healing(
        Refused("internal error", 500, {"InternalError", "OperationTimedOut", "internalError"})),
    Healing(Answered("bad gateway", 502, Every(kPage), kHtml)),
    Healing(Refused("unavailable", 503, {"SlowDown", "ServerBusy", "backendError"})),
    Healing(Refused("a limit of the user's", 403, {nullptr, nullptr, "userRateLimitExceeded"})),
    Healing(Answered("gateway timeout", 504, Every(""))),
    Healing(Refused("full", 507, {"InsufficientStorage"})),
    Healing(Answered("unknown error", 520, Every(kPage), kHtml)),
    Healing(Answered("connection refused", 521, Every(""))),
    Healing(Answered("connection timed out", 522, Every(""))),
    Healing(Answered("origin unreachable", 523, Every(""))),
    Healing(Answered("a timeout occurred", 524, Every(""))),
    Healing(Refused("an expired token of S3", 400, {"ExpiredToken"})),
    Healing(Refused("an expired token", 401, {nullptr, "InvalidAuthenticationInfo", "authError"})),
    Healing(Refused("a stray signature", 403,
                    {"SignatureDoesNotMatch",
                     "AuthenticationFailed: The MAC signature found in the request is another"})),
    Healing(Answered("a page", 200, Every(kPage), kHtml)),
    Healing(At(HasText, Answered("a page of no type", 200, Every(kPage)))),
    At(HasText, kEmptyAnswer),
    Healing(At(IsListing, Answered("half a list", 200, kHalfLists))),
    Healing(At(IsListing, Answered("no list", 200, {kXml, kXml, "{}"}))),
    Healing(At(HasBytes, Answered("no content", 204, Every("")))),
    {.name = "reset", .is_reset = true, .heals = true},
    {.name = "reset after the effect", .spoiling = Spoiling::kCut, .heals = true},
    {.name = "a short body", .spoiling = Spoiling::kShort, .heals = true},
    {.name = "silence", .is_silent = true, .heals = true}};

// A bucket's server of which one answer goes wrong: each of a verb's requests in turn. The program
// then does its work, or ends with one clear error; nothing is lost, and the same verb succeeds
// when it is run again.
class FaultSweepFixture : public SweepFixture {
 protected:
  static constexpr std::size_t kSample = 4;  // of what may go wrong with a verb
  static constexpr std::size_t kBackupSample = 12;

  explicit FaultSweepFixture(Dialect dialect, const std::string& folder = "")
      : dialect_(dialect), bed_(dialect, clock_, {.prefix = folder}) {}

  absl::StatusOr<std::unique_ptr<storage::OpenedStore>> OpenStore(
      const storage::Location& location, const storage::StoreSettings& settings) override {
    if (!in_bucket_ || location.directory == "/source") {
      return SweepFixture::OpenStore(location, settings);
    }
    return bed_.Open();
  }

  std::map<std::string, std::string> Objects() override {
    return in_bucket_ ? server_.objects() : SweepFixture::Objects();
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
        connection.Raw(AnswerOf(kind, request.method == "HEAD"));
      }
      return true;
    });
  }

  std::string AnswerOf(const FaultKind& kind, bool is_head) const {
    const char* const error = kind.errors[static_cast<std::size_t>(dialect_)];
    const std::string body = error != nullptr ? support::ErrorOf(dialect_, error)
                                              : kind.bodies[static_cast<std::size_t>(dialect_)];
    const absl::string_view code =
        dialect_ == Dialect::kAzure && error != nullptr ? error : absl::string_view();
    return absl::StrCat(
        "HTTP/1.1 ", kind.status, " Text\r\n",
        code.empty() ? "" : "x-ms-error-code: ", code.substr(0, code.find(':')),
        code.empty() ? "" : "\r\n",
        *kind.type == '\0' ? "" : absl::StrCat("Content-Type: ", kind.type, "\r\n"),
        kind.status == 204 ? "" : absl::StrCat("Content-Length: ", body.size(), "\r\n"), "\r\n",
        is_head ? "" : body);
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

  // Dialects share what is no full sweep, so that three take the time of one; another share each
  // day.
  std::vector<int64_t> Mine(const std::vector<int64_t>& points) const {
    std::vector<int64_t> mine;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const uint64_t turn = (i + sample_.seed()) % std::size(support::kDialects);
      if (sample_.is_everything() || turn == static_cast<uint64_t>(dialect_)) {
        mine.push_back(points[i]);
      }
    }
    return mine;
  }

  // Each request, in each way.
  void Sweep(const std::vector<std::string>& words, std::size_t sample = kSample) {
    const std::vector<ServedRequest> good = GoodRun(words);
    const int64_t requests = std::ssize(good);
    std::vector<const FaultKind*> kinds;
    for (const FaultKind& kind : kFaults) {
      if (kind.IsOf(dialect_) && (kind.may_be == nullptr || absl::c_any_of(good, kind.may_be))) {
        kinds.push_back(&kind);
      }
    }
    std::set<const FaultKind*> met;
    int points = 0;
    for (const int64_t point : Mine(sample_.Below(std::ssize(kinds) * requests, sample))) {
      const FaultKind* const kind = kinds[static_cast<std::size_t>(point / requests)];
      FailOnce(words, *kind, point % requests);
      points += was_met_ ? 1 : 0;
      met.insert(was_met_ ? kind : nullptr);
    }
    met.erase(nullptr);
    for (const FaultKind* const kind : kinds) {
      EXPECT_TRUE(!sample_.is_everything() || HasFailure() || met.contains(kind)) << kind->name;
    }
    RecordProperty("points", points);
  }

  // Each request of one sort, in one way, also where the rest is a sample.
  void FailEach(const std::vector<std::string>& words, const FaultKind& kind,
                bool (*is_meant)(const ServedRequest&)) {
    const std::vector<ServedRequest> requests = GoodRun(words);
    std::vector<int64_t> points;
    for (int64_t point = 0; point < std::ssize(requests); ++point) {
      points.insert(points.end(), is_meant(requests[static_cast<std::size_t>(point)]) ? 1 : 0,
                    point);
    }
    EXPECT_FALSE(points.empty());
    for (const int64_t point : Mine(points)) {
      FailOnce(words, kind, point);
    }
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

  const Dialect dialect_;
  support::BucketBed bed_;
  support::FakeBucketServer& server_ = *bed_.server;
  std::map<std::string, std::string> base_;
  std::function<void()> again_;  // What the user does after a fault; null: the same once more.
  bool in_bucket_ = false;
  bool was_met_ = false;           // by the last fault, a request
  ExitCode code_ = ExitCode::kOk;  // of the run that met it
};

class EmptyFaultSweepTest : public FaultSweepFixture, public testing::WithParamInterface<Dialect> {
 protected:
  EmptyFaultSweepTest() : FaultSweepFixture(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(Dialects, EmptyFaultSweepTest, testing::ValuesIn(support::kDialects),
                         [](const auto& test) { return support::DialectName(test.param); });

class FaultSweepTest : public EmptyFaultSweepTest {
 protected:
  FaultSweepTest() { MakeGenerations(); }
};
INSTANTIATE_TEST_SUITE_P(Dialects, FaultSweepTest, testing::ValuesIn(support::kDialects),
                         [](const auto& test) { return support::DialectName(test.param); });

// What is billed: opening, locking and closing included.
TEST_P(FaultSweepTest, AnUnchangedIncrementSaysWhatTheServerSaw) {
  GoodRun(BackupArguments());
  server_.Reset(server_.objects());
  const Outcome again = MustRun(BackupArguments());
  const std::vector<ServedRequest> seen = server_.requests();
  EXPECT_EQ(GetInt(again.Result(), {"requests"}), std::ssize(seen));
  EXPECT_EQ(GetInt(again.Result(), {"write_requests"}), absl::c_count_if(seen, IsWrite));
}

TEST_P(EmptyFaultSweepTest, Init) {
  InitAgainAfterEachFault();
  Sweep({"init"});
}

TEST_P(EmptyFaultSweepTest, InitStoresAgainWhatWasStoredWrongly) {
  InitAgainAfterEachFault();
  FaultKind kind = kWrongBit;
  kind.heals = true;
  FailEach({"init"}, kind, IsWrite);
}

TEST_P(EmptyFaultSweepTest, InitKeepsItsKeyWhenItReadsAWrongConfig) {
  InitAgainAfterEachFault();
  FailEach({"init"}, kWrongBit, HasBytes);
}

TEST_P(FaultSweepTest, Backup) {
  WriteImage({1, 12, 23, 14, 5, 26});
  Sweep(BackupArguments(), kBackupSample);
}

TEST_P(EmptyFaultSweepTest, FirstBackup) { Sweep(BackupArguments()); }

TEST_P(FaultSweepTest, IncrementalBackup) {
  WriteImage({1, 12, 23, 14, 5, 6});
  Sweep(BackupByList(kept_, 2 * kChunkBytes, kChunkBytes));
}

TEST_P(FaultSweepTest, BackupStoresAgainWhatWasStoredWrongly) {
  WriteImage({1, 12, 23, 14, 5, 26});
  FaultKind kind = kWrongBit;
  kind.heals = true;
  FailEach(BackupArguments(), kind, IsWrite);
}

TEST_P(FaultSweepTest, BackupRetriesWritesThatAreThrottled) {
  WriteImage({1, 12, 23, 14, 5, 26});
  FailEach(BackupArguments(), kThrottled, IsWrite);
}

TEST_P(FaultSweepTest, Restore) {
  WriteFile("target", "");
  Sweep({"restore", kept_, "--target", Path("target")});
}

TEST_P(FaultSweepTest, ARestoreIsRightOrAnError) {
  WriteFile("target", "");
  FailEach({"restore", kept_, "--target", Path("target")}, kWrongBit,
           [](const ServedRequest& request) { return !IsWrite(request) && IsGuarded(request); });
}

TEST_P(FaultSweepTest, ForgetAndPrune) {
  Sweep({"forget", "--keep-last", "1", "--prune", "--max-unused", "0"});
}

TEST_P(FaultSweepTest, ForgetAndPruneTakeNoListingForEmpty) {
  FailEach({"forget", "--keep-last", "1", "--prune"}, kNotFound, IsListing);
}

TEST_P(FaultSweepTest, PruneDeletesNoPackThatIsStillListed) {
  FailEach({"forget", "--keep-last", "1", "--prune", "--max-unused", "0"}, kNotFound,
           [](const ServedRequest& request) { return IsDeletionIn(request, "/index/"); });
}

TEST_P(FaultSweepTest, PruneDeletesAgainWhatAnEmptyAnswerReportedDeleted) {
  FailEach({"forget", "--keep-last", "1", "--prune"}, kEmptyAnswer,
           [](const ServedRequest& request) {
             return IsDeletionIn(request, "/index/") || IsDeletionIn(request, "/snapshots/");
           });
}

TEST_P(FaultSweepTest, RepairIndex) { Sweep({"repair", "index"}); }

TEST_P(FaultSweepTest, Check) { Sweep({"check", "--read-data"}); }

TEST_P(FaultSweepTest, Copy) {
  MakeSourceOfCopy();
  Sweep({"copy"});
}

TEST_P(FaultSweepTest, KeyAdd) {
  WriteFile("new", "new secret");
  Sweep({"key", "add", "--new-password-file", Path("new")});
}

TEST_P(FaultSweepTest, KeyRemove) {
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

TEST_P(FaultSweepTest, KeyRemoveDeletesAgainWhatAnEmptyAnswerReportedDeleted) {
  WriteFile("new", "new secret");
  const Json added = MustRun({"key", "add", "--new-password-file", Path("new")}).Result();
  again_ = [&] { EXPECT_EQ(OpenWith("new secret"), ExitCode::kWrongPassword); };
  FailEach({"key", "remove", GetString(added, {"id"})}, kEmptyAnswer,
           [](const ServedRequest& request) { return IsDeletionIn(request, "/keys/"); });
}

TEST_P(FaultSweepTest, KeyPasswd) {
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

// A bucket that keeps versions, with the rules of deploy/buckets.
class LifecycleTest : public FaultSweepFixture, public testing::WithParamInterface<Dialect> {
 protected:
  static constexpr char kFolder[] = "velero/plugins/csi-delta/shop/";

  LifecycleTest() : FaultSweepFixture(GetParam(), kFolder) {
    server_.KeepVersions();
    for (const auto& [key, bytes] : store_.objects()) {
      server_.SetObject(kFolder + key, bytes);
    }
    in_bucket_ = true;
  }

  void PassDays(int count) {
    const std::string name = absl::AsciiStrToLower(support::DialectName(dialect_));
    const std::string rules = absl::StrReplaceAll(
        support::ReadSource(absl::StrCat("deploy/buckets/", name, "-lifecycle.json")),
        {{"PREFIX", "velero"}, {"CONTAINER", "container"}});
    for (int day = 0; day < count; ++day) {
      clock_.Pass(absl::Hours(24), absl::Hours(24));
      server_.ApplyLifecycle(*ParseJson(rules));
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Dialects, LifecycleTest, testing::ValuesIn(support::kDialects),
                         [](const auto& test) { return support::DialectName(test.param); });

TEST_P(LifecycleTest, TheRulesOfDeployRemoveWhatIsOldAndTheRepositoryStays) {
  const bool is_azure = dialect_ == Dialect::kAzure;
  MakeGenerations();
  MustRun({"forget", "--keep-last", "1", "--prune", "--max-unused", "0"});
  const std::string others = "velero/backups/b/b.json";
  server_.SetObject(others, "old");
  server_.SetObject(others, "new");
  for (const std::string& key : {kFolder + std::string("data/00/half"), others}) {
    server_.Leave("upload", key);
    server_.Leave("snapshot", key);
  }
  const auto objects = server_.objects();
  PassDays(1);  // In S3, who deletes what is not there leaves a marker that goes at once.
  const auto leftovers = server_.leftovers();
  EXPECT_GE(leftovers.size(), 10u);
  EXPECT_EQ(leftovers.count(absl::StrCat("upload ", kFolder, "data/00/half")), 1u);
  PassDays(5);
  EXPECT_EQ(server_.leftovers(), leftovers) << "each may be needed for a while";
  PassDays(2);
  std::multiset<std::string> left = leftovers;
  left.erase(absl::StrCat("upload ", kFolder, "data/00/half"));
  left.erase(is_azure ? "upload " + others : "");  // Of the service's own accord.
  EXPECT_EQ(server_.leftovers(), left);
  PassDays(30);
  left = {"upload " + others, "snapshot " + others, "version " + others};
  left.erase(is_azure ? "upload " + others : "");
  if (!is_azure) {  // Which others do not have.
    left.insert(absl::StrCat("snapshot ", kFolder, "data/00/half"));
  }
  EXPECT_EQ(server_.leftovers(), left);
  EXPECT_EQ(server_.objects(), objects);
  ExpectGood({});
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
class CredentialsSweepTest : public FaultSweepFixture {
 protected:
  enum class Source { kContainer, kSts, kInstance };  // The last is asked three times.

  CredentialsSweepTest()
      : FaultSweepFixture(Dialect::kS3),
        source_server_([this](const ServedRequest& request, ServedConnection& connection) {
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
  absl::StatusOr<std::unique_ptr<storage::OpenedStore>> OpenStore(
      const storage::Location& location, const storage::StoreSettings& settings) override {
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
    bed_.settings.environment = std::move(environment);
    return FaultSweepFixture::OpenStore(location, settings);
  }

  void SweepSources(const std::vector<std::string>& words) {
    const auto base = store_.objects();
    in_bucket_ = true;
    static_cast<support::FakeS3Server&>(server_).SetSessionToken("t");
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
