#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace csidelta::diffsnap {

// What a GET asks for: /{namespace}/{name}?startOffset=..&maxEntries=..
struct PageQuery {
  std::string namespace_name;
  std::string name;
  std::string start_offset;  // "": from the beginning, or where the object says
  int64_t entries_max = 0;   // from 1 to kPageEntriesMax

  friend bool operator==(const PageQuery&, const PageQuery&) = default;
};

// The query in a request's target. nextOffset is another name of startOffset. More entries than the
// limit are taken for the limit. NOT_FOUND when the path cannot be that of an object;
// INVALID_ARGUMENT, naming it, when a parameter is unknown, malformed, or said twice.
absl::StatusOr<PageQuery> ParsePageQuery(absl::string_view target);

}  // namespace csidelta::diffsnap
