#include "objects/volume_task.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/enum_names.h"
#include "base/json_fields.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "objects/patch.h"

namespace csidelta::objects {
namespace {

constexpr EnumNames<TaskKind, 4> kKinds = {{
    {TaskKind::kUpload, "Upload"},
    {TaskKind::kDownload, "Download"},
    {TaskKind::kForget, "Forget"},
    {TaskKind::kCheck, "Check"},
}};

constexpr EnumNames<TaskPhase, 5> kTaskPhases = {{
    {TaskPhase::kRunning, "Running"},
    {TaskPhase::kSucceeded, "Succeeded"},
    {TaskPhase::kFailed, "Failed"},
    {TaskPhase::kCanceled, "Canceled"},
    {TaskPhase::kInterrupted, "Interrupted"},
}};

constexpr auto kSubjectFields = [](auto& fields, auto& subject) {
  fields("kind", subject.kind);
  fields("namespace", subject.namespace_name);
  fields("name", subject.name);
  fields("uid", subject.uid);
};

constexpr auto kTaskVolumeFields = [](auto& fields, auto& volume) {
  fields("namespace", volume.namespace_name);
  fields("claim", volume.claim);
  fields("claimUID", volume.claim_uid);
  fields.IfSet("repositoryUID", volume.repository_uid);
  fields.IfSet("repositoryCluster", volume.repository_cluster);
  fields.IfSet("restoredSnapshot", volume.restored_snapshot);
  fields.IfSet("whyOwn", volume.why_own);
};

constexpr auto kTaskSpecFields = [](auto& fields, auto& spec) {
  fields("type", spec.kind, kKinds);
  fields("subject", spec.subject, kSubjectFields);
  fields("volume", spec.volume, kTaskVolumeFields);
  fields("cancel", spec.cancel);
};

// But for the outcome, which has a codec of its own.
constexpr auto kTaskStatusFields = [](auto& fields, auto& status) {
  fields("phase", status.phase, kTaskPhases);
  fields("doneBytes", status.done_bytes);
  fields("totalBytes", status.total_bytes);
  fields.IfSet("stage", status.stage);
  fields.IfSet("bytesPerSecond", status.bytes_per_second);
  fields.IfSet("secondsLeft", status.seconds_left);
  fields.IfSet("observedGeneration", status.observed_generation);
  fields.IfSet("startTimestamp", status.started_at, WholeSeconds());
  fields.IfSet("heartbeatTimestamp", status.heartbeat_at, WholeSeconds());
  fields.IfSet("completionTimestamp", status.completed_at, WholeSeconds());
  fields.IfSet("node", status.node);
};

// Of the status.
constexpr const char* kFieldsOfOneRun[] = {"stage", "bytesPerSecond", "secondsLeft",
                                           "completionTimestamp", "outcome"};

}  // namespace

std::string ToString(TaskKind kind) { return EnumName(kKinds, kind); }

std::string ToString(TaskPhase phase) { return EnumName(kTaskPhases, phase); }

bool IsLast(TaskPhase phase) {
  return phase == TaskPhase::kSucceeded || phase == TaskPhase::kFailed ||
         phase == TaskPhase::kCanceled;
}

std::string MessageOf(const VolumeTaskStatus& status) {
  return status.outcome.has_value() ? status.outcome->message : "";
}

OutcomeCause CauseOf(const VolumeTaskStatus& status) {
  return status.outcome.has_value() ? status.outcome->cause : OutcomeCause::kNone;
}

Json ToJson(const VolumeTaskStatus& status) {
  Json json = WriteFields(kTaskStatusFields, status);
  if (status.outcome.has_value()) {
    json["outcome"] = ToJson(*status.outcome);
  }
  return json;
}

Patch& Patch::SetStatus(const VolumeTaskStatus& status) {
  Json fields = ToJson(status);
  for (const char* name : kFieldsOfOneRun) {
    if (!fields.contains(name)) {
      fields[name] = nullptr;  // What the run before this one left.
    }
  }
  return Set({"status"}, std::move(fields));
}

VolumeTask VolumeTask::Make(absl::string_view namespace_name, absl::string_view name,
                            const VolumeTaskSpec& spec,
                            const std::map<std::string, std::string>& labels) {
  CSIDELTA_CHECK(!name.empty() && !namespace_name.empty());  // of TaskNameOf()
  VolumeTask task = ObjectOf::Make(namespace_name, name);
  task.Set({"metadata", "labels"}, labels);
  task.Set({"spec"}, WriteFields(kTaskSpecFields, spec));
  return task;
}

TaskSubject VolumeTask::subject() const {
  return ReadFields<TaskSubject>(kSubjectFields, Find({"spec", "subject"}));
}

absl::StatusOr<VolumeTaskSpec> VolumeTask::spec() const {
  const std::string text = Text({"spec", "type"});
  if (!EnumValue(kKinds, text).has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("VolumeTask ", namespace_name(), "/", name(),
                                                   ": spec.type is \"", text,
                                                   "\", not Upload, Download, Forget or Check"));
  }
  return ReadFields<VolumeTaskSpec>(kTaskSpecFields, Find({"spec"}));
}

absl::StatusOr<VolumeJob> VolumeTask::job() const {
  ASSIGN_OR_RETURN(const VolumeTaskSpec task, spec());
  const std::string words = absl::StrCat("VolumeTask ", namespace_name(), "/", name());
  const Json* const json = Find({"spec", "job"});
  if (json == nullptr || json->is_null()) {
    return absl::InvalidArgumentError(absl::StrCat(words, " says nothing of what is to be done"));
  }
  ASSIGN_OR_RETURN(VolumeJob job, Annotate(ReadJob(*json), words));
  // Both are in one order.
  if (job.work.index() != static_cast<std::size_t>(task.kind)) {
    return absl::InvalidArgumentError(
        absl::StrCat(words, ": spec.job is of another type than ", ToString(task.kind)));
  }
  return job;
}

std::optional<JobRates> VolumeTask::rates() const {
  return Find({"spec", "job"}) == nullptr
             ? std::nullopt
             : std::optional(ReadFields<JobRates>(kJobRateFields, Find({"spec", "job", "limits"})));
}

VolumeTaskStatus VolumeTask::status() const {
  auto status = ReadFields<VolumeTaskStatus>(kTaskStatusFields, Find({"status"}));
  if (const Json* outcome = Find({"status", "outcome"}); outcome != nullptr) {
    status.outcome = ReadOutcome(*outcome);
  }
  return status;
}

int VolumeTask::attempts() const {
  int attempts = 0;
  return absl::SimpleAtoi(Annotation(kAttemptsAnnotation), &attempts) ? attempts : 0;
}

std::optional<absl::Time> VolumeTask::attempt_at() const {
  return ParseRfc3339(Annotation(kAttemptAtAnnotation));
}

std::string VolumeTask::WithoutProgress() const {
  Json rest = json();
  for (const char* name : {"stage", "doneBytes", "totalBytes", "bytesPerSecond", "secondsLeft",
                           "observedGeneration", "heartbeatTimestamp"}) {
    EraseJson(rest, {"status", name});
  }
  EraseJson(rest, {"spec", "job", "limits"});
  for (const char* name : {"generation", "resourceVersion", "managedFields"}) {
    EraseJson(rest, {"metadata", name});
  }
  return DumpJson(rest);
}

}  // namespace csidelta::objects
