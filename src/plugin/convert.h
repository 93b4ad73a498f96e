#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "Shared.pb.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "objects/object.h"
#include "velero/item_action.h"

namespace csidelta::plugin {

// Pure translations between the wire and velero/item_action.h. Every text that leaves is UTF-8.

// A Kubernetes object of the host: a JSON object with a kind. INVALID_ARGUMENT names `field`.
absl::StatusOr<objects::Object> DecodeItem(absl::string_view field, const std::string& bytes);

// A Backup or Restore: a JSON object; the host leaves its kind out at times. INVALID_ARGUMENT names
// `field`.
absl::StatusOr<objects::Object> DecodeOwner(absl::string_view field, const std::string& bytes);

// The bytes to answer with. They are those of the request if the action did not change the item
// (`changed` absent or equal), else `changed` as JSON. INTERNAL when `changed` is something that
// the host could not decode: not an object, or one without a kind.
absl::StatusOr<std::string> EncodeItem(const std::optional<objects::Object>& changed,
                                       const objects::Object& item, const std::string& item_bytes);

generated::ResourceSelector ToProto(const velero::ResourceSelector& selector);
generated::ResourceIdentifier ToProto(const velero::ResourceIdentifier& identifier);
velero::ResourceIdentifier FromProto(const generated::ResourceIdentifier& identifier);

// A time that is not known is sent as year 1, which is what the host reads as "unknown".
generated::OperationProgress ToProto(const velero::OperationProgress& progress);

// What to answer to a question for progress. The host takes an error of the call as the operation's
// final failure. So a transient error becomes "not completed", with the error as description; any
// other error is returned.
absl::StatusOr<generated::OperationProgress> EncodeProgress(
    const absl::StatusOr<velero::OperationProgress>& progress);

// Appends all of `identifiers` to the repeated field `to`.
template <typename Repeated>
void AppendTo(const std::vector<velero::ResourceIdentifier>& identifiers, Repeated* to) {
  for (const velero::ResourceIdentifier& identifier : identifiers) {
    *to->Add() = ToProto(identifier);
  }
}

inline constexpr std::size_t kErrorTextBytesMax = 2048;

// `text` with every byte that is not part of well-formed UTF-8 replaced by U+FFFD. The host drops a
// whole reply when one string field of it is not UTF-8.
std::string ToUtf8(absl::string_view text);

// ToUtf8, and cut at a character boundary to fit the trailers of a reply.
std::string ToErrorText(absl::string_view text);

}  // namespace csidelta::plugin
