#include "datamover/controller/rate_sharing.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "objects/client.h"
#include "objects/patch.h"

namespace csidelta::datamover {
namespace {

using Direction = int64_t objects::JobRates::*;
constexpr Direction kDirections[] = {&objects::JobRates::upload, &objects::JobRates::download};
constexpr absl::Duration kShareWrittenWithin = absl::Seconds(5);
// Stands for no limit, and adds up without an overflow.
constexpr int64_t kNoLimitKib = int64_t{1} << 40;

int64_t OrNoLimit(int64_t rate) { return rate == 0 ? kNoLimitKib : rate; }
int64_t RateToWrite(int64_t rate) { return rate == kNoLimitKib ? 0 : rate; }

int64_t WeightOf(const SharingTask& task, Direction direction) {
  const bool is_upload = direction == &objects::JobRates::upload;
  const bool is_main = task.kind == objects::TaskKind::kForget ||
                       (task.kind == objects::TaskKind::kUpload) == is_upload;
  return task.is_running && is_main ? 8 : 1;
}

std::optional<SharingTask> SharingTaskOf(const objects::VolumeTask& task) {
  const std::optional<objects::JobRates> rates = task.rates();
  const absl::StatusOr<objects::VolumeTaskSpec> spec = task.spec();
  const objects::VolumeTaskStatus status = task.status();
  if (!rates.has_value() || !spec.ok() || IsLast(status.phase)) {
    return std::nullopt;
  }
  return SharingTask{
      .name = task.name(),
      .kind = spec->kind,
      .is_running = status.phase == objects::TaskPhase::kRunning,
      .version = task.version_number(),
      .rates = {.upload = OrNoLimit(rates->upload), .download = OrNoLimit(rates->download)},
      .is_reported = status.observed_generation >= task.generation()};
}

// A ConfigMap that lost its key is damaged, though a document without a word has the defaults.
absl::StatusOr<MoverSettings> SettingsOf(const objects::ConfigMap* config_map) {
  if (config_map == nullptr || !config_map->data().contains(kSettingsKey)) {
    return absl::NotFoundError(
        absl::StrCat("ConfigMap ", kSettingsConfigMap,
                     config_map == nullptr ? " is gone" : " has no config.json"));
  }
  return ParseMoverSettings(config_map->Value(kSettingsKey));
}

}  // namespace

RateSharing::RateSharing(const MoverEnvironment& env, std::function<bool()> leads)
    : env_(env), leads_(std::move(leads)), tasks_(SharingTaskOf), settings_(env.settings) {}

void RateSharing::FollowSettings(const CallContext& ctx) {
  const k8s::ObjectKey key = objects::ConfigMap::Key(env_.mover_namespace, kSettingsConfigMap);
  while (ctx.Check().ok()) {
    const absl::Status ended = objects::WaitFor<objects::ConfigMap>(
        ctx, env_.api, key, [&](const objects::ConfigMap* now) -> absl::StatusOr<bool> {
          ReadSettings(ctx, now);
          return false;
        });
    if (ctx.Check().ok()) {
      CSIDELTA_LOG(kWarn, "the settings cannot be followed, and the last good limits count",
                   {"error", std::string(ended.message())});
    }
    ctx.clock->SleepFor(kShareWrittenWithin, ctx.stop);
  }
}

void RateSharing::ReadSettings(const CallContext& ctx, const objects::ConfigMap* config_map) {
  was_found_ = was_found_ || config_map != nullptr;
  absl::StatusOr<MoverSettings> settings = SettingsOf(config_map);
  const std::string refused(settings.status().message());
  if (!settings.ok() && was_found_ && refused != refused_) {
    CSIDELTA_LOG(kWarn, "the settings are refused, and the last good limits count",
                 {"error", refused});
    if (config_map != nullptr) {
      EmitMoverEvent(ctx, env_, *config_map, k8s::EventType::kWarning, "SettingsRefused",
                     absl::StrCat(refused, " (the last good limits of bandwidth count)"));
    }
  }
  refused_ = refused;
  if (settings.ok()) {
    const MutexLock lock(mutex_);
    settings_ = *std::move(settings);
  }
}

void RateSharing::Work(const CallContext& ctx) {
  while (ctx.Check().ok()) {
    MoveShares(ctx);
    ctx.clock->SleepFor(kSharesMovedEvery, ctx.stop);
  }
}

void RateSharing::MoveShares(const CallContext& ctx) {
  if (!leads_() || !tasks_.is_synced()) {
    shares_.clear();  // Another process may write.
    return;
  }
  ReadTasks(ctx.clock->Uptime());
  for (const Direction direction : kDirections) {
    Divide(direction);
  }
  for (auto& [name, share] : shares_) {
    if (share.next == share.task.rates) {
      continue;
    }
    // Counts as written, unless a later state of the object shows otherwise.
    share.task.rates = share.next;
    share.since = ctx.clock->Uptime();
    const absl::StatusOr<objects::VolumeTask> written = objects::Apply<objects::VolumeTask>(
        ctx.WithTimeout(kShareWrittenWithin), env_.api,
        objects::VolumeTask::Key(env_.mover_namespace, name),
        objects::Patch().SetJobRates({.upload = RateToWrite(share.next.upload),
                                      .download = RateToWrite(share.next.download)}));
    share.task.version = written.ok() ? written->version_number() : share.task.version + 1;
    if (!written.ok() && !absl::IsNotFound(written.status())) {
      CSIDELTA_LOG(kWarn, "the rates of a worker cannot be written", {"name", name},
                   {"error", std::string(written.status().message())});
    }
  }
}

void RateSharing::ReadTasks(absl::Duration now) {
  std::map<std::string, Share> shares;
  for (const SharingTask& task : tasks_.All()) {
    const auto known = shares_.find(task.name);
    Share& share = shares[task.name] =
        known != shares_.end() ? known->second
                               : Share{.task = task, .in_use_max = task.rates, .since = now};
    const bool is_assumed = now - share.since >= kShareAssumedAfter;
    if (task.version < share.task.version && !is_assumed) {
      continue;  // Before what was written last.
    }
    share.since = task.rates == share.task.rates ? share.since : now;
    share.task = task;
    for (const Direction direction : kDirections) {
      int64_t& in_use_max = share.in_use_max.*direction;
      const int64_t rate = task.rates.*direction;
      in_use_max = task.is_reported || is_assumed ? rate : std::max(in_use_max, rate);
    }
  }
  shares_ = std::move(shares);
}

void RateSharing::Divide(Direction direction) {
  const MutexLock lock(mutex_);
  const int64_t limit = settings_.rates_max.*direction;
  const int64_t workers = std::ssize(shares_);
  const int64_t workers_max = std::max<int64_t>(WorkersMax(settings_), workers);
  int64_t free = OrNoLimit(limit) - (workers_max - workers) * kFirstKib;
  int64_t weights = 0;
  for (const auto& [name, share] : shares_) {
    free -= share.in_use_max.*direction;
    weights += WeightOf(share.task, direction);
  }
  const int64_t shared = std::max<int64_t>(limit - workers_max * kFirstKib, 0);
  for (auto& [name, share] : shares_) {
    int64_t wanted = OrNoLimit(settings_.worker.rates_max.*direction);
    if (limit > 0) {
      wanted = std::min(wanted, kFirstKib + shared * WeightOf(share.task, direction) / weights);
    }
    const int64_t rate = share.task.rates.*direction;
    int64_t& in_use_max = share.in_use_max.*direction;
    const int64_t next =
        limit > 0 ? std::min(wanted, in_use_max + std::max<int64_t>(free, 0)) : wanted;
    // Not in many small steps, each of which is a request.
    const bool moves = next == wanted || next - rate > (wanted - rate) / 2;
    share.next.*direction = moves ? next : rate;
    free -= std::max<int64_t>(share.next.*direction - in_use_max, 0);
    in_use_max = std::max(in_use_max, share.next.*direction);
  }
}

}  // namespace csidelta::datamover
