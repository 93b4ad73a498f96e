// What the kit asks of a service, and how it takes the answers: a service that lists images exactly
// passes, whichever of the answers that the rules allow it gives.
#include "conformance/examiner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "conformance/volume_file.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/status_matchers.h"

namespace csidelta::conformance::examiner_test {
namespace {

using support::IsOk;
using testing::IsEmpty;
using testing::Not;

constexpr int64_t kVolumeBytes = 1 << 20;
constexpr char kForeign[] = "of another volume";

// Lists which sectors of images differ, and refuses a start at the volume's end.
class ImageLister : public Lister {
 public:
  absl::string_view name() const override { return "Images"; }
  bool in_pages() const override { return false; }

  Answer Ask(const CallContext& ctx, const Pair& pair, int64_t from_bytes,
             int64_t results_max) override {
    EXPECT_TRUE(pair.delta || pair.base.empty()) << "only a delta has a base";
    const absl::Status refusal = Refuse(pair);
    if (!refusal.ok()) {
      return {.listing = {.messages = {}, .end = refusal}};
    }
    const VolumeFile image = *VolumeFile::Open(images[pair.target], /*writable=*/false);
    if (from_bytes < 0 || from_bytes >= image.size_bytes()) {
      return {.listing = {.messages = {}, .end = absl::OutOfRangeError("not in the volume")}};
    }
    const std::string base = pair.delta ? images[pair.base] : "";
    const auto differing = DifferingExtents(ctx, base, images[pair.target]);
    Answer answer;
    for (const Extent& extent : *differing) {
      if (extent.end_bytes() > from_bytes) {
        Add(extent, image.size_bytes(), results_max, answer.listing);
      }
    }
    return answer;
  }

  std::map<std::string, std::string> images;  // by snapshot id

 private:
  absl::Status Refuse(const Pair& pair) const {
    if (pair.target.empty() || (pair.delta && pair.base.empty())) {
      return absl::InvalidArgumentError("an argument is missing");
    }
    if (pair.base == kForeign) {
      return absl::InvalidArgumentError("two volumes");
    }
    const bool known = images.contains(pair.target) && (!pair.delta || images.contains(pair.base));
    return known ? absl::OkStatus() : absl::NotFoundError("no such snapshot");
  }

  static void Add(const Extent& extent, int64_t capacity_bytes, int64_t results_max,
                  Listing& listing) {
    if (listing.messages.empty() ||
        (results_max != 0 && std::ssize(listing.messages.back().tuples) == results_max)) {
      listing.messages.push_back({.type = BlockType::kVariable,
                                  .capacity_bytes = capacity_bytes,
                                  .tuples = {},
                                  .wire_bytes = 0});
    }
    listing.messages.back().tuples.push_back({extent});
  }
};

class ExaminerTest : public testing::Test {
 protected:
  ExaminerTest() {
    fixtures_.foreign_snapshot_id = kForeign;
    fixtures_.generations = {Add("g0", kVolumeBytes, {}), Add("g1", kVolumeBytes, {0, 5000, 70000}),
                             Add("g2", kVolumeBytes, {0, 70000, kVolumeBytes - 1}),
                             Add("g3", kVolumeBytes, {0, 70000, kVolumeBytes - 1}),
                             Add("g4", 2 * kVolumeBytes, {0, kVolumeBytes + 1})};
    fixtures_.clone = Add("clone", kVolumeBytes, {0, 600, 70000, kVolumeBytes - 1});
  }

  // A snapshot of a volume that has ones at these offsets.
  SnapshotFixture Add(const std::string& id, int64_t size_bytes, const std::vector<int64_t>& ones) {
    VolumeFile image = *VolumeFile::Create(absl::StrCat(folder_.path(), "/", id), size_bytes);
    for (const int64_t at : ones) {
      EXPECT_THAT(image.Write(at, std::vector<uint8_t>{1}), IsOk());
    }
    lister_.images[id] = image.path();
    return {.snapshot_id = id, .image = image.path(), .size_bytes = size_bytes};
  }

  // "subject: rule: what is wrong" of each failure.
  CheckResultSink Failures(std::vector<std::string>& failures) {
    return [this, &failures](const CheckResult& result) {
      ++results_;
      if (result.verdict == Verdict::kFail) {
        failures.push_back(absl::StrCat(result.subject, ": ", result.rule, ": ", result.detail));
      }
    };
  }

  const support::ScratchFolder folder_;
  CallContext ctx_;
  ImageLister lister_;
  SnapshotFixtures fixtures_;
  int results_ = 0;
};

TEST_F(ExaminerTest, AServiceThatRefusesAStartAtTheEndPasses) {
  std::vector<std::string> failures;
  EXPECT_THAT(Examine(ctx_, lister_, fixtures_, Failures(failures)), IsOk());
  EXPECT_THAT(failures, IsEmpty());
  EXPECT_GT(results_, 50);
}

TEST_F(ExaminerTest, ADeletedBaseIsUnknownOrStillListedInFull) {
  std::vector<std::string> failures;
  EXPECT_THAT(ExamineDeletedBase(ctx_, lister_, fixtures_, Failures(failures)), IsOk());
  EXPECT_THAT(failures, IsEmpty());
  lister_.images.erase("g1");
  EXPECT_THAT(ExamineDeletedBase(ctx_, lister_, fixtures_, Failures(failures)), IsOk());
  EXPECT_THAT(failures, IsEmpty());
  lister_.images["g1"] = lister_.images["g2"];
  EXPECT_THAT(ExamineDeletedBase(ctx_, lister_, fixtures_, Failures(failures)), IsOk());
  EXPECT_THAT(failures, Not(IsEmpty())) << "an empty list";
}

}  // namespace
}  // namespace csidelta::conformance::examiner_test
