#include "csi/snapshot_class.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "objects/keys.h"

namespace csidelta::csi {
namespace {

template <typename Class>
bool IsOfDriver(const Class& candidate, const std::string& driver) {
  return absl::EqualsIgnoreCase(candidate.driver(), driver);
}

// The keys of the choice, for one kind of class.
struct ClassKind {
  absl::string_view kind;
  absl::string_view claim_annotation;
  absl::string_view label;
  absl::string_view label_value = {};  // "": any
  absl::string_view default_annotation;
  absl::StatusCode none;  // the driver has no class at all
};

constexpr ClassKind kSingle = {.kind = "VolumeSnapshotClass",
                               .claim_annotation = objects::kVolumeSnapshotClassAnnotation,
                               .label = objects::kVolumeSnapshotClassLabel,
                               .default_annotation = objects::kDefaultSnapshotClassAnnotation,
                               .none = absl::StatusCode::kFailedPrecondition};
constexpr ClassKind kGroup = {.kind = "VolumeGroupSnapshotClass",
                              .claim_annotation = objects::kGroupSnapshotClassAnnotation,
                              .label = objects::kGroupSnapshotClassLabel,
                              .label_value = "true",
                              .default_annotation = objects::kDefaultGroupSnapshotClassAnnotation,
                              .none = absl::StatusCode::kNotFound};

// The class called `name`; nullptr with the reason appended when it cannot serve `driver`.
template <typename Class>
const Class* FindNamed(const ClassKind& kind, const std::string& name, absl::string_view said_by,
                       const std::string& driver, const std::vector<Class>& classes,
                       std::vector<std::string>& ungranted) {
  if (name.empty()) {
    return nullptr;
  }
  for (const Class& candidate : classes) {
    if (!absl::EqualsIgnoreCase(candidate.name(), name)) {
      continue;
    }
    if (IsOfDriver(candidate, driver)) {
      return &candidate;
    }
    ungranted.push_back(absl::StrCat(kind.kind, " ", name, " named by ", said_by, " is for driver ",
                                     candidate.driver(), ", not ", driver));
    return nullptr;
  }
  ungranted.push_back(absl::StrCat(kind.kind, " ", name, " named by ", said_by, " does not exist"));
  return nullptr;
}

bool HasLabel(const ClassKind& kind, const objects::Object& candidate) {
  return kind.label_value.empty() ? candidate.HasLabel(kind.label)
                                  : candidate.Label(kind.label) == kind.label_value;
}

template <typename Class>
const Class* FindMarked(const ClassKind& kind, const std::vector<const Class*>& of_driver) {
  for (const Class* candidate : of_driver) {
    if (HasLabel(kind, *candidate)) {
      return candidate;
    }
  }
  for (const Class* candidate : of_driver) {
    if (candidate->Annotation(kind.default_annotation) == "true") {
      return candidate;
    }
  }
  return of_driver.size() == 1 ? of_driver.front() : nullptr;
}

template <typename Class>
absl::Status NoClass(const ClassKind& kind, const std::string& driver,
                     const std::vector<const Class*>& of_driver) {
  if (of_driver.empty()) {
    return absl::Status(kind.none,
                        absl::StrCat("no ", kind.kind, " for driver ", driver,
                                     ": create one, and label it ", kind.label, "=true"));
  }
  const std::string names = absl::StrJoin(
      of_driver, ", ",
      [](std::string* text, const Class* candidate) { absl::StrAppend(text, candidate->name()); });
  return absl::FailedPreconditionError(
      absl::StrCat(of_driver.size(), " ", kind.kind, "es for driver ", driver, " (", names,
                   ") and none is chosen: label one of them ", kind.label,
                   "=true, or name one in the claim's annotation ", kind.claim_annotation));
}

template <typename Class>
absl::StatusOr<SnapshotClassChoice> Choose(const ClassKind& kind,
                                           const SnapshotClassRequest& request,
                                           const std::vector<Class>& classes) {
  const std::pair<const std::string&, absl::string_view> names[] = {
      {request.claim_annotation, "the claim's annotation"},
      {request.policy_parameter, "the volume policy"},
      {request.backup_annotation, "the Backup's annotation"},
  };
  SnapshotClassChoice choice;
  for (const auto& [name, said_by] : names) {
    const Class* found = FindNamed(kind, name, said_by, request.driver, classes, choice.ungranted);
    if (found != nullptr) {
      choice.name = found->name();
      return choice;
    }
  }
  std::vector<const Class*> of_driver;
  for (const Class& candidate : classes) {
    if (IsOfDriver(candidate, request.driver)) {
      of_driver.push_back(&candidate);
    }
  }
  const Class* found = FindMarked(kind, of_driver);
  if (found == nullptr) {
    return NoClass(kind, request.driver, of_driver);
  }
  choice.name = found->name();
  return choice;
}

}  // namespace

absl::StatusOr<SnapshotClassChoice> ChooseSnapshotClass(
    const SnapshotClassRequest& request, const std::vector<objects::VolumeSnapshotClass>& classes) {
  return Choose(kSingle, request, classes);
}

absl::StatusOr<SnapshotClassChoice> ChooseGroupSnapshotClass(
    const SnapshotClassRequest& request,
    const std::vector<objects::VolumeGroupSnapshotClass>& classes) {
  return Choose(kGroup, request, classes);
}

}  // namespace csidelta::csi
