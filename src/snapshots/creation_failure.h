#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/clock.h"
#include "k8s/api_client.h"
#include "objects/volume_group_snapshot.h"

// How the creation of a VolumeSnapshot, or of a group of them, ends when it does not succeed.
namespace csidelta::snapshots {

// `status`, with its payloads, and `more` at the end of its message. Pure.
absl::Status WithMore(const absl::Status& status, absl::string_view more);

// DEADLINE_EXCEEDED becomes a sentence: no snapshot of `what` was taken within `timeout`, and what
// the driver reported last ("": nothing). Others stay. Pure.
absl::Status ExplainTimeout(const absl::Status& status, absl::string_view what,
                            absl::Duration timeout, absl::string_view driver_error);

// Deletes the VolumeSnapshot, or the group, that was made, by its uid and in a time of its own.
// What the driver took goes with it, also where its class says Retain: the policy of its content
// becomes Delete first, where the caller may patch it. Returns `status`, and what was deleted; else
// what is left, and its handle.
absl::Status WithdrawSnapshot(const Clock& clock, k8s::ApiClient& api, const k8s::ObjectKey& key,
                              const std::string& uid, const absl::Status& status);
absl::Status WithdrawGroup(const Clock& clock, k8s::ApiClient& api,
                           const objects::VolumeGroupSnapshot& group, const absl::Status& status);

// What allows no more VolumeSnapshots.
enum class RoomLimit { kQuota, kDriver };

// Of a status that says so; nothing for all others. Pure.
std::optional<RoomLimit> OutOfRoom(const absl::Status& status);
// RESOURCE_EXHAUSTED, of which OutOfRoom() says `limit`. Pure.
absl::Status OutOfRoomError(RoomLimit limit, absl::string_view message);

// A ResourceQuota's refusal, which has the code of a missing right, as OutOfRoomError(); others
// stay. Pure.
absl::Status AsQuotaRefusal(const absl::Status& status);
// Whether the driver reports that it has no room: ResourceExhausted. Pure.
bool ReportsNoRoom(absl::string_view driver_error);

// What the API server says of a quota that is used up.
struct QuotaUse {
  std::string name;
  int64_t used = 0;
  int64_t limit = 0;
};
// Nothing where `message` does not say it of a number of VolumeSnapshots. Pure.
std::optional<QuotaUse> ParseQuotaRefusal(absl::string_view message);

// Whether the ResourceQuotas of a namespace allow so many more VolumeSnapshots: OutOfRoomError(),
// in the words of the API server, where one does not. A dry run asks for one; those of a group are
// made by the snapshot controller, which tries again for ever. Errors of a LIST.
absl::Status CheckQuotas(const CallContext& ctx, k8s::ApiClient& api,
                         absl::string_view namespace_name, int needed);

}  // namespace csidelta::snapshots
