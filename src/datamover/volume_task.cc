#include "datamover/volume_task.h"

#include <array>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "datamover/former_outcome.h"
#include "k8s/object.h"

namespace csidelta::datamover {
namespace {

// In the order of the works of VolumeJob.
constexpr std::array<std::pair<TaskKind, absl::string_view>, 3> kKinds = {{
    {TaskKind::kUpload, "Upload"},
    {TaskKind::kDownload, "Download"},
    {TaskKind::kForget, "Forget"},
}};

constexpr std::array<std::pair<TaskPhase, absl::string_view>, 5> kTaskPhases = {{
    {TaskPhase::kRunning, "Running"},
    {TaskPhase::kSucceeded, "Succeeded"},
    {TaskPhase::kFailed, "Failed"},
    {TaskPhase::kCanceled, "Canceled"},
    {TaskPhase::kInterrupted, "Interrupted"},
}};

std::optional<absl::Time> TimeAt(const Json& object, JsonPath path) {
  return ParseRfc3339(GetString(object, path));
}

void SetTime(Json& out, const char* name, const std::optional<absl::Time>& time) {
  if (time.has_value()) {
    out[name] = FormatRfc3339Seconds(*time);
  }
}

}  // namespace

const k8s::ResourceType& VolumeTaskType() {
  static const k8s::ResourceType type = {.group = kMoverGroup,
                                         .version = kMoverVersion,
                                         .plural = "volumetasks",
                                         .kind = "VolumeTask",
                                         .namespaced = true};
  return type;
}

std::string ToString(TaskKind kind) {
  return std::string(kKinds.at(static_cast<std::size_t>(kind)).second);
}

Json MakeVolumeTask(absl::string_view namespace_name, absl::string_view name,
                    const VolumeTaskSpec& spec, const std::map<std::string, std::string>& labels) {
  return {{"apiVersion", absl::StrCat(kMoverGroup, "/", kMoverVersion)},
          {"kind", VolumeTaskType().kind},
          {"metadata",
           {{"namespace", std::string(namespace_name)},
            {"name", std::string(name)},
            {"labels", labels}}},
          {"spec",
           {{"type", ToString(spec.kind)},
            {"subject",
             {{"kind", spec.subject.kind},
              {"namespace", spec.subject.namespace_name},
              {"name", spec.subject.name},
              {"uid", spec.subject.uid}}},
            {"volume",
             {{"namespace", spec.volume.namespace_name},
              {"claim", spec.volume.claim},
              {"claimUID", spec.volume.claim_uid}}},
            {"cancel", spec.cancel}}}};
}

absl::StatusOr<VolumeTaskSpec> TaskSpecOf(const Json& object) {
  VolumeTaskSpec spec;
  const std::string text = GetString(object, {"spec", "type"});
  bool known = false;
  for (const auto& [kind, name] : kKinds) {
    if (text == name) {
      spec.kind = kind;
      known = true;
    }
  }
  if (!known) {
    return absl::InvalidArgumentError(absl::StrCat("VolumeTask ", k8s::Namespace(object), "/",
                                                   k8s::Name(object), ": spec.type is \"", text,
                                                   "\", not Upload, Download or Forget"));
  }
  spec.subject = {.kind = GetString(object, {"spec", "subject", "kind"}),
                  .namespace_name = GetString(object, {"spec", "subject", "namespace"}),
                  .name = GetString(object, {"spec", "subject", "name"}),
                  .uid = GetString(object, {"spec", "subject", "uid"})};
  spec.volume = {.namespace_name = GetString(object, {"spec", "volume", "namespace"}),
                 .claim = GetString(object, {"spec", "volume", "claim"}),
                 .claim_uid = GetString(object, {"spec", "volume", "claimUID"})};
  spec.cancel = GetBool(object, {"spec", "cancel"});
  return spec;
}

absl::StatusOr<VolumeJob> JobOf(const Json& object) {
  ASSIGN_OR_RETURN(const VolumeTaskSpec spec, TaskSpecOf(object));
  const std::string name =
      absl::StrCat("VolumeTask ", k8s::Namespace(object), "/", k8s::Name(object));
  const Json* const json = FindJson(object, {"spec", "job"});
  if (json == nullptr || json->is_null()) {
    return absl::InvalidArgumentError(absl::StrCat(name, " says nothing of what is to be done"));
  }
  absl::StatusOr<VolumeJob> job = ReadJob(*json);
  if (!job.ok()) {
    return Annotate(job.status(), name);
  }
  if (job->work.index() != static_cast<std::size_t>(spec.kind)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": spec.job is of another type than ", ToString(spec.kind)));
  }
  return job;
}

std::string ToString(TaskPhase phase) {
  for (const auto& [known, name] : kTaskPhases) {
    if (known == phase) {
      return std::string(name);
    }
  }
  return "";
}

bool IsLast(TaskPhase phase) {
  return phase == TaskPhase::kSucceeded || phase == TaskPhase::kFailed ||
         phase == TaskPhase::kCanceled;
}

VolumeTaskStatus TaskStatusOf(const Json& object) {
  VolumeTaskStatus status;
  const std::string phase = GetString(object, {"status", "phase"});
  for (const auto& [known, name] : kTaskPhases) {
    if (phase == name) {
      status.phase = known;
    }
  }
  status.stage = GetString(object, {"status", "stage"});
  status.done_bytes = GetInt(object, {"status", "doneBytes"});
  status.total_bytes = GetInt(object, {"status", "totalBytes"});
  status.started_at = TimeAt(object, {"status", "startTimestamp"});
  status.heartbeat_at = TimeAt(object, {"status", "heartbeatTimestamp"});
  status.completed_at = TimeAt(object, {"status", "completionTimestamp"});
  status.node = GetString(object, {"status", "node"});
  if (const Json* outcome = FindJson(object, {"status", "outcome"}); outcome != nullptr) {
    status.outcome = ReadOutcome(*outcome);
  } else if (IsLast(status.phase) || status.phase == TaskPhase::kInterrupted) {
    status.outcome = FormerOutcome(object.at("status"));
  }
  return status;
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

}  // namespace csidelta::datamover
