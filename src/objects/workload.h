#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"
#include "objects/volume_snapshot.h"

// What uses PVCs, as objects/volume_snapshot.h has its kinds: what they do not name is kept.
namespace csidelta::objects {

class Pod : public ObjectView {
 public:
  static absl::StatusOr<Pod> Of(Json json);

  // The PVCs of its volumes, those of generic ephemeral volumes too, in the order of the volumes.
  std::vector<std::string> pvcs() const;
  // Whether its volumes may be in use: not Succeeded and not Failed, one that is Pending included.
  bool is_active() const;
  // What made it, as kubectl names it: "StatefulSet/db", "Deployment/web" for the Pods of its
  // ReplicaSets; "Pod/NAME" for one that nothing made.
  std::string workload() const;

  std::string phase() const;  // Pending, Running, Succeeded, Failed; "" before a kubelet saw it
  // What its only container, or the last run of it, left behind when it ended; "" else.
  std::string termination_message() const;
  // Why it does not run yet: what the kubelet says of its container, else the scheduler; "" where
  // neither says anything.
  std::string waiting_reason() const;

 private:
  using ObjectView::ObjectView;
};

class StatefulSet : public ObjectView {
 public:
  static absl::StatusOr<StatefulSet> Of(Json json);

  // Whether a PVC of this name is one of its templates', TEMPLATE-NAME-ORDINAL, or its Pods name it
  // among their volumes.
  bool Uses(absl::string_view pvc) const;
  // The ordinal in the name of a PVC of its templates; nothing for other PVCs.
  std::optional<int64_t> OrdinalOf(absl::string_view pvc) const;
  int64_t replicas() const;
  int64_t first_ordinal() const;  // spec.ordinals.start
  // persistentVolumeClaimRetentionPolicy.whenScaled is Delete: it deletes the PVCs of Pods that it
  // scales away.
  bool deletes_when_scaled() const;

 private:
  using ObjectView::ObjectView;
};

}  // namespace csidelta::objects
