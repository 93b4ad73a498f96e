#include "incremental/mover/volume_group_tags.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace csidelta::incremental {
namespace {

constexpr char kGroup[] = "volume-group";
constexpr char kSnapshot[] = "volume-group-snapshot";
constexpr char kCutAt[] = "volume-group-cut";
constexpr char kMembers[] = "volume-group-members";

}  // namespace

std::vector<std::string> FormatGroupTags(const VolumeGroupTags& tags) {
  std::vector<std::string> texts = {absl::StrCat(kGroup, "=", tags.group),
                                    absl::StrCat(kSnapshot, "=", tags.snapshot)};
  if (!tags.snapshot_taken_at.empty()) {
    texts.push_back(absl::StrCat(kCutAt, "=", tags.snapshot_taken_at));
  }
  if (tags.members > 0) {
    texts.push_back(absl::StrCat(kMembers, "=", tags.members));
  }
  return texts;
}

std::optional<VolumeGroupTags> ParseGroupTags(const repository::RepoSnapshot& snapshot) {
  VolumeGroupTags tags = {.group = repository::TagValue(snapshot, kGroup),
                          .snapshot = repository::TagValue(snapshot, kSnapshot),
                          .snapshot_taken_at = repository::TagValue(snapshot, kCutAt)};
  if (!absl::SimpleAtoi(repository::TagValue(snapshot, kMembers), &tags.members) ||
      tags.members < 0) {
    tags.members = 0;
  }
  return tags.group.empty() ? std::nullopt : std::optional(std::move(tags));
}

}  // namespace csidelta::incremental
