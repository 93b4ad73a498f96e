#include "diffsnap/csi_drivers.h"

#include <algorithm>
#include <atomic>
#include <stop_token>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "csi.grpc.pb.h"
#include "differential_snapshot.pb.h"
#include "diffsnap/metadata_bridge.h"
#include "diffsnap/page_driver.h"
#include "incremental/sources/grpc_call.h"

namespace csidelta::diffsnap {
namespace {

// A driver that was restarted is back within this time, not within gRPC's two minutes.
constexpr int kReconnectMs = 500;
constexpr std::size_t kSocketPathBytesMax = 107;  // The system's limit.

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

absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenCsiChannel(const std::string& address,
                                                              int64_t message_bytes_max) {
  absl::string_view path = address;
  if (!absl::ConsumePrefix(&path, "unix://")) {
    absl::ConsumePrefix(&path, "unix:");
  }
  if (!absl::StartsWith(path, "/") || path.size() > kSocketPathBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", address, "\" is no CSI address of the form unix:///csi/csi.sock"));
  }
  incremental::SilenceGrpc();
  grpc::ChannelArguments options;
  options.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  options.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // A connection of its own.
  options.SetMaxReceiveMessageSize(static_cast<int>(message_bytes_max));
  incremental::LimitLookahead(options);
  options.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMs);
  options.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kReconnectMs);
  options.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMs);
  return grpc::CreateCustomChannel(absl::StrCat("unix:", path), grpc::InsecureChannelCredentials(),
                                   options);
}

grpc::Status CallDriver(const CallContext& ctx, absl::Duration time_max,
                        absl::FunctionRef<grpc::Status(grpc::ClientContext& call)> call) {
  grpc::ClientContext context;
  context.set_deadline(incremental::GrpcDeadlineIn(TimeLeft(ctx, time_max)));
  const std::stop_callback on_stop(ctx.stop, [&context] { context.TryCancel(); });
  return call(context);
}

absl::Duration TimeLeft(const CallContext& ctx, absl::Duration time_max) {
  return std::min(ctx.TimeLeft(), time_max);
}

std::vector<absl::string_view> TextsOf(const std::map<std::string, Secret>& secrets) {
  std::vector<absl::string_view> texts;
  texts.reserve(secrets.size());
  for (const auto& [name, secret] : secrets) {
    texts.push_back(secret.Reveal());
  }
  return texts;
}

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
