#include "snapshots/snapshot_removal.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "csi/drop.h"
#include "csi/retry.h"
#include "csi/snapshot_state.h"
#include "k8s/api_client.h"
#include "objects/client.h"
#include "objects/event.h"
#include "objects/keys.h"
#include "objects/volume_snapshot.h"

namespace csidelta::snapshots {
namespace {

using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

// Controllers write to these objects, too: one that has changed is read again so many times.
constexpr int kRemovalTriesMax = 5;

// The namespace of the Events of objects that have none.
constexpr char kEventsOfClusterNamespace[] = "default";

std::string RemovedName(const SnapshotEntry& entry) {
  return absl::StrCat("VolumeSnapshot ", entry.namespace_name, "/", entry.name);
}

k8s::ObjectKey SnapshotKeyOf(const SnapshotEntry& entry) {
  return VolumeSnapshot::Key(entry.namespace_name, entry.name);
}

// True if the content names the VolumeSnapshot, by its uid if it gives one.
bool NamesEntry(const VolumeSnapshotContent& content, const SnapshotEntry& entry) {
  const std::string uid = content.snapshot_uid();
  return content.snapshot_namespace() == entry.namespace_name &&
         content.snapshot_name() == entry.name && (uid.empty() || uid == entry.uid);
}

absl::StatusOr<std::optional<VolumeSnapshotContent>> FindContentOf(const CallContext& ctx,
                                                                   k8s::ApiClient& api,
                                                                   const std::string& name) {
  return objects::Find<VolumeSnapshotContent>(ctx, api, VolumeSnapshotContent::Key("", name));
}

// `step` reads an object and changes it as it was read: again while other clients change it.
template <typename Step>
absl::Status RepeatAborted(const Step& step) {
  absl::Status done = absl::AbortedError("");
  for (int tries = 0; tries < kRemovalTriesMax && absl::IsAborted(done); ++tries) {
    done = step();
  }
  return done;
}

// Of the content as it was read: else ABORTED.
absl::Status SetPolicyAsRead(const CallContext& ctx, k8s::ApiClient& api,
                             const VolumeSnapshotContent& content, csi::Data data) {
  return csi::SetPolicy(ctx, api, content.key(), data,
                        objects::Patch().IfUid(content.uid()).IfVersion(content.resource_version()))
      .status();
}

// What makes the policy Delete for as long as the VolumeSnapshot is to go.
class ContentPolicy {
 public:
  ContentPolicy(const CallContext& ctx, k8s::ApiClient& api) : ctx_(ctx), api_(api) {}

  // Makes the policy Delete, and remembers the change so that it can be reverted.
  absl::Status SetDelete(const SnapshotEntry& entry) {
    return RepeatAborted([&]() -> absl::Status {
      ASSIGN_OR_RETURN(const std::optional<VolumeSnapshotContent> content,
                       FindContentOf(ctx_, api_, entry.content));
      if (!content.has_value()) {
        return absl::OkStatus();
      }
      if (!NamesEntry(*content, entry)) {
        return absl::FailedPreconditionError(absl::StrCat(
            "VolumeSnapshotContent ", content->name(), " belongs to ",
            content->snapshot_namespace(), "/", content->snapshot_name(), ": nothing was changed"));
      }
      if (!content->is_retained()) {
        return absl::OkStatus();
      }
      changed_ = content->name();  // Also when the answer is lost.
      return SetPolicyAsRead(ctx_, api_, *content, csi::Data::kDelete);
    });
  }

  // The VolumeSnapshot stays: so does its data. Also when the call itself was stopped. Returns
  // `reason`, and what went wrong here.
  absl::Status PutBack(const absl::Status& reason) const {
    if (changed_.empty()) {
      return reason;
    }
    const CallContext ctx = csi::CleanUpContext(*ctx_.clock);
    const absl::Status put = RepeatAborted([&]() -> absl::Status {
      ASSIGN_OR_RETURN(const std::optional<VolumeSnapshotContent> content,
                       FindContentOf(ctx, api_, changed_));
      return !content.has_value() || content->is_retained()
                 ? absl::OkStatus()
                 : SetPolicyAsRead(ctx, api_, *content, csi::Data::kRetain);
    });
    if (put.ok()) {
      return reason;
    }
    const std::string what = absl::StrCat("the policy of VolumeSnapshotContent ", changed_,
                                          " is Delete now, and was Retain: ", put.message());
    return reason.ok() ? absl::Status(put.code(), what) : Annotate(reason, what);
  }

 private:
  const CallContext& ctx_;
  k8s::ApiClient& api_;
  std::string changed_;  // the content whose policy was Retain
};

// The VolumeSnapshot of the same uid as it is now; nothing where that is gone.
absl::StatusOr<std::optional<SnapshotEntry>> ReadEntryAgain(const CallContext& ctx,
                                                            k8s::ApiClient& api,
                                                            const SnapshotEntry& entry,
                                                            const RemovalRequest& request) {
  ASSIGN_OR_RETURN(Inventory inventory,
                   ReadInventory(ctx, api,
                                 {.namespace_name = entry.namespace_name,
                                  .label_selector = "",
                                  .names = {entry.name},
                                  .only_names = true,
                                  .requires_all = request.requester == csi::Requester::kPrune,
                                  .mover_namespace = request.mover_namespace,
                                  .now = ctx.clock->Now()}));
  for (SnapshotEntry& found : inventory.entries) {
    if (found.uid == entry.uid) {
      return std::optional<SnapshotEntry>(std::move(found));
    }
  }
  return std::optional<SnapshotEntry>();
}

// "waits for the finalizers ..."; "" for one that is not a VolumeSnapshot being deleted.
std::string WhyItWaits(const objects::Object& object) {
  const absl::StatusOr<VolumeSnapshot> snapshot = VolumeSnapshot::From(object);
  if (!snapshot.ok() || !snapshot->is_being_deleted()) {
    return "";
  }
  const csi::SnapshotStatus status = csi::StatusOf(*snapshot, {});
  return status.conditions.empty() ? "" : status.conditions.front().message;
}

// Waits until no object of this uid has the name.
absl::Status AwaitNoneOfUid(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& key,
                            const std::string& uid) {
  std::string why;
  const absl::Status gone = objects::WaitFor<objects::Object>(
      ctx, api, key, [&](const objects::Object* object) -> absl::StatusOr<bool> {
        if (object == nullptr || object->uid() != uid) {
          return true;
        }
        why = WhyItWaits(*object);
        return false;
      });
  if (!absl::IsDeadlineExceeded(gone)) {
    return gone;
  }
  return absl::DeadlineExceededError(
      absl::StrCat(key.type.kind, " ", key.namespace_name, key.namespace_name.empty() ? "" : "/",
                   key.name, " is not gone yet", why.empty() ? "" : ": ", why));
}

// What is reported of a content that is being deleted: its error, else the newest warning about it.
// The sidecar only warns of a driver that refuses the deletion. "" where nothing is known.
std::string ReportOfContent(const CallContext& ctx, k8s::ApiClient& api,
                            const SnapshotEntry& entry) {
  const absl::StatusOr<std::optional<VolumeSnapshotContent>> content =
      FindContentOf(ctx, api, entry.content);
  if (!content.ok() || !content->has_value()) {
    return "";
  }
  if (const auto error = (*content)->error(); error.has_value()) {
    return error->message;
  }
  const absl::StatusOr<std::vector<objects::Event>> events =
      objects::ReadEvents(ctx, api, kEventsOfClusterNamespace, entry.content_uid);
  std::string report;
  for (const objects::Event& one : events.value_or(std::vector<objects::Event>())) {
    if (one.type() == "Warning") {
      report = absl::StrCat(one.reason(), ": ", one.message());
    }
  }
  return report;
}

// A VolumeSnapshot whose content is being deleted stays for as long as the driver refuses, and only
// the content tells why.
absl::Status WithReportOfContent(const Clock& clock, k8s::ApiClient& api,
                                 const SnapshotEntry& entry, const absl::Status& late) {
  const std::string report =
      entry.content_uid.empty() ? "" : ReportOfContent(csi::CleanUpContext(clock), api, entry);
  return report.empty()
             ? late
             : absl::DeadlineExceededError(absl::StrCat(late.message(), "; VolumeSnapshotContent ",
                                                        entry.content, ": ", report));
}

bool IsLastReady(const Finding& one) { return one.code == csi::kLastReadyCode; }

}  // namespace

absl::string_view ToString(DataAction action) {
  constexpr std::array<absl::string_view, 6> kNames = {"none",        "unknown", "content-gone",
                                                       "not-its-own", "deleted", "kept"};
  return kNames[static_cast<std::size_t>(action)];
}

DataAction ActionOf(const SnapshotEntry& entry, bool with_data) {
  if (entry.content.empty()) {
    return DataAction::kNone;
  }
  switch (entry.content_kind) {
    case csi::ContentReading::Kind::kUnknown:
      return DataAction::kUnknown;
    case csi::ContentReading::Kind::kGone:
      return DataAction::kContentGone;
    case csi::ContentReading::Kind::kPresent:
      break;
  }
  if (!entry.is_named_by_content) {
    return DataAction::kNotItsOwn;
  }
  return with_data || entry.deletion_policy != "Retain" ? DataAction::kDeleted : DataAction::kKept;
}

std::vector<PlannedRemoval> PlanRemoval(const Inventory& inventory,
                                        const std::vector<std::size_t>& chosen,
                                        const RemovalOptions& options) {
  std::vector<PlannedRemoval> plan;
  plan.reserve(chosen.size());
  std::vector<bool> goes(inventory.entries.size());
  for (const std::size_t i : chosen) {
    PlannedRemoval one;
    CSIDELTA_CHECK(i < inventory.entries.size());
    one.entry = inventory.entries[i];
    one.action = ActionOf(one.entry, options.with_data);
    one.kept_for = one.entry.kept_for_person;
    if (options.last_too) {
      std::erase_if(one.kept_for, IsLastReady);
    }
    if (one.entry.status.state == csi::SnapshotState::kDeleting && !options.with_data) {
      one.verdict = RemovalVerdict::kBeingDeleted;
      one.kept_for.clear();
    } else if (!one.kept_for.empty()) {
      one.verdict = RemovalVerdict::kProtected;
    }
    goes[i] = one.verdict == RemovalVerdict::kDelete;
    plan.push_back(std::move(one));
  }
  if (options.last_too || !inventory.is_last_ready_known) {
    return plan;
  }
  for (const std::size_t spared : LastReadyOf(inventory.entries, goes)) {
    const auto found = std::find(chosen.begin(), chosen.end(), spared);
    PlannedRemoval& one = plan[static_cast<std::size_t>(found - chosen.begin())];
    one.verdict = RemovalVerdict::kProtected;
    one.kept_for = {csi::LastReadyProtection()};
  }
  return plan;
}

absl::StatusOr<Removal> RemoveAsRead(const CallContext& ctx, k8s::ApiClient& api,
                                     const SnapshotEntry& entry, const RemovalRequest& request) {
  SnapshotEntry current = entry;
  ContentPolicy policy(ctx, api);
  absl::Status deleted = absl::OkStatus();
  for (int tries = 0; tries < kRemovalTriesMax; ++tries) {
    if (request.with_data && !current.content.empty()) {
      if (absl::Status set = policy.SetDelete(current); !set.ok()) {
        return policy.PutBack(set);
      }
    }
    deleted = api.Delete(ctx, SnapshotKeyOf(current),
                         {.uid = current.uid, .resource_version = current.resource_version});
    if (deleted.ok() || absl::IsNotFound(deleted)) {
      return Removal{.end = deleted.ok() ? Removal::End::kRequested : Removal::End::kGone,
                     .kept_for = {}};
    }
    if (!absl::IsAborted(deleted)) {
      return policy.PutBack(deleted);
    }
    absl::StatusOr<std::optional<SnapshotEntry>> again = ReadEntryAgain(ctx, api, entry, request);
    if (!again.ok()) {
      return policy.PutBack(again.status());
    }
    if (!again->has_value()) {
      return Removal{.end = Removal::End::kGone, .kept_for = {}};
    }
    current = **std::move(again);
    std::vector<Finding>& kept_for =
        request.requester == csi::Requester::kPrune ? current.kept_for : current.kept_for_person;
    if (!kept_for.empty()) {
      RETURN_IF_ERROR(policy.PutBack(absl::OkStatus()));
      return Removal{.end = Removal::End::kKept, .kept_for = std::move(kept_for)};
    }
  }
  return policy.PutBack(absl::AbortedError(
      absl::StrCat(RemovedName(entry), " changes again and again: ", deleted.message())));
}

absl::Status RemoveKeptContent(const CallContext& ctx, k8s::ApiClient& api,
                               const SnapshotEntry& entry) {
  RETURN_IF_ERROR(AwaitNoneOfUid(ctx, api, SnapshotKeyOf(entry), entry.uid));
  return RepeatAborted([&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::optional<VolumeSnapshotContent> content,
                     FindContentOf(ctx, api, entry.content));
    if (!content.has_value() || !content->is_retained() || !NamesEntry(*content, entry)) {
      return absl::OkStatus();
    }
    // With the resourceVersion, so that the policy is still Retain when it goes.
    return k8s::IgnoreNotFound(
        api.Delete(ctx, content->key(),
                   {.uid = content->uid(), .resource_version = content->resource_version()}));
  });
}

absl::Status AwaitRemoval(const CallContext& ctx, k8s::ApiClient& api, const SnapshotEntry& entry,
                          bool with_content) {
  absl::Status gone = AwaitNoneOfUid(ctx, api, SnapshotKeyOf(entry), entry.uid);
  if (gone.ok() && with_content && !entry.content_uid.empty()) {
    gone =
        AwaitNoneOfUid(ctx, api, VolumeSnapshotContent::Key("", entry.content), entry.content_uid);
  }
  return absl::IsDeadlineExceeded(gone) ? WithReportOfContent(*ctx.clock, api, entry, gone) : gone;
}

}  // namespace csidelta::snapshots
