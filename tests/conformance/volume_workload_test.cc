// What is written between snapshots, and how the bytes of volumes are compared.
#include "conformance/volume_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "conformance/volume_file.h"
#include "tests/support/scratch_folder.h"

namespace csidelta::conformance::story_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kVolumeBytes = 4 << 20;

TEST(VolumeWorkloadTest, StepsAreWholeBlocksOfTheVolumeAndTheSameForTheSameSeed) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    for (const int generation : {1, 2, 4}) {
      const std::vector<Step> steps = StepsOf({seed, generation}, kVolumeBytes);
      const std::vector<Step> again = StepsOf({seed, generation}, kVolumeBytes);
      ASSERT_EQ(steps.size(), again.size());
      for (std::size_t i = 0; i < steps.size(); ++i) {
        EXPECT_EQ(steps[i].extent, again[i].extent);
        EXPECT_TRUE(IsWellFormed(steps[i].extent));
        EXPECT_EQ(steps[i].extent.offset_bytes % kStepBytes, 0);
        EXPECT_EQ(steps[i].extent.length_bytes % kStepBytes, 0);
        EXPECT_LE(steps[i].extent.end_bytes(), kVolumeBytes);
      }
    }
  }
}

// A report names its seed: with it, the same is written on another day, by another version.
TEST(VolumeWorkloadTest, WhatASeedWritesStaysTheSame) {
  const std::vector<Step> steps = StepsOf({7, 2}, kVolumeBytes);
  EXPECT_EQ(steps[0].extent, (Extent{2875392, 8192}));
  EXPECT_EQ(steps[1].extent, (Extent{2867200, 8192}));
  EXPECT_EQ(steps[2].extent, (Extent{118784, 49152}));
  EXPECT_EQ(steps[3].extent, (Extent{225280, 4096}));
  std::vector<uint8_t> bytes(12);
  FillPattern({7, 2}, kStepBytes, absl::MakeSpan(bytes));
  EXPECT_THAT(bytes,
              ElementsAre(0xC1, 0, 0x24, 0xB0, 0xAF, 0x5E, 0x44, 0xDC, 0xF7, 0x9C, 0x72, 0xC5));
}

TEST(VolumeWorkloadTest, TheFirstGenerationWritesTheFirstAndTheLastBlock) {
  std::vector<Extent> written;
  for (const Step& step : StepsOf({1, 1}, kVolumeBytes)) {
    EXPECT_EQ(step.kind, StepKind::kWrite);
    written.push_back(step.extent);
  }
  written = MergeExtents(std::move(written));
  EXPECT_EQ(written.front().offset_bytes, 0);
  EXPECT_EQ(written.back().end_bytes(), kVolumeBytes);
}

TEST(VolumeWorkloadTest, LaterGenerationsWriteZerosAndDiscardToo) {
  const std::vector<Step> steps = StepsOf({1, 2}, kVolumeBytes);
  for (const StepKind kind : {StepKind::kWrite, StepKind::kZero, StepKind::kDiscard}) {
    EXPECT_TRUE(std::any_of(steps.begin(), steps.end(),
                            [kind](const Step& step) { return step.kind == kind; }));
  }
}

TEST(VolumeWorkloadTest, PatternsOfTwoGenerationsDiffer) {
  std::vector<uint8_t> first(kStepBytes);
  std::vector<uint8_t> second(kStepBytes);
  FillPattern({1, 1}, kStepBytes, absl::MakeSpan(first));
  FillPattern({1, 2}, kStepBytes, absl::MakeSpan(second));
  EXPECT_NE(first, second);
  FillPattern({1, 1}, 2 * kStepBytes, absl::MakeSpan(second));
  EXPECT_NE(first, second);
}

class VolumeFileTest : public testing::Test {
 protected:
  std::string Image(const std::string& name, int64_t size_bytes,
                    const std::vector<int64_t>& ones) const {
    VolumeFile image = *VolumeFile::Create(folder_.path() + "/" + name, size_bytes);
    for (const int64_t at : ones) {
      EXPECT_TRUE(image.Write(at, std::vector<uint8_t>{1}).ok());
    }
    return image.path();
  }

  const support::ScratchFolder folder_;
  CallContext ctx_;
};

TEST_F(VolumeFileTest, SectorsThatDifferAreFoundByteByByte) {
  const std::string base = Image("base", 3 << 20, {0, 5000});
  const std::string target = Image("target", (3 << 20) + 100, {0, (1 << 20) - 1, (3 << 20) + 99});
  EXPECT_THAT(*DifferingExtents(ctx_, base, target),
              ElementsAre(Extent{4608, 512}, Extent{(1 << 20) - 512, 512}, Extent{3 << 20, 100}));
  EXPECT_THAT(*DifferingExtents(ctx_, target, target), IsEmpty());
}

TEST_F(VolumeFileTest, WithoutABaseWhatIsNotZeroDiffers) {
  const std::string target = Image("target", 1 << 20, {600});
  EXPECT_THAT(*DifferingExtents(ctx_, "", target), ElementsAre(Extent{512, 512}));
}

TEST_F(VolumeFileTest, ACopyHasEveryByte) {
  const std::string from = Image("from", (2 << 20) + 7, {0, (2 << 20) + 6});
  const std::string to = folder_.path() + "/to";
  ASSERT_TRUE(CopyToImage(ctx_, from, to).ok());
  EXPECT_EQ(std::filesystem::file_size(to), (2U << 20) + 7);
  EXPECT_THAT(*DifferingExtents(ctx_, from, to), IsEmpty());
}

TEST_F(VolumeFileTest, ReadsUpToTheEndAndNotPastIt) {
  const VolumeFile image = *VolumeFile::Open(Image("image", 4096, {4095}), /*writable=*/false);
  std::vector<uint8_t> last(1);
  ASSERT_TRUE(image.Read(4095, absl::MakeSpan(last)).ok());
  EXPECT_EQ(last[0], 1);
  std::vector<uint8_t> bytes(2);
  EXPECT_TRUE(absl::IsOutOfRange(image.Read(4095, absl::MakeSpan(bytes))));
}

TEST_F(VolumeFileTest, AFileTakesNoDiscard) {
  VolumeFile image = *VolumeFile::Create(folder_.path() + "/image", 1 << 20);
  EXPECT_TRUE(absl::IsUnimplemented(image.Discard({0, 4096})));
}

}  // namespace
}  // namespace csidelta::conformance::story_test
