#include "conformance/conformance.h"

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "conformance/driver_harness.h"
#include "conformance/examiner.h"
#include "conformance/snapshot_fixtures.h"
#include "conformance/volume_file.h"

namespace csidelta::conformance {
namespace {

absl::Status CheckServices(const CallContext& ctx, DriverLink& link, DriverHarness& harness,
                           const SnapshotFixtures& fixtures, const CheckResultSink& sink) {
  std::vector<std::unique_ptr<Lister>> listers;
  if (harness.info().metadata) {
    listers.push_back(MakeMetadataLister(link));
  }
  if (harness.info().differential) {
    auto pages = std::make_unique<PageLister>(link);
    RETURN_IF_ERROR(ExaminePages(ctx, *pages, link, fixtures, sink));
    listers.push_back(std::move(pages));
  }
  for (const std::unique_ptr<Lister>& lister : listers) {
    RETURN_IF_ERROR(Examine(ctx, *lister, fixtures, sink));
  }
  RETURN_IF_ERROR(harness.Drop(ctx, fixtures.generations[1].snapshot_id));
  for (const std::unique_ptr<Lister>& lister : listers) {
    RETURN_IF_ERROR(ExamineDeletedBase(ctx, *lister, fixtures, sink));
  }
  return absl::OkStatus();
}

absl::Status JudgeInFolder(const CallContext& ctx, const ConformanceOptions& options,
                           DriverLink& link, DriverHarness& harness, const CheckResultSink& sink) {
  const DriverInfo& info = harness.info();
  const std::string subject = absl::StrCat("driver ", info.name);
  if (!info.metadata && !info.differential) {
    sink(MakeCheckResult(subject, "announced", "it announces neither"));
    return absl::OkStatus();
  }
  sink(MakeCheckResult(subject, "announced", ""));
  if (!info.controller) {
    return absl::FailedPreconditionError(
        absl::StrCat(info.name,
                     " has no controller service, so there is nothing to snapshot; "
                     "give the socket of a driver that has all of its services"));
  }
  ASSIGN_OR_RETURN(
      const SnapshotFixtures fixtures,
      MakeSnapshotFixtures(ctx, harness,
                           {.seed = options.seed, .volume_bytes = options.volume_bytes}, sink));
  return CheckServices(ctx, link, harness, fixtures, sink);
}

}  // namespace

absl::Status RunConformanceTest(const CallContext& ctx, const ConformanceOptions& options,
                                Random& random, const CheckResultSink& sink) {
  if (options.volume_bytes < kVolumeBytesMin) {
    return absl::InvalidArgumentError(
        absl::StrCat("a volume of ", options.volume_bytes, " bytes is too small"));
  }
  const std::unique_ptr<DriverLink> link = DriverLink::Make(options.link);
  ASSIGN_OR_RETURN(DriverInfo info, link->Probe(ctx));
  const std::string prefix =
      absl::StrCat("csi-delta-conformance-", absl::Hex(random.Below(UINT64_MAX)), "-");
  const std::string folder = absl::StrCat(options.work_folder, "/", prefix, "work");
  std::error_code error;
  if (!std::filesystem::create_directory(folder, error)) {
    return absl::FailedPreconditionError(absl::StrCat(folder, ": ", error.message()));
  }
  DriverHarness harness(*link, std::move(info), folder, prefix);
  absl::Status status = JudgeInFolder(ctx, options, *link, harness, sink);
  CallContext clean_up;  // Goes on when ctx is stopped.
  clean_up.clock = ctx.clock;
  std::string stayed = harness.CleanUp(clean_up.WithTimeout(options.clean_up_time_max));
  if (stayed.empty()) {
    std::filesystem::remove_all(folder, error);
  }
  sink(MakeCheckResult("all that was made", "clean-up", std::move(stayed)));
  return status;
}

}  // namespace csidelta::conformance
