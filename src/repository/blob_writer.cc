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
#include "base/last_words.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "repository/format.h"
#include "repository/pack_headers.h"
#include "repository/pack_writer.h"
#include "repository/stored_packs.h"

namespace csidelta::repository {
namespace {

// Beyond the target: the blob that closes a pack, and the header.
constexpr int64_t kPackSlackBytes = int64_t{6} << 20;

absl::Status PutIndex(const CallContext& ctx, Repository& repository,
                      absl::Span<const IndexedPack> packs, int64_t& stored_bytes) {
  return repository.SaveFile(ctx, FileKind::kIndex, EncodeIndex(packs), &stored_bytes).status();
}

}  // namespace

class BlobWriter::Impl {
 public:
  Impl(const CallContext& ctx, Repository& repository, const BlobWriterOptions& options)
      : repository_(repository), options_(options), outer_stop_(ctx.stop), ctx_(ctx) {
    ctx_.stop = stop_.get_token();
    if (repository.config().version != kRepositoryVersion) {
      error_ = absl::FailedPreconditionError(
          "the repository has format version 1, which is only read here; restic migrate "
          "upgrade_repo_v2 makes it version 2");
    }
    for (int i = 0; i < options_.uploads_in_flight_max; ++i) {
      uploaders_.emplace_back([this] { UploadLoop(); });
    }
  }

  ~Impl() {
    stop_.request_stop();
    uploaders_.clear();  // Joins.
  }

  absl::StatusOr<bool> Add(const BlobHandle& handle, absl::string_view plaintext) {
    {
      const MutexLock lock(mutex_);
      RETURN_IF_ERROR(error_);
      if (!Remember(handle)) {
        return false;
      }
    }
    std::unique_ptr<Lane> lane = TakeLane(handle.type);
    const int64_t bytes_before = lane->builder.bytes();
    absl::Status status = lane->builder.Add(handle.id, plaintext);
    std::optional<Pack> full;
    if (status.ok()) {
      CountBlob(handle.type, plaintext.size(), lane->builder.bytes() - bytes_before);
      if (lane->builder.bytes() >= options_.pack_target_bytes ||
          EntriesOf(lane->builder) >= options_.pack_entries_target) {
        absl::StatusOr<Pack> pack = lane->builder.Finish();
        status = pack.status();
        if (pack.ok()) {
          full = *std::move(pack);
        }
      }
    }
    ReturnLane(std::move(lane));
    if (full.has_value()) {
      status = Enqueue(*std::move(full));
    }
    if (!status.ok()) {
      return SetError(status);
    }
    return true;
  }

  bool IsKnown(const BlobHandle& handle) const {
    const MutexLock lock(mutex_);
    return written_.contains(handle) || IsStored(handle);
  }

  void UseKnown(const BlobIndex& known, absl::flat_hash_set<PackId> absent_packs) {
    const MutexLock lock(mutex_);
    known_ = &known;
    absent_packs_ = std::move(absent_packs);
  }

  void RememberPlace(const BlobId& data_blob) {
    const MutexLock lock(mutex_);
    placed_data_.insert(data_blob);
  }

  absl::Status Flush() {
    absl::Status status = FinishOpenPacks();
    if (status.ok()) {
      status = AwaitUploads();
    }
    if (status.ok()) {
      status = put_packs_.Prove(ctx_, repository_);  // Nobody adds any more.
      if (absl::IsDataLoss(status)) {
        TakePending();  // Not to be listed; the next run takes up those that are there.
      }
    }
    if (status.ok()) {
      status = WriteIndex(ctx_, TakePending());
    }
    return status.ok() ? status : SetError(status);
  }

  absl::Status Checkpoint(const CallContext& ctx) { return WriteIndex(ctx, TakePending()); }

  BlobWriterCounts counts() const {
    const MutexLock lock(mutex_);
    return counts_;
  }

  const PackSample& data_packs() const { return data_packs_; }
  const std::vector<TreePlace>& tree_places() const { return places_; }

 private:
  // An open pack, with the contexts that fill it. In one thread's hands at a time.
  struct Lane {
    Lane(BlobType type, std::unique_ptr<BlobCodec> made)
        : codec(std::move(made)), builder(type, *codec) {}

    std::unique_ptr<BlobCodec> codec;
    PackBuilder builder;
  };

  static int64_t EntriesOf(const PackBuilder& builder) { return std::ssize(builder.entries()); }

  // Whether two begun packs may become one.
  bool FitTogether(const PackBuilder& one, const PackBuilder& other) const {
    return one.bytes() + other.bytes() <= options_.pack_target_bytes + kPackSlackBytes &&
           EntriesOf(one) + EntriesOf(other) <= options_.pack_entries_target;
  }

  // Whether a pack that is there holds the blob. Where the index does not answer
  // it is written twice rather than not at all.
  bool IsStored(const BlobHandle& handle) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (known_ == nullptr) {
      return false;
    }
    if (absent_packs_.empty()) {
      return known_->Contains(handle).value_or(false);
    }
    const std::vector<BlobLocation> copies =
        known_->Lookup(handle).value_or(std::vector<BlobLocation>());
    return std::any_of(copies.begin(), copies.end(),
                       [this](const BlobLocation& copy) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                         return !absent_packs_.contains(copy.pack);
                       });
  }

  // Whether the blob has to be written.
  bool Remember(const BlobHandle& handle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (IsStored(handle)) {
      return false;
    }
    if (static_cast<int64_t>(written_.size()) < options_.remembered_blobs_max) {
      return written_.insert(handle).second;
    }
    return !written_.contains(handle);
  }

  // The lane that was used last, so that few callers leave few open packs.
  std::unique_ptr<Lane> TakeLane(BlobType type) {
    std::unique_ptr<Lane> lane;
    ByteBuffer buffer;
    {
      const MutexLock lock(mutex_);
      std::vector<std::unique_ptr<Lane>>& lanes = FreeLanes(type);
      if (!lanes.empty()) {
        lane = std::move(lanes.back());
        lanes.pop_back();
      }
      if ((lane == nullptr || lane->builder.empty()) && !buffers_.empty()) {
        buffer = std::move(buffers_.back());
        buffers_.pop_back();
      }
    }
    if (lane == nullptr) {
      lane = std::make_unique<Lane>(type, repository_.MakeCodec(options_.data_compression_level));
    }
    if (lane->builder.empty()) {
      lane->builder.UseBuffer(std::move(buffer), options_.pack_target_bytes + kPackSlackBytes);
    }
    return lane;
  }

  void ReturnLane(std::unique_ptr<Lane> lane) {
    const MutexLock lock(mutex_);
    FreeLanes(lane->builder.type()).push_back(std::move(lane));
  }

  std::vector<std::unique_ptr<Lane>>& FreeLanes(BlobType type)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return free_lanes_[static_cast<std::size_t>(type)];
  }

  void CountBlob(BlobType type, std::size_t plaintext_bytes, int64_t packed_bytes) {
    const MutexLock lock(mutex_);
    ++(type == BlobType::kTree ? counts_.tree_blobs : counts_.data_blobs);
    counts_.plaintext_bytes += static_cast<int64_t>(plaintext_bytes);
    counts_.packed_bytes += packed_bytes;
  }

  absl::Status SetError(const absl::Status& status) {
    const MutexLock lock(mutex_);
    error_.Update(status);
    changed_.notify_all();
    return error_;
  }

  // Blocks while too many bytes wait.
  absl::Status Enqueue(Pack pack) {
    const auto pack_bytes = static_cast<int64_t>(pack.bytes.size());
    MutexLock lock(mutex_);
    const bool running =
        changed_.wait(lock, ctx_.stop, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
          return !error_.ok() || waiting_bytes_ == 0 ||
                 waiting_bytes_ + pack_bytes <= options_.upload_bytes_max;
        });
    RETURN_IF_ERROR(error_);
    if (!running) {
      return absl::CancelledError("stop requested");
    }
    waiting_bytes_ += pack_bytes;
    queue_.push_back(std::move(pack));
    changed_.notify_all();
    return absl::OkStatus();
  }

  // The next one to store; nothing once this writer has failed or is stopped.
  std::optional<Pack> TakePack() {
    MutexLock lock(mutex_);
    if (!changed_.wait(lock, ctx_.stop, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
          return error_.ok() && !queue_.empty();
        })) {
      return std::nullopt;
    }
    Pack pack = std::move(queue_.front());
    queue_.pop_front();
    return pack;
  }

  void UploadLoop() {
    while (std::optional<Pack> pack = TakePack()) {
      if (const absl::Status status = Upload(*pack); !status.ok()) {
        SetError(status).IgnoreError();  // The callers get it.
      }
    }
  }

  absl::Status Upload(Pack& pack) {
    RETURN_IF_ERROR(ctx_.Check());
    const auto pack_bytes = static_cast<int64_t>(pack.bytes.size());
    storage::PutOptions options;
    options.sha256_hex = pack.id.Hex();
    const absl::Status put =
        repository_.store().Put(ctx_, PackKey(pack.id), pack.bytes.view(), options);
    if (absl::IsDataLoss(put)) {
      // Other bytes lie there now. Whoever looks for packs of unfinished runs must not find them.
      repository_.store().Delete(LastWords(ctx_), PackKey(pack.id)).IgnoreError();
    }
    if (!put.ok()) {
      return Annotate(put, absl::StrCat("pack ", pack.id.ShortHex()));
    }
    RETURN_IF_ERROR(List(pack));
    const MutexLock lock(mutex_);
    ++counts_.packs;
    counts_.stored_bytes += pack_bytes;
    waiting_bytes_ -= pack_bytes;
    if (buffers_.size() < static_cast<std::size_t>(options_.uploads_in_flight_max)) {
      buffers_.push_back(std::move(pack.bytes));
    }
    changed_.notify_all();
    return absl::OkStatus();
  }

  // Notes a stored pack, and writes an index when enough have come together.
  absl::Status List(Pack& pack) {
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
      if (pack.entries.front().handle.type == BlobType::kData) {
        data_packs_.Add(pack.id);
      }
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

  std::vector<IndexedPack> TakePending() {
    const MutexLock lock(mutex_);
    pending_blobs_ = 0;
    return std::exchange(pending_, {});
  }

  absl::Status WriteIndex(const CallContext& ctx, std::vector<IndexedPack> packs) {
    if (packs.empty()) {
      return absl::OkStatus();
    }
    int64_t stored_bytes = 0;
    const absl::Status put = PutIndex(ctx, repository_, packs, stored_bytes);
    const MutexLock lock(mutex_);
    if (!put.ok()) {
      std::move(packs.begin(), packs.end(), std::back_inserter(pending_));  // For Checkpoint().
      return put;
    }
    ++counts_.index_files;
    counts_.stored_bytes += stored_bytes;
    return absl::OkStatus();
  }

  absl::Status FinishOpenPacks() {
    for (const BlobType type : {BlobType::kData, BlobType::kTree}) {
      std::vector<std::unique_ptr<Lane>> lanes;
      {
        const MutexLock lock(mutex_);
        RETURN_IF_ERROR(error_);
        lanes = std::exchange(FreeLanes(type), {});
      }
      std::erase_if(lanes, [](const auto& lane) { return lane->builder.empty(); });
      RETURN_IF_ERROR(FinishLanes(lanes));
    }
    return absl::OkStatus();
  }

  // Few packs out of many begun ones: those that fit together become one.
  absl::Status FinishLanes(std::vector<std::unique_ptr<Lane>>& lanes) {
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      PackBuilder& builder = lanes[i]->builder;
      if (i + 1 < lanes.size() && FitTogether(builder, lanes[i + 1]->builder)) {
        lanes[i + 1]->builder.Append(builder);
        continue;
      }
      ASSIGN_OR_RETURN(Pack pack, builder.Finish());
      RETURN_IF_ERROR(Enqueue(std::move(pack)));
    }
    return absl::OkStatus();
  }

  absl::Status AwaitUploads() {
    MutexLock lock(mutex_);
    const bool running =
        changed_.wait(lock, ctx_.stop, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
          return !error_.ok() || waiting_bytes_ == 0;
        });
    RETURN_IF_ERROR(error_);
    return running ? absl::OkStatus() : absl::CancelledError("stop requested");
  }

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
  const BlobIndex* known_ ABSL_GUARDED_BY(mutex_) = options_.known;
  absl::flat_hash_set<PackId> absent_packs_ ABSL_GUARDED_BY(mutex_);
  // By mutex_ until Flush() has awaited all that add:
  PutPacks put_packs_;
  PackSample data_packs_;
  std::vector<TreePlace> places_;
  absl::flat_hash_set<BlobHandle> written_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<BlobId> placed_data_ ABSL_GUARDED_BY(mutex_);
  std::array<std::vector<std::unique_ptr<Lane>>, 2> free_lanes_
      ABSL_GUARDED_BY(mutex_);                               // By type; the last is taken first.
  std::vector<ByteBuffer> buffers_ ABSL_GUARDED_BY(mutex_);  // Of packs that are stored.
  std::deque<Pack> queue_ ABSL_GUARDED_BY(mutex_);
  int64_t waiting_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // Of packs in queue_ and on their way.
  std::vector<IndexedPack> pending_ ABSL_GUARDED_BY(mutex_);  // Stored, in no index yet.
  int64_t pending_blobs_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration pending_since_ ABSL_GUARDED_BY(mutex_);
  BlobWriterCounts counts_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::jthread> uploaders_;
};

BlobWriter::BlobWriter(const CallContext& ctx, Repository& repository,
                       const BlobWriterOptions& options)
    : impl_(std::make_unique<Impl>(ctx, repository, options)) {}
BlobWriter::~BlobWriter() = default;

absl::StatusOr<bool> BlobWriter::AddBlob(BlobType type, const BlobId& id,
                                         absl::string_view plaintext) {
  return impl_->Add({.type = type, .id = id}, plaintext);
}

bool BlobWriter::IsKnown(const BlobHandle& handle) const { return impl_->IsKnown(handle); }

void BlobWriter::UseKnown(const BlobIndex& known, absl::flat_hash_set<PackId> absent_packs) {
  impl_->UseKnown(known, std::move(absent_packs));
}

void BlobWriter::RememberPlace(const BlobId& data_blob) { impl_->RememberPlace(data_blob); }

absl::Status BlobWriter::Checkpoint(const CallContext& ctx) { return impl_->Checkpoint(ctx); }

absl::Status BlobWriter::Flush() { return impl_->Flush(); }

BlobWriterCounts BlobWriter::counts() const { return impl_->counts(); }

const PackSample& BlobWriter::data_packs() const { return impl_->data_packs(); }

const std::vector<TreePlace>& BlobWriter::tree_places() const { return impl_->tree_places(); }

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
    int64_t stored_bytes = 0;
    RETURN_IF_ERROR(PutIndex(ctx, repository, adopted, stored_bytes));
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
