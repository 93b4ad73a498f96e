#include "plugin/lister.h"

#include <utility>
#include <vector>

#include "base/log.h"
#include "plugin/name_conflicts.h"

namespace csidelta::plugin {
namespace {

template <typename Action>
void AddKind(const std::string& command, const char* kind, const ActionTable<Action>& table,
             bool placeholders, generated::ListPluginsResponse& into) {
  for (const auto& entry : table.entries()) {
    if (entry.placeholder && !placeholders) {
      continue;
    }
    generated::PluginIdentifier& identifier = *into.add_plugins();
    identifier.set_command(command);
    identifier.set_kind(kind);
    identifier.set_name(entry.name);
  }
}

template <typename Action>
void AddPlaceholderNames(const ActionTable<Action>& table, std::vector<std::string>& names) {
  for (const auto& entry : table.entries()) {
    if (entry.placeholder) {
      names.push_back(entry.name);
    }
  }
}

// False when another program beside `command` may bring a name that a placeholder has.
bool PlaceholderNamesAreFree(const std::string& command, const Registry& registry) {
  std::vector<std::string> names;
  AddPlaceholderNames(registry.backup, names);
  AddPlaceholderNames(registry.restore, names);
  const absl::Status checked = CheckNamesAreFree(command, names);
  if (!checked.ok()) {
    CSIDELTA_LOG(kInfo, "names of Velero's CSI plugin are left to others",
                 {"reason", std::string(checked.message())});
  }
  return checked.ok();
}

std::string UserAgent(const grpc::ServerContext& context) {
  const auto found = context.client_metadata().find("user-agent");
  return found == context.client_metadata().end()
             ? std::string()
             : std::string(found->second.data(), found->second.size());
}

}  // namespace

generated::ListPluginsResponse BuildListing(const std::string& command, const Registry& registry,
                                            const HostKinds& kinds) {
  generated::ListPluginsResponse listing;
  if (kinds.v2) {
    AddKind(command, "BackupItemActionV2", registry.backup, kinds.placeholders, listing);
    AddKind(command, "RestoreItemActionV2", registry.restore, kinds.placeholders, listing);
  }
  AddKind(command, "DeleteItemAction", registry.deletion, kinds.placeholders, listing);
  if (kinds.item_block) {
    AddKind(command, "ItemBlockAction", registry.item_block, kinds.placeholders, listing);
  }
  return listing;
}

PluginListerService::PluginListerService(const Registry& registry, ListerSettings settings)
    : registry_(registry), settings_(std::move(settings)) {}

grpc::Status PluginListerService::ListPlugins(grpc::ServerContext* context,
                                              const generated::Empty* /*request*/,
                                              generated::ListPluginsResponse* response) {
  const std::string user_agent = UserAgent(*context);
  HostKinds kinds = DetectHostKinds(settings_.form, user_agent, settings_.declared_host_version);
  kinds.placeholders = kinds.placeholders && PlaceholderNamesAreFree(settings_.command, registry_);
  if (!kinds.v2) {
    CSIDELTA_LOG(kWarn,
                 "this Velero is older than 1.12 or not recognised: only delete actions are "
                 "offered; set CSI_DELTA_VELERO_VERSION on the server to its version",
                 {"user_agent", user_agent});
  }
  *response = BuildListing(settings_.command, registry_, kinds);
  return grpc::Status::OK;
}

}  // namespace csidelta::plugin
