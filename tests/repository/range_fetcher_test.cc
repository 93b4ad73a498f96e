#include "repository/range_fetcher.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "storage/retrying_object_store.h"
#include "tests/repository/repository_fixture.h"
#include "tests/support/await.h"
#include "tests/support/memory_growth.h"
#include "tests/support/sanitized.h"

namespace csidelta::repository::range_fetcher_test {
namespace {

using support::IsOk;
using support::StatusIs;
using ::testing::HasSubstr;

constexpr int kRanges = 60;
constexpr int64_t kRangeBytes = 1000;
constexpr absl::Duration kLatency = absl::Milliseconds(100);

// A store that answers after kLatency, by the test's clock, with `extra` bytes too many.
class FarStore : public storage::ForwardingObjectStore {
 public:
  using ForwardingObjectStore::ForwardingObjectStore;

  absl::StatusOr<std::string> GetRange(const CallContext& ctx, const std::string& key,
                                       storage::ByteRange range) override {
    ++in_flight;
    ++begun;
    ctx.clock->SleepFor(kLatency, ctx.stop);
    --in_flight;
    auto bytes = inner().GetRange(ctx, key, range);
    return bytes.ok() ? *bytes + std::string(extra, 'x') : bytes;
  }

  // Waits for so many requests in all, of which `under_way` are, and lets these go on.
  void Answer(support::FakeClock& clock, int count, int under_way) {
    support::Await("requests", [&] { return begun == count; });
    clock.AwaitSleepers(under_way);
    EXPECT_EQ(in_flight, under_way);
    clock.Advance(kLatency);
  }

  std::atomic<int> begun = 0;
  std::atomic<int> in_flight = 0;
  std::size_t extra = 0;
};

class RangeFetcherTest : public RepositoryFixture {
 protected:
  RangeFetcherTest() {
    Init();
    for (const char* pack : {"first", "second"}) {
      std::string content;
      for (int i = 0; i < kRanges; ++i) {
        content += std::string(kRangeBytes, static_cast<char>(i));
      }
      store_.SetObject(PackKey(Id::Of(pack)), content);
    }
  }

  void Start(int ranges, int decoders, storage::ObjectStore& store, bool in_order = false) {
    auto repository = Repository::Open(ctx_, store, kTestPassword, environment_);
    ASSERT_THAT(repository, IsOk());
    repository_ = *std::move(repository);
    fetcher_.emplace(ctx_, *repository_, FetchRoom{.ranges = ranges, .decoders = decoders},
                     in_order);
  }

  bool Add(int number, absl::string_view pack = "first") {
    const auto take = [=, this](const CallContext&, const RangeFetcher::Decoder&,
                                const absl::StatusOr<std::string>& bytes) {
      EXPECT_TRUE(!bytes.ok() || *bytes == std::string(kRangeBytes, static_cast<char>(number)));
      decode_(number, pack);
      const std::scoped_lock lock(mutex_);
      decoded_.push_back(number);
      return bytes.status();
    };
    return fetcher_->Add(Id::Of(pack), {number * kRangeBytes, kRangeBytes}, take);
  }
  void AddAll() {
    for (int i = 0; i < kRanges; ++i) {
      EXPECT_TRUE(Add(i));
    }
  }
  int decoded() {
    const std::scoped_lock lock(mutex_);
    return static_cast<int>(decoded_.size());
  }

  FarStore far_{store_};
  std::unique_ptr<Repository> repository_;
  std::function<void(int, absl::string_view)> decode_ = [](int, absl::string_view) {};
  std::mutex mutex_;
  std::vector<int> decoded_;
  std::optional<RangeFetcher> fetcher_;
};

TEST_F(RangeFetcherTest, AFarStoreGetsMoreRequestsAndOneThatRefusesFewer) {
  storage::StoreMeter meter;
  storage::RetryingObjectStore retrying(far_, {.backoff = {.delay_first = absl::ZeroDuration()}},
                                        Random::Real(), meter);
  store_.AddFault({.operation = support::StoreOperation::kGetRange,
                   .first_call = 9,
                   .last_call = 24,
                   .status = absl::ResourceExhaustedError("SlowDown")});
  clock_.SetAutoAdvance(false);
  Start(32, 2, retrying);
  AddAll();
  far_.Answer(clock_, 8, 8);
  far_.Answer(clock_, 8 + 16, 16);  // These are refused, and sent again.
  far_.Answer(clock_, 8 + 2 * 16, 16);
  far_.Answer(clock_, 8 + 2 * 16 + 8, 8);
  clock_.SetAutoAdvance(true);
  clock_.Advance(kLatency);
  EXPECT_THAT(fetcher_->Finish(), IsOk());
  std::sort(decoded_.begin(), decoded_.end());
  for (int i = 0; i < kRanges; ++i) {
    EXPECT_EQ(decoded_[static_cast<std::size_t>(i)], i);
  }
}

TEST_F(RangeFetcherTest, MemoryHoldsNoMoreRangesThanItMay) {
  constexpr int kInMemory = 4;
  decode_ = [&](int, absl::string_view) {
    const int most = std::min(kRanges, decoded() + kInMemory);
    support::Await("requests", [&] { return far_.begun >= most; });
    EXPECT_LE(far_.begun, most);
  };
  Start(kInMemory, 1, far_);
  AddAll();
  EXPECT_THAT(fetcher_->Finish(), IsOk());
  EXPECT_EQ(decoded(), kRanges);
}

TEST_F(RangeFetcherTest, RequestsBeginInTheOrderOfNeed) {
  Start(1, 1, far_);
  for (const int number : {7, 3, 50, 1}) {
    EXPECT_TRUE(Add(number));
  }
  EXPECT_THAT(fetcher_->Finish(), IsOk());
  EXPECT_EQ(decoded_, (std::vector<int>{7, 3, 50, 1}));
}

TEST_F(RangeFetcherTest, RangesOfAPackWaitForEachOtherWhereAskedToAndForNoOtherPack) {
  constexpr int kOfSecond = 10;
  std::mutex of_first;
  std::mutex of_second;
  decode_ = [&](int, absl::string_view pack) {
    const std::unique_lock alone(pack == "first" ? of_first : of_second, std::try_to_lock);
    EXPECT_TRUE(alone.owns_lock());
    if (pack == "second") {
      support::Await("the other pack", [&] { return decoded() >= kRanges; });
    }
  };
  Start(32, 4, far_, /*in_order=*/true);
  for (int i = 0; i < kRanges; ++i) {
    EXPECT_TRUE(i >= kOfSecond || Add(i, "second"));
    EXPECT_TRUE(Add(i));
  }
  EXPECT_THAT(fetcher_->Finish(), IsOk());
  EXPECT_TRUE(std::is_sorted(decoded_.begin(), decoded_.begin() + kRanges));
  EXPECT_TRUE(std::is_sorted(decoded_.begin() + kRanges, decoded_.end()));
  EXPECT_EQ(decoded(), kRanges + kOfSecond);
}

TEST_F(RangeFetcherTest, AnErrorOfOneEndsAll) {
  store_.AddFault({.operation = support::StoreOperation::kGetRange,
                   .first_call = 10,
                   .last_call = 10,
                   .status = absl::UnavailableError("away")});
  Start(4, 2, far_);
  while (Add(0)) {
  }
  EXPECT_THAT(fetcher_->Finish(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("away")));
}

TEST_F(RangeFetcherTest, AStopEndsAllThatWait) {
  clock_.SetAutoAdvance(false);
  std::stop_source stop;
  ctx_.stop = stop.get_token();
  Start(4, 2, far_);
  AddAll();
  clock_.AwaitSleepers(4);
  stop.request_stop();
  EXPECT_THAT(fetcher_->Finish(), StatusIs(absl::StatusCode::kCancelled));
}

// Answers without keeping what it answers with.
class LongStore : public storage::ForwardingObjectStore {
 public:
  using ForwardingObjectStore::ForwardingObjectStore;
  absl::StatusOr<std::string> GetRange(const CallContext&, const std::string&,
                                       storage::ByteRange range) override {
    return std::string(static_cast<std::size_t>(range.length_bytes), 'x');
  }
};

// An arena for each thread would keep what others free.
TEST_F(RangeFetcherTest, RangesThatAreDecodedLeaveNoMemoryBehind) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  constexpr int kInMemory = 16;
  LongStore store(store_);
  Start(kInMemory, 2, store);
  const support::MemoryGrowth growth;
  for (int i = 0; i < 300; ++i) {
    const int64_t length_bytes = (1 + i % 3) * kMiB;
    EXPECT_TRUE(
        fetcher_->Add(Id::Of("first"), {0, length_bytes},
                      [](const CallContext&, const RangeFetcher::Decoder&,
                         const absl::StatusOr<std::string>& bytes) { return bytes.status(); }));
  }
  EXPECT_THAT(fetcher_->Finish(), IsOk());
  if (support::AssertsUnsanitized("ranges leave no memory behind")) {
    EXPECT_LT(growth.bytes(), (kInMemory + 4) * 3 * kMiB);
  }
}

// A gateway may answer with a page of its own.
TEST_F(RangeFetcherTest, AnAnswerOfAnotherLengthIsDamage) {
  store_.AddFault({.operation = support::StoreOperation::kGetRange,
                   .wrong_bytes = support::WrongBytes::kShort});
  for (const char* what : {"999 bytes instead of 1000", "1001 bytes instead of 1000"}) {
    Start(1, 1, far_);
    EXPECT_TRUE(Add(5));
    EXPECT_THAT(fetcher_->Finish(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(what)));
    far_.extra = 1;
  }
}

}  // namespace
}  // namespace csidelta::repository::range_fetcher_test
