#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/json.h"
#include "objects/volume_snapshot.h"

// The objects of groupsnapshot.storage.k8s.io as types, in whichever version they were read; see
// volume_snapshot.h for what views are.
namespace csidelta::objects {

class VolumeGroupSnapshot : public ObjectView {
 public:
  static absl::StatusOr<VolumeGroupSnapshot> Of(Json json);

  std::string bound_content() const;  // "" while it is not bound
  bool is_ready() const;
  std::optional<absl::Time> taken_at() const;
  std::optional<SnapshotError> error() const;
  // Whether its selector takes a PVC with these labels. A requirement that is not understood counts
  // as met. False for one of an existing content.
  bool Selects(const std::map<std::string, std::string>& labels) const;

 private:
  using ObjectView::ObjectView;
};

}  // namespace csidelta::objects
