#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "objects/object.h"

// What uses PVCs.
namespace csidelta::objects {

class Pod : public ObjectOf<Pod> {
 public:
  static constexpr KindName kKind = {"", "v1", "pods", "Pod"};

  // The PVCs of its volumes, those of generic ephemeral volumes too, in the order of the volumes.
  std::vector<std::string> pvcs() const;
  // Whether its volumes may be in use: not Succeeded and not Failed, one that is Pending included.
  bool is_active() const { return phase() != "Succeeded" && phase() != "Failed"; }
  // What made it, as kubectl names it: "StatefulSet/db", "Deployment/web" for the Pods of its
  // ReplicaSets; "Pod/NAME" for one that nothing made.
  std::string workload() const;

  // Pending, Running, Succeeded, Failed; "" before a kubelet saw it.
  std::string phase() const { return Text({"status", "phase"}); }
  // What its only container, or the last run of it, left behind when it ended; "" else.
  std::string termination_message() const;
  // Why it does not run yet: what the kubelet says of its container, else the scheduler; "" where
  // neither says anything.
  std::string waiting_reason() const;

 private:
  using ObjectOf::ObjectOf;
};

class StatefulSet : public ObjectOf<StatefulSet> {
 public:
  static constexpr KindName kKind = {"apps", "v1", "statefulsets", "StatefulSet"};

  // Whether a PVC of this name is one of its templates', TEMPLATE-NAME-ORDINAL, or its Pods name it
  // among their volumes.
  bool Uses(absl::string_view pvc) const;
  // The ordinal in the name of a PVC of its templates; nothing for other PVCs.
  std::optional<int64_t> OrdinalOf(absl::string_view pvc) const;
  int64_t replicas() const { return Number({"spec", "replicas"}, 1); }
  int64_t first_ordinal() const { return Number({"spec", "ordinals", "start"}); }
  // persistentVolumeClaimRetentionPolicy.whenScaled is Delete: it deletes the PVCs of Pods that it
  // scales away.
  bool deletes_when_scaled() const;

 private:
  using ObjectOf::ObjectOf;
};

}  // namespace csidelta::objects
