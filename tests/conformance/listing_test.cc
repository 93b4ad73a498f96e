// What is said of a list of blocks: one rule each, in lists that break nothing else.
#include "conformance/listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace csidelta::conformance::listing_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kVolumeBytes = 1 << 20;
constexpr int64_t kFarOffset = std::numeric_limits<int64_t>::max() - 1;
const Question kWhole{.volume_bytes = kVolumeBytes};

Message Blocks(const std::vector<Extent>& extents, BlockType type = BlockType::kFixed) {
  Message message{.type = type, .capacity_bytes = kVolumeBytes, .tuples = {}};
  for (const Extent& extent : extents) {
    message.tuples.push_back({extent});
  }
  return message;
}

std::vector<std::string> Broken(const Listing& listing, const Question& question = kWhole) {
  std::vector<std::string> rules;
  for (const CheckResult& result : CheckForm("it", listing, question)) {
    EXPECT_FALSE(RuleText(result.rule).empty());
    if (result.verdict == Verdict::kFail) {
      EXPECT_FALSE(result.detail.empty());
      rules.push_back(result.rule);
    }
  }
  return rules;
}

TEST(ListingTest, AGoodListBreaksNothing) {
  EXPECT_THAT(Broken({{Blocks({{0, 4096}, {4096, 4096}}), Blocks({}), Blocks({{16384, 4096}})}}),
              IsEmpty());
  EXPECT_THAT(Broken({}), IsEmpty()) << "no message at all: nothing changed";
  EXPECT_THAT(Broken({{Blocks({{0, 512}, {512, 9000}}, BlockType::kVariable)}}), IsEmpty());
}

TEST(ListingTest, EachRuleIsBrokenAlone) {
  EXPECT_THAT(Broken({{Blocks({{4096, 4096}, {0, 4096}})}}), ElementsAre("order"));
  EXPECT_THAT(Broken({{Blocks({{4096, 4096}}), Blocks({{0, 4096}})}}), ElementsAre("order"));
  EXPECT_THAT(Broken({{Blocks({{0, 4096}}), Blocks({{2048, 4096}})}}), ElementsAre("overlap"));
  EXPECT_THAT(Broken({{Blocks({{0, 0}})}}), ElementsAre("size"));
  EXPECT_THAT(Broken({{Blocks({{-4096, 4096}})}}), ElementsAre("size"));
  EXPECT_THAT(Broken({{Blocks({{kVolumeBytes, 4096}})}}), ElementsAre("bounds"));
  EXPECT_THAT(Broken({{Blocks({{0, 4096}, {4096, 8192}})}}), ElementsAre("type"));
  EXPECT_THAT(Broken({{Blocks({{0, 4096}}, BlockType::kUnknown)}}), ElementsAre("type"));
  EXPECT_THAT(Broken({{Blocks({}), Blocks({}, BlockType::kVariable)}}), ElementsAre("type"));
  EXPECT_THAT(Broken({{Blocks({{0, 1}})}, absl::AbortedError("later")}), ElementsAre("ends-well"));
}

TEST(ListingTest, ATupleMayEndPastTheVolume) {
  EXPECT_THAT(Broken({{Blocks({{kVolumeBytes - 512, 4096}})}}), IsEmpty());
  EXPECT_THAT(Broken({{Blocks({{kFarOffset, 4096}})}}), ElementsAre("size", "bounds"));
}

TEST(ListingTest, TheCapacityStaysAndHoldsTheVolume) {
  Message larger = Blocks({});
  larger.capacity_bytes *= 2;
  EXPECT_THAT(Broken({{larger}}), IsEmpty());
  EXPECT_THAT(Broken({{Blocks({}), larger}}), ElementsAre("capacity"));
  Message smaller = Blocks({});
  smaller.capacity_bytes /= 2;
  EXPECT_THAT(Broken({{smaller}}), ElementsAre("capacity"));
}

TEST(ListingTest, AMessageHasItsLimits) {
  Question question = kWhole;
  question.results_max = 1;
  EXPECT_THAT(Broken({{Blocks({{0, 512}, {512, 512}})}}, question), ElementsAre("max-results"));
  Message large = Blocks({{0, 512}});
  large.wire_bytes = (4 << 20) + 1;
  EXPECT_THAT(Broken({{large}}), ElementsAre("max-results"));
}

TEST(ListingTest, TheFirstTupleEndsBehindTheStart) {
  Question question = kWhole;
  question.from_bytes = 4096;
  EXPECT_THAT(Broken({{Blocks({{0, 4096}, {4096, 4096}})}}, question), ElementsAre("clipping"));
  EXPECT_THAT(Broken({{Blocks({{0, 8192}})}}, question), IsEmpty()) << "it may begin before it";
}

TEST(ListingTest, WhatIsInNoTupleIsMissing) {
  const std::vector<Extent> truth = {{0, 512}, {8192, 1024}};
  const Listing whole{{Blocks({{0, 4096}, {8192, 4096}})}};
  EXPECT_EQ(CheckCoverage("it", "complete", whole, truth, kWhole).verdict, Verdict::kPass);
  const Listing half{{Blocks({{0, 4096}, {8704, 4096}})}};
  const CheckResult missing = CheckCoverage("it", "complete", half, truth, kWhole);
  EXPECT_EQ(missing.verdict, Verdict::kFail);
  EXPECT_THAT(missing.detail, HasSubstr("512 bytes"));
  EXPECT_THAT(missing.detail, HasSubstr("[8192, 8704)"));
  Question question = kWhole;
  question.from_bytes = 8704;
  EXPECT_EQ(CheckCoverage("it", "resume", half, truth, question).verdict, Verdict::kPass);
  const Listing cut{whole.messages, absl::AbortedError("later")};
  EXPECT_EQ(CheckCoverage("it", "complete", cut, truth, kWhole).verdict, Verdict::kFail);
}

}  // namespace
}  // namespace csidelta::conformance::listing_test
