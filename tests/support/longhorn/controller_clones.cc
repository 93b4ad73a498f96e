// The life of a clone: longhorn-manager's volume_clone_controller.go and volume_controller.go, as
// far as a client of volumes.longhorn.io can tell.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "tests/support/longhorn/controller.h"
#include "tests/support/longhorn/kinds.h"

namespace csidelta::longhorn_stand_in {
namespace {

constexpr char kInitiated[] = "initiated";
constexpr char kAwaitsHealth[] = "copy-completed-awaiting-healthy";
constexpr char kCompleted[] = "completed";
constexpr char kFailed[] = "failed";
constexpr int kCloneAttemptsMax = 10;

struct CloneSource {
  std::string volume;
  std::string snapshot;  // "" for a clone of the volume as it is
};

CloneSource SourceOf(const VolumeRecord& volume) {
  absl::string_view rest = volume.data_source;
  if (!absl::ConsumePrefix(&rest, "snap://")) {
    absl::ConsumePrefix(&rest, "vol://");
  }
  const std::size_t slash = rest.find('/');
  return {.volume = std::string(rest.substr(0, slash)),
          .snapshot = slash == absl::string_view::npos ? "" : std::string(rest.substr(slash + 1))};
}

absl::Duration TimeIn(const VolumeRecord& volume) {
  if (volume.clone_state.empty()) {
    return kCloneBeginTime;
  }
  if (volume.clone_state == kFailed) {
    const int attempts = std::min(volume.clone_attempts, kCloneAttemptsMax);
    return kCloneRetryTime * (int64_t{1} << attempts);
  }
  return volume.clone_state == kInitiated ? kCloneCopyTime : kReactionTime;
}

std::string After(const std::string& state) {
  if (state == kInitiated) {
    return kAwaitsHealth;
  }
  return state == kAwaitsHealth ? kCompleted : kInitiated;
}

}  // namespace

bool MayAttach(const VolumeRecord& volume) {
  return volume.data_source.empty() || volume.clone_state == kAwaitsHealth ||
         volume.clone_state == kCompleted;
}

bool Controller::HasCloneSource(const VolumeRecord& volume) {
  const CloneSource source = SourceOf(volume);
  const std::optional<VolumeRecord> owner = volumes_.Find(source.volume);
  if (!owner.has_value() || owner->is_deleting) {
    return false;
  }
  bool is_there = false;
  processes_.Handle(source.volume, [&](Engine& engine) {
    is_there = source.snapshot.empty() ||
               (engine.Has(source.snapshot) && !engine.IsRemoved(source.snapshot));
  });
  return is_there;
}

// The clone's engine has the data as a snapshot of the source's name.
void Controller::CopyData(const VolumeRecord& volume) {
  const CloneSource source = SourceOf(volume);
  std::map<int64_t, std::string> blocks;
  processes_.Handle(source.volume, [&](Engine& engine) {
    blocks = engine.Contents(source.snapshot.empty() ? kVolumeHead : source.snapshot);
  });
  processes_.Handle(volume.name, [&](Engine& engine) {
    const bool was_running = engine.is_running();
    engine.Start();
    for (const auto& [block, data] : blocks) {
      engine.Write(block, data);
    }
    if (!source.snapshot.empty()) {
      engine.TakeSnapshot(source.snapshot, /*is_user_created=*/false, {}, clock_.Now())
          .IgnoreError();
    }
    if (!was_running) {
      engine.Stop();
    }
  });
}

absl::Status Controller::MoveClone(const CallContext& ctx, const VolumeRecord& volume) {
  if (volume.data_source.empty() || volume.clone_state == kCompleted ||
      (volume.clone_state == kFailed && volume.clone_attempts >= kCloneAttemptsMax)) {
    return absl::OkStatus();
  }
  const absl::Time now = clock_.Now();
  const std::string key = absl::StrCat(volume.clone_state, "#", volume.clone_attempts);
  Clone& clone = clones_[volume.name];
  if (clone.key != key) {
    clone = {.key = key, .due = now + TimeIn(volume)};
  }
  const bool is_copying = volume.clone_state.empty() || volume.clone_state == kInitiated;
  if (is_copying && !HasCloneSource(volume)) {
    return FailClone(ctx, volume);
  }
  const std::optional<std::string> held = switches().holds_clones_at;
  if (now < clone.due || held == volume.clone_state) {
    queue_.Add({Part::kVolume, volume.name}, now + kCloneLookTime);
    return absl::OkStatus();
  }
  const std::string next = After(volume.clone_state);
  if (next == kAwaitsHealth) {
    CopyData(volume);
  }
  return ShowClone(ctx, volume, next, volume.clone_attempts + (next == kInitiated ? 1 : 0));
}

absl::Status Controller::FailClone(const CallContext& ctx, const VolumeRecord& volume) {
  const CloneSource source = SourceOf(volume);
  const std::string name = absl::StrCat(volume.name, ".", volume.clone_attempts);
  RETURN_IF_ERROR(Create(ctx, {"", "v1", "events", "Event", true},
                         {{"metadata", {{"name", name}}},
                          {"involvedObject",
                           {{"kind", "Volume"},
                            {"namespace", options_.namespace_name},
                            {"name", volume.name},
                            {"uid", volume.uid}}},
                          {"type", "Warning"},
                          {"reason", "VolumeCloneFailed"},
                          {"message", absl::StrCat("failed to clone from volume ", source.volume,
                                                   " snapshot ", source.snapshot)}},
                         "v1"));
  return ShowClone(ctx, volume, kFailed, std::max(volume.clone_attempts, 1));
}

absl::Status Controller::ShowClone(const CallContext& ctx, const VolumeRecord& volume,
                                   const std::string& state, int attempts) {
  const CloneSource source = SourceOf(volume);
  return Merge(ctx, Key(VolumeType(), volume.name),
               {{"status",
                 {{"cloneStatus",
                   {{"sourceVolume", source.volume},
                    {"snapshot", source.snapshot},
                    {"state", state},
                    {"attemptCount", attempts}}}}}},
               "status");
}

}  // namespace csidelta::longhorn_stand_in
