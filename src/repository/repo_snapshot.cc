#include "repository/repo_snapshot.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/json_text.h"
#include "base/keep_rules.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "repository/format.h"

namespace csidelta::repository {
namespace {

constexpr char kVolumeMember[] = "csi_delta";

constexpr std::array<absl::string_view, 14> kKnownMembers = {
    "time", "parent",   "tree", "paths",    "hostname",        "username", "uid",
    "gid",  "excludes", "tags", "original", "program_version", "summary",  kVolumeMember};

void AppendText(std::string& out, absl::string_view name, const std::string& value) {
  if (!value.empty()) {
    absl::StrAppend(&out, ",\"", name, "\":", JsonText(value));
  }
}

void AppendList(std::string& out, absl::string_view name, const std::vector<std::string>& values) {
  if (!values.empty()) {
    absl::StrAppend(&out, ",\"", name, "\":", JsonTextList(values));
  }
}

template <typename Number>
void AppendNumber(std::string& out, absl::string_view name, Number value) {
  if (value != 0) {
    absl::StrAppend(&out, ",\"", name, "\":", value);
  }
}

std::string EncodeSummary(const SnapshotSummary& summary) {
  return absl::StrCat(
      absl::StrCat("{\"backup_start\":\"", FormatRfc3339(summary.backup_start),
                   "\",\"backup_end\":\"", FormatRfc3339(summary.backup_end), "\",\"files_new\":",
                   summary.files_new, ",\"files_changed\":", summary.files_changed,
                   ",\"files_unmodified\":", summary.files_unmodified,
                   ",\"dirs_new\":", summary.dirs_new, ",\"dirs_changed\":", summary.dirs_changed,
                   ",\"dirs_unmodified\":", summary.dirs_unmodified),
      ",\"data_blobs\":", summary.data_blobs, ",\"tree_blobs\":", summary.tree_blobs,
      ",\"data_added\":", summary.data_added, ",\"data_added_packed\":", summary.data_added_packed,
      ",\"total_files_processed\":", summary.total_files_processed,
      ",\"total_bytes_processed\":", summary.total_bytes_processed, "}");
}

std::string EncodeVolume(const VolumeSummary& volume) {
  std::string out = absl::StrCat("{\"mode\":", JsonText(volume.mode));
  if (!volume.reason.empty()) {
    absl::StrAppend(&out, ",\"reason\":", JsonText(volume.reason));
  }
  if (volume.changed_bytes.has_value()) {
    absl::StrAppend(&out, ",\"changed_bytes\":", *volume.changed_bytes);
  }
  out.push_back('}');
  return out;
}

uint64_t GetUnsigned(const Json& json, JsonPath path) {
  return static_cast<uint64_t>(std::max<int64_t>(0, GetInt(json, path)));
}

uint32_t GetUint32(const Json& json, JsonPath path) {
  const int64_t value = GetInt(json, path);
  return value < 0 || value > std::numeric_limits<uint32_t>::max() ? 0
                                                                   : static_cast<uint32_t>(value);
}

absl::StatusOr<std::optional<Id>> GetId(const Json& json, const std::string& name) {
  const auto found = json.find(name);
  if (found == json.end() || found->is_null()) {
    return std::optional<Id>();
  }
  const absl::StatusOr<Id> id =
      found->is_string() ? Id::Parse(found->get<std::string>()) : absl::InvalidArgumentError("");
  if (!id.ok() || id->IsNull()) {
    return absl::InvalidArgumentError(absl::StrCat("snapshot: ", name, " is not an id"));
  }
  return std::optional<Id>(*id);
}

SnapshotSummary DecodeSummary(const Json& json) {
  SnapshotSummary summary;
  summary.backup_start = ParseRfc3339(GetString(json, {"backup_start"})).value_or(absl::Time());
  summary.backup_end = ParseRfc3339(GetString(json, {"backup_end"})).value_or(absl::Time());
  summary.files_new = GetUnsigned(json, {"files_new"});
  summary.files_changed = GetUnsigned(json, {"files_changed"});
  summary.files_unmodified = GetUnsigned(json, {"files_unmodified"});
  summary.dirs_new = GetUnsigned(json, {"dirs_new"});
  summary.dirs_changed = GetUnsigned(json, {"dirs_changed"});
  summary.dirs_unmodified = GetUnsigned(json, {"dirs_unmodified"});
  summary.data_blobs = GetInt(json, {"data_blobs"});
  summary.tree_blobs = GetInt(json, {"tree_blobs"});
  summary.data_added = GetUnsigned(json, {"data_added"});
  summary.data_added_packed = GetUnsigned(json, {"data_added_packed"});
  summary.total_files_processed = GetUnsigned(json, {"total_files_processed"});
  summary.total_bytes_processed = GetUnsigned(json, {"total_bytes_processed"});
  return summary;
}

VolumeSummary DecodeVolume(const Json& json) {
  VolumeSummary volume;
  volume.mode = GetString(json, {"mode"});
  volume.reason = GetString(json, {"reason"});
  if (const int64_t changed_bytes = GetInt(json, {"changed_bytes"}, -1); changed_bytes >= 0) {
    volume.changed_bytes = changed_bytes;
  }
  return volume;
}

absl::Status DecodeIds(const Json& json, RepoSnapshot& snapshot) {
  ASSIGN_OR_RETURN(snapshot.parent, GetId(json, "parent"));
  ASSIGN_OR_RETURN(snapshot.original, GetId(json, "original"));
  ASSIGN_OR_RETURN(const std::optional<Id> tree, GetId(json, "tree"));
  if (!tree.has_value()) {
    return absl::InvalidArgumentError("snapshot: has no tree");
  }
  snapshot.tree = *tree;
  return absl::OkStatus();
}

}  // namespace

std::string TagValue(const RepoSnapshot& snapshot, absl::string_view name) {
  for (const std::string& tag : snapshot.tags) {
    const absl::string_view text = tag;
    if (absl::StartsWith(text, name) && text.substr(name.size(), 1) == "=") {
      return std::string(text.substr(name.size() + 1));
    }
  }
  return "";
}

std::vector<BlobId> RootsOf(absl::Span<const StoredSnapshot> snapshots) {
  std::vector<BlobId> roots;
  roots.reserve(snapshots.size());
  for (const StoredSnapshot& stored : snapshots) {
    roots.push_back(stored.snapshot.tree);
  }
  return roots;
}

std::string EncodeSnapshot(const RepoSnapshot& snapshot) {
  std::string out = absl::StrCat("{\"time\":\"", FormatRfc3339(snapshot.time), "\"");
  if (snapshot.parent.has_value()) {
    absl::StrAppend(&out, ",\"parent\":\"", snapshot.parent->Hex(), "\"");
  }
  absl::StrAppend(&out, ",\"tree\":\"", snapshot.tree.Hex(),
                  "\",\"paths\":", JsonTextList(snapshot.paths));
  AppendText(out, "hostname", snapshot.hostname);
  AppendText(out, "username", snapshot.username);
  AppendNumber(out, "uid", snapshot.uid);
  AppendNumber(out, "gid", snapshot.gid);
  AppendList(out, "excludes", snapshot.excludes);
  AppendList(out, "tags", snapshot.tags);
  if (snapshot.original.has_value()) {
    absl::StrAppend(&out, ",\"original\":\"", snapshot.original->Hex(), "\"");
  }
  AppendText(out, "program_version", snapshot.program_version);
  if (snapshot.summary.has_value()) {
    absl::StrAppend(&out, ",\"summary\":", EncodeSummary(*snapshot.summary));
  }
  if (snapshot.volume.has_value()) {
    absl::StrAppend(&out, ",\"", kVolumeMember, "\":", EncodeVolume(*snapshot.volume));
  }
  for (const auto& [name, value] : snapshot.unknown.items()) {
    absl::StrAppend(&out, ",", JsonText(name), ":", DumpJson(value));
  }
  out.push_back('}');
  return out;
}

absl::StatusOr<RepoSnapshot> DecodeSnapshot(absl::string_view text) {
  ASSIGN_OR_RETURN(const Json json, ParseJsonObject(text, kSnapshotValuesMax));
  RepoSnapshot snapshot;
  const std::optional<absl::Time> time = ParseRfc3339(GetString(json, {"time"}));
  if (!time.has_value()) {
    return absl::InvalidArgumentError("snapshot: its time is not one of RFC 3339");
  }
  snapshot.time = *time;
  RETURN_IF_ERROR(DecodeIds(json, snapshot));
  snapshot.paths = GetStringList(json, {"paths"});
  snapshot.hostname = GetString(json, {"hostname"});
  snapshot.username = GetString(json, {"username"});
  snapshot.uid = GetUint32(json, {"uid"});
  snapshot.gid = GetUint32(json, {"gid"});
  snapshot.excludes = GetStringList(json, {"excludes"});
  snapshot.tags = GetStringList(json, {"tags"});
  snapshot.program_version = GetString(json, {"program_version"});
  if (const Json* summary = FindJson(json, {"summary"});
      summary != nullptr && summary->is_object()) {
    snapshot.summary = DecodeSummary(*summary);
  }
  if (const Json* volume = FindJson(json, {kVolumeMember});
      volume != nullptr && volume->is_object()) {
    snapshot.volume = DecodeVolume(*volume);
  }
  for (const auto& [name, value] : json.items()) {
    if (std::find(kKnownMembers.begin(), kKnownMembers.end(), name) == kKnownMembers.end()) {
      snapshot.unknown[name] = value;
    }
  }
  return snapshot;
}

const StoredSnapshot* NewestOf(absl::Span<const StoredSnapshot> all,
                               absl::FunctionRef<bool(const RepoSnapshot&)> matches,
                               absl::Time now) {
  std::set<Id> bases;
  for (const StoredSnapshot& stored : all) {
    if (stored.snapshot.parent.has_value()) {
      bases.insert(*stored.snapshot.parent);
    }
  }
  const auto rank = [&](const StoredSnapshot& stored) {
    return std::tuple(!bases.contains(stored.id), !IsOfTheFuture(stored.snapshot.time, now),
                      stored.snapshot.time, stored.id);
  };
  const StoredSnapshot* newest = nullptr;
  for (const StoredSnapshot& stored : all) {
    if (matches(stored.snapshot) && (newest == nullptr || rank(*newest) < rank(stored))) {
      newest = &stored;
    }
  }
  return newest;
}

}  // namespace csidelta::repository
