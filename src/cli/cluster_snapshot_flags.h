#pragma once

#include "cli/arguments.h"
#include "cli/cluster_access.h"
#include "engine/cluster_snapshot.h"

namespace csidelta::cli {

// What a person says of the VolumeSnapshot that a device was made of.
struct ClusterSnapshotFlags {
  engine::ClusterSnapshotQuery query;  // but for its cluster
  ClusterAccess cluster;

  // Those of who has a parent.
  void Declare(ArgumentTable& table);
  // How to ask, for every verb that asks.
  void DeclareAccess(ArgumentTable& table);

  engine::ClusterSnapshotQuery Query() const;
};

}  // namespace csidelta::cli
