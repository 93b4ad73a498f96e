#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/json.h"
#include "incremental/sources/checked_listing.h"
#include "repository/volume_layout.h"

namespace csidelta::cli {

// What the backups of a repository tell of the CSI drivers that were asked what changed: how often
// each said it, and why not. Made of what is kept with the snapshots, so that it needs no cluster
// and forgets what they forget. Not thread-safe.
class DriverNotes {
 public:
  // One backup; of a volume that no CSI driver was named for, it tells nothing.
  void Add(const repository::VolumeManifest& manifest);

  // {"drivers":[{"driver":"...","backups":3,"increments":1,"listing":{...},...}]}
  Json ToJson() const;
  // A table for people.
  std::string ToText() const;

 private:
  struct Driver {
    int64_t backups = 0;
    int64_t increments = 0;
    int64_t changed_bytes = 0;               // of increments, as listed, in whole chunks
    std::map<std::string, int64_t> sources;  // who listed
    incremental::ListingStats listing;       // in all; of the finest grain
    std::map<std::string, int64_t> reasons;  // of those that are no increments
  };

  static int64_t Count(const Driver& driver, const std::string& reason);

  std::map<std::string, Driver> drivers_;
};

}  // namespace csidelta::cli
