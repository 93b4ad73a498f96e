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
#include "base/clock.h"
#include "base/secret.h"
#include "diffsnap/driver.h"

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

// Which of the two services a driver is asked by.
enum class DriverService {
  kBest,                  // GetDifferentialSnapshot, else SnapshotMetadata
  kDifferentialSnapshot,  // proto/csi/differential_snapshot.proto
  kSnapshotMetadata,      // csi.v1's: a stream, read in pages
};

struct CsiDriverOptions {
  DriverService service = DriverService::kBest;
  absl::Duration start_time_max = absl::Minutes(1);  // until its socket answers and it is ready
  absl::Duration page_time_max = absl::Seconds(45);
  int calls_max = 16;                                  // at once
  int64_t message_bytes_max = int64_t{16} << 20;       // that it may send
  int64_t streams_kept_max = 16;                       // open between two pages
  absl::Duration stream_age_max = absl::Minutes(1);    // of one that waits for its next page
  absl::Duration stream_time_max = absl::Minutes(30);  // of one as a whole
  const Clock* clock = &Clock::Real();                 // for the age
};

struct CsiDriver {
  std::string name;     // as its volume snapshots' contents have it
  std::string version;  // as it says itself; may be ""
  DriverService service = DriverService::kBest;
  std::unique_ptr<DifferentialDriver> driver;
};

// The CSI driver behind `address`, "unix:///csi/csi.sock" or a path: waits until it answers and is
// ready, and asks what it can. Where it serves SnapshotMetadata alone, its streams are read in
// pages: one that goes on is kept open for a while, so that the storage need not search again.
//
// What GetPage() of the driver returns is bounded by the limits above; more calls at once than
// calls_max are RESOURCE_EXHAUSTED. Errors of MakeDifferentialDriver itself:
//   INVALID_ARGUMENT     `address` is no socket's
//   UNAVAILABLE          no answer within start_time_max, or the driver is not ready; says
//   which UNIMPLEMENTED        the driver announces no service that is asked for; names it and them
//   FAILED_PRECONDITION  the driver says that it is set up wrong
absl::StatusOr<CsiDriver> MakeDifferentialDriver(const CallContext& ctx, const std::string& address,
                                                 const CsiDriverOptions& options);

}  // namespace csidelta::diffsnap
