#include "datamover/turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/sweep_sample.h"

namespace csidelta::datamover::turns_test {
namespace {

using testing::HasSubstr;

const absl::Time kStart = absl::FromUnixSeconds(1'700'000'000);

Mover Make(const std::string& name, const std::string& space, const std::string& volume, int age,
           bool moves = false, const std::string& storage_class = "") {
  return {.uid = absl::StrCat("uid-", name),
          .name = absl::StrCat("DataUpload velero/", name),
          .volume = absl::StrCat(space, "/", volume),
          .source_namespace = space,
          .storage_class = storage_class,
          .since = kStart - absl::Seconds(age),
          .moves = moves};
}

TurnLimits Limits(int all, std::map<std::string, int> per_class = {}) {
  return {.moves_max = all, .moves_per_class_max = std::move(per_class)};
}

TEST(TurnsTest, OneVolumeIsMovedByOneAtATimeInTheOrderOfAge) {
  std::vector<Mover> movers = {Make("young", "a", "data", 1), Make("old", "a", "data", 3),
                               Make("middle", "a", "data", 2)};
  EXPECT_EQ(WaitsFor(movers, "uid-old", Limits(9)), "");
  EXPECT_THAT(WaitsFor(movers, "uid-middle", Limits(9)), HasSubstr("velero/old"));
  movers[0].moves = true;  // Whoever moves goes on, whatever its age.
  EXPECT_EQ(WaitsFor(movers, "uid-young", Limits(9)), "");
  EXPECT_THAT(WaitsFor(movers, "uid-old", Limits(9)), HasSubstr("velero/young"));
}

TEST(TurnsTest, ANamespaceWithManyVolumesKeepsNobodyWaiting) {
  std::vector<Mover> movers;
  for (int i = 0; i < 100; ++i) {
    movers.push_back(Make(absl::StrCat("big-", i), "big", absl::StrCat(i), 1000 - i));
  }
  movers.push_back(Make("small", "small", "data", 0));
  EXPECT_EQ(WaitsFor(movers, "uid-small", Limits(2)), "");
  EXPECT_EQ(WaitsFor(movers, "uid-big-0", Limits(2)), "");
  EXPECT_THAT(WaitsFor(movers, "uid-big-1", Limits(2)), HasSubstr("at most 2 volumes"));
  // One of its own moves already: the other's turn comes first.
  movers[0].moves = true;
  EXPECT_EQ(WaitsFor(movers, "uid-small", Limits(2)), "");
  EXPECT_NE(WaitsFor(movers, "uid-big-1", Limits(2)), "");
}

TEST(TurnsTest, AFullClassKeepsOthersNotWaiting) {
  const TurnLimits limits = Limits(9, {{"slow", 1}});
  const std::vector<Mover> movers = {Make("a", "a", "1", 9, true, "slow"),
                                     Make("b", "b", "2", 8, false, "slow"),
                                     Make("c", "c", "3", 7, false, "fast")};
  EXPECT_THAT(WaitsFor(movers, "uid-b", limits),
              testing::AllOf(HasSubstr("slow"), HasSubstr("at most 1")));
  EXPECT_EQ(WaitsFor(movers, "uid-c", limits), "");
}

TEST(TurnsTest, WhatWasGivenIsKeptWhateverIsHeardLate) {
  TurnTable table(Limits(1));
  EXPECT_NE(table.TakeTurn("uid-a"), "");  // Nobody knows it.
  table.Put(Make("a", "a", "1", 1));
  EXPECT_EQ(table.TakeTurn("uid-a"), "");
  table.Put(Make("older", "b", "2", 2));
  table.Put(Make("a", "a", "1", 1));  // As it was before.
  EXPECT_NE(table.TakeTurn("uid-older"), "");
  EXPECT_EQ(table.TakeTurn("uid-a"), "");
  EXPECT_EQ(table.counts().moving, 1);
  EXPECT_EQ(table.counts().waiting, 1);
  table.Remove("uid-a");
  EXPECT_EQ(table.TakeTurn("uid-older"), "");
}

// Random crowds, worked off to the end.
class CrowdTest : public testing::TestWithParam<unsigned> {
 protected:
  int Pick(int below) {
    return static_cast<int>(std::uniform_int_distribution<>(0, below - 1)(random_));
  }

  const support::SweepSample sample_;
  std::mt19937 random_{static_cast<unsigned>(sample_.seed()) * 20 + GetParam()};
  const TurnLimits limits_ = Limits(1 + Pick(5), {{"class0", 1 + Pick(3)}});
  TurnTable table_{limits_};
};

TEST_P(CrowdTest, LimitsHoldAndEverybodyComesToItsTurn) {
  std::map<std::string, Mover> waiting;
  std::map<std::string, Mover> moving;
  for (int i = 0; i < 30; ++i) {
    const Mover mover = Make(absl::StrCat("m", i), absl::StrCat("ns", Pick(4)),
                             absl::StrCat("v", Pick(5)), -i, false, absl::StrCat("class", Pick(3)));
    table_.Put(mover);
    waiting.emplace(mover.uid, mover);
  }
  int rounds = 0;
  while (!waiting.empty() || !moving.empty()) {
    ASSERT_LT(++rounds, 1000) << "nobody gets on";
    std::vector<std::string> uids;
    for (const auto& [uid, mover] : waiting) {
      uids.push_back(uid);
    }
    std::shuffle(uids.begin(), uids.end(), random_);
    for (const std::string& uid : uids) {
      if (table_.TakeTurn(uid).empty()) {
        moving.insert(waiting.extract(uid));
      }
    }
    ASSERT_FALSE(moving.empty()) << "somebody could always begin";
    ASSERT_LE(moving.size(), static_cast<std::size_t>(limits_.moves_max));
    std::map<std::string, int> volumes;
    int of_class = 0;
    for (const auto& [uid, mover] : moving) {
      ASSERT_EQ(++volumes[mover.volume], 1) << mover.volume;
      of_class += mover.storage_class == "class0" ? 1 : 0;
      for (const auto& [other_uid, other] : waiting) {
        ASSERT_FALSE(other.volume == mover.volume && other.since < mover.since)
            << other.name << " is older than " << mover.name;
      }
    }
    ASSERT_LE(of_class, limits_.moves_per_class_max.at("class0"));
    const auto done = std::next(moving.begin(), Pick(static_cast<int>(moving.size())));
    table_.Remove(done->first);
    moving.erase(done);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, CrowdTest, testing::Range(0U, 20U));

}  // namespace
}  // namespace csidelta::datamover::turns_test
