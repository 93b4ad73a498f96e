#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/cipher.h"
#include "base/memory_budget.h"
#include "base/mutex.h"
#include "base/random.h"
#include "repository/blob.h"
#include "repository/blob_codec.h"
#include "repository/config.h"
#include "repository/format.h"
#include "repository/index.h"
#include "repository/key.h"
#include "repository/repo_snapshot.h"
#include "repository/scratch.h"
#include "repository/tree_locator.h"
#include "storage/object_store.h"

namespace csidelta::repository {

// What the repository code takes from around it, beside the clock of the call context. Lives longer
// than what is made with it.
struct Environment {
  SecureRandom* random = &SecureRandom::Real();
  std::string hostname = "csi-delta";  // For key files; locks have their own.
  std::string username = "csi-delta";
  ScryptParameters scrypt = kScryptWritten;  // of keys that are made
  ScratchOptions scratch;
  // What all that is opened with this may hold together. Tables get their share of it.
  MemoryBudget* memory = &MemoryBudget::Unlimited();
};

class Lock;
class SnapshotProof;

// Files that are sealed JSON of their own.
enum class FileKind { kIndex, kSnapshot, kLock };

// Which of the conditions with an exit code of their own a status stands for.
bool IsNoRepository(const absl::Status& status);
bool IsWrongPassword(const absl::Status& status);
bool IsLocked(const absl::Status& status);
// The same status, marked. For those who make one.
absl::Status AsNoRepository(absl::Status status);
absl::Status AsWrongPassword(absl::Status status);
absl::Status AsLocked(absl::Status status);

// Keys of objects.
std::string PackKey(const PackId& id);
std::string FileKey(FileKind kind, const Id& id);
std::string SidecarKey(const Id& snapshot);
// The id at the end of a key; INVALID_ARGUMENT where none is.
absl::StatusOr<Id> IdOfKey(absl::string_view key);
std::string LocatorFileKey(const Id& file);
inline constexpr char kSidecarFolder[] = "aux/v1/";
// There while packs that no index lists, and index files that were replaced, may still be deleted:
// by a client whose exclusive lock was removed for its age alone. A prune that finishes leaves
// none of them, and removes it.
inline constexpr char kMayStillDeleteKey[] = "aux/v1/may-still-delete";
inline constexpr char kLocatorFolder[] = "aux/v1/trees/";
inline constexpr char kConfigKey[] = "config";

struct FileInfo {
  Id id;
  int64_t size_bytes = 0;
  absl::Time modified_at = absl::InfinitePast();  // as storage::ObjectInfo has it
};
std::vector<Id> IdsOf(absl::Span<const FileInfo> files);

// Takes snapshots that do not read, one at a time.
using DamagedSnapshotSink = std::function<void(const Id& id, const absl::Status& why)>;

struct KeyInfo {
  Id id;
  absl::StatusOr<KeyFile>
      file;              // DATA_LOSS or INVALID_ARGUMENT: damaged, no password opens with it.
  bool current = false;  // The one that opened this repository.
};

// A restic repository of format version 2 on an object store: opens it, and loads and saves what it
// holds. Takes no locks: see lock.h. Does not retry: see storage/retrying_object_store.h.
//
// Thread-safe, but for ReloadIndex(). Does not own the store. Bytes that do not prove themselves
// are read a second time, since a gateway may have answered with a page of its own; then they are
// DATA_LOSS.
class Repository {
 public:
  // Makes a new repository. ALREADY_EXISTS when there is one, or parts of one, or when another run
  // made it at the same time: exactly one of them gets the repository, and it opens.
  static absl::StatusOr<std::unique_ptr<Repository>> Init(const CallContext& ctx,
                                                          storage::ObjectStore& store,
                                                          absl::string_view password,
                                                          const Environment& environment);

  // Opens one with any of its keys. IsNoRepository(), IsWrongPassword(). A key file that asks for
  // more memory than the budget leaves is not tried; RESOURCE_EXHAUSTED when it is the only one.
  static absl::StatusOr<std::unique_ptr<Repository>> Open(const CallContext& ctx,
                                                          storage::ObjectStore& store,
                                                          absl::string_view password,
                                                          const Environment& environment);

  // Makes `config` again where it is lost or damaged, and opens the repository. A snapshot or an
  // index file proves which key is the repository's. The id and the chunker's polynomial are new:
  // nothing that is stored depends on either. FAILED_PRECONDITION where the config opens, or
  // nothing proves a key.
  static absl::StatusOr<std::unique_ptr<Repository>> RepairConfig(const CallContext& ctx,
                                                                  storage::ObjectStore& store,
                                                                  absl::string_view password,
                                                                  const Environment& environment);

  // The same repository through `store`, without anything that was read before, and no index yet.
  std::unique_ptr<Repository> Again(storage::ObjectStore& store) const;

  // Who the keys of the repository in `store` belong to, by their files, which need no password to
  // be read; without those that are damaged, and without repetition.
  static absl::StatusOr<std::vector<std::string>> ListKeyNames(const CallContext& ctx,
                                                               storage::ObjectStore& store);

  const Config& config() const { return config_; }
  storage::ObjectStore& store() const { return store_; }
  const Environment& environment() const { return environment_; }
  MemoryBudget& memory() const { return *environment_.memory; }
  // Where tables go that memory should not hold. Of one run: it counts what it ever took.
  ScratchSpace& scratch() const { return *scratch_; }
  const SealKey& master_key() const { return master_key_; }

  // --- Keys ---
  absl::StatusOr<std::vector<KeyInfo>> ListKeys(const CallContext& ctx) const;
  absl::StatusOr<Id> AddKey(const CallContext& ctx, absl::string_view password);
  // FAILED_PRECONDITION for the key that opened this repository, and when that is gone. REQUIRES
  // that `lock` is exclusive.
  absl::Status RemoveKey(const CallContext& ctx, Lock& lock, const Id& id);
  // Adds the new one, proves it by reading it back, then removes the current one. REQUIRES that
  // `lock` is exclusive.
  absl::Status ChangePassword(const CallContext& ctx, Lock& lock, absl::string_view password);

  // --- Sealed JSON files ---
  // REQUIRES that it is no snapshot.
  absl::StatusOr<Id> SaveFile(const CallContext& ctx, FileKind kind, absl::string_view json,
                              int64_t* stored_bytes = nullptr);
  absl::StatusOr<std::string> LoadFile(const CallContext& ctx, FileKind kind, const Id& id) const;
  // Feeds `sink` what an index file lists, as it was listed by ListFiles(), while it is being
  // decompressed. Waits for its share of memory. DATA_LOSS, with its name, when it does not read;
  // an error of `sink` is returned unchanged.
  absl::Status ReadIndexFile(const CallContext& ctx, const FileInfo& file,
                             absl::FunctionRef<absl::Status(const IndexedPack&)> sink) const;
  absl::Status RemoveFile(const CallContext& ctx, FileKind kind, const Id& id);
  // Removes files with Lock::Delete(), and sees in a listing that they are gone; UNAVAILABLE
  // when one is listed even after its second removal. Those that the store refuses to delete are
  // added to `refused`; where that is null, the first is an error. Removes nothing where `ids` is
  // empty.
  absl::Status RemoveFiles(const CallContext& ctx, Lock& lock, FileKind kind,
                           absl::Span<const Id> ids, absl::FunctionRef<void()> after_each,
                           std::set<Id>* refused = nullptr);
  // Names that are not ids are left out.
  absl::StatusOr<std::vector<FileInfo>> ListFiles(const CallContext& ctx, FileKind kind) const;
  // Packs of data/, one call each; of one `folder` below it (0 ... 255), or of all.
  absl::Status ListPacks(const CallContext& ctx,
                         absl::FunctionRef<absl::Status(const FileInfo&)> sink,
                         std::optional<uint8_t> folder = std::nullopt) const;

  // --- Snapshots ---
  // Only with a proof that what it needs is stored: see CommitSnapshot().
  absl::StatusOr<Id> SaveSnapshot(const CallContext& ctx, const RepoSnapshot& snapshot,
                                  const SnapshotProof& proof, int64_t* stored_bytes = nullptr);
  absl::StatusOr<RepoSnapshot> LoadSnapshot(const CallContext& ctx, const Id& id) const;
  // All, oldest first. Each that does not read is given to `damaged`; where that is null, its error
  // is returned.
  absl::StatusOr<std::vector<StoredSnapshot>> ListSnapshots(
      const CallContext& ctx, const DamagedSnapshotSink& damaged = nullptr) const;
  // Of these, which were listed.
  absl::StatusOr<std::vector<StoredSnapshot>> LoadSnapshots(
      const CallContext& ctx, const std::vector<Id>& ids,
      const DamagedSnapshotSink& damaged = nullptr) const;
  // The one snapshot whose id begins with `prefix` (lower-case digits). NOT_FOUND, or
  // INVALID_ARGUMENT when several do.
  absl::StatusOr<StoredSnapshot> FindSnapshot(const CallContext& ctx,
                                              absl::string_view prefix) const;

  // --- Index and blobs ---
  // Reads every index file, once: later calls return at once. A file that does not read is
  // DATA_LOSS, named. Packs that two files list differently are noted, not an error. What memory
  // should not hold goes to a scratch file; its errors are this function's.
  absl::Status LoadIndex(const CallContext& ctx);
  // The same, but a file that does not read is logged and left out: a stranger may have put it
  // there, and each blob proves itself. Enough to read blobs, and to store what is not listed. What
  // deletes, or says that something is lost, needs LoadIndex().
  absl::Status LoadReadableIndex(const CallContext& ctx);
  // "" or which index files were left out, to go on a message of what was not found.
  std::string UnreadableIndexNote() const;

  // Gives back the memory of the index; it may be loaded again. Not beside other calls.
  void DropIndex();
  // LoadReadableIndex() again: for a writer that is done, so that what it wrote is found. Wants to
  // be alone.
  absl::Status ReloadIndex(const CallContext& ctx);
  // REQUIRES that LoadIndex() or LoadReadableIndex() returned OK.
  const BlobIndex& index() const { return index_; }
  const std::vector<PackId>& packs_listed_differently() const { return index_conflicts_; }
  // The files that it was made of.
  const std::vector<Id>& index_files() const { return index_files_; }

  // A codec for one thread; data_level as in BlobCodec.
  std::unique_ptr<BlobCodec> MakeCodec(int data_level = kDataCompressionLevel) const;

  // The blob, from any copy that proves itself; all are read a second time before it is called
  // damaged. REQUIRES a loaded index. NOT_FOUND when the index has none, DATA_LOSS when no copy
  // reads or has `bytes_max` bytes at most.
  absl::StatusOr<std::string> LoadBlob(const CallContext& ctx, const BlobHandle& handle,
                                       int64_t bytes_max = kTreeBlobBytesMax) const;
  // From this very copy.
  absl::StatusOr<std::string> LoadBlobAt(const CallContext& ctx, const BlobHandle& handle,
                                         const BlobLocation& location) const;
  // The tree of this id: LoadBlob(), or why `ctx` is over.
  absl::StatusOr<std::string> LoadTree(const CallContext& ctx, const BlobId& id) const;
  // A tree: at `place`, else through the index, which is loaded if need be. Thread-safe.
  absl::StatusOr<std::string> LoadTree(const CallContext& ctx, const BlobId& id,
                                       const std::optional<BlobLocation>& place,
                                       int64_t bytes_max = kTreeBlobBytesMax);
  // Sealed bytes as they are stored, all of them; proven by who decodes them.
  absl::StatusOr<std::string> LoadPackRange(const CallContext& ctx, const PackId& pack,
                                            int64_t offset_bytes, int64_t length_bytes) const;

  // --- Sidecars: our caches, which restic does not see ---
  // Each is sealed with a key of its name (KeyBoundTo()): under another name, or of another
  // repository, it is DATA_LOSS, and so is every other object in its place, blobs included. What a
  // sidecar says was therefore said of this name; it may be an older version of it.
  absl::Status SaveLocator(const CallContext& ctx, const Id& snapshot, const TreeLocator& locator,
                           int64_t* stored_bytes = nullptr);
  // One of version 2 or 3, which is not bound to its name, has `is_bound` false.
  absl::StatusOr<TreeLocator> LoadLocator(const CallContext& ctx, const Id& snapshot) const;
  // Another sidecar, in `folder`, with a random name. Returns its key.
  absl::StatusOr<std::string> SaveSidecar(const CallContext& ctx, absl::string_view folder,
                                          absl::string_view text);
  // Another, whose name stays while its content changes.
  absl::Status SaveSidecarAs(const CallContext& ctx, const std::string& key, absl::string_view text,
                             int64_t* stored_bytes = nullptr);
  absl::StatusOr<std::string> LoadSidecar(const CallContext& ctx, const std::string& key) const;
  // Shards of locators, each sealed for its own position, one after the other.
  absl::StatusOr<Id> SaveLocatorFile(const CallContext& ctx, absl::string_view sealed);
  absl::StatusOr<std::string> LoadLocatorRange(const CallContext& ctx, const Id& file,
                                               int64_t offset_bytes, int64_t length_bytes) const;

 private:
  Repository(storage::ObjectStore& store, const Environment& environment);
  absl::StatusOr<std::string> OpenFile(const CallContext& ctx, FileKind kind, const Id& id,
                                       int64_t bytes_max) const;
  absl::StatusOr<KeyFile> LoadKeyFile(const CallContext& ctx, const Id& id) const;
  absl::Status OpenWith(const CallContext& ctx, absl::string_view password,
                        const std::optional<std::string>& config);
  absl::StatusOr<std::vector<KeyInfo>> LoadKeyFiles(const CallContext& ctx,
                                                    absl::Span<const FileInfo> listed) const;
  absl::Status OpenWithKey(const KeyInfo& key, absl::string_view password);
  absl::Status OpenWithoutConfig(const CallContext& ctx, absl::string_view password);
  absl::Status ExplainNoConfig(const CallContext& ctx) const;
  absl::Status PutNewConfig(const CallContext& ctx, absl::string_view sealed) const;
  absl::Status PrepareKey(const CallContext& ctx, absl::string_view password);
  absl::Status ConfirmConfig(const CallContext& ctx, absl::string_view password,
                             const std::string& own, bool was_refused);
  absl::Status DeleteKeyFile(const CallContext& ctx, Lock& lock, const Id& id);
  friend struct SnapshotProofForTest;  // defined by tests alone
  absl::StatusOr<Id> PutFile(const CallContext& ctx, FileKind kind, absl::string_view json,
                             int64_t* stored_bytes);
  absl::StatusOr<Id> SaveSealed(const CallContext& ctx, const SealKey& key, absl::string_view text,
                                absl::FunctionRef<std::string(const Id&)> key_of,
                                int64_t* stored_bytes);
  absl::StatusOr<std::string> ReadBlob(const CallContext& ctx, const BlobHandle& handle,
                                       absl::Span<const BlobLocation> locations,
                                       int64_t bytes_max) const;
  absl::Status ExpectForgotten(const CallContext& ctx, const std::set<Id>& gone) const;
  absl::StatusOr<std::string> LoadText(const CallContext& ctx, const std::string& key,
                                       absl::Span<const SealKey> seal_keys, bool& is_first) const;

  storage::ObjectStore& store_;
  Environment environment_;
  std::unique_ptr<ScratchSpace> scratch_;  // Before what has files in it.
  Config config_;
  SealKey master_key_;
  Id key_id_;
  MemoryBudget::Share index_memory_;
  Mutex index_mutex_;  // Held while the index is loaded; a loaded one does not change.
  BlobIndex index_;
  std::vector<PackId> index_conflicts_;
  std::vector<Id> unreadable_index_;
  absl::Status index_damage_;  // of one of these
  std::vector<Id> index_files_;
  bool index_loaded_ = false;
};

}  // namespace csidelta::repository
