#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "base/json.h"
#include "k8s/api_client.h"
#include "longhorn/types.h"

// What a user may have instead of an archived Snapshot, which is never restored (kinds_guard.h):
// another one of the same volume, under a new name. It holds the data of the moment in which
// Longhorn takes it. What the archived one held is in no object, and cannot come back.
//
//   The first line that applies decides                         what happens
//   a backup of Velero made it, and restores and deletes it     refused
//   Longhorn took it for itself: a rebuild, an expansion        refused
//   it was marked as removed when it was archived               refused
//   Longhorn has a Snapshot of its name                         refused: it needs none
//   Longhorn has no such Volume, or another one of the name     refused
//   no snapshot of the Volume can be taken, or it has no room   refused
//   any other                                                   requested as RetakenName()
//
// One that is refused would only be taken later: Longhorn takes a pending one as soon as it can.
namespace csidelta::longhorn {

struct RetakeRequest {
  std::string namespace_name;  // Longhorn's
  std::string restore_name;
  std::string restore_uid;
};

// The beginning of `name` and a hash: a DNS label of at most 56 bytes, which Longhorn can delete;
// never `name` itself, and the same for each call of a restore. Pure.
std::string RetakenName(absl::string_view name, absl::string_view restore_uid);

// Requests it, and does not wait until it is taken. "" when it is requested, also by an interrupted
// call; else why not, as a part of a sentence that is the same for all Snapshots of this action.
// Errors are those of the API server and of Longhorn's webhooks. Four requests at most.
absl::StatusOr<std::string> Retake(const CallContext& ctx, k8s::ApiClient& api,
                                   const Snapshot& archived, const RetakeRequest& request);

}  // namespace csidelta::longhorn
