#pragma once

#include <set>

#include "csi.pb.h"
#include "tests/support/csi_driver/faults.h"
#include "tests/support/csi_driver/store.h"

namespace csidelta::csi_driver {

inline void FillTime(absl::Time time, google::protobuf::Timestamp* timestamp) {
  const int64_t time_ns = absl::ToUnixNanos(time);
  timestamp->set_seconds(time_ns / 1'000'000'000);
  timestamp->set_nanos(static_cast<int32_t>(time_ns % 1'000'000'000));
}

// Says of a volume snapshot what is true, but for the lies.
inline void FillSnapshot(const SnapshotRecord& record, const std::set<Lie>& lies,
                         ::csi::v1::Snapshot* snapshot) {
  snapshot->set_snapshot_id(record.id);
  snapshot->set_source_volume_id(record.volume_id);
  snapshot->set_size_bytes(record.size_bytes / (lies.contains(Lie::kHalfSize) ? 2 : 1));
  snapshot->set_ready_to_use(!lies.contains(Lie::kNotReady));
  if (lies.contains(Lie::kTopology)) {
    (*snapshot->add_accessible_topology()->mutable_segments())["zone"] = "a";
  }
  snapshot->set_group_snapshot_id(record.group_id);
  FillTime(record.created_at, snapshot->mutable_creation_time());
}

}  // namespace csidelta::csi_driver
