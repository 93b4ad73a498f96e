#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/repository/snapshot_filter.h"
#include "cli/text.h"
#include "incremental/mover/volume_record.h"
#include "incremental/sources/checked_listing.h"
#include "repository/index.h"
#include "repository/volume_layout.h"

namespace csidelta::cli {
namespace {

using incremental::ListingStats;
using incremental::VolumeRecord;
using repository::Repository;
using repository::StoredSnapshot;

struct RestoreSize {
  int64_t bytes = 0;
  int64_t files = 0;
  int64_t snapshots = 0;
  int64_t others = 0;  // Snapshots that are not volumes: not in the sums.
};

void AddListing(const ListingStats& one, ListingStats& all) {
  all.extents += one.extents;
  all.waited += one.waited;
  if (one.grain_bytes > 0) {
    all.grain_bytes =
        all.grain_bytes == 0 ? one.grain_bytes : std::min(all.grain_bytes, one.grain_bytes);
  }
}

// Statistics of the CSI drivers in the backups of a repository: how often each listed changed
// blocks, and the reasons if not. It reads the manifests of the snapshots, so it needs no cluster
// and covers the snapshots that exist. Not thread-safe.
class DriverStatistics {
 public:
  // Counts one backup. Volumes without a CSI driver are ignored.
  void Add(const repository::VolumeManifest& manifest) {
    if (manifest.csi_driver.empty()) {
      return;
    }
    Driver& driver = drivers_[manifest.csi_driver];
    ++driver.backups;
    ++driver.sources[manifest.source];
    if (const Json* const kept = FindJson(manifest.unknown, {incremental::kListingMember})) {
      AddListing(incremental::ListingStatsOf(*kept), driver.listing);
    }
    if (manifest.kind == "incremental") {
      ++driver.increments;
      driver.changed_bytes += manifest.extents_bytes;
    } else {
      ++driver.reasons[manifest.reason];
    }
  }

  // {"drivers":[{"driver":"...","backups":3,"increments":1,"listing":{...},...}]}
  Json ToJson() const {
    Json drivers = Json::array();
    for (const auto& [name, driver] : drivers_) {
      drivers.push_back({{"driver", name},
                         {"backups", driver.backups},
                         {"increments", driver.increments},
                         {"changed_bytes", driver.changed_bytes},
                         {"listing", incremental::ToJson(driver.listing)},
                         {"sources", driver.sources},
                         {"reasons", driver.reasons}});
    }
    return {{"drivers", drivers}};
  }

  // A table for people.
  std::string ToText() const {
    std::vector<std::vector<std::string>> rows = {{"driver", "backups", "increments", "base gone",
                                                   "lists refused", "audit mismatches", "grain",
                                                   "extents", "waited"}};
    for (const auto& [name, driver] : drivers_) {
      const int64_t grain_bytes = driver.listing.grain_bytes;
      const auto count = [&reasons = driver.reasons](const std::string& reason) {
        return absl::StrCat(reasons.contains(reason) ? reasons.at(reason) : 0);
      };
      rows.push_back({name, absl::StrCat(driver.backups), absl::StrCat(driver.increments),
                      count("base-snapshot-gone"), count("list-refused"), count("audit-mismatch"),
                      grain_bytes == 0 ? "?" : FormatBytes(grain_bytes),
                      absl::StrCat(driver.listing.extents), FormatElapsed(driver.listing.waited)});
    }
    return rows.size() == 1 ? "no snapshot is of a volume of a CSI driver\n" : FormatTable(rows);
  }

 private:
  struct Driver {
    int64_t backups = 0;
    int64_t increments = 0;
    int64_t changed_bytes = 0;               // of increments, as listed, in whole chunks
    std::map<std::string, int64_t> sources;  // who listed
    incremental::ListingStats listing;       // in all; of the finest grain
    std::map<std::string, int64_t> reasons;  // of those that are no increments
  };

  std::map<std::string, Driver> drivers_;
};

class StatsCommand : public RepositoryCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override;
  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override;

 private:
  absl::StatusOr<ExitCode> RunRaw(const CallContext& ctx, Session& session,
                                  Repository& repository) const;
  // Of --drivers, or of the volumes as they are restored.
  absl::StatusOr<ExitCode> RunVolumes(const CallContext& ctx, Session& session,
                                      Repository& repository) const;

  std::vector<std::string> ids_;
  std::string mode_ = "restore-size";
  bool drivers_ = false;
  SnapshotFilter filter_;
};

VerbSyntax StatsCommand::Describe(ArgumentTable& table) {
  table.AddPositionals("ID",
                       "the snapshots, by the beginnings of their ids, or \"latest\"; none: all", 0,
                       kSnapshotIdsMax, ids_);
  table.AddChoice(
      "--mode", {"restore-size", "raw-data"},
      "what to measure: volumes as they are restored, or all blobs of the repository as "
      "they are stored",
      mode_);
  table.Add("--drivers",
            "instead: how often each CSI driver listed what changed, and why not, by what the "
            "snapshots record",
            drivers_);
  DeclareFilterFlags(table, filter_);
  return {.name = "stats",
          .summary = "Print how large snapshots or the repository are",
          .details = "With --json: one object, with restic's members.",
          .examples = {"stats", "stats --mode raw-data"}};
}

absl::StatusOr<ExitCode> StatsCommand::Run(const CallContext& ctx, Session& session) {
  ASSIGN_OR_RETURN(Repository * repository, session.Open(ctx, LockKind::kRead));
  return mode_ == "raw-data" && !drivers_ ? RunRaw(ctx, session, *repository)
                                          : RunVolumes(ctx, session, *repository);
}

absl::StatusOr<ExitCode> StatsCommand::RunRaw(const CallContext& ctx, Session& session,
                                              Repository& repository) const {
  RETURN_IF_ERROR(repository.LoadReadableIndex(ctx));
  // Of all blobs that the index has, used or not: what the repository weighs.
  int64_t stored_bytes = 0;
  int64_t plaintext_bytes = 0;
  int64_t blobs = 0;
  RETURN_IF_ERROR(repository.index().ForEach([&](const repository::IndexedCopy& copy) {
    stored_bytes += copy.entry.span.sealed_bytes;
    plaintext_bytes += copy.entry.span.plaintext_bytes();
    ++blobs;
  }));
  const double ratio =
      stored_bytes == 0 ? 1
                        : static_cast<double>(plaintext_bytes) / static_cast<double>(stored_bytes);
  const std::size_t packs = repository.index().pack_count();
  session.console().PrintResult(
      {{"total_size", stored_bytes},
       {"total_uncompressed_size", plaintext_bytes},
       {"compression_ratio", ratio},
       {"total_blob_count", blobs},
       {"total_pack_count", packs}},
      absl::StrCat("stored: ", FormatBytes(stored_bytes), " in ", Counted(blobs, "blob"), " and ",
                   Counted(packs, "pack"), "\nuncompressed: ", FormatBytes(plaintext_bytes),
                   absl::StrFormat(", %.2f times as much\n", ratio)));
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> StatsCommand::RunVolumes(const CallContext& ctx, Session& session,
                                                  Repository& repository) const {
  UnreadableSnapshots unreadable(session.console());
  ASSIGN_OR_RETURN(const std::vector<StoredSnapshot> chosen,
                   ChooseSnapshots(ctx, session.console(), repository, ids_, filter_, unreadable));
  DriverStatistics statistics;
  RestoreSize size;
  for (const StoredSnapshot& stored : chosen) {
    const absl::StatusOr<std::unique_ptr<VolumeRecord>> record =
        incremental::OpenVolumeRecord(ctx, repository, stored);
    if (absl::IsFailedPrecondition(record.status())) {
      ++size.others;
      continue;
    }
    RETURN_IF_ERROR(record.status());
    statistics.Add((*record)->manifest);
    ++size.snapshots;
    // As restic counts: a folder and a file per leaf, the folders above, and volume.json.
    size.bytes += (*record)->layout.size_bytes() + (*record)->root.manifest_bytes;
    size.files += 2 * (*record)->layout.leaf_count() + (*record)->layout.level1_count() + 2;
  }
  if (drivers_) {
    session.console().PrintResult(statistics.ToJson(), statistics.ToText());
    return unreadable.code();
  }
  if (size.others > 0) {
    session.console().Warn(absl::StrCat(
        size.others,
        " snapshots are not of volumes and were not counted; measure them with restic stats"));
  }
  session.console().PrintResult({{"total_size", size.bytes},
                                 {"total_file_count", size.files},
                                 {"snapshots_count", size.snapshots}},
                                absl::StrCat(Counted(size.snapshots, "snapshot"), " of volumes, ",
                                             FormatBytes(size.bytes), " to restore in all\n"));
  return size.others > 0 ? ExitCode::kIncomplete : unreadable.code();
}

}  // namespace

void AddStatsCommand(Commands& all) { AddEach<StatsCommand>(all); }

}  // namespace csidelta::cli
