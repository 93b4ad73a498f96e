#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/quantity.h"
#include "datamover/controller/overview.h"
#include "datamover/settings.h"
#include "doctor/checks.h"
#include "k8s/config.h"
#include "k8s/reconcile_loop.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/data_transfer.h"
#include "objects/outcome.h"
#include "objects/workload.h"

namespace csidelta::doctor {
namespace {

constexpr char kServerDeployment[] = "velero";
// What Velero does where neither Backup nor server says otherwise.
constexpr absl::Duration kItemOperationTimeout = absl::Hours(4);
constexpr char kItemOperationFlag[] = "--default-item-operation-timeout";
// The transfers of a week say how long one takes.
constexpr absl::Duration kRecent = absl::Hours(7 * 24);
// A full backup that reads less tells more of the time to start a worker than of the storage.
constexpr int64_t kMeasuredBytesMin = int64_t{1} << 30;
constexpr double kTimeoutReserve = 1.5;

// The longest of all Veleros and Schedules: a warning is for what none of them waits for.
absl::Duration ItemOperationTimeout(CheckContext& context) {
  absl::Duration longest = absl::ZeroDuration();
  for (const std::string& space : context.options().velero_namespaces) {
    const auto server = context.cache().Find<objects::Deployment>(space, kServerDeployment);
    absl::Duration set = kItemOperationTimeout;
    if (server.ok() && (!absl::ParseDuration(FlagIn(*server, kItemOperationFlag), &set) ||
                        set <= absl::ZeroDuration())) {
      set = kItemOperationTimeout;
    }
    longest = std::max(longest, set);
    for (const objects::Object& schedule : context.List(kScheduleKind.Type(), space)) {
      const absl::StatusOr<objects::Backup> backup = objects::Backup::OfSchedule(schedule);
      longest = std::max(longest, backup.ok() ? backup->item_operation_timeout() : longest);
    }
  }
  return longest;
}

// The transfers of all Veleros; nothing after having said why they are not known.
template <typename Kind>
std::optional<std::vector<Kind>> AllOf(CheckContext& context) {
  std::vector<Kind> all;
  for (const std::string& space : context.options().velero_namespaces) {
    absl::StatusOr<std::vector<Kind>> list = context.cache().List<Kind>(space);
    if (!context.IsKnown(absl::StrCat(Kind::kKind.plural, " of ", space), list.status())) {
      return std::nullopt;
    }
    std::move(list->begin(), list->end(), std::back_inserter(all));
  }
  return all;
}

// The full backup that read the most; null where none read enough.
const objects::DataUpload* LargestFull(const std::vector<objects::DataUpload>& uploads) {
  const objects::DataUpload* largest = nullptr;
  int64_t bytes = kMeasuredBytesMin;
  for (const objects::DataUpload& upload : uploads) {
    const bool counts = upload.is_managed() && upload.phase() == "Completed" &&
                        upload.duration().value_or(absl::ZeroDuration()) > absl::ZeroDuration();
    if (const objects::BackupFigures figures = counts ? upload.figures() : objects::BackupFigures();
        figures.mode == "full" && figures.read_bytes >= bytes) {
      largest = &upload;
      bytes = figures.read_bytes;
    }
  }
  return largest;
}

std::string InMinutes(absl::Duration duration) {
  return absl::FormatDuration(std::max(absl::Minutes(1), absl::Trunc(duration, absl::Minutes(1))));
}

}  // namespace

void CheckMoverQueue(CheckContext& context) {
  const std::string subject = "transfers";
  const absl::StatusOr<datamover::MoverSettings> settings = ReadSettings(context);
  if (!context.IsKnown(subject, settings.status())) {
    return;
  }
  const auto uploads = AllOf<objects::DataUpload>(context);
  const auto downloads = AllOf<objects::DataDownload>(context);
  if (!uploads.has_value() || !downloads.has_value()) {
    return;
  }
  const absl::Time now = context.ctx().clock->Now();
  const datamover::QueueOverview queue =
      datamover::DescribeQueue(*settings, *uploads, *downloads, now);
  const std::optional<absl::Duration> mean =
      datamover::MeanDuration(*uploads, *downloads, now - kRecent);
  const absl::Duration timeout = ItemOperationTimeout(context);
  if (!mean.has_value() || *mean * queue.waits() / queue.admitted_max <= timeout) {
    context.Good(subject, absl::StrCat(queue.waits(), " wait"));
    return;
  }
  context.Warn(
      subject,
      absl::StrCat(queue.waits(), " wait for ", queue.admitted_max,
                   " admissions, and as one takes ", InMinutes(*mean),
                   " on average, the last ones end in about ",
                   InMinutes(*mean * queue.waits() / queue.admitted_max),
                   ", while Velero cancels what is not done after ", InMinutes(timeout)),
      absl::StrCat("raise limits.total and limits.perNode in the settings, or the server's ",
                   kItemOperationFlag,
                   "; docs/data-mover-status.md says how many volumes fit into a backup"));
}

void CheckMoverFirstFull(CheckContext& context) {
  const LargestVolume largest = LargestBackedUp(context);
  const auto uploads = AllOf<objects::DataUpload>(context);
  if (largest.bytes == 0 || !uploads.has_value()) {
    return;
  }
  const std::string subject = SubjectOf("PVC", largest.pvc.first, largest.pvc.second);
  const std::string size = FormatBinaryQuantity(largest.bytes);
  const objects::DataUpload* const measured = LargestFull(*uploads);
  if (measured == nullptr) {
    context.Good(subject, absl::StrCat("is the largest, of ", size,
                                       "; how long a full backup of it takes is unknown, as none "
                                       "of any PVC has read 1Gi"));
    return;
  }
  const int64_t read_bytes = measured->figures().read_bytes;
  const absl::Duration needed = *measured->duration() * (static_cast<double>(largest.bytes) /
                                                         static_cast<double>(read_bytes));
  const absl::Duration timeout = ItemOperationTimeout(context);
  const std::string text =
      absl::StrCat("a full backup of its ", size, " takes up to ", InMinutes(needed),
                   " at the speed of DataUpload ", measured->namespace_name(), "/",
                   measured->name(), ", and Velero cancels it after ", InMinutes(timeout));
  if (needed <= timeout) {
    context.Good(subject, text);
    return;
  }
  context.Warn(subject, text,
               absl::StrCat("give its first Backup, or its Schedule, --item-operation-timeout ",
                            absl::ToInt64Hours(needed * kTimeoutReserve) + 1, "h, or the server ",
                            kItemOperationFlag));
}

void CheckMoverFlags(CheckContext& context) {
  const std::optional<objects::Deployment> controller = ControllerOf(context);
  if (!controller.has_value()) {
    return;
  }
  std::string differ;
  const auto compare = [&](const char* flag, int64_t usual) {
    const std::string set = FlagIn(*controller, flag);
    int64_t value = 0;
    if (absl::SimpleAtoi(set, &value) && value != usual) {
      absl::StrAppend(&differ, differ.empty() ? "" : ", and ", flag, "=", value, " instead of ",
                      usual);
    }
  };
  compare("--requests-per-second", k8s::kRequestsPerSecond);
  compare("--concurrent-reconciles", k8s::kConcurrentReconciles);
  if (!differ.empty()) {
    context.Note(SubjectOf("deployment", *controller), absl::StrCat("runs with ", differ),
                 "nothing, if you set it on purpose; else remove it from the chart's values");
  }
}

}  // namespace csidelta::doctor
