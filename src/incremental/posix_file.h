#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/unique_fd.h"

namespace csidelta::incremental {

// An error number of a file call as a status: "`what`: No space left on device". ENOENT is
// NOT_FOUND; EACCES, EPERM and EROFS PERMISSION_DENIED; ENOSPC and EDQUOT RESOURCE_EXHAUSTED; EBUSY
// FAILED_PRECONDITION; EIO and what belongs to it DATA_LOSS, which is never read over; the rest
// INTERNAL.
absl::Status ErrnoToStatus(int error, absl::string_view what);

}  // namespace csidelta::incremental
