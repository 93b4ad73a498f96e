#include "datamover/worker/deletion_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/rfc3339.h"
#include "objects/data_deletion.h"
#include "tests/support/fake_clock.h"
#include "tests/support/typed.h"

namespace csidelta::datamover::deletion_queue_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class DeletionQueueTest : public testing::Test {
 protected:
  // One in the repository of `volume`, made `age` ago; its uid is its name.
  objects::DataDeletion Make(const std::string& name, char volume, int age_seconds,
                             const Json& status = Json::object(), int version = 1) const {
    return support::As<objects::DataDeletion>(
        {{"metadata",
          {{"name", name},
           {"namespace", "velero"},
           {"uid", name},
           {"resourceVersion", absl::StrCat(version)},
           {"creationTimestamp", FormatRfc3339(clock_.Now() - absl::Seconds(age_seconds))}}},
         {"spec",
          {{"backupStorageLocation", "default"},
           {"snapshotID",
            absl::StrCat("csi-delta/1/c2000000-0000-4000-8000-000000000002/shop/", "v",
                         std::string(1, volume), "/", Digits(name), "/0123456789abcdef")}}},
         {"status", status}});
  }
  static std::string Digits(const std::string& name) {
    return absl::StrCat(std::string(63, '0'), name.substr(name.size() - 1));
  }
  Json WaitingUntil(absl::Duration wait) const {
    return {{"phase", "Waiting"},
            {"trouble", "Failed"},
            {"troubleSince", FormatRfc3339(clock_.Now())},
            {"nextAttemptTimestamp", FormatRfc3339(clock_.Now() + wait)}};
  }

  support::FakeClock clock_;
  std::vector<std::string> woken_;
  DeletionQueue queue_{2, clock_,
                       [this](const DeletionQueue::Name& name) { woken_.push_back(name.name); }};
};

TEST_F(DeletionQueueTest, TheOldestOfARepositoryLeadsAndHasAllOthersInItsBatch) {
  queue_.Put(Make("d2", 'a', 1));
  queue_.Put(Make("d1", 'a', 2));
  queue_.Put(Make("d3", 'b', 3));
  EXPECT_FALSE(queue_.Lead("d2"));
  EXPECT_THAT(woken_, ElementsAre("d3", "d1"));
  EXPECT_TRUE(queue_.Lead("d1"));
  EXPECT_TRUE(queue_.Lead("d1")) << "it still does";
  EXPECT_THAT(queue_.Batch("d1"), ElementsAre(objects::ForgetItem{.snapshot_id = Digits("d1")},
                                              objects::ForgetItem{.snapshot_id = Digits("d2")}));
  EXPECT_THAT(queue_.Others("d1", queue_.Batch("d1")), SizeIs(1));
  EXPECT_THAT(queue_.Batch("nothing"), IsEmpty());
}

TEST_F(DeletionQueueTest, TheRepositoryThatWaitsLongestIsNext) {
  queue_.Put(Make("d1", 'a', 1));
  queue_.Put(Make("d2", 'b', 4));
  queue_.Put(Make("d3", 'c', 3));
  queue_.Put(Make("d4", 'd', 2));
  EXPECT_FALSE(queue_.Lead("d1"));
  EXPECT_TRUE(queue_.Lead("d2"));
  EXPECT_TRUE(queue_.Lead("d3"));
  EXPECT_FALSE(queue_.Lead("d4"));
  woken_.clear();
  queue_.Put(Make("d3", 'c', 3, {{"phase", "InProgress"}}, 2));
  EXPECT_THAT(woken_, IsEmpty());
  queue_.Put(Make("d3", 'c', 3, {{"phase", "Completed"}}, 3));
  EXPECT_THAT(woken_, ElementsAre("d4"));
  EXPECT_FALSE(queue_.Lead("d1"));
  EXPECT_TRUE(queue_.Lead("d4"));
}

TEST_F(DeletionQueueTest, OneThatIsTriedAgainLaterHoldsItsRepositoryBackAndNoOther) {
  queue_.Put(Make("d1", 'a', 9, WaitingUntil(absl::Minutes(1))));
  queue_.Put(Make("d2", 'a', 1));
  queue_.Put(Make("d3", 'b', 1));
  EXPECT_FALSE(queue_.Lead("d2"));
  EXPECT_TRUE(queue_.Lead("d3"));
  clock_.Advance(absl::Minutes(1));
  EXPECT_FALSE(queue_.Lead("d2"));
  EXPECT_TRUE(queue_.Lead("d1"));
  EXPECT_THAT(queue_.Batch("d1"), SizeIs(2));
}

TEST_F(DeletionQueueTest, WhereTheOldestIsWithdrawnTheNextIsWoken) {
  queue_.Put(Make("d1", 'a', 9, WaitingUntil(absl::Minutes(1))));
  queue_.Put(Make("d2", 'a', 1));
  EXPECT_FALSE(queue_.Lead("d2"));
  queue_.Remove("d1");
  EXPECT_THAT(woken_, ElementsAre("d2"));
  EXPECT_TRUE(queue_.Lead("d2"));
  queue_.Remove("d2");
  EXPECT_FALSE(queue_.Lead("d2"));
}

TEST_F(DeletionQueueTest, AnOlderVersionThatAnInformerDeliversLateIsIgnored) {
  queue_.Put(Make("d1", 'a', 9, {{"phase", "InProgress"}}, 5));
  queue_.Put(Make("d2", 'a', 1));
  queue_.Put(Make("d1", 'a', 9, Json::object(), 4));
  EXPECT_FALSE(queue_.Lead("d2"));
  EXPECT_TRUE(queue_.Lead("d1"));
}

TEST_F(DeletionQueueTest, AfterARestartThoseInProgressLeadAlthoughThereAreMoreThanWorkers) {
  for (const char* name : {"d1", "d2", "d3"}) {
    queue_.Put(Make(name, name[1], 1, {{"phase", "InProgress"}}));
    EXPECT_TRUE(queue_.Lead(name));
  }
  queue_.Put(Make("d4", '4', 9));
  EXPECT_FALSE(queue_.Lead("d4"));
}

TEST_F(DeletionQueueTest, WhatIsBeingDeletedOrNamesNothingOfCsiDeltaNeverLeads) {
  Json json = Make("d1", 'a', 9).json();
  json["metadata"]["deletionTimestamp"] = FormatRfc3339(clock_.Now());
  queue_.Put(support::As<objects::DataDeletion>(json));
  queue_.Put(Make("d2", '/', 9));
  EXPECT_FALSE(queue_.Lead("d1"));
  EXPECT_FALSE(queue_.Lead("d2"));
}

TEST_F(DeletionQueueTest, ABatchHasAnEnd) {
  for (int i = 0; i < 600; ++i) {
    Json json = Make(absl::StrCat("d", i), 'a', 1000 - i).json();
    json["spec"]["snapshotID"] =
        absl::StrCat("csi-delta/1/c2000000-0000-4000-8000-000000000002/shop/va/",
                     absl::Hex(i, absl::kZeroPad16), std::string(48, '0'), "/0123456789abcdef");
    queue_.Put(support::As<objects::DataDeletion>(json));
  }
  ASSERT_TRUE(queue_.Lead("d0"));
  EXPECT_THAT(queue_.Batch("d0"), SizeIs(objects::kForgetItemsMax));
}

}  // namespace
}  // namespace csidelta::datamover::deletion_queue_test
