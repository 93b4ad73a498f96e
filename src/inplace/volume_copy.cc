#include "inplace/volume_copy.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/crypto.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/copy_record.h"
#include "csi/retry.h"
#include "inplace/restore_guard.h"
#include "k8s/access_review.h"
#include "k8s/api_client.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/restricted_pod.h"
#include "snapshots/promotion.h"

namespace csidelta::inplace {
namespace {

using objects::PersistentVolumeClaim;
using objects::Pod;
using objects::VolumeSnapshot;

constexpr std::size_t kCopyNameHashBytes = 20;
constexpr char kCopyScratchPath[] = "/scratch";
constexpr int kCopyGraceSeconds = 8;
constexpr int kExitTooSmall = 22;  // of csi-delta
constexpr absl::Duration kCopyLookIntervalMin = absl::Milliseconds(250);
// The Pod may begin meanwhile, and another restore as well.
constexpr absl::Duration kCopyRecordReadTimeMax = absl::Seconds(10);
constexpr char kCopyRole[] = "csi-delta-snapshot-user";

std::string LastLine(absl::string_view text) {
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipWhitespace());
  return lines.empty() ? "it said nothing" : lines.back();
}

std::string WorkName(absl::string_view target_uid, absl::string_view source) {
  return absl::StrCat(
      "csi-delta-copy-",
      Sha256Hex(absl::StrCat(target_uid, "/", source)).substr(0, kCopyNameHashBytes));
}

// What one Pod does to a volume.
struct VolumeWork {
  std::string name;
  const PersistentVolumeClaim& target;
  const VolumeSnapshot* source = nullptr;  // what the temporary PVC is made of; null: none exists
  std::vector<std::string> arguments;      // of csi-delta, without those of every such Pod
  std::string secret = {};                 // of environment variables; ""
  objects::CopyRecord record;              // while the volume may be partly old
  const CopyPodSettings& pod;
  const std::function<void(const VolumeCopyProgress&)>& on_progress;
};

// Makes, follows and removes the Pod and the temporary PVC.
class VolumeCopy {
 public:
  VolumeCopy(const CallContext& ctx, k8s::ApiClient& api, VolumeWork work,
             std::vector<std::string>& not_checked);
  absl::StatusOr<VolumeCopyResult> Run();

 private:
  absl::StatusOr<VolumeCopyResult> Copy();

  absl::StatusOr<PersistentVolumeClaim> ReadTarget(const CallContext& ctx);
  bool IsOwnRecord(const objects::CopyRecord& record) const;

  // Before a Pod can write.
  absl::Status NoteBegin();
  absl::Status TryNoteBegin();

  // The data mover looks for Pods after it wrote its record, and this for the record after it made
  // its Pod: of two that begin at once, not both write.
  absl::Status CheckStillNoted();
  absl::Status WriteRecord(const PersistentVolumeClaim& pvc);
  absl::Status TryEndRecord(const CallContext& ctx, bool is_partly_old);

  // Once no Pod is left: takes the record away, or has it say that nothing writes any more.
  absl::Status EndRecord(bool is_partly_old);

  k8s::ObjectKey PvcKey() const { return PersistentVolumeClaim::Key(namespace_name_, name_); }
  k8s::ObjectKey PodKey() const { return {Pod::Type(), namespace_name_, name_}; }

  // Of this copy, and gone with the PVC, whatever becomes of this program.
  void Mark(objects::Object& object) const;

  bool IsManaged(const objects::Object& object) const {
    return object.Label(objects::kCopiesIntoLabel) == work_.target.uid();
  }

  absl::Status NotManaged(absl::string_view kind) const;
  absl::Status EnsurePvc(const VolumeSnapshot& source);

  // One that runs, or may still, goes on; what ended says nothing of the volume as it is now.
  absl::Status EnsurePod();
  std::vector<std::string> Arguments() const;
  Pod PodObject() const;

  // Until the Pod has ended. Looks instead of watching, for the progress is in no event.
  absl::Status Follow();
  absl::Status LookAtPod();
  void ReadProgress();

  // Waits until it is gone, so that nothing writes any more.
  absl::Status RemovePod(const CallContext& ctx);

  // ABORTED: another object has the name by now.
  absl::Status AskForDeletion(const CallContext& ctx, const k8s::ObjectKey& key,
                              const std::string& uid) const;
  absl::Status Remove();

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const VolumeWork work_;
  std::vector<std::string>& not_checked_;
  const std::string namespace_name_;
  const std::string name_;
  const std::string pvc_text_;
  std::optional<PersistentVolumeClaim> pvc_;  // the temporary one
  std::optional<Pod> pod_;
  bool may_read_log_ = true;
  bool is_noted_ = false;          // the record was looked at, and may be this restore's
  bool was_partly_old_ = false;    // when this restore began
  bool may_have_written_ = false;  // this restore, or one before it that was not complete
};

VolumeCopy::VolumeCopy(const CallContext& ctx, k8s::ApiClient& api, VolumeWork work,
                       std::vector<std::string>& not_checked)
    : ctx_(ctx),
      api_(api),
      work_(std::move(work)),
      not_checked_(not_checked),
      namespace_name_(work_.target.namespace_name()),
      name_(work_.name),
      pvc_text_(absl::StrCat("PVC ", namespace_name_, "/", work_.target.name())) {}

absl::StatusOr<VolumeCopyResult> VolumeCopy::Run() {
  absl::StatusOr<VolumeCopyResult> result = Copy();
  absl::Status removed = Remove();
  if (removed.ok() && is_noted_) {
    removed = EndRecord(!result.ok() && may_have_written_);
  }
  if (!removed.ok() && result.ok()) {
    not_checked_.push_back(std::string(removed.message()));
  } else if (!removed.ok()) {
    return absl::Status(result.status().code(),
                        absl::StrCat(result.status().message(), "; ", removed.message()));
  }
  return result;
}

absl::StatusOr<VolumeCopyResult> VolumeCopy::Copy() {
  if (work_.source != nullptr) {
    RETURN_IF_ERROR(EnsurePvc(*work_.source));
  }
  RETURN_IF_ERROR(NoteBegin());
  RETURN_IF_ERROR(EnsurePod());
  RETURN_IF_ERROR(CheckStillNoted());
  RETURN_IF_ERROR(Follow());
  const std::string message = pod_->termination_message();
  // With a list that omitted blocks it is done as well, and ends with another exit code.
  if (const std::optional<VolumeCopyResult> result = objects::LastVolumeCopyResult(message);
      result.has_value()) {
    return *result;
  }
  if (pod_->phase() == "Succeeded") {
    return VolumeCopyResult{};  // Done, and its numbers are lost.
  }
  const std::optional<objects::VolumeCopyError> error = objects::LastVolumeCopyError(message);
  const std::string text = absl::StrCat("restore into ", pvc_text_, ": ",
                                        error.has_value() ? error->message : LastLine(message));
  if (error.has_value() && error->exit_code == kExitTooSmall) {
    may_have_written_ = was_partly_old_;
    return absl::OutOfRangeError(text);
  }
  // What `restore` says beside its error is not in the message.
  return absl::FailedPreconditionError(absl::StrCat(
      text, work_.source != nullptr
                ? ""
                : "; it may be partly old, which its beginning then says: run this again"));
}

absl::StatusOr<PersistentVolumeClaim> VolumeCopy::ReadTarget(const CallContext& ctx) {
  return objects::Get<PersistentVolumeClaim>(ctx, api_, work_.target.key());
}

bool VolumeCopy::IsOwnRecord(const objects::CopyRecord& record) const {
  return record.method == work_.record.method && record.from == work_.record.from &&
         record.id == work_.record.id;
}

absl::Status VolumeCopy::NoteBegin() {
  return csi::RetryConflict(ctx_, [this] { return TryNoteBegin(); });
}

absl::Status VolumeCopy::TryNoteBegin() {
  ASSIGN_OR_RETURN(const PersistentVolumeClaim pvc, ReadTarget(ctx_));
  if (pvc.uid() != work_.target.uid()) {
    return absl::FailedPreconditionError(absl::StrCat(pvc_text_, " was deleted and made again"));
  }
  const std::optional<objects::CopyRecord> before = ParseCopyRecord(pvc);
  RETURN_IF_ERROR(CheckNotWrittenByMover(ctx_, api_, pvc));
  was_partly_old_ = before.has_value() && before->has_begun;
  may_have_written_ = was_partly_old_;
  is_noted_ = true;
  if (!was_partly_old_ || !IsOwnRecord(*before) || before->has_ended) {
    RETURN_IF_ERROR(WriteRecord(pvc));
  }
  may_have_written_ = true;
  return absl::OkStatus();
}

absl::Status VolumeCopy::CheckStillNoted() {
  const CallContext ctx = ctx_.WithTimeout(kCopyRecordReadTimeMax);
  ASSIGN_OR_RETURN(const PersistentVolumeClaim pvc,
                   csi::RetryToTheEnd(ctx, [&] { return ReadTarget(ctx); }));
  const std::optional<objects::CopyRecord> record = ParseCopyRecord(pvc);
  if (pvc.uid() == work_.target.uid() && record.has_value() && IsOwnRecord(*record)) {
    return absl::OkStatus();
  }
  may_have_written_ = was_partly_old_;
  return absl::FailedPreconditionError(
      absl::StrCat("another restore into ", pvc_text_, " has begun meanwhile",
                   record.has_value() && csi::IsWrittenByMover(*record, "")
                       ? absl::StrCat(": ", csi::WrittenByMoverText(*record, pvc))
                       : "; run this again"));
}

absl::Status VolumeCopy::WriteRecord(const PersistentVolumeClaim& pvc) {
  objects::CopyRecord record = work_.record;
  record.at = ctx_.clock->Now();
  record.has_begun = true;
  return Annotate(objects::Apply(ctx_, api_, work_.target.key(), CopyRecordPatch(pvc, &record)),
                  "record of the restore");
}

absl::Status VolumeCopy::TryEndRecord(const CallContext& ctx, bool is_partly_old) {
  ASSIGN_OR_RETURN(const PersistentVolumeClaim pvc, ReadTarget(ctx));
  std::optional<objects::CopyRecord> record = ParseCopyRecord(pvc);
  if (!record.has_value() || !IsOwnRecord(*record)) {
    return absl::OkStatus();
  }
  record->has_ended = true;
  return objects::Apply(ctx, api_, work_.target.key(),
                        CopyRecordPatch(pvc, is_partly_old ? &*record : nullptr));
}

absl::Status VolumeCopy::EndRecord(bool is_partly_old) {
  const CallContext ctx = csi::CleanUpContext(*ctx_.clock, kCopyEndTimeMax);
  // The PVC may have been changed between the two requests.
  const absl::Status ended =
      csi::RetryToTheEnd(ctx, [&] { return TryEndRecord(ctx, is_partly_old); });
  return ended.ok() || absl::IsNotFound(ended)
             ? absl::OkStatus()
             : absl::Status(ended.code(),
                            absl::StrCat("the annotation ", objects::kCopyRecordAnnotation, " of ",
                                         pvc_text_, " stays: ", ended.message()));
}

void VolumeCopy::Mark(objects::Object& object) const {
  object.SetLabels({{objects::kMadeByLabel, objects::kMadeByVerbs},
                    {objects::kCopiesIntoLabel, work_.target.uid()},
                    {objects::kExcludeFromBackupLabel, "true"}});
  object.SetOwners({{.api_version = "v1",
                     .kind = "PersistentVolumeClaim",
                     .name = work_.target.name(),
                     .uid = work_.target.uid()}});
}

absl::Status VolumeCopy::NotManaged(absl::string_view kind) const {
  return absl::AlreadyExistsError(
      absl::StrCat(kind, " ", namespace_name_, "/", name_, " has the name that a copy into ",
                   pvc_text_, " would have, and is not one; remove it, then run this again"));
}

absl::Status VolumeCopy::EnsurePvc(const VolumeSnapshot& source) {
  snapshots::PlannedPvc pvc{
      .namespace_name = namespace_name_,
      .name = name_,
      .storage_class = work_.target.storage_class().value_or(""),
      .size_bytes = source.restore_size_bytes().value_or(work_.target.capacity_bytes().value_or(0)),
      .mode = objects::VolumeMode::kBlock,
      .access_modes = {"ReadWriteOnce"}};
  PersistentVolumeClaim object = snapshots::MakePvcObject(pvc, source.name(), {});
  Mark(object);
  absl::StatusOr<PersistentVolumeClaim> found = objects::CreateOrGet(ctx_, api_, object);
  RETURN_IF_ERROR(Annotate(found.status(), "temporary PVC"));
  if (!IsManaged(*found) || found->source_snapshot() != source.name()) {
    return NotManaged("PVC");
  }
  if (found->is_being_deleted()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the temporary PVC ", namespace_name_, "/", name_,
                     " of an earlier copy is still being deleted; run this again"));
  }
  pvc_ = *std::move(found);
  return absl::OkStatus();
}

absl::Status VolumeCopy::EnsurePod() {
  absl::StatusOr<Pod> made = objects::Create(ctx_, api_, PodObject());
  if (absl::IsAlreadyExists(made.status())) {
    ASSIGN_OR_RETURN(std::optional<Pod> found, objects::Find<Pod>(ctx_, api_, PodKey()));
    if (found.has_value()) {
      if (!IsManaged(*found)) {
        return NotManaged("Pod");
      }
      pod_ = std::move(found);
      if (pod_->is_active() && !pod_->is_being_deleted()) {
        return absl::OkStatus();
      }
      RETURN_IF_ERROR(Annotate(
          RemovePod(ctx_.WithTimeout(kCopyEndTimeMax)),
          absl::StrCat("Pod ", namespace_name_, "/", name_, " of an earlier run, to be deleted")));
    }
    made = objects::Create(ctx_, api_, PodObject());
  }
  RETURN_IF_ERROR(Annotate(made.status(), "Pod that copies"));
  pod_ = *std::move(made);
  return absl::OkStatus();
}

std::vector<std::string> VolumeCopy::Arguments() const {
  std::vector<std::string> arguments = work_.arguments;
  for (const std::string& word :
       {std::string("--json"), std::string("--target"), std::string(kCopyTargetPath),
        std::string("--result-file"), std::string("/dev/termination-log"),
        // One that was left behind must not begin once the PVC is in use again.
        std::string("--start-before"), FormatRfc3339(ctx_.clock->Now() + kCopyStartTimeMax)}) {
    arguments.push_back(word);
  }
  return arguments;
}

Pod VolumeCopy::PodObject() const {
  objects::RestrictedContainer container = {
      .name = "copy",
      .image = work_.pod.image,
      .args = Arguments(),
      .variables = {{"TMPDIR", kCopyScratchPath}},
      .variables_secret = work_.secret,
      .mounts = {{.volume = "scratch", .path = kCopyScratchPath}},
      .devices = {{.volume = "target", .path = kCopyTargetPath}}};
  std::vector<objects::PodVolume> volumes = {{.name = "target", .pvc = work_.target.name()}};
  if (work_.source != nullptr) {
    container.devices.push_back({.volume = "source", .path = kCopySourcePath});
    volumes.push_back({.name = "source", .pvc = name_});
  }
  volumes.push_back({.name = "scratch"});
  Pod pod = objects::MakePod(namespace_name_, name_,
                             {.grace_seconds = kCopyGraceSeconds,
                              .service_account = work_.pod.service_account,
                              .has_token = !work_.pod.service_account.empty(),
                              .supplemental_groups = work_.pod.supplemental_groups,
                              .image_pull_secrets = work_.pod.image_pull_secrets,
                              .containers = {std::move(container)},
                              .volumes = std::move(volumes)});
  Mark(pod);
  return pod;
}

absl::Status VolumeCopy::Follow() {
  const absl::Time start_before = ctx_.clock->Now() + kCopyStartTimeMax;
  absl::Duration interval = kCopyLookIntervalMin;
  while (pod_->is_active()) {
    if (pod_->phase() == "Running") {
      ReadProgress();
    } else if (ctx_.clock->Now() >= start_before) {
      const std::string reason = pod_->waiting_reason();
      may_have_written_ = was_partly_old_;
      return absl::FailedPreconditionError(
          absl::StrCat("Pod ", namespace_name_, "/", name_, " did not start within ",
                       absl::FormatDuration(kCopyStartTimeMax), ": ",
                       reason.empty() ? "no kubelet took it" : reason, "; nothing was written"));
    }
    ctx_.clock->SleepFor(interval, ctx_.stop);
    interval = std::min(2 * interval, kCopyLookInterval);
    RETURN_IF_ERROR(Annotate(ctx_.Check(),
                             absl::StrCat("the copy into ", pvc_text_,
                                          " was stopped; it may be partly old, which its beginning "
                                          "then says: run this again")));
    RETURN_IF_ERROR(LookAtPod());
  }
  return absl::OkStatus();
}

absl::Status VolumeCopy::LookAtPod() {
  absl::StatusOr<std::optional<Pod>> found = objects::Find<Pod>(ctx_, api_, PodKey());
  if (!found.ok() && IsRetryable(found.status())) {
    return absl::OkStatus();  // The copy goes on while the API server is away.
  }
  RETURN_IF_ERROR(found.status());
  if (!found->has_value() || (*found)->uid() != pod_->uid()) {
    pod_.reset();
    return absl::FailedPreconditionError(
        absl::StrCat("another client deleted Pod ", namespace_name_, "/", name_, "; ", pvc_text_,
                     " may be partly old, which its beginning then says: run this again"));
  }
  pod_ = *std::move(found);
  return absl::OkStatus();
}

void VolumeCopy::ReadProgress() {
  if (work_.on_progress == nullptr || !may_read_log_) {
    return;
  }
  const absl::StatusOr<std::string> log = api_.ReadLog(ctx_, PodKey(), 1);
  if (absl::IsPermissionDenied(log.status())) {
    may_read_log_ = false;
    not_checked_.push_back(absl::StrCat("progress not read: ", log.status().message()));
  }
  const std::optional<VolumeCopyProgress> progress =
      log.ok() ? objects::LastVolumeCopyProgress(*log) : std::nullopt;
  if (progress.has_value()) {
    work_.on_progress(*progress);
  }
}

absl::Status VolumeCopy::RemovePod(const CallContext& ctx) {
  if (!pod_.has_value()) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(AskForDeletion(ctx, PodKey(), pod_->uid()));
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<Pod> found, csi::RetryToTheEnd(ctx, [&] {
                       return objects::Find<Pod>(ctx, api_, PodKey());
                     }));
    if (!found.has_value() || found->uid() != pod_->uid()) {
      pod_.reset();
      return absl::OkStatus();
    }
    ctx.clock->SleepFor(kCopyLookIntervalMin, ctx.stop);
    RETURN_IF_ERROR(ctx.Check());
  }
}

absl::Status VolumeCopy::AskForDeletion(const CallContext& ctx, const k8s::ObjectKey& key,
                                        const std::string& uid) const {
  return csi::RetryToTheEnd(ctx,
                            [&] { return k8s::IgnoreGone(api_.Delete(ctx, key, {.uid = uid})); });
}

absl::Status VolumeCopy::Remove() {
  const CallContext ctx = csi::CleanUpContext(*ctx_.clock, kCopyEndTimeMax);
  if (const absl::Status removed = RemovePod(ctx); !removed.ok()) {
    return absl::Status(
        removed.code(),
        absl::StrCat("Pod ", namespace_name_, "/", name_, " stays: ", removed.message(),
                     "; kubectl delete pod ", name_, " -n ", namespace_name_));
  }
  if (!pvc_.has_value()) {
    return absl::OkStatus();
  }
  const absl::Status removed = AskForDeletion(ctx, PvcKey(), pvc_->uid());
  if (!removed.ok()) {
    return absl::Status(
        removed.code(),
        absl::StrCat("temporary PVC ", namespace_name_, "/", name_, " stays: ", removed.message(),
                     "; kubectl delete pvc ", name_, " -n ", namespace_name_));
  }
  return absl::OkStatus();
}

}  // namespace

std::string CopyName(const PersistentVolumeClaim& target, const VolumeSnapshot& snapshot) {
  return WorkName(target.uid(), snapshot.uid());
}

std::string CopyName(const PersistentVolumeClaim& target, const RepositorySource& source) {
  return WorkName(target.uid(), absl::StrCat(source.secret, "/", absl::StrJoin(source.words, "/")));
}

bool IsCopyPod(const Pod& pod, const PersistentVolumeClaim& target, absl::string_view copy_name) {
  return pod.name() == copy_name && pod.Label(objects::kCopiesIntoLabel) == target.uid();
}

absl::Status CheckMayCopy(const CallContext& ctx, k8s::ApiClient& api,
                          absl::string_view namespace_name) {
  const std::string here(namespace_name);
  return k8s::RequireAccess(ctx, api,
                            {{{"create", Pod::Type(), here}, kCopyRole},
                             {{"get", Pod::Type(), here}, kCopyRole},
                             // Who uses the PVC must be known: two at work would ruin it.
                             {{"list", Pod::Type(), here}, kCopyRole},
                             {{"delete", Pod::Type(), here}, kCopyRole},
                             {{"create", PersistentVolumeClaim::Type(), here}, kCopyRole},
                             {{"patch", PersistentVolumeClaim::Type(), here}, kCopyRole},
                             {{"delete", PersistentVolumeClaim::Type(), here}, kCopyRole}});
}

absl::StatusOr<VolumeCopyResult> CopyIntoVolume(const CallContext& ctx, k8s::ApiClient& api,
                                                const VolumeCopyRequest& request,
                                                std::vector<std::string>& not_checked) {
  std::vector<std::string> arguments = {"device-copy", "--source", kCopySourcePath};
  if (!request.pod.service_account.empty() && !request.safety_snapshot.empty()) {
    for (const std::string& word :
         {std::string("--volume-snapshot"),
          absl::StrCat(request.target.namespace_name(), "/", request.safety_snapshot),
          std::string("--base"), request.snapshot.name()}) {
      arguments.push_back(word);
    }
  }
  return VolumeCopy(ctx, api,
                    {.name = CopyName(request.target, request.snapshot),
                     .target = request.target,
                     .source = &request.snapshot,
                     .arguments = std::move(arguments),
                     .record = {.method = objects::CopyRecord::Method::kSnapshot,
                                .from = request.snapshot.name()},
                     .pod = request.pod,
                     .on_progress = request.on_progress},
                    not_checked)
      .Run();
}

absl::StatusOr<VolumeCopyResult> RestoreIntoVolume(const CallContext& ctx, k8s::ApiClient& api,
                                                   const RepositoryRestoreRequest& request,
                                                   std::vector<std::string>& not_checked) {
  std::vector<std::string> arguments = {"restore", "--differing"};
  arguments.insert(arguments.end(), request.source.words.begin(), request.source.words.end());
  return VolumeCopy(
             ctx, api,
             {.name = CopyName(request.target, request.source),
              .target = request.target,
              .arguments = std::move(arguments),
              .secret = request.source.secret,
              .record = {.method = objects::CopyRecord::Method::kRepository,
                         .from = request.source.secret,
                         .id = request.source.words.empty() ? "" : request.source.words.front()},
              .pod = request.pod,
              .on_progress = request.on_progress},
             not_checked)
      .Run();
}

}  // namespace csidelta::inplace
