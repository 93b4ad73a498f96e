#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "tests/support/http_test_server.h"

namespace csidelta::bench {

// The verb and the kind of a request at an API server, as its audit log would have them:
// "update datauploads", "watch pods", "patch volumetasks/status". Pure.
std::string RequestName(const support::ServedRequest& request);

// How often an API server was asked for what. Thread-safe.
class RequestCounts {
 public:
  void Count(const support::ServedRequest& request) {
    std::string name = RequestName(request);
    const std::scoped_lock lock(mutex_);
    ++counts_[std::move(name)];
    ++total_;
  }
  int64_t total() const {
    const std::scoped_lock lock(mutex_);
    return total_;
  }
  std::map<std::string, int64_t> all() const {
    const std::scoped_lock lock(mutex_);
    return counts_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, int64_t> counts_;  // Guarded by mutex_.
  int64_t total_ = 0;                      // Guarded by mutex_.
};

}  // namespace csidelta::bench
