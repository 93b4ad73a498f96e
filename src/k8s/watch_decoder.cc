#include "k8s/watch_decoder.h"

#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace csidelta::k8s {
namespace {

constexpr std::size_t kFailureBytesMax = 2048;

std::optional<WatchEvent::Kind> KindOf(const std::string& type) {
  if (type == "ADDED") {
    return WatchEvent::Kind::kAdded;
  }
  if (type == "MODIFIED") {
    return WatchEvent::Kind::kModified;
  }
  if (type == "DELETED") {
    return WatchEvent::Kind::kDeleted;
  }
  if (type == "BOOKMARK") {
    return WatchEvent::Kind::kBookmark;
  }
  return std::nullopt;
}

absl::StatusOr<WatchEvent> DecodeEvent(absl::string_view line) {
  absl::StatusOr<Json> event = ParseJsonObject(line);
  if (!event.ok()) {
    return absl::UnavailableError(absl::StrCat("watch event: ", event.status().message()));
  }
  const auto object = event->find("object");
  if (object == event->end() || !object->is_object()) {
    return absl::UnavailableError("watch event without an object");
  }
  const std::string type = GetString(*event, {"type"});
  if (type == "ERROR") {
    return StatusFromObject(static_cast<int>(GetInt(*object, {"code"}, 500)), *object);
  }
  const std::optional<WatchEvent::Kind> kind = KindOf(type);
  if (!kind.has_value()) {
    return absl::UnavailableError("watch event of an unknown type");
  }
  return WatchEvent{*kind, std::move(*object)};
}

absl::StatusCode CodeOf(int http_status, const std::string& reason) {
  switch (http_status) {
    case 400:
    case 405:
    case 406:
    case 413:
    case 415:
    case 422:
      return absl::StatusCode::kInvalidArgument;
    case 401:
      return absl::StatusCode::kUnauthenticated;
    case 403:
      return absl::StatusCode::kPermissionDenied;
    case 404:
      return absl::StatusCode::kNotFound;
    case 409:
      return reason == "AlreadyExists" ? absl::StatusCode::kAlreadyExists
                                       : absl::StatusCode::kAborted;
    case 410:
      return absl::StatusCode::kOutOfRange;
    case 429:
      return absl::StatusCode::kResourceExhausted;
    default:
      return http_status == 408 || http_status >= 500 ? absl::StatusCode::kUnavailable
                                                      : absl::StatusCode::kUnknown;
  }
}

}  // namespace

absl::StatusOr<bool> WatchDecoder::Feed(absl::string_view bytes, Sink sink) {
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const absl::string_view part = bytes.substr(0, end);
    if (line_.size() + part.size() > kWatchEventBytesMax) {
      return absl::InternalError(
          absl::StrCat("watch event larger than ", kWatchEventBytesMax, " bytes"));
    }
    absl::StrAppend(&line_, part);
    if (end == absl::string_view::npos) {
      break;
    }
    bytes.remove_prefix(end + 1);
    const std::string line = std::exchange(line_, {});
    if (absl::StripAsciiWhitespace(line).empty()) {
      continue;
    }
    ASSIGN_OR_RETURN(const WatchEvent event, DecodeEvent(line));
    if (!sink(event)) {
      return false;
    }
  }
  return true;
}

absl::Status StatusFromObject(int http_status, const Json& status) {
  std::string message = GetString(status, {"message"});
  if (message.size() > kFailureBytesMax) {
    message.resize(kFailureBytesMax);
  }
  if (message.empty()) {
    message = absl::StrCat("HTTP status ", http_status);
  }
  // A webhook chooses its HTTP status, 5xx as well; what it denies once, it denies again.
  const bool is_denied = http_status >= 500 && IsDeniedByWebhook(message);
  return absl::Status(is_denied ? absl::StatusCode::kFailedPrecondition
                                : CodeOf(http_status, GetString(status, {"reason"})),
                      message);
}

absl::Status StatusFromAnswer(int http_status, absl::string_view body) {
  const absl::StatusOr<Json> status = ParseJsonObject(body);
  return StatusFromObject(http_status, status.ok() ? *status : Json::object());
}

}  // namespace csidelta::k8s
