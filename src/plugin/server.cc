#include "plugin/server.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <initializer_list>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugin/goplugin_services.h"
#include "plugin/item_action_adapters.h"

namespace csidelta::plugin {
namespace {

class GrpcPluginServer final : public PluginServer {
 public:
  GrpcPluginServer(const Registry& registry, ListerSettings lister, HostLink& link)
      : broker_(link),
        controller_(link),
        lister_(registry, std::move(lister)),
        backup_(MakeAdapter(registry.backup, calls_)),
        restore_(MakeAdapter(registry.restore, calls_)),
        deletion_(MakeAdapter(registry.deletion, calls_)),
        item_block_(MakeAdapter(registry.item_block, calls_)) {}

  ~GrpcPluginServer() override {
    calls_.RequestStop();
    if (server_ != nullptr) {
      server_->Shutdown(std::chrono::system_clock::time_point());  // Long past: at once.
      server_->Wait();
    }
  }

  bool Listen(const std::string& socket_path) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat("unix:", socket_path), grpc::InsecureServerCredentials());
    builder.SetMaxReceiveMessageSize(kMessageBytesMax);
    builder.SetMaxSendMessageSize(kMessageBytesMax);
    // One queue and one waiting thread; the server adds a thread whenever all are busy.
    builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 2);
    for (grpc::Service* service : std::initializer_list<grpc::Service*>{
             &broker_, &stdio_, &controller_, &health_, &lister_, backup_.get(), restore_.get(),
             deletion_.get(), item_block_.get()}) {
      builder.RegisterService(service);
    }
    server_ = builder.BuildAndStart();
    return server_ != nullptr;
  }

  CallTracker& calls() override { return calls_; }

 private:
  CallTracker calls_;
  BrokerService broker_;
  StdioService stdio_;
  ControllerService controller_;
  HealthService health_;
  PluginListerService lister_;
  const std::unique_ptr<grpc::Service> backup_;
  const std::unique_ptr<grpc::Service> restore_;
  const std::unique_ptr<grpc::Service> deletion_;
  const std::unique_ptr<grpc::Service> item_block_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PluginServer>> PluginServer::Start(const std::string& socket_path,
                                                                  const Registry& registry,
                                                                  ListerSettings lister,
                                                                  HostLink& link) {
  auto server = std::make_unique<GrpcPluginServer>(registry, std::move(lister), link);
  if (!server->Listen(socket_path)) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", socket_path));
  }
  return server;
}

}  // namespace csidelta::plugin
