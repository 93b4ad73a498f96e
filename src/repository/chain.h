#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "repository/blob.h"
#include "repository/repo_snapshot.h"
#include "repository/repository.h"

// The snapshots of one volume, each made on the one before it, and how the last one is found
// without reading all there are: what was read of a snapshot once is noted down beside the
// sidecars, by its id, which is the hash of its file. So a note is true of that id for ever. What
// is listed and not noted is read; without notes, everything is.
namespace csidelta::repository {

inline constexpr char kChainNotesKey[] = "aux/v1/chains";
// So many snapshots without a note may stay so; when more had to be read, they are noted down.
inline constexpr std::size_t kUnnotedMax = 1;

// What there is to know of a snapshot.
struct ChainNote {
  Id id;
  Id chain;  // as ChainOf() says; null for what is none of a volume, or does not read
  std::optional<Id> parent;
  absl::Time time;

  friend bool operator==(const ChainNote&, const ChainNote&) = default;
};

// SHA-256 of host and paths.
Id ChainOf(const std::string& hostname, const std::vector<std::string>& paths);

// Binary before compression and sealing, little-endian: "CSDC", u32 version 2, u32 notes; per note
// 32 bytes of snapshot, of chain and of parent (zeros: none), u64 seconds since 1970 in two's
// complement, u32 nanoseconds.
std::string EncodeChainNotes(const std::vector<ChainNote>& notes);
// INVALID_ARGUMENT when malformed.
absl::StatusOr<std::vector<ChainNote>> DecodeChainNotes(absl::string_view bytes);

// The snapshot of a volume that a new one should build on: the newest that no other one builds on,
// and that is not dated in the future where there is another; nullopt when none exists. One that
// does not read is passed over, a stranger's or damage: it is given to `damaged` and noted down, so
// that it is read and told of once.
absl::StatusOr<std::optional<StoredSnapshot>> FindChainEnd(
    const CallContext& ctx, Repository& repository, const Id& chain,
    const DamagedSnapshotSink& damaged = [](const Id&, const absl::Status&) {});

}  // namespace csidelta::repository
