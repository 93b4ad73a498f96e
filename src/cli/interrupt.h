#pragma once

#include <stop_token>
#include <thread>

#include "base/unique_fd.h"

namespace csidelta::cli {

// Turns SIGINT, SIGTERM and SIGHUP into a stop: the first asks the program to end in order, a
// second ends it at once with exit code 130. The signals are blocked in this thread and in those
// that it starts, so make it first. One at a time.
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
