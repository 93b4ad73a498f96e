#include "incremental/validating_source.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace csidelta::incremental {
namespace {

// What is wrong with an extent that follows one ending at `end_bytes`; "" when nothing is.
absl::string_view Fault(const ListedExtent& listed, int64_t end_bytes, int64_t size_bytes) {
  if (!IsWellFormed(listed.extent)) {
    return "is empty, negative or overflows";
  }
  if (listed.extent.end_bytes() > size_bytes) {
    return "ends past the end of the volume";
  }
  if (listed.extent.offset_bytes < end_bytes) {
    return "begins before the end of the one before it";
  }
  return "";
}

}  // namespace

absl::Status ValidatingSource::ListExtents(const CallContext& ctx, const DiffRequest& request,
                                           ExtentSink sink) {
  int64_t end_bytes = 0;
  return inner_.ListExtents(ctx, request, [&](const ListedExtent& listed) -> absl::Status {
    const absl::string_view fault = Fault(listed, end_bytes, request.size_bytes);
    if (!fault.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(name(), ": extent ",
                                                        Describe(listed.extent), " of a volume of ",
                                                        request.size_bytes, " bytes ", fault));
    }
    end_bytes = listed.extent.end_bytes();
    return sink(listed);
  });
}

}  // namespace csidelta::incremental
