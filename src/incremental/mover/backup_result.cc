#include "incremental/mover/backup_result.h"

#include <sys/resource.h>

#include "absl/strings/str_cat.h"

namespace csidelta::incremental {
namespace {

Json AuditJson(const BackupResult& result) {
  Json kinds = Json::array();
  for (const AuditKindResult& kind : result.audit) {
    kinds.push_back({{"kind", kind.kind},
                     {"candidates", kind.candidates},
                     {"chunks", kind.chunks},
                     {"leaves", kind.leaves},
                     {"mismatches", kind.mismatches},
                     {"detects_1_percent_scattered", kind.detects_scattered},
                     {"detects_1_percent_clustered", kind.detects_clustered}});
  }
  // As text: a seed has 64 bits, and readers of JSON have 53.
  return {{"seed", absl::StrCat(result.audit_seed)},
          {"mismatch", result.audit_mismatch},
          {"requests", result.audit_requests},
          {"kinds", std::move(kinds)}};
}

double BytesPerSecond(const BackupResult& result) {
  const auto total = result.duration_ms.find("total");
  if (total == result.duration_ms.end() || total->second <= 0) {
    return 0;
  }
  return static_cast<double>(result.read_bytes) * 1000.0 / static_cast<double>(total->second);
}

}  // namespace

Json ToJson(const BackupResult& result) {
  Json json = {{"message_type", "result"},
               {"schema_version", kResultSchemaVersion},
               {"snapshot_id", result.dry_run ? "" : result.snapshot.Hex()},
               {"unchanged", result.unchanged},
               {"skipped", result.skipped},
               {"dry_run", result.dry_run},
               {"image_tree", result.image_tree.Hex()},
               {"mode_asked", result.mode_asked},
               {"mode_done", result.mode_done},
               {"reason", NameOf(result.why)},
               {"reason_detail", result.why.has_value() ? result.why->detail : ""},
               {"base", result.base},
               {"source", result.source},
               {"engine", result.engine},
               {"logical_bytes", result.logical_bytes},
               {"allocated_bytes", result.allocated_bytes},
               {"changed_bytes", result.changed_bytes},
               {"unknown_bytes", result.unknown_bytes},
               {"read_bytes", result.read_bytes},
               {"audit_bytes", result.audit_bytes},
               {"resumed_bytes", result.resumed_bytes},
               {"new_bytes", result.new_bytes},
               {"stored_bytes", result.stored_bytes},
               {"chunk_bytes", result.chunk_bytes},
               {"data_blobs", result.data_blobs},
               {"tree_blobs", result.tree_blobs},
               {"leaves_touched", result.leaves_touched},
               {"level1_touched", result.level1_touched},
               {"objects", result.objects},
               {"requests", result.store.requests},
               {"write_requests", result.store.writes},
               {"retries", result.store.retries},
               {"bytes_per_second", BytesPerSecond(result)},
               {"duration_ms", result.duration_ms},
               {"peak_memory_bytes", result.peak_memory_bytes},
               {"scratch_bytes", result.scratch_bytes},
               {"memory_budget_bytes", result.memory_budget_bytes},
               {"pack_bytes", result.pack_bytes},
               {"uploads_in_flight", result.uploads_in_flight},
               {"workers", result.workers},
               {"open_packs", result.open_packs},
               {"audit", AuditJson(result)}};
  if (!result.warnings.empty()) {
    json["warnings"] = result.warnings;
  }
  if (result.repository.has_value()) {
    json["repository_bytes"] = result.repository->pack_bytes;
    json["repository_snapshots"] = result.repository->snapshots;
  }
  return json;
}

bool ListsChanges(absl::string_view mode_done, absl::string_view source) {
  return mode_done == "incremental" && source != "image-extents" && source != "full-scan";
}

int64_t PeakMemoryBytes() {
  rusage usage{};
  return ::getrusage(RUSAGE_SELF, &usage) == 0 ? int64_t{usage.ru_maxrss} * 1024 : 0;
}

}  // namespace csidelta::incremental
