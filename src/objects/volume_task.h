#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/json.h"
#include "objects/keys.h"
#include "objects/object.h"
#include "objects/outcome.h"
#include "objects/volume_job.h"

// The kind VolumeTask: what one worker Pod is to do with one volume, and how far it is. The
// controller writes the spec, which is the object it is done for and the job
// (objects/volume_job.h), the worker the status; they meet nowhere else.
// deploy/chart/crds/volumetask.yaml is its schema.
//
//          +------------------------------- a new Pod resumes -----------+
//          v                                                             |
//   ""  Running --> Succeeded                                            |
//          +------> Failed                                               |
//          +------> Canceled     spec.cancel                             |
//          +------> Interrupted  the Pod had to end: drained, evicted ---+
namespace csidelta::objects {

inline constexpr char kMoverGroup[] = "mover.csi-delta.io";
inline constexpr char kMoverVersion[] = "v1alpha1";

enum class TaskKind { kUpload, kDownload, kForget, kCheck };
// "Upload".
std::string ToString(TaskKind kind);

// The object the task is done for.
struct TaskSubject {
  std::string kind = {};  // DataUpload, DataDownload, DataDeletion, ProtectedVolume
  std::string namespace_name = {};
  std::string name = {};
  std::string uid = {};

  friend bool operator==(const TaskSubject&, const TaskSubject&) = default;
};

struct TaskVolume {
  std::string namespace_name = {};
  std::string claim = {};
  std::string claim_uid = {};
  // Of an upload. The uid of the claim whose repository is used; "": its own.
  std::string repository_uid = {};
  // The cluster whose repository that is; "": this one.
  std::string repository_cluster = {};
  std::string restored_snapshot = {};  // of that repository, which filled the claim
  std::string why_own = {};            // why a claim that was restored has its own all the same

  // The claim that gave the repository its name.
  const std::string& repository() const {
    return repository_uid.empty() ? claim_uid : repository_uid;
  }

  friend bool operator==(const TaskVolume&, const TaskVolume&) = default;
};

// But for the job, which the controller writes again before each Pod. Immutable but for `cancel`.
struct VolumeTaskSpec {
  TaskKind kind = TaskKind::kUpload;
  TaskSubject subject = {};
  TaskVolume volume = {};
  bool cancel = false;

  friend bool operator==(const VolumeTaskSpec&, const VolumeTaskSpec&) = default;
};

// kNone: no worker has reported yet, or the phase is unknown.
enum class TaskPhase { kNone, kRunning, kSucceeded, kFailed, kCanceled, kInterrupted };
// "Running"; "" for kNone.
std::string ToString(TaskPhase phase);
// Whether no worker runs the task again.
bool IsLast(TaskPhase phase);

struct VolumeTaskStatus {
  TaskPhase phase = TaskPhase::kNone;
  std::string stage = {};  // of the work: "scan", "transfer", ...
  int64_t done_bytes = 0;
  int64_t total_bytes = 0;                       // 0: not known
  std::optional<int64_t> bytes_per_second = {};  // in the last seconds before the heartbeat
  std::optional<int64_t> seconds_left = {};      // where these suffice to know it
  int64_t observed_generation = 0;               // of the task whose rates the worker keeps to
  std::optional<absl::Time> started_at = {};
  std::optional<absl::Time> heartbeat_at = {};
  std::optional<absl::Time> completed_at = {};
  std::string node = {};
  std::optional<Outcome> outcome = {};  // once it ended
};

// The error in one sentence; "" if it succeeded, or the worker has not ended.
std::string MessageOf(const VolumeTaskStatus& status);
// Why, as far as the worker has ended.
OutcomeCause CauseOf(const VolumeTaskStatus& status);
// What is not set is left out.
Json ToJson(const VolumeTaskStatus& status);

class VolumeTask : public ObjectOf<VolumeTask> {
 public:
  static constexpr KindName kKind = {kMoverGroup, kMoverVersion, "volumetasks", "VolumeTask"};

  // The one to create.
  static VolumeTask Make(absl::string_view namespace_name, absl::string_view name,
                         const VolumeTaskSpec& spec,
                         const std::map<std::string, std::string>& labels);

  // INVALID_ARGUMENT when its type is none that we know.
  absl::StatusOr<VolumeTaskSpec> spec() const;
  TaskSubject subject() const;
  bool is_canceled() const { return Flag({"spec", "cancel"}); }
  // Errors of ReadJob(). INVALID_ARGUMENT also if there is no job yet, or its type is not that of
  // the task.
  absl::StatusOr<VolumeJob> job() const;
  // Of the job, even if that cannot be read; nothing if there is none yet.
  std::optional<JobRates> rates() const;
  // Grows with each change of the spec.
  int64_t generation() const { return Number({"metadata", "generation"}); }
  VolumeTaskStatus status() const;
  int64_t done_bytes() const { return Number({"status", "doneBytes"}); }
  int64_t total_bytes() const { return Number({"status", "totalBytes"}); }  // 0: not known

  // --- What the controller notes in annotations

  int attempts() const;  // how many Pods there were
  // uid of the Pod that was counted last; "" between two.
  std::string counted_pod() const { return Annotation(kTaskPodAnnotation); }
  // When the next one is to be made, or was.
  std::optional<absl::Time> attempt_at() const;
  // uid of an earlier Pod whose end was not observed; "".
  std::string unseen_end() const { return Annotation(kUnseenEndAnnotation); }

  // Text of all of it that neither a worker nor a change of its rates alters while it moves on.
  std::string WithoutProgress() const;
};

}  // namespace csidelta::objects
