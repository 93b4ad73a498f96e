#include "plugin/call_tracker.h"

#include <exception>

#include "Shared.pb.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "google/rpc/status.pb.h"
#include "plugin/convert.h"

namespace csidelta::plugin {
namespace {

absl::Status Guarded(const CallContext& ctx,
                     absl::FunctionRef<absl::Status(const CallContext&)> body) {
  // The one place between an action and the host: nothing thrown passes it.
  try {
    return body(ctx);
  } catch (const std::exception& error) {
    return absl::AbortedError(absl::StrCat("plugin panicked: ", error.what()));
  } catch (...) {
    return absl::AbortedError("plugin panicked: unknown exception");
  }
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status, const CallName& call) {
  if (status.ok()) {
    return grpc::Status::OK;
  }
  generated::Stack stack;
  generated::StackFrame& frame = *stack.add_frames();
  frame.set_file("src/plugin/call_tracker.cc");
  frame.set_line(__LINE__);
  frame.set_function(ToErrorText(absl::StrCat(call.plugin, " ", call.method)));

  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(ToErrorText(status.message()));
  details.add_details()->PackFrom(stack);
  return {static_cast<grpc::StatusCode>(status.code()), details.message(),
          details.SerializeAsString()};
}

grpc::Status CallTracker::Run(const CallName& call,
                              absl::FunctionRef<absl::Status(const CallContext&)> body) {
  {
    const MutexLock lock(mutex_);
    if (stop_.stop_requested()) {
      return ToGrpcStatus(absl::CancelledError("the plugin is shutting down"), call);
    }
    ++running_count_;
  }
  const absl::Cleanup leave = [this] {
    const MutexLock lock(mutex_);
    CSIDELTA_CHECK(running_count_ > 0);
    if (--running_count_ == 0) {
      idle_.notify_all();
    }
  };
  CallContext ctx;
  ctx.stop = stop_.get_token();
  const absl::Time started = ctx.clock->Now();
  const absl::Status status = Guarded(ctx, body);
  CSIDELTA_LOG(
      kDebug, "call ended", {"plugin", call.plugin}, {"method", call.method},
      {"status", ToErrorText(status.ToString())},
      {"duration_ms", absl::StrCat(absl::ToInt64Milliseconds(ctx.clock->Now() - started))});
  return ToGrpcStatus(status, call);
}

void CallTracker::RequestStop() {
  {
    const MutexLock lock(mutex_);
    if (stop_.stop_requested()) {
      return;
    }
  }
  stop_.request_stop();  // Runs stop callbacks of actions, hence without the lock.
}

bool CallTracker::WaitUntilIdle(absl::Duration grace_period) {
  MutexLock lock(mutex_);
  return idle_.wait_for(lock, absl::ToChronoNanoseconds(grace_period),
                        [this]()
                            ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return running_count_ == 0; });
}

}  // namespace csidelta::plugin
