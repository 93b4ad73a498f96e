// Fills a repository with a volume that is not there: all metadata as a backup leaves it, and packs
// of the right length without content. For what depends on the size of the index: check, prune, and
// loading it.
//
//   generate_repository REPOSITORY ENTRIES [CHUNKS_PER_PACK]    with its password in RESTIC_PASSWORD
//
// With CHUNKS_PER_PACK (a power of two up to 512) the packs of chunks have no files:
// seeded_store.py serves them by their numbers.
//
// Two snapshots of one volume, of chunks of 256 KiB. In every eighth level-1 tree the second has
// other chunks in two leaves, in packs of their own: without the first, those of the first are of
// no use.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "base/worker_pool.h"
#include "repository/blob_writer.h"
#include "repository/pack_reader.h"
#include "repository/repository.h"
#include "repository/volume_layout.h"
#include "storage/file_object_store.h"
#include "tests/support/unproven.h"

namespace csidelta::repository {
namespace {

constexpr int64_t kChunkBytes = kChunkBytesMin;
constexpr int64_t kChunksPerPack = 512;   // Two leaves.
constexpr int64_t kChangeEvery = 8;       // Level-1 trees.
constexpr int64_t kChangedFirstLeaf = 2;  // Leaves 2 and 3: the second pack.
constexpr std::size_t kThreads = 2;

// Numbers that look like hashes, from a seed (xorshift64*).
class Ids {
 public:
  explicit Ids(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15U + 1) {}

  Id Next() {
    std::array<uint8_t, Id::kBytes> bytes;
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(uint64_t)) {
      state_ ^= state_ >> 12;
      state_ ^= state_ << 25;
      state_ ^= state_ >> 27;
      const uint64_t number = state_ * 0x2545F4914F6CDD1DU;
      std::memcpy(bytes.data() + i, &number, sizeof(number));
    }
    return Id(bytes);
  }

 private:
  uint64_t state_;
};

// The id of a pack by its number; seeded_store.py computes the same.
PackId SeededPackId(uint64_t number) {
  constexpr uint64_t kFactors[] = {1, 0xBF58476D1CE4E5B9U, 0x94D049BB133111EBU,
                                   0xD6E8FEB86659FD93U};
  const uint64_t first = (number + 1) * 0x9E3779B97F4A7C15U;
  std::array<uint8_t, Id::kBytes> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const uint64_t word = first * kFactors[i / sizeof(uint64_t)];
    bytes[i] = static_cast<uint8_t>(word >> (56 - 8 * (i % sizeof(uint64_t))));
  }
  return Id(bytes);
}

class Generator {
 public:
  Generator(const CallContext& ctx, Repository& repository, std::string folder,
            int64_t level1_count, int64_t seeded_chunks_per_pack)
      : ctx_(ctx),
        repository_(repository),
        folder_(std::move(folder)),
        seeded_chunks_per_pack_(seeded_chunks_per_pack),
        writer_(ctx, repository, Options()),
        level1_trees_{std::vector<BlobId>(static_cast<std::size_t>(level1_count)),
                      std::vector<BlobId>(static_cast<std::size_t>(level1_count))} {}

  absl::Status Run() {
    ::mkdir(absl::StrCat(folder_, "/data").c_str(), 0700);
    RETURN_IF_ERROR(ParallelFor(level1_trees_[0].size(), kThreads,
                                [this](std::size_t i) { return MakeLevel1(i); }));
    std::vector<RepoSnapshot> snapshots;
    for (const std::vector<BlobId>& trees : level1_trees_) {
      ASSIGN_OR_RETURN(RepoSnapshot snapshot, MakeRoot(trees));
      snapshots.push_back(std::move(snapshot));
    }
    RETURN_IF_ERROR(writer_.Flush());
    for (std::size_t i = 0; i < snapshots.size(); ++i) {
      snapshots[i].time = ctx_.clock->Now() - absl::Hours(24 * (2 - static_cast<int>(i)));
      RETURN_IF_ERROR(repository_.SaveSnapshot(ctx_, snapshots[i], support::Unproven()).status());
    }
    std::printf("{\"entries\":%lld,\"packs\":%lld}\n", static_cast<long long>(entries_),
                static_cast<long long>(packs_));
    return absl::OkStatus();
  }

 private:
  static BlobWriterOptions Options() {
    BlobWriterOptions options;
    options.remembered_blobs_max = 0;
    return options;
  }

  absl::StatusOr<BlobId> AddTree(const std::string& text) {
    const BlobId id = Id::Of(text);
    RETURN_IF_ERROR(writer_.AddBlob(BlobType::kTree, id, text).status());
    return id;
  }

  // A pack with new chunks, and its file, which holds nothing.
  absl::StatusOr<IndexedPack> MakePack(Ids& ids) {
    IndexedPack pack = {.id = ids.Next(), .entries = {}};
    for (int64_t i = 0; i < kChunksPerPack; ++i) {
      constexpr int64_t kSealedBytes = kChunkBytes + kEnvelopeBytes;
      pack.entries.push_back({.handle = {.type = BlobType::kData, .id = ids.Next()},
                              .span = {.offset_bytes = static_cast<uint32_t>(i * kSealedBytes),
                                       .sealed_bytes = kSealedBytes}});
    }
    if (seeded_chunks_per_pack_ > 0) {
      return pack;
    }
    const std::string path = absl::StrCat(folder_, "/", PackKey(pack.id));
    ::mkdir(path.substr(0, path.rfind('/')).c_str(), 0700);
    const int fd = ::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0400);
    if (fd < 0 || ::ftruncate(fd, PackBytes(pack.entries)) != 0) {
      return absl::InternalError(absl::StrCat("cannot make ", path));
    }
    ::close(fd);
    return pack;
  }

  // Lists the chunks of a pack; without files they are in many.
  void List(IndexedPack pack, std::vector<IndexedPack>& packs) {
    if (seeded_chunks_per_pack_ == 0) {
      packs.push_back(std::move(pack));
      return;
    }
    const auto each = static_cast<std::size_t>(seeded_chunks_per_pack_);
    for (std::size_t first = 0; first < pack.entries.size(); first += each) {
      IndexedPack part = {.id = SeededPackId(next_pack_++), .entries = {}};
      for (std::size_t i = 0; i < each; ++i) {
        part.entries.push_back(pack.entries[first + i]);
        part.entries.back().span.offset_bytes = pack.entries[i].span.offset_bytes;
      }
      packs.push_back(std::move(part));
    }
  }

  absl::StatusOr<BlobId> MakeLeaf(const IndexedPack& pack, std::size_t half) {
    std::vector<BlobId> chunks;
    for (std::size_t i = 0; i < kLeafChunks; ++i) {
      chunks.push_back(pack.entries[half * kLeafChunks + i].handle.id);
    }
    return AddTree(EncodeLeafTree(chunks, kLeafChunks * kChunkBytes));
  }

  absl::Status MakeLevel1(std::size_t level1) {
    Ids ids(level1 + 1);
    std::vector<IndexedPack> packs;
    std::vector<BlobId> leaves;
    for (int64_t leaf = 0; leaf < kFanout; leaf += 2) {
      ASSIGN_OR_RETURN(IndexedPack pack, MakePack(ids));
      for (const std::size_t half : {0, 1}) {
        ASSIGN_OR_RETURN(const BlobId tree, MakeLeaf(pack, half));
        leaves.push_back(tree);
      }
      List(std::move(pack), packs);
    }
    ASSIGN_OR_RETURN(level1_trees_[0][level1], AddTree(EncodeLevel1Tree(leaves)));
    level1_trees_[1][level1] = level1_trees_[0][level1];
    if (level1 % kChangeEvery == 0) {
      ASSIGN_OR_RETURN(IndexedPack pack, MakePack(ids));
      for (const std::size_t half : {0, 1}) {
        ASSIGN_OR_RETURN(leaves[kChangedFirstLeaf + half], MakeLeaf(pack, half));
      }
      List(std::move(pack), packs);
      ASSIGN_OR_RETURN(level1_trees_[1][level1], AddTree(EncodeLevel1Tree(leaves)));
    }
    for (const IndexedPack& pack : packs) {
      entries_ += std::ssize(pack.entries);
    }
    packs_ += static_cast<int64_t>(packs.size());
    return repository_.SaveFile(ctx_, FileKind::kIndex, EncodeIndex(packs)).status();
  }

  absl::StatusOr<RepoSnapshot> MakeRoot(const std::vector<BlobId>& level1_trees) {
    VolumeManifest manifest;
    manifest.size_bytes = static_cast<int64_t>(level1_trees.size()) * kLevel1Chunks * kChunkBytes;
    manifest.chunk_bytes = kChunkBytes;
    ASSIGN_OR_RETURN(manifest.image_tree, AddTree(EncodeImageTree(level1_trees)));
    const std::string json = EncodeManifest(manifest);
    RETURN_IF_ERROR(writer_.AddBlob(BlobType::kData, Id::Of(json), json).status());
    RepoSnapshot snapshot;
    ASSIGN_OR_RETURN(snapshot.tree, AddTree(EncodeRootTree(manifest.image_tree, Id::Of(json),
                                                           static_cast<int64_t>(json.size()))));
    snapshot.paths = {"/generated"};
    snapshot.hostname = "generated";
    snapshot.tags = {"vol-uid=generated", "mode=block"};
    return snapshot;
  }

  const CallContext& ctx_;
  Repository& repository_;
  const std::string folder_;
  const int64_t seeded_chunks_per_pack_;
  std::atomic<uint64_t> next_pack_ = 0;
  BlobWriter writer_;
  std::array<std::vector<BlobId>, 2> level1_trees_;  // Per snapshot.
  std::atomic<int64_t> entries_ = 0;
  std::atomic<int64_t> packs_ = 0;
};

absl::Status Generate(const std::string& folder, int64_t entries, int64_t chunks_per_pack) {
  const char* password = std::getenv("RESTIC_PASSWORD");
  if (password == nullptr) {
    return absl::InvalidArgumentError("RESTIC_PASSWORD is not set");
  }
  CallContext ctx;
  storage::FileObjectStore store(folder, Random::Real());
  const int64_t level1_count = std::max<int64_t>(1, entries / kLevel1Chunks);
  ASSIGN_OR_RETURN(const std::unique_ptr<Repository> repository,
                   Repository::Open(ctx, store, password, {}));
  return Generator(ctx, *repository, folder, level1_count, chunks_per_pack).Run();
}

}  // namespace
}  // namespace csidelta::repository

int main(int argc, char** argv) {
  const int64_t chunks_per_pack = argc == 4 ? std::atoll(argv[3]) : 0;
  if (argc < 3 || argc > 4 ||
      (argc == 4 &&
       (chunks_per_pack < 1 || csidelta::repository::kChunksPerPack % chunks_per_pack != 0))) {
    std::fprintf(stderr, "generate_repository REPOSITORY ENTRIES [CHUNKS_PER_PACK]\n");
    return 2;
  }
  const absl::Status status =
      csidelta::repository::Generate(argv[1], std::atoll(argv[2]), chunks_per_pack);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  return 0;
}
