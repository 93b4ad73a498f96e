#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "objects/node.h"
#include "objects/object.h"

// What uses PVCs.
namespace csidelta::objects {

// A volume of a Pod.
struct PodVolume {
  std::string name;
  std::string pvc = {};  // that it names; ""

  bool operator==(const PodVolume&) const = default;
};

// An entry of status.conditions.
struct Condition {
  std::string type;
  std::string status;  // True, False, Unknown
  std::string reason;
  std::string message;
};

// The kubelet's report of a container of a Pod.
struct ContainerStatus {
  struct Waiting {
    std::string reason;
    std::string message;
  };
  struct Terminated {
    std::string reason;
    std::string message;
    std::string container_id;  // "": the kubelet did not see it run
    int64_t exit_code = -1;
  };
  // One of these, where it does not run.
  std::optional<Waiting> waiting;
  std::optional<Terminated> terminated;
};

class Pod : public ObjectOf<Pod> {
 public:
  static constexpr KindName kKind = {"", "v1", "pods", "Pod"};

  // The PVCs of its volumes, those of generic ephemeral volumes too, in the order of the volumes.
  std::vector<std::string> pvcs() const;
  // Those of its volumes that name a PVC, which generic ephemeral ones do not.
  std::vector<PodVolume> pvc_volumes() const;
  bool NamesPvc(absl::string_view pvc) const;  // in one of pvc_volumes()
  // Whether its volumes may be in use: not Succeeded and not Failed, one that is Pending included.
  bool is_active() const { return phase() != "Succeeded" && phase() != "Failed"; }
  // Its owner as kubectl names it: "StatefulSet/db", "Deployment/web" for the Pods of its
  // ReplicaSets; "Pod/NAME" without an owner.
  std::string workload() const;

  // Pending, Running, Succeeded, Failed; "" before a kubelet saw it.
  std::string phase() const { return Text({"status", "phase"}); }
  bool is_running() const { return phase() == "Running"; }
  // Why it is evicted, or was not admitted; "" for others.
  std::string reason() const { return Text({"status", "reason"}); }
  std::string message() const { return Text({"status", "message"}); }
  std::vector<Condition> conditions() const;
  std::vector<ContainerStatus> containers() const;  // but for init containers
  // "" before the scheduler chose one.
  std::string node() const { return Text({"spec", "nodeName"}); }
  // When it got its node; its creation if no condition tells.
  std::optional<absl::Time> scheduled_at() const;
  bool has_ended() const { return !is_active(); }
  bool has_running_container() const;  // the first one
  // The termination message of its first container, else of its first init container; else the
  // kubelet's message about the Pod. "" without a message.
  std::string last_message() const;
  std::string condition_message() const;  // of the first condition that has one; ""

  // Takes a volume and its mounts away.
  void RemoveVolume(absl::string_view name);
  // Before its first container the same image runs with other arguments, and without devices.
  void AddInitContainer(absl::string_view name, const std::vector<std::string>& arguments);

  // Its metadata without managedFields, its volumes and its phase, without anything else.
  Pod Essence() const;

  // The nodes that its affinity requires.
  NodeSelector required_nodes() const;
  // Has it keep away from nodes that run a Pod with this label, besides what it keeps away from.
  void KeepAwayFrom(absl::string_view label, absl::string_view value);
};

class StatefulSet : public ObjectOf<StatefulSet> {
 public:
  static constexpr KindName kKind = {"apps", "v1", "statefulsets", "StatefulSet"};

  // Whether a PVC of this name is made from one of its templates (TEMPLATE-NAME-ORDINAL), or is a
  // volume of its Pods.
  bool Uses(absl::string_view pvc) const;
  // The ordinal in the name of a PVC of its templates; nothing for other PVCs.
  std::optional<int64_t> OrdinalOf(absl::string_view pvc) const;
  int64_t replicas() const { return Number({"spec", "replicas"}, 1); }
  int64_t first_ordinal() const { return Number({"spec", "ordinals", "start"}); }
  // persistentVolumeClaimRetentionPolicy.whenScaled is Delete: it deletes the PVCs of Pods that it
  // scales away.
  bool deletes_when_scaled() const;
};

// What a Deployment runs in each of its Pods.
struct DeployedContainer {
  std::string image;
  std::vector<std::string> arguments;  // command, then args
  std::optional<int64_t> memory_limit_bytes = {};
};

class Deployment : public ObjectOf<Deployment> {
 public:
  static constexpr KindName kKind = {"apps", "v1", "deployments", "Deployment"};

  std::vector<DeployedContainer> containers() const { return ContainersAt("containers"); }
  std::vector<DeployedContainer> init_containers() const { return ContainersAt("initContainers"); }
  std::vector<std::string> arguments() const;  // of all containers()
  int64_t available_replicas() const { return Number({"status", "availableReplicas"}); }

 private:
  std::vector<DeployedContainer> ContainersAt(absl::string_view field) const;
};

}  // namespace csidelta::objects
