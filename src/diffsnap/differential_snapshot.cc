#include "diffsnap/differential_snapshot.h"

#include <utility>

#include "k8s/object.h"

namespace csidelta::diffsnap {
namespace {

constexpr std::pair<RequestState, const char*> kStates[] = {{RequestState::kPending, "Pending"},
                                                            {RequestState::kSuccess, "Success"},
                                                            {RequestState::kFailure, "Failure"}};

}  // namespace

k8s::ObjectKey DifferentialSnapshotKey(const Json& object) {
  return {.type = DifferentialSnapshotType(),
          .namespace_name = k8s::Namespace(object),
          .name = k8s::Name(object)};
}

RequestState StateOf(const Json& object) {
  const std::string text = GetString(object, {"status", "state"});
  for (const auto& [state, name] : kStates) {
    if (text == name) {
      return state;
    }
  }
  return RequestState::kNone;
}

std::string ToString(RequestState state) {
  for (const auto& [known, name] : kStates) {
    if (state == known) {
      return name;
    }
  }
  return "";
}

ResolvedNames ResolvedOf(const Json& object) {
  const auto text = [&](absl::string_view member) {
    return GetString(object, {"status", "resolved", member});
  };
  return {.driver = text("driver"),
          .base_handle = text("baseHandle"),
          .target_handle = text("targetHandle"),
          .volume_handle = text("volumeHandle"),
          .class_name = text("volumeSnapshotClassName"),
          .volume_size_bytes = GetInt(object, {"status", "resolved", "volumeSize"})};
}

Json ToJson(const ResolvedNames& resolved) {
  Json json{{"driver", resolved.driver}};
  for (const auto& [member, text] : {std::pair("baseHandle", &resolved.base_handle),
                                     std::pair("targetHandle", &resolved.target_handle),
                                     std::pair("volumeHandle", &resolved.volume_handle),
                                     std::pair("volumeSnapshotClassName", &resolved.class_name)}) {
    if (!text->empty()) {
      json[member] = *text;
    }
  }
  if (resolved.volume_size_bytes > 0) {
    json["volumeSize"] = resolved.volume_size_bytes;
  }
  return json;
}

ResolvedPair PairOf(const Json& object) {
  ResolvedNames resolved = ResolvedOf(object);
  return {
      .scope = {.namespace_name = k8s::Namespace(object),
                .uid = k8s::Uid(object),
                .base_handle = std::move(resolved.base_handle),
                .target_handle = std::move(resolved.target_handle)},
      .volume_handle = std::move(resolved.volume_handle),
      .volume_size_bytes = resolved.volume_size_bytes,
      .parameters = GetStringMap(object, {"spec", "parameters"}),
      .start_offset = GetString(object, {"spec", "startOffset"}),
      .secrets_owner = {.class_name = std::move(resolved.class_name),
                        .namespace_name = k8s::Namespace(object),
                        .snapshot_name = GetString(object, {"spec", "targetVolumeSnapshotName"})}};
}

}  // namespace csidelta::diffsnap
