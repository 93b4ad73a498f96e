#include "incremental/mover/chunk_journal.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "repository/byte_buffer.h"

namespace csidelta::incremental {
namespace {

using repository::BlobId;
using repository::Id;
using repository::Repository;
using repository::VolumeLayout;

constexpr absl::string_view kMagic = "CSDJ";
constexpr uint32_t kVersion = 3;
constexpr std::size_t kEntryBytes = 4 + Id::kBytes;

std::string FolderOf(absl::string_view identity) {
  return absl::StrCat(repository::kSidecarFolder, "run-", Id::Of(identity).Hex(), "/");
}

std::vector<std::string> ListKeys(const CallContext& ctx, const Repository& repository,
                                  const std::string& folder) {
  std::vector<std::string> keys;
  repository.store()
      .List(ctx, folder,
            [&](const storage::ObjectInfo& object) {
              keys.push_back(object.key);
              return absl::OkStatus();
            })
      .IgnoreError();
  return keys;
}

void AppendLe64(std::string& text, uint64_t value) {
  repository::AppendLe32(text, static_cast<uint32_t>(value));
  repository::AppendLe32(text, static_cast<uint32_t>(value >> 32));
}

uint64_t ReadLe64(absl::string_view bytes, std::size_t at) {
  return repository::ReadLe32(bytes, at) |
         static_cast<uint64_t>(repository::ReadLe32(bytes, at + 4)) << 32;
}

std::string HeadOf(const VolumeLayout& layout) {
  std::string head(kMagic);
  repository::AppendLe32(head, kVersion);
  AppendLe64(head, static_cast<uint64_t>(layout.size_bytes()));
  repository::AppendLe32(head, static_cast<uint32_t>(layout.chunk_bytes()));
  return head;
}

JournalEntry ReadEntry(absl::string_view bytes, std::size_t at) {
  return {.chunk = repository::ReadLe32(bytes, at), .id = repository::ReadId(bytes, at + 4)};
}

bool HasLowerChunk(const JournalEntry& left, const JournalEntry& right) {
  return left.chunk < right.chunk;
}

}  // namespace

std::string EncodeJournal(const VolumeLayout& layout, const JournalFile& file) {
  std::string text = HeadOf(layout);
  AppendLe64(text, static_cast<uint64_t>(absl::ToUnixSeconds(file.read_at)));
  text.reserve(text.size() + file.entries.size() * kEntryBytes);
  for (const JournalEntry& entry : file.entries) {
    repository::AppendLe32(text, entry.chunk);
    repository::AppendId(text, entry.id);
  }
  return text;
}

absl::StatusOr<JournalFile> DecodeJournal(const VolumeLayout& layout, absl::string_view bytes) {
  const std::string head = HeadOf(layout);
  const std::size_t entries_at = head.size() + sizeof(uint64_t);
  if (bytes.size() < entries_at || bytes.substr(0, head.size()) != head ||
      (bytes.size() - entries_at) % kEntryBytes != 0) {
    return absl::InvalidArgumentError("chunk journal: malformed, or of another volume");
  }
  JournalFile file{
      .read_at = absl::FromUnixSeconds(static_cast<int64_t>(ReadLe64(bytes, head.size()))),
      .entries = {}};
  for (std::size_t at = entries_at; at < bytes.size(); at += kEntryBytes) {
    file.entries.push_back(ReadEntry(bytes, at));
    if (file.entries.back().chunk >= layout.chunk_count()) {
      return absl::InvalidArgumentError("chunk journal: a chunk past the end of the volume");
    }
  }
  return file;
}

ChunkJournal::ChunkJournal(Repository& repository, absl::string_view identity,
                           const VolumeLayout& layout, const JournalSizes& sizes)
    : repository_(repository), folder_(FolderOf(identity)), layout_(layout), sizes_(sizes) {}

bool ChunkJournal::Exists(const CallContext& ctx, const Repository& repository,
                          absl::string_view identity) {
  return !ListKeys(ctx, repository, FolderOf(identity)).empty();
}

std::vector<BlobId> ChunkJournal::Blobs(const CallContext& ctx, const Repository& repository,
                                        absl::string_view identity, int64_t memory_bytes_max) {
  const auto count_max = static_cast<std::size_t>(memory_bytes_max) / sizeof(BlobId);
  std::vector<BlobId> blobs;
  for (const std::string& key : ListKeys(ctx, repository, FolderOf(identity))) {
    const absl::StatusOr<std::string> text = repository.LoadSidecar(ctx, key);
    if (!text.ok() || !absl::StartsWith(*text, kMagic)) {
      continue;
    }
    // The head is shorter than an entry: what is left over by the entries.
    for (std::size_t at = text->size() % kEntryBytes; at < text->size() && blobs.size() < count_max;
         at += kEntryBytes) {
      blobs.push_back(ReadEntry(*text, at).id);
    }
  }
  std::sort(blobs.begin(), blobs.end());
  return blobs;
}

void ChunkJournal::Load(const CallContext& ctx, int64_t memory_bytes_max) {
  const auto entries_max = static_cast<std::size_t>(memory_bytes_max) / sizeof(JournalEntry);
  for (const std::string& key : ListKeys(ctx, repository_, folder_)) {
    const absl::StatusOr<std::string> text = repository_.LoadSidecar(ctx, key);
    if (!text.ok()) {
      continue;
    }
    const absl::StatusOr<JournalFile> file = DecodeJournal(layout_, *text);
    if (!file.ok() || absl::AbsDuration(ctx.clock->Now() - file->read_at) > kJournalAgeMax) {
      repository_.store().Delete(ctx, key).IgnoreError();
    } else if (found_.size() + file->entries.size() <= entries_max) {
      found_.insert(found_.end(), file->entries.begin(), file->entries.end());
    }
  }
  found_.shrink_to_fit();
  std::sort(found_.begin(), found_.end());
}

void ChunkJournal::Forget(const CallContext& ctx) {
  found_ = {};
  Remove(ctx);
}

const BlobId* ChunkJournal::Find(int64_t chunk) const {
  const auto found = std::lower_bound(found_.begin(), found_.end(),
                                      JournalEntry{.chunk = static_cast<uint32_t>(chunk), .id = {}},
                                      HasLowerChunk);
  return found == found_.end() || found->chunk != chunk ? nullptr : &found->id;
}

void ChunkJournal::Note(const CallContext& ctx, int64_t chunk, const BlobId& id, bool is_new) {
  // The file has four bytes for it.
  CSIDELTA_CHECK(chunk >= 0 && chunk <= std::numeric_limits<uint32_t>::max());
  {
    const MutexLock lock(mutex_);
    if (noted_.empty()) {
      noted_since_ = ctx.clock->Now();
    }
    noted_.push_back({.chunk = static_cast<uint32_t>(chunk), .id = id});
    new_bytes_ += is_new ? layout_.ChunkLength(chunk) : 0;
    if (new_bytes_ < sizes_.step_bytes && !IsFull()) {
      return;
    }
    new_bytes_ = 0;
  }
  Flush(ctx);
}

void ChunkJournal::Flush(const CallContext& ctx) {
  const MutexLock storing(store_mutex_);
  JournalFile file;
  bool is_full = false;
  {
    const MutexLock lock(mutex_);
    is_full = IsFull();
    file = {.read_at = noted_since_, .entries = is_full ? std::exchange(noted_, {}) : noted_};
  }
  if (file.entries.empty()) {
    return;
  }
  const absl::StatusOr<std::string> key =
      repository_.SaveSidecar(ctx, folder_, EncodeJournal(layout_, file));
  if (key.ok() && !stored_key_.empty() && stored_key_ != *key) {
    repository_.store().Delete(ctx, stored_key_).IgnoreError();
  }
  stored_key_ = key.ok() && !is_full ? *key : "";
}

void ChunkJournal::Remove(const CallContext& ctx) {
  for (const std::string& key : ListKeys(ctx, repository_, folder_)) {
    repository_.store().Delete(ctx, key).IgnoreError();
  }
}

}  // namespace csidelta::incremental
