#include "objects/object.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/go_duration.h"
#include "base/json_fields.h"
#include "base/quantity.h"
#include "base/rfc3339.h"

namespace csidelta::objects {
namespace {

constexpr auto kOwnerFields = [](auto& fields, auto& owner) {
  fields("apiVersion", owner.api_version);
  fields("kind", owner.kind);
  fields("name", owner.name);
  fields("uid", owner.uid);
  fields.IfSet("controller", owner.is_controller);
  fields.IfSet("blockOwnerDeletion", owner.blocks_deletion);
};

OwnerReference ToOwner(const Json& owner) {
  return ReadFields<OwnerReference>(kOwnerFields, &owner);
}

}  // namespace

Json ToJson(const std::vector<OwnerReference>& owners) {
  return JsonFieldWriter::Write(owners, kOwnerFields);
}

std::optional<bool> MeetsRequirement(const Json& requirement,
                                     const std::optional<std::string>& value) {
  const Json& values = JsonArrayAt(requirement, {"values"});
  const bool is_named =
      value.has_value() && std::find(values.begin(), values.end(), Json(*value)) != values.end();
  const std::string how = GetString(requirement, {"operator"});
  if (how == "In" || how == "NotIn") {
    return is_named == (how == "In");
  }
  return how == "Exists" || how == "DoesNotExist"
             ? std::optional(value.has_value() == (how == "Exists"))
             : std::nullopt;
}

bool Object::HasLabels(const std::map<std::string, std::string>& wanted) const {
  return std::all_of(wanted.begin(), wanted.end(),
                     [&](const auto& label) { return Label(label.first) == label.second; });
}

bool Object::HasFinalizer(absl::string_view finalizer) const {
  const std::vector<std::string> all = finalizers();
  return std::find(all.begin(), all.end(), finalizer) != all.end();
}

std::vector<OwnerReference> Object::owners() const {
  std::vector<OwnerReference> owners;
  const Json& all = ArrayAt({"metadata", "ownerReferences"});
  std::transform(all.begin(), all.end(), std::back_inserter(owners), ToOwner);
  return owners;
}

OwnerReference Object::AsOwner() const {
  return {.api_version = api_version(),
          .kind = kind(),
          .name = name(),
          .uid = uid(),
          .is_controller = true,
          .blocks_deletion = true};
}

std::optional<absl::Time> Object::written_at() const {
  std::optional<absl::Time> last;
  for (const Json& entry : ArrayAt({"metadata", "managedFields"})) {
    last = std::max(last, ParseRfc3339(GetString(entry, {"time"})));  // Nothing is before any time.
  }
  return last;
}

std::optional<absl::Time> Object::labelled_at(absl::string_view key) const {
  return WrittenAt({"f:metadata", "f:labels", absl::StrCat("f:", key)});
}

void Object::SetLabels(const std::map<std::string, std::string>& labels) {
  labels.empty() ? EraseJson(json_, {"metadata", "labels"}) : Set({"metadata", "labels"}, labels);
}

void Object::SetAnnotations(const std::map<std::string, std::string>& annotations) {
  annotations.empty() ? EraseJson(json_, {"metadata", "annotations"})
                      : Set({"metadata", "annotations"}, annotations);
}

bool Object::RemoveFinalizer(absl::string_view finalizer) {
  std::vector<std::string> kept = finalizers();
  const bool was_there = std::erase(kept, finalizer) > 0;
  if (was_there) {
    Set({"metadata", "finalizers"}, std::move(kept));
  }
  return was_there;
}

void Object::SetFinalizers(const std::vector<std::string>& finalizers) {
  finalizers.empty() ? EraseJson(json_, {"metadata", "finalizers"})
                     : Set({"metadata", "finalizers"}, finalizers);
}

void Object::SetOwners(const std::vector<OwnerReference>& owners) {
  owners.empty() ? EraseJson(json_, {"metadata", "ownerReferences"})
                 : Set({"metadata", "ownerReferences"}, ToJson(owners));
}

bool Object::RemoveOwners(absl::FunctionRef<bool(const OwnerReference&)> is_removed) {
  Json kept = ArrayAt({"metadata", "ownerReferences"});
  const std::size_t before = kept.size();
  kept.erase(std::remove_if(kept.begin(), kept.end(),
                            [&](const Json& owner) { return is_removed(ToOwner(owner)); }),
             kept.end());
  if (kept.size() == before) {
    return false;
  }
  if (kept.empty()) {
    EraseJson(json_, {"metadata", "ownerReferences"});
  } else {
    Set({"metadata", "ownerReferences"}, std::move(kept));
  }
  return true;
}

std::optional<bool> Object::FlagIfSet(JsonPath path) const {
  const Json* const flag = Find(path);
  return flag != nullptr && flag->is_boolean() ? std::optional(flag->get<bool>()) : std::nullopt;
}

std::optional<absl::Time> Object::TimeAt(JsonPath path) const { return ParseRfc3339(Text(path)); }

absl::Duration Object::TimeoutAt(JsonPath path, absl::Duration fallback) const {
  const absl::Duration timeout = ParseGoDuration(Text(path)).value_or(absl::ZeroDuration());
  return timeout > absl::ZeroDuration() ? timeout : fallback;
}

std::optional<absl::Time> Object::WrittenAt(JsonPath field) const {
  for (const Json& entry : ArrayAt({"metadata", "managedFields"})) {
    const Json* const fields = FindJson(entry, {"fieldsV1"});
    if (fields != nullptr && FindJson(*fields, field) != nullptr) {
      return ParseRfc3339(GetString(entry, {"time"}));
    }
  }
  return std::nullopt;
}

std::optional<int64_t> Object::QuantityAt(JsonPath path) const {
  const absl::StatusOr<int64_t> bytes = ParseQuantity(Text(path));
  return bytes.ok() && *bytes > 0 ? std::optional(*bytes) : std::nullopt;
}

Json Object::PickAt(const char* field, std::initializer_list<const char*> names) const {
  Json picked = Json::object();
  for (const char* const name : names) {
    if (const Json* const value = Find({field, name}); value != nullptr) {
      picked[name] = *value;
    }
  }
  return picked;
}

bool Object::Remove(JsonPath path) {
  const bool was_there = Find(path) != nullptr;
  if (was_there) {
    EraseJson(json_, path);
  }
  return was_there;
}

k8s::ResourceType KindName::Type() const { return TypeOf(version); }

k8s::ResourceType KindName::TypeOf(absl::string_view other_version) const {
  return {.group = group,
          .version = std::string(other_version),
          .plural = plural,
          .kind = kind,
          .namespaced = is_namespaced};
}

std::string KindName::ApiVersionOf(absl::string_view other_version) const {
  return *group == '\0' ? std::string(other_version) : absl::StrCat(group, "/", other_version);
}

absl::Status CheckKind(const Json& json, absl::string_view kind) {
  const std::string found = GetString(json, {"kind"});
  if (!json.is_object() || (!found.empty() && found != kind)) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted a ", kind, ", found ", found.empty() ? "no object" : found));
  }
  return absl::OkStatus();
}

}  // namespace csidelta::objects
