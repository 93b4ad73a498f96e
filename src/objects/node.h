#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"
#include "objects/volume_snapshot.h"

// Nodes and their CSI drivers, as objects/volume_snapshot.h has its kinds: what they do not name is
// kept.
namespace csidelta::objects {

class Node : public ObjectView {
 public:
  static absl::StatusOr<Node> Of(Json json);

  bool is_schedulable() const;  // not cordoned
  // Whether a NodeSelector (spec.nodeAffinity.required of a PersistentVolume) selects it, as the
  // scheduler decides: one of its terms, all requirements of that. Null selects every node. Gt, Lt
  // and what is unknown select none.
  bool IsSelectedBy(const Json& selector) const;

 private:
  using ObjectView::ObjectView;
};

// Has the name of its Node.
class CsiNode : public ObjectView {
 public:
  static absl::StatusOr<CsiNode> Of(Json json);

  bool HasDriver(absl::string_view driver) const;

 private:
  using ObjectView::ObjectView;
};

}  // namespace csidelta::objects
