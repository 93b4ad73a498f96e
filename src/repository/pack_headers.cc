#include "repository/pack_headers.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/crypto.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "repository/maintenance_memory.h"
#include "repository/pack_reader.h"
#include "repository/parallel.h"
#include "repository/sealer.h"

namespace csidelta::repository {

namespace {

constexpr int64_t kPieceBytes = int64_t{4} << 20;
// A piece; or a header of as many entries as our packs have, in three forms.
constexpr int64_t kBytesPerThread = int64_t{6} << 20;

// Whether a pack hashes to its name.
absl::Status Prove(const CallContext& ctx, storage::ObjectStore& store, const FileInfo& pack) {
  Sha256Hasher hasher;
  for (int64_t at = 0; at < pack.size_bytes; at += kPieceBytes) {
    ASSIGN_OR_RETURN(const std::string piece,
                     store.GetRange(ctx, PackKey(pack.id),
                                    {.offset_bytes = at,
                                     .length_bytes = std::min(kPieceBytes, pack.size_bytes - at)}));
    hasher.Update(piece);
  }
  return Id(hasher.Finish()) == pack.id
             ? absl::OkStatus()
             : absl::DataLossError(
                   absl::StrCat("pack ", pack.id.ShortHex(), " does not hash to its name"));
}

absl::StatusOr<std::vector<PackEntry>> ReadOne(const CallContext& ctx, const Repository& repository,
                                               const FileInfo& pack, PackProof proof) {
  if (proof == PackProof::kWhole) {
    RETURN_IF_ERROR(Prove(ctx, repository.store(), pack));
  }
  Sealer sealer(repository.master_key(), *repository.environment().random);
  return ReadPackHeader(ctx, repository.store(), pack.id, pack.size_bytes, sealer);
}

}  // namespace

absl::Status ReadPackHeaders(const CallContext& ctx, const Repository& repository,
                             absl::Span<const FileInfo> packs, PackProof proof,
                             PackHeaderSink sink) {
  Mutex mutex;
  ASSIGN_OR_RETURN(const ThreadRoom room, TakeThreadRoom(repository.memory(), kBytesPerThread,
                                                         "reading the headers of packs"));
  return ParallelFor(packs.size(), room.threads, [&](std::size_t i) -> absl::Status {
    RETURN_IF_ERROR(ctx.Check());
    const FileInfo& pack = packs[i];
    absl::StatusOr<std::vector<PackEntry>> entries = ReadOne(ctx, repository, pack, proof);
    const MutexLock lock(mutex);
    return sink(pack, std::move(entries));
  });
}

}  // namespace csidelta::repository
