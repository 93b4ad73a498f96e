#pragma once

#include <stop_token>
#include <thread>

#include "base/unique_fd.h"

namespace csidelta::cli {

// Turns SIGINT, SIGTERM and SIGHUP into a stop. The first signal requests an orderly end, a second
// one ends the process at once with exit code 130. The signals are blocked in this thread and in
// the threads that it starts, so make this object first. One at a time.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();

  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  std::stop_token token() const { return stop_.get_token(); }

 private:
  void Watch();

  std::stop_source stop_;
  UniqueFd signals_fd_;
  UniqueFd end_fd_;  // readable when the watch is over
  std::jthread thread_;
};

}  // namespace csidelta::cli
