#pragma once

#include <condition_variable>
#include <stop_token>
#include <string>

#include <grpcpp/support/status.h>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/mutex.h"

namespace csidelta::plugin {

// What a failure is reported under: "velero.io/csi-pvc", "BackupItemActionV2.Execute".
struct CallName {
  std::string plugin;
  const char* method;
};

// `status` as the host wants it: UTF-8 text of bounded length, and a Stack detail with the location
// that the host shows as error.function. OK stays OK.
grpc::Status ToGrpcStatus(const absl::Status& status, const CallName& call);

// Runs the calls of the host and knows how many are running, so that the process can end in order.
// Thread-safe.
class CallTracker {
 public:
  // Runs `body` on this thread with a context that ends when stop is requested. An exception that
  // escapes from it becomes ABORTED; a call after the stop is CANCELLED. Failures are logged at
  // debug level only: the host counts error lines, and it gets the error itself.
  grpc::Status Run(const CallName& call, absl::FunctionRef<absl::Status(const CallContext&)> body);

  // Cancels what runs and refuses what comes. Idempotent.
  void RequestStop();

  // Blocks until no call is running; false when that takes longer than `grace period`.
  bool WaitUntilIdle(absl::Duration grace_period);

 private:
  std::stop_source stop_;
  Mutex mutex_;
  std::condition_variable_any idle_;
  int running_count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace csidelta::plugin
