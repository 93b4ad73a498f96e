#include "conformance/driver_link.h"

#include <grpcpp/grpcpp.h>
#include <algorithm>
#include <functional>
#include <set>
#include <stop_token>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi.grpc.pb.h"
#include "differential_snapshot.grpc.pb.h"

namespace csidelta::conformance {
namespace {

namespace pb = ::csi::v1;
namespace ds = ::csi::differentialsnapshot::v1;

// More than a driver may send, so that it can be said how much it did.
constexpr int kReceiveBytesMax = 64 << 20;
constexpr std::size_t kTextMax = 512;
// A driver that says more is not waited for.
constexpr int64_t kTuplesMax = 20'000'000;

absl::Status FromGrpc(const grpc::Status& status) {
  return status.ok() ? absl::OkStatus()
                     : absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                                    status.error_message().substr(0, kTextMax));
}

pb::VolumeCapability BlockCapability() {
  pb::VolumeCapability capability;
  capability.mutable_block();
  capability.mutable_access_mode()->set_mode(pb::VolumeCapability::AccessMode::SINGLE_NODE_WRITER);
  return capability;
}

// What Stage() and Publish() say alike.
template <typename Request>
Request RequestFor(const Mount& mount) {
  Request request;
  request.set_volume_id(mount.volume.id);
  request.set_staging_target_path(mount.staging_path);
  *request.mutable_volume_capability() = BlockCapability();
  request.mutable_volume_context()->insert(mount.volume.context.begin(),
                                           mount.volume.context.end());
  return request;
}

BlockType TypeOf(pb::BlockMetadataType type) {
  switch (type) {
    case pb::FIXED_LENGTH:
      return BlockType::kFixed;
    case pb::VARIABLE_LENGTH:
      return BlockType::kVariable;
    default:
      return BlockType::kUnknown;
  }
}

template <typename Response>
Message ToMessage(const Response& response) {
  Message message{.type = TypeOf(response.block_metadata_type()),
                  .capacity_bytes = response.volume_capacity_bytes(),
                  .tuples = {},
                  .wire_bytes = static_cast<int64_t>(response.ByteSizeLong())};
  message.tuples.reserve(static_cast<std::size_t>(response.block_metadata_size()));
  for (const pb::BlockMetadata& block : response.block_metadata()) {
    message.tuples.push_back({{block.byte_offset(), block.size_bytes()}});
  }
  return message;
}

Page ToPage(const ds::DifferentialSnapshotResponse& response) {
  Page page{.message = {.type = BlockType::kNotSaid,
                        .capacity_bytes = static_cast<int64_t>(response.volume_size()),
                        .tuples = {},
                        .wire_bytes = static_cast<int64_t>(response.ByteSizeLong())},
            .next_offset = response.next_offset(),
            .timeout_s = response.timeout()};
  for (const ds::ChangedBlock& block : response.change_block_list()) {
    page.message.tuples.push_back(
        {{static_cast<int64_t>(block.offset()), static_cast<int64_t>(block.size())},
         block.zero_out()});
  }
  return page;
}

class GrpcLink : public DriverLink {
 public:
  GrpcLink(LinkOptions options, const std::shared_ptr<grpc::Channel>& channel);
  absl::StatusOr<DriverInfo> Probe(const CallContext& ctx) override;
  absl::StatusOr<VolumeInfo> CreateVolume(const CallContext& ctx,
                                          const VolumeRequest& wish) override;
  absl::Status DeleteVolume(const CallContext& ctx, const std::string& id) override;
  absl::StatusOr<bool> ExpandVolume(const CallContext& ctx, const std::string& id,
                                    int64_t size_bytes) override;
  absl::Status ExpandOnNode(const CallContext& ctx, const Mount& mount,
                            int64_t size_bytes) override;
  absl::StatusOr<SnapshotInfo> CreateSnapshot(const CallContext& ctx, const std::string& name,
                                              const std::string& volume_id) override;
  absl::Status DeleteSnapshot(const CallContext& ctx, const std::string& id) override;
  absl::Status Stage(const CallContext& ctx, const Mount& mount) override;
  absl::Status Unstage(const CallContext& ctx, const Mount& mount) override;
  absl::Status Publish(const CallContext& ctx, const Mount& mount) override;
  absl::Status Unpublish(const CallContext& ctx, const Mount& mount) override;
  Listing List(const CallContext& ctx, const Pair& pair, int64_t from_bytes,
               int64_t results_max) override;
  absl::StatusOr<Page> GetPage(const CallContext& ctx, const PageQuery& query) override;

 private:
  // A call with its deadline, which ends when ctx is stopped. Made for one call.
  class CallScope {
   public:
    CallScope(const CallContext& ctx, absl::Duration time_max)
        : on_stop_(ctx.stop, [this] { context_.TryCancel(); }) {
      const absl::Duration left = std::min(time_max, ctx.TimeLeft());
      context_.set_deadline(
          gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                       gpr_time_from_millis(absl::ToInt64Milliseconds(left), GPR_TIMESPAN)));
      context_.set_wait_for_ready(true);
    }
    grpc::ClientContext* context() { return &context_; }

   private:
    grpc::ClientContext context_;
    std::stop_callback<std::function<void()>> on_stop_;
  };

  template <typename Stub, typename Request, typename Response>
  using Method = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Response*);

  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(const CallContext& ctx, absl::string_view name, Stub& stub,
                                Method<Stub, Request, Response> method, const Request& request) {
    CallScope scope(ctx, options_.call_time_max);
    Response response;
    RETURN_IF_ERROR(Annotate(FromGrpc((stub.*method)(scope.context(), request, &response)), name));
    return response;
  }

  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> CallWithSecrets(const CallContext& ctx, absl::string_view name,
                                           Stub& stub, Method<Stub, Request, Response> method,
                                           Request& request) {
    AddSecrets(request);
    return Call(ctx, name, stub, method, request);
  }

  template <typename Request>
  void AddSecrets(Request& request) const {
    for (const auto& [name, secret] : options_.secrets) {
      (*request.mutable_secrets())[name] = secret.Reveal();
    }
  }

  template <typename Response, typename Method, typename Request>
  Listing Read(const CallContext& ctx, Method method, Request& request, int64_t from_bytes,
               int64_t results_max) {
    request.set_starting_offset(from_bytes);
    request.set_max_results(static_cast<int32_t>(results_max));
    AddSecrets(request);
    CallScope scope(ctx, options_.call_time_max);
    const std::unique_ptr<grpc::ClientReader<Response>> reader =
        ((*metadata_).*method)(scope.context(), request);
    Listing listing;
    int64_t tuples = 0;
    Response response;
    while (tuples <= kTuplesMax && reader->Read(&response)) {
      listing.messages.push_back(ToMessage(response));
      tuples += response.block_metadata_size() + 1;
    }
    if (tuples > kTuplesMax) {
      scope.context()->TryCancel();
    }
    listing.end = FromGrpc(reader->Finish());
    return listing;
  }

  const LinkOptions options_;
  const std::unique_ptr<pb::Identity::Stub> identity_;
  const std::unique_ptr<pb::Controller::Stub> controller_;
  const std::unique_ptr<pb::Node::Stub> node_;
  const std::unique_ptr<pb::SnapshotMetadata::Stub> metadata_;
  const std::unique_ptr<ds::DifferentialSnapshot::Stub> differential_;
};

GrpcLink::GrpcLink(LinkOptions options, const std::shared_ptr<grpc::Channel>& channel)
    : options_(std::move(options)),
      identity_(pb::Identity::NewStub(channel)),
      controller_(pb::Controller::NewStub(channel)),
      node_(pb::Node::NewStub(channel)),
      metadata_(pb::SnapshotMetadata::NewStub(channel)),
      differential_(ds::DifferentialSnapshot::NewStub(channel)) {}

absl::StatusOr<DriverInfo> GrpcLink::Probe(const CallContext& ctx) {
  ASSIGN_OR_RETURN(const pb::GetPluginInfoResponse info,
                   Call(ctx, "GetPluginInfo", *identity_, &pb::Identity::Stub::GetPluginInfo,
                        pb::GetPluginInfoRequest()));
  DriverInfo driver_info{.name = info.name(), .version = info.vendor_version()};
  ASSIGN_OR_RETURN(
      const pb::GetPluginCapabilitiesResponse plugin,
      Call(ctx, "GetPluginCapabilities", *identity_, &pb::Identity::Stub::GetPluginCapabilities,
           pb::GetPluginCapabilitiesRequest()));
  for (const pb::PluginCapability& capability : plugin.capabilities()) {
    const int type = static_cast<int>(capability.service().type());
    driver_info.controller |= type == pb::PluginCapability::Service::CONTROLLER_SERVICE;
    driver_info.metadata |= type == pb::PluginCapability::Service::SNAPSHOT_METADATA_SERVICE;
    driver_info.differential |= type == ds::DIFFERENTIAL_SNAPSHOT_SERVICE;
    driver_info.snapshot_topology |=
        type == pb::PluginCapability::Service::SNAPSHOT_ACCESSIBILITY_CONSTRAINTS;
  }
  ASSIGN_OR_RETURN(const pb::ControllerGetCapabilitiesResponse controller,
                   Call(ctx, "ControllerGetCapabilities", *controller_,
                        &pb::Controller::Stub::ControllerGetCapabilities,
                        pb::ControllerGetCapabilitiesRequest()));
  for (const pb::ControllerServiceCapability& capability : controller.capabilities()) {
    driver_info.expands |=
        capability.rpc().type() == pb::ControllerServiceCapability::RPC::EXPAND_VOLUME;
  }
  ASSIGN_OR_RETURN(const pb::NodeGetCapabilitiesResponse node,
                   Call(ctx, "NodeGetCapabilities", *node_, &pb::Node::Stub::NodeGetCapabilities,
                        pb::NodeGetCapabilitiesRequest()));
  for (const pb::NodeServiceCapability& capability : node.capabilities()) {
    const auto type = capability.rpc().type();
    driver_info.stages |= type == pb::NodeServiceCapability::RPC::STAGE_UNSTAGE_VOLUME;
    driver_info.expands_node |= type == pb::NodeServiceCapability::RPC::EXPAND_VOLUME;
  }
  return driver_info;
}

absl::StatusOr<VolumeInfo> GrpcLink::CreateVolume(const CallContext& ctx,
                                                  const VolumeRequest& wish) {
  pb::CreateVolumeRequest request;
  request.set_name(wish.name);
  request.mutable_capacity_range()->set_required_bytes(wish.size_bytes);
  *request.add_volume_capabilities() = BlockCapability();
  request.mutable_parameters()->insert(options_.parameters.begin(), options_.parameters.end());
  if (!wish.snapshot_id.empty()) {
    request.mutable_volume_content_source()->mutable_snapshot()->set_snapshot_id(wish.snapshot_id);
  }
  ASSIGN_OR_RETURN(const pb::CreateVolumeResponse response,
                   CallWithSecrets(ctx, "CreateVolume", *controller_,
                                   &pb::Controller::Stub::CreateVolume, request));
  const pb::Volume& volume = response.volume();
  return VolumeInfo{.id = volume.volume_id(),
                    .context = {volume.volume_context().begin(), volume.volume_context().end()}};
}

absl::Status GrpcLink::DeleteVolume(const CallContext& ctx, const std::string& id) {
  pb::DeleteVolumeRequest request;
  request.set_volume_id(id);
  return CallWithSecrets(ctx, "DeleteVolume", *controller_, &pb::Controller::Stub::DeleteVolume,
                         request)
      .status();
}

absl::StatusOr<bool> GrpcLink::ExpandVolume(const CallContext& ctx, const std::string& id,
                                            int64_t size_bytes) {
  pb::ControllerExpandVolumeRequest request;
  request.set_volume_id(id);
  request.mutable_capacity_range()->set_required_bytes(size_bytes);
  *request.mutable_volume_capability() = BlockCapability();
  ASSIGN_OR_RETURN(const pb::ControllerExpandVolumeResponse response,
                   CallWithSecrets(ctx, "ControllerExpandVolume", *controller_,
                                   &pb::Controller::Stub::ControllerExpandVolume, request));
  return response.node_expansion_required();
}

absl::Status GrpcLink::ExpandOnNode(const CallContext& ctx, const Mount& mount,
                                    int64_t size_bytes) {
  pb::NodeExpandVolumeRequest request;
  request.set_volume_id(mount.volume.id);
  request.set_volume_path(mount.target_path);
  request.set_staging_target_path(mount.staging_path);
  request.mutable_capacity_range()->set_required_bytes(size_bytes);
  *request.mutable_volume_capability() = BlockCapability();
  return Call(ctx, "NodeExpandVolume", *node_, &pb::Node::Stub::NodeExpandVolume, request).status();
}

absl::StatusOr<SnapshotInfo> GrpcLink::CreateSnapshot(const CallContext& ctx,
                                                      const std::string& name,
                                                      const std::string& volume_id) {
  pb::CreateSnapshotRequest request;
  request.set_name(name);
  request.set_source_volume_id(volume_id);
  request.mutable_parameters()->insert(options_.snapshot_parameters.begin(),
                                       options_.snapshot_parameters.end());
  ASSIGN_OR_RETURN(const pb::CreateSnapshotResponse response,
                   CallWithSecrets(ctx, "CreateSnapshot", *controller_,
                                   &pb::Controller::Stub::CreateSnapshot, request));
  return SnapshotInfo{.id = response.snapshot().snapshot_id(),
                      .ready = response.snapshot().ready_to_use(),
                      .size_bytes = response.snapshot().size_bytes(),
                      .has_topology = response.snapshot().accessible_topology_size() > 0};
}

absl::Status GrpcLink::DeleteSnapshot(const CallContext& ctx, const std::string& id) {
  pb::DeleteSnapshotRequest request;
  request.set_snapshot_id(id);
  return CallWithSecrets(ctx, "DeleteSnapshot", *controller_, &pb::Controller::Stub::DeleteSnapshot,
                         request)
      .status();
}

absl::Status GrpcLink::Stage(const CallContext& ctx, const Mount& mount) {
  auto request = RequestFor<pb::NodeStageVolumeRequest>(mount);
  return CallWithSecrets(ctx, "NodeStageVolume", *node_, &pb::Node::Stub::NodeStageVolume, request)
      .status();
}

absl::Status GrpcLink::Unstage(const CallContext& ctx, const Mount& mount) {
  pb::NodeUnstageVolumeRequest request;
  request.set_volume_id(mount.volume.id);
  request.set_staging_target_path(mount.staging_path);
  return Call(ctx, "NodeUnstageVolume", *node_, &pb::Node::Stub::NodeUnstageVolume, request)
      .status();
}

absl::Status GrpcLink::Publish(const CallContext& ctx, const Mount& mount) {
  auto request = RequestFor<pb::NodePublishVolumeRequest>(mount);
  request.set_target_path(mount.target_path);
  return CallWithSecrets(ctx, "NodePublishVolume", *node_, &pb::Node::Stub::NodePublishVolume,
                         request)
      .status();
}

absl::Status GrpcLink::Unpublish(const CallContext& ctx, const Mount& mount) {
  pb::NodeUnpublishVolumeRequest request;
  request.set_volume_id(mount.volume.id);
  request.set_target_path(mount.target_path);
  return Call(ctx, "NodeUnpublishVolume", *node_, &pb::Node::Stub::NodeUnpublishVolume, request)
      .status();
}

Listing GrpcLink::List(const CallContext& ctx, const Pair& pair, int64_t from_bytes,
                       int64_t results_max) {
  if (pair.delta) {
    pb::GetMetadataDeltaRequest request;
    request.set_base_snapshot_id(pair.base);
    request.set_target_snapshot_id(pair.target);
    return Read<pb::GetMetadataDeltaResponse>(ctx, &pb::SnapshotMetadata::Stub::GetMetadataDelta,
                                              request, from_bytes, results_max);
  }
  pb::GetMetadataAllocatedRequest request;
  request.set_snapshot_id(pair.target);
  return Read<pb::GetMetadataAllocatedResponse>(
      ctx, &pb::SnapshotMetadata::Stub::GetMetadataAllocated, request, from_bytes, results_max);
}

absl::StatusOr<Page> GrpcLink::GetPage(const CallContext& ctx, const PageQuery& query) {
  ds::DifferentialSnapshotRequest request;
  request.set_snapshot_base(query.base);
  request.set_snapshot_target(query.target);
  request.set_mode(query.mode);
  request.set_volume_id(query.volume_id);
  request.set_start_offset(query.start_offset);
  request.set_max_entries(query.entries_max);
  ASSIGN_OR_RETURN(
      const ds::DifferentialSnapshotResponse response,
      CallWithSecrets(ctx, "GetDifferentialSnapshot", *differential_,
                      &ds::DifferentialSnapshot::Stub::GetDifferentialSnapshot, request));
  return ToPage(response);
}

constexpr int64_t kPagesMax = 1'000'000;

class MetadataLister : public Lister {
 public:
  explicit MetadataLister(DriverLink& link) : link_(link) {}

  absl::string_view name() const override { return "SnapshotMetadata"; }
  bool in_pages() const override { return false; }

  Answer Ask(const CallContext& ctx, const Pair& pair, int64_t from_bytes,
             int64_t results_max) override {
    return {.listing = link_.List(ctx, pair, from_bytes, results_max)};
  }

 private:
  DriverLink& link_;
};

}  // namespace

std::unique_ptr<DriverLink> DriverLink::Make(const LinkOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kReceiveBytesMax);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return std::make_unique<GrpcLink>(
      options,
      grpc::CreateCustomChannel(options.address, grpc::InsecureChannelCredentials(), arguments));
}

std::unique_ptr<Lister> MakeMetadataLister(DriverLink& link) {
  return std::make_unique<MetadataLister>(link);
}

Answer PageLister::Ask(const CallContext& ctx, const Pair& pair, int64_t from_bytes,
                       int64_t results_max) {
  return AskFrom(ctx, pair, from_bytes == 0 ? "" : absl::StrCat(from_bytes), results_max);
}

Answer PageLister::AskFrom(const CallContext& ctx, const Pair& pair,
                           const std::string& start_offset, int64_t results_max) {
  Answer answer;
  PageQuery query{.base = pair.base,
                  .target = pair.target,
                  .mode = "Block",
                  .start_offset = start_offset,
                  .entries_max = static_cast<uint64_t>(results_max)};
  std::set<std::string> seen = {start_offset};
  for (int64_t count = 1;; ++count) {
    absl::StatusOr<Page> page = link_.GetPage(ctx, query);
    if (!page.ok()) {
      answer.listing.end = page.status();
      return answer;
    }
    answer.listing.messages.push_back(std::move(page->message));
    answer.pages.push_back({query.start_offset, page->next_offset, page->timeout_s});
    if (page->next_offset.empty()) {
      return answer;
    }
    if (!seen.insert(page->next_offset).second || count == kPagesMax) {
      answer.cursor_fault =
          absl::StrCat("page ", count, " leads to where the list has been, or there is no end");
      return answer;
    }
    query.start_offset = std::move(page->next_offset);
  }
}

}  // namespace csidelta::conformance
