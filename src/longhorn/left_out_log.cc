#include "longhorn/left_out_log.h"

#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace csidelta::longhorn {
namespace {

bool IsPowerOfTen(int64_t count) {
  while (count > 1 && count % 10 == 0) {
    count /= 10;
  }
  return count == 1;
}

}  // namespace

void LeftOutLog::Note(absl::string_view run_uid, absl::string_view resource,
                      absl::string_view object, absl::string_view reason) {
  const int64_t count = Count(run_uid, resource, reason);
  if (count == 1) {
    CSIDELTA_LOG(kInfo, absl::StrCat(resource, " ", object, " is left out: ", reason));
  } else if (IsPowerOfTen(count)) {
    CSIDELTA_LOG(kInfo, absl::StrCat(resource, ": ", count,
                                     " are left out by now, for the same reason: ", reason));
  }
}

int64_t LeftOutLog::Count(absl::string_view run_uid, absl::string_view resource,
                          absl::string_view reason) {
  const std::string key = absl::StrCat(run_uid, "\n", resource, "\n", reason);
  const MutexLock lock(mutex_);
  if (counts_.size() >= kCountsMax && !counts_.contains(key)) {
    counts_.clear();
  }
  return ++counts_[key];
}

}  // namespace csidelta::longhorn
