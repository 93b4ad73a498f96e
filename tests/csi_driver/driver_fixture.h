#pragma once

#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>

#include "tests/support/csi_driver/services.h"
#include "tests/support/fake_clock.h"
#include "tests/support/scratch_folder.h"

namespace csidelta::csi_driver {

// The driver's services in this process, and a channel to them.
class DriverFixture : public testing::Test {
 protected:
  // The driver keeps its state in a folder of its own below `parent`.
  explicit DriverFixture(const std::string& parent = testing::TempDir()) : folder_(parent) {}

  // For the whole program: after a call that was cancelled, gRPC's own end takes ten seconds.
  static void SetUpTestSuite() { grpc_init(); }

  void SetUp() override {
    store_ = *Store::Open(folder_.path() + "/state", clock_, Random::Real());
    Serve();
  }

  void TearDown() override { StopServing(); }

  // Again after StopServing(): options_ may have changed.
  void Serve() {
    controller_service_ = MakeController(options_, faults_, *store_);
    group_service_ = MakeGroupController(options_, faults_, *store_);
    node_service_ = MakeNodeService();
    identity_service_ = MakeIdentity(options_, faults_);
    metadata_service_ = MakeSnapshotMetadata(options_, faults_, *store_);
    differential_service_ = MakeDifferentialSnapshot(options_, faults_, *store_, clock_);
    grpc::ServerBuilder builder;
    builder.AddListeningPort(Address(), grpc::InsecureServerCredentials());
    builder.RegisterService(controller_service_.get());
    builder.RegisterService(group_service_.get());
    builder.RegisterService(node_service_.get());
    builder.RegisterService(identity_service_.get());
    builder.RegisterService(metadata_service_.get());
    builder.RegisterService(differential_service_.get());
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    channel_ = server_->InProcessChannel({});
    controller_ = ::csi::v1::Controller::NewStub(channel_);
    node_ = ::csi::v1::Node::NewStub(channel_);
    identity_ = ::csi::v1::Identity::NewStub(channel_);
    metadata_ = ::csi::v1::SnapshotMetadata::NewStub(channel_);
  }

  // Where a client of another channel finds it.
  std::string Address() const { return "unix://" + folder_.path() + "/csi.sock"; }

  virtual std::unique_ptr<::csi::v1::Node::Service> MakeNodeService() {
    return MakeNode(options_, faults_, *store_);
  }

  void StopServing() {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }

  void AddRule(const std::string& text) { faults_.Add({*ParseFaultRule(*ParseJson(text))}); }

  // Writes bytes that are not zero into a volume's file.
  void WriteTo(const std::string& volume_id, int64_t offset_bytes, const std::string& bytes) {
    std::fstream file(store_->VolumePath(volume_id),
                      std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(offset_bytes);
    file << bytes;
    ASSERT_TRUE(file.flush().good());
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

  const support::ScratchFolder folder_;
  DriverOptions options_{.endpoint = "",
                         .state_dir = "",
                         .volumes_dir = "",
                         .driver_name = "fixture.csi-delta.io",
                         .node_id = "n1",
                         .control_socket = ""};
  support::FakeClock clock_;
  Faults faults_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<::csi::v1::Controller::Service> controller_service_;
  std::unique_ptr<::csi::v1::GroupController::Service> group_service_;
  std::unique_ptr<::csi::v1::Node::Service> node_service_;
  std::unique_ptr<::csi::v1::Identity::Service> identity_service_;
  std::unique_ptr<::csi::v1::SnapshotMetadata::Service> metadata_service_;
  std::unique_ptr<::csi::differentialsnapshot::v1::DifferentialSnapshot::Service>
      differential_service_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<::csi::v1::Controller::Stub> controller_;
  std::unique_ptr<::csi::v1::Node::Stub> node_;
  std::unique_ptr<::csi::v1::Identity::Stub> identity_;
  std::unique_ptr<::csi::v1::SnapshotMetadata::Stub> metadata_;
};

}  // namespace csidelta::csi_driver
