#include "storage/object_rules.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace csidelta::storage {
namespace {

constexpr StatusMark kTooLarge("csi-delta/object-too-large");
constexpr StatusMark kFull("csi-delta/store-full");
constexpr StatusMark kRetained("csi-delta/retained");
constexpr StatusMark kArchived("csi-delta/archived");
constexpr char kPause[] = "csi-delta/requested-pause";  // its payload: seconds
constexpr std::size_t kSha256HexBytes = 64;

bool IsKeyByte(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
}

bool IsLowerHex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

// Keys in messages are shortened and escaped: they may come from a stranger.
std::string Quote(absl::string_view key) {
  constexpr std::size_t kQuotedBytesMax = 200;
  return absl::StrCat("\"", absl::CHexEscape(key.substr(0, kQuotedBytesMax)), "\"");
}

}  // namespace

bool IsKeySegment(absl::string_view text) {
  return !text.empty() && text != "." && text != ".." &&
         text.size() <= static_cast<std::size_t>(kKeySegmentBytesMax) &&
         std::all_of(text.begin(), text.end(), IsKeyByte) &&
         !absl::StrContains(text, kUnfinishedMark);
}

absl::Status CheckKey(absl::string_view key) {
  if (key.size() > static_cast<std::size_t>(kKeyBytesMax)) {
    return absl::InvalidArgumentError(absl::StrCat("object key of ", key.size(), " bytes"));
  }
  int segments = 0;
  for (const absl::string_view segment : absl::StrSplit(key, '/')) {
    if (!IsKeySegment(segment) || ++segments > kKeySegmentsMax) {
      return absl::InvalidArgumentError(absl::StrCat("not an object key: ", Quote(key)));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPrefix(absl::string_view prefix) {
  if (prefix.empty()) {
    return absl::OkStatus();
  }
  if (!absl::EndsWith(prefix, "/")) {
    return absl::InvalidArgumentError(absl::StrCat("not a prefix of keys: ", Quote(prefix)));
  }
  return CheckKey(prefix.substr(0, prefix.size() - 1));
}

absl::Status CheckGetRange(absl::string_view key, const ByteRange& range) {
  RETURN_IF_ERROR(CheckKey(key));
  if (range.offset_bytes < 0 || range.length_bytes <= 0 ||
      range.length_bytes > std::numeric_limits<int64_t>::max() - range.offset_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("not a range: ", range.length_bytes, " bytes at ", range.offset_bytes));
  }
  return absl::OkStatus();
}

absl::Status CheckPut(absl::string_view key, const PutOptions& options) {
  RETURN_IF_ERROR(CheckKey(key));
  const std::string& hash = options.sha256_hex;
  if (!hash.empty() &&
      (hash.size() != kSha256HexBytes || !std::all_of(hash.begin(), hash.end(), IsLowerHex))) {
    return absl::InvalidArgumentError(absl::StrCat("not a SHA-256: ", Quote(hash)));
  }
  return absl::OkStatus();
}

absl::Status NoSuchObject(absl::string_view key) {
  return absl::NotFoundError(absl::StrCat("no such object: ", key));
}

absl::Status ObjectExists(absl::string_view key) {
  return absl::AlreadyExistsError(absl::StrCat("object exists already: ", key));
}

absl::Status ObjectEndsBefore(absl::string_view key, const ByteRange& range, int64_t size_bytes) {
  return absl::OutOfRangeError(absl::StrCat(key, " has ", size_bytes, " bytes; asked for ",
                                            range.length_bytes, " at ", range.offset_bytes));
}

absl::Status ObjectTooLarge(absl::string_view key, int64_t size_bytes_max) {
  return kTooLarge.On(absl::ResourceExhaustedError(
      absl::StrCat(key, " is larger than the ", size_bytes_max, " bytes that it may have")));
}

bool IsObjectTooLarge(const absl::Status& status) { return kTooLarge.IsOn(status); }

absl::Status AsFull(absl::Status status) { return kFull.On(std::move(status)); }

bool IsFull(const absl::Status& status) { return kFull.IsOn(status); }

absl::Status AsRetained(absl::Status status) { return kRetained.On(std::move(status)); }

bool IsRetained(const absl::Status& status) { return kRetained.IsOn(status); }

absl::Status AsArchived(absl::Status status) { return kArchived.On(std::move(status)); }

bool IsArchived(const absl::Status& status) { return kArchived.IsOn(status); }

absl::Status AskingForPause(absl::Status status, absl::Duration pause) {
  if (!status.ok() && pause > absl::ZeroDuration()) {
    status.SetPayload(kPause, absl::Cord(absl::StrCat(absl::ToInt64Seconds(pause))));
  }
  return status;
}

absl::Duration RequestedPause(const absl::Status& status) {
  int64_t seconds = 0;
  const bool is_marked =
      absl::SimpleAtoi(std::string(status.GetPayload(kPause).value_or(absl::Cord())), &seconds);
  return is_marked ? absl::Seconds(seconds) : absl::ZeroDuration();
}

bool MayHeal(const absl::Status& status) {
  return IsRetryable(status) && !IsObjectTooLarge(status);
}

}  // namespace csidelta::storage
