// The largest volume through the client of snapshot metadata into chunks: what it costs in memory.
// With CSI_DELTA_SWEEP=all sixteen million extents, else so many that a list of them in memory, of
// eight bytes for each, would be more than is allowed.
#include <gtest/gtest.h>

#include <optional>

#include "incremental/mover/chunk_plan.h"
#include "incremental/sources/csi_metadata_source.h"
#include "tests/support/fake_metadata_server.h"
#include "tests/support/memory_growth.h"
#include "tests/support/metadata_cluster.h"
#include "tests/support/sanitized.h"
#include "tests/support/status_matchers.h"
#include "tests/support/sweep_sample.h"

namespace csidelta::incremental::large_listing_test {
namespace {

using repository::VolumeLayout;
using support::FakeMetadataServer;
using support::IsOk;
using support::ServedMessage;
using support::ServedQuery;
using support::ServedStream;

constexpr int64_t kVolumeBytes = int64_t{64} << 40;
constexpr int64_t kChunkBytes = 1 << 20;
constexpr int64_t kPerMessage = 4096;
constexpr int64_t kMessagesMax = 4096;
constexpr int64_t kMessagesInShort = 2048;  // Divides the volume into whole chunks.
constexpr int64_t kMessagesBefore = 8;      // the growth is measured
// A ledger has two bits for each chunk.
constexpr int64_t kLedgerBytes = kVolumeBytes / kChunkBytes / 4;
constexpr int64_t kGrowthMax = (int64_t{32} << 20) + kLedgerBytes;
static_assert(8 * (kMessagesInShort - kMessagesBefore) * kPerMessage > kGrowthMax * 5 / 4);

// Extents that lie evenly in the whole volume, each of a chunk's length across the border of two.
absl::Status ServeScattered(int64_t messages, const ServedQuery& query, ServedStream& stream) {
  const int64_t distance_bytes = kVolumeBytes / (messages * kPerMessage);
  ServedMessage message{.capacity_bytes = kVolumeBytes, .tuples = {}};
  message.tuples.resize(kPerMessage);
  for (int64_t i = 0; query.starting_offset_bytes == 0 && i < messages; ++i) {
    for (int64_t j = 0; j < kPerMessage; ++j) {
      message.tuples[static_cast<std::size_t>(j)] = {
          (i * kPerMessage + j) * distance_bytes + kChunkBytes / 2, kChunkBytes};
    }
    stream.Send(message);
  }
  return absl::OkStatus();
}

TEST(LargeListingTest, SixtyFourTebibytesInMillionsOfExtentsAreChunksInLittleMemory) {
  const support::SweepSample sample;
  const int64_t messages = sample.is_everything() ? kMessagesMax : kMessagesInShort;
  support::MetadataCluster cluster;
  support::TestAuthority authority;
  const FakeMetadataServer server(authority.IssueServer("IP:127.0.0.1"),
                                  [messages](const ServedQuery& query, ServedStream& stream) {
                                    return ServeScattered(messages, query, stream);
                                  });
  cluster.Advertise(server.address(), authority.ca_pem());
  csi::AudienceTokens tokens(cluster.api, {});
  CsiMetadataSource source(cluster.api, tokens, Random::Real(), {});
  const VolumeLayout layout = *VolumeLayout::Make(kVolumeBytes, kChunkBytes);
  ChunkLedger ledger(layout);
  const auto record = [&ledger](const Level1Plan& plan) {
    ledger.Record(plan);
    return absl::OkStatus();
  };
  ChunkPlanner planner(layout, layout, record);
  int64_t extents = 0;
  std::optional<support::MemoryGrowth> growth;
  ASSERT_THAT(
      source.ListExtents(cluster.Context(),
                         {.base = "handle-old", .target = "app/new", .size_bytes = kVolumeBytes},
                         [&](const ListedExtent& listed) {
                           if (++extents == kMessagesBefore * kPerMessage) {
                             growth.emplace();
                           }
                           return planner.Add(listed);
                         }),
      IsOk());
  ASSERT_THAT(planner.Finish(), IsOk());
  EXPECT_EQ(extents, messages * kPerMessage);
  int64_t chunks = 0;
  for (int64_t leaf = 0; leaf < layout.leaf_count(); ++leaf) {
    chunks += ledger.CountInLeaf(leaf, ChunkState::kRead);
  }
  EXPECT_EQ(chunks, 2 * extents);
  ASSERT_TRUE(growth.has_value());
  RecordProperty("growth_bytes", static_cast<int>(growth->bytes()));
  if (support::AssertsUnsanitized("millions of extents become chunks in 32 MiB and a ledger")) {
    EXPECT_LT(growth->bytes(), kGrowthMax);
  }
}

}  // namespace
}  // namespace csidelta::incremental::large_listing_test
