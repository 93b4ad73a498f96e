#include "repository/chain.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/keep_rules.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "repository/byte_buffer.h"

namespace csidelta::repository {
namespace {

constexpr absl::string_view kChainMagic = "CSDC";
constexpr uint32_t kChainVersion = 2;
constexpr std::size_t kChainHeadBytes = 12;
constexpr std::size_t kNoteBytes = 3 * Id::kBytes + 12;

ChainNote NoteOf(const StoredSnapshot& stored) {
  const RepoSnapshot& snapshot = stored.snapshot;
  const bool is_volume = IsVolume(snapshot);
  return {.id = stored.id,
          .chain = is_volume ? ChainOf(snapshot.hostname, snapshot.paths) : Id(),
          .parent = snapshot.parent,
          .time = snapshot.time};
}

// The last of `chain` by what the snapshots say of each other, then by their clocks.
const ChainNote* EndOf(const std::map<Id, ChainNote>& notes, const Id& chain, absl::Time now) {
  // What another one builds on is not the newest, whatever the clock said then.
  std::set<Id> bases;
  for (const auto& [id, note] : notes) {
    if (note.chain == chain && note.parent.has_value()) {
      bases.insert(*note.parent);
    }
  }
  const auto rank = [&](const ChainNote& note) {
    return std::tuple(note.time <= now + kClockSkewMax, note.time, note.id);
  };
  const ChainNote* end = nullptr;
  for (const auto& [id, note] : notes) {
    const bool may_be = note.chain == chain && !bases.contains(id);
    if (may_be && (end == nullptr || rank(*end) < rank(note))) {
      end = &note;
    }
  }
  return end;
}

// One search for the end of a chain.
class ChainSearch {
 public:
  ChainSearch(const CallContext& ctx, Repository& repository, const DamagedSnapshotSink& damaged)
      : ctx_(ctx), repository_(repository), damaged_(damaged) {}

  absl::StatusOr<std::optional<StoredSnapshot>> Run(const Id& chain);

 private:
  // What cannot be had is not needed.
  absl::Status LoadNotes(const std::set<Id>& listed);
  absl::Status Read(const std::vector<Id>& ids);

  // Whether the snapshot is what its note says.
  absl::StatusOr<bool> ReadNoted(const ChainNote& note);

  void SaveNotes();

  const CallContext& ctx_;
  Repository& repository_;
  const DamagedSnapshotSink& damaged_;
  bool found_damage_ = false;
  std::map<Id, ChainNote> notes_;
  std::map<Id, RepoSnapshot> read_;
};

absl::StatusOr<std::optional<StoredSnapshot>> ChainSearch::Run(const Id& chain) {
  ASSIGN_OR_RETURN(const std::vector<FileInfo> files,
                   repository_.ListFiles(ctx_, FileKind::kSnapshot));
  const std::vector<Id> ids = IdsOf(files);
  if (ids.size() > kUnnotedMax) {
    RETURN_IF_ERROR(LoadNotes(std::set<Id>(ids.begin(), ids.end())));
  }
  std::vector<Id> unnoted = ids;
  std::erase_if(unnoted, [this](const Id& id) { return notes_.contains(id); });
  RETURN_IF_ERROR(Read(unnoted));
  const ChainNote* end = EndOf(notes_, chain, ctx_.clock->Now());
  if (end != nullptr && !read_.contains(end->id)) {
    ASSIGN_OR_RETURN(const bool is_true, ReadNoted(*end));
    if (!is_true) {
      // The notes are of no use.
      notes_.clear();
      RETURN_IF_ERROR(Read(ids));
      end = EndOf(notes_, chain, ctx_.clock->Now());
    }
  }
  if (read_.size() > kUnnotedMax || found_damage_) {
    SaveNotes();
  }
  if (end == nullptr) {
    return std::optional<StoredSnapshot>();
  }
  return StoredSnapshot{.id = end->id, .snapshot = std::move(read_.at(end->id))};
}

absl::Status ChainSearch::LoadNotes(const std::set<Id>& listed) {
  const absl::StatusOr<std::string> bytes = repository_.LoadSidecar(ctx_, kChainNotesKey);
  RETURN_IF_ERROR(ctx_.Check());
  const absl::StatusOr<std::vector<ChainNote>> notes =
      bytes.ok() ? DecodeChainNotes(*bytes) : bytes.status();
  if (!notes.ok()) {
    return absl::OkStatus();
  }
  for (const ChainNote& note : *notes) {
    if (listed.contains(note.id)) {
      notes_.emplace(note.id, note);
    }
  }
  return absl::OkStatus();
}

absl::Status ChainSearch::Read(const std::vector<Id>& ids) {
  const auto note_damaged = [this](const Id& id, const absl::Status& why) {
    damaged_(id, why);
    if (!absl::IsResourceExhausted(why)) {  // Who has more memory may read it.
      notes_.insert_or_assign(
          id, ChainNote{.id = id, .chain = {}, .parent = {}, .time = absl::UnixEpoch()});
      found_damage_ = true;
    }
  };
  ASSIGN_OR_RETURN(std::vector<StoredSnapshot> snapshots,
                   repository_.LoadSnapshots(ctx_, ids, note_damaged));
  for (StoredSnapshot& stored : snapshots) {
    notes_.insert_or_assign(stored.id, NoteOf(stored));
    read_.insert_or_assign(stored.id, std::move(stored.snapshot));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> ChainSearch::ReadNoted(const ChainNote& note) {
  ASSIGN_OR_RETURN(std::vector<StoredSnapshot> snapshots,
                   repository_.LoadSnapshots(ctx_, {note.id}, [](const Id&, const auto&) {}));
  if (snapshots.empty() || NoteOf(snapshots.front()) != note) {
    return false;
  }
  read_.insert_or_assign(note.id, std::move(snapshots.front().snapshot));
  return true;
}

void ChainSearch::SaveNotes() {
  std::vector<ChainNote> notes;
  notes.reserve(notes_.size());
  for (const auto& [id, note] : notes_) {
    notes.push_back(note);
  }
  // Parents and chains compress where they stand close together.
  std::sort(notes.begin(), notes.end(), [](const ChainNote& a, const ChainNote& b) {
    return std::tie(a.chain, a.time, a.id) < std::tie(b.chain, b.time, b.id);
  });
  const absl::Status saved =
      repository_.SaveSidecarAs(ctx_, kChainNotesKey, EncodeChainNotes(notes));
  if (!saved.ok()) {
    CSIDELTA_LOG(kInfo, "which snapshots build on which was not noted down",
                 {"error", std::string(saved.message())});
  }
}

}  // namespace

Id ChainOf(const std::string& hostname, const std::vector<std::string>& paths) {
  std::string text = absl::StrCat(hostname.size(), ":", hostname);
  for (const std::string& path : paths) {
    absl::StrAppend(&text, path.size(), ":", path);
  }
  return Id::Of(text);
}

std::string EncodeChainNotes(const std::vector<ChainNote>& notes) {
  std::string out(kChainMagic);
  AppendLe32(out, kChainVersion);
  AppendLe32(out, static_cast<uint32_t>(notes.size()));
  for (const ChainNote& note : notes) {
    AppendId(out, note.id);
    AppendId(out, note.chain);
    AppendId(out, note.parent.value_or(Id()));
    const int64_t seconds = absl::ToUnixSeconds(note.time);
    const auto nanos = absl::ToInt64Nanoseconds(note.time - absl::FromUnixSeconds(seconds));
    AppendLe32(out, static_cast<uint32_t>(seconds));
    AppendLe32(out, static_cast<uint32_t>(static_cast<uint64_t>(seconds) >> 32));
    AppendLe32(out, static_cast<uint32_t>(nanos));
  }
  return out;
}

absl::StatusOr<std::vector<ChainNote>> DecodeChainNotes(absl::string_view bytes) {
  if (bytes.size() < kChainHeadBytes || bytes.substr(0, kChainMagic.size()) != kChainMagic ||
      ReadLe32(bytes, 4) != kChainVersion ||
      bytes.size() != kChainHeadBytes + ReadLe32(bytes, 8) * kNoteBytes) {
    return absl::InvalidArgumentError("notes on chains: malformed");
  }
  std::vector<ChainNote> notes;
  for (std::size_t at = kChainHeadBytes; at < bytes.size(); at += kNoteBytes) {
    const std::size_t time_at = at + 3 * Id::kBytes;
    const auto seconds = static_cast<int64_t>(uint64_t{ReadLe32(bytes, time_at)} |
                                              uint64_t{ReadLe32(bytes, time_at + 4)} << 32);
    const Id parent = ReadId(bytes, at + 2 * Id::kBytes);
    notes.push_back(
        {.id = ReadId(bytes, at),
         .chain = ReadId(bytes, at + Id::kBytes),
         .parent = parent.IsNull() ? std::nullopt : std::optional<Id>(parent),
         .time = absl::FromUnixSeconds(seconds) + absl::Nanoseconds(ReadLe32(bytes, time_at + 8))});
  }
  return notes;
}

absl::StatusOr<std::optional<StoredSnapshot>> FindChainEnd(const CallContext& ctx,
                                                           Repository& repository, const Id& chain,
                                                           const DamagedSnapshotSink& damaged) {
  return ChainSearch(ctx, repository, damaged).Run(chain);
}

}  // namespace csidelta::repository
