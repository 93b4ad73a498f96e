#include "cli/progress.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/mutex.h"
#include "cli/text.h"

namespace csidelta::cli {
namespace {

constexpr absl::Duration kJsonEvery = absl::Seconds(1);
constexpr absl::Duration kLineEvery = absl::Milliseconds(100);
// An earlier rate would measure caches rather than the device.
constexpr absl::Duration kRateAfter = absl::Milliseconds(200);
constexpr absl::Duration kSampleEvery = absl::Milliseconds(250);

std::string FormatAmount(const ProgressInfo& info, int64_t amount) {
  return info.bytes ? FormatBytes(amount) : absl::StrCat(amount);
}

double Fraction(const ProgressInfo& info) {
  return info.total <= 0
             ? 0
             : std::clamp(static_cast<double>(info.done) / static_cast<double>(info.total), 0.0,
                          1.0);
}

}  // namespace

double ProgressInfo::Rate() const {
  if (elapsed < kRateAfter) {
    return 0;
  }
  return recent_rate.value_or(static_cast<double>(done) / absl::ToDoubleSeconds(elapsed));
}

absl::Duration ProgressInfo::Left() const {
  const double rate = Rate();
  return rate <= 0 || total <= 0
             ? absl::InfiniteDuration()
             : absl::Seconds(static_cast<double>(std::max<int64_t>(0, total - done)) / rate);
}

void RateWindow::Add(absl::Duration now, int64_t done) {
  // The newest gives way while it is closer to the one before than samples are kept.
  if (samples_.size() > 1 && samples_.back().at - samples_[samples_.size() - 2].at < kSampleEvery) {
    samples_.pop_back();
  }
  samples_.push_back({.at = now, .done = done});
  while (samples_.size() > 2 && now - samples_[1].at >= kSpan) {
    samples_.pop_front();
  }
}

std::optional<double> RateWindow::Rate() const {
  if (samples_.size() < 2 || samples_.back().at <= samples_.front().at) {
    return std::nullopt;
  }
  return static_cast<double>(samples_.back().done - samples_.front().done) /
         absl::ToDoubleSeconds(samples_.back().at - samples_.front().at);
}

std::string ProgressLine(const ProgressInfo& info) {
  std::string line = info.stage;
  if (info.total > 0) {
    absl::StrAppend(&line, absl::StrFormat("  %.1f%%", 100 * Fraction(info)));
  }
  absl::StrAppend(&line, "  ", FormatAmount(info, info.done));
  if (info.total > 0) {
    absl::StrAppend(&line, " of ", FormatAmount(info, info.total));
  }
  if (info.Rate() > 0) {
    absl::StrAppend(&line, ", ", FormatAmount(info, static_cast<int64_t>(info.Rate())), "/s");
  }
  if (info.Left() != absl::InfiniteDuration()) {
    absl::StrAppend(&line, ", ", FormatElapsed(info.Left()), " left");
  }
  return line;
}

Json ProgressJson(const ProgressInfo& info) {
  Json json = {
      {"message_type", "status"},
      {"stage", info.stage},
      {"seconds_elapsed", absl::ToInt64Seconds(info.elapsed)},
      {"percent_done", Fraction(info)},
      {info.bytes ? "bytes_done" : "items_done", info.done},
      {info.bytes ? "total_bytes" : "total_items", info.total},
      {info.bytes ? "bytes_per_second" : "items_per_second", static_cast<int64_t>(info.Rate())}};
  if (info.Left() != absl::InfiniteDuration()) {
    json["seconds_remaining"] = absl::ToInt64Seconds(info.Left());
  }
  return json;
}

std::string WaitLine(const WaitInfo& info) {
  std::string line = Printable(absl::StrCat(info.subject, "  ", info.state, "  ",
                                            absl::ToInt64Seconds(info.elapsed), " s",
                                            info.waits_for.empty() ? "" : "  ", info.waits_for));
  if (line.size() <= kWaitLineBytesMax) {
    return line;
  }
  constexpr absl::string_view kEllipsis = "...";
  std::size_t end = kWaitLineBytesMax - kEllipsis.size();
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0U) == 0x80U) {
    --end;  // within a character
  }
  return absl::StrCat(line.substr(0, end), kEllipsis);
}

Json WaitJson(const WaitInfo& info) {
  return {{"message_type", "status"},
          {"subject", info.subject},
          {"state", info.state},
          {"seconds_elapsed", absl::ToInt64Seconds(info.elapsed)},
          {"waits_for", info.waits_for}};
}

bool ProgressMeter::IsDue(absl::string_view stage, absl::Duration now) {
  if (stage != stage_) {
    stage_ = std::string(stage);
    stage_began_ = now;
    window_.Clear();
  }
  if (now - shown_at_ < (console_.options().json ? kJsonEvery : kLineEvery)) {
    return false;
  }
  shown_at_ = now;
  return true;
}

void ProgressMeter::ReportWait(absl::string_view subject, absl::string_view state,
                               absl::string_view waits_for) {
  const ConsoleOptions& options = console_.options();
  if (options.quiet || (!options.json && !options.error_is_terminal)) {
    return;
  }
  const absl::Duration now = clock_.Uptime();
  const MutexLock lock(mutex_);
  if (!IsDue(subject, now)) {
    return;
  }
  const WaitInfo info{.subject = stage_,
                      .state = std::string(state),
                      .waits_for = std::string(waits_for),
                      .elapsed = now - stage_began_};
  if (options.json) {
    console_.PrintJson(WaitJson(info));
  } else {
    console_.ShowLine(WaitLine(info));
  }
}

void ProgressMeter::Report(absl::string_view stage, int64_t done, int64_t total, bool bytes) {
  const ConsoleOptions& options = console_.options();
  if (options.quiet || (!options.json && !options.error_is_terminal)) {
    return;
  }
  const absl::Duration now = clock_.Uptime();
  const MutexLock lock(mutex_);
  const bool is_due = IsDue(stage, now);  // It clears the window of another stage.
  window_.Add(now, done);
  if (!is_due) {
    return;
  }
  const ProgressInfo info{.stage = stage_,
                          .done = done,
                          .total = total,
                          .bytes = bytes,
                          .elapsed = now - stage_began_,
                          .recent_rate = window_.Rate()};
  if (options.json) {
    console_.PrintJson(ProgressJson(info));
  } else {
    console_.ShowLine(ProgressLine(info));
  }
}

engine::Progress BytesOf(ProgressMeter& meter) {
  return [&meter](absl::string_view stage, int64_t done, int64_t total) {
    meter.ReportBytes(stage, done, total);
  };
}

engine::Progress CountsOf(ProgressMeter& meter) {
  return [&meter](absl::string_view stage, int64_t done, int64_t total) {
    meter.ReportCount(stage, done, total);
  };
}

}  // namespace csidelta::cli
