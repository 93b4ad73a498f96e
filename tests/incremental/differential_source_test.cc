#include "incremental/sources/differential_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "incremental/sources/listing_failure.h"
#include "tests/support/fake_clock.h"
#include "tests/support/http_test_server.h"
#include "tests/support/status_matchers.h"

namespace csidelta::incremental::differential_source_test {
namespace {

using support::FakeClock;
using support::HttpTestServer;
using support::IsOk;
using support::ServedConnection;
using support::ServedRequest;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

using Code = DifferentialErrorCode;

// What the server says to one request.
using Step = std::function<void(const ServedRequest& request, ServedConnection& connection)>;

Step Say(const DifferentialPage& page) {
  return [page](const ServedRequest&, ServedConnection& connection) {
    connection.Send(200, EncodePage(page));
  };
}

Step Say(Code code) {
  return [code](const ServedRequest&, ServedConnection& connection) {
    connection.Send(HttpStatusOf(code), EncodeError({.code = code, .message = "words"}));
  };
}

Step SayText(const std::string& body, int status = 200) {
  return [=](const ServedRequest&, ServedConnection& connection) { connection.Send(status, body); };
}

DifferentialPage Page(std::vector<Extent> extents, const std::string& next_offset = "") {
  DifferentialPage page;
  page.volume_size_bytes = 1000;
  page.next_offset = next_offset;
  for (const Extent& extent : extents) {
    page.blocks.push_back({.extent = extent});
  }
  return page;
}

class DifferentialSourceTest : public testing::Test {
 protected:
  DifferentialSourceTest() {
    clock_.SetAutoAdvance(true);
    ctx_.clock = &clock_;
    ctx_.deadline = clock_.Uptime() + absl::Hours(1);
  }

  // Lists from a server that goes through `steps`, once each.
  absl::Status List(std::vector<Step> steps) {
    steps_ = std::move(steps);
    requests_.clear();
    listed_.clear();
    tokens_.clear();
    const HttpTestServer server([this](const ServedRequest& request, ServedConnection& connection) {
      std::scoped_lock lock(mutex_);
      requests_.push_back(request);
      if (requests_.size() <= steps_.size()) {
        steps_[requests_.size() - 1](request, connection);
      } else {
        connection.Send(500, "the test did not expect this request");
      }
    });
    DifferentialSource source(
        {.url = *net::ParseUrl(server.url() + "/ns/a"),
         .http = {},
         .token = [this](const CallContext&, bool renew) -> absl::StatusOr<Secret> {
           tokens_.push_back(renew);
           return Secret(renew ? "new" : "old");
         },
         .entries_max = 1000});
    return source.ListExtents(ctx_, request_, [this](const ListedExtent& listed) {
      listed_.push_back(listed);
      return sink_status_;
    });
  }

  std::string Target(std::size_t at) {
    std::scoped_lock lock(mutex_);
    return at < requests_.size() ? requests_[at].target : "";
  }

  std::vector<Extent> Listed() const {
    std::vector<Extent> extents;
    for (const ListedExtent& listed : listed_) {
      extents.push_back(listed.extent);
    }
    return extents;
  }

  FakeClock clock_;
  CallContext ctx_;
  std::mutex mutex_;
  std::vector<Step> steps_;              // Guarded by mutex_.
  std::vector<ServedRequest> requests_;  // Guarded by mutex_.
  std::vector<ListedExtent> listed_;
  std::vector<bool> tokens_;
  DiffRequest request_;
  absl::Status sink_status_;
};

TEST_F(DifferentialSourceTest, ReadsPageAfterPage) {
  ASSERT_THAT(
      List({Say(Page({{0, 10}}, "o:10 &/=+\xc3\xa9")), Say(Page({}, "t")), Say(Page({{20, 10}}))}),
      IsOk());
  EXPECT_THAT(Listed(), ElementsAre(Extent{0, 10}, Extent{20, 10}));
  EXPECT_EQ(Target(0), "/ns/a?maxEntries=1000");
  EXPECT_EQ(Target(1), "/ns/a?maxEntries=1000&startOffset=o%3A10%20%26%2F%3D%2B%C3%A9");
  EXPECT_EQ(Target(2), "/ns/a?maxEntries=1000&startOffset=t");
  EXPECT_EQ(requests_.front().headers.at("authorization"), "Bearer old");
}

TEST_F(DifferentialSourceTest, JoinsWhatTouchesAndTellsZeros) {
  DifferentialPage page = Page({{0, 10}, {10, 10}, {20, 10}, {40, 10}}, "n");
  page.blocks[2].zero_out = true;
  ASSERT_THAT(List({Say(page), Say(Page({{50, 10}}))}), IsOk());
  EXPECT_THAT(listed_, ElementsAre(ListedExtent{{0, 20}, ExtentKind::kData},
                                   ListedExtent{{20, 10}, ExtentKind::kZero},
                                   ListedExtent{{40, 20}, ExtentKind::kData}));
}

TEST_F(DifferentialSourceTest, ContextsComeBeforeTheirExtentsWhichAreNotJoinedThen) {
  DifferentialPage page = Page({{0, 10}, {10, 10}, {20, 10}, {30, 10}, {40, 10}}, "n");
  page.blocks[1].context = "where";
  page.blocks[2].context = "there";
  const auto list = [&] { return List({Say(page), Say(Page({{50, 10}}))}); };
  ASSERT_THAT(list(), IsOk());
  EXPECT_THAT(Listed(), ElementsAre(Extent{0, 60}));
  std::vector<std::pair<std::string, std::size_t>> contexts;
  request_.on_context = [&](const std::string& context) {
    contexts.emplace_back(context, listed_.size());
  };
  ASSERT_THAT(list(), IsOk());
  EXPECT_THAT(Listed(), ElementsAre(Extent{0, 10}, Extent{10, 10}, Extent{20, 10}, Extent{30, 30}));
  EXPECT_THAT(contexts, ElementsAre(std::pair("where", 1), std::pair("there", 2)));
}

TEST_F(DifferentialSourceTest, AnEmptyDifferenceIsNoError) {
  EXPECT_THAT(List({Say(Page({}))}), IsOk());
  EXPECT_TRUE(listed_.empty());
}

TEST_F(DifferentialSourceTest, AListingThatBreaksOffIsNotTheWholeList) {
  std::vector<Step> steps{Say(Page({{0, 10}}, "n"))};
  for (int i = 0; i < 8; ++i) {
    steps.push_back(Say(Code::kUnavailable));
  }
  EXPECT_THAT(List(steps), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("words")));
}

TEST_F(DifferentialSourceTest, APageThatFailsIsAskedForAgain) {
  const Step cut = [](const ServedRequest&, ServedConnection& connection) { connection.Cut(); };
  ASSERT_THAT(List({Say(Code::kNotFound), Say(Code::kNotSynced), Say(Page({{0, 10}}, "n")),
                    Say(Code::kThrottled), Say(Code::kInternal), SayText("<html>", 502 + 1), cut,
                    Say(Page({{10, 10}}))}),
              IsOk());
  EXPECT_THAT(Listed(), ElementsAre(Extent{0, 20}));
  EXPECT_EQ(Target(7), "/ns/a?maxEntries=1000&startOffset=n");
}

TEST_F(DifferentialSourceTest, AServerThatIsTooSlowIsAskedForLess) {
  ASSERT_THAT(List({Say(Code::kDeadlineExceeded), Say(Code::kDeadlineExceeded),
                    Say(Code::kDeadlineExceeded), Say(Page({}))}),
              IsOk());
  EXPECT_EQ(Target(1), "/ns/a?maxEntries=500");
  EXPECT_EQ(Target(3), "/ns/a?maxEntries=256");
}

TEST_F(DifferentialSourceTest, ATokenThatEndedIsRenewedOnce) {
  ASSERT_THAT(List({Say(Page({{0, 1}}, "n")), Say(Code::kUnauthenticated), Say(Page({{2, 1}}))}),
              IsOk());
  EXPECT_THAT(tokens_, ElementsAre(false, false, true));
  EXPECT_EQ(requests_.back().headers.at("authorization"), "Bearer new");
  EXPECT_THAT(List({Say(Code::kUnauthenticated), Say(Code::kUnauthenticated)}),
              StatusIs(absl::StatusCode::kUnauthenticated));
}

TEST_F(DifferentialSourceTest, ARefusedCursorMakesItBeginAgainAndNothingComesTwice) {
  ASSERT_THAT(List({Say(Page({{0, 10}, {20, 10}}, "n")), Say(Code::kInvalidOffset),
                    Say(Page({{0, 10}}, "m")), Say(Page({{20, 15}, {50, 5}}))}),
              IsOk());
  EXPECT_THAT(Listed(), ElementsAre(Extent{0, 10}, Extent{20, 15}, Extent{50, 5}));
  EXPECT_EQ(Target(2), "/ns/a?maxEntries=1000");
  EXPECT_THAT(List({Say(Page({}, "n")), Say(Code::kInvalidOffset), Say(Page({}, "m")),
                    Say(Code::kInvalidOffset)}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("InvalidOffset")));
}

TEST_F(DifferentialSourceTest, APermanentErrorEndsTheListing) {
  struct Case {
    Code code;
    absl::StatusCode status;
    ListingFailure failure;
  };
  using Status = absl::StatusCode;
  const Case cases[] = {
      {Code::kInvalidArgument, Status::kFailedPrecondition, ListingFailure::kNotComparable},
      {Code::kPermissionDenied, Status::kPermissionDenied, ListingFailure::kPermanent},
      {Code::kFullBackupRequired, Status::kFailedPrecondition, ListingFailure::kNotComparable},
      {Code::kBaseSnapshotGone, Status::kNotFound, ListingFailure::kBaseGone},
      {Code::kTargetSnapshotGone, Status::kNotFound, ListingFailure::kPermanent},
      {Code::kResultExpired, Status::kFailedPrecondition, ListingFailure::kMetadataUnavailable},
      {Code::kOffsetOutOfRange, Status::kFailedPrecondition, ListingFailure::kNotComparable},
      {Code::kUnsupported, Status::kFailedPrecondition, ListingFailure::kDriverHasNoService},
      {Code::kDriverContractViolation, Status::kInvalidArgument, ListingFailure::kMalformedList}};
  for (const Case& item : cases) {
    const absl::Status status = List({Say(item.code)});
    EXPECT_THAT(status, StatusIs(item.status, HasSubstr(std::string(ErrorName(item.code)))));
    EXPECT_THAT(FailureOf(status), Optional(item.failure)) << ErrorName(item.code);
    EXPECT_EQ(requests_.size(), 1U);
  }
}

TEST_F(DifferentialSourceTest, OutOfRangeAtTheVolumesEndIsTheEnd) {
  EXPECT_THAT(List({Say(Page({{990, 10}}, "n")), Say(Code::kOffsetOutOfRange)}), IsOk());
  EXPECT_THAT(Listed(), ElementsAre(Extent{990, 10}));
  EXPECT_THAT(List({Say(Page({{980, 10}}, "n")), Say(Code::kOffsetOutOfRange)}),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(DifferentialSourceTest, ServersThatContradictThemselvesAreNotBelieved) {
  DifferentialPage grown = Page({{20, 10}});
  grown.volume_size_bytes = 1001;
  const std::vector<Step> cases[] = {{Say(Page({{0, 10}}, "n")), Say(grown)},
                                     {Say(Page({{0, 10}}, "n")), Say(Page({{0, 10}}))},
                                     {Say(Page({{20, 10}}, "n")), Say(Page({{0, 10}}))},
                                     {Say(Page({{0, 10}}, "n")), Say(Page({}, "n"))},
                                     {Say(Page({{1000, 10}}))},
                                     {SayText("{}")},
                                     {SayText("<html>")}};
  for (const std::vector<Step>& steps : cases) {
    const absl::Status status = List(steps);
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(FailureOf(status), Optional(ListingFailure::kMalformedList));
    EXPECT_EQ(requests_.size(), steps.size());
  }
}

TEST_F(DifferentialSourceTest, AResultThatIsAboutToEndIsLeftAlone) {
  DifferentialPage page = Page({{0, 10}}, "n");
  page.expires_at = clock_.Now() + absl::Seconds(59);
  EXPECT_THAT(List({Say(page)}), StatusIs(absl::StatusCode::kFailedPrecondition));
  page.next_offset = "";  // Whole all the same.
  EXPECT_THAT(List({Say(page)}), IsOk());
}

TEST_F(DifferentialSourceTest, TheSinkMayEndIt) {
  sink_status_ = absl::AbortedError("enough");
  EXPECT_EQ(List({Say(Page({{0, 10}, {20, 10}}, "n"))}), sink_status_);
}

TEST_F(DifferentialSourceTest, AStopEndsIt) {
  std::stop_source stop;
  ctx_.stop = stop.get_token();
  const Step stuck = [&](const ServedRequest&, ServedConnection& connection) {
    stop.request_stop();
    while (!connection.PeerIsGone() && !connection.stop().stop_requested()) {
    }
  };
  EXPECT_THAT(List({stuck}), StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace csidelta::incremental::differential_source_test
