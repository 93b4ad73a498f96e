#include "objects/device_copy.h"

#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/json.h"

namespace csidelta::objects {
namespace {

std::optional<Json> LastDocument(absl::string_view text, absl::string_view type) {
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n', absl::SkipWhitespace());
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    absl::StatusOr<Json> document = ParseJsonObject(*line);
    if (document.ok() && GetString(*document, {"message_type"}) == type) {
      return *std::move(document);
    }
  }
  return std::nullopt;
}

VolumeCopyResult ResultOf(const Json& document) {
  return {.logical_bytes = GetInt(document, {"logical_bytes"}),
          .compared_bytes = GetInt(document, {"compared_bytes"}),
          .written_bytes = GetInt(document, {"written_bytes"}),
          .zero_bytes = GetInt(document, {"zero_bytes"}),
          .kept_bytes = GetInt(document, {"kept_bytes"}),
          .used_list = GetBool(document, {"used_list"}),
          .audit_mismatch = GetBool(document, {"audit_mismatch"}),
          .list_refused = GetString(document, {"list_refused"})};
}

}  // namespace

std::optional<VolumeCopyProgress> LastVolumeCopyProgress(absl::string_view text) {
  const std::optional<Json> document = LastDocument(text, "status");
  if (!document.has_value()) {
    return std::nullopt;
  }
  return VolumeCopyProgress{.stage = GetString(*document, {"stage"}),
                            .done_bytes = GetInt(*document, {"bytes_done"}),
                            .total_bytes = GetInt(*document, {"total_bytes"})};
}

std::optional<VolumeCopyResult> LastVolumeCopyResult(absl::string_view text) {
  const std::optional<Json> document = LastDocument(text, "result");
  return document.has_value() ? std::optional(ResultOf(*document)) : std::nullopt;
}

std::optional<VolumeCopyError> LastVolumeCopyError(absl::string_view text) {
  const std::optional<Json> document = LastDocument(text, "exit_error");
  if (!document.has_value()) {
    return std::nullopt;
  }
  return VolumeCopyError{.exit_code = GetInt(*document, {"code"}),
                         .message = GetString(*document, {"message"})};
}

VolumeCopyResult ParseVolumeCopyResult(absl::string_view text) {
  const absl::StatusOr<Json> document = ParseJsonObject(text);
  return document.ok() ? ResultOf(*document) : VolumeCopyResult{};
}

}  // namespace csidelta::objects
