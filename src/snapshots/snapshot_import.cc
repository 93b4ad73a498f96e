#include "snapshots/snapshot_import.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/crypto.h"
#include "base/json_text.h"
#include "base/status_macros.h"
#include "csi/expose/snapshot_secrets.h"
#include "csi/snapshot_lifecycle.h"
#include "csi/snapshot_need.h"
#include "k8s/access_review.h"
#include "k8s/object.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "snapshots/static_pair.h"

namespace csidelta::snapshots {
namespace {

using csi::StaticContent;
using objects::VolumeSnapshot;
using objects::VolumeSnapshotClass;
using objects::VolumeSnapshotContent;

// A byte that is in no driver's name keeps two pairs apart.
std::string ImportHash(absl::string_view driver, absl::string_view handle) {
  return Sha256Hex(absl::StrCat(driver, "\n", handle)).substr(0, csi::kNameHashBytes);
}

absl::Status CheckImportRequest(const StaticContent& request) {
  if (!k8s::IsObjectName(request.driver)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", request.driver,
                     "\" is not the name of a CSI driver; kubectl get "
                     "csidrivers lists them"));
  }
  // An object can hold UTF-8 only.
  if (request.handle.empty() || !IsUtf8(request.handle)) {
    return absl::InvalidArgumentError(
        "the handle is empty or not UTF-8; give it as the driver calls the snapshot");
  }
  if (!k8s::IsObjectName(request.snapshot_name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", request.snapshot_name,
                     "\" is not a name for a VolumeSnapshot; use lower-case letters, "
                     "digits, '-' and '.', at most 253"));
  }
  return absl::OkStatus();
}

absl::Status CheckImportRights(const CallContext& ctx, k8s::ApiClient& api,
                               const StaticContent& request) {
  std::vector<k8s::NeededRight> rights = {
      {{"list", VolumeSnapshotContent::Type()}, kSnapshotAdminRole},
      {{"create", VolumeSnapshotContent::Type()}, kSnapshotAdminRole},
      {{"create", VolumeSnapshot::Type(), request.snapshot_namespace}, kSnapshotAdminRole}};
  if (request.deletion_policy == "Delete") {
    rights.push_back({{"patch", VolumeSnapshotContent::Type()}, kSnapshotAdminRole});
  }
  return k8s::RequireAccess(ctx, api, rights);
}

// The annotations that name the Secret of the class: the sidecar needs them to delete the snapshot.
std::map<std::string, std::string> SecretAnnotations(const VolumeSnapshotClass& snapshot_class,
                                                     const StaticContent& pair) {
  const auto fill = [&](const std::string& text) {
    return absl::StrReplaceAll(text, {{"${volumesnapshot.name}", pair.snapshot_name},
                                      {"${volumesnapshot.namespace}", pair.snapshot_namespace},
                                      {"${volumesnapshotcontent.name}", pair.name}});
  };
  const csi::SecretName written = csi::SnapshotterSecretOf(snapshot_class);
  const std::string name = fill(written.name);
  const std::string space = fill(written.namespace_name);
  if (name.empty() || space.empty() || absl::StrContains(name, "${") ||
      absl::StrContains(space, "${")) {
    return {};
  }
  return {{objects::kDeletionSecretNameAnnotation, name},
          {objects::kDeletionSecretNamespaceAnnotation, space}};
}

absl::Status ReadImportClass(const CallContext& ctx, k8s::ApiClient& api, StaticContent& pair) {
  if (pair.class_name.empty()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const auto found,
                   objects::Find<VolumeSnapshotClass>(ctx, api, "", pair.class_name));
  if (!found.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("VolumeSnapshotClass ", pair.class_name, " does not exist"));
  }
  const std::string driver = found->driver();
  if (driver != pair.driver) {
    return absl::FailedPreconditionError(absl::StrCat("VolumeSnapshotClass ", pair.class_name,
                                                      " is of driver ", driver, ", the handle of ",
                                                      pair.driver));
  }
  pair.annotations = SecretAnnotations(*found, pair);
  return absl::OkStatus();
}

// The content that the handle has already, or that has the name which this run would use.
absl::StatusOr<std::optional<VolumeSnapshotContent>> FindContentOfHandle(
    const CallContext& ctx, k8s::ApiClient& api, const StaticContent& pair) {
  std::optional<VolumeSnapshotContent> found;
  const auto look = [&](VolumeSnapshotContent content) {
    const bool is_of_handle =
        content.driver() == pair.driver &&
        (content.handle_or_source() == pair.handle || content.source_handle() == pair.handle);
    // One of another run counts whatever else there is.
    if (is_of_handle && (!found.has_value() || IsContentOf(*found, pair))) {
      found = std::move(content);
    }
  };
  RETURN_IF_ERROR(objects::ReadPages<VolumeSnapshotContent>(
      ctx, api, VolumeSnapshotContent::Type(), "", {},
      objects::ForEach<VolumeSnapshotContent>([&] { found.reset(); }, look)));
  return found;
}

// What to do about a content that the handle has. One that nothing uses may go, where it is of no
// backup or transfer: those have labels.
absl::StatusOr<std::string> StepForTaken(const CallContext& ctx, k8s::ApiClient& api,
                                         const VolumeSnapshotContent& content) {
  std::map<std::string, std::string> labels = content.labels();
  labels.erase(objects::kMadeByLabel);
  labels.erase(objects::kImportPolicyLabel);
  if (!content.is_retained() || content.is_being_deleted() || !labels.empty()) {
    return "use that one, or remove it first";
  }
  ASSIGN_OR_RETURN(const auto user, csi::FindSnapshotOf(ctx, api, content));
  return user.has_value()
             ? "use that one, or remove it first"
             : absl::StrCat(
                   "that VolumeSnapshot does not exist: kubectl delete "
                   "volumesnapshotcontent ",
                   content.name(), " leaves the snapshot in the storage, then run this again");
}

}  // namespace

std::string ImportName(absl::string_view driver, absl::string_view handle) {
  return absl::StrCat("imported-", ImportHash(driver, handle));
}

std::string ImportContentName(absl::string_view driver, absl::string_view handle) {
  return absl::StrCat("csi-delta-imported-", ImportHash(driver, handle));
}

absl::StatusOr<ImportPlan> PlanImport(const CallContext& ctx, k8s::ApiClient& api,
                                      StaticContent request) {
  if (request.snapshot_name.empty()) {
    request.snapshot_name = ImportName(request.driver, request.handle);
  }
  RETURN_IF_ERROR(CheckImportRequest(request));
  RETURN_IF_ERROR(CheckImportRights(ctx, api, request));
  request.name = ImportContentName(request.driver, request.handle);
  ImportPlan plan = {.pair = std::move(request), .was_begun = false};
  RETURN_IF_ERROR(ReadImportClass(ctx, api, plan.pair));
  ASSIGN_OR_RETURN(const std::optional<VolumeSnapshotContent> content,
                   FindContentOfHandle(ctx, api, plan.pair));
  if (content.has_value()) {
    if (!IsContentOf(*content, plan.pair)) {
      ASSIGN_OR_RETURN(const std::string step, StepForTaken(ctx, api, *content));
      return absl::AlreadyExistsError(absl::StrCat(TakenText(*content), "; ", step));
    }
    plan.was_begun = true;
  }
  const k8s::ObjectKey key =
      VolumeSnapshot::Key(plan.pair.snapshot_namespace, plan.pair.snapshot_name);
  ASSIGN_OR_RETURN(const auto there, objects::Find<VolumeSnapshot>(ctx, api, key));
  if (there.has_value()) {
    if (!IsSnapshotOf(*there, plan.pair)) {
      return absl::AlreadyExistsError(absl::StrCat("VolumeSnapshot ", key.namespace_name, "/",
                                                   key.name,
                                                   " exists already; give another with --name"));
    }
    plan.was_begun = true;
  }
  return plan;
}

absl::StatusOr<VolumeSnapshot> CarryOutImport(const CallContext& ctx, k8s::ApiClient& api,
                                              const ImportPlan& plan) {
  ASSIGN_OR_RETURN(VolumeSnapshot snapshot, MakePair(ctx, api, plan.pair));
  if (plan.pair.deletion_policy == "Delete") {
    RETURN_IF_ERROR(RetainNoMore(ctx, api, plan.pair));
  }
  return snapshot;
}

}  // namespace csidelta::snapshots
