#include "csi/snapshot_class.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "csi/snapshot_types.h"
#include "velero/labels.h"

namespace csidelta::csi {
namespace {

bool IsOfDriver(const Json& snapshot_class, const std::string& driver) {
  return absl::EqualsIgnoreCase(GetString(snapshot_class, {"driver"}), driver);
}

// The class called `name`; nullptr with the reason appended when it cannot serve `driver`.
const Json* FindNamed(const std::string& name, absl::string_view said_by, const std::string& driver,
                      const std::vector<Json>& classes, std::vector<std::string>& ungranted) {
  if (name.empty()) {
    return nullptr;
  }
  for (const Json& candidate : classes) {
    if (!absl::EqualsIgnoreCase(Name(candidate), name)) {
      continue;
    }
    if (IsOfDriver(candidate, driver)) {
      return &candidate;
    }
    ungranted.push_back(absl::StrCat("VolumeSnapshotClass ", name, " named by ", said_by,
                                     " is for driver ", GetString(candidate, {"driver"}), ", not ",
                                     driver));
    return nullptr;
  }
  ungranted.push_back(
      absl::StrCat("VolumeSnapshotClass ", name, " named by ", said_by, " does not exist"));
  return nullptr;
}

const Json* FindMarked(const std::vector<const Json*>& of_driver) {
  for (const Json* candidate : of_driver) {
    if (FindJson(*candidate, {"metadata", "labels", velero::kVolumeSnapshotClassLabel}) !=
        nullptr) {
      return candidate;
    }
  }
  for (const Json* candidate : of_driver) {
    if (Annotation(*candidate, velero::kDefaultSnapshotClassAnnotation) == "true") {
      return candidate;
    }
  }
  return of_driver.size() == 1 ? of_driver.front() : nullptr;
}

absl::Status NoClass(const std::string& driver, size_t count) {
  if (count == 0) {
    return absl::FailedPreconditionError(absl::StrCat("no VolumeSnapshotClass for driver ", driver,
                                                      ": create one, and label it ",
                                                      velero::kVolumeSnapshotClassLabel, "=true"));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      count, " VolumeSnapshotClasses for driver ", driver,
      " and none is chosen: label one of them ", velero::kVolumeSnapshotClassLabel,
      "=true, or name one in the claim's annotation ", velero::kVolumeSnapshotClassAnnotation));
}

}  // namespace

absl::StatusOr<SnapshotClassChoice> ChooseSnapshotClass(const SnapshotClassWish& wish,
                                                        const std::vector<Json>& classes) {
  const std::pair<const std::string&, absl::string_view> names[] = {
      {wish.claim_annotation, "the claim's annotation"},
      {wish.policy_parameter, "the volume policy"},
      {wish.backup_annotation, "the Backup's annotation"},
  };
  SnapshotClassChoice choice;
  for (const auto& [name, said_by] : names) {
    const Json* found = FindNamed(name, said_by, wish.driver, classes, choice.ungranted);
    if (found != nullptr) {
      choice.name = Name(*found);
      return choice;
    }
  }
  std::vector<const Json*> of_driver;
  for (const Json& candidate : classes) {
    if (IsOfDriver(candidate, wish.driver)) {
      of_driver.push_back(&candidate);
    }
  }
  const Json* found = FindMarked(of_driver);
  if (found == nullptr) {
    return NoClass(wish.driver, of_driver.size());
  }
  choice.name = Name(*found);
  return choice;
}

}  // namespace csidelta::csi
