#include "incremental/sources/checked_listing.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace csidelta::incremental::checked_listing_test {
namespace {

using support::FakeClock;
using support::IsOk;
using support::StatusIs;

constexpr int64_t kSize = 1'000'000;

// Takes a second for each extent.
class SlowSource : public ChangedBlockSource {
 public:
  SlowSource(FakeClock& clock, std::vector<ListedExtent> extents)
      : clock_(clock), extents_(std::move(extents)) {}

  absl::string_view name() const override { return "slow"; }
  absl::Status ListExtents(const CallContext&, const DiffRequest&, ExtentSink sink) override {
    for (const ListedExtent& extent : extents_) {
      clock_.Advance(absl::Seconds(1));
      RETURN_IF_ERROR(sink(extent));
    }
    return absl::OkStatus();
  }

 private:
  FakeClock& clock_;
  const std::vector<ListedExtent> extents_;
};

class CheckedListingTest : public testing::Test {
 protected:
  CheckedListingTest() { ctx_.clock = &clock_; }

  ListingStats Meter(std::vector<ListedExtent> extents, absl::Status of_sink = absl::OkStatus()) {
    SlowSource slow(clock_, std::move(extents));
    const auto take = [&](const ListedExtent&) {
      clock_.Advance(absl::Minutes(1));
      return of_sink;
    };
    status_ =
        ListChecked(ctx_, slow, {.base = "", .target = "", .size_bytes = kSize}, take, &info_);
    return info_;
  }

  FakeClock clock_;
  CallContext ctx_;
  ListingStats info_;
  absl::Status status_;
};

TEST_F(CheckedListingTest, CountsExtentsTheirGrainAndTheTimeOfTheSourceAlone) {
  EXPECT_EQ(Meter({{{8192, 4096}}, {{40960, 20480}}, {{999'424, 576}}}),
            (ListingStats{.extents = 3, .grain_bytes = 4096, .waited = absl::Seconds(3)}));
  EXPECT_THAT(status_, IsOk());
  EXPECT_EQ(Meter({{{0, kSize}}}).grain_bytes, 0) << "one run tells nothing";
  EXPECT_EQ(Meter({}), ListingStats());
}

TEST_F(CheckedListingTest, ChangesNothing) {
  Meter({{{0, 1}}, {{2, 1}}}, absl::DataLossError("disk"));
  EXPECT_THAT(status_, StatusIs(absl::StatusCode::kDataLoss, "disk"));
  EXPECT_EQ(info_.extents, 1);
}

TEST(ListingStatsTest, AreKeptAsJson) {
  const ListingStats info{.extents = 3, .grain_bytes = 512, .waited = absl::Milliseconds(12)};
  EXPECT_EQ(ListingStatsOf(ToJson(info)), info);
  EXPECT_EQ(ListingStatsOf(Json()), ListingStats());
  EXPECT_EQ(ListingStatsOf({{"extents", "many"}, {"waited_ms", -1}}), ListingStats());
}

}  // namespace
}  // namespace csidelta::incremental::checked_listing_test
