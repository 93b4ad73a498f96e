#include "datamover/worker/job.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "datamover/mover_environment.h"
#include "engine/backup.h"
#include "engine/check.h"
#include "engine/forget.h"
#include "engine/restore.h"
#include "repository/repo_snapshot.h"
#include "repository/stored_packs.h"

namespace csidelta::datamover {
namespace {

// A bucket has other clients. A million objects a fortnight take 70,000 a day: half an hour.
constexpr int kLockRequestsPerSecondMax = 100;
// Space comes back a part at a time: what is left over is done after the next deletion.
constexpr int64_t kRepackBytesMax = int64_t{2} << 30;

int64_t MillisecondsOf(const std::map<std::string, int64_t>& durations, const char* stage) {
  const auto found = durations.find(stage);
  return found == durations.end() ? 0 : found->second;
}

// A list of changes that was not true is told beside a backup that is.
objects::OutcomeCause CauseOf(const incremental::BackupResult& result) {
  if (result.audit_mismatch) {
    return objects::OutcomeCause::kAuditMismatch;
  }
  return result.list_refused ? objects::OutcomeCause::kListRefused : objects::OutcomeCause::kNone;
}

// What a backup is not to rely on; nothing where checks found no damage.
absl::StatusOr<std::optional<repository::DistrustedPacks>> DistrustedBy(
    const std::optional<objects::RepositoryDamage>& damage) {
  if (!damage.has_value()) {
    return std::nullopt;
  }
  repository::DistrustedPacks distrusted{.written_until =
                                             damage->written_until.value_or(absl::InfinitePast())};
  for (const std::string& pack : damage->packs) {
    ASSIGN_OR_RETURN(const repository::PackId id, repository::PackId::Parse(pack));
    distrusted.packs.insert(id);
  }
  return distrusted;
}

// A task tells of bytes; things are no measure of them. Borrows `progress`.
engine::Progress StagesOf(const TaskProgress& progress) {
  return [&progress](absl::string_view stage, int64_t, int64_t) { progress({.stage = stage}); };
}

absl::StatusOr<objects::Outcome> Do(const CallContext& ctx, engine::Session& session,
                                    const k8s::ClientSettings& cluster,
                                    const objects::UploadWork& work, const TaskProgress& progress) {
  ASSIGN_OR_RETURN(std::optional<repository::DistrustedPacks> damage, DistrustedBy(work.damage));
  const engine::BackupJob job{.device = work.device,
                              .cluster = {.volume_snapshot = work.volume_snapshot,
                                          .driver_parameters = work.driver_parameters,
                                          .cluster = cluster},
                              .parent = work.parent,
                              .pvc_uid = work.pvc_uid,
                              .restored_snapshot = work.restored_snapshot,
                              .why_no_parent = work.why_no_parent,
                              .is_requested_full = work.is_full,
                              .immutable = true,  // It is a snapshot.
                              .measure = true,
                              .on_fallback = work.on_fallback,
                              .damage = std::move(damage),
                              .tags = work.tags,
                              .host = work.host,
                              .path = work.path};
  ASSIGN_OR_RETURN(const incremental::BackupResult result,
                   engine::RunBackup(ctx, session, job, progress));
  return OutcomeOf(result);
}

absl::StatusOr<objects::Outcome> Do(const CallContext& ctx, engine::Session& session,
                                    const k8s::ClientSettings& /*cluster*/,
                                    const objects::DownloadWork& work,
                                    const TaskProgress& progress) {
  const engine::RestoreJob job{.snapshot = work.snapshot_id,
                               .target = work.device,
                               .only_differing = work.only_differing,
                               .start_before = work.start_before};
  const auto consent = [](const engine::RestorePlan&) { return absl::OkStatus(); };
  ASSIGN_OR_RETURN(const engine::RestoreOutcome outcome,
                   engine::RunRestore(ctx, session, job, consent, progress));
  objects::RestoreFigures figures =
      FiguresOf(outcome.result.value_or(incremental::RestoreResult()));
  const repository::RepoSnapshot& restored = outcome.plan.snapshot.snapshot;
  figures.host = restored.hostname;
  figures.path = restored.paths.size() == 1 ? restored.paths.front() : "";
  return objects::Outcome{.code = objects::OutcomeCode::kDone, .restore = std::move(figures)};
}

absl::StatusOr<objects::Outcome> Do(const CallContext& ctx, engine::Session& session,
                                    const k8s::ClientSettings& /*cluster*/,
                                    const objects::ForgetWork& work, const TaskProgress& progress) {
  ASSIGN_OR_RETURN(const std::optional<repository::DistrustedPacks> damage,
                   DistrustedBy(work.damage));
  engine::ForgetJob job{.ids = {},
                        .sibling_tag_prefix = kUploadTagPrefix,
                        .ignore_missing = true,
                        .frees_space = true,
                        .spares_unfinished = true,
                        .prune = {.repack_bytes_max = kRepackBytesMax,
                                  .distrusted = damage.value_or(repository::DistrustedPacks())}};
  for (const objects::ForgetItem& item : work.items) {
    item.snapshot_id.empty() ? job.tags.push_back(item.tag) : job.ids.push_back(item.snapshot_id);
  }
  const engine::Progress stages = StagesOf(progress);
  ASSIGN_OR_RETURN(const engine::ForgetOutcome outcome,
                   engine::RunForget(ctx, session, job, stages));
  ASSIGN_OR_RETURN(const std::optional<engine::PruneOutcome> pruned,
                   engine::FreeSpace(ctx, session, job, outcome, stages));
  RETURN_IF_ERROR(engine::StatusOf(pruned.has_value() ? pruned->done.refused : outcome.refused));
  std::vector<std::string> texts = {engine::TextOf(outcome.locked, "files of snapshots")};
  if (pruned.has_value()) {
    texts.push_back(engine::TextOf(pruned->locked, "packs"));
  }
  std::erase(texts, "");
  return objects::Outcome{.code = objects::OutcomeCode::kDone,
                          .message = absl::StrJoin(texts, "; ")};
}

// Collects the repository snapshots that the job of a check does not name.
class OrphanFinder {
 public:
  // Borrows `work`.
  explicit OrphanFinder(const objects::CheckWork& work)
      : work_(work), known_(work.known_tags.begin(), work.known_tags.end()) {}

  // Oldest first.
  void Add(const repository::StoredSnapshot& stored) {
    const repository::RepoSnapshot& snapshot = stored.snapshot;
    const auto tag = absl::c_find_if(snapshot.tags, [](const std::string& one) {
      return absl::StartsWith(one, kUploadTagPrefix);
    });
    if (work_.host.empty() || snapshot.hostname != work_.host || tag == snapshot.tags.end() ||
        snapshot.time >= work_.orphans_before.value_or(absl::InfinitePast()) ||
        absl::c_any_of(snapshot.tags,
                       [this](const std::string& one) { return known_.contains(one); })) {
      return;
    }
    ++found_;
    if (orphans_.size() < objects::kOrphansMax) {
      orphans_.push_back({.id = stored.id.Hex(),
                          .upload_tag = *tag,
                          .backup = repository::TagValue(snapshot, kBackupTag),
                          .made_at = FormatRfc3339Seconds(snapshot.time)});
    }
  }

  void AddTo(objects::CheckFigures& figures) {
    figures.orphans_found = found_;
    figures.orphans = std::move(orphans_);
  }

 private:
  const objects::CheckWork& work_;
  const std::set<std::string> known_;
  int64_t found_ = 0;
  std::vector<objects::OrphanedSnapshot> orphans_;
};

objects::RepositoryDamage DamageOf(const repository::CheckReport& report) {
  objects::RepositoryDamage damage{.packs_found = report.damaged_packs_found};
  const std::size_t count = std::min(report.damaged_packs.size(), objects::kDamagedPacksMax);
  damage.packs.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    damage.packs.push_back(report.damaged_packs[i].Hex());
  }
  if (report.damaged_packs_found > std::ssize(damage.packs) &&
      report.damaged_until > absl::InfinitePast()) {
    damage.written_until = report.damaged_until;
  }
  return damage;
}

std::optional<repository::RenewLocksOptions> RenewalOf(const objects::CheckWork& work) {
  if (!work.renew_locks.has_value()) {
    return std::nullopt;
  }
  return repository::RenewLocksOptions{
      .mode = work.renew_locks->mode,
      .days = static_cast<int>(work.renew_locks->days),
      .renewed_at = work.locks_renewed_at.value_or(absl::InfinitePast()),
      .requests_per_second_max = kLockRequestsPerSecondMax};
}

absl::StatusOr<objects::Outcome> Do(const CallContext& ctx, engine::Session& session,
                                    const k8s::ClientSettings& /*cluster*/,
                                    const objects::CheckWork& work, const TaskProgress& progress) {
  OrphanFinder orphans(work);
  const engine::CheckJob job{
      .read_data = repository::ReadPart{.part = work.part, .parts = work.parts},
      .read_newer_than = work.read_newer_than.value_or(absl::InfiniteFuture()),
      .beside_backups = true,
      .renew_locks = RenewalOf(work),
      .on_snapshot = [&orphans](const repository::StoredSnapshot& one) { orphans.Add(one); }};
  const engine::Progress stages = StagesOf(progress);
  ASSIGN_OR_RETURN(const engine::CheckOutcome outcome, engine::RunCheck(ctx, session, job, stages));
  objects::CheckFigures figures = FiguresOf(outcome.report);
  orphans.AddTo(figures);
  if (outcome.locks.has_value()) {
    figures.locks = FiguresOf(*outcome.locks);
  }
  return objects::Outcome{.code = objects::OutcomeCode::kDone, .check = std::move(figures)};
}

}  // namespace

absl::StatusOr<objects::Outcome> DoJob(const CallContext& ctx, engine::Session& session,
                                       const objects::VolumeJob& job,
                                       const k8s::ClientSettings& cluster,
                                       const TaskProgress& progress) {
  return std::visit([&](const auto& work) { return Do(ctx, session, cluster, work, progress); },
                    job.work);
}

objects::Outcome OutcomeOf(const incremental::BackupResult& result) {
  return {
      .code = objects::OutcomeCode::kDone, .cause = CauseOf(result), .backup = FiguresOf(result)};
}

objects::BackupFigures FiguresOf(const incremental::BackupResult& result) {
  objects::BackupFigures figures{.snapshot_id = result.snapshot.Hex(),
                                 .mode = result.mode_done,
                                 .base = result.base,
                                 .logical_bytes = result.logical_bytes,
                                 .changed_bytes = result.changed_bytes,
                                 .read_bytes = result.read_bytes,
                                 .audit_bytes = result.audit_bytes,
                                 .stored_bytes = result.stored_bytes,
                                 .retries = result.store.retries,
                                 .duration_ms = MillisecondsOf(result.duration_ms, "total"),
                                 .audit_ms = MillisecondsOf(result.duration_ms, "audit"),
                                 .peak_memory_bytes = result.peak_memory_bytes};
  if (result.why.has_value()) {
    figures.reason = std::string(incremental::TextOf(result.why->reason).name);
    figures.reason_detail = result.why->detail;
  }
  if (result.repository.has_value()) {
    figures.repository_bytes = result.repository->pack_bytes;
    figures.repository_snapshots = result.repository->snapshots;
  }
  return figures;
}

objects::LockFigures FiguresOf(const absl::StatusOr<repository::RenewLocksResult>& result) {
  if (!result.ok()) {
    return {.failed = 1, .findings = {std::string(result.status().message())}};
  }
  objects::LockFigures figures{.objects = result->objects,
                               .due = result->due,
                               .extended = result->extended,
                               .failed = result->failed,
                               .findings = result->failures,
                               .requests = result->requests};
  if (!result->undecided.empty()) {
    ++figures.failed;
    figures.findings.insert(
        figures.findings.begin(),
        absl::StrCat("what snapshots need is unknown, so that all objects were extended: ",
                     result->undecided));
  }
  if (result->earliest > absl::InfinitePast() && result->earliest < absl::InfiniteFuture()) {
    figures.earliest = result->earliest;
  }
  return figures;
}

objects::RestoreFigures FiguresOf(const incremental::RestoreResult& result) {
  return {.file_system = result.file_system,
          .logical_bytes = result.logical_bytes,
          .compared_bytes = result.compared_bytes,
          .written_bytes = result.written_bytes,
          .zero_bytes = result.zero_bytes,
          .kept_bytes = result.kept_bytes};
}

objects::CheckFigures FiguresOf(const repository::CheckReport& report) {
  objects::CheckFigures figures{
      .packs = report.packs,
      .packs_read = report.packs_read,
      .read_bytes = report.bytes_read,
      .snapshots = report.snapshots,
      .errors = report.errors,
      .broken_snapshots = static_cast<int64_t>(report.unrestorable.size())};
  for (const repository::Finding& finding : report.findings) {
    if (finding.is_error && figures.findings.size() < objects::kCheckFindingsMax) {
      figures.findings.push_back(
          absl::StrCat(finding.thing, ": ", finding.detail, "; run ", finding.next_step));
    }
  }
  figures.damage = DamageOf(report);
  for (const std::string& tag : report.unrestorable_tags) {
    if (absl::StartsWith(tag, kUploadTagPrefix) &&
        figures.broken_tags.size() < objects::kCheckTagsMax) {
      figures.broken_tags.push_back(tag);
    }
  }
  return figures;
}

}  // namespace csidelta::datamover
