#include "repository/verified_packs.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/keep_rules.h"
#include "base/status_macros.h"
#include "repository/byte_buffer.h"
#include "repository/maintenance.h"

namespace csidelta::repository {
namespace {

constexpr absl::string_view kVerdictMagic("CSDV\1\0\0\0", 8);  // with its version
constexpr std::size_t kVerdictHeadBytes = 12;
constexpr char kPacksPrefix[] = "aux/v1/verified/packs-";
constexpr std::size_t kVerdictRowsMax = 65'536;  // of one file of packs
// What is longer was not written by a check, and neither were more than so many.
constexpr int64_t kVerdictFileBytesMax = int64_t{4} << 20;
constexpr std::size_t kVerdictFilesMax = 4096;
constexpr Verdict kIndexInput = 1;

absl::StatusOr<std::vector<std::string>> ListPackFiles(const CallContext& ctx,
                                                       const Repository& repository) {
  std::vector<std::string> keys;
  const auto take = [&keys](const storage::ObjectInfo& file) {
    if (absl::StartsWith(file.key, kPacksPrefix) && file.size_bytes <= kVerdictFileBytesMax &&
        keys.size() < kVerdictFilesMax) {
      keys.push_back(file.key);
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(repository.store().List(ctx, kVerifiedFolder, take));
  return keys;
}

std::vector<VerdictRow> InputsOf(absl::Span<const std::string> pack_files,
                                 absl::Span<const Id> index_files) {
  std::vector<VerdictRow> inputs;
  for (const std::string& key : pack_files) {
    inputs.push_back(VerdictRow::Of(Id::Of(key), 0));
  }
  for (const Id& id : index_files) {
    inputs.push_back(VerdictRow::Of(id, kIndexInput));
  }
  std::sort(inputs.begin(), inputs.end());
  return inputs;
}

// A time that is yet to come is not known; damage that is dated so is of now.
Verdict Believed(Verdict verdict, absl::Time now) {
  if (!IsOfTheFuture(absl::FromUnixSeconds(int64_t{verdict} * 30), now)) {
    return verdict;
  }
  return verdict % 2 == 0 ? 0 : VerdictAt(now, false);
}

absl::StatusOr<MemoryBudget::Share> TakeVerdicts(const Repository& repository, std::size_t count) {
  const auto bytes = static_cast<int64_t>(count * sizeof(Verdict));
  if (bytes > repository.memory().free_bytes() / 4) {
    return absl::ResourceExhaustedError("too little memory is left to know what was verified");
  }
  return repository.memory().Take(bytes, "what was verified");
}

}  // namespace

Verdict VerdictAt(absl::Time time, bool is_good) {
  const int64_t minutes = std::max<int64_t>(0, absl::ToUnixSeconds(time) / 60);
  return static_cast<Verdict>(minutes) * 2 + (is_good ? 0 : 1);
}

std::optional<absl::Time> GoodAt(Verdict verdict) {
  const bool is_good = verdict != 0 && verdict % 2 == 0;
  return is_good ? std::optional(absl::FromUnixSeconds(int64_t{verdict} * 30)) : std::nullopt;
}

VerdictRow VerdictRow::Of(const Id& id, Verdict verdict) {
  VerdictRow row{.name = {}, .verdict = verdict};
  std::memcpy(row.name.data(), id.bytes().data(), row.name.size());
  return row;
}

std::string VerdictFile::Encode() const {
  std::string text(kVerdictMagic);
  AppendLe32(text, static_cast<uint32_t>(inputs.size()));
  for (const std::vector<VerdictRow>* part : {&inputs, &rows}) {
    for (const VerdictRow& row : *part) {
      absl::StrAppend(&text, AsText(row.name));
      AppendLe32(text, row.verdict);
    }
  }
  return text;
}

absl::StatusOr<VerdictFile> VerdictFile::Decode(absl::string_view text) {
  const bool has_head = text.size() >= kVerdictHeadBytes && absl::StartsWith(text, kVerdictMagic);
  const std::size_t inputs = has_head ? ReadLe32(text, kVerdictMagic.size()) : 0;
  if (!has_head || (text.size() - kVerdictHeadBytes) % VerdictRow::kBytes != 0 ||
      inputs > text.size() / VerdictRow::kBytes) {
    return absl::InvalidArgumentError("verified packs: malformed, or of another version");
  }
  VerdictFile file;
  for (std::size_t at = kVerdictHeadBytes; at < text.size(); at += VerdictRow::kBytes) {
    VerdictRow row{.name = {}, .verdict = ReadLe32(text, at + VerdictRow::kNameBytes)};
    std::memcpy(row.name.data(), text.data() + at, row.name.size());
    (file.inputs.size() < inputs ? file.inputs : file.rows).push_back(row);
  }
  return file;
}

absl::Status VerifiedPacks::Load(const CallContext& ctx) {
  absl::StatusOr<MemoryBudget::Share> share =
      TakeVerdicts(repository_, repository_.index().pack_count());
  if (!share.ok()) {
    unknown_ = share.status();
    return absl::OkStatus();
  }
  share_ = *std::move(share);
  packs_.resize(repository_.index().pack_count());
  ASSIGN_OR_RETURN(const std::vector<std::string> listed, ListPackFiles(ctx, repository_));
  for (const std::string& key : listed) {
    absl::StatusOr<std::string> text = repository_.LoadSidecar(ctx, key);
    text = absl::IsDataLoss(text.status()) ? repository_.LoadSidecar(ctx, key) : std::move(text);
    const absl::StatusOr<VerdictFile> read = text.ok() ? VerdictFile::Decode(*text) : text.status();
    if (absl::IsNotFound(read.status()) || absl::IsResourceExhausted(read.status())) {
      continue;  // Another check has merged it into a file that stays, or it is none of a check.
    }
    if (!read.ok() && !IsDamage(read.status())) {
      return read.status();
    }
    Merge(read.value_or(VerdictFile()), ctx.clock->Now());
    files_.push_back(key);
    is_changed_ = is_changed_ || !read.ok();
  }
  return absl::OkStatus();
}

void VerifiedPacks::Merge(const VerdictFile& file, absl::Time now) {
  const BlobIndex& index = repository_.index();
  for (const VerdictRow& row : file.rows) {
    std::array<uint8_t, Id::kBytes> least = {};
    std::memcpy(least.data(), row.name.data(), row.name.size());
    const uint32_t pack = index.FirstPackFrom(Id(least));
    if (pack < index.pack_count() && VerdictRow::Of(index.PackAt(pack), 0).name == row.name) {
      packs_[pack] = std::max(packs_[pack], Believed(row.verdict, now));
    }
  }
}

void VerifiedPacks::Note(uint32_t pack, bool is_good, absl::Time now) {
  if (pack < packs_.size() && (is_good || packs_[pack] % 2 == 0)) {
    // What is damaged now is so, even if a clock that was ahead has dated a good reading.
    packs_[pack] = std::max(VerdictAt(now, is_good), packs_[pack] | (is_good ? 0 : 1));
    is_changed_ = is_changed_ || is_good || !files_.empty();
  }
}

absl::Status VerifiedPacks::PrepareTrees() {
  ASSIGN_OR_RETURN(const uint32_t trees, repository_.index().CountTrees());
  absl::StatusOr<MemoryBudget::Share> share = TakeVerdicts(repository_, trees);
  if (share.ok() && unknown_.ok()) {
    trees_share_ = *std::move(share);
    trees_.assign(trees, std::numeric_limits<Verdict>::max());
  }
  return absl::OkStatus();
}

void VerifiedPacks::AddNeed(uint32_t tree, const IndexedCopy& blob) {
  if (tree < trees_.size()) {
    const bool is_tree = blob.entry.handle.type == BlobType::kTree;
    trees_[tree] = std::min(trees_[tree], is_tree ? OfTree(blob) : Of(blob.pack_ordinal));
  }
}

Verdict VerifiedPacks::OfTree(const IndexedCopy& tree) const {
  return tree.first < trees_.size() ? std::min(trees_[tree.first], Of(tree.pack_ordinal)) : 0;
}

absl::Status VerifiedPacks::Write(const CallContext& ctx) {
  std::vector<std::string> written;
  VerdictFile file;
  for (uint32_t pack = 0; pack < packs_.size(); ++pack) {
    if (packs_[pack] != 0) {
      file.rows.push_back(VerdictRow::Of(repository_.index().PackAt(pack), packs_[pack]));
    }
    if (file.rows.size() == kVerdictRowsMax || (pack + 1 == packs_.size() && !file.rows.empty())) {
      ASSIGN_OR_RETURN(std::string key, repository_.SaveSidecar(ctx, kPacksPrefix, file.Encode()));
      written.push_back(std::move(key));
      file.rows.clear();
    }
  }
  for (const std::string& key : std::exchange(files_, written)) {
    // One that a store does not delete goes on to count; it says nothing that is not in the others.
    if (!repository_.store().Delete(ctx, key).ok()) {
      files_.push_back(key);
    }
  }
  return absl::OkStatus();
}

absl::Status VerifiedPacks::Save(const CallContext& ctx,
                                 std::optional<std::vector<VerdictRow>> snapshots) {
  RETURN_IF_ERROR(unknown_);
  if (is_changed_) {
    RETURN_IF_ERROR(Write(ctx));
  }
  if (files_.empty() || !snapshots.has_value() || trees_.empty()) {
    return absl::OkStatus();
  }
  VerdictFile file{.inputs = InputsOf(files_, repository_.index_files()),
                   .rows = *std::move(snapshots)};
  std::sort(file.rows.begin(), file.rows.end());
  const std::string text = file.Encode();
  const absl::StatusOr<std::string> before = repository_.LoadSidecar(ctx, kVerifiedSnapshotsKey);
  return before.ok() && *before == text
             ? absl::OkStatus()
             : repository_.SaveSidecarAs(ctx, kVerifiedSnapshotsKey, text);
}

absl::StatusOr<std::map<Id, absl::Time>> ReadVerifiedSnapshots(
    const CallContext& ctx, const Repository& repository,
    absl::Span<const StoredSnapshot> snapshots) {
  std::map<Id, absl::Time> verified;
  const absl::StatusOr<std::string> text = repository.LoadSidecar(ctx, kVerifiedSnapshotsKey);
  const absl::StatusOr<VerdictFile> file = text.ok() ? VerdictFile::Decode(*text) : text.status();
  if (!file.ok()) {
    RETURN_IF_ERROR(IsDamage(text.status()) ? absl::OkStatus() : text.status());
    return verified;
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> pack_files, ListPackFiles(ctx, repository));
  ASSIGN_OR_RETURN(const auto index_files, repository.ListFiles(ctx, FileKind::kIndex));
  const std::vector<VerdictRow> inputs = InputsOf(pack_files, IdsOf(index_files));
  const auto known_files = std::count_if(file->inputs.begin(), file->inputs.end(),
                                         [](const VerdictRow& row) { return row.verdict == 0; });
  // New index files are of backups: what a snapshot needs is where it was.
  if (known_files != std::ssize(pack_files) ||
      !std::includes(inputs.begin(), inputs.end(), file->inputs.begin(), file->inputs.end())) {
    return verified;
  }
  for (const StoredSnapshot& stored : snapshots) {
    const VerdictRow least = VerdictRow::Of(stored.id, 0);
    const auto row = std::lower_bound(file->rows.begin(), file->rows.end(), least);
    const bool is_known = row != file->rows.end() && row->name == least.name;
    if (const auto at = GoodAt(is_known ? Believed(row->verdict, ctx.clock->Now()) : 0)) {
      verified[stored.id] = *at;
    }
  }
  return verified;
}

}  // namespace csidelta::repository
