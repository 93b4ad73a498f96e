#include "datamover/controller/uninstall.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/human_text.h"
#include "base/status_macros.h"
#include "csi/base_snapshots.h"
#include "csi/deletion_proof.h"
#include "csi/drop.h"
#include "csi/expose/claim_release.h"
#include "csi/expose/exposed_snapshot.h"
#include "csi/group/moved_group.h"
#include "datamover/controller/leftover_reconcilers.h"
#include "datamover/controller/mover_kinds.h"
#include "datamover/keyring.h"
#include "datamover/records/restored_pvcs.h"
#include "datamover/transfer_object.h"
#include "incremental/sources/listing_failure.h"
#include "objects/backup_storage_location.h"
#include "objects/client.h"
#include "objects/core.h"
#include "objects/data_deletion.h"
#include "objects/data_transfer.h"
#include "objects/differential_snapshot.h"
#include "objects/keys.h"
#include "objects/persistent_volume.h"
#include "objects/protected_volume.h"
#include "objects/volume_group_snapshot.h"
#include "objects/volume_snapshot.h"
#include "objects/volume_task.h"
#include "objects/workload.h"
#include "repository/find_repositories.h"
#include "velero/data_reference.h"

namespace csidelta::datamover {
namespace {

// For what drivers and nodes remove.
constexpr absl::Duration kGoneTimeMax = absl::Minutes(2);
// Of a repository below the folder of its cluster: the namespace and the uid of the PVC.
constexpr std::size_t kRepositoryDepth = 2;
constexpr char kGivenUp[] = "the data mover was uninstalled";

std::string FullName(const objects::Object& object) {
  const std::string space = object.namespace_name();
  return absl::StrCat(space, space.empty() ? "" : "/", object.name());
}

UninstallItem MakeItem(const k8s::ResourceType& type, const objects::Object& object,
                       std::string text = "") {
  return {.kind = type.kind, .name = FullName(object), .text = std::move(text)};
}

// A volume snapshot is the mover's from the moment that a DataUpload names it.
absl::Status DropItsSnapshot(const CallContext& ctx, const MoverEnvironment& env,
                             const objects::DataTransfer& object) {
  const absl::StatusOr<objects::DataUpload> upload = objects::DataUpload::Parse(object);
  if (!upload.ok()) {
    return absl::OkStatus();  // It names none.
  }
  const std::string task_name = TaskNameOf("DataUpload", upload->uid());
  return csi::RemoveExposure(ctx, env.api,
                             {.name = task_name,
                              .source_namespace = upload->source_namespace(),
                              .source_snapshot = upload->volume_snapshot(),
                              .mover_namespace = env.mover_namespace,
                              .labels = LabelsFor(task_name, upload->namespace_name())},
                             csi::SnapshotAction::kDelete);
}

absl::Status GiveUp(const CallContext& ctx, const MoverEnvironment& env,
                    const k8s::ResourceType& type, const k8s::ObjectKey& key) {
  ASSIGN_OR_RETURN(std::optional<objects::DataTransfer> object,
                   objects::Find<objects::DataTransfer>(ctx, env.api, key));
  if (!object.has_value()) {
    return absl::OkStatus();
  }
  TransferObject transfer(type, *std::move(object));
  if (!transfer.object().is_over()) {
    if (type == objects::DataUpload::Type()) {
      RETURN_IF_ERROR(DropItsSnapshot(ctx, env, transfer.object()));
    }
    transfer.SetPhase(objects::DataPhase::kCanceled);
    transfer.SetMessage(kGivenUp);
    transfer.SetCompletedAt(ctx.clock->Now());
  }
  transfer.RemoveFinalizer();
  return transfer.Write(ctx, env.api);
}

// With its volume, which no controller looks after any more.
absl::Status DropClaim(const CallContext& ctx, const MoverEnvironment& env,
                       const k8s::ObjectKey& key) {
  RETURN_IF_ERROR(k8s::IgnoreNotFound(env.api.Delete(ctx, key, {})));
  ASSIGN_OR_RETURN(const auto claim,
                   objects::Find<objects::PersistentVolumeClaim>(ctx, env.api, key));
  if (!claim.has_value()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const csi::ClaimDeletion release,
                   csi::FinishClaimDeletion(ctx, env.api, *claim, absl::ZeroDuration()));
  return release.left.empty() ? absl::OkStatus() : absl::FailedPreconditionError(release.left);
}

// The last member of a volume group takes the driver's group along, and the others' contents.
absl::Status DropContent(const CallContext& ctx, const MoverEnvironment& env,
                         const k8s::ObjectKey& key) {
  ASSIGN_OR_RETURN(const auto content,
                   objects::Find<objects::VolumeSnapshotContent>(ctx, env.api, key));
  if (!content.has_value() || content->is_being_deleted()) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(csi::DeleteContent(ctx, env.api, *content));
  if (csi::MovedGroupOf(*content).empty()) {
    return absl::OkStatus();
  }
  return csi::FinalizeMovedGroup(ctx, CsiEnvironmentOf(ctx, env, env.mover_namespace), *content);
}

// Whether a copy of every key in it is confirmed.
bool IsConfirmed(const objects::Secret& secret) {
  const std::string list = secret.Annotation(objects::kConfirmedKeysAnnotation);
  const std::set<std::string> confirmed = absl::StrSplit(list, ',', absl::SkipEmpty());
  const std::map<std::string, std::string> keys = secret.encoded_data();
  return std::all_of(keys.begin(), keys.end(),
                     [&](const auto& key) { return confirmed.contains(key.first); });
}

absl::Status DropKeys(const CallContext& ctx, k8s::ApiClient& api, storage::OpenedStore& opened,
                      const std::string& folder, const k8s::ObjectKey& key,
                      const std::string& uid) {
  ASSIGN_OR_RETURN(const repository::StoredSize left,
                   repository::SizeOfAll(ctx, opened.store(), folder));
  if (left.objects > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(Counted(left.objects, "object"), " still there that need it"));
  }
  return k8s::IgnoreNotFound(api.Delete(ctx, key, {.uid = uid}));
}

// A location whose data of this cluster may go.
struct LocationData {
  std::shared_ptr<storage::OpenedStore> opened;
  std::string address;  // of the folder of all repositories; "" when it is not known
  bool was_listed = false;
  bool had_data = false;
  bool was_elsewhere = false;  // when some of its data was stored
};

class Planner {
 public:
  Planner(const CallContext& ctx, const MoverEnvironment& env, const UninstallRequest& request)
      : ctx_(ctx), env_(env), request_(request), folder_(absl::StrCat(env.cluster, "/")) {}

  absl::StatusOr<UninstallPlan> Plan();

 private:
  using Act = std::function<absl::Status(const CallContext& ctx)>;

  template <typename Kind>
  absl::StatusOr<std::vector<Kind>> List(const k8s::ResourceType& type, absl::string_view space,
                                         const std::string& label_selector = "");

  // Those of all Veleros that are asked for.
  template <typename Kind>
  absl::StatusOr<std::vector<Kind>> ListAsked(const k8s::ResourceType& type = Kind::Type());

  // Managed DataUploads and DataDownloads.
  absl::StatusOr<std::vector<objects::DataTransfer>> Transfers(const k8s::ResourceType& type);

  absl::Status CheckForLeader();
  absl::Status CheckForRunning();

  void Add(UninstallItem item, Act act, std::optional<k8s::ObjectKey> until_gone = std::nullopt) {
    plan_.steps.push_back({std::move(item), std::move(act), std::move(until_gone)});
  }

  // Plain deletion of an unowned object.
  void AddObject(const k8s::ResourceType& type, const objects::Object& object,
                 std::string text = "");
  absl::Status PlanDeletionsAndRecords();
  absl::Status PlanTransfers();

  // Whether it was made for a Velero that is asked for; the others are counted.
  bool IsAskedFor(const objects::Object& object);

  // Tasks, with the volumes, snapshots and Pods of each; then what has lost its task.
  absl::Status PlanTasks();

  // Bases, and contents of uploads that were given up: each with the driver's snapshot.
  absl::Status PlanContents();
  absl::Status PlanRest();
  // How to delete it is said beside it.
  std::string KeptText(const objects::BackupStorageLocation& location) const;
  void PlanDataOf(const objects::BackupStorageLocation& location);
  absl::StatusOr<repository::StoredSize> Measure(const objects::BackupStorageLocation& location,
                                                 LocationData& data);

  // What uploads that the cluster still has stored where their location does not point any more.
  absl::Status AddFormerLocations();
  absl::Status PlanKeys();
  void PlanKeysOf(const KeyringOwner& owner, const objects::Secret& secret);

  // Without the plugin its finalizer is never removed.
  void AddPendingDeletion(const k8s::ResourceType& type, const objects::Object& object) {
    plan_.stays.push_back(MakeItem(type, object, csi::DescribePendingDeletion(type, object)));
  }

  absl::Status AddRemaining();

  const CallContext& ctx_;
  const MoverEnvironment& env_;
  const UninstallRequest& request_;
  const std::string folder_;  // of this cluster, below that of all
  std::string leader_;        // "" when no controller leads
  bool has_idle_lease_ = false;
  std::map<std::string, int> of_others_;  // by the namespace of a Velero that is not asked for
  std::map<std::string, LocationData> locations_;  // by "<velero namespace>/<location>"
  UninstallPlan plan_;
};

absl::StatusOr<UninstallPlan> Planner::Plan() {
  if (!velero::IsUid(env_.cluster)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the uid of the namespace kube-system, \"", env_.cluster,
        "\", is not valid, so the data of this cluster cannot be told from that of others"));
  }
  RETURN_IF_ERROR(CheckForRunning());
  if (!plan_.running.empty()) {
    return std::move(plan_);
  }
  RETURN_IF_ERROR(PlanDeletionsAndRecords());
  RETURN_IF_ERROR(PlanTransfers());
  RETURN_IF_ERROR(PlanTasks());
  RETURN_IF_ERROR(PlanContents());
  RETURN_IF_ERROR(PlanRest());
  ASSIGN_OR_RETURN(const std::vector<objects::BackupStorageLocation> locations,
                   ListAsked<objects::BackupStorageLocation>());
  for (const objects::BackupStorageLocation& location : locations) {
    PlanDataOf(location);
  }
  RETURN_IF_ERROR(AddFormerLocations());
  RETURN_IF_ERROR(PlanKeys());
  RETURN_IF_ERROR(AddRemaining());
  return std::move(plan_);
}

template <typename Kind>
absl::StatusOr<std::vector<Kind>> Planner::List(const k8s::ResourceType& type,
                                                absl::string_view space,
                                                const std::string& label_selector) {
  absl::StatusOr<std::vector<Kind>> list =
      objects::List<Kind>(ctx_, env_.api, type, space, {.label_selector = label_selector});
  if (absl::IsNotFound(list.status())) {
    return std::vector<Kind>();  // The kind is not served any more.
  }
  return list;
}

template <typename Kind>
absl::StatusOr<std::vector<Kind>> Planner::ListAsked(const k8s::ResourceType& type) {
  std::vector<Kind> all;
  for (const std::string& space : request_.velero_namespaces) {
    ASSIGN_OR_RETURN(std::vector<Kind> some, List<Kind>(type, space));
    std::move(some.begin(), some.end(), std::back_inserter(all));
  }
  return all;
}

absl::StatusOr<std::vector<objects::DataTransfer>> Planner::Transfers(
    const k8s::ResourceType& type) {
  ASSIGN_OR_RETURN(std::vector<objects::DataTransfer> all, ListAsked<objects::DataTransfer>(type));
  std::erase_if(all, [](const objects::DataTransfer& transfer) { return !transfer.is_managed(); });
  return all;
}

absl::Status Planner::CheckForLeader() {
  ASSIGN_OR_RETURN(const auto lease, objects::Find<objects::Lease>(
                                         ctx_, env_.api, env_.mover_namespace, kMoverLease));
  if (!lease.has_value()) {
    return absl::OkStatus();
  }
  leader_ = lease->HolderWithin(kLeaseAgeMax, ctx_.clock->Now());
  has_idle_lease_ = leader_.empty();
  return absl::OkStatus();
}

absl::Status Planner::CheckForRunning() {
  RETURN_IF_ERROR(CheckForLeader());
  ASSIGN_OR_RETURN(
      const std::vector<objects::Pod> pods,
      List<objects::Pod>(objects::Pod::Type(), env_.mover_namespace, objects::kMoverTaskLabel));
  for (const objects::Pod& pod : pods) {
    if (pod.is_active()) {
      plan_.running.push_back(MakeItem(objects::Pod::Type(), pod, pod.phase()));
    }
  }
  if (leader_.empty()) {
    return absl::OkStatus();
  }
  for (const k8s::ResourceType* type :
       {&objects::DataUpload::Type(), &objects::DataDownload::Type()}) {
    ASSIGN_OR_RETURN(const std::vector<objects::DataTransfer> transfers, Transfers(*type));
    for (const objects::DataTransfer& transfer : transfers) {
      if (!transfer.is_over()) {
        plan_.running.push_back(MakeItem(*type, transfer, transfer.phase()));
      }
    }
  }
  ASSIGN_OR_RETURN(const std::vector<objects::DataDeletion> deletions,
                   ListAsked<objects::DataDeletion>());
  for (const objects::DataDeletion& deletion : deletions) {
    if (deletion.phase() == objects::DeletionPhase::kInProgress) {
      plan_.running.push_back(MakeItem(objects::DataDeletion::Type(), deletion, "InProgress"));
    }
  }
  return absl::OkStatus();
}

void Planner::AddObject(const k8s::ResourceType& type, const objects::Object& object,
                        std::string text) {
  const k8s::ObjectKey key = {type, object.namespace_name(), object.name()};
  Add(
      MakeItem(type, object, std::move(text)),
      [&api = env_.api, key, uid = object.uid()](const CallContext& ctx) {
        return k8s::IgnoreNotFound(api.Delete(ctx, key, {.uid = uid}));
      },
      key);
}

absl::Status Planner::PlanDeletionsAndRecords() {
  ASSIGN_OR_RETURN(const std::vector<objects::DataDeletion> deletions,
                   ListAsked<objects::DataDeletion>());
  for (const objects::DataDeletion& deletion : deletions) {
    const bool is_done = deletion.phase() == objects::DeletionPhase::kCompleted;
    AddObject(objects::DataDeletion::Type(), deletion,
              is_done || !request_.keep_data ? "" : "is not done: its data stays in the bucket");
  }
  ASSIGN_OR_RETURN(const std::vector<objects::ProtectedVolume> records,
                   ListAsked<objects::ProtectedVolume>());
  for (const objects::ProtectedVolume& record : records) {
    AddObject(objects::ProtectedVolume::Type(), record);
  }
  ASSIGN_OR_RETURN(const auto kept,
                   List<objects::VolumeSnapshotContent>(objects::VolumeSnapshotContent::Type(), "",
                                                        objects::kKeptLabel));
  for (const objects::VolumeSnapshotContent& record : kept) {
    AddObject(objects::VolumeSnapshotContent::Type(), record, "its snapshot stays");
  }
  return absl::OkStatus();
}

absl::Status Planner::PlanTransfers() {
  for (const k8s::ResourceType* type :
       {&objects::DataUpload::Type(), &objects::DataDownload::Type()}) {
    ASSIGN_OR_RETURN(const std::vector<objects::DataTransfer> transfers, Transfers(*type));
    for (const objects::DataTransfer& transfer : transfers) {
      if (transfer.is_over() && !transfer.HasFinalizer(objects::kMoverFinalizer)) {
        continue;
      }
      const k8s::ObjectKey key = {*type, transfer.namespace_name(), transfer.name()};
      Add(MakeItem(*type, transfer,
                   transfer.is_over() ? "loses the finalizer of the data mover"
                                      : "will be marked as canceled, since no controller runs"),
          [&env = env_, type, key](const CallContext& ctx) {
            return GiveUp(ctx, env, *type, key);
          });
    }
  }
  return absl::OkStatus();
}

bool Planner::IsAskedFor(const objects::Object& object) {
  const std::string space = object.Label(objects::kMoverVeleroNamespaceLabel);
  const std::vector<std::string>& asked = request_.velero_namespaces;
  if (space.empty() || std::find(asked.begin(), asked.end(), space) != asked.end()) {
    return true;
  }
  ++of_others_[space];
  return false;
}

absl::Status Planner::PlanTasks() {
  ASSIGN_OR_RETURN(const std::vector<objects::VolumeTask> tasks,
                   List<objects::VolumeTask>(objects::VolumeTask::Type(), env_.mover_namespace));
  for (const objects::VolumeTask& task : tasks) {
    if (!IsAskedFor(task)) {
      continue;
    }
    Add(
        MakeItem(objects::VolumeTask::Type(), task),
        [&env = env_, task](const CallContext& ctx) { return RemoveLeftovers(ctx, env, task); },
        objects::VolumeTask::Key(env_.mover_namespace, task.name()));
  }
  for (const k8s::ResourceType* type :
       {&objects::Pod::Type(), &objects::PersistentVolumeClaim::Type(),
        &objects::VolumeSnapshot::Type(), &objects::Secret::Type()}) {
    ASSIGN_OR_RETURN(const std::vector<objects::Object> all,
                     List<objects::Object>(*type, env_.mover_namespace, objects::kMoverTaskLabel));
    for (const objects::Object& object : all) {
      if (!IsAskedFor(object)) {
        continue;
      }
      if (!object.HasFinalizer(objects::kVolumeFinalizer)) {
        AddObject(*type, object);
        continue;
      }
      const k8s::ObjectKey key = {*type, object.namespace_name(), object.name()};
      Add(
          MakeItem(*type, object),
          [&env = env_, key](const CallContext& ctx) { return DropClaim(ctx, env, key); }, key);
    }
  }
  return absl::OkStatus();
}

absl::Status Planner::PlanContents() {
  std::set<std::string> names;
  for (const std::string& selector :
       {absl::StrCat(objects::kBaseLabel, "=true"), std::string(objects::kMoverTaskLabel)}) {
    ASSIGN_OR_RETURN(
        const std::vector<objects::VolumeSnapshotContent> contents,
        List<objects::VolumeSnapshotContent>(objects::VolumeSnapshotContent::Type(), "", selector));
    for (const objects::VolumeSnapshotContent& content : contents) {
      if (!names.insert(content.name()).second || !IsAskedFor(content)) {
        continue;
      }
      const k8s::ObjectKey key = content.key();
      Add(
          MakeItem(objects::VolumeSnapshotContent::Type(), content,
                   absl::StrCat("snapshot ", content.handle_or_source(), " of driver ",
                                content.driver())),
          [&env = env_, key](const CallContext& ctx) { return DropContent(ctx, env, key); }, key);
    }
  }
  return absl::OkStatus();
}

absl::Status Planner::PlanRest() {
  ASSIGN_OR_RETURN(
      const std::vector<objects::Object> differential,
      List<objects::Object>(objects::DifferentialSnapshot::Type(), env_.mover_namespace));
  for (const objects::Object& object : differential) {
    AddObject(objects::DifferentialSnapshot::Type(), object);
  }
  if (has_idle_lease_) {
    const k8s::ObjectKey key = objects::Lease::Key(env_.mover_namespace, kMoverLease);
    Add({.kind = "Lease", .name = absl::StrCat(env_.mover_namespace, "/", kMoverLease), .text = ""},
        [&api = env_.api, key](const CallContext& ctx) {
          return k8s::IgnoreNotFound(api.Delete(ctx, key, {}));
        });
  }
  return absl::OkStatus();
}

std::string Planner::KeptText(const objects::BackupStorageLocation& location) const {
  return absl::StrCat("what this cluster stored below ", velero::kRepositoryRoot, "/", folder_,
                      " is kept, with its keys",
                      location.is_read_only()
                          ? ""
                          : absl::StrCat("; --delete-data ", env_.cluster,
                                         " deletes it, and with it the data of every backup that "
                                         "this cluster moved, wherever it is restored"));
}

void Planner::PlanDataOf(const objects::BackupStorageLocation& location) {
  UninstallItem item = {
      .kind = "data", .name = absl::StrCat("location ", FullName(location)), .text = ""};
  if (request_.keep_data || location.is_read_only()) {
    item.text =
        request_.keep_data ? KeptText(location) : "stays: the location's access mode is ReadOnly";
    plan_.stays.push_back(std::move(item));
    return;
  }
  LocationData& data = locations_[FullName(location)];
  const absl::StatusOr<repository::StoredSize> holding = Measure(location, data);
  if (!holding.ok()) {
    item.text = absl::StrCat("cannot be looked at: ", holding.status().message());
    Add(std::move(item), [status = holding.status()](const CallContext&) { return status; });
    return;
  }
  data.was_listed = true;
  data.had_data = holding->objects > 0;
  if (!data.had_data) {
    return;
  }
  item.text =
      absl::StrCat(Counted(holding->objects, "object"), " with ", FormatBytes(holding->bytes),
                   " below ", velero::kRepositoryRoot, "/", folder_);
  const bool has_own =
      !ForLocation(env_.settings, location.name()).deletion_credential.name.empty();
  Add(std::move(item), [opened = data.opened, folder = folder_, has_own](const CallContext& ctx) {
    const absl::Status deleted =
        repository::DeleteAll(ctx, opened->store(), folder, kRepositoryDepth);
    return has_own || !absl::IsPermissionDenied(deleted)
               ? deleted
               : absl::PermissionDeniedError(
                     absl::StrCat(deleted.message(),
                                  "; the credentials of the location were used, because the "
                                  "settings of the data mover name no deletionCredential; helm "
                                  "uninstall removes the settings"));
  });
}

absl::StatusOr<repository::StoredSize> Planner::Measure(
    const objects::BackupStorageLocation& location, LocationData& data) {
  RETURN_IF_ERROR(location.Validate());
  ASSIGN_OR_RETURN(
      const RepositoryAccess access,
      OpenLocationAccess(ctx_, env_.api, location,
                         ForLocation(env_.settings, location.name()).deletion_credential));
  ASSIGN_OR_RETURN(std::unique_ptr<storage::OpenedStore> opened, request_.open_store(access));
  data.opened = std::move(opened);
  data.address = access.repository.address;
  return repository::SizeOfAll(ctx_, data.opened->store(), folder_);
}

absl::Status Planner::AddFormerLocations() {
  if (request_.keep_data) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<objects::DataTransfer> uploads,
                   Transfers(objects::DataUpload::Type()));
  std::set<std::string> told;
  for (const objects::DataTransfer& upload : uploads) {
    const std::string address =
        incremental::HarmlessText(upload.Annotation(objects::kAddressAnnotation), {});
    const std::string location =
        absl::StrCat(upload.namespace_name(), "/", upload.storage_location());
    const auto known = locations_.find(location);
    const bool is_looked_at = known == locations_.end() || known->second.address.empty() ||
                              absl::StartsWith(address, known->second.address + "/" + folder_);
    if (address.empty() || is_looked_at) {
      continue;
    }
    known->second.was_elsewhere = true;
    if (told.insert(address).second) {
      plan_.stays.push_back(
          {.kind = "data",
           .name = address,
           .text = absl::StrCat(
               "DataUpload ", FullName(upload), " was stored there, and location ", location,
               " is elsewhere now, or another cluster's data is there, too: it was not looked for; "
               "remove it by hand")});
    }
  }
  return absl::OkStatus();
}

absl::Status Planner::PlanKeys() {
  ASSIGN_OR_RETURN(const std::vector<objects::Secret> secrets,
                   List<objects::Secret>(objects::Secret::Type(), env_.mover_namespace));
  for (const objects::Secret& secret : secrets) {
    const KeyringOwner owner = {
        .velero_namespace = secret.Annotation(objects::kMoverVeleroNamespaceLabel),
        .location = secret.Annotation(objects::kMoverLocationAnnotation)};
    if (!owner.location.empty() && secret.name() == KeyringSecretName(owner)) {
      PlanKeysOf(owner, secret);
    } else if ((absl::StartsWith(secret.name(), kRestoredSecretPrefix) ||
                absl::StartsWith(secret.name(), kAdoptedSecretPrefix)) &&
               IsAskedFor(secret)) {
      AddObject(objects::Secret::Type(), secret);
    }
  }
  return absl::OkStatus();
}

void Planner::PlanKeysOf(const KeyringOwner& owner, const objects::Secret& secret) {
  const std::string location = absl::StrCat(owner.velero_namespace, "/", owner.location);
  const auto known = locations_.find(location);
  const auto stays = [&](absl::string_view why) {
    plan_.stays.push_back(MakeItem(objects::Secret::Type(), secret,
                                   absl::StrCat("keys of location ", location, ": ", why)));
  };
  if (request_.keep_data) {
    stays("csi-delta mover-key export them before the namespace goes");
  } else if (known == locations_.end() || !known->second.was_listed ||
             known->second.was_elsewhere) {
    stays("data that only they open may be left: it was not looked for; delete them by hand");
  } else if (!known->second.had_data && !IsConfirmed(secret)) {
    stays("no data was found there, and no copy is confirmed; delete it by hand");
  } else {
    Add(MakeItem(objects::Secret::Type(), secret, absl::StrCat("keys of location ", location)),
        [&api = env_.api, opened = known->second.opened, folder = folder_,
         key = objects::Secret::Key(env_.mover_namespace, secret.name()), uid = secret.uid()](
            const CallContext& ctx) { return DropKeys(ctx, api, *opened, folder, key, uid); });
  }
}

absl::Status Planner::AddRemaining() {
  for (const auto& [space, count] : of_others_) {
    plan_.stays.push_back(
        {.kind = "namespace",
         .name = space,
         .text = absl::StrCat(count,
                              " things of the Velero there stay: --velero-namespace does "
                              "not name it")});
  }
  if (!leader_.empty()) {
    plan_.stays.push_back({.kind = "controller",
                           .name = leader_,
                           .text = absl::StrCat("runs: helm uninstall csi-delta --namespace ",
                                                env_.mover_namespace)});
  }
  for (const k8s::ResourceType* type :
       {&objects::VolumeSnapshot::Type(), &objects::VolumeSnapshotContent::Type()}) {
    ASSIGN_OR_RETURN(const std::vector<objects::Object> marked,
                     List<objects::Object>(*type, "", objects::kCsiDeltaLabel));
    for (const objects::Object& object : marked) {
      if (csi::IsPendingDeletion(object)) {
        AddPendingDeletion(*type, object);
        continue;
      }
      plan_.stays.push_back(MakeItem(
          *type, object,
          absl::StrCat("belongs to a backup, and has the label ", objects::kCsiDeltaLabel)));
    }
  }
  for (const char* const version : objects::kGroupVersions) {
    const k8s::ResourceType type = objects::VolumeGroupSnapshotContent::kKind.TypeOf(version);
    ASSIGN_OR_RETURN(const std::vector<objects::Object> marked,
                     List<objects::Object>(type, "", objects::kCsiDeltaLabel));
    for (const objects::Object& object : marked) {
      if (csi::IsPendingDeletion(object)) {
        AddPendingDeletion(type, object);
      }
    }
    if (!marked.empty()) {
      break;
    }
  }
  for (const k8s::ResourceType* type : MoverKinds()) {
    const absl::Status served = env_.api.List(ctx_, *type, "", {}).status();
    if (!absl::IsNotFound(served)) {
      RETURN_IF_ERROR(served);
      const std::string name = DefinitionOf(*type).name;
      plan_.stays.push_back({.kind = "CustomResourceDefinition",
                             .name = name,
                             .text = absl::StrCat("kubectl delete crd ", name)});
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UninstallPlan> PlanUninstall(const CallContext& ctx, const MoverEnvironment& env,
                                            const UninstallRequest& request) {
  return Planner(ctx, env, request).Plan();
}

void CarryOut(const CallContext& ctx, k8s::ApiClient& api, const UninstallPlan& plan,
              const UninstallSink& sink) {
  CSIDELTA_CHECK(plan.running.empty());
  std::vector<const UninstallPlan::Step*> awaited;
  for (const UninstallPlan::Step& step : plan.steps) {
    const absl::Status done = step.act(ctx);
    if (done.ok() && step.until_gone.has_value()) {
      awaited.push_back(&step);
    } else {
      sink(step.item, done);
    }
  }
  const CallContext waiting = ctx.WithTimeout(kGoneTimeMax);
  for (const UninstallPlan::Step* step : awaited) {
    const absl::Status gone = objects::WaitFor<objects::Object>(
        waiting, api, *step->until_gone,
        [](const objects::Object* object) -> absl::StatusOr<bool> { return object == nullptr; });
    sink(step->item, absl::IsDeadlineExceeded(gone)
                         ? absl::DeadlineExceededError(
                               "was deleted, but still exists: see its finalizers and events")
                         : k8s::IgnoreNotFound(gone));
  }
}

}  // namespace csidelta::datamover
