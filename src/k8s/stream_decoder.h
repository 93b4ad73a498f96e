#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"
#include "k8s/api_client.h"

namespace csidelta::k8s {

// Longest object of a list, and longest list without its objects.
inline constexpr std::size_t kListItemBytesMax = std::size_t{8} << 20;
inline constexpr std::size_t kListFrameBytesMax = std::size_t{1} << 20;

// Decodes the answer to a LIST, split anywhere, into its objects, and holds one at a time:
// {"items": [{...}, ...], "metadata": {...}}, in any order. Not thread-safe. Borrows the filter.
class ListDecoder {
 public:
  using Sink = absl::FunctionRef<void(Json object)>;

  // An object whose metadata.name `is_wanted` denies is passed over without being parsed; without a
  // filter none is. It is asked once per object, in their order.
  explicit ListDecoder(std::optional<NameFilter> is_wanted) : is_wanted_(is_wanted) {}

  // Hands every object that is complete now to `sink`. UNAVAILABLE for what is no JSON, because
  // another answer may do better; INTERNAL above a limit. After an error it is of no more use.
  absl::Status Feed(absl::string_view bytes, Sink sink);

  // The list without its objects. UNAVAILABLE when its end has not come.
  absl::StatusOr<Json> Finish() const;

 private:
  // Depths of what counts: the list's members, the array, an object's members, its metadata's.
  static constexpr int kInList = 1;
  static constexpr int kInItems = 2;
  static constexpr int kInItem = 3;
  static constexpr int kInMetadata = 4;

  bool IsInItem() const { return is_in_items_ && depth_ >= kInItem; }
  void TakeMark(char mark);
  void EndString();
  absl::Status EndItem(Sink sink);

  const std::optional<NameFilter> is_wanted_;
  int depth_ = 0;  // of braces and brackets
  bool is_in_items_ = false;
  bool is_in_string_ = false;
  bool is_escaped_ = false;
  bool is_value_ = false;  // what comes next follows a colon
  std::string string_;     // the last one, or its beginning, where it may be a key or a name
  std::string list_key_;
  std::string item_key_;
  std::string metadata_key_;
  std::string name_;     // of the object
  bool is_odd_ = false;  // Something is spelled with an escape: only a parser knows the name.
  std::string item_;     // the text of an object whose end has not come yet
  std::string frame_;    // all but the objects
};

// Longest event that a watch may send. The API server stores at most 1.5 MiB per object.
inline constexpr std::size_t kWatchEventBytesMax = std::size_t{8} << 20;

// Turns the bytes of a watch's answer, cut anywhere, into events: one JSON object per line. Pure.
// Not thread-safe.
class WatchDecoder {
 public:
  // Hands every event that is complete now to `sink`. Returns false when `sink` did: no more events
  // are wanted. An ERROR event is returned as the error that it carries (OUT_OF_RANGE: list again).
  // Other bytes than events are UNAVAILABLE, because another watch may work; an event above the
  // limit is INTERNAL. After an error the decoder is of no more use.
  absl::StatusOr<bool> Feed(absl::string_view bytes, WatchSink sink);

 private:
  std::string line_;  // The start of an event whose end has not come yet.
};

// A JSON object that the API server sent, `what` it is for messages. UNAVAILABLE for anything else:
// another answer may do better. Pure.
absl::StatusOr<Json> ParseAnswer(absl::string_view text, absl::string_view what);

// The error for a refusal: an HTTP status and its body, which should be a Kubernetes Status object.
// A denial of an admission webhook with a 5xx is FAILED_PRECONDITION. REQUIRES http_status is no
// success. Pure.
absl::Status StatusFromAnswer(int http_status, absl::string_view body);
absl::Status StatusFromObject(int http_status, const Json& status);

}  // namespace csidelta::k8s
