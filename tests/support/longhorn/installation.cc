#include "tests/support/longhorn/installation.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "k8s/object.h"
#include "k8s/wait.h"
#include "tests/support/longhorn/admission.h"
#include "tests/support/longhorn/kinds.h"
#include "tests/support/longhorn/webhook_server.h"

namespace csidelta::longhorn_stand_in {
namespace {

struct KindName {
  const char* plural;
  const char* kind;
};

// Those of v1beta2 besides Snapshot (longhorn-manager: k8s/crds.yaml).
constexpr KindName kOtherKinds[] = {{"volumes", "Volume"},
                                    {"engines", "Engine"},
                                    {"enginefrontends", "EngineFrontend"},
                                    {"replicas", "Replica"},
                                    {"volumeattachments", "VolumeAttachment"},
                                    {"backups", "Backup"},
                                    {"backupvolumes", "BackupVolume"},
                                    {"backuptargets", "BackupTarget"},
                                    {"backupbackingimages", "BackupBackingImage"},
                                    {"backingimages", "BackingImage"},
                                    {"backingimagemanagers", "BackingImageManager"},
                                    {"backingimagedatasources", "BackingImageDataSource"},
                                    {"engineimages", "EngineImage"},
                                    {"instancemanagers", "InstanceManager"},
                                    {"sharemanagers", "ShareManager"},
                                    {"nodes", "Node"},
                                    {"orphans", "Orphan"},
                                    {"recurringjobs", "RecurringJob"},
                                    {"settings", "Setting"},
                                    {"shardgroups", "ShardGroup"},
                                    {"shards", "Shard"},
                                    {"snapshotgroups", "SnapshotGroup"},
                                    {"supportbundles", "SupportBundle"},
                                    {"systembackups", "SystemBackup"},
                                    {"systemrestores", "SystemRestore"}};

const k8s::ResourceType kDefinitions{"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                     "CustomResourceDefinition", false};
const k8s::ResourceType kNamespaces{"", "v1", "namespaces", "Namespace", false};
const k8s::ResourceType kMutating{"admissionregistration.k8s.io", "v1",
                                  "mutatingwebhookconfigurations", "MutatingWebhookConfiguration",
                                  false};
const k8s::ResourceType kValidating{"admissionregistration.k8s.io", "v1",
                                    "validatingwebhookconfigurations",
                                    "ValidatingWebhookConfiguration", false};

Json TypeOf(const char* type) { return {{"type", type}}; }

Json MapOf(const char* type) {
  return {{"type", "object"}, {"nullable", true}, {"additionalProperties", TypeOf(type)}};
}

Json SnapshotSchema() {
  const Json spec = {{"type", "object"},
                     {"required", {"volume"}},
                     {"properties",
                      {{"volume", TypeOf("string")},
                       {"createSnapshot", TypeOf("boolean")},
                       {"labels", MapOf("string")}}}};
  Json status = Json::object();
  for (const char* field : {"parent", "creationTime", "requestedTime", "ownerID", "error",
                            "checksum", "checksumCalculatedAt"}) {
    status[field] = TypeOf("string");
  }
  for (const char* field : {"markRemoved", "userCreated", "readyToUse"}) {
    status[field] = TypeOf("boolean");
  }
  for (const char* field : {"size", "restoreSize"}) {
    status[field] = {{"type", "integer"}, {"format", "int64"}};
  }
  status["children"] = MapOf("boolean");
  status["labels"] = MapOf("string");
  return {{"type", "object"},
          {"properties",
           {{"spec", spec}, {"status", {{"type", "object"}, {"properties", std::move(status)}}}}}};
}

Json AnySchema() { return {{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}}; }

Json Column(const char* name, const char* type, const char* path) {
  return {{"name", name}, {"type", type}, {"jsonPath", path}};
}

Json SnapshotColumns() {
  return Json::array({Column("Volume", "string", ".spec.volume"),
                      Column("CreationTime", "string", ".status.creationTime"),
                      Column("ReadyToUse", "boolean", ".status.readyToUse"),
                      Column("RestoreSize", "string", ".status.restoreSize"),
                      Column("Size", "string", ".status.size"),
                      Column("Age", "date", ".metadata.creationTimestamp")});
}

Json Definition(const KindName& kind, const Json& schema, const Json& columns,
                const char* short_name) {
  const std::string singular = absl::AsciiStrToLower(kind.kind);
  Json version = {{"name", kVersion},
                  {"served", true},
                  {"storage", true},
                  {"subresources", {{"status", Json::object()}}},
                  {"schema", {{"openAPIV3Schema", schema}}}};
  if (!columns.is_null()) {
    version["additionalPrinterColumns"] = columns;
  }
  return {{"apiVersion", "apiextensions.k8s.io/v1"},
          {"kind", "CustomResourceDefinition"},
          {"metadata", {{"name", absl::StrCat(kind.plural, ".", kGroup)}}},
          {"spec",
           {{"group", kGroup},
            {"scope", "Namespaced"},
            {"names",
             {{"plural", kind.plural},
              {"singular", singular},
              {"kind", kind.kind},
              {"listKind", absl::StrCat(kind.kind, "List")},
              {"shortNames", Json::array({short_name == nullptr ? absl::StrCat("lh", singular)
                                                                : std::string(short_name)})}}},
            {"versions", Json::array({std::move(version)})}}}};
}

Json Rule(const std::string& group, const std::string& version, const std::string& plural,
          const Json& operations) {
  return {{"apiGroups", Json::array({group})},
          {"apiVersions", Json::array({version})},
          {"resources", Json::array({plural})},
          {"operations", operations},
          {"scope", "Namespaced"}};
}

Json Configuration(Webhook webhook, const std::string& url, absl::string_view ca_pem,
                   const Json& rules) {
  const bool is_mutator = webhook == Webhook::kMutator;
  Json hook = {{"name", NameOf(webhook)},
               {"clientConfig",
                {{"url", absl::StrCat(url, is_mutator ? kMutatePath : kValidatePath)},
                 {"caBundle", absl::Base64Escape(ca_pem)}}},
               {"rules", rules},
               {"failurePolicy", "Fail"},
               {"matchPolicy", "Exact"},
               {"sideEffects", "None"},
               {"admissionReviewVersions", Json::array({"v1"})}};
  const k8s::ResourceType& type = is_mutator ? kMutating : kValidating;
  return {{"apiVersion", "admissionregistration.k8s.io/v1"},
          {"kind", type.kind},
          {"metadata",
           {{"name", is_mutator ? "longhorn-webhook-mutator" : "longhorn-webhook-validator"}}},
          {"webhooks", Json::array({std::move(hook)})}};
}

k8s::ResourceType TypeOfObject(const Json& object) {
  const std::string kind = GetString(object, {"kind"});
  for (const k8s::ResourceType& type : {kDefinitions, kNamespaces, kMutating, kValidating}) {
    if (type.kind == kind) {
      return type;
    }
  }
  return kDefinitions;
}

// What it is to be is in `object`, but for what the API server adds.
absl::Status Ensure(const CallContext& ctx, k8s::ApiClient& client, const Json& object) {
  const k8s::ResourceType type = TypeOfObject(object);
  const absl::Status made = client.Create(ctx, type, "", object).status();
  if (!absl::IsAlreadyExists(made)) {
    return made;
  }
  return client
      .Patch(ctx, {type, "", k8s::Name(object)}, k8s::PatchKind::kMerge, object, /*subresource=*/"")
      .status();
}

bool IsEstablished(const Json* definition) {
  const Json* const conditions =
      definition == nullptr ? nullptr : FindJson(*definition, {"status", "conditions"});
  if (conditions == nullptr || !conditions->is_array()) {
    return false;
  }
  for (const Json& condition : *conditions) {
    if (GetString(condition, {"type"}) == "Established" &&
        GetString(condition, {"status"}) == "True") {
      return true;
    }
  }
  return false;
}

}  // namespace

std::vector<Json> CustomResourceDefinitions() {
  std::vector<Json> definitions = {
      Definition({"snapshots", "Snapshot"}, SnapshotSchema(), SnapshotColumns(), "lhsnap")};
  for (const KindName& kind : kOtherKinds) {
    definitions.push_back(Definition(kind, AnySchema(), Json(), nullptr));
  }
  return definitions;
}

std::vector<Json> WebhookConfigurations(const std::string& url, absl::string_view ca_pem) {
  return {Configuration(Webhook::kMutator, url, ca_pem,
                        Json::array({Rule(kGroup, kVersion, "snapshots", {"CREATE", "UPDATE"})})),
          Configuration(
              Webhook::kValidator, url, ca_pem,
              Json::array({Rule(kGroup, kVersion, "snapshots", {"CREATE", "UPDATE", "DELETE"}),
                           Rule("", "v1", "persistentvolumeclaims", Json::array({"UPDATE"})),
                           Rule(kGroup, kVersion, "volumes", Json::array({"UPDATE"}))}))};
}

absl::Status Install(const CallContext& ctx, k8s::ApiClient& client,
                     const std::string& namespace_name, const std::string& url,
                     absl::string_view ca_pem) {
  RETURN_IF_ERROR(Ensure(
      ctx, client,
      {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", namespace_name}}}}));
  for (const Json& definition : CustomResourceDefinitions()) {
    RETURN_IF_ERROR(Ensure(ctx, client, definition));
  }
  for (const Json& definition : CustomResourceDefinitions()) {
    RETURN_IF_ERROR(k8s::WaitFor(
        ctx, client, {kDefinitions, "", k8s::Name(definition)},
        [](const Json* object) -> absl::StatusOr<bool> { return IsEstablished(object); }));
  }
  for (const Json& configuration : WebhookConfigurations(url, ca_pem)) {
    RETURN_IF_ERROR(Ensure(ctx, client, configuration));
  }
  return absl::OkStatus();
}

}  // namespace csidelta::longhorn_stand_in
