// What the parts of a backup cost, each alone: hashing, sealing, zero test, extents, index.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/crypto.h"
#include "base/extent.h"
#include "base/random.h"
#include "incremental/mover/aligned_buffer.h"
#include "repository/blob_codec.h"
#include "repository/index.h"
#include "repository/sealer.h"

namespace csidelta {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{512} << 10;
constexpr int64_t kExtents = 10'000;
constexpr int64_t kPacks = 1000;
constexpr int64_t kBlobsInPack = 64;

std::string RandomText(std::size_t bytes) {
  std::string text(bytes, '\0');
  SecureRandom::Real().Fill({reinterpret_cast<uint8_t*>(text.data()), text.size()});
  return text;
}

void CountBytes(benchmark::State& state, std::size_t bytes) {
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
}

void HashOne(benchmark::State& state) {
  const std::string chunk = RandomText(kChunkBytes);
  for (auto _ : state) {
    benchmark::DoNotOptimize(Sha256(chunk));
  }
  CountBytes(state, kChunkBytes);
}
BENCHMARK(HashOne);

void HashTwo(benchmark::State& state) {
  const std::string first = RandomText(kChunkBytes);
  const std::string second = RandomText(kChunkBytes);
  for (auto _ : state) {
    benchmark::DoNotOptimize(Sha256OfTwo(first, second));
  }
  CountBytes(state, 2 * kChunkBytes);
}
BENCHMARK(HashTwo);

void Seal(benchmark::State& state) {
  repository::Sealer sealer({}, SecureRandom::Real());
  const std::string chunk = RandomText(kChunkBytes);
  for (auto _ : state) {
    benchmark::DoNotOptimize(sealer.Seal(chunk));
  }
  CountBytes(state, kChunkBytes);
}
BENCHMARK(Seal);

// All that happens to a new chunk: compress, seal, open, decompress, both hashes of the way back.
void StoreChunk(benchmark::State& state) {
  repository::BlobCodec codec({}, 1, SecureRandom::Real());
  const std::string chunk = RandomText(kChunkBytes);
  const repository::BlobHandle handle = {.type = repository::BlobType::kData,
                                         .id = repository::BlobId::Of(chunk)};
  Sha256Hasher pack_hasher;
  repository::ByteBuffer pack;
  for (auto _ : state) {
    pack.Truncate(0);
    const auto compressed = codec.Compress(handle, chunk);
    CSIDELTA_CHECK(compressed.ok() && codec.AppendSealed(*compressed, pack, pack_hasher).ok());
  }
  CountBytes(state, kChunkBytes);
}
BENCHMARK(StoreChunk);

void ZeroTest(benchmark::State& state) {
  const std::string zeros(kChunkBytes, '\0');
  for (auto _ : state) {
    benchmark::DoNotOptimize(incremental::IsZero(zeros));
  }
  CountBytes(state, kChunkBytes);
}
BENCHMARK(ZeroTest);

void MergeAndSubtract(benchmark::State& state) {
  std::vector<Extent> many;
  std::vector<Extent> others;
  for (int64_t i = 0; i < kExtents; ++i) {
    many.push_back({i * 8192, 6000});
    others.push_back({i * 8192 + 1000, 500});
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(SubtractExtents(MergeExtents(many), others));
  }
  state.SetItemsProcessed(state.iterations() * kExtents);
}
BENCHMARK(MergeAndSubtract);

repository::BlobId NumberedId(int64_t number) {
  std::array<uint8_t, 32> bytes{};
  std::memcpy(bytes.data(), &number, sizeof(number));
  return repository::BlobId::Of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void LookUp(benchmark::State& state) {
  repository::ScratchSpace scratch({});
  repository::BlobIndexBuilder builder(scratch);
  for (int64_t pack = 0; pack < kPacks; ++pack) {
    repository::IndexedPack listed{.id = NumberedId(-pack - 1), .entries = {}};
    for (int64_t blob = 0; blob < kBlobsInPack; ++blob) {
      listed.entries.push_back(
          {.handle = {repository::BlobType::kData, NumberedId(pack * kBlobsInPack + blob)},
           .span = {.offset_bytes = static_cast<uint32_t>(blob * 100), .sealed_bytes = 100}});
    }
    CSIDELTA_CHECK(builder.AddPack(listed).ok());
  }
  const absl::StatusOr<repository::BlobIndex> index = builder.Build();
  CSIDELTA_CHECK(index.ok());
  std::vector<repository::BlobHandle> wanted;
  for (int64_t i = 0; i < kPacks; ++i) {
    wanted.push_back({repository::BlobType::kData, NumberedId(i * 61)});
  }
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(index->Find(wanted[next++ % wanted.size()]));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(LookUp);

}  // namespace
}  // namespace csidelta

BENCHMARK_MAIN();
