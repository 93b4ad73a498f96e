#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tests/support/csi_driver/call.h"
#include "tests/support/csi_driver/filesystem.h"
#include "tests/support/csi_driver/services.h"
#include "tests/support/csi_driver/snapshot_messages.h"

namespace csidelta::csi_driver {
namespace {

namespace pb = ::csi::v1;

SizeRange ToSizeRange(const pb::CapacityRange& range) {
  return {.required_bytes = range.required_bytes(), .limit_bytes = range.limit_bytes()};
}

VolumeMode ModeOf(const pb::VolumeCapability& capability) {
  return capability.has_block() ? VolumeMode::kBlock : VolumeMode::kFilesystem;
}

// INVALID_ARGUMENT unless there are capabilities and they agree on one mode.
absl::StatusOr<VolumeMode> ModeOfAll(
    const google::protobuf::RepeatedPtrField<pb::VolumeCapability>& capabilities) {
  if (capabilities.empty()) {
    return absl::InvalidArgumentError("volume_capabilities is missing");
  }
  for (const pb::VolumeCapability& capability : capabilities) {
    RETURN_IF_ERROR(CheckCapability(capability));
    if (ModeOf(capability) != ModeOf(capabilities[0])) {
      return absl::InvalidArgumentError("a volume cannot be a block device and a file system");
    }
  }
  return ModeOf(capabilities[0]);
}

absl::StatusOr<VolumeSpec> ToSpec(const pb::CreateVolumeRequest& request) {
  RETURN_IF_ERROR(Require(request.name(), "name"));
  ASSIGN_OR_RETURN(const VolumeMode mode, ModeOfAll(request.volume_capabilities()));
  VolumeSpec spec{.name = request.name(),
                  .size = ToSizeRange(request.capacity_range()),
                  .mode = mode,
                  .source = {}};
  if (request.has_volume_content_source()) {
    const pb::VolumeContentSource& source = request.volume_content_source();
    spec.source = {.snapshot_id = source.snapshot().snapshot_id(),
                   .volume_id = source.volume().volume_id()};
    if (spec.source.empty()) {
      return absl::InvalidArgumentError("volume_content_source names no source");
    }
  }
  return spec;
}

void FillVolume(const VolumeRecord& record, pb::Volume* volume) {
  volume->set_volume_id(record.id);
  volume->set_capacity_bytes(record.size_bytes);
  if (!record.source.snapshot_id.empty()) {
    volume->mutable_content_source()->mutable_snapshot()->set_snapshot_id(
        record.source.snapshot_id);
  } else if (!record.source.volume_id.empty()) {
    volume->mutable_content_source()->mutable_volume()->set_volume_id(record.source.volume_id);
  }
}

// As Kubernetes calls them.
std::vector<std::string> ModesOf(const pb::CreateVolumeRequest& request) {
  std::vector<std::string> modes;
  for (const pb::VolumeCapability& capability : request.volume_capabilities()) {
    switch (capability.access_mode().mode()) {
      case pb::VolumeCapability::AccessMode::MULTI_NODE_MULTI_WRITER:
        modes.emplace_back("ReadWriteMany");
        break;
      case pb::VolumeCapability::AccessMode::MULTI_NODE_READER_ONLY:
        modes.emplace_back("ReadOnlyMany");
        break;
      default:
        modes.emplace_back("ReadWriteOnce");
    }
  }
  return modes;
}

class ControllerService final : public pb::Controller::Service {
 public:
  ControllerService(const DriverOptions& options, Faults& faults, Store& store)
      : options_(options), faults_(faults), store_(store) {}

  grpc::Status CreateVolume(grpc::ServerContext* context, const pb::CreateVolumeRequest* request,
                            pb::CreateVolumeResponse* response) override {
    return ServeCall(
        faults_, "CreateVolume", context, *request, [&](const std::set<Lie>&) -> absl::Status {
          ASSIGN_OR_RETURN(VolumeSpec spec, ToSpec(*request));
          spec.is_copied_late = options_.late_copies;
          RETURN_IF_ERROR(CheckVolume(*request, spec));
          ASSIGN_OR_RETURN(const VolumeRecord volume, store_.CreateVolume(spec));
          FillVolume(volume, response->mutable_volume());
          const std::vector<std::string> modes = ModesOf(*request);
          if (!options_.habits.share_manager.empty() &&
              absl::c_linear_search(modes, "ReadWriteMany")) {
            (*response->mutable_volume()->mutable_volume_context())[kShareKey] = "true";
          }
          return absl::OkStatus();
        });
  }

  grpc::Status DeleteVolume(grpc::ServerContext* context, const pb::DeleteVolumeRequest* request,
                            pb::DeleteVolumeResponse*) override {
    return ServeCall(faults_, "DeleteVolume", context, *request,
                     [&](const std::set<Lie>&) -> absl::Status {
                       RETURN_IF_ERROR(Require(request->volume_id(), "volume_id"));
                       ASSIGN_OR_RETURN(const int snapshots, SnapshotsOf(request->volume_id()));
                       RETURN_IF_ERROR(support::CheckDeletes(options_.habits, snapshots));
                       return store_.DeleteVolume(request->volume_id());
                     });
  }

  grpc::Status ValidateVolumeCapabilities(
      grpc::ServerContext* context, const pb::ValidateVolumeCapabilitiesRequest* request,
      pb::ValidateVolumeCapabilitiesResponse* response) override {
    return ServeCall(faults_, "ValidateVolumeCapabilities", context, *request,
                     [&](const std::set<Lie>&) { return Validate(*request, response); });
  }

  grpc::Status ListVolumes(grpc::ServerContext* context, const pb::ListVolumesRequest* request,
                           pb::ListVolumesResponse* response) override {
    return ServeCall(
        faults_, "ListVolumes", context, *request, [&](const std::set<Lie>&) -> absl::Status {
          ASSIGN_OR_RETURN(const Page<VolumeRecord> page,
                           store_.ListVolumes({request->max_entries(), request->starting_token()}));
          for (const VolumeRecord& volume : page.records) {
            FillVolume(volume, response->add_entries()->mutable_volume());
          }
          response->set_next_token(page.next_token);
          return absl::OkStatus();
        });
  }

  grpc::Status GetCapacity(grpc::ServerContext* context, const pb::GetCapacityRequest* request,
                           pb::GetCapacityResponse* response) override {
    return ServeCall(faults_, "GetCapacity", context, *request,
                     [&](const std::set<Lie>&) -> absl::Status {
                       ASSIGN_OR_RETURN(const int64_t available, store_.AvailableBytes());
                       response->set_available_capacity(available);
                       return absl::OkStatus();
                     });
  }

  grpc::Status ControllerGetCapabilities(grpc::ServerContext* context,
                                         const pb::ControllerGetCapabilitiesRequest* request,
                                         pb::ControllerGetCapabilitiesResponse* response) override {
    return ServeCall(
        faults_, "ControllerGetCapabilities", context, *request, [&](const std::set<Lie>&) {
          using Rpc = pb::ControllerServiceCapability::RPC;
          std::vector<Rpc::Type> types = {Rpc::CREATE_DELETE_VOLUME, Rpc::CREATE_DELETE_SNAPSHOT,
                                          Rpc::CLONE_VOLUME,         Rpc::EXPAND_VOLUME,
                                          Rpc::LIST_VOLUMES,         Rpc::GET_CAPACITY};
          if (options_.list_snapshots) {
            types.push_back(Rpc::LIST_SNAPSHOTS);
          }
          for (const Rpc::Type type : types) {
            response->add_capabilities()->mutable_rpc()->set_type(type);
          }
          return absl::OkStatus();
        });
  }

  grpc::Status CreateSnapshot(grpc::ServerContext* context,
                              const pb::CreateSnapshotRequest* request,
                              pb::CreateSnapshotResponse* response) override {
    return ServeCall(
        faults_, "CreateSnapshot", context, *request,
        [&](const std::set<Lie>& lies) -> absl::Status {
          RETURN_IF_ERROR(Require(request->name(), "name"));
          RETURN_IF_ERROR(Require(request->source_volume_id(), "source_volume_id"));
          RETURN_IF_ERROR(CheckSnapshot(*request));
          ASSIGN_OR_RETURN(const SnapshotRecord snapshot,
                           store_.CreateSnapshot(request->name(), request->source_volume_id()));
          RETURN_IF_ERROR(
              support::CheckTaken(options_.habits, snapshot.created_at, store_.clock().Now()));
          FillSnapshot(snapshot, lies, response->mutable_snapshot());
          return absl::OkStatus();
        });
  }

  grpc::Status DeleteSnapshot(grpc::ServerContext* context,
                              const pb::DeleteSnapshotRequest* request,
                              pb::DeleteSnapshotResponse*) override {
    return ServeCall(
        faults_, "DeleteSnapshot", context, *request, [&](const std::set<Lie>&) -> absl::Status {
          RETURN_IF_ERROR(Require(request->snapshot_id(), "snapshot_id"));
          RETURN_IF_ERROR(CheckGoesAlone(request->snapshot_id()));
          return store_.DeleteSnapshot(request->snapshot_id(), options_.keep_change_data);
        });
  }

  grpc::Status ListSnapshots(grpc::ServerContext* context, const pb::ListSnapshotsRequest* request,
                             pb::ListSnapshotsResponse* response) override {
    return ServeCall(faults_, "ListSnapshots", context, *request,
                     [&](const std::set<Lie>& lies) { return List(*request, lies, response); });
  }

  grpc::Status ControllerExpandVolume(grpc::ServerContext* context,
                                      const pb::ControllerExpandVolumeRequest* request,
                                      pb::ControllerExpandVolumeResponse* response) override {
    return ServeCall(faults_, "ControllerExpandVolume", context, *request,
                     [&](const std::set<Lie>&) { return Expand(*request, response); });
  }

 private:
  absl::Status Validate(const pb::ValidateVolumeCapabilitiesRequest& request,
                        pb::ValidateVolumeCapabilitiesResponse* response) {
    RETURN_IF_ERROR(Require(request.volume_id(), "volume_id"));
    if (request.volume_capabilities().empty()) {
      return absl::InvalidArgumentError("volume_capabilities is missing");
    }
    ASSIGN_OR_RETURN(const VolumeRecord volume, store_.GetVolume(request.volume_id()));
    const absl::StatusOr<VolumeMode> mode = ModeOfAll(request.volume_capabilities());
    if (!mode.ok() || *mode != volume.mode) {
      response->set_message(mode.ok() ? "the volume has the other mode"
                                      : std::string(mode.status().message()));
      return absl::OkStatus();
    }
    *response->mutable_confirmed()->mutable_volume_capabilities() = request.volume_capabilities();
    *response->mutable_confirmed()->mutable_volume_context() = request.volume_context();
    *response->mutable_confirmed()->mutable_parameters() = request.parameters();
    return absl::OkStatus();
  }

  absl::StatusOr<int> SnapshotsOf(const std::string& volume_id) {
    ASSIGN_OR_RETURN(const Page<SnapshotRecord> page,
                     store_.ListSnapshots({.id = "", .volume_id = volume_id}, {}));
    return static_cast<int>(page.records.size());
  }

  // The habits that concern a new volume.
  absl::Status CheckVolume(const pb::CreateVolumeRequest& request, const VolumeSpec& spec) {
    RETURN_IF_ERROR(
        support::CheckModes(options_.habits, ModesOf(request), spec.mode == VolumeMode::kBlock));
    const absl::StatusOr<SnapshotRecord> source = store_.GetSnapshot(spec.source.snapshot_id);
    return source.ok() ? support::CheckSizeOfClone(options_.habits, spec.size.required_bytes,
                                                   source->size_bytes)
                       : absl::OkStatus();
  }

  // The habits that concern a snapshot which is not there yet.
  absl::Status CheckSnapshot(const pb::CreateSnapshotRequest& request) {
    support::SnapshotRoom room{.now = store_.clock().Now()};
    ASSIGN_OR_RETURN(const Page<SnapshotRecord> page,
                     store_.ListSnapshots({.id = "", .volume_id = request.source_volume_id()}, {}));
    for (const SnapshotRecord& snapshot : page.records) {
      if (snapshot.name == request.name()) {
        return absl::OkStatus();
      }
      ++room.snapshots;
    }
    {
      const std::lock_guard<std::mutex> lock(latest_mutex_);
      const auto latest = latest_at_.find(request.source_volume_id());
      if (latest != latest_at_.end()) {
        room.latest_at = latest->second;
      }
    }
    ASSIGN_OR_RETURN(const Page<VolumeRecord> volumes, store_.ListVolumes({}));
    for (const VolumeRecord& volume : volumes.records) {
      room.clones += volume.source.snapshot_id.empty() ? 0 : 1;
    }
    RETURN_IF_ERROR(support::CheckRoom(options_.habits, room));
    const std::lock_guard<std::mutex> lock(latest_mutex_);
    latest_at_[request.source_volume_id()] = room.now;
    return absl::OkStatus();
  }

  absl::Status CheckGoesAlone(const std::string& id) {
    const absl::StatusOr<SnapshotRecord> snapshot = store_.GetSnapshot(id);
    if (options_.groups_whole && snapshot.ok() && !snapshot->group_id.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("snapshot ", id, " goes with its group ", snapshot->group_id));
    }
    return absl::OkStatus();
  }

  absl::Status List(const pb::ListSnapshotsRequest& request, const std::set<Lie>& lies,
                    pb::ListSnapshotsResponse* response) {
    if (!options_.list_snapshots) {
      return absl::UnimplementedError("this driver does not list snapshots");
    }
    ASSIGN_OR_RETURN(
        const Page<SnapshotRecord> page,
        store_.ListSnapshots({.id = request.snapshot_id(), .volume_id = request.source_volume_id()},
                             {request.max_entries(), request.starting_token()}));
    for (const SnapshotRecord& snapshot : page.records) {
      FillSnapshot(snapshot, lies, response->add_entries()->mutable_snapshot());
    }
    response->set_next_token(page.next_token);
    return absl::OkStatus();
  }

  absl::Status Expand(const pb::ControllerExpandVolumeRequest& request,
                      pb::ControllerExpandVolumeResponse* response) {
    RETURN_IF_ERROR(Require(request.volume_id(), "volume_id"));
    if (!request.has_capacity_range()) {
      return absl::InvalidArgumentError("capacity_range is missing");
    }
    ASSIGN_OR_RETURN(const int snapshots, SnapshotsOf(request.volume_id()));
    RETURN_IF_ERROR(support::CheckGrows(options_.habits, snapshots));
    ASSIGN_OR_RETURN(
        const VolumeRecord volume,
        store_.ExpandVolume(request.volume_id(), ToSizeRange(request.capacity_range())));
    response->set_capacity_bytes(volume.size_bytes);
    response->set_node_expansion_required(volume.mode == VolumeMode::kFilesystem);
    return absl::OkStatus();
  }

  const DriverOptions& options_;
  Faults& faults_;
  Store& store_;
  std::mutex latest_mutex_;
  std::map<std::string, absl::Time> latest_at_;  // by volume: its newest snapshot
};

}  // namespace

absl::Status CheckCapability(const pb::VolumeCapability& capability) {
  if (capability.access_mode().mode() == pb::VolumeCapability::AccessMode::UNKNOWN) {
    return absl::InvalidArgumentError("access_mode is missing");
  }
  if (capability.has_block()) {
    return absl::OkStatus();
  }
  if (!capability.has_mount()) {
    return absl::InvalidArgumentError("access_type is missing");
  }
  const std::string& fs_type = capability.mount().fs_type();
  if (!fs_type.empty() && fs_type != kFilesystemType) {
    return absl::InvalidArgumentError(
        absl::StrCat("no file system but ", kFilesystemType, ": ", fs_type));
  }
  return absl::OkStatus();
}

std::unique_ptr<pb::Controller::Service> MakeController(const DriverOptions& options,
                                                        Faults& faults, Store& store) {
  return std::make_unique<ControllerService>(options, faults, store);
}

}  // namespace csidelta::csi_driver
