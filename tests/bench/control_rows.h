#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace csidelta::bench {

// One measured number, and what it is compared with. Less is better.
struct Figure {
  std::string name;
  std::string unit;
  double value = 0;
  std::optional<double> must_max = {};
  std::optional<double> aim_max = {};
  // What was measured was not over: it is this much at least.
  bool is_at_least = false;

  bool is_missed() const { return must_max.has_value() && (is_at_least || value > *must_max); }
};

struct RowResult {
  std::string title;
  std::vector<Figure> figures;
  std::vector<std::string> remarks;
};

struct BenchOptions {
  std::string program;       // csi-delta, whose clock is the machine's
  std::string fast_program;  // csi-delta-fast, for a factor above 1
};

// A cluster whose Velero keeps DataUploads of many nights: the controller's memory once it knows
// them, and once it knows them again after a 410 Gone of every watch; in a cgroup with the limit
// that the chart gives it, where one may be made.
struct MemoryRow {
  int uploads = 15'000;
  int bases = 500;
  int64_t limit_bytes = int64_t{64} << 20;  // 0: no cgroup
};
absl::StatusOr<RowResult> Measure(const BenchOptions& options, const MemoryRow& row);

// A night: so many volumes are backed up at once.
struct NightRow {
  int volumes = 500;
  int admissions = 20;
  absl::Duration worker_time = absl::Seconds(20);
  int factor = 10;
  absl::Duration time_max = absl::Minutes(5);  // by the machine's clock; then it is stopped
};
absl::StatusOr<RowResult> Measure(const BenchOptions& options, const NightRow& row);

// So many uploads that run for ever: what each costs, how often each is looked at, and how soon one
// is cancelled.
struct RunningRow {
  int uploads = 40;
  absl::Duration window = absl::Seconds(60);
  int cancels = 8;
  int factor = 10;
};
absl::StatusOr<RowResult> Measure(const BenchOptions& options, const RunningRow& row);

// So many DataDeletions at once, spread evenly over repositories. The worker of a repository takes
// `worker_time`, and `time_per_deletion` for each repository snapshot.
struct DeletionsRow {
  int repositories = 500;
  int per_repository = 30;
  absl::Duration worker_time = absl::Seconds(20);
  absl::Duration time_per_deletion = absl::Seconds(1);
  int factor = 10;
  absl::Duration time_max = absl::Minutes(20);  // by the machine's clock; then it is stopped
  absl::Duration must_max = absl::Hours(2);
};
absl::StatusOr<RowResult> Measure(const BenchOptions& options, const DeletionsRow& row);

// The smallest of them that `part` of all are not above: 0.5 for a median. 0 of none.
double Quantile(std::vector<double> values, double part);

}  // namespace csidelta::bench
