#include "objects/node.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/status_macros.h"

namespace csidelta::objects {
namespace {

const Json& Terms(const Json& selector) { return JsonArrayAt(selector, {"nodeSelectorTerms"}); }

// What one term asks for and what another one does.
Json BothTerms(const Json& one, const Json& other) {
  Json both = Json::object();
  for (const char* kind : {"matchExpressions", "matchFields"}) {
    for (const Json* term : {&one, &other}) {
      for (const Json& requirement : JsonArrayAt(*term, {kind})) {
        both[kind].push_back(requirement);
      }
    }
  }
  return both;
}

bool IsToleration(const Json& toleration) {
  return toleration.is_object() &&
         std::all_of(toleration.items().begin(), toleration.items().end(), [](const auto& item) {
           static const std::set<std::string> kTexts = {"key", "operator", "value", "effect"};
           return item.key() == "tolerationSeconds"
                      ? item.value().is_number_integer()
                      : kTexts.contains(item.key()) && item.value().is_string();
         });
}

}  // namespace

NodeSelector NodeSelector::OfNode(absl::string_view node) {
  const Json field = {
      {"key", "metadata.name"}, {"operator", "In"}, {"values", Json::array({std::string(node)})}};
  return NodeSelector(
      Json{{"nodeSelectorTerms", Json::array({{{"matchFields", Json::array({field})}}})}});
}

absl::StatusOr<NodeSelector> NodeSelector::Parse(absl::string_view text) {
  if (text.empty()) {
    return NodeSelector();
  }
  ASSIGN_OR_RETURN(Json json, ParseJsonObject(text));
  return NodeSelector(std::move(json));
}

std::string NodeSelector::ToText() const { return selects_all() ? "" : DumpJson(json_); }

NodeSelector Both(const NodeSelector& one, const NodeSelector& other) {
  const bool one_says_nothing = Terms(one.json()).empty();
  if (one_says_nothing || Terms(other.json()).empty()) {
    return one_says_nothing ? other : one;
  }
  // Terms are alternatives: each of one with each of the other.
  Json both = Json::array();
  for (const Json& a : Terms(one.json())) {
    for (const Json& b : Terms(other.json())) {
      both.push_back(BothTerms(a, b));
    }
  }
  return NodeSelector(Json{{"nodeSelectorTerms", std::move(both)}});
}

bool Node::is_ready() const {
  const Json& conditions = ArrayAt({"status", "conditions"});
  return std::any_of(conditions.begin(), conditions.end(), [](const Json& condition) {
    return GetString(condition, {"type"}) == "Ready" && GetString(condition, {"status"}) == "True";
  });
}

bool Node::IsSelectedBy(const NodeSelector& selector) const {
  if (selector.selects_all()) {
    return true;
  }
  const std::map<std::string, std::string> of_node = labels();
  const Json& terms = Terms(selector.json());
  return std::any_of(terms.begin(), terms.end(), [&](const Json& term) {
    const Json& expressions = JsonArrayAt(term, {"matchExpressions"});
    const Json& fields = JsonArrayAt(term, {"matchFields"});
    const bool has_labels =
        std::all_of(expressions.begin(), expressions.end(), [&](const Json& one) {
          const auto found = of_node.find(GetString(one, {"key"}));
          return MeetsRequirement(
                     one, found == of_node.end() ? std::nullopt : std::optional(found->second))
              .value_or(false);
        });
    const bool has_fields = std::all_of(fields.begin(), fields.end(), [&](const Json& one) {
      return GetString(one, {"key"}) == "metadata.name" &&
             MeetsRequirement(one, name()).value_or(false);
    });
    return has_labels && has_fields && !(expressions.empty() && fields.empty());
  });
}

bool CsiNode::HasDriver(absl::string_view driver) const {
  const Json& drivers = ArrayAt({"spec", "drivers"});
  return std::any_of(drivers.begin(), drivers.end(),
                     [&](const Json& one) { return GetString(one, {"name"}) == driver; });
}

void ReadTolerations(JsonSection& section, const std::string& key, Tolerations& out) {
  const Json* value = section.Take(key);
  if (value == nullptr) {
    return;
  }
  if (!value->is_array() || !std::all_of(value->begin(), value->end(), IsToleration)) {
    return section.Fail(section.PathOf(key), *value, "a list of tolerations as a Pod has them");
  }
  out = Tolerations(*value);
}

void ReadAffinity(JsonSection& section, const std::string& key, Affinity& out) {
  section.Inner(key, [&out](JsonSection& affinity) {
    Json read = Json::object();
    for (const char* kind : {"nodeAffinity", "podAffinity", "podAntiAffinity"}) {
      const Json* value = affinity.Take(kind);
      if (value != nullptr && !value->is_object()) {
        affinity.Fail(affinity.PathOf(kind), *value, "an object as a Pod has it");
      } else if (value != nullptr) {
        read[kind] = *value;
      }
    }
    out = Affinity(std::move(read));
  });
}

}  // namespace csidelta::objects
