#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "repository/blob.h"
#include "repository/repository.h"
#include "repository/volume_layout.h"

namespace csidelta::incremental {

struct JournalEntry {
  uint32_t chunk = 0;
  repository::BlobId id;

  friend auto operator<=>(const JournalEntry&, const JournalEntry&) = default;
};

// What is older is not resumed, and neither is what a clock dates as far ahead: the longer ago
// something was read, the more may have happened to its source.
inline constexpr absl::Duration kJournalAgeMax = absl::Hours(7 * 24);

// One file of the journal, as a value.
struct JournalFile {
  absl::Time read_at;  // when the first of the chunks was read; whole seconds
  std::vector<JournalEntry> entries;

  friend bool operator==(const JournalFile&, const JournalFile&) = default;
};

// The text of a file: "CSDJ", u32 version 3, u64 size of the volume, u32 of a chunk, i64 seconds
// since 1970 of read_at, then per entry u32 chunk and 32 bytes of id; little-endian.
std::string EncodeJournal(const repository::VolumeLayout& layout, const JournalFile& file);
// INVALID_ARGUMENT when malformed, of another version, or of a volume with another layout.
absl::StatusOr<JournalFile> DecodeJournal(const repository::VolumeLayout& layout,
                                          absl::string_view bytes);

struct JournalSizes {
  int64_t entries_per_file = 4096;
  // So much that was stored, and what is under way, a run that is killed reads again.
  int64_t step_bytes = int64_t{32} << 20;
};

// What runs that did not finish have read of a source that does not change, so that the
// next one need not read it again: sidecars aux/v1/run-<SHA-256 of the identity>/<random>, which
// open nowhere else. Those of versions 1 and 2 were not bound to their name, and are not read. An
// entry is worth something only where the index has the blob, and for kJournalAgeMax. Best effort
// throughout: what is not noted is read again.
//
// With each step the file that grows is stored again, and what it replaces goes, so that there are
// few files however large the volume.
//
// Load() first; then Note() by many threads, and Find(), which knows what Load() found. Does not
// own the repository.
class ChunkJournal {
 public:
  // `identity` names the source, and changes when its content does.
  ChunkJournal(repository::Repository& repository, absl::string_view identity,
               const repository::VolumeLayout& layout, const JournalSizes& sizes);

  // Whether a run with this identity left files.
  static bool Exists(const CallContext& ctx, const repository::Repository& repository,
                     absl::string_view identity);

  // The blobs that files of this identity name, sorted; as many as fit into `memory_bytes_max`.
  static std::vector<repository::BlobId> Blobs(const CallContext& ctx,
                                               const repository::Repository& repository,
                                               absl::string_view identity,
                                               int64_t memory_bytes_max);

  // Takes up what is there, up to `memory_bytes_max`, and removes what is too old.
  void Load(const CallContext& ctx, int64_t memory_bytes_max);

  // Of what Load() found.
  int64_t memory_bytes() const {
    return static_cast<int64_t>(found_.capacity() * sizeof(JournalEntry));
  }

  // Nothing that was found is true: what is in memory and in the store of it goes. Not beside other
  // calls.
  void Forget(const CallContext& ctx);

  // Null where unknown.
  const repository::BlobId* Find(int64_t chunk) const;

  // Notes a chunk that was read, and whether that made something to store; stores the file that
  // grows when enough have come together.
  void Note(const CallContext& ctx, int64_t chunk, const repository::BlobId& id, bool is_new);

  // Stores what was noted since.
  void Flush(const CallContext& ctx);

  // Removes all files of this identity: the backup is there.
  void Remove(const CallContext& ctx);

 private:
  bool IsFull() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::ssize(noted_) >= sizes_.entries_per_file;
  }

  repository::Repository& repository_;
  const std::string folder_;
  const repository::VolumeLayout layout_;
  const JournalSizes sizes_;
  std::vector<JournalEntry> found_;  // by chunk
  Mutex mutex_;
  absl::Time noted_since_ ABSL_GUARDED_BY(mutex_);           // when the first of noted_ was
  std::vector<JournalEntry> noted_ ABSL_GUARDED_BY(mutex_);  // of the file that grows
  int64_t new_bytes_ ABSL_GUARDED_BY(mutex_) = 0;            // since the last step
  Mutex store_mutex_;                                        // taken before mutex_
  std::string stored_key_ ABSL_GUARDED_BY(store_mutex_);     // of the file that grows
};

}  // namespace csidelta::incremental
