#include "snapshots/snapshot_removal.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "csi/drop.h"
#include "csi/retry.h"
#include "csi/snapshot_state.h"
#include "objects/client.h"
#include "objects/event.h"
#include "objects/volume_group_snapshot.h"
#include "objects/volume_snapshot.h"

namespace csidelta::snapshots {
namespace {

using objects::VolumeGroupSnapshot;
using objects::VolumeGroupSnapshotContent;
using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

// Controllers write to these objects, too: one that has changed is read again so many times.
constexpr int kRemovalTriesMax = 5;

// The namespace of the Events of objects that have none.
constexpr char kEventsOfClusterNamespace[] = "default";

k8s::ObjectKey SnapshotKeyOf(const SnapshotEntry& entry) {
  return VolumeSnapshot::Key(entry.namespace_name, entry.name);
}

k8s::ObjectKey ContentKeyOf(const SnapshotEntry& entry) {
  return VolumeSnapshotContent::Key("", entry.content);
}

k8s::ObjectKey GroupKeyOf(const SnapshotEntry& member) {
  return VolumeGroupSnapshot::Key(member.group.version, member.namespace_name, member.group.name);
}

k8s::ObjectKey GroupContentKeyOf(const SnapshotEntry& member) {
  return VolumeGroupSnapshotContent::Key(member.group.version, "", member.group.content);
}

// True if the content names the VolumeSnapshot, by its uid if it gives one, or its group.
bool NamesEntry(const VolumeSnapshotContent& content, const SnapshotEntry& entry) {
  const std::string uid = content.snapshot_uid();
  return content.snapshot_namespace() == entry.namespace_name &&
         content.snapshot_name() == entry.name && (uid.empty() || uid == entry.uid);
}
bool NamesEntry(const VolumeGroupSnapshotContent& content, const SnapshotEntry& member) {
  return content.snapshot_uid() == member.group.uid;
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
template <typename Content>
absl::Status SetPolicyAsRead(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& key,
                             const Content& content, csi::Data data) {
  return csi::SetPolicy(ctx, api, key, data,
                        objects::Patch().IfUid(content.uid()).IfVersion(content.resource_version()))
      .status();
}

// What makes the policies Delete for as long as the VolumeSnapshots are to go.
class ContentPolicy {
 public:
  ContentPolicy(const CallContext& ctx, k8s::ApiClient& api) : ctx_(ctx), api_(api) {}

  // Makes the policies Delete, that of a group first: it takes the rarest right. Remembers the
  // changes so that they can be reverted.
  absl::Status SetDelete(const Unit& unit) {
    if (!unit.front().group.content.empty()) {
      RETURN_IF_ERROR(
          SetDeleteOf<VolumeGroupSnapshotContent>(GroupContentKeyOf(unit.front()), unit.front()));
    }
    for (const SnapshotEntry& entry : unit) {
      if (!entry.content.empty()) {
        RETURN_IF_ERROR(SetDeleteOf<VolumeSnapshotContent>(ContentKeyOf(entry), entry));
      }
    }
    return absl::OkStatus();
  }

  // The content of a VolumeSnapshot that is being deleted, if its policy was changed here.
  absl::Status DeleteBehind(const SnapshotEntry& entry) const {
    if (changed_.empty() || !entry.group.uid.empty()) {
      return absl::OkStatus();
    }
    const absl::Status deleted =
        csi::DeleteContentBehind(ctx_, api_, {.key = ContentKeyOf(entry), .uid = entry.content_uid},
                                 {.key = SnapshotKeyOf(entry), .uid = entry.uid});
    // Most snapshot controllers have seen the policy, and delete it themselves.
    return absl::IsPermissionDenied(deleted)
               ? absl::OkStatus()
               : Annotate(deleted,
                          absl::StrCat("VolumeSnapshot ", entry.name,
                                       " is deleted, but not its content ", entry.content));
  }

  // The VolumeSnapshots stay: so does their data. Also when the call itself was stopped. Returns
  // `reason`, and what went wrong here.
  absl::Status PutBack(absl::Status reason) const {
    const CallContext ctx = csi::CleanUpContext(*ctx_.clock);
    for (const k8s::ObjectKey& key : changed_) {
      const absl::Status put = RepeatAborted([&]() -> absl::Status {
        ASSIGN_OR_RETURN(const auto content, objects::Find<objects::Object>(ctx, api_, key));
        return !content.has_value() || objects::DeletionPolicyOf(*content) == "Retain"
                   ? absl::OkStatus()
                   : SetPolicyAsRead(ctx, api_, key, *content, csi::Data::kRetain);
      });
      if (!put.ok()) {
        const std::string what = absl::StrCat("the policy of ", key.type.kind, " ", key.name,
                                              " is Delete now, and was Retain: ", put.message());
        reason = reason.ok() ? absl::Status(put.code(), what) : Annotate(reason, what);
      }
    }
    return reason;
  }

 private:
  template <typename Content>
  absl::Status SetDeleteOf(const k8s::ObjectKey& key, const SnapshotEntry& entry) {
    return RepeatAborted([&]() -> absl::Status {
      ASSIGN_OR_RETURN(const auto content, objects::Find<Content>(ctx_, api_, key));
      if (!content.has_value()) {
        return absl::OkStatus();
      }
      if (!NamesEntry(*content, entry)) {
        return absl::FailedPreconditionError(absl::StrCat(
            key.type.kind, " ", key.name, " belongs to ", content->snapshot_namespace(), "/",
            content->snapshot_name(), ": nothing was changed"));
      }
      if (content->deletion_policy() != "Retain") {
        return absl::OkStatus();
      }
      changed_.push_back(key);  // Also when the answer is lost.
      return SetPolicyAsRead(ctx_, api_, key, *content, csi::Data::kDelete);
    });
  }

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  std::vector<k8s::ObjectKey> changed_;  // contents whose policy was Retain
};

// Those of the same uids as they are now; none where they are gone.
absl::StatusOr<Unit> ReadAgain(const CallContext& ctx, k8s::ApiClient& api, const Unit& unit,
                               const RemovalRequest& request) {
  InventoryRequest again{.namespace_name = unit.front().namespace_name,
                         .only_names = true,
                         .requires_all = request.requester == csi::Requester::kPrune,
                         .reads_groups = !unit.front().group.uid.empty(),
                         .with_data = request.with_data,
                         .mover_namespace = request.mover_namespace,
                         .now = ctx.clock->Now()};
  std::set<std::string> uids;
  for (const SnapshotEntry& entry : unit) {
    again.names.push_back(entry.name);
    uids.insert(entry.uid);
  }
  ASSIGN_OR_RETURN(Inventory inventory, ReadInventory(ctx, api, again));
  std::erase_if(inventory.entries,
                [&](const SnapshotEntry& now) { return !uids.contains(now.uid); });
  for (const SnapshotEntry& now : inventory.entries) {
    if (now.group.uid != unit.front().group.uid) {
      return absl::FailedPreconditionError(absl::StrCat(
          "VolumeGroupSnapshot ", now.namespace_name, "/", unit.front().group.name,
          " is not there any more, or ", now.name, " is not its member: nothing was deleted"));
    }
  }
  return std::move(inventory.entries);
}

// What keeps any of them; of members each with its PVC.
std::vector<Finding> WhatKeeps(const Unit& unit, csi::Requester requester) {
  std::vector<Finding> all;
  for (const SnapshotEntry& entry : unit) {
    for (Finding one :
         requester == csi::Requester::kPrune ? entry.kept_for : entry.kept_for_person) {
      if (!entry.group.uid.empty()) {
        one.message = absl::StrCat("that of PVC ", entry.pvc, ": ", one.message);
      }
      all.push_back(std::move(one));
    }
  }
  return all;
}

// Of a group the group itself.
absl::Status DeleteUnit(const CallContext& ctx, k8s::ApiClient& api, const Unit& unit) {
  const SnapshotEntry& first = unit.front();
  return first.group.uid.empty()
             ? api.Delete(ctx, SnapshotKeyOf(first),
                          {.uid = first.uid, .resource_version = first.resource_version})
             : api.Delete(
                   ctx, GroupKeyOf(first),
                   {.uid = first.group.uid, .resource_version = first.group.resource_version});
}

// Of a group that goes: a controller of another version does not know its members, and those of an
// imported one have no owner.
absl::Status DeleteMembers(const CallContext& ctx, k8s::ApiClient& api, const Unit& unit) {
  for (const SnapshotEntry& member : unit) {
    if (!member.group.uid.empty()) {
      RETURN_IF_ERROR(
          Annotate(csi::DeleteObject(ctx, api, {.key = SnapshotKeyOf(member), .uid = member.uid}),
                   absl::StrCat("VolumeGroupSnapshot ", member.group.name,
                                " is deleted, but not its member ", member.name)));
    }
  }
  return absl::OkStatus();
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
      absl::StrCat(NameText(key), " is not gone yet", why.empty() ? "" : ": ", why));
}

// What is reported of a content that is being deleted: its error, else the newest warning about it.
// The sidecar only warns of a driver that refuses the deletion. "" where nothing is known.
std::string ReportOfContent(const CallContext& ctx, k8s::ApiClient& api,
                            const SnapshotEntry& entry) {
  const auto content = objects::Find<VolumeSnapshotContent>(ctx, api, ContentKeyOf(entry));
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

// Deletes a content that still says Retain and names the VolumeSnapshot or its group.
template <typename Content>
absl::Status RemoveRetained(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& key,
                            const SnapshotEntry& entry) {
  return RepeatAborted([&]() -> absl::Status {
    ASSIGN_OR_RETURN(const auto content, objects::Find<Content>(ctx, api, key));
    if (!content.has_value() || content->deletion_policy() != "Retain" ||
        !NamesEntry(*content, entry)) {
      return absl::OkStatus();
    }
    // With the resourceVersion, so that the policy is still Retain when it goes.
    return k8s::IgnoreNotFound(api.Delete(
        ctx, key, {.uid = content->uid(), .resource_version = content->resource_version()}));
  });
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
  const bool by_group = !entry.group.content.empty();
  using Kind = csi::ContentReading::Kind;
  switch (by_group && entry.content_kind == Kind::kPresent ? entry.group.content_kind
                                                           : entry.content_kind) {
    case Kind::kUnknown:
      return DataAction::kUnknown;
    case Kind::kGone:
      return DataAction::kContentGone;
    case Kind::kPresent:
      break;
  }
  if (!entry.is_named_by_content) {
    return DataAction::kNotItsOwn;
  }
  const std::string& policy = by_group ? entry.group.deletion_policy : entry.deletion_policy;
  return with_data || policy != "Retain" ? DataAction::kDeleted : DataAction::kKept;
}

DataAction ActionOf(const Unit& unit, bool with_data) {
  DataAction action = DataAction::kDeleted;
  for (std::size_t i = 0; i < unit.size() && action == DataAction::kDeleted; ++i) {
    action = ActionOf(unit[i], with_data);
  }
  return action;
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
    one.unit = {inventory.entries[i]};
    const SnapshotEntry& entry = one.unit.front();
    one.kept_for = entry.kept_for_person;
    if (options.last_too) {
      std::erase_if(one.kept_for, IsLastReady);
    }
    if (IsBeingDeleted(entry) && !options.with_data) {
      one.verdict = RemovalVerdict::kBeingDeleted;
      one.kept_for.clear();
    } else if (!one.kept_for.empty()) {
      one.verdict = RemovalVerdict::kProtected;
    }
    goes[i] = one.verdict == RemovalVerdict::kDelete;
    plan.push_back(std::move(one));
  }
  for (SparedEntry& spared : SparedOf(inventory.entries, std::move(goes),
                                      !options.last_too && inventory.is_last_ready_known)) {
    const auto found = std::find(chosen.begin(), chosen.end(), spared.entry);
    PlannedRemoval& one = plan[static_cast<std::size_t>(found - chosen.begin())];
    one.verdict = RemovalVerdict::kProtected;
    one.kept_for = {std::move(spared.why)};
  }
  plan = JoinGroups<PlannedRemoval>(std::move(plan), [](const PlannedRemoval& one) {
    return one.verdict == RemovalVerdict::kDelete;
  });
  for (PlannedRemoval& one : plan) {
    one.action = ActionOf(one.unit, options.with_data);
  }
  return plan;
}

absl::StatusOr<Removal> RemoveAsRead(const CallContext& ctx, k8s::ApiClient& api, const Unit& unit,
                                     const RemovalRequest& request) {
  CSIDELTA_CHECK(!unit.empty());
  const bool is_group = !unit.front().group.uid.empty();
  Unit current = unit;
  ContentPolicy policy(ctx, api);
  absl::Status deleted = absl::OkStatus();
  for (int tries = 0; tries < kRemovalTriesMax; ++tries) {
    if (is_group || tries > 0) {
      absl::StatusOr<Unit> again = ReadAgain(ctx, api, unit, request);
      if (!again.ok()) {
        return policy.PutBack(again.status());
      }
      if (again->empty()) {
        RETURN_IF_ERROR(policy.DeleteBehind(current.front()));
        return Removal{.end = Removal::End::kGone, .kept_for = {}};
      }
      current = *std::move(again);
      if (std::vector<Finding> kept_for = WhatKeeps(current, request.requester);
          !kept_for.empty()) {
        RETURN_IF_ERROR(policy.PutBack(absl::OkStatus()));
        return Removal{.end = Removal::End::kKept, .kept_for = std::move(kept_for)};
      }
    }
    if (request.with_data) {
      if (absl::Status set = policy.SetDelete(current); !set.ok()) {
        return policy.PutBack(set);
      }
    }
    deleted = DeleteUnit(ctx, api, current);
    if (deleted.ok() || absl::IsNotFound(deleted)) {
      RETURN_IF_ERROR(DeleteMembers(ctx, api, current));
      RETURN_IF_ERROR(policy.DeleteBehind(current.front()));
      return Removal{.end = deleted.ok() ? Removal::End::kRequested : Removal::End::kGone,
                     .kept_for = {}};
    }
    if (!absl::IsAborted(deleted)) {
      return policy.PutBack(deleted);
    }
  }
  return policy.PutBack(absl::AbortedError(
      absl::StrCat(is_group ? "" : "VolumeSnapshot ", unit.front().namespace_name, "/",
                   ShownName(unit), " changes again and again: ", deleted.message())));
}

absl::Status RemoveKeptContent(const CallContext& ctx, k8s::ApiClient& api,
                               const SnapshotEntry& entry) {
  RETURN_IF_ERROR(AwaitNoneOfUid(ctx, api, SnapshotKeyOf(entry), entry.uid));
  RETURN_IF_ERROR(RemoveRetained<VolumeSnapshotContent>(ctx, api, ContentKeyOf(entry), entry));
  if (entry.group.content.empty()) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(AwaitNoneOfUid(ctx, api, GroupKeyOf(entry), entry.group.uid));
  return RemoveRetained<VolumeGroupSnapshotContent>(ctx, api, GroupContentKeyOf(entry), entry);
}

std::vector<std::string> RemoveKeptContents(const CallContext& ctx, k8s::ApiClient& api,
                                            const Unit& unit) {
  std::vector<std::string> staying;
  for (const SnapshotEntry& entry : unit) {
    const absl::Status removed = ActionOf(entry, /*with_data=*/false) == DataAction::kKept
                                     ? RemoveKeptContent(ctx, api, entry)
                                     : absl::OkStatus();
    if (!removed.ok() && !absl::IsCancelled(removed)) {
      staying.push_back(absl::StrCat(
          "VolumeSnapshotContent ", entry.content, " of ", ShownName(entry),
          " stays, and must go before its handle can be imported: ", removed.message()));
    }
  }
  return staying;
}

absl::Status AwaitRemoval(const CallContext& ctx, k8s::ApiClient& api, const SnapshotEntry& entry,
                          bool with_content) {
  absl::Status gone = entry.group.uid.empty()
                          ? absl::OkStatus()
                          : AwaitNoneOfUid(ctx, api, GroupKeyOf(entry), entry.group.uid);
  if (gone.ok()) {
    gone = AwaitNoneOfUid(ctx, api, SnapshotKeyOf(entry), entry.uid);
  }
  if (gone.ok() && with_content && !entry.content_uid.empty()) {
    gone = AwaitNoneOfUid(ctx, api, ContentKeyOf(entry), entry.content_uid);
  }
  return absl::IsDeadlineExceeded(gone) ? WithReportOfContent(*ctx.clock, api, entry, gone) : gone;
}

}  // namespace csidelta::snapshots
