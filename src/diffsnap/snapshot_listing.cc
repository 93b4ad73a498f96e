#include "diffsnap/snapshot_listing.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi.grpc.pb.h"
#include "diffsnap/csi_drivers.h"
#include "incremental/sources/grpc_call.h"
#include "k8s/object.h"

namespace csidelta::diffsnap {
namespace {

constexpr int64_t kListingMessageBytesMax = int64_t{64} << 20;
constexpr std::size_t kHandleBytesMax = 4096;
constexpr std::size_t kTokenBytesMax = std::size_t{64} << 10;
constexpr int kListingTriesMax = 3;

// The whole list of one driver. Borrows everything.
class StorageLister {
 public:
  StorageLister(const CallContext& ctx, const std::string& address, const ListingLimits& limits,
                const std::shared_ptr<grpc::Channel>& channel);
  absl::StatusOr<StoredSnapshots> List(const ListingSecrets& secrets);

 private:
  template <typename Stub, typename Request, typename Response>
  absl::Status Call(absl::string_view name, Stub& stub,
                    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response& response) {
    const grpc::Status status = CallDriver(
        ctx_, limits_.call_time_max,
        [&](grpc::ClientContext& call) { return (stub.*method)(&call, request, &response); });
    if (ctx_.stop.stop_requested()) {
      return ctx_.Check();
    }
    if (status.ok()) {
      return absl::OkStatus();
    }
    const absl::Status said = incremental::StatusOfServer(status, {});
    return absl::Status(said.code(), absl::StrCat(name, " of ", Who(), ": ", said.message(),
                                                  "; the driver's log says more"));
  }

  std::string Who() const {
    return absl::StrCat("CSI driver ", list_.driver.empty() ? address_ : list_.driver);
  }

  absl::Status ReadName();
  absl::Status CheckCanList();

  absl::Status BadList(absl::string_view what) const {
    return absl::DataLossError(absl::StrCat("ListSnapshots of ", Who(), " ", what));
  }

  // What is shown decides what is listed: a driver may serve several storages.
  absl::Status ReadAll(const std::vector<DriverSecrets>& sets);
  absl::Status ReadPages(const DriverSecrets& secrets);
  absl::Status Add(const ::csi::v1::Snapshot& snapshot);

  const CallContext& ctx_;
  const std::string& address_;
  const ListingLimits& limits_;
  const std::unique_ptr<::csi::v1::Identity::Stub> identity_;
  const std::unique_ptr<::csi::v1::Controller::Stub> controller_;
  StoredSnapshots list_;
};

StorageLister::StorageLister(const CallContext& ctx, const std::string& address,
                             const ListingLimits& limits,
                             const std::shared_ptr<grpc::Channel>& channel)
    : ctx_(ctx),
      address_(address),
      limits_(limits),
      identity_(::csi::v1::Identity::NewStub(channel)),
      controller_(::csi::v1::Controller::NewStub(channel)) {}

absl::StatusOr<StoredSnapshots> StorageLister::List(const ListingSecrets& secrets) {
  RETURN_IF_ERROR(ReadName());
  RETURN_IF_ERROR(CheckCanList());
  ASSIGN_OR_RETURN(const std::vector<DriverSecrets> sets, secrets(list_.driver));
  absl::Status read = absl::OkStatus();
  for (int tries = 0; tries < kListingTriesMax; ++tries) {
    read = ReadAll(sets);
    if (!absl::IsAborted(read)) {  // With ABORTED a driver reports a token that is too old.
      break;
    }
  }
  RETURN_IF_ERROR(read);
  return std::move(list_);
}

absl::Status StorageLister::ReadName() {
  ::csi::v1::GetPluginInfoResponse info;
  const absl::Status status =
      Call("GetPluginInfo", *identity_, &::csi::v1::Identity::Stub::GetPluginInfo, {}, info);
  if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) {
    return absl::UnavailableError(
        absl::StrCat("no CSI driver answers at ", address_,
                     ": does it run, and is the folder of its socket mounted here?"));
  }
  RETURN_IF_ERROR(status);
  if (!k8s::IsObjectName(info.name())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the CSI driver at ", address_, " does not say what it is called by a driver's name"));
  }
  list_.driver = info.name();
  return absl::OkStatus();
}

absl::Status StorageLister::CheckCanList() {
  ::csi::v1::ControllerGetCapabilitiesResponse answer;
  const absl::Status status =
      Call("ControllerGetCapabilities", *controller_,
           &::csi::v1::Controller::Stub::ControllerGetCapabilities, {}, answer);
  if (!absl::IsUnimplemented(status)) {  // A node's socket has no controller.
    RETURN_IF_ERROR(status);
  }
  for (const ::csi::v1::ControllerServiceCapability& one : answer.capabilities()) {
    if (one.rpc().type() == ::csi::v1::ControllerServiceCapability::RPC::LIST_SNAPSHOTS) {
      return absl::OkStatus();
    }
  }
  return absl::FailedPreconditionError(
      absl::StrCat(Who(), " at ", address_, " does not list its snapshots: it has no capability ",
                   "LIST_SNAPSHOTS there"));
}

absl::Status StorageLister::ReadAll(const std::vector<DriverSecrets>& sets) {
  list_.handles.clear();
  for (const DriverSecrets& secrets : sets) {
    RETURN_IF_ERROR(ReadPages(secrets));
  }
  return absl::OkStatus();
}

absl::Status StorageLister::ReadPages(const DriverSecrets& secrets) {
  ::csi::v1::ListSnapshotsRequest request;
  for (const auto& [name, secret] : secrets) {
    (*request.mutable_secrets())[name] = secret.Reveal();
  }
  request.set_max_entries(limits_.page_entries);
  for (int page = 0; page < limits_.pages_max; ++page) {
    ::csi::v1::ListSnapshotsResponse answer;
    RETURN_IF_ERROR(Call("ListSnapshots", *controller_, &::csi::v1::Controller::Stub::ListSnapshots,
                         request, answer));
    for (const ::csi::v1::ListSnapshotsResponse::Entry& entry : answer.entries()) {
      RETURN_IF_ERROR(Add(entry.snapshot()));
    }
    if (answer.next_token().empty()) {
      return absl::OkStatus();
    }
    if (answer.next_token() == request.starting_token() ||
        answer.next_token().size() > kTokenBytesMax) {
      return BadList("does not go on: its next token is the one before, or too long");
    }
    request.set_starting_token(answer.next_token());
  }
  return BadList(absl::StrCat("has not ended after ", limits_.pages_max, " pages"));
}

absl::Status StorageLister::Add(const ::csi::v1::Snapshot& snapshot) {
  if (snapshot.snapshot_id().empty() || snapshot.snapshot_id().size() > kHandleBytesMax) {
    return BadList("has a snapshot whose handle is empty, or longer than 4 KiB");
  }
  list_.handles.insert(snapshot.snapshot_id());
  return list_.handles.size() > limits_.snapshots_max
             ? BadList(absl::StrCat("has more than ", limits_.snapshots_max, " snapshots"))
             : absl::OkStatus();
}

}  // namespace

absl::StatusOr<StoredSnapshots> ListStorage(const CallContext& ctx, const std::string& address,
                                            const ListingSecrets& secrets,
                                            const ListingLimits& limits) {
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                   OpenCsiChannel(address, kListingMessageBytesMax));
  return StorageLister(ctx, address, limits, channel).List(secrets);
}

}  // namespace csidelta::diffsnap
