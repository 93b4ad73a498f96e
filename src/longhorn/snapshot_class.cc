#include "longhorn/snapshot_class.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "velero/volume_decision.h"

namespace csidelta::longhorn {
namespace {

constexpr char kSnapshotsType[] = "snap";
constexpr char kBackingImagesType[] = "bi";

}  // namespace

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
