#include "snapshots/snapshot_share.h"

#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/retry.h"
#include "csi/snapshot_shares.h"
#include "csi/snapshot_state.h"
#include "k8s/access_review.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "snapshots/promotion.h"
#include "snapshots/snapshot_import.h"

namespace csidelta::snapshots {
namespace {

using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

constexpr int kAnnotateTriesMax = 5;  // while others change the same content

std::string SourceText(const VolumeSnapshot& snapshot) {
  return absl::StrCat("VolumeSnapshot ", snapshot.namespace_name(), "/", snapshot.name());
}

absl::Status CheckShareRequest(const ShareRequest& request) {
  if (request.source_namespace == request.namespace_name) {
    return absl::InvalidArgumentError(absl::StrCat("VolumeSnapshot ", request.snapshot_name,
                                                   " is in namespace ", request.namespace_name,
                                                   " already; name another one with --to"));
  }
  for (const std::string& name : {request.namespace_name, request.name}) {
    if (!k8s::IsObjectName(name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", name,
          "\" is not a name; use lower-case letters, digits, '-' and '.', at most 253"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckShareRights(const CallContext& ctx, k8s::ApiClient& api,
                              const ShareRequest& request) {
  const std::string& there = request.namespace_name;
  return k8s::RequireAccess(
      ctx, api,
      {{{"get", VolumeSnapshot::Type(), request.source_namespace, request.snapshot_name},
        kSnapshotUserRole},
       {{"get", VolumeSnapshot::Type(), there}, kSnapshotUserRole},
       {{"create", VolumeSnapshot::Type(), there}, kSnapshotUserRole},
       {{"delete", VolumeSnapshot::Type(), there}, kSnapshotUserRole},
       {{"get", VolumeSnapshotContent::Type()}, kSnapshotReaderRole},
       {{"create", VolumeSnapshotContent::Type()}, kSnapshotAdminRole},
       {{"patch", VolumeSnapshotContent::Type()}, kSnapshotAdminRole},
       {{"delete", VolumeSnapshotContent::Type()}, kSnapshotAdminRole}});
}

absl::StatusOr<VolumeSnapshotContent> ReadContentOfSource(const CallContext& ctx,
                                                          k8s::ApiClient& api,
                                                          const VolumeSnapshot& source) {
  if (source.bound_content().empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        SourceText(source), " has no VolumeSnapshotContent yet; share it once it is Ready"));
  }
  ASSIGN_OR_RETURN(auto found,
                   objects::Find<VolumeSnapshotContent>(
                       ctx, api, VolumeSnapshotContent::Key("", source.bound_content())));
  if (!found.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat(SourceText(source), " has lost its content ", source.bound_content()));
  }
  return *std::move(found);
}

absl::Status CheckSource(const VolumeSnapshot& source, const VolumeSnapshotContent& content) {
  // Anyone may make a VolumeSnapshot that names the content of another namespace.
  if (!content.Names(source) || content.snapshot_uid() != source.uid()) {
    return absl::FailedPreconditionError(absl::StrCat(
        SourceText(source), " names VolumeSnapshotContent ", content.name(), ", which belongs to ",
        content.snapshot_namespace(), "/", content.snapshot_name(), " (uid ",
        content.snapshot_uid(), "): it is not used"));
  }
  if (const std::string owner = content.Annotation(objects::kSharedFromAnnotation);
      !owner.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        SourceText(source), " shares the snapshot of ", owner, ": share that one instead"));
  }
  const csi::Usability found =
      csi::UsabilityOf(source, {.kind = csi::ContentReading::Kind::kPresent, .content = &content});
  return found.kind == csi::Usability::Kind::kUsable
             ? absl::OkStatus()
             : absl::FailedPreconditionError(
                   absl::StrCat(found.why, "; share it once it is Ready"));
}

// Looks at what is there of the pair.
absl::Status FindBegun(const CallContext& ctx, k8s::ApiClient& api, SharePlan& plan) {
  const StaticPair& pair = plan.pair;
  ASSIGN_OR_RETURN(const auto snapshot,
                   objects::Find<VolumeSnapshot>(
                       ctx, api, VolumeSnapshot::Key(pair.namespace_name, pair.snapshot_name)));
  if (snapshot.has_value()) {
    if (!IsSnapshotOf(*snapshot, pair)) {
      return absl::AlreadyExistsError(
          absl::StrCat(SourceText(*snapshot),
                       snapshot->is_being_deleted() ? " is being deleted" : " exists already",
                       "; give another name with --name"));
    }
    plan.was_begun = true;
  }
  ASSIGN_OR_RETURN(const auto content,
                   objects::Find<VolumeSnapshotContent>(
                       ctx, api, VolumeSnapshotContent::Key("", pair.content_name)));
  if (content.has_value()) {
    const std::string bound_uid = content->snapshot_uid();
    plan.was_begun = true;
    plan.has_leftover =
        content->is_being_deleted() ||
        (!bound_uid.empty() && (!snapshot.has_value() || snapshot->uid() != bound_uid));
  }
  return absl::OkStatus();
}

// Those beside the one of the plan. FAILED_PRECONDITION where there are too many.
absl::StatusOr<std::vector<csi::SharedSnapshot>> ReadOtherShares(const CallContext& ctx,
                                                                 k8s::ApiClient& api,
                                                                 const SharePlan& plan) {
  std::vector<csi::SharedSnapshot> others;
  for (csi::SharedSnapshot& one : csi::SharesOf(plan.content)) {
    if (one.content_name == plan.pair.content_name) {
      continue;
    }
    ASSIGN_OR_RETURN(const bool is_there, csi::IsShareThere(ctx, api, one));
    if (is_there) {
      others.push_back(std::move(one));
    }
  }
  if (std::ssize(others) >= kSharesMax) {
    return absl::FailedPreconditionError(
        absl::StrCat(SourceText(plan.source), " is shared ", others.size(),
                     " times: delete some of those VolumeSnapshots first"));
  }
  return others;
}

// The source says who shares its snapshot before that is there: nothing deletes it from under one.
absl::Status NoteShare(const CallContext& ctx, k8s::ApiClient& api, const SharePlan& plan) {
  absl::Status noted = absl::OkStatus();
  SharePlan current = plan;
  for (int tries = 0; tries < kAnnotateTriesMax; ++tries) {
    ASSIGN_OR_RETURN(std::vector<csi::SharedSnapshot> shares, ReadOtherShares(ctx, api, current));
    shares.push_back({.namespace_name = plan.pair.namespace_name,
                      .name = plan.pair.snapshot_name,
                      .content_name = plan.pair.content_name});
    noted =
        objects::Apply(ctx, api, current.content.key(),
                       objects::Patch()
                           .IfUid(current.content.uid())
                           .IfVersion(current.content.resource_version())
                           .SetAnnotation(objects::kSharedWithAnnotation, csi::SharesText(shares)));
    if (!absl::IsAborted(noted)) {
      return noted;
    }
    ASSIGN_OR_RETURN(current.content, ReadContentOfSource(ctx, api, plan.source));
    RETURN_IF_ERROR(CheckSource(plan.source, current.content));
  }
  return noted;
}

absl::Status RemoveLeftover(const CallContext& ctx, k8s::ApiClient& api, const StaticPair& pair) {
  RETURN_IF_ERROR(RemovePair(ctx, api, pair));
  return objects::WaitFor<VolumeSnapshotContent>(
      ctx, api, VolumeSnapshotContent::Key("", pair.content_name),
      [](const VolumeSnapshotContent* content) -> absl::StatusOr<bool> {
        return content == nullptr;
      });
}

}  // namespace

absl::StatusOr<SharePlan> PlanShare(const CallContext& ctx, k8s::ApiClient& api,
                                    const ShareRequest& given) {
  ShareRequest request = given;
  if (request.name.empty()) {
    request.name = request.snapshot_name;
  }
  RETURN_IF_ERROR(CheckShareRequest(request));
  RETURN_IF_ERROR(CheckShareRights(ctx, api, request));
  ASSIGN_OR_RETURN(
      auto found,
      objects::Find<VolumeSnapshot>(
          ctx, api, VolumeSnapshot::Key(request.source_namespace, request.snapshot_name)));
  if (!found.has_value()) {
    return absl::NotFoundError(absl::StrCat("VolumeSnapshot ", request.source_namespace, "/",
                                            request.snapshot_name,
                                            " does not exist; csi-delta snapshot list -n ",
                                            request.source_namespace, " shows those that do"));
  }
  VolumeSnapshot source = *std::move(found);
  ASSIGN_OR_RETURN(VolumeSnapshotContent content, ReadContentOfSource(ctx, api, source));
  RETURN_IF_ERROR(CheckSource(source, content));
  StaticPair pair = PairBeside(content);
  pair.content_name = csi::SharedContentName(content.uid(), request.namespace_name, request.name);
  pair.namespace_name = request.namespace_name;
  pair.snapshot_name = request.name;
  const std::string owner = absl::StrCat(request.source_namespace, "/", request.snapshot_name);
  pair.content_annotations[objects::kSharedFromAnnotation] = owner;
  pair.snapshot_annotations[objects::kSharedFromAnnotation] = owner;
  SharePlan plan = {
      .pair = std::move(pair), .source = std::move(source), .content = std::move(content)};
  RETURN_IF_ERROR(ReadOtherShares(ctx, api, plan).status());
  RETURN_IF_ERROR(FindBegun(ctx, api, plan));
  return plan;
}

absl::StatusOr<VolumeSnapshot> CarryOutShare(const CallContext& ctx, k8s::ApiClient& api,
                                             const SharePlan& plan) {
  if (plan.has_leftover) {
    RETURN_IF_ERROR(RemoveLeftover(ctx, api, plan.pair));
  }
  RETURN_IF_ERROR(csi::RetryTransient(ctx, [&] { return NoteShare(ctx, api, plan); }));
  RETURN_IF_ERROR(MakePair(ctx, api, plan.pair).status());
  // The process that deleted it meanwhile did not see this one.
  if (const absl::Status there = CheckStillThere(ctx, api, plan.source);
      absl::IsFailedPrecondition(there)) {
    const absl::Status removed = RemovePair(ctx, api, plan.pair);
    return absl::FailedPreconditionError(absl::StrCat(
        there.message(), removed.ok() ? "; what was made is deleted again"
                                      : absl::StrCat("; left behind: VolumeSnapshotContent ",
                                                     plan.pair.content_name)));
  }
  ASSIGN_OR_RETURN(VolumeSnapshot shared, AwaitUsableSnapshot(ctx, api, plan.pair.namespace_name,
                                                              plan.pair.snapshot_name));
  const csi::SnapshotStatus status = csi::StatusOf(shared, {});
  if (!csi::IsUsable(status.state)) {
    return absl::FailedPreconditionError(
        absl::StrCat(SourceText(shared), " is ", ToString(status.state), ": ",
                     status.conditions.front().message, "; csi-delta snapshot delete -n ",
                     shared.namespace_name(), " ", shared.name(), " removes it"));
  }
  return shared;
}

}  // namespace csidelta::snapshots
