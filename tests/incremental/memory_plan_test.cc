#include "incremental/mover/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "repository/format.h"
#include "repository/maintenance_memory.h"
#include "tests/support/status_matchers.h"

namespace csidelta::incremental::memory_plan_test {
namespace {

using support::IsOk;
using support::StatusIs;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int kCores[] = {1, 2, 3, 4, 8, 22, 64, 256};
constexpr int64_t kChunks[] = {256 << 10, 512 << 10, kMiB, 4 * kMiB};

// What a backup asks for: into a folder, into a bucket, with --pack-size, beside a loaded index.
struct Wishes {
  const char* name;
  int64_t pack_bytes_max;
  int uploads_in_flight_max;
  int64_t reserved_bytes;
  int64_t pack_bytes_first = 0;

  friend std::ostream& operator<<(std::ostream& out, const Wishes& wishes) {
    return out << wishes.name;
  }
};
constexpr Wishes kWishes[] = {
    {"Folder", repository::kPackTargetBytesLocal, 4, 0},
    {"Bucket", repository::kPackTargetBytesRemote, 32, 0},
    {"SmallPacks", 4 * kMiB, 32, 0},
    {"LargePacks", 128 * kMiB, 16, 0},
    {"BesideAnIndex", repository::kPackTargetBytesRemote, 32, 28 * kMiB + 5},
    {"OneTebibyte", repository::kPackTargetBytesRemote, 32, 0, 16 * kMiB},
    {"EightTebibytes", repository::kPackTargetBytesRemote, 32, 0, 32 * kMiB},
    {"LargestVolumes", 64 * kMiB, 32, 0, 64 * kMiB},
};

MemoryRequest Request(const Wishes& wishes, int64_t budget_bytes, int cores, int64_t chunk_bytes) {
  return {.budget_bytes = budget_bytes,
          .reserved_bytes = wishes.reserved_bytes,
          .chunk_bytes = chunk_bytes,
          .cores = cores,
          .pack_bytes_max = wishes.pack_bytes_max,
          .uploads_in_flight_max = wishes.uploads_in_flight_max,
          .pack_bytes_first = wishes.pack_bytes_first};
}

// From the least on: each MiB where a step may be, then wider.
std::vector<int64_t> Budgets(int64_t least_bytes) {
  std::vector<int64_t> budgets;
  for (int64_t budget = least_bytes; budget < 8192 * kMiB;
       budget += budget < 640 * kMiB ? kMiB : 37 * kMiB + 1) {
    budgets.push_back(budget);
  }
  return budgets;
}

class MemoryPlanTest : public testing::TestWithParam<Wishes> {
 protected:
  // Every plan for these wishes, by rising budget, for each chunk size and number of cores.
  template <typename Look>
  static void ForEachPlan(Look look) {
    for (const int64_t chunk_bytes : kChunks) {
      for (const int cores : kCores) {
        std::vector<MemoryPlan> plans;
        for (const int64_t budget :
             Budgets(LeastMemoryBytes(chunk_bytes) + GetParam().reserved_bytes)) {
          const auto plan = PlanMemory(Request(GetParam(), budget, cores, chunk_bytes));
          ASSERT_THAT(plan, IsOk()) << budget;
          plans.push_back(*plan);
        }
        SCOPED_TRACE(absl::StrCat("chunks of ", chunk_bytes, ", cores: ", cores));
        ASSERT_NO_FATAL_FAILURE(look(chunk_bytes, cores, plans));
      }
    }
  }
};

TEST_P(MemoryPlanTest, PartsAddUpToNoMoreThanTheBudget) {
  ForEachPlan([](int64_t chunk_bytes, int, const std::vector<MemoryPlan>& plans) {
    for (const MemoryPlan& plan : plans) {
      const int64_t room_bytes = plan.pack_bytes + chunk_bytes;
      const int64_t worker_bytes = 3 * chunk_bytes + 2 * kMiB;
      ASSERT_LE(kMemoryFixedBytes + GetParam().reserved_bytes + plan.buffers * chunk_bytes +
                    plan.workers * worker_bytes +
                    (plan.open_packs + 1 + plan.uploads_in_flight) * room_bytes,
                plan.budget_bytes);
    }
  });
}

TEST_P(MemoryPlanTest, EveryPlanWorks) {
  ForEachPlan([](int64_t, int cores, const std::vector<MemoryPlan>& plans) {
    for (const MemoryPlan& plan : plans) {
      ASSERT_GE(plan.workers, 1);
      ASSERT_LE(plan.workers, cores);
      ASSERT_GE(plan.open_packs, 1);
      ASSERT_LE(plan.open_packs, plan.workers);
      ASSERT_GE(plan.buffers, plan.queue_depth + 2 * plan.workers);
      ASSERT_GE(plan.uploads_in_flight, 1);
      ASSERT_LE(plan.uploads_in_flight, GetParam().uploads_in_flight_max);
      ASSERT_GE(plan.pack_bytes, 4 * kMiB);
      ASSERT_LE(plan.pack_bytes, GetParam().pack_bytes_max);
    }
  });
}

TEST_P(MemoryPlanTest, MoreMemoryTakesNothingAway) {
  ForEachPlan([](int64_t, int, const std::vector<MemoryPlan>& plans) {
    for (std::size_t i = 1; i < plans.size(); ++i) {
      const MemoryPlan& less = plans[i - 1];
      const MemoryPlan& more = plans[i];
      ASSERT_GE(more.uploads_in_flight, less.uploads_in_flight) << more.budget_bytes;
      ASSERT_GE(more.pack_bytes, less.pack_bytes) << more.budget_bytes;
      ASSERT_GE(more.open_packs, less.open_packs) << more.budget_bytes;
      ASSERT_GE(more.workers, less.workers) << more.budget_bytes;
    }
  });
}

TEST_P(MemoryPlanTest, MoreCoresTakeNothingAway) {
  for (const int64_t chunk_bytes : kChunks) {
    for (const int64_t budget :
         Budgets(LeastMemoryBytes(chunk_bytes) + GetParam().reserved_bytes)) {
      MemoryPlan fewer;
      for (const int cores : kCores) {
        const auto more = PlanMemory(Request(GetParam(), budget, cores, chunk_bytes));
        ASSERT_THAT(more, IsOk());
        if (fewer.workers > 0) {
          ASSERT_EQ(more->uploads_in_flight, fewer.uploads_in_flight) << budget << " " << cores;
          ASSERT_EQ(more->pack_bytes, fewer.pack_bytes) << budget << " " << cores;
          ASSERT_GE(more->open_packs, fewer.open_packs) << budget << " " << cores;
          ASSERT_GE(more->workers, fewer.workers) << budget << " " << cores;
        }
        fewer = *more;
      }
    }
  }
}

TEST_P(MemoryPlanTest, EnoughMemoryGivesWhatIsWanted) {
  const auto plan = PlanMemory(Request(GetParam(), 16'384 * kMiB, 64, 512 << 10));
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->uploads_in_flight, GetParam().uploads_in_flight_max);
  EXPECT_EQ(plan->pack_bytes, GetParam().pack_bytes_max);
  EXPECT_EQ(plan->workers, 64);
  EXPECT_EQ(plan->open_packs, 4);
}

INSTANTIATE_TEST_SUITE_P(Table, MemoryPlanTest, testing::ValuesIn(kWishes),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(LeastMemoryTest, IsWhatJustFits) {
  for (const int64_t chunk_bytes : kChunks) {
    const int64_t least = LeastMemoryBytes(chunk_bytes);
    for (const Wishes& wishes : kWishes) {
      const auto plan = [&](int64_t budget_bytes) {
        return PlanMemory(Request(wishes, budget_bytes, 8, chunk_bytes)).status();
      };
      const int64_t needed = least + wishes.reserved_bytes;
      const int64_t needed_mib = (needed + (1 << 20) - 1) >> 20;
      EXPECT_THAT(plan(needed), IsOk());
      EXPECT_THAT(plan(needed - 1),
                  StatusIs(absl::StatusCode::kInvalidArgument,
                           testing::HasSubstr(absl::StrCat("give at least ", needed_mib, "MiB"))));
      EXPECT_THAT(plan(0), StatusIs(absl::StatusCode::kInvalidArgument));
    }
  }
}

// A worker of the data mover may have as little as 128 MiB, of which 32 are not the plan's.
TEST(LeastMemoryTest, FitsIntoTheSmallestWorker) {
  EXPECT_LE(LeastMemoryBytes(512 << 10), 96 * kMiB);
  EXPECT_LE(LeastMemoryBytes(1 << 20), 96 * kMiB);
}

MemoryPlan InBucket(int64_t mebibytes, int cores) {
  return PlanMemory(Request(kWishes[1], mebibytes * kMiB, cores, 512 << 10)).value();
}

// The figures of docs/performance.md.
TEST(WorkerMemoryTest, IsAsDocumented) {
  struct Case {
    int64_t mebibytes;
    int uploads;
    int64_t pack_mebibytes;
    int workers;
    int open_packs;
  };
  for (const Case& want : {Case{96, 3, 4, 1, 1}, Case{224, 11, 8, 8, 2}, Case{512, 18, 16, 16, 3},
                           Case{1024, 32, 21, 32, 4}}) {
    const MemoryPlan plan = InBucket(want.mebibytes, 64);
    EXPECT_EQ(plan.uploads_in_flight, want.uploads) << want.mebibytes;
    EXPECT_EQ(plan.pack_bytes, want.pack_mebibytes * kMiB) << want.mebibytes;
    EXPECT_EQ(plan.workers, want.workers) << want.mebibytes;
    EXPECT_EQ(plan.open_packs, want.open_packs) << want.mebibytes;
  }
}

// 64 TiB in packs of 8 MiB are 8 million objects.
TEST(LargeVolumeTest, GetsLongerPacksOutOfTheSameMemory) {
  struct Case {
    int64_t mebibytes;
    int64_t tebibytes;
    int uploads;
    int64_t pack_mebibytes;
  };
  for (const Case& want :
       {Case{224, 0, 8, 8}, Case{224, 1, 6, 16}, Case{224, 8, 4, 23}, Case{224, 64, 4, 23},
        Case{512, 1, 16, 16}, Case{512, 8, 8, 32}, Case{1024, 64, 10, 64}}) {
    const int64_t first_bytes = repository::VolumePackBytes(want.tebibytes << 40);
    MemoryRequest request = Request(kWishes[1], want.mebibytes * kMiB, 64, kMiB);
    request.pack_bytes_first = first_bytes;
    request.pack_bytes_max = std::max(request.pack_bytes_max, first_bytes);
    const auto plan = PlanMemory(request);
    ASSERT_THAT(plan, IsOk());
    EXPECT_EQ(plan->uploads_in_flight, want.uploads) << want.mebibytes << " " << want.tebibytes;
    EXPECT_EQ(plan->pack_bytes, want.pack_mebibytes * kMiB)
        << want.mebibytes << " " << want.tebibytes;
  }
}

TEST(LargeVolumeTest, NeverGetsShorterPacksThanASmallerOne) {
  for (const int64_t budget : Budgets(LeastMemoryBytes(kMiB))) {
    int64_t smaller_bytes = 0;
    for (const int64_t tebibytes : {0, 1, 4, 8, 31, 32, 64, 256}) {
      MemoryRequest request = Request(kWishes[1], budget, 8, kMiB);
      request.pack_bytes_first = repository::VolumePackBytes(tebibytes << 40);
      request.pack_bytes_max = std::max(request.pack_bytes_max, request.pack_bytes_first);
      const auto plan = PlanMemory(request);
      ASSERT_THAT(plan, IsOk());
      ASSERT_GE(plan->pack_bytes, smaller_bytes) << budget << " " << tebibytes;
      smaller_bytes = plan->pack_bytes;
    }
  }
}

TEST(BuffersTest, TakeWhatWorkersWithoutCoresLeave) {
  EXPECT_EQ(InBucket(4096, 2).buffers, 8 + 2 * 2 + 48);
  EXPECT_GT(InBucket(224, 2).buffers, InBucket(224, 8).buffers);
  EXPECT_GE(InBucket(96, 2).buffers, 8 + 2 * 1);
}

TEST(PlanDownloadTest, MemoryBuysRangesAndCoresBuyWorkers) {
  const auto plan = [](int64_t mebibytes, int cores, bool compares = false) {
    return PlanDownload({.budget_bytes = mebibytes * kMiB,
                         .chunk_bytes = 512 << 10,
                         .range_bytes_max = 8 * kMiB + 576 * 1024,
                         .writes_in_flight = 4,
                         .compares = compares,
                         .cores = cores});
  };
  EXPECT_EQ(plan(0, 8).workers, 1);
  EXPECT_EQ(plan(0, 8).ranges, 1);
  EXPECT_EQ(plan(224, 2).workers, 4);
  EXPECT_EQ(plan(224, 2).range_bytes, 6 * 512 * 1024 + 64 * 1024);  // a third of a pack
  EXPECT_EQ(plan(224, 2).ranges, 40);
  EXPECT_EQ(plan(224, 64).workers, 11);
  EXPECT_EQ(plan(224, 64).ranges, 33);
  EXPECT_EQ(plan(4096, 1).workers, 2);
  EXPECT_EQ(plan(4096, 64).workers, 16);
  EXPECT_EQ(plan(4096, 64).ranges, 64);
  for (const bool compares : {false, true}) {
    for (int64_t mebibytes = 0; mebibytes < 2048; ++mebibytes) {
      for (const int cores : kCores) {
        const DownloadPlan here = plan(mebibytes, cores, compares);
        ASSERT_LE(here.workers, plan(mebibytes + 1, cores, compares).workers);
        ASSERT_LE(here.workers, plan(mebibytes, cores + 1, compares).workers);
        ASSERT_LE(here.workers, plan(mebibytes, cores).workers);
        if (mebibytes >= 128) {
          ASSERT_LE(kMemoryFixedBytes + here.held_bytes, mebibytes * kMiB);
          ASSERT_GE(here.ranges * here.range_bytes,
                    std::min<int64_t>(512, (mebibytes - 88) / 10 * 7) * kMiB);
        }
      }
    }
  }
}

}  // namespace
}  // namespace csidelta::incremental::memory_plan_test
