#include "tests/support/csi_driver/call.h"
#include "tests/support/csi_driver/services.h"

namespace csidelta::csi_driver {
namespace {

namespace pb = ::csi::v1;

constexpr char kVersion[] = "1.0.0";

class IdentityService final : public pb::Identity::Service {
 public:
  IdentityService(const DriverOptions& options, Faults& faults)
      : options_(options), faults_(faults) {}

  grpc::Status GetPluginInfo(grpc::ServerContext* context, const pb::GetPluginInfoRequest* request,
                             pb::GetPluginInfoResponse* response) override {
    return ServeCall(faults_, "GetPluginInfo", context, *request, [&](const std::set<Lie>&) {
      response->set_name(options_.driver_name);
      response->set_vendor_version(kVersion);
      return absl::OkStatus();
    });
  }

  grpc::Status GetPluginCapabilities(grpc::ServerContext* context,
                                     const pb::GetPluginCapabilitiesRequest* request,
                                     pb::GetPluginCapabilitiesResponse* response) override {
    return ServeCall(faults_, "GetPluginCapabilities", context, *request,
                     [&](const std::set<Lie>&) {
                       response->add_capabilities()->mutable_service()->set_type(
                           pb::PluginCapability::Service::CONTROLLER_SERVICE);
                       if (options_.group_snapshots) {
                         response->add_capabilities()->mutable_service()->set_type(
                             pb::PluginCapability::Service::GROUP_CONTROLLER_SERVICE);
                       }
                       if (options_.snapshot_metadata) {
                         response->add_capabilities()->mutable_service()->set_type(
                             pb::PluginCapability::Service::SNAPSHOT_METADATA_SERVICE);
                       }
                       if (options_.differential_snapshot) {
                         // A number that csi.proto does not know.
                         response->add_capabilities()->mutable_service()->set_type(
                             static_cast<pb::PluginCapability::Service::Type>(
                                 ::csi::differentialsnapshot::v1::DIFFERENTIAL_SNAPSHOT_SERVICE));
                       }
                       response->add_capabilities()->mutable_volume_expansion()->set_type(
                           pb::PluginCapability::VolumeExpansion::ONLINE);
                       return absl::OkStatus();
                     });
  }

  grpc::Status Probe(grpc::ServerContext* context, const pb::ProbeRequest* request,
                     pb::ProbeResponse* response) override {
    return ServeCall(faults_, "Probe", context, *request, [&](const std::set<Lie>&) {
      response->mutable_ready()->set_value(true);
      return absl::OkStatus();
    });
  }

 private:
  const DriverOptions& options_;
  Faults& faults_;
};

}  // namespace

std::unique_ptr<pb::Identity::Service> MakeIdentity(const DriverOptions& options, Faults& faults) {
  return std::make_unique<IdentityService>(options, faults);
}

}  // namespace csidelta::csi_driver
