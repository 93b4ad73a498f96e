#include "cli/pod_flags.h"

#include <fcntl.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"

namespace csidelta::cli {
namespace {

constexpr mode_t kResultFileMode = 0600;

}  // namespace

void PodFlags::Declare(ArgumentTable& table) {
  table.Add("--start-before", "TIME", "write nothing when it is later, \"2026-11-21T13:05:00Z\"",
            start_before);
  table.Add("--result-file", "FILE", "write the result, as JSON, there, too", result_file);
}

absl::StatusOr<std::optional<absl::Time>> PodFlags::StartBefore() const {
  const std::optional<absl::Time> latest = ParseRfc3339(start_before);
  if (!start_before.empty() && !latest.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--start-before ", start_before, " is no time; write 2026-11-21T13:05:00Z"));
  }
  return latest;
}

absl::Status PodFlags::CheckTime(const CallContext& ctx) const {
  ASSIGN_OR_RETURN(const std::optional<absl::Time> latest, StartBefore());
  return !latest.has_value() || ctx.clock->Now() < *latest
             ? absl::OkStatus()
             : absl::FailedPreconditionError(
                   absl::StrCat("it is later than ", start_before, ", so nothing was written"));
}

void PodFlags::LeaveResult(const Json& result) const {
  if (result_file.empty()) {
    return;
  }
  const UniqueFd file(
      ::open(result_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kResultFileMode));
  const std::string text = absl::StrCat(DumpJson(result), "\n");
  if (!file.valid() || ::write(file.get(), text.data(), text.size()) < 0) {
    CSIDELTA_LOG(kWarn, "the result was not written", {"file", result_file});
  }
}

}  // namespace csidelta::cli
