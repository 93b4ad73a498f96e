#pragma once

#include <grpcpp/create_channel.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "tests/support/csi_driver/services.h"
#include "tests/support/fake_clock.h"

namespace csidelta::csi_driver {

// The driver's services in this process, and a channel to them.
class DriverFixture : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "csi-driver-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    store_ = *Store::Open(folder_ + "/state", clock_, Random::Real());
    Serve();
  }

  void TearDown() override {
    StopServing();
    std::filesystem::remove_all(folder_);
  }

  // Again after StopServing(): options_ may have changed.
  void Serve() {
    controller_service_ = MakeController(options_, faults_, *store_);
    node_service_ = MakeNode(options_, faults_, *store_);
    grpc::ServerBuilder builder;
    builder.RegisterService(controller_service_.get());
    builder.RegisterService(node_service_.get());
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    channel_ = server_->InProcessChannel({});
    controller_ = ::csi::v1::Controller::NewStub(channel_);
    node_ = ::csi::v1::Node::NewStub(channel_);
  }

  void StopServing() {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }

  static ::csi::v1::VolumeCapability Capability(VolumeMode mode) {
    ::csi::v1::VolumeCapability capability;
    capability.mutable_access_mode()->set_mode(
        ::csi::v1::VolumeCapability::AccessMode::SINGLE_NODE_WRITER);
    if (mode == VolumeMode::kBlock) {
      capability.mutable_block();
    } else {
      capability.mutable_mount();
    }
    return capability;
  }

  std::string folder_;
  DriverOptions options_{.endpoint = "",
                         .state_dir = "",
                         .driver_name = "fixture.csi-delta.io",
                         .node_id = "n1",
                         .control_socket = ""};
  support::FakeClock clock_;
  Faults faults_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<::csi::v1::Controller::Service> controller_service_;
  std::unique_ptr<::csi::v1::Node::Service> node_service_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<::csi::v1::Controller::Stub> controller_;
  std::unique_ptr<::csi::v1::Node::Stub> node_;
};

}  // namespace csidelta::csi_driver
