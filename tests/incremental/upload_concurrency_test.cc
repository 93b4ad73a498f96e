// How many packs really travel at the same time, by what a backup may use. No clock decides: every
// put of a pack waits until as many travel as the plan says.
#include <gtest/gtest.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "repository/repository.h"
#include "tests/incremental/volume_fixture.h"
#include "tests/support/pack_meeting.h"
#include "tests/support/watched_store.h"

namespace csidelta::incremental::upload_concurrency_test {
namespace {

using support::FakeBlockDevice;
using support::IsOk;
using support::PackMeeting;
using support::WatchedStore;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kVolumeBytes = 64 * kMiB;

UploadOptions Options(int64_t budget_bytes, int cores) {
  UploadOptions options = VolumeFixture::Options();
  options.memory = {.budget_bytes = budget_bytes,
                    .chunk_bytes = VolumeFixture::kChunk,
                    .cores = cores,
                    .pack_bytes_max = repository::kPackTargetBytesRemote,
                    .uploads_in_flight_max = 32};
  options.audit_first_chunks = 0;
  return options;
}

class UploadConcurrencyTest : public testing::Test {
 protected:
  UploadConcurrencyTest() { device_.Store(0, RandomBytes(kVolumeBytes, 1)); }

  // A full backup into a repository of its own, of which `wanted` packs travel at the same time.
  int MostInFlight(const UploadOptions& options, int wanted) {
    VolumeFixture volume;
    WatchedStore watched(volume.store());
    const PackMeeting meeting(watched, wanted);
    auto repository = repository::Repository::Open(volume.ctx(), watched, "password", {});
    EXPECT_THAT(repository, IsOk());
    FullScanSource source;
    SeededRandom random(1);
    const auto result = UploadBlocks(volume.ctx(), **repository, device_, source, random, options);
    EXPECT_THAT(result, IsOk());
    EXPECT_EQ(result.ok() ? result->uploads_in_flight : 0, wanted);
    return meeting.most();
  }

  FakeBlockDevice device_{kVolumeBytes};
};

// What was once seen: 64 cores had 22 workers, each with a pack of its own, and one upload.
TEST_F(UploadConcurrencyTest, FollowsMemoryAndNotCores) {
  int before = 0;
  for (const int64_t budget : {96 * kMiB, 140 * kMiB}) {
    const int uploads = PlanMemory(Options(budget, 1).memory).value().uploads_in_flight;
    EXPECT_GT(uploads, before);
    for (const int cores : {1, 2, 8, 64}) {
      EXPECT_EQ(MostInFlight(Options(budget, cores), uploads), uploads)
          << absl::StrCat(budget >> 20, " MiB, cores: ", cores);
    }
    before = uploads;
  }
}

}  // namespace
}  // namespace csidelta::incremental::upload_concurrency_test
