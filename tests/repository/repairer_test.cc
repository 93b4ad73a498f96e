#include "repository/repairer.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "repository/index_rewriter.h"
#include "repository/pack_reader.h"
#include "tests/repository/maintenance_fixture.h"
#include "tests/support/index_lookup.h"

namespace csidelta::repository::repairer_test {
namespace {

using support::CutMoment;
using support::IsOk;
using support::IsOkAndHolds;
using support::Noise;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class RepairerTest : public MaintenanceFixture {
 protected:
  RepairerTest() : image_(Image({1, 2, 3})), id_(BackUp(image_)) {}

  absl::StatusOr<RepairIndexResult> Repair(Repository& repository,
                                           const RepairIndexOptions& options = {}) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Lock> lock, TakeLock(repository));
    return RepairIndex(ctx_, repository, *lock, options);
  }

  absl::StatusOr<RepairIndexResult> Repair(const RepairIndexOptions& options = {}) {
    std::unique_ptr<Repository> repository = Open();
    return Repair(*repository, options);
  }

  absl::StatusOr<RepairPacksResult> RepairThese(const std::vector<PackId>& packs,
                                                RepairPacksOptions options = {}) {
    std::unique_ptr<Repository> repository = Open();
    options.writer = writer_options_;
    ASSIGN_OR_RETURN(const std::unique_ptr<Lock> lock, TakeLock(*repository));
    return RepairPacks(ctx_, *repository, *lock, packs, options);
  }

  BlobRepairSource RepairSourceOfImage() const {
    return [this](const CallContext&, const BlobHandle& handle) -> absl::StatusOr<std::string> {
      for (std::size_t at = 0; at < image_.size(); at += kTestChunkBytes) {
        if (Id::Of(image_.substr(at, kTestChunkBytes)) == handle.id) {
          return image_.substr(at, kTestChunkBytes);
        }
      }
      return absl::NotFoundError("not of this volume");
    };
  }

  void ExpectAllRight() {
    ExpectClean();
    ExpectRestores(id_, image_);
  }

  std::string image_;
  Id id_;
};

// --- The index ---

TEST_F(RepairerTest, AGoodIndexIsLeftAlone) {
  const std::map<std::string, std::string> before = store_.objects();
  const absl::StatusOr<RepairIndexResult> result = Repair();
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(result->changed());
  EXPECT_EQ(store_.objects(), before);
}

TEST_F(RepairerTest, ReplacesAnIndexThatIsGoneOrDoesNotRead) {
  BackUp(Image({4}));
  const std::string key = KeysBelow("index/").front();
  Flip(key, 60);
  absl::StatusOr<RepairIndexResult> result = Repair();
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(result->unreadable_files, SizeIs(1));
  EXPECT_FALSE(result->packs_added.empty());
  EXPECT_FALSE(store_.objects().contains(key));
  ExpectAllRight();

  for (const std::string& index : KeysBelow("index/")) {
    store_.RemoveObject(index);
  }
  result = Repair();
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->packs_added.size(), KeysBelow("data/").size());
  ExpectAllRight();
}

TEST_F(RepairerTest, ADryRunOnlySays) {
  Flip(KeysBelow("index/").front(), 60);
  const std::map<std::string, std::string> before = store_.objects();
  const absl::StatusOr<RepairIndexResult> result = Repair({.dry_run = true, .progress = nullptr});
  ASSERT_THAT(result, IsOk());
  EXPECT_TRUE(result->changed());
  EXPECT_EQ(store_.objects(), before);
}

TEST_F(RepairerTest, ReadsEveryHeaderWhenToldTo) {
  const absl::StatusOr<RepairIndexResult> result =
      Repair({.read_all_packs = true, .progress = nullptr});
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->packs_added.size(), KeysBelow("data/").size());
  EXPECT_THAT(KeysBelow("index/"), SizeIs(1));
  ExpectAllRight();
}

TEST_F(RepairerTest, DropsPacksThatAreGone) {
  const PackId gone = PackOf(Noise(kTestChunkBytes, 1));
  store_.RemoveObject(PackKey(gone));
  const absl::StatusOr<RepairIndexResult> result = Repair();
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(result->packs_dropped, ElementsAre(gone));
  EXPECT_EQ(KindsOf(Check()), std::set<std::string>{"blob-missing"});
  // A new backup of the same data brings the blobs back.
  BackUp(image_);
  ExpectAllRight();
}

TEST_F(RepairerTest, SettlesWhatTwoIndexesListDifferentlyAndACheckFinds) {
  const PackId pack = PackOf(Noise(kTestChunkBytes, 2));
  const PackEntry entry = {.handle = {BlobType::kData, Id::Of("other")},
                           .span = {.offset_bytes = 0, .sealed_bytes = 40}};
  const IndexedPack other = {.id = pack, .entries = {entry}};
  ASSERT_THAT(Open()->SaveFile(ctx_, FileKind::kIndex, EncodeIndex(absl::MakeConstSpan(&other, 1))),
              IsOk());
  const CheckReport report = Check(/*read_data=*/false);
  EXPECT_GT(report.errors, 0);
  EXPECT_THAT(KindsOf(report), testing::Contains("pack-listed-differently"));
  const absl::StatusOr<RepairIndexResult> result = Repair();
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(result->packs_added, ElementsAre(pack));
  ExpectAllRight();
}

TEST_F(RepairerTest, TheOrderInWhichAPackIsListedDoesNotMatter) {
  const std::string index = KeysBelow("index/").front();
  const FileInfo file = {.id = *Id::Parse(absl::string_view(index).substr(index.rfind('/') + 1)),
                         .size_bytes = std::ssize(store_.objects().at(index))};
  std::vector<IndexedPack> packs;
  ASSERT_THAT(Open()->ReadIndexFile(ctx_, file,
                                    [&](const IndexedPack& pack) {
                                      packs.push_back(pack);
                                      return absl::OkStatus();
                                    }),
              IsOk());
  for (IndexedPack& pack : packs) {
    std::reverse(pack.entries.begin(), pack.entries.end());
  }
  ASSERT_THAT(Open()->SaveFile(ctx_, FileKind::kIndex, EncodeIndex(packs)), IsOk());
  ExpectClean();
  const absl::StatusOr<RepairIndexResult> result = Repair();
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(result->changed());
  EXPECT_THAT(Prune(Thorough()).status(), IsOk());
}

TEST_F(RepairerTest, APackWithoutAHeaderStaysListed) {
  const PackId pack = PackOf(Noise(kTestChunkBytes, 2));
  const std::string bytes = store_.objects().at(PackKey(pack));
  store_.SetObject(PackKey(pack), bytes.substr(0, bytes.size() - 10));
  const absl::StatusOr<RepairIndexResult> result = Repair();
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(result->packs_unreadable, ElementsAre(pack));
  EXPECT_FALSE(result->changed());
  // For its blobs are whole.
  ASSERT_THAT(RepairThese({pack}), IsOk());
  ExpectAllRight();
}

TEST_F(RepairerTest, ListsNothingAgainThatMayStillBeDeleted) {
  BackUp(Image({4}));
  const std::string index = KeysBelow("index/").front();
  store_.SetObject(kMayStillDeleteKey, "1");
  EXPECT_THAT(Repair(), IsOk()) << "all is listed";
  store_.RemoveObject(index);
  const auto before = store_.objects();
  EXPECT_THAT(Repair(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                 testing::HasSubstr("pass --assume-ended")));
  EXPECT_EQ(store_.objects(), before);
  ASSERT_THAT(Repair({.assume_ended = true, .progress = nullptr}), IsOk());
  ExpectClean(/*read_data=*/false);
  ExpectRestores(id_, image_);
}

TEST_F(RepairerTest, IndexRepairMayDieAtAnyCall) {
  BackUp(Image({4}));
  Flip(KeysBelow("index/").front(), 60);
  const std::map<std::string, std::string> base = store_.objects();
  for (int64_t call = 1;; ++call) {
    for (const CutMoment moment : {CutMoment::kBefore, CutMoment::kAfter}) {
      store_.SetObjects(base);
      store_.Restart();
      std::unique_ptr<Repository> repository = Open();
      store_.CutAt(store_.call_count() + call, moment);
      const absl::Status status = Repair(*repository).status();
      const bool cut = store_.is_cut();
      store_.Restart();
      ASSERT_THAT(Repair({.assume_ended = true, .progress = nullptr}), IsOk());
      ExpectClean(/*read_data=*/false);
      ExpectRestores(id_, image_);
      if (!cut) {
        EXPECT_THAT(status, IsOk());
        EXPECT_GT(call, 8);
        return;
      }
    }
  }
}

// --- Packs ---

TEST_F(RepairerTest, MovesWhatIsIntactAndFillsInTheRest) {
  const std::string damaged = Noise(kTestChunkBytes, 2);
  const PackId pack = PackOf(damaged);
  std::unique_ptr<Repository> repository = Open();
  ASSERT_THAT(repository->LoadIndex(ctx_), IsOk());
  BlobLocation location;
  ASSERT_THAT(support::FindAny(repository->index(), {BlobType::kData, Id::Of(damaged)}, location),
              support::IsOkAndHolds(true));
  Flip(PackKey(pack), location.span.offset_bytes + 50);

  RepairPacksOptions options;
  options.repair_source = [&](const CallContext&,
                              const BlobHandle& handle) -> absl::StatusOr<std::string> {
    EXPECT_EQ(handle, (BlobHandle{BlobType::kData, Id::Of(damaged)}));
    return damaged;
  };
  const absl::StatusOr<RepairPacksResult> repairs = RepairThese({pack}, options);
  ASSERT_THAT(repairs, IsOk());
  ASSERT_THAT(repairs->packs, SizeIs(1));
  EXPECT_EQ(repairs->packs.front().blobs_intact, 1);
  EXPECT_EQ(repairs->packs.front().blobs_filled_in, 1);
  EXPECT_TRUE(repairs->packs.front().removed);
  EXPECT_FALSE(store_.objects().contains(PackKey(pack)));
  ExpectAllRight();
}

TEST_F(RepairerTest, FillsInWhatSnapshotsMissWhateverBecameOfThePack) {
  const PackId gone = PackOf(Noise(kTestChunkBytes, 1));
  store_.RemoveObject(PackKey(gone));
  ASSERT_THAT(Repair(), IsOk());
  const absl::StatusOr<RepairPacksResult> without = RepairThese({});
  ASSERT_THAT(without, IsOk());
  EXPECT_EQ(without->lost(), 2);
  RepairPacksOptions options;
  WantedChunks asked;
  options.prepare_repair_source = [&asked](const CallContext&, const WantedChunks& wanted) {
    asked = wanted;
    return absl::OkStatus();
  };
  options.repair_source = RepairSourceOfImage();
  const absl::StatusOr<RepairPacksResult> with = RepairThese({gone}, options);
  ASSERT_THAT(with, IsOk());
  EXPECT_THAT(with->unlisted, ElementsAre(gone));
  EXPECT_EQ(with->missing_filled_in, 2);
  EXPECT_EQ(with->lost(), 0);
  EXPECT_TRUE(asked.ids.contains(Id::Of(Noise(kTestChunkBytes, 1))));
  EXPECT_THAT(asked.chunk_bytes, ElementsAre(kTestChunkBytes));
  EXPECT_THAT(asked.tail_bytes, ElementsAre(1000));
  ExpectAllRight();
}

TEST_F(RepairerTest, FillsInAPackThatIsGoneNamedOrNot) {
  for (const bool is_named : {true, false}) {
    const PackId pack = PackOf(Noise(kTestChunkBytes, 1));
    store_.RemoveObject(PackKey(pack));
    RepairPacksOptions options;
    options.repair_source = RepairSourceOfImage();
    const auto result = RepairThese(is_named ? std::vector{pack} : std::vector<PackId>(), options);
    ASSERT_THAT(result, IsOk());
    EXPECT_THAT(result->packs, SizeIs(1));
    ExpectAllRight();
  }
}

TEST_F(RepairerTest, UsesTheCopyOfAnotherPack) {
  BackUp(image_, /*skip_known=*/false);
  const PackId pack = PackOf(Noise(kTestChunkBytes, 2));
  store_.RemoveObject(PackKey(pack));
  const absl::StatusOr<RepairPacksResult> repairs = RepairThese({pack});
  ASSERT_THAT(repairs, IsOk());
  EXPECT_GT(repairs->packs.front().blobs_elsewhere, 0);
  EXPECT_TRUE(repairs->packs.front().removed);
  ExpectAllRight();
}

TEST_F(RepairerTest, KeepsAPackOfWhichSomethingIsLost) {
  const PackId pack = PackOf(Noise(kTestChunkBytes, 2));
  Flip(PackKey(pack), 100);
  const std::map<std::string, std::string> before = store_.objects();
  RepairPacksOptions options;
  options.repair_source = [](const CallContext&, const BlobHandle&) -> absl::StatusOr<std::string> {
    return std::string("changed since");
  };
  absl::StatusOr<RepairPacksResult> repairs = RepairThese({pack}, options);
  ASSERT_THAT(repairs, IsOk());
  EXPECT_THAT(repairs->packs.front().lost, SizeIs(1));
  EXPECT_FALSE(repairs->packs.front().removed);
  EXPECT_EQ(store_.objects(), before);

  options.drops_lost = [&](const PackId& lost) { return lost == pack; };
  repairs = RepairThese({pack}, options);
  ASSERT_THAT(repairs, IsOk());
  EXPECT_TRUE(repairs->packs.front().removed);
  EXPECT_EQ(KindsOf(Check()), std::set<std::string>{"blob-missing"});
}

TEST_F(RepairerTest, AnIndexThatDoesNotReadComesFirst) {
  Flip(KeysBelow("index/").front(), 60);
  EXPECT_THAT(RepairThese({Id::Of("x")}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("repair index")));
}

}  // namespace
}  // namespace csidelta::repository::repairer_test
