#include "longhorn/volume_data.h"

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "velero/volume_decision.h"

namespace csidelta::longhorn {
namespace {

constexpr char kSnapshotsType[] = "snap";
constexpr char kBackingImagesType[] = "bi";

// As its handle; the status is all that is left where the spec names none.
std::string SourceOf(const Volume& volume) {
  if (std::string source = volume.data_source(); !source.empty()) {
    return source;
  }
  const std::string source_volume = volume.cloned_from_volume();
  return source_volume.empty()
             ? ""
             : absl::StrCat(kSnapshotHandlePrefix, source_volume, "/", volume.cloned_from());
}

}  // namespace

DataState DataStateOf(const Volume& volume) {
  if (volume.is_being_restored() ||
      (!volume.from_backup().empty() && !volume.has_begun_restore())) {
    return DataState::kComing;
  }
  const std::string state = volume.clone_state();
  if (state == kCloneCompleted || state == kCloneAwaitsHealth) {
    return DataState::kThere;
  }
  if (state == kCloneFailed) {
    return DataState::kFailed;
  }
  return state.empty() && SourceOf(volume).empty() ? DataState::kThere : DataState::kComing;
}

std::string DataText(const Volume& volume) {
  const std::string source = SourceOf(volume);
  if (source.empty()) {
    return volume.from_backup().empty()
               ? absl::StrCat("Longhorn's Volume ", volume.name())
               : absl::StrCat("Longhorn restores Volume ", volume.name(), " from its backup");
  }
  const std::string state = volume.clone_state();
  const int64_t attempts = volume.clone_attempts();
  return absl::StrCat("Longhorn's clone of ", source, ": ", state.empty() ? "not begun" : state,
                      attempts > 1 ? absl::StrCat(", attempt ", attempts) : "");
}

bool IsCopiedFromSnapshot(const Volume& volume, absl::string_view handle) {
  const std::string source = SourceOf(volume);
  if (source == handle) {
    return true;
  }
  absl::string_view of_volume = source;
  absl::string_view wanted = handle;
  return absl::ConsumePrefix(&of_volume, kVolumeHandlePrefix) &&
         absl::ConsumePrefix(&wanted, kSnapshotHandlePrefix) &&
         wanted.substr(0, wanted.find('/')) == of_volume &&
         wanted.substr(wanted.find('/') + 1) == volume.cloned_from();
}

bool IsCopiedFromVolume(const Volume& volume, absl::string_view source_volume) {
  return !source_volume.empty() && volume.cloned_from_volume() == source_volume;
}

absl::Status CheckClassOfMove(const objects::VolumeSnapshotClass& snapshot_class) {
  const std::string type = snapshot_class.Parameter("type");
  if (!absl::EqualsIgnoreCase(snapshot_class.driver(), velero::kLonghornDriver) ||
      type == kSnapshotsType) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "VolumeSnapshotClass ", snapshot_class.name(), " ",
      type.empty() ? "without the parameter type" : absl::StrCat("of type \"", type, "\""),
      type == kBackingImagesType
          ? " makes Longhorn copy all data into a backing image"
          : " makes Longhorn upload the data to its own backup target, so that it would be "
            "uploaded twice",
      "; name a class with the parameter type: snap"));
}

}  // namespace csidelta::longhorn
