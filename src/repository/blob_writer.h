#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "repository/blob.h"
#include "repository/id_set.h"
#include "repository/index.h"
#include "repository/lock.h"
#include "repository/pack_writer.h"
#include "repository/repository.h"
#include "repository/request_window.h"
#include "repository/stored_packs.h"

namespace csidelta::repository {

class BlobWriter;

struct BlobWriterOptions {
  int data_compression_level = kDataCompressionLevel;
  int64_t pack_target_bytes = kPackTargetBytesLocal;
  int64_t pack_entries_target = kPackEntriesTarget;
  // Packs of data that are open at a time, however many callers fill them; one of trees besides.
  int open_packs_max = 4;
  // Packs that travel at a time, each with a thread of its own. While so many do, a pack that is
  // full waits where it was filled, and its callers with it.
  int uploads_in_flight_max = 4;
  // Blobs in here are not written again; may be null.
  std::shared_ptr<StoredBlobs> known = nullptr;
  // Ids written by this writer that it remembers, so as not to write them twice; beyond it,
  // duplicates may be written, which is legal.
  int64_t remembered_blobs_max = 1'000'000;
  int64_t index_blobs_target = kIndexBlobsTarget;
  LockFence fence = nullptr;  // of SaveIndex(); a look of late is good enough
  // Called after each pack that was stored, by the thread that stored it. Must not add blobs.
  std::function<void(const BlobWriter& writer)> on_stored = nullptr;
};

struct BlobWriterCounts {
  int64_t data_blobs = 0;
  int64_t tree_blobs = 0;
  int64_t plaintext_bytes = 0;  // Of new blobs, both types.
  int64_t packed_bytes = 0;     // Sealed bytes of new blobs.
  int64_t packs = 0;            // Uploaded.
  int64_t stored_bytes = 0;     // Packs and indexes, as put.
  int64_t waiting_bytes = 0;    // Sealed bytes of new blobs in packs that are not stored yet.
  int64_t index_files = 0;
  int packs_held_max = 0;  // In memory at a time: open, full, or travelling.
};

struct TreeLocation {
  BlobId tree;  // Or the data blob.
  BlobLocation location;
};

// Writes blobs: compresses, seals and verifies them in the caller's thread, collects them in packs
// (data and trees apart), uploads full packs with threads of its own, and lists them in an index
// file every index_blobs_target blobs. An index file is written only after all its packs are
// stored.
//
// Callers share the open packs: each compresses for itself, then waits for a pack to seal into. So
// memory does not follow their number: at most open_packs_max + 1 + uploads_in_flight_max packs of
// pack_target_bytes and the blob that closes one, and three blobs for each caller.
//
// AddBlob() may be called by many threads; Flush() once, after the last of them. The first error
// ends the writer: it is what every later call returns. Destroying a writer that was not flushed
// stops its uploads; packs that are stored already are found by AdoptOrphanPacks().
class BlobWriter {
 public:
  // The deadline and stop token of `ctx` are those of all uploads.
  BlobWriter(const CallContext& ctx, Repository& repository, const BlobWriterOptions& options);
  ~BlobWriter();

  // True when the blob was new to this writer, false when it is known already and nothing was done.
  // `id` is SHA-256 of `plaintext`. `frame` is what that was compressed to before, which saves
  // doing so. Blocks while every pack that it could go into is in use or full.
  absl::StatusOr<bool> AddBlob(BlobType type, const BlobId& id, absl::string_view plaintext,
                               absl::Span<const uint8_t> frame = {});

  // The same for a blob that another pack of this repository holds, as it lies there: nothing is
  // compressed or sealed again. REQUIRES that the caller has just decoded `envelope`, from the same
  // memory; what changes on the way from there is refused by the store, as bytes that do not hash
  // to the pack's name.
  absl::StatusOr<bool> AddSealed(const PackEntry& entry, absl::string_view envelope);

  // Whether a blob need not be added.
  bool IsKnown(const BlobHandle& handle) const {
    const MutexLock lock(mutex_);
    return written_.contains(handle) || IsStored(handle);
  }

  // From now on what `known` has need not be written. Instead of BlobWriterOptions::known; not
  // while blobs are added.
  void UseKnown(std::shared_ptr<StoredBlobs> known) {
    const MutexLock lock(mutex_);
    known_ = std::move(known);
  }
  StoredBlobs* known() const {
    const MutexLock lock(mutex_);
    return known_.get();
  }

  // Has tree_locations() list also this data blob, which is added later.
  void RememberLocation(const BlobId& data_blob) {
    const MutexLock lock(mutex_);
    placed_data_.insert(data_blob);
  }

  // Lists what is stored so far in an index file, so that the next run finds it: for a run that is
  // about to be stopped, which is why it takes a context of its own. Works after an error.
  absl::Status Checkpoint(const CallContext& ctx) { return WriteIndex(ctx, TakePending()); }

  // Uploads all open packs, looks for every pack of this writer, then writes the last index. After
  // OK every blob added is durable and listed. DATA_LOSS when the store does not have a pack that
  // it took.
  absl::Status Flush();

  BlobWriterCounts counts() const {
    const MutexLock lock(mutex_);
    return counts_;
  }

  // Adds the packs and the index files that this writer put. Once, after Flush().
  absl::Status TakeStored(IdSetBuilder& packs, IdSetBuilder& index_files);

  // Where the trees went that this writer wrote, and the blobs of RememberLocation(). After
  // Flush().
  const std::vector<TreeLocation>& tree_locations() const { return places_; }

 private:
  struct OpenPack;

  // The open packs of one type.
  struct OpenPacks {
    int made_max = 1;
    int made = 0;
    std::vector<std::unique_ptr<OpenPack>> free;  // The last is taken first.
    std::condition_variable_any freed;
  };

  static int64_t EntriesOf(const PackBuilder& builder) { return std::ssize(builder.entries()); }

  // Whether two begun packs may become one.
  bool FitTogether(const PackBuilder& one, const PackBuilder& other) const;

  bool IsStored(const BlobHandle& handle) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return known_ != nullptr && known_->Find(handle).has_value();
  }

  // Whether the blob has to be written.
  bool Remember(const BlobHandle& handle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Does `add` for a blob that is not stored yet.
  absl::StatusOr<bool> AddIfNew(const BlobHandle& handle, absl::FunctionRef<absl::Status()> add);

  // Has one blob added to an open pack. If that is full then, it goes before its place is given
  // back: so there are never more packs than places and uploads.
  absl::Status Fill(BlobType type, absl::FunctionRef<absl::Status(PackBuilder&)> add);
  absl::Status FinishPack(PackBuilder& builder);

  // The pack that was used last, so that few callers leave few open ones. Blocks while all are in
  // use.
  absl::StatusOr<std::unique_ptr<OpenPack>> TakePack(BlobType type);

  OpenPacks& PacksOf(BlobType type) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return open_packs_[static_cast<std::size_t>(type)];
  }

  std::unique_ptr<BlobCodec> MakeCodec() const {
    return repository_.MakeCodec(options_.data_compression_level);
  }

  // As many are made as there are callers at a time.
  std::unique_ptr<BlobCodec> TakeCodec();
  void CountBlob(const PackEntry& entry);
  absl::Status SetError(const absl::Status& status);

  // Blocks while as many packs travel as may.
  absl::Status Enqueue(Pack pack);

  // The next one to store; nothing once this writer has failed or is stopped.
  std::optional<Pack> NextToStore();
  void UploadLoop();
  absl::Status Upload(Pack& pack);

  // Notes a stored pack, and writes an index when enough have come together.
  absl::Status List(Pack& pack);
  std::vector<IndexedPack> TakePending();
  absl::Status WriteIndex(const CallContext& ctx, std::vector<IndexedPack> packs);
  absl::Status FinishOpenPacks();

  // Few packs out of several begun ones: those that fit together become one.
  absl::Status FinishPacks(std::vector<std::unique_ptr<OpenPack>>& packs);
  absl::Status AwaitUploads();
  absl::Status Await(MutexLock& lock, std::condition_variable_any& changed,
                     absl::FunctionRef<bool()> is_due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Repository& repository_;
  const BlobWriterOptions options_;
  std::stop_source stop_;
  const std::stop_token outer_stop_;
  const std::stop_callback<std::function<void()>> on_outer_stop_{outer_stop_,
                                                                 [this] { stop_.request_stop(); }};
  CallContext ctx_;  // Stops with the caller's, and with this writer.

  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<StoredBlobs> known_ ABSL_GUARDED_BY(mutex_) = options_.known;
  // By mutex_ until Flush() has awaited all that add:
  PutPacks put_packs_;
  IdSorter packs_;
  std::vector<Id> index_files_;
  std::vector<TreeLocation> places_;
  absl::flat_hash_set<BlobHandle> written_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<BlobId> placed_data_ ABSL_GUARDED_BY(mutex_);
  std::array<OpenPacks, 2> open_packs_ ABSL_GUARDED_BY(mutex_);  // By type.
  std::vector<std::unique_ptr<BlobCodec>> free_codecs_ ABSL_GUARDED_BY(mutex_);
  std::vector<ByteBuffer> buffers_ ABSL_GUARDED_BY(mutex_);  // Of packs that are stored.
  std::deque<Pack> queue_ ABSL_GUARDED_BY(mutex_);
  int uploads_ ABSL_GUARDED_BY(mutex_) = 0;  // Packs in queue_ and on their way.
  int puts_ ABSL_GUARDED_BY(mutex_) = 0;     // Of these, on their way.
  RequestWindow window_ ABSL_GUARDED_BY(mutex_);
  int packs_held_ ABSL_GUARDED_BY(mutex_) = 0;  // These and the open ones that hold a blob.
  std::vector<IndexedPack> pending_ ABSL_GUARDED_BY(mutex_);  // Stored, in no index yet.
  int64_t pending_blobs_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration pending_since_ ABSL_GUARDED_BY(mutex_);
  BlobWriterCounts counts_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::jthread> uploaders_;
};

// Packs that are stored and in no index: those of a run that died, or of one that is at work and
// has not come to its index file yet. Reads them and writes an index for those that are what their
// names say; returns how many. With `only_with`, which is sorted, only for those that hold one of
// these blobs; of the others no more than the header is read. `fence` is that of SaveIndex().
// REQUIRES a loaded index, which is then loaded again.
absl::StatusOr<int64_t> AdoptOrphanPacks(const CallContext& ctx, Repository& repository,
                                         const LockFence& fence,
                                         const std::vector<BlobId>* only_with = nullptr);

}  // namespace csidelta::repository
