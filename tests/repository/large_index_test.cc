// A repository whose index does not fit into the memory that it may have: everything is as with an
// index that does.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "repository/blob_references.h"
#include "repository/checker.h"
#include "repository/pruner.h"
#include "repository/tree.h"
#include "tests/repository/maintenance_fixture.h"
#include "tests/support/encode_tree.h"
#include "tests/support/unproven.h"

namespace csidelta::repository::large_index_test {
namespace {

using support::IsOk;
using support::Noise;
using support::StatusIs;
using testing::IsEmpty;

constexpr int64_t kNoMemoryBytes = 1;

class LargeIndexTest : public MaintenanceFixture {
 protected:
  LargeIndexTest() { environment_.scratch.folder = testing::TempDir(); }

  void AllowTables(int64_t memory_bytes) {
    environment_.scratch.table_memory_bytes_max = memory_bytes;
  }

  // Three generations, the first of them forgotten.
  void MakeGenerations() {
    BackUp(Image({1, 2, 3, 4, 5, 6}));
    kept_image_ = Image({1, 2, 3, 14, 5, 6});
    kept_ = BackUp(kept_image_);
    BackUp(Image({1, 2, 3, 14, 5, 16}));
    std::unique_ptr<Repository> repository = Open();
    ASSERT_THAT(Forget(repository->ListSnapshots(ctx_)->front().id), IsOk());
  }

  // A root with files that do not add up, and one whose content is nowhere.
  void Damage() {
    std::vector<Node> nodes;
    for (const auto& [name, size_bytes, content] :
         std::vector<std::tuple<std::string, uint64_t, std::string>>{
             {"good", 3, "abc"}, {"long", 4, "abc"}, {"lost", 3, "xyz"}, {"short", 2, "abc"}}) {
      nodes.push_back({.name = name,
                       .type = NodeType::kFile,
                       .size_bytes = size_bytes,
                       .content = std::vector<BlobId>{Id::Of(content)}});
    }
    SaveRoot(nodes, {"abc"});
    store_.RemoveObject(PackKey(PackOf(Noise(kTestChunkBytes, 14))));
    Flip(PackKey(PackOf(Noise(kTestChunkBytes, 16))), 1000);
  }

  static std::set<std::string> Told(const CheckReport& report) {
    std::set<std::string> told;
    for (const Finding& finding : report.findings) {
      told.insert(absl::StrCat(NameOf(finding.kind), " ", finding.thing, ": ", finding.detail));
    }
    return told;
  }

  std::string kept_image_;
  Id kept_;
};

TEST_F(LargeIndexTest, CheckSaysTheSame) {
  MakeGenerations();
  Damage();
  AllowTables(kTableMemoryBytesMax);
  const CheckReport small = Check();
  EXPECT_EQ(small.scratch_bytes, 0);
  EXPECT_GE(small.errors, 5) << Describe(small);
  AllowTables(kNoMemoryBytes);
  const CheckReport large = Check();
  EXPECT_GT(large.scratch_bytes, 0);
  EXPECT_EQ(Told(large), Told(small));
  EXPECT_EQ(large.errors, small.errors);
  EXPECT_EQ(large.notes, small.notes);
  EXPECT_EQ(large.blobs, small.blobs);
  EXPECT_EQ(large.trees, small.trees);
  EXPECT_EQ(large.packs_read, small.packs_read);
}

TEST_F(LargeIndexTest, AWholeRepositoryHasNoFindings) {
  MakeGenerations();
  AllowTables(kNoMemoryBytes);
  EXPECT_THAT(Told(Check()), IsEmpty());
}

TEST_F(LargeIndexTest, PruneDoesTheSame) {
  MakeGenerations();
  const std::map<std::string, std::string> before = store_.objects();
  std::vector<PrunePlan> plans;
  std::vector<int64_t> stored_bytes;
  for (const int64_t memory_bytes : {kTableMemoryBytesMax, kNoMemoryBytes}) {
    store_.SetObjects(before);
    AllowTables(memory_bytes);
    std::unique_ptr<Repository> repository = Open();
    absl::StatusOr<PrunePlan> plan = Prune(*repository, Thorough());
    ASSERT_THAT(plan, IsOk());
    EXPECT_EQ(repository->scratch().peak_bytes() > 0, memory_bytes == kNoMemoryBytes);
    plans.push_back(*std::move(plan));
    ExpectClean();
    ExpectRestores(kept_, kept_image_);
    stored_bytes.push_back(0);
    for (const auto& [key, bytes] : store_.objects()) {
      stored_bytes.back() += std::ssize(bytes);
    }
  }
  EXPECT_GT(plans[0].figures.bytes_freed, kTestChunkBytes);
  EXPECT_EQ(plans[0].figures.bytes_freed, plans[1].figures.bytes_freed);
  EXPECT_EQ(plans[0].figures.blobs_used, plans[1].figures.blobs_used);
  EXPECT_EQ(plans[0].figures.blobs_unused, plans[1].figures.blobs_unused);
  EXPECT_EQ(plans[0].figures.packs_removed, plans[1].figures.packs_removed);
  EXPECT_EQ(plans[0].figures.packs_repacked, plans[1].figures.packs_repacked);
  EXPECT_NEAR(static_cast<double>(stored_bytes[0]), static_cast<double>(stored_bytes[1]), 2000);
}

TEST_F(LargeIndexTest, PruneKeepsOneOfManyCopies) {
  kept_image_ = Image({1, 2, 3, 4});
  BackUp(kept_image_);
  for (const int64_t memory_bytes : {kTableMemoryBytesMax, kNoMemoryBytes}) {
    AllowTables(memory_bytes);
    kept_ = BackUp(kept_image_, /*skip_known=*/false);
    const absl::StatusOr<PrunePlan> plan = Prune(Thorough());
    ASSERT_THAT(plan, IsOk());
    EXPECT_GE(plan->figures.blobs_duplicate, 5);
    ExpectClean();
    ExpectRestores(kept_, kept_image_);
    EXPECT_EQ(Prune(Thorough())->figures.blobs_duplicate, 0);
  }
}

TEST_F(LargeIndexTest, PruneRefusesWhenAUsedBlobIsInNoIndex) {
  MakeGenerations();
  Damage();
  AllowTables(kNoMemoryBytes);
  EXPECT_THAT(Prune(Thorough()), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(LargeIndexTest, AFullScratchDiskCostsNothing) {
  MakeGenerations();
  const std::map<std::string, std::string> before = store_.objects();
  AllowTables(kNoMemoryBytes);
  environment_.scratch.folder = "/nonexistent";
  std::unique_ptr<Repository> repository = Open();
  EXPECT_THAT(Prune(*repository, Thorough()), StatusIs(absl::StatusCode::kInternal));
  EXPECT_EQ(store_.objects().size(), before.size());
  EXPECT_THAT(CheckRepository(ctx_, *repository, {.progress = nullptr}),
              StatusIs(absl::StatusCode::kInternal));
}

// Hundreds of thousands of entries that all look alike cost what others cost.
TEST_F(LargeIndexTest, ABlobMayBeInVeryManyPacks) {
  AllowTables(int64_t{1} << 20);
  ScratchSpace scratch(environment_.scratch);
  BlobIndexBuilder builder(scratch);
  constexpr int kPacks = 200;
  constexpr uint32_t kCopies = 1000;
  const Id blob = Id::Of("again and again");
  for (int i = 0; i < kPacks; ++i) {
    IndexedPack pack = {.id = Id::Of(absl::StrCat(i / 2)), .entries = {}};
    for (uint32_t copy = 0; copy < kCopies; ++copy) {
      pack.entries.push_back(
          {.handle = {.type = BlobType::kData, .id = blob},
           .span = {.offset_bytes = copy * 40 + static_cast<uint32_t>(i), .sealed_bytes = 40}});
    }
    EXPECT_THAT(builder.AddPack(pack), IsOk());
  }
  std::vector<PackId> listed_differently;
  const absl::StatusOr<BlobIndex> index = builder.Build(&listed_differently);
  ASSERT_THAT(index, IsOk());
  EXPECT_EQ(listed_differently.size(), kPacks / 2U);
  BlobReferences references(scratch);
  for (uint32_t file = 0; file < kCopies; ++file) {
    ASSERT_THAT(references.Add(file, std::vector<BlobId>(100, blob)), IsOk());
  }
  int64_t found = 0;
  ASSERT_THAT(references.Resolve(*index,
                                 [&](const BlobId&, uint32_t, const IndexedCopy* copy) {
                                   found += copy != nullptr && copy->number == 0 ? 1 : 0;
                                   return absl::OkStatus();
                                 }),
              IsOk());
  EXPECT_EQ(found, 100 * int64_t{kCopies});
}

}  // namespace
}  // namespace csidelta::repository::large_index_test
