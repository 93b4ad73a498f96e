#include "conformance/conformance.h"

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "conformance/examiner.h"
#include "conformance/exhibits.h"
#include "conformance/lister.h"
#include "conformance/story.h"
#include "conformance/workshop.h"

namespace csidelta::conformance {
namespace {

absl::Status JudgeServices(const CallContext& ctx, DriverLink& link, Workshop& workshop,
                           const Exhibits& exhibits, const JudgementSink& sink) {
  std::vector<std::unique_ptr<Lister>> listers;
  if (workshop.facts().metadata) {
    listers.push_back(MakeMetadataLister(link));
  }
  if (workshop.facts().differential) {
    auto pages = std::make_unique<PageLister>(link);
    RETURN_IF_ERROR(ExaminePages(ctx, *pages, link, exhibits, sink));
    listers.push_back(std::move(pages));
  }
  for (const std::unique_ptr<Lister>& lister : listers) {
    RETURN_IF_ERROR(Examine(ctx, *lister, exhibits, sink));
  }
  RETURN_IF_ERROR(workshop.DropSnapshot(ctx, exhibits.generations[1].snapshot_id));
  for (const std::unique_ptr<Lister>& lister : listers) {
    RETURN_IF_ERROR(ExamineDeletedBase(ctx, *lister, exhibits, sink));
  }
  return absl::OkStatus();
}

absl::Status JudgeInFolder(const CallContext& ctx, const ConformanceOptions& options,
                           DriverLink& link, Workshop& workshop, const JudgementSink& sink) {
  const DriverFacts& facts = workshop.facts();
  const std::string subject = absl::StrCat("driver ", facts.name);
  if (!facts.metadata && !facts.differential) {
    sink(Judge(subject, "announced", "it announces neither"));
    return absl::OkStatus();
  }
  sink(Judge(subject, "announced", ""));
  if (!facts.controller) {
    return absl::FailedPreconditionError(
        absl::StrCat(facts.name,
                     " has no controller service, so there is nothing to snapshot; "
                     "give the socket of a driver that has all of its services"));
  }
  ASSIGN_OR_RETURN(
      const Exhibits exhibits,
      MakeExhibits(ctx, workshop, {.seed = options.seed, .volume_bytes = options.volume_bytes},
                   sink));
  return JudgeServices(ctx, link, workshop, exhibits, sink);
}

}  // namespace

absl::Status JudgeDriver(const CallContext& ctx, const ConformanceOptions& options, Random& random,
                         const JudgementSink& sink) {
  if (options.volume_bytes < kVolumeBytesMin) {
    return absl::InvalidArgumentError(
        absl::StrCat("a volume of ", options.volume_bytes, " bytes is too small"));
  }
  const std::unique_ptr<DriverLink> link = DriverLink::Make(options.link);
  ASSIGN_OR_RETURN(DriverFacts facts, link->Probe(ctx));
  const std::string prefix =
      absl::StrCat("csi-delta-conformance-", absl::Hex(random.Below(UINT64_MAX)), "-");
  const std::string folder = absl::StrCat(options.work_folder, "/", prefix, "work");
  std::error_code error;
  if (!std::filesystem::create_directory(folder, error)) {
    return absl::FailedPreconditionError(absl::StrCat(folder, ": ", error.message()));
  }
  Workshop workshop(*link, std::move(facts), folder, prefix);
  absl::Status status = JudgeInFolder(ctx, options, *link, workshop, sink);
  CallContext clean_up;  // Goes on when ctx is stopped.
  clean_up.clock = ctx.clock;
  std::string stayed = workshop.CleanUp(clean_up.WithTimeout(options.clean_up_time_max));
  if (stayed.empty()) {
    std::filesystem::remove_all(folder, error);
  }
  sink(Judge("all that was made", "clean-up", std::move(stayed)));
  return status;
}

}  // namespace csidelta::conformance
