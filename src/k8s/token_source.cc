#include "k8s/token_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "k8s/config.h"

namespace csidelta::k8s {
namespace {

// What a header line may contain.
bool IsToken(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
}

}  // namespace

TokenSource::TokenSource(std::string path, std::string token)
    : path_(std::move(path)), token_(std::move(token)) {}

absl::Status TokenSource::ReadLocked(const Clock& clock) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(path_));
  absl::StripAsciiWhitespace(&text);
  if (!IsToken(text)) {
    return absl::InvalidArgumentError(absl::StrCat("token file ", path_, ": not a token"));
  }
  token_ = std::move(text);
  read_at_ = clock.Now();
  return absl::OkStatus();
}

absl::StatusOr<std::string> TokenSource::Token(const Clock& clock) {
  const MutexLock lock(mutex_);
  if (path_.empty()) {
    if (!token_.empty() && !IsToken(token_)) {
      return absl::InvalidArgumentError("the token holds characters that no token has");
    }
    return token_;
  }
  if (clock.Now() - read_at_ >= kReadAgainAfter) {
    const absl::Status status = ReadLocked(clock);
    if (!status.ok() && token_.empty()) {
      return status;
    }
  }
  return token_;
}

bool TokenSource::Refresh(const Clock& clock, const std::string& refused_token) {
  const MutexLock lock(mutex_);
  if (path_.empty()) {
    return false;
  }
  return token_ != refused_token || (ReadLocked(clock).ok() && token_ != refused_token);
}

}  // namespace csidelta::k8s
