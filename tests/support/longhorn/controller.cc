#include "tests/support/longhorn/controller.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "tests/support/longhorn/kinds.h"

namespace csidelta::longhorn_stand_in {
namespace {

constexpr char kNode[] = "node-1";
constexpr char kEngineImage[] = "longhornio/longhorn-engine:v1.12.1";
// Until the followers have the first lists.
constexpr absl::Duration kSyncWaitTime = absl::Milliseconds(100);

// A refusal with 500 is asked again by the client, and here it is tried again anyway.
constexpr absl::Duration kCallTimeMax = absl::Seconds(2);

absl::Status OkIfGone(const absl::Status& status) {
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

// A ticket of a workload, and none of a snapshot's.
bool NeedsFrontend(const std::set<std::string>& tickets) {
  return std::any_of(tickets.begin(), tickets.end(), [](const std::string& ticket) {
    return !absl::StartsWith(ticket, TicketOf(""));
  });
}

absl::Status CorrectFlags(Engine& process, const VolumeRecord& volume, absl::Time now) {
  if (process.snapshot_max_count() != volume.snapshot_max_count) {
    RETURN_IF_ERROR(process.SetSnapshotMaxCount(volume.snapshot_max_count));
  }
  return process.size_bytes() < volume.size_bytes ? process.Expand(volume.size_bytes, now)
                                                  : absl::OkStatus();
}

}  // namespace

Controller::Controller(k8s::ApiClient& api, Engines& engines, const Clock& clock,
                       ControllerOptions options)
    : api_(api),
      processes_(engines),
      clock_(clock),
      options_(std::move(options)),
      snapshots_(options_.namespace_name, ReadSnapshot,
                 [this](const std::string& name, const auto& before, const auto& after) {
                   OnSnapshot(name, before, after);
                 }),
      volumes_(options_.namespace_name, ReadVolume,
               [this](const std::string& name, const auto&, const auto&) { OnVolume(name); }),
      engine_objects_(options_.namespace_name, ReadEngine,
                      [this](const std::string&, const auto& before, const auto& after) {
                        OnEngine(before, after);
                      }),
      attachments_(options_.namespace_name, ReadAttachment,
                   [this](const std::string& name, const auto&, const auto&) { OnVolume(name); }) {}

// --- What changed

void Controller::OnSnapshot(const std::string& name, const std::optional<SnapshotRecord>& before,
                            const std::optional<SnapshotRecord>& after) {
  const std::string volume = after.has_value() ? after->volume : before->volume;
  {
    std::scoped_lock lock(mutex_);
    if (after.has_value()) {
      by_volume_[volume].insert(name);
    } else {
      by_volume_[volume].erase(name);
      new_.erase(name);
    }
    if (!before.has_value() && after->create_snapshot && after->status.creation_time.empty()) {
      new_.insert(name);
    }
  }
  if (after.has_value()) {
    queue_.Add({Part::kSnapshot, name}, Soon());
    return;
  }
  LookAtClonesOf(name);
  if (const auto owner = volumes_.Find(volume); owner.has_value() && owner->is_deleting) {
    queue_.Add({Part::kVolume, volume}, Soon());
  }
}

// All snapshots of the volume when the engine's state or purge changed; else those whose entry did.
void Controller::OnEngine(const std::optional<EngineRecord>& before,
                          const std::optional<EngineRecord>& after) {
  if (!after.has_value()) {
    for (const std::string& name : SnapshotsOf(before->volume)) {
      queue_.Add({Part::kSnapshot, name}, Soon());
    }
    return;
  }
  const EngineRecord old = before.value_or(EngineRecord());
  const bool concerns_all = !before.has_value() || old.is_running != after->is_running ||
                            old.is_purging != after->is_purging;
  std::set<std::string> names;
  if (concerns_all) {
    names = SnapshotsOf(after->volume);
  }
  for (const auto* one : {&old.entries, &after->entries}) {
    const auto& other = one == &old.entries ? after->entries : old.entries;
    for (const auto& [name, entry] : *one) {
      const auto found = other.find(name);
      if (found == other.end() || !(found->second == entry)) {
        names.insert(name);
      }
    }
  }
  names.erase(kVolumeHead);
  for (const std::string& name : names) {
    queue_.Add({Part::kSnapshot, name}, Soon());
  }
  if (concerns_all || !names.empty() || old.snapshots_error != after->snapshots_error) {
    queue_.Add({Part::kEngine, after->volume}, Soon());
  }
}

void Controller::LookAtClonesOf(const std::string& snapshot) {
  const std::string clone = volumes_.FindName([&](const VolumeRecord& volume) {
    return absl::EndsWith(volume.data_source, absl::StrCat("/", snapshot));
  });
  if (!clone.empty()) {
    queue_.Add({Part::kEngine, clone}, Soon());
  }
}

void Controller::OnVolume(const std::string& name) { queue_.Add({Part::kVolume, name}, Soon()); }

std::set<std::string> Controller::SnapshotsOf(const std::string& volume) const {
  std::scoped_lock lock(mutex_);
  const auto found = by_volume_.find(volume);
  return found == by_volume_.end() ? std::set<std::string>() : found->second;
}

bool Controller::TakeNew(const std::string& snapshot) {
  std::scoped_lock lock(mutex_);
  return new_.erase(snapshot) > 0;
}

// All snapshots when the setting of purges changed, as a setting's change queues them.
void Controller::SetSwitches(const Switches& switches) {
  std::scoped_lock lock(mutex_);
  const bool was_disabled = std::exchange(switches_, switches).purge_is_disabled;
  if (was_disabled == switches.purge_is_disabled) {
    return;
  }
  for (const auto& [volume, names] : by_volume_) {
    for (const std::string& name : names) {
      queue_.Add({Part::kSnapshot, name}, Soon());
    }
  }
}

Switches Controller::switches() const {
  std::scoped_lock lock(mutex_);
  return switches_;
}

std::optional<Json> Controller::FindVolume(const std::string& name) const {
  const std::optional<VolumeRecord> volume = volumes_.Find(name);
  if (!volume.has_value()) {
    return std::nullopt;
  }
  return Json{
      {"metadata", {{"name", name}, {"uid", volume->uid}, {"labels", Json(volume->labels)}}}};
}

std::string Controller::VolumeWithLabel(const std::string& key, const std::string& value) const {
  return volumes_.FindName([&](const VolumeRecord& volume) {
    const auto label = volume.labels.find(key);
    return label != volume.labels.end() && label->second == value;
  });
}

int Controller::ShownSnapshots(const std::string& volume) const {
  const std::optional<EngineRecord> engine = engine_objects_.Find(EngineName(volume));
  return engine.has_value()
             ? static_cast<int>(std::count_if(engine->entries.begin(), engine->entries.end(),
                                              [](const auto& one) {
                                                return one.first != kVolumeHead &&
                                                       !one.second.is_removed;
                                              }))
             : 0;
}

// --- Work

absl::Time Controller::Work(const CallContext& ctx) {
  if (!snapshots_.is_synced() || !volumes_.is_synced() || !engine_objects_.is_synced() ||
      !attachments_.is_synced()) {
    return clock_.Now() + kSyncWaitTime;
  }
  while (ctx.Check().ok()) {
    if (const std::optional<WorkKey> volume = monitors_.TakeDue(clock_.Now())) {
      Monitor(ctx, volume->name);
    } else if (const std::optional<WorkKey> key = queue_.TakeDue(clock_.Now())) {
      Handle(ctx, *key);
    } else {
      break;
    }
  }
  return std::min(queue_.next_due(), monitors_.next_due());
}

void Controller::Handle(const CallContext& ctx, const WorkKey& key) {
  const absl::Status status = Reconcile(ctx, key);
  if (status.ok()) {
    queue_.Succeeded(key);
  } else if (absl::IsAborted(status)) {
    queue_.Add(key, Soon());
  } else {
    queue_.AddAfterFailure(key, clock_.Now());
    CSIDELTA_LOG(kDebug, "tried again later", {"name", key.name}, {"status", status.ToString()});
  }
}

absl::Status Controller::Reconcile(const CallContext& ctx, const WorkKey& key) {
  switch (key.part) {
    case Part::kSnapshot:
      return ReconcileSnapshot(ctx, key.name);
    case Part::kVolume:
      return ReconcileVolume(ctx, key.name);
    case Part::kEngine:
      return SyncObjects(ctx, key.name);
    case Part::kMonitor:
      break;
  }
  return absl::OkStatus();
}

// --- Volumes and their engines

absl::Status Controller::ReconcileVolume(const CallContext& ctx, const std::string& name) {
  const std::optional<VolumeRecord> volume = volumes_.Find(name);
  if (!volume.has_value()) {
    return absl::OkStatus();
  }
  if (volume->is_deleting) {
    return DeleteVolume(ctx, *volume);
  }
  RETURN_IF_ERROR(EnsureParts(ctx, *volume));
  RETURN_IF_ERROR(MoveClone(ctx, *volume));
  return MoveProcess(ctx, *volume);
}

absl::Status Controller::EnsureParts(const CallContext& ctx, const VolumeRecord& volume) {
  processes_.Ensure(volume.name, volume.size_bytes);
  const Json owners = Json::array({{{"apiVersion", kApiVersion},
                                    {"kind", "Volume"},
                                    {"name", volume.name},
                                    {"uid", volume.uid}}});
  if (!engine_objects_.Find(EngineName(volume.name)).has_value()) {
    RETURN_IF_ERROR(Create(ctx, EngineType(),
                           {{"metadata",
                             {{"name", EngineName(volume.name)},
                              {"labels", {{kVolumeLabel, volume.name}}},
                              {"ownerReferences", owners}}},
                            {"spec", {{"volumeName", volume.name}, {"image", kEngineImage}}}}));
  }
  if (!attachments_.Find(volume.name).has_value()) {
    RETURN_IF_ERROR(
        Create(ctx, AttachmentType(),
               {{"metadata", {{"name", volume.name}, {"ownerReferences", owners}}},
                {"spec", {{"volume", volume.name}, {"attachmentTickets", Json::object()}}}}));
  }
  return SetFinalizer(ctx, Key(VolumeType(), volume.name), volume.resource_version,
                      volume.finalizers, /*is_wanted=*/true);
}

Controller::Process Controller::Look(const std::string& volume) {
  Process process;
  processes_.Handle(volume, [&](Engine& engine) {
    process = {.is_running = engine.is_running(), .is_faulted = engine.is_faulted()};
  });
  return process;
}

absl::Status Controller::MoveProcess(const CallContext& ctx, const VolumeRecord& volume) {
  const auto attachment = attachments_.Find(volume.name);
  const bool is_wanted =
      attachment.has_value() && !attachment->tickets.empty() && MayAttach(volume);
  const Process process = Look(volume.name);
  if (process.is_faulted) {
    return MoveFaulted(ctx, volume, is_wanted);
  }
  if (process.is_running != is_wanted) {
    const absl::Time now = clock_.Now();
    const absl::Time due =
        moves_.try_emplace(volume.name, now + (is_wanted ? kAttachTime : kDetachTime))
            .first->second;
    if (now < due) {
      queue_.Add({Part::kVolume, volume.name}, due);
      return ShowState(ctx, volume, is_wanted ? "attaching" : "detaching", "unknown");
    }
    processes_.Handle(volume.name,
                      [&](Engine& engine) { is_wanted ? engine.Start() : engine.Stop(); });
  }
  moves_.erase(volume.name);
  if (is_wanted) {
    processes_.Handle(volume.name, [&](Engine& engine) {
      engine.SetFrontend(NeedsFrontend(attachment->tickets));
    });
    monitors_.Add({Part::kMonitor, volume.name}, clock_.Now() + kMonitorInterval);
  }
  RETURN_IF_ERROR(ShowEngine(ctx, volume.name));
  return ShowState(ctx, volume, is_wanted ? "attached" : "detached",
                   is_wanted ? "healthy" : "unknown");
}

absl::Status Controller::MoveFaulted(const CallContext& ctx, const VolumeRecord& volume,
                                     bool is_wanted) {
  const absl::Time now = clock_.Now();
  const absl::Time due = moves_.try_emplace(volume.name, now + kSalvageTime).first->second;
  if (now < due) {
    queue_.Add({Part::kVolume, volume.name}, due);
    RETURN_IF_ERROR(ShowEngine(ctx, volume.name));
    return ShowState(ctx, volume, "detached", "faulted");
  }
  processes_.Handle(volume.name, [&](Engine& engine) {
    engine.Salvage();
    if (is_wanted) {
      engine.Start();
    }
  });
  return MoveProcess(ctx, volume);
}

// Today all snapshots are deleted with the volume, and a refused deletion keeps it. As proposed it
// waits until they were deleted by others.
absl::Status Controller::DeleteVolume(const CallContext& ctx, const VolumeRecord& volume) {
  RETURN_IF_ERROR(ShowState(ctx, volume, "deleting", volume.robustness));
  if (options_.as_proposed && !SnapshotsOf(volume.name).empty()) {
    for (const std::string& name : SnapshotsOf(volume.name)) {
      queue_.Add({Part::kSnapshot, name}, Soon());
    }
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(DeleteSnapshotsOf(ctx, volume.name));
  processes_.Remove(volume.name);
  moves_.erase(volume.name);
  RETURN_IF_ERROR(Delete(ctx, Key(EngineType(), EngineName(volume.name)), ""));
  RETURN_IF_ERROR(Delete(ctx, Key(AttachmentType(), volume.name), ""));
  return SetFinalizer(ctx, Key(VolumeType(), volume.name), volume.resource_version,
                      volume.finalizers, /*is_wanted=*/false);
}

absl::Status Controller::DeleteSnapshotsOf(const CallContext& ctx, const std::string& volume) {
  absl::Status refused;
  for (const std::string& name : SnapshotsOf(volume)) {
    const std::optional<SnapshotRecord> snapshot = snapshots_.Find(name);
    if (snapshot.has_value() && !snapshot->is_deleting) {
      refused.Update(Delete(ctx, Key(SnapshotType(), name), snapshot->uid));
    }
  }
  return refused;
}

absl::Status Controller::ShowState(const CallContext& ctx, const VolumeRecord& volume,
                                   const std::string& state, const std::string& robustness) {
  if (volume.state == state && volume.robustness == robustness) {
    return absl::OkStatus();
  }
  return Merge(ctx, Key(VolumeType(), volume.name),
               {{"status",
                 {{"state", state},
                  {"robustness", robustness},
                  {"currentNodeID", state == "attached" ? kNode : ""}}}},
               "status");
}

// Whether the process runs, and what follows from that; the chain is the monitor's.
absl::Status Controller::ShowEngine(const CallContext& ctx, const std::string& volume) {
  const std::optional<EngineRecord> seen = engine_objects_.Find(EngineName(volume));
  if (!seen.has_value()) {
    return absl::UnavailableError(absl::StrCat("engine ", EngineName(volume), " is not seen yet"));
  }
  EngineRecord engine = *seen;
  engine.is_running = Look(volume).is_running;
  engine.current_image = engine.is_running ? engine.image : "";
  if (engine.is_running == seen->is_running) {
    return absl::OkStatus();
  }
  return ReplaceStatus(ctx, Key(EngineType(), EngineName(volume)), seen->resource_version,
                       StatusJson(engine));
}

// One call. When a flag of the engine cannot be corrected nothing is written.
void Controller::Monitor(const CallContext& ctx, const std::string& volume) {
  const std::optional<VolumeRecord> wanted = volumes_.Find(volume);
  const std::optional<EngineRecord> seen = engine_objects_.Find(EngineName(volume));
  if (!wanted.has_value() || !seen.has_value() || !Look(volume).is_running) {
    return;
  }
  monitors_.Add({Part::kMonitor, volume}, clock_.Now() + kMonitorInterval);
  EngineRecord engine = *seen;
  const absl::Status called = processes_.Call(volume, [&](Engine& process) -> absl::Status {
    process.Advance(clock_.Now());
    RETURN_IF_ERROR(CorrectFlags(process, *wanted, clock_.Now()));
    engine.entries = process.Entries();
    engine.is_purging = process.is_purging();
    engine.size_bytes = process.size_bytes();
    engine.snapshots_error.clear();
    return absl::OkStatus();
  });
  if (!called.ok() || engine == *seen) {
    return;
  }
  if (const absl::Status status = ReplaceStatus(ctx, Key(EngineType(), EngineName(volume)),
                                                seen->resource_version, StatusJson(engine));
      !status.ok()) {
    CSIDELTA_LOG(kDebug, "the monitor could not write", {"volume", volume},
                 {"status", status.ToString()});
  }
}

// Objects without an entry go, entries without an object get one. Whether the engine was ever
// looked at is not known here: an emptied list deletes all.
absl::Status Controller::SyncObjects(const CallContext& ctx, const std::string& volume) {
  const std::optional<VolumeRecord> owner = volumes_.Find(volume);
  const std::optional<EngineRecord> engine = engine_objects_.Find(EngineName(volume));
  if (!owner.has_value() || owner->is_deleting || !engine.has_value() ||
      !engine->snapshots_error.empty()) {
    return absl::OkStatus();
  }
  absl::Status first;
  for (const std::string& name : SnapshotsOf(volume)) {
    const std::optional<SnapshotRecord> snapshot = snapshots_.Find(name);
    if (snapshot.has_value() && !snapshot->is_deleting && !engine->entries.contains(name) &&
        (!snapshot->create_snapshot || !snapshot->status.creation_time.empty())) {
      first.Update(Delete(ctx, Key(SnapshotType(), name), snapshot->uid));
    }
  }
  for (const auto& [name, entry] : engine->entries) {
    if (name != kVolumeHead && !snapshots_.Find(name).has_value()) {
      first.Update(Create(
          ctx, SnapshotType(),
          {{"metadata", {{"name", name}}},
           {"spec", {{"volume", volume}, {"createSnapshot", false}, {"labels", entry.labels}}}}));
    }
  }
  return first;
}

// --- Writes

k8s::ObjectKey Controller::Key(const k8s::ResourceType& type, const std::string& name) const {
  return {type, options_.namespace_name, name};
}

absl::Status Controller::ReplaceStatus(const CallContext& ctx, const k8s::ObjectKey& key,
                                       const std::string& resource_version, const Json& status) {
  const Json patch = Json::array(
      {{{"op", "add"}, {"path", "/metadata/resourceVersion"}, {"value", resource_version}},
       {{"op", "add"}, {"path", "/status"}, {"value", status}}});
  return OkIfGone(
      api_.Patch(ctx.WithTimeout(kCallTimeMax), key, k8s::PatchKind::kJson, patch, "status")
          .status());
}

absl::Status Controller::Merge(const CallContext& ctx, const k8s::ObjectKey& key, const Json& patch,
                               const char* subresource) {
  return OkIfGone(
      api_.Patch(ctx.WithTimeout(kCallTimeMax), key, k8s::PatchKind::kMerge, patch, subresource)
          .status());
}

absl::Status Controller::SetFinalizer(const CallContext& ctx, const k8s::ObjectKey& key,
                                      const std::string& resource_version,
                                      const std::vector<std::string>& finalizers, bool is_wanted) {
  std::vector<std::string> changed = finalizers;
  const auto found = std::find(changed.begin(), changed.end(), kFinalizer);
  if ((found != changed.end()) == is_wanted) {
    return absl::OkStatus();
  }
  if (is_wanted) {
    changed.push_back(kFinalizer);
  } else {
    changed.erase(found);
  }
  const Json patch = Json::array(
      {{{"op", "add"}, {"path", "/metadata/resourceVersion"}, {"value", resource_version}},
       {{"op", "add"}, {"path", "/metadata/finalizers"}, {"value", changed}}});
  return OkIfGone(
      api_.Patch(ctx.WithTimeout(kCallTimeMax), key, k8s::PatchKind::kJson, patch, "").status());
}

absl::Status Controller::Delete(const CallContext& ctx, const k8s::ObjectKey& key,
                                const std::string& uid) {
  const absl::Status status = api_.Delete(ctx.WithTimeout(kCallTimeMax), key, {.uid = uid});
  return absl::IsAborted(status) ? absl::OkStatus() : OkIfGone(status);
}

absl::Status Controller::Create(const CallContext& ctx, const k8s::ResourceType& type, Json object,
                                const char* api_version) {
  object["apiVersion"] = api_version;
  object["kind"] = type.kind;
  const absl::Status status =
      api_.Create(ctx.WithTimeout(kCallTimeMax), type, options_.namespace_name, object).status();
  return absl::IsAlreadyExists(status) ? absl::OkStatus() : status;
}

}  // namespace csidelta::longhorn_stand_in
