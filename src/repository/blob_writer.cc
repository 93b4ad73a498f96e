#include "repository/blob_writer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "repository/format.h"
#include "repository/index_rewriter.h"
#include "repository/pack_reader.h"
#include "repository/pack_scanner.h"

namespace csidelta::repository {
namespace {

// Beyond the target: the blob that closes a pack, and the header.
constexpr int64_t kPackSlackBytes = int64_t{6} << 20;
// Of one request that reads a pack to adopt.
constexpr int64_t kAdoptedPieceBytesMax = int64_t{4} << 20;

}  // namespace

// In one thread's hands at a time.
struct BlobWriter::OpenPack {
  OpenPack(BlobType type, std::unique_ptr<BlobCodec> made)
      : codec(std::move(made)), builder(type, *codec) {}

  std::unique_ptr<BlobCodec> codec;  // Seals the header.
  PackBuilder builder;
};

BlobWriter::BlobWriter(const CallContext& ctx, Repository& repository,
                       const BlobWriterOptions& options)
    : repository_(repository),
      options_(options),
      outer_stop_(ctx.stop),
      ctx_(ctx),
      packs_(repository.scratch(), kIdSortBytes),
      window_(options.uploads_in_flight_max) {
  // Else nothing would ever be stored.
  CSIDELTA_CHECK(options.uploads_in_flight_max > 0 && options.open_packs_max > 0);
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

BlobWriter::~BlobWriter() {
  stop_.request_stop();
  uploaders_.clear();  // Joins.
}

absl::StatusOr<bool> BlobWriter::AddBlob(BlobType type, const BlobId& id,
                                         absl::string_view plaintext,
                                         absl::Span<const uint8_t> frame) {
  const BlobHandle handle = {.type = type, .id = id};
  return AddIfNew(handle, [&]() -> absl::Status {
    std::unique_ptr<BlobCodec> codec = TakeCodec();
    // Compressed before a pack is taken: it takes longest, and open packs are few.
    const absl::StatusOr<BlobCodec::Compressed> blob =
        frame.empty()
            ? codec->Compress(handle, plaintext)
            : BlobCodec::Compressed{.handle = handle, .plaintext = plaintext, .frame = frame};
    absl::Status status = blob.status();
    if (status.ok()) {
      status = Fill(type, [&](PackBuilder& pack) { return pack.Add(*blob, *codec); });
    }
    const MutexLock lock(mutex_);
    free_codecs_.push_back(std::move(codec));
    return status;
  });
}

absl::StatusOr<bool> BlobWriter::AddSealed(const PackEntry& entry, absl::string_view envelope) {
  return AddIfNew(entry.handle, [&] {
    return Fill(entry.handle.type, [&](PackBuilder& pack) {
      pack.AddSealed(entry, envelope);
      return absl::OkStatus();
    });
  });
}

absl::StatusOr<bool> BlobWriter::AddIfNew(const BlobHandle& handle,
                                          absl::FunctionRef<absl::Status()> add) {
  {
    const MutexLock lock(mutex_);
    RETURN_IF_ERROR(error_);
    if (!Remember(handle)) {
      return false;
    }
  }
  if (const absl::Status status = add(); !status.ok()) {
    return SetError(status);
  }
  return true;
}

absl::Status BlobWriter::TakeStored(IdSetBuilder& packs, IdSetBuilder& index_files) {
  RETURN_IF_ERROR(index_files.Add(index_files_));
  return packs_.Drain([&](absl::Span<const MarkedId> some) {
    std::vector<Id> ids;
    for (const MarkedId& one : some) {
      ids.push_back(one.id);
    }
    return packs.Add(ids);
  });
}

absl::Status BlobWriter::Flush() {
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

bool BlobWriter::FitTogether(const PackBuilder& one, const PackBuilder& other) const {
  return one.bytes() + other.bytes() <= options_.pack_target_bytes + kPackSlackBytes &&
         EntriesOf(one) + EntriesOf(other) <= options_.pack_entries_target;
}

bool BlobWriter::Remember(const BlobHandle& handle) {
  if (IsStored(handle)) {
    return false;
  }
  if (static_cast<int64_t>(written_.size()) < options_.remembered_blobs_max) {
    return written_.insert(handle).second;
  }
  return !written_.contains(handle);  // Not remembered: it may be stored twice, which costs space.
}

absl::Status BlobWriter::Fill(BlobType type, absl::FunctionRef<absl::Status(PackBuilder&)> add) {
  ASSIGN_OR_RETURN(std::unique_ptr<OpenPack> pack, TakePack(type));
  PackBuilder& builder = pack->builder;
  absl::Status status = add(builder);
  if (status.ok()) {
    CountBlob(builder.entries().back());
    if (builder.bytes() >= options_.pack_target_bytes ||
        EntriesOf(builder) >= options_.pack_entries_target) {
      status = FinishPack(builder);
    }
  }
  const MutexLock lock(mutex_);
  OpenPacks& packs = PacksOf(type);
  packs.free.push_back(std::move(pack));
  packs.freed.notify_one();
  return status;
}

absl::Status BlobWriter::FinishPack(PackBuilder& builder) {
  ASSIGN_OR_RETURN(Pack pack, builder.Finish());
  return Enqueue(std::move(pack));
}

absl::StatusOr<std::unique_ptr<BlobWriter::OpenPack>> BlobWriter::TakePack(BlobType type) {
  std::unique_ptr<OpenPack> pack;
  ByteBuffer buffer;
  {
    MutexLock lock(mutex_);
    OpenPacks& packs = PacksOf(type);
    RETURN_IF_ERROR(Await(lock, packs.freed,
                          [&] { return !packs.free.empty() || packs.made < packs.made_max; }));
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

std::unique_ptr<BlobCodec> BlobWriter::TakeCodec() {
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

void BlobWriter::CountBlob(const PackEntry& entry) {
  const MutexLock lock(mutex_);
  ++(entry.handle.type == BlobType::kTree ? counts_.tree_blobs : counts_.data_blobs);
  counts_.plaintext_bytes += entry.span.plaintext_bytes();
  counts_.packed_bytes += entry.span.sealed_bytes;
  counts_.waiting_bytes += entry.span.sealed_bytes;
}

absl::Status BlobWriter::SetError(const absl::Status& status) {
  const MutexLock lock(mutex_);
  error_.Update(status);
  changed_.notify_all();  // All that wait must return: no pack will be stored or freed any more.
  for (OpenPacks& packs : open_packs_) {
    packs.freed.notify_all();
  }
  return error_;
}

absl::Status BlobWriter::Enqueue(Pack pack) {
  CSIDELTA_CHECK(!pack.entries.empty());
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(Await(lock, changed_, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return uploads_ < options_.uploads_in_flight_max;
  }));
  ++uploads_;
  queue_.push_back(std::move(pack));
  changed_.notify_all();
  return absl::OkStatus();
}

std::optional<Pack> BlobWriter::NextToStore() {
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

void BlobWriter::UploadLoop() {
  while (std::optional<Pack> pack = NextToStore()) {
    if (const absl::Status status = Upload(*pack); !status.ok()) {
      SetError(status).IgnoreError();  // The callers get it.
    }
  }
}

absl::Status BlobWriter::Upload(Pack& pack) {
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
  --uploads_;
  // A pack that is being put is one that is on its way.
  CSIDELTA_CHECK(puts_ >= 0 && uploads_ >= puts_);
  --packs_held_;
  if (buffers_.size() < static_cast<std::size_t>(options_.uploads_in_flight_max)) {
    buffers_.push_back(std::move(pack.bytes));
  }
  changed_.notify_all();
  return absl::OkStatus();
}

absl::Status BlobWriter::List(Pack& pack) {
  std::vector<IndexedPack> due;
  {
    const MutexLock lock(mutex_);
    ++counts_.packs;
    counts_.stored_bytes += static_cast<int64_t>(pack.bytes.size());
    for (const PackEntry& entry : pack.entries) {
      counts_.waiting_bytes -= entry.span.sealed_bytes;
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
  if (options_.on_stored) {
    options_.on_stored(*this);
  }
  return WriteIndex(ctx_, std::move(due));
}

std::vector<IndexedPack> BlobWriter::TakePending() {
  const MutexLock lock(mutex_);
  pending_blobs_ = 0;
  return std::exchange(pending_, {});
}

absl::Status BlobWriter::WriteIndex(const CallContext& ctx, std::vector<IndexedPack> packs) {
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

absl::Status BlobWriter::FinishOpenPacks() {
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

absl::Status BlobWriter::FinishPacks(std::vector<std::unique_ptr<OpenPack>>& packs) {
  for (std::size_t i = 0; i < packs.size(); ++i) {
    PackBuilder& builder = packs[i]->builder;
    if (i + 1 < packs.size() && FitTogether(builder, packs[i + 1]->builder)) {
      packs[i + 1]->builder.Append(builder);
      const MutexLock lock(mutex_);
      --packs_held_;
      continue;
    }
    RETURN_IF_ERROR(FinishPack(builder));
  }
  return absl::OkStatus();
}

absl::Status BlobWriter::AwaitUploads() {
  MutexLock lock(mutex_);
  return Await(lock, changed_,
               [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return uploads_ == 0; });
}

absl::Status BlobWriter::Await(MutexLock& lock, std::condition_variable_any& changed,
                               absl::FunctionRef<bool()> is_due) {
  const bool running = changed.wait(lock, ctx_.stop, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !error_.ok() || is_due();
  });
  RETURN_IF_ERROR(error_);
  return running ? absl::OkStatus() : absl::CancelledError("stop requested");
}

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
  RETURN_IF_ERROR(ReadPackHeaders(ctx, repository, packs, look));
  packs = std::move(kept);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int64_t> AdoptOrphanPacks(const CallContext& ctx, Repository& repository,
                                         const LockFence& fence,
                                         const std::vector<BlobId>* only_with) {
  std::vector<FileInfo> orphans;
  RETURN_IF_ERROR(ListPacksFast(ctx, repository, [&](const FileInfo& pack) {
    if (!repository.index().FindPack(pack.id).has_value()) {
      orphans.push_back(pack);
    }
    return absl::OkStatus();
  }));
  if (only_with != nullptr) {
    RETURN_IF_ERROR(KeepThoseWith(ctx, repository, *only_with, orphans));
  }
  // Nothing is known of them: all is read.
  std::vector<PackToScan> scans;
  scans.reserve(orphans.size());
  for (const FileInfo& orphan : orphans) {
    scans.push_back({.file = orphan, .blobs = {}});
  }
  IndexRewriter index(repository, fence);
  int64_t adopted = 0;
  Mutex mutex;
  const auto take = [&](std::size_t i, PackFindings found) -> absl::Status {
    const MutexLock lock(mutex);
    if (!found.detail.empty()) {
      return absl::OkStatus();
    }
    ++adopted;
    return index.Add(ctx, {.id = orphans[i].id, .entries = std::move(found.header)});
  };
  RETURN_IF_ERROR(ScanPacks(ctx, repository, scans, kAdoptedPieceBytesMax, take));
  RETURN_IF_ERROR(index.Write(ctx));
  if (adopted > 0) {
    RETURN_IF_ERROR(repository.ReloadIndex(ctx));
  }
  return adopted;
}

}  // namespace csidelta::repository
