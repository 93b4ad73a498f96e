#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"
#include "base/json_section.h"
#include "objects/object.h"

// Nodes, and on which of them a Pod may run.
namespace csidelta::objects {

// A NodeSelector of core/v1, such as spec.nodeAffinity.required of a PersistentVolume: which nodes
// may be used. A value.
class NodeSelector {
 public:
  NodeSelector() = default;                                     // selects every node
  explicit NodeSelector(Json json) : json_(std::move(json)) {}  // null selects every node
  // The node of that name.
  static NodeSelector OfNode(absl::string_view node);
  // As ToText() wrote it; "" selects every node. INVALID_ARGUMENT for what is no JSON object.
  static absl::StatusOr<NodeSelector> Parse(absl::string_view text);

  bool selects_all() const { return json_.is_null(); }
  std::string ToText() const;  // compact JSON; "" where it selects every node
  const Json& json() const { return json_; }

  bool operator==(const NodeSelector&) const = default;

 private:
  Json json_;
};

// What both select; one without terms does not count.
NodeSelector Both(const NodeSelector& one, const NodeSelector& other);

class Node : public ObjectOf<Node> {
 public:
  static constexpr KindName kKind = {"", "v1", "nodes", "Node", false};

  bool is_schedulable() const { return !Flag({"spec", "unschedulable"}); }  // not cordoned
  bool is_ready() const;  // as the control plane has it: its kubelet renews its Lease
  // Whether the selector selects it, as the scheduler decides: all requirements of one term must be
  // met. Gt, Lt and what is unknown select none.
  bool IsSelectedBy(const NodeSelector& selector) const;
};

// Has the name of its Node.
class CsiNode : public ObjectOf<CsiNode> {
 public:
  static constexpr KindName kKind = {"storage.k8s.io", "v1", "csinodes", "CSINode", false};

  bool HasDriver(absl::string_view driver) const;
};

// spec.tolerations of a Pod. A value.
class Tolerations {
 public:
  Tolerations() = default;                                     // none
  explicit Tolerations(Json list) : json_(std::move(list)) {}  // an array

  bool is_empty() const { return json_.empty(); }
  const Json& json() const { return json_; }

 private:
  Json json_ = Json::array();
};

// spec.affinity of a Pod. A value.
class Affinity {
 public:
  Affinity() = default;                                         // none
  explicit Affinity(Json object) : json_(std::move(object)) {}  // an object

  const Json& json() const { return json_; }

 private:
  Json json_ = Json::object();
};

// Reads `key` of a section; `out` does not change if it is missing or wrong.
void ReadTolerations(JsonSection& section, const std::string& key, Tolerations& out);
void ReadAffinity(JsonSection& section, const std::string& key, Affinity& out);

}  // namespace csidelta::objects
