#include "tests/bench/upload_tracks.h"

#include <algorithm>

#include "k8s/object.h"

namespace csidelta::bench {
namespace {

bool IsLast(const std::string& phase) {
  return phase == "Completed" || phase == "Failed" || phase == "Canceled";
}

}  // namespace

void UploadTracks::Note(const Json& upload) {
  const absl::Time now = clock_.Now();
  const std::string phase = GetString(upload, {"status", "phase"});
  const int64_t done_bytes = GetInt(upload, {"status", "progress", "bytesDone"});
  const std::scoped_lock lock(mutex_);
  const auto [found, is_new] = tracks_.try_emplace(k8s::Uid(upload));
  UploadTrack& track = found->second;
  if (is_new) {
    track.name = k8s::Name(upload);
  }
  track.done_bytes = done_bytes;
  if (track.reported.has_value() && done_bytes >= track.reported->first) {
    track.lag_max = std::max(track.lag_max, now - track.reported->second);
    track.reported.reset();
  }
  if (phase == track.phase) {
    return;
  }
  track.phase = phase;
  track.message = GetString(upload, {"status", "message"});
  if (phase == "Canceling") {
    track.canceling_at = now;
  } else if (IsLast(phase)) {
    track.ended_at = now;
  }
  changed_.notify_all();
}

void UploadTracks::NoteWorkerEnd(const std::string& uid, absl::Time at) {
  const std::scoped_lock lock(mutex_);
  tracks_[uid].worker_ended_at = at;
}

void UploadTracks::NoteReport(const std::string& uid, int64_t done_bytes, absl::Time at) {
  const std::scoped_lock lock(mutex_);
  UploadTrack& track = tracks_[uid];
  if (!track.reported.has_value() && done_bytes > track.done_bytes) {
    track.reported.emplace(done_bytes, at);
  }
}

void UploadTracks::BeginWindow() {
  const std::scoped_lock lock(mutex_);
  for (auto& [uid, track] : tracks_) {
    track.reported.reset();
    track.lag_max = absl::ZeroDuration();
  }
}

std::vector<UploadTrack> UploadTracks::Look() const {
  const absl::Time now = clock_.Now();
  std::vector<UploadTrack> all;
  const std::scoped_lock lock(mutex_);
  for (const auto& [uid, track] : tracks_) {
    all.push_back(track);
    if (track.reported.has_value() && !track.ended_at.has_value()) {
      all.back().lag_max = std::max(track.lag_max, now - track.reported->second);
    }
  }
  return all;
}

bool UploadTracks::Await(const std::function<bool(const UploadTrack&)>& done, int count,
                         absl::Duration time_max) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, absl::ToChronoNanoseconds(time_max / clock_.factor()), [&] {
    return std::count_if(tracks_.begin(), tracks_.end(),
                         [&](const auto& track) { return done(track.second); }) >= count;
  });
}

}  // namespace csidelta::bench
