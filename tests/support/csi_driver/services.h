#pragma once

#include <map>
#include <memory>
#include <string>

#include "csi.grpc.pb.h"
#include "differential_snapshot.grpc.pb.h"
#include "tests/support/csi_driver/change_list.h"
#include "tests/support/csi_driver/faults.h"
#include "tests/support/csi_driver/store.h"
#include "tests/support/driver_habits.h"

namespace csidelta::csi_driver {

// In the context of a volume that is a file share: DriverHabits::share_manager.
inline constexpr char kShareKey[] = "share";

struct DriverOptions {
  std::string endpoint;     // unix:///path/to/socket
  std::string state_dir;    // Absolute.
  std::string volumes_dir;  // Absolute; a file system of the volumes' own. Empty: in state_dir.
  std::string driver_name;  // As StorageClasses name it.
  std::string node_id;
  std::string control_socket;     // Empty: none.
  bool list_snapshots = true;     // Whether the driver says that it can.
  bool snapshot_metadata = true;  // Likewise.
  bool group_snapshots = false;   // Likewise.
  bool groups_whole = false;      // Whether a member goes with its group alone.
  std::map<std::string, std::string> group_secret = {};  // What calls about groups must carry.
  bool keep_change_data = false;  // Whether a deleted volume snapshot can still be a base.
  bool late_copies = false;       // Whether CreateVolume answers before it copies a source.
  support::DriverHabits habits = {};
  bool differential_snapshot = false;
  bool opaque_cursors = false;  // In differential snapshots: no numbers, and of one pair each.
  int64_t result_seconds = 0;   // How long their results are kept; 0: for ever.
  BlockOptions blocks = {};
  int64_t page_extents = 256;  // In one message, unless the caller says how many.
};

// The services of a CSI driver, as gRPC calls them: from many threads. The owner keeps all
// arguments alive.
std::unique_ptr<::csi::v1::Identity::Service> MakeIdentity(const DriverOptions& options,
                                                           Faults& faults);
std::unique_ptr<::csi::v1::Controller::Service> MakeController(const DriverOptions& options,
                                                               Faults& faults, Store& store);
std::unique_ptr<::csi::v1::GroupController::Service> MakeGroupController(
    const DriverOptions& options, Faults& faults, Store& store);
std::unique_ptr<::csi::v1::SnapshotMetadata::Service> MakeSnapshotMetadata(
    const DriverOptions& options, Faults& faults, Store& store);
std::unique_ptr<::csi::differentialsnapshot::v1::DifferentialSnapshot::Service>
MakeDifferentialSnapshot(const DriverOptions& options, Faults& faults, Store& store,
                         const Clock& clock);
std::unique_ptr<::csi::v1::Node::Service> MakeNode(const DriverOptions& options, Faults& faults,
                                                   Store& store);

// INVALID_ARGUMENT unless the capability has an access type that this driver has and an access
// mode.
absl::Status CheckCapability(const ::csi::v1::VolumeCapability& capability);

}  // namespace csidelta::csi_driver
