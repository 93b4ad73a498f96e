#include "snapshots/snapshot_watch.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <stop_token>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "k8s/access_review.h"
#include "k8s/informer.h"
#include "objects/client.h"
#include "objects/event_handler.h"
#include "snapshots/snapshot_import.h"

namespace csidelta::snapshots {
namespace {

using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

constexpr char kViewRole[] = "csi-delta-snapshot-viewer";
constexpr std::size_t kSeenMax = 32;  // resourceVersions of one that are remembered

std::array<bool, 5> ProgressOf(const SnapshotMark& mark) {
  return {mark.is_being_deleted, mark.is_ready, mark.is_taken, mark.has_error, mark.is_bound};
}

// As far as an entry says it: less than the VolumeSnapshot itself, never more.
SnapshotMark MarkOfEntry(const SnapshotEntry& entry) {
  const csi::SnapshotState state = entry.status.state;
  const std::string reason =
      entry.status.conditions.empty() ? "" : entry.status.conditions.front().reason;
  return {.resource_version = entry.resource_version,
          .written_at = std::nullopt,
          .is_being_deleted = state == csi::SnapshotState::kDeleting,
          .is_ready = csi::IsUsable(state),
          .is_taken = false,
          .has_error = reason == "Refused" || reason == "Retried",
          .is_bound = !entry.content.empty()};
}

class SnapshotEventHandler;

// Contents, for the VolumeSnapshots that name them.
class ContentEventHandler : public objects::EventHandler<VolumeSnapshotContent> {
 public:
  explicit ContentEventHandler(SnapshotEventHandler& snapshots) : snapshots_(snapshots) {}

  bool Holds(const k8s::ObjectId& id) const override;

 private:
  void OnChanged(const VolumeSnapshotContent& content) override;
  void OnDeleted(const k8s::ObjectId& id, const VolumeSnapshotContent* last) override;

  SnapshotEventHandler& snapshots_;
};

class SnapshotEventHandler : public objects::EventHandler<VolumeSnapshot> {
 public:
  SnapshotEventHandler(const CallContext& ctx, k8s::ApiClient& api,
                       const SnapshotWatchRequest& request,
                       const std::function<bool(const SnapshotChange& change)>& sink,
                       const std::function<void(const std::string& sentence)>& note,
                       std::stop_source& stop);
  bool has_ended() const;

  k8s::Informer& snapshots() { return snapshots_; }

  // --- Contents, of all namespaces

  k8s::Informer& contents() { return contents_; }
  bool Uses(const std::string& content) const;
  // `version`: "" for one that is gone.
  void OnContent(const std::string& content, const std::string& version);

  // Told once, of whatever may not be done.
  void AddContents(const std::string& what, const absl::Status& status);

 private:
  struct Known {
    SnapshotMark mark;
    std::vector<std::string> seen;  // resourceVersions
    SnapshotEntry entry;
  };

  void OnChanged(const VolumeSnapshot& snapshot) override;
  void OnDeleted(const k8s::ObjectId& id, const VolumeSnapshot* last) override;

  void NoteContentsLocked(const std::string& what, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsGone(const std::string& uid) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReportGone(const std::string& uid) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // `is_newest`: it was read as it is now, and what is around it may have changed alone.
  void Take(const VolumeSnapshot& snapshot, bool is_newest = false)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Reads a VolumeSnapshot that did not change itself, and its content. A deletion is reported only
  // by the event of the VolumeSnapshot.
  void Reread(const std::string& uid) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetEntry(Known& known, SnapshotEntry entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetContent(const SnapshotEntry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  SnapshotEntry EntryNow(const VolumeSnapshot& snapshot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Report(const SnapshotChange& change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const SnapshotWatchRequest& request_;
  const std::function<bool(const SnapshotChange& change)>& sink_;
  const std::function<void(const std::string& sentence)>& note_;
  std::stop_source& stop_;
  k8s::Informer snapshots_;
  ContentEventHandler content_handler_;
  k8s::Informer contents_;
  mutable Mutex mutex_;  // contents are followed by a thread of their own
  std::map<std::string, Known> known_ ABSL_GUARDED_BY(mutex_);  // by uid
  std::map<std::string, std::set<std::string>> uids_of_content_
      ABSL_GUARDED_BY(mutex_);                          // by the name of the content
  std::set<std::string> gone_ ABSL_GUARDED_BY(mutex_);  // uids
  bool may_read_contents_ ABSL_GUARDED_BY(mutex_) = true;
  bool has_noted_contents_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;  // the sink has had enough
};

SnapshotEventHandler::SnapshotEventHandler(
    const CallContext& ctx, k8s::ApiClient& api, const SnapshotWatchRequest& request,
    const std::function<bool(const SnapshotChange& change)>& sink,
    const std::function<void(const std::string& sentence)>& note, std::stop_source& stop)
    : ctx_(ctx),
      api_(api),
      request_(request),
      sink_(sink),
      note_(note),
      stop_(stop),
      snapshots_({.type = VolumeSnapshot::Type(),
                  .namespace_name = request.namespace_name,
                  .label_selector = request.label_selector},
                 {this}),
      content_handler_(*this),
      contents_({.type = VolumeSnapshotContent::Type()}, {&content_handler_}) {
  const MutexLock lock(mutex_);
  for (const SnapshotEntry& entry : request.known) {
    Known& known = known_[entry.uid];
    known.mark = MarkOfEntry(entry);
    known.seen = {entry.resource_version};
    SnapshotEntry copy = entry;
    copy.used_by.clear();
    copy.kept_for.clear();
    SetEntry(known, std::move(copy));
    snapshots_.Expect({entry.namespace_name, entry.name, entry.uid});
  }
}

bool SnapshotEventHandler::has_ended() const {
  const MutexLock lock(mutex_);
  return has_ended_;
}

void SnapshotEventHandler::OnChanged(const VolumeSnapshot& snapshot) {
  const MutexLock lock(mutex_);
  Take(snapshot);
}

void SnapshotEventHandler::OnDeleted(const k8s::ObjectId& id, const VolumeSnapshot* last) {
  const MutexLock lock(mutex_);
  // With labels it may only have lost one; and a list that is not the newest may lack it.
  if ((last != nullptr && request_.label_selector.empty()) || IsGone(id.uid)) {
    ReportGone(id.uid);
  } else if (known_.contains(id.uid)) {
    snapshots_.Expect(id);
  }
}

bool SnapshotEventHandler::Uses(const std::string& content) const {
  const MutexLock lock(mutex_);
  return uids_of_content_.contains(content);
}

void SnapshotEventHandler::OnContent(const std::string& content, const std::string& version) {
  const MutexLock lock(mutex_);
  const auto found = uids_of_content_.find(content);
  if (found == uids_of_content_.end()) {
    return;
  }
  const std::set<std::string> uids = found->second;
  for (const std::string& uid : uids) {
    if (version.empty() || known_.at(uid).entry.content_resource_version != version) {
      Reread(uid);
    }
  }
}

void SnapshotEventHandler::AddContents(const std::string& what, const absl::Status& status) {
  const MutexLock lock(mutex_);
  NoteContentsLocked(what, status);
}

void SnapshotEventHandler::NoteContentsLocked(const std::string& what, const absl::Status& status) {
  if (!std::exchange(has_noted_contents_, true)) {
    note_(absl::StrCat(what, " not checked: ", status.message()));
  }
}

bool SnapshotEventHandler::IsGone(const std::string& uid) {
  const auto found = known_.find(uid);
  if (found == known_.end()) {
    return false;
  }
  const SnapshotEntry& entry = found->second.entry;
  const auto now = objects::Find<VolumeSnapshot>(ctx_, api_, entry.namespace_name, entry.name);
  return now.ok() && (!now->has_value() || (*now)->uid() != uid);
}

void SnapshotEventHandler::ReportGone(const std::string& uid) {
  gone_.insert(uid);
  if (const auto found = known_.find(uid); found != known_.end()) {
    ForgetContent(found->second.entry);
    const SnapshotChange change{.entry = std::move(found->second.entry), .is_gone = true};
    known_.erase(found);
    Report(change);
  }
}

void SnapshotEventHandler::Take(const VolumeSnapshot& snapshot, bool is_newest) {
  if (has_ended_ || gone_.contains(snapshot.uid())) {
    return;
  }
  SnapshotMark mark = MarkOf(snapshot);
  const auto [place, is_new] = known_.try_emplace(snapshot.uid());
  Known& known = place->second;
  if (!is_new && !is_newest && IsOlder(mark, known.mark, known.seen)) {
    return;
  }
  known.seen.push_back(mark.resource_version);
  if (known.seen.size() > kSeenMax) {
    known.seen.erase(known.seen.begin());
  }
  known.mark = std::move(mark);
  SnapshotEntry entry = EntryNow(snapshot);
  const bool differs = is_new || !ReadsAlike(entry, known.entry);
  SetEntry(known, std::move(entry));
  if (differs) {
    Report({.entry = known.entry, .is_gone = false});
  }
}

void SnapshotEventHandler::Reread(const std::string& uid) {
  const SnapshotEntry& entry = known_.at(uid).entry;
  const auto now = objects::Find<VolumeSnapshot>(ctx_, api_, entry.namespace_name, entry.name);
  if (now.ok() && now->has_value() && (*now)->uid() == uid) {
    Take(**now, /*is_newest=*/true);
  }
}

void SnapshotEventHandler::SetEntry(Known& known, SnapshotEntry entry) {
  ForgetContent(known.entry);
  if (!entry.content.empty()) {
    uids_of_content_[entry.content].insert(entry.uid);
    if (entry.content_kind == csi::ContentReading::Kind::kPresent) {
      contents_.Expect({"", entry.content, ""});
    }
  }
  known.entry = std::move(entry);
}

void SnapshotEventHandler::ForgetContent(const SnapshotEntry& entry) {
  const auto found = uids_of_content_.find(entry.content);
  if (found != uids_of_content_.end() && found->second.erase(entry.uid) > 0 &&
      found->second.empty()) {
    uids_of_content_.erase(found);
  }
}

SnapshotEntry SnapshotEventHandler::EntryNow(const VolumeSnapshot& snapshot) {
  const std::string name = snapshot.bound_content();
  if (name.empty() || !may_read_contents_) {
    return EntryOf(snapshot, {});
  }
  const auto found = objects::Find<VolumeSnapshotContent>(ctx_, api_, "", name);
  if (absl::IsPermissionDenied(found.status())) {
    may_read_contents_ = false;
    NoteContentsLocked("binding, driver and handle", found.status());
  }
  if (!found.ok()) {
    return EntryOf(snapshot, {});
  }
  if (!found->has_value()) {
    return EntryOf(snapshot, {.kind = csi::ContentReading::Kind::kGone});
  }
  return EntryOf(snapshot, {.kind = csi::ContentReading::Kind::kPresent, .content = &**found});
}

void SnapshotEventHandler::Report(const SnapshotChange& change) {
  if (!has_ended_ && !sink_(change)) {
    has_ended_ = true;
    stop_.request_stop();
  }
}

void ContentEventHandler::OnChanged(const VolumeSnapshotContent& content) {
  snapshots_.OnContent(content.name(), content.resource_version());
}

void ContentEventHandler::OnDeleted(const k8s::ObjectId& id,
                                    const VolumeSnapshotContent* /*last*/) {
  snapshots_.OnContent(id.name, "");
}

bool ContentEventHandler::Holds(const k8s::ObjectId& id) const { return snapshots_.Uses(id.name); }

absl::Status RequireContents(const CallContext& ctx, k8s::ApiClient& api) {
  return k8s::RequireAccess(ctx, api,
                            {{{"list", VolumeSnapshotContent::Type()}, kSnapshotReaderRole},
                             {{"watch", VolumeSnapshotContent::Type()}, kSnapshotReaderRole}});
}

}  // namespace

SnapshotMark MarkOf(const VolumeSnapshot& snapshot) {
  return {.resource_version = snapshot.resource_version(),
          .written_at = snapshot.written_at(),
          .is_being_deleted = snapshot.is_being_deleted(),
          .is_ready = snapshot.is_ready(),
          .is_taken = snapshot.taken_at().has_value(),
          .has_error = snapshot.error().has_value(),
          .is_bound = !snapshot.bound_content().empty()};
}

bool IsOlder(const SnapshotMark& reading, const SnapshotMark& shown,
             const std::vector<std::string>& seen) {
  if (reading.resource_version == shown.resource_version) {
    return true;
  }
  if (reading.written_at.has_value() && shown.written_at.has_value() &&
      *reading.written_at != *shown.written_at) {
    return *reading.written_at < *shown.written_at;
  }
  const auto progress = ProgressOf(reading);
  const auto shown_progress = ProgressOf(shown);
  if (progress != shown_progress) {
    return progress < shown_progress;
  }
  return std::find(seen.begin(), seen.end(), reading.resource_version) != seen.end();
}

absl::Status WatchSnapshots(const CallContext& ctx, k8s::ApiClient& api,
                            const SnapshotWatchRequest& request,
                            const std::function<bool(const SnapshotChange& change)>& sink,
                            const std::function<void(const std::string& sentence)>& note) {
  RETURN_IF_ERROR(k8s::RequireAccess(
      ctx, api,
      {.verb = "watch", .type = VolumeSnapshot::Type(), .namespace_name = request.namespace_name},
      kViewRole));
  std::stop_source stop;
  const std::stop_callback forward(ctx.stop, [&stop] { stop.request_stop(); });
  CallContext inner = ctx;
  inner.stop = stop.get_token();
  SnapshotEventHandler handler(inner, api, request, sink, note, stop);
  std::jthread contents;
  if (const absl::Status allowed = RequireContents(inner, api); allowed.ok()) {
    contents = std::jthread([&] { handler.contents().Run(inner, api).IgnoreError(); });
  } else {
    handler.AddContents("binding", allowed);
  }
  const absl::Status ended = handler.snapshots().Run(inner, api);
  stop.request_stop();
  return handler.has_ended() ? absl::OkStatus() : ended;
}

}  // namespace csidelta::snapshots
