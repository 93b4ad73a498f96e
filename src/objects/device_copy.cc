#include "objects/device_copy.h"

#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/json_fields.h"

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

constexpr auto kCopyResultFields = [](auto& fields, auto& result) {
  fields("logical_bytes", result.logical_bytes);
  fields("compared_bytes", result.compared_bytes);
  fields("written_bytes", result.written_bytes);
  fields("zero_bytes", result.zero_bytes);
  fields("kept_bytes", result.kept_bytes);
  fields.IfSet("used_list", result.used_list);
  fields.IfSet("audit_mismatch", result.audit_mismatch);
  fields.IfSet("may_be_older", result.may_be_older);
  fields.IfSet("list_refused", result.list_refused);
};

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
  return document.has_value()
             ? std::optional(ReadFields<VolumeCopyResult>(kCopyResultFields, &*document))
             : std::nullopt;
}

std::optional<VolumeCopyError> LastVolumeCopyError(absl::string_view text) {
  const std::optional<Json> document = LastDocument(text, "exit_error");
  if (!document.has_value()) {
    return std::nullopt;
  }
  return VolumeCopyError{.exit_code = GetInt(*document, {"code"}),
                         .message = GetString(*document, {"message"})};
}

std::string FormatVolumeCopyResult(const VolumeCopyResult& result) {
  return DumpJson(WriteFields(kCopyResultFields, result));
}

VolumeCopyResult ParseVolumeCopyResult(absl::string_view text) {
  const absl::StatusOr<Json> document = ParseJsonObject(text);
  return ReadFields<VolumeCopyResult>(kCopyResultFields, document.ok() ? &*document : nullptr);
}

}  // namespace csidelta::objects
