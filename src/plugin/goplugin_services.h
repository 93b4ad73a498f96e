#pragma once

#include "grpc/health/v1/health.grpc.pb.h"
#include "grpc_broker.grpc.pb.h"
#include "grpc_controller.grpc.pb.h"
#include "grpc_stdio.grpc.pb.h"
#include "plugin/host_link.h"

namespace csidelta::plugin {

// go-plugin's own services. The two streams live as long as the connection, so neither holds a
// thread. All borrow the link; all thread-safe.

// Reads what comes until the host closes the stream, and never sends: we call nothing in the host.
class BrokerService final : public ::plugin::GRPCBroker::CallbackService {
 public:
  explicit BrokerService(HostLink& link) : link_(link) {}
  grpc::ServerBidiReactor<::plugin::ConnInfo, ::plugin::ConnInfo>* StartStream(
      grpc::CallbackServerContext* context) override;

 private:
  HostLink& link_;
};

// Stays open and silent: our log goes to the real stderr, which the host reads.
class StdioService final : public ::plugin::GRPCStdio::CallbackService {
 public:
  grpc::ServerWriteReactor<::plugin::StdioData>* StreamStdio(
      grpc::CallbackServerContext* context, const google::protobuf::Empty* request) override;
};

// Replies at once, and only then tells the link: the host closes its streams after the reply.
class ControllerService final : public ::plugin::GRPCController::CallbackService {
 public:
  explicit ControllerService(HostLink& link) : link_(link) {}
  grpc::ServerUnaryReactor* Shutdown(grpc::CallbackServerContext* context,
                                     const ::plugin::Empty* request,
                                     ::plugin::Empty* response) override;

 private:
  HostLink& link_;
};

// SERVING for the service "plugin" and for the whole server; NOT_FOUND for any other.
class HealthService final : public grpc::health::v1::Health::CallbackService {
 public:
  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::health::v1::HealthCheckRequest* request,
                                  grpc::health::v1::HealthCheckResponse* response) override;
};

}  // namespace csidelta::plugin
