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
// Before that a rate says more about luck than about the device.
constexpr absl::Duration kRateAfter = absl::Milliseconds(200);
constexpr absl::Duration kSampleEvery = absl::Milliseconds(250);

std::string FormatAmount(const ProgressFacts& facts, int64_t amount) {
  return facts.bytes ? FormatBytes(amount) : absl::StrCat(amount);
}

double Fraction(const ProgressFacts& facts) {
  return facts.total <= 0
             ? 0
             : std::clamp(static_cast<double>(facts.done) / static_cast<double>(facts.total), 0.0,
                          1.0);
}

}  // namespace

double ProgressFacts::Rate() const {
  if (elapsed < kRateAfter) {
    return 0;
  }
  return recent_rate.value_or(static_cast<double>(done) / absl::ToDoubleSeconds(elapsed));
}

absl::Duration ProgressFacts::Left() const {
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

std::string ProgressLine(const ProgressFacts& facts) {
  std::string line = facts.stage;
  if (facts.total > 0) {
    absl::StrAppend(&line, absl::StrFormat("  %.1f%%", 100 * Fraction(facts)));
  }
  absl::StrAppend(&line, "  ", FormatAmount(facts, facts.done));
  if (facts.total > 0) {
    absl::StrAppend(&line, " of ", FormatAmount(facts, facts.total));
  }
  if (facts.Rate() > 0) {
    absl::StrAppend(&line, ", ", FormatAmount(facts, static_cast<int64_t>(facts.Rate())), "/s");
  }
  if (facts.Left() != absl::InfiniteDuration()) {
    absl::StrAppend(&line, ", ", FormatElapsed(facts.Left()), " left");
  }
  return line;
}

Json ProgressJson(const ProgressFacts& facts) {
  Json json = {
      {"message_type", "status"},
      {"stage", facts.stage},
      {"seconds_elapsed", absl::ToInt64Seconds(facts.elapsed)},
      {"percent_done", Fraction(facts)},
      {facts.bytes ? "bytes_done" : "items_done", facts.done},
      {facts.bytes ? "total_bytes" : "total_items", facts.total},
      {facts.bytes ? "bytes_per_second" : "items_per_second", static_cast<int64_t>(facts.Rate())}};
  if (facts.Left() != absl::InfiniteDuration()) {
    json["seconds_remaining"] = absl::ToInt64Seconds(facts.Left());
  }
  return json;
}

std::string WaitLine(const WaitFacts& facts) {
  std::string line = Printable(absl::StrCat(facts.subject, "  ", facts.state, "  ",
                                            absl::ToInt64Seconds(facts.elapsed), " s",
                                            facts.waits_for.empty() ? "" : "  ", facts.waits_for));
  if (line.size() <= kWaitLineBytesMax) {
    return line;
  }
  constexpr absl::string_view kCut = "...";
  std::size_t end = kWaitLineBytesMax - kCut.size();
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0U) == 0x80U) {
    --end;  // within a character
  }
  return absl::StrCat(line.substr(0, end), kCut);
}

Json WaitJson(const WaitFacts& facts) {
  return {{"message_type", "status"},
          {"subject", facts.subject},
          {"state", facts.state},
          {"seconds_elapsed", absl::ToInt64Seconds(facts.elapsed)},
          {"waits_for", facts.waits_for}};
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
  const WaitFacts facts{.subject = stage_,
                        .state = std::string(state),
                        .waits_for = std::string(waits_for),
                        .elapsed = now - stage_began_};
  if (options.json) {
    console_.PrintJson(WaitJson(facts));
  } else {
    console_.ShowLine(WaitLine(facts));
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
  const ProgressFacts facts{.stage = stage_,
                            .done = done,
                            .total = total,
                            .bytes = bytes,
                            .elapsed = now - stage_began_,
                            .recent_rate = window_.Rate()};
  if (options.json) {
    console_.PrintJson(ProgressJson(facts));
  } else {
    console_.ShowLine(ProgressLine(facts));
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
