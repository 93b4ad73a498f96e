// The steps of one Snapshot: longhorn-manager's snapshot_controller.go, reconcile().

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "tests/support/longhorn/controller.h"
#include "tests/support/longhorn/kinds.h"

namespace csidelta::longhorn_stand_in {
namespace {

constexpr char kLost[] = "lost track of the corresponding snapshot info inside volume engine";

const ChainEntry* EntryOf(const EngineRecord& engine, const std::string& name) {
  const auto entry = engine.entries.find(name);
  return entry == engine.entries.end() ? nullptr : &entry->second;
}

bool IsRemovedNewest(const ChainEntry* entry) {
  return entry != nullptr && entry->is_removed && entry->children.contains(kVolumeHead);
}

std::string Upgrading(const char* what, const EngineRecord& engine) {
  return absl::StrCat("snapshot ", what, " delayed: volume engine ", EngineName(engine.volume),
                      " is upgrading from image ", engine.current_image, " to ", engine.image);
}

}  // namespace

absl::Status Controller::ReconcileSnapshot(const CallContext& ctx, const std::string& name) {
  const std::optional<SnapshotRecord> snapshot = snapshots_.Find(name);
  if (!snapshot.has_value()) {
    return absl::OkStatus();
  }
  const bool is_new = TakeNew(name);
  if (snapshot->is_deleting) {
    return ReconcileDeleted(ctx, *snapshot);
  }
  const std::optional<EngineRecord> engine = engine_objects_.Find(EngineName(snapshot->volume));
  if (!engine.has_value()) {
    return absl::OkStatus();  // Its engine's object will bring it here again.
  }
  if (const ChainEntry* const entry = EntryOf(*engine, name); entry != nullptr) {
    restored_.erase(name);
    // The ticket goes in the sync after the one that shows it as ready.
    const bool is_shown = snapshot->status.is_ready || entry->is_removed;
    RETURN_IF_ERROR(ShowEntry(ctx, *snapshot, *engine, *entry));
    return is_shown ? DropTicket(ctx, *snapshot) : absl::OkStatus();
  }
  if (snapshot->create_snapshot && (is_new || snapshot->status.creation_time.empty())) {
    return RequestSnapshot(ctx, *snapshot, *engine);
  }
  if (restored_.contains(name) && switches().restored_status_end == RestoredStatusEnd::kStays) {
    return absl::OkStatus();  // The monitor shows it before anything is found to be lost.
  }
  RETURN_IF_ERROR(DropTicket(ctx, *snapshot));
  queue_.Add({Part::kEngine, snapshot->volume}, Soon());
  return ShowError(ctx, *snapshot, kLost);
}

bool Controller::WaitsForEngine(const SnapshotRecord& snapshot) {
  const absl::Time until = busy_until_[snapshot.volume];
  if (clock_.Now() < until) {
    queue_.Add({Part::kSnapshot, snapshot.name}, until);
  }
  return clock_.Now() < until;
}

absl::Status Controller::RequestSnapshot(const CallContext& ctx, const SnapshotRecord& snapshot,
                                         const EngineRecord& engine) {
  RETURN_IF_ERROR(EnsureTicket(ctx, snapshot));
  if (!engine.is_running) {
    return ShowError(ctx, snapshot,
                     absl::StrCat("engine ", EngineName(engine.volume),
                                  " is not running. Waiting for the volume to be attached"));
  }
  if (engine.is_upgrading()) {
    queue_.Add({Part::kSnapshot, snapshot.name}, clock_.Now() + kUpgradeWaitTime);
    return ShowError(ctx, snapshot, Upgrading("creation", engine));
  }
  if (WaitsForEngine(snapshot)) {
    return absl::OkStatus();
  }
  // First whether it is there: the list in the engine's object is up to five seconds old.
  bool is_there = false;
  absl::Status called = processes_.Call(engine.volume, [&](Engine& process) {
    is_there = process.Has(snapshot.name);
    return absl::OkStatus();
  });
  if (called.ok() && is_there) {
    return absl::OkStatus();
  }
  const absl::Time requested_at = clock_.Now();
  if (called.ok()) {
    called = processes_.Call(engine.volume, [&](Engine& process) {
      return process.TakeSnapshot(snapshot.name, /*is_user_created=*/true, snapshot.labels,
                                  requested_at);
    });
  }
  if (!called.ok()) {
    queue_.Add({Part::kVolume, engine.volume}, Soon());  // It may have faulted.
    RETURN_IF_ERROR(ShowError(ctx, snapshot, std::string(called.message())));
    return called;
  }
  busy_until_[engine.volume] = requested_at + switches().cut_time;
  const bool is_restored = !snapshot.status.creation_time.empty();
  if (is_restored) {
    restored_.insert(snapshot.name);
  }
  if (is_restored && switches().restored_status_end == RestoredStatusEnd::kReplaced) {
    // Its own write conflicts with that of the restore, so that no deletion asks the engine.
    queue_.Add({Part::kSnapshot, snapshot.name}, Soon());
    return absl::OkStatus();
  }
  return Merge(ctx, Key(SnapshotType(), snapshot.name),
               {{"status", {{"requestedTime", FormatRfc3339Seconds(requested_at)}}}}, "status");
}

absl::Status Controller::ReconcileDeleted(const CallContext& ctx, const SnapshotRecord& snapshot) {
  const std::optional<VolumeRecord> volume = volumes_.Find(snapshot.volume);
  const std::optional<EngineRecord> engine = engine_objects_.Find(EngineName(snapshot.volume));
  const bool volume_is_deleting = volume.has_value() && volume->is_deleting;
  if (!volume.has_value() || (volume_is_deleting && !options_.as_proposed)) {
    return Release(ctx, snapshot);
  }
  if (snapshot.create_snapshot && snapshot.status.requested_time.empty()) {
    return Release(ctx, snapshot);  // Cancelled: none was taken.
  }
  if (!engine.has_value()) {
    return absl::OkStatus();
  }
  const ChainEntry* const entry = EntryOf(*engine, snapshot.name);
  const Switches now = switches();
  if (engine->is_upgrading() && (engine->is_running || !now.attaches_to_delete)) {
    queue_.Add({Part::kSnapshot, snapshot.name}, clock_.Now() + kUpgradeWaitTime);
    return ShowError(ctx, snapshot, Upgrading("deletion", *engine));
  }
  if (IsRemovedNewest(entry) && volume_is_deleting) {
    return Release(ctx, snapshot);  // No newer one will come that lets it be purged.
  }
  if (IsRemovedNewest(entry) || now.purge_is_disabled) {
    RETURN_IF_ERROR(DropTicket(ctx, snapshot));
    return entry == nullptr ? absl::OkStatus() : ShowEntry(ctx, snapshot, *engine, *entry);
  }
  RETURN_IF_ERROR(EnsureTicket(ctx, snapshot));
  if (!engine->is_running) {
    return ShowError(ctx, snapshot,
                     absl::StrCat("failed to delete snapshot because the volume engine ",
                                  EngineName(engine->volume),
                                  " is not running. Will reenqueue and retry later"));
  }
  return RemoveInEngine(ctx, snapshot, *engine, entry);
}

absl::Status Controller::RemoveInEngine(const CallContext& ctx, const SnapshotRecord& snapshot,
                                        const EngineRecord& engine, const ChainEntry* entry) {
  if ((entry == nullptr || !entry->is_removed) && WaitsForEngine(snapshot)) {
    return absl::OkStatus();
  }
  const bool may_purge = processes_.purging_count() < kPurgesMax;
  bool waits = false;
  const absl::Status called = processes_.Call(engine.volume, [&](Engine& process) -> absl::Status {
    process.Advance(clock_.Now());
    if (!process.Has(snapshot.name)) {
      return absl::OkStatus();
    }
    if (!process.IsRemoved(snapshot.name)) {
      RETURN_IF_ERROR(process.RemoveSnapshot(snapshot.name));
      busy_until_[engine.volume] = clock_.Now() + switches().removal_time;
    }
    waits = process.is_purging() || !may_purge;
    return waits ? absl::OkStatus() : process.StartPurge(clock_.Now());
  });
  RETURN_IF_ERROR(called);
  if (entry == nullptr) {
    return Release(ctx, snapshot);
  }
  if (waits) {
    queue_.Add({Part::kSnapshot, snapshot.name}, clock_.Now() + kPurgeWaitTime);
  }
  return ShowEntry(ctx, snapshot, engine, *entry);
}

absl::Status Controller::Release(const CallContext& ctx, const SnapshotRecord& snapshot) {
  RETURN_IF_ERROR(DropTicket(ctx, snapshot));
  return SetFinalizer(ctx, Key(SnapshotType(), snapshot.name), snapshot.resource_version,
                      snapshot.finalizers, /*is_wanted=*/false);
}

absl::Status Controller::ShowEntry(const CallContext& ctx, const SnapshotRecord& snapshot,
                                   const EngineRecord& engine, const ChainEntry& entry) {
  SnapshotStatus status = snapshot.status;
  status.parent = entry.parent;
  status.children = entry.children;
  status.is_removed = entry.is_removed;
  status.is_user_created = entry.is_user_created;
  status.creation_time = FormatRfc3339Seconds(entry.taken_at);
  status.size_bytes = entry.size_bytes;
  status.restore_size_bytes = engine.size_bytes;
  status.labels = entry.labels;
  status.is_ready = !entry.is_removed && !snapshot.is_deleting;
  if (status.requested_time.empty()) {
    status.requested_time = status.creation_time;
  }
  if (status.is_ready) {
    status.error.clear();
  }
  if (status == snapshot.status) {
    return absl::OkStatus();
  }
  return ReplaceStatus(ctx, Key(SnapshotType(), snapshot.name), snapshot.resource_version,
                       StatusJson(status));
}

absl::Status Controller::ShowError(const CallContext& ctx, const SnapshotRecord& snapshot,
                                   const std::string& error) {
  if (snapshot.status.error == error && !snapshot.status.is_ready) {
    return absl::OkStatus();
  }
  return Merge(ctx, Key(SnapshotType(), snapshot.name),
               {{"status", {{"error", error}, {"readyToUse", false}}}}, "status");
}

absl::Status Controller::EnsureTicket(const CallContext& ctx, const SnapshotRecord& snapshot) {
  const std::string ticket = TicketOf(snapshot.name);
  const std::optional<AttachmentRecord> attachment = attachments_.Find(snapshot.volume);
  if (!attachment.has_value() || attachment->tickets.contains(ticket)) {
    return absl::OkStatus();
  }
  return Merge(ctx, Key(AttachmentType(), snapshot.volume),
               {{"spec",
                 {{"attachmentTickets",
                   {{ticket,
                     {{"id", ticket},
                      {"type", "snapshot-controller"},
                      {"nodeID", "node-1"},
                      {"parameters", {{"disableFrontend", "any"}}}}}}}}}},
               "");
}

absl::Status Controller::DropTicket(const CallContext& ctx, const SnapshotRecord& snapshot) {
  const std::string ticket = TicketOf(snapshot.name);
  const std::optional<AttachmentRecord> attachment = attachments_.Find(snapshot.volume);
  if (!attachment.has_value() || !attachment->tickets.contains(ticket)) {
    return absl::OkStatus();
  }
  return Merge(ctx, Key(AttachmentType(), snapshot.volume),
               {{"spec", {{"attachmentTickets", {{ticket, nullptr}}}}}}, "");
}

}  // namespace csidelta::longhorn_stand_in
