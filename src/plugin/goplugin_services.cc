#include "plugin/goplugin_services.h"

namespace csidelta::plugin {
namespace {

// Reactors own themselves: gRPC calls OnDone last, exactly once.
class BrokerStream final : public grpc::ServerBidiReactor<::plugin::ConnInfo, ::plugin::ConnInfo> {
 public:
  explicit BrokerStream(HostLink& link) : link_(link) {
    link_.OnStreamOpened();
    StartRead(&received_);
  }

  void OnReadDone(bool ok) override {
    if (ok) {
      StartRead(&received_);
    } else {
      Finish(grpc::Status::OK);  // Closed or cancelled by the host.
    }
  }

  void OnDone() override {
    link_.OnStreamClosed();
    delete this;
  }

 private:
  HostLink& link_;
  ::plugin::ConnInfo received_;
};

class SilentStream final : public grpc::ServerWriteReactor<::plugin::StdioData> {
 public:
  void OnCancel() override { Finish(grpc::Status::CANCELLED); }
  void OnDone() override { delete this; }
};

class ShutdownReply final : public grpc::ServerUnaryReactor {
 public:
  explicit ShutdownReply(HostLink& link) : link_(link) { Finish(grpc::Status::OK); }

  void OnDone() override {
    link_.OnShutdownAsked();
    delete this;
  }

 private:
  HostLink& link_;
};

}  // namespace

grpc::ServerBidiReactor<::plugin::ConnInfo, ::plugin::ConnInfo>* BrokerService::StartStream(
    grpc::CallbackServerContext* /*context*/) {
  return new BrokerStream(link_);
}

grpc::ServerWriteReactor<::plugin::StdioData>* StdioService::StreamStdio(
    grpc::CallbackServerContext* /*context*/, const google::protobuf::Empty* /*request*/) {
  return new SilentStream;
}

grpc::ServerUnaryReactor* ControllerService::Shutdown(grpc::CallbackServerContext* /*context*/,
                                                      const ::plugin::Empty* /*request*/,
                                                      ::plugin::Empty* /*response*/) {
  return new ShutdownReply(link_);
}

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context,
                                               const grpc::health::v1::HealthCheckRequest* request,
                                               grpc::health::v1::HealthCheckResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (!request->service().empty() && request->service() != "plugin") {
    reactor->Finish({grpc::StatusCode::NOT_FOUND, "unknown service"});
    return reactor;
  }
  response->set_status(grpc::health::v1::HealthCheckResponse::SERVING);
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace csidelta::plugin
