#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/memory_budget.h"
#include "repository/copier.h"
#include "repository/forget.h"
#include "repository/maintenance_memory.h"
#include "repository/repairer.h"
#include "storage/forwarding_object_store.h"
#include "tests/repository/maintenance_fixture.h"
#include "tests/support/sweep_sample.h"
#include "tests/support/unproven.h"

namespace csidelta::repository::verb_memory_test {
namespace {

using support::IsOk;
using support::StatusIs;
using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kChunkBytes = kMiB;
constexpr int64_t kWorkerBudgetBytes = 224 * kMiB;  // of the default worker of 256 MiB
constexpr int64_t kLeastBudgetBytes = 96 * kMiB;    // of the smallest, 128 MiB

// Another store, whose longest bytes of one call are kept.
class MeasuringStore : public storage::ForwardingObjectStore {
 public:
  using ForwardingObjectStore::ForwardingObjectStore;

  absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                   const storage::PutOptions& options) override {
    Note(longest_put, std::ssize(bytes));
    return inner().Put(ctx, key, bytes, options);
  }
  absl::StatusOr<std::string> Get(const CallContext& ctx, const std::string& key,
                                  int64_t size_bytes_max) override {
    absl::StatusOr<std::string> bytes = inner().Get(ctx, key, size_bytes_max);
    Note(longest_get, bytes.ok() ? std::ssize(*bytes) : 0);
    return bytes;
  }
  absl::StatusOr<std::string> GetRange(const CallContext& ctx, const std::string& key,
                                       storage::ByteRange range) override {
    Note(longest_get, range.length_bytes);
    return inner().GetRange(ctx, key, range);
  }

  std::atomic<int64_t> longest_put = 0;
  std::atomic<int64_t> longest_get = 0;

 private:
  static void Note(std::atomic<int64_t>& longest, int64_t bytes) {
    for (int64_t now = longest; bytes > now && !longest.compare_exchange_weak(now, bytes);) {
    }
  }
};

// The budget that a refusal says is enough.
int64_t SaidBudget(const absl::Status& refusal) {
  const std::string text(refusal.message());
  const std::string before = "a memory budget of at least ";
  int64_t mebibytes = 0;
  const std::size_t at = text.find(before);
  EXPECT_NE(at, std::string::npos) << text;
  if (at != std::string::npos) {
    const std::string rest = text.substr(at + before.size());
    EXPECT_TRUE(absl::SimpleAtoi(rest.substr(0, rest.find(' ')), &mebibytes)) << text;
  }
  return mebibytes * kMiB;
}

class VerbMemoryTest : public MaintenanceFixture {
 protected:
  // A volume of which every second chunk was written again, in packs of this length; the first
  // snapshot is forgotten.
  void Make(int64_t pack_bytes, int64_t volume_bytes) {
    store_.SetObjects({});
    Init();
    writer_options_.pack_target_bytes = pack_bytes;
    std::string image;
    for (int64_t chunk = 0; chunk < volume_bytes / kChunkBytes; ++chunk) {
      image += support::Noise(kChunkBytes, static_cast<uint64_t>(chunk));
    }
    const Id first = BackUp(image);
    for (int64_t chunk = 0; chunk < volume_bytes / kChunkBytes; chunk += 2) {
      image.replace(static_cast<std::size_t>(chunk * kChunkBytes), kChunkBytes,
                    support::Noise(kChunkBytes, static_cast<uint64_t>(chunk + 100'000)));
    }
    BackUp(image);
    EXPECT_THAT(Forget(first), IsOk());
    objects_ = store_.objects();
  }

  using Verb = absl::Status (VerbMemoryTest::*)(Repository&);

  absl::Status RunIn(int64_t budget_bytes, Verb verb) {
    store_.SetObjects(objects_);
    MemoryBudget budget(budget_bytes);
    MeasuringStore store(store_);
    Environment environment = environment_;
    environment.memory = &budget;
    ASSIGN_OR_RETURN(const std::unique_ptr<Repository> repository,
                     Repository::Open(ctx_, store, kTestPassword, environment));
    RETURN_IF_ERROR(repository->LoadIndex(ctx_));
    const absl::Status done = (this->*verb)(*repository);
    EXPECT_LE(budget.peak_bytes(), budget_bytes - MemoryBudget::kProgramBytes);
    // Eight of one, or three of the other, are in memory.
    EXPECT_LE(store.longest_get, std::max(2 * kChunkBytes + kMiB, budget_bytes / 8));
    EXPECT_LE(store.longest_put, budget_bytes / 3);
    return done;
  }

  absl::Status RunCheck(Repository& repository) {
    CheckOptions options;
    options.read_data = ReadEverything{};
    ASSIGN_OR_RETURN(const CheckReport report, CheckRepository(ctx_, repository, options));
    EXPECT_EQ(report.errors, 0) << Describe(report);
    EXPECT_GT(report.packs_read, 0);
    return absl::OkStatus();
  }

  absl::Status RunPrune(Repository& repository) {
    PruneOptions options = Thorough();
    options.pack_target_bytes = PackBytesLike(repository.index(), kPackTargetBytesLocal);
    ASSIGN_OR_RETURN(const PrunePlan plan, MaintenanceFixture::Prune(repository, options));
    EXPECT_GT(plan.figures.packs_repacked, 0);
    return absl::OkStatus();
  }

  absl::Status RunCopy(Repository& from) {
    support::FakeObjectStore store;
    ASSIGN_OR_RETURN(const std::unique_ptr<Repository> to,
                     Repository::Init(ctx_, store, kTestPassword, from.environment()));
    ASSIGN_OR_RETURN(const std::unique_ptr<Lock> lock, TakeLock(*to, /*exclusive=*/false));
    ASSIGN_OR_RETURN(const std::vector<CopiedSnapshot> copied,
                     CopySnapshots(ctx_, from, *to, *lock, {}, {}));
    EXPECT_EQ(copied.size(), 1u);
    return absl::OkStatus();
  }

  absl::Status RunRepair(Repository& repository) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Lock> lock, TakeLock(repository));
    uint32_t largest = 0;
    for (uint32_t i = 0; i < repository.index().pack_count(); ++i) {
      largest =
          repository.index().info(i).stored_bytes > repository.index().info(largest).stored_bytes
              ? i
              : largest;
    }
    const PackId pack = repository.index().PackAt(largest);
    ASSIGN_OR_RETURN(const RepairPacksResult result,
                     RepairPacks(ctx_, repository, *lock, {pack}, {}));
    EXPECT_EQ(result.lost(), 0);
    return absl::OkStatus();
  }

  // What a forget by rules holds.
  absl::Status RunForget(Repository& repository) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Lock> lock, TakeLock(repository));
    ASSIGN_OR_RETURN(const std::vector<StoredSnapshot> snapshots,
                     repository.ListSnapshots(ctx_, [](const Id&, const absl::Status&) {}));
    KeepRules rules;
    rules.last = 1;
    ASSIGN_OR_RETURN(const std::vector<ForgetGroup> groups,
                     DecideForget(snapshots, rules, {}, ctx_.clock->Now()));
    EXPECT_EQ(groups.size(), 1u);
    return RemoveSnapshots(ctx_, repository, *lock, {});
  }

  const std::vector<std::pair<const char*, Verb>> kVerbs = {{"check", &VerbMemoryTest::RunCheck},
                                                            {"forget", &VerbMemoryTest::RunForget},
                                                            {"prune", &VerbMemoryTest::RunPrune},
                                                            {"copy", &VerbMemoryTest::RunCopy},
                                                            {"repair", &VerbMemoryTest::RunRepair}};

  std::map<std::string, std::string> objects_;
};

// However long the packs are, and however little memory a worker may have.
TEST_F(VerbMemoryTest, EachVerbKeepsToItsBudget) {
  struct Repo {
    int64_t pack_bytes;
    int64_t volume_bytes;
  };
  std::vector<Repo> repositories = {{8 * kMiB, 24 * kMiB}, {32 * kMiB, 64 * kMiB}};
  const support::SweepSample sample;
  if (sample.is_everything()) {
    repositories.push_back({128 * kMiB, 256 * kMiB});
  }
  for (const Repo& repo : repositories) {
    Make(repo.pack_bytes, repo.volume_bytes);
    for (const auto& [name, verb] : kVerbs) {
      for (const int64_t budget_bytes : {kWorkerBudgetBytes, kLeastBudgetBytes}) {
        SCOPED_TRACE(absl::StrCat(name, ", packs of ", repo.pack_bytes, ", ", budget_bytes));
        EXPECT_THAT(RunIn(budget_bytes, verb), IsOk());
      }
    }
  }
}

TEST_F(VerbMemoryTest, EachVerbRefusesWithTheBudgetThatIsEnough) {
  Make(8 * kMiB, 16 * kMiB);
  for (const auto& [name, verb] : kVerbs) {
    SCOPED_TRACE(name);
    absl::Status refusal;
    int64_t budget_bytes = kLeastBudgetBytes;
    while (refusal.ok() && budget_bytes > 0) {
      budget_bytes -= 8 * kMiB;
      refusal = RunIn(budget_bytes, verb);
    }
    ASSERT_THAT(refusal, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(" needs ")));
    // What a table takes grows with the budget, so that the first answer may be a little less.
    for (int tries = 0; tries < 3 && !refusal.ok(); ++tries) {
      const int64_t said_bytes = SaidBudget(refusal);
      ASSERT_GT(said_bytes, budget_bytes);
      ASSERT_LE(said_bytes, kLeastBudgetBytes);
      budget_bytes = said_bytes;
      refusal = RunIn(budget_bytes, verb);
    }
    EXPECT_THAT(refusal, IsOk());
  }
}

TEST_F(VerbMemoryTest, AListOfSnapshotsSaysHowMuchMemoryAllOfThemNeed) {
  constexpr int kSnapshots = 16;
  RepoSnapshot snapshot;
  snapshot.tree = Id::Of("tree");
  for (int i = 0; i < kSnapshots; ++i) {
    snapshot.tags = {absl::StrCat(i, std::string(kMiB / 4, 't'))};
    ASSERT_THAT(Open()->SaveSnapshot(ctx_, snapshot, support::Unproven()), IsOk());
  }
  const auto list = [&](int64_t budget_bytes) -> absl::Status {
    MemoryBudget budget(budget_bytes);
    Environment environment = environment_;
    environment.memory = &budget;
    ASSIGN_OR_RETURN(const std::unique_ptr<Repository> repository,
                     Repository::Open(ctx_, store_, kTestPassword, environment));
    return repository->ListSnapshots(ctx_).status();
  };
  const absl::Status refusal = list(MemoryBudget::kProgramBytes + 2 * kMiB);
  EXPECT_THAT(refusal, StatusIs(absl::StatusCode::kResourceExhausted,
                                HasSubstr("the list of 16 snapshots needs ")));
  EXPECT_THAT(list(SaidBudget(refusal) + kMiB), IsOk());
}

TEST(PlanWriterTest, KeepsThePacksOfTheVolumeWithinTheBudget) {
  struct Case {
    int64_t free_mebibytes;
    int64_t wanted_mebibytes;
    int64_t pack_mebibytes;
    int uploads;
    int open_packs;
  };
  // Of 224, 96 and 992 MiB, beside an index.
  for (const Case& want :
       {Case{160, 8, 8, 4, 4}, Case{160, 32, 23, 2, 1}, Case{160, 128, 23, 2, 1},
        Case{45, 8, 5, 2, 1}, Case{900, 32, 32, 4, 4}, Case{900, 128, 128, 2, 1}}) {
    const WriterPlan plan = PlanWriter({.free_bytes = want.free_mebibytes * kMiB,
                                        .pack_bytes_wanted = want.wanted_mebibytes * kMiB,
                                        .blob_bytes_max = kMiB});
    EXPECT_EQ(plan.pack_bytes, want.pack_mebibytes * kMiB) << want.free_mebibytes;
    EXPECT_EQ(plan.uploads_in_flight, want.uploads) << want.free_mebibytes;
    EXPECT_EQ(plan.open_packs, want.open_packs) << want.free_mebibytes;
  }
}

TEST(PlanWriterTest, MoreMemoryTakesNothingAway) {
  for (const int64_t wanted_bytes : {kMiB / 2, 8 * kMiB, 32 * kMiB, 128 * kMiB}) {
    std::optional<WriterPlan> less;
    for (int64_t free_bytes = 0; free_bytes < 2048 * kMiB; free_bytes += kMiB) {
      const WriterPlan plan = PlanWriter(
          {.free_bytes = free_bytes, .pack_bytes_wanted = wanted_bytes, .blob_bytes_max = kMiB});
      ASSERT_LE(plan.pack_bytes, wanted_bytes);
      if (free_bytes >= plan.needed_bytes) {
        ASSERT_LE(plan.held_bytes, free_bytes / 8 * 5);
      }
      if (less.has_value()) {
        ASSERT_GE(plan.pack_bytes, less->pack_bytes) << free_bytes;
        ASSERT_GE(plan.uploads_in_flight, less->uploads_in_flight) << free_bytes;
        ASSERT_GE(plan.open_packs, less->open_packs) << free_bytes;
      }
      less = plan;
    }
  }
}

}  // namespace
}  // namespace csidelta::repository::verb_memory_test
