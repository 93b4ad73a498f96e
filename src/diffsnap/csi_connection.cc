#include "diffsnap/csi_connection.h"

#include <algorithm>
#include <stop_token>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "incremental/sources/grpc_call.h"

namespace csidelta::diffsnap {
namespace {

// A driver that was restarted is back within this time, not within gRPC's two minutes.
constexpr int kReconnectMs = 500;
constexpr std::size_t kSocketPathBytesMax = 107;  // The system's limit.

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

}  // namespace csidelta::diffsnap
