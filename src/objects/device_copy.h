#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

// What `csi-delta device-copy` and `csi-delta restore` say with --json: one JSON object a line,
// each of a message_type. Pure.
namespace csidelta::objects {

struct VolumeCopyProgress {  // "status"
  std::string stage;
  int64_t done_bytes = 0;
  int64_t total_bytes = 0;
};

// "result". As `csi-delta device-copy` counts: incremental/block_copier.h.
struct VolumeCopyResult {
  int64_t logical_bytes = 0;
  int64_t compared_bytes = 0;
  int64_t written_bytes = 0;
  int64_t zero_bytes = 0;
  int64_t kept_bytes = 0;
  bool used_list = false;
  bool audit_mismatch = false;
  bool may_be_older = false;      // of a repository: not the latest snapshot, perhaps
  std::string list_refused = {};  // why the driver's list was not used; ""
};

struct VolumeCopyError {  // "exit_error"
  int64_t exit_code = 0;
  std::string message;
};

// The last of its type among the lines of `text`, with 0 for what it leaves out; nothing where
// none exists.
std::optional<VolumeCopyProgress> LastVolumeCopyProgress(absl::string_view text);
std::optional<VolumeCopyResult> LastVolumeCopyResult(absl::string_view text);
std::optional<VolumeCopyError> LastVolumeCopyError(absl::string_view text);

// The numbers alone, without a message_type, as kRestoredBytesAnnotation has them: a JSON object.
std::string FormatVolumeCopyResult(const VolumeCopyResult& result);
// The same of whichever message_type; all 0 for what is no JSON object.
VolumeCopyResult ParseVolumeCopyResult(absl::string_view text);

}  // namespace csidelta::objects
