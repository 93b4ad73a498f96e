#include "k8s/stream_decoder.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/enum_names.h"
#include "base/status_macros.h"

namespace csidelta::k8s {
namespace {

constexpr std::size_t kFailureBytesMax = 2048;

constexpr EnumNames<WatchEvent::Kind, 4> kEventKinds = {{
    {WatchEvent::Kind::kAdded, "ADDED"},
    {WatchEvent::Kind::kModified, "MODIFIED"},
    {WatchEvent::Kind::kDeleted, "DELETED"},
    {WatchEvent::Kind::kBookmark, "BOOKMARK"},
}};

absl::StatusOr<WatchEvent> DecodeEvent(absl::string_view line) {
  ASSIGN_OR_RETURN(Json event, ParseAnswer(line, "watch event"));
  const auto object = event.find("object");
  if (object == event.end() || !object->is_object()) {
    return absl::UnavailableError("watch event without an object");
  }
  const std::string type = GetString(event, {"type"});
  if (type == "ERROR") {
    return StatusFromObject(static_cast<int>(GetInt(*object, {"code"}, 500)), *object);
  }
  const std::optional<WatchEvent::Kind> kind = EnumValue(kEventKinds, type);
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

// A string that may be a key or a name; others are not kept.
void ListDecoder::EndString() {
  is_in_string_ = false;
  if (IsInItem() && depth_ == kInMetadata && is_value_ && item_key_ == "metadata" &&
      metadata_key_ == "name") {
    name_ = string_;
    is_odd_ |= absl::StrContains(string_, '\\');
  }
}

// A brace, a bracket, a colon or a comma outside of strings.
void ListDecoder::TakeMark(char mark) {
  switch (mark) {
    case '{':
    case '[':
      if (depth_ == kInList && mark == '[' && is_value_ && list_key_ == "items") {
        is_in_items_ = true;
      }
      ++depth_;
      is_value_ = false;
      return;
    case '}':
    case ']':
      --depth_;
      is_in_items_ = is_in_items_ && depth_ >= kInItems;
      is_value_ = false;
      return;
    case ':':
      if (!is_in_items_ && depth_ == kInList) {
        list_key_ = string_;
      } else if (is_in_items_ && depth_ == kInItem) {
        item_key_ = string_;
        is_odd_ |= absl::StrContains(string_, '\\');
      } else if (is_in_items_ && depth_ == kInMetadata) {
        metadata_key_ = string_;
        is_odd_ |= absl::StrContains(string_, '\\');
      }
      is_value_ = true;
      return;
    default:
      is_value_ = false;
  }
}

absl::Status ListDecoder::EndItem(Sink sink) {
  const std::string text = std::exchange(item_, {});
  const std::string name = std::exchange(name_, {});
  const bool is_odd = std::exchange(is_odd_, false);
  if (!is_odd && is_wanted_.has_value() && !(*is_wanted_)(name)) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(Json object, ParseAnswer(text, "an object of the list"));
  sink(std::move(object));
  return absl::OkStatus();
}

absl::Status ListDecoder::Feed(absl::string_view bytes, Sink sink) {
  std::size_t item_begins = 0;  // Where the part of an object that is not in item_ begins.
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char c = bytes[i];
    const bool was_in_item = IsInItem();
    if (is_in_string_) {
      if (is_escaped_) {
        is_escaped_ = false;
      } else if (c == '\\') {
        is_escaped_ = true;
      } else if (c == '"') {
        EndString();
      }
      if (is_in_string_ && depth_ <= kInMetadata) {
        string_.push_back(c);
      }
    } else if (c == '"') {
      is_in_string_ = true;
      string_.clear();
    } else if (c == '{' || c == '}' || c == '[' || c == ']' || c == ':' || c == ',') {
      TakeMark(c);
    }
    if (IsInItem() && !was_in_item) {
      item_begins = i;
    } else if (was_in_item && !IsInItem()) {
      absl::StrAppend(&item_, bytes.substr(item_begins, i + 1 - item_begins));
      if (absl::Status ended = EndItem(sink); !ended.ok()) {
        return ended;
      }
    } else if (!was_in_item && is_in_items_ && c != '[') {
      if (c != ',' && !absl::ascii_isspace(static_cast<unsigned char>(c))) {
        return absl::UnavailableError("a list of something else than objects");
      }
    } else if (!was_in_item) {
      frame_.push_back(c);
    }
    if (depth_ < 0) {
      return absl::UnavailableError("a list that ends before it begins");
    }
  }
  if (IsInItem()) {
    absl::StrAppend(&item_, bytes.substr(item_begins));
  }
  if (item_.size() > kListItemBytesMax || frame_.size() > kListFrameBytesMax) {
    return absl::InternalError(absl::StrCat("a list with an object of more than ",
                                            kListItemBytesMax, " bytes, or as much beside them"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Json> ListDecoder::Finish() const { return ParseAnswer(frame_, "the list"); }

absl::StatusOr<bool> WatchDecoder::Feed(absl::string_view bytes, WatchSink sink) {
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

absl::StatusOr<Json> ParseAnswer(absl::string_view text, absl::string_view what) {
  absl::StatusOr<Json> object = ParseJsonObject(text);
  return object.ok() ? std::move(object)
                     : absl::UnavailableError(absl::StrCat(what, ": ", object.status().message()));
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
