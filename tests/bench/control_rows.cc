#include "tests/bench/control_rows.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "tests/bench/control_cluster.h"
#include "tests/bench/controller_process.h"
#include "tests/bench/scaled_clock.h"

namespace csidelta::bench {
namespace {

constexpr absl::Duration kStartTimeMax = absl::Minutes(10);
constexpr absl::Duration kRest = absl::Seconds(3);
constexpr absl::Duration kLookEvery = absl::Seconds(5);
constexpr absl::Duration kWatchTimeMax = absl::Minutes(4);  // As servers end them.
constexpr absl::Duration kCancelTimeMax = absl::Minutes(1);
constexpr absl::Duration kRunningTimeMax = absl::Minutes(5);
constexpr absl::Duration kLookAtWorkersEvery = absl::Seconds(1);
constexpr absl::Duration kSettle = absl::Seconds(10);
constexpr absl::Duration kForEver = absl::Hours(24);
constexpr int kKindsShown = 12;
constexpr std::size_t kSlowestShown = 12;

double MebibytesOf(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// A cluster, a controller that works on it, and the time of both.
struct Lab {
  ScaledClock clock;
  ControlCluster cluster;
  std::unique_ptr<ControllerProcess> controller = nullptr;
  absl::Duration request_time = absl::ZeroDuration();  // as a client sees it, when little is asked

  Lab(int factor, const ClusterOptions& options) : clock(factor), cluster(clock, options) {}

  absl::Status Start(const BenchOptions& options, absl::Duration rest, int64_t memory_bytes_max) {
    const bool is_fast = clock.factor() > 1;
    ASSIGN_OR_RETURN(controller, ControllerProcess::Start(
                                     {.program = is_fast ? options.fast_program : options.program,
                                      .kubeconfig = cluster.Kubeconfig(),
                                      .clock = is_fast ? clock.ForPrograms() : "",
                                      .memory_bytes_max = memory_bytes_max}));
    return AwaitRest(rest);
  }

  // The same, for figures that follow from how long requests take.
  absl::Status StartTuned(const BenchOptions& options) {
    RETURN_IF_ERROR(Start(options, kRest, 0));
    ASSIGN_OR_RETURN(request_time, cluster.TuneLatency(controller->kubeconfig_path()));
    return absl::OkStatus();
  }

  absl::Status AwaitRest(absl::Duration rest) {
    const bool rests =
        cluster.AwaitRest(rest, kStartTimeMax, [this] { return !controller->Ended().has_value(); });
    RETURN_IF_ERROR(CheckController());
    return rests ? absl::OkStatus()
                 : absl::DeadlineExceededError("the controller does not lead, or asks on and on");
  }

  absl::Status CheckController() const {
    const std::optional<std::string> ended = controller->Ended();
    return ended.has_value()
               ? absl::UnavailableError(absl::StrCat("the controller ended, ", *ended))
               : absl::OkStatus();
  }
};

bool HasEnded(const UploadTrack& track) { return track.ended_at.has_value(); }

// What the controller and the workers asked together.
int64_t Requests(const Lab& lab) {
  return lab.cluster.requests().total() + lab.cluster.nodes().requests();
}

// What is asked for most, for each upload.
std::string MostAsked(const std::map<std::string, int64_t>& before,
                      const std::map<std::string, int64_t>& after, int uploads) {
  std::vector<std::pair<int64_t, std::string>> kinds;
  for (const auto& [name, count] : after) {
    const auto found = before.find(name);
    kinds.emplace_back(count - (found == before.end() ? 0 : found->second), name);
  }
  std::sort(kinds.rbegin(), kinds.rend());
  kinds.resize(std::min<std::size_t>(kinds.size(), kKindsShown));
  return absl::StrJoin(kinds, ", ", [&](std::string* out, const auto& kind) {
    absl::StrAppend(out, kind.second, " ",
                    absl::StrFormat("%.1f", static_cast<double>(kind.first) / uploads));
  });
}

void AddComplaints(const ControllerProcess& controller, RowResult& result) {
  const auto [count, first] = controller.Complaints();
  if (count > 0) {
    result.remarks.push_back(
        absl::StrCat(count, " warnings of the controller, the first:\n", first));
  }
}

// --- A night

// Until every upload has ended, or the time is over.
absl::Status AwaitNight(Lab& lab, const NightRow& row) {
  const absl::Time end = lab.clock.Now() + row.time_max * row.factor;
  absl::Time watches_end = lab.clock.Now() + kWatchTimeMax;
  while (lab.clock.Now() < end && !lab.cluster.tracks().Await(HasEnded, row.volumes, kLookEvery)) {
    RETURN_IF_ERROR(lab.CheckController());
    lab.cluster.ForgetCalls();
    if (lab.clock.Now() >= watches_end) {
      lab.cluster.EndWatches();
      watches_end = lab.clock.Now() + kWatchTimeMax;
    }
  }
  return absl::OkStatus();
}

struct NightEnd {
  int ended = 0;
  std::map<std::string, int> others = {};  // uploads by phase and its message, but for Completed
  absl::Time last = absl::InfinitePast();
  std::vector<double> handled_seconds = {};
  std::multimap<double, absl::Time, std::greater<>> slowest = {};  // and when their worker ended
};

NightEnd LookAtNight(const Lab& lab, UploadTracks& tracks) {
  NightEnd night;
  for (const UploadTrack& track : tracks.Look()) {
    night.ended += HasEnded(track) ? 1 : 0;
    if (track.phase != "Completed") {
      ++night.others[track.phase.empty()     ? "New"
                     : track.message.empty() ? track.phase
                                             : absl::StrCat(track.phase, " (", track.message, ")")];
    }
    const absl::Time seen_at = track.ended_at.value_or(lab.clock.Now());
    night.last = std::max(night.last, seen_at);
    if (track.worker_ended_at.has_value()) {
      night.handled_seconds.push_back(absl::ToDoubleSeconds(seen_at - *track.worker_ended_at));
      night.slowest.emplace(night.handled_seconds.back(), *track.worker_ended_at);
    }
  }
  return night;
}

std::string PhasesOf(const NightEnd& night) {
  return absl::StrJoin(night.others, ", ", absl::PairFormatter(" "));
}

// What was so when the night began.
struct NightBegin {
  std::map<std::string, int64_t> asked;
  int64_t requests = 0;
  absl::Duration processor_time;
  absl::Duration uptime;
  absl::Time at;
};

std::vector<Figure> FiguresOf(const NightEnd& night, const NightRow& row, double duration_seconds,
                              double ideal_seconds, double requests_per_upload) {
  return {{.name = "duration",
           .unit = "s",
           .value = duration_seconds,
           .must_max = 1.1 * ideal_seconds,
           .is_at_least = night.ended < row.volumes},
          {.name = "a finished transfer is handled, p99",
           .unit = "s",
           .value = Quantile(night.handled_seconds, 0.99),
           .must_max = 2},
          {.name = "a finished transfer is handled, median",
           .unit = "s",
           .value = Quantile(night.handled_seconds, 0.5)},
          {.name = "requests per upload",
           .unit = "",
           .value = requests_per_upload,
           .must_max = 60,
           .aim_max = 40}};
}

// Whether those that were handled last came at once or alone.
std::string SlowestOf(const NightEnd& night, absl::Time begin) {
  std::vector<std::string> shown;
  for (const auto& [seconds, ended_at] : night.slowest) {
    if (shown.size() == kSlowestShown) {
      break;
    }
    shown.push_back(
        absl::StrFormat("%.1f s (at %.0f)", seconds, absl::ToDoubleSeconds(ended_at - begin)));
  }
  return absl::StrCat("handled last, with the second of the night at which the worker ended: ",
                      absl::StrJoin(shown, ", "));
}

RowResult ResultOf(const Lab& lab, const NightRow& row, const NightBegin& begin,
                   const NightEnd& night) {
  const int ended = std::max(night.ended, 1);
  const double duration = absl::ToDoubleSeconds(night.last - begin.at);
  const int waves = (row.volumes + row.admissions - 1) / row.admissions;
  const double ideal = absl::ToDoubleSeconds(row.worker_time) * waves;
  const int64_t requests = Requests(lab) - begin.requests;
  RowResult result;
  result.title =
      absl::StrCat(row.volumes, " volumes, ", row.admissions, " admissions, workers of ",
                   absl::FormatDuration(row.worker_time), ", 10 ms a request, clock x", row.factor);
  result.figures = FiguresOf(night, row, duration, ideal, static_cast<double>(requests) / ended);
  result.figures.push_back({.name = "the controller's peak of memory",
                            .unit = "MiB",
                            .value = MebibytesOf(lab.controller->PeakResidentBytes())});
  result.remarks.push_back(
      absl::StrFormat("%.2f times the ideal, which is %.0f s", duration / ideal, ideal));
  if (night.ended < row.volumes) {
    result.remarks.push_back(absl::StrCat("stopped when ", night.ended, " of ", row.volumes,
                                          " were over; the others: ", PhasesOf(night)));
  }
  result.remarks.push_back(absl::StrCat(
      "most asked for, per upload: ", MostAsked(begin.asked, lab.cluster.requests().all(), ended)));
  result.remarks.push_back(absl::StrFormat(
      "a request took %.1f ms when little was asked; workers: %.1f of the requests per upload; the "
      "controller: %.0f %% of a processor",
      absl::ToDoubleMilliseconds(lab.request_time),
      static_cast<double>(lab.cluster.nodes().requests()) / ended,
      100 * absl::FDivDuration(lab.controller->ProcessorTime() - begin.processor_time,
                               Clock::Real().Uptime() - begin.uptime)));
  result.remarks.push_back(SlowestOf(night, begin.at));
  AddComplaints(*lab.controller, result);
  return result;
}

// --- Uploads that run for ever

// Until all workers run, or do not come; then for a while longer, so that the figures are of a
// state that lasts.
absl::Status AwaitRunning(const Lab& lab, int uploads) {
  const absl::Time end = lab.clock.Now() + kRunningTimeMax;
  while (lab.cluster.nodes().running() < uploads && lab.clock.Now() < end) {
    RETURN_IF_ERROR(lab.CheckController());
    lab.clock.SleepFor(kLookAtWorkersEvery, {});
  }
  lab.clock.SleepFor(kSettle, {});
  return lab.CheckController();
}

void MeasureWindow(Lab& lab, const RunningRow& row, RowResult& result) {
  const int running = lab.cluster.nodes().running();
  const auto asked = lab.cluster.requests().all();
  const int64_t requests = Requests(lab);
  const int64_t of_workers = lab.cluster.nodes().requests();
  const absl::Time begin = lab.clock.Now();
  lab.cluster.tracks().BeginWindow();
  lab.clock.SleepFor(row.window, {});
  const double seconds = absl::ToDoubleSeconds(lab.clock.Now() - begin);
  const double per_second = static_cast<double>(Requests(lab) - requests) / seconds;
  const double of_workers_per_second =
      static_cast<double>(lab.cluster.nodes().requests() - of_workers) / seconds;
  std::vector<double> lags;
  for (const UploadTrack& track : lab.cluster.tracks().Look()) {
    lags.push_back(absl::ToDoubleSeconds(track.lag_max));
  }
  result.figures = {{.name = "requests per second and running upload",
                     .unit = "",
                     .value = per_second / std::max(running, 1),
                     .must_max = 0.5},
                    {.name = "what a worker reports is copied, the longest time until then",
                     .unit = "s",
                     .value = Quantile(lags, 1),
                     .must_max = 5,
                     .aim_max = 2},
                    {.name = "what a worker reports is copied, the median of such times",
                     .unit = "s",
                     .value = Quantile(lags, 0.5)}};
  result.remarks = {
      absl::StrFormat("%d workers ran; %.1f requests per second, of which workers made %.1f; each "
                      "took %.1f ms when little was asked",
                      running, per_second, of_workers_per_second,
                      absl::ToDoubleMilliseconds(lab.request_time)),
      absl::StrCat("most asked for in the window, per upload: ",
                   MostAsked(asked, lab.cluster.requests().all(), row.uploads))};
}

// The seconds from spec.cancel to Canceling of some of them, one after the other, from the first to
// the last by name.
Figure CancelSome(Lab& lab, int cancels) {
  std::vector<UploadTrack> tracks = lab.cluster.tracks().Look();
  std::sort(tracks.begin(), tracks.end(),
            [](const auto& one, const auto& other) { return one.name < other.name; });
  Figure figure{.name = "from spec.cancel to Canceling, the longest", .unit = "s", .must_max = 2};
  const int steps = std::max(cancels - 1, 1);
  for (int i = 0; i < cancels; ++i) {
    const std::string& name =
        tracks[static_cast<std::size_t>(i * (std::ssize(tracks) - 1) / steps)].name;
    const absl::Time asked_at = lab.clock.Now();
    lab.cluster.Cancel(name);
    const auto is_canceling = [&](const UploadTrack& track) {
      return track.name == name && (track.canceling_at.has_value() || HasEnded(track));
    };
    figure.is_at_least |= !lab.cluster.tracks().Await(is_canceling, 1, kCancelTimeMax);
    figure.value = std::max(figure.value, absl::ToDoubleSeconds(lab.clock.Now() - asked_at));
  }
  return figure;
}

// --- Deletions

absl::Status AwaitDeletions(Lab& lab, const DeletionsRow& row) {
  const int count = row.repositories * row.per_repository;
  const absl::Time end = lab.clock.Now() + row.time_max * row.factor;
  absl::Time watches_end = lab.clock.Now() + kWatchTimeMax;
  while (lab.clock.Now() < end && !lab.cluster.AwaitDeletions(count, kLookEvery)) {
    RETURN_IF_ERROR(lab.CheckController());
    lab.cluster.ForgetCalls();
    if (lab.clock.Now() >= watches_end) {
      lab.cluster.EndWatches();
      watches_end = lab.clock.Now() + kWatchTimeMax;
    }
  }
  return absl::OkStatus();
}

}  // namespace

double Quantile(std::vector<double> values, double part) {
  if (values.empty()) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<int64_t>(std::ceil(part * static_cast<double>(values.size())));
  return values[static_cast<std::size_t>(std::clamp<int64_t>(rank - 1, 0, std::ssize(values) - 1))];
}

absl::StatusOr<RowResult> Measure(const BenchOptions& options, const NightRow& row) {
  Lab lab(row.factor, {.admissions = row.admissions, .worker = {.time = row.worker_time}});
  lab.cluster.AddVolumes(0, row.volumes);
  RETURN_IF_ERROR(lab.StartTuned(options));
  const NightBegin begin{.asked = lab.cluster.requests().all(),
                         .requests = Requests(lab),
                         .processor_time = lab.controller->ProcessorTime(),
                         .uptime = Clock::Real().Uptime(),
                         .at = lab.clock.Now()};
  lab.cluster.AddUploads(0, row.volumes);
  RETURN_IF_ERROR(AwaitNight(lab, row));
  const NightEnd night = LookAtNight(lab, lab.cluster.tracks());
  if (night.ended == row.volumes && !night.others.empty()) {
    return absl::InternalError(absl::StrCat("not all are Completed: ", PhasesOf(night)));
  }
  return ResultOf(lab, row, begin, night);
}

absl::StatusOr<RowResult> Measure(const BenchOptions& options, const DeletionsRow& row) {
  Lab lab(row.factor,
          {.worker = {.time = row.worker_time, .time_per_deletion = row.time_per_deletion}});
  RETURN_IF_ERROR(lab.StartTuned(options));
  const int count = row.repositories * row.per_repository;
  const auto asked = lab.cluster.requests().all();
  const int64_t before = Requests(lab);
  const absl::Duration processor_time = lab.controller->ProcessorTime();
  const absl::Time begin = lab.clock.Now();
  RETURN_IF_ERROR(lab.cluster.AddDeletions(row.repositories, row.per_repository));
  RETURN_IF_ERROR(AwaitDeletions(lab, row));
  const int done = lab.cluster.deletions_done();
  const bool is_over = done >= count;
  const double requests = static_cast<double>(Requests(lab) - before) / std::max(done, 1);
  const absl::Time end = is_over ? lab.cluster.deletions_done_at() : lab.clock.Now();
  RowResult result;
  result.title = absl::StrCat(count, " deletions in ", row.repositories,
                              " repositories, 4 workers of ", absl::FormatDuration(row.worker_time),
                              " and ", absl::FormatDuration(row.time_per_deletion),
                              " a deletion, 10 ms a request, clock x", row.factor);
  result.figures = {
      {.name = "duration",
       .unit = "s",
       .value = absl::ToDoubleSeconds(end - begin),
       .must_max = absl::ToDoubleSeconds(row.must_max),
       .is_at_least = !is_over},
      {.name = "requests per deletion", .unit = "", .value = requests, .must_max = 5},
      {.name = "the controller's peak of memory",
       .unit = "MiB",
       .value = MebibytesOf(lab.controller->PeakResidentBytes())},
      {.name = "the controller's time of a processor",
       .unit = "s",
       .value = absl::ToDoubleSeconds(lab.controller->ProcessorTime() - processor_time)}};
  result.remarks.push_back(
      absl::StrCat(done, " of ", count, " were over; most asked for, per deletion: ",
                   MostAsked(asked, lab.cluster.requests().all(), std::max(done, 1))));
  AddComplaints(*lab.controller, result);
  return result;
}

absl::StatusOr<RowResult> Measure(const BenchOptions& options, const RunningRow& row) {
  Lab lab(row.factor, {.admissions = row.uploads, .worker = {.time = kForEver}});
  lab.cluster.AddVolumes(0, row.uploads);
  RETURN_IF_ERROR(lab.StartTuned(options));
  lab.cluster.AddUploads(0, row.uploads);
  RETURN_IF_ERROR(AwaitRunning(lab, row.uploads));
  RowResult result;
  result.title = absl::StrCat(row.uploads, " uploads run, a window of ",
                              absl::FormatDuration(row.window), ", clock x", row.factor);
  MeasureWindow(lab, row, result);
  result.figures.push_back(CancelSome(lab, row.cancels));
  RETURN_IF_ERROR(lab.CheckController());
  AddComplaints(*lab.controller, result);
  return result;
}

absl::StatusOr<RowResult> Measure(const BenchOptions& options, const MemoryRow& row) {
  Lab lab(/*factor=*/1, {});
  lab.cluster.AddFinished(row.uploads, row.bases);
  // While a list of all is made nothing else is asked for.
  const absl::Duration rest = absl::Seconds(1) + absl::Milliseconds(row.uploads);
  RowResult result;
  result.title = absl::StrCat(row.uploads, " finished DataUploads, ", row.bases, " bases");
  const auto add = [&](const char* name, int64_t bytes) {
    result.figures.push_back(
        {.name = name, .unit = "MiB", .value = MebibytesOf(bytes), .must_max = 48, .aim_max = 32});
  };
  RETURN_IF_ERROR(lab.Start(options, rest, row.limit_bytes));
  add("peak at the start", lab.controller->PeakResidentBytes());
  result.figures.push_back({.name = "resident after it",
                            .unit = "MiB",
                            .value = MebibytesOf(lab.controller->ResidentBytes())});
  lab.controller->ForgetPeak();
  lab.cluster.ExpireWatches();
  RETURN_IF_ERROR(lab.AwaitRest(rest));
  add("peak after a 410 of every watch", lab.controller->PeakResidentBytes());
  result.remarks.push_back(
      lab.controller->has_memory_limit()
          ? absl::StrFormat("in a cgroup of %.0f MiB", MebibytesOf(row.limit_bytes))
          : "without a limit: no cgroup for memory was made");
  AddComplaints(*lab.controller, result);
  return result;
}

}  // namespace csidelta::bench
