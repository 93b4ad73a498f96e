#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace csidelta::k8s {

// A bearer token that lives in a file and is replaced there from time to time, as the kubelet does
// with those of service accounts. Read again when kReadAgainAfter has passed, and when the server
// refused it. A file that cannot be read leaves the last token in use. Thread-safe.
class TokenSource {
 public:
  static constexpr absl::Duration kReadAgainAfter = absl::Seconds(10);

  // `path` "" stands for a token that never changes.
  TokenSource(std::string path, std::string token);

  // "" when none exists at all. NOT_FOUND · PERMISSION_DENIED · INVALID_ARGUMENT from the file,
  // when no token has ever been read.
  absl::StatusOr<std::string> Token(const Clock& clock);

  // The server refused `token`: whether there is another one to try, having read the file again.
  bool Refresh(const Clock& clock, const std::string& refused_token);

 private:
  absl::Status ReadLocked(const Clock& clock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  Mutex mutex_;
  std::string token_ ABSL_GUARDED_BY(mutex_);
  absl::Time read_at_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace csidelta::k8s
