#pragma once

#include <optional>

#include "absl/strings/string_view.h"

namespace csidelta::objects {

// How a Pod sees a volume: spec.volumeMode of a PVC, spec.sourceVolumeMode of a content.
enum class VolumeMode { kFilesystem, kBlock };

inline absl::string_view ToString(VolumeMode mode) {
  return mode == VolumeMode::kBlock ? "Block" : "Filesystem";
}

// Nothing for any other text, "" included.
inline std::optional<VolumeMode> ParseVolumeMode(absl::string_view text) {
  for (const VolumeMode mode : {VolumeMode::kFilesystem, VolumeMode::kBlock}) {
    if (text == ToString(mode)) {
      return mode;
    }
  }
  return std::nullopt;
}

}  // namespace csidelta::objects
