#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "objects/volume_snapshot.h"

namespace csidelta::restoreitemactions {

// What the driver says about the snapshot behind a restored VolumeSnapshot.
struct ContentState {
  enum class Kind {
    kReady,    // usable, as far as the driver tells
    kPending,  // no answer yet, or one that may pass
    kGone,     // the driver does not know the handle
  };
  Kind kind = Kind::kPending;
  std::string driver;  // "" until it is known, like what follows
  std::string handle;
  std::string message;  // the driver's last error
};

// Reads the state from a VolumeSnapshotContent. Pure.
ContentState StateOfContent(const objects::VolumeSnapshotContent& content);

// Looks once at the content that `snapshot`, a VolumeSnapshot in the cluster, is restored from.
absl::StatusOr<ContentState> InspectContent(const CallContext& ctx, const csi::Environment& env,
                                            const objects::VolumeSnapshot& snapshot);

// The same, waiting until the answer is not kPending any more or ctx ends: then kPending.
absl::StatusOr<ContentState> AwaitContent(const CallContext& ctx, const csi::Environment& env,
                                          const objects::VolumeSnapshot& snapshot);

// Whether `message`, an error that the driver's sidecar reports, says that the driver knows no such
// snapshot: NOT_FOUND, or a listing without it. Everything else may pass. Pure.
bool ReportsMissingSnapshot(absl::string_view message);

}  // namespace csidelta::restoreitemactions
