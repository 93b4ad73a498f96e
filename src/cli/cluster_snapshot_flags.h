#pragma once

#include "cli/arguments.h"
#include "cli/cluster_access.h"
#include "engine/cluster_snapshot.h"

namespace csidelta::cli {

// Flags about the VolumeSnapshot from which a device was made.
struct ClusterSnapshotFlags {
  engine::ClusterSnapshotQuery query;  // without its cluster
  ClusterAccess cluster;

  // For verbs with a parent snapshot: includes DeclareAccess().
  void Declare(ArgumentTable& table);
  // How to request changed blocks, for all verbs that do; without the cluster.
  void DeclareAccess(ArgumentTable& table);

  engine::ClusterSnapshotQuery Query() const;
};

}  // namespace csidelta::cli
