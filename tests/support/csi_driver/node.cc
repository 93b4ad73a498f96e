#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tests/support/csi_driver/call.h"
#include "tests/support/csi_driver/files.h"
#include "tests/support/csi_driver/filesystem.h"
#include "tests/support/csi_driver/loop_device.h"
#include "tests/support/csi_driver/mounts.h"
#include "tests/support/csi_driver/services.h"

namespace csidelta::csi_driver {
namespace {

namespace pb = ::csi::v1;

// A bind mount of a device node wants a file to stand on.
absl::Status MakeEmptyFile(const std::string& path) {
  return OpenFile(path, O_WRONLY | O_CREAT).status();
}

// Unmounts `path` and removes the empty file or folder that it was mounted on.
absl::Status UnmountAndRemove(const std::string& path) {
  RETURN_IF_ERROR(Unmount(path));
  if (rmdir(path.c_str()) == 0 || errno == ENOENT) {
    return absl::OkStatus();
  }
  return errno == ENOTDIR ? RemoveFile(path) : absl::ErrnoToStatus(errno, path);
}

// Volumes of this node: NodeStageVolume attaches a loop device and mounts a file system;
// NodePublishVolume binds the folder, or the device node, to where it is wanted. What is attached
// and mounted is asked of the kernel each time, so every call may come twice, and after a restart.
class NodeService final : public pb::Node::Service {
 public:
  NodeService(const DriverOptions& options, Faults& faults, Store& store)
      : options_(options), faults_(faults), store_(store) {}

  grpc::Status NodeStageVolume(grpc::ServerContext* context,
                               const pb::NodeStageVolumeRequest* request,
                               pb::NodeStageVolumeResponse*) override {
    return ServeCall(faults_, "NodeStageVolume", context, *request,
                     [&](const std::set<Lie>&) { return Stage(*request); });
  }

  grpc::Status NodeUnstageVolume(grpc::ServerContext* context,
                                 const pb::NodeUnstageVolumeRequest* request,
                                 pb::NodeUnstageVolumeResponse*) override {
    return ServeCall(
        faults_, "NodeUnstageVolume", context, *request, [&](const std::set<Lie>&) -> absl::Status {
          RETURN_IF_ERROR(Require(request->volume_id(), "volume_id"));
          RETURN_IF_ERROR(Require(request->staging_target_path(), "staging_target_path"));
          RETURN_IF_ERROR(Unmount(request->staging_target_path()));
          return DetachLoops(store_.VolumePath(request->volume_id()));
        });
  }

  grpc::Status NodePublishVolume(grpc::ServerContext* context,
                                 const pb::NodePublishVolumeRequest* request,
                                 pb::NodePublishVolumeResponse*) override {
    return ServeCall(faults_, "NodePublishVolume", context, *request,
                     [&](const std::set<Lie>&) { return Publish(*request); });
  }

  grpc::Status NodeUnpublishVolume(grpc::ServerContext* context,
                                   const pb::NodeUnpublishVolumeRequest* request,
                                   pb::NodeUnpublishVolumeResponse*) override {
    return ServeCall(faults_, "NodeUnpublishVolume", context, *request,
                     [&](const std::set<Lie>&) -> absl::Status {
                       RETURN_IF_ERROR(Require(request->volume_id(), "volume_id"));
                       RETURN_IF_ERROR(Require(request->target_path(), "target_path"));
                       return UnmountAndRemove(request->target_path());
                     });
  }

  grpc::Status NodeGetVolumeStats(grpc::ServerContext* context,
                                  const pb::NodeGetVolumeStatsRequest* request,
                                  pb::NodeGetVolumeStatsResponse* response) override {
    return ServeCall(faults_, "NodeGetVolumeStats", context, *request,
                     [&](const std::set<Lie>&) { return Stats(*request, response); });
  }

  grpc::Status NodeExpandVolume(grpc::ServerContext* context,
                                const pb::NodeExpandVolumeRequest* request,
                                pb::NodeExpandVolumeResponse* response) override {
    return ServeCall(faults_, "NodeExpandVolume", context, *request,
                     [&](const std::set<Lie>&) { return Expand(*request, response); });
  }

  grpc::Status NodeGetCapabilities(grpc::ServerContext* context,
                                   const pb::NodeGetCapabilitiesRequest* request,
                                   pb::NodeGetCapabilitiesResponse* response) override {
    return ServeCall(faults_, "NodeGetCapabilities", context, *request, [&](const std::set<Lie>&) {
      using Rpc = pb::NodeServiceCapability::RPC;
      for (const Rpc::Type type :
           {Rpc::STAGE_UNSTAGE_VOLUME, Rpc::GET_VOLUME_STATS, Rpc::EXPAND_VOLUME}) {
        response->add_capabilities()->mutable_rpc()->set_type(type);
      }
      return absl::OkStatus();
    });
  }

  grpc::Status NodeGetInfo(grpc::ServerContext* context, const pb::NodeGetInfoRequest* request,
                           pb::NodeGetInfoResponse* response) override {
    return ServeCall(faults_, "NodeGetInfo", context, *request, [&](const std::set<Lie>&) {
      response->set_node_id(options_.node_id);
      return absl::OkStatus();
    });
  }

 private:
  absl::Status Stage(const pb::NodeStageVolumeRequest& request) {
    RETURN_IF_ERROR(Require(request.volume_id(), "volume_id"));
    RETURN_IF_ERROR(Require(request.staging_target_path(), "staging_target_path"));
    RETURN_IF_ERROR(CheckCapability(request.volume_capability()));
    ASSIGN_OR_RETURN(const VolumeRecord volume, store_.GetVolume(request.volume_id()));
    RETURN_IF_ERROR(CheckCopied(volume));
    const std::string& manager = options_.habits.share_manager;
    if (!manager.empty() && manager != options_.node_id &&
        request.volume_capability().has_block() && request.volume_context().contains(kShareKey)) {
      return absl::FailedPreconditionError(
          absl::StrCat("volume ", volume.id, " is a share, and its device is on node ", manager));
    }
    ASSIGN_OR_RETURN(const std::string device, AttachLoop(store_.VolumePath(volume.id)));
    if (request.volume_capability().has_block()) {
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const bool mounted, IsMounted(request.staging_target_path()));
    if (mounted) {
      return absl::OkStatus();
    }
    // A restored or expanded volume may be larger than the file system that its bytes hold.
    RETURN_IF_ERROR(GrowFilesystem(device, volume.size_bytes, /*mounted=*/false));
    RETURN_IF_ERROR(MakeFolder(request.staging_target_path()));
    return MountFilesystem(device, request.staging_target_path());
  }

  absl::Status Publish(const pb::NodePublishVolumeRequest& request) {
    RETURN_IF_ERROR(Require(request.volume_id(), "volume_id"));
    RETURN_IF_ERROR(Require(request.target_path(), "target_path"));
    RETURN_IF_ERROR(CheckCapability(request.volume_capability()));
    RETURN_IF_ERROR(Require(request.staging_target_path(), "staging_target_path"));
    ASSIGN_OR_RETURN(const VolumeRecord volume, store_.GetVolume(request.volume_id()));
    RETURN_IF_ERROR(support::CheckPublish(
        options_.habits,
        request.volume_capability().access_mode().mode() ==
            pb::VolumeCapability::AccessMode::MULTI_NODE_MULTI_WRITER,
        request.volume_capability().has_block(),
        absl::StrCat(request.staging_target_path(), "/", volume.id), request.target_path()));
    ASSIGN_OR_RETURN(const bool mounted, IsMounted(request.target_path()));
    if (mounted) {
      return absl::OkStatus();
    }
    if (!request.volume_capability().has_block()) {
      RETURN_IF_ERROR(MakeFolder(request.target_path()));
      return BindMount(request.staging_target_path(), request.target_path(), request.readonly());
    }
    ASSIGN_OR_RETURN(const std::vector<std::string> devices,
                     LoopDevicesOf(store_.VolumePath(volume.id)));
    if (devices.empty()) {
      return absl::FailedPreconditionError(absl::StrCat("volume ", volume.id, " is not staged"));
    }
    RETURN_IF_ERROR(MakeEmptyFile(request.target_path()));
    return BindMount(devices.front(), request.target_path(), /*read_only=*/false);
  }

  absl::Status Stats(const pb::NodeGetVolumeStatsRequest& request,
                     pb::NodeGetVolumeStatsResponse* response) {
    RETURN_IF_ERROR(Require(request.volume_id(), "volume_id"));
    RETURN_IF_ERROR(Require(request.volume_path(), "volume_path"));
    ASSIGN_OR_RETURN(const VolumeRecord volume, MountedVolume(request));
    pb::VolumeUsage* const bytes = response->add_usage();
    bytes->set_unit(pb::VolumeUsage::BYTES);
    if (volume.mode == VolumeMode::kBlock) {
      bytes->set_total(volume.size_bytes);
      return absl::OkStatus();
    }
    struct statvfs stat;
    if (statvfs(request.volume_path().c_str(), &stat) != 0) {
      return absl::ErrnoToStatus(errno, request.volume_path());
    }
    const auto block_bytes = static_cast<int64_t>(stat.f_frsize);
    bytes->set_total(static_cast<int64_t>(stat.f_blocks) * block_bytes);
    bytes->set_available(static_cast<int64_t>(stat.f_bavail) * block_bytes);
    bytes->set_used(static_cast<int64_t>(stat.f_blocks - stat.f_bfree) * block_bytes);
    pb::VolumeUsage* const inodes = response->add_usage();
    inodes->set_unit(pb::VolumeUsage::INODES);
    inodes->set_total(static_cast<int64_t>(stat.f_files));
    inodes->set_available(static_cast<int64_t>(stat.f_favail));
    inodes->set_used(static_cast<int64_t>(stat.f_files - stat.f_ffree));
    return absl::OkStatus();
  }

  absl::Status Expand(const pb::NodeExpandVolumeRequest& request,
                      pb::NodeExpandVolumeResponse* response) {
    RETURN_IF_ERROR(Require(request.volume_id(), "volume_id"));
    RETURN_IF_ERROR(Require(request.volume_path(), "volume_path"));
    ASSIGN_OR_RETURN(const VolumeRecord volume, MountedVolume(request));
    if (volume.mode == VolumeMode::kFilesystem) {
      ASSIGN_OR_RETURN(const std::vector<std::string> devices,
                       LoopDevicesOf(store_.VolumePath(volume.id)));
      for (const std::string& device : devices) {
        RETURN_IF_ERROR(GrowFilesystem(device, volume.size_bytes, /*mounted=*/true));
      }
    }
    response->set_capacity_bytes(volume.size_bytes);
    return absl::OkStatus();
  }

  // The volume that is mounted where the request says. NOT_FOUND when it is not there.
  template <typename Request>
  absl::StatusOr<VolumeRecord> MountedVolume(const Request& request) {
    ASSIGN_OR_RETURN(VolumeRecord volume, store_.GetVolume(request.volume_id()));
    ASSIGN_OR_RETURN(const bool mounted, IsMounted(request.volume_path()));
    if (!mounted) {
      return absl::NotFoundError(
          absl::StrCat("volume ", volume.id, " is not at ", request.volume_path()));
    }
    return volume;
  }

  const DriverOptions& options_;
  Faults& faults_;
  Store& store_;
};

}  // namespace

std::unique_ptr<pb::Node::Service> MakeNode(const DriverOptions& options, Faults& faults,
                                            Store& store) {
  return std::make_unique<NodeService>(options, faults, store);
}

}  // namespace csidelta::csi_driver
