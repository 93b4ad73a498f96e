#include "csi/take.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "csi/drop.h"
#include "csi/retry.h"
#include "csi/snapshot_lifecycle.h"
#include "k8s/access_review.h"
#include "objects/client.h"
#include "objects/volume_group_snapshot.h"

namespace csidelta::csi {
namespace {

using objects::VolumeGroupSnapshot;
using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

// Part of the snapshot controller's error if no class was named.
constexpr char kNoDefaultClass[] = "default snapshot class";

// --- Withdrawing

bool MayPatch(const CallContext& ctx, k8s::ApiClient& api, const k8s::ResourceType& type) {
  const absl::StatusOr<k8s::AccessAnswer> answer =
      k8s::ReviewAccess(ctx, api, {.verb = "patch", .type = type});
  return answer.ok() && answer->is_allowed;
}

// The data that stays in the storage, and why; "" if none does. `key`: a content of either kind.
std::string RetainedText(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& key) {
  const auto content = objects::Get<objects::Object>(ctx, api, key);
  if (absl::IsNotFound(content.status())) {
    return "";
  }
  if (!content.ok()) {
    return absl::StrCat("; whether the driver keeps what it took was not checked: ",
                        content.status().message());
  }
  if (objects::DeletionPolicyOf(*content) != "Retain") {
    return "";
  }
  const std::string handle = objects::HandleOrSource(key.type, *content);
  return absl::StrCat("; ", key.type.kind, " ", key.name,
                      " says Retain, and stays, as does what the driver took",
                      handle.empty() ? "" : absl::StrCat(": ", handle));
}

template <typename Kind>
absl::StatusOr<std::string> DeleteMade(const CallContext& ctx, k8s::ApiClient& api,
                                       const Kind& made, bool may_lack_rights) {
  const k8s::ObjectKey content = ContentKeyOf(made);
  std::string retained;
  if (!may_lack_rights ||
      (MayPatch(ctx, api, VolumeSnapshotContent::Type()) && MayPatch(ctx, api, content.type))) {
    RETURN_IF_ERROR(DropSnapshot(ctx, api, made, Data::kDelete));
  } else {
    retained = RetainedText(ctx, api, content);
    RETURN_IF_ERROR(RetryTransient(ctx, [&] { return DeleteObject(ctx, api, IdOf(made)); }));
  }
  return absl::StrCat(" was deleted again", retained);
}

// The outcome, " was deleted again"; "" if there is no such object, or it stays.
template <typename Kind>
absl::StatusOr<std::string> DeleteOwn(const CallContext& ctx, k8s::ApiClient& api,
                                      const TakeRules& rules, const Kind& asked,
                                      const std::optional<Kind>& made) {
  auto found = objects::Find<Kind>(ctx, api, asked.key());
  if (rules.may_lack_rights && absl::IsPermissionDenied(found.status())) {
    found = made;
  }
  RETURN_IF_ERROR(found.status());
  const bool is_own = found->has_value() && (*found)->HasLabels(rules.own_labels) &&
                      (rules.deletes_joined || (*found)->Annotation(rules.asked_at_annotation) ==
                                                   asked.Annotation(rules.asked_at_annotation));
  const bool is_referred = is_own && !rules.referred_annotation.empty() &&
                           !(*found)->Annotation(rules.referred_annotation).empty();
  return is_own && !is_referred ? DeleteMade(ctx, api, **found, rules.may_lack_rights)
                                : absl::StatusOr<std::string>("");
}

// --- Taking

// One attempt after the other at one VolumeSnapshot. Borrows everything.
class SnapshotTaker {
 public:
  SnapshotTaker(const CallContext& ctx, k8s::ApiClient& api, const TakeRequest& request)
      : ctx_(ctx),
        api_(api),
        request_(request),
        key_(request.object.key()),
        what_(absl::StrCat(request.lock.subject, " ", key_.namespace_name, "/",
                           request.object.source_pvc())),
        lock_(ctx, api, request.lock),
        errors_(*ctx.clock, what_, request.rules.timeout, request.rules.errors) {}

  absl::StatusOr<TakenSnapshot> Take() {
    // It tells an object whose POST lost its answer from that of another call.
    CSIDELTA_CHECK(!request_.rules.asked_at_annotation.empty());
    return lock_.Run([this] { return TakeLocked(); });
  }

 private:
  absl::StatusOr<TakenSnapshot> TakeLocked();

  // Creates the VolumeSnapshot, or resumes the one that an earlier call left. After an error it may
  // exist.
  absl::StatusOr<VolumeSnapshot> Post(const VolumeSnapshot& object);
  absl::StatusOr<VolumeSnapshot> Join(const VolumeSnapshot& object);

  absl::Status AwaitTaken(const CallContext& limited);
  absl::Status AwaitTime(LeaseWaiter& waiter);

  // Takes the object as it is now. An error if it is not the one that was made, or if the driver's
  // error is final.
  absl::Status Refresh(const VolumeSnapshot* now);
  absl::Status CheckError(const std::string& error);

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const TakeRequest& request_;
  const k8s::ObjectKey key_;
  const std::string what_;
  VolumeLock lock_;
  DriverErrors errors_;
  int posts_ = 0;  // of this attempt
  TakenSnapshot taken_;
};

absl::StatusOr<TakenSnapshot> SnapshotTaker::TakeLocked() {
  const CallContext limited = ctx_.WithTimeout(request_.rules.timeout);
  taken_ = {.snapshot = {}, .content = {}, .is_content_read = false, .asked_at = ctx_.clock->Now()};
  posts_ = 0;
  VolumeSnapshot object = request_.object;
  object.SetAnnotation(request_.rules.asked_at_annotation,
                       request_.rules.format_time(taken_.asked_at));
  absl::StatusOr<VolumeSnapshot> made = RetryTransient(ctx_, [&] { return Post(object); });
  absl::Status status =
      Annotate(AsQuotaRefusal(made.status()), absl::StrCat("create a VolumeSnapshot of ", what_));
  std::optional<VolumeSnapshot> known;
  if (made.ok()) {
    known = *std::move(made);
    taken_.snapshot = *known;
    status = taken_.has_joined ? absl::OkStatus() : lock_.CheckAtPost(known->resource_version());
  }
  if (status.ok() && request_.awaits_driver) {
    status = errors_.Explain(AwaitTaken(limited));
  }
  if (!status.ok()) {
    return taken_.has_joined && !request_.rules.deletes_joined
               ? status
               : Withdraw(*ctx_.clock, api_, request_.rules, object, known, status);
  }
  CSIDELTA_CHECK(taken_.is_content_read || request_.rules.may_lack_rights ||
                 !request_.awaits_driver);
  taken_.not_checked = lock_.not_checked();
  return taken_;
}

absl::StatusOr<VolumeSnapshot> SnapshotTaker::Post(const VolumeSnapshot& object) {
  ++posts_;
  absl::StatusOr<VolumeSnapshot> made = objects::Create(ctx_, api_, object);
  if (absl::IsAlreadyExists(made.status())) {
    return Join(object);
  }
  // A quota is checked before the name is: what an earlier call made needs no room.
  if (request_.rules.may_join && OutOfRoom(AsQuotaRefusal(made.status())).has_value()) {
    absl::StatusOr<VolumeSnapshot> joined = Join(object);
    return absl::IsNotFound(joined.status()) ? std::move(made) : std::move(joined);
  }
  return made;
}

absl::StatusOr<VolumeSnapshot> SnapshotTaker::Join(const VolumeSnapshot& object) {
  const TakeRules& rules = request_.rules;
  ASSIGN_OR_RETURN(auto there, objects::Get<VolumeSnapshot>(ctx_, api_, key_));
  const bool is_own =
      there.HasLabels(rules.own_labels) && there.source_pvc() == object.source_pvc();
  const std::string asked_at = there.Annotation(rules.asked_at_annotation);
  // Else the answer to a POST was lost.
  taken_.has_joined =
      posts_ == 1 || !is_own || asked_at != object.Annotation(rules.asked_at_annotation);
  if (!taken_.has_joined) {
    return there;
  }
  if (is_own && !rules.may_join && IsBeingTaken(there, ctx_.clock->Now())) {
    return VolumeBusyError(what_, absl::StrCat("VolumeSnapshot ", key_.name));
  }
  if (!is_own || !rules.may_join || there.is_being_deleted()) {
    return absl::AlreadyExistsError(absl::StrCat("VolumeSnapshot ", key_.namespace_name, "/",
                                                 key_.name, " exists already", rules.name_advice));
  }
  taken_.asked_at = ParseRfc3339(asked_at).value_or(ctx_.clock->Now());
  return there;
}

absl::Status SnapshotTaker::Refresh(const VolumeSnapshot* now) {
  if (now == nullptr || now->uid() != taken_.snapshot.uid() || now->is_being_deleted()) {
    return absl::NotFoundError(
        absl::StrCat("VolumeSnapshot ", key_.name, " was deleted by another client"));
  }
  taken_.snapshot = *now;
  return CheckError(now->error_message());
}

absl::Status SnapshotTaker::CheckError(const std::string& error) {
  if (request_.object.class_name().empty() && absl::StrContains(error, kNoDefaultClass)) {
    return absl::FailedPreconditionError(
        absl::StrCat("no class for a snapshot of ", what_, ": ", error, "; name one with --class"));
  }
  return errors_.Check(error);
}

absl::Status SnapshotTaker::AwaitTaken(const CallContext& limited) {
  LeaseWaiter waiter = lock_.Waiter(limited);
  const VolumeSnapshot known = taken_.snapshot;
  RETURN_IF_ERROR(waiter.WaitFor<VolumeSnapshot>(
      key_,
      [&](const VolumeSnapshot* now) -> absl::StatusOr<bool> {
        RETURN_IF_ERROR(Refresh(now));
        return !now->bound_content().empty();
      },
      &known));
  const k8s::ObjectKey key = VolumeSnapshotContent::Key("", taken_.snapshot.bound_content());
  std::optional<VolumeSnapshotContent> first;
  if (request_.rules.may_lack_rights) {
    // A wait would take the missing right for an API server that starts.
    auto content = objects::Get<VolumeSnapshotContent>(limited, api_, key);
    if (absl::IsPermissionDenied(content.status())) {
      RETURN_IF_ERROR(lock_.RecordMissingRight("binding not checked", content.status()));
      return AwaitTime(waiter);
    }
    if (content.ok()) {
      first = *std::move(content);
    }
  }
  const auto has_handle = [&](const VolumeSnapshotContent* now) -> absl::StatusOr<bool> {
    if (now == nullptr) {
      return absl::NotFoundError(
          absl::StrCat("VolumeSnapshotContent ", key.name, " was deleted by another client"));
    }
    taken_.content = *now;
    RETURN_IF_ERROR(CheckError(now->error_message()));
    return !now->handle().empty();
  };
  RETURN_IF_ERROR(first.has_value()
                      ? waiter.WaitFor<VolumeSnapshotContent>(key, has_handle, &*first)
                      : waiter.WaitForExisting<VolumeSnapshotContent>(key, has_handle));
  taken_.seen_taken_at = ctx_.clock->Now();
  taken_.is_content_read = true;
  return taken_.content.Names(taken_.snapshot)
             ? absl::OkStatus()
             : absl::FailedPreconditionError(absl::StrCat(
                   "VolumeSnapshotContent ", key.name, " belongs to ",
                   taken_.content.snapshot_namespace(), "/", taken_.content.snapshot_name()));
}

absl::Status SnapshotTaker::AwaitTime(LeaseWaiter& waiter) {
  const VolumeSnapshot known = taken_.snapshot;
  RETURN_IF_ERROR(waiter.WaitFor<VolumeSnapshot>(
      key_,
      [&](const VolumeSnapshot* now) -> absl::StatusOr<bool> {
        RETURN_IF_ERROR(Refresh(now));
        return now->taken_at().has_value() || now->is_ready();
      },
      &known));
  taken_.seen_taken_at = ctx_.clock->Now();
  return absl::OkStatus();
}

}  // namespace

ContentReading ReadingOf(const TakenSnapshot& taken) {
  return taken.is_content_read
             ? ContentReading{.kind = ContentReading::Kind::kPresent, .content = &taken.content}
             : ContentReading{};
}

absl::StatusOr<TakenSnapshot> TakeSnapshot(const CallContext& ctx, k8s::ApiClient& api,
                                           const TakeRequest& request) {
  return SnapshotTaker(ctx, api, request).Take();
}

template <typename Kind>
absl::Status Withdraw(const Clock& clock, k8s::ApiClient& api, const TakeRules& rules,
                      const Kind& asked, const std::optional<Kind>& made,
                      const absl::Status& status) {
  const CallContext after = CleanUpContext(clock);
  const absl::Duration give_up_at = clock.Uptime() + kRefusalGracePeriod;
  absl::StatusOr<std::string> removed = DeleteOwn(after, api, rules, asked, made);
  while (!removed.ok() && MayBeStarting(removed.status()) && clock.Uptime() < give_up_at) {
    clock.SleepFor(kRefusalPause, after.stop);
    removed = DeleteOwn(after, api, rules, asked, made);
  }
  if (removed.ok() && removed->empty()) {
    return status;
  }
  return WithMore(
      status, absl::StrCat("; ", asked.key().type.kind, " ", asked.name(),
                           removed.ok() ? *removed
                                        : absl::StrCat(" is left, because it cannot be deleted: ",
                                                       removed.status().message())));
}
template absl::Status Withdraw(const Clock&, k8s::ApiClient&, const TakeRules&,
                               const VolumeSnapshot&, const std::optional<VolumeSnapshot>&,
                               const absl::Status&);
template absl::Status Withdraw(const Clock&, k8s::ApiClient&, const TakeRules&,
                               const VolumeGroupSnapshot&,
                               const std::optional<VolumeGroupSnapshot>&, const absl::Status&);

}  // namespace csidelta::csi
