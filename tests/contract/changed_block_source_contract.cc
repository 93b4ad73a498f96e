#include "tests/contract/changed_block_source_contract.h"

#include <gmock/gmock.h>

#include <stop_token>
#include <thread>
#include <utility>

#include "base/status_macros.h"
#include "incremental/sources/checked_listing.h"
#include "incremental/sources/listing_failure.h"
#include "tests/support/status_matchers.h"

namespace csidelta::contract {
namespace {

using incremental::DiffRequest;
using incremental::FailureOf;
using incremental::ListedExtent;
using incremental::ListingFailure;
using support::IsOkAndHolds;
using support::StatusIs;
using testing::IsEmpty;
using testing::Optional;

constexpr int64_t kMiB = 1 << 20;

Extent Blocks(int64_t first, int64_t count) {
  return {first * kStoryBlockBytes, count * kStoryBlockBytes};
}

VolumeWorkload SmallWorkload() {
  return {.size_bytes = 16 * kMiB,
          .before_base = {Blocks(0, 4), Blocks(100, 50)},
          .after_base = {Blocks(2, 1), Blocks(120, 2), Blocks(4095, 1)}};
}

std::vector<Extent> Allocated(const VolumeWorkload& story) {
  std::vector<Extent> all = story.before_base;
  all.insert(all.end(), story.after_base.begin(), story.after_base.end());
  return MergeExtents(std::move(all));
}

}  // namespace

absl::StatusOr<std::vector<Extent>> ChangedBlockContract::List(const DiffRequest& request) {
  std::vector<Extent> listed;
  RETURN_IF_ERROR(
      incremental::ListChecked(ctx_, *subject_->source(), request, [&](const ListedExtent& extent) {
        listed.push_back(extent.extent);
        return absl::OkStatus();
      }));
  return MergeExtents(std::move(listed));
}

TEST_P(ChangedBlockContract, ListsWhatChanged) {
  const VolumeWorkload story = SmallWorkload();
  EXPECT_THAT(List(subject_->Play(story)), IsOkAndHolds(story.after_base));
}

TEST_P(ChangedBlockContract, ListsWhatIsAllocated) {
  const VolumeWorkload story = SmallWorkload();
  DiffRequest request = subject_->Play(story);
  request.base.clear();
  EXPECT_THAT(List(request), IsOkAndHolds(Allocated(story)));
}

TEST_P(ChangedBlockContract, NothingChangedIsAnEmptyList) {
  VolumeWorkload story = SmallWorkload();
  story.after_base.clear();
  EXPECT_THAT(List(subject_->Play(story)), IsOkAndHolds(IsEmpty()));
}

TEST_P(ChangedBlockContract, AnEmptyVolumeHasNothingAllocated) {
  DiffRequest request = subject_->Play({.size_bytes = kMiB, .before_base = {}, .after_base = {}});
  request.base.clear();
  EXPECT_THAT(List(request), IsOkAndHolds(IsEmpty()));
}

TEST_P(ChangedBlockContract, EverythingChangedIsOneRun) {
  const VolumeWorkload story{
      .size_bytes = 4 * kMiB, .before_base = {}, .after_base = {Blocks(0, 1024)}};
  EXPECT_THAT(List(subject_->Play(story)), IsOkAndHolds(story.after_base));
}

TEST_P(ChangedBlockContract, FiveThousandScatteredExtents) {
  VolumeWorkload story{.size_bytes = 64 * kMiB, .before_base = {}, .after_base = {}};
  for (int64_t i = 0; i < 5000; ++i) {
    story.after_base.push_back(Blocks(i * 3 + 1, 1));
  }
  EXPECT_THAT(List(subject_->Play(story)), IsOkAndHolds(story.after_base));
}

TEST_P(ChangedBlockContract, TwoListingsAtOnceAreTheSame) {
  const VolumeWorkload story = SmallWorkload();
  const DiffRequest request = subject_->Play(story);
  absl::StatusOr<std::vector<Extent>> other;
  {
    const std::jthread beside([&] { other = List(request); });
    EXPECT_THAT(List(request), IsOkAndHolds(story.after_base));
  }
  EXPECT_THAT(other, IsOkAndHolds(story.after_base));
}

TEST_P(ChangedBlockContract, TheSinksErrorEndsTheListingUnchanged) {
  const DiffRequest request = subject_->Play(SmallWorkload());
  int seen = 0;
  const absl::Status status =
      subject_->source()->ListExtents(ctx_, request, [&](const ListedExtent&) {
        ++seen;
        return absl::DataLossError("disk");
      });
  EXPECT_EQ(status, absl::DataLossError("disk"));
  EXPECT_EQ(seen, 1);
}

TEST_P(ChangedBlockContract, AStopIsCancelled) {
  const DiffRequest request = subject_->Play(SmallWorkload());
  std::stop_source stop;
  ctx_.stop = stop.get_token();
  stop.request_stop();
  EXPECT_THAT(List(request), StatusIs(absl::StatusCode::kCancelled));
}

TEST_P(ChangedBlockContract, ABaseThatIsGoneIsNeverAnEmptyList) {
  const DiffRequest request = subject_->Play(SmallWorkload());
  subject_->RemoveBase();
  const absl::StatusOr<std::vector<Extent>> listed = List(request);
  EXPECT_THAT(listed, StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(FailureOf(listed.status()), Optional(ListingFailure::kBaseGone));
}

TEST_P(ChangedBlockContract, ATargetThatIsGoneIsForAPersonToMend) {
  const DiffRequest request = subject_->Play(SmallWorkload());
  subject_->RemoveTarget();
  const absl::StatusOr<std::vector<Extent>> listed = List(request);
  EXPECT_THAT(listed, StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(FailureOf(listed.status()), Optional(ListingFailure::kPermanent));
}

}  // namespace csidelta::contract
