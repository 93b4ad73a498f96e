#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/json.h"

namespace csidelta::datamover {

// One DataUpload or DataDownload of ours, as a person wants to see it.
struct Movement {
  std::string kind;  // "upload", "download"
  std::string velero_namespace;
  std::string name;
  std::string volume;  // "namespace/claim"
  std::string location;
  std::string phase;
  std::string stage;    // of the worker; "" before there is one
  std::string message;  // of the object: for whom it waits, what went wrong
  std::string node;     // of the worker
  std::optional<absl::Time> created_at;
  int64_t done_bytes = 0;
  int64_t total_bytes = 0;                  // 0: not known
  std::optional<int64_t> bytes_per_second;  // since the worker began
  std::optional<absl::Duration> left;       // at that rate
  bool is_over = false;
};

// What moves, in the order of creation. `uploads` and `downloads` are all DataUploads and
// DataDownloads, `tasks` all VolumeTasks; those of other movers, and those that cannot be read, are
// left out. Pure.
std::vector<Movement> ListMovements(const std::vector<Json>& uploads,
                                    const std::vector<Json>& downloads,
                                    const std::vector<Json>& tasks);

Json ToJson(const Movement& movement);

}  // namespace csidelta::datamover
