#include "cli/driver_notes.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/text.h"

namespace csidelta::cli {

using incremental::ListingStats;

namespace {

void AddListing(const ListingStats& one, ListingStats& all) {
  all.extents += one.extents;
  all.waited += one.waited;
  if (one.grain_bytes > 0) {
    all.grain_bytes =
        all.grain_bytes == 0 ? one.grain_bytes : std::min(all.grain_bytes, one.grain_bytes);
  }
}

std::string Grain(const ListingStats& info) {
  return info.grain_bytes == 0 ? "?" : FormatBytes(info.grain_bytes);
}

}  // namespace

void DriverNotes::Add(const repository::VolumeManifest& manifest) {
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

int64_t DriverNotes::Count(const Driver& driver, const std::string& reason) {
  const auto found = driver.reasons.find(reason);
  return found == driver.reasons.end() ? 0 : found->second;
}

Json DriverNotes::ToJson() const {
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

std::string DriverNotes::ToText() const {
  std::vector<std::vector<std::string>> rows = {{"driver", "backups", "increments", "base gone",
                                                 "lists refused", "audit mismatches", "grain",
                                                 "extents", "waited"}};
  for (const auto& [name, driver] : drivers_) {
    rows.push_back({name, absl::StrCat(driver.backups), absl::StrCat(driver.increments),
                    absl::StrCat(Count(driver, "base-snapshot-gone")),
                    absl::StrCat(Count(driver, "list-refused")),
                    absl::StrCat(Count(driver, "audit-mismatch")), Grain(driver.listing),
                    absl::StrCat(driver.listing.extents), FormatElapsed(driver.listing.waited)});
  }
  return rows.size() == 1 ? "no snapshot is of a volume of a CSI driver\n" : FormatTable(rows);
}

}  // namespace csidelta::cli
