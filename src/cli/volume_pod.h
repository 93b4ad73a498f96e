#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/json.h"
#include "cli/arguments.h"
#include "cli/console.h"
#include "inplace/volume_copy.h"
#include "k8s/api_client.h"

// What verbs have in common that restore into a PVC by a Pod.
namespace csidelta::cli {

struct VolumePodFlags {
  std::string image;
  std::vector<std::string> supplemental_groups;
  std::vector<std::string> image_pull_secrets;

  void Declare(ArgumentTable& table);
  bool has_image() const { return !image.empty(); }
  // INVALID_ARGUMENT without an image, and for a group that is no number.
  absl::StatusOr<inplace::CopyPodSettings> Settings() const;
};

// Says on stderr why a list was not used, where there was one.
void NoteHowCompared(Console& console, const objects::VolumeCopyResult& result);

// "4.0 GiB compared, 41.0 MiB written, 0 B made zero". Pure.
std::string CopyResultText(const objects::VolumeCopyResult& result);
Json CopyResultJson(const objects::VolumeCopyResult& result);

}  // namespace csidelta::cli
