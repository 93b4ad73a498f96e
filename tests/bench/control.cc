// What the data mover's controller costs the cluster, and how it keeps up: the program as it is
// shipped, in a process of its own, before the project's fake API server over HTTPS, with workers
// that are simulated.
//
//   control_bench [--row NAME]... [--runs N] [--programs FOLDER] [--json FILE] [--assert]
//
// Rows: memory; night-500, night-1000, night-2000; running-10, running-40; deletions; and, only
// when named, night-500-real, at the speed of the clock. All others but memory run ten times as
// fast (scaled_clock.h): their seconds are those of the controller's clock.
// FOLDER holds csi-delta and csi-delta-fast, perhaps of another version; those of this build unless
// said.
//
// Prints each figure beside what it must and what it should not exceed. With --runs, the median of
// the runs. Exits with 1 when something could not be measured, and with --assert also when a figure
// is above what it must not exceed.

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/json.h"
#include "tests/bench/control_rows.h"
#include "tests/support/paths.h"

namespace csidelta::bench {
namespace {

struct Row {
  std::string name;
  bool is_asked_for_by_name = false;  // and left out else
  std::function<absl::StatusOr<RowResult>(const BenchOptions&)> measure;
};

template <typename Parameters>
Row MakeRow(std::string name, Parameters parameters, bool is_asked_for_by_name = false) {
  return {.name = std::move(name),
          .is_asked_for_by_name = is_asked_for_by_name,
          .measure = [parameters](const BenchOptions& options) {
            return Measure(options, parameters);
          }};
}

std::vector<Row> Rows() {
  return {
      MakeRow("memory", MemoryRow()),
      MakeRow("night-500", NightRow{.volumes = 500}),
      MakeRow("night-1000", NightRow{.volumes = 1000}),
      MakeRow("night-2000", NightRow{.volumes = 2000}),
      MakeRow("running-10", RunningRow{.uploads = 10}),
      MakeRow("running-40", RunningRow{.uploads = 40}),
      MakeRow("deletions", DeletionsRow()),
      MakeRow("night-500-real", NightRow{.volumes = 500, .factor = 1, .time_max = absl::Hours(1)},
              /*is_asked_for_by_name=*/true)};
}

struct Words {
  std::vector<std::string> rows;
  int runs = 1;
  std::string programs;
  std::string json;
  bool asserts = false;
};

int Refuse(const std::string& why) {
  std::fprintf(stderr, "control_bench: %s\n", why.c_str());
  return 2;
}

// "" or what is wrong.
std::string Parse(const std::vector<std::string>& arguments, Words& words) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& flag = arguments[i];
    if (flag == "--assert") {
      words.asserts = true;
      continue;
    }
    if (i + 1 == arguments.size()) {
      return absl::StrCat(flag, " is no flag, or lacks its value");
    }
    const std::string& value = arguments[++i];
    if (flag == "--row") {
      words.rows.push_back(value);
    } else if (flag == "--runs") {
      if (!absl::SimpleAtoi(value, &words.runs) || words.runs < 1) {
        return absl::StrCat("--runs ", value, " is no number of runs");
      }
    } else if (flag == "--programs") {
      words.programs = value;
    } else if (flag == "--json") {
      words.json = value;
    } else {
      return absl::StrCat(flag, " is no flag");
    }
  }
  return "";
}

std::string LimitsOf(const Figure& figure) {
  std::string text;
  if (figure.must_max.has_value()) {
    absl::StrAppendFormat(&text, "must <= %g", *figure.must_max);
  }
  if (figure.aim_max.has_value()) {
    absl::StrAppendFormat(&text, ", aim <= %g", *figure.aim_max);
  }
  return text + (figure.is_missed() ? "  MISSED" : "");
}

void Print(const std::string& name, const RowResult& result) {
  std::printf("%s: %s\n", name.c_str(), result.title.c_str());
  for (const Figure& figure : result.figures) {
    const std::string line =
        absl::StrFormat("  %-54s %s%10.2f %-4s %s", figure.name, figure.is_at_least ? ">=" : "  ",
                        figure.value, figure.unit, LimitsOf(figure));
    std::printf("%s\n", line.c_str());
  }
  for (const std::string& remark : result.remarks) {
    std::printf("    %s\n", remark.c_str());
  }
  std::fflush(stdout);
}

// Of each figure the median; the remarks of the last.
RowResult MedianOf(const std::vector<RowResult>& results) {
  RowResult median = results.back();
  for (std::size_t i = 0; i < median.figures.size(); ++i) {
    std::vector<double> values;
    for (const RowResult& result : results) {
      values.push_back(result.figures[i].value);
      median.figures[i].is_at_least |= result.figures[i].is_at_least;
    }
    median.figures[i].value = Quantile(values, 0.5);
    if (results.size() > 1) {
      absl::StrAppendFormat(&median.figures[i].name, " (%g to %g)", Quantile(values, 0),
                            Quantile(values, 1));
    }
  }
  return median;
}

Json ToJson(const RowResult& result) {
  Json figures = Json::array();
  for (const Figure& figure : result.figures) {
    Json one = {{"name", figure.name},
                {"unit", figure.unit},
                {"value", figure.value},
                {"at_least", figure.is_at_least}};
    if (figure.must_max.has_value()) {
      one["must_max"] = *figure.must_max;
    }
    if (figure.aim_max.has_value()) {
      one["aim_max"] = *figure.aim_max;
    }
    figures.push_back(std::move(one));
  }
  return {{"title", result.title}, {"figures", figures}, {"remarks", result.remarks}};
}

class Bench {
 public:
  explicit Bench(Words words) : words_(std::move(words)) {
    const auto path = [this](const char* name) {
      return words_.programs.empty() ? support::BuiltProgram(name)
                                     : absl::StrCat(words_.programs, "/", name);
    };
    options_.program = path("csi-delta");
    options_.fast_program = path("csi-delta-fast");
  }

  int Run() {
    for (const Row& row : Rows()) {
      const bool is_named =
          std::find(words_.rows.begin(), words_.rows.end(), row.name) != words_.rows.end();
      if (is_named || (words_.rows.empty() && !row.is_asked_for_by_name)) {
        Run(row);
      }
    }
    if (!words_.json.empty()) {
      std::ofstream(words_.json) << DumpJson(raw_) << "\n";
    }
    return code_;
  }

 private:
  void Run(const Row& row) {
    std::vector<RowResult> results;
    for (int i = 0; i < words_.runs; ++i) {
      absl::StatusOr<RowResult> result = row.measure(options_);
      if (!result.ok()) {
        std::printf("%s: not measured: %s\n", row.name.c_str(),
                    std::string(result.status().message()).c_str());
        std::fflush(stdout);
        code_ = 1;
        return;
      }
      raw_[row.name].push_back(ToJson(*result));
      results.push_back(*std::move(result));
    }
    const RowResult median = MedianOf(results);
    Print(row.name, median);
    for (const Figure& figure : median.figures) {
      code_ = words_.asserts && figure.is_missed() ? 1 : code_;
    }
  }

  const Words words_;
  BenchOptions options_;
  Json raw_ = Json::object();
  int code_ = 0;
};

int Main(const std::vector<std::string>& arguments) {
  Words words;
  if (const std::string wrong = Parse(arguments, words); !wrong.empty()) {
    return Refuse(wrong);
  }
  std::vector<std::string> names;
  for (const Row& row : Rows()) {
    names.push_back(row.name);
  }
  for (const std::string& row : words.rows) {
    if (std::find(names.begin(), names.end(), row) == names.end()) {
      return Refuse(absl::StrCat("--row ", row, ": there are ", absl::StrJoin(names, ", ")));
    }
  }
  return Bench(std::move(words)).Run();
}

}  // namespace
}  // namespace csidelta::bench

int main(int argc, char** argv) {
  return csidelta::bench::Main(std::vector<std::string>(argv + 1, argv + argc));
}
