#include "engine/rate_window.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <iterator>

namespace csidelta::engine {
namespace {

constexpr absl::Duration kSampleEvery = absl::Milliseconds(250);
// Halves of the window that differ by more do not predict what comes.
constexpr double kSteadyMax = 1.5;

double PerSecond(int64_t amount, absl::Duration time) {
  return static_cast<double>(amount) / absl::ToDoubleSeconds(time);
}

}  // namespace

void RateWindow::Add(absl::Duration now, int64_t done, int64_t left) {
  if (!samples_.empty() && done < samples_.back().done) {
    samples_.clear();
  }
  int64_t part = 0;  // the largest
  for (std::size_t i = 1; i < samples_.size(); ++i) {
    part = std::max(part, samples_[i].done - samples_[i - 1].done);
  }
  // What is left changes a little at any moment. Only the moments of parts say how fast they are.
  if (!samples_.empty() && done == samples_.back().done &&
      std::abs(samples_.back().left - left) <= std::max(part / 4, left / 1000)) {
    return;
  }
  // The newest gives way while it is closer to the one before than samples are kept.
  if (samples_.size() > 1 && samples_.back().at - samples_[samples_.size() - 2].at < kSampleEvery) {
    samples_.pop_back();
  }
  samples_.push_back({.at = now, .done = done, .left = left});
  while (samples_.size() > 2 && now - samples_[1].at >= kSpan) {
    samples_.pop_front();
  }
}

RateWindow::Pace RateWindow::At(absl::Duration now) const {
  Pace pace;
  if (samples_.size() < 2) {
    return pace;
  }
  const Sample& last = samples_.back();
  auto first = samples_.begin();
  while (std::next(first)->at < last.at && now - std::next(first)->at >= kSpan) {
    ++first;
  }
  absl::Duration gap = kSampleEvery;  // the longest between two parts
  for (auto next = std::next(first); next != samples_.end(); ++next) {
    gap = std::max(gap, next->at - std::prev(next)->at);
  }
  const absl::Duration time = std::max(last.at, now - gap) - first->at;
  if (time >= kSampleEvery) {  // Less would measure caches.
    pace.rate = PerSecond(last.done - first->done, time);
  }
  const absl::Duration middle = (first->at + last.at) / 2;
  const auto half = std::find_if(std::next(first), samples_.end(),
                                 [&](const Sample& one) { return one.at >= middle; });
  if (last.left <= 0 || now - first->at < kSpan || half->at == last.at || now - last.at > 2 * gap) {
    return pace;
  }
  const double before = PerSecond(first->left - half->left, half->at - first->at);
  const double after = PerSecond(half->left - last.left, last.at - half->at);
  if (std::min(before, after) > 0 &&
      std::max(before, after) < kSteadyMax * std::min(before, after)) {
    const double rate = PerSecond(first->left - last.left, last.at - first->at);
    const absl::Duration end = last.at + absl::Seconds(static_cast<double>(last.left) / rate);
    pace.left = end > now ? std::optional(end - now) : std::nullopt;
  }
  return pace;
}

}  // namespace csidelta::engine
