#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace csidelta::csi_driver {

// Keeps everybody from writing to the file system that a folder is in (FIFREEZE), from Take() to
// Thaw() or destruction. What was written before is on its device. Who writes waits, and cannot be
// killed meanwhile. Needs CAP_SYS_ADMIN.
class Freeze {
 public:
  // FAILED_PRECONDITION when another client froze it already; else the errno's code.
  static absl::StatusOr<Freeze> Take(const std::string& folder);
  Freeze(Freeze&&) = default;
  Freeze& operator=(Freeze&&) = delete;
  ~Freeze();

  // At most once.
  absl::Status Thaw();

 private:
  Freeze(UniqueFd fd, std::string folder) : fd_(std::move(fd)), folder_(std::move(folder)) {}

  UniqueFd fd_;  // Of the folder; none once it is thawed.
  std::string folder_;
};

// Ends the freeze that a killed process left. A file system that is not frozen is success.
absl::Status ThawLeftover(const std::string& folder);

// FAILED_PRECONDITION unless `folder`, an absolute path without links, is where a file system of
// its own is mounted, which neither the root folder nor `other` is in: freezing it stops no client
// who writes elsewhere.
absl::Status CheckOwnFilesystem(const std::string& folder, const std::string& other);

}  // namespace csidelta::csi_driver
