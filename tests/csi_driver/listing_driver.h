#pragma once

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "csi.grpc.pb.h"
#include "tests/support/scratch_folder.h"

namespace csidelta::csi_driver {

// A CSI driver that lists whatever a test wants, behind a socket.
class ListingDriver : public ::csi::v1::Identity::Service, public ::csi::v1::Controller::Service {
 public:
  ListingDriver() : folder_("/dev/shm") {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(Address(), grpc::InsecureServerCredentials());
    builder.RegisterService(static_cast<::csi::v1::Identity::Service*>(this));
    builder.RegisterService(static_cast<::csi::v1::Controller::Service*>(this));
    server_ = builder.BuildAndStart();
  }
  ~ListingDriver() override { server_->Shutdown(); }

  std::string Address() const { return absl::StrCat("unix://", folder_.path(), "/csi.sock"); }

  grpc::Status GetPluginInfo(grpc::ServerContext*, const ::csi::v1::GetPluginInfoRequest*,
                             ::csi::v1::GetPluginInfoResponse* answer) override {
    answer->set_name(name);
    return grpc::Status::OK;
  }
  grpc::Status ControllerGetCapabilities(
      grpc::ServerContext*, const ::csi::v1::ControllerGetCapabilitiesRequest*,
      ::csi::v1::ControllerGetCapabilitiesResponse* answer) override {
    answer->add_capabilities()->mutable_rpc()->set_type(
        ::csi::v1::ControllerServiceCapability::RPC::LIST_SNAPSHOTS);
    return grpc::Status::OK;
  }
  grpc::Status ListSnapshots(grpc::ServerContext*, const ::csi::v1::ListSnapshotsRequest* request,
                             ::csi::v1::ListSnapshotsResponse* answer) override {
    ++calls;
    return say(*request, *answer);
  }

  std::string name = "liar.example.com";
  int calls = 0;
  std::function<grpc::Status(const ::csi::v1::ListSnapshotsRequest&,
                             ::csi::v1::ListSnapshotsResponse&)>
      say;

 private:
  const support::ScratchFolder folder_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace csidelta::csi_driver
