#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/secret.h"

namespace csidelta::diffsnap {

// A channel to the socket that a CSI driver serves: plaintext, and it connects again by itself when
// the driver was restarted. INVALID_ARGUMENT unless `address` is "unix://" and an absolute path, or
// a path.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenCsiChannel(const std::string& address,
                                                              int64_t message_bytes_max);

// Makes one call, which ends with ctx and after `time_max` at the latest.
grpc::Status CallDriver(const CallContext& ctx, absl::Duration time_max,
                        absl::FunctionRef<grpc::Status(grpc::ClientContext& call)> call);

// How long a call may last: until the end of ctx, and `time_max` at most.
absl::Duration TimeLeft(const CallContext& ctx, absl::Duration time_max);

// What must not stand in a message. Borrows the texts.
std::vector<absl::string_view> TextsOf(const std::map<std::string, Secret>& secrets);

}  // namespace csidelta::diffsnap
