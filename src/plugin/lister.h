#pragma once

#include <string>

#include "PluginLister.grpc.pb.h"
#include "PluginLister.pb.h"
#include "plugin/host_version.h"
#include "plugin/registry.h"

namespace csidelta::plugin {

// What the host learns about us. It executes `command` from then on, so that is argv[0], unchanged.
struct ListerSettings {
  std::string command;
  ArgumentForm form = ArgumentForm::kEmpty;
  std::string declared_host_version;  // CSI_DELTA_VELERO_VERSION; "" when not set
};

// The reply for a host that knows `kinds`. Pure.
generated::ListPluginsResponse BuildListing(const std::string& command, const Registry& registry,
                                            const HostKinds& kinds);

// Answers ListPlugins, for each call again by who calls and by what lies beside us. Borrows the
// registry. Thread-safe.
class PluginListerService final : public generated::PluginLister::Service {
 public:
  PluginListerService(const Registry& registry, ListerSettings settings);

  grpc::Status ListPlugins(grpc::ServerContext* context, const generated::Empty* request,
                           generated::ListPluginsResponse* response) override;

 private:
  const Registry& registry_;
  const ListerSettings settings_;
};

}  // namespace csidelta::plugin
