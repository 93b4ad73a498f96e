#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include <string>

#include "repository/blob_writer.h"
#include "tests/repository/repository_fixture.h"
#include "tests/support/unproven.h"

// A compressor that makes a good frame of something else. The linker puts it before zstd's.
namespace {
bool compressor_lies = false;
}

extern "C" {
size_t __real_ZSTD_compress2(ZSTD_CCtx* context, void* to, size_t room, const void* from,
                             size_t size);
size_t __wrap_ZSTD_compress2(ZSTD_CCtx* context, void* to, size_t room, const void* from,
                             size_t size) {
  std::string bytes(static_cast<const char*>(from), size);
  if (compressor_lies && size > 0) {
    bytes[size / 2] = static_cast<char>(bytes[size / 2] ^ 1);
  }
  return __real_ZSTD_compress2(context, to, room, bytes.data(), size);
}
}  // extern "C"

namespace csidelta::repository::lying_memory_test {
namespace {

using support::IsOk;
using support::Noise;
using support::Prose;
using support::StatusIs;

// Nothing leaves that would not come back.
class LyingMemoryTest : public RepositoryFixture {
 protected:
  LyingMemoryTest() : repository_(Init()), before_(store_.objects()) {}
  ~LyingMemoryTest() override { compressor_lies = false; }

  void ExpectNothingLeaves(BlobType type, const Id& id, const std::string& bytes) {
    BlobWriter writer(ctx_, *repository_, {});
    EXPECT_THAT(writer.AddBlob(type, id, bytes), StatusIs(absl::StatusCode::kDataLoss));
    EXPECT_THAT(writer.Flush(), StatusIs(absl::StatusCode::kDataLoss));
    EXPECT_EQ(store_.objects(), before_);
  }

  std::unique_ptr<Repository> repository_;
  const std::map<std::string, std::string> before_;
};

TEST_F(LyingMemoryTest, ACompressorThatLiesIsCaught) {
  compressor_lies = true;
  for (const BlobType type : {BlobType::kData, BlobType::kTree}) {
    const std::string blob = Prose(100'000, 1);
    ExpectNothingLeaves(type, Id::Of(blob), blob);
  }
  RepoSnapshot snapshot;
  snapshot.tree = Id::Of("x");
  EXPECT_THAT(repository_->SaveSnapshot(ctx_, snapshot, support::Unproven()),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_EQ(store_.objects(), before_);
  compressor_lies = false;
  EXPECT_THAT(repository_->SaveSnapshot(ctx_, snapshot, support::Unproven()), IsOk());
}

TEST_F(LyingMemoryTest, ABitThatFlipsAfterTheHashIsCaught) {
  for (const std::string& blob : {Prose(20'000, 1), Noise(20'000, 1)}) {
    for (std::size_t at = 0; at < blob.size(); at += 1999) {
      std::string flipped = blob;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 8));
      ExpectNothingLeaves(BlobType::kData, Id::Of(blob), flipped);
    }
  }
}

}  // namespace
}  // namespace csidelta::repository::lying_memory_test
