#include "cli/cluster_snapshot_flags.h"

namespace csidelta::cli {

void ClusterSnapshotFlags::Declare(ArgumentTable& table) {
  table.Add("--volume-snapshot", "NS/NAME",
            "the VolumeSnapshot that DEVICE was made of: its CSI driver is asked what changed",
            query.volume_snapshot);
  table.Add("--base-handle", "HANDLE",
            "the driver's handle of the parent's volume snapshot (default: the one recorded with "
            "the parent)",
            query.base_handle);
  DeclareAccess(table);
  cluster.Declare(table);
}

void ClusterSnapshotFlags::DeclareAccess(ArgumentTable& table) {
  table.AddChoice("--changed-blocks", {"auto", "csi-metadata", "differential-snapshot", "none"},
                  "the source of changed blocks: the driver's SnapshotMetadataService, a "
                  "DifferentialSnapshot, the first one available (auto), or none",
                  query.changed_blocks);
  table.Add("--change-id-annotation", "NAME",
            "the annotation of a VolumeSnapshot with the id that its driver compares, if the "
            "driver does not compare handles",
            query.change_id_annotation);
  table.Add("--service-account", "NS/NAME",
            "the ServiceAccount whose token authenticates to the metadata service (default: the "
            "current identity)",
            query.service_account);
  table.Add("--metadata-token-file", "FILE",
            "that token, where the kubelet keeps one for the service's audience", query.token_file);
  table.Add("--metadata-server-name", "NAME",
            "the name in the service's certificate, if it is not the host of its address",
            query.server_name);
}

engine::ClusterSnapshotQuery ClusterSnapshotFlags::Query() const {
  engine::ClusterSnapshotQuery whole = query;
  whole.cluster = cluster.Settings();
  return whole;
}

}  // namespace csidelta::cli
