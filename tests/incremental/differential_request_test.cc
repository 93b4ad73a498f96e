#include "incremental/sources/differential_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "k8s/object.h"
#include "objects/differential_snapshot.h"
#include "tests/diffsnap/differential_cluster.h"
#include "tests/diffsnap/fake_driver.h"
#include "tests/support/await.h"
#include "tests/support/memory_growth.h"
#include "tests/support/sanitized.h"
#include "tests/support/status_matchers.h"

namespace csidelta::incremental::differential_request_test {
namespace {

using diffsnap::DifferentialCluster;
using diffsnap::DriverPage;
using diffsnap::FakeDriver;
using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Optional;
using testing::SizeIs;

constexpr int64_t kSize = int64_t{1} << 30;
constexpr char kPlural[] = "differentialsnapshots";

class DifferentialRequestTest : public testing::Test {
 protected:
  DifferentialRequestTest() {
    driver_.blocks = {{.extent = {0, 4096}}, {.extent = {8192, 4096}}, {.extent = {16384, 4096}}};
    options_.page_backoff.attempts_max = 2;
  }

  absl::Status List() {
    csi::AudienceTokens tokens(cluster_.api, {});
    DifferentialRequestSource source(cluster_.api, tokens, Random::Real(), options_);
    return source.ListExtents(ctx_, request_, [this](const ListedExtent& listed) {
      listed_.push_back(listed);
      return sink_ ? sink_(listed) : absl::OkStatus();
    });
  }

  // The listing fails, in this way; and leaves nothing behind.
  void ExpectFailure(ListingFailure failure, absl::StatusCode code, const std::string& words) {
    const absl::Status status = List();
    EXPECT_THAT(status, StatusIs(code, HasSubstr(words)));
    EXPECT_THAT(FailureOf(status), Optional(failure)) << status;
    EXPECT_THAT(Objects(), IsEmpty());
  }

  std::vector<Json> Objects() const {
    return cluster_.api.All(objects::DifferentialSnapshot::Type());
  }
  int Created() const { return cluster_.api.CallCount("create", kPlural); }

  // A controller that takes its time: `answer` is what it does with an object that is new.
  void AnswerBy(std::function<void(const std::string& name)> answer) {
    cluster_.controls = false;
    cluster_.api.OnCreate(
        kPlural, [answer = std::move(answer)](support::FakeApiClient&, const Json& object) {
          answer(k8s::Name(object));
        });
  }

  FakeDriver driver_;
  DifferentialCluster cluster_{driver_};
  DifferentialRequestOptions options_;
  CallContext ctx_ = cluster_.Context();
  DiffRequest request_{.base = "handle-old", .target = "app/new", .size_bytes = kSize};
  std::function<absl::Status(const ListedExtent&)> sink_;
  std::vector<ListedExtent> listed_;
};

TEST_F(DifferentialRequestTest, MakesAnObjectReadsTheListAndDeletesIt) {
  Json made;
  cluster_.api.OnCreate(kPlural,
                        [&](support::FakeApiClient&, const Json& object) { made = object; });
  options_.parameters = {"quality=a=b", "tier="};
  ASSERT_THAT(List(), IsOk());
  EXPECT_THAT(listed_, ElementsAre(ListedExtent{{0, 4096}}, ListedExtent{{8192, 4096}},
                                   ListedExtent{{16384, 4096}}));
  EXPECT_EQ(made["spec"], (Json{{"targetVolumeSnapshotName", "new"},
                                {"baseSnapshotHandle", "handle-old"},
                                {"volumeId", "volume-1"},
                                {"parameters", {{"quality", "a=b"}, {"tier", ""}}},
                                {"mode", "Block"}}));
  EXPECT_EQ(driver_.requests().at(0).base_handle, "handle-old");
  EXPECT_THAT(Objects(), IsEmpty());
}

TEST_F(DifferentialRequestTest, WithoutABaseWhatIsAllocatedIsListed) {
  request_.base.clear();
  ASSERT_THAT(List(), IsOk());
  EXPECT_EQ(driver_.requests().at(0).base_handle, "");
  EXPECT_THAT(listed_, SizeIs(3));
}

TEST_F(DifferentialRequestTest, AnObjectThatIsNotProcessedMeansNoServiceForTheDriver) {
  cluster_.controls = false;
  const absl::Time began = cluster_.clock.Now();
  ExpectFailure(ListingFailure::kDriverHasNoService, absl::StatusCode::kFailedPrecondition,
                "no controller processed");
  EXPECT_EQ(cluster_.clock.Now() - began, absl::Seconds(30));
}

TEST_F(DifferentialRequestTest, AServiceThatAcceptedItGetsTenMinutes) {
  AnswerBy([this](const std::string& name) {
    cluster_.SetStatus(name, {{"conditions", {{{"type", "Accepted"}, {"status", "True"}}}},
                              {"error", "NotReady: the driver's socket is away"}});
  });
  const absl::Time began = cluster_.clock.Now();
  ExpectFailure(ListingFailure::kMetadataUnavailable, absl::StatusCode::kUnavailable,
                "the driver's socket is away");
  EXPECT_EQ(cluster_.clock.Now() - began, absl::Minutes(10));
}

TEST_F(DifferentialRequestTest, APendingObjectIsWatchedToItsEnd) {
  int watches = 0;
  AnswerBy([&](const std::string& name) {
    cluster_.SetStatus(name, {{"state", "Pending"}});
    cluster_.api.SetInterceptor([&, name](const support::ApiCall& call, const Json*) {
      if (call.verb == "watch" && ++watches == 2) {
        cluster_.Answer(*cluster_.api.Find(DifferentialCluster::Key(name)));
      }
      return absl::OkStatus();
    });
  });
  ASSERT_THAT(List(), IsOk());
  EXPECT_EQ(cluster_.api.CallCount("get", kPlural), 0);
}

TEST_F(DifferentialRequestTest, EachErrorOfTheObjectHasItsClass) {
  struct Case {
    const char* error;
    ListingFailure failure;
    absl::StatusCode code;
  };
  using Code = absl::StatusCode;
  for (const Case& known : std::vector<Case>{
           {"TargetSnapshotNotFound: x", ListingFailure::kPermanent, Code::kNotFound},
           {"BaseSnapshotNotFound: x", ListingFailure::kBaseGone, Code::kNotFound},
           {"DriverMismatch: x", ListingFailure::kNotComparable, Code::kFailedPrecondition},
           {"VolumeMismatch: x", ListingFailure::kNotComparable, Code::kFailedPrecondition},
           {"UnsupportedMode: x", ListingFailure::kDriverHasNoService, Code::kFailedPrecondition},
           {"DriverUnsupported: x", ListingFailure::kDriverHasNoService, Code::kFailedPrecondition},
           {"NotReady: x", ListingFailure::kMetadataUnavailable, Code::kUnavailable},
           {"InvalidOffset: x", ListingFailure::kMetadataUnavailable, Code::kUnavailable},
           {"Internal: x", ListingFailure::kMetadataUnavailable, Code::kUnavailable},
           {"Unheard of x", ListingFailure::kMetadataUnavailable, Code::kUnavailable},
       }) {
    cluster_.spoil = [&](Json& status) { status = {{"state", "Failure"}, {"error", known.error}}; };
    ExpectFailure(known.failure, known.code, known.error);
  }
}

TEST_F(DifferentialRequestTest, AMalformedStatusOfTheObjectIsRefused) {
  struct Case {
    const char* member;
    Json value;
    const char* words;
  };
  for (const Case& wrong : std::vector<Case>{
           {"url", "http://127.0.0.1:1/app/x", "status.url"},
           {"url", "https://a:b@127.0.0.1:1/app/x", "status.url"},
           {"url", "https://127.0.0.1:1/app/x?startOffset=9", "status.url"},
           {"url", 7, "status.url"},
           {"caBundle", "", "status.caBundle"},
           {"caBundle", absl::Base64Escape("no certificate"), "status.caBundle"},
           {"audience", "", "status.audience"},
           {"audience", "https://kubernetes.default.svc.cluster.local", "API server's own"},
       }) {
    cluster_.spoil = [&](Json& status) { status[wrong.member] = wrong.value; };
    ExpectFailure(ListingFailure::kMetadataUnavailable, absl::StatusCode::kUnavailable,
                  wrong.words);
  }
  EXPECT_EQ(cluster_.api.CallCount("create", "serviceaccounts"), 0) << "no token for such";
}

TEST_F(DifferentialRequestTest, AListOfAnotherPairIsNotBelieved) {
  for (const char* member : {"driver", "targetHandle", "baseHandle", "volumeHandle"}) {
    cluster_.spoil = [&](Json& status) { status["resolved"][member] = "another"; };
    ExpectFailure(ListingFailure::kMalformedList, absl::StatusCode::kInvalidArgument, member);
  }
  cluster_.spoil = [](Json& status) { status.erase("resolved"); };
  ExpectFailure(ListingFailure::kMalformedList, absl::StatusCode::kInvalidArgument, "driver");
  EXPECT_THAT(driver_.requests(), IsEmpty());
}

TEST_F(DifferentialRequestTest, SnapshotsOfTwoVolumesAreNotCompared) {
  options_.base.volume_handle = "volume-2";
  ExpectFailure(ListingFailure::kNotComparable, absl::StatusCode::kFailedPrecondition, "volume-2");
  EXPECT_EQ(Created(), 0);
}

TEST_F(DifferentialRequestTest, PastItsTimeoutAResultIsAskedForAgainFromWhereItEnded) {
  options_.entries_max = 2;
  int pages = 0;
  driver_.on_page = [&](const CallContext&) {
    driver_.expires_at = ++pages == 2 ? absl::UnixEpoch() : absl::InfiniteFuture();
  };
  ASSERT_THAT(List(), IsOk());
  EXPECT_THAT(listed_, ElementsAre(ListedExtent{{0, 4096}}, ListedExtent{{8192, 4096}},
                                   ListedExtent{{16384, 4096}}))
      << "each once";
  EXPECT_EQ(Created(), 2);
  EXPECT_THAT(Objects(), IsEmpty());
  EXPECT_GT(driver_.requests().back().from_bytes, 0) << "what it has is not asked for again";
}

TEST_F(DifferentialRequestTest, AResultThatNeverLivesLongEnoughIsGivenUp) {
  driver_.expires_at = absl::UnixEpoch();
  ExpectFailure(ListingFailure::kMetadataUnavailable, absl::StatusCode::kFailedPrecondition,
                "ResultExpired");
  EXPECT_EQ(Created(), 3);
}

TEST_F(DifferentialRequestTest, ADeletedObjectIsCreatedAgain) {
  int objects = 0;
  AnswerBy([&](const std::string& name) {
    ++objects;
    if (objects == 1) {
      cluster_.api.Remove(DifferentialCluster::Key(name));
    } else {
      cluster_.Answer(*cluster_.api.Find(DifferentialCluster::Key(name)));
    }
  });
  ASSERT_THAT(List(), IsOk());
  EXPECT_EQ(objects, 2);
  EXPECT_THAT(Objects(), IsEmpty());
}

TEST_F(DifferentialRequestTest, AnAnswerThatIsLostLeavesNoSecondObject) {
  cluster_.api.FailNext("create", kPlural, absl::AlreadyExistsError("already there"), 1,
                        support::Fault::kAnswerLost);
  ASSERT_THAT(List(), IsOk());
  EXPECT_EQ(Created(), 1);
  EXPECT_THAT(Objects(), IsEmpty());
  cluster_.api.FailNext("create", kPlural, absl::UnavailableError("cut"), 1,
                        support::Fault::kAnswerLost);
  ExpectFailure(ListingFailure::kMetadataUnavailable, absl::StatusCode::kUnavailable, "cut");
}

TEST_F(DifferentialRequestTest, TheSinksErrorComesBackAsItIsAndTheObjectGoes) {
  sink_ = [](const ListedExtent&) { return absl::DataLossError("disk"); };
  EXPECT_EQ(List(), absl::DataLossError("disk"));
  EXPECT_THAT(Objects(), IsEmpty());
}

TEST_F(DifferentialRequestTest, AStopWhileThereIsNoAnswerLeavesNothingBehind) {
  // The clock stands still, so only the stop can end the wait.
  cluster_.clock.SetAutoAdvance(false);
  std::stop_source stop;
  ctx_.stop = stop.get_token();
  int objects = 0;
  AnswerBy([&](const std::string&) {
    ++objects;
    stop.request_stop();
  });
  {
    const support::AwaitEnd end("a request that was stopped");
    EXPECT_THAT(List(), StatusIs(absl::StatusCode::kCancelled));
  }
  EXPECT_EQ(objects, 1);
  EXPECT_THAT(Objects(), IsEmpty());
}

TEST_F(DifferentialRequestTest, LeftoversOfDeadRunsAgeOut) {
  const auto leave = [this](const char* name, absl::Duration age, const char* label) {
    Json object = support::MakeObject("diffsnap.csi-delta.io/v1alpha1", "DifferentialSnapshot",
                                      "app", name, {{"app.kubernetes.io/managed-by", label}});
    SetJson(object, {"metadata", "creationTimestamp"}, FormatRfc3339(cluster_.clock.Now() - age));
    cluster_.api.Seed(objects::DifferentialSnapshot::Type(), object);
  };
  leave("dead", absl::Hours(25), "csi-delta-mover");
  leave("running", absl::Hours(23), "csi-delta-mover");
  leave("of-another-client", absl::Hours(25), "another");
  ASSERT_THAT(List(), IsOk());
  std::vector<std::string> left;
  for (const Json& object : Objects()) {
    left.push_back(k8s::Name(object));
  }
  EXPECT_THAT(left, ElementsAre("of-another-client", "running"));
  cluster_.api.Forbid("list", kPlural);
  EXPECT_THAT(List(), IsOk()) << "the broom is no condition";
}

TEST_F(DifferentialRequestTest, WithoutTheKindThereIsNoServiceForTheDriver) {
  cluster_.api.RemoveType(kPlural);
  ExpectFailure(ListingFailure::kDriverHasNoService, absl::StatusCode::kFailedPrecondition,
                " cannot tell which blocks changed: it has no SnapshotMetadataService, and no "
                "DifferentialSnapshot can be made here; docs/changed-blocks.md");
}

TEST_F(DifferentialRequestTest, ARefusalByTheApiServerIsPermanentUnlessTheKindMayBeAbsent) {
  cluster_.api.Forbid("create", kPlural);
  ExpectFailure(ListingFailure::kPermanent, absl::StatusCode::kPermissionDenied, "grant it");
  options_.kind_may_be_absent = true;
  ExpectFailure(ListingFailure::kDriverHasNoService, absl::StatusCode::kFailedPrecondition,
                kPlural);
}

TEST_F(DifferentialRequestTest, ATokenIsForTheAudienceAndIsNotSentToAnotherCertificate) {
  cluster_.spoil = [](Json& status) {
    status["caBundle"] = absl::Base64Escape(support::TestAuthority().ca_pem());
  };
  int asked = 0;
  cluster_.on_page = [&](const net::HttpCall&) { ++asked; };
  ExpectFailure(ListingFailure::kMetadataUnavailable, absl::StatusCode::kUnavailable,
                "certificate");
  EXPECT_EQ(asked, 0);
}

TEST_F(DifferentialRequestTest, AMessageHoldsNoToken) {
  cluster_.on_page = [&](const net::HttpCall& call) {
    driver_.failure = absl::FailedPreconditionError(
        absl::StrCat("you said ", call.headers.at("authorization"), "\x1b[2J"));
  };
  const absl::Status status = List();
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("***"), Not(HasSubstr("token-")), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(FailureOf(status), Optional(ListingFailure::kNotComparable));
}

TEST_F(DifferentialRequestTest, ExtentsFitTheDeviceAndTheRestOfItIsUnknown) {
  driver_.volume_size_bytes = 20480;
  request_.size_bytes = 32768;
  ASSERT_THAT(List(), IsOk());
  EXPECT_EQ(listed_.back(), (ListedExtent{{20480, 12288}, ExtentKind::kUnknown}));
  listed_.clear();
  request_.size_bytes = 18432;
  ASSERT_THAT(List(), IsOk());
  EXPECT_EQ(listed_.back(), (ListedExtent{{16384, 2048}}));
}

TEST_F(DifferentialRequestTest, MemoryDoesNotGrowWithTheList) {
  constexpr int64_t kPages = 200;
  constexpr int64_t kPerPage = 4096;
  constexpr int64_t kPagesBefore = 8;
  constexpr int64_t kGrowthMax = int64_t{4} << 20;
  // A list of eight bytes an extent would be noticed.
  static_assert(8 * (kPages - kPagesBefore) * kPerPage > kGrowthMax * 5 / 4);
  driver_.blocks.clear();
  driver_.volume_size_bytes = int64_t{64} << 40;
  options_.entries_max = kPerPage;
  driver_.spoil = [n = int64_t{0}](DriverPage& page) mutable {
    for (int64_t j = 0; j < kPerPage; ++j) {
      page.blocks.push_back({.extent = {(n * kPerPage + j) << 23, 1 << 22}});
    }
    page.more = ++n < kPages;
  };
  request_.size_bytes = driver_.volume_size_bytes;
  int64_t extents = 0;
  std::optional<support::MemoryGrowth> growth;
  csi::AudienceTokens tokens(cluster_.api, {});
  DifferentialRequestSource source(cluster_.api, tokens, Random::Real(), options_);
  ASSERT_THAT(source.ListExtents(ctx_, request_,
                                 [&](const ListedExtent&) {
                                   if (++extents == kPagesBefore * kPerPage) {
                                     growth.emplace();
                                   }
                                   return absl::OkStatus();
                                 }),
              IsOk());
  EXPECT_EQ(extents, kPages * kPerPage);
  ASSERT_TRUE(growth.has_value());
  if (support::AssertsUnsanitized("a list of pages takes less than 4 MiB")) {
    EXPECT_LT(growth->bytes(), kGrowthMax);
  }
}

}  // namespace
}  // namespace csidelta::incremental::differential_request_test
