#include <array>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/json_text.h"
#include "base/status_macros.h"
#include "repository/volume_layout.h"

namespace csidelta::repository {
namespace {

using Text = std::pair<absl::string_view, std::string VolumeManifest::*>;
using Number = std::pair<absl::string_view, int64_t VolumeManifest::*>;

constexpr std::array<Text, 3> kClaimTexts = {{{"namespace", &VolumeManifest::pvc_namespace},
                                              {"name", &VolumeManifest::pvc_name},
                                              {"uid", &VolumeManifest::pvc_uid}}};

constexpr std::array<Text, 15> kTexts = {{{"pv", &VolumeManifest::pv},
                                          {"storage_class", &VolumeManifest::storage_class},
                                          {"volume_mode", &VolumeManifest::volume_mode},
                                          {"fs_type", &VolumeManifest::fs_type},
                                          {"csi_driver", &VolumeManifest::csi_driver},
                                          {"snapshot_handle", &VolumeManifest::snapshot_handle},
                                          {"change_id", &VolumeManifest::change_id},
                                          {"volume_handle", &VolumeManifest::volume_handle},
                                          {"snapshot_time", &VolumeManifest::snapshot_time},
                                          {"source", &VolumeManifest::source},
                                          {"kind", &VolumeManifest::kind},
                                          {"reason", &VolumeManifest::reason},
                                          {"parent_snapshot", &VolumeManifest::parent_snapshot},
                                          {"program", &VolumeManifest::program},
                                          {"created", &VolumeManifest::created}}};

constexpr std::array<Number, 4> kNumbers = {{{"extents_bytes", &VolumeManifest::extents_bytes},
                                             {"read_bytes", &VolumeManifest::read_bytes},
                                             {"new_bytes", &VolumeManifest::new_bytes},
                                             {"zero_chunks", &VolumeManifest::zero_chunks}}};

constexpr std::array<absl::string_view, 8> kStructure = {
    "layout", "size_bytes", "chunk_bytes", "leaf_chunks",
    "fanout", "image_tree", "pvc",         "access_modes"};

bool IsKnown(absl::string_view name) {
  const auto is_it = [name](const auto& known) { return known.first == name; };
  return absl::c_linear_search(kStructure, name) || absl::c_any_of(kTexts, is_it) ||
         absl::c_any_of(kNumbers, is_it);
}

std::string EncodeClaim(const VolumeManifest& manifest) {
  return absl::StrCat("{\"namespace\":", JsonText(manifest.pvc_namespace),
                      ",\"name\":", JsonText(manifest.pvc_name),
                      ",\"uid\":", JsonText(manifest.pvc_uid), "}");
}

}  // namespace

std::string EncodeManifest(const VolumeManifest& manifest) {
  std::string out =
      absl::StrCat("{\"layout\":", kLayoutVersion, ",\"size_bytes\":", manifest.size_bytes,
                   ",\"chunk_bytes\":", manifest.chunk_bytes, ",\"leaf_chunks\":", kLeafChunks,
                   ",\"fanout\":", kFanout, ",\"image_tree\":\"", manifest.image_tree.Hex(), "\"");
  if (!manifest.pvc_name.empty() || !manifest.pvc_uid.empty()) {
    absl::StrAppend(&out, ",\"pvc\":", EncodeClaim(manifest));
  }
  for (const auto& [name, member] : kTexts) {
    if (!(manifest.*member).empty()) {
      absl::StrAppend(&out, ",\"", name, "\":", JsonText(manifest.*member));
    }
  }
  if (!manifest.access_modes.empty()) {
    absl::StrAppend(&out, ",\"access_modes\":", JsonTextList(manifest.access_modes));
  }
  for (const auto& [name, member] : kNumbers) {
    absl::StrAppend(&out, ",\"", name, "\":", manifest.*member);
  }
  for (const auto& [name, value] : manifest.unknown.items()) {
    absl::StrAppend(&out, ",", JsonText(name), ":", DumpJson(value));
  }
  out.append("}\n");
  return out;
}

absl::StatusOr<VolumeManifest> DecodeManifest(absl::string_view text) {
  if (static_cast<int64_t>(text.size()) > kManifestBytesMax) {
    return absl::InvalidArgumentError("volume.json is too long");
  }
  ASSIGN_OR_RETURN(const Json json, ParseJsonObject(text));
  if (GetInt(json, {"layout"}) != kLayoutVersion || GetInt(json, {"leaf_chunks"}) != kLeafChunks ||
      GetInt(json, {"fanout"}) != kFanout) {
    return absl::FailedPreconditionError("volume.json: a layout that this program does not know");
  }
  VolumeManifest manifest;
  manifest.size_bytes = GetInt(json, {"size_bytes"});
  manifest.chunk_bytes = GetInt(json, {"chunk_bytes"});
  if (const absl::Status status =
          VolumeLayout::Make(manifest.size_bytes, manifest.chunk_bytes).status();
      !status.ok()) {
    return Annotate(status, "volume.json");
  }
  ASSIGN_OR_RETURN(manifest.image_tree, Id::Parse(GetString(json, {"image_tree"})));
  for (const auto& [name, member] : kClaimTexts) {
    manifest.*member = GetString(json, {"pvc", name});
  }
  for (const auto& [name, member] : kTexts) {
    manifest.*member = GetString(json, {name});
  }
  for (const auto& [name, member] : kNumbers) {
    manifest.*member = GetInt(json, {name});
  }
  manifest.access_modes = GetStringList(json, {"access_modes"});
  for (const auto& [name, value] : json.items()) {
    if (!IsKnown(name)) {
      manifest.unknown[name] = value;
    }
  }
  return manifest;
}

}  // namespace csidelta::repository
