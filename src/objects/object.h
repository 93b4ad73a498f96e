#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/json.h"
#include "k8s/api_client.h"
#include "k8s/object.h"

// Kubernetes objects as types: thin views that keep the JSON as it was read, unknown fields too,
// and name what the fields are. All reading is pure, never throws, and takes a value of the wrong
// type for a missing one. Texts of drivers and users, such as messages and names of classes, are
// returned unchanged: printing makes them printable. Values; copied freely.
namespace csidelta::objects {

// An entry of metadata.ownerReferences. The owner is in the namespace of what it owns, or in none.
struct OwnerReference {
  std::string api_version{};  // `{}`: who names only some of the fields means it
  std::string kind{};
  std::string name{};
  std::string uid{};
  bool is_controller = false;
  bool blocks_deletion = false;  // of the owner, where it is deleted in the foreground

  bool operator==(const OwnerReference&) const = default;
};

// An object of any kind, with the fields that all kinds have in common.
class Object {
 public:
  Object() = default;  // of no kind and no name
  explicit Object(Json json) : json_(std::move(json)) {}

  // For objects/ and what is below it: above, each field has a name.
  const Json& json() const { return json_; }

  std::string api_version() const { return Text({"apiVersion"}); }
  std::string kind() const { return Text({"kind"}); }
  std::string name() const { return k8s::Name(json_); }
  std::string namespace_name() const { return k8s::Namespace(json_); }  // "": of the cluster
  std::string uid() const { return k8s::Uid(json_); }
  std::string resource_version() const { return k8s::ResourceVersion(json_); }
  // The same as a number; 0 if it is not one.
  uint64_t version_number() const { return k8s::VersionNumber(json_); }
  std::map<std::string, std::string> labels() const {
    return GetStringMap(json_, {"metadata", "labels"});
  }
  std::map<std::string, std::string> annotations() const {
    return GetStringMap(json_, {"metadata", "annotations"});
  }
  std::string Label(absl::string_view key) const { return k8s::Label(json_, key); }
  std::string Annotation(absl::string_view key) const { return k8s::Annotation(json_, key); }
  bool HasLabel(absl::string_view key) const {  // of whatever value, "" too
    return Find({"metadata", "labels", key}) != nullptr;
  }
  bool HasLabels(const std::map<std::string, std::string>& wanted) const;  // all of them
  std::vector<std::string> finalizers() const { return Texts({"metadata", "finalizers"}); }
  bool HasFinalizer(absl::string_view finalizer) const;
  std::vector<OwnerReference> owners() const;
  // The reference for objects that it controls, and that are deleted before it.
  OwnerReference AsOwner() const;
  // By the API server's clock; nothing where the text is missing or not RFC 3339.
  std::optional<absl::Time> created_at() const { return k8s::CreatedAt(json_); }
  std::optional<absl::Time> deleted_at() const { return k8s::DeletedAt(json_); }
  // When any of its fields was written last, by metadata.managedFields; nothing where that was not
  // recorded.
  std::optional<absl::Time> written_at() const;
  // When the label was written, by metadata.managedFields; nothing where that was not recorded.
  std::optional<absl::Time> labelled_at(absl::string_view key) const;
  // Deletion was requested, and finalizers keep the object.
  bool is_being_deleted() const { return k8s::BeingDeleted(json_); }

  // --- Changes of what is held here: of what is to be created, updated or archived

  void SetName(absl::string_view name) { Set({"metadata", "name"}, name); }
  void SetLabel(absl::string_view key, absl::string_view value) {
    Set({"metadata", "labels", key}, value);
  }
  void SetAnnotation(absl::string_view key, absl::string_view value) {
    Set({"metadata", "annotations", key}, value);
  }
  void SetLabels(const std::map<std::string, std::string>& labels);  // none: no field
  void SetAnnotations(const std::map<std::string, std::string>& annotations);
  // Whether there was one.
  bool RemoveLabel(absl::string_view key) { return Remove({"metadata", "labels", key}); }
  bool RemoveAnnotation(absl::string_view key) { return Remove({"metadata", "annotations", key}); }
  bool RemoveFinalizer(absl::string_view finalizer);
  void SetFinalizers(const std::vector<std::string>& finalizers);  // none: no field
  void SetOwners(const std::vector<OwnerReference>& owners);       // none: no field
  // The others stay as they are written; none: no field. Whether there was one.
  bool RemoveOwners(absl::FunctionRef<bool(const OwnerReference&)> is_removed);
  // An API server refuses to create an object that has them.
  void RemoveManagedFields() { Remove({"metadata", "managedFields"}); }

  bool operator==(const Object&) const = default;

 protected:
  const Json* Find(JsonPath path) const { return FindJson(json_, path); }
  std::string Text(JsonPath path) const { return GetString(json_, path); }
  std::vector<std::string> Texts(JsonPath path) const {  // those of an array that are
    return GetStringList(json_, path);
  }
  bool Flag(JsonPath path) const { return GetBool(json_, path); }
  std::optional<bool> FlagIfSet(JsonPath path) const;
  int64_t Number(JsonPath path, int64_t fallback = 0) const {
    return GetInt(json_, path, fallback);
  }
  std::optional<absl::Time> TimeAt(JsonPath path) const;  // of RFC 3339
  // Of a duration as Go writes it. Missing, "" and zero mean `fallback`: Go writes "0s" for one
  // that was never set.
  absl::Duration TimeoutAt(JsonPath path, absl::Duration fallback) const;
  // When a field was written, by metadata.managedFields, as fieldsV1 names it; nothing where that
  // was not recorded.
  std::optional<absl::Time> WrittenAt(JsonPath field) const;
  std::optional<int64_t> QuantityAt(JsonPath path) const;  // more than 0
  const Json& ArrayAt(JsonPath path) const {               // an empty one where none exists
    return JsonArrayAt(json_, path);
  }
  // Those members of the object at `field` that exist.
  Json PickAt(const char* field, std::initializer_list<const char*> names) const;
  void Set(JsonPath path, Json leaf) { SetJson(json_, path, std::move(leaf)); }
  bool Remove(JsonPath path);  // whether it was there

 private:
  Json json_ = Json::object();
};

Json ToJson(const std::vector<OwnerReference>& owners);
// Whether the value of its key meets an entry of matchExpressions; `value` nothing: there is no
// such key. Nothing if the operator is unknown. Pure.
std::optional<bool> MeetsRequirement(const Json& requirement,
                                     const std::optional<std::string>& value);

// How a kind is called: what k8s::ResourceType has, for constants.
struct KindName {
  const char* group;
  const char* version;
  const char* plural;
  const char* kind;
  bool is_namespaced = true;

  k8s::ResourceType Type() const;
  // Of another version of the group.
  k8s::ResourceType TypeOf(absl::string_view other_version) const;
  // "GROUP/VERSION", as apiVersion has it.
  std::string ApiVersion() const { return ApiVersionOf(version); }
  std::string ApiVersionOf(absl::string_view other_version) const;
};

// INVALID_ARGUMENT unless `json` is an object whose kind, where it is set, is `kind`: items of a
// list may leave it out.
absl::Status CheckKind(const Json& json, absl::string_view kind);

// Base of the types of one kind each. The kind names itself: `static constexpr KindName kKind`.
// Base: what it has in common with other kinds.
template <typename Kind, typename Base = Object>
class ObjectOf : public Base {
 public:
  // INVALID_ARGUMENT for what is no object of the kind.
  static absl::StatusOr<Kind> Of(Json json) {
    if (absl::Status status = CheckKind(json, Kind::kKind.kind); !status.ok()) {
      return status;
    }
    return Unchecked(std::move(json));
  }
  static absl::StatusOr<Kind> From(const Object& object) { return Of(object.json()); }
  // Returns the error of the kind's Validate(), if it has one; the object need not name its kind.
  static absl::StatusOr<Kind> Parse(const Object& object) {
    Kind parsed = Unchecked(object.json());
    if (absl::Status status = parsed.Validate(); !status.ok()) {
      return status;
    }
    return parsed;
  }

  // A new one, of the version of kKind. `namespace_name` "" for kinds of the cluster.
  static Kind Make(absl::string_view namespace_name, absl::string_view name) {
    Json json = {{"apiVersion", Kind::kKind.ApiVersion()},
                 {"kind", Kind::kKind.kind},
                 {"metadata", {{"name", std::string(name)}}}};
    if (!namespace_name.empty()) {
      json["metadata"]["namespace"] = std::string(namespace_name);
    }
    return Unchecked(std::move(json));
  }

  // Built on first use, never destroyed.
  static const k8s::ResourceType& Type() {
    static const k8s::ResourceType& type = *new k8s::ResourceType(Kind::kKind.Type());
    return type;
  }
  static k8s::ObjectKey Key(absl::string_view namespace_name, absl::string_view name) {
    return {
        .type = Type(), .namespace_name = std::string(namespace_name), .name = std::string(name)};
  }
  k8s::ObjectKey key() const { return Key(this->namespace_name(), this->name()); }
  // The fields stay as they are.
  void SetVersion(absl::string_view version) {
    this->Set({"apiVersion"}, Kind::kKind.ApiVersionOf(version));
  }

 protected:
  static Kind Unchecked(Json json) {
    Kind object;
    object.Set({}, std::move(json));
    return object;
  }
};

}  // namespace csidelta::objects
