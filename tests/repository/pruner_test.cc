#include "repository/pruner.h"

#include <atomic>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "repository/pack_reader.h"
#include "repository/repairer.h"
#include "tests/repository/maintenance_fixture.h"

namespace csidelta::repository::pruner_test {
namespace {

using support::CutMoment;
using support::IsOk;
using support::Noise;
using support::StatusIs;
using support::StoreOperation;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

TEST(UnusedLimitTest, ReadsWhatResticReads) {
  EXPECT_EQ(ParseUnusedLimit("5%")->percent, 5);
  EXPECT_EQ(ParseUnusedLimit("5%")->bytes, -1);
  EXPECT_EQ(ParseUnusedLimit("2G")->bytes, int64_t{2} << 30);
  EXPECT_EQ(ParseUnusedLimit("0")->bytes, 0);
  EXPECT_EQ(ParseUnusedLimit("unlimited")->percent, 100);
  for (const char* text : {"", "%", "-1", "101%", "5X", "nan%", "1e3", "unlimite", "99999999T"}) {
    EXPECT_THAT(ParseUnusedLimit(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

class PrunerTest : public MaintenanceFixture {
 protected:
  // Two generations that share a chunk; the first is forgotten. Its other chunks lie in packs with
  // and without used ones.
  void MakeGenerations() {
    const Id first = BackUp(Image({1, 2, 3, 4, 5}));
    image_ = Image({1, 12, 13, 14, 15});
    kept_ = BackUp(image_);
    ASSERT_THAT(Forget(first), IsOk());
    ASSERT_THAT(KeysBelow("snapshots/"), SizeIs(1));
  }

  void ExpectAllRight() {
    ExpectClean();
    ExpectRestores(kept_, image_);
  }

  std::string image_;
  Id kept_;
};

TEST_F(PrunerTest, NothingToDoChangesNothing) {
  const std::string image = Image({1, 2});
  BackUp(image);
  const std::map<std::string, std::string> before = store_.objects();
  ASSERT_THAT(Prune(Thorough()), IsOk());
  EXPECT_EQ(store_.objects(), before);
}

TEST_F(PrunerTest, PlansAndFrees) {
  MakeGenerations();
  const std::map<std::string, std::string> before = store_.objects();
  std::unique_ptr<Repository> repository = Open();
  const absl::StatusOr<PrunePlan> dry = PlanPrune(ctx_, *repository, Thorough());
  ASSERT_THAT(dry, IsOk());
  EXPECT_EQ(store_.objects(), before);  // A plan writes nothing.

  std::atomic<int64_t> moved_bytes = 0;
  PruneOptions options = Thorough();
  options.progress = [&](absl::string_view stage, int64_t bytes, int64_t total) {
    if (stage == kRepacking) {
      moved_bytes = bytes;
      EXPECT_EQ(total, dry->figures.bytes_repacked);
    }
  };
  const absl::StatusOr<PrunePlan> done = Prune(options);
  ASSERT_THAT(done, IsOk());
  const PruneFigures& figures = done->figures;
  EXPECT_GT(moved_bytes, 0);
  EXPECT_LT(moved_bytes, figures.bytes_repacked);
  EXPECT_EQ(figures.bytes_freed, dry->figures.bytes_freed);
  EXPECT_EQ(figures.snapshots, 1);
  // Chunks, and five trees: leaf, level 1, image and root, and volume.json with the data.
  EXPECT_EQ(figures.blobs_used, 6 + 1 + 4);
  EXPECT_EQ(figures.blobs_unused, 4 + 1 + 4);
  EXPECT_EQ(figures.bytes_unused_after, 0);
  EXPECT_GT(figures.packs_removed, 0);
  EXPECT_GT(figures.packs_repacked, 0);
  ExpectAllRight();

  const absl::StatusOr<PrunePlan> again = Prune(Thorough());
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->figures.blobs_unused + again->figures.blobs_duplicate, 0);
  EXPECT_EQ(again->figures.bytes_freed, 0);
}

TEST_F(PrunerTest, OnAFullDiskWhatIsNotUsedMakesRoomFirst) {
  MakeGenerations();
  const std::size_t packs = KeysBelow("data/").size();
  store_.AddFault({.operation = StoreOperation::kPut,
                   .key_prefix = "data/",
                   .last_call = 1'000'000,
                   .status = absl::ResourceExhaustedError("disk full")});
  EXPECT_THAT(Prune(Thorough()), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_LT(KeysBelow("data/").size(), packs);
  store_.ClearFaults();
  ExpectAllRight();
}

TEST_F(PrunerTest, LeavesWhatTheLimitAllows) {
  MakeGenerations();
  PruneOptions options = Thorough();
  options.unused_max = {.percent = 100};
  const absl::StatusOr<PrunePlan> plan = Prune(options);
  ASSERT_THAT(plan, IsOk());
  EXPECT_GT(plan->figures.bytes_unused_after, 0);
  EXPECT_GT(plan->figures.packs_removed, 0);  // Those go in any case.
  ExpectAllRight();
}

TEST_F(PrunerTest, RepacksNoMoreThanAllowed) {
  MakeGenerations();
  PruneOptions options = Thorough();
  options.repack_bytes_max = 0;
  const absl::StatusOr<PrunePlan> plan = Prune(options);
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->repack, IsEmpty());
  EXPECT_GT(plan->figures.bytes_unused_after, 0);
  ExpectAllRight();
}

TEST_F(PrunerTest, RemovesPacksThatNoIndexLists) {
  image_ = Image({1, 2});
  kept_ = BackUp(image_);
  const std::map<std::string, std::string> before = store_.objects();
  BackUp(Image({7, 8}));
  for (const char* prefix : {"index/", "snapshots/"}) {
    for (const std::string& key : KeysBelow(prefix)) {
      if (!before.contains(key)) {
        store_.RemoveObject(key);
      }
    }
  }
  const absl::StatusOr<PrunePlan> plan = Prune(Thorough());
  ASSERT_THAT(plan, IsOk());
  EXPECT_GT(plan->figures.packs_unindexed, 0);
  EXPECT_EQ(store_.objects(), before);
}

TEST_F(PrunerTest, RemovesSidecarsOfSnapshotsThatAreGone) {
  image_ = Image({1});
  kept_ = BackUp(image_);
  std::unique_ptr<Repository> repository = Open();
  const Id needed = *repository->SaveLocatorFile(ctx_, "needed");
  ASSERT_THAT(repository->SaveLocatorFile(ctx_, "not needed"), IsOk());
  ASSERT_THAT(repository->SaveLocator(ctx_, kept_, TreeLocator{.files = {needed}}), IsOk());
  ASSERT_THAT(repository->SaveLocator(ctx_, Id::Of("gone"), TreeLocator()), IsOk());
  ASSERT_THAT(Prune(Thorough()), IsOk());
  EXPECT_THAT(KeysBelow("aux/"),
              testing::UnorderedElementsAre(SidecarKey(kept_), LocatorFileKey(needed)));
}

TEST_F(PrunerTest, MergesSmallPacksAndIndexes) {
  std::vector<uint64_t> seeds = {1, 2};
  for (uint64_t generation = 0; generation < 11; ++generation) {
    seeds[0] = 100 + generation;
    image_ = Image(seeds);
    kept_ = BackUp(image_);
  }
  PruneOptions options = Thorough();
  options.pack_target_bytes = 8 * kTestChunkBytes;
  const std::size_t packs_before = KeysBelow("data/").size();
  const absl::StatusOr<PrunePlan> plan = Prune(options);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->figures.bytes_freed, 0);
  EXPECT_LT(KeysBelow("data/").size(), packs_before / 2);
  EXPECT_THAT(KeysBelow("index/"), SizeIs(1));
  ExpectAllRight();
}

TEST_F(PrunerTest, AnEmptyRepositoryEndsEmpty) {
  ASSERT_THAT(Forget(BackUp(Image({1, 2}))), IsOk());
  ASSERT_THAT(Prune(Thorough()), IsOk());
  EXPECT_THAT(KeysBelow("data/"), IsEmpty());
  EXPECT_THAT(KeysBelow("index/"), IsEmpty());
}

// --- What it must not do ---

TEST_F(PrunerTest, DeletesNothingOnceTheLockIsLost) {
  MakeGenerations();
  std::unique_ptr<Repository> repository = Open();
  const absl::StatusOr<std::unique_ptr<Lock>> lock = TakeLock(*repository);
  ASSERT_THAT(lock, IsOk());
  const absl::StatusOr<PrunePlan> plan = PlanPrune(ctx_, *repository, Thorough());
  ASSERT_THAT(plan, IsOk());
  store_.RemoveObject(KeysBelow("locks/").front());
  const std::map<std::string, std::string> before = store_.objects();
  EXPECT_THAT(RunPrune(ctx_, *repository, **lock, *plan, Thorough()),
              StatusIs(absl::StatusCode::kAborted));
  for (const auto& [key, bytes] : before) {
    EXPECT_TRUE(store_.objects().contains(key)) << key;
  }
}

TEST_F(PrunerTest, AnIndexFromBeforeTheLockCostsNothing) {
  image_ = Image({1, 2});
  BackUp(image_);
  std::unique_ptr<Repository> repository = Open();
  ASSERT_THAT(repository->LoadIndex(ctx_), IsOk());
  kept_ = BackUp(image_, /*skip_known=*/false);  // New packs, the same blobs.
  EXPECT_THAT(Prune(*repository, Thorough()), StatusIs(absl::StatusCode::kAborted));
  ExpectAllRight();
}

TEST_F(PrunerTest, RefusesWhatItCannotJudge) {
  MakeGenerations();
  const std::map<std::string, std::string> whole = store_.objects();
  const PackId used_pack = PackOf(Noise(kTestChunkBytes, 13));
  const PackId tree_pack = TreePackOf(kept_);
  const std::map<std::string, std::string> damages = {{"snapshot", KeysBelow("snapshots/").front()},
                                                      {"index", KeysBelow("index/").front()},
                                                      {"tree", PackKey(tree_pack)}};
  for (const auto& [what, key] : damages) {
    store_.SetObjects(whole);
    for (std::size_t i = 0; i < 40; ++i) {
      Flip(key, i);
    }
    const std::map<std::string, std::string> before = store_.objects();
    EXPECT_THAT(Prune(Thorough()),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("damaged")))
        << what;
    EXPECT_EQ(store_.objects(), before) << what;
  }
  for (const bool cut_short : {false, true}) {
    store_.SetObjects(whole);
    if (cut_short) {
      std::string bytes = whole.at(PackKey(used_pack));
      bytes.pop_back();
      store_.SetObject(PackKey(used_pack), bytes);
    } else {
      store_.RemoveObject(PackKey(used_pack));
    }
    EXPECT_THAT(Prune(Thorough()),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("missing or cut short")));
  }
}

TEST_F(PrunerTest, APackThatDoesNotReadStopsItBeforeAnythingIsLost) {
  MakeGenerations();
  // Chunk 1 is used, its neighbour is not: this pack is repacked.
  const PackId pack = PackOf(Noise(kTestChunkBytes, 1));
  for (std::size_t i = 0; i < 2; ++i) {
    Flip(PackKey(pack), 100 + i * kTestChunkBytes);
  }
  EXPECT_THAT(Prune(Thorough()), StatusIs(absl::StatusCode::kDataLoss));
  for (std::size_t i = 0; i < 2; ++i) {
    Flip(PackKey(pack), 100 + i * kTestChunkBytes);
  }
  ExpectAllRight();
}

// Of two copies the one to keep may turn out to be damaged.
TEST_F(PrunerTest, AnotherCopyOfAUsedBlobDoesNotGoFirst) {
  MakeGenerations();
  const std::vector<std::string> once = KeysBelow("data/");
  kept_ = BackUp(image_, /*skip_known=*/false);
  std::unique_ptr<Repository> repository = Open();
  const absl::StatusOr<PrunePlan> plan = PlanPrune(ctx_, *repository, Thorough());
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->unused, Not(IsEmpty()));
  EXPECT_THAT(plan->removed, Not(IsEmpty()));
  for (const uint32_t pack : plan->unused) {
    EXPECT_THAT(once, testing::Contains(PackKey(repository->index().PackAt(pack))));
  }
  ASSERT_THAT(Prune(Thorough()), IsOk());
  ExpectAllRight();
}

// --- After a check that found damage ---

TEST_F(PrunerTest, OtherCopiesOfADamagedPacksBlobsStay) {
  image_ = Image({1, 2, 3});
  BackUp(image_);
  const std::vector<std::string> once = KeysBelow("data/");
  kept_ = BackUp(image_, /*skip_known=*/false);
  PruneOptions options = Thorough();
  for (const std::string& key : once) {
    Flip(key, 100);
    options.distrusted.packs.insert(*Id::Parse(key.substr(key.rfind('/') + 1)));
  }
  EXPECT_GT(Check().errors, 0);
  ASSERT_THAT(Prune(options), IsOk());
  for (const std::string& key : once) {
    EXPECT_THAT(KeysBelow("data/"), Not(testing::Contains(key)));
  }
  ExpectAllRight();
}

// What a repair may save from it is not touched, and what else is not used goes.
TEST_F(PrunerTest, ADamagedPackWithTheOnlyCopyStaysAsItIs) {
  MakeGenerations();
  const PackId pack = PackOf(support::Noise(kTestChunkBytes, 1));
  Flip(PackKey(pack), 100);
  EXPECT_THAT(Prune(Thorough()), StatusIs(absl::StatusCode::kDataLoss));
  PruneOptions options = Thorough();
  options.distrusted.packs = {pack};
  const absl::StatusOr<PrunePlan> plan = Prune(options);
  ASSERT_THAT(plan, IsOk());
  EXPECT_GT(plan->figures.packs_repacked + plan->figures.packs_removed, 0);
  EXPECT_THAT(KeysBelow("data/"), testing::Contains(PackKey(pack)));
}

// --- Others ---

// Runs `meet` when a sleep begins, each time that no lock is there.
class MeetingClock : public Clock {
 public:
  MeetingClock(const Clock& inner, std::function<void()> meet)
      : inner_(inner), meet_(std::move(meet)) {}
  absl::Time Now() const override { return inner_.Now(); }
  absl::Duration Uptime() const override { return inner_.Uptime(); }
  bool SleepUntil(absl::Time wake_at, std::stop_token stop) const override {
    meet_();
    return inner_.SleepUntil(wake_at, std::move(stop));
  }

 private:
  const Clock& inner_;
  const std::function<void()> meet_;
};

TEST_F(PrunerTest, OthersGetTheLockBetweenDeletionsAndKeepWhatTheyListAgain) {
  MakeGenerations();
  const std::map<std::string, std::string> base = store_.objects();
  for (const bool is_listed_again : {false, true}) {
    store_.SetObjects(base);
    int met = 0;
    std::size_t packs = 0;
    const MeetingClock clock(clock_, [&] {
      if (!KeysBelow("locks/").empty() || met++ > 0) {
        return;
      }
      packs = KeysBelow("data/").size();
      const CallContext ctx{.clock = &clock_};
      std::unique_ptr<Repository> other = Open();
      const absl::StatusOr<std::unique_ptr<Lock>> lock =
          Lock::Acquire(ctx, *other, {.exclusive = true});
      ASSERT_THAT(lock, IsOk());
      if (is_listed_again) {
        const auto repaired = RepairIndex(ctx, *other, **lock, {});
        ASSERT_THAT(repaired, IsOk());
        EXPECT_THAT(repaired->packs_added, Not(IsEmpty()));
      }
    });
    ctx_.clock = &clock;
    PruneOptions options = Thorough();
    options.packs_deleted_alone = 1;
    options.deletes_alone_max = absl::ZeroDuration();
    EXPECT_THAT(Prune(options), IsOk());
    ctx_.clock = &clock_;
    EXPECT_GT(met, 0);
    EXPECT_EQ(KeysBelow("data/").size() == packs, is_listed_again);
    ExpectAllRight();
    ASSERT_THAT(Prune(Thorough()), IsOk());
    EXPECT_LT(KeysBelow("data/").size(), packs);
    ExpectAllRight();
  }
}

// --- Dying anywhere ---

TEST_F(PrunerTest, MayDieAtAnyCall) {
  MakeGenerations();
  const std::map<std::string, std::string> base = store_.objects();
  int64_t cuts = 0;
  for (int64_t call = 1;; ++call) {
    for (const CutMoment moment : {CutMoment::kBefore, CutMoment::kAfter}) {
      PruneOptions options = Thorough();
      if (moment == CutMoment::kAfter) {  // The other way to delete.
        store_.TakeBatches(3);
        options.packs_deleted_alone = 1;
        options.deletes_alone_max = absl::ZeroDuration();
      }
      store_.SetObjects(base);
      store_.Restart();
      std::unique_ptr<Repository> repository = Open();
      store_.CutAt(store_.call_count() + call, moment);
      const absl::Status status = Prune(*repository, options).status();
      store_.TakeBatches(1);
      if (!store_.is_cut()) {
        ASSERT_THAT(status, IsOk());
        EXPECT_GT(cuts, 40);
        return;
      }
      ++cuts;
      store_.Restart();
      SCOPED_TRACE(absl::StrCat("call ", call, moment == CutMoment::kAfter ? " after" : " before"));
      ExpectClean(/*read_data=*/false);
      ExpectRestores(kept_, image_);
      ASSERT_THAT(Prune(Thorough()), IsOk());
      EXPECT_THAT(KeysBelow("locks/"), IsEmpty());
      if (HasFailure()) {
        return;
      }
    }
    store_.Restart();
    ExpectAllRight();
  }
}

TEST_F(PrunerTest, MayFailAtAnyCall) {
  MakeGenerations();
  const std::map<std::string, std::string> base = store_.objects();
  for (int64_t call = 1;; ++call) {
    store_.SetObjects(base);
    store_.Restart();
    std::unique_ptr<Repository> repository = Open();
    const absl::StatusOr<std::unique_ptr<Lock>> lock = TakeLock(*repository);
    ASSERT_THAT(lock, IsOk());
    store_.AddFault(
        {.first_call = call, .last_call = call, .status = absl::UnavailableError("away")});
    const int64_t calls_before = store_.call_count();
    absl::Status status;
    if (const absl::StatusOr<PrunePlan> plan = PlanPrune(ctx_, *repository, Thorough());
        plan.ok()) {
      status = RunPrune(ctx_, *repository, **lock, *plan, Thorough()).status();
    } else {
      status = plan.status();
    }
    const bool reached = store_.call_count() - calls_before >= call;
    store_.ClearFaults();
    if (!reached) {
      ASSERT_THAT(status, IsOk());
      EXPECT_GT(call, 20);
      return;
    }
    EXPECT_THAT(status, Not(IsOk())) << call;
    SCOPED_TRACE(absl::StrCat("call ", call));
    ExpectClean(/*read_data=*/false);
    if (HasFailure()) {
      return;
    }
  }
}

}  // namespace
}  // namespace csidelta::repository::pruner_test
