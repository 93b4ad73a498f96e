#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

// Values of labels, and names derived as Velero derives them. The keys are in objects/keys.h.
namespace csidelta::velero {

// What a label value may hold, in bytes.
inline constexpr std::size_t kLabelValueBytesMax = 63;

// `name` where it fits a label value; otherwise its first 57 bytes and the first 6 hexadecimal
// digits of its SHA-256. Velero's own rule for names of backups and restores in labels, and for
// operation ids. Pure.
std::string ValidLabelValue(absl::string_view name);

// The name under which a VolumeSnapshot of a backup, and its VolumeSnapshotContent, are restored:
// 64 hexadecimal digits derived from the Restore's uid and the VolumeSnapshot's name in the
// backup. Good as an object's name, one byte too long for a label value. Pure.
std::string RestoredSnapshotName(absl::string_view restore_uid, absl::string_view original_name);

}  // namespace csidelta::velero
