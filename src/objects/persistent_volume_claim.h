#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/json.h"
#include "objects/volume_mode.h"
#include "objects/volume_snapshot.h"

namespace csidelta::objects {

// A PVC, as objects/volume_snapshot.h has its kinds: what it does not name is kept.
class PersistentVolumeClaim : public ObjectView {
 public:
  static absl::StatusOr<PersistentVolumeClaim> Of(Json json);

  // Spec.
  // Nothing while the API server has not put in the default class; "": no provisioner makes it.
  std::optional<std::string> storage_class() const;
  VolumeMode mode() const;  // Filesystem where the field is missing, as Kubernetes takes it
  std::vector<std::string> access_modes() const;
  std::optional<int64_t> requested_bytes() const;  // nothing when unknown
  // The VolumeSnapshot of its namespace that it is filled from; "" when from none.
  std::string source_snapshot() const;
  std::string volume_name() const;  // "" while it has no PersistentVolume
  // The node that the scheduler has chosen for it, where the class waits for that; "".
  std::string selected_node() const;

  // Status.
  std::string phase() const;  // Pending, Bound, Lost; "" before the controller saw it
  bool is_bound() const;
  // When the status was written last, by metadata.managedFields; nothing when not bound or not
  // recorded.
  std::optional<absl::Time> bound_at() const;
  std::optional<int64_t> capacity_bytes() const;
  // It has a source_snapshot() that is still needed: it is neither bound nor being deleted.
  bool is_being_filled() const;

 private:
  using ObjectView::ObjectView;
};

}  // namespace csidelta::objects
