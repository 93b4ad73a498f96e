#include "repository/repository.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/human_text.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/worker_pool.h"
#include "repository/compression.h"
#include "repository/lock.h"
#include "storage/object_rules.h"

namespace csidelta::repository {
namespace {

constexpr StatusMark kNoRepository("csi-delta/no-repository");
constexpr StatusMark kWrongPassword("csi-delta/wrong-password");
constexpr StatusMark kLocked("csi-delta/locked");
constexpr StatusMark kTooLong("csi-delta/too-long");

// Key files are read and tried so many at a time, the oldest first, until trying more of them would
// take some minutes.
constexpr std::size_t kKeysPerRound = 256;
constexpr uint64_t kKeysWorkMax = uint64_t{1} << 29;
constexpr std::size_t kKeyThreads = 16;
constexpr absl::Duration kInitSettle = absl::Milliseconds(200);
// How often something is removed that is there all the same: a gateway may have answered, once, in
// the store's place.
constexpr int kRemovalRounds = 2;
constexpr std::size_t kLoadThreads = 8;
constexpr std::size_t kIndexThreads = 4;
// Of an index file, beside its bytes: the window to decompress it, and one pack's entries.
constexpr int64_t kIndexWindowBytes = int64_t{8} << 20;
constexpr int64_t kIndexDecodingBytes = kIndexWindowBytes + (int64_t{4} << 20);
// The text of a pack whose entries these are enough for, and what all packs fit into.
constexpr int64_t kUsualPackTextBytes = int64_t{2} << 20;
constexpr int64_t kLargestPackBytes = kPackEntriesMax * 2 * int64_t{sizeof(PackEntry)};
// Ids do not compress: the text of an index file is not this many times longer than its bytes.
constexpr int64_t kIndexTextPerStored = 64;
constexpr int64_t kIndexTextOfNone = int64_t{1} << 20;
// No writer makes longer ones: who reads them goes on without a longer one that does not fit.
constexpr int64_t kIndexStoredBytesUsual = int64_t{64} << 20;
constexpr char kCompressedMarker = 2;
// Of what the budget leaves: one text, of which eight threads hold several forms; one sidecar.
constexpr int64_t kTextShare = 64;
constexpr int64_t kSidecarShare = 4;
constexpr int64_t kTextBytesLeast = int64_t{1} << 20;

struct KindOfFile {
  absl::string_view folder;
  absl::string_view name;
  int64_t text_bytes_max;
};

const KindOfFile& About(FileKind kind) {
  static constexpr std::array<KindOfFile, 3> kKinds = {
      {{"index", "index", kIndexTextBytesMax},
       {"snapshots", "snapshot", kSnapshotTextBytesMax},
       {"locks", "lock", kLockTextBytesMax}}};
  return kKinds[static_cast<std::size_t>(kind)];
}

std::string Describe(FileKind kind, const Id& id) {
  return absl::StrCat(About(kind).name, " ", id.ShortHex());
}

absl::Status ListIds(const CallContext& ctx, storage::ObjectStore& store, const std::string& prefix,
                     absl::FunctionRef<absl::Status(const FileInfo&)> sink) {
  return store.List(ctx, prefix, [&](const storage::ObjectInfo& object) {
    const absl::StatusOr<Id> id = IdOfKey(object.key);
    return id.ok() ? sink({.id = *id,
                           .size_bytes = object.size_bytes,
                           .modified_at = object.modified_at})
                   : absl::OkStatus();
  });
}

absl::StatusOr<std::vector<FileInfo>> CollectIds(const CallContext& ctx,
                                                 storage::ObjectStore& store,
                                                 const std::string& prefix) {
  std::vector<FileInfo> files;
  RETURN_IF_ERROR(ListIds(ctx, store, prefix, [&files](const FileInfo& file) {
    files.push_back(file);
    return absl::OkStatus();
  }));
  return files;
}

std::string KeyFileKey(const Id& id) { return absl::StrCat("keys/", id.Hex()); }
std::string NameOfKey(const Id& id) { return absl::StrCat("key ", id.ShortHex()); }

uint64_t WorkOf(const KeyInfo& key) { return key.file.ok() ? CostOf(key.file->scrypt).work : 0; }

// The whole object; DATA_LOSS when it is longer than anything honest.
absl::StatusOr<std::string> GetWhole(const CallContext& ctx, storage::ObjectStore& store,
                                     const std::string& key, int64_t bytes_max) {
  absl::StatusOr<std::string> bytes = store.Get(ctx, key, bytes_max);
  return storage::IsObjectTooLarge(bytes.status())
             ? kTooLong.On(absl::DataLossError(bytes.status().message()))
             : std::move(bytes);
}

// Whether an error speaks of the bytes of an object that was read.
bool IsOfBytes(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsInvalidArgument(status);
}

// Why the key files that were tried so far do not open a repository.
struct KeySearch {
  std::size_t tried = 0;
  std::size_t not_tried = 0;
  uint64_t work = 0;
  bool refused = false;  // The password is not that of one.
  absl::Status damage;
  absl::Status gone;
  absl::Status of_config;
  absl::Status too_large;  // The first that asks for more memory than is left, and how many do.
  int64_t too_large_count = 0;

  // False for an error that is not of this key.
  bool Note(const Id& id, const absl::Status& status) {
    if (IsOfBytes(status)) {
      damage = Annotate(status, NameOfKey(id));
    } else if (IsWrongPassword(status)) {
      refused = true;
    } else if (absl::IsNotFound(status)) {  // Removed since the listing, where others are left.
      gone = absl::UnavailableError(
          absl::StrCat(NameOfKey(id), " is listed, but not found when asked for"));
    } else if (absl::IsResourceExhausted(status)) {
      too_large.Update(status);
      ++too_large_count;
    } else {
      return false;
    }
    return true;
  }

  void WarnOfSkipped() const {
    if (!too_large.ok()) {
      CSIDELTA_LOG(kWarn, "key files that ask for much memory were not tried",
                   {"count", absl::StrCat(too_large_count)},
                   {"first", std::string(too_large.message())});
    }
  }

  absl::Status Failure() const {
    if (!gone.ok()) {
      return gone;
    }
    if (!of_config.ok()) {
      return absl::DataLossError(absl::StrCat(
          "config, under each key that the password opens: ", of_config.message(),
          "; put back a copy of this file, or run csi-delta repair config, which makes "
          "it again"));
    }
    if (not_tried > 0) {
      return AsWrongPassword(absl::UnauthenticatedError(
          absl::StrCat("wrong password for the ", Counted(static_cast<int64_t>(tried), "key file"),
                       " that were tried; ", not_tried,
                       " others would take too long: remove from keys/ what is not yours")));
    }
    if (!refused && !too_large.ok()) {
      return too_large;
    }
    if (!refused && !damage.ok()) {
      return absl::Status(damage.code(),
                          absl::StrCat(damage.message(),
                                       "; without a key nothing opens: put back a copy of keys/"));
    }
    return AsWrongPassword(absl::UnauthenticatedError(
        absl::StrCat("wrong password, or no key found",
                     too_large.ok() ? "" : absl::StrCat("; not tried: ", too_large.message()))));
  }
};

// The whole object, of which `read` makes something. When that fails over the bytes they are
// fetched a second time: a gateway may have answered in the store's place.
template <typename Read>
auto ReadProven(const CallContext& ctx, storage::ObjectStore& store, const std::string& key,
                int64_t bytes_max, Read read) -> decltype(read(std::string())) {
  for (bool again = false;; again = true) {
    absl::StatusOr<std::string> bytes = GetWhole(ctx, store, key, bytes_max);
    if (!bytes.ok() && (again || !absl::IsDataLoss(bytes.status()))) {
      return bytes.status();
    }
    auto result = bytes.ok() ? read(*std::move(bytes)) : bytes.status();
    if (result.ok() || again || !IsOfBytes(result.status())) {
      return result;
    }
  }
}

// The text of a file that was sealed as restic seals its JSON.
absl::StatusOr<std::string> DecodeText(std::string opened, int64_t bytes_max) {
  if (opened.empty()) {
    return absl::DataLossError("is empty");
  }
  if (opened.front() == '{' || opened.front() == '[') {
    return std::ssize(opened) <= bytes_max ? absl::StatusOr<std::string>(std::move(opened))
                                           : kTooLong.On(absl::DataLossError("is too long"));
  }
  if (opened.front() != kCompressedMarker) {
    return absl::DataLossError("begins with an unknown marker");
  }
  absl::StatusOr<std::string> text =
      Decompressor().Decompress(absl::string_view(opened).substr(1), bytes_max);
  return absl::IsResourceExhausted(text.status())
             ? kTooLong.On(absl::DataLossError(text.status().message()))
             : std::move(text);
}

// How long a text may be: as the format has it, or less where memory is short.
class TextLimit {
 public:
  TextLimit(const MemoryBudget& memory, int64_t bytes_max, int64_t share)
      : memory_(memory),
        bytes_max_(bytes_max),
        share_(share),
        bytes_(std::clamp(memory.free_bytes() / share, std::min(kTextBytesLeast, bytes_max),
                          bytes_max)) {}

  int64_t bytes() const { return bytes_; }

  // RESOURCE_EXHAUSTED instead of what calls a text too long that the format allows.
  absl::Status Explain(const absl::Status& status, absl::string_view name) const {
    if (bytes_ == bytes_max_ || !kTooLong.IsOn(status)) {
      return status;
    }
    return kTooLong.On(absl::ResourceExhaustedError(absl::StrCat(
        name, " is longer than ", FormatBytes(bytes_), ", which is what the memory budget of ",
        FormatBytes(memory_.bytes_max()), " allows; run it with a memory budget of at least ",
        (memory_.bytes_max() - memory_.free_bytes() + share_ * bytes_max_) >> 20, " MiB")));
  }

 private:
  const MemoryBudget& memory_;
  const int64_t bytes_max_;
  const int64_t share_;
  const int64_t bytes_;
};

// The text of an index file, piece by piece, and the memory that decoding it takes beside
// kIndexDecodingBytes. `opened` outlives it.
class IndexText {
 public:
  IndexText(absl::string_view opened, MemoryBudget& memory, const std::string& name)
      : compressed_(!opened.empty() && opened.front() == kCompressedMarker),
        left_(opened.substr(compressed_ ? 1 : 0)),
        frames_(compressed_ ? left_ : "",
                std::min(kIndexTextBytesMax,
                         kIndexTextOfNone + kIndexTextPerStored * std::ssize(left_))),
        memory_(memory),
        name_(name) {}

  // Valid until the next call; empty at the end. DATA_LOSS when it does not decompress.
  absl::StatusOr<absl::string_view> Next() {
    if (!is_open_) {
      RETURN_IF_ERROR(Open());
    }
    absl::StatusOr<absl::string_view> piece = compressed_ ? frames_.Next() : NextPlain();
    if (!piece.ok()) {
      return absl::DataLossError(piece.status().message());
    }
    pack_text_bytes_ += std::ssize(*piece);
    if (pack_text_bytes_ > kUsualPackTextBytes && pack_share_.bytes() == 0) {
      ASSIGN_OR_RETURN(pack_share_, memory_.Take(kLargestPackBytes, name_));
    }
    return piece;
  }

  void EndPack() { pack_text_bytes_ = 0; }

 private:
  absl::Status Open() {
    is_open_ = true;
    if (!compressed_ && !absl::StartsWith(left_, "{") && !absl::StartsWith(left_, "[")) {
      return absl::DataLossError(left_.empty() ? "is empty" : "begins with an unknown marker");
    }
    const int64_t window_bytes = compressed_ ? WindowBytesOf(left_) : 0;
    if (window_bytes > kIndexWindowBytes) {
      ASSIGN_OR_RETURN(window_share_, memory_.Take(window_bytes, name_));
    }
    return absl::OkStatus();
  }

  absl::string_view NextPlain() {
    constexpr std::size_t kPlainPieceBytes = std::size_t{128} << 10;
    const absl::string_view piece = left_.substr(0, kPlainPieceBytes);
    left_.remove_prefix(piece.size());
    return piece;
  }

  const bool compressed_;
  absl::string_view left_;
  FrameReader frames_;
  MemoryBudget& memory_;
  const std::string& name_;
  bool is_open_ = false;
  int64_t pack_text_bytes_ = 0;  // Since the last pack.
  MemoryBudget::Share window_share_;
  MemoryBudget::Share pack_share_;
};

absl::StatusOr<RepoSnapshot> DecodeSnapshotFile(const Id& id,
                                                const absl::StatusOr<std::string>& text) {
  RETURN_IF_ERROR(text.status());
  absl::StatusOr<RepoSnapshot> snapshot = DecodeSnapshot(*text);
  return snapshot.ok() ? snapshot : Annotate(snapshot.status(), Describe(FileKind::kSnapshot, id));
}

// What a copy's error says about the next copy: it may be better.
bool IsWrongCopy(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status) || absl::IsOutOfRange(status);
}

absl::Status ExistsAlready(const storage::ObjectStore& store) {
  return absl::AlreadyExistsError(absl::StrCat(store.Describe(), " holds a repository already"));
}

absl::Status PutNamed(const CallContext& ctx, storage::ObjectStore& store, const std::string& key,
                      const Id& id, absl::string_view bytes) {
  storage::PutOptions options;
  options.sha256_hex = id.Hex();
  return store.Put(ctx, key, bytes, options);
}

}  // namespace

bool IsNoRepository(const absl::Status& status) { return kNoRepository.IsOn(status); }
bool IsWrongPassword(const absl::Status& status) { return kWrongPassword.IsOn(status); }
bool IsLocked(const absl::Status& status) { return kLocked.IsOn(status); }
absl::Status AsNoRepository(absl::Status status) { return kNoRepository.On(std::move(status)); }
absl::Status AsWrongPassword(absl::Status status) { return kWrongPassword.On(std::move(status)); }
absl::Status AsLocked(absl::Status status) { return kLocked.On(std::move(status)); }

std::string PackKey(const PackId& id) {
  const std::string hex = id.Hex();
  return absl::StrCat("data/", hex.substr(0, 2), "/", hex);
}

std::string FileKey(FileKind kind, const Id& id) {
  return absl::StrCat(About(kind).folder, "/", id.Hex());
}

absl::StatusOr<Id> IdOfKey(absl::string_view key) {
  return Id::Parse(key.substr(key.rfind('/') + 1));
}

std::vector<Id> IdsOf(absl::Span<const FileInfo> files) {
  std::vector<Id> ids;
  ids.reserve(files.size());
  for (const FileInfo& file : files) {
    ids.push_back(file.id);
  }
  return ids;
}

std::string SidecarKey(const Id& snapshot) { return absl::StrCat(kSidecarFolder, snapshot.Hex()); }
std::string LocatorFileKey(const Id& file) { return absl::StrCat(kLocatorFolder, file.Hex()); }

// --- Opening ---

Repository::Repository(storage::ObjectStore& store, const Environment& environment)
    : store_(store),
      environment_(environment),
      scratch_(std::make_unique<ScratchSpace>(environment.scratch)) {
  scratch_->LimitTables(environment.memory->table_bytes());
}

std::unique_ptr<Repository> Repository::Again(storage::ObjectStore& store) const {
  std::unique_ptr<Repository> again(new Repository(store, environment_));
  again->config_ = config_;
  again->master_key_ = master_key_;
  again->key_id_ = key_id_;
  return again;
}

absl::StatusOr<std::unique_ptr<Repository>> Repository::Init(const CallContext& ctx,
                                                             storage::ObjectStore& store,
                                                             absl::string_view password,
                                                             const Environment& environment) {
  std::unique_ptr<Repository> repository(new Repository(store, environment));
  const absl::Status config = store.Stat(ctx, kConfigKey).status();
  if (config.ok()) {
    return ExistsAlready(store);
  }
  if (!absl::IsNotFound(config)) {
    return config;
  }
  RETURN_IF_ERROR(repository->PrepareKey(ctx, password));
  repository->config_ = MakeConfig(*environment.random);
  const std::string sealed =
      Sealer(repository->master_key_, *environment.random).Seal(EncodeConfig(repository->config_));
  const absl::Status put = repository->PutNewConfig(ctx, sealed);
  // ALREADY_EXISTS is also the answer to a PUT that was repeated after the first did its work.
  if (!put.ok() && !absl::IsAlreadyExists(put)) {
    return put;
  }
  RETURN_IF_ERROR(repository->ConfirmConfig(ctx, password, sealed, absl::IsAlreadyExists(put)));
  return repository;
}

absl::Status Repository::PutNewConfig(const CallContext& ctx, absl::string_view sealed) const {
  storage::PutOptions options;
  options.if_absent = true;
  absl::Status put = store_.Put(ctx, kConfigKey, sealed, options);
  if (absl::IsUnimplemented(put)) {
    // Deriving the key took a while: no other client may have been faster.
    const absl::Status seen = store_.Stat(ctx, kConfigKey).status();
    put = absl::IsNotFound(seen) ? store_.Put(ctx, kConfigKey, sealed, {})
          : seen.ok()            ? ExistsAlready(store_)
                                 : seen;
  }
  return put;
}

// REQUIRES that our config was written or refused. Of several runs of Init() at the same time one
// wins: that whose config is in the store in the end. The others take back their keys, with which
// that config does not open.
absl::Status Repository::ConfirmConfig(const CallContext& ctx, absl::string_view password,
                                       const std::string& own, bool was_refused) {
  const auto read = [&](std::string& sealed) -> absl::StatusOr<std::string> {
    ASSIGN_OR_RETURN(sealed, GetWhole(ctx, store_, kConfigKey, kConfigBytesMax));
    return Sealer(master_key_, *environment_.random).Open(sealed);
  };
  // A store without conditional PUTs takes the config of another run as well.
  ctx.clock->SleepFor(kInitSettle, ctx.stop);
  std::string sealed;
  absl::StatusOr<std::string> text = read(sealed);
  if (absl::IsDataLoss(text.status())) {
    ASSIGN_OR_RETURN(const std::vector<FileInfo> keys, CollectIds(ctx, store_, "keys/"));
    if (keys.size() == 1 && keys[0].id == key_id_) {
      // Another run had saved its key before its config: this one is this run's, and damaged.
      RETURN_IF_ERROR(store_.Put(ctx, kConfigKey, own, {}));
      text = read(sealed);
    }
  }
  if (absl::IsDataLoss(text.status())) {
    // Stock restic takes the first key that its password opens, so ours must not stay. Not because
    // of one answer alone: it may have been damaged on its way.
    Repository winner(store_, environment_);
    if (was_refused || winner.OpenWith(ctx, password, sealed).ok()) {
      RETURN_IF_ERROR(store_.Delete(FinalContext(ctx), KeyFileKey(key_id_)));
      return ExistsAlready(store_);
    }
    return Annotate(text.status(), "config, read back");
  }
  RETURN_IF_ERROR(text.status());
  // Another run may have gone on with our key. Then it is as good as ours, and must stay.
  const absl::Status key = store_.Stat(ctx, KeyFileKey(key_id_)).status();
  if (absl::IsNotFound(key)) {
    ASSIGN_OR_RETURN(key_id_, AddKey(ctx, password));
  } else if (!key.ok()) {
    return key;
  }
  return *text == EncodeConfig(config_) ? absl::OkStatus() : ExistsAlready(store_);
}

// A key for a repository that has no config yet: a new one, or that of an Init() that was cut off.
absl::Status Repository::PrepareKey(const CallContext& ctx, absl::string_view password) {
  ASSIGN_OR_RETURN(const std::vector<FileInfo> snapshots, CollectIds(ctx, store_, "snapshots/"));
  ASSIGN_OR_RETURN(const std::vector<FileInfo> keys, CollectIds(ctx, store_, "keys/"));
  const absl::Status parts = absl::AlreadyExistsError(
      absl::StrCat(store_.Describe(),
                   " holds parts of a repository, but no config; csi-delta repair "
                   "config makes it again"));
  if (!snapshots.empty()) {
    return parts;
  }
  if (!keys.empty()) {
    return OpenWith(ctx, password, std::nullopt).ok() ? absl::OkStatus() : parts;
  }
  master_key_ = MakeMasterKey(*environment_.random);
  ASSIGN_OR_RETURN(key_id_, AddKey(ctx, password));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Repository>> Repository::Open(const CallContext& ctx,
                                                             storage::ObjectStore& store,
                                                             absl::string_view password,
                                                             const Environment& environment) {
  std::unique_ptr<Repository> repository(new Repository(store, environment));
  absl::StatusOr<std::string> sealed = GetWhole(ctx, store, kConfigKey, kConfigBytesMax);
  if (absl::IsNotFound(sealed.status())) {
    return repository->ExplainNoConfig(ctx);
  }
  RETURN_IF_ERROR(sealed.status());
  absl::Status opened = repository->OpenWith(ctx, password, *sealed);
  if (absl::IsDataLoss(opened)) {
    // A gateway may have answered in the store's place.
    ASSIGN_OR_RETURN(sealed, GetWhole(ctx, store, kConfigKey, kConfigBytesMax));
    opened = repository->OpenWith(ctx, password, *sealed);
  }
  RETURN_IF_ERROR(opened);
  ASSIGN_OR_RETURN(const std::string text,
                   Sealer(repository->master_key_, *environment.random).Open(*sealed));
  ASSIGN_OR_RETURN(repository->config_, DecodeConfig(text));
  return repository;
}

absl::StatusOr<std::vector<std::string>> Repository::ListKeyNames(const CallContext& ctx,
                                                                  storage::ObjectStore& store) {
  const Repository unopened(store, Environment());
  ASSIGN_OR_RETURN(const std::vector<KeyInfo> keys, unopened.ListKeys(ctx));
  std::set<std::string> names;
  for (const KeyInfo& key : keys) {
    if (key.file.ok()) {
      names.insert(key.file->username);
    }
  }
  return std::vector<std::string>(names.begin(), names.end());
}

absl::StatusOr<KeyFile> Repository::LoadKeyFile(const CallContext& ctx, const Id& id) const {
  return ReadProven(ctx, store_, KeyFileKey(id), kKeyFileBytesMax,
                    [&](const std::string& text) -> absl::StatusOr<KeyFile> {
                      if (Id::Of(text) != id) {
                        return absl::DataLossError("does not hash to its name");
                      }
                      return DecodeKeyFile(text);
                    });
}

// Of these, which were listed; errors that are not of the bytes of one end it.
absl::StatusOr<std::vector<KeyInfo>> Repository::LoadKeyFiles(
    const CallContext& ctx, absl::Span<const FileInfo> listed) const {
  std::vector<KeyInfo> keys(listed.size(), {.id = Id(), .file = absl::UnknownError("")});
  const auto load = [&](std::size_t i) -> absl::Status {
    RETURN_IF_ERROR(ctx.Check());
    keys[i] = {.id = listed[i].id,
               .file = LoadKeyFile(ctx, listed[i].id),
               .current = listed[i].id == key_id_};
    const absl::Status& status = keys[i].file.status();
    return status.ok() || IsOfBytes(status) || absl::IsNotFound(status)
               ? absl::OkStatus()
               : Annotate(status, NameOfKey(listed[i].id));
  };
  RETURN_IF_ERROR(ParallelFor(listed.size(), kKeyThreads, load));
  return keys;
}

absl::Status Repository::OpenWithKey(const KeyInfo& key, absl::string_view password) {
  RETURN_IF_ERROR(key.file.status());
  ASSIGN_OR_RETURN(const MemoryBudget::Share share,
                   memory().Take(CostOf(key.file->scrypt).memory_bytes, NameOfKey(key.id)));
  const absl::StatusOr<SealKey> master = UnwrapMasterKey(*key.file, password, *environment_.random);
  if (absl::IsUnauthenticated(master.status())) {
    return AsWrongPassword(master.status());
  }
  RETURN_IF_ERROR(master.status());
  master_key_ = *master;
  key_id_ = key.id;
  return absl::OkStatus();
}

// Tries each key file until one gives the master key, that of `config` if there is one. A key file
// that is damaged, a stranger's, or was left by an Init() that another one overtook, spoils none of
// the others: strangers add theirs after the keys, and what claims to take long comes last.
absl::Status Repository::OpenWith(const CallContext& ctx, absl::string_view password,
                                  const std::optional<std::string>& config) {
  ASSIGN_OR_RETURN(std::vector<FileInfo> listed, CollectIds(ctx, store_, "keys/"));
  std::stable_sort(listed.begin(), listed.end(), [](const FileInfo& a, const FileInfo& b) {
    return a.modified_at < b.modified_at;
  });
  if (listed.empty()) {
    return absl::DataLossError(absl::StrCat(
        "keys/ of ", store_.Describe(),
        " has no key file; without a key nothing opens, whatever else is there: put back a copy of "
        "keys/"));
  }
  KeySearch search;
  for (absl::Span<const FileInfo> left = listed; !left.empty();) {
    const absl::Span<const FileInfo> round = left.first(std::min(left.size(), kKeysPerRound));
    left.remove_prefix(round.size());
    ASSIGN_OR_RETURN(std::vector<KeyInfo> keys, LoadKeyFiles(ctx, round));
    std::stable_sort(keys.begin(), keys.end(),
                     [](const KeyInfo& a, const KeyInfo& b) { return WorkOf(a) < WorkOf(b); });
    for (const KeyInfo& key : keys) {
      RETURN_IF_ERROR(ctx.Check());
      search.work += WorkOf(key);
      if (search.work > kKeysWorkMax) {
        search.not_tried = listed.size() - search.tried;
        return search.Failure();
      }
      ++search.tried;
      absl::Status status = OpenWithKey(key, password);
      if (status.ok()) {
        search.of_config = config.has_value()
                               ? Sealer(master_key_, *environment_.random).Open(*config).status()
                               : absl::OkStatus();
        if (search.of_config.ok()) {
          search.WarnOfSkipped();
          return status;
        }
      } else if (!search.Note(key.id, status)) {
        return status;
      }
    }
  }
  return search.Failure();
}

// --- Keys ---

absl::StatusOr<Id> Repository::AddKey(const CallContext& ctx, absl::string_view password) {
  const KeyOwner owner = {.username = environment_.username, .hostname = environment_.hostname};
  ASSIGN_OR_RETURN(const KeyFile file, WrapMasterKey(master_key_, password, owner, ctx.clock->Now(),
                                                     environment_.scrypt, *environment_.random));
  const std::string text = EncodeKeyFile(file);
  const Id id = Id::Of(text);
  RETURN_IF_ERROR(PutNamed(ctx, store_, KeyFileKey(id), id, text));
  return id;
}

absl::StatusOr<std::vector<KeyInfo>> Repository::ListKeys(const CallContext& ctx) const {
  ASSIGN_OR_RETURN(const std::vector<FileInfo> files, CollectIds(ctx, store_, "keys/"));
  ASSIGN_OR_RETURN(std::vector<KeyInfo> keys, LoadKeyFiles(ctx, files));
  for (const KeyInfo& key : keys) {
    if (absl::IsNotFound(key.file.status())) {
      return Annotate(key.file.status(), NameOfKey(key.id));
    }
  }
  return keys;
}

absl::Status Repository::RemoveKey(const CallContext& ctx, Lock& lock, const Id& id) {
  if (id == key_id_) {
    return absl::FailedPreconditionError(
        "this key opened the repository: use another to remove it");
  }
  const absl::Status own = store_.Stat(ctx, KeyFileKey(key_id_)).status();
  if (absl::IsNotFound(own)) {
    return absl::FailedPreconditionError(
        "the key that opened the repository was removed since: use another to remove this one");
  }
  RETURN_IF_ERROR(own);
  RETURN_IF_ERROR(store_.Stat(ctx, KeyFileKey(id)).status());
  return DeleteKeyFile(ctx, lock, id);
}

// Removing a key relies on it: that it is gone is seen, as in RemoveFiles().
absl::Status Repository::DeleteKeyFile(const CallContext& ctx, Lock& lock, const Id& id) {
  for (int round = 0; round < kRemovalRounds; ++round) {
    RETURN_IF_ERROR(lock.Delete(ctx, KeyFileKey(id)));
    const absl::Status seen = store_.Stat(ctx, KeyFileKey(id)).status();
    if (!seen.ok()) {
      return absl::IsNotFound(seen) ? absl::OkStatus() : seen;
    }
  }
  return absl::UnavailableError(absl::StrCat(
      "key ", id.ShortHex(), " was removed, but is still there: its password opens as before"));
}

absl::Status Repository::ChangePassword(const CallContext& ctx, Lock& lock,
                                        absl::string_view password) {
  ASSIGN_OR_RETURN(const Id added, AddKey(ctx, password));
  ASSIGN_OR_RETURN(const KeyFile file, LoadKeyFile(ctx, added));
  RETURN_IF_ERROR(UnwrapMasterKey(file, password, *environment_.random).status());
  const Id old = std::exchange(key_id_, added);
  return DeleteKeyFile(ctx, lock, old);
}

// --- Sealed JSON files ---

absl::StatusOr<Id> Repository::SaveSealed(const CallContext& ctx, const SealKey& key,
                                          absl::string_view text,
                                          absl::FunctionRef<std::string(const Id&)> key_of,
                                          int64_t* stored_bytes) {
  std::string plain;
  if (config_.version != 1) {
    plain.push_back(kCompressedMarker);
    plain.append(Compressor(kMetadataCompressionLevel).Compress(text));
  } else {
    plain = std::string(text);
  }
  Sealer sealer(key, *environment_.random);
  const std::string sealed = sealer.Seal(plain);
  // Read back what others will have to trust.
  ASSIGN_OR_RETURN(std::string opened, sealer.Open(sealed));
  ASSIGN_OR_RETURN(const std::string read, DecodeText(std::move(opened), kIndexTextBytesMax));
  if (read != text) {
    return absl::DataLossError("a file does not read back as it was sealed");
  }
  const Id id = Id::Of(sealed);
  RETURN_IF_ERROR(PutNamed(ctx, store_, key_of(id), id, sealed));
  if (stored_bytes != nullptr) {
    *stored_bytes = static_cast<int64_t>(sealed.size());
  }
  return id;
}

absl::StatusOr<Id> Repository::SaveFile(const CallContext& ctx, FileKind kind,
                                        absl::string_view json, int64_t* stored_bytes) {
  CSIDELTA_CHECK(kind != FileKind::kSnapshot);
  return PutFile(ctx, kind, json, stored_bytes);
}

absl::StatusOr<Id> Repository::PutFile(const CallContext& ctx, FileKind kind,
                                       absl::string_view json, int64_t* stored_bytes) {
  std::string key;
  const absl::StatusOr<Id> id = SaveSealed(
      ctx, master_key_, json, [&key, kind](const Id& made) { return key = FileKey(kind, made); },
      stored_bytes);
  if (!id.ok() && kind != FileKind::kIndex && !key.empty()) {
    // It may have been stored all the same. A lock would keep everyone out until it runs out; a
    // snapshot would be one of a run that is reported as failed, and whose lock may be lost.
    store_.Delete(FinalContext(ctx), key).IgnoreError();
  }
  return id;
}

absl::StatusOr<std::string> Repository::OpenFile(const CallContext& ctx, FileKind kind,
                                                 const Id& id, int64_t bytes_max) const {
  ASSIGN_OR_RETURN(const std::string sealed,
                   ReadProven(ctx, store_, FileKey(kind, id), bytes_max,
                              [&](std::string bytes) -> absl::StatusOr<std::string> {
                                if (Id::Of(bytes) != id) {
                                  return absl::DataLossError(absl::StrCat(
                                      Describe(kind, id), " does not hash to its name"));
                                }
                                return bytes;
                              }));
  absl::StatusOr<std::string> opened = Sealer(master_key_, *environment_.random).Open(sealed);
  return opened.ok() ? std::move(opened) : Annotate(opened.status(), Describe(kind, id));
}

absl::StatusOr<std::string> Repository::LoadFile(const CallContext& ctx, FileKind kind,
                                                 const Id& id) const {
  const TextLimit limit(memory(), About(kind).text_bytes_max, kTextShare);
  absl::StatusOr<std::string> opened = OpenFile(ctx, kind, id, limit.bytes());
  if (!opened.ok()) {
    return limit.Explain(opened.status(), Describe(kind, id));
  }
  absl::StatusOr<std::string> text = DecodeText(*std::move(opened), limit.bytes());
  return text.ok() ? std::move(text)
                   : Annotate(limit.Explain(text.status(), Describe(kind, id)), Describe(kind, id));
}

absl::Status Repository::ReadIndexFile(
    const CallContext& ctx, const FileInfo& file,
    absl::FunctionRef<absl::Status(const IndexedPack&)> sink) const {
  const std::string name = Describe(FileKind::kIndex, file.id);
  const int64_t needed_bytes = 2 * file.size_bytes + kIndexDecodingBytes;
  absl::StatusOr<MemoryBudget::Share> held = memory().Wait(ctx, needed_bytes, name);
  if (absl::IsResourceExhausted(held.status()) && file.size_bytes > kIndexStoredBytesUsual) {
    return kTooLong.On(held.status());
  }
  ASSIGN_OR_RETURN(MemoryBudget::Share share, std::move(held));
  ASSIGN_OR_RETURN(
      const std::string opened,
      OpenFile(ctx, FileKind::kIndex, file.id, std::min(file.size_bytes, kIndexTextBytesMax)));
  share.Shrink(file.size_bytes + kIndexDecodingBytes);
  IndexText text(opened, memory(), name);
  const absl::Status decoded = DecodeIndex([&] { return text.Next(); },
                                           [&](const IndexedPack& pack) {
                                             text.EndPack();
                                             return sink(pack);
                                           });
  return absl::IsInvalidArgument(decoded) || absl::IsDataLoss(decoded)
             ? absl::DataLossError(absl::StrCat(name, ": ", decoded.message()))
             : decoded;
}

absl::Status Repository::RemoveFile(const CallContext& ctx, FileKind kind, const Id& id) {
  return store_.Delete(ctx, FileKey(kind, id));
}

absl::Status Repository::RemoveFiles(const CallContext& ctx, Lock& lock, FileKind kind,
                                     absl::Span<const Id> ids, absl::FunctionRef<void()> after_each,
                                     std::set<Id>* refused) {
  std::vector<Id> listed(ids.begin(), ids.end());
  for (int round = 0; !listed.empty(); ++round) {
    if (round == kRemovalRounds) {
      return absl::UnavailableError(
          absl::StrCat(Describe(kind, listed.front()), " was removed, but is listed all the same"));
    }
    std::set<Id> removed;
    std::vector<std::string> keys;
    keys.reserve(listed.size());
    for (const Id& id : listed) {
      keys.push_back(FileKey(kind, id));
    }
    const auto note = [&](std::size_t number, bool is_gone) {
      after_each();
      (is_gone ? removed : *refused).insert(listed[number]);
    };
    const auto must_go = [&](std::size_t number, const absl::Status& deleted) {
      RETURN_IF_ERROR(deleted);
      note(number, true);
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(refused != nullptr ? lock.TryDelete(ctx, keys, note)
                                       : lock.Delete(ctx, keys, must_go));
    ASSIGN_OR_RETURN(const std::vector<FileInfo> files, ListFiles(ctx, kind));
    listed.clear();
    for (const FileInfo& file : files) {
      if (removed.contains(file.id)) {
        listed.push_back(file.id);
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<FileInfo>> Repository::ListFiles(const CallContext& ctx,
                                                            FileKind kind) const {
  return CollectIds(ctx, store_, absl::StrCat(About(kind).folder, "/"));
}

absl::Status Repository::ListPacks(const CallContext& ctx,
                                   absl::FunctionRef<absl::Status(const FileInfo&)> sink,
                                   std::optional<uint8_t> folder) const {
  return ListIds(ctx, store_, folder.has_value() ? absl::StrFormat("data/%02x/", *folder) : "data/",
                 sink);
}

// --- Snapshots ---

absl::StatusOr<Id> Repository::SaveSnapshot(const CallContext& ctx, const RepoSnapshot& snapshot,
                                            const SnapshotProof& /*proof*/, int64_t* stored_bytes) {
  return PutFile(ctx, FileKind::kSnapshot, EncodeSnapshot(snapshot), stored_bytes);
}

absl::StatusOr<RepoSnapshot> Repository::LoadSnapshot(const CallContext& ctx, const Id& id) const {
  return DecodeSnapshotFile(id, LoadFile(ctx, FileKind::kSnapshot, id));
}

// Whether snapshots that were listed and then not found were forgotten in between. One that is
// still listed is there: to go on without it could cost its data.
absl::Status Repository::ExpectForgotten(const CallContext& ctx, const std::set<Id>& gone) const {
  if (gone.empty()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<FileInfo> files, ListFiles(ctx, FileKind::kSnapshot));
  for (const FileInfo& file : files) {
    if (gone.contains(file.id)) {
      return absl::UnavailableError(absl::StrCat(Describe(FileKind::kSnapshot, file.id),
                                                 " is listed, but not found when asked for"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<StoredSnapshot>> Repository::ListSnapshots(
    const CallContext& ctx, const DamagedSnapshotSink& damaged) const {
  ASSIGN_OR_RETURN(const std::vector<FileInfo> files, ListFiles(ctx, FileKind::kSnapshot));
  return LoadSnapshots(ctx, IdsOf(files), damaged);
}

absl::StatusOr<std::vector<StoredSnapshot>> Repository::LoadSnapshots(
    const CallContext& ctx, const std::vector<Id>& ids, const DamagedSnapshotSink& damaged) const {
  Mutex mutex;
  std::vector<StoredSnapshot> snapshots;
  const std::string what = absl::StrCat("the list of ", Counted(std::ssize(ids), "snapshot"));
  MemoryBudget::Share share;
  std::set<Id> gone;
  RETURN_IF_ERROR(ParallelFor(ids.size(), kLoadThreads, [&](std::size_t i) -> absl::Status {
    absl::StatusOr<std::string> text = LoadFile(ctx, FileKind::kSnapshot, ids[i]);
    absl::StatusOr<RepoSnapshot> snapshot = DecodeSnapshotFile(ids[i], text);
    const MutexLock lock(mutex);
    if (snapshot.ok()) {
      snapshots.push_back({.id = ids[i], .snapshot = *std::move(snapshot)});
      const int64_t bytes = share.bytes() + std::ssize(*text);
      const absl::Status held = memory().Grow(share, bytes, what);
      // If all are as long, they need so much.
      return held.ok()
                 ? held
                 : memory().Grow(share, bytes / std::ssize(snapshots) * std::ssize(ids), what);
    }
    if (absl::IsNotFound(snapshot.status())) {
      gone.insert(ids[i]);
      return absl::OkStatus();
    }
    const bool broken =
        absl::IsDataLoss(snapshot.status()) || absl::IsInvalidArgument(snapshot.status());
    // A stranger may have made it so long: it must not keep the others from being listed.
    const bool left_out = kTooLong.IsOn(text.status());
    if (damaged == nullptr || (!broken && !left_out)) {
      return snapshot.status();
    }
    damaged(ids[i], snapshot.status());
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(ExpectForgotten(ctx, gone));
  std::sort(snapshots.begin(), snapshots.end(), [](const auto& a, const auto& b) {
    return std::tie(a.snapshot.time, a.id) < std::tie(b.snapshot.time, b.id);
  });
  return snapshots;
}

absl::StatusOr<StoredSnapshot> Repository::FindSnapshot(const CallContext& ctx,
                                                        absl::string_view prefix) const {
  std::optional<Id> match;
  ASSIGN_OR_RETURN(const std::vector<FileInfo> files, ListFiles(ctx, FileKind::kSnapshot));
  for (const FileInfo& file : files) {
    if (!prefix.empty() && absl::StartsWith(file.id.Hex(), prefix)) {
      if (match.has_value()) {
        return absl::InvalidArgumentError(absl::StrCat("several snapshots begin with ", prefix));
      }
      match = file.id;
    }
  }
  if (!match.has_value()) {
    return absl::NotFoundError(absl::StrCat("no snapshot begins with \"", prefix, "\""));
  }
  ASSIGN_OR_RETURN(RepoSnapshot snapshot, LoadSnapshot(ctx, *match));
  return StoredSnapshot{.id = *match, .snapshot = std::move(snapshot)};
}

// --- Index and blobs ---

absl::Status Repository::LoadIndex(const CallContext& ctx) {
  RETURN_IF_ERROR(LoadReadableIndex(ctx));
  return index_damage_;
}

std::string Repository::UnreadableIndexNote() const {
  return unreadable_index_.empty()
             ? (index_files_.empty() ? "; index/ has no file" : "")
             : absl::StrCat("; ", unreadable_index_.size(), " index files cannot be read, such as ",
                            FileKey(FileKind::kIndex, unreadable_index_.front()));
}

absl::Status Repository::LoadReadableIndex(const CallContext& ctx) {
  const MutexLock lock(index_mutex_);
  if (index_loaded_) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<FileInfo> files, ListFiles(ctx, FileKind::kIndex));
  BlobIndexBuilder builder(*scratch_);
  index_conflicts_.clear();
  index_files_.clear();
  unreadable_index_.clear();
  index_damage_ = absl::OkStatus();
  Mutex mutex;
  const auto load = [&](std::size_t i) -> absl::Status {
    RETURN_IF_ERROR(ctx.Check());
    absl::Status read = ReadIndexFile(
        ctx, files[i], [&](const IndexedPack& pack) { return builder.AddPack(pack); });
    const MutexLock noting(mutex);
    if (absl::IsDataLoss(read) || kTooLong.IsOn(read)) {
      unreadable_index_.push_back(files[i].id);
      index_damage_ = std::exchange(read, absl::OkStatus());
    } else {
      index_files_.push_back(files[i].id);
    }
    return read;
  };
  // While it is built: sorted runs of copies and of packs, and what they are merged into.
  ASSIGN_OR_RETURN(index_memory_, memory().Keep(scratch_->options().table_memory_bytes_max * 5 / 2,
                                                "the repository's index"));
  RETURN_IF_ERROR(ParallelFor(files.size(), kIndexThreads, load));
  ASSIGN_OR_RETURN(index_, builder.Build(&index_conflicts_));
  index_memory_.Shrink(index_.memory_bytes());
  if (!index_damage_.ok()) {
    CSIDELTA_LOG(kWarn, "index files cannot be read, and are left out",
                 {"count", absl::StrCat(unreadable_index_.size())},
                 {"first", FileKey(FileKind::kIndex, unreadable_index_.front())},
                 {"error", std::string(index_damage_.message())});
  }
  index_loaded_ = true;
  return absl::OkStatus();
}

void Repository::DropIndex() {
  const MutexLock lock(index_mutex_);
  index_loaded_ = false;
  index_ = BlobIndex();
  index_memory_.Reset();
}

absl::Status Repository::ReloadIndex(const CallContext& ctx) {
  DropIndex();
  return LoadReadableIndex(ctx);
}

std::unique_ptr<BlobCodec> Repository::MakeCodec(int data_level) const {
  return std::make_unique<BlobCodec>(master_key_, data_level, *environment_.random);
}

absl::StatusOr<std::string> Repository::LoadPackRange(const CallContext& ctx, const PackId& pack,
                                                      int64_t offset_bytes,
                                                      int64_t length_bytes) const {
  absl::StatusOr<std::string> bytes =
      store_.GetRange(ctx, PackKey(pack), {offset_bytes, length_bytes});
  if (bytes.ok() && std::ssize(*bytes) != length_bytes) {
    return absl::DataLossError(absl::StrCat("pack ", pack.ShortHex(), ": ", bytes->size(),
                                            " bytes instead of ", length_bytes));
  }
  return bytes;
}

absl::StatusOr<std::string> Repository::LoadBlobAt(const CallContext& ctx, const BlobHandle& handle,
                                                   const BlobLocation& location) const {
  if (!IsPossible(handle.type, location.span)) {
    return absl::DataLossError(
        absl::StrCat(repository::Describe(handle), ": impossible length in the index"));
  }
  MemoryBudget::Share share;
  if (IsLarge(location.span)) {
    // Sealed, decompressed, and the copy that is returned.
    ASSIGN_OR_RETURN(share,
                     memory().Take(location.span.sealed_bytes + 2 * location.span.plaintext_bytes(),
                                   repository::Describe(handle)));
  }
  ASSIGN_OR_RETURN(
      const std::string envelope,
      LoadPackRange(ctx, location.pack, location.span.offset_bytes, location.span.sealed_bytes));
  BlobCodec codec(master_key_, kNoCompression, *environment_.random);
  ASSIGN_OR_RETURN(const absl::string_view plaintext,
                   codec.Decode(handle, location.span, envelope));
  return std::string(plaintext);
}

absl::StatusOr<std::string> Repository::LoadBlob(const CallContext& ctx, const BlobHandle& handle,
                                                 int64_t bytes_max) const {
  ASSIGN_OR_RETURN(const std::vector<BlobLocation> locations, index_.Lookup(handle));
  if (locations.empty()) {
    return absl::NotFoundError(absl::StrCat(repository::Describe(handle),
                                            " is in no index; run csi-delta repair index",
                                            UnreadableIndexNote()));
  }
  absl::StatusOr<std::string> blob = ReadBlob(ctx, handle, locations, bytes_max);
  return absl::IsDataLoss(blob.status()) ? ReadBlob(ctx, handle, locations, bytes_max)
                                         : std::move(blob);
}

// One round over the copies.
absl::StatusOr<std::string> Repository::ReadBlob(const CallContext& ctx, const BlobHandle& handle,
                                                 absl::Span<const BlobLocation> locations,
                                                 int64_t bytes_max) const {
  absl::Status last;
  for (const BlobLocation& location : locations) {
    absl::StatusOr<std::string> blob =
        location.span.plaintext_bytes() <= bytes_max
            ? LoadBlobAt(ctx, handle, location)
            : absl::DataLossError(absl::StrCat("longer than ", bytes_max, " bytes"));
    if (blob.ok() || !IsWrongCopy(blob.status())) {
      return blob;
    }
    last = blob.status();
    CSIDELTA_LOG(kWarn, "a copy of a blob is damaged", {"pack", location.pack.Hex()},
                 {"error", std::string(last.message())});
  }
  return absl::DataLossError(
      absl::StrCat(repository::Describe(handle), ": unreadable: ", last.message()));
}

absl::StatusOr<std::string> Repository::LoadTree(const CallContext& ctx, const BlobId& id) const {
  RETURN_IF_ERROR(ctx.Check());
  return LoadBlob(ctx, {.type = BlobType::kTree, .id = id});
}

absl::StatusOr<std::string> Repository::LoadTree(const CallContext& ctx, const BlobId& id,
                                                 const std::optional<BlobLocation>& place,
                                                 int64_t bytes_max) {
  const BlobHandle handle = {.type = BlobType::kTree, .id = id};
  if (place.has_value() && place->span.plaintext_bytes() <= bytes_max) {
    absl::StatusOr<std::string> tree = LoadBlobAt(ctx, handle, *place);
    if (tree.ok() || !IsWrongCopy(tree.status())) {
      return tree;  // Damage: the pack was repacked since, most likely.
    }
  }
  RETURN_IF_ERROR(LoadReadableIndex(ctx));
  return LoadBlob(ctx, handle, bytes_max);
}

// --- Sidecars ---

absl::Status Repository::SaveLocator(const CallContext& ctx, const Id& snapshot,
                                     const TreeLocator& locator, int64_t* stored_bytes) {
  return SaveSidecarAs(ctx, SidecarKey(snapshot), locator.Encode(), stored_bytes);
}

absl::StatusOr<TreeLocator> Repository::LoadLocator(const CallContext& ctx,
                                                    const Id& snapshot) const {
  const std::string key = SidecarKey(snapshot);
  const std::array<SealKey, 2> keys = {KeyBoundTo(master_key_, key), master_key_};
  bool is_bound = false;
  ASSIGN_OR_RETURN(const std::string text, LoadText(ctx, key, keys, is_bound));
  ASSIGN_OR_RETURN(TreeLocator locator, TreeLocator::Decode(text));
  if (locator.is_bound != is_bound) {
    return absl::DataLossError("tree locator: not bound to its snapshot");
  }
  return locator;
}

absl::StatusOr<std::string> Repository::SaveSidecar(const CallContext& ctx,
                                                    absl::string_view folder,
                                                    absl::string_view text) {
  const std::string key = absl::StrCat(folder, RandomId(*environment_.random).Hex());
  RETURN_IF_ERROR(SaveSidecarAs(ctx, key, text));
  return key;
}

absl::Status Repository::SaveSidecarAs(const CallContext& ctx, const std::string& key,
                                       absl::string_view text, int64_t* stored_bytes) {
  return SaveSealed(
             ctx, KeyBoundTo(master_key_, key), text, [&](const Id&) { return key; }, stored_bytes)
      .status();
}

absl::StatusOr<std::string> Repository::LoadSidecar(const CallContext& ctx,
                                                    const std::string& key) const {
  bool is_first = false;
  return LoadText(ctx, key, {KeyBoundTo(master_key_, key)}, is_first);
}

// What was sealed with one of `seal_keys`; `is_first` says whether with the first.
absl::StatusOr<std::string> Repository::LoadText(const CallContext& ctx, const std::string& key,
                                                 absl::Span<const SealKey> seal_keys,
                                                 bool& is_first) const {
  const TextLimit limit(memory(), kLocatorTextBytesMax, kSidecarShare);
  const absl::StatusOr<std::string> sealed = GetWhole(ctx, store_, key, limit.bytes());
  if (!sealed.ok()) {
    return limit.Explain(sealed.status(), key);
  }
  absl::StatusOr<std::string> opened = absl::DataLossError("no key");
  for (std::size_t i = 0; i < seal_keys.size() && !opened.ok(); ++i) {
    opened = Sealer(seal_keys[i], *environment_.random).Open(*sealed);
    is_first = i == 0;
  }
  RETURN_IF_ERROR(opened.status());
  absl::StatusOr<std::string> text = DecodeText(*std::move(opened), limit.bytes());
  return text.ok() ? std::move(text) : limit.Explain(text.status(), key);
}

absl::StatusOr<Id> Repository::SaveLocatorFile(const CallContext& ctx, absl::string_view sealed) {
  const Id id = Id::Of(sealed);
  RETURN_IF_ERROR(PutNamed(ctx, store_, LocatorFileKey(id), id, sealed));
  return id;
}

absl::StatusOr<std::string> Repository::LoadLocatorRange(const CallContext& ctx, const Id& file,
                                                         int64_t offset_bytes,
                                                         int64_t length_bytes) const {
  return store_.GetRange(ctx, LocatorFileKey(file),
                         {.offset_bytes = offset_bytes, .length_bytes = length_bytes});
}

}  // namespace csidelta::repository
