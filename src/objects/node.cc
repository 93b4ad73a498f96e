#include "objects/node.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/status_macros.h"

namespace csidelta::objects {
namespace {

const Json& ElementsAt(const Json& json, JsonPath path) {
  static const Json kNone = Json::array();
  const Json* const found = FindJson(json, path);
  return found != nullptr && found->is_array() ? *found : kNone;
}

// Whether a requirement of a term is met by the value of its key; nothing: the node has none.
bool IsMet(const Json& requirement, const std::optional<std::string>& value) {
  const Json& values = ElementsAt(requirement, {"values"});
  const bool is_named =
      value.has_value() && std::find(values.begin(), values.end(), Json(*value)) != values.end();
  const std::string how = GetString(requirement, {"operator"});
  if (how == "In") {
    return is_named;
  }
  if (how == "NotIn") {
    return !is_named;
  }
  if (how == "Exists") {
    return value.has_value();
  }
  return how == "DoesNotExist" && !value.has_value();
}

}  // namespace

absl::StatusOr<Node> Node::Of(Json json) {
  RETURN_IF_ERROR(CheckKind(json, "Node"));
  return Node(std::move(json));
}

bool Node::is_schedulable() const { return !GetBool(json(), {"spec", "unschedulable"}); }

bool Node::IsSelectedBy(const Json& selector) const {
  if (selector.is_null()) {
    return true;
  }
  const std::map<std::string, std::string> of_node = labels();
  const Json& terms = ElementsAt(selector, {"nodeSelectorTerms"});
  return std::any_of(terms.begin(), terms.end(), [&](const Json& term) {
    const Json& expressions = ElementsAt(term, {"matchExpressions"});
    const Json& fields = ElementsAt(term, {"matchFields"});
    const bool has_labels =
        std::all_of(expressions.begin(), expressions.end(), [&](const Json& one) {
          const auto found = of_node.find(GetString(one, {"key"}));
          return IsMet(one, found == of_node.end() ? std::nullopt : std::optional(found->second));
        });
    const bool has_fields = std::all_of(fields.begin(), fields.end(), [&](const Json& one) {
      return GetString(one, {"key"}) == "metadata.name" && IsMet(one, name());
    });
    return has_labels && has_fields && !(expressions.empty() && fields.empty());
  });
}

absl::StatusOr<CsiNode> CsiNode::Of(Json json) {
  RETURN_IF_ERROR(CheckKind(json, "CSINode"));
  return CsiNode(std::move(json));
}

bool CsiNode::HasDriver(absl::string_view driver) const {
  const Json& drivers = ElementsAt(json(), {"spec", "drivers"});
  return std::any_of(drivers.begin(), drivers.end(),
                     [&](const Json& one) { return GetString(one, {"name"}) == driver; });
}

}  // namespace csidelta::objects
