
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tests/support/csi_driver/call.h"
#include "tests/support/csi_driver/services.h"
#include "tests/support/csi_driver/snapshot_messages.h"

namespace csidelta::csi_driver {
namespace {

namespace pb = ::csi::v1;

void FillGroup(const Group& group, const std::set<Lie>& lies, pb::VolumeGroupSnapshot* message) {
  message->set_group_snapshot_id(group.record.id);
  for (const SnapshotRecord& snapshot : group.snapshots) {
    FillSnapshot(snapshot, lies, message->add_snapshots());
  }
  FillTime(group.record.created_at, message->mutable_creation_time());
  message->set_ready_to_use(!lies.contains(Lie::kNotReady));
}

class GroupControllerService final : public pb::GroupController::Service {
 public:
  GroupControllerService(const DriverOptions& options, Faults& faults, Store& store)
      : options_(options), faults_(faults), store_(store) {}

  grpc::Status GroupControllerGetCapabilities(
      grpc::ServerContext* context, const pb::GroupControllerGetCapabilitiesRequest* request,
      pb::GroupControllerGetCapabilitiesResponse* response) override {
    return ServeCall(
        faults_, "GroupControllerGetCapabilities", context, *request,
        [&](const std::set<Lie>&) -> absl::Status {
          RETURN_IF_ERROR(CheckServed());
          response->add_capabilities()->mutable_rpc()->set_type(
              pb::GroupControllerServiceCapability::RPC::CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT);
          return absl::OkStatus();
        });
  }

  grpc::Status CreateVolumeGroupSnapshot(grpc::ServerContext* context,
                                         const pb::CreateVolumeGroupSnapshotRequest* request,
                                         pb::CreateVolumeGroupSnapshotResponse* response) override {
    return ServeCall(faults_, "CreateVolumeGroupSnapshot", context, *request,
                     [&](const std::set<Lie>& lies) -> absl::Status {
                       RETURN_IF_ERROR(CheckServed());
                       RETURN_IF_ERROR(Require(request->name(), "name"));
                       RETURN_IF_ERROR(CheckSecret(*request));
                       ASSIGN_OR_RETURN(const Group group,
                                        store_.CreateGroup(request->name(),
                                                           {request->source_volume_ids().begin(),
                                                            request->source_volume_ids().end()}));
                       FillGroup(group, lies, response->mutable_group_snapshot());
                       return absl::OkStatus();
                     });
  }

  grpc::Status DeleteVolumeGroupSnapshot(grpc::ServerContext* context,
                                         const pb::DeleteVolumeGroupSnapshotRequest* request,
                                         pb::DeleteVolumeGroupSnapshotResponse*) override {
    return ServeCall(faults_, "DeleteVolumeGroupSnapshot", context, *request,
                     [&](const std::set<Lie>&) -> absl::Status {
                       RETURN_IF_ERROR(CheckServed());
                       RETURN_IF_ERROR(Require(request->group_snapshot_id(), "group_snapshot_id"));
                       RETURN_IF_ERROR(CheckSecret(*request));
                       return store_.DeleteGroup(
                           request->group_snapshot_id(),
                           {request->snapshot_ids().begin(), request->snapshot_ids().end()},
                           options_.keep_change_data);
                     });
  }

  grpc::Status GetVolumeGroupSnapshot(grpc::ServerContext* context,
                                      const pb::GetVolumeGroupSnapshotRequest* request,
                                      pb::GetVolumeGroupSnapshotResponse* response) override {
    return ServeCall(faults_, "GetVolumeGroupSnapshot", context, *request,
                     [&](const std::set<Lie>& lies) -> absl::Status {
                       RETURN_IF_ERROR(CheckServed());
                       RETURN_IF_ERROR(Require(request->group_snapshot_id(), "group_snapshot_id"));
                       RETURN_IF_ERROR(CheckSecret(*request));
                       ASSIGN_OR_RETURN(const Group group,
                                        store_.GetGroup(request->group_snapshot_id(),
                                                        {request->snapshot_ids().begin(),
                                                         request->snapshot_ids().end()}));
                       FillGroup(group, lies, response->mutable_group_snapshot());
                       return absl::OkStatus();
                     });
  }

 private:
  absl::Status CheckServed() const {
    return options_.group_snapshots
               ? absl::OkStatus()
               : absl::UnimplementedError("this driver takes no group snapshots");
  }

  template <typename Request>
  absl::Status CheckSecret(const Request& request) const {
    for (const auto& [key, value] : options_.group_secret) {
      const auto given = request.secrets().find(key);
      if (given == request.secrets().end() || given->second != value) {
        return absl::UnauthenticatedError(absl::StrCat("groups want another secret ", key));
      }
    }
    return absl::OkStatus();
  }

  const DriverOptions& options_;
  Faults& faults_;
  Store& store_;
};

}  // namespace

std::unique_ptr<pb::GroupController::Service> MakeGroupController(const DriverOptions& options,
                                                                  Faults& faults, Store& store) {
  return std::make_unique<GroupControllerService>(options, faults, store);
}

}  // namespace csidelta::csi_driver
