#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/aligned_memory.h"
#include "base/human_text.h"
#include "base/quantity.h"
#include "datamover/settings.h"
#include "datamover/worker/worker_pod.h"
#include "doctor/checks.h"
#include "doctor/sample_worker.h"
#include "objects/client.h"
#include "objects/data_transfer.h"
#include "objects/node.h"
#include "objects/persistent_volume.h"
#include "objects/protected_volume.h"
#include "objects/restricted_pod.h"
#include "objects/workload.h"

namespace csidelta::doctor {
namespace {

using objects::DataUpload;
using objects::PersistentVolumeClaim;
using objects::ProtectedVolume;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;
// What the controller holds, see docs/operations.md. Of a DataUpload: in a replica that waits.
constexpr int64_t kControllerBytes = 24 * kMiB;
constexpr int64_t kUploadBytes = 12 * kMiB / 15'000;
constexpr int64_t kRecordBytes = 12 * kMiB / 1'000;  // in the night of all of them
constexpr int64_t kMemoryStepBytes = 32 * kMiB;
constexpr std::size_t kDryRunsMax = 5;
constexpr absl::Duration kDryRunTimeMax = absl::Seconds(10);
constexpr char kSampleRepository[] = "/scratch/repository";

// Refused by what the API server asks once the caller may create the object: quota, Pod Security,
// security context constraints, webhooks, what is named does not exist.
bool IsRefusedByAdmission(const absl::Status& status) {
  const absl::string_view message = status.message();
  return absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status) ||
         absl::StrContains(message, "denied the request") ||
         (absl::IsPermissionDenied(status) && absl::StrContains(message, "\" is forbidden: "));
}

std::string RemediationOf(CheckContext& context, absl::string_view message) {
  const std::string& space = context.options().mover_namespace;
  if (absl::StrContains(message, "violates PodSecurity")) {
    return absl::StrCat("label namespace ", space,
                        " with the level restricted, which workers keep to");
  }
  if (absl::StrContains(message, "security context constraint")) {
    return absl::StrCat("oc adm policy add-scc-to-user nonroot-v2 -z ", kWorkerAccount, " -n ",
                        space);
  }
  if (absl::StrContains(message, "PriorityClass")) {
    return "create it, or name another one as worker.priorityClassName in the mover's settings";
  }
  if (absl::StrContains(message, "webhook")) {
    return absl::StrCat("exempt namespace ", space,
                        " from this webhook, or set worker.podLabels or worker.podAnnotations in "
                        "the mover's settings as the webhook requires");
  }
  return "do what the message says";
}

// What the API server answers to a dry run; whether it accepted the object.
bool ReportAnswer(CheckContext& context, const std::string& subject, const absl::Status& answer) {
  const std::string message(answer.message());
  if (!IsRefusedByAdmission(answer)) {
    return context.IsKnown(subject, answer);
  }
  if (absl::StrContains(message, "exceeded quota")) {
    context.Warn(subject, absl::StrCat("is refused now: ", message),
                 "raise the quota, or lower limits.total in the mover's settings");
  } else {
    context.Fault(subject, absl::StrCat("is refused: ", message), RemediationOf(context, message));
  }
  return false;
}

template <typename Kind>
absl::Status DryRun(CheckContext& context, const Kind& object) {
  return objects::DryRunCreate(context.ctx().WithTimeout(kDryRunTimeMax), context.cache().api(),
                               object)
      .status();
}

// How many objects of a kind there are for all Veleros; nothing after having said why that is not
// known.
template <typename Kind>
std::optional<int64_t> CountOf(CheckContext& context) {
  int64_t count = 0;
  for (const std::string& space : context.options().velero_namespaces) {
    const auto& list = context.cache().List(Kind::Type(), space);
    if (list.ok()) {
      count += static_cast<int64_t>(list->size());
    } else if (!context.IsMissing(absl::StrCat(Kind::kKind.plural, " of ", space), list.status())) {
      return std::nullopt;
    }
  }
  return count;
}

using PvcName = std::pair<std::string, std::string>;  // namespace, name

// The PVCs that DataUploads or records of Velero are about.
std::set<PvcName> BackedUp(CheckContext& context) {
  std::set<PvcName> names;
  for (const DataUpload& upload : context.ListInVeleros<DataUpload>()) {
    if (upload.is_managed()) {
      names.emplace(upload.source_namespace(), upload.source_pvc());
    }
  }
  for (const ProtectedVolume& volume : context.ListInVeleros<ProtectedVolume>()) {
    const objects::ProtectedVolumeSpec spec = volume.spec();
    names.emplace(spec.pvc_namespace, spec.pvc);
  }
  return names;
}

// A volume that only such nodes reach is never moved.
void CountUnfitNodes(CheckContext& context, const datamover::MoverSettings& settings) {
  std::map<std::string, std::string> wanted = settings.worker.node_selector;
  wanted.insert(objects::ImageNodeLabels().begin(), objects::ImageNodeLabels().end());
  std::vector<std::string> unfit;
  const std::vector<objects::Node> nodes = context.List<objects::Node>();
  for (const objects::Node& node : nodes) {
    if (absl::c_any_of(objects::ImageNodeLabels(), [&](const auto& label) {
          return node.Label(label.first) != wanted[label.first];
        })) {
      unfit.push_back(node.name());
    }
  }
  if (!unfit.empty()) {
    const auto report = unfit.size() == nodes.size() ? &CheckContext::Fault : &CheckContext::Note;
    (context.*report)(
        "nodes",
        absl::StrCat(unfit.size(), " of ", nodes.size(),
                     " cannot run workers, as the image is for linux and amd64: ", Listed(unfit)),
        "let volumes be reached from other nodes, too; for an image of your own, "
        "name its architecture in worker.nodeSelector");
  }
}

}  // namespace

LargestVolume LargestBackedUp(CheckContext& context) {
  const std::set<PvcName> backed_up = BackedUp(context);
  LargestVolume largest;
  for (const PersistentVolumeClaim& pvc : context.List<PersistentVolumeClaim>()) {
    const PvcName name(pvc.namespace_name(), pvc.name());
    const int64_t bytes = pvc.capacity_bytes().value_or(pvc.requested_bytes().value_or(0));
    if (bytes > largest.bytes && backed_up.contains(name)) {
      largest = {.pvc = name, .bytes = bytes};
    }
  }
  return largest;
}

void CheckMoverWorkerPod(CheckContext& context) {
  const std::string& space = context.options().mover_namespace;
  const std::string image = ImageOfWorkers(context);
  const absl::StatusOr<datamover::MoverSettings> settings = ReadSettings(context);
  if (image.empty() || !context.IsKnown("", settings.status())) {
    return;
  }
  CountUnfitNodes(context, *settings);
  std::set<std::string> classes = ClassesInUse(context);
  while (classes.size() > kDryRunsMax) {
    classes.erase(std::prev(classes.end()));
  }
  const std::string name = SampleName(context);
  const std::string first = classes.empty() ? "" : *classes.begin();
  const std::string subject = absl::StrCat("worker Pods in ", space);
  if (ReportAnswer(
          context, subject,
          DryRun(context, SampleWorker(space, name, image, first, kSampleRepository, *settings)))) {
    context.Good(subject, "are accepted");
  }
  for (const std::string& storage_class : classes) {
    ReportAnswer(context, absl::StrCat("PVCs of storage class ", storage_class, " in ", space),
                 DryRun(context, SampleClaim(space, name, storage_class)));
  }
}

void CheckMoverMemory(CheckContext& context) {
  const std::optional<objects::Deployment> controller = ControllerOf(context);
  if (!controller.has_value()) {
    return;
  }
  const std::optional<int64_t> uploads = CountOf<DataUpload>(context);
  const std::optional<int64_t> records = CountOf<ProtectedVolume>(context);
  if (!uploads.has_value() || !records.has_value()) {
    return;
  }
  const int64_t needed = kControllerBytes + *uploads * kUploadBytes + *records * kRecordBytes;
  const auto containers = controller->containers();
  const std::optional<int64_t> limit =
      containers.empty() ? std::nullopt : containers.front().memory_limit_bytes;
  if (limit.has_value() && *limit < needed) {
    context.Warn(SubjectOf("deployment", *controller),
                 absl::StrCat("its memory limit of ", FormatBinaryQuantity(*limit),
                              " is less than ", FormatBinaryQuantity(RoundUp(needed, kMiB)),
                              ", which ", Counted(*uploads, "DataUpload"), " and ",
                              Counted(*records, "ProtectedVolume"), " take"),
                 absl::StrCat("set resources.limits.memory of the chart to ",
                              FormatBinaryQuantity(RoundUp(needed, kMemoryStepBytes)),
                              ", or let Velero keep backups for a shorter time"));
  }
}

namespace {

// Warns where the memory of workers is less than a restore of the largest volume needs.
void WarnOfWorkerMemory(CheckContext& context, const datamover::MoverSettings& settings,
                        const LargestVolume& largest) {
  const std::string& setting = settings.worker.resources.memory_limit;
  const absl::StatusOr<int64_t> memory = ParseQuantity(setting);
  const int64_t needed = datamover::RestoreMemoryBytesFor(largest.bytes);
  if (memory.ok() && *memory < needed) {
    context.Warn(
        "worker.resources.limits.memory",
        absl::StrCat(setting, " is less than the ", FormatBinaryQuantity(RoundUp(needed, kMiB)),
                     " that a restore needs for PVC ", largest.pvc.first, "/", largest.pvc.second,
                     " of ", FormatBinaryQuantity(largest.bytes)),
        absl::StrCat("set worker.resources.limits.memory in the mover's settings to ",
                     FormatBinaryQuantity(RoundUp(needed, kMemoryStepBytes))));
  }
}

}  // namespace

void CheckMoverScratch(CheckContext& context) {
  const absl::StatusOr<datamover::MoverSettings> settings = ReadSettings(context);
  const absl::StatusOr<int64_t> scratch =
      settings.ok() ? ParseQuantity(settings->worker.scratch_size) : settings.status();
  if (!context.IsKnown("worker.scratchSize", scratch.status())) {
    return;
  }
  const LargestVolume largest = LargestBackedUp(context);
  WarnOfWorkerMemory(context, *settings, largest);
  const int64_t needed = datamover::ScratchBytesFor(largest.bytes);
  if (*scratch < needed) {
    context.Warn(
        "worker.scratchSize",
        absl::StrCat(FormatBinaryQuantity(*scratch), " is less than the ",
                     FormatBinaryQuantity(RoundUp(needed, kMiB)),
                     " that a restore, a check or a deletion may need for PVC ", largest.pvc.first,
                     "/", largest.pvc.second, " of ", FormatBinaryQuantity(largest.bytes)),
        absl::StrCat("set worker.scratchSize in the mover's settings to ",
                     FormatBinaryQuantity(RoundUp(needed, kGiB))));
  }
}

}  // namespace csidelta::doctor
