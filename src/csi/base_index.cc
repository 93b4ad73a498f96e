#include "csi/base_index.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace csidelta::csi {
namespace {

using objects::VolumeSnapshotContent;

std::string ClaimKey(absl::string_view claim_uid) { return absl::StrCat("claim ", claim_uid); }
std::string NeededKey(absl::string_view driver) { return absl::StrCat("needed ", driver); }

std::set<std::string> KeysOf(const BaseSnapshot& base) {
  std::set<std::string> keys = {ClaimKey(base.owner.claim_uid)};
  if (base.is_needed) {
    keys.insert(NeededKey(base.driver));
  }
  return keys;
}

}  // namespace

BaseIndex::BaseIndex()
    : Index([this](const VolumeSnapshotContent& content) { return ReadOne(content); }, KeysOf) {}

std::optional<BaseSnapshot> BaseIndex::ReadOne(const VolumeSnapshotContent& content) {
  if (content.is_being_deleted()) {
    return std::nullopt;
  }
  BaseSnapshot base = ReadBase(content);
  const MutexLock lock(drivers_mutex_);
  drivers_.insert(base.driver);
  return base;
}

std::optional<std::vector<BaseSnapshot>> BaseIndex::OfClaim(absl::string_view claim_uid) const {
  return is_synced() ? std::optional(Find(ClaimKey(claim_uid))) : std::nullopt;
}

std::optional<bool> BaseIndex::Needs(absl::string_view driver) const {
  return is_synced() ? std::optional(!Find(NeededKey(driver)).empty()) : std::nullopt;
}

BaseCounts BaseIndex::counts() const {
  BaseCounts counts;
  {
    const MutexLock lock(drivers_mutex_);
    for (const std::string& driver : drivers_) {
      counts.by_driver[driver] = 0;
    }
  }
  for (const BaseSnapshot& base : All()) {
    ++counts.by_driver[base.driver];
    if (const std::optional<absl::Time> taken_at = base.taken_at(); taken_at.has_value()) {
      counts.oldest = std::min(counts.oldest.value_or(absl::InfiniteFuture()), *taken_at);
    }
  }
  return counts;
}

}  // namespace csidelta::csi
