#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "diffsnap/pair_table.h"
#include "incremental/differential_request.h"
#include "k8s/api_client.h"

// The kind DifferentialSnapshot and how to read its objects: deploy/differentialsnapshot-crd.yaml.
// All reading is pure, never throws, and takes a value of the wrong type for a missing one.
namespace csidelta::diffsnap {

using incremental::DifferentialSnapshotType;

k8s::ObjectKey DifferentialSnapshotKey(const Json& object);

// status.state. What nobody knows is kNone.
enum class RequestState { kNone, kPending, kSuccess, kFailure };
RequestState StateOf(const Json& object);
// "Pending"; "" for kNone.
std::string ToString(RequestState state);

// status.resolved: what the names in the spec stood for.
struct ResolvedNames {
  std::string driver = {};
  std::string base_handle = {};  // "": what is allocated in the target
  std::string target_handle = {};
  std::string volume_handle = {};  // "": not known
  std::string class_name = {};     // of the target's VolumeSnapshotClass; "": none
  int64_t volume_size_bytes = 0;   // as the target would be restored; 0: not known

  friend bool operator==(const ResolvedNames&, const ResolvedNames&) = default;
};

ResolvedNames ResolvedOf(const Json& object);
Json ToJson(const ResolvedNames& resolved);

// What is served for an object that is a Success.
ResolvedPair PairOf(const Json& object);

}  // namespace csidelta::diffsnap
