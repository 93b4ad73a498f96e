#include "repository/copier.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "tests/repository/maintenance_fixture.h"
#include "tests/support/unproven.h"
#include "tests/support/watched_store.h"

namespace csidelta::repository::copier_test {
namespace {

using support::CutMoment;
using support::FakeObjectStore;
using support::IsOk;
using support::IsOkAndHolds;
using support::Noise;
using support::StatusIs;
using testing::IsEmpty;
using testing::SizeIs;

class CopierTest : public MaintenanceFixture {
 protected:
  CopierTest() { EXPECT_THAT(Repository::Init(ctx_, other_, kOther, environment_), IsOk()); }

  std::unique_ptr<Repository> OpenOther() {
    auto repository = Repository::Open(ctx_, other_, kOther, environment_);
    EXPECT_THAT(repository, IsOk());
    return *std::move(repository);
  }

  absl::StatusOr<std::vector<CopiedSnapshot>> Copy(Repository& from, Repository& to,
                                                   const std::vector<Id>& ids = {}) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Lock> lock, TakeLock(to, /*exclusive=*/false));
    return CopySnapshots(
        ctx_, from, to, *lock, ids,
        {.writer = writer_options_, .progress = [this](auto stage, auto done, auto) {
           copied_bytes_ = stage == kCopying ? done : copied_bytes_.load();
         }});
  }

  absl::StatusOr<std::vector<CopiedSnapshot>> Copy(const std::vector<Id>& ids = {}) {
    const std::unique_ptr<Repository> from = Open();
    const std::unique_ptr<Repository> to = OpenOther();
    return Copy(*from, *to, ids);
  }

  void ExpectRestoresThere(const Id& id, const std::string& image) {
    const std::unique_ptr<Repository> to = OpenOther();
    ASSERT_THAT(to->LoadIndex(ctx_), IsOk());
    const absl::StatusOr<std::string> restored = RestoreImage(ctx_, *to, id);
    ASSERT_THAT(restored, IsOk());
    EXPECT_TRUE(*restored == image);
    const absl::StatusOr<CheckReport> report =
        CheckRepository(ctx_, *to, {.read_data = ReadEverything{}, .progress = nullptr});
    ASSERT_THAT(report, IsOk());
    EXPECT_EQ(report->errors, 0) << Describe(*report);
  }

  static constexpr char kOther[] = "another password";
  FakeObjectStore other_;
  std::atomic<int64_t> copied_bytes_ = 0;
};

TEST_F(CopierTest, CopiesAllOnceAndKeepsTrees) {
  const std::string first_image = Image({1, 2, 3});
  const std::string second_image = Image({1, 12, 3});
  const Id first = BackUp(first_image);
  BackUp(second_image);
  const absl::StatusOr<std::vector<CopiedSnapshot>> copied = Copy();
  ASSERT_THAT(copied, IsOkAndHolds(SizeIs(2)));
  EXPECT_GT(copied_bytes_, std::ssize(first_image)) << "the changed chunk of the second, too";
  EXPECT_EQ((*copied)[0].source, first);
  ExpectRestoresThere((*copied)[0].copy, first_image);
  ExpectRestoresThere((*copied)[1].copy, second_image);
  // The second shares all but one chunk.
  EXPECT_EQ((*copied)[0].counts.data_blobs, 4 + 1);
  EXPECT_EQ((*copied)[1].counts.data_blobs, 1 + 1);
  const std::unique_ptr<Repository> from = Open();
  const std::unique_ptr<Repository> to = OpenOther();
  const RepoSnapshot source = *from->LoadSnapshot(ctx_, first);
  const RepoSnapshot copy = *to->LoadSnapshot(ctx_, (*copied)[0].copy);
  EXPECT_EQ(copy.tree, source.tree);
  EXPECT_EQ(copy.time, source.time);
  EXPECT_EQ(copy.tags, source.tags);
  EXPECT_EQ(copy.original, first);
}

// Another client unlocks while the snapshot is put: what it needs may be pruned by now.
TEST_F(CopierTest, DataThatIsCompressedIsNotCompressedAgain) {
  std::string image;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    image += support::Prose(kTestChunkBytes, seed);
  }
  writer_options_.data_compression_level = 19;
  BackUp(image);
  writer_options_.data_compression_level = kNoCompression;
  EXPECT_THAT(Copy(), IsOk());
  const std::unique_ptr<Repository> from = Open();
  const std::unique_ptr<Repository> to = OpenOther();
  ASSERT_THAT(from->LoadIndex(ctx_), IsOk());
  ASSERT_THAT(to->LoadIndex(ctx_), IsOk());
  int chunks = 0;
  EXPECT_THAT(from->index().ForEach([&](const IndexedCopy& copy) {
    const auto copied = to->index().Find(copy.entry.handle);
    ASSERT_TRUE(copied.ok() && copied->has_value());
    EXPECT_EQ((*copied)->entry.span.sealed_bytes, copy.entry.span.sealed_bytes);
    EXPECT_EQ((*copied)->entry.span.uncompressed_bytes, copy.entry.span.uncompressed_bytes);
    chunks += copy.entry.span.uncompressed_bytes == kTestChunkBytes ? 1 : 0;
  }),
              IsOk());
  EXPECT_GE(chunks, 3);
}

TEST_F(CopierTest, ALockThatIsLostWithTheSnapshotTakesItBack) {
  BackUp(Image({1}));
  support::WatchedStore watched(other_);
  watched.after_put = [&](const std::string& key) {
    for (const auto& [lock, bytes] : other_.objects()) {
      if (key.starts_with("snapshots/") && lock.starts_with("locks/")) {
        other_.RemoveObject(lock);
      }
    }
  };
  const auto to = Repository::Open(ctx_, watched, kOther, environment_);
  ASSERT_THAT(to, IsOk());
  EXPECT_THAT(Copy(*Open(), **to),
              StatusIs(absl::StatusCode::kAborted, testing::HasSubstr("was removed again")));
  EXPECT_THAT(OpenOther()->ListSnapshots(ctx_), IsOkAndHolds(IsEmpty()));
}

TEST_F(CopierTest, ASecondRunAddsOnlyWhatIsNew) {
  BackUp(Image({1, 2}));
  ASSERT_THAT(Copy(), IsOk());
  const std::map<std::string, std::string> before = other_.objects();
  const absl::StatusOr<std::vector<CopiedSnapshot>> again = Copy();
  ASSERT_THAT(again, IsOkAndHolds(SizeIs(1)));
  EXPECT_TRUE(again->front().was_there);
  EXPECT_EQ(other_.objects(), before);

  const std::string image = Image({1, 3});
  BackUp(image);
  const absl::StatusOr<std::vector<CopiedSnapshot>> third = Copy();
  ASSERT_THAT(third, IsOkAndHolds(SizeIs(2)));
  EXPECT_EQ(third->back().counts.data_blobs, 1 + 1);
  ExpectRestoresThere(third->back().copy, image);
}

TEST_F(CopierTest, ParentsComeFirstAndAreMapped) {
  const Id parent = BackUp(Image({1}));
  std::unique_ptr<Repository> repository = Open();
  RepoSnapshot child = *repository->LoadSnapshot(ctx_, parent);
  child.parent = parent;
  child.time -= absl::Hours(48);  // A child that seems older than its parent.
  const Id child_id = *repository->SaveSnapshot(ctx_, child, support::Unproven());
  const absl::StatusOr<std::vector<CopiedSnapshot>> copied = Copy();
  ASSERT_THAT(copied, IsOkAndHolds(SizeIs(2)));
  EXPECT_EQ((*copied)[0].source, parent);
  EXPECT_EQ((*copied)[1].source, child_id);
  EXPECT_EQ(OpenOther()->LoadSnapshot(ctx_, (*copied)[1].copy)->parent, (*copied)[0].copy);
}

TEST_F(CopierTest, AParentThatIsNotCopiedIsNotNamed) {
  const Id parent = BackUp(Image({1}));
  std::unique_ptr<Repository> repository = Open();
  RepoSnapshot child = *repository->LoadSnapshot(ctx_, parent);
  child.parent = parent;
  child.time += absl::Hours(1);
  const Id child_id = *repository->SaveSnapshot(ctx_, child, support::Unproven());
  const absl::StatusOr<std::vector<CopiedSnapshot>> copied = Copy({child_id});
  ASSERT_THAT(copied, IsOkAndHolds(SizeIs(1)));
  EXPECT_EQ(OpenOther()->LoadSnapshot(ctx_, copied->front().copy)->parent, std::nullopt);
}

TEST_F(CopierTest, RefusesItselfAndWhatIsNotThere) {
  BackUp(Image({1}));
  const std::unique_ptr<Repository> one = Open();
  const std::unique_ptr<Repository> same = Open();
  EXPECT_THAT(Copy(*one, *same), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Copy({Id::Of("x")}), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(CopierTest, DamageIsNeverCopied) {
  const std::string image = Image({1, 2});
  BackUp(image);
  Flip(PackKey(PackOf(Noise(kTestChunkBytes, 1))), 100);
  EXPECT_THAT(Copy(), StatusIs(absl::StatusCode::kDataLoss));
  for (const auto& [key, bytes] : other_.objects()) {
    EXPECT_FALSE(key.starts_with("snapshots/")) << key;
  }
  // A second copy of the blob helps.
  BackUp(image, /*skip_known=*/false);
  const absl::StatusOr<std::vector<CopiedSnapshot>> copied = Copy();
  ASSERT_THAT(copied, IsOkAndHolds(SizeIs(2)));
  ExpectRestoresThere(copied->front().copy, image);
}

TEST_F(CopierTest, CommitsNothingWithoutItsLock) {
  BackUp(Image({1, 2}));
  const std::unique_ptr<Repository> from = Open();
  const std::unique_ptr<Repository> to = OpenOther();
  const absl::StatusOr<std::unique_ptr<Lock>> lock = TakeLock(*to, /*exclusive=*/false);
  ASSERT_THAT(lock, IsOk());
  for (const auto& [key, bytes] : other_.objects()) {
    if (key.starts_with("locks/")) {
      other_.RemoveObject(key);
    }
  }
  EXPECT_THAT(CopySnapshots(ctx_, *from, *to, **lock, {}, {.writer = {}, .progress = nullptr}),
              StatusIs(absl::StatusCode::kAborted));
}

TEST_F(CopierTest, MayDieAtAnyCall) {
  BackUp(Image({1, 2}));
  const std::string image = Image({1, 12});
  BackUp(image);
  const std::map<std::string, std::string> base = other_.objects();
  const std::unique_ptr<Repository> from = Open();
  for (int64_t call = 1;; ++call) {
    for (const CutMoment moment : {CutMoment::kBefore, CutMoment::kAfter}) {
      other_.SetObjects(base);
      other_.Restart();
      const std::unique_ptr<Repository> to = OpenOther();
      other_.CutAt(other_.call_count() + call, moment);
      const absl::Status status = Copy(*from, *to).status();
      const bool cut = other_.is_cut();
      other_.Restart();
      const absl::StatusOr<std::vector<CopiedSnapshot>> copied = Copy();
      ASSERT_THAT(copied, IsOkAndHolds(SizeIs(2)));
      ExpectRestoresThere(copied->back().copy, image);
      EXPECT_THAT(*OpenOther()->ListFiles(ctx_, FileKind::kSnapshot), SizeIs(2));
      if (!cut) {
        EXPECT_THAT(status, IsOk());
        EXPECT_GT(call, 15);
        return;
      }
    }
  }
}

// Any pack, and any index file.
TEST_F(CopierTest, BlobsThatTheTargetLostAreCopiedAgain) {
  const std::string image = Image({1, 2, 3, 4});
  BackUp(image);
  for (const std::string prefix : {"data/", "index/"}) {
    ASSERT_THAT(Copy(), IsOk());
    const std::map<std::string, std::string> objects = other_.objects();
    for (const auto& [key, bytes] : objects) {
      if (!key.starts_with(prefix)) {
        continue;
      }
      other_.SetObjects(objects);
      other_.RemoveObject(key);
      const absl::StatusOr<std::vector<CopiedSnapshot>> again = Copy();
      ASSERT_THAT(again, IsOkAndHolds(SizeIs(1)));
      EXPECT_TRUE(again->front().was_there);
      EXPECT_THAT(again->front().was_damaged, testing::Not(IsOk())) << key;
      EXPECT_THAT(again->front().not_mended, IsOk()) << key;
      const std::unique_ptr<Repository> to = OpenOther();
      ASSERT_THAT(to->LoadIndex(ctx_), IsOk());
      EXPECT_TRUE(*RestoreImage(ctx_, *to, again->front().copy) == image) << key;
      EXPECT_THAT(Copy()->front().was_damaged, IsOk());
    }
    other_.SetObjects(objects);
  }
}

TEST_F(CopierTest, BlobsThatBothLackAreNamedAndTheOthersAreCopied) {
  BackUp(Image({1, 2}));
  ASSERT_THAT(Copy(), IsOk());
  store_.RemoveObject(PackKey(PackOf(Noise(kTestChunkBytes, 1))));
  for (const auto& [key, bytes] : other_.objects()) {
    if (key.starts_with("data/") && std::ssize(bytes) > kTestChunkBytes) {
      other_.RemoveObject(key);
    }
  }
  const std::string image = Image({5, 6});
  BackUp(image, /*skip_known=*/false);
  const absl::StatusOr<std::vector<CopiedSnapshot>> copied = Copy();
  ASSERT_THAT(copied, IsOkAndHolds(SizeIs(2)));
  EXPECT_THAT(copied->front().was_damaged, StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(copied->front().not_mended, testing::Not(IsOk()));
  const std::unique_ptr<Repository> to = OpenOther();
  ASSERT_THAT(to->LoadIndex(ctx_), IsOk());
  EXPECT_TRUE(*RestoreImage(ctx_, *to, copied->back().copy) == image);
}

}  // namespace
}  // namespace csidelta::repository::copier_test
