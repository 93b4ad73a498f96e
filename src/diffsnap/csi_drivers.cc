#include "diffsnap/csi_drivers.h"

#include <atomic>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi.grpc.pb.h"
#include "differential_snapshot.pb.h"
#include "diffsnap/csi_connection.h"
#include "diffsnap/metadata_bridge.h"
#include "diffsnap/page_driver.h"
#include "incremental/sources/grpc_call.h"

namespace csidelta::diffsnap {
namespace {

constexpr absl::Duration kProbeInterval = absl::Seconds(1);
constexpr absl::Duration kProbeTimeMax = absl::Seconds(10);
constexpr std::size_t kDriverNameBytesMax = 253;

// Lets so many calls through at once, and refuses the others.
class LimitedDriver : public DifferentialDriver {
 public:
  LimitedDriver(std::unique_ptr<DifferentialDriver> driver, int calls_max)
      : driver_(std::move(driver)), calls_max_(calls_max) {}

  absl::StatusOr<DriverPage> GetPage(const CallContext& ctx,
                                     const DriverRequest& request) override {
    const absl::Cleanup done = [this] { --calls_; };
    if (++calls_ > calls_max_) {
      return absl::ResourceExhaustedError(
          absl::StrCat("it is asked for ", calls_max_, " pages already"));
    }
    return driver_->GetPage(ctx, request);
  }

 private:
  const std::unique_ptr<DifferentialDriver> driver_;
  const int calls_max_;
  std::atomic<int> calls_ = 0;
};

absl::Status OfIdentity(const grpc::Status& status, const std::string& address) {
  return status.ok() ? absl::OkStatus()
                     : Annotate(incremental::StatusOfServer(status, {}),
                                absl::StrCat("CSI driver at ", address));
}

// The driver's name, as soon as it answers.
absl::StatusOr<::csi::v1::GetPluginInfoResponse> AwaitInfo(const CallContext& ctx,
                                                           ::csi::v1::Identity::Stub& identity,
                                                           const std::string& address) {
  ::csi::v1::GetPluginInfoResponse info;
  const grpc::Status status =
      CallDriver(ctx, absl::InfiniteDuration(), [&](grpc::ClientContext& call) {
        call.set_wait_for_ready(true);
        return identity.GetPluginInfo(&call, {}, &info);
      });
  if (ctx.stop.stop_requested()) {
    return ctx.Check();
  }
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return absl::UnavailableError(
        absl::StrCat("no CSI driver answers at ", address,
                     ": does it run, and is the folder of its socket mounted here?"));
  }
  RETURN_IF_ERROR(OfIdentity(status, address));
  if (info.name().empty() || info.name().size() > kDriverNameBytesMax) {
    return absl::FailedPreconditionError(
        absl::StrCat("the CSI driver at ", address, " says that it is called \"",
                     info.name().substr(0, kDriverNameBytesMax), "\", which is no driver's name"));
  }
  return info;
}

absl::Status AwaitReady(const CallContext& ctx, ::csi::v1::Identity::Stub& identity,
                        const std::string& name) {
  while (true) {
    ::csi::v1::ProbeResponse answer;
    const grpc::Status status = CallDriver(ctx, kProbeTimeMax, [&](grpc::ClientContext& call) {
      return identity.Probe(&call, {}, &answer);
    });
    if (status.ok() && (!answer.has_ready() || answer.ready().value())) {
      return absl::OkStatus();
    }
    if (status.error_code() == grpc::StatusCode::FAILED_PRECONDITION) {
      return OfIdentity(status, name);
    }
    ctx.clock->SleepFor(std::min(ctx.TimeLeft(), kProbeInterval), ctx.stop);
    if (const absl::Status left = ctx.Check(); absl::IsDeadlineExceeded(left)) {
      return absl::UnavailableError(absl::StrCat(
          "CSI driver ", name, " is not ready: ",
          status.ok() ? "it says so" : incremental::StatusOfServer(status, {}).message()));
    } else if (!left.ok()) {
      return left;
    }
  }
}

// What the driver announces of the two, the better one first; kBest: neither.
absl::StatusOr<DriverService> ChooseService(const CallContext& ctx,
                                            ::csi::v1::Identity::Stub& identity,
                                            const std::string& name, DriverService asked) {
  ::csi::v1::GetPluginCapabilitiesResponse answer;
  const grpc::Status status = CallDriver(ctx, kProbeTimeMax, [&](grpc::ClientContext& call) {
    return identity.GetPluginCapabilities(&call, {}, &answer);
  });
  RETURN_IF_ERROR(OfIdentity(status, name));
  bool has_pages = false;
  bool has_streams = false;
  for (const ::csi::v1::PluginCapability& capability : answer.capabilities()) {
    const int type = capability.service().type();
    has_pages = has_pages || type == ::csi::differentialsnapshot::v1::DIFFERENTIAL_SNAPSHOT_SERVICE;
    has_streams =
        has_streams || type == ::csi::v1::PluginCapability::Service::SNAPSHOT_METADATA_SERVICE;
  }
  if (has_pages && asked != DriverService::kSnapshotMetadata) {
    return DriverService::kDifferentialSnapshot;
  }
  if (has_streams && asked != DriverService::kDifferentialSnapshot) {
    return DriverService::kSnapshotMetadata;
  }
  return absl::UnimplementedError(absl::StrCat(
      "CSI driver ", name, " does not announce ",
      asked == DriverService::kSnapshotMetadata ? "" : "DIFFERENTIAL_SNAPSHOT_SERVICE (0x44534E50)",
      asked == DriverService::kBest ? " or " : "",
      asked == DriverService::kDifferentialSnapshot ? "" : "SNAPSHOT_METADATA_SERVICE (4)",
      " in GetPluginCapabilities: it cannot say which blocks changed"));
}

}  // namespace

absl::StatusOr<CsiDriver> MakeDifferentialDriver(const CallContext& ctx, const std::string& address,
                                                 const CsiDriverOptions& options) {
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                   OpenCsiChannel(address, options.message_bytes_max));
  const CallContext start = ctx.WithTimeout(options.start_time_max);
  const std::unique_ptr<::csi::v1::Identity::Stub> identity = ::csi::v1::Identity::NewStub(channel);
  ASSIGN_OR_RETURN(const ::csi::v1::GetPluginInfoResponse info,
                   AwaitInfo(start, *identity, address));
  RETURN_IF_ERROR(AwaitReady(start, *identity, info.name()));
  ASSIGN_OR_RETURN(const DriverService service,
                   ChooseService(start, *identity, info.name(), options.service));
  std::unique_ptr<DifferentialDriver> driver;
  if (service == DriverService::kDifferentialSnapshot) {
    driver = std::make_unique<PageDriver>(channel, options);
  } else {
    driver = std::make_unique<MetadataBridge>(channel, options);
  }
  return CsiDriver{.name = info.name(),
                   .version = info.vendor_version(),
                   .service = service,
                   .driver = std::make_unique<LimitedDriver>(std::move(driver), options.calls_max)};
}

}  // namespace csidelta::diffsnap
