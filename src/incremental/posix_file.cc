#include "incremental/posix_file.h"

#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace csidelta::incremental {
namespace {

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::StatusCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::StatusCode::kResourceExhausted;
    case EBUSY:
    case ETXTBSY:
      return absl::StatusCode::kFailedPrecondition;
    case EIO:
    case ENODATA:  // What the kernel makes of a medium error.
    case EILSEQ:   // And of a checksum that does not fit.
      return absl::StatusCode::kDataLoss;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status ErrnoToStatus(int error, absl::string_view what) {
  return absl::Status(CodeOf(error),
                      absl::StrCat(what, ": ", std::generic_category().message(error)));
}

}  // namespace csidelta::incremental
