// `./dev bench control` in small, so that it still works when it is needed: a night, uploads that
// run, and the memory of the controller, each with a program of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/bench/control_rows.h"
#include "tests/bench/request_counts.h"
#include "tests/support/await.h"
#include "tests/support/paths.h"
#include "tests/support/sanitized.h"
#include "tests/support/status_matchers.h"

namespace csidelta::cli::control_bench_test {
namespace {

using bench::Figure;
using bench::RowResult;
using support::IsOk;

// csi-delta-fast is not built with a sanitizer.
constexpr int kFactor = support::kSanitizer == nullptr ? 10 : 1;

bench::BenchOptions Options() {
  return {.program = support::BuiltProgram("csi-delta"),
          .fast_program = support::BuiltProgram("csi-delta-fast")};
}

Figure FigureOf(const RowResult& result, const std::string& name) {
  for (const Figure& figure : result.figures) {
    if (figure.name == name) {
      return figure;
    }
  }
  ADD_FAILURE() << "no figure " << name;
  return {};
}

double ValueOf(const RowResult& result, const std::string& name) {
  return FigureOf(result, name).value;
}

TEST(ControlBenchTest, ANightIsOverWhenItsWorkersAre) {
  const absl::StatusOr<RowResult> result = Measure(
      Options(),
      bench::NightRow{
          .volumes = 5, .admissions = 2, .worker_time = absl::Seconds(2), .factor = kFactor});
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(FigureOf(*result, "duration").is_at_least);
  EXPECT_GE(ValueOf(*result, "duration"), 6)
      << "three times two seconds, by the controller's clock";
  EXPECT_GT(ValueOf(*result, "a finished transfer is handled, p99"), 0);
  EXPECT_GT(ValueOf(*result, "requests per upload"), 10);
  EXPECT_LT(ValueOf(*result, "requests per upload"), 80) << "60 without the start and the Lease";
  EXPECT_GT(ValueOf(*result, "the controller's peak of memory"), 4);
}

TEST(ControlBenchTest, DeletionsOfOneRepositoryAreOneWorkers) {
  const absl::StatusOr<RowResult> result =
      Measure(Options(), bench::DeletionsRow{.repositories = 5,
                                             .per_repository = 8,
                                             .worker_time = absl::Seconds(2),
                                             .time_per_deletion = absl::Seconds(1),
                                             .factor = kFactor,
                                             .time_max = absl::Minutes(2)});
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(FigureOf(*result, "duration").is_at_least);
  // The first four may have begun before the time does.
  EXPECT_GT(ValueOf(*result, "duration"), 10) << "five workers of ten seconds, four at once";
  EXPECT_GT(ValueOf(*result, "requests per deletion"), 1);
  EXPECT_LT(ValueOf(*result, "requests per deletion"), 10) << "5 without the start and the Lease";
}

TEST(ControlBenchTest, UploadsThatRunAreLookedAtAndCancelled) {
  const absl::StatusOr<RowResult> result = Measure(
      Options(), bench::RunningRow{
                     .uploads = 2, .window = absl::Seconds(20), .cancels = 2, .factor = kFactor});
  ASSERT_THAT(result, IsOk());
  EXPECT_GT(ValueOf(*result, "requests per second and running upload"), 0);
  const Figure lag =
      FigureOf(*result, "what a worker reports is copied, the longest time until then");
  const Figure cancel = FigureOf(*result, "from spec.cancel to Canceling, the longest");
  EXPECT_GT(lag.value, 0);
  EXPECT_GT(cancel.value, 0);
  if (support::AssertsSeconds("uploads that run are looked at within a second")) {
    EXPECT_LT(lag.value, 10) << "so long until the next report: never";
    EXPECT_FALSE(cancel.is_at_least);
  }
}

TEST(ControlBenchTest, MemoryIsThatOfTheController) {
  bench::MemoryRow row{.uploads = 600, .bases = 20};
  row.limit_bytes = support::kSanitizer == nullptr ? row.limit_bytes : 0;
  const absl::StatusOr<RowResult> result = Measure(Options(), row);
  ASSERT_THAT(result, IsOk());
  EXPECT_GT(ValueOf(*result, "peak at the start"), 4);
  EXPECT_GT(ValueOf(*result, "peak after a 410 of every watch"), 4);
  EXPECT_GT(ValueOf(*result, "resident after it"), 4);
}

TEST(ControlBenchTest, AProgramThatEndsIsNoFigure) {
  bench::BenchOptions options = Options();
  options.program = "/bin/false";
  EXPECT_THAT(Measure(options, bench::MemoryRow{.uploads = 1, .bases = 0}).status(),
              support::StatusIs(absl::StatusCode::kUnavailable, testing::HasSubstr("exit code 1")));
}

TEST(ControlBenchTest, QuantilesAreOfTheValues) {
  EXPECT_EQ(bench::Quantile({}, 0.5), 0);
  EXPECT_EQ(bench::Quantile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(bench::Quantile({3, 1, 2}, 0.99), 3);
  EXPECT_EQ(bench::Quantile({3, 1, 2}, 0), 1);
}

TEST(ControlBenchTest, AFigureIsMissedAboveItsLimitOrWhenItIsNotOver) {
  EXPECT_FALSE((Figure{.name = "", .unit = "", .value = 9}).is_missed());
  EXPECT_FALSE((Figure{.name = "", .unit = "", .value = 2, .must_max = 2}).is_missed());
  EXPECT_TRUE((Figure{.name = "", .unit = "", .value = 2.1, .must_max = 2}).is_missed());
  EXPECT_TRUE(
      (Figure{.name = "", .unit = "", .value = 1, .must_max = 2, .is_at_least = true}).is_missed());
}

TEST(ControlBenchTest, RequestsAreNamedByVerbAndKind) {
  const auto name = [](const char* method, const char* target) {
    return bench::RequestName(
        {.method = method, .target = target, .headers = {}, .body = {}, .client_common_name = {}});
  };
  EXPECT_EQ(name("GET", "/api/v1/namespaces/mover/pods/du-1"), "get pods");
  EXPECT_EQ(name("GET", "/api/v1/namespaces/kube-system"), "get namespaces");
  EXPECT_EQ(name("GET", "/api/v1/namespaces/mover/pods?labelSelector=a"), "list pods");
  EXPECT_EQ(name("GET", "/apis/velero.io/v2alpha1/namespaces/velero/datauploads?watch=true&x=y"),
            "watch datauploads");
  EXPECT_EQ(name("PUT", "/apis/velero.io/v2alpha1/namespaces/velero/datauploads/a"),
            "update datauploads");
  EXPECT_EQ(name("PATCH", "/apis/mover.csi-delta.io/v1alpha1/namespaces/m/volumetasks/a/status"),
            "patch volumetasks/status");
  EXPECT_EQ(name("POST", "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents"),
            "create volumesnapshotcontents");
  EXPECT_EQ(name("DELETE", "/"), "DELETE /");
}

}  // namespace
}  // namespace csidelta::cli::control_bench_test
