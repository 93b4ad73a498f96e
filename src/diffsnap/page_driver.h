#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>

#include "diffsnap/csi_drivers.h"
#include "diffsnap/driver.h"

namespace csidelta::diffsnap {

// A driver that serves GetDifferentialSnapshot: each page is one call. The place that it names for
// the next page is its own business. Numbers beyond 2^63-1 are a violation of its contract; a
// timeout that is no instant since 2001 is taken for none, and logged once.
class PageDriver : public DifferentialDriver {
 public:
  PageDriver(std::shared_ptr<grpc::Channel> channel, const CsiDriverOptions& options)
      : channel_(std::move(channel)), page_time_max_(options.page_time_max) {}

  absl::StatusOr<DriverPage> GetPage(const CallContext& ctx, const DriverRequest& request) override;

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  const absl::Duration page_time_max_;
  std::atomic<bool> timeout_logged_ = false;
};

}  // namespace csidelta::diffsnap
