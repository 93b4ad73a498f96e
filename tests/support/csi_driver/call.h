#pragma once

#include <grpcpp/server_context.h>

#include <map>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "tests/support/csi_driver/faults.h"

namespace csidelta::csi_driver {

inline grpc::Status ToGrpcStatus(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

// INVALID_ARGUMENT unless a request has this member.
inline absl::Status Require(const std::string& value, absl::string_view member) {
  return value.empty() ? absl::InvalidArgumentError(absl::StrCat(member, " is missing"))
                       : absl::OkStatus();
}

template <typename Request>
CallInfo MakeCallInfo(const char* method, const Request& request) {
  CallInfo info{.method = method, .request = request.SerializeAsString(), .secrets = {}};
  if constexpr (requires { request.secrets(); }) {
    info.secrets.insert(request.secrets().begin(), request.secrets().end());
  }
  return info;
}

// Serves one call: the faults that a test asked for, then `work`, an absl::Status(const
// std::set<Lie>&) or, in a stream, an absl::Status(const Verdict&), then one line of log.
template <typename Request, typename Work>
grpc::Status ServeCall(Faults& faults, const char* method, grpc::ServerContext* context,
                       const Request& request, Work work) {
  const absl::Time start = Clock::Real().Now();
  const Verdict verdict =
      faults.Enter(MakeCallInfo(method, request), [context] { return context->IsCancelled(); });
  absl::Status status = verdict.before;
  if (status.ok()) {
    if constexpr (std::is_invocable_v<Work, const Verdict&>) {
      status = work(verdict);
    } else {
      status = work(verdict.lies);
    }
    status.Update(verdict.after);
  }
  faults.Leave(method, status);
  const absl::Time end = Clock::Real().Now();
  const int64_t duration_ms = absl::ToInt64Milliseconds(end - start);
  CSIDELTA_LOG(kInfo, "call", {"method", method}, {"status", status.ToString()},
               {"ended_at", FormatRfc3339Micros(end)},
               {"duration_ms", std::to_string(duration_ms)});
  return ToGrpcStatus(status);
}

}  // namespace csidelta::csi_driver
