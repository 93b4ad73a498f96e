#include "objects/volume_task.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/enum_names.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "objects/former_outcome.h"

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

void SetTime(Json& out, const char* name, const std::optional<absl::Time>& time) {
  if (time.has_value()) {
    out[name] = FormatRfc3339Seconds(*time);
  }
}

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
  Json out = {{"phase", ToString(status.phase)},
              {"doneBytes", status.done_bytes},
              {"totalBytes", status.total_bytes}};
  if (!status.stage.empty()) {
    out["stage"] = status.stage;
  }
  SetTime(out, "startTimestamp", status.started_at);
  SetTime(out, "heartbeatTimestamp", status.heartbeat_at);
  SetTime(out, "completionTimestamp", status.completed_at);
  if (!status.node.empty()) {
    out["node"] = status.node;
  }
  if (status.outcome.has_value()) {
    out["outcome"] = ToJson(*status.outcome);
  }
  return out;
}

VolumeTask VolumeTask::Make(absl::string_view namespace_name, absl::string_view name,
                            const VolumeTaskSpec& spec,
                            const std::map<std::string, std::string>& labels) {
  VolumeTask task = ObjectOf::Make(namespace_name, name);
  task.Set({"metadata", "labels"}, labels);
  task.Set({"spec"}, {{"type", ToString(spec.kind)},
                      {"subject",
                       {{"kind", spec.subject.kind},
                        {"namespace", spec.subject.namespace_name},
                        {"name", spec.subject.name},
                        {"uid", spec.subject.uid}}},
                      {"volume",
                       {{"namespace", spec.volume.namespace_name},
                        {"claim", spec.volume.claim},
                        {"claimUID", spec.volume.claim_uid}}},
                      {"cancel", spec.cancel}});
  return task;
}

TaskSubject VolumeTask::subject() const {
  return {.kind = Text({"spec", "subject", "kind"}),
          .namespace_name = Text({"spec", "subject", "namespace"}),
          .name = Text({"spec", "subject", "name"}),
          .uid = Text({"spec", "subject", "uid"})};
}

absl::StatusOr<VolumeTaskSpec> VolumeTask::spec() const {
  const std::string text = Text({"spec", "type"});
  const std::optional<TaskKind> kind = EnumValue(kKinds, text);
  if (!kind.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("VolumeTask ", namespace_name(), "/", name(),
                                                   ": spec.type is \"", text,
                                                   "\", not Upload, Download, Forget or Check"));
  }
  return VolumeTaskSpec{.kind = *kind,
                        .subject = subject(),
                        .volume = {.namespace_name = Text({"spec", "volume", "namespace"}),
                                   .claim = Text({"spec", "volume", "claim"}),
                                   .claim_uid = Text({"spec", "volume", "claimUID"})},
                        .cancel = is_canceled()};
}

absl::StatusOr<VolumeJob> VolumeTask::job() const {
  ASSIGN_OR_RETURN(const VolumeTaskSpec task, spec());
  const std::string words = absl::StrCat("VolumeTask ", namespace_name(), "/", name());
  const Json* const json = Find({"spec", "job"});
  if (json == nullptr || json->is_null()) {
    return absl::InvalidArgumentError(absl::StrCat(words, " says nothing of what is to be done"));
  }
  absl::StatusOr<VolumeJob> job = ReadJob(*json);
  if (!job.ok()) {
    return Annotate(job.status(), words);
  }
  // Both are in one order.
  if (job->work.index() != static_cast<std::size_t>(task.kind)) {
    return absl::InvalidArgumentError(
        absl::StrCat(words, ": spec.job is of another type than ", ToString(task.kind)));
  }
  return job;
}

VolumeTaskStatus VolumeTask::status() const {
  VolumeTaskStatus status;
  status.phase = EnumValue(kTaskPhases, Text({"status", "phase"})).value_or(TaskPhase::kNone);
  status.stage = Text({"status", "stage"});
  status.done_bytes = done_bytes();
  status.total_bytes = total_bytes();
  status.started_at = TimeAt({"status", "startTimestamp"});
  status.heartbeat_at = TimeAt({"status", "heartbeatTimestamp"});
  status.completed_at = TimeAt({"status", "completionTimestamp"});
  status.node = Text({"status", "node"});
  if (const Json* outcome = Find({"status", "outcome"}); outcome != nullptr) {
    status.outcome = ReadOutcome(*outcome);
  } else if (IsLast(status.phase) || status.phase == TaskPhase::kInterrupted) {
    status.outcome = FormerOutcome(*Find({"status"}));
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
  for (const char* name : {"stage", "doneBytes", "totalBytes", "heartbeatTimestamp"}) {
    EraseJson(rest, {"status", name});
  }
  for (const char* name : {"resourceVersion", "managedFields"}) {
    EraseJson(rest, {"metadata", name});
  }
  return DumpJson(rest);
}

}  // namespace csidelta::objects
