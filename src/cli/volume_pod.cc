#include "cli/volume_pod.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/text.h"

namespace csidelta::cli {
namespace {

constexpr int64_t kDiskGroup = 6;  // Of Debian, Fedora and others; also the mover's default.

}  // namespace

void VolumePodFlags::Declare(ArgumentTable& table) {
  table.Add("--image", "IMAGE",
            "for a Pod that copies: an image with /bin/csi-delta of this version", image);
  table.AddList("--supplemental-group", "GID",
                "for that Pod: the group that block devices of the nodes belong to; 6",
                supplemental_groups);
  table.AddList("--image-pull-secret", "NAME", "for that Pod: a Secret of its namespace",
                image_pull_secrets);
}

absl::StatusOr<inplace::CopyPodSettings> VolumePodFlags::Settings() const {
  if (image.empty()) {
    return absl::InvalidArgumentError(
        "a Pod copies, and what it runs is not known; name an image that has /bin/csi-delta with "
        "--image");
  }
  inplace::CopyPodSettings settings{.image = image, .image_pull_secrets = image_pull_secrets};
  if (supplemental_groups.empty()) {
    settings.supplemental_groups.push_back(kDiskGroup);
  }
  for (const std::string& group : supplemental_groups) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(group, &number) || number < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--supplemental-group ", group, " is not the number of a group"));
    }
    settings.supplemental_groups.push_back(number);
  }
  return settings;
}

void NoteHowCompared(Console& console, const objects::VolumeCopyResult& result) {
  if (!result.list_refused.empty()) {
    console.Note(absl::StrCat("everything was compared: ", Printable(result.list_refused)));
  }
  if (result.audit_mismatch) {
    console.Warn("the driver's list omits blocks that differ; everything was compared instead");
  }
}

std::string CopyResultText(const objects::VolumeCopyResult& result) {
  return absl::StrCat(FormatBytes(result.compared_bytes), " compared, ",
                      FormatBytes(result.written_bytes), " written, ",
                      FormatBytes(result.zero_bytes), " made zero");
}

Json CopyResultJson(const objects::VolumeCopyResult& result) {
  return {{"logical_bytes", result.logical_bytes},   {"compared_bytes", result.compared_bytes},
          {"written_bytes", result.written_bytes},   {"zero_bytes", result.zero_bytes},
          {"kept_bytes", result.kept_bytes},         {"used_list", result.used_list},
          {"audit_mismatch", result.audit_mismatch}, {"list_refused", result.list_refused},
          {"may_be_older", result.may_be_older}};
}

}  // namespace csidelta::cli
