#include "cli/progress.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/mutex.h"
#include "cli/text.h"
#include "repository/maintenance.h"

namespace csidelta::cli {
namespace {

constexpr absl::Duration kTickEvery = absl::Milliseconds(100);
constexpr absl::Duration kShowEvery = absl::Seconds(1);
constexpr absl::Duration kLineEvery = absl::Milliseconds(100);  // on a terminal, while it moves
// A verb that is over by then shows no more than its result.
constexpr absl::Duration kFirstAfter = absl::Milliseconds(200);

// Stages of a transfer, in words.
constexpr std::pair<absl::string_view, absl::string_view> kWords[] = {
    {"transfer", "sending"},
    {"rescan", "reading everything again"},
    {"audit", "verifying a sample"},
    {"uploads", "finishing uploads"},
    {"commit", "writing the snapshot"}};

std::string FormatAmount(const ProgressInfo& info, int64_t amount) {
  return info.bytes ? FormatBytes(amount) : absl::StrCat(amount);
}

// By what is left: a total that falls is progress, too, as of a backup that sends nothing.
double Fraction(const ProgressInfo& info) {
  const auto all = static_cast<double>(std::max(info.total_max, info.now.total_bytes));
  const auto left = static_cast<double>(info.now.total_bytes - info.now.done_bytes);
  return all <= 0 ? 0 : std::clamp(1 - left / all, 0.0, 1.0);
}

// Rounded up: what is left is not over.
int64_t SecondsLeft(absl::Duration left) {
  return absl::ToInt64Seconds(absl::Ceil(left, absl::Seconds(1)));
}

// "7 s", "1:07"
std::string FormatSeconds(int64_t seconds) {
  return seconds < 60 ? absl::StrCat(seconds, " s") : FormatElapsed(absl::Seconds(seconds));
}

// How far a stage is: "12.5%  1.0 GiB of at most 8.0 GiB".
std::string AmountText(const ProgressInfo& info) {
  const int64_t left = info.now.total_bytes - info.now.done_bytes;
  if (info.stage == "audit") {
    return absl::StrCat(FormatBytes(info.now.sampled_bytes), " of ",
                        FormatBytes(info.now.to_sample_bytes),
                        left > 0 ? absl::StrCat(", ", FormatBytes(left), " left to send") : "");
  }
  if (info.stage == "uploads") {
    return absl::StrCat(FormatBytes(left), " left");
  }
  const std::string done = FormatAmount(info, info.now.done_bytes);
  return info.now.total_bytes <= 0 ? done
                                   : absl::StrFormat("%.1f%%  %s of %s%s", 100 * Fraction(info),
                                                     done, info.now.is_at_most ? "at most " : "",
                                                     FormatAmount(info, info.now.total_bytes));
}

}  // namespace

std::string ProgressLine(const ProgressInfo& info) {
  const auto* const words = std::find_if(std::begin(kWords), std::end(kWords),
                                         [&](const auto& one) { return one.first == info.stage; });
  std::string line(words == std::end(kWords) ? info.stage : words->second);
  if (info.now.done_bytes > 0 || info.now.total_bytes > 0) {
    absl::StrAppend(&line, "  ", AmountText(info));
  }
  if (info.bytes ? info.pace.rate.has_value() : info.pace.rate.value_or(0) >= 1) {
    absl::StrAppend(&line, ", ", FormatAmount(info, static_cast<int64_t>(*info.pace.rate)), "/s");
  }
  if (info.pace.left.has_value()) {
    absl::StrAppend(&line, ", ", FormatSeconds(SecondsLeft(*info.pace.left)), " left");
  }
  absl::StrAppend(&line, " (", FormatSeconds(absl::ToInt64Seconds(info.elapsed)), " so far)");
  return line;
}

Json ProgressJson(const ProgressInfo& info) {
  Json json = {{"message_type", "status"},
               {"stage", info.stage},
               {"seconds_elapsed", absl::ToInt64Seconds(info.elapsed)},
               {"percent_done", Fraction(info)},
               {info.bytes ? "bytes_done" : "items_done", info.now.done_bytes},
               {info.bytes ? "total_bytes" : "total_items", info.now.total_bytes},
               {info.bytes ? "bytes_per_second" : "items_per_second",
                static_cast<int64_t>(info.pace.rate.value_or(0))}};
  if (info.now.is_at_most) {
    json["is_at_most"] = true;
  }
  if (info.stage == "audit") {
    json["sampled_bytes"] = info.now.sampled_bytes;
    json["to_sample_bytes"] = info.now.to_sample_bytes;
  }
  if (info.pace.left.has_value()) {
    json["seconds_remaining"] = SecondsLeft(*info.pace.left);
  }
  return json;
}

std::string WaitLine(const WaitInfo& info) {
  return absl::StrCat(info.subject, "  ", info.state, "  ", absl::ToInt64Seconds(info.elapsed),
                      " s", info.waits_for.empty() ? "" : "  ", info.waits_for);
}

Json WaitJson(const WaitInfo& info) {
  return {{"message_type", "status"},
          {"subject", info.subject},
          {"state", info.state},
          {"seconds_elapsed", absl::ToInt64Seconds(info.elapsed)},
          {"waits_for", info.waits_for}};
}

ProgressMeter::ProgressMeter(Console& console, const Clock& clock, std::string opening)
    : console_(console),
      clock_(clock),
      is_shown_(!console.options().quiet &&
                (console.options().json || console.options().error_is_terminal)),
      began_(clock.Uptime()),
      last_({.stage = std::move(opening)}) {
  if (is_shown_) {
    // The clock of the work may stand still, or jump.
    timer_ = std::jthread([this](const std::stop_token& stop) {
      while (Clock::Real().SleepFor(kTickEvery, stop)) {
        Tick();
      }
    });
  }
}

ProgressMeter::~ProgressMeter() {
  timer_ = std::jthread();
  console_.ClearLine();
}

void ProgressMeter::Show(absl::Duration now, absl::Duration every, bool again) {
  if (now - shown_at_ < every) {
    return;
  }
  // By a grid, so that no second is left out because a line was late.
  shown_at_ = now - shown_at_ < 2 * every ? shown_at_ + every : now;
  if (wait_.has_value()) {
    wait_->elapsed = now - wait_began_;
  }
  last_.elapsed = now - began_;
  last_.pace = window_.At(now);
  if (console_.options().json) {
    console_.ShowStatus(DumpJson(wait_.has_value() ? WaitJson(*wait_) : ProgressJson(last_)),
                        again);
  } else {
    console_.ShowStatus(wait_.has_value() ? WaitLine(*wait_) : ProgressLine(last_), again);
  }
}

void ProgressMeter::Tick() {
  const MutexLock lock(mutex_);
  const absl::Duration now = clock_.Uptime();
  const bool is_first = shown_at_ == -absl::InfiniteDuration();
  if ((wait_.has_value() || !last_.stage.empty()) && (!is_first || now - began_ >= kFirstAfter)) {
    Show(now, kShowEvery, /*again=*/true);
  }
}

void ProgressMeter::ReportWait(absl::string_view subject, absl::string_view state,
                               absl::string_view waits_for) {
  if (!is_shown_) {
    return;
  }
  const MutexLock lock(mutex_);
  const absl::Duration now = clock_.Uptime();
  if (!wait_.has_value() || wait_->subject != subject) {
    wait_began_ = now;
  }
  wait_ = {.subject = std::string(subject),
           .state = std::string(state),
           .waits_for = std::string(waits_for),
           .elapsed = {}};
  Show(now, console_.options().json ? kShowEvery : kLineEvery, /*again=*/false);
}

void ProgressMeter::ReportCount(absl::string_view stage, int64_t done, int64_t total, bool bytes) {
  Report({.stage = std::string(stage),
          .now = {.done_bytes = done, .total_bytes = total},
          .bytes = bytes},
         /*continues=*/false);
}

void ProgressMeter::Report(ProgressInfo info, bool continues) {
  if (!is_shown_) {
    return;
  }
  const MutexLock lock(mutex_);
  const absl::Duration now = clock_.Uptime();
  if (info.bytes != last_.bytes || (!continues && info.stage != last_.stage)) {
    window_ = engine::RateWindow();
  } else if (continues) {
    info.total_max = std::max(info.now.total_bytes, last_.total_max);
  } else {  // Threads that count may come in another order.
    info.now.done_bytes = std::max(info.now.done_bytes, last_.now.done_bytes);
  }
  window_.Add(now, info.now.done_bytes, info.now.total_bytes - info.now.done_bytes);
  last_ = std::move(info);
  wait_.reset();
  Show(now, console_.options().json ? kShowEvery : kLineEvery, /*again=*/false);
}

engine::ByteProgress BytesOf(ProgressMeter& meter) {
  return [&meter](const incremental::TransferProgress& now) { meter.ReportTransfer(now); };
}

engine::Progress CountsOf(ProgressMeter& meter) {
  return [&meter](absl::string_view stage, int64_t done, int64_t total) {
    meter.ReportCount(stage, done, total, repository::IsInBytes(stage));
  };
}

}  // namespace csidelta::cli
