#include "engine/resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "repository/blob_writer.h"
#include "tests/repository/repository_fixture.h"
#include "tests/support/index_lookup.h"

namespace csidelta::engine::resume_test {
namespace {

using repository::BlobType;
using repository::Id;
using repository::Repository;
using support::IsOk;
using support::IsOkAndHolds;
using support::StatusIs;
using support::StoreOperation;

constexpr char kMark[] = "aux/v1/unfinished";
constexpr int64_t kMemory = int64_t{1} << 20;

class ResumeTest : public repository::RepositoryFixture {
 protected:
  ResumeTest() : repository_(Init()) {}

  // A blob in a pack that no index lists: the run that stored it died before it wrote one.
  Id StoreWithoutIndex(const std::string& text) {
    const std::unique_ptr<Repository> dying = Open();
    repository::BlobWriter writer(ctx_, *dying, {});
    EXPECT_THAT(writer.AddBlob(BlobType::kData, Id::Of(text), text), IsOk());
    store_.AddFault({.operation = StoreOperation::kPut,
                     .key_prefix = "index/",
                     .last_call = 1'000'000,
                     .status = absl::PermissionDeniedError("dead")});
    EXPECT_FALSE(writer.Flush().ok());
    store_.ClearFaults();
    EXPECT_EQ(KeysBelow("data/").size(), 1u);
    EXPECT_TRUE(KeysBelow("index/").empty());
    return Id::Of(text);
  }

  bool HasMark() const { return store_.objects().contains(kMark); }

  std::unique_ptr<Repository> repository_;
};

TEST_F(ResumeTest, WithoutAMarkNothingIsLookedFor) {
  StoreWithoutIndex("lost");
  const auto answer = FindUnfinished(ctx_, *repository_, /*look=*/false, kMemory);
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->known, nullptr);
  EXPECT_FALSE(answer->marked);
  EXPECT_EQ(answer->packs_found, 0);
  EXPECT_TRUE(KeysBelow("index/").empty());
}

TEST_F(ResumeTest, AMarkOrAnOptionMakesItLookAndWhatItFindsIsKnown) {
  const Id lost = StoreWithoutIndex("lost");
  for (const bool marked : {true, false}) {
    SCOPED_TRACE(marked ? "marked" : "asked");
    for (const std::string& key : KeysBelow("index/")) {
      store_.RemoveObject(key);
    }
    store_.RemoveObject(kMark);
    const std::unique_ptr<Repository> next = Open();
    if (marked) {
      MarkUnfinished(ctx_, *next);
      EXPECT_TRUE(IsUnfinished(ctx_, *next));
    }
    const auto answer = FindUnfinished(ctx_, *next, /*look=*/!marked, kMemory);
    ASSERT_THAT(answer, IsOk());
    EXPECT_EQ(answer->marked, marked);
    EXPECT_EQ(answer->packs_found, 1);
    ASSERT_EQ(answer->known, &next->index());
    EXPECT_THAT(next->LoadBlob(ctx_, {BlobType::kData, lost}), IsOkAndHolds("lost"));
    EXPECT_EQ(KeysBelow("index/").size(), 1u) << "later runs know it, too";
  }
}

// Beside a lock whose owner may be at work.
TEST_F(ResumeTest, WhatMayBeOfALivingRunIsAdoptedOnlyWhereOurJournalNamesIt) {
  const Id lost = StoreWithoutIndex("lost");
  MarkUnfinished(ctx_, *repository_);
  store_.Restart();
  OrphanScope scope = {.all = false, .own = {}};
  auto answer = FindUnfinished(ctx_, *repository_, /*look=*/false, kMemory, scope);
  ASSERT_THAT(answer, IsOk());
  EXPECT_FALSE(answer->marked) << "what it says was not looked for: it must stay";
  EXPECT_EQ(store_.call_count(), 0);

  answer = FindUnfinished(ctx_, *repository_, /*look=*/true, kMemory, scope);
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->packs_found, 0);
  EXPECT_EQ(answer->known, &repository_->index());
  scope.own = {Id::Of("another")};
  EXPECT_EQ(FindUnfinished(ctx_, *repository_, /*look=*/true, kMemory, scope)->packs_found, 0);
  for (const support::StoreCall& call : store_.calls()) {
    EXPECT_FALSE(call.operation == StoreOperation::kGet && call.key.starts_with("data/"))
        << "read whole: " << call.key;
  }
  scope.own = {Id::Of("another"), lost};
  std::sort(scope.own.begin(), scope.own.end());
  EXPECT_EQ(FindUnfinished(ctx_, *repository_, /*look=*/true, kMemory, scope)->packs_found, 1);
}

// Most of a large index lies in a scratch file: it takes what memory there is, whatever its size.
TEST_F(ResumeTest, AnIndexLargerThanTheMemoryIsUsedAllTheSame) {
  constexpr int kBlobs = 20'000;
  repository::BlobWriter writer(ctx_, *repository_, {});
  for (int i = 0; i < kBlobs; ++i) {
    const std::string text = absl::StrCat("blob ", i);
    ASSERT_THAT(writer.AddBlob(BlobType::kData, Id::Of(text), text), IsOk());
  }
  ASSERT_THAT(writer.Flush(), IsOk());
  constexpr int64_t kRoom = kBlobs * 48 / 10;
  const std::unique_ptr<Repository> next = Open();
  const auto answer = FindUnfinished(ctx_, *next, /*look=*/true, kRoom);
  ASSERT_THAT(answer, IsOk());
  ASSERT_EQ(answer->known, &next->index());
  EXPECT_EQ(answer->memory_bytes_missing, 0);
  EXPECT_GT(next->scratch().peak_bytes(), 0);
  EXPECT_LE(next->index().memory_bytes(), kRoom);
  EXPECT_THAT(support::Contains(next->index(), {BlobType::kData, Id::Of("blob 12345")}),
              IsOkAndHolds(true));
}

// Rather a blob twice than a process that is killed for its memory.
TEST_F(ResumeTest, AnIndexOfWhichNotEvenThePacksFitIsLeftAlone) {
  StoreWithoutIndex("lost");
  for (const int64_t memory_bytes : {0, 50}) {
    const std::unique_ptr<Repository> next = Open();
    const auto answer = FindUnfinished(ctx_, *next, /*look=*/true, memory_bytes);
    ASSERT_THAT(answer, IsOk());
    EXPECT_EQ(answer->known, nullptr);
    EXPECT_GT(answer->memory_bytes_missing, 0);
    EXPECT_EQ(next->index().memory_bytes(), 0);
  }
  store_.SetObject("index/" + std::string(64, 'a'), std::string(100'000, 'x'));
  const auto answer = FindUnfinished(ctx_, *Open(), /*look=*/true, 2'000);
  ASSERT_THAT(answer, IsOk()) << "what is certainly too large is not loaded, and this is no index";
  EXPECT_EQ(answer->known, nullptr);
}

TEST_F(ResumeTest, AStoreThatDoesNotListIsAnError) {
  store_.AddFault({.operation = StoreOperation::kList,
                   .key_prefix = "",
                   .last_call = 1'000'000,
                   .status = absl::PermissionDeniedError("403")});
  EXPECT_THAT(FindUnfinished(ctx_, *repository_, /*look=*/true, kMemory),
              StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST_F(ResumeTest, TheEndOfARunLeavesAMarkOrTakesItAway) {
  RecordEnd(ctx_, *repository_, {}, /*finished=*/true);
  EXPECT_FALSE(HasMark());
  RecordEnd(ctx_, *repository_, {}, /*finished=*/false);
  EXPECT_TRUE(HasMark());
  // The mark of a run that failed meanwhile: this run did not use what that one stored.
  RecordEnd(ctx_, *repository_, {.marked = false}, /*finished=*/true);
  EXPECT_TRUE(HasMark());
  RecordEnd(ctx_, *repository_, {.marked = true}, /*finished=*/true);
  EXPECT_FALSE(HasMark());
}

TEST_F(ResumeTest, ARunThatWasStoppedLeavesItsMark) {
  std::stop_source stop;
  stop.request_stop();
  CallContext stopped = ctx_;
  stopped.stop = stop.get_token();
  stopped.deadline = -absl::InfiniteDuration();
  MarkUnfinished(stopped, *repository_);
  EXPECT_FALSE(HasMark()) << "with this context nothing is written";
  RecordEnd(stopped, *repository_, {}, /*finished=*/false);
  EXPECT_TRUE(HasMark());
}

}  // namespace
}  // namespace csidelta::engine::resume_test
