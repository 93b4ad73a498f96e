#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "storage/forwarding_object_store.h"
#include "storage/limited_object_store.h"
#include "storage/metered_object_store.h"
#include "storage/object_rules.h"
#include "storage/retrying_object_store.h"
#include "tests/support/await.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_object_store.h"
#include "tests/support/status_matchers.h"

namespace csidelta::storage::decorators_test {
namespace {

using support::FakeClock;
using support::FakeObjectStore;
using support::IsOk;
using support::IsOkAndHolds;
using support::StatusIs;
using support::StoreOperation;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

absl::Status Ignore(const ObjectInfo&) { return absl::OkStatus(); }

// One call of each kind that is a request.
struct Request {
  const char* name;
  std::function<absl::Status(const CallContext&, ObjectStore&)> call;
};
const Request kRequests[] = {
    {"put", [](auto& ctx, auto& store) { return store.Put(ctx, "p", "x", {}); }},
    {"get", [](auto& ctx, auto& store) { return store.Get(ctx, "key", 1000).status(); }},
    {"range",
     [](auto& ctx, auto& store) {
       return store.GetRange(ctx, "key", {0, 1}).status();
     }},
    {"stat", [](auto& ctx, auto& store) { return store.Stat(ctx, "key").status(); }},
    {"list", [](auto& ctx, auto& store) { return store.List(ctx, "", Ignore); }},
    {"folder", [](auto& ctx, auto& store) { return store.ListFolder(ctx, "", Ignore); }},
    {"delete", [](auto& ctx, auto& store) { return store.Delete(ctx, "p"); }},
};

class RetryingObjectStoreTest : public testing::Test {
 protected:
  RetryingObjectStoreTest() {
    clock_.SetAutoAdvance(true);
    ctx_.clock = &clock_;
  }

  void FailTimes(int64_t times, absl::Status status, bool after_effect = false) {
    inner_.AddFault({.last_call = times, .status = status, .after_effect = after_effect});
  }

  FakeClock clock_;
  CallContext ctx_;
  FakeObjectStore inner_;
  StoreMeter meter_;
  RetryingObjectStore store_{inner_, {}, Random::Real(), meter_};
};

TEST_F(RetryingObjectStoreTest, EveryCallIsTriedAgain) {
  inner_.SetObject("key", "bytes");
  for (const Request& request : kRequests) {
    inner_.ClearFaults();
    FailTimes(3, absl::UnavailableError("503"));
    const int64_t before = inner_.call_count();
    EXPECT_THAT(request.call(ctx_, store_), IsOk()) << request.name;
    EXPECT_EQ(inner_.call_count() - before, 4) << request.name;
  }
  EXPECT_EQ(meter_.Snapshot().retries, 21);
}

TEST_F(RetryingObjectStoreTest, ALongWaitIsToldOnce) {
  std::vector<absl::Status> told;
  RetryOptions options;
  options.on_wait = [&](const absl::Status& reason) { told.push_back(reason); };
  RetryingObjectStore store(inner_, options, Random::Real(), meter_);
  FailTimes(2, absl::UnavailableError("a moment"));
  EXPECT_THAT(store.Stat(ctx_, "none"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_TRUE(told.empty());
  inner_.ClearFaults();
  FailTimes(7, absl::UnavailableError("for long"));
  EXPECT_THAT(store.Stat(ctx_, "none"), StatusIs(absl::StatusCode::kNotFound));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].message(), "for long");
}

// The least, the middle or the most that can be drawn.
class FixedRandom : public Random {
 public:
  explicit FixedRandom(uint64_t half_steps) : half_steps_(half_steps) {}
  uint64_t Below(uint64_t bound) override { return (bound - 1) / 2 * half_steps_; }

 private:
  const uint64_t half_steps_;
};

TEST_F(RetryingObjectStoreTest, DelaysDoubleAndAMinuteIsWaitedForWhateverChanceTakes) {
  const absl::Duration whole = absl::Seconds(0.5 + 1 + 2 + 4 + 8 + 16 + 30 + 30 + 30);
  ASSERT_GT(whole / 2, absl::Minutes(1));
  for (const uint64_t half_steps : {0, 1, 2}) {
    inner_.Restart();
    FailTimes(1000, absl::UnavailableError("x"));
    FixedRandom random(half_steps);
    RetryingObjectStore store(inner_, {}, random, meter_);
    const absl::Time before = clock_.Now();
    EXPECT_THAT(store.Delete(ctx_, "key"), StatusIs(absl::StatusCode::kUnavailable, "x"));
    EXPECT_EQ(inner_.call_count(), 10);
    EXPECT_EQ(clock_.Now() - before, whole - whole * half_steps / 4);
  }
}

TEST_F(RetryingObjectStoreTest, APauseThatIsRequestedIsKeptUpToABound) {
  const std::pair<absl::Duration, absl::Duration> pauses[] = {
      {absl::Seconds(-7), absl::Seconds(0.5)},
      {absl::Seconds(7), absl::Seconds(7)},
      {absl::Hours(24), absl::Minutes(2)}};
  FixedRandom random(0);
  RetryingObjectStore store(inner_, {}, random, meter_);
  for (const auto& [requested, kept] : pauses) {
    inner_.Restart();
    FailTimes(1, Annotate(AskingForPause(absl::ResourceExhaustedError("429"), requested), "put"));
    const absl::Time before = clock_.Now();
    EXPECT_THAT(store.Put(ctx_, "key", "x", {}), IsOk());
    EXPECT_EQ(clock_.Now() - before, kept);
  }
}

TEST_F(RetryingObjectStoreTest, APlaceThatIsFullIsNotWaitedFor) {
  FailTimes(1000, AsFull(absl::ResourceExhaustedError("507")));
  const absl::Time start = clock_.Now();
  EXPECT_THAT(store_.Put(ctx_, "key", "x", {}),
              StatusIs(absl::StatusCode::kResourceExhausted, "507"));
  EXPECT_EQ(inner_.call_count(), 3);
  EXPECT_LE(clock_.Now() - start, absl::Seconds(2));
  inner_.Restart();
  FailTimes(2, AsFull(absl::ResourceExhaustedError("507")));
  EXPECT_THAT(store_.Put(ctx_, "key", "x", {}), IsOk()) << "space was freed";
}

TEST_F(RetryingObjectStoreTest, FinalAnswersAreFinal) {
  const absl::StatusCode codes[] = {
      absl::StatusCode::kNotFound,        absl::StatusCode::kPermissionDenied,
      absl::StatusCode::kUnauthenticated, absl::StatusCode::kOutOfRange,
      absl::StatusCode::kInvalidArgument, absl::StatusCode::kFailedPrecondition,
      absl::StatusCode::kUnimplemented,   absl::StatusCode::kAlreadyExists,
      absl::StatusCode::kCancelled};
  for (const absl::StatusCode code : codes) {
    inner_.Restart();
    FailTimes(1000, absl::Status(code, "no"));
    EXPECT_THAT(store_.Put(ctx_, "key", "x", {}), StatusIs(code));
    EXPECT_EQ(inner_.call_count(), 1) << code;
  }
  inner_.Restart();
  FailTimes(1, absl::DataLossError("no"));
  EXPECT_THAT(store_.Get(ctx_, "key", 3), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_EQ(inner_.call_count(), 1);
  inner_.Restart();
  inner_.SetObject("key", "too large");
  EXPECT_THAT(store_.Get(ctx_, "key", 3), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(inner_.call_count(), 1);
}

TEST_F(RetryingObjectStoreTest, AWronglyStoredObjectIsPutAgain) {
  FailTimes(2, absl::DataLossError("the server stored other bytes"));
  EXPECT_THAT(store_.Put(ctx_, "key", "right", {}), IsOk());
  EXPECT_EQ(inner_.objects().at("key"), "right");
}

TEST_F(RetryingObjectStoreTest, ItsTimeEndsBeforeItsAttempts) {
  RetryingObjectStore store(inner_, {.total_max = absl::Seconds(5)}, Random::Real(), meter_);
  FailTimes(1000, absl::ResourceExhaustedError("slow down"));
  const absl::Time start = clock_.Now();
  EXPECT_THAT(store.Stat(ctx_, "key"), StatusIs(absl::StatusCode::kResourceExhausted, "slow down"));
  EXPECT_LE(clock_.Now() - start, absl::Seconds(5));
}

TEST_F(RetryingObjectStoreTest, SettingTheTimeOfDayEndsAndProlongsNothing) {
  inner_.SetObject("key", "x");
  for (const absl::Duration step : {absl::Minutes(15), -absl::Hours(1)}) {
    const CallContext minute = ctx_.WithTimeout(absl::Minutes(1));
    clock_.SetForward(step);
    EXPECT_THAT(store_.Stat(minute, "key"), IsOk());
    FailTimes(1000, absl::UnavailableError("503"));
    const absl::Duration start = clock_.Uptime();
    EXPECT_THAT(store_.Stat(minute, "key"), StatusIs(absl::StatusCode::kUnavailable));
    EXPECT_LE(clock_.Uptime() - start, absl::Minutes(1));
    inner_.Restart();
  }
}

// A place with so many objects that each attempt to list them ends after the next, ten minutes
// later.
class EndlessStore : public FakeObjectStore {
 public:
  explicit EndlessStore(support::FakeClock& clock) : clock_(clock) {}
  absl::Status List(const CallContext& ctx, const std::string& prefix,
                    storage::ObjectSink sink) override {
    return ListAfter(ctx, prefix, "", sink);
  }
  absl::Status ListAfter(const CallContext& ctx, const std::string&, const std::string& after,
                         storage::ObjectSink sink) override {
    clock_.Advance(absl::Minutes(10));
    RETURN_IF_ERROR(ctx.Check());
    afters.push_back(after);
    const std::string next = after.empty() ? "a" : std::string(1, static_cast<char>(after[0] + 1));
    RETURN_IF_ERROR(sink({.key = next, .size_bytes = 1}));
    return next == "z" ? absl::OkStatus() : absl::UnavailableError("reset");
  }
  std::vector<std::string> afters;

 private:
  support::FakeClock& clock_;
};

TEST_F(RetryingObjectStoreTest, AListingTakesAsLongAsItsPagesAndGoesOnBehindTheLastKey) {
  EndlessStore endless(clock_);
  RetryingObjectStore store(endless, {}, Random::Real(), meter_);
  std::string keys;
  EXPECT_THAT(store.List(ctx_, "",
                         [&](const ObjectInfo& object) {
                           keys += object.key;
                           return absl::OkStatus();
                         }),
              IsOk());
  EXPECT_EQ(keys, "abcdefghijklmnopqrstuvwxyz");
  ASSERT_EQ(endless.afters.size(), 26U);
  EXPECT_EQ(endless.afters[25], "y");
}

// A slow line: each attempt to put takes longer than the calls without bytes may take in all.
class SlowLine : public FakeObjectStore {
 public:
  explicit SlowLine(support::FakeClock& clock) : clock_(clock) {}
  absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                   const storage::PutOptions& options) override {
    clock_.Advance(absl::Minutes(20));
    return FakeObjectStore::Put(ctx, key, bytes, options);
  }

 private:
  support::FakeClock& clock_;
};

TEST_F(RetryingObjectStoreTest, APutTakesAsLongAsItsBytes) {
  SlowLine slow(clock_);
  slow.AddFault(
      {.operation = support::StoreOperation::kPut, .status = absl::UnavailableError("x")});
  RetryingObjectStore store(slow, {}, Random::Real(), meter_);
  EXPECT_THAT(store.Put(ctx_, "key", "bytes", {}), IsOk());
}

TEST_F(RetryingObjectStoreTest, TheCallersDeadlineIsTheCallers) {
  ctx_.deadline = clock_.Uptime();
  EXPECT_THAT(store_.Get(ctx_, "key", 10), StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(RetryingObjectStoreTest, AStopEndsTheWaiting) {
  clock_.SetAutoAdvance(false);
  FailTimes(1000, absl::UnavailableError("503"));
  std::stop_source stop;
  ctx_.stop = stop.get_token();
  std::jthread stopper([&] {
    clock_.AwaitSleepers(1);
    stop.request_stop();
  });
  EXPECT_THAT(store_.Get(ctx_, "key", 10), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(inner_.call_count(), 1);
}

TEST_F(RetryingObjectStoreTest, AnObjectOfThisClientIsNoConflict) {
  FailTimes(1, absl::UnavailableError("reset"), /*after_effect=*/true);
  EXPECT_THAT(store_.Put(ctx_, "config", "ours", {.if_absent = true}), IsOk());
  EXPECT_THAT(inner_.objects(), ElementsAre(Pair("config", "ours")));
}

TEST_F(RetryingObjectStoreTest, AnObjectOfOthersIsAConflict) {
  for (const char* others : {"OURS", "longer"}) {
    inner_.Restart();
    inner_.SetObject("config", others);
    EXPECT_THAT(store_.Put(ctx_, "config", "ours", {.if_absent = true}),
                StatusIs(absl::StatusCode::kAlreadyExists));
    FailTimes(1, absl::UnavailableError("reset"));
    EXPECT_THAT(store_.Put(ctx_, "config", "ours", {.if_absent = true}),
                StatusIs(absl::StatusCode::kAlreadyExists));
    EXPECT_THAT(inner_.objects(), ElementsAre(Pair("config", others)));
  }
  // The same bytes, but seen at the first attempt: they cannot be ours.
  inner_.Restart();
  inner_.SetObject("config", "ours");
  EXPECT_THAT(store_.Put(ctx_, "config", "ours", {.if_absent = true}),
              StatusIs(absl::StatusCode::kAlreadyExists));
}

TEST_F(RetryingObjectStoreTest, AListingNamesEachObjectOnce) {
  for (const char* key : {"a", "b", "c"}) {
    inner_.SetObject(key, "x");
  }
  std::vector<std::string> keys;
  const auto sink = [&](const ObjectInfo& object) {
    keys.push_back(object.key);
    return absl::OkStatus();
  };
  FailTimes(2, absl::UnavailableError("reset"), /*after_effect=*/true);
  EXPECT_THAT(store_.List(ctx_, "", sink), IsOk());
  EXPECT_THAT(keys, ElementsAre("a", "b", "c"));
  keys.clear();
  inner_.ClearFaults();
  FailTimes(2, absl::UnavailableError("reset"), /*after_effect=*/true);
  EXPECT_THAT(store_.ListFolder(ctx_, "", sink), IsOk());
  EXPECT_THAT(keys, ElementsAre("a", "b", "c"));
}

// Lists numbers, and is cut off once; `swapped` is listed behind the next number. Does not go on
// behind a key.
class LongListing : public FakeObjectStore {
 public:
  LongListing(int keys, int cut_at, int swapped = -1)
      : keys_(keys), cut_at_(cut_at), swapped_(swapped) {}
  absl::Status List(const CallContext&, const std::string&, storage::ObjectSink sink) override {
    for (int i = 0; i < keys_; ++i) {
      if (i == cut_at_) {
        cut_at_ = -1;
        return absl::UnavailableError("reset");
      }
      const int number = i == swapped_ ? i + 1 : i == swapped_ + 1 && swapped_ >= 0 ? i - 1 : i;
      RETURN_IF_ERROR(sink({.key = absl::StrFormat("%06d", number), .size_bytes = 1}));
    }
    return absl::OkStatus();
  }

 private:
  const int keys_;
  int cut_at_;
  const int swapped_;
};

// Not every key of ten million is remembered: 16 bytes for each were more than a worker has.
TEST_F(RetryingObjectStoreTest, ALongListingNamesEachObjectOnce) {
  constexpr int kKeys = 30'000;
  constexpr int kLate = 20'000;
  struct Case {
    int cut_at;
    int swapped;
    absl::StatusCode want;
  };
  const auto kCutOff = absl::StatusCode::kFailedPrecondition;
  for (const Case& c : {Case{5, -1, {}}, Case{kLate, -1, {}}, Case{kLate, 7, {}},
                        Case{-1, kLate, {}}, Case{kLate + 5, kLate, kCutOff}}) {
    SCOPED_TRACE(testing::Message() << "cut at " << c.cut_at << ", swapped " << c.swapped);
    LongListing listing(kKeys, c.cut_at, c.swapped);
    RetryingObjectStore store(listing, {}, Random::Real(), meter_);
    std::set<std::string> keys;
    int named = 0;
    const absl::Status listed = store.List(ctx_, "", [&](const ObjectInfo& object) {
      keys.insert(object.key);
      ++named;
      return absl::OkStatus();
    });
    EXPECT_EQ(listed.code(), c.want) << listed;
    EXPECT_EQ(static_cast<std::size_t>(named), keys.size());
    EXPECT_TRUE(!listed.ok() || named == kKeys);
  }
}

TEST_F(RetryingObjectStoreTest, AnErrorOfTheSinkIsNotRetried) {
  inner_.SetObject("a", "x");
  int seen = 0;
  EXPECT_THAT(store_.List(ctx_, "",
                          [&](const ObjectInfo&) {
                            ++seen;
                            return absl::UnavailableError("the sink's own");
                          }),
              StatusIs(absl::StatusCode::kUnavailable, "the sink's own"));
  EXPECT_EQ(seen, 1);
  EXPECT_EQ(inner_.call_count(), 1);
}

// Has leftovers, and shows them after so many calls that failed.
class LitteredStore : public FakeObjectStore {
 public:
  absl::StatusOr<int64_t> RemoveLeftovers(const CallContext&, absl::Span<const std::string> folders,
                                          storage::KeyPredicate is_managed,
                                          absl::Duration age_min) override {
    if (failures_-- > 0) {
      return absl::UnavailableError("stale");
    }
    EXPECT_THAT(folders, ElementsAre("data/"));
    EXPECT_TRUE(is_managed("data/ours"));
    EXPECT_EQ(age_min, absl::Hours(24));
    return 7;
  }

  int failures_ = 0;
};

TEST_F(RetryingObjectStoreTest, LeftoversAreRemovedThroughAllDecorators) {
  LitteredStore inner;
  inner.failures_ = 2;
  MeteredObjectStore metered(inner, meter_);
  LimitedObjectStore limited(metered, {});
  RetryingObjectStore store(limited, {}, Random::Real(), meter_);
  const std::vector<std::string> folders = {"data/"};
  const auto is_managed = [](absl::string_view key) { return key == "data/ours"; };
  EXPECT_THAT(store.RemoveLeftovers(ctx_, folders, is_managed, absl::Hours(24)), IsOkAndHolds(7));
  EXPECT_EQ(meter_.Snapshot().retries, 2);
}

TEST(MeteredObjectStoreTest, CountsRequestsAndBytes) {
  FakeObjectStore inner;
  StoreMeter meter;
  MeteredObjectStore store(inner, meter);
  const CallContext ctx;
  ASSERT_THAT(store.Put(ctx, "a", "12345", {}), IsOk());
  ASSERT_THAT(store.Put(ctx, "b", "", {}), IsOk());
  EXPECT_THAT(store.Get(ctx, "a", 10), IsOk());
  EXPECT_THAT(store.GetRange(ctx, "a", {1, 2}), IsOk());
  EXPECT_THAT(store.Stat(ctx, "a"), IsOk());
  EXPECT_THAT(store.List(ctx, "", Ignore), IsOk());
  EXPECT_THAT(store.ListFolder(ctx, "", Ignore), IsOk());
  EXPECT_THAT(store.Delete(ctx, "b"), IsOk());
  EXPECT_THAT(store.Get(ctx, "b", 10), StatusIs(absl::StatusCode::kNotFound));
  inner.AddFault({.status = absl::UnavailableError("503")});
  EXPECT_THAT(store.Put(ctx, "c", "123", {}), StatusIs(absl::StatusCode::kUnavailable));
  const StoreUsage usage = meter.Snapshot();
  EXPECT_EQ(usage, (StoreUsage{.put_requests = 3,
                               .get_requests = 3,
                               .stat_requests = 1,
                               .list_requests = 2,
                               .delete_requests = 1,
                               .failed_requests = 2,
                               .put_bytes = 5,
                               .got_bytes = 7,
                               .put_objects = 2}));
  EXPECT_EQ(usage.requests(), 10);
  EXPECT_EQ(usage.write_requests(), 4);
}

TEST(MeteredObjectStoreTest, CountsFromManyThreads) {
  FakeObjectStore inner;
  StoreMeter meter;
  MeteredObjectStore store(inner, meter);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 100; ++round) {
        EXPECT_THAT(store.Put({}, "key", "12", {}), IsOk());
      }
    });
  }
  threads.clear();
  EXPECT_EQ(meter.Snapshot().put_bytes, 1600);
}

TEST(ReadOnlyObjectStoreTest, LetsOnlyReadingThrough) {
  FakeObjectStore inner;
  inner.SetObject("key", "bytes");
  ReadOnlyObjectStore store(inner);
  const CallContext ctx;
  EXPECT_THAT(store.Get(ctx, "key", 10), IsOkAndHolds("bytes"));
  EXPECT_THAT(store.GetRange(ctx, "key", {0, 1}), IsOkAndHolds("b"));
  EXPECT_THAT(store.Stat(ctx, "key"), IsOk());
  EXPECT_THAT(store.List(ctx, "", Ignore), IsOk());
  EXPECT_THAT(store.ListFolder(ctx, "", Ignore), IsOk());
  EXPECT_THAT(store.Put(ctx, "other", "x", {}),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("other")));
  EXPECT_THAT(store.Delete(ctx, "key"),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("key")));
  inner.TakeBatches(3);
  EXPECT_THAT(store.DeleteBatch(ctx, std::vector<std::string>{"key", "other"}),
              StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_EQ(inner.call_count(), 5);
}

// Of eight keys the second batch has one that is away for a moment; the third batch is refused.
TEST(DeleteObjectsTest, WhatABatchDoesNotDeleteIsDeletedByItself) {
  class RefusingStore : public FakeObjectStore {
   public:
    absl::StatusOr<std::vector<absl::Status>> DeleteBatch(
        const CallContext& ctx, absl::Span<const std::string> keys) override {
      ++batches_;
      if (keys.front() == "6") {
        TakeBatches(1);
        return absl::UnimplementedError("no batches");
      }
      return FakeObjectStore::DeleteBatch(ctx, keys);
    }
    int batches_ = 0;
  } inner;
  std::vector<std::string> keys;
  for (int i = 0; i < 8; ++i) {
    keys.push_back(std::to_string(i));
    inner.SetObject(keys.back(), "x");
  }
  inner.TakeBatches(3, /*in_flight=*/1);
  inner.AddFault({.key_prefix = "4", .status = absl::UnavailableError("away")});
  StoreMeter meter;
  MeteredObjectStore store(inner, meter);
  std::vector<int> told(keys.size());
  const auto note = [&](std::size_t number, const absl::Status& deleted) {
    ++told[number];
    return deleted;
  };
  EXPECT_THAT(DeleteObjects({}, store, keys, note), IsOk());
  EXPECT_THAT(told, testing::Each(1));
  EXPECT_THAT(inner.objects(), testing::IsEmpty());
  EXPECT_EQ(inner.batches_, 3);
  EXPECT_EQ(meter.Snapshot().delete_requests, 3 + 1 + 2);
}

TEST(DeleteObjectsTest, TheSinkEndsIt) {
  for (const std::size_t batch : {1, 2}) {
    FakeObjectStore store;
    store.TakeBatches(batch);
    const std::vector<std::string> keys(1000, "key");
    int told = 0;
    EXPECT_THAT(DeleteObjects({}, store, keys,
                              [&](std::size_t, const absl::Status&) {
                                ++told;
                                return absl::AbortedError("enough");
                              }),
                StatusIs(absl::StatusCode::kAborted, "enough"));
    EXPECT_LE(told, 8);
  }
}

class LimitedObjectStoreTest : public testing::Test {
 protected:
  LimitedObjectStoreTest() {
    clock_.SetAutoAdvance(true);
    ctx_.clock = &clock_;
    inner_.SetObject("key", std::string(1000, 'x'));
  }

  absl::Duration TimeOf(const StoreLimits& limits, int times,
                        const std::function<void(ObjectStore&)>& call) {
    LimitedObjectStore store(inner_, limits);
    const absl::Time start = clock_.Now();
    for (int i = 0; i < times; ++i) {
      call(store);
    }
    return clock_.Now() - start;
  }

  FakeClock clock_;
  CallContext ctx_;
  FakeObjectStore inner_;
};

TEST_F(LimitedObjectStoreTest, BytesTakeTheirTime) {
  const StoreLimits limits{.upload_bytes_per_second = 100, .download_bytes_per_second = 500};
  const std::string bytes(20'000, 'x');
  EXPECT_EQ(
      TimeOf(limits, 6,
             [&](ObjectStore& store) { EXPECT_THAT(store.Put(ctx_, "p", bytes, {}), IsOk()); }),
      absl::Seconds(1000));
  EXPECT_EQ(TimeOf(limits, 6,
                   [&](ObjectStore& store) { EXPECT_THAT(store.Get(ctx_, "key", 1000), IsOk()); }),
            absl::Seconds(10));
  EXPECT_EQ(TimeOf(limits, 6,
                   [&](ObjectStore& store) {
                     EXPECT_THAT(store.GetRange(ctx_, "key", {0, 250}), IsOk());
                   }),
            absl::Milliseconds(2500));
}

TEST_F(LimitedObjectStoreTest, SmallObjectsDoNotWaitBehindPacks) {
  LimitedObjectStore store(inner_, {.upload_bytes_per_second = 1 << 10});
  const absl::Time start = clock_.Now();
  EXPECT_THAT(store.Put(ctx_, "pack", std::string(10 << 20, 'x'), {}), IsOk());
  EXPECT_THAT(store.Put(ctx_, "lock", std::string(500, 'x'), {}), IsOk());
  EXPECT_EQ(clock_.Now(), start);
  EXPECT_THAT(store.Put(ctx_, "next", std::string(1 << 20, 'x'), {}), IsOk());
  EXPECT_GE(clock_.Now() - start, absl::Seconds(10 << 10));  // The lock's bytes count, too.
}

// Calls back once the first sleep is over, half a second after it began.
class WokenClock : public FakeClock {
 public:
  bool SleepUntil(absl::Time wake_at, std::stop_token stop) const override {
    const bool woke = FakeClock::SleepUntil(wake_at, std::move(stop));
    if (const auto call = std::exchange(on_woken, nullptr); call) {
      call();
    }
    return woke;
  }
  mutable std::function<void()> on_woken;
};

TEST(ByteLimitersTest, AnotherRateCountsWithinASecondForCallsThatWait) {
  constexpr int64_t kMiB = 1 << 20;
  struct Case {
    int64_t before, after;  // bytes a second
    absl::Duration waits;   // behind 10 MiB
  };
  for (const Case& test :
       {Case{kMiB, 0, absl::Milliseconds(500)}, Case{4 * kMiB, 16 * kMiB, absl::Seconds(1)},
        Case{10 * kMiB, kMiB, absl::Milliseconds(5500)}}) {
    for (const bool is_upload : {true, false}) {
      WokenClock clock;
      clock.SetAutoAdvance(true);
      const CallContext ctx{.clock = &clock};
      ByteLimiters bytes(test.before, test.before);
      RateLimiter& limiter = is_upload ? bytes.upload : bytes.download;
      const auto wait = [&] {
        const absl::Time start = clock.Now();
        EXPECT_THAT(limiter.Take(ctx, 10 * kMiB), IsOk());
        return clock.Now() - start;
      };
      EXPECT_EQ(wait(), absl::ZeroDuration());
      clock.on_woken = [&] { limiter.SetRate(clock, static_cast<double>(test.after)); };
      EXPECT_EQ(wait(), test.waits) << test.before << " to " << test.after;
      clock.on_woken = nullptr;
      if (test.after > 0) {
        EXPECT_EQ(wait(), absl::Seconds(10) * kMiB / test.after) << "those who come later, too";
      }
    }
  }
}

// What was sent without a limit is not owed once there is one, and stores that share it add up.
TEST_F(LimitedObjectStoreTest, AFirstLimitCountsFromThenOn) {
  const auto bytes = std::make_shared<ByteLimiters>();
  LimitedObjectStore one(inner_, {.upload_bytes_per_second = 1, .bytes = bytes});
  LimitedObjectStore other(inner_, {.bytes = bytes});
  const std::string pack(20'000, 'x');
  EXPECT_THAT(one.Put(ctx_, "p", pack, {}), IsOk());
  EXPECT_THAT(one.Put(ctx_, "p", pack, {}), IsOk());
  const absl::Time start = clock_.Now();
  bytes->SetRates(clock_, 100, 50);
  EXPECT_THAT(one.Put(ctx_, "p", pack, {}), IsOk());
  EXPECT_EQ(clock_.Now(), start);
  EXPECT_THAT(other.Put(ctx_, "p", pack, {}), IsOk());
  EXPECT_EQ(clock_.Now() - start, absl::Seconds(200));
  EXPECT_THAT(one.GetRange(ctx_, "key", {0, 100}), IsOk());
  EXPECT_THAT(other.GetRange(ctx_, "key", {0, 100}), IsOk());
  EXPECT_EQ(clock_.Now() - start, absl::Seconds(202));
}

TEST_F(LimitedObjectStoreTest, RequestsOfEveryKindTakeTheirTime) {
  for (const Request& request : kRequests) {
    const absl::Duration time = TimeOf({.requests_per_second = 10}, 60, [&](ObjectStore& store) {
      EXPECT_THAT(request.call(ctx_, store), IsOk());
    });
    EXPECT_EQ(time, absl::Seconds(5)) << request.name;  // Ten of them at once.
  }
}

TEST_F(LimitedObjectStoreTest, ARequestOfAnyKindGivesItsPlaceBack) {
  LimitedObjectStore store(inner_, {.requests_in_flight_max = 1});
  for (int round = 0; round < 2; ++round) {
    for (const Request& request : kRequests) {
      const CallContext ctx = ctx_.WithTimeout(absl::Seconds(1));
      EXPECT_THAT(request.call(ctx, store), IsOk()) << request.name;
    }
  }
}

// The sink of a listing may call the store: prune removes what it sees.
TEST_F(LimitedObjectStoreTest, AListingIsNotInFlight) {
  LimitedObjectStore store(inner_, {.requests_in_flight_max = 1});
  const CallContext ctx = ctx_.WithTimeout(absl::Seconds(1));
  const auto stat = [&](const ObjectInfo& object) { return store.Stat(ctx, object.key).status(); };
  EXPECT_THAT(store.List(ctx, "", stat), IsOk());
  EXPECT_THAT(store.ListFolder(ctx, "", stat), IsOk());
}

TEST_F(LimitedObjectStoreTest, WithoutLimitsNothingWaits) {
  EXPECT_EQ(TimeOf({}, 100,
                   [&](ObjectStore& store) {
                     EXPECT_THAT(store.Put(ctx_, "p", std::string(1 << 20, 'x'), {}), IsOk());
                   }),
            absl::ZeroDuration());
}

TEST_F(LimitedObjectStoreTest, ATurnThatComesTooLateIsRefusedAtOnce) {
  LimitedObjectStore store(inner_, {.upload_bytes_per_second = 1});
  EXPECT_THAT(store.Put(ctx_, "p", std::string(1000, 'x'), {}), IsOk());
  const absl::Time start = clock_.Now();
  EXPECT_THAT(store.Put(ctx_.WithTimeout(absl::Seconds(10)), "p", "x", {}),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(clock_.Now(), start);
}

// Holds every Stat() until it is released, and counts those inside.
class SlowStore : public FakeObjectStore {
 public:
  absl::StatusOr<ObjectInfo> Stat(const CallContext& ctx, const std::string& key) override {
    const int inside = ++inside_;
    int seen = inside_max_;
    while (inside > seen && !inside_max_.compare_exchange_weak(seen, inside)) {
    }
    support::Await("the store to be opened", [&] { return open_.load(); });
    --inside_;
    return FakeObjectStore::Stat(ctx, key);
  }

  std::atomic<int> inside_ = 0;
  std::atomic<int> inside_max_ = 0;
  std::atomic<bool> open_ = false;
};

TEST(RequestsInFlightTest, AreNeverMoreThanAllowed) {
  SlowStore inner;
  inner.SetObject("key", "x");
  LimitedObjectStore store(inner, {.requests_in_flight_max = 3});
  std::vector<std::jthread> threads;
  std::atomic<int> done = 0;
  for (int i = 0; i < 12; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        EXPECT_THAT(store.Stat({}, "key"), IsOk());
      }
      ++done;
    });
  }
  support::Await("three requests to be inside", [&] { return inner.inside_ >= 3; });
  inner.open_ = true;
  threads.clear();
  EXPECT_EQ(done, 12);
  EXPECT_EQ(inner.inside_max_, 3);
}

TEST(RequestsInFlightTest, AWaitingRequestCanBeStopped) {
  SlowStore inner;
  inner.SetObject("key", "x");
  LimitedObjectStore store(inner, {.requests_in_flight_max = 1});
  std::jthread holder([&] { EXPECT_THAT(store.Stat({}, "key"), IsOk()); });
  support::Await("a request to be inside", [&] { return inner.inside_ >= 1; });
  FakeClock clock;
  std::stop_source stop;
  CallContext ctx;
  ctx.clock = &clock;
  ctx.stop = stop.get_token();
  std::jthread stopper([&] {
    clock.AwaitSleepers(1);
    stop.request_stop();
  });
  EXPECT_THAT(store.Stat(ctx, "key"), StatusIs(absl::StatusCode::kCancelled));
  CallContext late;
  late.clock = &clock;
  late.deadline = clock.Uptime() + absl::Seconds(5);
  std::jthread mover([&] {
    clock.AwaitSleepers(1);
    clock.Advance(absl::Seconds(5));
  });
  EXPECT_THAT(store.Stat(late, "key"), StatusIs(absl::StatusCode::kDeadlineExceeded));
  inner.open_ = true;
  holder.join();
  EXPECT_THAT(store.Stat({}, "key"), IsOk());
}

}  // namespace
}  // namespace csidelta::storage::decorators_test
