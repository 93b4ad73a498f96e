#include "repository/blob_writer.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <iterator>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/final_context.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "repository/format.h"
#include "repository/pack_headers.h"
#include "repository/pack_writer.h"
#include "repository/stored_packs.h"
#include "repository/upload_window.h"

namespace csidelta::repository {
namespace {

// Beyond the target: the blob that closes a pack, and the header.
constexpr int64_t kPackSlackBytes = int64_t{6} << 20;

}  // namespace

class BlobWriter::Impl {
 public:
  Impl(const CallContext& ctx, Repository& repository, const BlobWriterOptions& options);
  ~Impl();
  absl::StatusOr<bool> Add(const BlobHandle& handle, absl::string_view plaintext);
  absl::StatusOr<bool> AddSealed(const PackEntry& entry, absl::string_view envelope);
  bool IsKnown(const BlobHandle& handle) const;
  void UseKnown(std::shared_ptr<StoredBlobs> known);
  StoredBlobs* known() const;
  absl::Status TakeStored(IdSetBuilder& packs, IdSetBuilder& index_files);
  void RememberPlace(const BlobId& data_blob);
  absl::Status Flush();

  absl::Status Checkpoint(const CallContext& ctx) { return WriteIndex(ctx, TakePending()); }

  BlobWriterCounts counts() const;

  const std::vector<TreeLocation>& tree_places() const { return places_; }

 private:
  // An open pack. In one thread's hands at a time.
  struct OpenPack {
    OpenPack(BlobType type, std::unique_ptr<BlobCodec> made)
        : codec(std::move(made)), builder(type, *codec) {}

    std::unique_ptr<BlobCodec> codec;  // Seals the header.
    PackBuilder builder;
  };

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

  bool IsStored(const BlobHandle& handle) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Whether the blob has to be written.
  bool Remember(const BlobHandle& handle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Adds a blob that is not stored yet. What takes longest comes first: others seal into the packs
  // then.
  absl::Status AddNew(const BlobHandle& handle, absl::string_view plaintext, BlobCodec& codec);

  // A pack that is full goes before its place is given back: so there are never more packs than
  // places and uploads.
  absl::Status Fill(OpenPack& open, const BlobCodec::Compressed& blob, BlobCodec& codec);
  absl::Status FillSealed(OpenPack& open, const PackEntry& entry, absl::string_view envelope);
  absl::Status CloseIfFull(PackBuilder& builder);

  // The pack that was used last, so that few callers leave few open ones. Blocks while all are in
  // use.
  absl::StatusOr<std::unique_ptr<OpenPack>> TakePack(BlobType type);
  void ReturnPack(std::unique_ptr<OpenPack> pack);

  OpenPacks& PacksOf(BlobType type) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return open_packs_[static_cast<std::size_t>(type)];
  }

  std::unique_ptr<BlobCodec> MakeCodec() const {
    return repository_.MakeCodec(options_.data_compression_level);
  }

  // The contexts of one caller; as many are made as there are callers at a time.
  std::unique_ptr<BlobCodec> TakeCodec();
  void ReturnCodec(std::unique_ptr<BlobCodec> codec);
  void CountBlob(BlobType type, std::size_t plaintext_bytes, int64_t packed_bytes);
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
  UploadWindow window_ ABSL_GUARDED_BY(mutex_);
  int packs_held_ ABSL_GUARDED_BY(mutex_) = 0;  // These and the open ones that hold a blob.
  std::vector<IndexedPack> pending_ ABSL_GUARDED_BY(mutex_);  // Stored, in no index yet.
  int64_t pending_blobs_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration pending_since_ ABSL_GUARDED_BY(mutex_);
  BlobWriterCounts counts_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::jthread> uploaders_;
};

BlobWriter::Impl::Impl(const CallContext& ctx, Repository& repository,
                       const BlobWriterOptions& options)
    : repository_(repository),
      options_(options),
      outer_stop_(ctx.stop),
      ctx_(ctx),
      packs_(repository.scratch(), kIdSortBytes),
      window_(options.uploads_in_flight_max) {
  ctx_.stop = stop_.get_token();
  if (repository.config().version != kRepositoryVersion) {
    error_ = absl::FailedPreconditionError(
        "the repository has format version 1, which is only read here; restic migrate "
        "upgrade_repo_v2 makes it version 2");
  }
  PacksOf(BlobType::kData).made_max = options_.open_packs_max;
  for (int i = 0; i < options_.uploads_in_flight_max; ++i) {
    uploaders_.emplace_back([this] { UploadLoop(); });
  }
}

BlobWriter::Impl::~Impl() {
  stop_.request_stop();
  uploaders_.clear();  // Joins.
}

absl::StatusOr<bool> BlobWriter::Impl::Add(const BlobHandle& handle, absl::string_view plaintext) {
  {
    const MutexLock lock(mutex_);
    RETURN_IF_ERROR(error_);
    if (!Remember(handle)) {
      return false;
    }
  }
  std::unique_ptr<BlobCodec> codec = TakeCodec();
  const absl::Status status = AddNew(handle, plaintext, *codec);
  ReturnCodec(std::move(codec));
  if (!status.ok()) {
    return SetError(status);
  }
  return true;
}

absl::StatusOr<bool> BlobWriter::Impl::AddSealed(const PackEntry& entry,
                                                 absl::string_view envelope) {
  {
    const MutexLock lock(mutex_);
    RETURN_IF_ERROR(error_);
    if (!Remember(entry.handle)) {
      return false;
    }
  }
  ASSIGN_OR_RETURN(std::unique_ptr<OpenPack> pack, TakePack(entry.handle.type));
  const absl::Status status = FillSealed(*pack, entry, envelope);
  ReturnPack(std::move(pack));
  if (!status.ok()) {
    return SetError(status);
  }
  return true;
}

bool BlobWriter::Impl::IsKnown(const BlobHandle& handle) const {
  const MutexLock lock(mutex_);
  return written_.contains(handle) || IsStored(handle);
}

void BlobWriter::Impl::UseKnown(std::shared_ptr<StoredBlobs> known) {
  const MutexLock lock(mutex_);
  known_ = std::move(known);
}

StoredBlobs* BlobWriter::Impl::known() const {
  const MutexLock lock(mutex_);
  return known_.get();
}

absl::Status BlobWriter::Impl::TakeStored(IdSetBuilder& packs, IdSetBuilder& index_files) {
  RETURN_IF_ERROR(index_files.Add(index_files_));
  return packs_.Drain([&](absl::Span<const MarkedId> some) {
    std::vector<Id> ids;
    for (const MarkedId& one : some) {
      ids.push_back(one.id);
    }
    return packs.Add(ids);
  });
}

void BlobWriter::Impl::RememberPlace(const BlobId& data_blob) {
  const MutexLock lock(mutex_);
  placed_data_.insert(data_blob);
}

absl::Status BlobWriter::Impl::Flush() {
  absl::Status status = FinishOpenPacks();
  if (status.ok()) {
    status = AwaitUploads();
  }
  if (status.ok()) {
    status = put_packs_.Prove(ctx_, repository_);  // Nothing adds any more.
    if (absl::IsDataLoss(status)) {
      TakePending();  // Not to be listed; the next run takes up those that are there.
    }
  }
  if (status.ok()) {
    status = WriteIndex(ctx_, TakePending());
  }
  return status.ok() ? status : SetError(status);
}

BlobWriterCounts BlobWriter::Impl::counts() const {
  const MutexLock lock(mutex_);
  return counts_;
}

bool BlobWriter::Impl::FitTogether(const PackBuilder& one, const PackBuilder& other) const {
  return one.bytes() + other.bytes() <= options_.pack_target_bytes + kPackSlackBytes &&
         EntriesOf(one) + EntriesOf(other) <= options_.pack_entries_target;
}

bool BlobWriter::Impl::IsStored(const BlobHandle& handle) const {
  return known_ != nullptr && known_->Find(handle).has_value();
}

bool BlobWriter::Impl::Remember(const BlobHandle& handle) {
  if (IsStored(handle)) {
    return false;
  }
  if (static_cast<int64_t>(written_.size()) < options_.remembered_blobs_max) {
    return written_.insert(handle).second;
  }
  return !written_.contains(handle);  // Not remembered: it may be stored twice, which costs space.
}

absl::Status BlobWriter::Impl::AddNew(const BlobHandle& handle, absl::string_view plaintext,
                                      BlobCodec& codec) {
  // Compressed before a pack is taken: it takes longest, and open packs are few.
  ASSIGN_OR_RETURN(const BlobCodec::Compressed blob, codec.Compress(handle, plaintext));
  ASSIGN_OR_RETURN(std::unique_ptr<OpenPack> pack, TakePack(handle.type));
  absl::Status status = Fill(*pack, blob, codec);
  ReturnPack(std::move(pack));
  return status;
}

absl::Status BlobWriter::Impl::Fill(OpenPack& open, const BlobCodec::Compressed& blob,
                                    BlobCodec& codec) {
  PackBuilder& builder = open.builder;
  const int64_t bytes_before = builder.bytes();
  RETURN_IF_ERROR(builder.Add(blob, codec));
  CountBlob(blob.handle.type, blob.plaintext.size(), builder.bytes() - bytes_before);
  return CloseIfFull(builder);
}

absl::Status BlobWriter::Impl::FillSealed(OpenPack& open, const PackEntry& entry,
                                          absl::string_view envelope) {
  open.builder.AddSealed(entry, envelope);
  CountBlob(entry.handle.type, entry.span.plaintext_bytes(), static_cast<int64_t>(envelope.size()));
  return CloseIfFull(open.builder);
}

absl::Status BlobWriter::Impl::CloseIfFull(PackBuilder& builder) {
  if (builder.bytes() < options_.pack_target_bytes &&
      EntriesOf(builder) < options_.pack_entries_target) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(Pack pack, builder.Finish());
  return Enqueue(std::move(pack));
}

absl::StatusOr<std::unique_ptr<BlobWriter::Impl::OpenPack>> BlobWriter::Impl::TakePack(
    BlobType type) {
  std::unique_ptr<OpenPack> pack;
  ByteBuffer buffer;
  {
    MutexLock lock(mutex_);
    OpenPacks& packs = PacksOf(type);
    const bool running =
        packs.freed.wait(lock, ctx_.stop, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
          return !error_.ok() || !packs.free.empty() || packs.made < packs.made_max;
        });
    RETURN_IF_ERROR(error_);
    if (!running) {
      return absl::CancelledError("stop requested");
    }
    if (packs.free.empty()) {
      ++packs.made;
    } else {
      pack = std::move(packs.free.back());
      packs.free.pop_back();
    }
    if (pack == nullptr || pack->builder.empty()) {  // Memory is held from the first blob on.
      counts_.packs_held_max = std::max(counts_.packs_held_max, ++packs_held_);
      if (!buffers_.empty()) {
        buffer = std::move(buffers_.back());
        buffers_.pop_back();
      }
    }
  }
  if (pack == nullptr) {
    pack = std::make_unique<OpenPack>(type, MakeCodec());
  }
  if (pack->builder.empty()) {
    pack->builder.UseBuffer(std::move(buffer), options_.pack_target_bytes + kPackSlackBytes);
  }
  return pack;
}

void BlobWriter::Impl::ReturnPack(std::unique_ptr<OpenPack> pack) {
  const MutexLock lock(mutex_);
  OpenPacks& packs = PacksOf(pack->builder.type());
  packs.free.push_back(std::move(pack));
  packs.freed.notify_one();
}

std::unique_ptr<BlobCodec> BlobWriter::Impl::TakeCodec() {
  {
    const MutexLock lock(mutex_);
    if (!free_codecs_.empty()) {
      std::unique_ptr<BlobCodec> codec = std::move(free_codecs_.back());
      free_codecs_.pop_back();
      return codec;
    }
  }
  return MakeCodec();
}

void BlobWriter::Impl::ReturnCodec(std::unique_ptr<BlobCodec> codec) {
  const MutexLock lock(mutex_);
  free_codecs_.push_back(std::move(codec));
}

void BlobWriter::Impl::CountBlob(BlobType type, std::size_t plaintext_bytes, int64_t packed_bytes) {
  const MutexLock lock(mutex_);
  ++(type == BlobType::kTree ? counts_.tree_blobs : counts_.data_blobs);
  counts_.plaintext_bytes += static_cast<int64_t>(plaintext_bytes);
  counts_.packed_bytes += packed_bytes;
}

absl::Status BlobWriter::Impl::SetError(const absl::Status& status) {
  const MutexLock lock(mutex_);
  error_.Update(status);
  changed_.notify_all();  // All that wait must return: no pack will be stored or freed any more.
  for (OpenPacks& packs : open_packs_) {
    packs.freed.notify_all();
  }
  return error_;
}

absl::Status BlobWriter::Impl::Enqueue(Pack pack) {
  MutexLock lock(mutex_);
  const bool running = changed_.wait(lock, ctx_.stop, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !error_.ok() || uploads_ < options_.uploads_in_flight_max;
  });
  RETURN_IF_ERROR(error_);
  if (!running) {
    return absl::CancelledError("stop requested");
  }
  ++uploads_;
  queue_.push_back(std::move(pack));
  changed_.notify_all();
  return absl::OkStatus();
}

std::optional<Pack> BlobWriter::Impl::NextToStore() {
  MutexLock lock(mutex_);
  if (!changed_.wait(lock, ctx_.stop, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return error_.ok() && !queue_.empty() && puts_ < window_.width();
      })) {
    return std::nullopt;
  }
  Pack pack = std::move(queue_.front());
  queue_.pop_front();
  ++puts_;
  return pack;
}

void BlobWriter::Impl::UploadLoop() {
  while (std::optional<Pack> pack = NextToStore()) {
    if (const absl::Status status = Upload(*pack); !status.ok()) {
      SetError(status).IgnoreError();  // The callers get it.
    }
  }
}

absl::Status BlobWriter::Impl::Upload(Pack& pack) {
  RETURN_IF_ERROR(ctx_.Check());
  const auto pack_bytes = static_cast<int64_t>(pack.bytes.size());
  storage::PutOptions options;
  options.sha256_hex = pack.id.Hex();
  const absl::Duration began = ctx_.clock->Uptime();
  const absl::Status put =
      repository_.store().Put(ctx_, PackKey(pack.id), pack.bytes.view(), options);
  if (absl::IsDataLoss(put)) {
    // Other bytes lie there now. A search for packs of unfinished runs must not find them.
    repository_.store().Delete(FinalContext(ctx_), PackKey(pack.id)).IgnoreError();
  }
  if (!put.ok()) {
    return Annotate(put, absl::StrCat("pack ", pack.id.ShortHex()));
  }
  RETURN_IF_ERROR(List(pack));
  const MutexLock lock(mutex_);
  --puts_;
  window_.Ended(pack_bytes, began, ctx_.clock->Uptime(), !queue_.empty());
  ++counts_.packs;
  counts_.stored_bytes += pack_bytes;
  --uploads_;
  --packs_held_;
  if (buffers_.size() < static_cast<std::size_t>(options_.uploads_in_flight_max)) {
    buffers_.push_back(std::move(pack.bytes));
  }
  changed_.notify_all();
  return absl::OkStatus();
}

absl::Status BlobWriter::Impl::List(Pack& pack) {
  std::vector<IndexedPack> due;
  {
    const MutexLock lock(mutex_);
    for (const PackEntry& entry : pack.entries) {
      if (entry.handle.type == BlobType::kTree || placed_data_.contains(entry.handle.id)) {
        places_.push_back(
            {.tree = entry.handle.id, .location = {.pack = pack.id, .span = entry.span}});
      }
    }
    put_packs_.Add(pack.id, static_cast<int64_t>(pack.bytes.size()));
    RETURN_IF_ERROR(AddIds(packs_, absl::MakeConstSpan(&pack.id, 1)));
    if (pending_.empty()) {
      pending_since_ = ctx_.clock->Uptime();
    }
    pending_blobs_ += static_cast<int64_t>(pack.entries.size());
    pending_.push_back({.id = pack.id, .entries = std::move(pack.entries)});
    if (pending_blobs_ >= options_.index_blobs_target ||
        ctx_.clock->Uptime() - pending_since_ >= kIndexAgeMax) {
      due = std::move(pending_);
      pending_.clear();
      pending_blobs_ = 0;
    }
  }
  return WriteIndex(ctx_, std::move(due));
}

std::vector<IndexedPack> BlobWriter::Impl::TakePending() {
  const MutexLock lock(mutex_);
  pending_blobs_ = 0;
  return std::exchange(pending_, {});
}

absl::Status BlobWriter::Impl::WriteIndex(const CallContext& ctx, std::vector<IndexedPack> packs) {
  if (packs.empty()) {
    return absl::OkStatus();
  }
  int64_t stored_bytes = 0;
  const absl::StatusOr<Id> put = SaveIndex(ctx, repository_, packs, options_.fence, &stored_bytes);
  const MutexLock lock(mutex_);
  if (!put.ok()) {
    std::move(packs.begin(), packs.end(), std::back_inserter(pending_));  // For Checkpoint().
    return put.status();
  }
  index_files_.push_back(*put);
  ++counts_.index_files;
  counts_.stored_bytes += stored_bytes;
  return absl::OkStatus();
}

absl::Status BlobWriter::Impl::FinishOpenPacks() {
  for (const BlobType type : {BlobType::kData, BlobType::kTree}) {
    std::vector<std::unique_ptr<OpenPack>> packs;
    {
      const MutexLock lock(mutex_);
      RETURN_IF_ERROR(error_);
      packs = std::exchange(PacksOf(type).free, {});
      PacksOf(type).made = 0;
    }
    std::erase_if(packs, [](const auto& pack) { return pack->builder.empty(); });
    RETURN_IF_ERROR(FinishPacks(packs));
  }
  return absl::OkStatus();
}

absl::Status BlobWriter::Impl::FinishPacks(std::vector<std::unique_ptr<OpenPack>>& packs) {
  for (std::size_t i = 0; i < packs.size(); ++i) {
    PackBuilder& builder = packs[i]->builder;
    if (i + 1 < packs.size() && FitTogether(builder, packs[i + 1]->builder)) {
      packs[i + 1]->builder.Append(builder);
      const MutexLock lock(mutex_);
      --packs_held_;
      continue;
    }
    ASSIGN_OR_RETURN(Pack pack, builder.Finish());
    RETURN_IF_ERROR(Enqueue(std::move(pack)));
  }
  return absl::OkStatus();
}

absl::Status BlobWriter::Impl::AwaitUploads() {
  MutexLock lock(mutex_);
  const bool running = changed_.wait(lock, ctx_.stop, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !error_.ok() || uploads_ == 0;
  });
  RETURN_IF_ERROR(error_);
  return running ? absl::OkStatus() : absl::CancelledError("stop requested");
}

BlobWriter::BlobWriter(const CallContext& ctx, Repository& repository,
                       const BlobWriterOptions& options)
    : impl_(std::make_unique<Impl>(ctx, repository, options)) {}
BlobWriter::~BlobWriter() = default;

absl::StatusOr<bool> BlobWriter::AddBlob(BlobType type, const BlobId& id,
                                         absl::string_view plaintext) {
  return impl_->Add({.type = type, .id = id}, plaintext);
}

absl::StatusOr<bool> BlobWriter::AddSealed(const PackEntry& entry, absl::string_view envelope) {
  return impl_->AddSealed(entry, envelope);
}

bool BlobWriter::IsKnown(const BlobHandle& handle) const { return impl_->IsKnown(handle); }

void BlobWriter::UseKnown(std::shared_ptr<StoredBlobs> known) { impl_->UseKnown(std::move(known)); }

StoredBlobs* BlobWriter::known() const { return impl_->known(); }

absl::Status BlobWriter::TakeStored(IdSetBuilder& packs, IdSetBuilder& index_files) {
  return impl_->TakeStored(packs, index_files);
}

void BlobWriter::RememberPlace(const BlobId& data_blob) { impl_->RememberPlace(data_blob); }

absl::Status BlobWriter::Checkpoint(const CallContext& ctx) { return impl_->Checkpoint(ctx); }

absl::Status BlobWriter::Flush() { return impl_->Flush(); }

BlobWriterCounts BlobWriter::counts() const { return impl_->counts(); }

const std::vector<TreeLocation>& BlobWriter::tree_places() const { return impl_->tree_places(); }

namespace {

// Those of `packs` that hold a blob of `blobs`, which is sorted.
absl::Status KeepThoseWith(const CallContext& ctx, const Repository& repository,
                           const std::vector<BlobId>& blobs, std::vector<FileInfo>& packs) {
  std::vector<FileInfo> kept;
  const auto look = [&](const FileInfo& pack,
                        absl::StatusOr<std::vector<PackEntry>> entries) -> absl::Status {
    if (absl::IsDataLoss(entries.status()) || absl::IsNotFound(entries.status())) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(entries.status());
    const bool has_one = std::any_of(entries->begin(), entries->end(), [&](const PackEntry& entry) {
      return std::binary_search(blobs.begin(), blobs.end(), entry.handle.id);
    });
    if (has_one) {
      kept.push_back(pack);
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(ReadPackHeaders(ctx, repository, packs, PackProof::kHeader, look));
  packs = std::move(kept);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int64_t> AdoptOrphanPacks(const CallContext& ctx, Repository& repository,
                                         const LockFence& fence,
                                         const std::vector<BlobId>* only_with) {
  std::vector<FileInfo> orphans;
  RETURN_IF_ERROR(repository.ListPacks(ctx, [&](const FileInfo& pack) {
    if (!repository.index().ContainsPack(pack.id)) {
      orphans.push_back(pack);
    }
    return absl::OkStatus();
  }));
  if (only_with != nullptr) {
    RETURN_IF_ERROR(KeepThoseWith(ctx, repository, *only_with, orphans));
  }
  std::vector<IndexedPack> adopted;
  int64_t blobs = 0;
  int64_t adopted_count = 0;
  const auto list = [&]() -> absl::Status {
    RETURN_IF_ERROR(SaveIndex(ctx, repository, adopted, fence).status());
    adopted_count += static_cast<int64_t>(adopted.size());
    adopted.clear();
    blobs = 0;
    return absl::OkStatus();
  };
  const auto take = [&](const FileInfo& pack,
                        absl::StatusOr<std::vector<PackEntry>> entries) -> absl::Status {
    if (absl::IsDataLoss(entries.status()) || absl::IsNotFound(entries.status())) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(entries.status());
    blobs += static_cast<int64_t>(entries->size());
    adopted.push_back({.id = pack.id, .entries = *std::move(entries)});
    return blobs >= kIndexBlobsTarget ? list() : absl::OkStatus();
  };
  RETURN_IF_ERROR(ReadPackHeaders(ctx, repository, orphans, PackProof::kWhole, take));
  if (!adopted.empty()) {
    RETURN_IF_ERROR(list());
  }
  if (adopted_count > 0) {
    RETURN_IF_ERROR(repository.ReloadIndex(ctx));
  }
  return adopted_count;
}

}  // namespace csidelta::repository
