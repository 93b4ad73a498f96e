#include "conformance/driver_harness.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace csidelta::conformance {
namespace {

constexpr absl::Duration kReadyPause = absl::Seconds(1);

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  return error ? absl::InternalError(absl::StrCat(path, ": ", error.message())) : absl::OkStatus();
}

}  // namespace

std::string DriverHarness::ImagePath(absl::string_view name) const {
  return absl::StrCat(folder_, "/", name, ".image");
}

absl::StatusOr<VolumeInfo> DriverHarness::MakeVolume(const CallContext& ctx, int64_t size_bytes,
                                                     const std::string& snapshot_id) {
  Made made{.is_volume = true,
            .wish = {.name = absl::StrCat(prefix_, "volume-", ++count_),
                     .size_bytes = size_bytes,
                     .snapshot_id = snapshot_id}};
  made_.push_back(std::move(made));
  RETURN_IF_ERROR(Ask(ctx, made_.back()));
  return made_.back().mount.volume;
}

absl::StatusOr<SnapshotInfo> DriverHarness::MakeSnapshot(const CallContext& ctx,
                                                         const std::string& volume_id) {
  Made made{.wish = {.name = absl::StrCat(prefix_, "snapshot-", ++count_)}, .source_id = volume_id};
  made_.push_back(std::move(made));
  RETURN_IF_ERROR(Ask(ctx, made_.back()));
  while (!made_.back().snapshot.ready) {
    RETURN_IF_ERROR(Annotate(ctx.Check(),
                             absl::StrCat("snapshot ", made_.back().id, " does not become ready")));
    ctx.clock->SleepFor(std::min(ctx.TimeLeft(), kReadyPause), ctx.stop);
    RETURN_IF_ERROR(Ask(ctx, made_.back()));
  }
  return made_.back().snapshot;
}

absl::Status DriverHarness::Drop(const CallContext& ctx, const std::string& id) {
  RETURN_IF_ERROR(Drop(ctx, Find(id)));
  Forget(id);
  return absl::OkStatus();
}

absl::StatusOr<std::string> DriverHarness::Attach(const CallContext& ctx,
                                                  const std::string& volume_id) {
  Made& made = Find(volume_id);
  const std::string folder = absl::StrCat(folder_, "/", made.wish.name);
  made.mount.staging_path = absl::StrCat(folder, "/staging");
  made.mount.target_path = absl::StrCat(folder, "/device");
  RETURN_IF_ERROR(MakeFolder(made.mount.staging_path));
  made.attached = true;
  if (info_.stages) {
    RETURN_IF_ERROR(link_.Stage(ctx, made.mount));
  }
  RETURN_IF_ERROR(link_.Publish(ctx, made.mount));
  return made.mount.target_path;
}

absl::Status DriverHarness::Detach(const CallContext& ctx, const std::string& volume_id) {
  return TakeOff(ctx, Find(volume_id));
}

absl::Status DriverHarness::Expand(const CallContext& ctx, const std::string& volume_id,
                                   int64_t size_bytes) {
  const Made& made = Find(volume_id);
  ASSIGN_OR_RETURN(const bool node_too, link_.ExpandVolume(ctx, volume_id, size_bytes));
  return node_too && info_.expands_node ? link_.ExpandOnNode(ctx, made.mount, size_bytes)
                                        : absl::OkStatus();
}

std::string DriverHarness::CleanUp(const CallContext& ctx) {
  std::vector<std::string> stayed;
  for (; !made_.empty(); made_.pop_back()) {
    Made& made = made_.back();
    if (made.id.empty() && !Ask(ctx, made).ok()) {
      continue;  // It was never made.
    }
    if (const absl::Status status = Drop(ctx, made); !status.ok()) {
      stayed.push_back(absl::StrCat(made.wish.name, " (", made.id, "): ", status.message()));
    }
  }
  return absl::StrJoin(stayed, "; ");
}

DriverHarness::Made& DriverHarness::Find(absl::string_view id) {
  const auto found =
      std::find_if(made_.begin(), made_.end(), [id](const Made& made) { return made.id == id; });
  CSIDELTA_CHECK(found != made_.end());
  return *found;
}

void DriverHarness::Forget(absl::string_view id) {
  made_.erase(made_.begin() + (&Find(id) - made_.data()));
}

// Makes it, or learns that it is there: both calls may come twice.
absl::Status DriverHarness::Ask(const CallContext& ctx, Made& made) {
  if (made.is_volume) {
    ASSIGN_OR_RETURN(made.mount.volume, link_.CreateVolume(ctx, made.wish));
    made.id = made.mount.volume.id;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(made.snapshot, link_.CreateSnapshot(ctx, made.wish.name, made.source_id));
  made.id = made.snapshot.id;
  return absl::OkStatus();
}

absl::Status DriverHarness::Drop(const CallContext& ctx, Made& made) {
  if (!made.is_volume) {
    return link_.DeleteSnapshot(ctx, made.id);
  }
  RETURN_IF_ERROR(TakeOff(ctx, made));
  return link_.DeleteVolume(ctx, made.id);
}

absl::Status DriverHarness::TakeOff(const CallContext& ctx, Made& made) {
  if (!made.attached) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(link_.Unpublish(ctx, made.mount));
  if (info_.stages) {
    RETURN_IF_ERROR(link_.Unstage(ctx, made.mount));
  }
  made.attached = false;
  return absl::OkStatus();
}

}  // namespace csidelta::conformance
